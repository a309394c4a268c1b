"""Watching a thread: its state after every event (rule TH-43)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatagent.client.reader import check_entered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.client.core import ThreadCore
    from chatagent.protocol import ThreadEvent, ThreadState

__all__ = ["ThreadUpdate", "ThreadWatch"]


@dataclass(frozen=True, slots=True)
class ThreadUpdate:
    """One step of a thread."""

    state: ThreadState
    """As it was right after the event."""
    event: ThreadEvent | None
    """`None` for the first update, and where the thread had to be read anew."""


class ThreadWatch:
    """The updates of one thread, as an async context manager that gives their iterator.

    It follows the backend's log at its own pace, so a slow reader neither slows others nor misses an event that the log
    still has.
    """

    def __init__(self, core: ThreadCore) -> None:
        self._core = core
        self._feed = core.new_feed()
        self._begun = False
        self._last: ThreadState | None = None
        self._is_entered = False

    async def __aenter__(self) -> AsyncIterator[ThreadUpdate]:
        self._is_entered = True
        await self._core.catch_up()
        now, model = self._core.model, self._feed.model
        if now.exists:
            model.load(now.snapshot())
        else:
            model.clear(now.seq)
        self._feed.is_loaded = True
        await self._feed.mend()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._feed.reader.close()

    def __aiter__(self) -> AsyncIterator[ThreadUpdate]:
        check_entered("thread.watch()", is_entered=self._is_entered)
        return self

    async def __anext__(self) -> ThreadUpdate:
        if not self._begun:
            self._begun = True
            return self._update(None)
        if self._feed.polls:
            return await self._next_polled()
        if self._feed.has_ended:
            raise StopAsyncIteration
        while True:
            event = await self._feed.next_event()
            if event is not None and not self._feed.is_stale:
                return self._update(event)
            if self._feed.has_ended:
                raise StopAsyncIteration
            was_stale = self._feed.is_stale
            while self._feed.needs_mending:
                await self._feed.mend()
            if was_stale:
                return self._update(None)

    async def _next_polled(self) -> ThreadUpdate:
        """Wait for another state, where there are no events."""
        await self._feed.wait_for(lambda: self._feed.model.state() != self._last)
        return self._update(None)

    def _update(self, event: ThreadEvent | None) -> ThreadUpdate:
        self._last = self._feed.model.state()
        return ThreadUpdate(self._last, event)
