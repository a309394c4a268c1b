"""What all parts of one service share: its agent, its stores, its clock, its ids, and its tasks."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chatagent.agent import NullObserver
from chatagent.current import current_run
from chatagent.ids import random_id
from chatagent.protocol import EventLog, EventTimes, StateChanged
from chatagent.tasks import OwnedTask
from chatagent.waiting import Ledger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from chatagent.agent import ChatAgent, RunObserver
    from chatagent.clock import Clock
    from chatagent.ids import IdGenerator
    from chatagent.protocol import AgentContract, ThreadHeadEvent
    from chatagent.service.files import FileStore
    from chatagent.service.store import ThreadStore
    from chatagent.session import SessionStore, SnapshotStore
    from chatagent.task import LocalValues
    from chatagent.tasks import TaskSet

__all__ = ["RunSurroundings", "ServiceSetting", "ServiceTasks"]


def _random_id(_kind: str) -> str:
    return random_id()


def _no_observer(_thread_id: str) -> RunObserver:
    return NullObserver()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSurroundings:
    """What a service gives to the runtime runs that it hosts, beside their sessions. A test kit gives its own."""

    new_id: Callable[[str], str] = _random_id
    """Makes an id of a kind: `msg`, `run`, `action`, `file`."""
    ledger: Ledger = field(default_factory=Ledger)
    """Counts the tasks of the service and of its runs."""
    observe: Callable[[str], RunObserver] = _no_observer
    """Gives what sees the runs of a thread, beside the service."""
    setup_locals: Callable[[LocalValues], Any] | None = None
    """Called with a run's locals before the agent begins; sync or async."""
    task_context: Mapping[str, Any] | None = None
    """Overrides of the run context."""
    lease_ttl: float = 15.0
    """Seconds for which the right to be a session's run lasts without a renewal."""


class ServiceTasks:
    """The tasks of a service: each is owned, counted by the ledger, and ends with the service at the latest.

    Args:
        clock: the service's clock.
        ledger: counts the tasks.
    """

    def __init__(self, clock: Clock, ledger: Ledger) -> None:
        self._marker = _ServiceTask(clock, ledger)
        self.active: set[OwnedTask] = set()

    def start(
        self, fn: Callable[[], Awaitable[Any]], *, name: str, on_end: Callable[[OwnedTask], None] | None = None
    ) -> OwnedTask:
        """Start a task, in a context of its own: nothing of the caller's reaches it."""
        context = contextvars.Context()
        context.run(current_run.set, self._marker)

        def ended(task: OwnedTask) -> None:
            self.active.discard(task)
            if on_end is not None:
                on_end(task)

        task = OwnedTask(fn, name=name, ledger=self._marker.ledger, context=context, on_end=ended)
        if not task.done:
            self.active.add(task)
        return task

    async def close(self) -> None:
        """Cancel all tasks and wait for their ends, even if the caller is being cancelled."""
        for task in tuple(self.active):
            task.cancel()
        while self.active:
            await next(iter(self.active)).close()


class _ServiceTask:
    """What stands for the current run in the service's own tasks, so that their waits are counted."""

    in_turn = False
    store = surroundings = None

    def __init__(self, clock: Clock, ledger: Ledger) -> None:
        self.clock, self.ledger = clock, ledger
        self.local_values: dict[str, Any] = {}
        self.new_id: IdGenerator = random_id

    @property
    def tasks(self) -> TaskSet:
        raise NotImplementedError("a service's own task starts no tasks of a run")

    def model_called(self, model: Any, options: Any) -> None:
        """A service's own task asks no model."""


class ServiceSetting:
    """What the parts of a service share.

    Args:
        agent: what answers.
        contract: what it takes and gives.
        sessions: where sessions are.
        snapshots: where conversations are.
        threads: where threads are.
        files: where files are.
        clock: the time.
        surroundings: what else runs are given.
        log_size: how many events of a thread can be replayed.
    """

    def __init__(
        self,
        agent: ChatAgent[Any],
        *,
        contract: AgentContract,
        sessions: SessionStore,
        snapshots: SnapshotStore,
        threads: ThreadStore,
        files: FileStore,
        clock: Clock,
        surroundings: RunSurroundings,
        log_size: int,
    ) -> None:
        self.agent, self.contract = agent, contract
        self.sessions, self.snapshots, self.threads = sessions, snapshots, threads
        self.files = files
        self.clock, self.surroundings, self.log_size = clock, surroundings, log_size
        self.new_id = surroundings.new_id
        self.tasks = ServiceTasks(clock, surroundings.ledger)
        self.heads: EventLog[ThreadHeadEvent] = EventLog(log_size, self._gap)
        self._times = EventTimes(clock)
        self.now = self._times.now
        """Returns the time of what happens in a thread; see `EventTimes`."""

    def _gap(self, seq: int) -> ThreadHeadEvent:
        return StateChanged(seq=seq, at=self._times.last)
