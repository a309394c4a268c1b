"""Reading a run chunk by chunk: a watch of its own, from the beginning of the thread's log (rule RH-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.client.reader import check_entered
from chatagent.protocol import GenerationMessageChunk, RunNotFoundError, ThreadDeleted, UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.client.core import ThreadCore
    from chatagent.protocol import ThreadEvent
    from chatagent.ui import Chunk

__all__ = ["RunChunks"]


class RunChunks:
    """The chunks of one run, as an async context manager that gives their iterator."""

    def __init__(self, core: ThreadCore, run_id: str) -> None:
        self._core, self._run_id, self._reader = core, run_id, core.new_reader()
        self._seq = 0
        self._is_over = False
        self._is_entered = False

    async def __aenter__(self) -> AsyncIterator[Chunk]:
        self._is_entered = True
        await self._core.catch_up()
        try:
            await self._reader.open(0)
        except UnsupportedOperationError:
            self._is_over = True  # without watches there are whole states only
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._reader.close()

    def __aiter__(self) -> AsyncIterator[Chunk]:
        check_entered("run.chunks()", is_entered=self._is_entered)
        return self

    async def __anext__(self) -> Chunk:
        while not self._is_over:
            event = self._reader.receive()
            if event is None:
                event = await self._wait()
            if isinstance(event, GenerationMessageChunk) and event.run_id == self._run_id:
                self._seq = event.seq
                return event.chunk
            if event is not None:
                self._seq = max(self._seq, event.seq)
                self._is_over = isinstance(event, ThreadDeleted)
        raise StopAsyncIteration

    async def _wait(self) -> ThreadEvent | None:
        """Wait for the next event, unless the run has said all that it has to say for now."""
        if not self._reader.is_open:
            if self._reader.has_ended:
                self._is_over = True
            else:
                await self._reader.open(self._seq)
            return None
        await self._core.catch_up()
        if self._has_said_all():
            self._is_over = True
            return None
        return await self._reader.read()

    def _has_said_all(self) -> bool:
        state = self._core.state()
        try:
            at_work = state.run(self._run_id).status in ("running", "queued")
        except RunNotFoundError:
            return True
        return not at_work and self._seq >= state.seq
