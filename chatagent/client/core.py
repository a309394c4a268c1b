"""What a thread and its handles share: the feed, and the calls that wait until the state has caught up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyio import move_on_after

from chatagent.client.feed import ThreadFeed, thread_reader
from chatagent.client.transport import WaitHints
from chatagent.protocol import (
    AbortRequest,
    RunNotFoundError,
    RunWaitTimeoutError,
    SubmitActionRequest,
    ThreadDeletedError,
    is_settled,
)
from chatagent.waiting import Gate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from chatagent.client.context import ClientContext
    from chatagent.client.reader import WatchReader
    from chatagent.protocol import (
        ActionReceipt,
        RunReceipt,
        RunStatus,
        ThreadEvent,
        ThreadModel,
        ThreadSnapshot,
        ThreadState,
    )

__all__ = ["ThreadCore"]


class ThreadCore:
    """The working part of one thread.

    Args:
        context: the client's settings and calls.
        thread_id: the thread.
    """

    def __init__(self, context: ClientContext, thread_id: str) -> None:
        self.context, self.thread_id = context, thread_id
        self.feed = self.new_feed()
        self._loading: Gate | None = None
        self._loaded: ThreadSnapshot | None = None

    @property
    def model(self) -> ThreadModel:
        """The state under way."""
        return self.feed.model

    def state(self) -> ThreadState:
        """Take in what has arrived, and return the state."""
        self.feed.drain()
        return self.feed.model.state()

    async def catch_up(self) -> None:
        """Bring the state up to what the backend has said; the first call reads the thread."""
        self.context.check_open("get_thread")
        await self.feed.ready()

    async def refresh(self) -> None:
        """Read the thread anew."""
        self.context.check_open("get_thread")
        await self.feed.refresh()

    # Calls --------------------------------------------------------------------------------------------------------

    async def admit(self, operation: str, ask: Callable[[], Awaitable[RunReceipt]]) -> RunReceipt:
        """Ask for a generation, and wait until the state includes its admission."""
        await self.catch_up()
        receipt = await self.context.call(operation, ask)
        await self.until(receipt.seq)
        return receipt

    async def abort(self, run_id: str, reason: str | None) -> bool:
        """Stop a run."""
        await self.catch_up()
        fields: dict[str, str] = {"thread_id": self.thread_id, "run_id": run_id}
        if reason is not None:
            fields["reason"] = reason
        request = AbortRequest.model_validate(fields)
        return await self.context.call("abort", lambda: self.context.transport.abort(request))

    async def submit(self, action_id: str, value: object) -> ActionReceipt:
        """Answer a pending action, and wait until the state includes the answer."""
        await self.catch_up()
        request = SubmitActionRequest(
            request_id=self.context.new_request_id(), thread_id=self.thread_id, action_id=action_id, value=value
        )
        receipt = await self.context.call("submit_action", lambda: self.context.transport.submit_action(request))
        await self.until(receipt.seq)
        return receipt

    # Waiting ------------------------------------------------------------------------------------------------------

    async def until(self, seq: int) -> None:
        """Wait until the state includes the event of this number."""
        deletions = self.feed.deletions
        await self.wait(lambda: self.model.seq >= seq or self.feed.deletions > deletions, None)

    async def wait_for_run(self, run_id: str, statuses: Sequence[RunStatus]) -> ThreadState:
        """Wait until a run has one of these statuses, or is settled."""

        def done() -> bool:
            run = self.model.runs.get(run_id)
            if run is not None:
                return run.status in statuses or is_settled(run.status)
            if self.feed.deletions:
                raise ThreadDeletedError(thread_id=self.thread_id)
            raise RunNotFoundError(thread_id=self.thread_id, run_id=run_id)

        await self.wait(done, run_id)
        return self.state()

    async def wait(self, done: Callable[[], bool], run_id: str | None) -> None:
        """Wait until `done()` is true of the state, within the client's limit.

        Raises:
            RunWaitTimeoutError: it was not within so many real seconds.
        """
        self.context.check_open("wait")
        self.feed.drain()
        if not self.feed.needs_mending and done():
            return
        limit = self.context.wait_timeout
        with move_on_after(limit):
            await self.feed.wait_for(done)
            return
        assert limit is not None
        run = None if run_id is None else self.model.runs.get(run_id)
        transport = self.context.transport
        raise RunWaitTimeoutError(
            thread_id=self.thread_id,
            run_id=run_id,
            status=self.model.status if run is None else run.status,
            seconds=limit,
            pending=[action.action_id for action in self.model.actions],
            hint=transport.wait_hint(self.thread_id, run_id) if isinstance(transport, WaitHints) else None,
        )

    # Feeds --------------------------------------------------------------------------------------------------------

    def new_feed(self) -> ThreadFeed:
        """Return another feed of this thread, with a watch of its own."""
        return ThreadFeed(self.thread_id, self.context, load=self._load)

    def new_reader(self) -> WatchReader[ThreadEvent]:
        """Return a reader of the thread's events, as they come."""
        return thread_reader(self.thread_id, self.context)

    async def _load(self, cause: int) -> ThreadSnapshot | None:
        """Read the thread; what was read for one gap serves every feed that has met it.

        Args:
            cause: the number of the event that needs it; 0 for a snapshot of now.
        """
        while self._loading is not None:
            await self._loading.wait()
        loaded = self._loaded
        if cause and loaded is not None and loaded.seq >= cause:
            return loaded
        gate = self._loading = Gate(f"the snapshot of thread {self.thread_id}")
        transport: Any = self.context.transport
        try:
            self._loaded = await self.context.call("get_thread", lambda: transport.get_thread(self.thread_id))
        finally:
            self._loading = None
            gate.open()
        return self._loaded
