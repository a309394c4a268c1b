"""What of a run is still alive behind its end: tasks that somebody has started and nobody has ended."""

from __future__ import annotations

import asyncio
import gc
from contextvars import Context
from typing import TYPE_CHECKING, Any

from chatagent.current import current_run
from chatagent_test.harness.where import NO_USER_CODE, innermost_frame_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chatagent.tasks import OwnedTask
    from chatagent.waiting import Ledger

__all__ = ["leaked_tasks"]


def leaked_tasks(task: OwnedTask | None, others: Iterable[OwnedTask], ledger: Ledger) -> list[str]:
    """Return a line for each task that is alive: the run's own, and those that its code has started on asyncio.

    On trio every task has a nursery that waits for it, so there are no others.

    Args:
        task: the run's main task, which should have ended.
        others: its other tasks; those that run no user code end with it and are left out.
        ledger: what counted its tasks; a task belongs to the run if it works in the run's context.
    """
    own = [each for each in (task, *others) if each is not None and not each.done]
    stands = [(each, innermost_frame_of(each.native_task)) for each in own]
    lines = [f"{each.name}, at {frame}" for each, frame in stands if each is task or frame != NO_USER_CODE]
    natives = {id(each.native_task) for each in own}
    return lines + [
        f"the task {each.get_name()!r} that its code has started, at {innermost_frame_of(each)}"
        for each in _asyncio_tasks()
        if id(each) not in natives and _ledger_of(each) is ledger
    ]


def _asyncio_tasks() -> Iterator[asyncio.Task[Any]]:
    try:
        current = asyncio.current_task()
    except RuntimeError:  # on trio
        return
    yield from (each for each in asyncio.all_tasks() if each is not current)


def _ledger_of(task: asyncio.Task[Any]) -> Ledger | None:
    """Return what counts the run in whose context a task works; before Python 3.12 no method gives the context."""
    getter = getattr(task, "get_context", None)
    contexts = [getter()] if getter is not None else [each for each in gc.get_referents(task) if type(each) is Context]
    runs = (context.get(current_run) for context in contexts)
    return next((run.ledger for run in runs if run is not None), None)
