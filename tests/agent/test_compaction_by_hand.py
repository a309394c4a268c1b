"""`chat.compact` and its like, called by user code (N-42, N-46)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from agent.compacting import (
    CALL,
    compacting_agent,
    look,
    text_of,
    with_options,
)
from agent.making import agent_of, assistant, roles, saying, tool_part, user
from chatagent import ChatContextError, chat
from chatagent.agent import CompactionState, CompactResult
from chatagent.errors import InvalidArgumentError
from chatagent.generate import FullToolCall, FullToolResult, StepResponse, StepResult
from chatagent.model import LanguageModelUsage, UserMessage
from chatagent_test import mock_chat_agent

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.agent import RunEvent


pytestmark = pytest.mark.anyio


CALLED = FullToolCall(tool_call_id="c-1", tool_name="look", input={})
ANSWERED = FullToolResult(tool_call_id="c-1", tool_name="look", input={}, output="seen")


def _never(event: Any) -> str:
    raise AssertionError("nothing is to be summarised")


def _step(*content: Any, finish_reason: Any = "tool-calls") -> StepResult:
    return StepResult(
        step_number=0,
        content=content,
        finish_reason=finish_reason,
        usage=LanguageModelUsage(input_tokens=200, output_tokens=20, total_tokens=220),
        response=StepResponse(id="r-1", timestamp=datetime.fromtimestamp(0, UTC), model_id="m"),
    )


async def _in_turn(work: Callable[[], Any]) -> Any:
    """What awaitable `work` gives inside a turn."""
    results: list[Any] = []

    async def run(event: Any) -> None:
        results.append(await work())

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("hello")
        if turn.error is not None:
            raise turn.error
    return results[0]


async def test_a_step_with_an_unanswered_call_is_not_compacted() -> None:
    step = _step(CALLED, FullToolCall(tool_call_id="c-2", tool_name="look", input={}), ANSWERED)

    result = await _in_turn(lambda: chat.compact([UserMessage("hi")], [step], summarize=_never, threshold=1))

    assert result == CompactResult("skipped")
    assert result.changes is None


async def test_a_step_that_failed_is_not_compacted() -> None:
    step = _step(CALLED, ANSWERED, finish_reason="error")

    result = await _in_turn(lambda: chat.compact([UserMessage("hi")], [step], summarize=_never, threshold=1))

    assert result == CompactResult("skipped")


async def test_before_the_first_step_nothing_is_compacted() -> None:
    result = await _in_turn(lambda: chat.compact([UserMessage("hi")], [], summarize=_never, threshold=1))

    assert result == CompactResult("skipped")


async def test_compact_works_by_a_threshold_without_the_option() -> None:
    model = saying(CALL, "done", "later")
    states: list[Any] = []

    def run(event: RunEvent[Any]) -> Any:
        async def prepare_step(step: Any) -> Any:
            result = await chat.compact(step.messages, step.steps, summarize=lambda e: "They talked.", threshold=219)
            states.append((result.type, chat.get_compaction_state()))
            return result.changes

        return with_options(model, prepare_step=prepare_step)(event)

    async with mock_chat_agent(agent_of(run=run, tools=[look])) as harness:
        await harness.send_message("hello")
        await harness.send_message("and?")

    state = CompactionState("They talked.", base_response_message_count=2)
    assert states == [("skipped", None), ("compacted", state), ("skipped", None)]
    assert roles(model.do_stream_calls[2].prompt) == ["assistant", "assistant", "tool", "assistant", "user"]


async def test_compaction_step_is_a_step_hook() -> None:
    model = saying(CALL, "done")
    step = chat.compaction_step(summarize=lambda event: "They talked.", should_compact=lambda event: True)

    async with mock_chat_agent(agent_of(run=with_options(model, prepare_step=step), tools=[look])) as harness:
        await harness.send_message("hello")

    assert [text_of(message) for message in model.do_stream_calls[1].prompt] == ["They talked."]


async def test_a_threshold_is_what_may_be_reached() -> None:
    model = saying(CALL, "done")
    step = chat.compaction_step(summarize=_never, threshold=220)

    async with mock_chat_agent(agent_of(run=with_options(model, prepare_step=step), tools=[look])) as harness:
        turn = await harness.send_message("hello")

    assert turn.text == "done"


def test_something_must_say_when_to_compact() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`?threshold`?.*`should_compact` must say when to compact"):
        chat.compaction_step(summarize=str)


async def test_by_hand_a_turn_must_be_on() -> None:
    with pytest.raises(ChatContextError, match=r"^chat\.compact was called outside a run"):
        await chat.compact([], [], summarize=str, threshold=1)
    with pytest.raises(ChatContextError, match=r"^chat\.get_compaction_state was called outside a run"):
        chat.get_compaction_state()


async def test_outside_a_turn_there_is_no_compaction_state() -> None:
    states: list[Any] = []

    async with mock_chat_agent(
        compacting_agent(saying("ok"), on_boot=lambda event: states.append(chat.get_compaction_state()))
    ) as harness:
        await harness.send_message("hello")

    assert states == [None]


# --- is it safe? ---


@pytest.mark.parametrize("state", ["input-streaming", "input-available", "approval-requested", "approval-responded"])
def test_a_history_with_an_open_call_is_not_safe_to_cut(state: str) -> None:
    approval: dict[str, Any] = {"approval": {"id": "a"}} if state.startswith("approval") else {}

    assert not chat.is_compaction_safe([user("u-1"), assistant("a-1", tool_part("c-1", state, **approval))])


def test_a_history_with_answered_calls_is_safe_to_cut() -> None:
    history = [
        user("u-1"),
        assistant(
            "a-1",
            "text",
            tool_part("c-1", "output-available", input={}, output=1),
            tool_part("c-2", "output-error", input={}, errorText="no"),
            tool_part("c-3", "approval-responded", input={}, approval={"id": "a", "approved": False}),
        ),
    ]

    assert chat.is_compaction_safe(history)
    assert chat.is_compaction_safe([])


@pytest.mark.parametrize(
    ("state", "safe"), [("call", False), ("partial-call", False), ("result", True), ("error", True)]
)
@pytest.mark.parametrize("form", ["nested", "flat"])
def test_tool_parts_of_older_clients_are_known(state: str, safe: object, form: str) -> None:
    part = {
        "type": "tool-invocation",
        **({"toolInvocation": {"state": state}} if form == "nested" else {"state": state}),
    }

    assert chat.is_compaction_safe([{"id": "a", "role": "assistant", "parts": [part]}]) is safe
