"""Piping a stream to the client and keeping what it said: what the turn loop and `chat.pipe_and_capture` share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from chatagent.agent.pipe import is_streamable, pipe_chunks
from chatagent.agent.work import StreamWork
from chatagent.errors import AbortError, LeaseLostError, UIMessageStreamError
from chatagent.timers import wait_until
from chatagent.ui import Chunk, Error, MessageReducer, Start, UIMessage
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from chatagent.agent.run import AgentRun
    from chatagent.model import LanguageModelUsage
    from chatagent.signals import AbortSignal

__all__ = [
    "PipeAndCaptureResult",
    "capture",
    "fetch_usage",
    "pipe_captured",
    "reduce_chunks",
    "stream_options",
]

SETTLE_LIMIT = 2.0
"""Seconds that a finished stream has for its `on_end` and its usage (T-36, T-37)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeAndCaptureResult:
    """What `chat.pipe_and_capture` has sent."""

    message: UIMessage | None
    """The answer as far as it came; `None` if no chunk made one."""
    status: Literal["complete", "aborted", "error"]
    """`aborted`: a signal ended it. `error`: the source raised."""
    finish_reason: str | None = None
    """Why the model stopped; `None` if the source did not say."""
    error: Exception | None = None
    """What the source raised; only for `error`."""
    stream_error: object = None
    """What went wrong inside a stream that told the client of it and went on to its end."""


def stream_options(run: AgentRun) -> dict[str, Any]:
    """Return the options for the next conversion of a result to chunks; what was set for it is forgotten (N-60)."""
    options: dict[str, Any] = {**(run.options.ui_message_stream_options or {}), **(run.state.stream_options or {})}
    run.state.stream_options = None
    return options


async def pipe_captured(
    run: AgentRun,
    source: Any,
    chunks: list[Chunk],
    *,
    on_end: Callable[[Any], None],
    abort_signal: AbortSignal | None,
    original_messages: Sequence[UIMessage] | None,
    stamp: bool = False,
) -> None:
    """Pipe an answer to the client, keep its chunks, and wait until it has said how it ended (T-34, T-36).

    Args:
        run: who writes.
        source: see `pipe_chunks`.
        chunks: where the chunks are kept.
        on_end: called with the event at the stream's end.
        abort_signal: ends the piping.
        original_messages: the conversation, if the stream may go on with its last message.
        stamp: whether a `start` chunk without an id is given one.

    Raises:
        Exception: what the source raised.
    """
    ended = Waiter("the stream's on_end")

    def end(event: Any) -> None:
        on_end(event)
        ended.wake()

    def sink(chunk: Chunk) -> None:
        keep(chunk)
        write(chunk)

    def stamping_sink(chunk: Chunk) -> None:
        if type(chunk) is Start and not chunk.message_id:
            chunk = replace(chunk, message_id=run.env.new_id())
        sink(chunk)

    keep, write = chunks.append, run.out.write
    options = {"generate_message_id": run.env.new_id} | stream_options(run) | {"on_end": end}
    if original_messages is not None:
        options["original_messages"] = list(original_messages)
    with run.observer.during(StreamWork()):
        await pipe_chunks(source, stamping_sink if stamp else sink, abort_signal=abort_signal, options=options)
        if is_streamable(source):
            await wait_until(ended, run.clock, run.clock.now() + SETTLE_LIMIT, kind="limit")


async def fetch_usage(run: AgentRun, source: Any) -> LanguageModelUsage | None:
    """Return the result's `total_usage`, if it offers one and it comes in time (T-37, F-60)."""
    usage: Any = getattr(source, "total_usage", None)
    if usage is None:
        return None
    if getattr(usage, "is_settled", False):
        return await _usage_or_none(usage)
    done = Waiter("the result's total_usage")
    found: LanguageModelUsage | None = None

    async def fetch() -> None:
        nonlocal found
        try:
            found = await _usage_or_none(usage)
        finally:
            done.wake()

    task = run.tasks.start(fetch, name="the result's total_usage")
    try:
        await wait_until(done, run.clock, run.clock.now() + SETTLE_LIMIT, kind="limit")
    finally:
        await task.close()
    return found


async def _usage_or_none(usage: Awaitable[LanguageModelUsage | None]) -> LanguageModelUsage | None:
    try:
        return await usage
    except Exception:  # noqa: BLE001 - a call without usage is no failure of the turn
        return None


async def capture(
    run: AgentRun,
    source: Any,
    chunks: list[Chunk],
    *,
    abort_signal: AbortSignal | None,
    original_messages: Sequence[UIMessage] | None = None,
) -> PipeAndCaptureResult:
    """Pipe an answer to the client and return what became of it; neither a stop nor the source makes it raise (N-84).

    Args:
        run: who writes.
        source: see `pipe_chunks`.
        chunks: an empty list, where the chunks are kept.
        abort_signal: ends the piping.
        original_messages: the conversation, if the stream may go on with its last message.

    Raises:
        LeaseLostError: the run may write no more.
    """
    event: Any = None
    error: Exception | None = None

    def on_end(told: Any) -> None:
        nonlocal event
        event = told

    try:
        await pipe_captured(
            run,
            source,
            chunks,
            on_end=on_end,
            abort_signal=abort_signal,
            original_messages=original_messages,
            stamp=True,
        )
    except LeaseLostError:
        raise
    except Exception as exc:  # noqa: BLE001 - handed back to the caller, which decides what it means
        error = exc
    last = original_messages[-1] if original_messages else None
    message = getattr(event, "response_message", None)
    if message is None or not message.parts:
        message = reduce_chunks(chunks, last) or message
    if message is not None and not message.id:
        message = message.model_copy(update={"id": _named_id(chunks) or run.env.new_id()})
    is_aborted = isinstance(error, AbortError) or (abort_signal is not None and abort_signal.aborted)
    return PipeAndCaptureResult(
        message=message,
        status="aborted" if is_aborted else "complete" if error is None else "error",
        finish_reason=getattr(event, "finish_reason", None),
        error=None if is_aborted else error,
        stream_error=error or getattr(getattr(event, "outcome", None), "error", None),
    )


def reduce_chunks(chunks: Sequence[Chunk], last: UIMessage | None) -> UIMessage | None:
    """Return the message that chunks make, or `None` if they make none (E-5, G-53, G-55).

    Args:
        chunks: the chunks of one stream.
        last: the message before them; they go on with it if it is an answer of the id that they name.
    """
    continues = last is not None and last.role == "assistant" and _named_id(chunks) == last.id
    reducer = MessageReducer(last if continues else None)
    for chunk in chunks:
        if type(chunk) is Error:
            continue
        try:
            reducer.feed(chunk)
        except UIMessageStreamError:
            return None
    return reducer.last_state


def _named_id(chunks: Sequence[Chunk]) -> str | None:
    first = next((chunk for chunk in chunks if type(chunk) is Start), None)
    return None if first is None else first.message_id
