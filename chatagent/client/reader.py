"""Reading one watch of a transport: what is ready, what comes next, and opening it again (rule EV-36).

Knows nothing of what the events mean. The watch is left by whoever closes, in whatever task that happens.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from anyio import CancelScope, EndOfStream

from chatagent.protocol import ClientClosedError, TransportUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from chatagent.client.context import ClientContext
    from chatagent.protocol import EventStream

__all__ = ["WatchReader", "check_entered"]

EventT = TypeVar("EventT")

FIRST_DELAY: Final = 0.1
LONGEST_DELAY: Final = 5.0
"""How long to wait between attempts to open a watch again, in seconds."""


def check_entered(call: str, *, is_entered: bool) -> None:
    """Refuse to iterate over what was not entered, which nobody would close again.

    Raises:
        TypeError: it was not.
    """
    if not is_entered:
        raise TypeError(f"`{call}` is a context manager: `async with {call} as items:`, then `async for item in items`")


class WatchReader(Generic[EventT]):
    """Reads one watch.

    Args:
        open_watch: opens the transport's watch from behind a number.
        context: the client that it belongs to; its clock is what the back-off waits on, and closing it ends the watch.
    """

    def __init__(
        self,
        open_watch: Callable[[int | None], AbstractAsyncContextManager[EventStream[EventT]]],
        context: ClientContext,
    ) -> None:
        self._open_watch, self._context = open_watch, context
        self.stream: EventStream[EventT] | None = None
        """What is read; `None` until it is opened, and again when it has ended or was lost."""
        self.has_ended = False
        """Whether the watch has ended normally since it was opened."""
        self.is_closed = False
        self.on_close: Callable[[], None] = _nothing
        """Called when the watch is closed, so that others who wait for its reader go on."""
        self._watch: AbstractAsyncContextManager[EventStream[EventT]] | None = None
        self._scope: CancelScope | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a watch to read."""
        return self.stream is not None

    @property
    def is_reading(self) -> bool:
        """Whether a task waits for the next event."""
        return self._scope is not None

    async def open(self, after: int | None) -> None:
        """Open the watch; try again for as long as the backend is not reached.

        The first attempt is made at once, the second too; then the delays grow from the shortest to the longest.

        Raises:
            UnsupportedOperationError: the transport has no watches.
            ClientClosedError: the client was closed meanwhile.
        """
        delay: float | None = None
        self._context.readers.add(self)
        while True:
            self.check_open()
            try:
                watch = self._open_watch(after)
                stream = await watch.__aenter__()
            except TransportUnavailableError:
                if delay is not None:
                    # Up to half of it shorter, never longer: whoever moves a clock by the delay sees the attempt.
                    await self.sleep(delay * (1 - random.random() / 2))
                delay = FIRST_DELAY if delay is None else min(2 * delay, LONGEST_DELAY)
                continue
            break
        await self._leave()
        self._watch, self.stream, self.has_ended = watch, stream, False
        self._context.readers.add(self)

    def receive(self) -> EventT | None:
        """Return the next event if it is there."""
        if self.stream is None:
            return None
        try:
            return self.stream.receive_nowait()
        except EndOfStream:
            self._ended()
        except TransportUnavailableError:
            self.stream = None
        return None

    def take_ready(self, take: Callable[[EventT], bool]) -> None:
        """Hand over what is there, event by event, for as long as `take` wants more."""
        if self.stream is None:
            return
        receive = self.stream.receive_nowait
        try:
            while (event := receive()) is not None:
                if not take(event):
                    break
        except EndOfStream:
            self._ended()
        except TransportUnavailableError:
            self.stream = None

    async def read(self) -> EventT | None:
        """Wait for the next event; `None` if the wait was interrupted, or the watch has ended or was lost.

        Raises:
            ClientClosedError: the client was closed meanwhile.
        """
        stream = self.stream
        if stream is None:
            return None
        event: EventT | None = None
        scope = self._scope = CancelScope()
        try:
            with scope:
                event = await stream.__anext__()
        except StopAsyncIteration:
            self._ended()
        except TransportUnavailableError:
            self.stream = None
        finally:
            self._scope = None
        self.check_open()
        return event

    async def sleep(self, seconds: float) -> None:
        """Let time pass on the client's clock; an interruption cuts it short."""
        scope = self._scope = CancelScope()
        try:
            with scope:
                await self._context.clock.sleep(seconds)
        finally:
            self._scope = None
        self.check_open()

    def interrupt(self) -> None:
        """Let whoever waits in `read` go on without an event."""
        if self._scope is not None:
            self._scope.cancel()

    def check_open(self) -> None:
        """Refuse what comes after the client was closed.

        Raises:
            ClientClosedError: it was.
        """
        if self.is_closed or self._context.is_closed:
            raise ClientClosedError(operation="watch")

    async def close(self) -> None:
        """Leave the watch; whoever waits is told that the client is closed."""
        self.is_closed = True
        self.stream = None
        self.interrupt()
        self.on_close()
        await self._leave()

    def _ended(self) -> None:
        self.stream, self.has_ended = None, True

    async def _leave(self) -> None:
        watch, self._watch = self._watch, None
        self._context.readers.discard(self)
        if watch is not None:
            await watch.__aexit__(None, None, None)


def _nothing() -> None:
    pass
