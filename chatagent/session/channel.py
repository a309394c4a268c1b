"""One end of a session's channel: how its records are handed out to those who wait for them or listen.

The logs in the store hold the truth; these stand on top of them. Input follows the dispatch rules C-30 to C-39: a
record goes to whoever waits for it, else to the handlers, else into a buffer until somebody wants it. A wait may ask
for records of one kind only, and leaves the others where they are (G-27).
"""

from __future__ import annotations

import inspect
import json
import logging
from bisect import insort
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from chatagent.current import current_surroundings
from chatagent.errors import InputStreamTimeoutError, WaitpointTimeoutError, WaitTimeoutError
from chatagent.session.records import NewRecord, Record, is_command
from chatagent.session.suspension import SuspendedWait
from chatagent.timers import wait_until
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from chatagent.clock import Clock
    from chatagent.session.records import Direction
    from chatagent.session.store import AppendAck, RecordPage, SessionStore
    from chatagent.tasks import OwnedTask, TaskSet

__all__ = ["Channel", "InputProgress", "Subscription", "WaitResult"]

logger = logging.getLogger("chatagent")

Handler = "Callable[[Record], object]"
Matches = "Callable[[Record], bool]"


@dataclass(frozen=True, slots=True)
class WaitResult:
    """How a wait for input ended."""

    ok: bool
    output: Record | None = None
    """The record, if one came."""
    error: WaitTimeoutError | None = None
    """Why none came."""


class Subscription:
    """A handler's place on a channel."""

    __slots__ = ("_off",)

    def __init__(self, off: Callable[[], None]) -> None:
        self._off = off

    def off(self) -> None:
        """Take the handler away; a second call does nothing."""
        self._off()


class InputProgress:
    """How far the input was worked off: the highest number such that every record up to it is done with (G-26)."""

    __slots__ = ("_ahead", "committed")

    def __init__(self) -> None:
        self.committed = -1
        self._ahead: set[int] = set()

    def start_after(self, seq: int) -> None:
        """Take every record up to `seq` as done with; never goes back."""
        self.committed = max(self.committed, seq)
        self._ahead = {each for each in self._ahead if each > self.committed}
        self._catch_up()

    def done(self, seq: int | None) -> None:
        """Take one record as done with: its turn is complete, or it was a stop, or nobody wants it."""
        if seq is not None and seq > self.committed:
            self._ahead.add(seq)
            self._catch_up()

    @property
    def ahead(self) -> tuple[int, ...]:
        """The numbers of the records that are done with although one before them is not, in order."""
        return tuple(sorted(self._ahead))

    def is_done(self, seq: int) -> bool:
        """Return whether a record is done with."""
        return seq <= self.committed or seq in self._ahead

    def _catch_up(self) -> None:
        while self.committed + 1 in self._ahead:
            self.committed += 1
            self._ahead.discard(self.committed)


class _Once:
    """One wait for one record."""

    __slots__ = ("is_claimed", "matches", "record", "waiter")

    def __init__(self, matches: Callable[[Record], bool] | None, label: str) -> None:
        self.matches = matches
        self.record: Record | None = None
        self.is_claimed = False
        """Whether a handler that saw a copy of the record wants it too."""
        self.waiter = Waiter(label)


class Channel:
    """An end of one of a session's two channels. A run holds one of `.in`.

    Args:
        session_id: the session's external id.
        direction: which channel.
        store: where the log is.
        clock: what timeouts are measured on.
        tasks: the run's tasks; the one that reads the log is started there when first needed.
        epoch: the epoch of the run that appends; `.out` takes no record without.
    """

    def __init__(
        self,
        session_id: str,
        direction: Direction = "in",
        *,
        store: SessionStore,
        clock: Clock,
        tasks: TaskSet,
        epoch: int | None = None,
    ) -> None:
        self.session_id = session_id
        self.direction: Direction = direction
        self._epoch = epoch
        self.last_seq_num: int | None = None
        """Highest number received (C-21)."""
        self.last_dispatched_seq_num: int | None = None
        """Highest number consumed (C-22)."""
        self.progress = InputProgress()
        """What of the input is done with; the committed cursor."""
        self._store, self._clock, self._tasks = store, clock, tasks
        self._buffer: list[Record] = []
        self._waiting: list[_Once] = []
        self._handlers: dict[object, Callable[[Record], object]] = {}
        self._deliveries: list[tuple[int, Waiter]] = []
        self._handling: set[OwnedTask] = set()
        """Async handlers at work."""
        self._reader: OwnedTask | None = None
        self._pages: object = None
        """What the reader reads."""
        self._failure: Exception | None = None
        self._interrupted = False

    def start_after(self, seq: int) -> None:
        """Move both cursors forward to `seq`: what is at or below it is not delivered."""
        self.skip_to(seq)
        self.progress.start_after(seq)

    def go_on_after(self, cursor: int | None, ahead: Iterable[int]) -> None:
        """Go on where another run has left off: behind the committed cursor, without what is done above it (G-26)."""
        if cursor is not None:
            self.start_after(cursor)
        for seq in ahead:
            self.progress.done(seq)

    def skip_to(self, seq: int) -> None:
        """Do the same as `start_after`, without taking what is at or below `seq` as done with (R-5)."""
        if self.last_seq_num is None or seq > self.last_seq_num:
            self.last_seq_num = seq
        self._consumed(seq)
        self._buffer = [record for record in self._buffer if record.seq > seq]

    def on(self, handler: Callable[[Record], object]) -> Subscription:
        """Register a handler; records that are buffered are offered to it first, in order (C-34).

        Args:
            handler: called with each record that nobody waits for; one for which it returns `True` is consumed.
        """
        self._listen()
        key = object()
        self._handlers[key] = handler
        self._buffer = [record for record in self._buffer if not self._offer(handler, record)]

        def off() -> None:
            self._handlers.pop(key, None)

        return Subscription(off)

    def peek(self, matches: Callable[[Record], bool] | None = None) -> Record | None:
        """Return the first record that is buffered (and matches), without consuming it."""
        return next((record for record in self._buffer if matches is None or matches(record)), None)

    async def once(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - on the run's clock
        *,
        matches: Callable[[Record], bool] | None = None,
        label: str | None = None,
    ) -> WaitResult:
        """Consume the next record.

        Args:
            timeout: seconds after which to give up; `None` waits without end.
            matches: which records to take; the others stay where they are.
            label: what is waited for, for messages about runs that stand still.

        Returns:
            The record; or `ok=False` with an `InputStreamTimeoutError`, also after `interrupt`.

        Raises:
            StoreError: the log can no longer be read: the store is closed, or the session was deleted.
        """
        deadline = None if timeout is None else self._clock.now() + timeout
        record = await self._next(deadline, matches, label or f"a record on .{self.direction}")
        if record is None:
            error = InputStreamTimeoutError(session_id=self.session_id, timeout=timeout, direction=self.direction)
            return WaitResult(ok=False, error=error)
        return WaitResult(ok=True, output=record)

    async def wait(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - on the run's clock
        *,
        matches: Callable[[Record], bool] | None = None,
        label: str | None = None,
    ) -> WaitResult:
        """Consume the next record; the suspending form of `once` (C-37).

        The run's runtime manager, if it has one, is asked to put the run away meanwhile.

        Returns:
            The record; or `ok=False` with a `WaitpointTimeoutError`.

        Raises:
            StoreError: the log can no longer be read.
        """
        deadline = None if timeout is None else self._clock.now() + timeout

        async def resume() -> WaitResult:
            record = await self._next(deadline, matches, label or f"a record on .{self.direction} (suspended)")
            if record is None:
                error = WaitpointTimeoutError(session_id=self.session_id, timeout=timeout, direction=self.direction)
                return WaitResult(ok=False, error=error)
            return WaitResult(ok=True, output=record)

        surroundings = current_surroundings()
        if surroundings is None or surroundings.runtime is None:
            return await resume()
        suspended = SuspendedWait(
            kind="session",
            id=self.session_id,
            direction=self.direction,
            last_seq_num=self.last_seq_num,
            timeout=timeout,
        )
        return await surroundings.runtime.suspend(suspended, resume)

    async def wait_with_idle_timeout(
        self,
        idle_timeout: float,
        timeout: float | None,  # noqa: ASYNC109 - on the run's clock
        *,
        skip_suspend: bool = False,
        on_suspend: Callable[[], Awaitable[None]] | None = None,
        on_resume: Callable[[], Awaitable[None]] | None = None,
        matches: Callable[[Record], bool] | None = None,
    ) -> WaitResult:
        """Consume the next record: idle first, then suspended (C-38).

        Args:
            idle_timeout: seconds to wait warm; 0 suspends at once.
            timeout: seconds to wait suspended; `None` waits without end.
            skip_suspend: give up after the idle time.
            on_suspend: called before the run suspends.
            on_resume: called after a record has ended the suspension.
            matches: which records to take; the others stay where they are.

        Returns:
            The record; or `ok=False` with the error of the wait that came to nothing. After `interrupt` it never
            suspends.

        Raises:
            StoreError: the log can no longer be read.
        """
        if idle_timeout > 0 or self.peek(matches) is not None:
            result = await self.once(idle_timeout, matches=matches)
            if result.ok:
                return result
        if skip_suspend or self._interrupted:
            error = InputStreamTimeoutError(session_id=self.session_id, timeout=idle_timeout, direction=self.direction)
            return WaitResult(ok=False, error=error)
        if on_suspend is not None:
            await on_suspend()
        result = await self.wait(timeout, matches=matches)
        if result.ok and on_resume is not None:
            await on_resume()
        return result

    async def append(self, data: object, *, key: str | None = None) -> AppendAck:
        """Put a record on the channel: on `.in` as a client does, on `.out` as the run with this epoch.

        Args:
            data: the record's JSON value, such as `{"kind": "stop"}`, or a chunk.
            key: names the record, so that a repeat stores nothing.

        Raises:
            SessionClosedError: the session takes no more input.
            LeaseLostError: the epoch may not write to `.out`.
        """
        epoch = self._epoch if self.direction == "out" else None
        return await self._store.append(self.session_id, self.direction, [NewRecord(data)], key=key, epoch=epoch)

    async def read(self, *, after: int | None = None) -> RecordPage:
        """Return the records above a number that are there now, without consuming them.

        Args:
            after: the number; `None` begins at the first that is kept.
        """
        return await self._store.read(self.session_id, self.direction, after=after)

    def interrupt(self) -> None:
        """End every wait, now and later, as if its time had run out."""
        self._interrupted = True
        self.end_waits()

    def listen(self) -> None:
        """Begin to take records from the log, which the first wait or handler does otherwise."""
        self._listen()

    async def delivered(self, seq: int) -> None:
        """Return once the records up to a number were handed out, and the async handlers that saw them have ended.

        It returns at once if nobody has listened yet, or if the log can no longer be read.
        """
        if self._reader is None:
            return
        waiter = Waiter(f"the delivery of record {seq} on .{self.direction}")
        self._deliveries.append((seq, waiter))
        self._tell_delivered()
        await waiter.wait()
        for task in tuple(self._handling):
            await task.join()

    def close(self) -> None:
        """Hand out nothing more: whoever listens is let go. The records stay in the log."""
        self._handlers.clear()

    def end_waits(self) -> None:
        """End the waits that are on, as if their time had run out."""
        waiting, self._waiting = self._waiting, []
        for once in waiting:
            once.waiter.wake()

    async def _next(
        self, deadline: float | None, matches: Callable[[Record], bool] | None, label: str
    ) -> Record | None:
        for index, record in enumerate(self._buffer):
            if matches is None or matches(record):
                del self._buffer[index]
                self._consumed(record.seq)
                return record
        once = _Once(matches, label)
        if not self._interrupted and self._failure is None:
            self._listen()
            await self._wait_for(once, deadline)
        if once.record is None and self._failure is not None and not self._interrupted:
            raise self._failure
        return once.record

    async def _wait_for(self, once: _Once, deadline: float | None) -> None:
        self._waiting.append(once)
        try:
            await wait_until(once.waiter, self._clock, deadline, kind="wait")
        except BaseException:
            if once.record is not None and not once.is_claimed:
                self._give_back(once.record)
            raise
        finally:
            if once in self._waiting:
                self._waiting.remove(once)

    def _listen(self) -> None:
        if self._reader is None:
            name = f"the reader of .{self.direction}"
            self._reader = self._tasks.start(self._read, name=name, stop=self._stop_reading)

    async def _read(self) -> None:
        try:
            async with self._store.follow(self.session_id, self.direction, after=self.last_seq_num) as pages:
                self._pages = pages
                async for page in pages:
                    for record in page.records:
                        self._dispatch(_decoded(record) if self.direction == "in" else record)
                    self._tell_delivered()
        except Exception as exc:  # noqa: BLE001 - raised by whoever waits for input, now or later
            self._failure = exc
            self.end_waits()
        finally:
            self._tell_delivered()

    def _stop_reading(self) -> bool:
        """End the reader, if its store can end what it reads; a cancellation would cost more, and says no more."""
        stop: Callable[[], None] | None = getattr(self._pages, "stop", None)
        if stop is None:
            return False
        stop()
        return True

    def _tell_delivered(self) -> None:
        if not self._deliveries:
            return
        reached = -1 if self.last_seq_num is None else self.last_seq_num
        is_over = self._failure is not None
        ready = [each for each in self._deliveries if is_over or each[0] <= reached]
        self._deliveries = [each for each in self._deliveries if each not in ready]
        for _, waiter in ready:
            waiter.wake()

    def _dispatch(self, record: Record) -> None:
        if self.last_seq_num is not None and record.seq <= self.last_seq_num:
            return
        self.last_seq_num = record.seq
        if is_command(record) or self.progress.is_done(record.seq):
            return
        once = self._hand_to_waiting(record)
        is_claimed = self._tell_handlers(record)
        if once is not None:
            once.is_claimed = is_claimed
        elif not is_claimed:
            self._buffer.append(record)

    def _hand_to_waiting(self, record: Record) -> _Once | None:
        """Give a record to the oldest wait that takes it, if there is one (C-32)."""
        for once in self._waiting:
            if once.matches is None or once.matches(record):
                self._waiting.remove(once)
                self._consumed(record.seq)
                once.record = record
                once.waiter.wake()
                return once
        return None

    def _give_back(self, record: Record) -> None:
        """Take back a record whose taker was cancelled before it could go on, so that it is not lost."""
        if self._hand_to_waiting(record) is None:
            insort(self._buffer, record, key=lambda each: each.seq)

    def _tell_handlers(self, record: Record) -> bool:
        """Show a record to all handlers; those that a handler has attached come last, if it is still to be had."""
        told: set[object] = set()
        is_claimed = False
        while not is_claimed and (new := [each for each in self._handlers.items() if each[0] not in told]):
            told.update(key for key, _ in new)
            verdicts = [self._offer(handler, record) for _, handler in new]
            is_claimed = any(verdicts)
        return is_claimed

    def _offer(self, handler: Callable[[Record], object], record: Record) -> bool:
        """Call a handler; a failing one never breaks the dispatch (C-39)."""
        try:
            verdict = handler(record)
        except Exception:  # a user's handler
            logger.exception("a handler of `.in` failed on record %s", record.seq)
            return False
        if verdict is True:
            self._consumed(record.seq)
            return True
        if inspect.isawaitable(verdict):
            task = self._tasks.start(lambda: _finish(verdict), name="an async handler of .in")
            self._handling = {each for each in self._handling if not each.done} | {task}
        return False

    def _consumed(self, seq: int) -> None:
        if self.last_dispatched_seq_num is None or seq > self.last_dispatched_seq_num:
            self.last_dispatched_seq_num = seq


def _decoded(record: Record) -> Record:
    """Return a record whose data a client has sent as JSON text with the value itself (C-23)."""
    if not isinstance(record.data, str):
        return record
    try:
        data = json.loads(record.data)
    except (ValueError, RecursionError):
        return record
    return replace(record, data=data) if isinstance(data, dict) else record


async def _finish(work: Awaitable[Any]) -> None:
    try:
        await work
    except Exception:  # a user's handler
        logger.exception("an async handler of `.in` failed")
