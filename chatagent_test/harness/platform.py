"""The surroundings that a harness gives to a run: session and snapshot in memory, a lease, and what tests have seeded.

Nothing here is made up for tests alone: seeds are records in the logs and a snapshot in the store that the run really
reads, so the real decoding and the real replay apply.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from chatagent.agent import RunEnvironment, parse_payload
from chatagent.session import (
    InMemorySessionStore,
    InMemorySnapshotStore,
    Lease,
    NewRecord,
    RunRequest,
    SessionSpec,
    Worker,
)
from chatagent.task import make_run_context
from chatagent.ui import to_wire
from chatagent_test.harness.blocking import timed
from chatagent_test.harness.watched_reads import watched_reads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent.agent import ChatAgent, Telemetry
    from chatagent.clock import Clock
    from chatagent.ids import IdGenerator
    from chatagent.session import Direction, Record, Snapshot
    from chatagent.task import RunContext
    from chatagent.tasks import Around
    from chatagent.waiting import Ledger
    from chatagent_test.harness.crash_plan import CrashPlan
    from chatagent_test.harness.seeds import Seeds
    from chatagent_test.harness.watch import RunWatch

__all__ = ["Platform"]

WORKER_TTL = 1e9
"""Seconds; a lease of the harness does not run out by itself."""


@dataclass(slots=True)
class Platform:
    """One session in memory, and the runs on it.

    Args:
        agent: what runs.
        chat_id: the conversation.
        clock: the clock of store and runs.
        new_id: makes the ids of messages and calls.
        watch: sees the runs.
        telemetry: watches them, too.
    """

    agent: ChatAgent[Any]
    chat_id: str
    clock: Clock
    new_id: IdGenerator
    watch: RunWatch
    store: InMemorySessionStore = field(init=False)
    snapshots: InMemorySnapshotStore = field(init=False)
    telemetry: Telemetry | Literal["agent"] | None = None
    saved: Snapshot | None = None
    is_open: bool = False
    crash_plan: CrashPlan | None = None
    _unobserve: list[Callable[[], None]] = field(default_factory=list["Callable[[], None]"])

    def __post_init__(self) -> None:
        self.store = InMemorySessionStore(clock=self.clock)
        self.snapshots = InMemorySnapshotStore(sessions=self.store)

    async def open(self, seeds: Seeds) -> None:
        """Create the session, with what was seeded in it; does nothing for a further run."""
        if self.is_open:
            return
        await self.store.__aenter__()
        spec = SessionSpec(session_id=self.chat_id, task=self.agent.id)
        await self.store.create_session(spec)
        self.is_open = True
        if seeds.any_record:
            await self._seed(seeds)
        self._unobserve.append(self.store.observe(self.watch.appended))
        if self.crash_plan is not None:
            self._unobserve.append(self.store.observe(self._tell_written))

    async def close(self) -> None:
        """Close the store; what it holds can no longer be read."""
        if self.is_open:
            self.is_open = False
            for end in self._unobserve:
                end()
            await self.store.__aexit__(None, None, None)

    async def lease(self, reason: str = "initial") -> Lease:
        """Begin a run on the session and take the right to be it."""
        await self.store.ensure_run(self.chat_id, RunRequest("initial" if reason == "initial" else "continuation"))
        worker = Worker("harness", (self.agent.id,), ttl=WORKER_TTL)
        (lease,) = await self.store.claim_runs(worker, limit=1)
        return lease

    async def environment(
        self,
        payload: Mapping[str, Any],
        *,
        task_context: Mapping[str, Any] | None,
        ledger: Ledger,
        local_values: dict[str, Any],
        strict: bool,
        seeds: Seeds,
    ) -> RunEnvironment:
        """Make the environment of the session's next run.

        Args:
            payload: the boot payload, in wire form.
            task_context: overrides of the run context.
            ledger: what counts the run's tasks.
            local_values: the run's locals.
            strict: `False` restores what the reference does after a failing `on_turn_complete`.
            seeds: what was seeded; only the partial answer is looked at here.
        """
        lease = await self.lease()
        parsed = parse_payload(
            payload, new_id=self.new_id, allow_system=self.agent.options.allow_client_system_messages
        )
        return RunEnvironment(
            payload=parsed,
            lease=lease,
            store=self.store if self.crash_plan is None else watched_reads(self.store, self.crash_plan),
            snapshots=_WatchedSnapshots(self),
            clock=self.clock,
            context=_with_epoch(make_run_context(task_context, now=self.clock.now()), lease.epoch),
            new_id=self.new_id,
            local_values=local_values,
            observer=self.watch,
            telemetry=self.telemetry,
            ledger=ledger,
            around_tasks=self._around_tasks(),
            strict=strict,
            partial_answer=seeds.partial,
            partial_answer_raw=seeds.partial_raw,
        )

    def _around_tasks(self) -> Around:
        around, plan = timed(self.watch.blocking), self.crash_plan
        return around if plan is None else lambda name, fn: around(name, lambda: plan.around(fn))

    def send(self, data: Mapping[str, Any]) -> int:
        """Put a record on `.in`, as a client does; returns its number."""
        return self.store.append_nowait(self.chat_id, "in", [NewRecord(dict(data))]).last

    def _tell_written(self, _session_id: str, direction: Direction, records: tuple[Record, ...]) -> None:
        for record in records:
            if self.crash_plan is not None:
                self.crash_plan.record("wrote", direction, record)

    async def _seed(self, seeds: Seeds) -> None:
        lease = await self.lease()
        if seeds.snapshot is not None:
            self.snapshots.seed(self.chat_id, seeds.snapshot)
            self._continue_numbers(seeds.snapshot)
        for chunk in seeds.out_tail:
            self.store.append_nowait(self.chat_id, "out", [NewRecord(chunk)], epoch=lease.epoch)
        for message in seeds.in_tail:
            payload = {"chatId": self.chat_id, "trigger": "submit-message", "message": to_wire(message)}
            self.send({"kind": "message", "payload": payload})
        self.store.revoke(self.chat_id)

    def _continue_numbers(self, snapshot: Any) -> None:
        """Let both channels number on from the snapshot's cursors (X-21)."""
        wire = cast("dict[str, Any]", snapshot if isinstance(snapshot, dict) else snapshot.to_wire())
        cursors: dict[Direction, Any] = {"in": wire.get("lastInEventId"), "out": wire.get("lastOutEventId")}
        for direction, cursor in cursors.items():
            if isinstance(cursor, str) and cursor.isdecimal():
                self.store.number_from(self.chat_id, direction, int(cursor) + 1)


def _with_epoch(context: RunContext, epoch: int) -> RunContext:
    return context if context.run.epoch == epoch else replace(context, run=replace(context.run, epoch=epoch))


class _WatchedSnapshots:
    """The harness's snapshot store, as a run sees it; keeps what the run saves apart from what was seeded."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    async def load(self, session_id: str) -> Snapshot | None:
        return await self._platform.snapshots.load(session_id)

    async def save(self, session_id: str, snapshot: Snapshot, *, epoch: int) -> None:
        await self._platform.snapshots.save(session_id, snapshot, epoch=epoch)
        self._platform.saved = snapshot
        if self._platform.crash_plan is not None:
            self._platform.crash_plan.snapshot_saved()

    async def delete(self, session_id: str) -> None:
        await self._platform.snapshots.delete(session_id)
