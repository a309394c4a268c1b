"""Continuation: a conversation outlives its runs; the next run goes on from what was stored.

A test may end a run and begin another on the same session, or begin with a continuation and seed what it finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent import UIMessage, chat, locals, stream_text
from chatagent.session import Snapshot
from chatagent.ui import TextUIPart
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.agent import ChatStartEvent, RunEvent, TurnCompleteEvent
    from chatagent.generate import StreamTextResult

MODEL = locals.create("model", MockLanguageModel)


@chat.agent(id="patient")
def patient(event: RunEvent[None]) -> StreamTextResult:
    return stream_text(model=locals.get_or_throw(MODEL), messages=event.messages, abort_signal=event.signal)


@patient.on_chat_start
def welcome(event: ChatStartEvent[None]) -> None:
    event.writer.write({"type": "data-welcome", "data": "Hello!"})


@patient.on_turn_complete
def leave(event: TurnCompleteEvent[None]) -> None:
    chat.end_run()  # the next message begins another run


@pytest.mark.asyncio
async def test_a_second_run_goes_on_where_the_first_one_ended() -> None:
    model = MockLanguageModel([script.text("Rome."), script.text("In the year 64.")])

    async with mock_chat_agent(patient, setup_locals=lambda values: values.set(MODEL, model)) as harness:
        first = await harness.send_message("Which city burned?")
        await harness.wait_ended()
        await harness.continue_run()
        second = await harness.send_message("When?")

    assert [call.name for call in first.hooks] == ["on_chat_start", "run", "on_turn_complete"]
    assert [call.name for call in second.hooks] == ["run", "on_turn_complete"]
    assert [len(call.prompt) for call in model.do_stream_calls] == [1, 3]


@pytest.mark.asyncio
async def test_a_continuation_reads_a_seeded_snapshot() -> None:
    model = MockLanguageModel(script.text("In the year 64."))
    snapshot = Snapshot(
        saved_at=1735689600000,
        messages=[
            UIMessage(id="q1", role="user", parts=[TextUIPart(text="Which city burned?")]),
            UIMessage(id="a1", role="assistant", parts=[TextUIPart(text="Rome.")]),
        ],
    )

    harness = mock_chat_agent(
        patient, continuation=True, snapshot=snapshot, setup_locals=lambda values: values.set(MODEL, model)
    )
    async with harness:
        turn = await harness.send_message("When?")

    assert [call.name for call in turn.hooks] == ["run", "on_turn_complete"]
    assert len(model.do_stream_calls[0].prompt) == 3
