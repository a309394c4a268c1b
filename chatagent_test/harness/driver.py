"""Waiting for a run, and moving virtual time while it cannot go on by itself.

Time moves only when every task of the run waits on something of ours, and then to the next sleep or limit, never to the
end of a wait for input. Nothing polls: a driver waits for news of the run, and looks again when there is some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from anyio.lowlevel import checkpoint

from chatagent.errors import WaitTimeoutError
from chatagent_test.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chatagent.clock import Clock
    from chatagent.timers import TimerKind
    from chatagent.waiting import Ledger
    from chatagent_test.harness.watch import RunWatch

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
    """

    def __init__(
        self,
        ledger: Ledger,
        watch: RunWatch,
        clock: Clock,
        *,
        auto_advance: bool,
        wait_timeout: float,
        describe: Callable[[], str],
    ) -> None:
        self.ledger, self.watch, self.clock = ledger, watch, clock
        self.auto_advance, self.wait_timeout, self.describe = auto_advance, wait_timeout, describe
        ledger.watch(watch.stir)
        if isinstance(clock, VirtualClock):
            clock.ledgers.append(ledger)

    async def until(self, done: Callable[[], bool], what: str, *, move_time: bool = True) -> None:
        """Wait until something holds, moving virtual time as the run needs it.

        Args:
            done: looked at whenever there is news.
            what: what is waited for, for the error.
            move_time: whether sleeps and limits may end by it.

        Raises:
            WaitTimeoutError: it did not come to hold within `wait_timeout` real seconds; the run still stands as it is.
        """
        with anyio.move_on_after(self.wait_timeout) as limit:
            while not done():
                await self._step(done, move_time=move_time and self.auto_advance)
        if limit.cancelled_caught and not done():
            raise WaitTimeoutError(f"{what}: not within {self.wait_timeout:g} s of real time.\n{self.describe()}")

    async def until_or_give_up(self, done: Callable[[], bool], patience: float, *, grace: float = 0.0) -> bool:
        """Wait until something holds, or nothing of the run can bring it about; returns whether it holds.

        Args:
            done: looked at whenever there is news.
            patience: real seconds for a run that is busy or waits on something foreign; on a clock that cannot be moved
                the grace comes on top.
            grace: seconds on the run's clock that may pass meanwhile.
        """
        is_virtual = isinstance(self.clock, VirtualClock)
        end = self.clock.now() + grace
        with anyio.move_on_after(patience if is_virtual else patience + grace):
            while not done():
                if not self._quiet or not is_virtual:
                    await self.watch.news().wait()
                    continue
                version = self.ledger.version
                await checkpoint()
                if done() or not self._quiet or self.ledger.version != version:
                    continue
                if not self._jump(("sleep", "limit"), latest=end):
                    break
        return done()

    async def settle(self) -> None:
        """Wait until nothing of the run can go on by itself; time does not move.

        Raises:
            WaitTimeoutError: something of it went on for `wait_timeout` real seconds, or waits on something foreign.
        """
        calm = -1

        def is_calm() -> bool:
            return self._quiet and self.ledger.version == calm

        with anyio.move_on_after(self.wait_timeout) as limit:
            while not is_calm():
                if self._quiet:
                    calm = self.ledger.version
                    await checkpoint()
                else:
                    await self.watch.news().wait()
        if limit.cancelled_caught and not self._quiet:
            raise WaitTimeoutError(f"settle: the run was not quiet within {self.wait_timeout:g} s.\n{self.describe()}")

    async def advance(self, seconds: float) -> None:
        """Move virtual time on, from deadline to deadline, letting the run work in between."""
        assert isinstance(self.clock, VirtualClock)
        end = self.clock.now() + seconds
        await self.settle()
        while True:
            deadline = self.clock.next_deadline()
            if deadline is None or deadline > end:
                break
            self.clock.move_to(deadline)
            await self.settle()
        self.clock.move_to(end)
        await self.settle()

    @property
    def _quiet(self) -> bool:
        if isinstance(self.clock, VirtualClock) and len(self.clock.ledgers) > 1:
            return all(ledger.quiet for ledger in self.clock.ledgers)
        return self.ledger.quiet

    async def _step(self, done: Callable[[], bool], *, move_time: bool) -> None:
        if not self._quiet:
            await self._wait_while_busy(move_time=move_time)
            return
        version = self.ledger.version
        await checkpoint()
        if done() or not self._quiet or self.ledger.version != version:
            return
        if not (move_time and self._jump(("sleep", "limit"))):
            await self.watch.news().wait()

    async def _wait_while_busy(self, *, move_time: bool) -> None:
        """Wait for news of a run that is busy, or that waits on something foreign while somebody sleeps."""
        if not (move_time and isinstance(self.clock, VirtualClock) and self.clock.sleeping):
            await self.watch.news().wait()
            return
        version = self.ledger.version
        with anyio.move_on_after(PATIENCE):
            await self.watch.news().wait()
            return
        if self.ledger.version == version and await _everybody_waits():
            self._jump(("sleep",))

    def _jump(self, kinds: Sequence[TimerKind], *, latest: float | None = None) -> bool:
        """Move virtual time to the next deadline of these kinds, unless somebody holds it; returns whether it moved."""
        clock = self.clock
        if not isinstance(clock, VirtualClock) or self.ledger.time_stands_still:
            return False
        deadline = clock.next_deadline(kinds)
        if deadline is None or (latest is not None and deadline > latest):
            return False
        clock.move_to(deadline)
        return True


async def _everybody_waits() -> bool:
    """Ask the event loop whether all its tasks wait; a "no" costs 5 ms."""
    with anyio.move_on_after(PATIENCE):
        await anyio.wait_all_tasks_blocked()
        return True
    return False
