"""Several turns: each one hands the model everything that was said before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent import chat, locals, stream_text
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.agent import RunEvent
    from chatagent.generate import StreamTextResult

MODEL = locals.create("model", MockLanguageModel)


@chat.agent(id="attentive")
def attentive(event: RunEvent[None]) -> StreamTextResult:
    return stream_text(model=locals.get_or_throw(MODEL), messages=event.messages, abort_signal=event.signal)


@pytest.mark.asyncio
async def test_the_conversation_grows_by_question_and_answer() -> None:
    model = MockLanguageModel([script.text("Hello Ada."), script.text("Ada."), script.text("You are welcome.")])

    async with mock_chat_agent(attentive, setup_locals=lambda values: values.set(MODEL, model)) as harness:
        for text in ("I am Ada.", "Who am I?", "Thank you."):
            await harness.send_message(text)
        snapshot = harness.get_snapshot()

    assert [len(call.prompt) for call in model.do_stream_calls] == [1, 3, 5]
    assert [turn.text for turn in harness.turns] == ["Hello Ada.", "Ada.", "You are welcome."]
    assert snapshot is not None
    assert [message.role for message in snapshot.messages] == ["user", "assistant"] * 3
