"""The sessions of a mock task context: how records are handed out (rules C-30 to C-37), and what writes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chatagent.errors import HarnessStateError, InputStreamTimeoutError, WaitpointTimeoutError
from chatagent.session import InMemorySessionStore, NewRecord, Session, SessionSpec
from chatagent_test import run_in_mock_task_context
from task_context.working import begin

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.session import Record, SuspendedWait
    from chatagent.tasks import OwnedTask
    from chatagent_test import TaskDrivers

pytestmark = pytest.mark.anyio


def data_of(result: Any) -> Any:
    return result.output.data if result.ok else result.error


async def test_a_record_goes_to_one_wait_the_oldest() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        waits = [await begin(Session("c").in_.once), await begin(Session("c").in_.once)]
        await drivers.sessions.in_.send("c", 1)
        first_alone = (waits[0].done or await _ends(waits[0]), waits[1].done)
        await drivers.sessions.in_.send("c", 2)
        return [first_alone, *[data_of(await wait.wait()) for wait in waits]]

    assert await run_in_mock_task_context(task) == [(True, False), 1, 2]


async def _ends(task: OwnedTask) -> bool:
    await task.join()
    return True


async def test_without_a_wait_it_goes_to_the_handlers_and_one_may_consume_it() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        session, seen = Session("c"), list[Any]()
        session.in_.on(lambda record: seen.append(record.data))
        session.in_.on(lambda record: record.data == "mine")
        await drivers.sessions.in_.send("c", "mine")
        await drivers.sessions.in_.send("c", "anybody's")
        return [seen, data_of(await session.in_.once(timeout=1)), (await session.in_.once(timeout=1)).ok]

    assert await run_in_mock_task_context(task) == [["mine", "anybody's"], "anybody's", False]


async def test_what_nobody_takes_is_kept_and_offered_to_new_handlers() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        await drivers.sessions.in_.send("c", 1)
        await drivers.sessions.in_.send("c", 2)
        session, offered = Session("c"), list[Any]()
        peeked = session.in_.peek()

        def take_the_first(record: Record) -> bool:
            offered.append(record.data)
            return record.data == 1

        session.in_.on(take_the_first)
        return [peeked and peeked.data, offered, data_of(await session.in_.once())]

    assert await run_in_mock_task_context(task) == [1, [1, 2], 2]


async def test_sessions_of_one_id_share_what_was_consumed() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        for number in (1, 2):
            await drivers.sessions.in_.send("c", number)
        return [data_of(await Session("c").in_.once()), data_of(await Session("c").in_.once())]

    assert await run_in_mock_task_context(task) == [1, 2]


async def test_send_waits_for_async_handlers() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        seen: list[Any] = []

        async def slow(record: Record) -> None:
            await drivers.clock.sleep(5)
            seen.append(record.data)

        Session("c").in_.on(slow)
        await drivers.sessions.in_.send("c", 1)
        return list(seen)

    assert await run_in_mock_task_context(task) == [1]


async def test_a_wait_that_begins_while_handlers_work_gets_the_record() -> None:
    async def task(drivers: TaskDrivers) -> Any:
        session, late = Session("c"), list[Any]()

        async def slow(_: Record) -> None:
            late.append(await begin(session.in_.once))

        session.in_.on(slow)
        await drivers.sessions.in_.send("c", 1)
        return data_of(await late[0].wait())

    assert await run_in_mock_task_context(task) == 1


async def test_closing_a_channel_ends_the_waits_that_are_on_with_a_timeout_error() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        session = Session("c")
        waits = [await begin(session.in_.once), await begin(session.in_.wait), await begin(session.out.once)]
        drivers.sessions.in_.close("c")
        errors = [data_of(await wait.wait()) for wait in waits[:2]]
        drivers.sessions.in_.close("c", io="out")
        errors.append(data_of(await waits[2].wait()))
        await drivers.sessions.in_.send("c", "later")
        return [*errors, data_of(await session.in_.once())]

    *errors, later = await run_in_mock_task_context(task)

    assert [type(error) for error in errors] == [
        InputStreamTimeoutError,
        WaitpointTimeoutError,
        InputStreamTimeoutError,
    ]
    assert [str(error) for error in errors] == [
        "session 'c': no record on `.in` before the wait was ended",
        "session 'c': no record on `.in` before the suspended wait was ended",
        "session 'c': no record on `.out` before the wait was ended",
    ]
    assert later == "later"


async def test_records_can_be_put_on_out_too() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        await drivers.sessions.in_.send("c", {"type": "start"}, io="out")
        return [data_of(await Session("c").out.once()), Session("c").in_.peek()]

    assert await run_in_mock_task_context(task) == [{"type": "start"}, None]


async def test_what_the_task_writes_to_out_is_seen() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        await Session("c").out.append({"type": "start"})
        await Session("c").out.append({"type": "finish"})
        await Session("c").in_.append({"kind": "stop"})
        return [drivers.sessions.out("c"), drivers.sessions.out("other"), data_of(await Session("c").in_.once())]

    assert await run_in_mock_task_context(task) == [[{"type": "start"}, {"type": "finish"}], [], {"kind": "stop"}]


async def test_a_suspended_wait_resumes_with_the_next_record_and_moves_both_cursors() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        session = Session("c")
        wait = await begin(lambda: session.in_.wait(timeout=60))
        await drivers.sessions.in_.send("c", 1)
        result = await wait.wait()
        return [data_of(result), session.in_.last_seq_num, session.in_.last_dispatched_seq_num]

    assert await run_in_mock_task_context(task) == [1, 0, 0]


async def test_a_runtime_manager_is_told_what_is_waited_for_and_decides() -> None:
    class NeverBack:
        def __init__(self) -> None:
            self.waits: list[SuspendedWait] = []

        async def suspend(self, wait: SuspendedWait, resume: Callable[[], Awaitable[Any]]) -> Any:
            self.waits.append(wait)
            return "put away for good"

    async def task(drivers: TaskDrivers) -> Any:
        await drivers.sessions.in_.send("c", 1)
        await Session("c").in_.once()
        await drivers.sessions.in_.send("c", 2)
        return await Session("c").in_.wait(timeout=60)

    manager = NeverBack()

    assert await run_in_mock_task_context(task, runtime_manager=manager) == "put away for good"
    (wait,) = manager.waits
    assert (wait.kind, wait.id, wait.direction, wait.last_seq_num, wait.timeout) == ("session", "c", "in", 1, 60)


async def test_a_session_store_of_the_tests_own_is_used_and_left_open() -> None:
    async with InMemorySessionStore() as store:
        await store.create_session(SessionSpec(session_id="c", task="test-task"))
        await store.append("c", "in", [NewRecord("from the store")])

        async def task(drivers: TaskDrivers) -> Any:
            with pytest.raises(HarnessStateError, match=r"^sessions\.in_\.send: this context has a session_stream_man"):
                await drivers.sessions.in_.send("c", 1)
            return data_of(await Session("c").in_.once())

        assert await run_in_mock_task_context(task, session_stream_manager=store) == "from the store"
        assert await store.get_session("c") is not None
