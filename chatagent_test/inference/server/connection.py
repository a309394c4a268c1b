"""HTTP/1.1 on a socket: httptools reads requests, an asyncio protocol moves the bytes, heads are written here.

Tried beside it: h11 reads a third as many requests a second, and uvicorn cannot be started and stopped within
milliseconds. All that an answer says before it waits goes out in one write, in which every frame is still a chunk of
its own, so clients see the frames of the script.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

import httptools

from chatagent_test.inference.errors import ServerClosedError
from chatagent_test.inference.server.requests import Request, header_pairs
from chatagent_test.inference.steps import NO_BODY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent_test.inference.server.core import Core
    from chatagent_test.inference.server.host import Host
    from chatagent_test.inference.server.running import Runner
    from chatagent_test.inference.steps import Head

__all__ = ["Connection"]

MAX_HEAD_BYTES = 256 * 1024


@dataclass(slots=True)
class _Asked:
    """A request that waits for its answer, and what its connection expects of that."""

    request: Request
    keeps_alive: bool
    takes_chunks: bool


class Connection(asyncio.Protocol):
    """One client connection, and the sink of the answers to its requests, one at a time."""

    def __init__(self, core: Core, host: Host) -> None:
        self._core, self._host = core, host
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._url = b""
        self._raw_headers: list[tuple[bytes, bytes]] = []
        self._headers: Sequence[tuple[str, str]] = ()
        self._offered: Sequence[tuple[str, str]] | None = None
        """The headers as they came of a request that offers another protocol."""
        self._body: list[bytes] = []
        self._size = self._head_size = 0
        self._waiting: deque[_Asked] = deque()
        self._asked: _Asked | None = None
        """The request that is being answered."""
        self._runner: Runner | None = None
        self._out: list[bytes] = []
        self._is_chunked = self._has_no_body = False
        self._owes_continue = False
        """The client holds its body back until it is told to go on."""
        self._refusal: tuple[int, str] | None = None
        """What is said to what is no HTTP, behind the answers that are under way; nothing more is read."""

    # What comes in -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._host.connections.add(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone: its answer ends, whatever it waits for."""
        if self._transport is not None:
            self._host.forget(self._transport)
        self._transport = None
        if self._runner is not None:
            self._runner.cancel()

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        if self._refusal is not None:
            return
        self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._pass_over_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(400, str(error))
        else:
            if self._head_size > MAX_HEAD_BYTES:
                self._refuse(431, f"the head is over {MAX_HEAD_BYTES} bytes")

    def _pass_over_upgrade(self, rest: bytes) -> None:
        """Read a request on that offers another protocol, behind whose head the parser has stopped.

        None is spoken here, so a new parser gets the same head without the offer.
        """
        method, headers = self._parser.get_method(), self._headers
        if method == b"CONNECT":
            self._refuse(405, "this is no proxy")
            return
        kept = [f"{name}: {value}\r\n" for name, value in headers if name not in ("connection", "upgrade")]
        head = b"%b %b HTTP/1.1\r\n%b\r\n" % (method, self._url, "".join(kept).encode("latin-1"))
        self._parser, self._offered = httptools.HttpRequestParser(self), headers
        self.data_received(head + rest)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url, self._headers, self._size = b"", (), 0
        self._raw_headers.clear()
        self._body.clear()

    def on_url(self, url: bytes) -> None:
        """A piece of its target has come."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header has come."""
        self._raw_headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._head_size = 0
        self._headers = header_pairs(self._raw_headers)
        self._owes_continue = any(name == "expect" and value.lower() == "100-continue" for name, value in self._headers)
        if self._asked is None:
            self._say_continue()

    def on_body(self, body: bytes) -> None:
        """A piece of the body has come."""
        self._head_size = 0
        self._size += len(body)
        if self._size <= self._core.max_body_bytes:
            self._body.append(body)
        else:  # read to its end all the same, since a client that still sends hears no answer
            self._body.clear()

    def on_message_complete(self) -> None:
        """The request is whole."""
        self._head_size, self._owes_continue = 0, False
        parser = self._parser
        if parser.should_upgrade():
            return
        self._waiting.append(_Asked(self._request(), parser.should_keep_alive(), parser.get_http_version() != "1.0"))
        if self._asked is None:
            self._answer()

    def _request(self) -> Request:
        target = self._url.decode("latin-1")
        if not target.startswith("/"):  # an absolute URL, as clients of a proxy send it
            target = "/" + target.partition("://")[2].partition("/")[2]
        path, _, query = target.partition("?")
        method, body = self._parser.get_method().decode("latin-1"), b"".join(self._body)
        headers, self._offered = self._offered or self._headers, None
        return Request(method, path, query, headers, body, self._size > self._core.max_body_bytes)

    # Answering ---------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        """Answer what waits, until an answer takes its time."""
        while self._waiting and self._transport is not None and not self._transport.is_closing():
            self._asked = self._waiting.popleft()
            try:
                steps = self._core.answer(self._asked.request)
            except ServerClosedError:
                self._close()
                return
            runner = self._host.run(steps, self)
            if not runner.is_done:
                self._runner = runner
                return
            self._next()
        if self._refusal is not None:
            self._tell(*self._refusal)
        self._say_continue()

    def _next(self) -> None:
        """Leave the request that has been answered behind."""
        assert self._asked is not None
        keeps_alive = self._asked.keeps_alive
        self._asked = self._runner = None
        if not keeps_alive or self._host.is_stopping:
            self._close()

    def _refuse(self, status: int, problem: str) -> None:
        """Read no further, and answer what is no HTTP when nothing is under way any more."""
        self._refusal = (status, problem)
        if self._asked is None:
            self._tell(status, problem)

    def _tell(self, status: int, problem: str) -> None:
        """Say what is wrong, and close."""
        text = problem.encode("utf-8", "replace")
        head = _head_bytes(status, (("content-type", "text/plain; charset=utf-8"),))
        self._write(b"%bcontent-length: %d\r\nconnection: close\r\n\r\n%b" % (head, len(text), text))
        self._close()

    def _say_continue(self) -> None:
        """Have the client send its body: not in the midst of another answer, which would be broken by it."""
        if self._owes_continue:
            self._owes_continue = False
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # What goes out -----------------------------------------------------------------------------------------------

    def head(self, head: Head) -> None:
        """Begin a response; without a length it is chunked, or lasts as long as the connection."""
        assert self._asked is not None
        asked = self._asked
        self._has_no_body = asked.request.method == "HEAD" or head.status in NO_BODY
        self._is_chunked = head.length is None and asked.takes_chunks and not self._has_no_body
        self._out.append(_head_bytes(head.status, head.headers))
        if head.length is not None:
            self._out.append(b"content-length: %d\r\n" % head.length)
        elif self._is_chunked:
            self._out.append(b"transfer-encoding: chunked\r\n")
        elif not self._has_no_body:
            asked.keeps_alive = False
        if not asked.keeps_alive:
            self._out.append(b"connection: close\r\n\r\n")
        else:  # the older HTTP has to be told
            self._out.append(b"\r\n" if asked.takes_chunks else b"connection: keep-alive\r\n\r\n")

    def frames(self, frames: Sequence[bytes]) -> None:
        """Send pieces of the body."""
        if self._is_chunked:
            self._out += [b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames if frame]
        elif not self._has_no_body:
            self._out += frames

    def flush(self) -> None:
        """Send what has gathered, in one write."""
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._write(data)

    def end(self) -> None:
        """End the response; the next request, if the connection stays open."""
        if self._is_chunked:
            self._out.append(b"0\r\n\r\n")
        self.flush()
        if self._runner is not None:  # else it has ended without a wait, and whoever began it goes on
            self._next()
            self._answer()

    def cut(self) -> None:
        """Close without the end of the body; what was said before still goes out."""
        self.flush()
        self._close()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


@lru_cache(maxsize=256)
def _head_bytes(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    """Return a status line and headers, without the blank line; scripts have been checked for what cannot be sent."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers)]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")
