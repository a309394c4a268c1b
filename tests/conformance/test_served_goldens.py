"""Serves every golden of `wire` from a mock inference server, and has the real SDKs read it, blocking and async.

Each call must give what was recorded: how many items, of which types, which texts and reasons, which final object,
which error. Classes of errors are compared by their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from chatagent_test.inference import InferenceEndpoint, MockInferenceServer, RequestMatcher
from chatagent_test.inference.recording import case_response
from conformance.goldens import GOLDENS, Golden, goldens_of
from conformance.served.observing import Heard, acall, call, observation

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = goldens_of("wire")
CASES = FILES or (
    [pytest.param(None, marks=pytest.mark.skip(reason=f"no wire in {GOLDENS}"))]
    if not (GOLDENS / "wire").is_dir()
    else [pytest.param(Golden("wire", GOLDENS / "wire" / "*.json"))]
)

CONTENT = ("finish_reason", "reasoning", "refusal", "stop_reason", "thinking", "tool_calls", "tool_json", "usage")
EMPTY: tuple[object, ...] = (None, "", [], {})


def blocking(server: MockInferenceServer, vendor: str, name: str, request: dict[str, Any]) -> Heard:
    return call(server.openai_client() if vendor == "openai" else server.anthropic_client(), name, request)


def waiting(server: MockInferenceServer, vendor: str, name: str, request: dict[str, Any]) -> Heard:
    async def main() -> Heard:
        make = server.async_openai_client if vendor == "openai" else server.async_anthropic_client
        async with make() as client:
            return await acall(client, name, request)

    return anyio.run(main)


def register(server: MockInferenceServer, golden: dict[str, Any]) -> None:
    response = case_response(golden)
    if golden["endpoint"] in [endpoint.path for endpoint in InferenceEndpoint]:
        server.expect_response(golden["name"], RequestMatcher.any(InferenceEndpoint(golden["endpoint"])), response)
    else:
        server.enqueue_response(golden["endpoint"], response)


@pytest.mark.parametrize("ask", [blocking, waiting])
@pytest.mark.parametrize("listen", [True, False], ids=["socket", "in process"])
@pytest.mark.parametrize("golden", CASES, ids=lambda golden: golden.key if golden else "wire")
def test_the_sdks_read_what_was_recorded(golden: Golden, ask: Callable[..., Heard], *, listen: bool) -> None:
    """FMT-018"""
    assert "*" not in golden.path.name, f"{golden.path.parent} holds no golden"
    case = golden.load()

    assert case["sdk_observed"]
    for sdk_call, recorded in case["sdk_observed"].items():
        vendor, _, name = sdk_call.partition(":")
        name = name.partition("(")[0]
        with MockInferenceServer(listen=listen) as server:
            register(server, case)
            heard = ask(server, vendor, name, case["request"])
            if case["method"] == "POST":
                server.assert_all_satisfied()

        assert_as_recorded(observation(heard, name), recorded, sdk_call)


def assert_as_recorded(seen: dict[str, Any], recorded: dict[str, Any], sdk_call: str) -> None:
    expected = dict(recorded)
    for key in ("error_type", "cause"):
        if key in expected:
            expected[key] = expected[key].rpartition(".")[2]
    if expected.get("returned", {}).get("python_type") == "str":
        seen["returned"]["value"] = seen["returned"]["value"][: len(expected["returned"]["value"])]
    for key in expected.keys() | seen.keys():
        if key not in expected and (key == "cause" or (key in CONTENT and expected["outcome"] == "error")):
            continue  # a cause is recorded for failures of the connection alone, and of what came before them the text
        if expected.get(key) in EMPTY and seen.get(key) in EMPTY:
            continue
        assert seen.get(key) == expected.get(key), f"{sdk_call}: {key}"
