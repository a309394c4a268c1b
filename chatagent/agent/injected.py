"""Messages that were put into an answer under way: the mark that they leave in it, and what the mark stands for.

In the history an injected message stands directly before the answer that it steered, and a data part of that answer
marks the place where the model saw it. Values only: `steering.py` makes them, `chain.py` converts by them (G-62).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from chatagent.errors import InvalidPromptError
from chatagent.model import ModelMessage, message_to_wire, parse_model_message
from chatagent.ui import DataChunk, DataUIPart, StepStartUIPart, UIMessage, UIPart

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterable, Iterator

    from chatagent.agent.pending_messages import PendingMessageReceivedEvent
    from chatagent.agent.wire import Incoming
    from chatagent.tasks import OwnedTask
    from chatagent.ui import Chunk

__all__ = [
    "Injection",
    "PendingMessage",
    "Steering",
    "insert_marks",
    "is_mark",
    "mark_chunk",
    "mark_part",
    "marked_ids",
    "marked_in",
    "split_at_marks",
    "stored_messages",
]

MARK: Final = "data-pending-message-injected"
"""Type of the chunk and of the part."""


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """A message that came while a turn was on."""

    message: UIMessage
    incoming: Incoming
    """The payload that it came with."""
    model_messages: Sequence[ModelMessage] | None = None
    """What it is to be shown to the model as, if that is not what it converts to."""


@dataclass(frozen=True, slots=True)
class Injection:
    """Messages that were injected together."""

    pending: Sequence[PendingMessage]
    mark: DataUIPart
    """What stands for them in the answer."""
    steps_before: int
    """How many steps the answer's stream had begun."""


@dataclass(slots=True)
class Steering:
    """A turn's messages that came meanwhile."""

    queue: list[PendingMessage] = field(default_factory=list[PendingMessage])
    """Those that no step has taken in."""
    injections: list[Injection] = field(default_factory=list[Injection])
    """Those that are not in the chain yet."""
    injected_seqs: list[int] = field(default_factory=list[int])
    """Numbers of the `.in` records that were injected."""
    untold: deque[PendingMessageReceivedEvent] | None = None
    """Events that wait for `on_received` to return from an earlier one; `None` while it is not at work."""
    telling: OwnedTask | None = None

    def take_injections(self) -> tuple[list[Injection], list[UIMessage]]:
        """Return what was injected, and its messages, to be put into the chain; a second call gives none."""
        injections, self.injections = self.injections, []
        return injections, [pending.message for each in injections for pending in each.pending]


def mark_chunk(chunk_id: str, messages: Sequence[UIMessage]) -> DataChunk:
    """Return the chunk that tells clients which messages were injected, and where (N-72)."""
    told = [{"id": message.id, "text": message.text} for message in messages]
    return DataChunk(
        type=MARK, id=chunk_id, data={"messageIds": [message.id for message in messages], "messages": told}
    )


def mark_part(chunk: DataChunk, prepared: Sequence[ModelMessage] | None) -> DataUIPart:
    """Return the part that stays in the answer.

    Args:
        chunk: the chunk that clients were sent.
        prepared: what the model was given, if that is not what the messages convert to; kept in the part.
    """
    data = dict(cast("Mapping[str, object]", chunk.data))
    if prepared is not None:
        data["modelMessages"] = [message_to_wire(message) for message in prepared]
    return DataUIPart(type=MARK, id=chunk.id, data=data)


def is_mark(part: UIPart) -> bool:
    """Return whether a part marks injected messages."""
    return part.type == MARK


def marked_ids(message: UIMessage) -> tuple[str, ...]:
    """Return the ids of the messages that the marks of an answer name."""
    return tuple(each for part in message.parts if part.type == MARK for each in _ids(cast("DataUIPart", part)))


def marked_in(chunks: Iterable[Chunk]) -> set[str]:
    """Return the ids of the messages that the marks in a stream name."""
    marks = (chunk for chunk in chunks if isinstance(chunk, DataChunk) and chunk.type == MARK)
    return {each for chunk in marks for each in _ids(DataUIPart(type=MARK, id=chunk.id, data=chunk.data))}


def _ids(mark: DataUIPart) -> Iterator[str]:
    listed = _field(mark, "messageIds")
    if isinstance(listed, Sequence) and not isinstance(listed, str):
        yield from (each for each in cast("Sequence[object]", listed) if isinstance(each, str) and each)


def _field(mark: DataUIPart, key: str) -> object:
    data = mark.data
    return cast("Mapping[str, object]", data).get(key) if isinstance(data, Mapping) else None


def split_at_marks(message: UIMessage) -> list[tuple[Sequence[UIPart], DataUIPart | None]]:
    """Return the parts of an answer in pieces, each with the mark that ends it; the last has none."""
    pieces: list[tuple[Sequence[UIPart], DataUIPart | None]] = []
    begin = 0
    for index, part in enumerate(message.parts):
        if is_mark(part):
            pieces.append((message.parts[begin:index], cast("DataUIPart", part)))
            begin = index + 1
    return [*pieces, (message.parts[begin:], None)]


def stored_messages(mark: DataUIPart, injected: Sequence[UIMessage]) -> tuple[list[ModelMessage], list[UIMessage]]:
    """Return what a mark stands for: the model messages that it keeps itself, or else messages to convert.

    Args:
        mark: the part.
        injected: the messages that stand before the answer; what is not among them was taken out of the history, and
            the mark stands for nothing any more.
    """
    ids = set(_ids(mark))
    messages = [message for message in injected if message.id in ids]
    kept = _field(mark, "modelMessages")
    if not messages or not isinstance(kept, Sequence) or isinstance(kept, str):
        return [], messages
    try:
        parsed = [parse_model_message(each) for each in cast("Sequence[object]", kept)]
    except InvalidPromptError:
        return [], messages
    # The history may have been in a client's hands, and system messages come from the server (D13).
    return [each for each in parsed if each.role != "system"], []


def insert_marks(answer: UIMessage, injections: Sequence[Injection], steps: int) -> UIMessage:
    """Return the answer with its marks: each between the steps where the model was given the messages.

    Args:
        answer: the answer, with the parts of an earlier one in front if it continues that.
        injections: what was injected, in order.
        steps: how many steps the answer's stream had begun in all.
    """
    if not injections:
        return answer
    parts: list[UIPart] = list(answer.parts)
    places = [index for index, part in enumerate(parts) if isinstance(part, StepStartUIPart)]
    earlier, end = len(places) - steps, len(parts)
    for each in reversed(injections):  # from behind, so that the places in front stay right
        step = earlier + each.steps_before
        parts.insert(places[step] if 0 <= step < len(places) else end, each.mark)
    return answer.model_copy(update={"parts": tuple(parts)})
