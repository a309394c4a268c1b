"""Actions: commands of a client that change the conversation and are no turns.

A schema turns a client's JSON into your class. What fails the schema is told to the client and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from pydantic import BaseModel

from chatagent import chat, locals, stream_text
from chatagent.errors import ActionError
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.agent import ActionEvent, RunEvent
    from chatagent.generate import StreamTextResult
    from chatagent_test import ChatAgentHarness

MODEL = locals.create("model", MockLanguageModel)


class Undo(BaseModel):
    type: Literal["undo"]


@chat.agent(id="undoable", action_schema=Undo)
def undoable(event: RunEvent[None]) -> StreamTextResult:
    return stream_text(model=locals.get_or_throw(MODEL), messages=event.messages, abort_signal=event.signal)


@undoable.on_action
def undo(event: ActionEvent[None]) -> None:
    chat.history.slice(0, -2)


def stored(harness: ChatAgentHarness) -> list[str]:
    snapshot = harness.get_snapshot()
    return [] if snapshot is None else [message.text for message in snapshot.messages]


@pytest.mark.asyncio
async def test_undo_takes_the_last_turn_back() -> None:
    model = MockLanguageModel([script.text("One."), script.text("Two.")])

    async with mock_chat_agent(undoable, setup_locals=lambda values: values.set(MODEL, model)) as harness:
        await harness.send_message("First?")
        await harness.send_message("Second?")
        undone = await harness.send_action({"type": "undo"})

        assert [call.name for call in undone.hooks] == ["on_action"]
        assert stored(harness) == ["First?", "One."]


@pytest.mark.asyncio
async def test_an_unknown_action_is_refused() -> None:
    model = MockLanguageModel(script.text("One."))

    async with mock_chat_agent(undoable, setup_locals=lambda values: values.set(MODEL, model)) as harness:
        await harness.send_message("First?")
        refused = await harness.send_action({"type": "explode"})

        assert isinstance(refused.error, ActionError)
        assert len(refused.error_texts) == 1
        assert stored(harness) == ["First?", "One."]
