"""A session in memory, with its runs: which epoch may write, and how a run begins and ends.

State and its transitions only; `memory.py` and `memory_claims.py` find the sessions, check the callers, and wake who
waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.errors import LeaseLostError
from chatagent.session.memory_log import MemoryLog
from chatagent.session.store import Lease, RunRef, SessionInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.session.store import RunReason, RunRequest, RunState, SessionSpec, Worker

__all__ = ["MemoryRun", "MemorySession"]

_CRASH_DELAYS = (0.0, 1.0, 5.0, 30.0)
"""Seconds until a continuation may be claimed, by the number of crashes before it; the last holds for all further."""


class MemoryRun:
    """One run: wanted, worked on, or over."""

    __slots__ = (
        "attempt",
        "available_at",
        "epoch",
        "expires_at",
        "payload",
        "previous_run_id",
        "reason",
        "run_id",
        "session_id",
        "state",
        "task",
        "ttl",
        "worker_id",
    )

    def __init__(self, session: MemorySession, run_id: str, request: RunRequest, *, available_at: float) -> None:
        before = session.last_run
        retried = before if request.reason == "out_of_memory" else None
        self.session_id, self.task = session.session_id, session.task
        self.run_id = run_id
        self.epoch = session.epoch
        self.reason: RunReason = request.reason
        self.payload: Mapping[str, object] = request.payload
        self.attempt = 1
        self.previous_run_id = None if before is None else before.run_id
        if retried is not None:
            self.attempt = retried.attempt + 1
            self.previous_run_id = retried.previous_run_id
            self.payload = {**retried.payload, **request.payload}
        self.available_at = available_at
        self.state: RunState = "pending"
        self.worker_id = ""
        self.ttl = 0.0
        self.expires_at = 0.0

    def ref(self, *, created: bool = False) -> RunRef:
        """Name the run."""
        return RunRef(self.session_id, self.run_id, self.epoch, self.state, created)

    def lease(self, session: MemorySession, worker: Worker, now: float) -> Lease:
        """Make the run live, and the worker its holder."""
        self.state = "live"
        self.worker_id = worker.worker_id
        self.ttl = worker.ttl
        return self.renewed(session, now)

    def renewed(self, session: MemorySession, now: float) -> Lease:
        """Let the lease last for its time from now; a run has no way to its session, which holds it."""
        self.expires_at = now + self.ttl
        return Lease(
            session=session.info(),
            run_id=self.run_id,
            epoch=self.epoch,
            previous_run_id=self.previous_run_id,
            reason=self.reason,
            attempt=self.attempt,
            crashes=session.crashes,
            worker_id=self.worker_id,
            ttl=self.ttl,
            expires_at=self.expires_at,
            payload=self.payload,
        )


class MemorySession:
    """One session: its row, its two logs and its current run."""

    __slots__ = (
        "closed_at",
        "closed_reason",
        "crashes",
        "created_at",
        "epoch",
        "expires_at",
        "friendly_id",
        "in_",
        "in_committed",
        "in_work",
        "last_run",
        "metadata",
        "order",
        "out",
        "run",
        "session_id",
        "tags",
        "task",
        "trigger_config",
        "type",
        "updated_at",
        "writer",
    )

    def __init__(self, spec: SessionSpec, *, friendly_id: str, order: int, epoch: int, now: float) -> None:
        self.session_id = spec.session_id
        self.friendly_id = friendly_id
        self.order = order
        """Place among all sessions, by creation."""
        self.task = spec.task
        self.type = spec.type
        self.created_at = now
        self.closed_at: float | None = None
        self.closed_reason: str | None = None
        self.configure(spec, now)
        self.in_ = MemoryLog(spec.session_id, "in")
        self.out = MemoryLog(spec.session_id, "out")
        self.in_work = -1
        self.in_committed = -1
        self.epoch = epoch
        """The last run's number; a session that was deleted goes on above it."""
        self.writer: int | None = None
        """The epoch that may write; `None` where nobody may."""
        self.run: MemoryRun | None = None
        """The run that is pending or live."""
        self.last_run: MemoryRun | None = None
        """The last run that has ended."""
        self.crashes = 0

    def configure(self, spec: SessionSpec, now: float) -> None:
        """Take over the config fields."""
        self.trigger_config = spec.trigger_config
        self.tags = tuple(spec.tags)
        self.metadata = spec.metadata
        self.expires_at = spec.expires_at
        self.updated_at = now

    def closed(self, now: float) -> bool:
        """Return whether the session takes no more input; an expired one is closed for good as soon as it is seen."""
        if self.closed_at is None and self.expires_at is not None and self.expires_at <= now:
            self.closed_at, self.closed_reason = self.expires_at, "expired"
        return self.closed_at is not None

    def info(self) -> SessionInfo:
        """Show the row as it stands."""
        return SessionInfo(
            session_id=self.session_id,
            friendly_id=self.friendly_id,
            task=self.task,
            type=self.type,
            trigger_config=self.trigger_config,
            tags=self.tags,
            metadata=self.metadata,
            created_at=self.created_at,
            updated_at=self.updated_at,
            expires_at=self.expires_at,
            closed_at=self.closed_at,
            closed_reason=self.closed_reason,
            current_run=None if self.run is None else self.run.ref(),
            in_next=self.in_.next,
            in_work=self.in_work,
            in_committed=self.in_committed,
        )

    def log(self, direction: str) -> MemoryLog:
        """Return one of the two logs."""
        return self.out if direction == "out" else self.in_

    def commit(self, number: int) -> None:
        """Move the committed cursor up; never down, never past what is there."""
        number = min(number, self.in_.next - 1)
        if number > self.in_committed:
            self.in_committed = number
            self.crashes = 0

    def begin_run(self, request: RunRequest, *, run_id: str, now: float) -> MemoryRun:
        """Create the next run, pending; from here on its epoch writes."""
        assert self.run is None, "a session has one run at a time"
        delay = 0.0
        if request.reason == "crash" and self.crashes:
            delay = _CRASH_DELAYS[min(self.crashes, len(_CRASH_DELAYS)) - 1]
        self.epoch += 1
        self.run = run = MemoryRun(self, run_id, request, available_at=now + delay)
        self.writer = run.epoch
        self.out.forget_keys()
        return run

    def stop_run(self, *, crashed: bool) -> MemoryRun:
        """End the current run; from here on nobody writes."""
        assert self.run is not None, "there is a run to end"
        run, self.run = self.run, None
        self.last_run = run
        run.state = "ended"
        self.writer = None
        self.crashes += crashed
        return run

    def has_work(self) -> bool:
        """Return whether `.in` holds work that nobody has dealt with."""
        return self.in_work > self.in_committed

    def lost(self, epoch: int | None) -> LeaseLostError:
        """Make the error of a write with an epoch that may not write."""
        return LeaseLostError(session_id=self.session_id, epoch=epoch, current_epoch=self.writer)
