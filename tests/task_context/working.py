"""Work inside a mock task context, for tests of what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyio.lowlevel import checkpoint

from chatagent.current import current_tasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.tasks import OwnedTask


async def begin(work: Callable[[], Awaitable[Any]]) -> OwnedTask:
    """Start work as a task of the current run, and let it come to its first wait."""
    tasks = current_tasks()
    assert tasks is not None
    started = tasks.start(work, name="work")
    for _ in range(3):
        await checkpoint()
    return started
