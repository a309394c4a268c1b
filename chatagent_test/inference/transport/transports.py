"""Transports for `httpx` and `httpx2` clients that reach a server in process, and stream as a socket does.

Both libraries' own ASGI transports read an answer to its end before they return it, so that a held stream would never
come. The classes are made when they are first asked for, since a base class must be of the library at hand.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from chatagent_test.inference.transport.exchange import Exchange, HTTPLibrary, import_library

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from chatagent_test.inference.server.core import Core
    from chatagent_test.inference.server.host import Host

__all__ = ["create_transport"]


def create_transport(core: Core, host: Host, *, library: HTTPLibrary, is_async: bool) -> Any:
    """Return a transport of a library that talks to a server.

    Raises:
        MissingExtraError: the library is not installed.
    """
    blocking, streaming = _transport_classes(library)
    return (streaming if is_async else blocking)(core, host)


@cache
def _transport_classes(library: HTTPLibrary) -> tuple[Any, Any]:  # noqa: C901 - four classes of a few lines each
    http = import_library(library)

    class SyncBody(http.SyncByteStream):
        def __init__(self, exchange: Exchange) -> None:
            self._exchange = exchange

        def __iter__(self) -> Iterator[bytes]:
            return self._exchange.body()

        def close(self) -> None:
            self._exchange.close()

    class AsyncBody(http.AsyncByteStream):
        def __init__(self, exchange: Exchange) -> None:
            self._exchange = exchange

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self  # no generator, which trio would miss if a client stopped in the middle of it

        async def __anext__(self) -> bytes:
            return await self._exchange.anext_piece()

        async def aclose(self) -> None:
            self._exchange.close()

    class MockInferenceTransport(http.BaseTransport):
        """Reaches a mock inference server in process, for blocking clients."""

        def __init__(self, core: Core, host: Host) -> None:
            self._core, self._host = core, host

        def handle_request(self, request: Any) -> Any:
            exchange = Exchange(self._core, self._host, request, request.read(), http)
            return exchange.response(exchange.head(), SyncBody(exchange))

    class AsyncMockInferenceTransport(http.AsyncBaseTransport):
        """Reaches a mock inference server in process, for async clients."""

        def __init__(self, core: Core, host: Host) -> None:
            self._core, self._host = core, host

        async def handle_async_request(self, request: Any) -> Any:
            exchange = Exchange(self._core, self._host, request, await request.aread(), http)
            return exchange.response(await exchange.ahead(), AsyncBody(exchange))

    return MockInferenceTransport, AsyncMockInferenceTransport
