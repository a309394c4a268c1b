"""Turns, actions and tool answers as a client drives them (MCA), and streams that break (SSE)."""

from __future__ import annotations

from typing import Any

import pytest

from agent.making import ASK_USER, TEXT_TURN, agent_of, asking, assistant, saying, tool_part, types, user
from chatagent import chat, stream_text
from chatagent_test import ChunkStream, mock_chat_agent, script

pytestmark = pytest.mark.anyio


async def test_run_may_end_the_run_behind_its_turn() -> None:
    """MCA-018."""
    answer = asking(saying("bye", "never"))

    def run(event: Any) -> Any:
        chat.end_run()
        return answer(event)

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("hello")
        await harness.wait_ended()

    assert types(turn) == TEXT_TURN
    assert [call.name for call in harness.hooks].count("run") == 1
    assert harness.run_ended


async def test_a_stream_that_an_action_returns_calls_no_turn_hook() -> None:
    """MCA-015."""
    model = saying("first", "regenerated")
    called: list[str] = []
    agent = agent_of(
        model,
        on_action=lambda event: stream_text(model=model, messages=event.messages, max_retries=0),
        on_turn_start=lambda event: called.append("start"),
        on_turn_complete=lambda event: called.append("complete"),
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")
        before = list(called)
        action = await harness.send_action({"type": "again"})

    assert before == called == ["start", "complete"]
    assert action.text == "regenerated"


async def test_new_results_against_a_history_that_streams_have_built() -> None:
    """MCA-028."""
    seen: list[Any] = []
    model = saying(script.tool_call("ask_user", {}, tool_call_id="tc_real_chain_1"), "thanks")
    answered = tool_part("tc_real_chain_1", "output-available", name="ask_user", output={"answer": "no"})
    fresh = tool_part("tc_real_chain_2", "output-available", name="ask_user", output={"answer": "yes"})

    def look(event: Any) -> None:
        seen.append(chat.history.extract_new_tool_results(assistant("echo", answered, fresh)))

    async with mock_chat_agent(agent_of(model, tools=ASK_USER, on_turn_complete=look)) as harness:
        await harness.send_message("hello")
        await harness.send_message(assistant("ai-sdk-fresh-id", answered))

    assert [[each.tool_call_id for each in results] for results in seen] == [
        ["tc_real_chain_1", "tc_real_chain_2"],
        ["tc_real_chain_2"],
    ]
    assert seen[-1][0].output == {"answer": "yes"}


async def test_the_fragment_of_a_stream_that_breaks_is_among_the_new_model_messages() -> None:
    """SSE-001."""
    completed: list[Any] = []
    broken = ChunkStream(
        [
            {"type": "start", "messageId": "a-err"},
            {"type": "text-start", "id": "t"},
            {"type": "text-delta", "id": "t", "delta": "partial answer"},
        ],
        error=ConnectionError("UND_ERR_BODY_TIMEOUT"),
    )

    async with mock_chat_agent(agent_of(run=lambda event: broken, on_turn_complete=completed.append)) as harness:
        await harness.send_message(user("u-1"))

    (event,) = completed
    question, answer = event.new_messages
    assert (event.finish_reason, str(event.error)) == ("error", "UND_ERR_BODY_TIMEOUT")
    assert event.response_message.text == "partial answer"
    assert (question.role, answer.role, answer.content[0].text) == ("user", "assistant", "partial answer")
    assert event.new_ui_messages[0] == user("u-1")
