"""`run_in_mock_task_context`: runs a function as a task, with everything around it in memory and in the test's hands.

Nothing of it is global. The context lies in the function's own task and in what that starts, so contexts may stand
side by side and inside each other.
"""

from __future__ import annotations

import contextvars
import inspect
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from chatagent.agent import AgentRun, RunEnvironment, parse_payload, run_agent
from chatagent.current import current_run
from chatagent.errors import HarnessStateError
from chatagent.session import (
    InMemorySnapshotStore,
    RunRequest,
    SessionSpec,
    Worker,
)
from chatagent.task import LocalValues, TaskRun, TaskSurroundings, make_run_context, make_worker_info
from chatagent.tasks import OwnedTask
from chatagent_test.clock import VirtualClock
from chatagent_test.harness.ids import CountedIds
from chatagent_test.task_context.drivers import InputDriver, OutputDriver, SessionsDriver, StartedAgent, TaskDrivers
from chatagent_test.task_context.driving import TaskDriver
from chatagent_test.task_context.sessions import OpenSessionStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from chatagent.agent import ChatAgent
    from chatagent.session import Lease, RuntimeManager, SessionStore
    from chatagent.task import WorkerInfo

__all__ = ["run_in_mock_task_context"]

ResultT = TypeVar("ResultT")

LEASE_TTL = 1e9
"""Seconds; a lease in here does not run out by itself."""


async def run_in_mock_task_context(
    fn: Callable[[TaskDrivers], Awaitable[ResultT] | ResultT],
    *,
    ctx: Mapping[str, Any] | None = None,
    worker: WorkerInfo | Mapping[str, Any] | None = None,
    is_warm_start: bool = False,
    session_stream_manager: SessionStore | None = None,
    runtime_manager: RuntimeManager | None = None,
    wait_timeout: float = 10.0,
) -> ResultT:
    """Run a function inside a run of its own, whose input and output are in its hands; return what it returns.

    The function, what it calls and what it starts find `locals`, `metadata`, `streams`, `current_context()`, sessions
    and the clock of this run. When it returns all that is gone, and what it started and left behind is cancelled.
    Time is virtual: when nothing of the run can go on, it moves to the next deadline.

    Args:
        fn: called with the drivers; sync or async.
        ctx: overrides of the run context, by section, such as `{"run": {"id": "run_7"}}`.
        worker: overrides of the worker, by field.
        is_warm_start: whether the worker has run something before.
        session_stream_manager: where sessions lie, instead of in memory; opened and closed by the caller.
        runtime_manager: what a suspended wait does; by default it goes on in place, and the next record ends it.
        wait_timeout: real seconds after which a function is given up that waits, without a deadline, for what never
            comes.

    Raises:
        BaseException: what the function raised; or what ended an agent that it started, if it did not wait for that.
        InvalidArgumentError: `ctx` or `worker` with a field that there is not.
        WaitTimeoutError: the function waits in vain.
    """
    clock = VirtualClock()
    surroundings = TaskSurroundings(
        context=make_run_context(ctx, now=clock.now()),
        worker=make_worker_info(worker),
        is_warm_start=is_warm_start,
        runtime=runtime_manager,
    )
    async with AsyncExitStack() as stack:
        store = session_stream_manager
        if store is None:
            opened = OpenSessionStore(clock=clock, task=surroundings.context.task.id)
            store = await stack.enter_async_context(opened)
        run = TaskRun(clock=clock, store=store, surroundings=surroundings, new_id=CountedIds())
        stage = _Stage(run, store, clock)
        driver = TaskDriver(run.ledger, clock, wait_timeout=wait_timeout)
        try:
            return cast("ResultT", await stage.play(fn, driver))
        finally:
            driver.let_go()


class _Stage:
    """A run, and what was started on it."""

    def __init__(self, run: TaskRun, store: SessionStore, clock: VirtualClock) -> None:
        self._run, self._store, self._clock = run, store, clock
        in_memory = store if isinstance(store, OpenSessionStore) else None
        self._snapshots = InMemorySnapshotStore(sessions=in_memory)
        self._agents: list[AgentRun] = []
        self._started: list[StartedAgent] = []

    async def play(self, fn: Callable[[TaskDrivers], Any], driver: TaskDriver) -> Any:
        """Run the function to its end, then end what it left behind."""
        context = contextvars.copy_context()
        context.run(current_run.set, self._run)
        drivers = self._drivers()

        async def call() -> Any:
            outcome = fn(drivers)
            return await outcome if inspect.isawaitable(outcome) else outcome

        task = OwnedTask(
            call,
            name="the function in the task context",
            ledger=self._run.ledger,
            context=context,
            on_end=lambda _: driver.watch.stir(),
        )
        try:
            await driver.drive(task)
        finally:
            await task.close()
            await self._run.tasks.close()
        result = await task.wait()
        for started in self._started:
            error = started.take_untold()
            if error is not None:
                raise error
        return result

    def _drivers(self) -> TaskDrivers:
        around = self._run.surroundings
        return TaskDrivers(
            inputs=InputDriver(around.inputs),
            outputs=OutputDriver(around.outputs),
            locals=LocalValues(self._run.local_values),
            sessions=SessionsDriver(self._run, self._snapshots, self._agents),
            metadata=around.metadata,
            ctx=around.context,
            worker=around.worker,
            is_warm_start=around.is_warm_start,
            clock=self._clock,
            start_agent=self._start_agent,
        )

    def _start_agent(self, agent: ChatAgent[Any], payload: Mapping[str, Any]) -> StartedAgent:
        task = self._run.tasks.start(lambda: self._run_agent(agent, payload), name=f"the run of agent {agent.id!r}")
        started = StartedAgent(task)
        self._started.append(started)
        return started

    async def _run_agent(self, agent: ChatAgent[Any], payload: Mapping[str, Any]) -> None:
        run, around = self._run, self._run.surroundings
        allow_system = agent.options.allow_client_system_messages
        parsed = parse_payload(payload, new_id=run.new_id, allow_system=allow_system)
        env = RunEnvironment(
            payload=parsed,
            lease=await self._lease(parsed.chat_id, agent),
            store=self._store,
            snapshots=self._snapshots,
            clock=self._clock,
            context=around.context,
            new_id=run.new_id,
            local_values=run.local_values,
            ledger=run.ledger,
            surroundings=replace(around, channels={}),
        )
        agent_run = AgentRun(agent, env)
        current_run.set(agent_run)
        self._agents.append(agent_run)
        try:
            await run_agent(agent_run)
        finally:
            self._agents.remove(agent_run)

    async def _lease(self, chat_id: str, agent: ChatAgent[Any]) -> Lease:
        """Take the right to be the session's run."""
        info = await self._store.get_session(chat_id)
        if info is None:
            created = await self._store.create_session(SessionSpec(session_id=chat_id, task=agent.id))
            info = created.session
        if info.current_run is not None and info.current_run.state == "live":
            raise HarnessStateError(f"start_agent: a run of session {chat_id!r} is on; wait for its end first")
        await self._store.ensure_run(chat_id, RunRequest("initial"))
        leases = await self._store.claim_runs(Worker("task-context", (info.task,), ttl=LEASE_TTL), limit=1000)
        return next(lease for lease in leases if lease.session.session_id == chat_id)
