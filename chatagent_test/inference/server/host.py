"""The server's own thread with its own loop: it wakes answers that wait, and listens to a port if it has one.

An own loop, so that blocking clients, async clients of any loop and child processes can all be served, even by a test
that blocks the loop it runs on. The listening socket is bound by whoever starts, so that a port already taken is an
error of the start.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from contextvars import Context, copy_context
from typing import TYPE_CHECKING

from chatagent_test.inference.server.running import Runner
from chatagent_test.inference.waiting import Latch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent_test.inference.server.running import Sink
    from chatagent_test.inference.steps import Steps

__all__ = ["GRACE", "Host"]

GRACE = 1.0
"""Seconds that open answers get to end when the server closes."""

START_LIMIT = 5.0


class Host:
    """One thread, started when it is first needed and stopped once.

    Args:
        connect: makes the protocol of a new connection.
    """

    def __init__(self, connect: Callable[[Host], asyncio.Protocol]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._listener: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: Context | None = None
        """The loop's own: a caller's would say that its trio, or its task, runs here."""
        self._started, self.stopped = Latch(), Latch()
        self._stopping: asyncio.Event | None = None
        self._idle: asyncio.Event | None = None
        """Set when nothing is left to wait for, once the server stops."""
        self._questions: set[asyncio.Task[None]] = set()
        self._runners: set[Runner] = set()
        self.connections: set[asyncio.Transport] = set()
        self.is_stopping = False
        self.port: int | None = None

    # Starting and stopping ---------------------------------------------------------------------------------------

    def listen(self, port: int) -> None:
        """Bind a loopback port and serve it; returns when it can be connected to.

        Args:
            port: 0 has the system choose.

        Raises:
            OSError: the port cannot be had.
        """
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.port = self._listener.getsockname()[1]
        self._start()
        socket.create_connection(("127.0.0.1", self.port), START_LIMIT).close()

    def begin_stop(self) -> None:
        """Take no more connections, let answers end for a second, then break them off. Does not wait."""
        with self._lock:
            self.is_stopping = True
            if self._thread is None:
                self._abort_runners()
                self.stopped.open()
                return
        self.call_soon(self._stop)

    def stop(self) -> None:
        """Stop and wait until it has; harmless if it has stopped.

        On the server's own thread, where a function of the test or the garbage collector may call, nothing waits.
        """
        self.begin_stop()
        if threading.current_thread() is self._thread:
            return
        self.stopped.wait_sync(GRACE + START_LIMIT)
        self.join()

    def join(self) -> None:
        """Wait for the thread to end, unless it is this one."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(START_LIMIT)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and self.is_stopping:
                raise RuntimeError("the mock inference server has stopped")
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="mock-inference-server", daemon=True)
                self._thread.start()
        if not self._started.wait_sync(START_LIMIT):
            raise TimeoutError(f"the mock inference server has not started within {START_LIMIT:g} s")

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:  # the same on every system
                runner.run(self._serve())
        finally:
            self.stopped.open()

    async def _serve(self) -> None:
        self._loop, self._context = asyncio.get_running_loop(), copy_context()
        self._stopping, self._idle = asyncio.Event(), asyncio.Event()
        server = None
        if self._listener is not None:
            server = await self._loop.create_server(lambda: self._connect(self), sock=self._listener)
        self._started.open()
        await self._stopping.wait()
        if server is not None:
            await self._let_in()
            server.close()
        await self._until_idle(lambda: bool(self._runners))
        self._abort_runners()
        for question in self._questions:
            question.cancel()
        for transport in list(self.connections):
            transport.close()
        await self._until_idle(lambda: bool(self.connections))
        for transport in list(self.connections):
            transport.abort()

    async def _let_in(self) -> None:
        """Wait until no connection is just being accepted: asyncio drops such a one without closing its socket."""
        me = asyncio.current_task()
        while accepting := asyncio.all_tasks() - {me} - self._questions:
            await asyncio.wait(accepting)

    async def _until_idle(self, is_busy: Callable[[], bool]) -> None:
        assert self._idle is not None
        self._idle.clear()
        if is_busy():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), GRACE)

    def _stop(self) -> None:
        assert self._stopping is not None
        self._stopping.set()

    def _abort_runners(self) -> None:
        for runner in list(self._runners):
            runner.abort()

    # Answers -----------------------------------------------------------------------------------------------------

    def run(self, steps: Steps[None], sink: Sink) -> Runner:
        """Begin an answer on this thread; after its first wait it goes on on the loop."""
        runner = Runner(steps, sink, self, self._finished)
        self._runners.add(runner)
        runner.start()
        return runner

    def _finished(self, runner: Runner) -> None:
        self._runners.discard(runner)
        if self.is_stopping and not self._runners and self._idle is not None:
            self.call_soon(self._idle.set)

    def forget(self, transport: asyncio.Transport) -> None:
        """A connection has ended."""
        self.connections.discard(transport)
        if self.is_stopping and not self.connections and self._idle is not None:
            self._idle.set()

    # The loop that wakes answers ---------------------------------------------------------------------------------

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        """Have something called on the loop; when the loop has ended, nobody is left to call it for."""
        try:
            self._running_loop().call_soon_threadsafe(callback, *args, context=self._context)
        except RuntimeError:  # it has ended
            return

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> None:
        """Have something called on the loop after so many seconds."""
        loop = self._running_loop()
        if threading.current_thread() is self._thread:
            loop.call_later(seconds, callback, *args)
        else:
            self.call_soon(loop.call_later, seconds, callback, *args)

    def ask(self, question: Awaitable[object], answered: Callable[[object, BaseException | None], None]) -> None:
        """Await something on the loop and hand over what came of it."""

        async def find_out() -> None:
            try:
                result = await question
            except Exception as error:  # noqa: BLE001 - handed to the answer, which tells it
                answered(None, error)
            else:
                answered(result, None)

        def begin() -> None:
            task = self._running_loop().create_task(find_out())
            self._questions.add(task)
            task.add_done_callback(self._questions.discard)

        self.call_soon(begin)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._start()
        assert self._loop is not None
        return self._loop
