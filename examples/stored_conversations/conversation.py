"""An agent that keeps its conversations in a database, and asks nobody which one.

What it needs from outside comes through `locals`: the model, and something with `load` and `save`. Production sets the
real ones in `on_boot`; a test sets others before the run starts, and `on_boot` leaves those alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from chatagent import chat, locals, stream_text
from chatagent.model import LanguageModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent import UIMessage
    from chatagent.agent import HydrateMessagesEvent, RunEvent, TurnCompleteEvent
    from chatagent.generate import StreamTextResult


class Conversations(Protocol):
    """Where conversations are kept."""

    async def load(self, chat_id: str) -> list[UIMessage]:
        """Return a conversation's messages, oldest first; none of one that is not there."""
        ...

    async def save(self, chat_id: str, messages: Sequence[UIMessage]) -> None:
        """Make these the conversation's messages, in this order."""
        ...


CONVERSATIONS = locals.create("conversations", Conversations)
MODEL = locals.create("model", LanguageModel)


@chat.agent(id="librarian")
async def librarian(event: RunEvent[Any]) -> StreamTextResult:
    return stream_text(
        model=locals.get_or_throw(MODEL),
        instructions="You are a librarian who remembers every reader.",
        messages=event.messages,
        abort_signal=event.signal,
    )


@librarian.hydrate_messages
async def load_conversation(event: HydrateMessagesEvent[Any]) -> list[UIMessage]:
    """The database has the history. What the reader has just said goes in before anybody answers."""
    conversations = locals.get_or_throw(CONVERSATIONS)
    messages = await conversations.load(event.chat_id)
    if chat.upsert_incoming_message(messages, event):
        await conversations.save(event.chat_id, messages)
    return messages


@librarian.on_turn_complete
async def save_conversation(event: TurnCompleteEvent[Any]) -> None:
    await locals.get_or_throw(CONVERSATIONS).save(event.chat_id, event.ui_messages)
