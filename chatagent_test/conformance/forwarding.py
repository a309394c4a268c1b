"""A transport that passes every call on: derive from it to change one thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.client import WaitHints

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from chatagent.client import AgentClientTransport
    from chatagent.protocol import (
        AbortRequest,
        ActionReceipt,
        AgentManifest,
        CommandRequest,
        EventStream,
        FileContent,
        FileInfo,
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

__all__ = ["ForwardingTransport"]


class ForwardingTransport:
    """Passes every call on to another transport; an `AgentClientTransport`.

    Args:
        inner: where calls go.
    """

    def __init__(self, inner: AgentClientTransport) -> None:
        self.inner = inner

    async def get_manifest(self) -> AgentManifest:
        return await self.inner.get_manifest()

    async def get_thread(self, thread_id: str) -> ThreadSnapshot | None:
        return await self.inner.get_thread(thread_id)

    async def send(self, request: SendRequest) -> RunReceipt:
        return await self.inner.send(request)

    async def abort(self, request: AbortRequest) -> bool:
        return await self.inner.abort(request)

    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        return self.inner.watch_thread(thread_id, after=after)

    async def list_threads(self, query: ThreadQuery) -> ThreadHeadPage:
        return await self.inner.list_threads(query)

    def watch_thread_heads(self, *, after: int | None) -> AbstractAsyncContextManager[EventStream[ThreadHeadEvent]]:
        return self.inner.watch_thread_heads(after=after)

    async def rename_thread(self, thread_id: str, title: str) -> ThreadHead:
        return await self.inner.rename_thread(thread_id, title)

    async def delete_thread(self, thread_id: str) -> None:
        await self.inner.delete_thread(thread_id)

    async def retry(self, request: RetryRequest) -> RunReceipt:
        return await self.inner.retry(request)

    async def regenerate(self, request: RegenerateRequest) -> RunReceipt:
        return await self.inner.regenerate(request)

    async def submit_action(self, request: SubmitActionRequest) -> ActionReceipt:
        return await self.inner.submit_action(request)

    async def send_action(self, request: SendActionRequest) -> RunReceipt:
        return await self.inner.send_action(request)

    async def write_tool_data(self, request: ToolDataRequest) -> None:
        await self.inner.write_tool_data(request)

    async def execute_command(self, request: CommandRequest) -> object:
        return await self.inner.execute_command(request)

    async def upload_file(self, request: UploadFileRequest) -> FileInfo:
        return await self.inner.upload_file(request)

    async def read_file(self, file_id: str) -> FileContent:
        return await self.inner.read_file(file_id)

    async def create_file_url(self, file_id: str) -> str | None:
        return await self.inner.create_file_url(file_id)

    async def aclose(self) -> None:
        await self.inner.aclose()

    def wait_hint(self, thread_id: str, run_id: str | None) -> str | None:
        """Say what the other transport says a run waits for, if it can."""
        return self.inner.wait_hint(thread_id, run_id) if isinstance(self.inner, WaitHints) else None
