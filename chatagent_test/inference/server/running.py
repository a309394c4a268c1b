"""Runs the steps of an answer into a sink, without a task of its own: what it waits for calls it back.

Sockets and in-process clients differ in their sinks alone. An answer begins on the thread that asked, and goes on,
after a wait, on the server's loop; so whether anybody reads does not matter for how far it comes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from chatagent_test.inference.steps import Ask, Flush, Frames, Head, ServerStopping, Steps, Wait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

__all__ = ["Home", "Runner", "Sink"]


class Sink(Protocol):
    """Where an answer goes. No method waits, and none fails because nobody reads any more."""

    def head(self, head: Head) -> None:
        """Begin."""
        ...

    def frames(self, frames: Sequence[bytes]) -> None:
        """Send pieces of the body."""
        ...

    def flush(self) -> None:
        """Let out what was held back for a larger write."""
        ...

    def end(self) -> None:
        """The body is whole."""
        ...

    def cut(self) -> None:
        """The body breaks off here."""
        ...


class Home(Protocol):
    """The loop that wakes answers."""

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        """Have something called on the loop; any thread may ask."""
        ...

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> None:
        """Have something called on the loop after so many seconds; any thread may ask."""
        ...

    def ask(self, question: Awaitable[object], answered: Callable[[object, BaseException | None], None]) -> object:
        """Await something on the loop and hand over what came of it; any thread may ask."""
        ...


class Runner:
    """One answer on its way."""

    def __init__(self, steps: Steps[None], sink: Sink, home: Home, finished: Callable[[Runner], object]) -> None:
        self._steps, self._sink, self._home, self._finished = steps, sink, home, finished
        self._lock = threading.RLock()
        self._wake: object = None
        """Changes with each wait, so that a late call for an earlier one does nothing."""
        self._forget: Callable[[], None] | None = None
        self.is_done = False

    def start(self) -> None:
        """Run as far as it goes without waiting."""
        self._advance(None)

    def cancel(self) -> None:
        """The client has gone: end the answer at once. Any thread may say so."""
        with self._lock:
            if not self.is_done:
                self._stop_waiting()
                self._done()
                self._steps.close()

    def abort(self) -> None:
        """The server stops: end the answer and break its body off. Any thread may say so."""
        with self._lock:
            if not self.is_done:
                self._stop_waiting()
                self._advance(None, ServerStopping())

    def _advance(self, value: object, error: BaseException | None = None) -> None:
        with self._lock:
            if self.is_done:
                return
            try:
                self._run(value, error)
            except StopIteration:
                self._done()
                self._sink.end()
            except (Exception, ServerStopping):  # noqa: BLE001 - the log has it; the client sees a body break off
                self._done()
                self._sink.cut()

    def _run(self, value: Any, error: BaseException | None) -> None:
        """Take steps until one has to wait."""
        steps, sink = self._steps, self._sink
        step = steps.throw(error) if error is not None else steps.send(value)
        while True:
            value = None
            if isinstance(step, Frames):
                sink.frames(step.frames)
            elif isinstance(step, Head):
                sink.head(step)
            elif isinstance(step, Flush):
                sink.flush()
            elif isinstance(step, Wait):
                sink.flush()
                if self._park(step):
                    return
                value = True
            elif isinstance(step, Ask):
                sink.flush()
                self._ask(step)
                return
            else:
                self._cut()
                return
            step = steps.send(value)

    def _park(self, wait: Wait) -> bool:
        """Wait, unless what is waited for is there already."""
        wake = self._wake = object()

        def waker() -> None:
            self._home.call_soon(self._resume, wake, True)

        if wait.latch is not None:
            if not wait.latch.add_waker(waker):
                return False
            latch = wait.latch
            self._forget = lambda: latch.discard_waker(waker)
        if wait.limit is not None:
            self._home.call_later(wait.limit, self._resume, wake, False)
        return True

    def _resume(self, wake: object, value: object, error: BaseException | None = None) -> None:
        with self._lock:
            if self._wake is wake:
                self._stop_waiting()
                self._advance(value, error)

    def _ask(self, step: Ask) -> None:
        wake = self._wake = object()
        self._home.ask(step.question, lambda result, error: self._resume(wake, result, error))

    def _cut(self) -> None:
        """Break the body off, and let the answer end as one that was aborted."""
        self._done()
        self._sink.cut()
        try:
            self._steps.throw(ServerStopping())
        except (StopIteration, ServerStopping):
            return

    def _stop_waiting(self) -> None:
        self._wake = None
        if self._forget is not None:
            self._forget()
            self._forget = None

    def _done(self) -> None:
        self.is_done = True
        self._finished(self)
