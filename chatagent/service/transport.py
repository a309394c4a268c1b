"""The service as a transport for clients in the same process (rules TP-1 to TP-30, MP-28, MP-32, MP-33).

Requests, events and snapshots pass as the objects they are: nothing is turned into JSON on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from anyio.lowlevel import checkpoint

from chatagent.protocol import PROFILE_OF, ClientClosedError, UnsupportedOperationError, page_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from chatagent.protocol import (
        AbortRequest,
        ActionReceipt,
        AgentManifest,
        CommandRequest,
        EventLog,
        EventStream,
        FileContent,
        FileInfo,
        LogCursor,
        RegenerateRequest,
        RetryRequest,
        RunReceipt,
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
    from chatagent.service.service import AgentService

__all__ = ["InProcessTransport"]

ResultT = TypeVar("ResultT")


class InProcessTransport:
    """A client's way to a service in this process: an `AgentClientTransport`. Made by `service.transport()`."""

    def __init__(self, service: AgentService, *, client_data: object) -> None:
        self._service, self._client_data = service, client_data
        self._is_closed = False
        self._cursors: set[LogCursor[Any]] = set()

    async def get_manifest(self) -> AgentManifest:
        """Return what a client may know of the agent."""
        return await self._do("get_manifest", lambda: self._service.manifest)

    async def get_thread(self, thread_id: str) -> ThreadSnapshot | None:
        """Return a thread as it stands; `None` if there is none."""
        return await self._do("get_thread", lambda: self._service.snapshot(thread_id))

    async def send(self, request: SendRequest) -> RunReceipt:
        """Admit a user message."""
        return await self._do("send", lambda: self._service.send(request, self._data(request.client_data)))

    async def abort(self, request: AbortRequest) -> bool:
        """Stop a run; returns whether something was stopped."""
        return await self._do("abort", lambda: self._service.abort(request))

    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        """Open a watch of a thread."""
        return _Watch(self, "watch_thread", lambda: self._service.log(thread_id), after)

    async def list_threads(self, query: ThreadQuery) -> ThreadHeadPage:
        """Return a page of the list of threads."""
        return await self._do(
            "list_threads", lambda: page_of(self._service.heads(), query, seq=self._service.heads_log.seq)
        )

    def watch_thread_heads(self, *, after: int | None) -> AbstractAsyncContextManager[EventStream[ThreadHeadEvent]]:
        """Open a watch of the list of threads."""
        return _Watch(self, "watch_thread_heads", lambda: self._service.heads_log, after)

    async def rename_thread(self, thread_id: str, title: str) -> ThreadHead:
        """Give a thread a title."""
        return await self._do("rename_thread", lambda: self._service.rename(thread_id, title))

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread."""
        await self._do("delete_thread", lambda: self._service.delete(thread_id))

    async def retry(self, request: RetryRequest) -> RunReceipt:
        """Admit another try of the failed last generation."""
        return await self._do("retry", lambda: self._service.retry(request, self._data(request.client_data)))

    async def regenerate(self, request: RegenerateRequest) -> RunReceipt:
        """Admit another answer to an input."""
        return await self._do("regenerate", lambda: self._service.regenerate(request, self._data(request.client_data)))

    async def submit_action(self, request: SubmitActionRequest) -> ActionReceipt:
        """Take the answer to a pending action."""
        return await self._do("submit_action", lambda: self._service.submit_action(request, None))

    async def send_action(self, request: SendActionRequest) -> RunReceipt:
        """Admit a custom action of the agent."""
        return await self._do(
            "send_action", lambda: self._service.send_action(request, self._data(request.client_data))
        )

    async def write_tool_data(self, request: ToolDataRequest) -> None:
        """Write data beside a tool call."""
        await self._do("write_tool_data", lambda: self._service.write_tool_data(request, self._data(None)))

    async def execute_command(self, request: CommandRequest) -> object:
        """Call a function that the agent has declared for clients."""
        data = self._data(request.client_data)
        return await self._await("execute_command", lambda: self._service.execute_command(request, data))

    async def upload_file(self, request: UploadFileRequest) -> FileInfo:
        """Store a file."""
        return await self._await("upload_file", lambda: self._service.upload_file(request))

    async def read_file(self, file_id: str) -> FileContent:
        """Return a file with its bytes."""
        return await self._await("read_file", lambda: self._service.read_file(file_id))

    async def create_file_url(self, file_id: str) -> str | None:
        """Return a URL at which a file can be had."""
        return await self._await("create_file_url", lambda: self._service.file_url(file_id))

    async def aclose(self) -> None:
        """End every watch of this transport and refuse later calls; runs and the service go on."""
        if self._is_closed:
            return
        self._is_closed = True
        for cursor in tuple(self._cursors):
            cursor.close()
        self._cursors.clear()
        await checkpoint()

    # Calls --------------------------------------------------------------------------------------------------------

    def check_call(self, operation: str) -> None:
        """Refuse a call of a closed transport, or of a profile that the service has not got.

        Raises:
            ClientClosedError: the transport or the service is closed.
            ServiceStateError: the service was not opened yet.
            ServiceLoopError: the service runs in another event loop.
            UnsupportedOperationError: the service has not got the profile.
        """
        service = self._service
        if self._is_closed or (service.was_closed and not service.is_open):
            raise ClientClosedError(operation=operation)
        service.check_open(operation)
        profile = PROFILE_OF.get(operation, "core")
        if profile not in service.profiles:
            raise UnsupportedOperationError(operation=operation, profile=profile)

    def opened(self, cursor: LogCursor[Any]) -> None:
        """Take a watch that was opened; closing the transport ends it."""
        self._cursors.add(cursor)

    def left(self, cursor: LogCursor[Any]) -> None:
        """Take it that a watch was left."""
        self._cursors.discard(cursor)
        cursor.close()

    async def _do(self, operation: str, work: Callable[[], ResultT]) -> ResultT:
        """Do the work of a call in one step: behind the checkpoint it happens whole, or not at all (TP-23)."""
        await checkpoint()
        self.check_call(operation)
        return work()

    async def _await(self, operation: str, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Do the work of a call that waits for code of others."""
        await checkpoint()
        self.check_call(operation)
        return await work()

    def _data(self, given: object) -> object:
        """Return a request's client data, over that of the transport (MP-28)."""
        default = self._client_data
        if given is None:
            return default
        if isinstance(default, dict) and isinstance(given, dict):
            return {**cast("Mapping[str, object]", default), **cast("Mapping[str, object]", given)}
        return given  # pyright: ignore[reportUnknownVariableType] - JSON


class _Watch:
    """A watch to be opened: a cursor into a log. It holds nothing of the task that opens it."""

    def __init__(
        self, transport: InProcessTransport, operation: str, log: Callable[[], EventLog[Any]], after: int | None
    ) -> None:
        self._transport, self._operation, self._log, self._after = transport, operation, log, after
        self._cursor: LogCursor[Any] | None = None

    async def __aenter__(self) -> EventStream[Any]:
        await checkpoint()
        self._transport.check_call(self._operation)
        self._cursor = self._log().watch(self._after)
        self._transport.opened(self._cursor)
        return self._cursor

    async def __aexit__(self, *_: object) -> None:
        if self._cursor is not None:
            self._transport.left(self._cursor)
