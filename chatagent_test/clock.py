"""A clock that moves only when it is told to.

It knows who sleeps and until when, and nothing of runs or turns: who may move it, and when, is the driver's business.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Literal

import anyio.lowlevel

from chatagent.clock import Clock, SystemClock
from chatagent.errors import InvalidArgumentError
from chatagent.waiting import Gate, Ledger, Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from chatagent.timers import TimerKind

__all__ = ["VirtualClock", "make_clock"]

EPOCH = 1735689600.0
"""2025-01-01T00:00:00Z, where every virtual clock begins."""

ALL_KINDS: tuple[TimerKind, ...] = ("sleep", "limit", "wait")


class _Entry:
    """One deadline on the clock."""

    __slots__ = ("at", "callback", "kind", "order")

    def __init__(self, at: float, order: int, kind: TimerKind, callback: Callable[[], None]) -> None:
        self.at, self.order = at, order
        self.kind: TimerKind = kind
        self.callback: Callable[[], None] | None = callback

    def __lt__(self, other: _Entry) -> bool:
        return (self.at, self.order) < (other.at, other.order)


class VirtualClock:
    """A clock for tests: `advance` moves it, nothing else does.

    Args:
        start: the first instant, in seconds since 1970.
    """

    def __init__(self, start: float = EPOCH) -> None:
        self._now = self._start = start
        self._entries: list[_Entry] = []
        self._order = 0
        self._live = 0
        self._sleeping = 0
        self._watchers: list[tuple[int, Gate]] = []
        self._listeners: dict[object, Callable[[], None]] = {}
        self.ledgers: list[Ledger] = []
        """The ledgers of the runs that live by this clock; it should move only when all of them are quiet."""

    def now(self) -> float:
        """Return the current instant, in seconds since 1970."""
        return self._now

    async def sleep(self, seconds: float, /) -> None:
        """Return once the clock has been moved on by so many seconds; at once if that is 0 or less."""
        await self.sleep_until(self._now + seconds)

    async def sleep_until(self, at: float, /) -> None:
        """Return once the clock shows `at`."""
        if at <= self._now:
            await anyio.lowlevel.checkpoint()
            return
        waiter = Waiter(f"a sleep until {at - self._start:g} s after the clock's start")

        def wake() -> None:
            self._sleeping -= 1
            waiter.wake()

        take_back = self.call_at(at, wake, kind="sleep")
        self._sleeping += 1
        self._tell_watchers()
        try:
            await waiter.wait()
        finally:
            if not waiter.woken:
                self._sleeping -= 1
            take_back()

    def call_at(self, at: float, callback: Callable[[], None], /, *, kind: TimerKind) -> Callable[[], None]:
        """Call `callback` once the clock shows `at`; returns what takes the entry back."""
        entry = _Entry(at, self._order, kind, callback)
        self._order += 1
        self._live += 1
        heapq.heappush(self._entries, entry)
        if kind == "sleep":
            for listener in tuple(self._listeners.values()):
                listener()

        def take_back() -> None:
            if entry.callback is not None:
                entry.callback = None
                self._live -= 1
                self._sweep()

        return take_back

    @property
    def sleeping(self) -> int:
        """How many tasks sleep on this clock; one that was woken does not, even before it has gone on."""
        return self._sleeping

    async def wait_sleeping(self, count: int) -> None:
        """Return once at least `count` tasks sleep on this clock."""
        if self._sleeping < count:
            watcher = (count, Gate(f"{count} sleepers"))
            self._watchers.append(watcher)
            try:
                await watcher[1].wait()
            finally:
                if watcher in self._watchers:
                    self._watchers.remove(watcher)

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back whenever a sleep begins; returns what ends that, also if it is called twice."""
        key = object()
        self._listeners[key] = callback

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    def next_deadline(self, kinds: Collection[TimerKind] = ALL_KINDS) -> float | None:
        """Return the instant of the next deadline of these kinds; `None` if there is none that ever comes."""
        entries = (entry.at for entry in self._entries if entry.callback is not None and entry.kind in kinds)
        earliest = min(entries, default=math.inf)
        return None if earliest == math.inf else earliest

    @property
    def pending(self) -> list[tuple[float, TimerKind]]:
        """The deadlines ahead, in order: seconds from now, and the kind of each."""
        return [(entry.at - self._now, entry.kind) for entry in sorted(self._entries) if entry.callback is not None]

    def advance(self, seconds: float) -> None:
        """Move the clock on and wake whoever's time has come, in the order of the deadlines.

        It only wakes: the tasks run when the caller next waits, and what they begin to wait for counts from the new
        instant.

        Args:
            seconds: how far to move; 0 or more.

        Raises:
            InvalidArgumentError: `seconds` is negative, or no finite number.
        """
        if seconds < 0:
            raise InvalidArgumentError(argument="seconds", value=seconds, problem="time does not go backwards")
        if not math.isfinite(seconds):
            raise InvalidArgumentError(argument="seconds", value=seconds, problem="time goes on step by finite step")
        self.move_to(self._now + seconds)

    def move_to(self, at: float) -> None:
        """Move the clock to the instant `at` (not backwards) and call whatever is due, in order."""
        while self._entries and self._entries[0].at <= at:
            entry = heapq.heappop(self._entries)
            if entry.callback is None:
                continue
            self._now = max(self._now, entry.at)
            callback, entry.callback = entry.callback, None
            self._live -= 1
            callback()
        self._now = max(self._now, at)

    def restart(self) -> None:
        """Begin anew at the first instant; whoever sleeps is woken, since that time may never come."""
        entries, self._entries, self._live = sorted(self._entries), [], 0
        self._now = self._start
        for entry in entries:
            callback, entry.callback = entry.callback, None
            if callback is not None:
                callback()

    def _sweep(self) -> None:
        """Drop dead entries at the front, and all of them when they outnumber the living."""
        while self._entries and self._entries[0].callback is None:
            heapq.heappop(self._entries)
        if len(self._entries) > 64 and len(self._entries) > 2 * self._live:
            self._entries = [entry for entry in self._entries if entry.callback is not None]
            heapq.heapify(self._entries)

    def _tell_watchers(self) -> None:
        for watcher in tuple(self._watchers):
            if self._sleeping >= watcher[0]:
                self._watchers.remove(watcher)
                watcher[1].open()


def make_clock(clock: Literal["virtual", "real"] | Clock) -> Clock:
    """Return the clock that an option names.

    Raises:
        InvalidArgumentError: it names none, and is none.
    """
    if clock == "virtual":
        return VirtualClock()
    if clock == "real":
        return SystemClock()
    if not isinstance(clock, Clock):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise InvalidArgumentError(argument="clock", value=clock, problem="'virtual', 'real', or a clock of your own")
    return clock
