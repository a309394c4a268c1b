"""Seeing who keeps the event loop busy: a hook or a tool that works or sleeps without letting anybody else run.

Every task of a run is driven through `TimedSteps`, which looks at the real time of each of its steps. A step ends where
the task really waits, so a chunk costs nothing, nothing is polled, and no backend needs to know.

A process that is not given a processor stands still too. Such a step used little of one and gave none up by itself, and
is nobody's fault.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from chatagent.agent import HookCall

__all__ = ["BlockingWatch", "TimedSteps", "levels_to_the_test", "timed"]

if sys.platform == "linux":
    from resource import RUSAGE_THREAD, getrusage

    def _effort() -> tuple[float, int]:
        used = getrusage(RUSAGE_THREAD)
        return used.ru_utime + used.ru_stime, used.ru_nvcsw

else:

    def _effort() -> tuple[float, int]:
        """Where nobody counts a thread's waits, every step counts as one that has waited."""
        return time.thread_time(), time.perf_counter_ns()


_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
LIMIT = 1.0
"""Real seconds that one step may take before it is told."""
_FEW = 5
"""So many are told one by one; a hook that blocks in every turn needs no line for each."""


class BlockingWatch:
    """Finds out which hook or tool of a harness's runs kept the loop busy.

    Args:
        now: real seconds, from any beginning.
        limit: real seconds that one step may take; `LIMIT` by default.
        effort: what the thread has done so far: processor seconds, and how often it has waited for something.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.perf_counter,
        limit: float | None = None,
        effort: Callable[[], tuple[float, int]] | None = None,
    ) -> None:
        self._now, self._limit, self._effort = now, LIMIT if limit is None else limit, effort or _effort
        self._effort_before = self._effort()
        self._hooks: list[tuple[HookCall, float]] = []
        """Those of the main task that are at work, innermost last, and when each began."""
        self._step_began_at = 0.0
        self._is_told = False
        self._found: list[str] = []

    def hook_started(self, call: HookCall) -> None:
        """Take it that a hook is called, in the run's main task."""
        self._hooks.append((call, self._now()))

    def hook_ended(self, call: HookCall) -> None:
        """Take it that it has ended; what it did since the loop last ran is its own doing."""
        for position in range(len(self._hooks) - 1, -1, -1):
            if self._hooks[position][0] is call:
                _, began_at = self._hooks.pop(position)
                self._look(_name_of(call), max(began_at, self._step_began_at))
                return

    def step_begins(self) -> None:
        """Take it that a task of the run goes on."""
        self._step_began_at, self._is_told = self._now(), False
        self._effort_before = self._effort()

    def step_ends(self, task: str | None) -> None:
        """Take it that it waits, or has ended.

        Args:
            task: the task's name; `None` for the run's main task.
        """
        if task is not None:
            self._look(_named(task), self._step_began_at)
        elif self._hooks:
            call, began_at = self._hooks[-1]
            self._look(_name_of(call), max(began_at, self._step_began_at))
        else:
            self._look("something outside hooks and tools (the stream, the model, `setup_locals`)", self._step_began_at)

    def take(self) -> list[str]:
        """Return what was found since this was last asked for, a sentence each."""
        found, self._found = self._found, []
        more = len(found) - _FEW
        return found if more <= 0 else [*found[:_FEW], f"{more} more steps kept the event loop busy"]

    def warn(self) -> None:
        """Warn of everybody who was found, at the line of the test that waits."""
        for sentence in self.take():
            warnings.warn(sentence, RuntimeWarning, stacklevel=levels_to_the_test())

    def _look(self, who: str, since: float) -> None:
        seconds = self._now() - since
        if seconds >= self._limit and not self._is_told and self._was_at_work():
            self._is_told = True
            self._found.append(
                f"{who} kept the event loop busy for {seconds:.1f} s of real time; nothing else runs meanwhile, and no "
                "limit can end it: await what takes long, or hand it to a thread (anyio.to_thread.run_sync)"
            )

    def _was_at_work(self) -> bool:
        """Return whether the step has worked or waited, and not only stood still with the whole process."""
        worked, waits = self._effort()
        return worked - self._effort_before[0] >= self._limit / 2 or waits > self._effort_before[1]


class TimedSteps:
    """Drives a coroutine, and lets a watch see each of its steps. `await` it in the coroutine's place.

    Args:
        coroutine: what to drive.
        watch: sees its steps.
        task: the name of the task that it is; `None` for the run's main task.
    """

    __slots__ = ("_task", "_watch", "coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], watch: BlockingWatch, task: str | None = None) -> None:
        self.coroutine = coroutine
        """What it drives; `where` looks for the frames of user code in it."""
        self._watch, self._task = watch, task

    def __await__(self) -> Generator[Any, Any, Any]:
        return self  # type: ignore[return-value] - it has what a generator has that is awaited

    def __iter__(self) -> TimedSteps:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Let the coroutine go on with what it has waited for."""
        self._watch.step_begins()
        try:
            return self.coroutine.send(value)
        finally:
            del value  # see `throw`: trio sends its cancellations
            self._watch.step_ends(self._task)

    def throw(self, *error: Any) -> Any:
        """Let an error come out of what it waits for, such as a cancellation."""
        self._watch.step_begins()
        try:
            return self.coroutine.throw(*error)
        finally:
            del error  # its traceback holds this frame, so the two would keep each other and all that hangs on them
            self._watch.step_ends(self._task)

    def close(self) -> None:
        """End the coroutine where it waits."""
        self.coroutine.close()


async def _awaited(fn: Callable[[], Awaitable[Any]]) -> Any:
    return await fn()


def timed(watch: BlockingWatch) -> Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]:
    """Return what a `TaskSet` puts around each task, so that the watch sees its steps."""
    return lambda name, fn: TimedSteps(_awaited(fn), watch, name)


def _named(task: str) -> str:
    kind, _, name = task.partition(" ")
    return f"the tool `{name}`" if kind == "tool" else f"the run's task {task!r}"


def _name_of(call: HookCall) -> str:
    turn = "" if call.turn is None else f" of turn {call.turn}"
    return f"`{call.name}`{turn}"


def levels_to_the_test() -> int:
    """Return the `stacklevel` at which a warning of the caller's shows the first line outside this package."""
    level, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage] - as `warnings` does it
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        level, frame = level + 1, frame.f_back
    return level
