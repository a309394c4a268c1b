"""The current run, and what the rooms below the agent may know of a run.

It is set once, in the context in which the run's task starts, so every task that the run or its user code starts sees
it, and nothing outside does. Beside it stands which piece of user code is at work there, for those who must name it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from chatagent.clock import SystemClock
from chatagent.ids import random_id

if TYPE_CHECKING:
    from chatagent.clock import Clock
    from chatagent.ids import IdGenerator
    from chatagent.tasks import TaskSet
    from chatagent.waiting import Ledger

__all__ = [
    "CurrentRun",
    "current_clock",
    "current_new_id",
    "current_run",
    "current_surroundings",
    "current_tasks",
    "current_work",
    "working_on",
]


class CurrentRun(Protocol):
    """What the rooms below the agent may know of the run they work for."""

    @property
    def clock(self) -> Clock:
        """The run's clock."""
        ...

    @property
    def ledger(self) -> Ledger:
        """What counts the run's tasks."""
        ...

    @property
    def tasks(self) -> TaskSet:
        """The run's tasks; what is started here ends with the run."""
        ...

    @property
    def local_values(self) -> dict[str, Any]:
        """The values of `chatagent.locals`, by id."""
        ...

    @property
    def new_id(self) -> IdGenerator:
        """Makes the ids of messages, approvals and blocks that nobody else has named."""
        ...

    @property
    def store(self) -> Any:
        """The `SessionStore` that the run's session lies in."""
        ...

    @property
    def surroundings(self) -> Any:
        """The run's `chatagent.task.TaskSurroundings`: context, metadata, streams; `None` if it has none."""
        ...

    @property
    def in_turn(self) -> bool:
        """Whether a turn is on."""
        ...

    def model_called(self, model: Any, options: Any) -> None:
        """Take it that a `LanguageModel` is about to be asked with these `CallOptions`."""
        ...


current_run: ContextVar[CurrentRun | None] = ContextVar("chatagent_run", default=None)
"""The run to which the current context belongs."""

current_work: ContextVar[str | None] = ContextVar("chatagent_work", default=None)
"""The hook, tool or model call that the current context works for, in words; what it starts inherits it."""

_SYSTEM_CLOCK = SystemClock()


def current_clock() -> Clock:
    """Return the clock of the current run, or the system's clock outside any run."""
    run = current_run.get()
    return _SYSTEM_CLOCK if run is None else run.clock


def current_new_id() -> IdGenerator:
    """Return what makes ids in the current run, or random ones outside any run."""
    run = current_run.get()
    return random_id if run is None else run.new_id


def current_tasks() -> TaskSet | None:
    """Return the tasks of the current run; `None` outside any run."""
    run = current_run.get()
    return None if run is None else run.tasks


def current_surroundings() -> Any:
    """Return the surroundings of the current run; `None` outside any run."""
    run = current_run.get()
    return None if run is None else run.surroundings


class working_on:
    """Name the user code that the block calls; entered and left in one step of one task, so never across a `yield`."""

    __slots__ = ("_token", "_what")

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        self._token = current_work.set(self._what)

    def __exit__(self, *_: object) -> None:
        current_work.reset(self._token)
