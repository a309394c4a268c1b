"""Faults of an answer, as values: each makes a broken answer of a good one (7.12).

`Fault.abort(after=2).apply(response)` is one; `RandomFaults` breaks some answers and says which, the same ones for the
same seed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.scripted import (
    FrameWait,
    RawBody,
    ScriptedResponse,
    SseBody,
    sent_bytes,
)
from chatagent_test.inference.sse import SseEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from chatagent_test.inference.scripted import BodyEnd

__all__ = ["Fault", "FaultKind", "RandomFaults"]

FaultKind: TypeAlias = Literal[
    "truncate", "abort", "stall", "cut-frame", "cut-utf8", "malformed", "duplicate", "content-type"
]


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one answer.

    Args:
        kind: what.
        at: the frame at which it goes wrong, counted from 0, or from the end if it is negative; the number of frames
            that still come, for `truncate`, `abort` and `stall`.
        end: how the connection ends, where the fault does not say so by itself.
        content_type: what the head says, for `content-type`.

    Raises:
        InvalidArgumentError: there is no such kind.
    """

    kind: FaultKind
    at: int = 0
    end: BodyEnd = "clean"
    content_type: str = "text/html"

    def __post_init__(self) -> None:
        if self.kind not in _APPLY:
            problem = f"it is one of {', '.join(get_args(FaultKind))}"
            raise InvalidArgumentError(argument="kind", value=self.kind, problem=problem)

    @classmethod
    def truncate(cls, *, after: int) -> Fault:
        """End in order after so many frames, without the last ones."""
        return cls("truncate", after)

    @classmethod
    def abort(cls, *, after: int) -> Fault:
        """Close the socket after so many frames."""
        return cls("abort", after, "abort")

    @classmethod
    def stall(cls, *, after: int) -> Fault:
        """Say nothing more after so many frames, and keep the connection."""
        return cls("stall", after, "stall")

    @classmethod
    def cut_frame(cls, *, at: int = -1, end: BodyEnd = "abort") -> Fault:
        """Break off in the middle of a frame."""
        return cls("cut-frame", at, end)

    @classmethod
    def cut_utf8(cls, *, at: int = 0, end: BodyEnd = "abort") -> Fault:
        """Break off inside a character of several bytes: the first one in this frame or behind it."""
        return cls("cut-utf8", at, end)

    @classmethod
    def malformed(cls, *, at: int) -> Fault:
        """Send half of a frame's data, in a frame that is whole."""
        return cls("malformed", at)

    @classmethod
    def duplicate(cls, *, at: int) -> Fault:
        """Send a frame twice."""
        return cls("duplicate", at)

    @classmethod
    def wrong_content_type(cls, content_type: str = "text/html") -> Fault:
        """Say in the head that the body is something else."""
        return cls("content-type", content_type=content_type)

    def apply(self, response: ScriptedResponse) -> ScriptedResponse:
        """Return the broken answer.

        A body that is no stream of events counts as one frame, of which what breaks off sends the first half.

        Raises:
            InvalidArgumentError: the answer has no such frame, or nothing that could break so.
        """
        return _APPLY[self.kind](self, response)


def _stream_of(fault: Fault, response: ScriptedResponse) -> SseBody:
    if isinstance(response.body, SseBody):
        return response.body
    raise InvalidArgumentError(
        argument="response", value=response, problem=f"only a stream can be hit by {fault.kind!r}"
    )


def _index(fault: Fault, count: int) -> int:
    index = fault.at if fault.at >= 0 else count + fault.at
    if not 0 <= index < count:
        raise InvalidArgumentError(argument="at", value=fault.at, problem=f"the answer sends {count} frames")
    return index


def _breaking_off(fault: Fault, response: ScriptedResponse) -> ScriptedResponse:
    if isinstance(response.body, SseBody):
        count = len(response.body.frames)
        if not 0 <= fault.at <= count:
            raise InvalidArgumentError(argument="after", value=fault.at, problem=f"the answer sends {count} frames")
        return replace(response, body=_ended(response.body, fault.at, 0, fault.end))
    return _half(response, fault.end)


def _ended(body: SseBody, frames: int, cut: int, end: BodyEnd) -> SseBody:
    cut = cut or (body.cut_bytes if frames == len(body.frames) else 0)
    return replace(body, truncate_after=frames, cut_bytes=cut, end=end)


def _half(response: ScriptedResponse, end: BodyEnd) -> ScriptedResponse:
    content = sent_bytes(response.body)
    body = RawBody([content[: len(content) // 2]], end)
    return ScriptedResponse(response.status, response.wire_headers, body, response.waits, has_defaults=False)


def _cut_frame(fault: Fault, response: ScriptedResponse) -> ScriptedResponse:
    if not isinstance(response.body, SseBody):
        return _half(response, fault.end)
    index = _index(fault, len(response.body.frames))
    cut = len(response.body.frames[index]) // 2
    return replace(response, body=_ended(response.body, index + 1, cut, fault.end))


def _cut_utf8(fault: Fault, response: ScriptedResponse) -> ScriptedResponse:
    body = _stream_of(fault, response)
    for index in range(_index(fault, len(body.frames)), len(body.frames)):
        frame = body.frames[index]
        first = next((place for place, byte in enumerate(frame) if byte >= 0x80), None)
        if first is not None:
            return replace(response, body=_ended(body, index + 1, len(frame) - first - 1, fault.end))
    raise InvalidArgumentError(
        argument="at", value=fault.at, problem="no frame from there on has a character of several bytes"
    )


def _malformed(fault: Fault, response: ScriptedResponse) -> ScriptedResponse:
    if not isinstance(response.body, SseBody):
        return _half(response, "clean")
    body = response.body
    index = _index(fault, len(body.frames))
    events = list(body.events)
    events[index] = SseEvent(events[index].event, _broken(events[index].data))
    return replace(response, body=replace(body, events=events))


def _broken(data: str) -> str:
    half = data[: len(data) // 2]
    try:
        json.loads(half)
    except ValueError:
        return half or "{"
    return "{" + half


def _duplicate(fault: Fault, response: ScriptedResponse) -> ScriptedResponse:
    body = _stream_of(fault, response)
    index = _index(fault, len(body.frames))
    events = [*body.events[: index + 1], *body.events[index:]]
    delays = list(body.frame_delays)
    delays[index + 1 : index + 1] = [0] if len(delays) > index else []
    waits = [FrameWait(wait.index + (wait.index > index), wait.step) for wait in body.waits]
    count = body.truncate_after if body.truncate_after is None else body.truncate_after + 1
    changed = replace(body, events=events, frame_delays=delays, waits=waits, truncate_after=count)
    return replace(response, body=changed)


def _content_type(fault: Fault, response: ScriptedResponse) -> ScriptedResponse:
    others = [pair for pair in response.wire_headers if pair[0].lower() != "content-type"]
    return replace(response, headers=[("content-type", fault.content_type), *others])


_APPLY: dict[FaultKind, Callable[[Fault, ScriptedResponse], ScriptedResponse]] = {
    "truncate": _breaking_off,
    "abort": _breaking_off,
    "stall": _breaking_off,
    "cut-frame": _cut_frame,
    "cut-utf8": _cut_utf8,
    "malformed": _malformed,
    "duplicate": _duplicate,
    "content-type": _content_type,
}


class RandomFaults:
    """Breaks some answers, at random; the same seed breaks the same ones.

    Args:
        probability: with which an answer is broken, 0 to 1.
        seed: of the choices.
        kinds: what may go wrong; everything but `stall` by default, which only a client's own limit ends.

    Raises:
        InvalidArgumentError: the probability is none, or there is no kind.
    """

    def __init__(
        self,
        probability: float,
        *,
        seed: int = 0,
        kinds: Iterable[FaultKind] = (
            "truncate",
            "abort",
            "cut-frame",
            "cut-utf8",
            "malformed",
            "duplicate",
            "content-type",
        ),
    ) -> None:
        if not 0 <= probability <= 1:
            raise InvalidArgumentError(argument="probability", value=probability, problem="it is 0 to 1")
        self.kinds = tuple(kinds)
        if not self.kinds:
            raise InvalidArgumentError(argument="kinds", value=kinds, problem="give one at least")
        for kind in self.kinds:
            Fault(kind)
        self.probability, self.seed = probability, seed
        self.applied: list[Fault | None] = []
        """What went wrong with each answer, in order; `None`: nothing."""
        self._random = Random(seed)

    def apply(self, response: ScriptedResponse) -> ScriptedResponse:
        """Return an answer, broken or not."""
        # Always the same number of draws, so that one answer's luck does not depend on what another one looks like.
        luck, kind, place = self._random.random(), self._random.choice(self.kinds), self._random.random()
        fault = self._fault(kind, place, response) if luck < self.probability else None
        self.applied.append(fault)
        return response if fault is None else fault.apply(response)

    def _fault(self, kind: FaultKind, place: float, response: ScriptedResponse) -> Fault | None:
        """Return a fault that can hit an answer; `None` if this kind cannot."""
        body = response.body
        if not isinstance(body, SseBody):
            can_break = kind == "content-type" or (kind not in ("cut-utf8", "duplicate") and bool(sent_bytes(body)))
            return None if not can_break else Fault(kind, end=_END.get(kind, "clean"))
        if not body.frames:
            return Fault(kind, end=_END.get(kind, "clean")) if kind in ("abort", "stall", "content-type") else None
        at = int(place * len(body.frames))
        if kind == "cut-utf8":
            wide = [index for index, frame in enumerate(body.frames) if not frame.isascii()]
            if not wide:
                return None
            at = wide[int(place * len(wide))]
        return Fault(kind, at, _END.get(kind, "clean"))


_END: dict[FaultKind, BodyEnd] = {"abort": "abort", "stall": "stall", "cut-frame": "abort", "cut-utf8": "abort"}
