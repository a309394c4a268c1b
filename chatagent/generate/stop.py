"""When the loop ends although another step could run (rule 5.4).

A condition is a function of the finished steps, sync or async; it is asked only when another step would run.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, cast

from chatagent.errors import InvalidArgumentError
from chatagent.generate.steps import StepResult

__all__ = [
    "StopCondition",
    "StopWhen",
    "check_stop_when",
    "has_tool_call",
    "is_loop_finished",
    "is_step_count",
    "should_stop",
]

StopCondition: TypeAlias = Callable[[Sequence[StepResult]], bool | Awaitable[bool]]
"""Says whether the loop ends, given all finished steps."""

StopWhen: TypeAlias = StopCondition | Sequence[StopCondition]
"""One condition, or several of which any ends the loop; an empty list never does."""


def is_step_count(count: int) -> StopCondition:
    """Return a condition that holds when exactly so many steps are finished.

    Raises:
        InvalidArgumentError: the count is not 1 or more.
    """
    if count < 1:
        raise InvalidArgumentError(argument="count", value=count, problem="a loop has 1 step or more")
    return lambda steps: len(steps) == count


def has_tool_call(*names: str) -> StopCondition:
    """Return a condition that holds when the last step called one of the tools; the tool has run by then."""
    return lambda steps: bool(steps) and any(call.tool_name in names for call in steps[-1].tool_calls)


def is_loop_finished() -> StopCondition:
    """Return a condition that never holds: the loop runs until the model calls no more tools."""
    return lambda _steps: False


def check_stop_when(stop_when: object) -> None:
    """Check that an argument is a condition, or a list of them.

    Raises:
        InvalidArgumentError: it is something else.
    """
    problem = "give a condition, such as is_step_count(5), or a list of them"
    if callable(stop_when):
        return
    if not isinstance(stop_when, Sequence) or isinstance(stop_when, str):
        raise InvalidArgumentError(argument="stop_when", value=stop_when, problem=problem)
    for index, condition in enumerate(cast("Sequence[object]", stop_when)):
        if not callable(condition):
            raise InvalidArgumentError(argument=f"stop_when[{index}]", value=condition, problem=problem)


async def should_stop(stop_when: StopWhen, steps: Sequence[StepResult]) -> bool:
    """Return whether any of the conditions holds."""
    conditions = [stop_when] if callable(stop_when) else stop_when
    for condition in conditions:
        answer = condition(steps)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return True
    return False
