"""Output streams: what a run tells those who watch it, by name, beside its session."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from chatagent.current import current_surroundings, current_tasks
from chatagent.errors import ChatContextError

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable

    from chatagent.tasks import OwnedTask, TaskSet

__all__ = ["OutputStream", "OutputStreams", "PipedOutput"]

logger = logging.getLogger("chatagent")


class PipedOutput:
    """A source that is being drained into an output stream."""

    __slots__ = ("_task",)

    def __init__(self, task: OwnedTask) -> None:
        self._task = task

    async def wait_until_complete(self) -> None:
        """Return once the source has ended; its error was logged, and is not raised."""
        await self._task.join()


class OutputStreams:
    """The output streams of one run, by id; what is written stays here as long as the run does."""

    __slots__ = ("_chunks", "_listeners")

    def __init__(self) -> None:
        self._chunks: dict[str, list[Any]] = {}
        self._listeners: dict[object, Callable[[str, Any], object]] = {}

    def append(self, stream_id: str, chunk: Any) -> None:
        """Write one part, and tell the listeners; what one of them raises is logged."""
        self._chunks.setdefault(stream_id, []).append(chunk)
        for listener in tuple(self._listeners.values()):
            try:
                listener(stream_id, chunk)
            except Exception:  # a user's listener
                logger.exception("a listener of output streams failed")

    def pipe(self, stream_id: str, source: AsyncIterable[Any] | Iterable[Any], *, tasks: TaskSet) -> PipedOutput:
        """Write what a source yields, as fast as it does, in the background; what came before it fails stays."""

        async def drain() -> None:
            try:
                if hasattr(source, "__aiter__"):
                    async for chunk in source:  # type: ignore[union-attr] - so it is async
                        self.append(stream_id, chunk)
                else:
                    for chunk in source:  # type: ignore[union-attr] - so it is not
                        self.append(stream_id, chunk)
            except Exception:  # the user's source
                logger.exception("a source piped into output stream %r failed", stream_id)

        return PipedOutput(tasks.start(drain, name=f"the pipe into output stream {stream_id!r}"))

    def chunks(self, stream_id: str) -> list[Any]:
        """Return what was written to a stream, in order."""
        return list(self._chunks.get(stream_id, ()))

    def all(self) -> dict[str, list[Any]]:
        """Return what was written to each stream."""
        return {stream_id: list(chunks) for stream_id, chunks in self._chunks.items()}

    def clear(self, stream_id: str | None = None) -> None:
        """Forget what was written to a stream, or to all."""
        if stream_id is None:
            self._chunks.clear()
        else:
            self._chunks.pop(stream_id, None)

    def on_write(self, listener: Callable[[str, Any], object]) -> Callable[[], None]:
        """Call a listener with the stream's id and each part that is written; returns what ends that."""
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe


class OutputStream:
    """One output stream of the current run; made by `streams.output(id)`."""

    __slots__ = ("id",)

    def __init__(self, stream_id: str) -> None:
        self.id = stream_id

    def append(self, chunk: Any) -> None:
        """Write one part.

        Raises:
            ChatContextError: there is no run.
        """
        self._streams("append").append(self.id, chunk)

    def pipe(self, source: AsyncIterable[Any] | Iterable[Any]) -> PipedOutput:
        """Write what a source yields, as fast as it does, in the background. What came through before it fails stays.

        Raises:
            ChatContextError: there is no run.
        """
        streams, tasks = self._streams("pipe"), current_tasks()
        assert tasks is not None, "a run has tasks"
        return streams.pipe(self.id, source, tasks=tasks)

    def _streams(self, what: str) -> OutputStreams:
        surroundings = current_surroundings()
        if surroundings is None:
            raise ChatContextError(f"streams.output({self.id!r}).{what}")
        return surroundings.outputs
