"""What a thread asks of the session store, one thing after the other, in a task that lives only while there is some."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.service.setting import ServiceTasks

__all__ = ["Jobs"]

logger = logging.getLogger("chatagent")


class Jobs:
    """Does jobs in the order in which they were given.

    Args:
        tasks: where the task is started.
        name: whose jobs they are.
    """

    def __init__(self, tasks: ServiceTasks, name: str) -> None:
        self._tasks, self._name = tasks, name
        self._waiting: deque[Callable[[], Awaitable[None]]] = deque()
        self.is_busy = False
        """Whether there is something to be done."""

    def add(self, job: Callable[[], Awaitable[None]]) -> None:
        """Do this once the jobs before it are done; its errors are logged."""
        self._waiting.append(job)
        if not self.is_busy:
            self.is_busy = True
            self._tasks.start(self._work, name=f"the jobs of {self._name}")

    async def _work(self) -> None:
        try:
            while self._waiting:
                job = self._waiting.popleft()
                try:
                    await job()
                except Exception:  # a job tells its failures itself; what is left is a fault of a store
                    logger.exception("a job of %s failed", self._name)
        finally:
            self.is_busy = False
