"""The UI message stream of a call: chunks with message id, metadata and the two callbacks (rules 12.1 and 12.4 to 12.6).

It can be read with `async for`, or pumped into a function. Pumping a call that nobody has begun to read runs the step
loop in the caller's own task, where a chunk costs plain calls and nothing else.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

import anyio

from chatagent.generate.log import FullStream
from chatagent.generate.mapping import ChunkMapper
from chatagent.generate.parts import FullAbort, FullError, FullFinish, FullFinishStep, FullStart, FullStreamPart
from chatagent.generate.stream_events import OriginalMessages, StreamEndEvent, StreamOutcome, StreamStepEndEvent
from chatagent.generate.texts import DEFAULT_ERROR_TEXT
from chatagent.ui import Chunk, Finish, MessageMetadata, MessageReducer, Start, UIMessage, parse_ui_message

if TYPE_CHECKING:
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


_MARKS = frozenset({FullStart, FullFinishStep, FullFinish, FullAbort, FullError})
"""Parts that mean more than their chunk."""


class _ProcessingError(Exception):
    """A part could not be made a chunk of this message."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class UIMessageStream:
    """The chunks of a call. Read it once: with `async for`, or by `pump`.

    `on_end` is called once, when the stream ends, cannot go on, or is closed by its reader; it is not called when the
    model's stream fails, which reading then raises.

    Args:
        call: the call.
        options: see `UIMessageStreamOptions`.
    """

    def __init__(self, call: Call, **options: Unpack[UIMessageStreamOptions]) -> None:
        self._call = call
        self._originals: OriginalMessages = options.get("original_messages") or ()
        self._message_metadata = options.get("message_metadata")
        self._on_step_end, self._on_end = options.get("on_step_end"), options.get("on_end")
        self._continued = _last_assistant(self._originals)
        generate_id = options.get("generate_message_id")
        message_id = None if self._continued is None else self._continued.id
        if message_id is None and generate_id is not None:
            message_id = generate_id()
        on_error = options.get("on_error")
        self._mapper = ChunkMapper(
            tools=call.plan.tools,
            on_error=on_error or (lambda _error: DEFAULT_ERROR_TEXT),
            redact_tool_errors=options.get("redact_tool_errors", on_error is not None),
            message_id=message_id,
            send_reasoning=options.get("send_reasoning", True),
            send_sources=options.get("send_sources", False),
            send_start=options.get("send_start", True),
            send_finish=options.get("send_finish", True),
        )
        self._reducer: MessageReducer | None = None
        if self._on_end is not None or self._on_step_end is not None:
            begun = self._continued or UIMessage(id=message_id or "", role="assistant", parts=())
            self._reducer = MessageReducer(begun, on_new_id="rename")
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
            with anyio.CancelScope(shield=True):
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
        except Exception:
            self._is_done = True
            raise
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
        try:
            await call.drive()
        finally:
            call.emitter.sink = None
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
            self._is_done = True  # the source raised: `on_end` is not called
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

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        call = self._call
        if call.emitter.sink == self._push:
            call.emitter.sink = None
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
            if self._reducer is not None:
                self._reducer.feed(chunk)
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
            if self._on_step_end is not None and chunk is not None:
                self._track(chunk)
                return self._end_step(self._on_step_end, chunk)
            self._put(chunk)
        else:
            self._put(chunk)
            self._put(about)
        return None

    def _put(self, chunk: Chunk | None) -> None:
        if chunk is not None:
            self._track(chunk)
            self._out(chunk)

    def _track(self, chunk: Chunk) -> None:
        if self._reducer is None:
            return
        try:
            self._reducer.feed(chunk)
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

    async def _end_step(self, on_step_end: Callable[[StreamStepEndEvent], object], chunk: Chunk) -> None:
        message, is_continuation = self._response()
        event = StreamStepEndEvent(
            response_message=message, is_continuation=is_continuation, original_messages=self._originals
        )
        try:
            made = on_step_end(event)
            if inspect.isawaitable(made):
                await cast("Awaitable[object]", made)
        except Exception as exc:  # noqa: BLE001 - a user's callback: what it raises is reported (rule 12.6)
            self._mapper.on_error(exc)
        try:
            self._out(chunk)
        except BaseException as exc:  # noqa: BLE001 - what the sink raised; `pump` raises it
            self._is_cancelled = True
            self._fail(exc)

    async def _end(self) -> None:
        """Call `on_end`, once."""
        if self._is_done:
            return
        self._is_done = True
        if self._on_end is None or self._reducer is None:
            return
        message, is_continuation = self._response()
        event = StreamEndEvent(
            response_message=message,
            is_continuation=is_continuation,
            original_messages=self._originals,
            is_aborted=self._is_aborted,
            outcome=self._outcome,
            finish_reason=self._reducer.finish_reason,
            is_cancelled=self._is_cancelled,
        )
        made = self._on_end(event)
        if inspect.isawaitable(made):
            await cast("Awaitable[object]", made)

    def _response(self) -> tuple[UIMessage, bool]:
        """Return the message as it stands, and whether it continues the last of the original ones."""
        assert self._reducer is not None, "a stream without callbacks tracks no message"
        message = self._reducer.message
        return message, self._continued is not None and message.id == self._continued.id


def _last_assistant(messages: OriginalMessages) -> UIMessage | None:
    """Return the last message if it is the assistant's; the others are not looked at."""
    if not messages:
        return None
    last = messages[-1]
    message = parse_ui_message(dict(last)) if isinstance(last, Mapping) else last
    return message if message.role == "assistant" else None
