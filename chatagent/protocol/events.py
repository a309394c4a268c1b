"""The events of a thread and of the list of threads, and their wire form (rules EV-1 to EV-19).

Slotted objects, since chunks come by the ten thousand. Whoever writes one for a test leaves out `thread_id`, `seq` and
`at`: the backend fills them in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
)

from chatagent.protocol.models import (
    BEGINNING,
    ActionRecord,
    Operation,
    Run,
    ThreadError,
    ThreadHead,
    WireMessage,
)
from chatagent.ui import Chunk, StartStep, UIMessage, WireModel, parse_chunk, to_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent.protocol.ownership import Producer

__all__ = [
    "ActionResolved",
    "GenerationAborted",
    "GenerationCompleted",
    "GenerationFailed",
    "GenerationMessageChunk",
    "GenerationQueued",
    "GenerationResumed",
    "GenerationStarted",
    "GenerationWaiting",
    "HeadReason",
    "MessageAdded",
    "MessageRemoved",
    "StateChanged",
    "ThreadDeleted",
    "ThreadEvent",
    "ThreadHeadChanged",
    "ThreadHeadEvent",
    "ThreadHeadRemoved",
    "ThreadUpdated",
    "UnknownEvent",
    "event_to_wire",
    "parse_head_event",
    "parse_thread_event",
]

ClassT = TypeVar("ClassT", bound=type)

HeadReason: TypeAlias = Literal["created", "attributes", "status", "activity"]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def _event(cls: ClassT) -> ClassT:
    """Make a slotted dataclass that a type checker takes for frozen: freezing would triple the cost of making one."""
    return cast("ClassT", dataclass(slots=True, kw_only=True)(cls))


@_event
class _Event:
    type: ClassVar[str]
    thread_id: str = ""
    seq: int = 0
    """The number in its log, which rises by exactly 1."""
    at: datetime = BEGINNING


@_event
class MessageAdded(_Event):
    """A message has come into the history (EV-2)."""

    type: ClassVar[str] = "message.added"
    message: WireMessage


@_event
class MessageRemoved(_Event):
    """Messages are gone from the history (EV-3)."""

    type: ClassVar[str] = "message.removed"
    message_ids: tuple[str, ...]


@_event
class GenerationQueued(_Event):
    """A run waits for those before it (EV-4)."""

    type: ClassVar[str] = "generation.queued"
    run: Run


@_event
class GenerationStarted(_Event):
    """A run has begun; the thread's error is gone (EV-5)."""

    type: ClassVar[str] = "generation.started"
    run: Run
    operation: Operation


@dataclass_transform(frozen_default=True)
def _made_by_the_thousand(cls: ClassT) -> ClassT:
    """Like `_event`, but its fields may be given by position, which is half the cost."""
    return cast("ClassT", dataclass(slots=True)(cls))


@_made_by_the_thousand
class GenerationMessageChunk:
    """A chunk of a message (EV-6); `index` counts the chunks of the message over its whole life."""

    type: ClassVar[str] = "generation.message.chunk"
    thread_id: str = ""
    seq: int = 0
    at: datetime = BEGINNING
    run_id: str = ""
    message_id: str = ""
    index: int = 0
    producer: Producer = "model"
    chunk: Chunk = field(default_factory=StartStep)


@_event
class GenerationWaiting(_Event):
    """A generation has ended, and tool calls of it wait for the client (EV-7)."""

    type: ClassVar[str] = "generation.waiting"
    run: Run
    actions: tuple[ActionRecord, ...] = ()


@_event
class GenerationResumed(_Event):
    """The last answer is in, and the same run goes on (EV-8)."""

    type: ClassVar[str] = "generation.resumed"
    run: Run


@_event
class GenerationCompleted(_Event):
    """A run has ended well (EV-9)."""

    type: ClassVar[str] = "generation.completed"
    run: Run


@_event
class GenerationFailed(_Event):
    """A run has failed (EV-10)."""

    type: ClassVar[str] = "generation.failed"
    run: Run
    error: ThreadError


@_event
class GenerationAborted(_Event):
    """A run was aborted, or superseded (EV-11)."""

    type: ClassVar[str] = "generation.aborted"
    run: Run


@_event
class ThreadUpdated(_Event):
    """Title or metadata have changed (EV-12)."""

    type: ClassVar[str] = "thread.updated"
    head: ThreadHead


@_event
class ActionResolved(_Event):
    """A pending action was answered (EV-13)."""

    type: ClassVar[str] = "action.resolved"
    action_id: str
    remaining: int


@_event
class StateChanged(_Event):
    """Something changed that no event tells: read it anew (EV-14). The events of both logs have this one."""

    type: ClassVar[str] = "state.changed"


@_event
class ThreadDeleted(_Event):
    """The thread is gone; its watches end behind this (EV-15)."""

    type: ClassVar[str] = "thread.deleted"


@_event
class UnknownEvent(_Event):
    """An event of a type that this release does not know: it moves the number and nothing else (EV-19)."""

    type: str  # pyright: ignore[reportIncompatibleVariableOverride] - the one event that says its type itself
    data: Mapping[str, object] = field(default_factory=dict[str, object])


@_event
class ThreadHeadChanged(_Event):
    """A thread of the list has changed (EV-18)."""

    type: ClassVar[str] = "thread.head.changed"
    reason: HeadReason
    head: ThreadHead


@_event
class ThreadHeadRemoved(_Event):
    """A thread is gone from the list."""

    type: ClassVar[str] = "thread.head.removed"


ThreadEvent: TypeAlias = (
    MessageAdded
    | MessageRemoved
    | GenerationQueued
    | GenerationStarted
    | GenerationMessageChunk
    | GenerationWaiting
    | GenerationResumed
    | GenerationCompleted
    | GenerationFailed
    | GenerationAborted
    | ThreadUpdated
    | ActionResolved
    | StateChanged
    | ThreadDeleted
    | UnknownEvent
)
ThreadHeadEvent: TypeAlias = ThreadHeadChanged | ThreadHeadRemoved | StateChanged | UnknownEvent


class _Form(NamedTuple):
    """How a field goes over the wire."""

    encode: Callable[[Any], object]
    decode: Callable[[Any], object]


def _plain(value: object) -> object:
    return value


def _model(cls: type[WireModel]) -> _Form:
    return _Form(to_wire, cls.model_validate)


def _instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _chunk(wire: object) -> Chunk:
    return parse_chunk(wire, allow_unknown=True)


def _actions(wire: list[object]) -> tuple[ActionRecord, ...]:
    return tuple(ActionRecord.model_validate(each) for each in wire)


_AS_IT_IS: Final = _Form(_plain, _plain)
_FORMS: Final[dict[str, _Form]] = {
    "at": _Form(_instant, datetime.fromisoformat),
    "message": _model(UIMessage),
    "message_ids": _Form(list, tuple),
    "run": _model(Run),
    "error": _model(ThreadError),
    "head": _model(ThreadHead),
    "chunk": _Form(to_wire, _chunk),
    "actions": _Form(to_wire, _actions),
}
"""The forms of the fields that are no plain JSON, by the field's name."""


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _table(cls: type) -> tuple[tuple[str, str, _Form, bool], ...]:
    own = {"thread_id", "seq", "at"}
    return tuple(
        (each.name, _camel(each.name), _FORMS.get(each.name, _AS_IT_IS), each.name not in own)
        for each in fields(cls)
        if each.name not in ("type", "data")
    )


_THREAD_EVENTS: Final[dict[str, type[Any]]] = {
    cls.type: cls
    for cls in (
        MessageAdded,
        MessageRemoved,
        GenerationQueued,
        GenerationStarted,
        GenerationMessageChunk,
        GenerationWaiting,
        GenerationResumed,
        GenerationCompleted,
        GenerationFailed,
        GenerationAborted,
        ThreadUpdated,
        ActionResolved,
        StateChanged,
        ThreadDeleted,
    )
}
_HEAD_EVENTS: Final[dict[str, type[Any]]] = {
    cls.type: cls for cls in (ThreadHeadChanged, ThreadHeadRemoved, StateChanged)
}
_TABLES: Final = {cls: _table(cls) for cls in (*_THREAD_EVENTS.values(), *_HEAD_EVENTS.values(), UnknownEvent)}


def event_to_wire(event: ThreadEvent | ThreadHeadEvent) -> dict[str, object]:
    """Return the event's JSON form; a thread id that is not there is left out."""
    wire: dict[str, object] = {"type": event.type}
    for name, key, form, _ in _TABLES[type(event)]:
        value = getattr(event, name)
        if name != "thread_id" or value:
            wire[key] = form.encode(value)
    if isinstance(event, UnknownEvent):
        wire.update(event.data)
    return wire


def parse_thread_event(wire: Mapping[str, object]) -> ThreadEvent:
    """Make an event of its JSON form; an unknown type gives an `UnknownEvent`.

    Raises:
        ValueError: it has no `type`, or a field is missing or wrong.
    """
    return _parse(wire, _THREAD_EVENTS)


def parse_head_event(wire: Mapping[str, object]) -> ThreadHeadEvent:
    """Make an event of the list of threads of its JSON form; otherwise like `parse_thread_event`."""
    return _parse(wire, _HEAD_EVENTS)


def _parse(wire: Mapping[str, object], known: Mapping[str, type[Any]]) -> Any:
    kind = wire.get("type")
    if not isinstance(kind, str):
        raise ValueError(  # noqa: TRY004 - a value from outside, however it is wrong
            f"an event has a text `type`; this one has {kind!r}: {dict(wire)!r:.200}"
        )
    cls: Any = known.get(kind, UnknownEvent)
    values: dict[str, Any] = {}
    for name, key, form, required in _TABLES[cls]:
        if key in wire:
            values[name] = form.decode(wire[key])
        elif required and name not in ("producer", "actions"):
            raise ValueError(f"event {kind!r}: `{key}` is missing")
    if cls is UnknownEvent:
        own = {"type", "threadId", "seq", "at"}
        values |= {"type": kind, "data": {key: value for key, value in wire.items() if key not in own}}
    return cls(**values)
