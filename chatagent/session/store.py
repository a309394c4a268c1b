"""What a store of sessions is to the runtime: two protocols, and the values that go in and out of them.

Whoever implements them inherits from nothing. The methods say what a caller may rely on; the rules behind them are
ST-1 to ST-90. The in-memory store is in `memory.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from chatagent.session.records import slotted
from chatagent.ui.slots import UNSET, Unset

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Self

    from chatagent.session.records import Direction, NewRecord, Record
    from chatagent.session.snapshot import Snapshot

__all__ = [
    "AppendAck",
    "CreatedSession",
    "EndedRun",
    "Lease",
    "NowaitStore",
    "RecordPage",
    "RunOutcome",
    "RunReason",
    "RunRef",
    "RunRequest",
    "RunState",
    "SessionChange",
    "SessionInfo",
    "SessionPage",
    "SessionSpec",
    "SessionStore",
    "SnapshotStore",
    "Worker",
    "boot_payload",
]

RunState = Literal["pending", "live", "ended"]
"""`pending`: wanted, nobody has it; `live`: a worker holds the lease."""

RunReason = Literal["initial", "continuation", "crash", "upgrade", "out_of_memory"]
"""Why a run is wanted."""

RunOutcome = Literal["idle", "closed", "completed", "upgraded", "failed", "cancelled", "interrupted"]
"""How a run ended by itself. A crash is not reported; the store finds it."""


@dataclass(frozen=True, slots=True)
class RunRef:
    """A run of a session, by name."""

    session_id: str
    run_id: str
    epoch: int
    """Number of the run within its session, from 1; a write with an older one changes nothing."""
    state: RunState
    created: bool = False
    """Whether the call that returned this created the run."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The wish for a run."""

    reason: RunReason
    payload: Mapping[str, object] = field(default_factory=dict[str, object])
    """Wire keys that override those of the session's base payload."""


@slotted
class AppendAck:
    """What an append has stored, and where."""

    first: int
    """Number of the batch's first record."""
    last: int
    """Number of its last."""
    duplicate: bool = False
    """The key was known: nothing was stored now, and the numbers are those of the first time."""
    run: RunRef | None = None
    """The run that will see the records; only where the append asked for one."""


@dataclass(frozen=True, slots=True)
class RecordPage:
    """A run of records of one log, without a hole."""

    records: tuple[Record, ...]
    next: int
    """The number that the log gives next."""
    first_kept: int
    """The lowest number that a trim has left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec:
    """A session to be created."""

    session_id: str
    """The external id, 1 to 256 characters; for a chat it is the chat's id."""
    task: str
    """Id of the agent (the task) that runs the session."""
    type: str = "chat.agent"
    trigger_config: Mapping[str, object] = field(default_factory=dict[str, object])
    """In wire form; its `basePayload` is the first run's payload."""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, object] | None = None
    expires_at: float | None = None
    """Instant on the store's clock from which on the session counts as closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session as it stands at one moment."""

    session_id: str
    friendly_id: str
    """Given by the store; begins with `session_`."""
    task: str
    type: str
    trigger_config: Mapping[str, object]
    tags: tuple[str, ...]
    metadata: Mapping[str, object] | None
    created_at: float
    updated_at: float
    expires_at: float | None
    closed_at: float | None
    closed_reason: str | None
    current_run: RunRef | None
    """The run that is pending or live; a session has at most one."""
    in_next: int
    """The number that `.in` gives next."""
    in_work: int
    """The highest number of `.in` that asked for a run; -1 if none has."""
    in_committed: int
    """All records of `.in` up to this number have been dealt with; -1 if none has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionChange:
    """What to change of a session; a field that is `UNSET` stays as it is."""

    trigger_config: Mapping[str, object] | Unset = UNSET
    tags: tuple[str, ...] | Unset = UNSET
    metadata: Mapping[str, object] | Unset | None = UNSET
    expires_at: float | Unset | None = UNSET


@dataclass(frozen=True, slots=True)
class CreatedSession:
    """The outcome of `create_session`."""

    session: SessionInfo
    created: bool
    """`False`: the session was there already, and nothing was started."""
    run: RunRef | None = None
    """The session's first run, if the call asked for one and created it; else the current one."""


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some sessions of a list, in the order of their creation."""

    sessions: tuple[SessionInfo, ...]
    next: str | None
    """What to give as `after` for the page behind; `None` at the end."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Whoever takes runs to work on."""

    worker_id: str
    tasks: Collection[str]
    """Ids of the agents that it can run."""
    ttl: float = 15.0
    """Seconds for which a lease lasts without a renewal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A worker's right to be the live run, for a time."""

    session: SessionInfo
    run_id: str
    epoch: int
    previous_run_id: str | None
    """The run before; `None` for a session's first. A retry has the one of the run that it retries."""
    reason: RunReason
    attempt: int
    """1, or 2 and up for a retry after an out-of-memory."""
    crashes: int
    """Crashed runs of the session since its committed cursor last moved."""
    worker_id: str
    ttl: float
    expires_at: float
    """On the store's clock; a holder counts `ttl` on its own instead."""
    payload: Mapping[str, object] = field(default_factory=dict[str, object])
    """The request's overrides; `boot_payload` applies them."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The outcome of `end_run`."""

    ended: bool
    """`False`: work has come that the run has not seen; the lease stays, and the run goes on."""
    in_work: int
    """The highest number of `.in` that asked for a run."""
    next_run: RunRef | None = None
    """The run that follows, if one was asked for."""


class SessionStore(Protocol):
    """Where sessions, their logs and their runs live. Implement these methods; inherit from nothing.

    A store is used inside `async with`. Any method may raise `StoreClosedError` (it is not open), and all that take the
    id of a session `SessionNotFoundError`.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> bool | None: ...

    async def create_session(self, spec: SessionSpec, *, run: RunRequest | None = None) -> CreatedSession:
        """Create a session, and with `run` its first run, in one step.

        If it is there already, its config fields are written through and nothing is started.

        Raises:
            InvalidArgumentError: the id is not one, or belongs to a session of another task.
            SessionClosedError: it is there and closed.
        """
        ...

    async def get_session(self, session_id: str) -> SessionInfo | None:
        """Return the session of this external or friendly id; `None` if there is none."""
        ...

    async def update_session(self, session_id: str, change: SessionChange) -> SessionInfo:
        """Change config fields; they count for future runs."""
        ...

    async def close_session(self, session_id: str, *, reason: str | None = None) -> SessionInfo:
        """Close a session for good: no more input; its live run may still write and end. A second call does nothing."""
        ...

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session with all that it has; return whether it was there. Its live run loses the lease."""
        ...

    async def list_sessions(self, *, after: str | None = None, limit: int = 50, tag: str | None = None) -> SessionPage:
        """Return sessions in the order of their creation, those behind `after` (a page's `next`)."""
        ...

    async def append(
        self,
        session_id: str,
        direction: Direction,
        records: Sequence[NewRecord],
        *,
        epoch: int | None = None,
        key: str | None = None,
        commit_in: int | None = None,
        run: RunRequest | None = None,
    ) -> AppendAck:
        """Append a batch: all of it on consecutive numbers, or nothing.

        Args:
            session_id: the session's external id.
            direction: which log.
            records: 1 to 1,000 records.
            epoch: the writer's epoch; `.out` demands it, `.in` takes none.
            key: names the batch within its log; a repeat stores nothing and returns the first ack.
            commit_in: moves the committed cursor of `.in` up to this number in the same step; only with `.out`.
            run: makes sure in the same step that a run is pending or live; only with `.in`.

        Raises:
            InvalidArgumentError: an argument does not fit, or JSON cannot hold a value; nothing is written.
            LeaseLostError: the epoch is not that of the pending or live run; nothing is written.
            RecordTooLargeError: a record or the batch is above its limit; nothing is written.
            SessionClosedError: the session takes no more input; nothing is written.
        """
        ...

    async def read(
        self,
        session_id: str,
        direction: Direction,
        *,
        after: int | None = None,
        limit: int = 1000,
        max_bytes: int = 1 << 20,
    ) -> RecordPage:
        """Return what is there above `after` (`None`: from the first kept), without waiting.

        Args:
            session_id: the session's external id.
            direction: which log.
            after: the last number seen; one that was trimmed away clamps forward.
            limit: how many records at most.
            max_bytes: about how large the page may get; one record always comes.
        """
        ...

    def follow(
        self, session_id: str, direction: Direction, *, after: int | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[RecordPage]]:
        """Yield pages for ever: what is there above `after`, then what comes. No page is empty.

        The cursor is the caller's: after a cancellation a new `follow` at the last number seen goes on. It ends by
        `SessionNotFoundError` when the session is deleted and by `StoreClosedError` when the store closes. The iterator
        may have a method `stop()`, by which it ends itself; then its reader need not be cancelled.
        """
        ...

    async def ensure_run(self, session_id: str, request: RunRequest) -> RunRef:
        """Return the run that is pending or live, or create a pending one.

        Raises:
            SessionClosedError: there is none, and the session is closed.
        """
        ...

    async def claim_runs(self, worker: Worker, *, limit: int) -> list[Lease]:
        """Turn pending runs that the worker can serve into leases, oldest first, without waiting."""
        ...

    async def wait_for_runs(self, worker: Worker) -> None:
        """Return when there may be something to claim."""
        ...

    async def renew(self, leases: Sequence[Lease]) -> list[Lease | None]:
        """Renew leases; a lost one comes back as `None`."""
        ...

    async def end_run(
        self,
        lease: Lease,
        outcome: RunOutcome,
        *,
        input_seen: int | None = None,
        next_run: RunRequest | None = None,
    ) -> EndedRun:
        """End a run in one step.

        Args:
            lease: the run's lease.
            outcome: how it ended.
            input_seen: the highest number of `.in` that the run has seen; if work lies above it and no `next_run` is
                given, the run does not end.
            next_run: creates the following run in the same step.

        Raises:
            LeaseLostError: the run is not live any more; nothing is changed.
        """
        ...

    async def recover(self) -> list[RunRef]:
        """End runs whose lease has run out, as crashed, and see to it that uncommitted work gets a run.

        Returns:
            The runs that this call has ended.
        """
        ...


@runtime_checkable
class NowaitStore(Protocol):
    """A store that can append without waiting (rule ST-82)."""

    def append_nowait(
        self,
        session_id: str,
        direction: Direction,
        records: Sequence[NewRecord],
        *,
        epoch: int | None = None,
        key: str | None = None,
        commit_in: int | None = None,
        run: RunRequest | None = None,
    ) -> AppendAck:
        """Do what `append` does, at once."""
        ...

    def data_appender(self, session_id: str, epoch: int) -> Callable[[object], int]:
        """Return a function that appends one data record without headers to `.out` and returns its number.

        It is the path of every chunk, so what is the same for all of them is looked up once.
        """
        ...


class SnapshotStore(Protocol):
    """Where snapshots live, one a session. Implement these methods; inherit from nothing."""

    async def load(self, session_id: str) -> Snapshot | None:
        """Return the session's snapshot; `None` only if none was ever saved, or it was deleted.

        Raises:
            SnapshotStoreError: it could not be read.
            SnapshotCorruptError: what is stored does not decode; it was left as it is.
            SnapshotVersionError: the stored format is newer than this release; it was left as it is.
        """
        ...

    async def save(self, session_id: str, snapshot: Snapshot, *, epoch: int) -> None:
        """Replace the session's snapshot in one step: a reader sees the old or the new.

        Raises:
            LeaseLostError: a later run, or this one at a later turn, has saved already; nothing is changed.
            RecordTooLargeError: it is above 16 MiB; the old one stays.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Remove the session's snapshot; does nothing if there is none."""
        ...


_DURABLE = ("chatId", "metadata", "idleTimeoutInSeconds", "sessionId")
"""Keys of the base payload that hold for every run of a session (rule C-3); the others are for the first one."""


def boot_payload(lease: Lease) -> dict[str, object]:
    """Return the wire payload that a run boots with (rule ST-59).

    A session's first run gets its base payload, later ones the part of it that lasts, with `continuation` and
    `previousRunId`. A retry gets what the run before it got. The request's own keys come on top.
    """
    base = lease.session.trigger_config.get("basePayload")
    payload: dict[str, object] = dict(base) if isinstance(base, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
    if lease.previous_run_id is not None:
        payload = {key: payload[key] for key in _DURABLE if key in payload}
        payload |= {"continuation": True, "previousRunId": lease.previous_run_id}
    return {**payload, **lease.payload}
