"""The loop: what tools may be, how they run, who approves them, and when it ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from chatagent.current import current_clock
from chatagent.errors import (
    InvalidToolApprovalSignatureError,
    InvalidToolInputError,
    MissingToolResultsError,
    NoSuchToolError,
)
from chatagent.generate import (
    ApprovalDecision,
    FullToolApprovalRequest,
    ToolCallOptions,
    has_tool_call,
    is_loop_finished,
    is_step_count,
    stream_text,
    tool,
)
from chatagent.model import (
    AssistantMessage,
    ModelToolCall,
    SystemMessage,
    ToolApprovalResponsePart,
    ToolChoice,
    ToolMessage,
    UserMessage,
    prompt_to_wire,
)
from chatagent_test.language_model import MockLanguageModel
from chatagent_test.scripting import script
from support.virtual_run import play

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from chatagent.generate import StepChanges

pytestmark = pytest.mark.anyio

DONE = script.text("Done.")


class Weather(BaseModel):
    """What a tool returns."""

    day: datetime
    degrees: int


def call(name: str, data: object, call_id: str = "c1") -> Any:
    return script.tool_call(name, data, tool_call_id=call_id).finish("tool-calls")


async def outputs(result: Any) -> list[object]:
    return [part.output for part in await result.tool_results]


@tool
def sync_tool(n: int) -> int:
    return n + 1


@tool
async def async_tool(n: int) -> Weather:
    return Weather(day=datetime(2025, 1, 1, tzinfo=UTC), degrees=n)


@tool
async def steps_tool(n: int) -> AsyncIterator[int]:
    for each in range(n):
        yield each


@tool
def sync_steps_tool(n: int) -> Iterator[int]:
    yield from range(n)


@tool
async def nothing_tool(n: int) -> None:
    assert n


@pytest.mark.parametrize(
    ("made", "output"),
    [
        (sync_tool, 4),
        (async_tool, {"day": "2025-01-01T00:00:00Z", "degrees": 3}),
        (steps_tool, 2),
        (sync_steps_tool, 2),
        (nothing_tool, None),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
async def test_a_tool_may_be_of_any_kind_and_its_output_is_json(made: Any, output: object) -> None:
    model = MockLanguageModel([call(made.name, {"n": 3}), DONE])

    result = stream_text(model=model, prompt="Hi", tools=[made], stop_when=is_step_count(5))

    assert await outputs(result) == [output]
    assert await result.text == "Done."


async def test_values_of_a_generator_are_preliminary_and_the_last_is_the_result() -> None:
    parts: list[Any] = []
    model = MockLanguageModel([call("steps_tool", {"n": 2}), DONE])

    result = stream_text(
        model=model, prompt="Hi", tools=[steps_tool], stop_when=is_step_count(5), on_chunk=parts.append
    )
    await result.consume_stream()

    seen = [(part.output, part.preliminary) for part in parts if part.type == "tool-result"]
    assert seen == [(0, True), (1, True), (1, None)]
    assert [part.type for part in (await result.steps)[0].content] == ["tool-call", "tool-result"]


async def test_an_output_that_is_no_json_is_a_tool_error_and_the_loop_goes_on() -> None:
    @tool
    def opaque() -> object:
        return object()

    result = stream_text(
        model=MockLanguageModel([call("opaque", {}), DONE]), prompt="Hi", tools=[opaque], stop_when=is_step_count(5)
    )

    (error,) = await result.tool_errors
    assert "Unable to serialize unknown type" in str(error.error)
    assert await result.text == "Done."


async def test_parallel_tools_run_at_the_same_time_and_are_told_in_call_order() -> None:
    async def main() -> tuple[float, list[object], list[str]]:
        @tool
        async def wait(seconds: float) -> float:
            await current_clock().sleep(seconds)
            return seconds

        calls = (
            script.tool_call("wait", {"seconds": 3}, tool_call_id="a")
            .tool_call("wait", {"seconds": 1}, tool_call_id="b")
            .tool_call("wait", {"seconds": 1}, tool_call_id="c")
            .finish("tool-calls")
        )
        started = current_clock().now()
        result = stream_text(model=MockLanguageModel(calls), prompt="Hi", tools=[wait])
        order = [part.tool_call_id for part in await result.tool_results]
        told = (await result.response_messages)[1].content
        return current_clock().now() - started, order, [part.tool_call_id for part in told]  # type: ignore[union-attr]

    assert await play(main) == (3, ["b", "c", "a"], ["a", "b", "c"])


async def test_no_more_tools_run_at_once_than_allowed() -> None:
    async def main() -> tuple[float, list[str]]:
        running: list[str] = []
        most: list[str] = []

        @tool
        async def wait(options: ToolCallOptions) -> None:
            running.append(options.tool_call_id)
            most.append("|".join(running))
            await current_clock().sleep(1)
            running.remove(options.tool_call_id)

        calls = script
        for name in "abcd":
            calls = calls.tool_call("wait", {}, tool_call_id=name)
        started = current_clock().now()
        result = stream_text(
            model=MockLanguageModel(calls.finish("tool-calls")), prompt="Hi", tools=[wait], tool_call_concurrency=1
        )
        await result.consume_stream()
        return current_clock().now() - started, most

    assert await play(main) == (4, ["a", "b", "c", "d"])


async def test_a_tool_is_told_what_the_model_was_asked_and_its_own_context() -> None:
    told: list[ToolCallOptions] = []

    @tool
    def look(options: ToolCallOptions) -> None:
        told.append(options)

    result = stream_text(
        model=MockLanguageModel(call("look", {})),
        instructions="Be brief.",
        messages=[{"role": "user", "content": "Hi"}],
        tools={"look": look},
        tools_context={"look": {"user": 7}},
    )
    await result.consume_stream()

    (options,) = told
    assert prompt_to_wire(options.messages) == [{"role": "user", "content": "Hi"}]
    assert (options.tool_call_id, options.context, options.abort_signal.aborted) == ("c1", {"user": 7}, False)


async def test_a_call_that_does_not_fit_is_told_to_the_model_and_never_runs() -> None:
    calls = (
        script.tool_call("sync_tool", {"n": "many"}, tool_call_id="a")
        .tool_call("gone", {}, tool_call_id="b")
        .finish("tool-calls")
    )
    model = MockLanguageModel([calls, DONE])

    result = stream_text(model=model, prompt="Hi", tools=[sync_tool], stop_when=is_step_count(5))

    first, second = (await result.steps)[0].tool_calls
    assert (type(first.error), type(second.error)) == (InvalidToolInputError, NoSuchToolError)
    assert (first.invalid, first.dynamic, first.input) == (True, True, {"n": "many"})
    told = prompt_to_wire(model.do_stream_calls[1].prompt)[-1]["content"]
    assert [part["output"]["type"] for part in told] == ["error-text", "error-text"]  # type: ignore[attr-defined]
    assert "`input.n`: Input should be a valid integer" in str(told)
    assert "Available tools: sync_tool." in str(told)


async def test_input_with_a_prototype_key_is_refused() -> None:
    raw = ModelToolCall(tool_call_id="a", tool_name="anything", input='{"a": {"__proto__": 1}}')
    anything = tool(name="anything", input_schema={"type": "object"}, execute=lambda value: value)
    model = MockLanguageModel(
        do_stream={"stream": [raw, {"type": "finish", "finishReason": "tool-calls", "usage": {}}]}
    )

    result = stream_text(model=model, prompt="Hi", tools=[anything])

    (made,) = await result.tool_calls
    assert "`__proto__`" in str(made.error)


async def test_input_is_refined_before_the_tool_runs() -> None:
    async def cap(data: Any) -> object:
        return {"n": min(data["n"], 10)}

    result = stream_text(
        model=MockLanguageModel(call("sync_tool", {"n": 99})),
        prompt="Hi",
        tools=[sync_tool],
        refine_tool_input={"sync_tool": cap},
    )

    assert await outputs(result) == [11]


@pytest.mark.parametrize(
    ("stop_when", "calls"),
    [
        (is_step_count(2), 2),
        (has_tool_call("other", "sync_tool"), 1),
        ([is_step_count(3), has_tool_call("other")], 3),
        (is_loop_finished(), 4),
        ([], 4),
    ],
)
async def test_the_loop_ends_when_a_condition_holds_or_nothing_is_left(stop_when: Any, calls: int) -> None:
    model = MockLanguageModel([call("sync_tool", {"n": n}) for n in range(3)] + [DONE])

    result = stream_text(model=model, prompt="Hi", tools=[sync_tool], stop_when=stop_when)
    await result.consume_stream()

    assert len(model.do_stream_calls) == calls


async def test_prepare_step_sees_the_steps_and_changes_the_next() -> None:
    seen: list[tuple[int, int]] = []

    async def prepare(event: Any) -> StepChanges | None:
        seen.append((event.step_number, len(event.steps)))
        if event.step_number == 0:
            return {"provider_options": {"p": {"b": 2}}, "instructions": "Second.", "temperature": 0.5}
        return None

    model = MockLanguageModel([call("sync_tool", {"n": 1}), DONE])
    result = stream_text(
        model=model,
        prompt="Hi",
        instructions="First.",
        tools=[sync_tool],
        stop_when=is_step_count(5),
        provider_options={"p": {"a": 1}},
        prepare_step=prepare,
    )
    await result.consume_stream()

    first, second = model.do_stream_calls
    assert seen == [(0, 0), (1, 1)]
    assert (first.provider_options, second.provider_options) == ({"p": {"a": 1, "b": 2}}, {"p": {"a": 1}})
    assert (first.temperature, second.temperature) == (0.5, None)
    assert first.prompt[0] == second.prompt[0] == SystemMessage("Second.")


async def test_only_active_tools_are_shown_in_the_order_asked_for() -> None:
    tools = [tool(name=name, input_schema={"type": "object"}) for name in ("d", "c", "b", "a")]
    model = MockLanguageModel(DONE)

    result = stream_text(model=model, prompt="Hi", tools=tools, active_tools=["a", "b", "d"], tool_order=["d"])
    await result.consume_stream()

    assert [each.name for each in model.do_stream_calls[0].tools or ()] == ["d", "a", "b"]


async def test_a_named_tool_that_is_not_called_is_an_error_behind_the_output() -> None:
    errors: list[object] = []

    result = stream_text(
        model=MockLanguageModel(DONE),
        prompt="Hi",
        tools=[sync_tool],
        tool_choice=ToolChoice("tool", "sync_tool"),
        on_error=errors.append,
    )

    assert (await result.finish_reason, await result.text, len(errors)) == ("error", "Done.", 1)


# Approval -----------------------------------------------------------------------------------------------------------


@tool(needs_approval=lambda value, _options: value.n > 10)
def careful(n: int) -> int:
    return n


async def test_a_tool_may_ask_for_approval_of_some_calls_only() -> None:
    calls = (
        script.tool_call("careful", {"n": 1}, tool_call_id="a")
        .tool_call("careful", {"n": 99}, tool_call_id="b")
        .finish("tool-calls")
    )
    model = MockLanguageModel([calls, DONE])

    result = stream_text(model=model, prompt="Hi", tools=[careful], stop_when=is_step_count(5))

    requests = [part for part in await result.content if isinstance(part, FullToolApprovalRequest)]
    assert [part.tool_call.tool_call_id for part in requests] == ["b"]
    assert await outputs(result) == [1]
    assert len(model.do_stream_calls) == 1


async def test_a_policy_approves_denies_and_leaves_the_rest_to_the_tools() -> None:
    policy: Any = {
        "sync_tool": lambda value, _options: "approved" if value.n == 1 else ApprovalDecision("denied", "too many"),
        "careful": lambda _value, _options: None,
    }
    calls = (
        script.tool_call("sync_tool", {"n": 1}, tool_call_id="a")
        .tool_call("sync_tool", {"n": 2}, tool_call_id="b")
        .tool_call("careful", {"n": 3}, tool_call_id="c")
        .finish("tool-calls")
    )
    model = MockLanguageModel([calls, DONE])

    result = stream_text(
        model=model, prompt="Hi", tools=[sync_tool, careful], tool_approval=policy, stop_when=is_step_count(5)
    )

    assert {part.tool_call_id: part.output for part in await result.tool_results} == {"a": 2, "c": 3}
    told = (await result.response_messages)[1].content
    assert "too many" in str(told)
    assert len(model.do_stream_calls) == 2


async def test_a_policy_that_raises_keeps_the_tool_from_running() -> None:
    def policy(_event: Any) -> Any:
        raise PermissionError("who are you?")

    result = stream_text(
        model=MockLanguageModel([call("sync_tool", {"n": 1}), DONE]),
        prompt="Hi",
        tools=[sync_tool],
        tool_approval=policy,
        stop_when=is_step_count(5),
    )

    (error,) = await result.tool_errors
    assert (type(error.error), await result.text) == (PermissionError, "Done.")


async def asked_for_approval(secret: str | None) -> list[Any]:
    """Return the messages of a conversation in which a call waits for approval."""
    model = MockLanguageModel(call("careful", {"n": 99}))
    result = stream_text(
        model=model, prompt="Hi", tools=[careful], tool_approval_secret=secret, generate_id=lambda: "ap"
    )
    return [UserMessage("Hi"), *(await result.response_messages)]


async def test_an_approved_call_runs_before_the_model_is_asked_again() -> None:
    history = [*(await asked_for_approval("s")), ToolMessage([ToolApprovalResponsePart("ap", approved=True)])]
    model = MockLanguageModel(DONE)
    chunks: list[Any] = []

    result = stream_text(model=model, messages=history, tools=[careful], tool_approval_secret="s")
    await result.to_ui_message_stream().pump(chunks.append)

    assert [chunk.type for chunk in chunks][:3] == ["start", "tool-output-available", "start-step"]
    assert prompt_to_wire(model.do_stream_calls[0].prompt)[-1]["content"] == [
        {"type": "tool-result", "toolCallId": "c1", "toolName": "careful", "output": {"type": "json", "value": 99}}
    ]


async def test_an_approved_call_that_was_changed_on_the_way_does_not_run() -> None:
    user, said = await asked_for_approval("s")
    forged = prompt_to_wire([said])
    forged[0]["content"][0]["input"] = {"n": 1000}  # type: ignore[index] - wire data
    history = [user, forged[0], ToolMessage([ToolApprovalResponsePart("ap", approved=True)])]
    model = MockLanguageModel(DONE)
    errors: list[object] = []

    result = stream_text(
        model=model, messages=history, tools=[careful], tool_approval_secret="s", on_error=errors.append
    )
    await result.consume_stream()

    assert [type(error) for error in errors] == [InvalidToolApprovalSignatureError]
    assert model.do_stream_calls == []


async def test_an_approved_call_of_a_tool_that_is_gone_has_no_result() -> None:
    history = [*(await asked_for_approval(None)), ToolMessage([ToolApprovalResponsePart("ap", approved=True)])]
    model = MockLanguageModel(DONE)
    errors: list[object] = []

    result = stream_text(model=model, messages=history, tools=[sync_tool], on_error=errors.append)
    await result.consume_stream()

    assert [type(error) for error in errors] == [MissingToolResultsError]
    assert model.do_stream_calls == []


async def test_a_policy_may_still_deny_what_the_user_approved() -> None:
    history = [*(await asked_for_approval(None)), ToolMessage([ToolApprovalResponsePart("ap", approved=True)])]
    model = MockLanguageModel(DONE)

    result = stream_text(
        model=model,
        messages=history,
        tools=[careful],
        tool_approval={"careful": {"type": "denied", "reason": "not any more"}},
    )
    await result.consume_stream()

    assert "execution-denied" in str(model.do_stream_calls[0].prompt[-1])
    assert isinstance(model.do_stream_calls[0].prompt[-2], AssistantMessage)
