"""The scripted backend as a transport (rules MK-1 to MK-9, RQ-4)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Self, TypeVar

from anyio.lowlevel import checkpoint

from chatagent.protocol import (
    PROFILE_OF,
    ActionReceipt,
    AgentContract,
    AgentManifest,
    ClientClosedError,
    Repeats,
    RunReceipt,
    ThreadUpdated,
    UnsupportedOperationError,
    check_thread_id,
    page_of,
)
from chatagent_test.clock import VirtualClock
from chatagent_test.transport.admission import Admission
from chatagent_test.transport.commands import MockCommands
from chatagent_test.transport.engine import Engine
from chatagent_test.transport.errors import MockConfigError, MockError, UnusedScriptsError
from chatagent_test.transport.events import MockEvents
from chatagent_test.transport.faults import MockFaults
from chatagent_test.transport.files import MockFiles
from chatagent_test.transport.inspection import CallRecorder, MockInspection
from chatagent_test.transport.responses import MockResponses
from chatagent_test.transport.seeding import Seeder
from chatagent_test.transport.store import MockStore
from chatagent_test.transport.values import json_value
from chatagent_test.transport.watching import MockWatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from chatagent.clock import Clock
    from chatagent.protocol import (
        AbortRequest,
        CommandRequest,
        EventLog,
        EventStream,
        FileContent,
        FileInfo,
        Profile,
        RegenerateRequest,
        RetryRequest,
        SendActionRequest,
        SendRequest,
        SubmitActionRequest,
        ThreadEvent,
        ThreadHead,
        ThreadHeadEvent,
        ThreadHeadPage,
        ThreadQuery,
        ThreadSnapshot,
        ToolDataRequest,
        UploadFileRequest,
    )
    from chatagent_test.transport.seeds import SeedItem
    from chatagent_test.transport.tools import ToolBook

__all__ = ["MockAgentTransport"]

ResultT = TypeVar("ResultT")
EventT = TypeVar("EventT")


class MockAgentTransport:
    """A backend that says what a test has scripted. Made by `create_mock_agent_transport`.

    It implements `AgentClientTransport`; besides that it has the test's controls.
    """

    def __init__(
        self,
        *,
        contract: AgentContract | None,
        manifest: AgentManifest,
        book: ToolBook,
        run_metadata: Mapping[str, object],
        profiles: frozenset[Profile],
        file_urls: bool,
        clock: Clock,
        event_log_size: int,
        strict: bool,
    ) -> None:
        self.contract = contract
        """What scripts, seeds and values are checked by; `None` lets everything go."""
        self.clock = clock
        self.strict = strict
        self._manifest, self._profiles, self._run_metadata_value = manifest, profiles, run_metadata
        self._store = MockStore(clock, event_log_size)
        self._engine = Engine(self._store, book, clock)
        self._seeder = Seeder(self._store, book)
        self._admission = Admission(self._store, self._engine, contract, self._run_metadata)
        self._calls = CallRecorder()
        self._is_closed = False
        self.seed = self._seed
        """Stores threads and files."""
        self.reset = self._reset
        """Begins anew."""
        self.responses = MockResponses(self._engine)
        """What the runs to come are answered with."""
        self.events = MockEvents(self._store, self._engine, self._run_metadata)
        """What happens besides the answers."""
        self.commands = MockCommands(contract)
        """The functions that clients may call."""
        self._repeats = Repeats()
        self.files = MockFiles(self._store, has_urls=file_urls)
        """The files that the backend holds."""
        self.inspect = MockInspection(self._store, self._engine, self._calls)
        """What the backend holds, and what it was asked."""
        self.faults = MockFaults(self._store)
        """Faults to come."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.aclose()
        if kind is None:
            self.check_unused()

    # Controls -----------------------------------------------------------------------------------------------------

    def _seed(self, *items: SeedItem) -> None:
        """Store threads and files as they are given; those that are there already are replaced, others stay.

        No event is emitted; `events.push_thread(id, StateChanged())` tells clients to look.

        Raises:
            SeedError: no backend could hold one of them; nothing was stored.
        """
        for thread_id in self._seeder.load(items):
            thread = self._store.thread(thread_id)
            active = thread.model.active_run
            if active is not None and active.status == "running":
                self._engine.seeded(thread, active.run_id)

    def _reset(self, *items: SeedItem) -> None:
        """Begin anew: store, queue, handlers, log, ids, numbers and clock; every watch ends. Then load the seeds."""
        self._engine.reset()
        self._store.reset()
        self.commands.clear()
        self._repeats.clear()
        self._calls.clear()
        self.faults.clear()
        if isinstance(self.clock, VirtualClock):
            self.clock.restart()
        self.seed(*items)

    async def advance(self, seconds: float) -> None:
        """Move the mock's virtual clock; pauses that are over go on inside this call.

        Raises:
            MockConfigError: the clock is a real one.
        """
        clock: Any = self.clock
        if not hasattr(clock, "advance"):
            raise MockConfigError("advance(): the mock's clock is a real one; make the mock without clock=...")
        clock.advance(seconds)
        await checkpoint()

    def check_unused(self) -> None:
        """Refuse what is left over at the end of a test, if the mock is strict.

        Raises:
            UnusedScriptsError: scripts that no run claimed, faults that no call met, or calls of commands that the
                contract has and no handler answered.
        """
        unused = [str(entry) for entry in self._engine.entries] + self.faults.unused() + self.commands.unexpected
        if self.strict and unused:
            raise UnusedScriptsError(unused)

    def wait_hint(self, thread_id: str, run_id: str | None) -> str | None:
        """Say what a run waits for, for whoever waited too long (MK-9)."""
        if run_id is None:
            return None
        generation = self._engine.generations.get(run_id)
        if generation is None:
            return None
        if generation.response is not None:
            parts = ", ".join(generation.response.open_parts.values()) or "none"
            return f"a streamed response plays in run {run_id!r}; open parts: {parts} - call response.complete()"
        if run_id in self._engine.unclaimed:
            count = len(self._engine.entries)
            return f"no script was claimed by run {run_id!r}; {count} are queued - call mock.responses.queue(...)"
        return f"the script of run {run_id!r} pauses - call mock.advance(seconds)"

    # The transport: state -----------------------------------------------------------------------------------------

    async def get_manifest(self) -> AgentManifest:
        """Return the manifest."""
        return await self._do("get_manifest", {}, lambda: self._manifest)

    async def get_thread(self, thread_id: str) -> ThreadSnapshot | None:
        """Return a thread as it stands."""

        def work() -> ThreadSnapshot | None:
            check_thread_id(thread_id)
            thread = self._store.threads.get(thread_id)
            if thread is None or not thread.model.exists:
                return None
            return copy.deepcopy(thread.model.snapshot())

        return await self._do("get_thread", {"thread_id": thread_id}, work)

    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        """Open a watch of a thread."""
        arguments = {"thread_id": thread_id, "after": after}
        return self._watch("watch_thread", arguments, lambda: self._store.thread(thread_id).log, after)

    async def list_threads(self, query: ThreadQuery) -> ThreadHeadPage:
        """Return a page of the list of threads."""

        def work() -> ThreadHeadPage:
            heads = [each.model.head for each in self._store.threads.values() if each.model.exists]
            return copy.deepcopy(page_of(heads, query, seq=self._store.heads.seq))

        return await self._do("list_threads", query, work)

    def watch_thread_heads(self, *, after: int | None) -> AbstractAsyncContextManager[EventStream[ThreadHeadEvent]]:
        """Open a watch of the list of threads."""
        return self._watch("watch_thread_heads", {"after": after}, lambda: self._store.heads, after)

    async def rename_thread(self, thread_id: str, title: str) -> ThreadHead:
        """Give a thread a title."""

        def work() -> ThreadHead:
            thread = self._store.existing(thread_id)
            head = thread.model.head
            fields: dict[str, Any] = {name: getattr(head, name) for name in head.model_fields_set}
            renamed = type(head).model_validate({**fields, "title": title})
            thread.emit(ThreadUpdated(head=renamed, **thread.stamp()))
            return copy.deepcopy(thread.model.head)

        return await self._do("rename_thread", {"thread_id": thread_id, "title": title}, work)

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread."""

        def work() -> None:
            thread = self._store.existing(thread_id)
            for generation in tuple(self._engine.generations.values()):
                if generation.thread is thread and generation.response is not None:
                    generation.response.aborted("the thread was deleted")
            self._engine.detach(thread_id, "the thread was deleted")
            thread.delete()
            self._repeats.forget(thread_id)

        await self._do("delete_thread", {"thread_id": thread_id}, work)

    def _watch(
        self, operation: str, arguments: Mapping[str, object], log: Callable[[], EventLog[Any]], after: int | None
    ) -> MockWatch:
        return MockWatch(self._calls, self._check_call, operation, arguments, log, after)

    # The transport: generations -----------------------------------------------------------------------------------

    async def send(self, request: SendRequest) -> RunReceipt:
        """Admit a user message, and play the script that its run claims."""
        return await self._generate("send", request, lambda: self._admission.send(request))

    async def retry(self, request: RetryRequest) -> RunReceipt:
        """Admit another try of the failed last generation."""
        return await self._generate("retry", request, lambda: self._admission.retry(request))

    async def regenerate(self, request: RegenerateRequest) -> RunReceipt:
        """Admit another answer to an input."""
        return await self._generate("regenerate", request, lambda: self._admission.regenerate(request))

    async def send_action(self, request: SendActionRequest) -> RunReceipt:
        """Admit a custom action."""
        return await self._generate("send_action", request, lambda: self._admission.send_action(request))

    async def submit_action(self, request: SubmitActionRequest) -> ActionReceipt:
        """Take the answer to a pending action; with the last one the run resumes and claims a script."""
        return await self._do("submit_action", request, lambda: self._admission.submit_action(request))

    async def abort(self, request: AbortRequest) -> bool:
        """Stop a run."""
        return await self._do("abort", request, lambda: self._admission.abort(request))

    async def _generate(self, operation: str, request: Any, admit: Callable[[], RunReceipt]) -> RunReceipt:
        delay = self.faults.take_delay()
        if delay:
            await self.clock.sleep(delay)
        return await self._do(operation, request, admit)

    def _run_metadata(self) -> Mapping[str, object]:
        """Return the metadata of a new run: a copy of its own."""
        return json_value(self._run_metadata_value)

    # The transport: besides generations ---------------------------------------------------------------------------

    async def write_tool_data(self, request: ToolDataRequest) -> None:
        """Write data beside a tool call."""
        await self._do("write_tool_data", request, lambda: self._admission.write_tool_data(request))

    async def execute_command(self, request: CommandRequest) -> object:
        """Call the handler of a command."""
        check_thread_id(request.thread_id)

        def work() -> Awaitable[object]:
            return self._repeats.once(request.thread_id, request.request_id, lambda: self.commands.call(request))

        return await self._await("execute_command", request, work)

    async def upload_file(self, request: UploadFileRequest) -> FileInfo:
        """Store a file."""
        return await self._await("upload_file", request, lambda: self.files.upload(request))

    async def read_file(self, file_id: str) -> FileContent:
        """Return a file."""
        return await self._do("read_file", {"file_id": file_id}, lambda: self.files.read(file_id))

    async def create_file_url(self, file_id: str) -> str | None:
        """Return a URL of a file."""
        return await self._do("create_file_url", {"file_id": file_id}, lambda: self.files.url(file_id))

    async def aclose(self) -> None:
        """End every watch and refuse later calls; runs go on."""
        if self._is_closed:
            return
        self._is_closed = True
        for thread in self._store.threads.values():
            thread.log.cut()
        self._store.heads.cut()
        await checkpoint()

    # Calls --------------------------------------------------------------------------------------------------------

    async def _do(self, operation: str, request: Any, work: Callable[[], ResultT]) -> ResultT:
        """Do the work of a call in one step: after the checkpoint it happens whole, or not at all."""
        await checkpoint()
        logged = self._calls.add(operation, request)
        try:
            self._check_call(operation)
            return work()
        except MockError:
            raise
        except Exception as error:
            logged.error = error
            raise

    async def _await(self, operation: str, request: Any, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Do the work of a call that waits for code of the test."""
        await checkpoint()
        logged = self._calls.add(operation, request)
        try:
            self._check_call(operation)
            return await work()
        except MockError:
            raise
        except Exception as error:
            logged.error = error
            raise

    def _check_call(self, operation: str) -> None:
        """Refuse a call of a closed transport, or of a profile that it has not got; meet a fault."""
        if self._is_closed:
            raise ClientClosedError(operation=operation)
        profile = PROFILE_OF.get(operation, "core")
        if profile not in self._profiles:
            raise UnsupportedOperationError(operation=operation, profile=profile)
        self.faults.meet(operation)
