"""Looking at threads: parts without step borders, lives of runs as words, values as JSON (rule CT-5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from pydantic_core import to_jsonable_python

from chatagent.protocol import GenerationMessageChunk, ToolPart, event_to_wire, is_reserved
from chatagent.ui import UNSET, DataUIPart, StepStartUIPart, TextUIPart, WireModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chatagent.protocol import ThreadEvent, ThreadHeadEvent, ThreadMessage, ThreadState

__all__ = [
    "chunk_events",
    "chunk_types",
    "data_parts",
    "first_difference",
    "is_reserved_chunk",
    "last_answer",
    "life",
    "plain",
    "roles",
    "shown",
    "text_parts",
    "texts",
    "tool_part",
    "wire_events",
]


class _HasType(Protocol):
    @property
    def type(self) -> str: ...


PartT = TypeVar("PartT", bound=_HasType)


def plain(value: object, *, wire: bool = False) -> Any:
    """Return a value as JSON data, so that values which came another way compare by what they say.

    Args:
        value: whatever a case compares.
        wire: whether fields that are absent stay absent.
    """
    if wire and isinstance(value, WireModel):
        return value.to_wire()
    return to_jsonable_python(value, by_alias=True, fallback=_fallback)


def first_difference(came: Any, expected: Any) -> tuple[str, Any, Any]:
    """Return where two values of JSON first differ, and what stands there in each."""
    place = ""
    while True:
        step = _first_step(came, expected)
        if step is None:
            return place.removeprefix("."), came, expected
        place += f"[{step}]" if isinstance(step, int) else f".{step}"
        came, expected = came[step], expected[step]


def _first_step(came: Any, expected: Any) -> str | int | None:
    """Return the first key or index under which both have something, and not the same."""
    if isinstance(came, dict) and isinstance(expected, dict) and came.keys() == expected.keys():
        keys: list[str] = list(cast("dict[str, Any]", expected))
        return next((key for key in keys if came[key] != expected[key]), None)
    if isinstance(came, list) and isinstance(expected, list):
        both = enumerate(zip(cast("list[Any]", came), cast("list[Any]", expected), strict=False))
        return next((index for index, (one, other) in both if one != other), None)
    return None


def _fallback(value: object) -> object:
    return None if value is UNSET else repr(value)


def roles(state: ThreadState) -> list[str]:
    """Return the messages' roles, in order."""
    return [message.role for message in state.messages]


def texts(state: ThreadState) -> list[str]:
    """Return the messages' texts, in order."""
    return [message.text for message in state.messages]


def shown(parts: Sequence[PartT]) -> list[PartT]:
    """Return the parts without the borders of steps."""
    return [part for part in parts if not isinstance(part, StepStartUIPart)]


def last_answer(state: ThreadState) -> ThreadMessage | None:
    """Return the last message of the agent's; `None` if there is none."""
    return next((each for each in reversed(state.messages) if each.role == "assistant"), None)


def tool_part(state: ThreadState) -> ToolPart | None:
    """Return the last tool call of the last answer; `None` if there is none."""
    answer = last_answer(state)
    calls = () if answer is None else answer.tool_parts
    return calls[-1] if calls else None


def data_parts(state: ThreadState, kind: str) -> list[tuple[str | None, object]]:
    """Return id and data of all parts of a kind (`data-progress`), in order."""
    return [
        (part.id, part.data)
        for message in state.messages
        for part in message.parts
        if isinstance(part, DataUIPart) and part.type == kind
    ]


def text_parts(message: ThreadMessage | None) -> list[tuple[str, str | None]]:
    """Return text and state of a message's text parts."""
    parts = () if message is None else message.parts
    return [(part.text, part.state) for part in parts if isinstance(part, TextUIPart)]


def life(events: Iterable[ThreadEvent]) -> list[str]:
    """Return the events' types; chunks in a row are one word, `chunks(first…last)`."""
    words: list[str] = []
    first = last = ""
    for event in events:
        if isinstance(event, GenerationMessageChunk):
            first, last = first or event.chunk.type, event.chunk.type
            continue
        if first:
            words.append(f"chunks({first}…{last})")
            first = ""
        words.append(event.type)
    if first:
        words.append(f"chunks({first}…{last})")
    return words


def chunk_events(events: Iterable[ThreadEvent]) -> list[GenerationMessageChunk]:
    """Return the events of chunks."""
    return [event for event in events if isinstance(event, GenerationMessageChunk)]


def is_reserved_chunk(event: ThreadEvent) -> bool:
    """Return whether an event is a chunk of the protocol's own."""
    return isinstance(event, GenerationMessageChunk) and is_reserved(event.chunk.type)


def chunk_types(events: Iterable[ThreadEvent]) -> list[str]:
    """Return the types of the chunks."""
    return [event.chunk.type for event in chunk_events(events)]


def wire_events(events: Iterable[ThreadEvent | ThreadHeadEvent]) -> list[dict[str, object]]:
    """Return the events in their JSON form."""
    return [event_to_wire(event) for event in events]
