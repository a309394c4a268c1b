"""The store of snapshots in memory: the newest of each session, shared as it is, since nobody can change it."""

from __future__ import annotations

from itertools import takewhile
from operator import is_
from typing import TYPE_CHECKING, Final

from chatagent.errors import LeaseLostError, RecordTooLargeError
from chatagent.session.snapshot import Snapshot, decode_snapshot
from chatagent.session.values import BYTES_PER_WEIGHT, json_size, weigh

if TYPE_CHECKING:
    from chatagent.session.memory import InMemorySessionStore

__all__ = ["InMemorySnapshotStore"]

MAX_SNAPSHOT: Final = 16 << 20
"""Bytes of a snapshot's JSON (rule ST-70)."""

_ENVELOPE: Final = 256
"""Bytes of a snapshot's JSON without its messages, at most."""


class _Kept:
    """What is stored for one session."""

    __slots__ = ("epoch", "exact", "sizes", "snapshot")

    def __init__(self, snapshot: object, epoch: int, sizes: list[int], exact: int) -> None:
        self.snapshot = snapshot
        """A `Snapshot`, or what a test has put in its place."""
        self.epoch = epoch
        self.sizes = sizes
        """A bound on each message's bytes; the first `exact` of them are no bounds but sizes."""
        self.exact = exact


class InMemorySnapshotStore:
    """A `SnapshotStore` in memory.

    Args:
        sessions: the store of the sessions. With it a snapshot is fenced like a record (only the epoch that may write
            may save), and goes when its session is deleted.
    """

    def __init__(self, *, sessions: InMemorySessionStore | None = None) -> None:
        self._sessions = sessions
        self._kept: dict[str, _Kept] = {}
        if sessions is not None:
            sessions.keep_beside(self)

    async def load(self, session_id: str) -> Snapshot | None:
        """Return the session's snapshot; `None` if none was saved."""
        return self.peek(session_id)

    async def save(self, session_id: str, snapshot: Snapshot, *, epoch: int) -> None:
        """Replace the session's snapshot; its messages are shared, not copied."""
        if self._sessions is not None:
            self._sessions.check_writer(session_id, epoch)
        kept = self._kept.get(session_id)
        if kept is not None and (epoch, _order(snapshot)) < (kept.epoch, _order(kept.snapshot)):
            raise LeaseLostError(session_id=session_id, epoch=epoch, current_epoch=kept.epoch)
        sizes, exact = _sizes(snapshot, kept)
        self._kept[session_id] = _Kept(snapshot, epoch, sizes, exact)

    async def delete(self, session_id: str) -> None:
        """Remove the session's snapshot."""
        self.forget(session_id)

    def peek(self, session_id: str) -> Snapshot | None:
        """Return what `load` returns, or raise what it raises, without `await`."""
        kept = self._kept.get(session_id)
        if kept is None:
            return None
        found = kept.snapshot
        return found if isinstance(found, Snapshot) else decode_snapshot(found, session_id=session_id)

    def seed(self, session_id: str, stored: object) -> None:
        """Put something in the place of a session's snapshot, whatever is there, for tests.

        Args:
            session_id: the session's external id.
            stored: a `Snapshot`, or what `load` is to decode: a JSON form, its text or bytes, sound or not. `None`
                removes the snapshot.
        """
        if stored is None:
            self.forget(session_id)
        else:
            self._kept[session_id] = _Kept(stored, 0, [], 0)

    def forget(self, session_id: str) -> None:
        """Remove the session's snapshot."""
        self._kept.pop(session_id, None)

    def input_seen(self, session_id: str) -> int | None:
        """Return the number of `.in` up to which the snapshot has seen the input; `None` if there is no snapshot."""
        kept = self._kept.get(session_id)
        if kept is None:
            return None
        cursor = kept.snapshot.in_cursor if isinstance(kept.snapshot, Snapshot) else None
        return -1 if cursor is None else cursor


def _order(snapshot: object) -> int:
    """Return what snapshots of one epoch are ordered by: the number of their turn's end, or -1."""
    cursor = snapshot.out_cursor if isinstance(snapshot, Snapshot) else None
    return -1 if cursor is None else cursor


def _sizes(snapshot: Snapshot, kept: _Kept | None) -> tuple[list[int], int]:
    """Check the size of a snapshot; what it shares with the one before was measured then.

    Returns:
        A bound on each message's bytes, and how many of the first of them are exact.
    """
    shared = _shared_messages(snapshot, kept)
    sizes = kept.sizes[:shared] if kept is not None else []
    exact = min(shared, kept.exact) if kept is not None else 0
    for index in range(shared, len(snapshot.messages)):
        sizes.append(weigh(snapshot.messages[index], f"messages[{index}]") * BYTES_PER_WEIGHT)
    if sum(sizes) + _ENVELOPE > MAX_SNAPSHOT:
        for index in range(exact, len(sizes)):
            sizes[index] = json_size(snapshot.messages[index]) + 1
        exact = len(sizes)
        size = sum(sizes) + _ENVELOPE
        if size > MAX_SNAPSHOT:
            raise RecordTooLargeError(field="snapshot", size=size, limit=MAX_SNAPSHOT)
    return sizes, exact


def _shared_messages(snapshot: Snapshot, kept: _Kept | None) -> int:
    """Count the messages at the front that are the same objects as in the snapshot before."""
    if kept is None or not isinstance(kept.snapshot, Snapshot):
        return 0
    before = kept.snapshot.messages[: len(kept.sizes)]
    # Most turns only add to the history, so each of them walks over all of it: without Python's own steps.
    return sum(takewhile(bool, map(is_, before, snapshot.messages)))
