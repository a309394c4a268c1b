"""What a client needs of a transport: `AgentClientTransport` (rules TP-1 to TP-30).

Implement the methods, inherit from nothing. A transport that lacks a profile raises `UnsupportedOperationError` from
the methods that belong to it. Whatever else a transport has (a mock's controls) the client never looks at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

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

__all__ = ["AgentClientTransport", "WaitHints"]


@runtime_checkable
class AgentClientTransport(Protocol):
    """A way to a backend.

    A call that raises has changed nothing, except that after `TransportUnavailableError` the outcome is unknown.
    Generations return as soon as they are admitted; under a `request_id` that was used before they return the first
    receipt and do nothing. Each method reaches a checkpoint before it changes anything.
    """

    async def get_manifest(self) -> AgentManifest:
        """Return what a client may know of the agent."""
        ...

    async def get_thread(self, thread_id: str) -> ThreadSnapshot | None:
        """Return a thread as it stands; `None` if there is none."""
        ...

    async def send(self, request: SendRequest) -> RunReceipt:
        """Admit a user message."""
        ...

    async def abort(self, request: AbortRequest) -> bool:
        """Stop a run; returns whether something was stopped. The event may follow later."""
        ...

    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        """Open a watch from behind the number `after`; `None`: from now on. It may be left in another task."""
        ...

    async def list_threads(self, query: ThreadQuery) -> ThreadHeadPage:
        """Return a page of the list of threads."""
        ...

    def watch_thread_heads(self, *, after: int | None) -> AbstractAsyncContextManager[EventStream[ThreadHeadEvent]]:
        """Open a watch of the list of threads."""
        ...

    async def rename_thread(self, thread_id: str, title: str) -> ThreadHead:
        """Give a thread a title."""
        ...

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread; what is at work in it is aborted."""
        ...

    async def retry(self, request: RetryRequest) -> RunReceipt:
        """Admit another try of the failed last generation."""
        ...

    async def regenerate(self, request: RegenerateRequest) -> RunReceipt:
        """Admit another answer to an input."""
        ...

    async def submit_action(self, request: SubmitActionRequest) -> ActionReceipt:
        """Take the answer to a pending action."""
        ...

    async def send_action(self, request: SendActionRequest) -> RunReceipt:
        """Admit a custom action of the agent."""
        ...

    async def write_tool_data(self, request: ToolDataRequest) -> None:
        """Write data beside a tool call."""
        ...

    async def execute_command(self, request: CommandRequest) -> object:
        """Call a function that the agent has declared for clients; returns JSON."""
        ...

    async def upload_file(self, request: UploadFileRequest) -> FileInfo:
        """Store a file."""
        ...

    async def read_file(self, file_id: str) -> FileContent:
        """Return a file with its bytes."""
        ...

    async def create_file_url(self, file_id: str) -> str | None:
        """Return a URL at which the file can be had; `None` if the backend makes none."""
        ...

    async def aclose(self) -> None:
        """End every watch and refuse later calls; runs go on. A second call does nothing."""
        ...


@runtime_checkable
class WaitHints(Protocol):
    """A transport that can say why a wait does not end; a client asks it when a wait has timed out (RH-8)."""

    def wait_hint(self, thread_id: str, run_id: str | None) -> str | None:
        """Say what the run waits for; `None` if the transport knows nothing."""
        ...
