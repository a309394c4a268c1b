"""The service: threads over the sessions of one agent. Transports stand on it, in this process or behind a server.

It is the only place that turns records of the runtime into events of threads. Each method is one step: it raises and
has changed nothing, or what it has done is stored and can be seen by every watch. Opening, closing and the threads as
such are here; `generations.py` and `commands_and_files.py` have the rest of what transports ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from anyio import CancelScope, EndOfStream

from chatagent.clock import Clock, SystemClock
from chatagent.errors import InvalidArgumentError
from chatagent.protocol import Repeats, ThreadHead, ThreadUpdated, check_message, check_thread_id
from chatagent.service.commands_and_files import CommandsAndFiles
from chatagent.service.copies import own_head, own_snapshot
from chatagent.service.errors import ServiceLoopError, ServiceStateError
from chatagent.service.files import FileStore, InMemoryFileStore
from chatagent.service.generations import Generations
from chatagent.service.loaded import LoadedThreads
from chatagent.service.provenance import ToolLooks
from chatagent.service.runs import RunHost
from chatagent.service.setting import RunSurroundings, ServiceSetting
from chatagent.service.state import as_json
from chatagent.service.store import InMemoryThreadStore, ThreadStore
from chatagent.service.thread import ServiceThread
from chatagent.service.transport import InProcessTransport
from chatagent.session import InMemorySessionStore, InMemorySnapshotStore, SessionStore, SnapshotStore
from chatagent.tasks import current_loop
from chatagent.ui import TextUIPart, UIMessage, problem_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from chatagent.agent import ChatAgent
    from chatagent.protocol import (
        AgentManifest,
        EventLog,
        Profile,
        ThreadEvent,
        ThreadHeadEvent,
        ThreadSnapshot,
    )

__all__ = ["AgentService"]

PROFILES: tuple[Profile, ...] = ("core", "watch", "heads", "regeneration", "actions", "commands", "files")


class AgentService(Generations, CommandsAndFiles):
    """Keeps the threads of one agent, and runs it. Use it as an async context manager.

    A store of threads belongs to one service at a time; opening another one on it is a `ThreadStoreBusyError`.

    Args:
        agent: what answers.
        threads: where threads are kept; in memory by default.
        sessions: where sessions are kept; in memory by default. One that is given is opened and closed by the service.
        snapshots: where conversations are kept; beside the sessions by default.
        files: where files are kept; in memory by default.
        clock: the time; the system's by default.
        event_log_size: how many events of a thread a watch can go back.
        loaded_threads: about how many threads are kept in memory beside those that are in use; the others are read from
            the store again when they are asked for.
        surroundings: what else the agent's runs are given.
    """

    def __init__(
        self,
        agent: ChatAgent[Any],
        *,
        threads: ThreadStore | None = None,
        sessions: SessionStore | None = None,
        snapshots: SnapshotStore | None = None,
        files: FileStore | None = None,
        clock: Clock | None = None,
        event_log_size: int = 1_000,
        loaded_threads: int = 1_000,
        surroundings: RunSurroundings | None = None,
    ) -> None:
        for name, value in (("event_log_size", event_log_size), ("loaded_threads", loaded_threads)):
            if value < 1:
                raise InvalidArgumentError(argument=name, value=value, problem="it is 1 or more")
        clock = clock or SystemClock()
        if sessions is None:
            memory = InMemorySessionStore(clock=clock)
            sessions, snapshots = memory, snapshots or InMemorySnapshotStore(sessions=memory)
        elif snapshots is None:
            is_memory = isinstance(sessions, InMemorySessionStore)
            snapshots = InMemorySnapshotStore(sessions=sessions if is_memory else None)
        self.contract = agent.contract()
        """What the agent takes and gives."""
        self._manifest = self.contract.manifest().model_copy(update={"profiles": PROFILES})
        self._setting = ServiceSetting(
            agent,
            contract=self.contract,
            sessions=sessions,
            snapshots=snapshots,
            threads=threads or InMemoryThreadStore(log_size=event_log_size),
            files=files or InMemoryFileStore(),
            clock=clock,
            surroundings=surroundings or RunSurroundings(),
            log_size=event_log_size,
        )
        self._looks = ToolLooks(self.contract)
        self._repeats = Repeats()
        self._first_metadata = _first_metadata(agent)
        self._threads = LoadedThreads(self._load, loaded_threads)
        self._host = RunHost(self._setting, self.thread)
        self._is_open = self.was_closed = False
        self._loop: object = None
        """The event loop that it runs in."""

    async def __aenter__(self) -> Self:
        setting = self._setting
        setting.threads.open()
        self._loop, self.was_closed = current_loop(), False
        try:
            await setting.sessions.__aenter__()
        except BaseException:
            setting.threads.close()
            raise
        self._is_open = True
        try:
            setting.heads.skip_to(setting.threads.head_seq())
            await setting.sessions.recover()
            self._host.start()
            for thread_id in tuple(setting.threads.unsettled()):
                self.thread(thread_id).revive()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End every watch and every run; what is under way is still stored, and a service to come goes on with it."""
        if not self._is_open:
            return
        self._is_open, self.was_closed = False, True
        with CancelScope(shield=True):  # each wait in it has a limit
            try:
                await self._host.close()
                await self._setting.tasks.close()
                self.cut_watches(EndOfStream)
                await self._setting.sessions.__aexit__(None, None, None)
            finally:
                self._setting.threads.close()

    def cut_watches(self, error: Callable[[], Exception]) -> None:
        """End every open watch at once, with this error; clients open theirs again after a lost connection.

        Args:
            error: makes the error of each watch.
        """
        for log in (self._setting.heads, *(thread.backend.log for thread in self._threads.all())):
            log.cut(error)

    def transport(self, *, client_data: object = None) -> InProcessTransport:
        """Return a transport for a client in this process; closing it does not close the service (MP-32).

        Args:
            client_data: what each of its requests carries, under what the request itself says.
        """
        return InProcessTransport(self, client_data=client_data)

    async def start_run(self, thread_id: str, text: str, *, client_data: object = None) -> str:
        """Begin a generation on the backend's own account (MP-26); returns the run's id.

        Args:
            thread_id: the thread; it comes into being if there is none.
            text: the input that the agent answers.
            client_data: what the agent is given with it.

        Raises:
            ThreadIdError: no thread can have this id.
            EmptyMessageError: the text is blank.
            ServiceStateError: the service is not open.
        """
        self.check_open("start_run")
        check_thread_id(thread_id)
        message = UIMessage(id="", role="user", parts=[TextUIPart(text=text)])
        check_message(message)
        thread = self.thread(thread_id)
        run, _ = self._admit_message(thread, message, client_data, initiator="trigger")
        thread.flush()
        return run.run_id

    # What transports ask ------------------------------------------------------------------------------------------

    @property
    def manifest(self) -> AgentManifest:
        """What a client may know of the agent."""
        return self._manifest

    @property
    def profiles(self) -> frozenset[str]:
        """What transports of this service can do."""
        return frozenset(self._manifest.profiles)

    def check_open(self, operation: str) -> None:
        """Refuse what comes while the service is not open, or from another event loop.

        Raises:
            ServiceStateError: it is not open.
            ServiceLoopError: it was opened in another event loop.
        """
        if not self._is_open:
            raise ServiceStateError(operation=operation)
        if current_loop() != self._loop:
            raise ServiceLoopError(operation=operation)

    @property
    def untold_errors(self) -> tuple[BaseException, ...]:
        """What has ended runs of the agent while no generation was on that could have failed of it."""
        return tuple(self._host.errors)

    @property
    def is_open(self) -> bool:
        """Whether the service is open."""
        return self._is_open

    def _load(self, thread_id: str) -> ServiceThread:
        return ServiceThread(thread_id, self._setting, self._looks, self._host)

    def snapshot(self, thread_id: str) -> ThreadSnapshot | None:
        """Return a thread as it stands; `None` if there is none. What could be changed in it is a copy."""
        check_thread_id(thread_id)
        model = self.thread(thread_id).backend.model
        if not model.exists:
            return None
        return own_snapshot(model.snapshot())

    def log(self, thread_id: str) -> EventLog[ThreadEvent]:
        """Return the log of a thread's events."""
        check_thread_id(thread_id)
        return self.thread(thread_id).backend.log

    @property
    def heads_log(self) -> EventLog[ThreadHeadEvent]:
        """The log of the list of threads."""
        return self._setting.heads

    def heads(self) -> list[ThreadHead]:
        """Return the heads of all threads, in any order; what could be changed in them is a copy."""
        stored = {head.thread_id: head for head in self._setting.threads.heads() if head.thread_id not in self._threads}
        loaded = [each.backend.model.head for each in self._threads.all() if each.backend.model.exists]
        return [own_head(head) for head in (*stored.values(), *loaded)]

    # Threads as such ----------------------------------------------------------------------------------------------

    def rename(self, thread_id: str, title: str) -> ThreadHead:
        """Give a thread a title."""
        thread = self.existing(thread_id)
        head = thread.backend.model.head
        fields: dict[str, Any] = {name: getattr(head, name) for name in head.model_fields_set}
        renamed = ThreadHead.model_validate({**fields, "title": title})
        thread.backend.emit(ThreadUpdated(head=renamed, **thread.backend.stamp()))
        thread.flush()
        return own_head(thread.backend.model.head)

    def delete(self, thread_id: str) -> None:
        """Delete a thread, and behind it the session (MP-22)."""
        self.existing(thread_id).delete()
        self._repeats.forget(thread_id)


def _first_metadata(agent: ChatAgent[Any]) -> dict[str, object]:
    try:
        parsed = agent.parse_run_metadata({})
    except Exception as exc:  # a schema may be any function
        problem = f"a run begins with an empty object, which it refuses: {problem_of(exc)}; give its fields defaults"
        schema = agent.options.run_metadata_schema
        raise InvalidArgumentError(argument="run_metadata_schema", value=schema, problem=problem) from exc
    return as_json(parsed)
