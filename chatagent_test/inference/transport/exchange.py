"""One request of an in-process client: how it is handed to the server, and how its answer is read as it comes.

`httpx` and `httpx2` look alike, so both are served by this code; which of them it is, is an argument.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from chatagent.errors import MissingExtraError
from chatagent_test.inference.errors import ServerClosedError
from chatagent_test.inference.server.mailbox import BodyEnded, Mailbox
from chatagent_test.inference.server.requests import Request, header_pairs
from chatagent_test.inference.steps import Head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatagent_test.inference.server.core import Core
    from chatagent_test.inference.server.host import Host
    from chatagent_test.inference.server.mailbox import Mail
    from chatagent_test.inference.server.running import Runner

__all__ = ["Exchange", "HTTPLibrary", "import_library"]

HTTPLibrary: TypeAlias = Literal["httpx2", "httpx"]


def import_library(library: HTTPLibrary) -> Any:
    """Import an HTTP library.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return import_module(library)
    except ImportError as exc:
        raise MissingExtraError(package=library, extra="test") from exc


class Exchange:
    """A request under way; both the transports' worlds, blocking and async, read from it."""

    def __init__(self, core: Core, host: Host, request: Any, body: bytes, library: Any) -> None:
        self._library, self._request = library, request
        path, _, query = request.url.raw_path.decode("latin-1").partition("?")
        is_too_large = len(body) > core.max_body_bytes
        asked = Request(
            request.method, path, query, header_pairs(request.headers.raw), b"" if is_too_large else body, is_too_large
        )
        self._mailbox = Mailbox()
        try:
            steps = core.answer(asked)
        except ServerClosedError as exc:
            raise library.ConnectError(str(exc), request=request) from exc
        self._runner: Runner = host.run(steps, self._mailbox)
        timeouts: dict[str, float | None] = request.extensions.get("timeout", {})
        self._read_timeout = timeouts.get("read")

    # Blocking ----------------------------------------------------------------------------------------------------

    def head(self) -> Head:
        """Wait for the head of the answer."""
        try:
            return self._as_head(self._mailbox.take_sync(self._read_timeout))
        except BaseException:
            self.close()
            raise

    def body(self) -> Iterator[bytes]:
        """Read the body, frame by frame, as it comes."""
        while (piece := self._as_piece(self._mailbox.take_sync(self._read_timeout))) is not None:
            yield piece

    # Async -------------------------------------------------------------------------------------------------------

    async def ahead(self) -> Head:
        """Wait for the head of the answer."""
        try:
            return self._as_head(await self._mailbox.take(self._read_timeout))
        except BaseException:
            self.close()
            raise

    async def anext_piece(self) -> bytes:
        """Read the next frame of the body as it comes; `StopAsyncIteration` behind the last."""
        piece = self._as_piece(await self._mailbox.take(self._read_timeout))
        if piece is None:
            raise StopAsyncIteration
        return piece

    # Both --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop reading: to the server, the client has gone, unless all has been sent."""
        self._runner.cancel()

    def response(self, head: Head, stream: object) -> Any:
        """Return the library's response."""
        headers = [*head.headers]
        if head.length is not None:
            headers.append(("content-length", str(head.length)))
        return self._library.Response(head.status, headers=headers, stream=stream, request=self._request)

    def _as_head(self, mail: Mail | None) -> Head:
        if isinstance(mail, Head):
            return mail
        raise self._failure(mail)

    def _as_piece(self, mail: Mail | None) -> bytes | None:
        if isinstance(mail, bytes):
            return mail
        if mail is BodyEnded.WHOLE:
            return None
        raise self._failure(mail)

    def _failure(self, mail: Mail | None) -> Exception:
        if mail is None:
            text = f"the mock inference server sent nothing within {self._read_timeout:g} s"
            return self._library.ReadTimeout(text, request=self._request)
        text = "peer closed connection without sending complete message body (incomplete chunked read)"
        return self._library.RemoteProtocolError(text, request=self._request)
