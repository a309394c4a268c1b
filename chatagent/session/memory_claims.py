"""The runs of the store in memory: who may claim, renew and end one, and what becomes of it when its worker is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.errors import LeaseLostError
from chatagent.session.limits import check_limit
from chatagent.session.memory_handle import MemoryHandle, check_open_session
from chatagent.session.store import EndedRun, RunRequest
from chatagent.timers import wait_until
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.session.memory_runs import MemoryRun, MemorySession
    from chatagent.session.store import Lease, RunOutcome, RunRef, Worker

__all__ = ["MemoryClaims"]

REANNOUNCE_AFTER = 5.0
"""Seconds after which `recover` tells the workers once more of a run that nobody has claimed."""


class MemoryClaims(MemoryHandle):
    """The part of the store that workers deal with."""

    async def ensure_run(self, session_id: str, request: RunRequest) -> RunRef:
        """Return the run that is pending or live, or create a pending one."""
        session = self._session(session_id)
        if session.run is None:
            check_open_session(session, self._now())
        return self._shared.ensure_run(session, request)

    async def claim_runs(self, worker: Worker, *, limit: int) -> list[Lease]:
        """Turn pending runs that the worker can serve into leases, oldest first."""
        self._check_open()
        shared, now = self._shared, self._now()
        runs = [run for run in shared.pending if run.task in worker.tasks and run.available_at <= now]
        runs = runs[: check_limit(limit)]
        for run in runs:
            del shared.pending[run]
            shared.live[run] = None
        return [run.lease(shared.sessions[run.session_id], worker, now) for run in runs]

    async def wait_for_runs(self, worker: Worker) -> None:
        """Return when there may be something to claim."""
        while True:
            self._check_open()
            times = [run.available_at for run in self._shared.pending if run.task in worker.tasks]
            earliest = min(times, default=None)
            if earliest is not None and earliest <= self._now():
                return
            waiter = Waiter("a run to claim")
            self._shared.claimers[waiter] = worker
            self._waiting[waiter] = None
            try:
                await wait_until(waiter, self._shared.clock, earliest, kind="sleep")
            finally:
                del self._shared.claimers[waiter], self._waiting[waiter]

    async def renew(self, leases: Sequence[Lease]) -> list[Lease | None]:
        """Renew leases; a lost one comes back as `None`."""
        self._check_open()
        now = self._now()
        held = [self._held(lease) for lease in leases]
        return [None if each is None else each[1].renewed(each[0], now) for each in held]

    async def end_run(
        self,
        lease: Lease,
        outcome: RunOutcome,
        *,
        input_seen: int | None = None,
        next_run: RunRequest | None = None,
    ) -> EndedRun:
        """End a run in one step; without `next_run` it goes on if work lies above `input_seen`."""
        self._check_open()
        held = self._held(lease)
        if held is None:
            raise self._lost(lease)
        session = held[0]
        if input_seen is not None and next_run is None and session.in_work > input_seen:
            return EndedRun(ended=False, in_work=session.in_work)
        self._shared.stop_run(session, crashed=False)
        ref = None if next_run is None else self._shared.begin_run(session, next_run)
        return EndedRun(ended=True, in_work=session.in_work, next_run=ref)

    async def recover(self) -> list[RunRef]:
        """End runs whose lease has run out, and see to it that uncommitted work gets a run; return the ended ones."""
        self._check_open()
        shared, now = self._shared, self._now()
        crashed = [run for run in shared.live if run.expires_at <= now]
        sessions = [shared.sessions[run.session_id] for run in crashed]
        for session in sessions:
            shared.stop_run(session, crashed=True)
        rest, shared.revoked = shared.revoked, {}
        for session in sessions + list(rest):
            if session.run is None and session.has_work():
                shared.begin_run(session, RunRequest("crash"))
        for run in shared.pending:
            if now - run.available_at > REANNOUNCE_AFTER:
                shared.announce(run)
        return [run.ref() for run in crashed]

    def revoke(self, session_id: str) -> RunRef | None:
        """Take the current run's right to write, at once: what a killed process would do no more (rule ST-90).

        The run counts as crashed. No run follows by itself; `recover` or the next append sees to that.

        Returns:
            The run that was ended; `None` if the session has none.
        """
        session = self._session(session_id)
        if session.run is None:
            return None
        self._shared.revoked[session] = None
        return self._shared.stop_run(session, crashed=True).ref()

    def check_writer(self, session_id: str, epoch: int) -> None:
        """Do nothing if the session is unknown here, or the epoch may write.

        Raises:
            LeaseLostError: it may not.
        """
        session = self._shared.sessions.get(session_id)
        if session is not None and session.writer != epoch:
            raise session.lost(epoch)
        if session is None and session_id in self._shared.epochs:
            raise LeaseLostError(session_id=session_id, epoch=epoch, current_epoch=None)

    def _held(self, lease: Lease) -> tuple[MemorySession, MemoryRun] | None:
        """Return the session and the live run that a lease is for; `None` if it was lost."""
        session = self._sessions.get(lease.session.session_id)
        run = None if session is None else session.run
        if session is None or run is None or run.epoch != lease.epoch or run.state != "live":
            return None
        return session, run

    def _lost(self, lease: Lease) -> Exception:
        session = self._sessions.get(lease.session.session_id)
        return self._missing(lease.session.session_id, lease.epoch) if session is None else session.lost(lease.epoch)
