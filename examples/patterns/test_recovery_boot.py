"""Recovery boot: a run died in the middle of an answer; the next one is told what it left.

A test may crash a run at an exact point and begin the next one, or begin with a continuation and seed the rest of an
earlier one. By default the half answer stays behind its question, and what nobody has answered is answered now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent import UIMessage, chat, locals, stream_text
from chatagent.ui import TextUIPart
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.agent import RecoveryBootEvent, RunEvent
    from chatagent.generate import StreamTextResult
    from chatagent.task import LocalValues

MODEL = locals.create("model", MockLanguageModel)
LOST = locals.create("lost", list[str])


@chat.agent(id="essayist")
def essayist(event: RunEvent[None]) -> StreamTextResult:
    return stream_text(model=locals.get_or_throw(MODEL), messages=event.messages, abort_signal=event.signal)


@essayist.on_recovery_boot
def count_what_was_lost(event: RecoveryBootEvent) -> None:
    if event.partial_assistant is not None:
        locals.get_or_throw(LOST).append(event.partial_assistant.text)


@pytest.mark.asyncio
async def test_a_conversation_survives_a_crash_in_mid_stream() -> None:
    model = MockLanguageModel([script.text("Coffee came").hold("middle"), script.text("… from Ethiopia.")])
    lost: list[str] = []

    def set_up(values: LocalValues) -> None:
        values.set(MODEL, model)
        values.set(LOST, lost)

    async with mock_chat_agent(essayist, setup_locals=set_up) as harness:
        harness.begin_message("Write an essay about coffee.")
        await model.reached("middle")
        await harness.kill_run()
        await harness.continue_run()
        turn = await harness.send_message("Go on!")
        snapshot = harness.get_snapshot()

    assert lost == ["Coffee came"]
    assert turn.text == "… from Ethiopia."
    assert snapshot is not None
    assert [message.text for message in snapshot.messages] == [
        "Write an essay about coffee.",
        "Coffee came",
        "Go on!",
        "… from Ethiopia.",
    ]


@pytest.mark.asyncio
async def test_what_an_earlier_run_has_left_may_be_seeded() -> None:
    model = MockLanguageModel(script.text("… from Ethiopia."))
    lost: list[str] = []

    def set_up(values: LocalValues) -> None:
        values.set(MODEL, model)
        values.set(LOST, lost)

    harness = mock_chat_agent(essayist, continuation=True, previous_run_id="run_prior", setup_locals=set_up)
    harness.seed_session_out_partial(
        UIMessage(id="a1", role="assistant", parts=[TextUIPart(text="Coffee came")]),
    )
    harness.seed_session_in_tail(
        [
            UIMessage(id="q1", role="user", parts=[TextUIPart(text="Write an essay about coffee.")]),
            UIMessage(id="q2", role="user", parts=[TextUIPart(text="Go on!")]),
        ]
    )
    async with harness:
        await harness.wait_idle()

    assert lost == ["Coffee came"]
    assert [message.id for message in harness.boot.in_flight_users] == ["q1", "q2"]
    assert [turn.text for turn in harness.turns] == ["… from Ethiopia."]
