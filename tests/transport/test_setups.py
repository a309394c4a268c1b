"""The mock in the set-ups of users: fixtures whose setup and teardown run in different tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest_plugins = ["pytester"]

PROJECT = """
import anyio, pytest, pytest_asyncio
from chatagent_test import create_mock_agent_client, reply

{mark}

{fixture}
async def mock({argument}):
    async with create_mock_agent_client() as made:
        thread = made.client.thread("t-1")
        await thread.refresh()
        yield made

async def test_an_answer(mock):
    mock.responses.queue(reply.assistant("hello"))
    run = await mock.client.thread("t-1").send("hi")
    assert await run.text() == "hello"

async def test_a_response_by_hand(mock):
    async with mock.client.thread("t-1").watch() as updates:
        await anext(updates)
        async with mock.responses.stream() as response:
            await mock.client.thread("t-1").send("hi")
            await response.write_text("hello")
        assert (await anext(updates)).event.type == "message.added"

async def test_a_script_that_nobody_claims(mock):
    mock.responses.queue(reply.assistant("never"))
"""


BACKENDS = """
import pytest

@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param
"""


@pytest.mark.parametrize("plugin", ["anyio", "asyncio"])
def test_fixtures_of_each_plugin_work(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, plugin: str) -> None:
    is_anyio = plugin == "anyio"
    fixture, argument = ("@pytest.fixture", "anyio_backend") if is_anyio else ("@pytest_asyncio.fixture", "")
    mark = f"pytestmark = pytest.mark.{plugin}"
    pytester.makepyfile(PROJECT.format(mark=mark, fixture=fixture, argument=argument))
    pytester.makeconftest(BACKENDS)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    done = pytester.runpytest_subprocess(
        *("-p", "anyio.pytest_plugin", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider"),
        *("-W", "error", "-o", "asyncio_default_fixture_loop_scope=function"),
    )

    times = 2 if is_anyio else 1
    done.assert_outcomes(passed=3 * times, errors=times)
    done.stdout.fnmatch_lines(["*UnusedScriptsError: 1 unused or unexpected at the end of the test:*"])
