"""The hands that a test has on a mock task context: what goes in, what came out, and everything in between."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatagent.current import current_run
from chatagent.errors import HarnessStateError
from chatagent.session import NewRecord, control_type, is_command
from chatagent_test.task_context.sessions import OpenSessionStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent.agent import AgentRun, ChatAgent
    from chatagent.session import Channel, Direction, Record, Snapshot, SnapshotStore
    from chatagent.task import InputStreams, LocalValues, OutputStreams, RunContext, RunMetadata, TaskRun, WorkerInfo
    from chatagent.tasks import OwnedTask
    from chatagent_test.clock import VirtualClock

__all__ = ["InputDriver", "OutputDriver", "SessionInDriver", "SessionsDriver", "StartedAgent", "TaskDrivers"]


class InputDriver:
    """Sends data to the task's input streams."""

    def __init__(self, streams: InputStreams) -> None:
        self._streams = streams

    async def send(self, stream_id: str, data: Any) -> None:
        """Give data to all waits that are on and to all handlers, which are awaited; kept for the next wait if none.

        What `peek` shows is these data from now on.
        """
        await self._streams.deliver(stream_id, data)

    def close(self, stream_id: str) -> None:
        """End the waits that are on with a timeout error."""
        self._streams.close(stream_id)


class OutputDriver:
    """Looks at what the task has written to its output streams."""

    def __init__(self, streams: OutputStreams) -> None:
        self._streams = streams

    def chunks(self, stream_id: str) -> list[Any]:
        """Return a copy of what was written to a stream, in order."""
        return self._streams.chunks(stream_id)

    def all(self) -> dict[str, list[Any]]:
        """Return a copy of what was written to each stream."""
        return self._streams.all()

    def clear(self, stream_id: str | None = None) -> None:
        """Forget what was written to a stream, or to all."""
        self._streams.clear(stream_id)

    def on_write(self, listener: Callable[[str, Any], object]) -> Callable[[], None]:
        """Call a listener with the stream's id and each part that is written; returns what ends that.

        What the listener raises is logged.
        """
        return self._streams.on_write(listener)


class SessionInDriver:
    """Sends records to the sessions that the task reads, as a client does.

    Args:
        run: the run that reads them.
        agents: the runs of agents that the test has started.
    """

    def __init__(self, run: TaskRun, agents: list[AgentRun]) -> None:
        self._run, self._store, self._agents = run, run.store, agents

    async def send(self, session_id: str, data: Any, io: Direction = "in") -> None:
        """Put a record on a channel, and return when it was handed out and the async handlers that saw it have ended.

        It goes to one wait, else to a handler that consumes it, else it is kept for whoever comes.

        Args:
            session_id: the session's external id; it need not be there yet.
            data: the record's JSON value, such as `{"kind": "stop"}`.
            io: the channel.

        Raises:
            HarnessStateError: the context has a session store of the test's own; append to that.
        """
        if not isinstance(self._store, OpenSessionStore):
            raise HarnessStateError(
                "sessions.in_.send: this context has a session_stream_manager of your own, which decides what it hands "
                f"out; append to it: `await manager.append({session_id!r}, {io!r}, [NewRecord(data)])`"
            )
        channels = self._channels(session_id, io)
        # Its reader belongs to the run, wherever the driver is called.
        inside = contextvars.copy_context()
        inside.run(current_run.set, self._run)
        inside.run(channels[0].listen)
        seq = self._store.append_nowait(session_id, io, [NewRecord(data)]).last
        for channel in channels:
            await channel.delivered(seq)

    def close(self, session_id: str, io: Direction = "in") -> None:
        """End the waits on a channel that are on, with a timeout error."""
        for channel in self._channels(session_id, io):
            channel.end_waits()

    def _channels(self, session_id: str, io: Direction) -> list[Channel]:
        """Return the ends of a channel in this context: the function's first, then those of agents."""
        channels = [self._run.channel(session_id, io)]
        for run in self._agents:
            opened = run.surroundings.channels.get((session_id, io))
            of_chat = run.in_ if io == "in" and run.chat_id == session_id else None
            channels += [channel for channel in (of_chat, opened) if channel is not None]
        return channels


class SessionsDriver:
    """Both ends of the sessions that the task uses.

    Args:
        run: the run that uses them.
        snapshots: where the snapshots of agents lie.
        agents: the runs of agents that the test has started.
    """

    def __init__(self, run: TaskRun, snapshots: SnapshotStore, agents: list[AgentRun]) -> None:
        self.in_ = SessionInDriver(run, agents)
        """Sends to a session, as a client does."""
        self._snapshots = snapshots
        self._written: dict[str, list[Record]] = {}
        if isinstance(run.store, OpenSessionStore):
            run.store.observe(self._see)

    def out(self, session_id: str) -> list[Any]:
        """Return the chunks that were written to a session's `.out`, in order, trimmed ones included."""
        written = self._written.get(session_id, ())
        return [record.data for record in written if control_type(record) is None]

    def controls(self, session_id: str) -> list[str]:
        """Return the control records that were written to a session's `.out`, by type, in order."""
        types = [control_type(record) for record in self._written.get(session_id, ())]
        return [each for each in types if each is not None]

    async def snapshot(self, session_id: str) -> Snapshot | None:
        """Return what an agent has saved of a session; `None` if nothing was saved."""
        return await self._snapshots.load(session_id)

    def _see(self, session_id: str, direction: Direction, records: tuple[Record, ...]) -> None:
        if direction == "out":
            self._written.setdefault(session_id, []).extend(record for record in records if not is_command(record))


class StartedAgent:
    """An agent's run inside the context; what fails it is raised by `wait`, or else by the context itself."""

    def __init__(self, task: OwnedTask) -> None:
        self._task = task
        self._is_told = False

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._task.done

    async def wait(self) -> None:
        """Return when the run has ended.

        Raises:
            BaseException: what ended it, if it failed.
        """
        self._is_told = True
        await self._task.wait()

    def take_untold(self) -> BaseException | None:
        """Return what ended the run, if nobody has waited for it."""
        return None if self._is_told else self._task.error


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDrivers:
    """What `run_in_mock_task_context` hands to the function."""

    inputs: InputDriver
    """Data to the task, by the stream's name."""
    outputs: OutputDriver
    """What the task has written, by the stream's name."""
    locals: LocalValues
    """The run's locals; what is set here the code finds by `locals.get`."""
    sessions: SessionsDriver
    """Records to and from the sessions that the task uses."""
    metadata: RunMetadata
    """The run's metadata."""
    ctx: RunContext
    """The run context, as the code sees it."""
    worker: WorkerInfo
    is_warm_start: bool
    clock: VirtualClock
    """The task's clock. It moves by itself when nothing of the task can go on."""
    start_agent: Callable[[ChatAgent[Any], Mapping[str, Any]], StartedAgent]
    """Start an agent's real run in this context, with a boot payload in wire form such as `{"chatId": "c", "trigger":
    "preload"}`: it shares clock, locals, metadata, streams, ctx and sessions with everything else here."""
