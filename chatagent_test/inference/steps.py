"""What answering consists of, as values: an answer is a generator of steps, and whoever runs it does the I/O.

Sockets, ASGI and the in-process transports run the same generators, so they cannot answer differently. Closing a
generator tells the answer that its client has gone; throwing `ServerStopping` into it, that the server has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from chatagent_test.inference.scripted import JsonBody, RawBody, ScriptedResponse, SseBody
from chatagent_test.scripting.steps import HoldStep, PauseStep, WaitStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent_test.inference.log import LogEntry
    from chatagent_test.inference.waiting import Latch

__all__ = [
    "FLUSH",
    "KEEP_ALIVE",
    "NO_BODY",
    "OPEN_GATE",
    "Ask",
    "Cut",
    "Flush",
    "Frames",
    "Gate",
    "Head",
    "Pace",
    "ServerStopping",
    "Step",
    "Steps",
    "Wait",
    "play",
]

T = TypeVar("T")

NO_BODY: Final = frozenset({204, 304})
"""Statuses of answers without a body, and so without a length of one."""

KEEP_ALIVE: Final = b": keep-alive\n"
"""One comment line without a blank one behind it, which the decoder of `openai` would take for an empty event."""


class ServerStopping(BaseException):
    """The server stops before the answer has been sent."""


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers. Without a length, the body is sent in chunks."""

    status: int
    headers: tuple[tuple[str, str], ...]
    length: int | None


@dataclass(frozen=True, slots=True)
class Frames:
    """Pieces of the body, each of which stays a piece on the wire."""

    frames: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Wait:
    """Go on when the latch opens, or after so many seconds; the answer is whether the latch is open."""

    latch: Latch | None
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """Await something of the test's; the answer is its result."""

    question: Awaitable[object]


@dataclass(frozen=True, slots=True)
class Cut:
    """Send what there is and close the connection without the end of the body."""


@dataclass(frozen=True, slots=True)
class Flush:
    """Send what there is now."""


FLUSH: Final = Flush()

Step: TypeAlias = Head | Frames | Wait | Ask | Cut | Flush
Steps: TypeAlias = Generator[Step, Any, T]


class Gate(Protocol):
    """What stands in front of the end of an answer."""

    @property
    def may_hold(self) -> bool:
        """Whether there may be a latch."""
        ...

    def hold_index(self, body: SseBody) -> int:
        """Return the frame in front of which a stream waits; the number of frames stands for its end."""
        ...

    def arrive(self) -> Latch | None:
        """Come to the gate; return the latch to wait for, if any."""
        ...

    def cross(self) -> None:
        """Go through."""
        ...


class _OpenGate:
    may_hold = False

    def hold_index(self, body: SseBody) -> int:
        return last_index(body)

    def arrive(self) -> Latch | None:
        return None

    def cross(self) -> None:
        pass


OPEN_GATE: Final[Gate] = _OpenGate()


def last_index(body: SseBody) -> int:
    """Return the index of the last frame that is sent, 0 if there is none."""
    return max(len(body.frames) - 1, 0)


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a server lets answers out."""

    chunk_delay: float | None
    """Seconds in front of every frame of a stream."""
    keep_alive: float | None
    """Seconds of silence after which a stream gets a comment."""
    hold: Callable[[str], Latch]
    """Comes to the hold of that name in a script."""


def play(response: ScriptedResponse, entry: LogEntry, gate: Gate, pace: Pace) -> Steps[None]:
    """Answer a request as scripted; delays of frames are those of the body, and else of the server."""
    for step in response.waits:
        yield from _wait(step, pace, None)
    if isinstance(response.body, SseBody):
        yield from _play_stream(response, response.body, entry, gate, pace)
    else:
        yield from _play_whole(response, response.body, entry, gate)


def _play_whole(response: ScriptedResponse, body: JsonBody | RawBody, entry: LogEntry, gate: Gate) -> Steps[None]:
    yield from _pass(gate, None)
    chunks = (body.content,) if isinstance(body, JsonBody) else body.chunks
    end = "clean" if isinstance(body, JsonBody) else body.end
    has_length = len(chunks) <= 1 and end == "clean" and response.status not in NO_BODY
    size = sum(map(len, chunks)) if has_length else None
    entry.status = response.status
    yield Head(response.status, response.wire_headers, size)
    yield Frames(chunks)
    yield from _end(end)


def _play_stream(response: ScriptedResponse, body: SseBody, entry: LogEntry, gate: Gate, pace: Pace) -> Steps[None]:
    entry.status = response.status
    yield Head(response.status, response.wire_headers, None)
    if gate.may_hold or pace.chunk_delay or body.frame_delays or body.waits:
        yield from _play_frames(body, gate, pace)
    else:
        gate.cross()
        yield Frames(body.frames)
    yield from _end(body.end)


def _play_frames(body: SseBody, gate: Gate, pace: Pace) -> Steps[None]:
    hold_at = gate.hold_index(body)
    for index, frame in enumerate(body.frames):
        given = body.delay_before(index)
        delay = pace.chunk_delay if given is None else given
        if delay:
            yield from _pause(delay, pace.keep_alive)
        for step in body.waits_before(index):
            yield from _wait(step, pace, pace.keep_alive)
        if index == hold_at:
            yield from _pass(gate, pace.keep_alive)
        yield Frames((frame,))
    alive = None if body.cut_bytes else pace.keep_alive  # never inside a frame
    for step in body.waits_before(len(body.frames)):
        yield from _wait(step, pace, alive)
    if hold_at >= len(body.frames):
        yield from _pass(gate, alive)


def _end(end: str) -> Steps[None]:
    if end == "stall":
        yield Wait(None)
    elif end == "abort":
        yield Cut()


def _pass(gate: Gate, keep_alive: float | None) -> Steps[None]:
    if gate.may_hold:
        yield FLUSH
        latch = gate.arrive()
        if latch is not None:
            yield from _until_open(latch, keep_alive)
    gate.cross()


def _until_open(latch: Latch, keep_alive: float | None) -> Steps[None]:
    while not (yield Wait(latch, keep_alive)):
        yield Frames((KEEP_ALIVE,))


def _pause(seconds: float, keep_alive: float | None) -> Steps[None]:
    while keep_alive is not None and seconds > keep_alive:
        yield Wait(None, keep_alive)
        yield Frames((KEEP_ALIVE,))
        seconds -= keep_alive
    yield Wait(None, seconds)


def _wait(step: WaitStep, pace: Pace, keep_alive: float | None) -> Steps[None]:
    if isinstance(step, PauseStep):
        yield from _pause(step.seconds, keep_alive)
    elif isinstance(step, HoldStep):
        yield FLUSH
        yield from _until_open(pace.hold(step.name), keep_alive)
    else:
        yield Wait(None)
