"""A run of a task without an agent: as much of a run as `locals`, sessions, streams and timers ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.ids import IdGenerator, random_id
from chatagent.session.channel import Channel
from chatagent.tasks import TaskSet
from chatagent.waiting import Ledger

if TYPE_CHECKING:
    from chatagent.clock import Clock
    from chatagent.session.records import Direction
    from chatagent.session.store import SessionStore
    from chatagent.task.surroundings import TaskSurroundings

__all__ = ["TaskRun"]


class TaskRun:
    """What `chatagent.current.current_run` holds while a task runs that is no agent.

    Args:
        clock: the clock of all that waits.
        store: where sessions lie.
        surroundings: context, metadata and streams.
        new_id: makes ids.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        store: SessionStore,
        surroundings: TaskSurroundings,
        new_id: IdGenerator = random_id,
    ) -> None:
        self.clock, self.store, self.surroundings, self.new_id = clock, store, surroundings, new_id
        self.ledger = Ledger()
        self.tasks = TaskSet(self.ledger)
        self.local_values: dict[str, Any] = {}
        self.in_turn = False

    def model_called(self, model: Any, options: Any) -> None:
        """Nobody watches the models of a task that is no agent."""

    def channel(self, session_id: str, direction: Direction) -> Channel:
        """Return the run's end of a session's channel: the one that its `Session` objects have too."""
        channels = self.surroundings.channels
        key: tuple[str, Direction] = (session_id, direction)
        if key not in channels:
            channels[key] = Channel(session_id, direction, store=self.store, clock=self.clock, tasks=self.tasks)
        return channels[key]
