"""Logs of events and the cursors that read them (rules EV-30 to EV-34).

A watch is a cursor into the log, not a buffer: a slow reader costs nothing and slows nobody. Backends in this process
keep their events in an `EventLog`; a transport over a wire offers the same `EventStream`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from anyio import EndOfStream

from chatagent.protocol.isolation import own_event
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

__all__ = ["EventLog", "EventStream", "LogCursor"]

EventT = TypeVar("EventT", bound="_Numbered")
EventOutT = TypeVar("EventOutT", covariant=True)


class EventStream(Protocol[EventOutT]):
    """The events of a watch, each once, in order.

    Reading must be safe to cancel: an event that was not returned is returned by the next read.
    """

    def __aiter__(self) -> AsyncIterator[EventOutT]: ...

    async def __anext__(self) -> EventOutT:
        """Return the next event, waiting for it if there is none.

        Raises:
            StopAsyncIteration: the watch has ended normally.
            TransportUnavailableError: the connection was lost.
        """
        ...

    def receive_nowait(self) -> EventOutT | None:
        """Return the next event; `None` if none is there yet.

        Raises:
            EndOfStream: the watch has ended normally.
            TransportUnavailableError: the connection was lost.
        """
        ...


class _Numbered(Protocol):
    @property
    def seq(self) -> int: ...


class EventLog(Generic[EventT]):
    """The numbered events of a thread, or of the list of threads; the oldest are dropped when there are too many.

    Args:
        size: how many events are kept at least.
        gap_event: makes the event that stands for those that are not there any more, given the newest number.
    """

    def __init__(self, size: int, gap_event: Callable[[int], EventT]) -> None:
        self.size, self.gap_event = size, gap_event
        self.entries: list[EventT] = []
        """The events that are kept; the oldest of them may be over the size already."""
        self.base = 0
        """How many entries were dropped before the first one in the list."""
        self._full = 2 * size
        self._floor = 0
        """The highest number that can not be replayed any more."""
        self.seq = 0
        """The newest number."""
        self._cursors: dict[LogCursor[EventT], None] = {}
        self._waiters: dict[Waiter, None] = {}

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def watchers(self) -> int:
        """How many watches are open."""
        return len(self._cursors)

    def events(self) -> tuple[EventT, ...]:
        """Return the events that are kept, oldest first."""
        return tuple(self.entries[-self.size :])

    def append(self, event: EventT) -> None:
        """Log an event; every open watch can read it when this returns."""
        entries = self.entries
        entries.append(event)
        if event.seq > self.seq:
            self.seq = event.seq
        if len(entries) > self._full:
            self._drop(len(entries) - self.size)
        if self._waiters:
            self.wake()

    def wake(self) -> None:
        """Let whoever waits for an event look again."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter.wake()

    def skip_to(self, seq: int) -> None:
        """Move the number on without an event; what came before can not be replayed."""
        self.seq = max(self.seq, seq)
        self.forget()

    def forget(self) -> None:
        """Drop every event; a watch that had not read them all is told that there is a gap."""
        self._drop(len(self.entries))
        self._floor = self.seq

    def watch(self, after: int | None) -> LogCursor[EventT]:
        """Open a watch from behind the number `after`; `None`: from now on. Close it with its `close`."""
        cursor = LogCursor(self, self.end_position)
        if after is not None:
            cursor.rewind(after)
        self._cursors[cursor] = None
        return cursor

    def finish(self) -> None:
        """End every open watch normally, once it has read what is there."""
        for cursor in tuple(self._cursors):
            cursor.end(EndOfStream(), keep_unread=True)
        self.wake()

    def cut(self, error: Callable[[], Exception] = EndOfStream) -> None:
        """End every open watch at once: with this error, or normally."""
        for cursor in tuple(self._cursors):
            cursor.end(error(), keep_unread=False)
        self.wake()

    def _drop(self, count: int) -> None:
        if count:
            self._floor = max(self._floor, *(event.seq for event in self.entries[:count]))
            del self.entries[:count]
            self.base += count

    # For cursors --------------------------------------------------------------------------------------------------

    def start_after(self, seq: int) -> int | None:
        """Return the position from which everything above this number can be read; `None` if some of it is gone."""
        end = self.base + len(self.entries)
        oldest = max(self.base, end - self.size)
        position = end
        while position > oldest and self.entries[position - 1 - self.base].seq > seq:
            position -= 1
        if position > oldest:
            return position
        dropped = self._floor if oldest == self.base else self.entries[oldest - 1 - self.base].seq
        return None if dropped > seq else position

    @property
    def end_position(self) -> int:
        """The position behind the newest event."""
        return self.base + len(self.entries)

    def unread(self, position: int) -> list[EventT]:
        """Return everything from a position on."""
        return self.entries[max(0, position - self.base) :]

    def close(self, cursor: LogCursor[EventT]) -> None:
        """Forget a watch."""
        self._cursors.pop(cursor, None)

    def add_waiter(self, waiter: Waiter) -> None:
        """Wake this one at the next event."""
        self._waiters[waiter] = None

    def remove_waiter(self, waiter: Waiter) -> None:
        """Wake it no more."""
        self._waiters.pop(waiter, None)


class LogCursor(Generic[EventT]):
    """One reader's place in a log: an `EventStream`. It holds no scope and no task, so any task may close it.

    What could be changed in an event is the reader's own, so that neither the log nor other readers see what it does.
    """

    __slots__ = ("_end", "_log", "_position", "_rest")

    def __init__(self, log: EventLog[EventT], position: int) -> None:
        self._log, self._position = log, position
        self._rest: deque[EventT] = deque()
        """What is to be read before the log."""
        self._end: Exception | None = None

    def rewind(self, after: int) -> None:
        """Go back to right behind a number, or to a gap if that is gone."""
        position = self._log.start_after(after)
        if position is None:
            self._position = self._log.end_position
            self._rest.append(self._log.gap_event(self._log.seq))
        else:
            self._position = position

    def receive_nowait(self) -> EventT | None:
        """Return the next event; `None` if there is none yet. Raises `EndOfStream` at the end of the watch."""
        if self._rest:
            return own_event(self._rest.popleft())
        if self._end is not None:
            raise self._end
        log = self._log
        index = self._position - log.base
        ahead = len(log.entries) - index
        if ahead <= 0:
            return None
        if index < 0 or ahead > log.size:
            self._position = log.end_position
            return log.gap_event(log.seq)
        self._position += 1
        return own_event(log.entries[index])

    def __aiter__(self) -> AsyncIterator[EventT]:
        return self

    async def __anext__(self) -> EventT:
        while True:
            try:
                event = self.receive_nowait()
            except EndOfStream:
                raise StopAsyncIteration from None
            if event is not None:
                return event
            waiter = Waiter("the next event of a thread")
            self._log.add_waiter(waiter)
            try:
                await waiter.wait()
            finally:
                self._log.remove_waiter(waiter)

    def end(self, error: Exception, *, keep_unread: bool) -> None:
        """End the watch; what was not read yet is still given, or not."""
        if self._end is not None:
            return
        self._rest = deque([*self._rest, *self._log.unread(self._position)] if keep_unread else ())
        self._end = error
        self._log.close(self)

    def close(self) -> None:
        """Take the watch back; whoever still reads finds its end."""
        self.end(EndOfStream(), keep_unread=False)
        self._log.wake()
