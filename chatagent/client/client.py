"""The client: threads, files, the list of threads, over one transport (rules CL-1 to CL-8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from chatagent.client.context import ClientContext, checked
from chatagent.client.files import ClientFiles
from chatagent.client.heads import HeadsWatch
from chatagent.client.thread import Thread
from chatagent.clock import SystemClock
from chatagent.ids import random_id
from chatagent.protocol import ThreadQuery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from chatagent.client.transport import AgentClientTransport
    from chatagent.clock import Clock
    from chatagent.protocol import AgentContract, AgentManifest, ThreadHead, ThreadHeadPage

__all__ = ["AgentClient", "create_agent_client"]


class AgentClient:
    """Talks to a chat agent, wherever it runs. Use it as an async context manager, or close it with `aclose`.

    It starts no task: its watches are read by its own calls. Several clients may share one transport.

    Args:
        transport: the way to the backend.
        owns_transport: whether closing the client closes the transport.
        contract: what values are checked by before they are sent, and what results are parsed to.
        clock: what back-off and polling wait on; the system's by default.
        wait_timeout: real seconds that each wait may take; `None` for any time.
        request_ids: makes the ids of requests; random ones by default.
    """

    def __init__(
        self,
        transport: AgentClientTransport,
        *,
        owns_transport: bool = True,
        contract: AgentContract | None = None,
        clock: Clock | None = None,
        wait_timeout: float | None = None,
        request_ids: Callable[[], str] | None = None,
    ) -> None:
        self._context = ClientContext(
            transport,
            clock=clock or SystemClock(),
            contract=contract,
            wait_timeout=wait_timeout,
            new_request_id=request_ids or random_id,
        )
        self._owns_transport = owns_transport
        self._threads: dict[str, Thread] = {}
        self._manifest: AgentManifest | None = None
        self.files = ClientFiles(self._context)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def thread(self, thread_id: str) -> Thread:
        """Return the thread of this id, the same object every time; nothing is asked of the backend.

        Raises:
            ThreadIdError: no thread can have this id.
            ClientClosedError: the client is closed.
        """
        thread = self._threads.get(thread_id)
        if thread is None:
            self._context.check_open("thread")
            thread = self._threads[thread_id] = Thread(self._context, thread_id)
        return thread

    async def list_threads(self, *, limit: int = 50, cursor: str | None = None) -> ThreadHeadPage:
        """Return a page of the list of threads, what was used last first.

        Args:
            limit: how many, 1 to 200.
            cursor: the `next_cursor` of the page before.

        Raises:
            InvalidArgumentError: no page has so many, or no page gave this cursor.
        """
        fields: dict[str, Any] = {"limit": limit}
        if cursor is not None:
            fields["cursor"] = cursor
        with checked("limit", limit):
            query = ThreadQuery.model_validate(fields)
        return await self._context.call("list_threads", lambda: self._context.transport.list_threads(query))

    def watch_thread_heads(self) -> AbstractAsyncContextManager[AsyncIterator[tuple[ThreadHead, ...]]]:
        """Watch the list of threads: it gives the whole list, and again after each change."""
        return HeadsWatch(self._context)

    async def get_manifest(self) -> AgentManifest:
        """Return what may be known of the agent; it is asked for once."""
        self._context.check_open("get_manifest")
        if self._manifest is None:
            self._manifest = await self._context.call("get_manifest", self._context.transport.get_manifest)
        return self._manifest

    async def aclose(self) -> None:
        """End every watch, call and wait of this client, and the transport if it is the client's own.

        Runs go on. A second call does nothing; `get_state()` of a thread still gives the last state.
        """
        await self._context.close()
        if self._owns_transport:
            await self._context.transport.aclose()


def create_agent_client(transport: AgentClientTransport, **options: Any) -> AgentClient:
    """Return an `AgentClient`; the options are those of the class."""
    return AgentClient(transport, **options)
