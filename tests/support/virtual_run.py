"""A run on virtual time, for tests of what lies below the agent."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, TypeVar, cast

import anyio.lowlevel

from chatagent.current import current_run
from chatagent.tasks import OwnedTask
from support.bare_run import BareRun

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ResultT = TypeVar("ResultT")


class VirtualRun(BareRun):
    """The current run of everything that `play` runs: when nothing of it can go on, time moves to the next deadline."""

    async def play(self, fn: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Run a function to its end, and what it has started until nothing of it can go on; return what it returned."""
        context = contextvars.copy_context()
        context.run(current_run.set, self)
        task = OwnedTask(fn, name="the test", ledger=self.ledger, context=context)
        try:
            await self._move_on_until(lambda: task.done)
            await self._move_on_until(lambda: self.ledger.quiet and not self.clock.pending)
        finally:
            await task.close()
            await self.tasks.close()
        return cast("ResultT", await task.wait())

    def move_on(self) -> None:
        """Let something happen, now that nobody can go on."""
        deadline = self.clock.next_deadline()
        assert deadline is not None, f"nothing goes on: {[waiter.label for waiter in self.ledger.parked]}"
        self.clock.move_to(deadline)

    async def _move_on_until(self, done: Callable[[], bool]) -> None:
        while not done():
            version = self.ledger.version
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            if self.ledger.quiet and self.ledger.version == version and not done():
                self.move_on()


async def play(fn: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Run a function in a run of its own, on virtual time."""
    return await VirtualRun().play(fn)
