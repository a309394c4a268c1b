"""What becomes of tool calls: invalid ones, those that the provider runs, and the order in which outcomes are told."""

from __future__ import annotations

from itertools import count
from typing import Any

import anyio.lowlevel
import pytest

from chatagent.current import current_clock
from chatagent.errors import ToolCallNotFoundForApprovalError, ToolChoiceViolationError
from chatagent.generate import (
    FullToolCall,
    FullToolError,
    is_step_count,
    provider_tool,
    stream_text,
    tool,
)
from chatagent.model import ToolApprovalResponsePart, ToolMessage, UserMessage, prompt_to_wire
from chatagent_test.language_model import MockLanguageModel
from chatagent_test.scripting import script
from support.virtual_run import play

pytestmark = pytest.mark.anyio

DONE = script.text("Done.")
OBJECT = {"type": "object"}
METADATA = {"p": {"x": 1}}


def raw_call(call_id: str, name: str, text: str = "{}", **rest: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": call_id, "toolName": name, "input": text, **rest}


def finish(reason: str = "tool-calls") -> dict[str, Any]:
    usage = {"inputTokens": {}, "outputTokens": {}}
    return {"type": "finish", "finishReason": {"unified": reason, "raw": reason}, "usage": usage}


def says(*parts: dict[str, Any], reason: str = "tool-calls") -> Any:
    return script.parts([*parts, finish(reason)])


@tool(title="Weather", metadata={"icon": "sun"})
def weather(city: str) -> str:
    return f"sunny in {city}"


@tool(needs_approval=True)
def careful(n: int) -> int:
    return n


SEARCH = provider_tool(id="acme.search", name="search", args={}, supports_deferred_results=True)


# Invalid calls ------------------------------------------------------------------------------------------------------


async def test_the_error_of_an_invalid_call_tells_of_the_tool_and_not_of_the_call() -> None:
    model = MockLanguageModel(says(raw_call("c1", "weather", "{}", providerMetadata=METADATA)))

    result = stream_text(model=model, prompt="Hi", tools=[weather])

    (error,) = [part for part in await result.content if isinstance(part, FullToolError)]
    assert (error.title, error.tool_metadata, error.provider_metadata) == ("Weather", {"icon": "sun"}, None)
    assistant, answer = prompt_to_wire(await result.response_messages)
    assert assistant["content"][0]["providerOptions"] == METADATA  # type: ignore[index] - wire data
    assert "providerOptions" not in answer["content"][0]


@pytest.mark.parametrize(
    ("text", "shown", "told"), [("  ", "  ", {}), ("[1]", [1], [1]), ("null", None, None), ("7", 7, {}), ("{", "{", {})]
)
async def test_the_input_of_an_invalid_call_is_shown_as_it_came_and_told_as_an_object(
    text: str, shown: object, told: object
) -> None:
    model = MockLanguageModel(says(raw_call("c1", "weather", text)))

    result = stream_text(model=model, prompt="Hi", tools=[weather])

    (call,) = [part for part in await result.content if isinstance(part, FullToolCall)]
    assert call.input == shown
    assert prompt_to_wire(await result.response_messages)[0]["content"][0]["input"] == told  # type: ignore[index]


async def test_nothing_is_repaired_where_there_are_no_tools() -> None:
    asked: list[object] = []
    model = MockLanguageModel(says(raw_call("c1", "weather")))

    await stream_text(model=model, prompt="Hi", repair_tool_call=asked.append).consume_stream()  # type: ignore[arg-type]

    assert asked == []


async def test_the_title_of_a_streamed_input_is_that_of_the_tool() -> None:
    begun = [{"type": "tool-input-start", "id": f"c{n}", "toolName": name, "title": "T"} for n, name in enumerate("ab")]
    model = MockLanguageModel(script.parts([*begun]))

    result = stream_text(model=model, prompt="Hi", tools=[tool(name="a", title="A", input_schema=OBJECT)])

    assert [part.title async for part in result.full_stream if part.type == "tool-input-start"] == ["A", None]


# What the provider runs ---------------------------------------------------------------------------------------------


async def test_each_result_of_the_provider_counts() -> None:
    results = [
        {"type": "tool-result", "toolCallId": "c1", "toolName": "search", "result": n, "preliminary": n == 1}
        for n in (1, 2)
    ]
    model = MockLanguageModel(says(raw_call("c1", "search", providerExecuted=True), *results))

    result = stream_text(model=model, prompt="Hi", tools=[SEARCH], stop_when=is_step_count(5))

    assert [(part.output, part.preliminary) for part in await result.tool_results] == [(1, None), (2, None)]
    assert len(await result.steps) == 1


async def test_a_call_of_the_provider_may_need_approval_and_is_not_run_here() -> None:
    model = MockLanguageModel([says(raw_call("c1", "careful", '{"n": 1}', providerExecuted=True)), DONE])

    result = stream_text(
        model=model,
        prompt="Hi",
        tools=[careful],
        tool_approval={"careful": "approved"},
        stop_when=is_step_count(5),
    )

    assert [part.type for part in await result.content] == [
        "tool-call",
        "tool-approval-request",
        "tool-approval-response",
    ]
    assert prompt_to_wire(await result.response_messages)[1]["content"][0]["providerExecuted"] is True  # type: ignore[index]


async def test_the_provider_cannot_ask_for_approval_of_a_call_of_an_earlier_step() -> None:
    request = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}
    model = MockLanguageModel([says(raw_call("c1", "weather", '{"city": "Oslo"}')), says(request, reason="stop")])
    errors: list[object] = []

    result = stream_text(model=model, prompt="Hi", tools=[weather], stop_when=is_step_count(5), on_error=errors.append)
    await result.consume_stream()

    assert [type(error) for error in errors] == [ToolCallNotFoundForApprovalError]


async def test_an_error_of_the_provider_behind_its_invalid_call_is_shown() -> None:
    failed = {"type": "tool-result", "toolCallId": "c1", "toolName": "search", "result": "no", "isError": True}
    model = MockLanguageModel(says(raw_call("c1", "search", "[", providerExecuted=True), failed))
    chunks: list[Any] = []

    await stream_text(model=model, prompt="Hi", tools=[SEARCH]).to_ui_message_stream().pump(chunks.append)

    shown = [chunk for chunk in chunks if chunk.type.startswith("tool-")]
    assert [chunk.type for chunk in shown] == ["tool-input-error", "tool-output-error"]


# The tool choice ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "parts", "problem"),
    [
        ("none", [raw_call("c1", "weather"), finish()], "contained a tool call even though tool choice was none"),
        ("none", [{"type": "tool-input-start", "id": "c1", "toolName": "weather"}, finish()], None),
        ("none", [raw_call("c1", "weather")], None),
        ("required", [finish("stop")], "did not contain a tool call even though tool choice was required"),
        ("required", [{"type": "error", "error": "x"}, finish("stop")], "did not contain a tool call"),
        ("required", [finish("interrupted")], None),
        ("required", [{"type": "text-start", "id": "1"}], None),
    ],
)
async def test_the_tool_choice_is_judged_when_the_model_has_finished(
    choice: Any, parts: list[dict[str, Any]], problem: str | None
) -> None:
    errors: list[object] = []

    result = stream_text(
        model=MockLanguageModel(script.parts(parts)),
        prompt="Hi",
        tools=[weather],
        tool_choice=choice,
        on_error=errors.append,
    )
    await result.consume_stream()

    violations = [str(error) for error in errors if isinstance(error, ToolChoiceViolationError)]
    assert len(violations) == (problem is not None)
    assert all(problem in text for text in violations if problem)


# Order --------------------------------------------------------------------------------------------------------------


async def test_results_stand_in_call_order_between_the_answers_to_approvals() -> None:
    calls = [raw_call("a", "weather", '{"city": "Oslo"}'), raw_call("b", "careful", '{"n": 1}'), raw_call("c", "none")]
    model = MockLanguageModel([says(*calls), DONE])

    result = stream_text(
        model=model,
        prompt="Hi",
        tools=[weather, careful],
        tool_approval={"careful": {"type": "denied", "reason": "no"}},
    )

    answers = prompt_to_wire(await result.response_messages)[1]["content"]
    assert [(each["type"], each.get("toolCallId")) for each in answers] == [  # type: ignore[union-attr]
        ("tool-approval-response", None),
        ("tool-result", "a"),
        ("tool-result", "b"),
        ("tool-result", "c"),
    ]


async def test_a_tool_that_waits_for_its_turn_begins_when_the_one_before_has_been_told() -> None:
    log: list[str] = []
    calls = [raw_call(call_id, "weather", '{"city": "Oslo"}') for call_id in "abc"]

    result = stream_text(
        model=MockLanguageModel(says(*calls)),
        prompt="Hi",
        tools=[weather],
        tool_call_concurrency=1,
        on_tool_execution_start=lambda event: log.append(f"{event.tool_call.tool_call_id} starts"),
        on_tool_execution_end=lambda event: log.append(f"{event.tool_call.tool_call_id} ends"),
    )
    await result.consume_stream()

    assert log == [f"{call_id} {what}" for call_id in "abc" for what in ("starts", "ends")]


async def test_tools_begin_in_call_order_when_all_have_been_told() -> None:
    log: list[str] = []

    @tool
    async def note(n: int) -> None:
        log.append(str(n))
        await anyio.lowlevel.checkpoint()

    calls = [raw_call(str(n), "note", f'{{"n": {n}}}') for n in range(8)]

    result = stream_text(
        model=MockLanguageModel(says(*calls)),
        prompt="Hi",
        tools=[note],
        on_tool_execution_start=lambda _event: log.append("start"),
    )
    await result.consume_stream()

    assert log == ["start"] * 8 + [str(n) for n in range(8)]


async def test_values_that_come_at_the_same_instant_are_told_in_turns() -> None:
    @tool
    async def values(n: int) -> Any:
        for each in range(n):
            yield each

    calls = [raw_call(call_id, "values", '{"n": 2}') for call_id in "ab"]

    async def main() -> list[tuple[str, object]]:
        result = stream_text(model=MockLanguageModel(says(*calls)), prompt="Hi", tools=[values])
        return [(part.tool_call_id, part.output) async for part in result.full_stream if part.type == "tool-result"]

    assert await play(main) == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 1), ("b", 1)]


async def test_at_the_same_instant_an_error_is_told_before_a_result_and_what_is_preliminary_before_both() -> None:
    @tool
    async def values() -> Any:
        for each in range(4):
            yield each

    @tool
    async def result() -> str:
        return "result"

    @tool
    async def fails() -> str:
        raise ValueError("error")

    calls = [raw_call(name, name, "{}") for name in ("result", "fails", "values")]

    async def main() -> list[object]:
        asked = stream_text(model=MockLanguageModel(says(*calls)), prompt="Hi", tools=[result, fails, values])
        parts = [part async for part in asked.full_stream if part.type in ("tool-result", "tool-error")]
        return [part.output if part.type == "tool-result" else str(part.error) for part in parts]

    assert await play(main) == [0, 1, "error", 2, "result", 3, 3]


async def test_answers_to_approvals_are_acted_on_in_order() -> None:
    @tool(needs_approval=True)
    async def wait(seconds: int) -> int:
        await current_clock().sleep(seconds)
        return seconds

    async def main() -> tuple[list[tuple[str, str]], list[str]]:
        ids = (f"ap{n}" for n in count())
        calls = [raw_call(str(n), "wait", f'{{"seconds": {3 - n}}}') for n in range(4)]
        asked = stream_text(
            model=MockLanguageModel(says(*calls)), prompt="Hi", tools=[wait], generate_id=lambda: next(ids)
        )
        answers = [ToolApprovalResponsePart(f"ap{n}", approved=n in (0, 2)) for n in (3, 2, 1, 0)]
        history = [UserMessage("Hi"), *(await asked.response_messages), ToolMessage(answers)]
        result = stream_text(model=MockLanguageModel(DONE), messages=history, tools=[wait])
        parts = [part async for part in result.full_stream]
        shown = [(part.type, part.tool_call_id) for part in parts if part.type in ("tool-output-denied", "tool-result")]
        told = prompt_to_wire(await result.response_messages)[0]["content"]
        return shown, [each["toolCallId"] for each in told]  # type: ignore[index]

    shown, told = await play(main)

    assert shown == [
        ("tool-output-denied", "3"),
        ("tool-output-denied", "1"),
        ("tool-result", "2"),
        ("tool-result", "0"),
    ]
    assert told == ["2", "0", "3", "1"]


async def test_a_signature_is_the_one_that_other_servers_make() -> None:
    model = MockLanguageModel(says(raw_call("c1", "deal", '{"b": 1, "a": [null, {"z": "é"}]}')))
    made = tool(name="deal", input_schema=OBJECT, execute=lambda _value, _options: None, needs_approval=True)

    result = stream_text(model=model, prompt="Hi", tools=[made], tool_approval_secret="sé", generate_id=lambda: "ap-1")
    parts = [part async for part in result.full_stream if part.type == "tool-approval-request"]

    assert [part.signature for part in parts] == ["RJMT-PmBqsghMbmonELGKGTH_JrhVoqq2drIVrQbu24"]
