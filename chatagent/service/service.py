"""The service: threads over the sessions of one agent. Transports stand on it, in this process or behind a server.

It is the only place that turns records of the runtime into events of threads. Each method is one step: it raises and
has changed nothing, or what it has done is stored and can be seen by every watch.
"""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any, Self

from anyio import CancelScope, EndOfStream
from pydantic_core import to_jsonable_python

from chatagent.agent import (
    TOOL_DATA_ACTION,
    CommandContext,
    is_tool_data,
    tool_data_action,
)
from chatagent.clock import Clock, SystemClock
from chatagent.errors import InvalidArgumentError
from chatagent.protocol import (
    ActionReceipt,
    CommandFailedError,
    CommandInputError,
    CommandNotFoundError,
    FileContent,
    FileInfo,
    MessageExistsError,
    MessageNotFoundError,
    Repeats,
    ReservedNameError,
    RunNotFoundError,
    RunReceipt,
    ThreadHead,
    ThreadNotFoundError,
    ThreadUpdated,
    ToolCallNotFoundError,
    check_action,
    check_answer,
    check_command,
    check_free,
    check_message,
    check_thread_id,
    check_tool_data,
    ownership_of,
    plan_regenerate,
    plan_retry,
    tool_name_of,
)
from chatagent.service.answers import answers_of
from chatagent.service.copies import own_head, own_snapshot
from chatagent.service.errors import ServiceLoopError, ServiceStateError
from chatagent.service.files import FileStore, InMemoryFileStore
from chatagent.service.loaded import LoadedThreads
from chatagent.service.provenance import ToolLooks
from chatagent.service.runs import RunHost
from chatagent.service.setting import RunSurroundings, ServiceSetting
from chatagent.service.store import InMemoryThreadStore, ThreadStore
from chatagent.service.thread import ServiceThread
from chatagent.service.transport import InProcessTransport
from chatagent.session import InMemorySessionStore, InMemorySnapshotStore, SessionStore, SnapshotStore
from chatagent.task import LocalValues
from chatagent.tasks import current_loop
from chatagent.ui import DataChunk, TextUIPart, ToolPart, UIMessage, problem_of, to_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from chatagent.agent import ChatAgent
    from chatagent.protocol import (
        AbortRequest,
        AgentManifest,
        AnswerPlan,
        CommandRequest,
        EventLog,
        Initiator,
        Profile,
        RegenerateRequest,
        RetryRequest,
        Run,
        SendActionRequest,
        SendRequest,
        SubmitActionRequest,
        ThreadEvent,
        ThreadHeadEvent,
        ThreadSnapshot,
        ToolDataRequest,
        UploadFileRequest,
    )

__all__ = ["AgentService"]

PROFILES: tuple[Profile, ...] = ("core", "watch", "heads", "regeneration", "actions", "commands", "files")


class AgentService:
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
        except BaseException:
            await self.aclose()
            raise
        self._host.start()
        for thread_id in tuple(setting.threads.unsettled()):
            self.thread(thread_id).revive()
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

    def thread(self, thread_id: str) -> ServiceThread:
        """Return a thread, whether it exists for clients or not."""
        return self._threads.get(thread_id)

    def _load(self, thread_id: str) -> ServiceThread:
        return ServiceThread(thread_id, self._setting, self._looks, self._host)

    def existing(self, thread_id: str) -> ServiceThread:
        """Return a thread that exists.

        Raises:
            ThreadIdError: no thread can have this id.
            ThreadNotFoundError: it does not exist.
        """
        check_thread_id(thread_id)
        thread = self.thread(thread_id)
        if not thread.backend.model.exists:
            raise ThreadNotFoundError(thread_id=thread_id)
        return thread

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

    def send(self, request: SendRequest, client_data: object) -> RunReceipt:
        """Admit a user message (MP-3, MP-40)."""
        check_thread_id(request.thread_id)
        thread = self.thread(request.thread_id)

        def admit() -> tuple[Run, int]:
            check_message(request.message)
            known = thread.backend.model.message(request.message.id) if request.message.id else None
            if known is not None:
                raise MessageExistsError(thread_id=thread.thread_id, message_id=request.message.id)
            return self._admit_message(thread, copy.deepcopy(request.message), client_data, initiator="send")

        return self._generate(thread, request.request_id, admit)

    def retry(self, request: RetryRequest, client_data: object) -> RunReceipt:
        """Admit another try of the failed last generation (MP-10)."""
        thread = self.existing(request.thread_id)

        def admit() -> tuple[Run, int]:
            plan = plan_retry(thread.backend.model)
            return self._admit_again(thread, plan, client_data, initiator="retry")

        return self._generate(thread, request.request_id, admit)

    def regenerate(self, request: RegenerateRequest, client_data: object) -> RunReceipt:
        """Admit another answer to an input (MP-10)."""
        thread = self.existing(request.thread_id)

        def admit() -> tuple[Run, int]:
            plan = plan_regenerate(thread.backend.model, request.message_id)
            return self._admit_again(thread, plan, client_data, initiator="regenerate")

        return self._generate(thread, request.request_id, admit)

    def send_action(self, request: SendActionRequest, client_data: object) -> RunReceipt:
        """Admit a custom action of the agent (MP-12)."""
        check_thread_id(request.thread_id)
        thread = self.thread(request.thread_id)

        def admit() -> tuple[Run, int]:
            action, data = _as_json(request.action), _as_json(client_data)
            if is_tool_data(action):
                raise ReservedNameError(field="action.type", name=TOOL_DATA_ACTION)
            check_action(self.contract, action)
            check_free(thread.backend.model)
            run, seq = thread.backend.admit(initiator="action", metadata=self._run_metadata())
            thread.admitted(run, self._payload(thread, "action", data, action=action))
            return run, seq

        return self._generate(thread, request.request_id, admit)

    def submit_action(self, request: SubmitActionRequest, client_data: object) -> ActionReceipt:
        """Take the answer to a pending action; with the last one the run goes on (MP-14, MP-16)."""
        thread = self.existing(request.thread_id)
        known = thread.backend.receipts.get(request.request_id)
        if isinstance(known, ActionReceipt):
            return known
        action = thread.backend.pending_action(request.action_id)
        value = _as_json(request.value)
        check_answer(self.contract, action, value)
        run, seq = thread.backend.resolve(request.action_id, value)
        fields: dict[str, Any] = {"thread_id": thread.thread_id, "seq": seq}
        if run is not None:
            fields["run_id"] = run.run_id
            message = thread.backend.model.message(action.message_id)
            assert message is not None, "a pending action belongs to a message"
            answers = answers_of(message)
            data = _as_json(client_data) if client_data is not None else thread.client_data
            thread.resumed(run, self._payload(thread, "submit-message", data, message=answers))
        receipt = ActionReceipt.model_validate(fields)
        thread.backend.remember(request.request_id, receipt)
        thread.flush((request.request_id, receipt))
        return receipt

    def write_tool_data(self, request: ToolDataRequest) -> None:
        """Write data beside a tool call (MP-19): the thread shows it at once, the agent's history takes it in order."""
        thread = self.existing(request.thread_id)
        receipt = thread.backend.receipts.get(request.request_id)
        if receipt is not None:
            return
        message = thread.backend.model.message(request.message_id)
        if message is None:
            raise MessageNotFoundError(thread_id=request.thread_id, message_id=request.message_id)
        calls = [part for part in message.parts if isinstance(part, ToolPart)]
        call = next((part for part in calls if part.tool_call_id == request.tool_call_id), None)
        if call is None:
            raise ToolCallNotFoundError(message_id=request.message_id, tool_call_id=request.tool_call_id)
        check_tool_data(self.contract, tool_name_of(call), request.channel, request.value)
        data_id, value = request.data_id or request.tool_call_id, _as_json(request.value)
        run_id = ownership_of(message).run_id or ""
        thread.backend.chunk(run_id, message.id, DataChunk(f"data-{request.channel}", value, data_id), "user")
        receipt = ActionReceipt(thread_id=thread.thread_id, seq=thread.backend.model.seq)
        thread.backend.remember(request.request_id, receipt)
        if not self._setting.agent.options.is_custom:
            action = tool_data_action(message_id=message.id, channel=request.channel, data_id=data_id, value=value)
            thread.write_tool_data(action, key=f"data/{request.request_id}")
        thread.flush((request.request_id, receipt))

    # Besides threads ----------------------------------------------------------------------------------------------

    async def execute_command(self, request: CommandRequest, client_data: object) -> object:
        """Call a function that the agent has declared for clients, outside of any turn (MP-20); once for each request.

        Raises:
            CommandNotFoundError: the agent has no such command.
            CommandInputError: its input or the client data does not fit; the handler was not called.
            CommandFailedError: the handler raised, or returned what does not fit.
        """
        check_thread_id(request.thread_id)
        return await self._repeats.once(
            request.thread_id, request.request_id, lambda: self._call_command(request, client_data)
        )

    async def _call_command(self, request: CommandRequest, client_data: object) -> object:
        name, known = request.command, self._setting.agent.options.commands
        if name not in known:
            raise CommandNotFoundError(command=name, known=list(known))
        value = _as_json(request.input)
        declared = check_command(self.contract, name, value)
        context = await self._command_context(request, client_data)
        try:
            result = _as_json(await known[name].call(value, context))
        except Exception as error:  # the user's handler
            raise CommandFailedError(command=name, problem=str(error) or type(error).__name__) from error
        problem = None if declared is None else declared.output.problem(result, "result")
        if problem is not None:
            raise CommandFailedError(command=name, problem=f"`{problem.field}` of what it returned: {problem.text}")
        return result

    async def upload_file(self, request: UploadFileRequest) -> FileInfo:
        """Store a file (MP-21); a body that breaks off stores nothing."""
        body = request.body
        if not isinstance(body, bytes | bytearray | memoryview):
            body = b"".join([piece async for piece in body])
        info = FileInfo(
            file_id=self._setting.new_id("file"),
            filename=request.filename,
            media_type=request.media_type,
            size_bytes=len(body),
            metadata=_as_json(request.metadata),
            created_at=self._setting.now(),
        )
        await self._setting.files.save(FileContent(info=info, body=bytes(body)))
        return info.model_copy(deep=True)

    async def read_file(self, file_id: str) -> FileContent:
        """Return a file with its bytes."""
        return (await self._setting.files.load(file_id)).model_copy(deep=True)

    async def file_url(self, file_id: str) -> str | None:
        """Return a URL at which the file can be had, if its store makes one."""
        return await self._setting.files.url(file_id)

    async def _command_context(self, request: CommandRequest, client_data: object) -> CommandContext:
        agent, thread = self._setting.agent, self.thread(request.thread_id)
        try:
            data = agent.parse_client_data(_as_json(client_data))
        except Exception as exc:  # a schema may be any function
            problem = problem_of(exc)
            raise CommandInputError(command=request.command, field="client_data", problem=problem) from exc
        history = thread.conversation
        if history is None:
            snapshot = await self._setting.snapshots.load(request.thread_id)
            history = () if snapshot is None else snapshot.messages
        values = None if thread.hosted is None else thread.hosted.local_values
        if values is None:
            values = LocalValues()
            setup = self._setting.surroundings.setup_locals
            outcome = None if setup is None else setup(values)
            if inspect.isawaitable(outcome):
                await outcome
        return CommandContext(chat_id=request.thread_id, client_data=data, locals=values, history=tuple(history))

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

    def abort(self, request: AbortRequest) -> bool:
        """Stop a run (MP-9); returns whether there was something to stop."""
        check_thread_id(request.thread_id)
        thread = self.thread(request.thread_id)
        model = thread.backend.model
        if request.run_id is None:
            live = tuple(model.live.values())
            target = model.active_run or (live[0] if live else None)
        elif request.run_id not in model.runs:
            raise RunNotFoundError(thread_id=request.thread_id, run_id=request.run_id)
        else:
            target = model.live.get(request.run_id)
        if target is None:
            return False
        thread.stop(target, request.reason)
        thread.flush()
        return True

    # Inside -------------------------------------------------------------------------------------------------------

    def _admit_message(
        self, thread: ServiceThread, message: UIMessage, client_data: object, *, initiator: Initiator
    ) -> tuple[Run, int]:
        message = message.model_copy(update={"id": message.id or self._new_message_id(thread)})
        data = _as_json(client_data)
        run, seq = thread.backend.admit(
            initiator=initiator,
            metadata=self._run_metadata(),
            message=message,
            producer="trigger" if initiator == "trigger" else "user",
        )
        thread.admitted(run, self._payload(thread, "submit-message", data, message=to_wire(message)))
        return run, seq

    def _admit_again(
        self, thread: ServiceThread, plan: AnswerPlan, client_data: object, *, initiator: Initiator
    ) -> tuple[Run, int]:
        data = _as_json(client_data)
        run, seq = thread.backend.admit(
            initiator=initiator,
            metadata=self._run_metadata(),
            input_message_id=plan.input_message_id,
            removed=plan.removed,
        )
        payload = self._payload(thread, "regenerate-message", data, messageId=plan.input_message_id)
        thread.admitted(run, payload)
        return run, seq

    def _new_message_id(self, thread: ServiceThread) -> str:
        """Return an id that no message of the thread has."""
        while True:
            made = self._setting.new_id("msg")
            if thread.backend.model.message(made) is None:
                return made

    def _payload(self, thread: ServiceThread, trigger: str, client_data: Any, **fields: Any) -> dict[str, Any]:
        thread.client_data = client_data
        payload: dict[str, Any] = {"chatId": thread.thread_id, "trigger": trigger, **fields}
        if client_data is not None:
            payload["metadata"] = client_data
        return payload

    def _generate(self, thread: ServiceThread, request_id: str, admit: Callable[[], tuple[Run, int]]) -> RunReceipt:
        """Admit a generation, unless this request did so already (TP-22)."""
        known = thread.backend.receipts.get(request_id)
        if isinstance(known, RunReceipt):
            return known
        run, seq = admit()
        fields: dict[str, Any] = {"thread_id": thread.thread_id, "run_id": run.run_id, "seq": seq}
        if run.input_message_id is not None:
            fields["message_id"] = run.input_message_id
        receipt = RunReceipt.model_validate(fields)
        thread.backend.remember(request_id, receipt)
        thread.flush((request_id, receipt))
        return receipt

    def _run_metadata(self) -> Mapping[str, object]:
        """Return what a run begins with: a copy of its own (MP-24)."""
        return copy.deepcopy(self._first_metadata)


def _first_metadata(agent: ChatAgent[Any]) -> dict[str, object]:
    try:
        parsed = agent.parse_run_metadata({})
    except Exception as exc:  # a schema may be any function
        problem = f"a run begins with an empty object, which it refuses: {problem_of(exc)}; give its fields defaults"
        schema = agent.options.run_metadata_schema
        raise InvalidArgumentError(argument="run_metadata_schema", value=schema, problem=problem) from exc
    return _as_json(parsed)


def _as_json(value: object) -> Any:
    return to_jsonable_python(value, by_alias=True)
