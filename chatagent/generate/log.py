"""The parts of a call as they come, for any number of readers (rules 4.2 and 10.2).

Each reader gets all parts from the first one. The producer is let run a bounded number of parts ahead of the fastest
reader, and waits there; so one that nobody reads does nothing.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, TypeAlias

from chatagent.generate.parts import FullTextDelta
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.generate.parts import FullReasoningDelta, FullStreamPart

__all__ = ["DeltaRun", "FullStream", "LogEntry", "PartLog", "TextStream"]

AHEAD = 64
"""How many parts the producer may be ahead of the fastest reader: enough that both work in batches."""


class DeltaRun:
    """Deltas of one block that came one after the other: kept as texts, made parts for whoever reads them."""

    __slots__ = ("id", "make", "texts")

    def __init__(self, make: type[FullTextDelta | FullReasoningDelta], block_id: str, text: str) -> None:
        self.make, self.id = make, block_id
        self.texts = [text]


LogEntry: TypeAlias = "FullStreamPart | DeltaRun"


class PartLog:
    """Keeps the parts and knows who reads them.

    Args:
        on_demand: called whenever somebody wants parts that are not there yet.
        on_abandoned: called when the last reader leaves a call before its end.
    """

    __slots__ = (
        "__weakref__",
        "_on_abandoned",
        "_on_demand",
        "_readers",
        "_room",
        "_run",
        "_tokens",
        "_waiting",
        "count",
        "ended",
        "entries",
        "error",
        "limit",
    )

    def __init__(self, *, on_demand: Callable[[], None], on_abandoned: Callable[[], None]) -> None:
        self.entries: list[LogEntry] = []
        """The parts, with neighbouring deltas of one block in one entry."""
        self.count = 0
        """How many parts that is."""
        self.limit = 0
        """The producer waits for `room` when there are so many parts; 0 until somebody reads."""
        self.ended = False
        self.error: BaseException | None = None
        """What readers raise after the last part."""
        self._on_demand, self._on_abandoned = on_demand, on_abandoned
        self._readers: dict[int, weakref.ref[FullStream]] = {}
        self._tokens = 0
        self._waiting: list[Waiter] = []
        self._room: Waiter | None = None
        self._run: DeltaRun | None = None

    def append(self, part: FullStreamPart) -> None:
        """Add a part."""
        self.entries.append(part)
        self.count += 1
        self._run = None
        if self._waiting:
            self._wake_readers()

    def append_delta(self, make: type[FullTextDelta | FullReasoningDelta], block_id: str, text: str) -> None:
        """Add a delta without metadata; the same as `append(make(block_id, text))`, and quicker."""
        run = self._run
        if run is not None and run.id == block_id and run.make is make:
            run.texts.append(text)
        else:
            self._run = run = DeltaRun(make, block_id, text)
            self.entries.append(run)
        self.count += 1
        if self._waiting:
            self._wake_readers()

    def mark(self) -> int:
        """Return the place among the entries at which the next part will begin one."""
        self._run = None
        return len(self.entries)

    def end(self, error: BaseException | None = None) -> None:
        """Add no more parts.

        Args:
            error: what readers raise after the last part; `None` lets them end.
        """
        if not self.ended:
            self.ended, self.error = True, error
            self._on_demand = self._on_abandoned = _nothing
            self._wake_readers()

    def drain(self) -> None:
        """Let the producer run to the end without waiting for readers."""
        self.limit = sys.maxsize
        self._wake_producer()

    async def room(self) -> None:
        """Return when the producer may go on."""
        while self.count >= self.limit:
            self._room = Waiter("a reader of the stream")
            await self._room.wait()

    @property
    def has_readers(self) -> bool:
        """Whether somebody wants to read."""
        return bool(self._readers)

    def join(self, reader: FullStream) -> int:
        """Count a reader, and return its token; a reader that is dropped leaves by itself."""
        self._tokens += 1
        token = self._tokens
        log = weakref.ref(self)

        def dropped(_ref: object) -> None:
            there = log()
            if there is not None:
                there.leave(token)

        self._readers[token] = weakref.ref(reader, dropped)
        return token

    def leave(self, token: int) -> None:
        """Count a reader no longer; the last one abandons a call that runs for its readers alone."""
        gone = self._readers.pop(token, None)
        if gone is not None and not self._readers and not self.ended and 0 < self.limit < sys.maxsize:
            self._on_abandoned()

    async def more(self, token: int, index: int) -> bool:
        """Wait until there is a part at that index; `False` if there will be none."""
        while index >= self.count:
            if token not in self._readers:
                return False
            if self.ended:
                self._readers.pop(token, None)
                return False
            self._on_demand()
            self.limit = max(self.limit, index + AHEAD)
            self._wake_producer()
            waiter = Waiter("the next part of the stream")
            self._waiting.append(waiter)
            try:
                await waiter.wait()
            finally:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
        return True

    def wake_all(self) -> None:
        """Let every waiting reader look again."""
        self._wake_readers()

    def _wake_readers(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.wake()

    def _wake_producer(self) -> None:
        if self._room is not None and self.count < self.limit:
            self._room.wake()


def _nothing() -> None:
    """Stand for the callbacks of a call that has ended, so that the log keeps nothing of it alive."""


class FullStream:
    """Everything that happens in a call, part by part, from the first one. Read it with `async for`, once.

    Leaving it early closes the call if nobody else reads; `aclose` does so at once.
    """

    __slots__ = ("__weakref__", "_entry", "_index", "_log", "_offset", "_token")

    def __init__(self, log: PartLog) -> None:
        self._log = log
        self._index = 0
        """How many parts were read."""
        self._entry = self._offset = 0
        """Where the next one is: the entry, and the place in a run of deltas."""
        self._token = log.join(self)

    def __aiter__(self) -> FullStream:
        return self

    async def __anext__(self) -> FullStreamPart:
        index, log = self._index, self._log
        if index >= log.count and not await log.more(self._token, index):
            if log.ended and log.error is not None and index == log.count:
                self._index = index + 1
                raise log.error
            raise StopAsyncIteration
        self._index = index + 1
        return self._next_part()

    def _next_part(self) -> FullStreamPart:
        while True:
            entry = self._log.entries[self._entry]
            if not isinstance(entry, DeltaRun):
                self._entry += 1
                return entry
            if self._offset < len(entry.texts):
                self._offset += 1
                return entry.make(entry.id, entry.texts[self._offset - 1])
            self._entry, self._offset = self._entry + 1, 0

    async def aclose(self) -> None:
        """Read no more."""
        self.stop()

    def stop(self) -> None:
        """Read no more; for those who cannot wait."""
        self._index = sys.maxsize
        self._log.leave(self._token)
        self._log.wake_all()


class TextStream:
    """The text of a call, delta by delta, over all steps. Read it with `async for`, once."""

    __slots__ = ("_parts",)

    def __init__(self, parts: FullStream) -> None:
        self._parts = parts

    def __aiter__(self) -> TextStream:
        return self

    async def __anext__(self) -> str:
        while True:
            part = await self._parts.__anext__()
            if type(part) is FullTextDelta:
                return part.text

    async def aclose(self) -> None:
        """Read no more."""
        await self._parts.aclose()
