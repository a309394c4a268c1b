"""The run that a piece of code works in: its context and its locals."""

from chatagent.task.context import (
    AttemptInfo,
    EnvironmentInfo,
    MachineInfo,
    OrganizationInfo,
    ProjectInfo,
    QueueInfo,
    RunContext,
    RunInfo,
    TaskInfo,
    make_run_context,
)
from chatagent.task.locals import LocalKey, Locals, LocalValues, locals

__all__ = [
    "AttemptInfo",
    "EnvironmentInfo",
    "LocalKey",
    "LocalValues",
    "Locals",
    "MachineInfo",
    "OrganizationInfo",
    "ProjectInfo",
    "QueueInfo",
    "RunContext",
    "RunInfo",
    "TaskInfo",
    "locals",
    "make_run_context",
]
