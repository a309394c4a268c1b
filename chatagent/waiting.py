"""Waiting that can be counted: the ledger of a run's tasks, and the two things that its tasks wait on.

A run knows how many of its tasks are alive and how many of them wait on a `Waiter`. When both numbers are equal,
nothing of the run can go on by itself, and whoever holds the clock may move it. So that this holds at every moment,
whoever wakes a waiter lowers the count *before* the sleeper is scheduled, and a cancelled sleeper lowers it itself.

Everything of ours that waits (clocks, channels, signals, gates, joins) waits on these. User code that waits on
something else counts as busy, and time rightly stands still.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import anyio

from chatagent.current import current_run

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Gate", "Ledger", "Waiter", "Wakeup"]


class Ledger:
    """Counts a run's tasks and those of them that wait; tells watchers when nothing of the run can go on."""

    __slots__ = ("_members", "_watchers", "alive", "parked", "version")

    def __init__(self) -> None:
        self.alive = 0
        """Tasks of the run that have been started and have not ended."""
        self.parked: dict[Waiter, None] = {}
        """What those tasks of the run that cannot go on wait on."""
        self.version = 0
        """Changes whenever one of the counts does."""
        self._members: set[int] = set()
        self._watchers: dict[object, Callable[[], None]] = {}

    @property
    def quiet(self) -> bool:
        """Whether no task of the run can go on by itself; so it is when there is none."""
        return len(self.parked) == self.alive

    @property
    def time_stands_still(self) -> bool:
        """Whether a task waits at a place that stops the virtual clock."""
        return any(waiter.stops_time for waiter in self.parked)

    def expect(self) -> None:
        """Count one task more; called by the parent, before the spawn, so that no moment sees the child missing."""
        self.alive += 1
        self.version += 1

    def enter(self) -> int:
        """Make the current task the one that was expected; returns its id, for `leave`."""
        task_id = _current_task_id()
        self._members.add(task_id)
        return task_id

    def leave(self, task_id: int | None) -> None:
        """Count one task less; `task_id` is `None` for a task that never entered."""
        if task_id is not None:
            self._members.discard(task_id)
        self.alive -= 1
        self._changed()

    def has_current_task(self) -> bool:
        """Return whether the current task is counted here."""
        return _current_task_id() in self._members

    def park(self, waiter: Waiter) -> None:
        """Count the current task as waiting."""
        self.parked[waiter] = None
        self._changed()

    def unpark(self, waiter: Waiter) -> None:
        """Count it as able to go on; does nothing if it is already."""
        if waiter in self.parked:
            del self.parked[waiter]
            self.version += 1

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back whenever the run falls quiet; returns what ends the watch, also if it is called twice."""
        key = object()
        self._watchers[key] = callback

        def unwatch() -> None:
            self._watchers.pop(key, None)

        return unwatch

    def _changed(self) -> None:
        self.version += 1
        if len(self.parked) == self.alive:
            for callback in tuple(self._watchers.values()):
                callback()


def _current_task_id() -> int:
    """Return what tells the current task from others. Asyncio is asked itself: it is quick, and this is asked often."""
    task = _asyncio_task()
    return anyio.get_current_task().id if task is None else id(task)


def _asyncio_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class Wakeup:
    """One sleep of one task, which no ledger counts: awaited once, ended at most once.

    On asyncio it is a bare future. An event there is a queue of them behind a lookup of the backend, and whoever tests
    an agent sleeps a dozen times a turn.
    """

    __slots__ = ("_ended", "_sleep")

    def __init__(self) -> None:
        self._ended = False
        self._sleep: asyncio.Future[None] | anyio.Event | None = None

    async def wait(self, within: float = math.inf) -> bool:
        """Return when woken; at once if that has happened already.

        Args:
            within: real seconds after which the sleep ends by itself.

        Returns:
            Whether it was woken.
        """
        if self._ended:
            return True
        task = _asyncio_task()
        if task is None:
            self._sleep = event = anyio.Event()
            with anyio.move_on_after(within):
                await event.wait()
            return self._ended
        loop = task.get_loop()
        self._sleep = future = loop.create_future()
        timer = None if within == math.inf else loop.call_later(within, _end, future)
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()
        return self._ended

    def wake(self) -> None:
        """Let the task go on; a second call does nothing."""
        self._ended = True
        sleep, self._sleep = self._sleep, None
        if isinstance(sleep, anyio.Event):
            sleep.set()
        elif sleep is not None:
            _end(sleep)


def _end(sleep: asyncio.Future[None]) -> None:
    if not sleep.done():
        sleep.set_result(None)


class Waiter:
    """One wait of one task: awaited once, woken at most once.

    Args:
        label: what is waited for, for messages about runs that stand still.
        stops_time: whether a virtual clock stands still while a task of the run waits here.
    """

    __slots__ = ("_ledger", "_wakeup", "label", "stops_time", "woken")

    def __init__(self, label: str = "", *, stops_time: bool = False) -> None:
        self.label = label
        self.stops_time = stops_time
        self.woken = False
        self._wakeup: Wakeup | None = None
        self._ledger: Ledger | None = None

    async def wait(self) -> None:
        """Return when woken; at once if that has happened already."""
        if self.woken:
            return
        self._wakeup = wakeup = Wakeup()
        run = current_run.get()
        if run is None or not run.ledger.has_current_task():
            await wakeup.wait()
            return
        ledger = run.ledger
        self._ledger = ledger
        ledger.park(self)
        try:
            await wakeup.wait()
        finally:
            ledger.unpark(self)

    def wake(self) -> None:
        """Let the task go on; a second call does nothing."""
        if self.woken:
            return
        self.woken = True
        if self._ledger is not None:
            self._ledger.unpark(self)
        if self._wakeup is not None:
            self._wakeup.wake()


class Gate:
    """Opens once; whoever waits for it goes on then, whoever comes later goes through.

    Args:
        label: what is waited for, for messages about runs that stand still.
        stops_time: whether a virtual clock stands still while a task of the run waits here.
    """

    __slots__ = ("_waiters", "is_open", "label", "stops_time")

    def __init__(self, label: str = "", *, stops_time: bool = False) -> None:
        self.label = label
        self.stops_time = stops_time
        self.is_open = False
        self._waiters: list[Waiter] = []

    @property
    def waiting(self) -> int:
        """How many tasks wait here."""
        return len(self._waiters)

    async def wait(self) -> None:
        """Return when the gate is open."""
        if self.is_open:
            return
        waiter = Waiter(self.label, stops_time=self.stops_time)
        self._waiters.append(waiter)
        try:
            await waiter.wait()
        finally:
            if not self.is_open:
                self._waiters.remove(waiter)

    def open(self) -> None:
        """Let everybody through, from now on; a second call does nothing."""
        if self.is_open:
            return
        self.is_open = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.wake()
