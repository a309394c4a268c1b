"""A session: one conversation's durable identity, and its two channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from chatagent.current import current_clock, current_run, current_tasks
from chatagent.errors import ChatContextError
from chatagent.session.channel import Channel
from chatagent.tasks import TaskSet

if TYPE_CHECKING:
    from chatagent.clock import Clock
    from chatagent.session.store import SessionStore

__all__ = ["Session"]


class Session:
    """One conversation's channels, for whoever stands outside its run: a client, a tool, a test.

    Inside a run, store, clock and tasks are the run's. Outside, a store must be given, and `aclose` ends the tasks that
    read the logs.

    Args:
        session_id: the session's external id; for a chat it is the chat's id.
        store: where the session lies.
        clock: what timeouts are measured on.
        epoch: the epoch of the run in whose name `.out` is written.

    Raises:
        ChatContextError: no store was given, and there is no current run.
    """

    def __init__(
        self,
        session_id: str,
        *,
        store: SessionStore | None = None,
        clock: Clock | None = None,
        epoch: int | None = None,
    ) -> None:
        run = current_run.get()
        if store is None:
            if run is None:
                raise ChatContextError("Session(...) without a store")
            store = cast("SessionStore", run.store)
        self.session_id = session_id
        self._own_tasks = None if current_tasks() is not None else TaskSet()
        tasks = self._own_tasks or current_tasks() or TaskSet()
        clock = clock or current_clock()
        self.in_ = Channel(session_id, "in", store=store, clock=clock, tasks=tasks)
        """What clients send to the agent."""
        self.out = Channel(session_id, "out", store=store, clock=clock, tasks=tasks, epoch=epoch)
        """What the agent sends to clients."""

    async def aclose(self) -> None:
        """End the tasks that read the channels; those of a run end with the run."""
        if self._own_tasks is not None:
            await self._own_tasks.close()
