"""The sessions of a mock task context: in memory, there as soon as somebody names them, writable by the task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.session import (
    AppendAck,
    InMemorySessionStore,
    RunRequest,
    SessionSpec,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.clock import Clock
    from chatagent.session import Direction, NewRecord
    from chatagent.session.memory_log import Follower

__all__ = ["OpenSessionStore"]


class OpenSessionStore(InMemorySessionStore):
    """A session store in which every session exists, and in which the one task in the world may write to `.out`.

    Args:
        clock: the clock of the task.
        task: the task's id, to which the sessions belong.
    """

    def __init__(self, *, clock: Clock, task: str) -> None:
        super().__init__(clock=clock)
        self._task = task

    def ensure(self, session_id: str) -> None:
        """Create a session unless it is there."""
        if session_id not in self._sessions:
            self.create_session_nowait(SessionSpec(session_id=session_id, task=self._task))

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
        """Append a batch; `.out` takes it without an epoch too."""
        self.ensure(session_id)
        if direction == "out" and epoch is None:
            epoch = self._shared.ensure_run(self._session(session_id), RunRequest("initial")).epoch
        return super().append_nowait(session_id, direction, records, epoch=epoch, key=key, commit_in=commit_in, run=run)

    def follow(self, session_id: str, direction: Direction, *, after: int | None = None) -> Follower:
        """Yield pages for ever; a session that is not there begins empty."""
        self.ensure(session_id)
        return super().follow(session_id, direction, after=after)
