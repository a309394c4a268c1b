"""Server-sent events: one event as a value, to bytes and back, without I/O.

`SseParser` is fed whatever the socket gave. It reads as the SDKs do: lines end with LF, CRLF or CR alone, a block
without its blank line is dropped, and a byte-order mark is not skipped, so that the first frame behind one is lost.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.compact import compact_json

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SseEvent", "SseParser", "parse_sse", "render_sse"]


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event of a stream (3.1).

    Args:
        event: the name on the `event:` line; `None` leaves the line out.
        data: the text behind `data:`, one such line for each of its lines.

    Raises:
        InvalidArgumentError: the name is empty or holds a line end, or the data holds a CR, which no frame can carry.
    """

    event: str | None
    data: str

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.data), str):
            problem = "it is a string; `SseEvent.of` and `SseEvent.named` take JSON values"
            raise InvalidArgumentError(argument="data", value=self.data, problem=problem)
        if "\r" in self.data:
            raise InvalidArgumentError(argument="data", value=self.data, problem="a frame cannot carry a CR")
        _need_utf8("data", self.data)
        if self.event is not None:
            _check_name(self.event)

    @classmethod
    def of(cls, data: object) -> SseEvent:
        """Return an event without a name; what is no string is dumped as compact JSON."""
        return cls(None, data if isinstance(data, str) else compact_json(data))

    @classmethod
    def named(cls, event: str, data: object) -> SseEvent:
        """Return an event with a name; what is no string is dumped as compact JSON."""
        return cls(event, data if isinstance(data, str) else compact_json(data))


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(argument="event", value=name, problem="a name is a text; `None` leaves it out")
    if "\r" in name or "\n" in name:
        raise InvalidArgumentError(argument="event", value=name, problem="a name is one line")
    _need_utf8("event", name)


def _need_utf8(argument: str, text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidArgumentError(argument=argument, value=text, problem=f"UTF-8 cannot say it: {exc}") from exc


def render_sse(event: SseEvent) -> bytes:
    """Return one event as its frame, blank line included (3.5)."""
    data = event.data.replace("\n", "\ndata: ") if "\n" in event.data else event.data
    name = "" if event.event is None else f"event: {event.event}\n"
    return f"{name}data: {data}\n\n".encode()


class SseParser:
    """Bytes in, events out, however the bytes are cut."""

    __slots__ = ("_after_cr", "_data", "_decode", "_name", "_rest")

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest: list[str] = []
        self._after_cr = False
        self._name: str | None = None
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events that this chunk completes; bytes that are no UTF-8 come as U+FFFD."""
        text = self._with_lf(self._decode(chunk))
        if "\n" not in text:
            self._rest.append(text)
            return []
        first, *lines = text.split("\n")
        lines = ["".join((*self._rest, first)), *lines]
        self._rest = [lines.pop()]
        return [event for line in lines if (event := self._read(line)) is not None]

    def _with_lf(self, text: str) -> str:
        """Make every line end an LF. A CR counts at once; the LF that may follow it in the next chunk does not."""
        if self._after_cr and text:
            text = text.removeprefix("\n")
            self._after_cr = False
        if "\r" not in text:
            return text
        self._after_cr = text.endswith("\r")
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def _read(self, line: str) -> SseEvent | None:
        if not line:
            return self._take()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value or None
        return None

    def _take(self) -> SseEvent | None:
        name, self._name = self._name, None
        data, self._data = self._data, []
        return SseEvent(name, "\n".join(data)) if data else None


def parse_sse(body: bytes | Iterable[bytes]) -> list[SseEvent]:
    """Return the events of a body, given whole or in chunks.

    Comments, `id:` and `retry:` say nothing here; a block without data is no event.
    """
    parser = SseParser()
    return [event for chunk in ((body,) if isinstance(body, bytes) else body) for event in parser.feed(chunk)]
