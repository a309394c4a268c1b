"""One message of a thread under way: as it was last built, and what is coming in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.protocol.models import StreamingMessage
from chatagent.protocol.ownership import ownership_of
from chatagent.protocol.projection import ThreadMessage, project_message
from chatagent.ui import MessageReducer, UIMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["MessageSlot", "streaming_of"]


class MessageSlot:
    """A message in its place among the others."""

    __slots__ = (
        "chunks",
        "feed",
        "is_clean",
        "is_streaming",
        "message",
        "message_id",
        "ownership",
        "position",
        "reducer",
        "view",
    )

    def __init__(self, message: UIMessage) -> None:
        self.message_id = message.id
        self.message: UIMessage | None = message
        """`None` when a chunk has come since it was built; so is `view`."""
        self.view: ThreadMessage | None = None
        self.is_clean = True
        """Whether somebody may have looked since the last chunk."""
        self.ownership = ownership_of(message)
        self.position = -1
        """Its place among the views that were made last."""
        self.chunks = 0
        self.is_streaming = False
        """Whether it has had a chunk since its run last started or resumed (EV-17)."""
        self.reducer: MessageReducer | None = None
        self.feed: Callable[[Any], bool] | None = None
        """The reducer's `feed`; looked up once, as every chunk needs it."""

    def open(self) -> Callable[[Any], bool]:
        """Make the message ready for chunks."""
        self.reducer = MessageReducer(self.current())
        self.feed = self.reducer.feed
        return self.feed

    def current(self) -> UIMessage:
        """Return the message as it stands."""
        if self.message is None:
            assert self.reducer is not None
            self.message = self.reducer.message
            self.is_clean = True
        return self.message

    def current_view(self) -> ThreadMessage:
        """Return what the facade shows of it."""
        if self.view is None:
            self.view = project_message(self.current())
        return self.view

    def resume(self, streaming: StreamingMessage, *, is_streaming: bool) -> None:
        """Go on with a message that was coming in when a snapshot was taken."""
        self.chunks, self.is_streaming = streaming.chunks, is_streaming
        self.reducer = MessageReducer(self.current())
        self.feed = self.reducer.feed
        self.reducer.resume_blocks(streaming.texts, streaming.reasonings)

    def replace(self, message: UIMessage) -> None:
        """Put another message in its place; what comes in later goes on from there."""
        self.message, self.view, self.reducer, self.feed = message, None, None, None
        self.is_clean = True
        self.ownership = ownership_of(message)


def streaming_of(slots: Mapping[str, MessageSlot]) -> tuple[StreamingMessage, ...]:
    """Return what a snapshot says of the messages that are coming in."""
    found: list[StreamingMessage] = []
    for message_id, slot in slots.items():
        texts, reasonings = ({}, {}) if slot.reducer is None else slot.reducer.open_blocks
        if slot.is_streaming or texts or reasonings:
            fields: dict[str, object] = {"message_id": message_id, "chunks": slot.chunks}
            if texts:
                fields["texts"] = texts
            if reasonings:
                fields["reasonings"] = reasonings
            found.append(StreamingMessage.model_validate(fields))
    return tuple(found)
