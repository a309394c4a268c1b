"""The writer of a log, over a store that appends at once and over one that must be waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.lowlevel
import pytest

from chatagent.current import current_run
from chatagent.errors import InvalidArgumentError, LeaseLostError, RecordTooLargeError, StoreClosedError
from chatagent.session import (
    AppendAck,
    ChannelWriter,
    InMemorySessionStore,
    NewRecord,
    RunRequest,
    SessionSpec,
    control_record,
)
from chatagent.tasks import TaskSet
from chatagent.waiting import Gate
from chatagent_test.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from chatagent.session import SessionStore

pytestmark = pytest.mark.anyio


class SlowStore:
    """Appends only while its gate is open, as a store on a disk would: no `append_nowait`."""

    def __init__(self) -> None:
        self.gate = Gate("the disk")
        self.batches: list[list[object]] = []
        self.options: list[dict[str, Any]] = []
        self.under_way = self.most_under_way = 0
        self.failure: Exception | None = None

    async def append(self, session_id: str, direction: str, records: Sequence[NewRecord], **options: Any) -> AppendAck:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await anyio.lowlevel.checkpoint()
            await self.gate.wait()
            if self.failure is not None:
                raise self.failure
        finally:
            self.under_way -= 1
        first = sum(len(batch) for batch in self.batches)
        self.batches.append([record.data for record in records])
        self.options.append(options)
        return AppendAck(first, first + len(records) - 1)

    @property
    def data(self) -> list[object]:
        return [each for batch in self.batches for each in batch]


@pytest.fixture
async def memory() -> AsyncIterator[InMemorySessionStore]:
    async with InMemorySessionStore() as store:
        await store.create_session(SessionSpec(session_id="c", task="agent"), run=RunRequest("initial"))
        yield store


@pytest.fixture
def slow() -> SlowStore:
    return SlowStore()


def slow_writer(store: SlowStore, **options: Any) -> ChannelWriter:
    return ChannelWriter(cast("SessionStore", store), "c", epoch=1, **options)


# --- a store that appends at once ---


async def test_a_number_is_known_at_once_where_the_store_needs_no_waiting(memory: InMemorySessionStore) -> None:
    writer = ChannelWriter(memory, "c", epoch=1)

    none = await writer.flush()
    numbers = [writer.write(NewRecord(each)) for each in range(3)]
    await writer.ready()

    assert (none, numbers, await writer.flush()) == (-1, [0, 1, 2], 2)
    assert [record.data for record in (await memory.read("c", "out")).records] == [0, 1, 2]


async def test_a_commit_goes_with_its_record(memory: InMemorySessionStore) -> None:
    await memory.append("c", "in", [NewRecord("m")])
    writer = ChannelWriter(memory, "c", epoch=1)

    writer.write(control_record("turn-complete", session_in_event_id=0), commit_in=0)
    info = await memory.get_session("c")

    assert info is not None
    assert info.in_committed == 0


async def test_a_lost_lease_fails_the_writer(memory: InMemorySessionStore) -> None:
    writer = ChannelWriter(memory, "c", epoch=1)
    writer.write(NewRecord("a"))
    memory.revoke("c")

    with pytest.raises(LeaseLostError):
        writer.write(NewRecord("b"))
    await memory.ensure_run("c", RunRequest("continuation"))

    with pytest.raises(LeaseLostError):
        writer.write(NewRecord("c"))
    with pytest.raises(LeaseLostError):
        await writer.flush()
    with pytest.raises(LeaseLostError):
        await writer.ready()
    assert (await memory.read("c", "out")).next == 1


async def test_a_record_that_no_store_takes_is_refused_and_the_writer_lives(memory: InMemorySessionStore) -> None:
    slow = SlowStore()
    slow.gate.open()

    for writer in (ChannelWriter(memory, "c", epoch=1), slow_writer(slow)):
        with pytest.raises(InvalidArgumentError):
            writer.write(NewRecord(float("nan")))
        with pytest.raises(RecordTooLargeError):
            writer.write(NewRecord("x" * (1 << 20)))
        writer.write(NewRecord("a"))
        assert await writer.flush() == 0


async def test_a_writer_of_in_needs_no_epoch(memory: InMemorySessionStore) -> None:
    assert ChannelWriter(memory, "c", "in").write(NewRecord({"kind": "stop"})) == 0


# --- a store that must be waited for ---


async def test_what_is_written_meanwhile_forms_the_next_batch(slow: SlowStore) -> None:
    writer = slow_writer(slow)

    assert writer.write(NewRecord(0)) is None
    await anyio.wait_all_tasks_blocked()
    for each in range(1, 11):
        writer.write(NewRecord(each))
    await anyio.wait_all_tasks_blocked()
    slow.gate.open()
    last = await writer.flush()

    assert last == 10
    assert slow.batches == [[0], list(range(1, 11))]
    assert [(each["epoch"], each["key"], each["commit_in"]) for each in slow.options] == [
        (1, "1.0", None),
        (1, "1.1", None),
    ]


async def test_ten_thousand_chunks_keep_their_order_one_append_at_a_time(slow: SlowStore) -> None:
    writer = slow_writer(slow)
    slow.gate.open()

    for each in range(10_000):
        writer.write(NewRecord(each))
        if each % 100 == 0:
            await writer.ready()
    last = await writer.flush()

    assert last == 9_999
    assert slow.data == list(range(10_000))
    assert slow.most_under_way == 1
    assert max(len(batch) for batch in slow.batches) > 50


async def test_a_batch_keeps_to_the_limits_and_to_one_commit(slow: SlowStore) -> None:
    writer = slow_writer(slow)
    slow.gate.open()

    for each in range(1500):
        writer.write(NewRecord(each))
    for _ in range(3):
        writer.write(NewRecord("x" * 300_000))
    writer.write(NewRecord("done"), commit_in=4)
    writer.write(NewRecord("done too"), commit_in=5)
    await writer.flush()

    assert [len(batch) for batch in slow.batches] == [1000, 502, 2, 1]
    assert [each["commit_in"] for each in slow.options] == [None, None, 4, 5]


async def test_ready_holds_the_producer_back(slow: SlowStore) -> None:
    writer = slow_writer(slow)
    produced = 0

    async def produce(size: int) -> None:
        nonlocal produced
        while True:
            writer.write(NewRecord("x" * size))
            produced += 1
            await writer.ready()

    for size, most in ((1, 257), (10_000, 27)):
        produced = 0
        slow.gate = Gate("the disk")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(produce, size)
            await anyio.wait_all_tasks_blocked()
            assert produced == most
            tasks.cancel_scope.cancel()
        slow.gate.open()
        await writer.flush()


async def test_ready_goes_on_when_there_is_room(slow: SlowStore) -> None:
    writer = slow_writer(slow)
    for each in range(300):
        writer.write(NewRecord(each))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.ready)
        await anyio.wait_all_tasks_blocked()
        slow.gate.open()

    assert slow.batches


async def test_a_failed_append_fails_the_writer_and_nothing_after_it_is_tried(slow: SlowStore) -> None:
    writer = slow_writer(slow)
    slow.failure = LeaseLostError(session_id="c", epoch=1, current_epoch=2)
    writer.write(NewRecord("a"))
    await anyio.wait_all_tasks_blocked()
    writer.write(NewRecord("b"))
    errors: list[BaseException] = []

    async def expect(wait: Any) -> None:
        with pytest.raises(LeaseLostError) as caught:
            await wait()
        errors.append(caught.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(expect, writer.flush)
        await anyio.wait_all_tasks_blocked()
        slow.gate.open()
    slow.failure = None

    await expect(writer.flush)
    await expect(writer.ready)
    with pytest.raises(LeaseLostError):
        writer.write(NewRecord("c"))
    assert errors == [writer.error] * 3
    assert slow.batches == []


async def test_cancelling_a_flush_loses_nothing(slow: SlowStore) -> None:
    writer = slow_writer(slow)
    writer.write(NewRecord("a"))

    with anyio.CancelScope() as scope:
        scope.cancel()
        await writer.flush()
    slow.gate.open()

    assert scope.cancelled_caught
    assert await writer.flush() == 0
    assert slow.data == ["a"]


async def test_linger_holds_a_batch_back(slow: SlowStore) -> None:
    clock = VirtualClock()
    writer = slow_writer(slow, linger=0.05, clock=clock)
    slow.gate.open()

    writer.write(NewRecord("a"))
    await clock.wait_sleeping(1)
    writer.write(NewRecord("b"))
    clock.advance(0.04)
    await anyio.wait_all_tasks_blocked()
    early = list(slow.batches)
    clock.advance(0.02)
    await writer.flush()

    assert (early, slow.batches) == ([], [["a", "b"]])


async def test_writers_of_one_epoch_tell_their_batches_apart(slow: SlowStore) -> None:
    slow.gate.open()
    for writer in (slow_writer(slow), slow_writer(slow, name="bridge"), ChannelWriter(cast("Any", slow), "c", "in")):
        writer.write(NewRecord("x"))
        await writer.flush()

    assert [each["key"] for each in slow.options] == ["1.0", "1.bridge.0", None]


async def test_a_writers_task_ends_with_its_owner(slow: SlowStore) -> None:
    tasks = TaskSet()
    writer = slow_writer(slow, tasks=tasks)
    writer.write(NewRecord("a"))
    await anyio.wait_all_tasks_blocked()
    assert len(tasks.active) == 1

    await tasks.close()

    with pytest.raises(StoreClosedError, match="was stopped"):
        await writer.flush()
    assert slow.batches == []


async def test_a_closed_writer_writes_no_more(slow: SlowStore, memory: InMemorySessionStore) -> None:
    for writer in (slow_writer(slow), ChannelWriter(memory, "c", epoch=1)):
        writer.write(NewRecord("a"))
        await writer.close()

        with pytest.raises(StoreClosedError, match=r"is closed|was stopped"):
            writer.write(NewRecord("b"))

    assert slow.batches == []
    assert (await memory.read("c", "out")).next == 1


class OneRun:
    """As much of a run as the waiters ask for."""

    def __init__(self, tasks: TaskSet) -> None:
        self.ledger = tasks.ledger


async def test_a_task_of_the_run_that_waits_for_the_writer_says_so(slow: SlowStore) -> None:
    tasks = TaskSet()
    token = current_run.set(cast("Any", OneRun(tasks)))
    writer = slow_writer(slow, tasks=tasks)
    writer.write(NewRecord("a"))
    flush = tasks.start(writer.flush, name="a flush")
    current_run.reset(token)
    await anyio.wait_all_tasks_blocked()

    labels = {waiter.label for waiter in tasks.ledger.parked}
    slow.gate.open()
    await flush.wait()
    await tasks.close()

    assert labels == {"the flush of .out of session 'c'", "the disk"}
