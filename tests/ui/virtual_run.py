"""A run of nothing but tasks on a virtual clock: time moves when none of them can go on."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

import anyio.lowlevel

from chatagent.current import current_run
from chatagent.tasks import OwnedTask, TaskSet
from chatagent.waiting import Ledger
from chatagent_test.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class VirtualRun:
    """The current run of whatever `play` runs."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.ledger = Ledger()
        self.tasks = TaskSet(self.ledger)
        self.local_values: dict[str, Any] = {}
        self.in_turn = False

    async def play(self, fn: Callable[[], Awaitable[Any]]) -> Any:
        """Run a function to its end and return its result; what is still at work then is cancelled.

        Raises:
            AssertionError: nothing can go on, and nobody sleeps.
        """
        context = contextvars.copy_context()
        context.run(current_run.set, self)
        task = OwnedTask(fn, name="the test", ledger=self.ledger, context=context)
        try:
            while not task.done:
                await self._step(task)
            return await task.wait()
        finally:
            await task.close()
            await self.tasks.close()

    async def _step(self, task: OwnedTask) -> None:
        version = self.ledger.version
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        if task.done or not self.ledger.quiet or self.ledger.version != version:
            return
        deadline = self.clock.next_deadline()
        assert deadline is not None, f"nothing goes on: {[waiter.label for waiter in self.ledger.parked]}"
        self.clock.move_to(deadline)
