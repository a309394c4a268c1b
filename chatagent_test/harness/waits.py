"""Waiting for something to come about in a run, and moving its time by hand."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, cast

from chatagent.errors import HarnessStateError, InvalidArgumentError
from chatagent_test.clock import VirtualClock
from chatagent_test.harness.state import HarnessState
from chatagent_test.harness.watch import Streaming

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent_test.harness.harness import ChatAgentHarness

__all__ = ["Waits"]


class Waits(HarnessState):
    """The part of a harness that waits."""

    async def start(self) -> None:
        """Boot the run, and wait until it waits for input, works on a turn, or has ended.

        In mode `submit-message` there is nothing to boot before the first message (G-5); then this does nothing.

        Raises:
            BaseException: what ended the run while it booted.
        """
        self._check_open()
        if self._mode == "submit-message" and not self._run.started:
            return
        self._boot()
        watch = self._watch
        await self._driver.until(
            lambda: watch.is_waiting or bool(watch.turns) or watch.ended, "start: the run has not finished booting"
        )
        self._failures.raise_run_error()
        self._check_open()  # somebody else may have closed it meanwhile

    async def wait_for(self, predicate: Callable[[ChatAgentHarness], object]) -> None:
        """Wait until something holds of this harness.

        Args:
            predicate: called with the harness whenever there is news of the run; must not wait.

        Raises:
            InvalidArgumentError: it is no function, or an async one, whose coroutine would count as true.
            AgentRunEndedError: the run is over and it does not hold.
            BaseException: what failed a turn, if no driver has told, nothing is left to do, and it does not hold.
            WaitTimeoutError: it did not come to hold within `wait_timeout` real seconds.
        """
        if not callable(predicate) or inspect.iscoroutinefunction(predicate):
            problem = "a plain function of the harness, which must not wait"
            raise InvalidArgumentError(argument="predicate", value=predicate, problem=problem)
        self._begin_waiting()
        harness = cast("ChatAgentHarness", self)
        await self._driver.until(
            lambda: bool(predicate(harness)) or self._waits_in_vain(), "wait_for: the predicate is false"
        )
        if not predicate(harness):
            self._raise_in_vain("wait_for")

    async def wait_streaming(self, text: str | None = None) -> None:
        """Wait until the turn that is on has streamed something.

        Args:
            text: what the text of the turn must contain; without it any chunk will do.

        Raises:
            AgentRunEndedError: the run is over and nothing of the kind was streamed.
            BaseException: what failed a turn, if no driver has told, nothing is left to do, and nothing of the kind was
                streamed.
            WaitTimeoutError: nothing of the kind within `wait_timeout` real seconds.
        """
        self._begin_waiting()
        streaming = Streaming(self._watch, text)
        unsubscribe = self._watch.listen(streaming.see)
        try:
            await self._driver.until(
                lambda: streaming.seen or self._waits_in_vain(),
                "wait_streaming: nothing was streamed" + ("" if text is None else f" that contains {text!r}"),
            )
        finally:
            unsubscribe()
        if not streaming.seen:
            self._raise_in_vain("wait_streaming")

    async def wait_idle(self) -> None:
        """Wait until everything that was sent is answered, and the run waits for input or has ended.

        Raises:
            BaseException: what ended the run, if it failed and no driver has told yet.
        """
        self._begin_waiting()
        lazy = self._mode == "submit-message"
        await self._driver.until(
            lambda: (lazy and not self._run.started) or self._is_idle() or self._watch.ended, "wait_idle: a turn is on"
        )
        self._failures.raise_run_error()

    async def wait_ended(self) -> None:
        """Wait until the run is over.

        Raises:
            BaseException: what ended the run, if it failed and no driver has told yet.
        """
        self._begin_waiting()
        what = "the run goes on"
        if not self._run.started:
            what = "nothing was started: in mode submit-message the run boots with its first message; send that"
        await self._driver.until(lambda: self._watch.ended, f"wait_ended: {what}")
        self._failures.raise_run_error()

    async def settle(self) -> None:
        """Wait until nothing of the run can go on by itself; it waits for input, a gate, a hold or a timer.

        Unlike the other drivers this does not move virtual time.

        Raises:
            HarnessStateError: the run itself calls it.
            WaitTimeoutError: something of it went on for `wait_timeout` real seconds, or waits on something foreign.
        """
        self._check_outside("settle")
        self._begin_waiting()
        await self._driver.settle()

    async def advance(self, seconds: float) -> None:
        """Move virtual time on, from deadline to deadline, letting the run work in between.

        Args:
            seconds: how far to move; 0 or more.

        Raises:
            HarnessStateError: the harness has a real clock, or the run itself calls it.
            InvalidArgumentError: `seconds` is no number, or negative.
            BaseException: what ended the run, if it failed and no driver has told yet.
        """
        self._check_outside("advance")
        if not isinstance(self.clock, VirtualClock):
            raise HarnessStateError("advance: this harness has a clock that cannot be moved; use clock='virtual'")
        if not isinstance(seconds, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise InvalidArgumentError(argument="seconds", value=seconds, problem="a number of seconds, 0 or more")
        if seconds < 0:
            raise InvalidArgumentError(argument="seconds", value=seconds, problem="time does not go backwards")
        self._begin_waiting()
        await self._driver.advance(seconds)
        self._failures.raise_run_error()

    def _is_idle(self) -> bool:
        """Return whether the run waits for input, and everything that was sent is answered."""
        if not self._watch.is_waiting:
            return False
        self._sent = [sent for sent in self._sent if not sent.is_over(self._watch, self._run, settled=True)]
        return not self._sent

    def _waits_in_vain(self) -> bool:
        """Return whether nothing more will come: the run is over, or a turn has failed and nothing is left to do."""
        return self._watch.ended or (self._failures.untold_of_turns and self._is_idle())

    def _raise_in_vain(self, name: str) -> None:
        if not self._watch.ended:
            self._failures.raise_untold()
        self._raise_ended(name)
