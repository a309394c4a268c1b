"""When something goes wrong around a client: lost connections, slow watchers, cancelled waiters, closing, deletion."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from chatagent.client import AgentClient
from chatagent.protocol import (
    PROFILES,
    ClientClosedError,
    GenerationMessageChunk,
    RunNotBlockedError,
    RunNotFoundError,
    StateChanged,
    ThreadDeletedError,
    ThreadNotFoundError,
    TransportProtocolError,
    TransportUnavailableError,
    UnsupportedOperationError,
)
from chatagent.ui import TextDelta
from chatagent_test import create_mock_agent_client, given, reply

if TYPE_CHECKING:
    from chatagent.client import Thread
    from chatagent_test import MockAgentClient

pytestmark = pytest.mark.anyio


def lost(operation: str = "watch_thread") -> TransportUnavailableError:
    return TransportUnavailableError(operation=operation)


# --- connections --------------------------------------------------------------------------------------------------


async def test_a_waiter_survives_a_lost_connection(mock: MockAgentClient, thread: Thread) -> None:
    response = mock.responses.stream()
    run = await thread.send("x")
    text = response.text()
    await text.delta("one ")
    texts: list[str] = []

    async def wait() -> None:
        texts.append(await run.text())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        mock.events.disconnect("t-1")
        await anyio.wait_all_tasks_blocked()
        await text.delta("two")
        await text.end()
        await response.complete()

    assert texts == ["one two"]


async def test_opening_a_watch_is_tried_again_and_again(mock: MockAgentClient, thread: Thread) -> None:
    mock.faults.fail_next("watch_thread", lost(), times=4)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(thread.refresh)
        for seconds in (0.1, 0.2, 0.4):
            await anyio.wait_all_tasks_blocked()
            await mock.advance(seconds)

    assert len(mock.inspect.requests.watch_thread()) == 5


async def test_other_errors_reach_the_caller(mock: MockAgentClient, thread: Thread) -> None:
    mock.faults.fail_next("get_thread", RuntimeError("strange"))

    with pytest.raises(RuntimeError, match=r"^strange$"):
        await thread.send("x")

    mock.responses.queue(reply.assistant("fine"))
    assert await (await thread.send("x")).text() == "fine"


async def test_a_send_that_is_refused_changes_nothing(mock: MockAgentClient, thread: Thread) -> None:
    mock.faults.fail_next("send", lost("send"))

    with pytest.raises(TransportUnavailableError):
        await thread.send("x")

    assert (thread.get_state().messages, mock.inspect.thread("t-1")) == ((), None)


async def test_a_chunk_that_even_the_repaired_state_refuses_is_an_error(mock: MockAgentClient, thread: Thread) -> None:
    mock.seed(given.thread("t-1", given.run(given.input("x"), given.output("y"), status="running")))
    run = (await thread.refresh()).active_run
    assert run is not None
    stray = GenerationMessageChunk(run_id=run.run_id, message_id="msg-2", chunk=TextDelta("nope", "lost"))
    mock.events.push_thread("t-1", stray)
    thread.get_state()
    mock.events.push_thread("t-1", stray)
    thread.get_state()
    await thread.refresh()
    mock.events.push_thread("t-1", stray)

    with pytest.raises(TransportProtocolError, match=r"^watch_thread: the backend's answer cannot be understood"):
        thread.get_state()


async def test_a_gap_that_several_readers_meet_is_read_once(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("a"))
    await thread.send("x")
    async with thread.watch() as one, thread.watch() as two:
        await anext(one)
        await anext(two)
        reads = len(mock.inspect.requests.get_thread())
        mock.faults.lose_next_event("t-1")
        mock.responses.queue(reply.assistant("b"))
        await thread.send("y")
        for updates in (one, two):
            async for update in updates:
                if update.state.messages[-1].text == "b":
                    break

    assert len(mock.inspect.requests.get_thread()) == reads + 1


async def test_explicit_numbers_make_gaps_and_duplicates(mock: MockAgentClient, thread: Thread) -> None:
    mock.seed(given.thread("t-1", given.run(given.input("x"))))
    seq = (await thread.refresh()).seq

    mock.events.push_thread("t-1", StateChanged(), seq=seq)
    duplicate = (thread.get_state().seq, thread.is_stale)
    mock.events.push_thread("t-1", StateChanged(), seq=seq + 5)
    thread.get_state()
    gap = thread.is_stale
    state = await thread.refresh()
    mock.events.change_thread("t-1", title="next")

    assert (duplicate, gap, state.seq) == ((seq, False), True, seq + 5)
    assert thread.get_state().thread.title == "next"


async def test_a_forgotten_log_costs_one_read(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("a"), reply.assistant("b"))
    await thread.send("x")
    mock.events.disconnect()
    thread.get_state()
    other = AgentClient(mock.transport, owns_transport=False)
    await other.thread("t-1").send("y")
    mock.events.forget("t-1")

    state = await thread.refresh()

    assert [message.text for message in state.messages] == ["x", "a", "y", "b"]
    await other.aclose()


# --- slow watchers ------------------------------------------------------------------------------------------------


async def test_a_slow_watcher_gets_every_event_that_the_log_has(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant(reply.text("abc", chunks=["a", "b", "c"])))
    async with thread.watch() as updates:
        run = await thread.send("x")
        await run.wait_until_idle()
        texts: list[str] = []
        async for update in updates:
            if update.state.messages:
                texts.append(update.state.messages[-1].text)
            if update.event is not None and update.event.type == "generation.completed":
                break

    assert [text for text, before in zip(texts, ["", *texts], strict=False) if text != before] == [
        "x",
        "",
        "a",
        "ab",
        "abc",
    ]


async def test_a_watcher_slower_than_the_log_is_long_sees_a_gap_and_the_end() -> None:
    async with create_mock_agent_client(event_log_size=20) as mock:
        thread = mock.client.thread("t-1")
        text = "x" * 100
        mock.responses.queue(reply.assistant(reply.text(text, chunks=list(text))))
        async with thread.watch() as updates:
            await anext(updates)
            await thread.send("x")

            update = await anext(updates)

    assert update.event is None
    assert update.state == thread.get_state()
    assert update.state.messages[-1].text == text


async def test_leaving_one_watch_does_not_disturb_another(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("a"))
    async with thread.watch() as stays:
        async with thread.watch() as leaves:
            await anext(leaves)
        await anext(stays)
        await thread.send("x")
        update = await anext(stays)

    assert update.event is not None
    assert update.event.type == "message.added"
    assert mock.inspect.watchers("t-1") == 1


async def test_a_watch_may_be_left_in_another_task(mock: MockAgentClient, thread: Thread) -> None:
    watch = thread.watch()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.__aenter__)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.__aexit__, None, None, None)

    assert mock.inspect.watchers("t-1") == 1


# --- waiters ------------------------------------------------------------------------------------------------------


async def test_cancelling_a_waiter_leaves_run_and_other_waiters_alone(mock: MockAgentClient, thread: Thread) -> None:
    run = await thread.send("x")
    done: list[str] = []

    async def wait(name: str) -> None:
        await run.wait_until_idle()
        done.append(name)

    scope = anyio.CancelScope()
    scope.cancel()
    async with anyio.create_task_group() as tasks:
        with scope:
            await run.wait_until_idle()
        tasks.start_soon(wait, "a")
        tasks.start_soon(wait, "b")
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0):
            await run.wait_until_idle()
        mock.responses.queue(reply.assistant("there"))

    assert scope.cancelled_caught
    assert sorted(done) == ["a", "b"]
    assert run.status == "completed"


async def test_the_reader_among_the_waiters_may_be_cancelled(mock: MockAgentClient, thread: Thread) -> None:
    run = await thread.send("x")
    done: list[str] = []

    async def read_for_the_others(scope: anyio.CancelScope) -> None:
        with scope:
            await run.wait_until_idle()

    async def wait() -> None:
        await run.wait_until_idle()
        done.append("other")

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_for_the_others, scope)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        mock.responses.queue(reply.assistant("there"))

    assert done == ["other"]


async def test_a_synchronous_look_does_not_starve_a_waiter(mock: MockAgentClient, thread: Thread) -> None:
    run = await thread.send("x")
    status = ""

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.wait_until_idle)
        await anyio.wait_all_tasks_blocked()
        mock.responses.queue(reply.assistant("there"))
        status = thread.get_state().runs[-1].status  # takes what the waiter waits for

    assert status == "completed"


async def test_waiting_for_a_question_ends_when_the_run_does(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("no question"))
    run = await thread.send("x")

    with pytest.raises(RunNotBlockedError, match=r"^run 'run-1' is completed: it ended without waiting for an answer$"):
        await run.wait_until_blocked()


async def test_a_waiting_run_is_not_idle(mock: MockAgentClient, thread: Thread) -> None:
    waiting = reply.tool("pick").waiting(input={}, action=reply.action("output"))
    mock.responses.queue(reply.assistant(waiting), reply.assistant("thanks"))
    run = await thread.send("x")
    done: list[str] = []
    before: list[str] = ["unknown"]

    async def wait() -> None:
        done.append((await run.wait_until_idle()).messages[-1].text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        before = list(done)
        await thread.pending_actions[0].submit("a file")

    assert (before, done) == ([], ["thanks"])


async def test_chunks_of_a_run_are_replayed_and_then_live(mock: MockAgentClient, thread: Thread) -> None:
    response = mock.responses.stream()
    run = await thread.send("x")
    text = response.text()
    await text.delta("a")
    found: list[str] = []

    async def read() -> None:
        async with run.chunks() as chunks:
            found.extend([chunk.delta async for chunk in chunks if isinstance(chunk, TextDelta)])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        mock.events.disconnect()
        await anyio.wait_all_tasks_blocked()
        await text.delta("b")
        await text.end()
        await response.complete()

    assert found == ["a", "b"]


# --- closing ------------------------------------------------------------------------------------------------------


async def test_closing_ends_what_waits_and_leaves_the_run_alone(mock: MockAgentClient, thread: Thread) -> None:
    client = AgentClient(mock.transport, owns_transport=False)
    own = client.thread("t-1")
    run = await own.send("x")
    ended: list[str] = []

    async def expect(name: str, wait: Any) -> None:
        with pytest.raises(ClientClosedError):
            await wait()
        ended.append(name)

    async def read_watch() -> None:
        async with own.watch() as updates:
            async for _ in updates:
                pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(expect, "reader", run.wait_until_idle)
        tasks.start_soon(expect, "waiter", run.wait_until_idle)
        tasks.start_soon(expect, "watch", read_watch)
        await anyio.wait_all_tasks_blocked()
        await client.aclose()

    assert sorted(ended) == ["reader", "waiter", "watch"]
    stored = mock.inspect.thread("t-1")
    assert stored is not None
    assert stored.runs[0].status == "running"
    assert mock.inspect.watchers("t-1") == 0
    assert [message.text for message in own.get_state().messages] == ["x"]


async def test_closing_ends_a_call_under_way(mock: MockAgentClient) -> None:
    client = AgentClient(mock.transport, owns_transport=False, clock=mock.transport.clock)
    mock.faults.delay_admission(60)

    async def send() -> None:
        with pytest.raises(ClientClosedError, match=r"^send: the client is closed$"):
            await client.thread("t-1").send("x")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await anyio.wait_all_tasks_blocked()
        await client.aclose()

    assert mock.inspect.thread("t-1") is None


async def test_closing_ends_a_back_off(mock: MockAgentClient) -> None:
    client = AgentClient(mock.transport, owns_transport=False, clock=mock.transport.clock)
    mock.faults.fail_next("watch_thread", lost(), times=2)

    async def refresh() -> None:
        with pytest.raises(ClientClosedError):
            await client.thread("t-1").refresh()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(refresh)
        await anyio.wait_all_tasks_blocked()
        await client.aclose()


@pytest.mark.parametrize("call", ["send", "refresh", "list", "manifest", "read", "command", "abort", "thread"])
async def test_a_closed_client_refuses_every_call(mock: MockAgentClient, thread: Thread, call: str) -> None:
    mock.responses.queue(reply.assistant("a"))
    run = await thread.send("x")
    await mock.client.aclose()
    asked = len(mock.inspect.requests.all())
    calls: dict[str, Any] = {
        "send": lambda: thread.send("y"),
        "refresh": thread.refresh,
        "list": mock.client.list_threads,
        "manifest": mock.client.get_manifest,
        "read": lambda: mock.client.files.read("f"),
        "command": lambda: thread.commands.anything(),
        "abort": run.abort,
    }

    async def refused() -> None:
        if call == "thread":
            mock.client.thread("t-2")
        else:
            await calls[call]()

    with pytest.raises(ClientClosedError):
        await refused()

    assert len(mock.inspect.requests.all()) == asked


async def test_two_hundred_clients_leave_nothing_behind() -> None:
    mock = create_mock_agent_client()
    for number in range(200):
        client = AgentClient(mock.transport, owns_transport=False)
        mock.responses.queue(reply.assistant("a"))
        await (await client.thread(f"t-{number % 7}").send("x")).wait_until_idle()
        await client.aclose()
    gc.collect()

    assert [mock.inspect.watchers(f"t-{number}") for number in range(7)] == [0] * 7
    assert sum(isinstance(each, AgentClient) for each in gc.get_objects()) <= 2
    await mock.aclose()


# --- deletion -----------------------------------------------------------------------------------------------------


async def test_a_wait_on_a_deleted_thread_raises(mock: MockAgentClient, thread: Thread) -> None:
    run = await thread.send("x")
    await thread.delete()

    with pytest.raises(ThreadDeletedError, match=r"^thread 't-1' was deleted$"):
        await run.wait_until_idle()
    with pytest.raises(RunNotFoundError, match=r"^thread 't-1' has no run 'run-1'$"):
        _ = run.status
    with pytest.raises(ThreadNotFoundError):
        await thread.delete()


async def test_a_send_on_a_deleted_thread_begins_a_new_one(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("old"), reply.assistant("new"))
    await thread.send("x")
    await thread.delete()
    gone = thread.get_state()
    run = await thread.send("y")

    assert (gone.messages, gone.thread.status) == ((), "idle")
    assert [message.text for message in (await run.wait_until_idle()).messages] == ["y", "new"]


async def test_a_retry_on_a_deleted_thread_finds_nothing(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.error("boom"))
    await thread.send("x")
    await thread.delete()

    with pytest.raises(
        ThreadNotFoundError, match=r"^there is no thread 't-1'; it comes into being with the first send$"
    ):
        await thread.retry()


# --- lesser transports --------------------------------------------------------------------------------------------


async def test_without_watches_the_thread_is_read_again_and_again() -> None:
    async with create_mock_agent_client(profiles=set(PROFILES) - {"watch"}) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("x")
        states: list[str] = []

        async def wait() -> None:
            states.append((await run.wait_until_idle()).messages[-1].text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            mock.responses.queue(reply.assistant("there"))
            for _ in range(3):
                await mock.advance(1)
                await anyio.wait_all_tasks_blocked()
        async with run.chunks() as chunks:
            found = [chunk async for chunk in chunks]

    assert states == ["there"]
    assert found == []


async def test_a_missing_profile_says_its_name() -> None:
    async with create_mock_agent_client(profiles={"core", "watch"}) as mock:
        with pytest.raises(UnsupportedOperationError, match=r"^list_threads: this transport has no profile 'heads'$"):
            await mock.client.list_threads()
        with pytest.raises(UnsupportedOperationError, match=r"^upload_file: this transport has no profile 'files'$"):
            await mock.client.files.upload(filename="a", media_type="b", body=b"")
        assert (await mock.client.get_manifest()).profiles == ("core", "watch")
