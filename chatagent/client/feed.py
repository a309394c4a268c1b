"""A thread as a client follows it: a watch, a model, and what to do when they part (rules EV-35 to EV-39).

No task of its own: whoever waits reads, and wakes the others that wait. A synchronous look takes what is ready. Gaps
are repaired by one `get_thread`, lost connections by opening the watch again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chatagent.client.reader import WatchReader
from chatagent.errors import UIMessageStreamError
from chatagent.protocol import (
    GenerationMessageChunk,
    StateChanged,
    ThreadDeleted,
    ThreadModel,
    TransportProtocolError,
    UnsupportedOperationError,
)
from chatagent.waiting import Gate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.client.context import ClientContext
    from chatagent.protocol import ThreadEvent, ThreadSnapshot

__all__ = ["ThreadFeed", "thread_reader"]

FIRST_POLL: Final = 0.25
LONGEST_POLL: Final = 2.0
"""How often a thread is read where there are no watches, in seconds."""


def thread_reader(thread_id: str, context: ClientContext) -> WatchReader[ThreadEvent]:
    """Return a reader of a thread's events."""
    return WatchReader(lambda after: context.transport.watch_thread(thread_id, after=after), context)


class ThreadFeed:
    """Follows one thread.

    Args:
        thread_id: the thread.
        context: the client that it belongs to.
        load: reads the thread's snapshot, which an event of this number needs; 0 for the one of now.
    """

    def __init__(
        self,
        thread_id: str,
        context: ClientContext,
        *,
        load: Callable[[int], Awaitable[ThreadSnapshot | None]],
    ) -> None:
        self._load_snapshot = load
        self.model = ThreadModel(thread_id)
        self.reader = thread_reader(thread_id, context)
        self.reader.on_close = self._tell_waiters
        self.is_stale = False
        """Whether the backend has a state that events cannot bring this one to."""
        self.is_loaded = False
        self.polls = False
        """Whether the transport has no watches."""
        self.has_ended = False
        """Whether a watch has ended normally: the thread was deleted, or the backend has begun anew."""
        self.deletions = 0
        """How often the thread was deleted while it was followed."""
        self._cause = 0
        """The number of the event that made the state stale."""
        self._restarted = False
        """Whether the backend has begun anew, so that its numbers say nothing about ours."""
        self._expects_end = False
        """Whether the thread was deleted, so that its watch ends."""
        self._refused = False
        """Whether a chunk was refused, and no event has fitted since."""
        self._mending = False
        self._changed = Gate("a change of a thread")

    # Taking what is there -----------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Apply every event that is ready, up to the first that does not fit."""
        if not self.reader.is_open or self.is_stale:
            return
        before = self.model.seq
        self.reader.take_ready(self._take_next)
        self._notice_end()
        if self.model.seq != before or self.is_stale or not self.reader.is_open:
            self.tell()

    def _take_next(self, event: ThreadEvent) -> bool:
        """Apply an event; returns whether the next one can be taken."""
        model = self.model
        if type(event) is GenerationMessageChunk and event.seq == model.seq + 1 and not self._refused:
            try:
                model.apply_chunk(event)
            except UIMessageStreamError:
                self._refuse(event)
                return False
            return True
        self.take(event)
        return not self.is_stale

    def _refuse(self, event: ThreadEvent) -> None:
        self._refused = True
        self.make_stale(event.seq)

    def take(self, event: ThreadEvent) -> bool:
        """Apply an event if it is the next one; returns whether it says anything new.

        Raises:
            TransportProtocolError: the state that a repair has just brought refuses this chunk too.
        """
        model, seq = self.model, event.seq
        if seq != model.seq + 1:
            if seq > model.seq:
                self.make_stale(seq)
            return seq > model.seq
        try:
            model.apply(event)
        except UIMessageStreamError as refused:
            if self._refused:
                raise TransportProtocolError(operation="watch_thread", detail=str(refused)) from refused
            self._refuse(event)
            return True
        self._refused = False
        kind = type(event)
        if kind is StateChanged:
            self.make_stale(seq)
        elif kind is ThreadDeleted:
            self.deletions += 1
            self._expects_end = True
        return True

    def make_stale(self, seq: int = 0) -> None:
        """Let the next awaited call read the thread anew, because of the event of this number."""
        self.is_stale = True
        self._cause = max(self._cause, seq)

    def tell(self) -> None:
        """Let everybody who waits look again, also who reads for the others: what it waits for may have been read."""
        self._tell_waiters()
        self.reader.interrupt()

    def _tell_waiters(self) -> None:
        gate, self._changed = self._changed, Gate("a change of a thread")
        gate.open()

    def _notice_end(self) -> None:
        if not self.reader.has_ended:
            return
        self.reader.has_ended = False
        self.has_ended = True
        # A watch that ends without the thread's deletion says that the backend starts anew (EV-32).
        self._restarted, self._expects_end = not self._expects_end, False
        self.make_stale(0 if self._restarted else self.model.seq)

    # Waiting for more ---------------------------------------------------------------------------------------------

    async def ready(self) -> None:
        """Bring the state up to what the backend has said; read a snapshot and open the watch if need be."""
        self.reader.check_open()
        self.drain()
        while self.needs_mending:
            await self.mend()
            self.drain()

    async def refresh(self) -> None:
        """Read the thread anew, and open the watch if it is not open."""
        self.reader.check_open()
        self.drain()
        self.make_stale()
        await self.ready()

    async def wait_for(self, done: Callable[[], bool]) -> None:
        """Return once `done()` is true of the state; it is asked after every change."""
        await self.ready()
        poll = 0.0
        while not done():
            if self.polls:
                if poll:
                    await self.reader.sleep(poll)
                poll = min(max(FIRST_POLL, 2 * poll), LONGEST_POLL)
                await self.refresh()
            else:
                await self.advance()
                await self.ready()

    async def advance(self) -> None:
        """Wait until something has changed: read by this task, or by another one that waits."""
        if self.reader.is_reading or self._mending:
            await self._changed.wait()
            self.reader.check_open()
            return
        event: ThreadEvent | None = None
        try:
            event = await self.reader.read()
            if event is not None:
                self.take(event)
            self._notice_end()
        finally:
            self.tell()  # the others look, and one of them reads on

    async def next_event(self) -> ThreadEvent | None:
        """Wait for the next event that says something new, and apply it; `None` if only a repair tells the state."""
        while True:
            event = self.reader.receive()
            if event is None and self.reader.is_open:
                event = await self.reader.read()
            if event is None:
                self._notice_end()
                if self.is_stale or not self.reader.is_open:
                    return None
            elif self.take(event):
                return event

    @property
    def needs_mending(self) -> bool:
        """Whether a snapshot must be read, or the watch opened, before events tell more."""
        return self._needs_snapshot() or self._needs_watch()

    def _needs_snapshot(self) -> bool:
        return self.is_stale or not self.is_loaded

    def _needs_watch(self) -> bool:
        return not self.reader.is_open and not self.polls

    async def mend(self) -> None:
        """Bring state and backend together, as far as one task at a time can."""
        if self._mending:
            await self._changed.wait()
            self.reader.check_open()
            return
        self._mending = True
        try:
            if self._needs_snapshot():
                await self._load()
            if self._needs_watch():
                await self._open()
        finally:
            self._mending = False
            self.tell()

    async def _load(self) -> None:
        snapshot = await self._load_snapshot(self._cause)
        self.reader.check_open()
        cause, restarted = self._cause, self._restarted
        self._cause, self._restarted, self.is_stale, self.is_loaded = 0, False, False, True
        if snapshot is None:
            if self.model.exists:
                self.deletions += 1
            self.model.clear(0 if restarted else cause)
        elif restarted or snapshot.seq >= self.model.seq:
            self.model.load(snapshot)

    async def _open(self) -> None:
        try:
            await self.reader.open(self.model.seq)
        except UnsupportedOperationError:
            self.polls = True
