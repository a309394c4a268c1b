"""What a case plays on: the session, clients over its transport, and ways to expect something (rules CT-5, CT-6)."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from anyio import EndOfStream

from chatagent.client import AgentClient
from chatagent.protocol import PROFILES, SendRequest, ThreadQuery
from chatagent.ui import TextUIPart, UIMessage
from chatagent_test.conformance.backend import FarSide
from chatagent_test.conformance.errors import Mismatch
from chatagent_test.conformance.looking import first_difference, plain
from chatagent_test.conformance.recording import RecordingTransport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator
    from contextlib import AbstractAsyncContextManager

    from chatagent.client import AgentClientTransport, RunHandle, Thread
    from chatagent.protocol import AgentManifest, EventStream, Profile, Run, RunReceipt, ThreadSnapshot, ThreadState
    from chatagent.ui import UIPart
    from chatagent_test.conformance.backend import ConformanceSession, Script

__all__ = ["EventTap", "Refusal", "Stage"]

EventT = TypeVar("EventT")

LONG = 200
"""Characters from which on only the first difference of two values is told."""
LONGEST = 1_000
"""Characters of a value in a message."""


class EventTap(Generic[EventT]):
    """A watch that is read by the case itself."""

    def __init__(self, stream: EventStream[EventT], stage: Stage) -> None:
        self._stream, self._stage = stream, stage
        self.events: list[EventT] = []
        """What was read."""

    async def next(self) -> EventT:
        """Wait for the next event and return it."""
        self._stage.waits_for = "the next event of a watch"
        try:
            event = await self._stream.__anext__()
        except StopAsyncIteration:
            raise Mismatch("another event", "the end of the watch") from None
        self.events.append(event)
        return event

    async def until(self, *kinds: str) -> list[EventT]:
        """Read up to the first event of one of these types; returns what was read by this call."""
        start = len(self.events)
        self._stage.waits_for = f"an event {' or '.join(kinds)}"
        while getattr(await self.next(), "type", None) not in kinds:
            self._stage.waits_for = f"an event {' or '.join(kinds)}"
        return self.events[start:]

    def ready(self) -> list[EventT]:
        """Return what can be read without waiting."""
        start = len(self.events)
        try:
            while (event := self._stream.receive_nowait()) is not None:
                self.events.append(event)
        except EndOfStream:
            pass  # what came before the end is all there is
        return self.events[start:]

    async def ends(self) -> None:
        """Expect that the watch ends without another event."""
        self._stage.waits_for = "the end of the watch"
        try:
            event = await self._stream.__anext__()
        except StopAsyncIteration:
            return
        raise Mismatch("the end of the watch", f"another event: {event!r}")


class Refusal:
    """What a call was refused with."""

    error: Any = None


class Stage:
    """A session on which one case plays.

    Args:
        session: the session.
        manifest: the backend's manifest.
        wait_timeout: real seconds that a wait of a client may take.
    """

    def __init__(self, session: ConformanceSession, manifest: AgentManifest, wait_timeout: float) -> None:
        self.session: ConformanceSession = cast("ConformanceSession", FarSide(session))
        self.profiles: tuple[Profile, ...] = manifest.profiles or PROFILES
        self.transport = RecordingTransport(session.transport)
        """The transport under test."""
        self.waits_for = "the next step of the case"
        """What the case waits for, should nothing more come."""
        self._wait_timeout = wait_timeout
        self._clients: list[AgentClient] = []
        self._recorders = [self.transport]
        self._request_numbers = count(1)
        self.client = self.client_over(self.transport)
        """A client over it."""

    # Far and near -------------------------------------------------------------------------------------------------

    def answer(self, *scripts: Script) -> None:
        """Let the next generations say this."""
        self.session.answer(*scripts)

    def thread(self, thread_id: str = "t-1") -> Thread:
        """Return a thread of the client."""
        return self.client.thread(thread_id)

    def client_over(self, transport: AgentClientTransport, *, owned: bool = False) -> AgentClient:
        """Return another client; it is closed at the end of the case."""
        client = AgentClient(transport, owns_transport=owned, wait_timeout=self._wait_timeout)
        self._clients.append(client)
        return client

    def recorded(self, transport: AgentClientTransport) -> RecordingTransport:
        """Return a transport that counts its reads, and whose events a failure shows."""
        recorder = RecordingTransport(transport)
        self._recorders.append(recorder)
        return recorder

    async def far_client(self) -> AgentClient:
        """Return a client of another process."""
        return self.client_over(self.recorded(await self.session.second_transport()), owned=True)

    async def snapshot(self, thread_id: str = "t-1") -> ThreadSnapshot:
        """Read a thread that should be there."""
        found = await self.transport.get_thread(thread_id)
        if found is None:
            raise Mismatch(f"a thread {thread_id!r}", "get_thread gave None")
        return found

    async def send(self, text: str = "hi", *, thread_id: str = "t-1", request_id: str = "") -> RunReceipt:
        """Send a text by the transport itself."""
        return await self.transport.send(
            self.request(TextUIPart(text=text), thread_id=thread_id, request_id=request_id)
        )

    def request(
        self, *parts: UIPart, thread_id: str = "t-1", request_id: str = "", metadata: object = None
    ) -> SendRequest:
        """Return a request to send a message of these parts."""
        fields: dict[str, Any] = {} if metadata is None else {"metadata": metadata}
        message = UIMessage(id="", role="user", parts=parts, **fields)
        return SendRequest(request_id=request_id or self.new_request_id(), thread_id=thread_id, message=message)

    def new_request_id(self) -> str:
        """Return the id of a request that was not made before."""
        return f"conformance-{next(self._request_numbers)}"

    def watch(self, thread_id: str = "t-1", *, after: int | None = 0) -> AbstractAsyncContextManager[EventTap[Any]]:
        """Watch a thread by the transport itself."""
        return self._tap(self.transport.watch_thread(thread_id, after=after))

    def watch_heads(self, *, after: int | None = 0) -> AbstractAsyncContextManager[EventTap[Any]]:
        """Watch the list of threads by the transport itself."""
        return self._tap(self.transport.watch_thread_heads(after=after))

    @asynccontextmanager
    async def _tap(self, watch: AbstractAsyncContextManager[EventStream[EventT]]) -> AsyncGenerator[EventTap[EventT]]:
        stream = await watch.__aenter__()  # a watch holds nothing of its task, so no `async with` is needed
        try:
            yield EventTap(stream, self)
        finally:
            await watch.__aexit__(None, None, None)

    async def heads_seq(self) -> int:
        """Return the number of the newest event of the list of threads."""
        return (await self.transport.list_threads(ThreadQuery())).seq

    async def answered(self, text: str = "hi", thread: Thread | None = None) -> ThreadState:
        """Send a text and wait until its run is settled; it should be completed."""
        state, run = await self.settled(await (thread or self.thread()).send(text))
        self.equal("the status of the run", run.status, "completed")
        return state

    async def settled(self, run: RunHandle) -> tuple[ThreadState, Run]:
        """Wait until a run is settled; returns the state and the run in it."""
        self.waits_for = f"the end of run {run.run_id!r}"
        state = await run.wait_until_idle()
        return state, state.run(run.run_id)

    async def blocked(self, run: RunHandle) -> ThreadState:
        """Wait until a run waits for the client."""
        self.waits_for = f"run {run.run_id!r} to wait for the client"
        return await run.wait_until_blocked()

    async def until(self, thread: Thread, what: str, is_so: Callable[[ThreadState], bool]) -> ThreadState:
        """Wait until this is true of a thread's state, and return the state."""
        self.waits_for = what
        async with thread.watch() as updates:
            async for update in updates:
                if is_so(update.state):
                    return update.state
        raise Mismatch(what, "the end of the thread's updates")

    async def aclose(self) -> None:
        """Close every client."""
        for client in self._clients:
            await client.aclose()

    def lines(self) -> list[str]:
        """Return the events that clients have read so far."""
        for client in self._clients:
            for thread_id in {each for recorder in self._recorders for each in recorder.seen}:
                _drain(client, thread_id)
        return [line for recorder in self._recorders for line in recorder.lines()]

    # Expecting ----------------------------------------------------------------------------------------------------

    def equal(self, what: str, came: object, expected: object) -> None:
        """Expect a value; both are compared as JSON."""
        found, wanted = plain(came), plain(expected)
        if found != wanted:
            place = ""
            if len(repr(wanted)) > LONG:
                place, found, wanted = first_difference(found, wanted)
            raise Mismatch(f"{what}{place and f', at {place}'}: {_short(wanted)}", _short(found))

    def true(self, what: str, is_so: object, came: object) -> None:
        """Expect that something is so; `came` is what it was judged by."""
        if not is_so:
            raise Mismatch(what, _short(came))

    def the(self, what: str, found: EventT | None, among: object = None) -> EventT:
        """Expect that something is there, and return it."""
        if found is None:
            raise Mismatch(f"there is {what}", "nothing" if among is None else f"nothing; there is {_short(among)}")
        return found

    @contextmanager
    def refuses(self, what: str, error: type[Exception], **facts: object) -> Generator[Refusal]:
        """Expect that the block raises this error, with these attributes."""
        refusal = Refusal()
        try:
            yield refusal
        except error as caught:
            refusal.error = caught
            told = {name: getattr(caught, name, None) for name in facts}
            self.equal(f"what the {error.__name__} of {what} says", told, facts)
            return
        except Mismatch:
            raise
        except Exception as other:
            raise Mismatch(f"{what} raises {error.__name__}", f"{type(other).__name__}: {other}") from other
        raise Mismatch(f"{what} raises {error.__name__}", "no error")

    def has(self, profile: Profile) -> bool:
        """Whether the backend has a profile."""
        return profile in self.profiles


def _short(value: object) -> str:
    told = repr(plain(value))
    return told if len(told) <= LONGEST else f"{told[:LONGEST]}… ({len(told)} characters)"


def _drain(client: AgentClient, thread_id: str) -> None:
    """Let a client take in what has arrived, so that it is seen."""
    with suppress(Exception):  # a broken transport may break here too, and the case has failed already
        client.thread(thread_id).get_state()
