"""The UI message stream as server-sent events: chunks to bytes, and bytes in any pieces to chunks. No I/O.

Follows rules 17.1 to 17.4 and, for reading, the WHATWG HTML standard, section "Server-sent events".
"""

from __future__ import annotations

import codecs
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from chatagent.errors import ChunkError, InvalidArgumentError
from chatagent.ui.codec import parse_chunk, to_wire
from chatagent.ui.js_json import format_json_bytes
from chatagent.ui.slots import UNSET, WireObject
from chatagent.ui.strict_json import find_forbidden_key, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.ui.chunks import Chunk

__all__ = ["SSE_DONE", "SSE_HEADERS", "SSE_KEEP_ALIVE", "SSE_OPEN", "SSEDecoder", "format_sse"]

SSE_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "connection": "keep-alive",
        "x-vercel-ai-ui-message-stream": "v1",
        "x-accel-buffering": "no",
    }
)
"""Headers of a response that carries a UI message stream; headers that the user gives win over them."""

SSE_DONE: Final = b"data: [DONE]\n\n"
"""Ends a stream that did not fail."""

SSE_OPEN: Final = b": stream-open\n\n"
"""Begins a stream that is kept alive, so that something is sent before the first chunk is there."""

SSE_KEEP_ALIVE: Final = b": keep-alive\n\n"
"""Sent when nothing else was, so that nobody between takes the connection for dead."""


def format_sse(chunk: Chunk | Mapping[str, object]) -> bytes:
    """Return the event of one chunk, JSON spelled as JavaScript does.

    Args:
        chunk: the chunk; its wire form is taken as it is, without a check and with its keys in the given order.

    Raises:
        ChunkError: a value has no JSON form (a number that is not finite, an object that is no JSON).
    """
    wire = to_wire(chunk) if isinstance(chunk, WireObject) else chunk
    try:
        return b"data: " + format_json_bytes(wire) + b"\n\n"
    except InvalidArgumentError as error:
        field = error.argument.removeprefix("value.")
        raise ChunkError(
            chunk_type=wire.get("type", UNSET), field=field, value=error.value, problem=error.problem
        ) from None


_LINE_END: Final = re.compile(r"\r\n|\n|\r")


class SSEDecoder:
    """Reads the events of one response, however its bytes are cut.

    Comments and fields other than `data` are passed over, and so is `[DONE]`: a stream ends with its body, not before.
    An event whose blank line never comes is lost.
    """

    def __init__(self) -> None:
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._after_cr = False
        """Whether the text so far ends with a CR, to which an LF behind it belongs."""
        self._line: list[str] = []
        """Pieces of the line that has no end yet."""
        self._data: list[str] = []
        """Data lines of the event that has no end yet."""
        self._failure: ChunkError | None = None

    def feed(self, data: bytes) -> list[Chunk]:
        """Take the next bytes and return the chunks that they complete.

        Raises:
            ChunkError: an event is no JSON, or no chunk that this release knows. Chunks before it in the same bytes are
                returned first; then the next call raises, `close` included. A decoder that has failed stays so.
        """
        self._raise_failure()
        chunks: list[Chunk] = []
        try:
            for line in self._lines(self._utf8.decode(data)):
                self._take_line(line, chunks)
        except ChunkError as error:
            self._failure = error
            if not chunks:
                raise
        return chunks

    def close(self) -> None:
        """Say that the body has ended. An unfinished event is dropped.

        Raises:
            ChunkError: the last bytes held an event that is no chunk, behind good ones.
        """
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _lines(self, text: str) -> list[str]:
        """Return the lines that the text completes, and keep what is left of it."""
        if not text:
            return []
        if self._after_cr and text[0] == "\n":
            text = text[1:]
        self._after_cr = text.endswith("\r")
        lines = _LINE_END.split(text)
        rest = lines.pop()
        if lines:
            lines[0] = "".join([*self._line, lines[0]])
            self._line = []
        if rest:
            self._line.append(rest)
        return lines

    def _take_line(self, line: str, chunks: list[Chunk]) -> None:
        if not line:
            lines, self._data = self._data, []
            if lines and lines != ["[DONE]"]:
                chunks.append(_parse_event("\n".join(lines)))
            return
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))


def _parse_event(data: str) -> Chunk:
    try:
        wire = parse_json(data)
    except ValueError as error:
        raise ChunkError(chunk_type=UNSET, field="data", value=data, problem=f"it is no JSON: {error}") from None
    forbidden = find_forbidden_key(wire) if "__proto__" in data or "constructor" in data or "\\" in data else None
    if forbidden is not None:
        kind = cast("dict[str, object]", wire).get("type", UNSET) if isinstance(wire, dict) else UNSET
        raise ChunkError(
            chunk_type=kind, field="data", value=data, problem=f"its key `{forbidden}` is refused by clients"
        )
    return parse_chunk(wire)
