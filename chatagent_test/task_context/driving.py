"""Moving a mock task context's time, and giving up on a function that waits for what never comes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import anyio

from chatagent.errors import WaitTimeoutError
from chatagent_test.harness.driver import Driver
from chatagent_test.harness.news import News
from chatagent_test.harness.where import describe_waiting

if TYPE_CHECKING:
    from chatagent.tasks import OwnedTask
    from chatagent.waiting import Ledger
    from chatagent_test.clock import VirtualClock

__all__ = ["TaskDriver"]


class TaskDriver(Driver):
    """Drives one function to its end. When nothing of it can go on, time moves to the next deadline, waits included.

    Args:
        ledger: what counts the function's tasks.
        clock: the clock that is moved.
        wait_timeout: real seconds after which a function that waits without a deadline is given up.
    """

    def __init__(self, ledger: Ledger, clock: VirtualClock, *, wait_timeout: float) -> None:
        super().__init__(
            ledger,
            News(),
            clock,
            auto_advance=True,
            wait_timeout=wait_timeout,
            describe=str,
            jumps_to=("sleep", "limit", "wait"),
        )
        self._virtual = clock

    async def drive(self, task: OwnedTask) -> None:
        """Return when the task has ended.

        Raises:
            WaitTimeoutError: all tasks wait on something of ours, without a deadline, and nothing came from outside.
        """
        while not task.done:
            in_vain = self._waits_in_vain
            with anyio.move_on_after(self.wait_timeout if in_vain else math.inf) as limit:
                await self._step(lambda: task.done, move_time=True)
            if limit.cancelled_caught and in_vain and self._waits_in_vain:
                where = describe_waiting(self.ledger, self.clock, task)
                raise WaitTimeoutError(f"{task.name}: nothing came within {self.wait_timeout:g} s.\n{where}")

    @property
    def _waits_in_vain(self) -> bool:
        return self._quiet and self._virtual.next_deadline() is None
