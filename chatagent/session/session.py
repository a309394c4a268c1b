"""A session: one conversation's durable identity, and its two channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from chatagent.current import current_clock, current_run, current_surroundings, current_tasks
from chatagent.errors import ChatContextError
from chatagent.session.channel import Channel
from chatagent.tasks import TaskSet

if TYPE_CHECKING:
    from chatagent.clock import Clock
    from chatagent.session.records import Direction
    from chatagent.session.store import SessionStore

__all__ = ["Session"]


class Session:
    """One conversation's channels, for whoever stands outside its run: a client, a tool, a test.

    Inside a run, store, clock and tasks are the run's, and all sessions of one id that its code opens so share their
    channels: what one has consumed does not come to another. Outside, a store must be given, and `aclose` ends the
    tasks that read the logs.

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
        surroundings = current_surroundings()
        is_plain = run is not None and store is run.store and clock is None and epoch is None
        shared: dict[tuple[str, Direction], Channel] = {}
        if is_plain and surroundings is not None:
            shared = surroundings.channels
        clock = clock or current_clock()

        def channel(direction: Direction) -> Channel:
            key = (session_id, direction)
            if key not in shared:
                shared[key] = Channel(session_id, direction, store=store, clock=clock, tasks=tasks, epoch=epoch)
            return shared[key]

        self.in_ = channel("in")
        """What clients send to the agent."""
        self.out = channel("out")
        """What the agent sends to clients."""

    async def aclose(self) -> None:
        """End the tasks that read the channels; those of a run end with the run."""
        if self._own_tasks is not None:
            await self._own_tasks.close()
