"""The run context: what a hook can read of the run it works in (`event.ctx`).

Its sections and defaults follow the reference's task context, so that code which reads them runs unchanged offline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from chatagent.errors import InvalidArgumentError

__all__ = [
    "AttemptInfo",
    "EnvironmentInfo",
    "MachineInfo",
    "OrganizationInfo",
    "ProjectInfo",
    "QueueInfo",
    "RunContext",
    "RunInfo",
    "TaskInfo",
    "WorkerInfo",
    "make_run_context",
    "make_worker_info",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInfo:
    """The task that runs."""

    id: str = "test-task"
    file_path: str = "test_task.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptInfo:
    """Which try of the run this is."""

    number: int = 1
    """1, or 2 after an out-of-memory retry."""
    started_at: float = 0.0
    """Instant on the run's clock, in seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """The run."""

    id: str = "run_test"
    tags: tuple[str, ...] = ()
    is_test: bool = False
    is_replay: bool = False
    created_at: float = 0.0
    """Instant on the run's clock, in seconds since 1970."""
    started_at: float = 0.0
    """Instant on the run's clock, in seconds since 1970."""
    epoch: int = 1
    """Number of the run within its session; a tool can hand it to systems of its own as a fencing token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineInfo:
    """The machine that the run was given."""

    name: str = "micro"
    cpu: float = 1
    memory: float = 0.5
    """In GB."""
    cents_per_ms: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """The queue that the run came from."""

    name: str = "test-queue"
    id: str = "test-queue-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentInfo:
    """The environment of the deployment."""

    id: str = "test-env-id"
    slug: str = "test-env"
    type: str = "DEVELOPMENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrganizationInfo:
    """The organisation that owns the project."""

    id: str = "test-org-id"
    slug: str = "test-org"
    name: str = "Test Org"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectInfo:
    """The project that the agent belongs to."""

    id: str = "test-project-id"
    ref: str = "test-project-ref"
    slug: str = "test-project"
    name: str = "Test Project"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """The worker that runs the task."""

    id: str = "test-worker-id"
    version: str = "test-version"
    content_hash: str = "test-content-hash"
    engine: str = "V2"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What a hook can read of the run it works in."""

    task: TaskInfo = field(default_factory=TaskInfo)
    attempt: AttemptInfo = field(default_factory=AttemptInfo)
    run: RunInfo = field(default_factory=RunInfo)
    machine: MachineInfo = field(default_factory=MachineInfo)
    queue: QueueInfo = field(default_factory=QueueInfo)
    environment: EnvironmentInfo = field(default_factory=EnvironmentInfo)
    organization: OrganizationInfo = field(default_factory=OrganizationInfo)
    project: ProjectInfo = field(default_factory=ProjectInfo)
    batch: object = None


def make_run_context(overrides: Mapping[str, Any] | None = None, *, now: float) -> RunContext:
    """Make a run context from the defaults and some overrides.

    Args:
        overrides: values by section and field, such as `{"attempt": {"number": 2}}`; the fields that a section does not
            name keep their defaults. A `{"ctx": {...}}` around them is taken off.
        now: the instant that the times of the run and its attempt begin with, in seconds since 1970.

    Raises:
        InvalidArgumentError: a section or a field that a run context does not have, or something that is no mapping.
    """
    sections = _sections(overrides or {})
    if set(sections) == {"ctx"}:
        sections = _sections(sections["ctx"])
    base = RunContext(
        attempt=AttemptInfo(started_at=now),
        run=RunInfo(created_at=now, started_at=now),
        batch=sections.pop("batch", None),
    )
    if not sections:
        return base
    changed: dict[str, Any] = {}
    for name, values in sections.items():
        if name not in {section.name for section in fields(base)}:
            known = ", ".join(section.name for section in fields(base))
            raise InvalidArgumentError(argument="task_context", value=name, problem=f"its sections are {known}")
        changed[name] = _override(getattr(base, name), name, values)
    return replace(base, **changed)


def _sections(given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(argument="task_context", value=given, problem="a mapping of its sections")
    return dict(cast("Mapping[str, Any]", given))


def make_worker_info(overrides: WorkerInfo | Mapping[str, Any] | None = None) -> WorkerInfo:
    """Make a worker from the defaults and some overrides, by field.

    Raises:
        InvalidArgumentError: a field that a worker does not have.
    """
    return cast("WorkerInfo", _override(WorkerInfo(), "worker", overrides or {}))


def _override(section: Any, name: str, values: object) -> object:
    if isinstance(values, type(section)):
        return values
    if not isinstance(values, Mapping):
        raise InvalidArgumentError(argument=f"task_context[{name!r}]", value=values, problem="a mapping of its fields")
    values = cast("Mapping[str, Any]", values)
    known = {each.name for each in fields(section)}
    for key in values:
        if key not in known:
            raise InvalidArgumentError(
                argument=f"task_context[{name!r}]", value=key, problem=f"its fields are {', '.join(sorted(known))}"
            )
    return replace(section, **{key: _frozen(value) for key, value in values.items()})


def _frozen(value: Any) -> Any:
    """Return a list as a tuple: a run context is shared by all hooks."""
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value
