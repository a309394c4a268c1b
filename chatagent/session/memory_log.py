"""One log in memory: numbers, kept records, keys and readers; all of it plain code without a wait.

Who may append, and what else happens in the same step, is `memory.py`.
"""

from __future__ import annotations

from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

from chatagent.errors import SessionNotFoundError
from chatagent.session.records import Record
from chatagent.session.store import RecordPage
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from chatagent.session.records import Direction, NewRecord
    from chatagent.session.store import AppendAck

__all__ = ["Follower", "MemoryLog"]

KEY_LIFETIME = 86400.0
"""Seconds for which a key of `.in` is known (rule ST-28)."""


PAGE_RECORDS = 1000
PAGE_BYTES = 1 << 20
"""How much a follower takes at a time."""


class MemoryLog:
    """The records of one direction of one session."""

    __slots__ = ("_keys", "direction", "first_kept", "next", "records", "session_id", "waiters", "weights")

    def __init__(self, session_id: str, direction: Direction) -> None:
        self.session_id = session_id
        self.direction: Direction = direction
        self.records: list[Record] = []
        """What is kept; the first is number `first_kept`, and there is no hole."""
        self.weights: list[int] = []
        """About how large each of them is."""
        self.first_kept = 0
        self.next = 0
        self.waiters: dict[Waiter, None] = {}
        self._keys: dict[str, tuple[AppendAck, float]] = {}

    def add(self, batch: Sequence[NewRecord], weights: Sequence[int], now: float) -> tuple[Record, ...]:
        """Number the records and keep them."""
        added = tuple(
            Record(new.data, new.headers, new.id, seq=seq, appended_at=now)
            for seq, new in enumerate(batch, start=self.next)
        )
        self.records += added
        self.weights += weights
        self.next += len(added)
        return added

    def trim(self, *, before: int) -> None:
        """Remove what lies below a number; never below what was removed already."""
        count = before - self.first_kept
        if count > 0:
            del self.records[:count], self.weights[:count]
            self.first_kept = before

    def wake(self) -> None:
        """Let all go on who wait for a record."""
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            waiter.wake()

    def page(self, after: int | None, limit: int, max_bytes: int) -> RecordPage:
        """Return what there is above a number; one record at least, if there is any."""
        start = 0 if after is None else max(0, after + 1 - self.first_kept)
        end = min(start + limit, len(self.records))
        weights = self.weights[start:end]
        if sum(weights) > max_bytes:
            end = start + max(1, sum(1 for _ in takewhile(lambda total: total <= max_bytes, accumulate(weights))))
        return RecordPage(tuple(self.records[start:end]), self.next, self.first_kept)

    def known(self, key: str, now: float) -> AppendAck | None:
        """Return what the batch of that key was acknowledged with, if there was one."""
        found = self._keys.get(key)
        return found[0] if found is not None and now < found[1] else None

    def remember(self, key: str, ack: AppendAck, now: float) -> None:
        """Keep a key with its ack, and forget the old ones."""
        keys = self._keys
        while keys and now >= next(iter(keys.values()))[1]:
            del keys[next(iter(keys))]
        keys[key] = (ack, now + KEY_LIFETIME)

    def forget_keys(self) -> None:
        """Forget all keys: those of `.out` live as long as their epoch."""
        self._keys.clear()


class Follower:
    """Reads one log for ever, a page at a time; waits only when there is nothing to read.

    Args:
        find: returns the log; raises if the store is closed or the session unknown.
        after: the last number that the reader has seen; `None` for none.
        waiting: where the store keeps the waiters that its closing wakes.
    """

    __slots__ = ("_after", "_find", "_is_stopped", "_log", "_waiter", "_waiting")

    def __init__(self, find: Callable[[], MemoryLog], after: int | None, waiting: dict[Waiter, None]) -> None:
        self._find = find
        self._log: MemoryLog | None = None
        self._after = after
        self._waiting = waiting
        self._waiter: Waiter | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """End by itself, now or at the next page."""
        self._is_stopped = True
        if self._waiter is not None:
            self._waiter.wake()

    async def __aenter__(self) -> Self:
        self._log = self._find()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        self._log = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RecordPage:
        log = self._log
        if log is None:
            log = self._log = self._find()
        while not self._is_stopped:
            if log is not self._find():
                raise SessionNotFoundError(log.session_id)
            page = log.page(self._after, PAGE_RECORDS, PAGE_BYTES)
            if page.records:
                self._after = page.records[-1].seq
                return page
            self._waiter = waiter = Waiter(f"a record on .{log.direction} of session {log.session_id!r}")
            log.waiters[waiter] = self._waiting[waiter] = None
            try:
                await waiter.wait()
            finally:
                self._waiter = None
                log.waiters.pop(waiter, None)
                del self._waiting[waiter]
        raise StopAsyncIteration
