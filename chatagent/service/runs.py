"""The runtime runs that a service hosts: it takes what its session store wants to be run, and is a run's surroundings.

What a run means to a thread is the thread's business. A run that ends, is upgraded or continued is nothing that clients
see (MP-29).
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any, Final

import anyio

from chatagent.agent import AgentRun, NullObserver, Observers, RunEnvironment, TurnReport, parse_payload, run_agent
from chatagent.current import current_run
from chatagent.errors import OutOfMemoryError, StoreError
from chatagent.session import (
    SESSION_IN_EVENT_ID,
    TURN_COMPLETE,
    TURN_IN_EVENT_ID,
    NewRecord,
    RunRequest,
    Worker,
    boot_payload,
    control_record,
)
from chatagent.signals import AbortController
from chatagent.task import LocalValues, make_run_context
from chatagent.timers import wait_until
from chatagent.ui import Error
from chatagent.waiting import Gate, Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent.service.setting import ServiceSetting
    from chatagent.service.thread import ServiceThread
    from chatagent.session import Lease
    from chatagent.tasks import OwnedTask

__all__ = ["HostedRun", "RunHost"]

logger = logging.getLogger("chatagent")

CLAIMED_AT_ONCE: Final = 16
END_GRACE: Final = 5.0
"""Seconds on the clock that a run has to end by itself once it was asked to."""
HANG_GRACE: Final = 5.0
"""Real seconds that a cancelled run has to end; user code that swallows its cancellation is left behind."""


class HostedRun(NullObserver):
    """One runtime run, and what the service sees of it."""

    def __init__(self, lease: Lease, setting: ServiceSetting, thread: ServiceThread) -> None:
        self.lease, self.thread = lease, thread
        self._setting = setting
        self._cancel = AbortController()
        self._run: AgentRun | None = None
        self.turn_of: int | None = None
        """The number of the record that the run is at work on."""
        self.task: OwnedTask | None = None
        self.is_waiting = False

    @property
    def error(self) -> BaseException | None:
        """What ended the run, if it failed."""
        return None if self.task is None else self.task.error

    @property
    def other_tasks(self) -> list[OwnedTask]:
        """Its tasks beside the main one: tools, deferred work, readers."""
        return [] if self._run is None else list(self._run.tasks.active)

    def is_done_with(self, in_seq: int) -> bool:
        """Return whether the run needs the record of `.in` with this number no more."""
        return self._run is not None and self._run.in_.progress.is_done(in_seq)

    async def main(self) -> None:
        """Run the agent from its boot to its end."""
        setting, lease = self._setting, self.lease
        around, agent = setting.surroundings, setting.agent
        values: dict[str, Any] = {}

        def new_id() -> str:
            return around.new_id("msg")

        payload = parse_payload(
            boot_payload(lease), new_id=new_id, allow_system=agent.options.allow_client_system_messages
        )
        context = make_run_context(_context_of(lease, around.task_context, agent.id), now=setting.clock.now())
        env = RunEnvironment(
            payload=payload,
            lease=lease,
            store=setting.sessions,
            snapshots=setting.snapshots,
            clock=setting.clock,
            context=context,
            new_id=new_id,
            local_values=values,
            observer=Observers(self, around.observe(lease.session.session_id)),
            cancel=self._cancel,
            ledger=around.ledger,
            load_file=self._load_file,
        )
        run = self._run = AgentRun(agent, env)
        current_run.set(run)
        if around.setup_locals is not None:
            outcome = around.setup_locals(LocalValues(values))
            if inspect.isawaitable(outcome):
                await outcome
        await run_agent(run)

    async def _load_file(self, file_id: str) -> bytes:
        return (await self._setting.files.load(file_id)).body

    @property
    def local_values(self) -> LocalValues | None:
        """The run's locals; `None` before it has any."""
        return None if self._run is None else LocalValues(self._run.local_values)

    async def end(self, reason: str) -> None:
        """Ask the run to end, and cancel it if it does not."""
        task = self.task
        if task is None or task.done:
            return
        self._cancel.abort(reason)
        ended = Waiter(f"the end of {task.name}")

        async def join() -> None:
            await task.join()
            ended.wake()

        joiner = self._setting.tasks.start(join, name=f"the wait for {task.name}")
        try:
            with anyio.move_on_after(2 * END_GRACE):  # a clock of a test's own may stand still
                await wait_until(ended, self._setting.clock, self._setting.clock.now() + END_GRACE, kind="limit")
        finally:
            await joiner.close()
        if not task.done:
            task.cancel()
            with anyio.move_on_after(HANG_GRACE, shield=True):
                await task.join()
        if not task.done:
            logger.warning("%s does not end although it was cancelled", task.name)

    # RunObserver --------------------------------------------------------------------------------------------------

    def turn_started(self, turn: int, in_seq: int | None) -> None:
        """See `RunObserver.turn_started`."""
        self.turn_of, self.is_waiting = in_seq, False
        if self.thread.hosted is self:
            self.thread.turn_started(in_seq)

    def turn_completed(self, report: TurnReport) -> None:
        """See `RunObserver.turn_completed`."""
        self.turn_of = None

    def turn_settled(self, report: TurnReport) -> None:
        """See `RunObserver.turn_settled`."""
        if self.thread.hosted is self and not self._setting.agent.options.is_custom:
            self.thread.conversation_settled(report)

    def waiting(self, *, suspended: bool) -> None:
        """See `RunObserver.waiting`."""
        self.is_waiting = True
        if self.thread.hosted is self:
            self.thread.run_waits(self, suspended=suspended)


class RunHost:
    """Takes the runs that the session store wants, and hosts them.

    Args:
        setting: what the service's parts share.
        find_thread: gives the thread of a session.
    """

    def __init__(self, setting: ServiceSetting, find_thread: Callable[[str], ServiceThread]) -> None:
        self._setting, self._find_thread = setting, find_thread
        self._worker = Worker(
            f"service-{setting.new_id('worker')}", (setting.agent.id,), setting.surroundings.lease_ttl
        )
        self._burials: dict[str, tuple[int, str, Gate]] = {}
        self.live: dict[HostedRun, None] = {}
        self.errors: list[BaseException] = []
        """What has ended runs that nobody was told of."""
        self._keeper: OwnedTask | None = None
        self._is_closing = False

    def start(self) -> None:
        """Begin to take runs."""
        self._is_closing = False
        self._setting.tasks.start(self._serve, name="the worker of the service")

    async def close(self) -> None:
        """End all runs; what they have left undone is still on their logs."""
        self._is_closing = True
        async with anyio.create_task_group() as ending:
            for hosted in tuple(self.live):
                ending.start_soon(hosted.end, "closed")

    async def bury(self, session_id: str, in_seq: int, text: str) -> None:
        """Close the turn of a record that no run will answer, so that the next run does not take it up again.

        Args:
            session_id: the session.
            in_seq: the record's number.
            text: what its failure says.
        """
        buried = Gate("the end of a turn that nobody answers")
        self._burials[session_id] = in_seq, text, buried
        await self._setting.sessions.ensure_run(session_id, RunRequest("continuation"))
        await buried.wait()

    async def _serve(self) -> None:
        sessions = self._setting.sessions
        while True:
            await sessions.wait_for_runs(self._worker)
            for lease in await sessions.claim_runs(self._worker, limit=CLAIMED_AT_ONCE):
                burial = self._burials.pop(lease.session.session_id, None)
                if burial is None:
                    self._begin(lease)
                else:
                    await self._bury(lease, *burial)

    async def _bury(self, lease: Lease, in_seq: int, text: str, buried: Gate) -> None:
        sessions, session_id = self._setting.sessions, lease.session.session_id
        records = [
            NewRecord(Error(error_text=text), ((TURN_IN_EVENT_ID, str(in_seq)),)),
            control_record(TURN_COMPLETE, **{SESSION_IN_EVENT_ID: str(in_seq)}),
        ]
        try:
            await sessions.append(session_id, "out", records, epoch=lease.epoch, commit_in=in_seq)
            await sessions.end_run(lease, "failed")
        except StoreError:
            logger.exception("session %r: the turn of record %s could not be closed", session_id, in_seq)
        finally:
            buried.open()

    def _begin(self, lease: Lease) -> None:
        thread = self._find_thread(lease.session.session_id)
        hosted = HostedRun(lease, self._setting, thread)
        thread.hosted = hosted
        self.live[hosted] = None
        thread.read_on()
        name = f"run {lease.run_id} of agent {self._setting.agent.id!r}"
        hosted.task = self._setting.tasks.start(hosted.main, name=name, on_end=lambda _: self._over(hosted))
        if self._keeper is None or self._keeper.done:
            self._keeper = self._setting.tasks.start(self._keep, name="the renewal of leases")

    def _over(self, hosted: HostedRun) -> None:
        self.live.pop(hosted, None)
        error = hosted.error
        if error is not None:
            self._note(hosted, error)
        if isinstance(error, OutOfMemoryError) and self._has_larger_machine(hosted.lease):
            hosted.thread.jobs.add(lambda: self._retry(hosted.lease.session.session_id))
        if self._is_closing:
            hosted.thread.lose(hosted)
        else:
            hosted.thread.run_over(hosted)

    def _note(self, hosted: HostedRun, error: BaseException) -> None:
        logger.error("%s failed", hosted.task.name if hosted.task else "a run", exc_info=error)
        if hosted.thread.active_entry() is None:
            self.errors.append(error)

    def _has_larger_machine(self, lease: Lease) -> bool:
        return self._setting.agent.options.oom_machine is not None and lease.attempt == 1

    async def _retry(self, session_id: str) -> None:
        await self._setting.sessions.ensure_run(session_id, RunRequest("out_of_memory"))

    async def _keep(self) -> None:
        """Renew the leases of the runs while there are some (ST-53)."""
        clock, ttl = self._setting.clock, self._worker.ttl
        while self.live:
            await wait_until(Waiter("the renewal of leases"), clock, clock.now() + ttl / 3, kind="wait")
            runs = tuple(self.live)
            if not runs:
                return
            kept = await self._setting.sessions.renew([hosted.lease for hosted in runs])
            for hosted, lease in zip(runs, kept, strict=True):
                if lease is None:
                    await hosted.end("lease_lost")
                else:
                    hosted.lease = lease


def _context_of(lease: Lease, given: Mapping[str, Any] | None, agent_id: str) -> dict[str, Any]:
    sections = dict(given or {})
    if set(sections) == {"ctx"}:
        sections = dict(sections["ctx"])
    run = {"id": lease.run_id, "epoch": lease.epoch}
    attempt = {"number": lease.attempt}
    return {
        **sections,
        "task": {"id": agent_id, **sections.get("task", {})},
        "run": {**sections.get("run", {}), **run},
        "attempt": {**sections.get("attempt", {}), **attempt},
    }
