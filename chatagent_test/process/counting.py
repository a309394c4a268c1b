"""A server that answers everything with `{}` and counts connections, for tests that a client uses them again.

It says nothing that a model would say; that is what the mock inference server is for.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from typing import TYPE_CHECKING, Any

from chatagent.errors import HarnessStateError

if TYPE_CHECKING:
    from io import BufferedIOBase
    from types import TracebackType
    from typing import Self

__all__ = ["CountingServer"]

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


class CountingServer:
    """Answers every request on a loopback port with 200 and `{}`, and keeps connections alive.

    Use it with `with` or `async with`. It runs on threads of its own, so any client may ask it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heads: list[bytes] = []
        self._open: list[socket.socket] = []
        self._accepts = 0
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT/v1`; a client may ask as soon as the block has begun.

        Raises:
            HarnessStateError: it has not been started.
        """
        if self._server is None:
            raise HarnessStateError("the counting server has no port: enter it (`with CountingServer() as server`)")
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def accepts(self) -> int:
        """How many connections were made."""
        with self._lock:
            return self._accepts

    @property
    def heads(self) -> list[bytes]:
        """The request lines and headers of all requests as they came, with the empty line at their end."""
        with self._lock:
            return list(self._heads)

    def close(self) -> None:
        """Stop, and cut what is still connected; a second call does nothing."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            _cut(connection)
        self._server.server_close()  # waits for the threads of the connections
        self._thread = None

    def __enter__(self) -> Self:
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="counting server")
        self._thread.daemon = True
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # For its connections ------------------------------------------------------------------------------------------

    def connected(self, connection: socket.socket) -> None:
        """Count a connection."""
        with self._lock:
            self._accepts += 1
            self._open.append(connection)

    def asked(self, head: bytes) -> None:
        """Take down the head of a request."""
        with self._lock:
            self._heads.append(head)

    def left(self, connection: socket.socket) -> None:
        """Forget a connection that has ended."""
        with self._lock:
            self._open.remove(connection)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = False  # so that a close waits for them
    request_queue_size = 128

    def __init__(self, counting: CountingServer) -> None:
        self.counting = counting
        super().__init__(("127.0.0.1", 0), _Connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count a connection before its thread begins, so that a close knows of each that was accepted."""
        self.counting.connected(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection whose thread is done with it."""
        self.counting.left(request)
        super().shutdown_request(request)


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Answer requests until the client leaves."""
        assert isinstance(self.server, _Server)
        try:
            while (head := _read_head(self.rfile)) is not None:
                self.server.counting.asked(head)
                _skip_body(self.rfile, head)
                self.wfile.write(_ANSWER)
        except OSError:
            return  # the client has gone, or the server is closed


def _read_head(stream: BufferedIOBase) -> bytes | None:
    """Return a request's head; `None` if the client has nothing more to ask."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = stream.readline()
        if not line:
            return None
        head += line
    return head


def _skip_body(stream: BufferedIOBase, head: bytes) -> None:
    fields = [line.lower().partition(b":") for line in head.split(b"\r\n")[1:]]
    headers = {name.strip(): value.strip() for name, _, value in fields}
    if b"chunked" in headers.get(b"transfer-encoding", b""):
        while (size := int(stream.readline().partition(b";")[0], 16)) > 0:
            stream.read(size + 2)
        while stream.readline() not in (b"\r\n", b""):
            pass  # trailers
    else:
        stream.read(int(headers.get(b"content-length", b"0")))


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended by itself meanwhile
