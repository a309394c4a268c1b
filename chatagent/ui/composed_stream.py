"""A UI message stream that is put together by hand: chunks that are written, and other streams that are merged in.

It is read here: ids, tracking and callbacks. What runs behind it is `production.py`. Follows rule 12.7.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import anyio

from chatagent.current import current_new_id
from chatagent.ui.chunks import Abort, Chunk, FinishStep, Start
from chatagent.ui.production import Production
from chatagent.ui.tracking import DEFAULT_ERROR_TEXT, ResponseTracker, StreamOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.ids import IdGenerator
    from chatagent.ui.production import Execute
    from chatagent.ui.tracking import OriginalMessages, StreamEndEvent, StreamStepEndEvent

__all__ = ["ComposedUIMessageStream", "create_ui_message_stream"]

END_GRACE = 5.0
"""Real seconds that `on_end` has when the task that closes the stream is cancelled."""


def create_ui_message_stream(
    *,
    execute: Execute,
    on_error: Callable[[Exception], str] | None = None,
    original_messages: OriginalMessages | None = None,
    generate_id: IdGenerator | None = None,
    on_step_end: Callable[[StreamStepEndEvent], object] | None = None,
    on_end: Callable[[StreamEndEvent], object] | None = None,
) -> ComposedUIMessageStream:
    """Return a stream of what a function writes and merges (rule 12.7).

    Nothing runs before the stream is read. From then on `execute` and the streams that it merges run at their own pace,
    and what they give waits to be read; the stream ends when all of them have. No chunk is added, save an `error` for
    whatever raises; a `start` without id gets one.

    With one of the callbacks the stream is *tracked*: each chunk must fit the message before it is passed on.

    Args:
        execute: called with a `UIMessageStreamWriter`; sync or async. It runs in a task of the current run, or in one
            that this stream owns.
        on_error: gives the text that the user sees of an error that `execute` or a merged stream raised, and is told
            what `on_step_end` raised; the default is the constant `An error occurred.`.
        original_messages: the conversation so far. If it ends with an assistant message, that message is continued.
        generate_id: makes the message's id; by default the one of the current run, or a random one outside any run.
        on_step_end: called at each `finish-step`, before that chunk is passed on.
        on_end: called once, when the stream ends, cannot go on, or is closed. What it raises, reading raises.

    Returns:
        The stream. Read it once with `async for`, and close it if you leave early (`contextlib.aclosing`): a stream
        that is merely dropped stops its work, but cannot call `on_end`.
    """
    text_of = on_error or _default_text
    tracker = ResponseTracker(
        original_messages=original_messages,
        generate_id=generate_id or current_new_id(),
        on_step_end=on_step_end,
        on_end=on_end,
        on_error=text_of,
    )
    return ComposedUIMessageStream(Production(execute, text_of), tracker)


class ComposedUIMessageStream:
    """The stream that `create_ui_message_stream` returns.

    Args:
        production: what makes the chunks.
        tracker: what follows them.
    """

    def __init__(self, production: Production, tracker: ResponseTracker) -> None:
        self._production, self._tracker = production, tracker
        self._is_aborted = False
        self._is_done = False
        # Its tasks know the production only, so that a stream nobody holds any more is noticed.
        self._dropped = weakref.finalize(self, production.abandon)
        self._dropped.atexit = False

    def __aiter__(self) -> ComposedUIMessageStream:
        return self

    async def __anext__(self) -> Chunk:
        """Return the next chunk.

        Raises:
            UIMessageStreamError: the stream is tracked and a chunk does not fit the message; the stream has ended.
            Exception: what `on_end` or `on_error` raised; the stream has ended.
        """
        production, tracker = self._production, self._tracker
        if not production.chunks and (self._is_done or not await self._more()):
            raise StopAsyncIteration
        chunk = production.chunks.popleft()
        if type(chunk) is Start:
            chunk = tracker.with_id(chunk)
        elif type(chunk) is Abort:
            self._is_aborted = True
        try:
            tracker.feed(chunk)
        except Exception as exc:
            await self._break_off(exc)
            raise
        if type(chunk) is FinishStep:
            await tracker.end_step()
        return chunk

    async def aclose(self) -> None:
        """Stop what still runs, and call `on_end` if it has not been called; done even if the caller is cancelled.

        Raises:
            BaseException: what `on_end` raised, or what the reader would have raised at the end.
        """
        if self._is_done:
            return
        self._is_done = True
        await self._production.stop()
        is_cancelled = anyio.current_effective_deadline() == float("-inf")
        with anyio.move_on_after(END_GRACE if is_cancelled else None, shield=True):
            await self._tell_end(is_cancelled=True)

    async def _more(self) -> bool:
        """Wait for a chunk; without one, end the stream."""
        if not self._production.is_started:
            self._production.start()
        if await self._production.more():
            return True
        if not self._is_done:
            self._is_done = True
            if self._production.failure is not None:
                await self._production.stop()
            await self._tell_end(is_cancelled=self._production.is_cut)
        return False

    async def _tell_end(self, *, is_cancelled: bool) -> None:
        production = self._production
        outcome, failure = production.outcome, production.failure
        if failure is not None:
            outcome = StreamOutcome("failed", failure)
        elif outcome.status == "unknown" and self._is_aborted:
            outcome = StreamOutcome("aborted")
        await self._tracker.end(outcome, is_aborted=self._is_aborted, is_cancelled=is_cancelled)
        if failure is not None:
            raise failure

    async def _break_off(self, error: Exception) -> None:
        """End the stream because a chunk does not fit the message."""
        self._is_done = True
        await self._production.stop()
        await self._tracker.end(StreamOutcome("failed", error), is_aborted=self._is_aborted)


def _default_text(_error: Exception) -> str:
    return DEFAULT_ERROR_TEXT
