"""The UI message stream of an agent that another framework runs: ids, callbacks, stop, and what the client is shown.

What the framework says comes in through a `Feed`, as chunks; which framework it is, nobody knows here. The message and
its callbacks are followed by `create_ui_message_stream`. Follows rules 1.16, 12.1 and 12.5.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from chatagent.current import current_tasks
from chatagent.errors import ToolError
from chatagent.generate import FullFinish, FullStart, UIMessageStreamOptions
from chatagent.signals import AbortController, AbortSignal
from chatagent.tasks import TaskSet
from chatagent.ui import (
    UNSET,
    Abort,
    Chunk,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
    ReasoningStart,
    SourceDocument,
    SourceUrl,
    Start,
    StreamOutcome,
    ToolInputError,
    ToolOutputError,
    create_ui_message_stream,
)
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.generate import FullStreamPart
    from chatagent.model import LanguageModelUsage
    from chatagent.ui import FinishReason, UIMessageStreamWriter, Unset

__all__ = ["DrivenStream", "Feed"]

CLOSE_GRACE = 5.0
"""Real seconds that a framework has to end its work when its stream is closed early, before it is left alone."""


class Feed:
    """Where an adapter puts the chunks of one answer. Nothing here waits, or does anything once the answer is over.

    Args:
        writer: takes what is to be seen.
        options: what is to be seen.
    """

    __slots__ = ("_hidden", "_is_over", "_message_metadata", "_redacts", "_writer", "is_aborted")

    def __init__(self, writer: UIMessageStreamWriter, options: UIMessageStreamOptions) -> None:
        self._writer = writer
        self._hidden = _hidden_by(options)
        self._message_metadata = options.get("message_metadata")
        self._redacts = options.get("redact_tool_errors", options.get("on_error") is not None)
        self._is_over = False
        self.is_aborted = False
        """The answer ended with an `abort`."""

    def start(self) -> None:
        """Begin the message."""
        self.write(Start(message_metadata=self._metadata(FullStart())))

    def write(self, chunk: Chunk) -> None:
        """Send a chunk, unless the client is not shown such."""
        if self._is_over or type(chunk) in self._hidden:
            return
        if self._redacts and isinstance(chunk, ToolInputError | ToolOutputError):
            chunk = replace(chunk, error_text=self._writer.on_error(ToolError(chunk.error_text)))
        self._writer.write(chunk)

    def fail(self, error: Exception) -> None:
        """Say that the work failed. More may follow, such as the end of the step."""
        if not self._is_over:
            self._writer.set_outcome(StreamOutcome("failed", error))
            # As a wire form, so that an `on_error` that gives no text is found out here.
            self._writer.write({"type": "error", "errorText": self._writer.on_error(error)})

    def finish(self, finish_reason: FinishReason | None, total_usage: LanguageModelUsage) -> None:
        """Complete the message.

        Args:
            finish_reason: why the last model call ended; `None` if nobody said.
            total_usage: of all model calls together, for `message_metadata`.
        """
        part = FullFinish(finish_reason=finish_reason or "other", total_usage=total_usage)
        self.write(Finish(finish_reason=finish_reason, message_metadata=self._metadata(part)))
        self._writer.set_outcome(StreamOutcome("completed"))

    def abort(self, reason: object = None) -> None:
        """Cut the answer off: an `abort` chunk is the last that is sent.

        Args:
            reason: why; shown if it is a text.
        """
        if not self._is_over:
            self._writer.write(Abort(reason=reason if isinstance(reason, str) else None))
            self._writer.set_outcome(StreamOutcome("aborted"))
            self._is_over = self.is_aborted = True

    def close(self) -> None:
        """Take no more."""
        self._is_over = True

    def _metadata(self, part: FullStreamPart) -> object | Unset:
        made = None if self._message_metadata is None or self._is_over else self._message_metadata(part)
        return UNSET if made is None else made


class DrivenStream:
    """The chunks of an agent that another framework runs. Read it once: with `async for`, or by `pump`.

    The work begins when the stream is first read, in a task of the current run. It ends when the work does, or at once
    when a signal is aborted: then the work is cancelled, and what it still does ends with the run.

    Args:
        drive: does the work, and feeds the stream; what it raises is an `error` chunk. It is cancelled to stop it.
        name: what works, for messages about runs that stand still.
        abort_signal: stops the work.
        on_settled: called with the reason of an abort, if there was one, when the stream has ended or is closed, and
            perhaps once more.
        options: how the answer is shown, and the callbacks.

    Raises:
        TypeError: an option is unknown.
    """

    def __init__(
        self,
        drive: Callable[[Feed], Awaitable[None]],
        *,
        name: str,
        abort_signal: AbortSignal | None,
        on_settled: Callable[[object], None],
        options: UIMessageStreamOptions,
    ) -> None:
        unknown = options.keys() - UIMessageStreamOptions.__optional_keys__
        if unknown:
            raise TypeError(f"to_ui_message_stream() got unexpected keyword arguments: {', '.join(sorted(unknown))}")
        self._stopper = AbortController()
        self._signal = AbortSignal.any(abort_signal, self._stopper.signal)
        self._on_settled = on_settled
        self._chunks = create_ui_message_stream(
            execute=_Driving(drive, name, self._signal, on_settled, options).execute,
            on_error=options.get("on_error"),
            original_messages=options.get("original_messages"),
            generate_id=options.get("generate_message_id"),
            on_step_end=options.get("on_step_end"),
            on_end=options.get("on_end"),
        )

    def __aiter__(self) -> DrivenStream:
        return self

    async def __anext__(self) -> Chunk:
        """Return the next chunk.

        Raises:
            UIMessageStreamError: a callback follows the message, and a chunk does not fit it; the stream has ended.
            Exception: what `on_end` or `on_error` raised; the stream has ended.
        """
        return await self._chunks.__anext__()

    async def aclose(self) -> None:
        """Stop what still runs, and call `on_end` if it has not been called; done even if the caller is cancelled."""
        try:
            await self._chunks.aclose()
        finally:
            self._on_settled(self._signal.reason)

    async def pump(self, sink: Callable[[Chunk], object], *, abort_signal: AbortSignal | None = None) -> None:
        """Hand every chunk to a function, and return when the stream has ended.

        Args:
            sink: called with each chunk as soon as it is there; it must not wait. What it raises ends the stream, and
                is raised here.
            abort_signal: stops the work, as the signal does that the stream was made with.

        Raises:
            Exception: see `__anext__`, or what `sink` raised.
        """
        unsubscribe = None
        if abort_signal is not None:
            unsubscribe = abort_signal.add_callback(lambda: self._stopper.abort(abort_signal.reason))
        try:
            async with aclosing(self):
                async for chunk in self:
                    sink(chunk)
        finally:
            if unsubscribe is not None:
                unsubscribe()


class _Driving:
    """The work behind a stream. It knows nothing of the stream, so that one that nobody holds any more is noticed."""

    def __init__(
        self,
        drive: Callable[[Feed], Awaitable[None]],
        name: str,
        signal: AbortSignal,
        on_settled: Callable[[object], None],
        options: UIMessageStreamOptions,
    ) -> None:
        self._drive, self._name, self._signal = drive, name, signal
        self._on_settled, self._options = on_settled, options

    async def execute(self, writer: UIMessageStreamWriter) -> None:
        feed = Feed(writer, self._options)
        over = Waiter(self._name)

        async def work() -> None:
            try:
                await self._drive(feed)
            finally:
                feed.close()
                over.wake()

        def stop() -> None:
            feed.abort(self._signal.reason)
            over.wake()

        feed.start()
        unsubscribe = self._signal.add_callback(stop)
        try:
            if not over.woken:
                await self._run(work, feed, over)
        finally:
            unsubscribe()
            self._on_settled(self._signal.reason)

    async def _run(self, work: Callable[[], Awaitable[None]], feed: Feed, over: Waiter) -> None:
        """Work until it is over; after an abort, leave to the run what the framework still does to end."""
        task = (current_tasks() or TaskSet()).start(work, name=self._name)
        try:
            await over.wait()
        except anyio.get_cancelled_exc_class():
            task.cancel()
            with anyio.move_on_after(CLOSE_GRACE, shield=True):
                await task.join()
            raise
        if feed.is_aborted:
            task.cancel()
        else:
            await task.wait()


def _hidden_by(options: UIMessageStreamOptions) -> frozenset[type]:
    """Return the classes of the chunks that a client is not shown."""
    hidden: set[type] = set()
    if not options.get("send_start", True):
        hidden.add(Start)
    if not options.get("send_finish", True):
        hidden.add(Finish)
    if not options.get("send_reasoning", True):
        hidden |= {ReasoningStart, ReasoningDelta, ReasoningEnd, ReasoningFile}
    if not options.get("send_sources", False):
        hidden |= {SourceUrl, SourceDocument}
    return frozenset(hidden)
