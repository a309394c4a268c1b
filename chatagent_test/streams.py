"""A ready-made answer: UI chunks in place of a model's stream."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from chatagent.generate import StreamEndEvent, StreamOutcome
from chatagent.ui import Abort, Chunk, Error, Finish, MessageReducer, Start, UIMessage, parse_chunk, parse_ui_message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from chatagent.ids import IdGenerator

    OnEnd = Callable[[StreamEndEvent], object]

__all__ = ["ChunkStream"]


class ChunkStream:
    """What `run` may return in place of a model's stream: given chunks, and perhaps a failure behind them.

    It may be streamed any number of times. A stream without `error` keeps the contract of a streamable: its `start`
    carries the message's id, and `on_end` is called once. One with `error` leaves all that to whoever reads it.

    Args:
        chunks: UI chunks, or their wire form.
        error: what reading raises behind the last chunk.

    Raises:
        ChunkError: something is no chunk.
    """

    def __init__(self, chunks: Iterable[Chunk | Mapping[str, object]], *, error: BaseException | None = None) -> None:
        self._chunks = tuple(parse_chunk(each, allow_unknown=True) for each in chunks)
        self._error = error

    def to_ui_message_stream(
        self,
        *,
        original_messages: Sequence[UIMessage | Mapping[str, object]] | None = None,
        generate_message_id: IdGenerator | None = None,
        on_end: OnEnd | None = None,
        **_options: object,
    ) -> ReadyStream:
        """Return the chunks as a stream.

        Args:
            original_messages: the conversation so far; if it ends with an assistant message, that one is continued.
            generate_message_id: gives the id of a new message.
            on_end: called with the message once the stream has ended, or is closed; not if it raises `error`.
            _options: all other options concern what a model says, and change nothing.
        """
        if self._error is not None:
            return ReadyStream(self._chunks, self._error, None)
        message = _Message(original_messages or (), generate_message_id)
        return ReadyStream(tuple(map(message.named, self._chunks)), None, message, on_end)


class _Message:
    """The message that the chunks make."""

    def __init__(self, originals: Sequence[UIMessage | Mapping[str, object]], generate_id: IdGenerator | None) -> None:
        last = parse_ui_message(originals[-1]) if originals else None
        self._originals = originals
        self._continued = last if last is not None and last.role == "assistant" else None
        self._id = self._continued.id if self._continued is not None else generate_id() if generate_id else None
        begun = self._continued or UIMessage(id=self._id or "", role="assistant", parts=())
        self._reducer = MessageReducer(begun, on_new_id="rename")
        self._outcome = StreamOutcome("unknown")

    def named(self, chunk: Chunk) -> Chunk:
        """Return the chunk; a `start` without id gets the message's."""
        if isinstance(chunk, Start) and chunk.message_id is None and self._id is not None:
            return replace(chunk, message_id=self._id)
        return chunk

    def feed(self, chunk: Chunk) -> None:
        """Take the next chunk.

        Raises:
            UIMessageStreamError: it does not fit the message.
        """
        try:
            self._reducer.feed(chunk)
        except Exception as exc:
            self._outcome = StreamOutcome("failed", exc)
            raise
        match chunk:
            case Finish():
                self._outcome = StreamOutcome("completed")
            case Abort():
                self._outcome = StreamOutcome("aborted")
            case Error():
                self._outcome = StreamOutcome("failed", chunk.error_text)
            case _:
                pass

    def end(self, *, is_cancelled: bool) -> StreamEndEvent:
        """Return what `on_end` is called with."""
        message = self._reducer.message
        return StreamEndEvent(
            response_message=message,
            is_continuation=self._continued is not None and message.id == self._continued.id,
            original_messages=self._originals,
            is_aborted=self._outcome.status == "aborted",
            outcome=self._outcome,
            finish_reason=self._reducer.finish_reason,
            is_cancelled=is_cancelled and self._outcome.status == "unknown",
        )


class ReadyStream:
    """The chunks of a `ChunkStream`, read once."""

    def __init__(
        self,
        chunks: tuple[Chunk, ...],
        error: BaseException | None,
        message: _Message | None,
        on_end: OnEnd | None = None,
    ) -> None:
        self._chunks = iter(chunks)
        self._error = error
        self._message = message
        self._on_end = on_end

    def __aiter__(self) -> ReadyStream:
        return self

    async def __anext__(self) -> Chunk:
        for chunk in self._chunks:
            await self._take(chunk)
            return chunk
        error, self._error = self._error, None
        if error is not None:
            raise error
        await self._end(is_cancelled=False)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Read no more; `on_end` is called if it has not been."""
        self._chunks, self._error = iter(()), None
        await self._end(is_cancelled=True)

    async def _take(self, chunk: Chunk) -> None:
        if self._message is None:
            return
        try:
            self._message.feed(chunk)
        except Exception:
            self._chunks = iter(())
            await self._end(is_cancelled=False)
            raise

    async def _end(self, *, is_cancelled: bool) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is None or self._message is None:
            return
        made = on_end(self._message.end(is_cancelled=is_cancelled))
        if inspect.isawaitable(made):
            await cast("Awaitable[object]", made)
