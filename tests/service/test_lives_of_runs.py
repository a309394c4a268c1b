"""Runtime runs that end, crash and are continued behind a thread (MP-7, MP-29, MP-30, MP-31, MP-40, MP-43)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import anyio
import pytest

from chatagent import chat
from chatagent.agent import RecoveryResult
from chatagent.client import AgentClient
from chatagent.protocol import ClientClosedError, TransportUnavailableError
from chatagent.service import AgentService, InMemoryThreadStore, ServiceStateError, ThreadStoreBusyError, ThreadWrite
from chatagent.session import InMemorySessionStore, InMemorySnapshotStore, RunRef
from chatagent_test import MockLanguageModel, VirtualClock, create_in_process_client, script
from service.agents import TOOLS, answering, events_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from chatagent.agent import ChatAgent
    from chatagent_test import InProcessClient

pytestmark = pytest.mark.anyio


def boots(mock: InProcessClient) -> int:
    return sum(call.name == "on_boot" for call in mock.harness.hooks)


def nothing(event: Any) -> None:
    """A hook whose calls are counted."""


def booting(**options: Any) -> Any:
    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        agent = answering(**options)(model)
        agent.on_boot(nothing)
        return agent

    return make


async def test_a_run_that_ends_idle_is_continued_by_the_next_send() -> None:
    """MP-29."""
    model = MockLanguageModel([script.text("one"), script.text("two")])
    async with create_in_process_client(booting(turn_timeout=60, idle_timeout=5), model=model) as mock:
        thread = mock.client.thread("t-1")
        await (await thread.send("1")).wait_until_idle()
        await mock.advance(3600)
        assert mock.service.thread("t-1").hosted is None

        state = await (await thread.send("2")).wait_until_idle()
        await mock.harness.settle()

        assert texts_of(state) == ["1", "one", "2", "two"]
        assert boots(mock) == 2
        assert [len(call.prompt) for call in model.do_stream_calls] == [1, 3]
        assert "state.changed" not in events_of(mock)


async def test_a_run_that_is_full_or_upgraded_is_continued_unseen() -> None:
    """MP-29."""
    upgrades: Iterator[bool] = iter([True, False, False, False])

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        agent = booting(max_turns=1)(model)

        @agent.on_turn_start
        def upgrade(event: Any) -> None:
            if next(upgrades):
                chat.request_upgrade()

        return agent

    model = MockLanguageModel([script.text("one"), script.text("two")])
    async with create_in_process_client(make, model=model) as mock:
        thread = mock.client.thread("t-1")
        first, second = await thread.send("1"), await thread.send("2")
        state = await second.wait_until_idle()

        assert texts_of(state) == ["1", "one", "2", "two"]
        assert first.status == second.status == "completed"
        assert boots(mock) == 3


async def test_a_crash_before_the_answer_is_made_good_by_the_next_run() -> None:
    """MP-30: the message is dispatched again, and settles the same client run."""
    model = MockLanguageModel([script.hold("thinking"), script.text("Hello.")])
    async with create_in_process_client(booting(), model=model, strict=False) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("hi")
        await model.reached("thinking")

        await mock.harness.kill_run("t-1")
        assert run.status == "running"
        state = await run.wait_until_idle()

        assert (run.status, texts_of(state)) == ("completed", ["hi", "Hello."])
        assert boots(mock) == 2


async def test_a_crash_amid_the_answer_fails_the_run_and_keeps_what_had_come() -> None:
    """MP-30: by default the runtime keeps the partial answer and asks nobody again."""
    model = MockLanguageModel([script.text("Half an").hold("middle"), script.text("Whole.")])
    async with create_in_process_client(booting(), model=model, strict=False) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("hi")
        await model.reached("middle")

        await mock.harness.kill_run("t-1")
        state = await run.wait_until_idle()

        assert state.error is not None
        assert (run.status, state.error.code) == ("failed", "run_ended")
        assert texts_of(state) == ["hi", "Half an"]

        after = await (await thread.send("go on")).wait_until_idle()
        await mock.harness.settle()
        assert texts_of(after) == ["hi", "Half an", "go on", "Whole."]
        assert "state.changed" not in events_of(mock)


async def test_a_recovery_hook_that_asks_again_settles_the_run() -> None:
    """MP-30; what had come of the first answer is gone with the state that is taken over (MP-25)."""

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        agent = booting()(model)

        @agent.on_recovery_boot
        def again(event: Any) -> RecoveryResult:
            return RecoveryResult(chain=event.settled_messages, recovered_turns=event.in_flight_users)

        return agent

    model = MockLanguageModel([script.text("Half an").hold("middle"), script.text("Whole.")])
    async with create_in_process_client(make, model=model, strict=False) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("hi")
        await model.reached("middle")

        await mock.harness.kill_run("t-1")
        await run.wait_until_idle()
        await mock.harness.settle()
        state = await thread.refresh()

        assert (run.status, texts_of(state)) == ("completed", ["hi", "Whole."])


async def test_a_run_that_cannot_boot_fails_what_was_sent_and_not_what_comes() -> None:
    """MP-7: the failed message is closed on the log, so the next run does not answer it."""
    failures: Iterator[bool] = iter([True, False])

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        agent = answering()(model)

        @agent.on_boot
        def boot(event: Any) -> None:
            if next(failures):
                raise RuntimeError("no database")

        return agent

    model = MockLanguageModel([script.text("Hello.")])
    async with create_in_process_client(make, model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("hi")
        state = await run.wait_until_idle()
        assert state.error is not None
        assert (run.status, state.error.message, state.error.code) == ("failed", "no database", "run_ended")

        state = await (await thread.send("again")).wait_until_idle()
        await mock.harness.settle()

        assert texts_of(state) == ["hi", "again", "Hello."]
        assert len(model.do_stream_calls) == 1
        assert "state.changed" not in events_of(mock)


async def fail_while_nobody_waits() -> None:
    """Crash a run amid its answer, and let the next one fail as it is put away."""

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        agent = answering(idle_timeout=5)(model)

        @agent.on_chat_suspend
        def suspend(event: Any) -> None:
            raise RuntimeError("nobody saw this")

        return agent

    model = MockLanguageModel([script.text("Half an").hold("middle")])
    async with create_in_process_client(make, model=model) as mock:
        run = await mock.client.thread("t-1").send("hi")
        await model.reached("middle")
        await mock.harness.kill_run("t-1")
        await run.wait_until_idle()
        await mock.advance(60)


async def test_an_error_that_no_run_could_fail_of_is_raised_at_the_end() -> None:
    with pytest.raises(RuntimeError, match=r"^nobody saw this$"):
        await fail_while_nobody_waits()


async def test_an_append_that_fails_fails_the_run_and_keeps_the_input() -> None:
    """MP-40."""

    class FullStore(InMemorySessionStore):
        is_full = True

        async def append(self, session_id: str, direction: Any, records: Any, **options: Any) -> Any:
            if self.is_full and direction == "in":
                raise RuntimeError("the disk is full")
            return await super().append(session_id, direction, records, **options)

    sessions = FullStore()
    model = MockLanguageModel([script.text("Hello.")])
    async with (
        AgentService(answering()(model), sessions=sessions) as service,
        AgentClient(service.transport(), wait_timeout=5) as client,
    ):
        thread = client.thread("t-1")
        run = await thread.send("hi")
        state = await run.wait_until_idle()
        assert state.error is not None
        assert (state.error.message, state.error.code) == ("the disk is full", "append_failed")
        assert texts_of(state) == ["hi"]

        sessions.is_full = False
        state = await (await thread.send("again")).wait_until_idle()
        assert texts_of(state) == ["hi", "again", "Hello."]


async def test_a_service_goes_on_with_what_one_before_it_has_left() -> None:
    """MP-4, MP-31: the thread, its log, its numbers, its outbox."""
    threads, sessions = InMemoryThreadStore(), InMemorySessionStore()
    snapshots = InMemorySnapshotStore(sessions=sessions)
    stores: dict[str, Any] = {"threads": threads, "sessions": sessions, "snapshots": snapshots}
    first = MockLanguageModel([script.text("one"), script.hold("middle").text("two")])
    async with AgentService(answering()(first), **stores) as service, AgentClient(service.transport()) as client:
        thread = client.thread("t-1")
        await (await thread.send("1", request_id="r-1")).wait_until_idle()
        await thread.send("2")
        await first.reached("middle")
        await thread.send("3")
        left = thread.get_state()

    second = MockLanguageModel([script.text("two"), script.text("three")])
    async with (
        AgentService(answering()(second), **stores) as service,
        AgentClient(service.transport(), wait_timeout=5) as client,
    ):
        thread = client.thread("t-1")
        state = await thread.refresh()
        assert texts_of(state)[:2] == ["1", "one"]
        assert state.seq >= left.seq
        again = await thread.send("1", request_id="r-1")
        assert again.run_id == left.runs[0].run_id

        state = await thread.run(left.runs[2].run_id).wait_until_idle()
        assert texts_of(state) == ["1", "one", "2", "two", "3", "three"]
        assert {run.status for run in state.runs} == {"completed"}
        seqs = [event.seq for event in service.log("t-1").events()]
        assert seqs == list(range(1, len(seqs) + 1))


async def test_a_thread_that_nobody_uses_costs_the_service_no_task() -> None:
    """MP-43: the reader ends when the run is put away, and starts again with the next append."""
    model = MockLanguageModel([script.text("one"), script.text("two")])
    async with create_in_process_client(booting(idle_timeout=5, turn_timeout=60), model=model) as mock:
        thread = mock.client.thread("t-1")
        await (await thread.send("1")).wait_until_idle()
        await mock.harness.settle()
        names = [task.name for task in mock.service._setting.tasks.active]  # pyright: ignore[reportPrivateUsage]
        assert "the reader of thread 't-1'" in names

        await mock.advance(10)
        names = [task.name for task in mock.service._setting.tasks.active]  # pyright: ignore[reportPrivateUsage]
        assert "the reader of thread 't-1'" not in names
        assert texts_of(await (await thread.send("2")).wait_until_idle()) == ["1", "one", "2", "two"]
        await mock.advance(100)
        names = [task.name for task in mock.service._setting.tasks.active]  # pyright: ignore[reportPrivateUsage]
        assert set(names) <= {"the worker of the service", "the renewal of leases"}


async def test_a_service_that_is_not_open_refuses_with_advice() -> None:
    service = AgentService(answering()(MockLanguageModel()))

    with pytest.raises(ServiceStateError, match=r"^start_run: the service is not open; use it, or the client"):
        await service.start_run("t-1", "hi")
    with pytest.raises(ServiceStateError, match=r"^get_thread: the service is not open; use it, or the client"):
        await service.transport().get_thread("t-1")
    async with service:
        transport = service.transport()

    with pytest.raises(ClientClosedError):
        await transport.get_thread("t-1")


async def test_a_store_that_refuses_for_a_while_loses_nothing() -> None:
    """MP-31: nobody sees an event that is not stored; what was refused is stored with what comes next."""

    class Failing(InMemoryThreadStore):
        refusals = 0

        def write(self, thread_id: str, write: ThreadWrite) -> None:
            if self.refusals:
                self.refusals -= 1
                raise OSError("no space left")
            super().write(thread_id, write)

    threads = Failing()
    model = MockLanguageModel([script.text("Hello.").hold("middle").text(" Again.")])
    clock = VirtualClock()
    async with (
        AgentService(answering()(model), threads=threads, clock=clock) as service,
        AgentClient(service.transport(), wait_timeout=5) as client,
    ):
        thread = client.thread("t-1")
        threads.refusals = 1
        with pytest.raises(TransportUnavailableError, match="no space left"):
            await thread.send("hi", request_id="r-1")
        assert service.log("t-1").events() == ()
        run = await thread.send("hi", request_id="r-1")
        await model.reached("middle")
        await anyio.wait_all_tasks_blocked()

        threads.refusals = 1000
        model.release("middle")
        await anyio.wait_all_tasks_blocked()
        clock.advance(1)
        await anyio.wait_all_tasks_blocked()
        assert thread.get_state().messages[-1].text == "Hello."
        threads.refusals = 0
        clock.advance(1)
        state = await run.wait_until_idle()

        assert texts_of(state) == ["hi", "Hello. Again."]
        stored = threads.load("t-1")
        assert stored is not None
        assert [event.seq for event in stored.events] == list(range(1, state.seq + 1))


async def test_the_first_run_takes_its_message_from_the_log_and_was_not_preloaded() -> None:
    """MP-1, MP-3: the session begins with the first send."""
    seen: list[tuple[bool, bool]] = []

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        agent = booting()(model)
        agent.on_preload(nothing)

        @agent.on_chat_start
        def start(event: Any) -> None:
            seen.append((event.preloaded, event.continuation))

        return agent

    model = MockLanguageModel([script.text("one"), script.text("two")])
    async with create_in_process_client(make, model=model) as mock:
        thread = mock.client.thread("t-1")
        await (await thread.send("1")).wait_until_idle()
        await (await thread.send("2")).wait_until_idle()

        assert seen == [(False, False)]
        assert [call.name for call in mock.harness.hooks] == ["on_boot", "on_chat_start", "run", "run"]


async def test_a_crash_amid_an_answer_that_was_asked_for_again_asks_once_more() -> None:
    """MP-10, MP-30: the conversation is cut at the same place; what had come of the first try is gone (MP-25)."""
    model = MockLanguageModel(
        [script.text("one"), script.text("two"), script.text("Half").hold("middle"), script.text("three")]
    )
    async with create_in_process_client(booting(), model=model, strict=False) as mock:
        thread = mock.client.thread("t-1")
        await (await thread.send("1")).wait_until_idle()
        await (await thread.send("2")).wait_until_idle()
        run = await thread.regenerate(thread.get_state().messages[0].message_id)
        await model.reached("middle")

        await mock.harness.kill_run("t-1")
        await run.wait_until_idle()
        await mock.harness.settle()

        assert run.status == "completed"
        assert texts_of(await thread.refresh()) == ["1", "three"]
        assert len(model.do_stream_calls[-1].prompt) == 1


async def test_a_cut_that_no_snapshot_holds_is_made_again_by_the_replay() -> None:
    """MP-10, MP-30: as if the process had died between the turn-complete and the snapshot."""

    class Forgetful(InMemorySnapshotStore):
        async def save(self, session_id: str, snapshot: Any, *, epoch: int) -> None:
            if len(snapshot.messages) >= 4:
                await super().save(session_id, snapshot, epoch=epoch)

    sessions = InMemorySessionStore()
    model = MockLanguageModel([script.text(text) for text in ("one", "two", "another one", "end")])
    agent = answering()(model)
    async with (
        AgentService(agent, sessions=sessions, snapshots=Forgetful(sessions=sessions)) as service,
        AgentClient(service.transport(), wait_timeout=5) as client,
    ):
        thread = client.thread("t-1")
        for text in ("1", "2"):
            await (await thread.send(text)).wait_until_idle()
        again = await thread.regenerate(thread.get_state().messages[0].message_id)
        await again.wait_until_idle()
        hosted = service.thread("t-1").hosted
        assert hosted is not None
        await hosted.end("the process dies")

        state = await (await thread.send("3")).wait_until_idle()

        assert texts_of(state) == ["1", "another one", "3", "end"]
        assert len(model.do_stream_calls[-1].prompt) == 3


async def test_a_store_of_threads_is_one_service_s_at_a_time() -> None:
    """MP-31: two would give one number to two events."""
    threads = InMemoryThreadStore()
    first = AgentService(answering()(MockLanguageModel(script.text("one"))), threads=threads)
    second = AgentService(answering()(MockLanguageModel(script.text("two"))), threads=threads)
    async with first, AgentClient(first.transport()) as client:
        with pytest.raises(ThreadStoreBusyError, match=r"^another service is open on this store of threads, and two"):
            await second.__aenter__()

        assert texts_of(await (await client.thread("t-1").send("hi")).wait_until_idle()) == ["hi", "one"]

    async with second, AgentClient(second.transport()) as client:
        assert texts_of(await client.thread("t-1").refresh()) == ["hi", "one"]


async def test_a_service_that_cannot_open_gives_the_store_back() -> None:
    class Closed(InMemorySessionStore):
        async def __aenter__(self) -> Self:
            raise ConnectionError("no such host")

    class Failing(InMemorySessionStore):
        async def recover(self) -> list[RunRef]:
            raise ConnectionError("lost")

    class Threads(InMemoryThreadStore):
        fails = False

        def unsettled(self) -> Collection[str]:
            if self.fails:
                raise ConnectionError("lost")
            return super().unsettled()

    threads = Threads()
    for sessions in (Closed(), Failing(), InMemorySessionStore()):
        threads.fails = type(sessions) is InMemorySessionStore
        with pytest.raises(ConnectionError):
            await AgentService(answering()(MockLanguageModel()), threads=threads, sessions=sessions).__aenter__()
    threads.fails = False

    async with AgentService(answering()(MockLanguageModel()), threads=threads) as service:
        assert service.is_open


async def test_a_failure_behind_an_answer_is_one_of_the_resumption_in_the_next_service_too() -> None:
    """DM-42, MP-31."""
    threads, sessions = InMemoryThreadStore(), InMemorySessionStore()
    stores: dict[str, Any] = {"threads": threads, "sessions": sessions}
    first = MockLanguageModel([script.tool_call("pick_file", {"kind": "pdf"}), script.hold("middle")])
    async with (
        AgentService(answering(tools=TOOLS)(first), **stores) as service,
        AgentClient(service.transport(), wait_timeout=5) as client,
    ):
        thread = client.thread("t-1")
        await (await thread.send("a file")).wait_until_blocked()
        await thread.pending_actions[0].submit({"name": "a.pdf"})
        await first.reached("middle")

    second = MockLanguageModel([script.error("down")])
    async with (
        AgentService(answering(tools=TOOLS)(second), **stores) as service,
        AgentClient(service.transport(), wait_timeout=5) as client,
    ):
        thread = client.thread("t-1")
        await thread.refresh()
        state = await thread.run(thread.get_state().runs[0].run_id).wait_until_idle()

    assert state.error is not None
    assert (state.runs[0].status, state.error.operation) == ("failed", "resume")


async def test_a_service_that_is_opened_again_tells_what_becomes_of_its_runs() -> None:
    """MP-7."""
    boots: list[str] = []

    def boot(event: Any) -> None:
        boots.append(event.chat_id)
        if len(boots) == 2:
            raise ValueError("no place")

    agent = answering(on_boot=boot)(MockLanguageModel(script.text("one")))
    service = AgentService(agent, clock=VirtualClock())
    async with service, AgentClient(service.transport(), wait_timeout=5) as client:
        await (await client.thread("t-1").send("hi")).wait_until_idle()
    hosted_between = service.thread("t-1").hosted

    async with service, AgentClient(service.transport(), wait_timeout=5) as client:
        run = await client.thread("t-1").send("again")
        state = await run.wait_until_idle()

    assert hosted_between is None
    assert state.error is not None
    assert state.error.message == "no place"
