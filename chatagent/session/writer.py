"""The writer of a log: plain calls in, batches to the store, in the order of the calls (rules ST-80 to ST-83).

A store that can append without waiting gets each record at once, and its number is known when `write` returns. For any
other store a task appends what has gathered: one append is under way at a time, and what is written meanwhile forms the
next batch. Who writes what, and when, is the channel's business.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, cast

from chatagent.current import current_clock
from chatagent.errors import InvalidArgumentError, RecordTooLargeError, StoreClosedError
from chatagent.session.limits import MAX_BATCH, MAX_RECORDS, weigh_record
from chatagent.session.records import NewRecord, control_type
from chatagent.session.values import BYTES_PER_WEIGHT
from chatagent.tasks import OwnedTask
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.clock import Clock
    from chatagent.session.records import Direction
    from chatagent.session.store import NowaitStore, SessionStore
    from chatagent.tasks import TaskSet

__all__ = ["ChannelWriter"]

READY_RECORDS = 256
READY_BYTES = 256 << 10
"""With more than this unwritten, `ready` holds the producer back."""

_BATCH_WEIGHT = MAX_BATCH // BYTES_PER_WEIGHT


def _as_nowait(store: SessionStore) -> NowaitStore | None:
    """Return the store if it can append without waiting; what `isinstance` finds out, at a tenth of the cost."""
    is_nowait = hasattr(store, "append_nowait") and hasattr(store, "data_appender")
    return cast("NowaitStore", store) if is_nowait else None


class _Unwritten(NamedTuple):
    record: NewRecord
    weight: int
    commit_in: int | None

    @property
    def ends_batch(self) -> bool:
        """Whether nothing behind it may join its batch: its number must be known, or the batch has its one commit."""
        return self.commit_in is not None or control_type(self.record) is not None


class ChannelWriter:
    """Writes one log of one session, for one run.

    A record that no store would take is refused by `write` itself, and the writer lives on. An append that fails (the
    lease is lost, the store is gone) fails the writer: every later call raises that error, and nothing more is tried.

    Args:
        store: where the log is.
        session_id: the session's external id.
        direction: which log.
        epoch: the run's epoch; `.out` demands one.
        name: tells apart the writers of one epoch, such as a bridge's and its run's, in the keys of their batches.
        linger: seconds for which a batch is held back to let it grow, where the store must be waited for.
        tasks: the owner of the task that appends; without one the writer owns it, and `close` ends it.
        clock: the clock of `linger`; the run's by default.
    """

    def __init__(
        self,
        store: SessionStore,
        session_id: str,
        direction: Direction = "out",
        *,
        epoch: int | None = None,
        name: str = "",
        linger: float = 0.0,
        tasks: TaskSet | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._nowait_store = _as_nowait(store)
        self._append_nowait = None if self._nowait_store is None else self._nowait_store.append_nowait
        self._append_data: Callable[[object], int | None] | None = None
        self._session_id = session_id
        self._direction: Direction = direction
        self._epoch = epoch
        self._key = ".".join(str(part) for part in (epoch, name) if part not in (None, ""))
        self._linger = linger
        self._tasks = tasks
        self._clock = clock
        self._queue: deque[_Unwritten] = deque()
        self._task: OwnedTask | None = None
        self._waiters: list[Waiter] = []
        self._batches = 0
        self._accepted = self._stored = 0
        self._weight = 0
        self._closed = False
        self.error: Exception | None = None
        """What has failed the writer; `None` while it lives."""
        self.last = -1
        """The last number that the store has given; -1 before the first."""
        self.last_control = -1
        """The last number that it has given to a control record that was appended by the task."""

    def write(self, record: NewRecord, *, commit_in: int | None = None) -> int | None:
        """Write one record behind all that were written before.

        Args:
            record: data, control or command.
            commit_in: the committed cursor of `.in` that is stored in the same step.

        Returns:
            Its number if the store has taken it already, else `None`; `flush` returns it then.

        Raises:
            InvalidArgumentError: JSON cannot hold the data; the writer lives on.
            RecordTooLargeError: it is above a limit; the writer lives on.
            StoreError: an append has failed, this one or an earlier one.
        """
        if self.error is not None:
            raise self.error
        if self._append_nowait is None:
            self._enqueue(record, commit_in)
            return None
        try:
            # No key: the answer comes with the call, so there is nothing to be repeated.
            ack = self._append_nowait(
                self._session_id, self._direction, (record,), epoch=self._epoch, commit_in=commit_in
            )
        except (InvalidArgumentError, RecordTooLargeError):
            raise
        except Exception as exc:
            self.error = exc
            raise
        self.last = number = ack.last
        return number

    def write_data(self, data: object) -> int | None:
        """Write one data record without headers; the same as `write(NewRecord(data))`, and quicker.

        Raises:
            InvalidArgumentError: JSON cannot hold the data; the writer lives on.
            RecordTooLargeError: it is above a limit; the writer lives on.
            StoreError: an append has failed, this one or an earlier one.
        """
        append = self._append_data
        if append is None:
            append = self._append_data = self._data_appender()
        if self.error is not None:
            raise self.error
        try:
            number = append(data)
        except (InvalidArgumentError, RecordTooLargeError):
            raise
        except Exception as exc:
            self.error = exc
            raise
        if number is not None:
            self.last = number
        return number

    def _data_appender(self) -> Callable[[object], int | None]:
        store = self._nowait_store
        if store is not None and self._direction == "out" and self._epoch is not None:
            return store.data_appender(self._session_id, self._epoch)
        return lambda data: self.write(NewRecord(data))

    async def flush(self) -> int:
        """Return the last number (-1 for none) once everything written before is as lasting as the store promises.

        Raises:
            StoreError: an append has failed.
        """
        accepted = self._accepted
        while self._stored < accepted:
            await self._progress("flush")
        self._check()
        return self.last

    async def ready(self) -> None:
        """Return once no more than 256 records and 256 KiB are unwritten.

        Raises:
            StoreError: an append has failed.
        """
        while self._accepted - self._stored > READY_RECORDS or self._weight > READY_BYTES:
            await self._progress("room")
        self._check()

    async def close(self) -> None:
        """Write no more. What is not stored yet is dropped: flush first."""
        self._closed, self._append_nowait = True, None
        if self._task is not None:
            await self._task.close()

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def _enqueue(self, record: NewRecord, commit_in: int | None) -> None:
        if self._closed:
            raise StoreClosedError(f"the writer of .{self._direction} of session {self._session_id!r} is closed")
        weight = weigh_record(record, 0)
        self._queue.append(_Unwritten(record, weight, commit_in))
        self._accepted += 1
        self._weight += weight
        if self._task is None:
            name = f"the writer of .{self._direction} of session {self._session_id!r}"
            start = OwnedTask if self._tasks is None else self._tasks.start
            self._task = start(self._append_all, name=name)

    async def _progress(self, what: str) -> None:
        """Return after the next append, or raise what has failed."""
        self._check()
        waiter = Waiter(f"the {what} of .{self._direction} of session {self._session_id!r}")
        self._waiters.append(waiter)
        try:
            await waiter.wait()
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def _append_all(self) -> None:
        """Append batch after batch until nothing is left; the next write starts another task."""
        try:
            while self._queue:
                if self._linger:
                    await (self._clock or current_clock()).sleep(self._linger)
                await self._append_batch(self._next_batch())
                self._wake()
        except Exception as exc:  # noqa: BLE001 - raised by the next call on the writer
            self.error = exc
        except BaseException:
            self.error = StoreClosedError(f"the writer of .{self._direction} of {self._session_id!r} was stopped")
            raise
        finally:
            self._task = None
            self._wake()

    def _next_batch(self) -> list[_Unwritten]:
        """Take what has gathered, up to the limits of a batch; a control record or a commit ends it."""
        batch: list[_Unwritten] = []
        weight = 0
        while self._queue and len(batch) < MAX_RECORDS:
            weight += self._queue[0].weight
            if batch and weight > _BATCH_WEIGHT:
                break
            batch.append(self._queue.popleft())
            if batch[-1].ends_batch:
                break
        return batch

    async def _append_batch(self, batch: list[_Unwritten]) -> None:
        key = f"{self._key}.{self._batches}" if self._key else None
        self._batches += 1
        ack = await self._store.append(
            self._session_id,
            self._direction,
            [each.record for each in batch],
            epoch=self._epoch,
            key=key,
            commit_in=batch[-1].commit_in,
        )
        self.last = ack.last
        if batch[-1].ends_batch:
            self.last_control = ack.last
        self._stored += len(batch)
        self._weight -= sum(each.weight for each in batch)

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.wake()
