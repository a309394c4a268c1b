"""What has to be installed for what, and that nothing is imported before it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from chatagent_test.inference import LogEntry, MockInferenceServer, RequestMatcher, ScriptedResponse
from inference.asking import CHAT, ask

OPTIONAL = ["anthropic", "h11", "httptools", "httpx", "httpx2", "openai", "respx", "starlette", "uvicorn"]


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_server_imports_none_of_its_needs() -> None:
    told = run(
        "import sys, chatagent_test, chatagent_test.inference as inference\n"
        "[getattr(inference, name) for name in inference.__all__]\n"
        f"print([name for name in {OPTIONAL} if name in sys.modules])"
    )

    assert told == "[]"


def test_a_running_server_imports_no_sdk_and_no_client() -> None:
    told = run(
        "import sys\n"
        "from chatagent_test.inference import MockInferenceServer\n"
        "with MockInferenceServer(): pass\n"
        f"print([name for name in {OPTIONAL} if name in sys.modules])"
    )

    assert told == "['httptools']"


@pytest.mark.parametrize(
    ("missing", "call", "extra"),
    [
        ("httptools", "MockInferenceServer().__enter__()", "test"),
        ("httpx2", "MockInferenceServer(listen=False).transport()", "test"),
        ("httpx", "MockInferenceServer(listen=False).async_transport('httpx')", "test"),
        ("openai", "MockInferenceServer(listen=False).openai_client()", "openai"),
        ("anthropic", "MockInferenceServer(listen=False).async_anthropic_client()", "anthropic"),
    ],
)
def test_what_is_missing_is_named_by_the_call_that_needs_it(missing: str, call: str, extra: str) -> None:
    told = run(
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from chatagent_test.inference import MockInferenceServer\n"
        "server = MockInferenceServer(listen=False)\n"
        f"try: {call}\n"
        "except ImportError as error: print(error)"
    )

    assert told == f'the package `{missing}` is not installed: pip install "chatagent[{extra}]"'


def test_a_function_of_the_test_may_close_the_server_that_asks_it() -> None:
    server = MockInferenceServer().__enter__()

    async def close(entry: LogEntry) -> ScriptedResponse:
        server.close()
        return ScriptedResponse.json(200, {"closing": entry.path})

    server.expect_response("last words", RequestMatcher.any(CHAT), close)

    assert ask(server).json() == {"closing": CHAT.path}
    server.close()
    assert server.is_closed
