"""The store in memory: sessions, logs, runs and snapshots as plain objects, every step of which is done without a wait.

It keeps the objects it is given (rule D7) and dies with its process. Two handles on one store stand for two processes.
Sessions, appends and reads are here, what workers do is in `memory_claims.py`; the logs are in `memory_log.py`, the
rows of sessions and runs in `memory_runs.py`.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from chatagent.clock import Clock, SystemClock
from chatagent.errors import InvalidArgumentError
from chatagent.ids import IdGenerator, random_id
from chatagent.session.limits import LIGHT_BODY, check_key, check_limit, check_session_id, weigh_batch
from chatagent.session.memory_claims import MemoryClaims
from chatagent.session.memory_handle import Shared, check_open_session
from chatagent.session.memory_log import Follower, MemoryLog
from chatagent.session.memory_runs import MemorySession
from chatagent.session.records import NewRecord, Record, trim_point
from chatagent.session.store import AppendAck, CreatedSession, RunRequest, SessionPage
from chatagent.session.values import WEIGHERS, NotJSONError, weigh
from chatagent.ui.slots import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chatagent.session.memory_handle import KeptSnapshots, Observer
    from chatagent.session.records import Direction
    from chatagent.session.store import RecordPage, SessionChange, SessionInfo, SessionSpec

__all__ = ["InMemorySessionStore"]


class InMemorySessionStore(MemoryClaims):
    """A `SessionStore` in memory; use it inside `async with`.

    Args:
        clock: the clock that lease times and instants are on; the system's by default.
        ids: makes the ids of sessions and runs.
    """

    def __init__(self, *, clock: Clock | None = None, ids: IdGenerator = random_id) -> None:
        super().__init__(Shared(clock or SystemClock(), ids))

    def handle(self) -> InMemorySessionStore:
        """Return a second handle on the same data, opened and closed by itself."""
        other = InMemorySessionStore()
        other._shared, other._now = self._shared, self._now
        return other

    async def create_session(self, spec: SessionSpec, *, run: RunRequest | None = None) -> CreatedSession:
        """Create a session, and with `run` its first run; what is there already takes over the config."""
        return self.create_session_nowait(spec, run=run)

    def create_session_nowait(self, spec: SessionSpec, *, run: RunRequest | None = None) -> CreatedSession:
        """Do what `create_session` does, at once."""
        self._check_open()
        check_session_id(spec.session_id)
        now = self._now()
        session = self._sessions.get(spec.session_id)
        if session is not None:
            if session.task != spec.task:
                problem = f"session {spec.session_id!r} belongs to the task {session.task!r}"
                raise InvalidArgumentError(argument="task", value=spec.task, problem=problem)
            check_open_session(session, now)
            session.configure(spec, now)
            return CreatedSession(session.info(), created=False, run=None if session.run is None else session.run.ref())
        shared = self._shared
        session = MemorySession(
            spec,
            friendly_id=f"session_{shared.ids()}",
            order=shared.created,
            epoch=shared.epochs.get(spec.session_id, 0),
            now=now,
        )
        shared.created += 1
        shared.sessions[spec.session_id] = session
        shared.friendly[session.friendly_id] = session
        ref = None if run is None else shared.begin_run(session, run)
        return CreatedSession(session.info(), created=True, run=ref)

    async def get_session(self, session_id: str) -> SessionInfo | None:
        """Return the session of this external or friendly id; `None` if there is none."""
        self._check_open()
        session = self._sessions.get(session_id) or self._shared.friendly.get(session_id)
        if session is None:
            return None
        session.closed(self._now())
        return session.info()

    async def update_session(self, session_id: str, change: SessionChange) -> SessionInfo:
        """Change config fields; those that are `UNSET` stay."""
        session = self._session(session_id)
        session.closed(self._now())
        for name in ("trigger_config", "tags", "metadata", "expires_at"):
            value = getattr(change, name)
            if value is not UNSET:
                setattr(session, name, tuple(value) if name == "tags" else value)
        session.updated_at = self._now()
        return session.info()

    async def close_session(self, session_id: str, *, reason: str | None = None) -> SessionInfo:
        """Close a session for good; a second call does nothing."""
        session = self._session(session_id)
        now = self._now()
        if not session.closed(now):
            session.closed_at, session.closed_reason = now, reason
            session.updated_at = now
        return session.info()

    async def delete_session(self, session_id: str) -> bool:
        """Remove a session, its logs, runs and snapshot; return whether it was there."""
        self._check_open()
        shared = self._shared
        session = shared.sessions.pop(session_id, None)
        if session is None:
            return False
        del shared.friendly[session.friendly_id]
        shared.epochs[session_id] = session.epoch
        shared.revoked.pop(session, None)
        if session.run is not None:
            shared.stop_run(session, crashed=False)
        for log in (session.in_, session.out):
            log.wake()
        for snapshots in shared.kept_snapshots():
            snapshots.forget(session_id)
        return True

    async def list_sessions(self, *, after: str | None = None, limit: int = 50, tag: str | None = None) -> SessionPage:
        """Return sessions in the order of their creation."""
        self._check_open()
        start = -1 if after is None else _page_start(after)
        found = [
            session
            for session in self._sessions.values()
            if session.order > start and (tag is None or tag in session.tags)
        ]
        page = found[: check_limit(limit)]
        return SessionPage(
            tuple(session.info() for session in page), str(page[-1].order) if len(found) > len(page) else None
        )

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
        """Append a batch; `append_nowait` does the same without `await`."""
        return self.append_nowait(session_id, direction, records, epoch=epoch, key=key, commit_in=commit_in, run=run)

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
        """Append a batch at once: fence, key, number, commit and run in one step."""
        session = self._sessions.get(session_id)
        if session is None:
            raise self._missing(session_id, epoch)
        ack = self._repeated(session, direction, epoch=epoch, key=key, commit_in=commit_in, run=run)
        return ack or self._append_batch(session, direction, records, key=key, commit_in=commit_in, run=run)

    def data_appender(self, session_id: str, epoch: int) -> Callable[[object], int]:
        """Return a function that appends one data record without headers to `.out` and returns its number.

        Fence, check, number and append are one step, as in `append_nowait`; it is called twenty thousand times a turn.
        """
        session, shared, now = self._session(session_id), self._shared, self._now
        log = session.out
        keep, keep_weight = log.records, log.weights

        def append(data: object) -> int:
            if epoch != session.writer or not self._entered:
                raise _fenced(session, epoch) if self._entered else self._missing(session_id, epoch)
            try:
                weight = WEIGHERS[type(data)](data)
            except (NotJSONError, RecursionError):
                weight = weigh(data, "records[0].data")
            if weight > LIGHT_BODY:
                weigh_batch((NewRecord(data),))
            seq = log.next
            record = Record(data, (), None, seq, now())
            keep.append(record)
            keep_weight.append(weight)
            log.next = seq + 1
            if log.waiters:
                log.wake()
            for observer in shared.observing:
                observer(session_id, "out", (record,))
            return seq

        return append

    def _repeated(
        self,
        session: MemorySession,
        direction: Direction,
        *,
        epoch: int | None,
        key: str | None,
        commit_in: int | None,
        run: RunRequest | None,
    ) -> AppendAck | None:
        """Check who appends, and return the ack of a batch whose key is known."""
        if direction == "out":
            if run is not None:
                raise InvalidArgumentError(argument="run", value=run, problem="only an append to `.in` asks for a run")
            if epoch != session.writer or epoch is None:
                raise _fenced(session, epoch)
        elif epoch is not None or commit_in is not None:
            argument, value = ("epoch", epoch) if epoch is not None else ("commit_in", commit_in)
            raise InvalidArgumentError(argument=argument, value=value, problem="only an append to `.out` takes it")
        log = session.log(direction)
        known = None if key is None else log.known(check_key(key), self._now())
        if known is None:
            if direction == "in":
                check_open_session(session, self._now())
            return None
        # Work that is not dealt with needs a run, whoever sent it for the n-th time (rule ST-27).
        wanted = run is not None and known.last > session.in_committed
        ref = self._shared.ensure_run(session, run) if run is not None and wanted else None
        if ref is None and run is not None and session.run is not None:
            ref = session.run.ref()
        return AppendAck(known.first, known.last, duplicate=True, run=ref)

    def _append_batch(
        self,
        session: MemorySession,
        direction: Direction,
        records: Sequence[NewRecord],
        *,
        key: str | None,
        commit_in: int | None,
        run: RunRequest | None,
    ) -> AppendAck:
        log = session.log(direction)
        weights = weigh_batch(records)
        trims = [trim_point(record) for record in records]
        if direction == "in" and any(point is not None for point in trims):
            raise InvalidArgumentError(argument="records", value=records, problem="`.in` is trimmed by `compact` alone")
        added = log.add(records, weights, self._now())
        ack = AppendAck(added[0].seq, added[-1].seq)
        if run is not None:
            session.in_work = ack.last
            ack = AppendAck(ack.first, ack.last, run=self._shared.ensure_run(session, run))
        if key is not None:
            log.remember(key, ack, self._now())
        if commit_in is not None:
            session.commit(commit_in)
        log.wake()
        try:
            self._observe(session.session_id, direction, added)
        finally:
            _trim(log, added, trims)
        return ack

    def _observe(self, session_id: str, direction: Direction, added: tuple[Record, ...]) -> None:
        for observer in self._shared.observing:
            observer(session_id, direction, added)

    def observe(self, callback: Observer) -> Callable[[], None]:
        """Call back at every append, in its own step and before a trim in it removes anything.

        Args:
            callback: called with the session's id, the direction and the records; it must neither append nor raise.

        Returns:
            A function that ends it; calling it late or twice does nothing.
        """
        shared, key = self._shared, object()
        shared.observers[key] = callback
        shared.observing = tuple(shared.observers.values())

        def unsubscribe() -> None:
            shared.observers.pop(key, None)
            shared.observing = tuple(shared.observers.values())

        return unsubscribe

    async def read(
        self,
        session_id: str,
        direction: Direction,
        *,
        after: int | None = None,
        limit: int = 1000,
        max_bytes: int = 1 << 20,
    ) -> RecordPage:
        """Return what is there above `after`, without waiting."""
        return self._session(session_id).log(direction).page(after, check_limit(limit), max_bytes)

    def follow(self, session_id: str, direction: Direction, *, after: int | None = None) -> Follower:
        """Yield pages for ever: what is there above `after`, then what comes."""
        return Follower(lambda: self._session(session_id).log(direction), after, self._waiting)

    async def compact(self, *, older_than: float) -> int:
        """Remove records of `.in` that are dealt with and older than so many seconds; return how many.

        Nothing above the committed cursor goes, nor above what the session's snapshot has seen.
        """
        self._check_open()
        horizon = self._now() - older_than
        removed = 0
        for session in self._sessions.values():
            log = session.in_
            seen = [snapshots.input_seen(session.session_id) for snapshots in self._shared.kept_snapshots()]
            bound = min([session.in_committed, *(number for number in seen if number is not None)])
            old = sum(1 for record in log.records if record.seq <= bound and record.appended_at < horizon)
            log.trim(before=log.first_kept + old)
            removed += old
        return removed

    def number_from(self, session_id: str, direction: Direction, first: int) -> None:
        """Let an empty log give `first` as its first number: its session goes on from a snapshot taken elsewhere.

        Raises:
            SessionNotFoundError: there is no such session.
            InvalidArgumentError: the log has given numbers already.
        """
        session = self._session(session_id)
        log = session.out if direction == "out" else session.in_
        if log.next:
            problem = f"`.{direction}` of session {session_id!r} has given numbers already"
            raise InvalidArgumentError(argument="first", value=first, problem=problem)
        log.next = log.first_kept = first
        if direction == "in":
            session.in_work = session.in_committed = first - 1

    def keep_beside(self, snapshots: KeptSnapshots) -> None:
        """Let a store of snapshots follow the deletion of sessions, and hold back what it has not seen."""
        kept = self._shared.snapshots
        kept.append(weakref.ref(snapshots, kept.remove))


def _fenced(session: MemorySession, epoch: int | None) -> Exception:
    if epoch is None:
        return InvalidArgumentError(argument="epoch", value=None, problem="an append to `.out` gives its run's epoch")
    return session.lost(epoch)


def _trim(log: MemoryLog, added: tuple[Record, ...], trims: Sequence[int | None]) -> None:
    """Carry out the trim commands of a batch; one that points above its own number does nothing."""
    for record, before in zip(added, trims, strict=True):
        if before is not None and before <= record.seq:
            log.trim(before=before)


def _page_start(after: str) -> int:
    if not after.isdecimal():
        raise InvalidArgumentError(argument="after", value=after, problem="give the `next` of a page")
    return int(after)
