"""Hydration: the history comes from a store of your own, and goes back there.

`hydrate_messages` returns the whole conversation for every turn, so the runtime keeps no snapshot beside it. The store
is a local value of the run: production sets it in `on_boot`, a test with `setup_locals`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent import UIMessage, chat, locals, stream_text
from chatagent.ui import TextUIPart
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.agent import HydrateMessagesEvent, RunEvent, TurnCompleteEvent
    from chatagent.generate import StreamTextResult
    from chatagent.task import LocalValues

Store = dict[str, list[UIMessage]]

MODEL = locals.create("model", MockLanguageModel)
STORE = locals.create("store", Store)


@chat.agent(id="archivist")
def archivist(event: RunEvent[None]) -> StreamTextResult:
    return stream_text(model=locals.get_or_throw(MODEL), messages=event.messages, abort_signal=event.signal)


@archivist.hydrate_messages
def load(event: HydrateMessagesEvent[None]) -> Sequence[UIMessage]:
    history = list(locals.get_or_throw(STORE).get(event.chat_id, ()))
    chat.upsert_incoming_message(history, event)
    return history


@archivist.on_turn_complete
def save(event: TurnCompleteEvent[None]) -> None:
    locals.get_or_throw(STORE)[event.chat_id] = event.ui_messages


@pytest.mark.asyncio
async def test_the_model_reads_what_the_store_has() -> None:
    model = MockLanguageModel(script.text("In 1843."))
    store: Store = {
        "notes": [
            UIMessage(id="q1", role="user", parts=[TextUIPart(text="Who wrote Note G?")]),
            UIMessage(id="a1", role="assistant", parts=[TextUIPart(text="Ada Lovelace.")]),
        ]
    }

    def set_up(values: LocalValues) -> None:
        values.set(MODEL, model)
        values.set(STORE, store)

    async with mock_chat_agent(archivist, chat_id="notes", setup_locals=set_up) as harness:
        await harness.send_message("When?")

    assert len(model.do_stream_calls[0].prompt) == 3
    assert [message.text for message in store["notes"]] == ["Who wrote Note G?", "Ada Lovelace.", "When?", "In 1843."]
    assert harness.get_snapshot() is None
