"""One run of the agent under the harness: booting it, handing it input, and ending it."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

import anyio

from chatagent.agent import AgentRun, run_agent
from chatagent.current import current_run, working_on
from chatagent.task import LocalValues
from chatagent.tasks import OwnedTask
from chatagent_test.harness.blocking import TimedSteps, levels_to_the_test
from chatagent_test.harness.story import RunFate
from chatagent_test.harness.where import innermost_user_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chatagent.ui import UIMessage
    from chatagent_test.harness.driver import Driver
    from chatagent_test.harness.platform import Platform
    from chatagent_test.harness.run_network import RunNetwork
    from chatagent_test.harness.seeds import Seeds

__all__ = ["DrivenRun"]

CLOSE_GRACE = 5.0
"""Seconds on the run's clock that a closing run has to end by itself."""
BUSY_GRACE = 1.0
"""Real seconds that it has if virtual time cannot pass, because it waits on something foreign; less if a driver waits
for less."""


class DrivenRun:
    """A run that has not been started yet, is on, or has ended.

    Args:
        platform: the session and what lies around it.
        driver: waits for the run.
        task_context: overrides of the run context.
        setup_locals: called with the run's locals before the agent begins.
        strict: `False` restores what the reference does after a failing `on_turn_complete`.
        seeds: what a test wants the boot to find.
        network: what the run may ask the network for.
    """

    def __init__(
        self,
        platform: Platform,
        driver: Driver,
        *,
        task_context: Mapping[str, Any] | None,
        setup_locals: Callable[[LocalValues], Any] | None,
        strict: bool,
        seeds: Seeds,
        network: RunNetwork,
    ) -> None:
        self.fate = RunFate()
        """What has become of it."""
        self._platform, self._driver, self._watch = platform, driver, platform.watch
        self._task_context, self._setup_locals = task_context, setup_locals
        self._strict, self._seeds, self._network = strict, seeds, network
        self._outbox: list[Callable[[], None]] = []
        self._run: AgentRun | None = None

    @property
    def task(self) -> OwnedTask | None:
        """Its main task, once it was started."""
        return self.fate.task

    @property
    def started(self) -> bool:
        """Whether the run was started."""
        return self.task is not None

    @property
    def error(self) -> BaseException | None:
        """What ended the run, if it failed."""
        return self.fate.error

    @property
    def run_id(self) -> str:
        """The run's id, as hooks see it."""
        return "" if self._run is None else self._run.run_id

    @property
    def messages(self) -> Sequence[UIMessage]:
        """The conversation as the run has it."""
        return () if self._run is None else tuple(self._run.state.conversation.seen)

    @property
    def was_killed(self) -> bool:
        """Whether the run was made to die."""
        return self.fate.was_killed

    @property
    def deferred_done(self) -> bool:
        """Whether all work that `chat.defer` has started is done."""
        return self._run is None or all(task.done for task in self._run.deferred)

    @property
    def other_tasks(self) -> list[OwnedTask]:
        """Its tasks beside the main one: tools, deferred work, readers."""
        return [] if self._run is None else list(self._run.tasks.active)

    def start(self, payload: Mapping[str, Any]) -> None:
        """Start the run with a boot payload in wire form; does nothing if it was started."""
        if self.task is None:
            self._watch.on_boot = self._flush_outbox
            self._watch.run_started(payload, self.fate)
            name = f"the run of agent {self._platform.agent.id!r}"
            watch = self._watch.blocking
            self.fate.task = OwnedTask(
                lambda: TimedSteps(self._crashing(payload), watch), name=name, ledger=self._driver.ledger
            )

    def when_booted(self, action: Callable[[], None]) -> None:
        """Do something once the run has read the past; at once if it has."""
        if self._watch.has_booted:
            action()
        else:
            self._outbox.append(action)

    def has_received(self, seq: int) -> bool:
        """Return whether the run has taken the record of `.in` with this number from the log."""
        last = None if self._run is None else self._run.in_.last_seq_num
        return last is not None and last >= seq

    def is_done_with(self, seq: int) -> bool:
        """Return whether the run needs the record of `.in` with this number no more."""
        return self._run is not None and self._run.in_.progress.is_done(seq)

    async def end(self, *, wait_timeout: float) -> None:
        """End the run: by a close record if it waits, else by its signals, at last by cancelling it.

        Args:
            wait_timeout: real seconds that the cancelled run has; a warning names where it stands after that.
        """
        task, watch, driver = self.task, self._watch, self._driver
        if task is None or task.done:
            return
        if watch.is_waiting and not watch.ended:
            payload = {"chatId": self._platform.chat_id, "trigger": "close"}
            self._platform.send({"kind": "message", "payload": payload})
            await driver.until_or_give_up(lambda: task.done, min(BUSY_GRACE, wait_timeout))
        await self.cancel("close", wait_timeout=wait_timeout)
        cut_off = 0 if self._run is None else sum(each.cancelled for each in self._run.deferred)
        if cut_off:
            warnings.warn(
                f"{cut_off} of what chat.defer was given did not end with {task.name}, and was cancelled; await "
                "harness.wait_deferred() before the harness is closed",
                ResourceWarning,
                stacklevel=levels_to_the_test(),
            )

    def strike(self) -> None:
        """Let the run die: its right to write is taken at once, its task ends at its next checkpoint."""
        task = self.task
        if task is None or task.done:
            return
        self.fate.was_killed = True
        if self._platform.is_open:
            self._platform.store.revoke(self._platform.chat_id)
        task.cancel()

    async def kill(self, *, wait_timeout: float) -> None:
        """Take the run's right to write, then cancel its task; what it still raises is nobody's failure."""
        task = self.task
        if task is None or task.done:
            return
        self.strike()
        await self._cancel_task(task, wait_timeout)

    async def cancel(self, reason: str, *, wait_timeout: float) -> None:
        """Abort the run's signals; cancel its task if it has not ended 5 seconds later on its clock."""
        task = self.task
        if task is None:
            return
        if not task.done and self._run is not None:
            self._run.env.cancel.abort(reason)
            patience = min(BUSY_GRACE, wait_timeout)
            await self._driver.until_or_give_up(lambda: task.done, patience, grace=CLOSE_GRACE)
        await self._cancel_task(task, wait_timeout)

    async def _cancel_task(self, task: OwnedTask, wait_timeout: float) -> None:
        if not task.done:
            task.cancel()
            with anyio.move_on_after(wait_timeout):
                await task.join()
        if not task.done:
            warnings.warn(
                f"{task.name} does not end although it was cancelled; it stands at {innermost_user_frame(task)}",
                ResourceWarning,
                stacklevel=levels_to_the_test(),
            )

    async def _crashing(self, payload: Mapping[str, Any]) -> None:
        plan = self._platform.crash_plan
        with self._network.around_run():
            if plan is None:
                return await self._main(payload)
            plan.strike = self.strike
            return await plan.around(lambda: self._main(payload))

    async def _main(self, payload: Mapping[str, Any]) -> None:
        local_values: dict[str, Any] = {}
        try:
            await self._platform.open(self._seeds)
            env = await self._platform.environment(
                payload,
                task_context=self._task_context,
                ledger=self._driver.ledger,
                local_values=local_values,
                strict=self._strict,
                seeds=self._seeds,
            )
            self._run = AgentRun(self._platform.agent, env)
            current_run.set(self._run)
            if self._setup_locals is not None:
                with working_on("`setup_locals`"):
                    outcome = self._setup_locals(LocalValues(local_values))
                    if inspect.isawaitable(outcome):
                        await outcome
            await run_agent(self._run)
        finally:
            self._watch.run_ended()

    def _flush_outbox(self) -> None:
        outbox, self._outbox = self._outbox, []
        for action in outbox:
            action()
