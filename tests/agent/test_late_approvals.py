"""Approvals that come when the conversation has moved on (G-63)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import agent_of, assistant, kept, parts_of, prompt_of, saying, tool_part, user
from chatagent import chat, tool
from chatagent.model import ToolMessage, ToolResultPart
from chatagent_test import MockLanguageModel, Turn, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.ui import UIMessage

pytestmark = pytest.mark.anyio

TOO_LATE = "The approval came after the conversation had moved on; the tool was not run."


def deleting(*answers: str) -> tuple[MockLanguageModel, list[str], dict[str, Any]]:
    """A model that asks to delete a file first, what was deleted, and the tool."""
    deleted: list[str] = []

    async def delete(input: dict[str, str]) -> str:
        deleted.append(input["path"])
        return "gone"

    tools = {
        "delete": tool(
            name="delete",
            input_schema={"type": "object", "properties": {"path": {"type": "string"}}},
            needs_approval=True,
            execute=delete,
        )
    }
    return saying(script.tool_call("delete", {"path": "a.txt"}, tool_call_id="tc-1"), *answers), deleted, tools


def answered(turn: Turn, *, approved: bool, reason: str | None = None) -> UIMessage:
    """The slim message with which a client answers the request of a turn."""
    assert turn.message is not None
    (part,) = [part for part in parts_of(turn.message) if "approval" in part]
    approval = {"id": part["approval"]["id"], "approved": approved} | ({} if reason is None else {"reason": reason})
    return assistant(turn.message.id, tool_part("tc-1", "approval-responded", name="delete", approval=approval))


def results(model: MockLanguageModel, call: int) -> list[tuple[str, str | None]]:
    """What the tool messages of a prompt say: the kind of each result and its reason."""
    return [
        (part.output.type, part.output.reason)
        for message in prompt_of(model, call)
        if isinstance(message, ToolMessage)
        for part in message.content
        if isinstance(part, ToolResultPart)
    ]


async def test_an_approval_behind_a_later_message_counts_as_denied_and_the_conversation_goes_on() -> None:
    """G-63."""
    model, deleted, tools = deleting("as you like", "too late", "sure")

    async with mock_chat_agent(agent_of(model, tools=tools)) as harness:
        asked = await harness.send_message("delete a.txt")
        await harness.send_message("never mind")
        late = await harness.send_message(answered(asked, approved=True))
        last = await harness.send_message("are you there?")

    assert (late.error, late.text, last.error, last.text) == (None, "too late", None, "sure")
    assert deleted == []
    assert results(model, 1) == []
    assert results(model, 2) == results(model, 3) == [("execution-denied", TOO_LATE)]


async def test_the_history_keeps_a_late_approval_as_it_was_given() -> None:
    """G-63."""
    model, _, tools = deleting("as you like", "too late")

    async with mock_chat_agent(agent_of(model, tools=tools)) as harness:
        asked = await harness.send_message("delete a.txt")
        await harness.send_message("never mind")
        await harness.send_message(answered(asked, approved=True))

    (part,) = [part for part in parts_of(kept(harness)[1]) if "approval" in part]
    assert (part["state"], part["approval"]["approved"]) == ("approval-responded", True)
    assert "reason" not in part["approval"]


async def test_a_late_refusal_keeps_the_user_s_reason() -> None:
    """G-63."""
    model, _, tools = deleting("as you like", "fine")

    async with mock_chat_agent(agent_of(model, tools=tools)) as harness:
        asked = await harness.send_message("delete a.txt")
        await harness.send_message("never mind")
        await harness.send_message(answered(asked, approved=False, reason="I need it"))

    assert results(model, 2) == [("execution-denied", "I need it")]


async def test_an_approval_in_time_runs_the_tool_and_later_prompts_have_its_result() -> None:
    """G-63."""
    model, deleted, tools = deleting("deleted", "you are welcome")

    async with mock_chat_agent(agent_of(model, tools=tools)) as harness:
        asked = await harness.send_message("delete a.txt")
        await harness.send_message(answered(asked, approved=True))
        await harness.send_message("thanks")

    assert deleted == ["a.txt"]
    assert results(model, 2) == [("text", None)]


async def test_a_call_whose_approval_was_lost_in_a_failed_turn_does_not_stop_the_next() -> None:
    """G-63: the message that supersedes the call is the only new one of its turn."""
    model, deleted, tools = deleting("let us go on")
    fails = iter([False, True, False])

    def fail_once(event: Any) -> None:
        if next(fails):
            raise RuntimeError("no database")

    async with mock_chat_agent(agent_of(model, tools=tools, on_turn_start=fail_once)) as harness:
        asked = await harness.send_message("delete a.txt")
        failed = await harness.send_message(answered(asked, approved=True))
        went_on = await harness.send_message("never mind")

    assert (str(failed.error), went_on.error, went_on.text) == ("no database", None, "let us go on")
    assert deleted == []
    assert results(model, 1) == [("execution-denied", TOO_LATE)]


async def test_an_accumulator_shows_a_superseded_call_as_denied() -> None:
    approved = tool_part("tc-1", "approval-responded", input={}, approval={"id": "ap-1", "approved": True})
    seen: list[Any] = []

    async def own_loop(*_: Any) -> None:
        accumulator = chat.MessageAccumulator()
        await accumulator.add_incoming([user("u-1"), assistant("a-1", approved)], turn=0)
        seen.append(accumulator.model_messages)
        seen.append(await accumulator.add_incoming([user("u-2")], turn=1))

    async with mock_chat_agent(chat.custom_agent(id="own-loop", run=own_loop)) as harness:
        await harness.wait_ended()

    before, after = (
        [part for message in messages if message.role == "tool" for part in message.content] for messages in seen
    )
    assert [part.type for part in before] == ["tool-approval-response"]
    assert [part.type for part in after] == ["tool-approval-response", "tool-result"]
    assert (after[0].approved, after[1].output.reason) == (False, TOO_LATE)
