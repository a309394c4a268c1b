"""Ending a run in every way there is, and beginning further ones on the same session (G-11).

A session outlives its runs. What `kill_run` leaves behind is what a crash leaves: the records so far and the last
snapshot, and nothing that the dying run still tried to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.errors import AgentRunEndedError, HarnessStateError, OutOfMemoryError
from chatagent.ui import UNSET, Unset
from chatagent_test.clock import VirtualClock
from chatagent_test.harness.given import check_client_data
from chatagent_test.harness.state import HarnessState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent_test.harness.driven_run import DrivenRun

__all__ = ["RunControl"]


class RunControl(HarnessState):
    """The part of a harness that begins and ends runs."""

    _new_run: Callable[[Mapping[str, Any] | None], DrivenRun]
    """Makes a further run on the session, for which nothing is seeded."""
    _run_number = 1

    async def kill_run(self) -> None:
        """Let the run die as in a crash: its right to write is taken first, then its task is cancelled.

        What the session and the snapshot hold then is what a crashed process leaves. Sends are refused until
        `continue_run`. A run that has ended already stays as it is.

        Raises:
            HarnessClosedError: the harness is closed.
            HarnessStateError: the run itself calls it, or it has not been started.
        """
        self._check_lifecycle("kill_run")
        await self._run.kill(wait_timeout=self.wait_timeout)

    async def cancel_run(self) -> None:
        """Cancel the run: its signals are aborted, and what has not ended 5 seconds later on its clock is cancelled.

        Raises:
            HarnessClosedError: the harness is closed.
            HarnessStateError: the run itself calls it, or it has not been started.
        """
        self._check_lifecycle("cancel_run")
        await self._run.cancel("cancelled", wait_timeout=self.wait_timeout)

    async def continue_run(
        self,
        *,
        client_data: Any = UNSET,
        task_context: Mapping[str, Any] | Unset = UNSET,
        previous_run_id: str | Unset = UNSET,
        preload: bool = False,
    ) -> None:
        """Begin another run on the session, as the next message would after a run has ended or died; boots it.

        A message that a run was booted with and died over (mode `submit-message`) is on no log: the next run is booted
        with it again, and answers it before anything else.

        Args:
            client_data: what the boot payload carries; that of the first boot by default.
            task_context: overrides of the run context; the run's id is `run_test_2`, `run_test_3`, … by default.
            previous_run_id: the run before, by default the one before.
            preload: start it ahead of the next message, with `on_preload`.

        Raises:
            HarnessStateError: the run before is still on; or none was started.
            InvalidArgumentError: an argument with a value that it cannot have.
            BaseException: what ended the new run while it booted.
        """
        self._check_lifecycle("continue_run")
        payload: dict[str, Any] = {"chatId": self._boot_payload["chatId"], "continuation": True}
        if client_data is not UNSET:
            check_client_data(client_data)
        metadata = self._boot_payload.get("metadata", UNSET) if client_data is UNSET else client_data
        if metadata is not UNSET and metadata is not None:
            payload["metadata"] = metadata
        payload["previousRunId"] = self._run.run_id if isinstance(previous_run_id, Unset) else previous_run_id
        if preload:
            payload["trigger"] = "preload"
        payload |= self._what_died_with_the_run()
        inherited = isinstance(task_context, Unset)
        context = _for_another_run(self._task_context) if inherited else dict(_sections(task_context))
        self._check_over("continue_run")
        self._run_number += 1
        context["run"] = {"id": f"run_test_{self._run_number}", **context.get("run", {})}
        await self._begin_run("continue_run", payload, context)

    async def retry_oom(self) -> None:
        """Begin the second attempt of a run that ran out of memory: the same run and boot payload, the larger machine.

        Raises:
            HarnessStateError: the run has not ended with an `OutOfMemoryError`, the agent has no `oom_machine`, or
                this was the second attempt already.
            BaseException: what ended the second attempt while it booted.
        """
        self._check_lifecycle("retry_oom")
        if not isinstance(self._run.error, OutOfMemoryError):
            problem = "the run has not ended with an OutOfMemoryError; raise one in a hook or in `run`"
            raise HarnessStateError(f"retry_oom: {problem}{self._so_far}")
        machine = self._agent.options.oom_machine
        if machine is None:
            problem = f"agent {self._agent.id!r} has no `oom_machine`, so there is one attempt only; give it one"
            raise HarnessStateError(f"retry_oom: {problem}{self._so_far}")
        payload, context = self._boot_of_run or (self._boot_payload, self._task_context)
        sections = dict(_sections(context))
        attempt = sections.get("attempt", {})
        if attempt.get("number", 1) > 1:
            raise HarnessStateError(f"retry_oom: this was the second attempt, and there is no third{self._so_far}")
        self._failures.take_run_error()
        sections["attempt"] = {**attempt, "number": 2}
        sections["machine"] = {**sections.get("machine", {}), "name": machine}
        sections["run"] = {**sections.get("run", {}), "id": self._run.run_id}
        await self._begin_run("retry_oom", payload, sections)

    async def wait_deferred(self) -> None:
        """Wait until all work that `chat.defer` has started in this run is done.

        Raises:
            HarnessStateError: the run itself calls it.
            WaitTimeoutError: it is not, within `wait_timeout` real seconds.
        """
        self._check_outside("wait_deferred")
        self._begin_waiting()
        await self._driver.until(lambda: self._run.deferred_done, "wait_deferred: deferred work goes on")

    async def advance_to_suspend(self) -> None:
        """Let the idle time pass: moves virtual time until the run has been put away.

        Raises:
            HarnessStateError: the clock cannot be moved, the run waits for nothing, or the run itself calls it.
            AgentRunEndedError: the run has ended instead.
            BaseException: what ended the run, if it failed and no driver has told yet.
        """
        await self._pass_waits("advance_to_suspend", lambda: self._watch.is_suspended)
        if not self._watch.is_suspended:
            self._failures.raise_run_error()
            problem = "the run has ended instead of being put away"
            raise AgentRunEndedError(f"advance_to_suspend: {problem}{self._so_far}")

    async def expire(self) -> None:
        """Let all waiting come to its end: moves virtual time until the run gives up waiting and ends.

        Raises:
            HarnessStateError: the clock cannot be moved, the run waits for nothing, or the run itself calls it.
        """
        await self._pass_waits("expire", lambda: self._watch.ended)
        self._failures.raise_run_error()

    async def _pass_waits(self, name: str, done: Callable[[], bool]) -> None:
        self._check_outside(name)
        clock = self.clock
        if not isinstance(clock, VirtualClock):
            raise HarnessStateError(f"{name}: this harness has a clock that cannot be moved; use clock='virtual'")
        self._begin_waiting()
        watch = self._watch
        await self._driver.until(lambda: watch.is_waiting or watch.ended, f"{name}: a turn is on")
        await self._driver.settle()
        while not done() and not watch.ended:
            deadline = clock.next_deadline(("wait",))
            if deadline is None:
                problem = "the run waits for nothing that time could end"
                raise HarnessStateError(f"{name}: {problem}{self._so_far}")
            await self._driver.advance(deadline - clock.now())

    async def _begin_run(self, name: str, payload: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        self._boot_of_run = payload, context
        self._run = self._new_run(context)
        self._failures.follow(self._run)
        self._watch.run_begins()
        self._run.start(payload)
        watch, turns = self._watch, len(self._watch.turns)
        await self._driver.until(
            lambda: watch.is_waiting or len(watch.turns) > turns or watch.ended,
            f"{name}: the run has not finished booting",
        )
        self._failures.raise_run_error()
        self._check_open()  # somebody else may have closed it meanwhile

    def _what_died_with_the_run(self) -> dict[str, Any]:
        """Return what a boot payload has to bring again: its message, unless a turn has answered it."""
        payload, _ = self._boot_of_run or (self._boot_payload, None)
        is_answered = any(turn.in_seq is None and turn.complete_at is not None for turn in self._watch.turns)
        if payload.get("message") is None or is_answered:
            return {}
        return {"trigger": "submit-message", "message": payload["message"]}

    def _check_over(self, name: str) -> None:
        if not self._watch.ended:
            problem = "the run is still on; end it first (kill_run, cancel_run, chat.end_run)"
            raise HarnessStateError(f"{name}: {problem}{self._so_far}")
        self._failures.raise_run_error()

    def _check_lifecycle(self, name: str) -> None:
        self._check_open()
        self._check_outside(name)
        if not self._run.started:
            raise HarnessStateError(f"{name}: no run was started; send something, or await start(), first")


def _sections(context: Mapping[str, Any] | None) -> Mapping[str, Any]:
    sections = context or {}
    return sections.get("ctx", sections)


def _for_another_run(context: Mapping[str, Any] | None) -> dict[str, Any]:
    """A further run has the same surroundings, but is a first attempt again and has an id of its own."""
    sections = {name: values for name, values in _sections(context).items() if name != "attempt"}
    run = {name: value for name, value in sections.get("run", {}).items() if name != "id"}
    return {**sections, "run": run}
