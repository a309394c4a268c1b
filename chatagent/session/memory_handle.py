"""What the parts of the store in memory stand on: the data that all handles share, and being open or closed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from chatagent.errors import LeaseLostError, SessionClosedError, SessionNotFoundError, StoreClosedError

if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from chatagent.clock import Clock
    from chatagent.ids import IdGenerator
    from chatagent.session.memory_runs import MemoryRun, MemorySession
    from chatagent.session.records import Direction, Record
    from chatagent.session.store import RunRef, RunRequest, Worker
    from chatagent.waiting import Waiter

    Observer = Callable[[str, Direction, tuple[Record, ...]], object]

__all__ = ["KeptSnapshots", "MemoryHandle", "Shared", "check_open_session"]


class KeptSnapshots(Protocol):
    """What the sessions ask of the snapshots that are kept beside them."""

    def forget(self, session_id: str) -> None:
        """Remove a deleted session's snapshot."""
        ...

    def input_seen(self, session_id: str) -> int | None:
        """Return the number of `.in` up to which the snapshot has seen the input; `None` if there is no snapshot."""
        ...


class Shared:
    """What all handles of one store share."""

    def __init__(self, clock: Clock, ids: IdGenerator) -> None:
        self.clock = clock
        self.ids = ids
        self.sessions: dict[str, MemorySession] = {}
        self.friendly: dict[str, MemorySession] = {}
        self.epochs: dict[str, int] = {}
        """The last epochs of deleted sessions, so that their runs stay fenced (rule ST-14)."""
        self.created = 0
        self.pending: dict[MemoryRun, None] = {}
        """Runs to be claimed, in the order of their creation."""
        self.live: dict[MemoryRun, None] = {}
        self.revoked: dict[MemorySession, None] = {}
        """Sessions whose run was taken away, and which `recover` has not looked at."""
        self.claimers: dict[Waiter, Worker] = {}
        self.observers: dict[object, Observer] = {}
        self.observing: tuple[Observer, ...] = ()
        self.snapshots: list[weakref.ref[KeptSnapshots]] = []
        """Whoever else holds one keeps it; one that nobody holds has nothing to lose."""

    def kept_snapshots(self) -> list[KeptSnapshots]:
        """Return the stores of snapshots that are still there."""
        return [snapshots for ref in self.snapshots if (snapshots := ref()) is not None]

    def begin_run(self, session: MemorySession, request: RunRequest) -> RunRef:
        """Create a session's next run and tell the workers."""
        run = session.begin_run(request, run_id=f"run_{self.ids()}", now=self.clock.now())
        self.pending[run] = None
        self.revoked.pop(session, None)
        self.announce(run)
        return run.ref(created=True)

    def ensure_run(self, session: MemorySession, request: RunRequest) -> RunRef:
        """Return the session's run, or create one."""
        return self.begin_run(session, request) if session.run is None else session.run.ref()

    def stop_run(self, session: MemorySession, *, crashed: bool) -> MemoryRun:
        """End a session's run."""
        run = session.stop_run(crashed=crashed)
        self.pending.pop(run, None)
        self.live.pop(run, None)
        return run

    def announce(self, run: MemoryRun) -> None:
        """Wake the workers that can serve a run."""
        for waiter, worker in self.claimers.items():
            if run.task in worker.tasks:
                waiter.wake()


class MemoryHandle:
    """One handle on the data of a store, open or closed.

    Args:
        shared: the data.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._now = shared.clock.now
        self._sessions: dict[str, MemorySession] = {}
        """The sessions; empty while the store is closed, so that the path of a chunk needs no check of its own."""
        self._entered = 0
        self._waiting: dict[Waiter, None] = {}

    async def __aenter__(self) -> Self:
        """Open the store; it may be opened several times over, and closes with the last one."""
        self._entered += 1
        self._sessions = self._shared.sessions
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Close the store: whoever waits in it gets a `StoreClosedError`. The data stay."""
        self._entered -= 1
        if not self._entered:
            self._sessions = {}
            for waiter in tuple(self._waiting):
                waiter.wake()

    def _check_open(self) -> None:
        if not self._entered:
            raise StoreClosedError("the store is not open: use it inside `async with store:`")

    def _session(self, session_id: str) -> MemorySession:
        session = self._sessions.get(session_id)
        if session is None:
            raise self._missing(session_id, None)
        return session

    def _missing(self, session_id: str, epoch: int | None) -> Exception:
        """Make the error of a call whose session is not there."""
        self._check_open()
        if epoch is not None and session_id in self._shared.epochs:
            return LeaseLostError(session_id=session_id, epoch=epoch, current_epoch=None)
        return SessionNotFoundError(session_id)


def check_open_session(session: MemorySession, now: float) -> None:
    """Refuse what a closed session does not take."""
    if session.closed(now):
        raise SessionClosedError(session.session_id)
