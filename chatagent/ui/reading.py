"""Reading a stream of chunks as a stream of messages (rules 13.1 and 13.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.errors import ChunkError, StreamedError, UIMessageStreamError
from chatagent.ui.chunks import Error
from chatagent.ui.codec import parse_chunk
from chatagent.ui.reducer import MessageReducer

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable

    from chatagent.ui.chunks import Chunk
    from chatagent.ui.messages import UIMessage

__all__ = ["read_ui_message_stream"]


async def read_ui_message_stream(
    stream: AsyncIterable[Chunk | dict[str, Any]],
    *,
    message: UIMessage | None = None,
    on_error: Callable[[Exception], object] | None = None,
    terminate_on_error: bool = False,
) -> AsyncIterator[UIMessage]:
    """Yield the message after each chunk that changes it visibly.

    An `error` chunk is reported and changes nothing; reading goes on behind it. The first chunk that is none, or does
    not fit those before it, is reported too and ends the reading for good; the last message stands. What the stream
    itself raises is raised.

    Args:
        stream: chunks, or their wire dicts. It is left as it is when the reading ends early: who made it closes it.
        message: where to begin. An assistant message is continued; of another one only the id is taken.
        on_error: called with each error: a `StreamedError` for an `error` chunk, else the error that ended the reading.
        terminate_on_error: raise the first error, after `on_error` was called with it.

    Raises:
        StreamedError, UIMessageStreamError, ChunkError: only with `terminate_on_error`.
    """
    reducer = MessageReducer(message)
    async for item in stream:
        error: Exception | None = None
        has_state = False
        try:
            chunk = parse_chunk(item, allow_unknown=True)
            has_state = reducer.feed(chunk)
        except (ChunkError, UIMessageStreamError) as raised:
            error = raised
        else:
            if type(chunk) is Error:
                error = StreamedError(chunk.error_text)
        if error is not None:
            if on_error is not None:
                on_error(error)
            if terminate_on_error:
                raise error
            if not isinstance(error, StreamedError):
                return
        if has_state:
            yield reducer.message
