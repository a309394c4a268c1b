"""The UI message stream of a call: chunks with message id, metadata and two callbacks (rules 12.1 and 12.4 to 12.6).

It can be read with `async for`, or pumped into a function. Pumping a call that nobody has begun to read runs the step
loop in the caller's own task, where a chunk costs plain calls and nothing else.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import anyio

from chatagent.generate.log import FullStream
from chatagent.generate.mapping import ChunkMapper
from chatagent.generate.parts import (
    FullAbort,
    FullError,
    FullFinish,
    FullFinishStep,
    FullReasoningDelta,
    FullStart,
    FullStreamPart,
    FullTextDelta,
)
from chatagent.ui import (
    Chunk,
    Finish,
    MessageMetadata,
    OriginalMessages,
    ReasoningDelta,
    Start,
    StreamEndEvent,
    StreamOutcome,
    StreamStepEndEvent,
    TextDelta,
)
from chatagent.ui.tracking import DEFAULT_ERROR_TEXT, ResponseTracker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.generate.loop import Call
    from chatagent.ids import IdGenerator
    from chatagent.signals import AbortSignal

__all__ = ["UIMessageStream", "UIMessageStreamOptions"]


class UIMessageStreamOptions(TypedDict, total=False):
    """How a call is shown as a UI message stream."""

    send_reasoning: bool
    """Default `True`."""
    send_sources: bool
    """Default `False`."""
    send_start: bool
    """Default `True`."""
    send_finish: bool
    """Default `True`."""
    on_error: Callable[[Any], str]
    """Gives the text that the user sees of an error; the default is the constant `An error occurred.`."""
    redact_tool_errors: bool
    """Ask `on_error` for the texts of tool errors too; the default is whether `on_error` is given."""
    message_metadata: Callable[[FullStreamPart], object]
    """Called with every part; what it returns, unless it is `None`, is merged into the message's metadata."""
    original_messages: OriginalMessages | None
    """The conversation so far. If it ends with an assistant message, that message is continued."""
    generate_message_id: IdGenerator | None
    on_step_end: Callable[[StreamStepEndEvent], object] | None
    on_end: Callable[[StreamEndEvent], object] | None


END_GRACE = 5.0
"""Real seconds that `on_end` has when the task that pumps is cancelled."""

_MARKS = frozenset({FullStart, FullFinishStep, FullFinish, FullAbort, FullError})
"""Parts that mean more than their chunk."""


class _ProcessingError(Exception):
    """A part could not be made a chunk of this message."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class UIMessageStream:
    """The chunks of a call. Read it once: with `async for`, or by `pump`.

    `on_end` is called once, when the stream ends, cannot go on, or is closed by its reader. If the model's stream
    fails, `on_end` hears of it, and reading raises it.

    Args:
        call: the call.
        options: see `UIMessageStreamOptions`.
    """

    def __init__(self, call: Call, **options: Unpack[UIMessageStreamOptions]) -> None:
        unknown = options.keys() - UIMessageStreamOptions.__optional_keys__
        if unknown:
            raise TypeError(f"to_ui_message_stream() got unexpected keyword arguments: {', '.join(sorted(unknown))}")
        self._call = call
        self._message_metadata = options.get("message_metadata")
        given_on_error = options.get("on_error")
        on_error = given_on_error or _default_text
        self._awaits_steps = options.get("on_step_end") is not None
        self._tracker = ResponseTracker(
            original_messages=options.get("original_messages"),
            generate_id=options.get("generate_message_id"),
            on_step_end=options.get("on_step_end"),
            on_end=options.get("on_end"),
            on_error=on_error,
        )
        self._track = self._tracker.feed
        self._mapper = ChunkMapper(
            tools=call.plan.tools,
            on_error=on_error,
            redact_tool_errors=options.get("redact_tool_errors", given_on_error is not None),
            message_id=self._tracker.message_id,
            send_reasoning=options.get("send_reasoning", True),
            send_sources=options.get("send_sources", False),
            send_start=options.get("send_start", True),
            send_finish=options.get("send_finish", True),
        )
        self._parts = FullStream(call.log)
        self._ready: deque[Chunk] = deque()
        self._out: Callable[[Chunk], object] = self._ready.append
        self._outcome = StreamOutcome("unknown")
        self._is_aborted = False
        self._is_cancelled = False
        self._is_done = False
        self._failure: BaseException | None = None
        """What keeps this stream from going on."""

    # Reading ------------------------------------------------------------------------------------------------------

    def __aiter__(self) -> UIMessageStream:
        return self

    async def __anext__(self) -> Chunk:
        while not self._ready:
            if self._is_done:
                raise StopAsyncIteration
            await self._advance()
        return self._ready.popleft()

    @property
    def is_cancelled(self) -> bool:
        """Whether its reader has left it before its end; the stream itself then says nothing of that."""
        return self._is_cancelled

    async def aclose(self) -> None:
        """Read no more, and call `on_end` if it has not been called."""
        self._parts.stop()
        self._ready.clear()
        if not self._is_done:
            self._is_cancelled = True
            await self._end()

    async def pump(self, sink: Callable[[Chunk], object], *, abort_signal: AbortSignal | None = None) -> None:
        """Hand every chunk to a function, and return when the stream has ended.

        Args:
            sink: called with each chunk as soon as it is made; it must not wait. What it raises ends the stream, and is
                raised here.
            abort_signal: ends the reading. If the call has the same signal, the stream says so itself and ends with an
                `abort` chunk; else nothing more is handed over, and `on_end` learns that the stream was cancelled.

        Raises:
            Exception: the model's stream failed, a chunk did not fit the message, or what `sink` or `on_end` raised.
        """
        self._out = sink
        unsubscribe = None if abort_signal is None else abort_signal.add_callback(self._cancel)
        try:
            if self._call.is_started or self._is_cancelled:
                await self._pump_log()
            else:
                await self._pump_loop()
        except anyio.get_cancelled_exc_class():
            self._parts.stop()
            self._is_cancelled = True
            with anyio.move_on_after(END_GRACE, shield=True):
                await self._end()
            raise
        finally:
            if unsubscribe is not None:
                unsubscribe()
        await self._settle()

    async def _advance(self) -> None:
        """Take one more part, or end."""
        try:
            part = await self._parts.__anext__()
        except StopAsyncIteration:
            await self._end()
            return
        except Exception as exc:  # noqa: BLE001 - raised by `_settle`, or known to be the end of a closed call
            self._take_log_error(exc)
            await self._settle()
            return
        wait = self._push(part)
        if wait is not None:
            await wait
        if self._failure is not None:
            self._parts.stop()
            await self._settle()

    async def _pump_loop(self) -> None:
        """Run the step loop here."""
        call = self._call
        self._parts.stop()
        call.log.drain()
        call.emitter.sink = self._push
        if self._message_metadata is None:
            call.emitter.delta_sink = self._push_delta
        try:
            await call.drive()
        finally:
            call.emitter.sink = call.emitter.delta_sink = None
        if call.log.error is not None and self._failure is None and not self._is_cancelled:
            self._take_log_error(call.log.error)

    async def _pump_log(self) -> None:
        """Read what another task makes."""
        try:
            async for part in self._parts:
                wait = self._push(part)
                if wait is not None:
                    await wait
                if self._failure is not None or self._is_cancelled:
                    break
        except Exception as exc:  # noqa: BLE001 - raised by `_settle`, or known to be the end of a closed call
            self._take_log_error(exc)
        self._parts.stop()

    def _take_log_error(self, error: BaseException) -> None:
        if self._call.is_closed:
            self._is_cancelled = True
        else:
            self._outcome = StreamOutcome("failed", error)
            self._failure = error

    async def _settle(self) -> None:
        """Call `on_end` and raise what ended the stream, if something did."""
        await self._end()
        if self._failure is not None:
            raise self._failure

    def _cancel(self) -> None:
        """Stop reading because of the reader's own signal, unless the call is aborted by it too."""
        call = self._call
        if self._is_done or call.signal.aborted:
            return
        self._is_cancelled = True
        if call.emitter.sink == self._push or not call.is_started:
            call.close()
        self._parts.stop()

    # Parts to chunks ----------------------------------------------------------------------------------------------

    def _push(self, part: FullStreamPart) -> Awaitable[None] | None:
        """Take a part, and note what keeps it from being passed on."""
        if self._failure is not None or self._is_cancelled:
            return None
        try:
            return self._feed(part)
        except _ProcessingError as exc:
            self._outcome = StreamOutcome("failed", exc.error)
            self._fail(exc.error)
        except BaseException as exc:  # noqa: BLE001 - what the sink raised; `pump` raises it
            self._is_cancelled = True
            self._fail(exc)
        return None

    def _push_delta(self, make: type[FullTextDelta | FullReasoningDelta], block_id: str, text: str) -> None:
        """Take a delta without metadata; what `_push` does with it, without making a part first."""
        if self._failure is not None or self._is_cancelled:
            return
        if make is FullTextDelta:
            chunk = TextDelta(block_id, text)
        elif self._mapper.send_reasoning:
            chunk = ReasoningDelta(block_id, text)
        else:
            return
        try:
            self._track(chunk)
        except Exception as exc:  # noqa: BLE001 - raised by `_settle`
            self._outcome = StreamOutcome("failed", exc)
            self._fail(exc)
            return
        try:
            self._out(chunk)
        except BaseException as exc:  # noqa: BLE001 - what the sink raised; `pump` raises it
            self._is_cancelled = True
            self._fail(exc)

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        call = self._call
        if call.emitter.sink == self._push:
            call.emitter.sink = call.emitter.delta_sink = None
            if not call.log.has_readers:
                call.close()

    def _feed(self, part: FullStreamPart) -> Awaitable[None] | None:
        kind = type(part)
        if kind in _MARKS or self._message_metadata is not None:
            return self._feed_marked(part)
        make = ChunkMapper.TABLE.get(kind)
        if make is None:
            return None
        try:
            chunk = make(self._mapper, part)
            if chunk is None:
                return None
            self._track(chunk)
        except Exception as exc:
            raise _ProcessingError(exc) from exc
        self._out(chunk)
        return None

    def _feed_marked(self, part: FullStreamPart) -> Awaitable[None] | None:
        """Take a part that means more than its chunk, or one for which there may be metadata (rule 12.5)."""
        self._note_outcome(part)
        try:
            make = ChunkMapper.TABLE.get(type(part))
            chunk = None if make is None else make(self._mapper, part)
            metadata = None if self._message_metadata is None else self._message_metadata(part)
        except Exception as exc:
            raise _ProcessingError(exc) from exc
        about = None if metadata is None else MessageMetadata(message_metadata=metadata)
        if isinstance(part, FullStart | FullFinish):
            if isinstance(chunk, Start | Finish) and metadata is not None:
                chunk = replace(chunk, message_metadata=metadata)
            about = None
        if isinstance(part, FullFinishStep):
            self._put(about)
            if self._awaits_steps and chunk is not None:
                self._fit(chunk)
                return self._end_step(chunk)
            self._put(chunk)
        else:
            self._put(chunk)
            self._put(about)
        return None

    def _put(self, chunk: Chunk | None) -> None:
        if chunk is not None:
            self._fit(chunk)
            self._out(chunk)

    def _fit(self, chunk: Chunk) -> None:
        try:
            self._track(chunk)
        except Exception as exc:
            raise _ProcessingError(exc) from exc

    def _note_outcome(self, part: FullStreamPart) -> None:
        if isinstance(part, FullFinish):
            self._outcome = StreamOutcome("completed")
        elif isinstance(part, FullAbort):
            self._outcome = StreamOutcome("aborted")
            self._is_aborted = True
        elif isinstance(part, FullError):
            self._outcome = StreamOutcome("failed", part.error)

    # Callbacks ----------------------------------------------------------------------------------------------------

    async def _end_step(self, chunk: Chunk) -> None:
        """Call `on_step_end`, and pass the step's last chunk on."""
        await self._tracker.end_step()
        try:
            self._out(chunk)
        except BaseException as exc:  # noqa: BLE001 - what the sink raised; `pump` raises it
            self._is_cancelled = True
            self._fail(exc)

    async def _end(self) -> None:
        """Call `on_end`, once."""
        if not self._is_done:
            self._is_done = True
            await self._tracker.end(self._outcome, is_aborted=self._is_aborted, is_cancelled=self._is_cancelled)


def _default_text(_error: object) -> str:
    return DEFAULT_ERROR_TEXT
