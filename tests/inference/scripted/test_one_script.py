"""One script, both levels: the model double, and a provider's model that asks a mock server, say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from chatagent import is_step_count, stream_text, tool
from chatagent.errors import APICallError
from chatagent.model import CallOptions, LanguageModel, ModelError, ModelTextDelta, UserMessage
from chatagent.providers.anthropic import AnthropicModel
from chatagent.providers.openai import OpenAIChatModel, OpenAIResponsesModel
from chatagent_test import MockLanguageModel, Script, script
from chatagent_test.inference import InferenceEndpoint, MockInferenceServer, RequestMatcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:Async generator '(openai|anthropic|httpx2):ResourceWarning"),
]

MESSAGES = InferenceEndpoint.MESSAGES
ENDPOINTS = pytest.mark.parametrize("endpoint", InferenceEndpoint, ids=lambda endpoint: endpoint.name.lower())


@pytest.fixture
def in_process() -> Iterator[MockInferenceServer]:
    with MockInferenceServer(listen=False, strict=True) as server:
        yield server


def model_at(server: MockInferenceServer, endpoint: InferenceEndpoint, said: Sequence[Script]) -> LanguageModel:
    server.expect_response("said", RequestMatcher.any(endpoint), list(said))
    if endpoint is MESSAGES:
        return AnthropicModel("m", client=server.async_anthropic_client())
    if endpoint is InferenceEndpoint.RESPONSES:
        return OpenAIResponsesModel("m", client=server.async_openai_client())
    return OpenAIChatModel("m", client=server.async_openai_client())


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def outcome(model: LanguageModel) -> dict[str, Any]:
    """Return what comes of a conversation in which the model may call a tool."""
    result = stream_text(
        model=model,
        prompt="What is 1 + 2?",
        tools=[add],
        stop_when=is_step_count(3),
        max_output_tokens=99,
        max_retries=1,
    )
    steps = await result.steps
    return {
        "texts": [step.text for step in steps],
        "thoughts": [step.reasoning_text for step in steps],
        "calls": [[(call.tool_call_id, call.tool_name, call.input) for call in step.tool_calls] for step in steps],
        "results": [[each.output for each in step.tool_results] for step in steps],
        "reasons": [step.finish_reason for step in steps],
        "tokens": [(step.usage.input_tokens, step.usage.output_tokens) for step in steps],
    }


@ENDPOINTS
async def test_a_conversation_with_a_tool_comes_to_the_same(
    endpoint: InferenceEndpoint, in_process: MockInferenceServer
) -> None:
    said = [
        script.reasoning("Let me add.").text("I add.").tool_call("add", {"a": 1, "b": 2}),
        script.text("It is 3.", chunks=["It ", "is ", "3."]),
    ]

    here = await outcome(MockLanguageModel(said))
    there = await outcome(model_at(in_process, endpoint, said))

    assert here == there
    assert there["results"] == [[3], []]
    assert there["texts"] == ["I add.", "It is 3."]


@ENDPOINTS
async def test_a_limit_is_retried_at_both_levels(endpoint: InferenceEndpoint, in_process: MockInferenceServer) -> None:
    said = [script.error(429, retry_after=0), script.text("then")]

    here = await outcome(MockLanguageModel(said))
    there = await outcome(model_at(in_process, endpoint, said))

    assert here == there
    assert there["texts"] == ["then"]


@ENDPOINTS
async def test_a_hold_is_an_exact_point_at_both_levels(
    endpoint: InferenceEndpoint, in_process: MockInferenceServer
) -> None:
    said = script.text("before").hold("here").text("after")
    double = MockLanguageModel(said)

    here = await read_over_a_hold(double, double)
    there = await read_over_a_hold(model_at(in_process, endpoint, [said]), in_process)

    assert here == there == (["before"], ["before", "after"])


async def read_over_a_hold(model: LanguageModel, holder: Any) -> tuple[list[str], list[str]]:
    """Return the deltas that came up to the hold, and all of them."""
    seen: list[str] = []
    has_one = anyio.Event()

    async def read() -> None:
        stream: Any = (await model.do_stream(CallOptions(prompt=[UserMessage("hi")], max_output_tokens=9))).stream
        async for part in stream:
            if isinstance(part, ModelTextDelta):
                seen.append(part.delta)
                has_one.set()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await holder.reached("here")
            await has_one.wait()
            before = list(seen)
            holder.release("here")
    return before, seen


@ENDPOINTS
async def test_a_stream_that_breaks_fails_at_both_levels(
    endpoint: InferenceEndpoint, in_process: MockInferenceServer
) -> None:
    said = script.text("par").breaks(ConnectionError("gone"))
    options = CallOptions(prompt=[UserMessage("hi")], max_output_tokens=9)
    there: list[Any] = []

    stream: Any = (await model_at(in_process, endpoint, [said]).do_stream(options)).stream
    async for part in stream:
        there.append(part)
    here: Any = (await MockLanguageModel(said).do_stream(options)).stream
    with pytest.raises(ConnectionError, match=r"^gone$"):
        _ = [part async for part in here]

    assert [part.delta for part in there if isinstance(part, ModelTextDelta)] == ["par"]
    assert isinstance(there[-1], ModelError)
    assert isinstance(there[-1].error, APICallError)
    assert there[-1].error.is_retryable
