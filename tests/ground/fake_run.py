"""As much of a run as the ground asks for, and what brings news of it to a driver."""

from __future__ import annotations

import contextvars
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from anyio.lowlevel import checkpoint

from chatagent.current import current_run
from chatagent_test.harness.driver import Driver
from chatagent_test.harness.news import News
from support.bare_run import BareRun

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from chatagent.clock import Clock
    from chatagent.tasks import OwnedTask


class FakeRun(BareRun):
    """A run with a clock, tasks and locals, and nothing to do."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)

    def start(self, fn: Callable[[], Awaitable[Any]], *, name: str = "a task of the run") -> OwnedTask:
        """Start a task of this run from outside it."""
        context = contextvars.copy_context()
        context.run(current_run.set, self)
        return context.run(lambda: self.tasks.start(fn, name=name))

    async def settled(self) -> None:
        """Return once no task of the run can go on by itself."""
        with anyio.fail_after(5):
            while True:
                version = self.ledger.version
                if self.ledger.quiet:
                    await checkpoint()
                    await checkpoint()
                    if self.ledger.quiet and self.ledger.version == version:
                        return
                else:
                    fell_quiet = anyio.Event()
                    unwatch = self.ledger.watch(fell_quiet.set)
                    await fell_quiet.wait()
                    unwatch()


@asynccontextmanager
async def a_run(clock: Clock | None = None) -> AsyncGenerator[FakeRun]:
    """Make the caller a part of a new run, though not one of its counted tasks; ends the run's tasks in the end."""
    run = FakeRun(clock)
    token = current_run.set(run)
    try:
        with anyio.fail_after(10):
            yield run
    finally:
        current_run.reset(token)
        await run.tasks.close()


def a_driver(run: FakeRun, *, auto_advance: bool = True, wait_timeout: float = 5.0) -> Driver:
    """Return a driver of a run."""
    return Driver(
        run.ledger,
        News(),
        run.clock,
        auto_advance=auto_advance,
        wait_timeout=wait_timeout,
        describe=lambda: "where the run stands",
    )
