"""The one patch of the guard: the network transports of httpx and httpx2 ask whoever guards the caller's context.

The patch is put on with the first guard and taken off with the last. It decides nothing itself; without a guard in the
caller's context a request passes as if it were not there. What stands above the network transports (a client's own
transport, an ASGI app) or below them (respx, which answers in the connection pool) never gets this far: the refusal
waits in the request's `trace` extension, which the pool calls before it opens or uses a connection, and not otherwise.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    Refuse = Callable[[], object]
    Judge = Callable[[Any], Refuse | None]

__all__ = ["TransportHook"]

CLIENTS = ("httpx", "httpx2")
_METHODS = (("HTTPTransport", "handle_request"), ("AsyncHTTPTransport", "handle_async_request"))


class TransportHook:
    """Lets a judge see each request that the network transports of httpx and httpx2 are about to send.

    Args:
        judge: called with the request, in the context of whoever sends it and in any thread; returns a function that
            raises, to be called if the request reaches the network, or `None` to let it pass.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._lock = threading.Lock()
        self._users = 0
        self._patches: list[_Patch] = []

    @property
    def users(self) -> int:
        """How many guards hold the hook."""
        return self._users

    def hold(self) -> None:
        """Put the patch on, unless it is; `release` must follow."""
        with self._lock:
            if not self._users:
                self._patches = [_Patch(owner, name, self._judge) for owner, name in _transports()]
            self._users += 1

    def release(self) -> None:
        """Take the patch off if nobody else holds it."""
        with self._lock:
            self._users -= 1
            if not self._users:
                patches, self._patches = self._patches, []
                for patch in patches:
                    patch.take_off()


class _Patch:
    """A wrapper around one method of one class."""

    def __init__(self, owner: type, name: str, judge: Judge) -> None:
        self._owner, self._name = owner, name
        self._original: Callable[..., Any] = vars(owner)[name]
        self._judge = judge
        is_async = name == "handle_async_request"
        self._wrapper = (self._async_wrapper if is_async else self._sync_wrapper)(self._original)
        setattr(owner, name, self._wrapper)

    def take_off(self) -> None:
        """Put the original back; if somebody has wrapped the wrapper since, it stays, for the judge to let all pass."""
        if vars(self._owner)[self._name] is self._wrapper:
            setattr(self._owner, self._name, self._original)

    def _sync_wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def handle_request(transport: Any, request: Any) -> Any:
            refuse = self._judge(request)
            if refuse is None:
                return original(transport, request)
            with _refused_at_the_wire(request, refuse):
                return original(transport, request)

        return handle_request

    def _async_wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        async def handle_async_request(transport: Any, request: Any) -> Any:
            refuse = self._judge(request)
            if refuse is None:
                return await original(transport, request)
            with _refused_at_the_wire(request, refuse):
                return await original(transport, request)

        return handle_async_request


@contextmanager
def _refused_at_the_wire(request: Any, refuse: Refuse) -> Generator[None]:
    """Let the connection pool raise the refusal at its first step towards the network."""
    kept = request.extensions

    def trace(_event: str, _info: object) -> None:
        refuse()

    request.extensions = {**kept, "trace": trace}
    try:
        yield
    finally:
        request.extensions = kept


def _transports() -> list[tuple[type, str]]:
    """Return the classes that reach the network, with their methods, of the clients that are installed."""
    clients = [import_module(name) for name in CLIENTS if importlib.util.find_spec(name) is not None]
    return [(getattr(client, owner), method) for client in clients for owner, method in _METHODS]
