"""The server as an ASGI application: to be mounted, or called without a socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from chatagent_test.inference.server.mailbox import BodyEnded, Mailbox
from chatagent_test.inference.server.requests import Request, header_pairs
from chatagent_test.inference.steps import Head

if TYPE_CHECKING:
    from chatagent_test.inference.server.core import Core
    from chatagent_test.inference.server.host import Host

__all__ = ["ASGIApp"]

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class BodyBrokenOffError(ConnectionError):
    """Tells the ASGI server to close the connection in mid-body, as the script wants it."""

    def __init__(self) -> None:
        super().__init__("the mock inference server broke the answer off, as its script says")


class ASGIApp:
    """One server's routes as an ASGI 3 application."""

    def __init__(self, core: Core, host: Host) -> None:
        self._core, self._host = core, host

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one connection scope."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:
            raise NotImplementedError(f"the mock inference server speaks HTTP, not {scope['type']}")

    async def _serve(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        read = await self._body(receive)
        if read is None:
            return
        body, is_too_large = read
        path: str = scope["path"]
        root: str = scope.get("root_path", "")
        query = scope.get("query_string", b"").decode("latin-1")
        request = Request(
            scope["method"], path.removeprefix(root), query, header_pairs(scope["headers"]), body, is_too_large
        )
        mailbox, is_whole = Mailbox(), True
        runner = self._host.run(self._core.answer(request), mailbox)
        try:
            async with anyio.create_task_group() as watch:
                watch.start_soon(_until_gone, receive, watch.cancel_scope)
                is_whole = await _deliver(mailbox, send)
                watch.cancel_scope.cancel()
        finally:
            runner.cancel()
        if not is_whole:
            raise BodyBrokenOffError

    async def _body(self, receive: Receive) -> tuple[bytes, bool] | None:
        """Read the body, and whether it is too large; `None` if the client goes away before its end."""
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            piece: bytes = message.get("body", b"")
            size += len(piece)
            if size <= self._core.max_body_bytes:
                pieces.append(piece)
            else:
                pieces.clear()
            if not message.get("more_body", False):
                return b"".join(pieces), size > self._core.max_body_bytes


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _deliver(mailbox: Mailbox, send: Send) -> bool:
    """Send an answer as it comes; return whether it came whole."""
    while True:
        mail = await mailbox.take()
        if isinstance(mail, Head):
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in mail.headers]
            if mail.length is not None:
                headers.append((b"content-length", str(mail.length).encode()))
            await send({"type": "http.response.start", "status": mail.status, "headers": headers})
        elif isinstance(mail, bytes):
            await send({"type": "http.response.body", "body": mail, "more_body": True})
        elif mail is BodyEnded.WHOLE:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return True
        else:
            return False
