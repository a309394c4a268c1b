"""From the event stream of a provider's SDK to the stream of a language model.

What an event means is for a reader of the provider's own to say. Here is what all providers share: the call and every
read end at once when the call is aborted, a failure before the first event is raised, one behind it becomes an `error`
part, and the HTTP response is closed whatever happens.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import anyio
from pydantic import BaseModel

from chatagent.errors import AbortError, APICallError
from chatagent.model import CallWarning, ModelError, ModelRaw, ModelStreamPart, ModelStreamStart
from chatagent.providers.failures import as_call_error, broken_stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from chatagent.model import CallOptions
    from chatagent.signals import AbortSignal

__all__ = ["EventReader", "EventSource", "ProviderStream", "open_stream", "until_aborted"]

EventT = TypeVar("EventT", bound=BaseModel)
EventT_co = TypeVar("EventT_co", bound=BaseModel, covariant=True)
EventT_contra = TypeVar("EventT_contra", bound=BaseModel, contravariant=True)
ResultT = TypeVar("ResultT")

CLOSE_LIMIT = 5.0
"""Real seconds that a response has to close when its reader goes away; the connection is dropped then."""


class EventSource(Protocol[EventT_co]):
    """The event stream of an SDK, as far as it matters here."""

    async def __anext__(self) -> EventT_co: ...

    async def close(self) -> None: ...


class EventReader(Protocol[EventT_contra]):
    """What a provider's events mean. Keeps what one answer needs; another answer needs another reader."""

    def read(self, event: EventT_contra, /) -> Iterable[ModelStreamPart]:
        """Return the parts that an event stands for."""
        ...

    def end(self) -> Iterable[ModelStreamPart]:
        """Return what is left to say when the stream has ended; without `finish` if the answer is not complete."""
        ...


async def until_aborted(signal: AbortSignal | None, call: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Await a call, and leave it at once when the signal is aborted.

    Raises:
        AbortError: the signal is aborted.
        Exception: what the call raises.
    """
    if signal is None:
        return await call()
    signal.raise_if_aborted()
    with anyio.CancelScope() as scope:
        unsubscribe = signal.add_callback(scope.cancel)
        try:
            return await call()
        finally:
            unsubscribe()
    raise AbortError(signal.reason)


class ProviderStream(Generic[EventT]):
    """The parts of one answer; closing it ends the HTTP response.

    Args:
        source: the events.
        reader: what they mean.
        options: what the model was asked with.
        warnings: what the caller should know of the request; told first.
        translate: turns an SDK's error into one of the package; returns others as they are.
    """

    __slots__ = ("_has_ended", "_is_closed", "_parts", "_reader", "_signal", "_source", "_translate", "_wants_raw")

    def __init__(
        self,
        source: EventSource[EventT],
        reader: EventReader[EventT],
        *,
        options: CallOptions,
        warnings: Sequence[CallWarning],
        translate: Callable[[Exception], Exception],
    ) -> None:
        self._source, self._reader, self._translate = source, reader, translate
        self._signal, self._wants_raw = options.abort_signal, options.include_raw_chunks
        self._parts: deque[ModelStreamPart] = deque((ModelStreamStart(warnings=tuple(warnings)),))
        self._has_ended = False
        self._is_closed = False

    def __aiter__(self) -> ProviderStream[EventT]:
        return self

    async def __anext__(self) -> ModelStreamPart:
        while not self._parts:
            if self._has_ended:
                raise StopAsyncIteration
            await self._read()
        return self._parts.popleft()

    async def aclose(self) -> None:
        """Close the response; nothing more comes."""
        self._has_ended = True
        self._parts.clear()
        if self._is_closed:
            return
        self._is_closed = True
        with anyio.move_on_after(CLOSE_LIMIT, shield=True):
            await self._source.close()

    async def begin(self, provider: str) -> None:
        """Read the first event.

        Args:
            provider: who answers, for error texts.

        Raises:
            APICallError: there is none, or it says that the provider has failed.
            AbortError: the call was aborted.
        """
        await self._read()
        failed = next((part.error for part in self._parts if isinstance(part, ModelError)), None)
        if failed is not None:
            await self.aclose()
            raise as_call_error(failed)
        if self._has_ended:
            await self.aclose()
            msg = f"{provider} ended its stream without a single event"
            raise APICallError(msg, is_retryable=False)

    async def _read(self) -> None:
        try:
            event = await until_aborted(self._signal, self._source.__anext__)
        except StopAsyncIteration:
            self._has_ended = True
            self._parts.extend(self._reader.end())
        except AbortError:
            await self.aclose()
            raise
        except Exception as exc:  # noqa: BLE001 - an SDK lets through whatever its HTTP library and JSON parser raise
            await self._fail(exc)
        else:
            if self._wants_raw:
                self._parts.append(ModelRaw(raw_value=event.model_dump(mode="json", by_alias=True, exclude_unset=True)))
            self._parts.extend(self._reader.read(event))

    async def _fail(self, exc: Exception) -> None:
        error = self._translate(exc)
        if error is exc:
            error = broken_stream(exc)
        error.__cause__ = exc
        await self.aclose()
        self._parts.append(ModelError(error=error))


async def open_stream(
    start: Callable[[], Awaitable[EventSource[EventT]]],
    reader: EventReader[EventT],
    *,
    provider: str,
    options: CallOptions,
    warnings: Sequence[CallWarning],
    translate: Callable[[Exception], Exception],
) -> tuple[ProviderStream[EventT], EventSource[EventT]]:
    """Make a streaming call, and return once the provider has said its first word.

    Args:
        start: makes the HTTP call.
        reader: what the events mean.
        provider: who answers, for error texts.
        options: what the model is asked with.
        warnings: what the caller should know of the request.
        translate: turns an SDK's error into one of the package; returns others as they are.

    Returns:
        The stream, and the SDK's own stream below it.

    Raises:
        APICallError: the provider refused the call, or failed before it said anything.
        AbortError: the call was aborted.
    """
    try:
        source = await until_aborted(options.abort_signal, start)
    except Exception as exc:
        raise_translated(exc, translate)
        raise
    stream = ProviderStream(source, reader, options=options, warnings=warnings, translate=translate)
    try:
        await stream.begin(provider)
    except BaseException:
        await stream.aclose()
        raise
    return stream, source


def raise_translated(exc: Exception, translate: Callable[[Exception], Exception]) -> None:
    """Raise the package's error for an SDK's; do nothing for any other."""
    error = translate(exc)
    if error is not exc:
        raise as_call_error(error) from exc
