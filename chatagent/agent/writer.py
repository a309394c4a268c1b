"""Writing to `.out` from user code: the lazy writer of hooks, `chat.response` and `chat.stream`.

Everything is written in the order of the calls. What is written as a *response part* (a data part that is not
transient) also becomes part of the stored answer (rules N-20 to N-26).
"""

from __future__ import annotations

import inspect
import logging
import weakref
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent.pipe import pipe_chunks
from chatagent.agent.work import StreamWork
from chatagent.errors import ChatContextError
from chatagent.ui import Chunk, DataChunk, DataUIPart, parse_chunk, to_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent.agent.run import AgentRun
    from chatagent.signals import AbortSignal
    from chatagent.tasks import OwnedTask

__all__ = ["ChunkWriter", "PipeResult", "StreamWriter", "response_part", "to_chunk"]

logger = logging.getLogger("chatagent")


def to_chunk(value: Chunk | Mapping[str, Any]) -> Chunk:
    """Return user code's chunk as an object; a dict is read by the wire's rules.

    Raises:
        ChunkError: it is no chunk, lacks a field, or has a type that nobody knows; an `UnknownChunk` passes.
    """
    return parse_chunk(cast("Any", value))


def response_part(chunk: Chunk) -> DataUIPart | None:
    """Return the message part that a chunk leaves in the stored answer, if any (N-22)."""
    if isinstance(chunk, DataChunk) and chunk.transient is not True:
        return DataUIPart.model_validate(to_wire(chunk))
    return None


class ChunkWriter:
    """What hooks write with: `event.writer`. Nothing is opened before its first use.

    It does not keep its run alive: whoever keeps the events of a run, such as a log of hook calls, keeps no more.
    """

    __slots__ = ("_joins_answer", "_merging", "_run_ref")

    def __init__(self, run: AgentRun, *, joins_answer: bool = True) -> None:
        self._run_ref, self._joins_answer = weakref.ref(run), joins_answer
        self._merging: list[OwnedTask] = []

    @property
    def _run(self) -> AgentRun:
        run = self._run_ref()
        if run is None:
            raise ChatContextError("event.writer")
        return run

    def write(self, chunk: Chunk | Mapping[str, Any]) -> None:
        """Send one chunk to the client; a data part that is not transient also joins the stored answer.

        Not so from `on_compacted`: what it writes is sent and nothing else.

        Raises:
            ChunkError: it is no chunk.
            ChatContextError: the run is gone.
        """
        if self._joins_answer:
            self._run.write_response_chunk(to_chunk(chunk))
        else:
            self._run.out.write(to_chunk(chunk))

    def merge(self, stream: Any) -> None:
        """Send the chunks of a stream as they come; the hook's caller waits for its end. Nothing of it is stored."""
        run = self._run
        self._merging.append(run.tasks.start(lambda: pipe_chunks(stream, run.out.write), name="a merged stream"))

    async def flush(self) -> None:
        """Wait until everything is written; the runtime calls it after the hook."""
        merging, self._merging = self._merging, []
        for task in merging:
            await task.join()
            if task.error is not None:
                logger.warning("a stream merged by a hook failed: %s", task.error)


class PipeResult:
    """Work that `chat.stream` does in the background."""

    __slots__ = ("_task",)

    def __init__(self, task: OwnedTask) -> None:
        self._task = task

    async def wait_until_complete(self) -> None:
        """Wait for its end; an error was logged, and is not raised."""
        await self._task.join()


class StreamWriter:
    """What the function given to `chat.stream.writer` writes with; nothing of it is stored in the answer."""

    __slots__ = ("_merged", "_run")

    def __init__(self, run: AgentRun) -> None:
        self._run = run
        self._merged: list[OwnedTask] = []

    def write(self, chunk: Chunk | Mapping[str, Any]) -> None:
        """Send one chunk to the client."""
        self._run.out.write(to_chunk(chunk))

    def merge(self, stream: Any) -> None:
        """Send the chunks of a stream as they come."""
        self._merged.append(
            self._run.tasks.start(lambda: pipe_chunks(stream, self._run.out.write), name="a merged stream")
        )

    async def finish(self) -> None:
        """Wait for the merged streams."""
        for task in self._merged:
            await task.wait()


def start_writer(run: AgentRun, execute: Callable[[StreamWriter], Any]) -> PipeResult:
    """Run user code with a writer in the background; its errors are logged (N-23)."""

    async def work() -> None:
        writer = StreamWriter(run)
        try:
            outcome = execute(writer)
            if inspect.isawaitable(outcome):
                await outcome
            await writer.finish()
        except Exception:  # the user's function
            logger.exception("the function given to chat.stream.writer failed")

    return PipeResult(run.tasks.start(work, name="chat.stream.writer"))


def start_pipe(run: AgentRun, source: Any, abort_signal: AbortSignal | None) -> PipeResult:
    """Pipe a stream to the client in the background; its errors are logged (N-23)."""

    async def work() -> None:
        try:
            with run.observer.during(StreamWork()):
                await pipe_chunks(source, run.out.write, abort_signal=abort_signal)
        except Exception:  # the user's stream
            logger.exception("a stream given to chat.stream.pipe failed")

    return PipeResult(run.tasks.start(work, name="chat.stream.pipe"))
