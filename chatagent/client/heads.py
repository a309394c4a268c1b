"""Watching the list of threads (rule CL-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.client.reader import WatchReader, check_entered
from chatagent.protocol import StateChanged, ThreadHeadChanged, ThreadHeadRemoved, ThreadQuery, sorted_heads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.client.context import ClientContext
    from chatagent.protocol import ThreadHead, ThreadHeadEvent

__all__ = ["HeadsWatch"]

PAGE = 200
"""How many heads are asked for at once: the most that a page may have."""


class HeadsWatch:
    """The whole list of threads after each change, as an async context manager that gives its iterator."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        transport = context.transport
        self.reader: WatchReader[ThreadHeadEvent] = WatchReader(
            lambda after: transport.watch_thread_heads(after=after), context
        )
        self._heads: dict[str, ThreadHead] = {}
        self._seq = 0
        self._is_stale = True
        self._begun = False
        self._is_entered = False

    async def __aenter__(self) -> AsyncIterator[tuple[ThreadHead, ...]]:
        self._is_entered = True
        await self._mend()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.reader.close()

    def __aiter__(self) -> AsyncIterator[tuple[ThreadHead, ...]]:
        check_entered("client.watch_thread_heads()", is_entered=self._is_entered)
        return self

    async def __anext__(self) -> tuple[ThreadHead, ...]:
        if not self._begun:
            self._begun = True
            return sorted_heads(self._heads.values())
        while True:
            event = self.reader.receive()
            if event is None:
                event = await self.reader.read()
            if event is not None:
                if self._take(event):
                    return sorted_heads(self._heads.values())
            elif self.reader.has_ended:
                raise StopAsyncIteration
            if self._is_stale or not self.reader.is_open:
                was_stale = self._is_stale
                await self._mend()
                if was_stale:
                    return sorted_heads(self._heads.values())

    def _take(self, event: ThreadHeadEvent) -> bool:
        """Apply an event; returns whether it has changed the list."""
        if event.seq <= self._seq:
            return False
        if event.seq > self._seq + 1 or isinstance(event, StateChanged):
            self._is_stale = True
            return False
        self._seq = event.seq
        if isinstance(event, ThreadHeadChanged):
            self._heads[event.head.thread_id] = event.head
            return True
        if isinstance(event, ThreadHeadRemoved):
            return self._heads.pop(event.thread_id, None) is not None
        return False

    async def _mend(self) -> None:
        if self._is_stale:
            await self._load()
        if not self.reader.is_open:
            await self.reader.open(self._seq)

    async def _load(self) -> None:
        """Read the whole list. What changes between two pages is told by the watch, from the first page's number on."""
        transport, heads, cursor = self._context.transport, dict[str, "ThreadHead"](), None
        seq: int | None = None
        while True:
            query = ThreadQuery(limit=PAGE) if cursor is None else ThreadQuery(limit=PAGE, cursor=cursor)
            page = await self._context.call("list_threads", lambda query=query: transport.list_threads(query))
            heads.update({head.thread_id: head for head in page.heads})
            seq = page.seq if seq is None else seq
            cursor = page.next_cursor
            if cursor is None:
                break
        self._heads, self._seq, self._is_stale = heads, seq, False
