"""What a test sees of the agent behind an in-process client, and how it moves the time.

Virtual time moves while a client waits for an event: there is no driver call whose duration could be meant.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from chatagent.errors import HarnessError, HarnessStateError
from chatagent.service import InProcessTransport
from chatagent.tasks import OwnedTask
from chatagent_test.clock import VirtualClock
from chatagent_test.harness.driver import Driver
from chatagent_test.harness.watch import RunWatch
from chatagent_test.harness.where import describe_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from chatagent.agent import HookCall, RunObserver, TurnReport
    from chatagent.clock import Clock
    from chatagent.protocol import EventStream, ThreadEvent, ThreadHeadEvent
    from chatagent.service import AgentService
    from chatagent.session import InMemorySessionStore
    from chatagent.waiting import Ledger

__all__ = ["InProcessHarness", "WatchedTransport"]

EventT = TypeVar("EventT")


class _ThreadWatch(RunWatch):
    """Sees the runs of one thread, and tells the one that sees them all."""

    def __init__(self, central: InProcessHarness) -> None:
        super().__init__()
        self._central = central

    def stir(self) -> None:
        """Let whoever waits for news look again."""
        super().stir()
        self._central.watch.stir()

    def hook_started(self, call: HookCall) -> None:
        """See `RunObserver.hook_started`."""
        self._central.hooks.append(call)
        super().hook_started(call)

    def turn_settled(self, report: TurnReport) -> None:
        """See `RunObserver.turn_settled`."""
        if isinstance(report.stream_error, HarnessError):
            self._central.misuses.append(report.stream_error)
        if isinstance(report.error, HarnessError):
            self._central.misuses.append(report.error)
        super().turn_settled(report)


class InProcessHarness:
    """The far side of an in-process client: the agent's hooks, its runs, and the clock.

    Args:
        clock: the clock of everything.
        ledger: counts the tasks of service and runs.
        sessions: where sessions are kept.
        auto_advance: whether virtual time moves while a client waits.
        wait_timeout: real seconds after which a call gives up.
    """

    def __init__(
        self,
        clock: Clock,
        ledger: Ledger,
        sessions: InMemorySessionStore,
        *,
        auto_advance: bool,
        wait_timeout: float,
    ) -> None:
        self.clock = clock
        self.hooks: list[HookCall] = []
        """The calls of hooks, of all threads, in the order in which they began."""
        self.watch = RunWatch()
        self.misuses: list[HarnessError] = []
        """Misuses of the test kit that an answer's stream has swallowed."""
        self._sessions, self._threads = sessions, dict[str, _ThreadWatch]()
        self._service: AgentService | None = None
        self._waiting = 0
        self._mover: OwnedTask | None = None
        self._is_closing = False
        self._driver = Driver(
            ledger,
            self.watch,
            clock,
            auto_advance=True,
            wait_timeout=wait_timeout,
            describe=self._describe,
        )
        self._ledger, self._auto_advance = ledger, auto_advance

    def observe(self, thread_id: str) -> RunObserver:
        """Return what sees the runs of a thread."""
        watch = self._threads.get(thread_id)
        if watch is None:
            watch = self._threads[thread_id] = _ThreadWatch(self)
        watch.run_begins()
        return watch

    def turn_count(self, thread_id: str) -> int:
        """Return how many turns of a thread have begun."""
        watch = self._threads.get(thread_id)
        return 0 if watch is None else len(watch.turns)

    async def advance(self, seconds: float) -> None:
        """Move virtual time on, from deadline to deadline, letting the agent work in between.

        Raises:
            HarnessStateError: the clock is a real one.
            WaitTimeoutError: the agent was busy for `wait_timeout` real seconds.
        """
        if not isinstance(self.clock, VirtualClock):
            raise HarnessStateError("advance: this client has a clock that cannot be moved; use clock='virtual'")
        await self._driver.advance(seconds)

    async def settle(self) -> None:
        """Wait until nothing of the agent can go on by itself: hooks, snapshots and deferred work are done.

        Raises:
            WaitTimeoutError: something of it went on for `wait_timeout` real seconds.
        """
        await self._driver.settle()

    async def kill_run(self, thread_id: str) -> None:
        """Let the runtime run of a thread die as in a crash, and another one go on from its records.

        Raises:
            HarnessStateError: the thread has no runtime run.
        """
        hosted = None if self._service is None else self._service.thread(thread_id).hosted
        if hosted is None or hosted.task is None:
            raise HarnessStateError(f"kill_run: thread {thread_id!r} has no run")
        self._sessions.revoke(thread_id)
        await hosted.task.close()

    def describe(self, thread_id: str) -> str:
        """Say where the agent stands in a thread, in lines."""
        hosted = None if self._service is None else self._service.thread(thread_id).hosted
        watch = self._threads.get(thread_id, self.watch)
        task, others = (None, []) if hosted is None else (hosted.task, hosted.other_tasks)
        return describe_run(watch, self._ledger, self.clock, task, others)

    # For the client -----------------------------------------------------------------------------------------------

    def open(self, service: AgentService) -> None:
        """Begin to move the time."""
        self._service = service
        self._mover = OwnedTask(self._move, name="the mover of virtual time")

    def end(self) -> None:
        """Let time move until everything has ended: a run that is asked to end has some of it."""
        self._is_closing = True
        self.watch.stir()

    async def close(self) -> None:
        """Move the time no more."""
        if self._mover is not None:
            await self._mover.close()
        self._driver.let_go()

    def waits(self, by: int) -> None:
        """Take it that a client waits for an event, or does so no more."""
        self._waiting += by
        self.watch.stir()

    async def _move(self) -> None:
        until = self._driver.until
        while True:
            await until(lambda: self._is_waited_for, "a client's wait", move_time=False, limit=math.inf)
            await until(lambda: not self._is_waited_for, "a client's wait", limit=math.inf)

    @property
    def _is_waited_for(self) -> bool:
        """Whether somebody waits for what only time can bring: a client, or the end of the runs."""
        return self._is_closing or (self._auto_advance and self._waiting > 0)

    def _describe(self) -> str:
        return "\n".join(f"thread {thread_id!r}:\n{self.describe(thread_id)}" for thread_id in self._threads)


class WatchedTransport(InProcessTransport):
    """The service's transport, which lets the harness see when its client waits."""

    def __init__(self, service: AgentService, harness: InProcessHarness, *, client_data: object) -> None:
        super().__init__(service, client_data=client_data)
        self._harness = harness

    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        """Open a watch of a thread."""
        return _WatchedWatch(super().watch_thread(thread_id, after=after), self._harness.waits)

    def watch_thread_heads(self, *, after: int | None) -> AbstractAsyncContextManager[EventStream[ThreadHeadEvent]]:
        """Open a watch of the list of threads."""
        return _WatchedWatch(super().watch_thread_heads(after=after), self._harness.waits)

    def wait_hint(self, thread_id: str, run_id: str | None) -> str | None:
        """Say where the agent stands, for whoever waited too long (RH-8)."""
        return f"where the agent stands:\n{self._harness.describe(thread_id)}"


class _WatchedWatch(Generic[EventT]):
    """A watch whose reader is seen waiting."""

    def __init__(self, watch: AbstractAsyncContextManager[EventStream[EventT]], waits: Callable[[int], None]) -> None:
        self._watch, self._waits = watch, waits

    async def __aenter__(self) -> EventStream[EventT]:
        return _WatchedStream(await self._watch.__aenter__(), self._waits)

    async def __aexit__(self, *given: Any) -> bool | None:
        return await self._watch.__aexit__(*given)


class _WatchedStream(Generic[EventT]):
    def __init__(self, stream: EventStream[EventT], waits: Callable[[int], None]) -> None:
        self._stream, self._waits = stream, waits
        self.receive_nowait = stream.receive_nowait

    def __aiter__(self) -> AsyncIterator[EventT]:
        return self

    async def __anext__(self) -> EventT:
        self._waits(1)
        try:
            return await self._stream.__anext__()
        finally:
            self._waits(-1)
