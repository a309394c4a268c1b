"""Bringing a stream of chunks to the client: from whatever yields UI chunks into a plain function.

A stream of ours pushes its chunks itself (`pump`), which costs a plain call each; any other async iterable is read.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Any, Protocol, cast

import anyio

from chatagent.errors import AbortError
from chatagent.ui import Abort, Chunk, parse_chunk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent.signals import AbortSignal

__all__ = ["PumpedStream", "is_streamable", "pipe_chunks"]


class PumpedStream(Protocol):
    """A stream that pushes its chunks into a function."""

    async def pump(self, sink: Callable[[Chunk], None], *, abort_signal: AbortSignal | None = None) -> None:
        """Call `sink` with each chunk, in order; return at the stream's end, raise what the source raises."""
        ...


def is_streamable(value: object) -> bool:
    """Return whether a value offers `to_ui_message_stream` (rule 1.16)."""
    return callable(getattr(value, "to_ui_message_stream", None))


async def pipe_chunks(
    source: Any,
    sink: Callable[[Chunk], None],
    *,
    abort_signal: AbortSignal | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:
    """Push the chunks of a source into a function until the source ends.

    Args:
        source: an object with `to_ui_message_stream`, or an async iterable of chunks or of their dicts.
        sink: called with each chunk, in order; it must not wait.
        abort_signal: ends the piping. A stream that does not say so itself then gets an `abort` chunk as its last.
        options: handed to `to_ui_message_stream`.

    Raises:
        TypeError: the source is nothing that yields chunks.
        ChunkError: the source yielded something that is no chunk.
        Exception: what the source raised, after the chunks so far.
    """
    stream = source.to_ui_message_stream(**(options or {})) if is_streamable(source) else source
    pump: Any = getattr(stream, "pump", None)
    if pump is not None:
        await cast("PumpedStream", stream).pump(sink, abort_signal=abort_signal)
        if getattr(stream, "is_cancelled", False):
            _say_abort(sink, abort_signal)
        return
    if not isinstance(stream, AsyncIterable):
        raise TypeError(
            "source must be an object with to_ui_message_stream (such as a StreamTextResult) or an async iterable of "
            f"chunks, not {source!r}"
        )
    await _read(cast("AsyncIterable[Any]", stream), sink, abort_signal)


async def _read(stream: AsyncIterable[Any], sink: Callable[[Chunk], None], abort_signal: AbortSignal | None) -> None:
    last: Chunk | None = None
    iterator = aiter(stream)
    with anyio.CancelScope() as scope:
        unsubscribe = None if abort_signal is None else abort_signal.add_callback(scope.cancel)
        try:
            async for value in iterator:
                last = parse_chunk(value, allow_unknown=True)
                sink(last)
                if abort_signal is not None and abort_signal.aborted:
                    break
        except AbortError:
            if abort_signal is None or not abort_signal.aborted:
                raise
        finally:
            if unsubscribe is not None:
                unsubscribe()
            close = getattr(iterator, "aclose", None)
            if close is not None:
                await close()
    if type(last) is not Abort:
        _say_abort(sink, abort_signal)


def _say_abort(sink: Callable[[Chunk], None], signal: AbortSignal | None) -> None:
    if signal is not None and signal.aborted:
        sink(Abort(reason=signal.reason if isinstance(signal.reason, str) else None))
