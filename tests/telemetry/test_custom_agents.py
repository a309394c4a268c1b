"""The spans of custom agents, whose own code says where a turn begins and ends (section 2.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import saying
from chatagent import chat, stream_text
from chatagent_test import MockLanguageModel, mock_chat_agent, script
from telemetry.recording import Recorded

if TYPE_CHECKING:
    from chatagent.agent import CustomRunContext, WirePayload

pytestmark = pytest.mark.anyio


def in_a_session(model: MockLanguageModel) -> Any:
    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        async for turn in chat.create_session(payload, abort_signal=context.signal):
            await turn.complete(stream_text(model=model, messages=turn.messages, abort_signal=turn.signal))

    return chat.custom_agent(id="tester", run=run)


async def test_the_turns_of_a_session_lie_in_the_agents_function() -> None:
    recorded = Recorded()

    async with mock_chat_agent(in_a_session(saying("one", "two")), telemetry=recorded.telemetry) as harness:
        await harness.send_message("hello")
        await harness.send_message("again")

    assert recorded.tree() == [
        "run()",
        "  waiting for first message",
        "  chat turn 1",
        "    stream response",
        "  waiting for next message",
        "  chat turn 2",
        "    stream response",
        "  waiting for next message",
    ]
    assert recorded.open == []
    assert recorded.failed == {}
    of_turn = recorded.attributes("chat turn 2")
    assert of_turn["chat.user_message"] == "again"
    assert of_turn["gen_ai.usage.total_tokens"] * 2 == of_turn["gen_ai.usage.cumulative_total_tokens"]


async def test_turns_by_hand_begin_with_what_is_taken_and_end_when_the_code_goes_on() -> None:
    recorded = Recorded()

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        while (await chat.messages.wait_with_idle_timeout(30)).ok:
            await chat.pipe_and_capture(stream_text(model=saying("ok"), prompt="hi"))
            await chat.write_turn_complete()

    agent = chat.custom_agent(id="tester", run=run)
    async with mock_chat_agent(agent, telemetry=recorded.telemetry) as harness:
        await harness.send_message("hello")

    assert recorded.tree() == [
        "run()",
        "  waiting for next message",
        "  chat turn 1",
        "    stream response",
        "  waiting for next message",
    ]
    assert recorded.open == []


async def test_a_killed_session_ends_the_turn_as_cancelled() -> None:
    recorded, model = Recorded(), saying(script.text("half").hold("middle"))

    async with mock_chat_agent(in_a_session(model), telemetry=recorded.telemetry) as harness:
        harness.begin_message("hello")
        await model.reached("middle")
        await harness.kill_run()

    assert recorded.open == []
    assert recorded.failed["chat turn 1"] == recorded.failed["run()"] == "cancelled"


async def test_a_failing_function_marks_itself_and_the_turn_that_it_left() -> None:
    recorded = Recorded()

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        await chat.messages.once()
        raise LookupError("no such customer")

    agent = chat.custom_agent(id="tester", run=run)
    harness = mock_chat_agent(agent, telemetry=recorded.telemetry)
    with pytest.raises(LookupError):
        await harness.send_message("hello")
    await harness.close()

    assert recorded.open == []
    assert recorded.failed == {"run()": "no such customer", "chat turn 1": "no such customer"}
