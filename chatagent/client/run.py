"""The handle on one run: waiting for it, stopping it, reading what it says (rules RH-1 to RH-9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.client.chunks import RunChunks
from chatagent.protocol import RunNotBlockedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from chatagent.client.core import ThreadCore
    from chatagent.client.thread import Thread
    from chatagent.protocol import Run, RunStatus, ThreadState
    from chatagent.ui import Chunk

__all__ = ["RunHandle"]


class RunHandle:
    """One generation of a thread. Any number of handles and tasks may wait for the same run."""

    def __init__(self, thread: Thread, run_id: str, core: ThreadCore) -> None:
        self.thread = thread
        self.run_id = run_id
        self._core = core

    def __repr__(self) -> str:
        return f"RunHandle(thread_id={self.thread.thread_id!r}, run_id={self.run_id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunHandle) and (self.thread, self.run_id) == (other.thread, other.run_id)

    def __hash__(self) -> int:
        return hash((self.thread.thread_id, self.run_id))

    @property
    def record(self) -> Run:
        """The run in the thread's current state.

        Raises:
            RunNotFoundError: the thread has it no more.
        """
        return self.thread.get_state().run(self.run_id)

    @property
    def status(self) -> RunStatus:
        """Where the run stands."""
        return self.record.status

    async def wait_until_idle(self) -> ThreadState:
        """Return the state once this run is settled; a queued successor may run in it already.

        A run that waits for the client is not settled. A failed run does not raise: look at `state.error`, or call
        `state.raise_for_error()`.

        Raises:
            ThreadDeletedError: the thread was deleted.
            RunWaitTimeoutError: not settled within the client's `wait_timeout` (real seconds); the run goes on.
            ClientClosedError: the client was closed.
        """
        return await self._core.wait_for_run(self.run_id, ())

    async def wait_until_blocked(self) -> ThreadState:
        """Return the state once this run waits for the client; at once if it does.

        Raises:
            RunNotBlockedError: it settled instead.
            ThreadDeletedError: the thread was deleted.
            RunWaitTimeoutError: see `wait_until_idle`.
        """
        state = await self.wait()
        status = state.run(self.run_id).status
        if status != "waiting":
            raise RunNotBlockedError(run_id=self.run_id, status=status)
        return state

    async def wait(self) -> ThreadState:
        """Return the state once this run is settled or waits for the client, whichever comes first."""
        return await self._core.wait_for_run(self.run_id, ("waiting",))

    async def abort(self, reason: str | None = None) -> bool:
        """Stop the run; one that waits loses its actions, one that is queued takes its message with it.

        Returns:
            Whether something was stopped: `False` if it had settled.
        """
        return await self._core.abort(self.run_id, reason)

    def chunks(self) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Read the run's chunks from its first one on, replayed and then live, until it settles or waits.

        `async with run.chunks() as chunks:` opens the watch, `async for chunk in chunks:` reads it.

        What the backend's log has dropped is not given.
        """
        return RunChunks(self._core, self.run_id)

    async def text(self) -> str:
        """Wait for the run and return the text of its answer, its outputs joined."""
        state = await self.wait()
        own = (each for each in state.messages if each.run_id == self.run_id and each.relation == "output")
        return "".join(message.text for message in own)
