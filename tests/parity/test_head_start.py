"""A head start whose answer is handed over whole: with hydration (HND), in a turn that fails, and unreadable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import agent_of, assistant, roles, saying, texts, user
from agent.sessions import live_session
from chatagent_test import ChatAgentHarness, mock_chat_agent

if TYPE_CHECKING:
    from chatagent import ChatAgent
    from chatagent.ui import UIMessage

pytestmark = pytest.mark.anyio

GREETING = [{"role": "assistant", "content": [{"type": "text", "text": "Hi there, hope you're well."}]}]


def waiting(agent: ChatAgent[Any], *history: UIMessage) -> ChatAgentHarness:
    return mock_chat_agent(agent, mode="handover-prepare", head_start_messages=list(history))


async def test_with_hydration_question_and_answer_are_kept_and_nobody_is_asked() -> None:
    """HND-005."""
    completed: list[Any] = []
    asked: list[Any] = []
    agent = agent_of(
        run=asked.append,
        hydrate_messages=lambda event: event.incoming_messages,
        on_turn_complete=completed.append,
    )

    async with waiting(agent, user("u-1")) as harness:
        await harness.send_handover(partial_assistant_message=GREETING, is_final=True, message_id="asst-hydrate-1")

    (event,) = completed
    assert asked == []
    assert roles(event.ui_messages) == ["user", "assistant"]
    assert event.response_message == assistant("asst-hydrate-1", "Hi there, hope you're well.")


@pytest.mark.parametrize("message_id", ["a-1", None])
@pytest.mark.parametrize("place", ["tools", "on_chat_start", "on_turn_start"])
async def test_a_handover_whose_turn_fails_is_kept_and_answers_no_later_message(
    place: str, message_id: str | None
) -> None:
    calls = 1 if place == "tools" else 0  # the boot asks for the tools too, to convert the history (B-6)

    def fail_once(event: Any) -> dict[str, Any]:
        nonlocal calls
        calls -= 1
        if calls == -1:
            raise ValueError("not today")
        return {}

    options: dict[str, Any] = {place: fail_once}
    given: dict[str, Any] = {} if message_id is None else {"message_id": message_id}

    async with waiting(agent_of(saying("and on"), **options), user("u-1")) as harness:
        failed = await harness.send_handover(partial_assistant_message=GREETING, is_final=True, **given)
        turn = await harness.send_message(user("u-2", "so?"))

    snapshot = harness.get_snapshot()
    assert snapshot is not None
    assert str(failed.error) == "not today"
    assert turn.text == "and on"
    assert texts(snapshot.messages) == ["hello", "Hi there, hope you're well.", "so?", "and on"]


@pytest.mark.parametrize("message_id", [7, ["a-1"]], ids=str)
async def test_a_handover_with_an_id_that_is_none_fails_its_turn_alone(message_id: Any) -> None:
    async with live_session() as session:
        session.put({"kind": "handover", "partialAssistantMessage": GREETING, "messageId": message_id})
        session.submit(user("u-1"))
        seen = await session.run(agent_of(saying("hi")), trigger="handover-prepare")

    failed, turn = seen.turns
    assert str(failed.error) == f"message: `messageId` is {message_id!r}: an id is a string"
    assert turn.error is None
    assert turn.response is not None
    assert turn.response.text == "hi"
