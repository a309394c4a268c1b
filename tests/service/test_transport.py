"""The in-process transport: watches, heads, closing, and tasks it is used from (MP-5, MP-22, MP-23, MP-31 to MP-33)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from chatagent import chat
from chatagent.client import AgentClient, AgentClientTransport
from chatagent.protocol import (
    AgentContract,
    AgentManifest,
    ClientClosedError,
    GenerationMessageChunk,
    StateChanged,
    ThreadDeletedError,
    ThreadModel,
    ThreadNotFoundError,
    ThreadQuery,
    event_to_wire,
    parse_thread_event,
)
from chatagent.service import (
    AgentService,
    InMemoryThreadStore,
    InProcessTransport,
    ServiceLoopError,
    ServiceStateError,
    ThreadWrite,
)
from chatagent.tasks import OwnedTask
from chatagent.ui import TextDelta
from chatagent_test import MockLanguageModel, create_in_process_client, script
from service.agents import TOOLS, answering, events_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.protocol import ThreadEvent
    from chatagent_test import InProcessClient

pytestmark = pytest.mark.anyio


async def ready(mock: InProcessClient, after: int | None, thread_id: str = "t-1") -> list[ThreadEvent]:
    """Return what a watch can read at once."""
    async with mock.transport.watch_thread(thread_id, after=after) as stream:
        found: list[ThreadEvent] = []
        while (event := stream.receive_nowait()) is not None:
            found.append(event)
        return found


async def answered(mock: InProcessClient, *texts: str) -> None:
    for text in texts:
        await (await mock.client.thread("t-1").send(text)).wait_until_idle()


async def test_the_transport_is_one_and_knows_the_agent_s_contract() -> None:
    """MP-23: equal definitions give byte-equal manifests."""
    async with create_in_process_client(answering(tools=TOOLS)) as mock:
        manifest = await mock.client.get_manifest()
        again = AgentService(answering(tools=TOOLS)(MockLanguageModel())).manifest

        assert isinstance(mock.transport, InProcessTransport)
        assert isinstance(mock.transport, AgentClientTransport)
        assert manifest.model_dump_json(by_alias=True) == again.model_dump_json(by_alias=True)
        assert AgentManifest.model_validate_json(manifest.model_dump_json(by_alias=True)) == manifest
        assert [(each.name, each.executor, each.needs_approval) for each in manifest.tools] == [
            ("lookup", "server", False),
            ("pick_file", "client", False),
            ("refund", "server", True),
        ]
        assert AgentContract.from_manifest(manifest).tools is not None


async def test_a_watch_begins_where_it_is_asked_to() -> None:
    """MP-5; EV-30."""
    async with create_in_process_client(answering(), model=script.text("Hello.")) as mock:
        await answered(mock, "hi")

        assert [event.seq for event in await ready(mock, 0)] == list(range(1, 11))
        assert [event.seq for event in await ready(mock, 3)] == list(range(4, 11))
        assert await ready(mock, None) == []


async def test_reducing_the_log_gives_the_snapshot_with_json_between_or_without() -> None:
    """MP-5, MP-33: in process the events are the objects that the service keeps, or copies if they could be changed."""
    model = MockLanguageModel(
        [script.reasoning("Hm.").tool_call("lookup", {"query": "x"}), script.text("Found.", chunks=["Fo", "und."])]
    )
    async with create_in_process_client(answering(tools=TOOLS), model=model) as mock:
        await answered(mock, "look")
        plain, parsed = ThreadModel("t-1"), ThreadModel("t-1")

        events = await ready(mock, 0)
        for event in events:
            plain.apply(event)
            parsed.apply(parse_thread_event(event_to_wire(event)))

        snapshot = await mock.transport.get_thread("t-1")
        assert snapshot is not None
        assert plain.snapshot() == snapshot
        assert parsed.snapshot().model_dump() == snapshot.model_dump()
        kept = mock.service.log("t-1").events()
        assert events == list(kept)
        texts = [
            (told, logged)
            for told, logged in zip(events, kept, strict=True)
            if isinstance(told, GenerationMessageChunk) and isinstance(told.chunk, TextDelta)
        ]
        assert len(texts) == 2
        assert all(told is logged for told, logged in texts)


async def test_a_log_that_is_too_short_says_that_the_state_has_changed() -> None:
    """MP-5; EV-31."""
    async with create_in_process_client(answering(), model=script.text("Hello."), event_log_size=4) as mock:
        await answered(mock, "hi", "again")

        (gap, *rest) = await ready(mock, 1)

        assert isinstance(gap, StateChanged)
        assert (gap.seq, rest) == (20, [])
        assert texts_of(await mock.client.thread("t-1").refresh()) == ["hi", "Hello.", "again", "Hello."]


async def test_a_slow_reader_slows_nobody_and_ends_in_the_same_state() -> None:
    """MP-5; EV-34."""
    model = MockLanguageModel(script.text("x" * 3000, chunks=["x"] * 3000))
    async with create_in_process_client(answering(), model=model, event_log_size=1000) as mock:
        slow = AgentClient(mock.service.transport())
        await slow.thread("t-1").refresh()
        await answered(mock, "hi")

        state = await slow.thread("t-1").refresh()
        await slow.aclose()

        assert state == mock.client.thread("t-1").get_state()
        assert len(state.messages[-1].text) == 3000


async def test_the_store_has_an_event_before_any_watch() -> None:
    """MP-31: a store that refuses keeps the event from everybody."""
    order: list[str] = []

    class Telling(InMemoryThreadStore):
        def write(self, thread_id: str, write: ThreadWrite) -> None:
            order.extend(f"stored {event.seq}" for event in write.events)
            super().write(thread_id, write)

    model = MockLanguageModel(script.text("Hello."))
    async with AgentService(answering()(model), threads=Telling()) as service:
        log = service.log("t-1")
        append = log.append

        def seen(event: Any) -> None:
            order.append(f"seen {event.seq}")
            append(event)

        log.append = seen  # type: ignore[method-assign]
        async with AgentClient(service.transport(), wait_timeout=5) as client:
            await (await client.thread("t-1").send("hi")).wait_until_idle()

    for seq in range(1, 11):
        assert order.index(f"stored {seq}") < order.index(f"seen {seq}")


async def test_the_list_of_threads_tells_what_becomes_of_each() -> None:
    """MP-22; EV-18."""
    model = MockLanguageModel(script.hold("middle").text("Hello."))
    async with create_in_process_client(answering(), model=model) as mock:
        page = await mock.client.list_threads()
        async with mock.transport.watch_thread_heads(after=page.seq) as heads:
            run = await mock.client.thread("t-1").send("hi")
            await model.reached("middle")
            model.release("middle")
            await run.wait_until_idle()
            await mock.client.thread("t-1").rename("Parcel")
            await mock.client.thread("t-1").delete()
            told: list[Any] = []
            while (event := heads.receive_nowait()) is not None:
                told.append(event)

        assert [(event.type, getattr(event, "reason", None)) for event in told] == [
            ("thread.head.changed", "created"),
            ("thread.head.changed", "status"),
            ("thread.head.changed", "status"),
            ("thread.head.changed", "attributes"),
            ("thread.head.removed", None),
        ]
        assert [event.head.status for event in told[:3]] == ["idle", "running", "idle"]
        assert told[3].head.title == "Parcel"


async def test_the_list_is_paged_newest_first() -> None:
    """MP-22."""
    async with create_in_process_client(answering(), model=script.text("Hello.")) as mock:
        for number in range(5):
            await (await mock.client.thread(f"t-{number}").send("hi")).wait_until_idle()
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await mock.client.list_threads(limit=2, cursor=cursor)
            found += [head.thread_id for head in page.heads]
            cursor = page.next_cursor
            if cursor is None:
                break

        assert found == ["t-4", "t-3", "t-2", "t-1", "t-0"]
        with pytest.raises(ThreadNotFoundError):
            await mock.client.thread("nope").rename("x")


async def test_a_thread_is_deleted_with_its_session_while_the_agent_works() -> None:
    """MP-22; EV-28: a later send begins anew under the same id, and numbers go on."""
    model = MockLanguageModel([script.hold("middle").text("never"), script.text("Hello.")])
    async with create_in_process_client(answering(), model=model, strict=False) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("hi")
        await model.reached("middle")
        before = thread.get_state().seq
        outcome: list[str] = []

        async def wait() -> None:
            with pytest.raises(ThreadDeletedError):
                await run.wait_until_idle()
            outcome.append("deleted")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            async with mock.transport.watch_thread("t-1", after=before) as stream:
                await thread.delete()
                assert [event.type async for event in stream][-2:] == ["generation.aborted", "thread.deleted"]
        assert outcome == ["deleted"]
        assert await mock.transport.get_thread("t-1") is None
        assert (await mock.transport.list_threads(ThreadQuery())).heads == ()

        again = await thread.send("new")
        state = await again.wait_until_idle()
        await mock.harness.settle()

        assert texts_of(state) == ["new", "Hello."]
        assert state.seq > before
        assert len(model.do_stream_calls[-1].prompt) == 1
        assert "state.changed" not in events_of(mock)


async def test_a_deleted_thread_is_gone_from_its_store() -> None:
    """MP-22."""
    threads = InMemoryThreadStore()
    agent = answering()(MockLanguageModel(script.text("Hello.")))
    async with (
        AgentService(agent, threads=threads) as service,
        AgentClient(service.transport(), wait_timeout=5) as client,
    ):
        await (await client.thread("t-1").send("hi")).wait_until_idle()
        await client.thread("t-1").delete()

    assert threads.heads() == []
    stored = threads.load("t-1")
    assert stored is not None
    assert (stored.snapshot, stored.outbox, stored.seq) == (None, (), 11)


async def test_closing_a_transport_ends_its_watches_and_nothing_else() -> None:
    """MP-32; TP-29."""
    async with create_in_process_client(answering(), model=script.text("Hello.")) as mock:
        other = mock.service.transport()
        async with other.watch_thread("t-1", after=None) as stream:
            await other.aclose()
            await other.aclose()
            assert [event async for event in stream] == []
        with pytest.raises(ClientClosedError):
            await other.get_thread("t-1")

        await answered(mock, "hi")
        assert mock.service.log("t-1").watchers == 1


async def test_two_hundred_watches_leave_nothing_behind() -> None:
    """MP-32."""
    async with create_in_process_client(answering(), model=script.text("Hello.")) as mock:
        for _ in range(200):
            async with mock.transport.watch_thread("t-1", after=None):
                pass

        assert mock.service.log("t-1").watchers == 0


async def test_client_and_service_may_be_left_in_another_task_than_they_were_entered_in() -> None:
    """As fixtures of some test frameworks do; EV-33."""
    mock = create_in_process_client(answering(), model=script.text("Hello."))
    watch = mock.transport.watch_thread("t-1", after=None)
    states: list[Sequence[str]] = []

    async def set_up() -> None:
        await mock.__aenter__()
        await watch.__aenter__()

    async def use() -> None:
        run = await mock.client.thread("t-1").send("hi")
        states.append(texts_of(await run.wait_until_idle()))

    async def tear_down() -> None:
        await watch.__aexit__(None, None, None)
        await mock.__aexit__(None, None, None)

    for step in (set_up, use, tear_down):
        await OwnedTask(step, name=step.__name__).wait()

    assert states == [["hi", "Hello."]]


async def test_closing_the_service_ends_what_is_at_work() -> None:
    ended: list[str] = []

    @chat.agent(id="slow")
    async def agent(event: Any) -> None:
        try:
            await chat.sleep(1e9)
        finally:
            ended.append("run")

    async with create_in_process_client(agent, auto_advance=False) as mock:
        run = await mock.client.thread("t-1").send("hi")
        await mock.harness.settle()
        assert run.status == "running"

    assert ended == ["run"]
    with pytest.raises(ClientClosedError):
        await mock.service.transport().get_thread("t-1")


async def test_virtual_time_moves_while_a_client_waits_and_not_otherwise() -> None:
    model = MockLanguageModel(script.text("Wait").pause(3600).text(" for it."))
    async with create_in_process_client(answering(), model=model) as mock:
        began = mock.clock.now()
        run = await mock.client.thread("t-1").send("hi")
        await mock.harness.settle()
        assert mock.clock.now() == began
        assert mock.client.thread("t-1").get_state().messages[-1].text == "Wait"

        state = await run.wait_until_idle()

        assert state.messages[-1].text == "Wait for it."
        assert mock.clock.now() - began == 3600


async def test_a_wait_that_never_ends_says_where_the_agent_stands() -> None:
    model = MockLanguageModel(script.hold("middle").text("never"))
    async with create_in_process_client(answering(), model=model, strict=False, wait_timeout=0.2) as mock:
        run = await mock.client.thread("t-1").send("hi")

        with pytest.raises(
            TimeoutError, match=r"run 'run-1' of thread 't-1' is running after 0.2 s(?s:.*)hold\('middle'\)"
        ):
            await run.wait_until_idle()


async def test_what_a_client_does_to_values_stays_with_it() -> None:
    """MP-33: objects are passed on, but what could be changed in them is nobody else's."""
    model = MockLanguageModel([script.tool_call("lookup", {"query": "x"}), script.text("Found.")])
    async with create_in_process_client(answering(tools=TOOLS), model=model) as mock:
        await answered(mock, "look")
        before = await mock.transport.get_thread("t-1")
        assert before is not None
        expected = before.model_dump()

        for event in await ready(mock, 0):
            chunk = getattr(event, "chunk", None)
            for name in ("input", "output"):
                value = getattr(chunk, name, None)
                if isinstance(value, dict):
                    value.clear()
        for part in before.messages[-1].parts:
            (getattr(part, "output", None) or {}).clear()

        after = await mock.transport.get_thread("t-1")
        assert after is not None
        assert after.model_dump() == expected
        page = await mock.service._setting.sessions.read("t-1", "out")  # pyright: ignore[reportPrivateUsage]
        assert {"found": "x"} in [getattr(record.data, "output", None) for record in page.records]


async def test_a_cancelled_owner_still_leaves_no_task_behind() -> None:
    service = AgentService(answering()(MockLanguageModel(script.hang())))
    with anyio.CancelScope() as scope:
        async with service, AgentClient(service.transport()) as client:
            for number in range(3):
                await client.thread(f"t-{number}").send("hi")
            scope.cancel()
            await anyio.lowlevel.checkpoint()

    assert scope.cancelled_caught
    assert service._setting.tasks.active == set()  # pyright: ignore[reportPrivateUsage]


async def test_a_call_from_another_event_loop_is_refused_at_once() -> None:
    async with create_in_process_client(answering(), wait_timeout=3600) as mock:

        async def elsewhere() -> object:
            with pytest.raises(
                ServiceLoopError, match=r"^get_thread: the service was opened in another event loop, and its"
            ):
                await mock.client.thread("t-1").send("x")
            with pytest.raises(ServiceLoopError):
                async with mock.transport.watch_thread("t-1", after=0):
                    pass
            with pytest.raises(ServiceLoopError):
                await mock.service.start_run("t-1", "x")
            return True

        assert await anyio.to_thread.run_sync(lambda: anyio.run(elsewhere))
        assert await mock.transport.get_thread("t-1") is None


async def test_a_client_whose_service_is_not_open_yet_says_so() -> None:
    mock = create_in_process_client(answering())

    with pytest.raises(
        ServiceStateError, match=r"^get_thread: the service is not open; use it, or the client that was"
    ):
        await mock.client.thread("t-1").send("x")
