"""Scripted answers: what a server sends, as values. Nothing here sends, waits, or knows a provider's format.

All checks are made at construction (3.3), so that a bad script fails at the line that wrote it and never when it is
served; what goes out is rendered then, too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.compact import compact_json
from chatagent_test.inference.sse import SseEvent, render_sse
from chatagent_test.scripting.steps import HangStep, HoldStep, PauseStep, WaitStep

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Body",
    "BodyEnd",
    "FrameWait",
    "Headers",
    "JsonBody",
    "RawBody",
    "ScriptedResponse",
    "SseBody",
    "sent_bytes",
]

BodyEnd: TypeAlias = Literal["clean", "abort", "stall"]
"""How a body ends: in order, by closing the socket without the last HTTP chunk, or never."""

Headers: TypeAlias = Iterable[tuple[str, str]] | Mapping[str, str]

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?")
_FRAMING = frozenset({"content-length", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class JsonBody:
    """One JSON value.

    Args:
        value: a JSON value, or a pydantic model; the body keeps a copy, which later changes do not reach.

    Raises:
        InvalidArgumentError: it is no JSON value, or holds a NaN or an infinity.
    """

    value: Any = field(compare=False)
    content: bytes = field(init=False, repr=False)
    """What goes out."""

    def __post_init__(self) -> None:
        text = compact_json(self.value, argument="value")
        _set(self, "content", text.encode())
        _set(self, "value", json.loads(text))


@dataclass(frozen=True, slots=True)
class RawBody:
    """Bytes, verbatim.

    Args:
        content: text (as UTF-8), bytes, or a list of chunks, each of which is a write of its own.
        end: how the body ends.
    """

    content: str | bytes | Sequence[bytes] = field(compare=False)
    end: BodyEnd = "clean"
    chunks: tuple[bytes, ...] = field(init=False, repr=False)
    """What goes out, write for write; empty chunks are left out, since HTTP cannot say them."""

    def __post_init__(self) -> None:
        _check_end(self.end)
        chunks = _chunks(self.content)
        if not isinstance(self.content, str | bytes):
            _set(self, "content", chunks)
        _set(self, "chunks", tuple(chunk for chunk in chunks if chunk))


def _chunks(content: object) -> tuple[bytes, ...]:
    if isinstance(content, str):
        try:
            return (content.encode(),)
        except UnicodeEncodeError as exc:
            problem = f"UTF-8 cannot say it: {exc}"
            raise InvalidArgumentError(argument="content", value=content, problem=problem) from exc
    if isinstance(content, bytes | bytearray):
        return (bytes(content),)
    chunks: tuple[object, ...] = tuple(cast("Any", content)) if isinstance(content, Iterable) else (content,)
    if not all(isinstance(chunk, bytes) for chunk in chunks):
        raise InvalidArgumentError(argument="content", value=chunks, problem="give text, bytes, or a list of bytes")
    return cast("tuple[bytes, ...]", chunks)


@dataclass(frozen=True, slots=True)
class FrameWait:
    """A wait in front of a frame."""

    index: int
    """Of the frame; the number of frames stands for the end of the body."""
    step: WaitStep


@dataclass(frozen=True, slots=True)
class SseBody:
    """A stream of events.

    Args:
        events: what is sent, in order.
        end: how the body ends (3.7).
        truncate_after: send so many frames only.
        cut_bytes: leave so many bytes off the end of the last frame that is sent.
        frame_delays: seconds in front of each frame, instead of the server's chunk delay; `None`, and no entry, leave
            it to the server.
        waits: where the stream waits as a script says, behind the delay of that frame.

    Raises:
        InvalidArgumentError: one of them is out of its range.
    """

    events: Sequence[SseEvent]
    end: BodyEnd = "clean"
    truncate_after: int | None = None
    cut_bytes: int = 0
    frame_delays: Sequence[float | None] = ()
    waits: Sequence[FrameWait] = ()
    frames: tuple[bytes, ...] = field(init=False, compare=False, repr=False)
    """What goes out, one write a frame."""

    def __post_init__(self) -> None:
        _set(self, "events", _tuple_of(SseEvent, "events", self.events))
        _set(self, "frame_delays", tuple(_delay("frame_delays", delay) for delay in self.frame_delays))
        _set(self, "waits", _tuple_of(FrameWait, "waits", self.waits))
        _check_end(self.end)
        if len(self.frame_delays) > len(self.events):
            problem = f"there are {len(self.events)} frames only"
            raise InvalidArgumentError(argument="frame_delays", value=self.frame_delays, problem=problem)
        _set(self, "frames", self._render())
        for wait in self.waits:
            _check_wait(wait.step)
            if not 0 <= wait.index <= len(self.events):
                problem = f"there are {len(self.events)} frames only"
                raise InvalidArgumentError(argument="waits", value=wait, problem=problem)

    def _render(self) -> tuple[bytes, ...]:
        count = _count("truncate_after", self.truncate_after, default=len(self.events))
        cut = _count("cut_bytes", self.cut_bytes, default=0)
        frames = [render_sse(event) for event in self.events[:count]]
        if cut:
            if not frames or cut >= len(frames[-1]):
                size = len(frames[-1]) if frames else 0
                problem = f"the last frame that is sent has {size} bytes, of which one at least stays"
                raise InvalidArgumentError(argument="cut_bytes", value=cut, problem=problem)
            frames[-1] = frames[-1][:-cut]
        return tuple(frames)

    def delay_before(self, index: int) -> float | None:
        """Return the seconds in front of a frame, or `None` if that is the server's to say."""
        return self.frame_delays[index] if index < len(self.frame_delays) else None

    def waits_before(self, index: int) -> tuple[WaitStep, ...]:
        """Return the waits in front of a frame; the number of frames stands for the end of the body."""
        if not self.waits:
            return ()
        last = len(self.frames)
        return tuple(wait.step for wait in self.waits if min(wait.index, last) == index)

    @property
    def terminal_index(self) -> int | None:
        """The first frame with which the answer ends in meaning (2.7.6); `None` if none does."""
        sent = self.events[: len(self.frames)]
        return next((index for index, event in enumerate(sent) if _is_terminal(event)), None)


_RESPONSE_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})


def _is_terminal(event: SseEvent) -> bool:
    try:
        data: Any = json.loads(event.data)
    except ValueError:
        return False
    if not isinstance(data, dict):
        return False
    payload = cast("dict[str, Any]", data)
    if payload.get("type") == "message_delta":
        return _stops(payload.get("delta"), "stop_reason")
    choices = payload.get("choices")
    finished = isinstance(choices, list) and any(_stops(each, "finish_reason") for each in cast("list[Any]", choices))
    return finished or payload.get("type") in _RESPONSE_ENDS


def _stops(value: object, key: str) -> bool:
    return isinstance(value, dict) and cast("dict[str, object]", value).get(key) is not None


Body: TypeAlias = JsonBody | SseBody | RawBody

_DEFAULT_HEADERS: dict[type[Body], tuple[tuple[str, str], ...]] = {
    JsonBody: (("content-type", "application/json"),),
    SseBody: (("content-type", "text/event-stream"), ("cache-control", "no-cache")),
    RawBody: (("content-type", "text/plain; charset=utf-8"),),
}


@dataclass(frozen=True, slots=True)
class ScriptedResponse:
    """One HTTP answer, made once and served any number of times (3.2, 3.8).

    Args:
        status: 200 to 999; 204 and 304 without a body only.
        headers: name and value of each; a name given here replaces the default of that name, and one given twice is
            sent twice (3.4). How the body is framed is the server's to say, so `content-length` is refused.
        body: what is sent.
        waits: where the answer waits before its head is sent.
        has_defaults: whether headers that are not given get the defaults of the body's kind; a recorded answer has none
            but its own.

    Raises:
        InvalidArgumentError: the status, a header or a wait is one that cannot be sent.
    """

    status: int
    headers: Sequence[tuple[str, str]]
    body: Body
    waits: Sequence[WaitStep] = ()
    has_defaults: bool = True

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.body), JsonBody | SseBody | RawBody):
            problem = "give a JsonBody, an SseBody or a RawBody"
            raise InvalidArgumentError(argument="body", value=self.body, problem=problem)
        _check_status(self.status, self.body)
        _set(self, "headers", _checked_headers(self.headers))
        _set(self, "waits", tuple(self.waits))
        for step in self.waits:
            _check_wait(step)

    @classmethod
    def sse(
        cls,
        events: Iterable[SseEvent],
        *,
        headers: Headers = (),
        end: BodyEnd = "clean",
        truncate_after: int | None = None,
        cut_bytes: int = 0,
        frame_delays: Sequence[float | None] = (),
    ) -> ScriptedResponse:
        """Return an answer of status 200 that streams events; the other arguments are those of `SseBody`."""
        body = SseBody(tuple(events), end, truncate_after, cut_bytes, frame_delays)
        return cls(200, cast("Sequence[tuple[str, str]]", headers), body)

    @classmethod
    def json(cls, status: int, value: object, *, headers: Headers = ()) -> ScriptedResponse:
        """Return an answer of one JSON value."""
        return cls(status, cast("Sequence[tuple[str, str]]", headers), JsonBody(value))

    @classmethod
    def text(
        cls,
        status: int,
        content: str | bytes | Sequence[bytes],
        *,
        headers: Headers = (),
        end: BodyEnd = "clean",
    ) -> ScriptedResponse:
        """Return an answer that is sent verbatim, in these chunks if it is a list."""
        return cls(status, cast("Sequence[tuple[str, str]]", headers), RawBody(content, end))

    def with_headers(self, headers: Headers) -> ScriptedResponse:
        """Return the same answer with these headers behind its own."""
        return replace(self, headers=(*self.headers, *_checked_headers(headers)))

    @property
    def wire_headers(self) -> tuple[tuple[str, str], ...]:
        """What goes out: the defaults of the body's kind that the script does not replace, then the script's own."""
        if not self.has_defaults:
            return cast("tuple[tuple[str, str], ...]", self.headers)
        if not self.headers:
            return _DEFAULT_HEADERS[type(self.body)]
        own = {name.lower() for name, _ in self.headers}
        return (*(pair for pair in _DEFAULT_HEADERS[type(self.body)] if pair[0] not in own), *self.headers)


# Checks -----------------------------------------------------------------------------------------------------------


def _set(target: object, name: str, value: object) -> None:
    object.__setattr__(target, name, value)


def _check_status(status: object, body: Body) -> None:
    if isinstance(status, bool) or not isinstance(status, int) or not 100 <= status <= 999:
        raise InvalidArgumentError(argument="status", value=status, problem="a status is a number from 100 to 999")
    if status < 200:
        problem = "1xx is no answer; clients wait on for the one behind it"
        raise InvalidArgumentError(argument="status", value=status, problem=problem)
    has_body = not isinstance(body, RawBody) or bool(body.chunks) or body.end != "clean"
    if status in (204, 304) and has_body:
        problem = 'it goes without a body: `ScriptedResponse.text(status, "")`'
        raise InvalidArgumentError(argument="status", value=status, problem=problem)


def _checked_headers(headers: object) -> tuple[tuple[str, str], ...]:
    given: Iterable[Any] = cast("Any", headers).items() if isinstance(headers, Mapping) else cast("Any", headers)
    pairs: list[tuple[str, str]] = []
    for pair in given:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(each, str) for each in pair):
            raise InvalidArgumentError(argument="headers", value=pair, problem="each is a pair of two strings")
        pairs.append((pair[0], pair[1]))
        _check_header(*pairs[-1])
    return tuple(pairs)


def _check_header(name: str, value: str) -> None:
    if not _TOKEN.fullmatch(name):
        raise InvalidArgumentError(argument="headers", value=name, problem="the name of a header is an HTTP token")
    if not _VALUE.fullmatch(value):
        problem = f"the value of `{name}` has a character that no header carries, or a space at one end"
        raise InvalidArgumentError(argument="headers", value=value, problem=problem)
    if name.lower() in _FRAMING:
        problem = "how the body is framed is the server's to say; `end` and `truncate_after` break it off"
        raise InvalidArgumentError(argument="headers", value=name, problem=problem)


def _check_end(end: object) -> None:
    if end not in ("clean", "abort", "stall"):
        raise InvalidArgumentError(argument="end", value=end, problem="it is 'clean', 'abort' or 'stall'")


def _check_wait(step: object) -> None:
    if not isinstance(step, PauseStep | HoldStep | HangStep):
        raise InvalidArgumentError(argument="waits", value=step, problem="it is a pause, a hold or a hang of a script")


def _tuple_of(kind: type, argument: str, values: object) -> tuple[Any, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidArgumentError(argument=argument, value=values, problem=f"give a list of {kind.__name__}")
    given = tuple(cast("Iterable[object]", values))
    for value in given:
        if not isinstance(value, kind):
            raise InvalidArgumentError(argument=argument, value=value, problem=f"it is no {kind.__name__}")
    return given


def _delay(argument: str, seconds: object) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise InvalidArgumentError(argument=argument, value=seconds, problem="a delay is 0 seconds or more, or `None`")
    return float(seconds)


def _count(argument: str, value: object, *, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgumentError(argument=argument, value=value, problem="it is a whole number, 0 or more")
    return value


# What becomes of them ---------------------------------------------------------------------------------------------


def sent_bytes(body: Body) -> bytes:
    """Return all that a body sends."""
    if isinstance(body, JsonBody):
        return body.content
    return b"".join(body.chunks if isinstance(body, RawBody) else body.frames)
