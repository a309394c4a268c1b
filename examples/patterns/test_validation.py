"""Validation: a hook looks at what came in before anything else does, and may refuse it.

What the hook raises fails the turn: the client reads the exception's words, the model is not asked, and the
conversation goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent import chat, locals, stream_text
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent import UIMessage
    from chatagent.agent import RunEvent, ValidateMessagesEvent
    from chatagent.generate import StreamTextResult

MODEL = locals.create("model", MockLanguageModel)


@chat.agent(id="discreet")
def discreet(event: RunEvent[None]) -> StreamTextResult:
    return stream_text(model=locals.get_or_throw(MODEL), messages=event.messages, abort_signal=event.signal)


@discreet.on_validate_messages
def refuse_secrets(event: ValidateMessagesEvent) -> Sequence[UIMessage]:
    if any("password" in message.text for message in event.messages):
        raise ValueError("never send a password")
    return event.messages


@pytest.mark.asyncio
async def test_a_message_is_refused_and_the_conversation_goes_on() -> None:
    model = MockLanguageModel(script.text("Hello."))

    async with mock_chat_agent(discreet, setup_locals=lambda values: values.set(MODEL, model)) as harness:
        refused = await harness.send_message("My password is 1234.")
        answered = await harness.send_message("Hi there.")

    assert isinstance(refused.error, ValueError)
    assert refused.error_texts == ["never send a password"]
    assert [call.name for call in refused.hooks] == ["on_validate_messages"]
    assert answered.text == "Hello."
    assert len(model.do_stream_calls) == 1
