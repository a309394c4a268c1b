"""A connection that loses, repeats or changes an event: what a client must mend by itself (rules EV-19, EV-35)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.protocol import UnknownEvent
from chatagent_test.conformance.forwarding import ForwardingTransport
from chatagent_test.conformance.streams import AlteredWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from chatagent.client import AgentClientTransport
    from chatagent.protocol import EventStream, ThreadEvent

__all__ = ["TamperedTransport", "lost", "repeated", "unknown"]


class TamperedTransport(ForwardingTransport):
    """Does something to the first event that is chosen.

    Args:
        inner: where calls go.
        chosen: which event.
        become: what comes in its place.
    """

    def __init__(
        self,
        inner: AgentClientTransport,
        *,
        chosen: Callable[[ThreadEvent], bool],
        become: Callable[[ThreadEvent], Iterable[ThreadEvent]],
    ) -> None:
        super().__init__(inner)
        self._chosen, self._become = chosen, become
        self.is_done = False
        """Whether such an event has come."""

    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        return AlteredWatch(super().watch_thread(thread_id, after=after), self._pass)

    def _pass(self, event: ThreadEvent) -> Iterable[ThreadEvent]:
        if self.is_done or not self._chosen(event):
            return (event,)
        self.is_done = True
        return self._become(event)


def lost(event: ThreadEvent) -> Iterable[ThreadEvent]:
    """Nothing comes."""
    del event
    return ()


def repeated(event: ThreadEvent) -> Iterable[ThreadEvent]:
    """The event comes twice."""
    return (event, event)


def unknown(event: ThreadEvent) -> Iterable[ThreadEvent]:
    """An event comes that no release knows yet."""
    return (UnknownEvent(type="future.thing", thread_id=event.thread_id, seq=event.seq, at=event.at),)
