"""Input streams: data sent to a run by name, beside its session.

What comes goes to everybody who waits and to all handlers; only if there is neither is it kept for the next wait. (A
session's channel gives each record to one.)
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chatagent.current import current_clock, current_surroundings
from chatagent.errors import ChatContextError
from chatagent.session.channel import Subscription
from chatagent.session.suspension import SuspendedWait
from chatagent.task.errors import StreamInputTimeoutError
from chatagent.timers import wait_until
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["InputResult", "InputStream", "InputStreams"]

logger = logging.getLogger("chatagent")


@dataclass(frozen=True, slots=True)
class InputResult:
    """How a wait on an input stream ended."""

    ok: bool
    output: Any = None
    """The data, if some came."""
    error: StreamInputTimeoutError | None = None
    """Why none came."""


class _Once:
    """One wait for one piece of data."""

    __slots__ = ("data", "has_data", "is_shared", "waiter")

    def __init__(self, stream_id: str) -> None:
        self.waiter = Waiter(f"data on input stream {stream_id!r}")
        self.has_data = False
        self.is_shared = False
        """Whether others have had the data too."""
        self.data: Any = None

    def give(self, data: Any, *, is_shared: bool) -> None:
        self.data, self.has_data, self.is_shared = data, True, is_shared
        self.waiter.wake()


@dataclass(slots=True)
class _Stream:
    """What is known of one stream."""

    waiting: list[_Once] = field(default_factory=list[_Once])
    handlers: dict[object, Callable[[Any], object]] = field(default_factory=dict[object, "Callable[[Any], object]"])
    buffer: deque[Any] = field(default_factory=deque[Any])
    latest: Any = None


class InputStreams:
    """The input streams of one run, by id."""

    __slots__ = ("_streams",)

    def __init__(self) -> None:
        self._streams: dict[str, _Stream] = {}

    async def deliver(self, stream_id: str, data: Any) -> None:
        """Give data to everybody who waits and to all handlers, one after the other; keep it if there is neither.

        What a handler raises is logged. Async handlers are awaited.
        """
        stream = self._stream(stream_id)
        stream.latest = data
        waiting, stream.waiting = stream.waiting, []
        handlers = tuple(stream.handlers.values())
        for once in waiting:
            once.give(data, is_shared=len(waiting) > 1 or bool(handlers))
        if not waiting and not handlers:
            stream.buffer.append(data)
        for handler in handlers:
            await _call(handler, data, stream_id)

    def close(self, stream_id: str) -> None:
        """End the waits on a stream, as if their time had run out."""
        stream = self._stream(stream_id)
        waiting, stream.waiting = stream.waiting, []
        for once in waiting:
            once.waiter.wake()

    def on(self, stream_id: str, handler: Callable[[Any], object]) -> Subscription:
        """Call a handler with all that comes from now on; sync or async."""
        handlers, key = self._stream(stream_id).handlers, object()
        handlers[key] = handler

        def off() -> None:
            handlers.pop(key, None)

        return Subscription(off)

    def peek(self, stream_id: str) -> Any:
        """Return the newest data that came, whoever has had it; `None` if nothing came yet."""
        return self._stream(stream_id).latest

    async def once(self, stream_id: str, timeout: float | None = None) -> InputResult:  # noqa: ASYNC109 - on the run's clock
        """Take the next data: the oldest that is kept, or what comes."""
        stream = self._stream(stream_id)
        if stream.buffer:
            return InputResult(ok=True, output=stream.buffer.popleft())
        once = _Once(stream_id)
        clock = current_clock()
        stream.waiting.append(once)
        try:
            in_time = await wait_until(
                once.waiter, clock, None if timeout is None else clock.now() + timeout, kind="wait"
            )
        except BaseException:
            # Whoever was cancelled between the data's coming and its own next step must not take them along.
            if once.has_data and not once.is_shared:
                stream.buffer.appendleft(once.data)
            raise
        finally:
            if once in stream.waiting:
                stream.waiting.remove(once)
        if once.has_data:
            return InputResult(ok=True, output=once.data)
        return InputResult(
            ok=False, error=StreamInputTimeoutError(stream_id=stream_id, timeout=timeout, closed=in_time)
        )

    def _stream(self, stream_id: str) -> _Stream:
        return self._streams.setdefault(stream_id, _Stream())


class InputStream:
    """One input stream of the current run; made by `streams.input(id)`."""

    __slots__ = ("id",)

    def __init__(self, stream_id: str) -> None:
        self.id = stream_id

    def on(self, handler: Callable[[Any], object]) -> Subscription:
        """Call a handler, sync or async, with all that comes from now on.

        Raises:
            ChatContextError: there is no run.
        """
        return self._streams("on").on(self.id, handler)

    def peek(self) -> Any:
        """Return the newest data that came; `None` if nothing came yet, and outside any run."""
        surroundings = current_surroundings()
        return None if surroundings is None else surroundings.inputs.peek(self.id)

    async def once(self, timeout: float | None = None) -> InputResult:  # noqa: ASYNC109 - on the run's clock
        """Take the next data, or give up.

        Args:
            timeout: seconds on the run's clock after which to give up; `None` waits without end.

        Returns:
            The data; or `ok=False` with the error, also if the stream was closed meanwhile.

        Raises:
            ChatContextError: there is no run.
        """
        return await self._streams("once").once(self.id, timeout)

    async def wait(self, timeout: float | None = None) -> InputResult:  # noqa: ASYNC109 - on the run's clock
        """Do the same as `once`, with the run put away meanwhile; what that means is the runtime manager's business."""
        streams = self._streams("wait")
        runtime = current_surroundings().runtime
        if runtime is None:
            return await streams.once(self.id, timeout)
        wait = SuspendedWait(kind="stream", id=self.id, timeout=timeout)
        return await runtime.suspend(wait, lambda: streams.once(self.id, timeout))

    def _streams(self, what: str) -> InputStreams:
        surroundings = current_surroundings()
        if surroundings is None:
            raise ChatContextError(f"streams.input({self.id!r}).{what}")
        return surroundings.inputs


async def _call(handler: Callable[[Any], object], data: Any, stream_id: str) -> None:
    try:
        outcome = handler(data)
        if inspect.isawaitable(outcome):
            await outcome
    except Exception:  # a user's handler
        logger.exception("a handler of input stream %r failed", stream_id)
