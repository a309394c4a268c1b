"""The client that a model asks with: its own, or one that all models of an event loop share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.lowlevel import RunVar

__all__ = ["unretried"]


class _Client(Protocol):
    """What both SDKs' clients have, as far as it matters here."""

    max_retries: int

    def with_options(self, *, max_retries: int) -> Self: ...


ClientT = TypeVar("ClientT", bound=_Client)


def unretried(client: ClientT | None, shared: RunVar[ClientT], make: Callable[[], ClientT]) -> ClientT:
    """Return a client that does not retry.

    Args:
        client: the one to use, or to copy if it retries.
        shared: where the event loop's own client is kept, for whoever was given none.
        make: makes that client when it is first needed; it must not retry.
    """
    if client is not None:
        return client if client.max_retries == 0 else client.with_options(max_retries=0)
    known = shared.get(None)
    if known is None:
        known = make()
        shared.set(known)
    return known
