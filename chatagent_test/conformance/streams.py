"""A watch whose events pass through a function: to write them down, or to lose, repeat and change some."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from chatagent.protocol import EventStream

__all__ = ["AlteredWatch"]

EventT = TypeVar("EventT")


class AlteredWatch(Generic[EventT]):
    """A watch of another transport, to be opened.

    Args:
        inner: the watch.
        alter: what becomes of an event: any number of events.
    """

    def __init__(
        self,
        inner: AbstractAsyncContextManager[EventStream[EventT]],
        alter: Callable[[EventT], Iterable[EventT]],
    ) -> None:
        self._inner, self._alter = inner, alter

    async def __aenter__(self) -> EventStream[EventT]:
        return _AlteredStream(await self._inner.__aenter__(), self._alter)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, traceback)


class _AlteredStream(Generic[EventT]):
    def __init__(self, inner: EventStream[EventT], alter: Callable[[EventT], Iterable[EventT]]) -> None:
        self._inner, self._alter = inner, alter
        self._ready: deque[EventT] = deque()

    def receive_nowait(self) -> EventT | None:
        while not self._ready:
            event = self._inner.receive_nowait()
            if event is None:
                return None
            self._ready.extend(self._alter(event))
        return self._ready.popleft()

    def __aiter__(self) -> AsyncIterator[EventT]:
        return self

    async def __anext__(self) -> EventT:
        while not self._ready:
            self._ready.extend(self._alter(await self._inner.__anext__()))
        return self._ready.popleft()
