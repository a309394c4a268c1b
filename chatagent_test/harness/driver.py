"""Waiting for a run, and moving virtual time while it cannot go on by itself.

Time moves only when every task of the run waits on something of ours, and only for a sleep or a limit, never for the
end of a wait for input. It goes from deadline to deadline, so that a wait that ends on the way ends at its own instant.
Nothing polls: a driver waits for news of the run, and looks again when there is some.

User code that waits on something foreign counts as busy. If somebody sleeps on the clock all the same, a second rule
moves it: nothing has changed for 5 ms of real time, every task of the event loop waits, and nothing but a sleep ends by
the move, since a slow real query must not trip a limit.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from chatagent.clock import to_seconds
from chatagent.errors import HarnessStateError, WaitTimeoutError
from chatagent_test.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from chatagent.clock import Clock
    from chatagent.timers import TimerKind
    from chatagent.waiting import Ledger
    from chatagent_test.harness.news import News

__all__ = ["Driver"]

PATIENCE = 0.005
"""Real seconds without any change after which tasks that wait abroad are asked whether they all wait."""


class Driver:
    """Waits for one run.

    Args:
        ledger: what counts the run's tasks.
        watch: what brings news of it.
        clock: the run's clock; only a `VirtualClock` is moved.
        auto_advance: whether waiting moves the clock.
        wait_timeout: real seconds after which a wait gives up.
        describe: says where the run stands, for the error.
        jumps_to: the kinds of deadlines that time is moved for.
        afterwards: called when a wait is over, in the task that waited.
    """

    def __init__(
        self,
        ledger: Ledger,
        watch: News,
        clock: Clock,
        *,
        auto_advance: bool,
        wait_timeout: float,
        describe: Callable[[], str],
        jumps_to: Collection[TimerKind] = ("sleep", "limit"),
        afterwards: Callable[[], None] = lambda: None,
    ) -> None:
        self.afterwards = afterwards
        self.ledger, self.watch, self.clock = ledger, watch, clock
        self.auto_advance, self.wait_timeout, self.describe = auto_advance, wait_timeout, describe
        self._jumps_to = jumps_to
        self._ends = [ledger.watch(watch.stir)]
        if isinstance(clock, VirtualClock):
            self._ends.append(clock.listen(watch.stir))
            clock.ledgers.append(ledger)

    def let_go(self) -> None:
        """Have no more say in the clock's moves, and know nothing of the run; others may go on living by the clock."""
        for end in self._ends:
            end()
        self.describe = str
        if isinstance(self.clock, VirtualClock) and self.ledger in self.clock.ledgers:
            self.clock.ledgers.remove(self.ledger)

    async def until(
        self, done: Callable[[], bool], what: str, *, move_time: bool = True, limit: float | None = None
    ) -> None:
        """Wait until something holds, moving virtual time as the run needs it.

        Args:
            done: looked at whenever there is news.
            what: what is waited for, for the error.
            move_time: whether sleeps and limits may end by it.
            limit: real seconds after which to give up; the driver's `wait_timeout` by default.

        Raises:
            HarnessStateError: a hook, a tool or a model of the run itself waits.
            WaitTimeoutError: it did not come to hold within `wait_timeout` real seconds; the run still stands as it is.
        """
        if self.ledger.has_current_task() and not done():
            raise HarnessStateError(
                f"{what}: the run would wait for itself; call it in the test, or `begin_message` here"
            )
        seconds = self.wait_timeout if limit is None else limit
        gives_up_at = time.monotonic() + seconds
        while not done():
            rest = gives_up_at - time.monotonic()
            if rest <= 0:
                raise WaitTimeoutError(f"{what}: not within {seconds:g} s of real time.\n{self.describe()}")
            await self._step(done, move_time=move_time and self.auto_advance, within=rest)
        self.afterwards()

    async def until_or_give_up(self, done: Callable[[], bool], patience: float, *, grace: float = 0.0) -> bool:
        """Wait until something holds, or nothing of the run can bring it about; returns whether it holds.

        Args:
            done: looked at whenever there is news.
            patience: real seconds for a run that is busy or waits on something foreign; on a clock that cannot be moved
                the grace comes on top.
            grace: seconds on the run's clock that may pass meanwhile.
        """
        is_virtual = isinstance(self.clock, VirtualClock)
        latest = self.clock.now() + grace
        gives_up_at = time.monotonic() + (patience if is_virtual else patience + grace)
        while not done() and (rest := gives_up_at - time.monotonic()) > 0:
            if not self._quiet or not is_virtual:
                await self._news(rest)
            elif await self._is_calm() and not done() and not self._jump(latest=latest):
                self._let_grace_pass(latest)
                break
        return done()

    def _let_grace_pass(self, latest: float) -> None:
        """Move time to the end of a grace in which nothing ends, so that who is cancelled sees that it has passed."""
        clock = self.clock
        if isinstance(clock, VirtualClock) and not any(ledger.time_stands_still for ledger in self._ledgers):
            deadline = clock.next_deadline()
            if deadline is None or deadline > latest:
                clock.move_to(latest)

    async def settle(self) -> None:
        """Wait until nothing of the run can go on by itself; time does not move.

        Raises:
            WaitTimeoutError: something of it went on for `wait_timeout` real seconds, or waits on something foreign.
        """
        await self._settle(None)

    async def advance(self, seconds: float) -> None:
        """Move virtual time on, from deadline to deadline, letting the run work in between.

        Raises:
            InvalidArgumentError: `seconds` is negative or not finite.
            WaitTimeoutError: see `settle`; but if somebody sleeps on the clock, the second rule may let time go on.
        """
        assert isinstance(self.clock, VirtualClock)
        end = self.clock.now() + to_seconds(seconds, argument="seconds")
        await self._settle(end)
        while True:
            deadline = self.clock.next_deadline()
            if deadline is None or deadline > end:
                break
            self.clock.move_to(deadline)
            await self._settle(end)
        self.clock.move_to(end)
        await self._settle(end)

    @property
    def _ledgers(self) -> Sequence[Ledger]:
        """The ledgers of all runs that live by the clock."""
        return self.clock.ledgers if isinstance(self.clock, VirtualClock) else (self.ledger,)

    @property
    def _quiet(self) -> bool:
        return all(ledger.quiet for ledger in self._ledgers)

    @property
    def _version(self) -> int:
        """Changes whenever one of the ledgers does."""
        return sum(ledger.version for ledger in self._ledgers)

    async def _news(self, within: float = math.inf) -> None:
        """Return at the next thing that happens to the run, or after so many real seconds.

        News is also that somebody begins to sleep on the clock, perhaps no task of the run, and that another run on the
        clock falls quiet.
        """
        others = [ledger for ledger in self._ledgers if ledger is not self.ledger]
        ends = [ledger.watch(self.watch.stir) for ledger in others]
        try:
            await self.watch.news(within)
        finally:
            for end in ends:
                end()

    async def _is_calm(self) -> bool:
        """Return whether the quiet lasts.

        A task that is being cancelled counts as waiting until its next step; the cancellation needs one round of the
        event loop to reach it, and the step another.
        """
        version = self._version
        await checkpoint()
        await checkpoint()
        return self._quiet and self._version == version

    async def _settle(self, latest: float | None) -> None:
        """Wait until the run is quiet; if time is to move to `latest`, who sleeps may wait by the second rule."""
        with anyio.move_on_after(self.wait_timeout) as limit:
            while True:
                if self._quiet:
                    if await self._is_calm():
                        return
                elif latest is None or not self._only_sleeps_end(latest):
                    await self._news()
                elif await self._waits_abroad():
                    return
        if limit.cancelled_caught and not self._quiet:
            raise WaitTimeoutError(f"settle: the run was not quiet within {self.wait_timeout:g} s.\n{self.describe()}")

    async def _step(self, done: Callable[[], bool], *, move_time: bool, within: float = math.inf) -> None:
        """Wait for news, for at most so many real seconds, or move time if that is what the run needs."""
        if self._quiet:
            if await self._is_calm() and not done() and not (move_time and self._jump()):
                await self._news(within)
        elif not (move_time and self._only_sleeps_end()):
            await self._news(within)
        elif await self._waits_abroad() and not done() and self._only_sleeps_end() and self._jump():
            # Who was woken may be no task of the run, so that nobody would tell what it has done.
            await _everybody_waits()

    async def _waits_abroad(self) -> bool:
        """Return whether a busy run waits on something foreign; `False` as soon as there is news of it."""
        version = self._version
        with anyio.move_on_after(PATIENCE):
            await self._news()
            return False
        return self._version == version and await _everybody_waits() and self._version == version

    def _only_sleeps_end(self, latest: float = math.inf) -> bool:
        """Return whether somebody sleeps, and nothing but sleeps ends if time moves to the first sleep's end."""
        clock = self.clock
        if not isinstance(clock, VirtualClock):
            return False
        sleep = clock.next_deadline(("sleep",))
        other = clock.next_deadline(("limit", "wait"))
        return sleep is not None and (other is None or other > min(sleep, latest))

    def _jump(self, *, latest: float = math.inf) -> bool:
        """Move virtual time one deadline towards the next sleep or limit; returns whether it moved.

        It does not move if there is none until `latest`, or while a task of a run waits where time stands still.
        """
        clock = self.clock
        if not isinstance(clock, VirtualClock) or any(ledger.time_stands_still for ledger in self._ledgers):
            return False
        target = clock.next_deadline(self._jumps_to)
        deadline = clock.next_deadline()
        if target is None or deadline is None or target > latest:
            return False
        clock.move_to(deadline)
        return True


async def _everybody_waits() -> bool:
    """Ask the event loop whether all its tasks wait; a "no" costs 5 ms."""
    with anyio.move_on_after(PATIENCE):
        await anyio.wait_all_tasks_blocked()
        return True
    return False
