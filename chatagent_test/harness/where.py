"""Saying where a run stands, for the errors of waits that came to nothing."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import anyio

import chatagent
from chatagent.session import control_type
from chatagent_test.clock import VirtualClock
from chatagent_test.harness.blocking import TimedSteps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType, ModuleType

    from chatagent.clock import Clock
    from chatagent.tasks import OwnedTask
    from chatagent.waiting import Ledger
    from chatagent_test.harness.watch import RunWatch

__all__ = [
    "NO_USER_CODE",
    "describe_past",
    "describe_run",
    "describe_waiting",
    "innermost_frame_in",
    "innermost_frame_of",
    "innermost_user_frame",
]

_LIMIT = 12
NO_USER_CODE = "no line of user code"


def _folder_of(module: ModuleType) -> str:
    return os.path.dirname(os.path.abspath(str(module.__file__))) + os.sep


_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OURS = (_HERE, *map(_folder_of, (chatagent, anyio, asyncio)))
"""Where no line of user code is. The other backend is added when it is there."""


def describe_past(watch: RunWatch) -> str:
    """Return, in lines: the hook calls and the chunks so far."""
    return f"hooks so far: {_hooks(watch)}\nchunks of the last turn: {_chunks(watch)}"


def describe_run(
    watch: RunWatch, ledger: Ledger, clock: Clock, task: OwnedTask | None, others: Iterable[OwnedTask]
) -> str:
    """Return, in lines: the hook calls and the chunks so far, who waits for what, and where the run's tasks stand.

    Args:
        watch: sees the run.
        ledger: what counts its tasks.
        clock: its clock.
        task: its main task.
        others: its other tasks, of which those are told that run user code, such as tools.
    """
    return "\n".join(
        (
            describe_past(watch),
            describe_waiting(ledger, clock, task, name="the agent's task"),
            *_others(others),
            *watch.blocking.take(),
        )
    )


def describe_waiting(ledger: Ledger, clock: Clock, task: OwnedTask | None, *, name: str = "it") -> str:
    """Return, in lines: who waits for what, and where a task stands."""
    return "\n".join(
        (
            f"waiting: {_waiting(ledger)}",
            f"pending timers: {_timers(clock)}",
            f"{name} stands at {innermost_user_frame(task)}",
        )
    )


def innermost_user_frame(task: OwnedTask | None) -> str:
    """Return file and line of the innermost frame of user code in a task."""
    return NO_USER_CODE if task is None or task.done else innermost_frame_of(task.native_task)


def innermost_frame_of(native: Any) -> str:
    """Return the same of a task of the backend's."""
    return innermost_frame_in(native.get_coro() if hasattr(native, "get_coro") else getattr(native, "coro", None))


def innermost_frame_in(coroutine: Any) -> str:
    """Return the same of a coroutine that waits."""
    frames = list(_frames(coroutine))
    backend = sys.modules.get("trio")
    ours = _OURS if backend is None else (*_OURS, _folder_of(backend))
    for frame in reversed(frames):
        if not frame.f_code.co_filename.startswith(ours):
            return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
    return NO_USER_CODE


def _frames(coroutine: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine, outermost first."""
    while coroutine is not None:
        if isinstance(coroutine, TimedSteps):
            coroutine = coroutine.coroutine
        for frame_name, next_name in (("cr_frame", "cr_await"), ("ag_frame", "ag_await"), ("gi_frame", "gi_yieldfrom")):
            frame = getattr(coroutine, frame_name, None)
            if frame is not None:
                yield frame
                coroutine = getattr(coroutine, next_name)
                break
        else:
            return


def _hooks(watch: RunWatch) -> str:
    calls = [f"{call.name} ({call.outcome or 'at work'})" for call in watch.hooks[-_LIMIT:]]
    return ", ".join(calls) or "none"


def _chunks(watch: RunWatch) -> str:
    start = watch.turns[-1].first_out if watch.turns else 0
    types = [control_type(record) or getattr(record.data, "type", "?") for record in watch.records[start:]]
    shown = ", ".join(types[-_LIMIT:])
    return f"… {shown}" if len(types) > _LIMIT else shown or "none"


def _others(tasks: Iterable[OwnedTask]) -> list[str]:
    stands = sorted((task.name, innermost_user_frame(task)) for task in tasks)
    return [f"{name} stands at {frame}" for name, frame in stands if frame != NO_USER_CODE]


def _waiting(ledger: Ledger) -> str:
    labels = [waiter.label or "something" for waiter in ledger.parked]
    busy = ledger.alive - len(labels)
    if busy:
        labels.append(f"{busy} task(s) at work, or waiting on something of their own")
    return "; ".join(labels) or "nothing, no task is alive"


def _timers(clock: Clock) -> str:
    if not isinstance(clock, VirtualClock):
        return "on the system's clock"
    return ", ".join(f"a {kind} in {seconds:g} s" for seconds, kind in clock.pending[:_LIMIT]) or "none"
