"""`run_in_mock_task_context`: any function, inside a run whose ends are in the test's hands."""

from chatagent_test.task_context.drivers import (
    InputDriver,
    OutputDriver,
    SessionInDriver,
    SessionsDriver,
    StartedAgent,
    TaskDrivers,
)
from chatagent_test.task_context.mock import run_in_mock_task_context

__all__ = [
    "InputDriver",
    "OutputDriver",
    "SessionInDriver",
    "SessionsDriver",
    "StartedAgent",
    "TaskDrivers",
    "run_in_mock_task_context",
]
