"""Closing a harness: where it was used, from another event loop, or never."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import anyio

from chatagent.errors import HarnessStateError
from chatagent_test.harness.blocking import levels_to_the_test
from chatagent_test.harness.state import ELSEWHERE, HarnessState
from chatagent_test.harness.where import innermost_user_frame

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Closing"]


class Closing(HarnessState):
    """The part of a harness that closes it."""

    async def close(self, *, raise_errors: bool = False) -> None:
        """End the run and wait for its end. May be called twice, and after the run has ended.

        A run that waits takes the close record and returns. One that works sees its signals aborted with reason `close`
        and may finish what it does; after 5 seconds on its clock it is cancelled.

        Args:
            raise_errors: raise what ended the run or failed a turn, unless a driver has raised it or returned the turn.

        Raises:
            HarnessStateError: the run itself calls it, in a hook or a tool.
        """
        if self._is_elsewhere():
            self._close_elsewhere(raise_errors=raise_errors)
            return
        if self._driver.ledger.has_current_task():
            raise HarnessStateError(
                "close: the run cannot wait for its own end; call it in the test, or end the run with chat.end_run()"
            )
        if self._state == "open":
            self._state = "closing"
            # Whoever is being cancelled ends its run all the same: nobody else would.
            with anyio.CancelScope(shield=True):
                await self._end()
        elif self._run.task is not None:
            await self._run.task.join()
        if raise_errors:
            self._failures.raise_untold()

    def check_abandoned(self) -> None:
        """Look at a harness whose event loop has ended, in a fixture or a test without one.

        Raises:
            AssertionError: its run is still on, and nobody can end it any more.
            BaseException: what ended the run or failed a turn, if no driver has told.
        """
        task = self._run.task
        if task is None or self._state == "closed":
            return
        if not task.done:
            where = innermost_user_frame(task)
            msg = f"the harness was not closed before its event loop ended; {task.name} stands at {where}"
            raise AssertionError(f"{msg}; use `async with` where it is used")
        self._failures.raise_untold()

    async def __aenter__(self) -> Self:
        """Begin the run; its boot goes on while the block begins."""
        self._begin_waiting()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the harness; a failure that no driver has told is raised, unless the block itself raised."""
        await self.close(raise_errors=exc is None)

    async def _end(self) -> None:
        try:
            await self._run.end(wait_timeout=self.wait_timeout)
        finally:
            self._state = "closed"
            self._driver.let_go()
            if self._session is not None:
                await self._session.aclose()
            await self._platform.close()
            self._watch.stir()
            self._watch.blocking.warn()

    def _close_elsewhere(self, *, raise_errors: bool) -> None:
        """Close a harness whose event loop is another one: nothing can be awaited that lives there."""
        task = self._run.task
        assert task is not None
        if not task.done and not task.loop_is_gone:
            raise HarnessStateError(f"close: {ELSEWHERE}; close it where it was used")
        if not task.done and self._state == "open":
            warnings.warn(
                f"the event loop of the harness is gone, and {task.name} was still on, "
                f"at {innermost_user_frame(task)}; close the harness before its loop ends",
                ResourceWarning,
                stacklevel=levels_to_the_test(),
            )
        self._state = "closed"
        self._driver.let_go()
        if raise_errors:
            self._failures.raise_untold()
