"""Appending to and reading from the two logs of a session in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from chatagent.errors import (
    InvalidArgumentError,
    LeaseLostError,
    RecordTooLargeError,
    SessionNotFoundError,
    StoreClosedError,
)
from chatagent.session import (
    InMemorySessionStore,
    NewRecord,
    Record,
    RunRequest,
    SessionSpec,
    control_record,
    trim_record,
)
from chatagent.ui import TextDelta
from chatagent_test.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from chatagent.session import Direction, RecordPage

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store() -> AsyncIterator[InMemorySessionStore]:
    """A store with the session `c`, whose run of epoch 1 is pending."""
    async with InMemorySessionStore(clock=VirtualClock()) as opened:
        await opened.create_session(SessionSpec(session_id="c", task="agent"), run=RunRequest("initial"))
        yield opened


def numbers(records: Sequence[Record]) -> list[int]:
    return [record.seq for record in records]


def data(*values: object) -> list[NewRecord]:
    return [NewRecord(value) for value in values]


async def out(store: InMemorySessionStore, *records: NewRecord, epoch: int = 1, **options: Any) -> int:
    return (await store.append("c", "out", records, epoch=epoch, **options)).last


async def test_each_log_counts_from_zero(store: InMemorySessionStore) -> None:
    await store.create_session(SessionSpec(session_id="d", task="agent"), run=RunRequest("initial"))

    acks = [
        await store.append("c", "in", data(1)),
        await store.append("c", "out", data(1, 2), epoch=1),
        await store.append("c", "in", data(2)),
        await store.append("d", "in", data(1)),
        await store.append("c", "out", data(3), epoch=1),
    ]

    assert [(ack.first, ack.last) for ack in acks] == [(0, 0), (0, 1), (1, 1), (0, 0), (2, 2)]


async def test_numbers_go_on_after_reopening() -> None:
    store = InMemorySessionStore()
    async with store:
        await store.create_session(SessionSpec(session_id="c", task="agent"))
        await store.append("c", "in", data(1, 2))

    async with store:
        ack = await store.append("c", "in", data(3))

    assert ack.first == 2


async def test_a_batch_stays_together_beside_others(store: InMemorySessionStore) -> None:
    async def write(task: int) -> None:
        for batch in range(3):
            await store.append("c", "in", data(*[(task, batch, each) for each in range(5)]))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        for task in range(50):
            tasks.start_soon(write, task)
    page = await store.read("c", "in")

    values: list[Any] = [record.data for record in page.records]
    assert numbers(page.records) == list(range(750))
    assert all(values[at : at + 5] == [(*values[at][:2], each) for each in range(5)] for at in range(0, 750, 5))
    assert all([b for t, b, e in values if t == task and e == 0] == [0, 1, 2] for task in range(50))


async def test_an_empty_batch_is_refused(store: InMemorySessionStore) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`records` is \[\]: a batch has one record at least$"):
        await store.append("c", "in", [])


@pytest.mark.parametrize(
    ("batch", "field"),
    [
        (data("a", "x" * (1 << 20), "b"), "records[1].data"),
        (data("a", "é" * (1 << 19), "b"), "records[1].data"),
        (data(*range(1001)), "records"),
        (data(*["x" * 1_000_000] * 5), "the batch"),
        ([NewRecord("a", (("h", ""),) * 33)], "records[0].headers"),
        ([NewRecord("a", (("h", "x" * 1024),))], "records[0].headers[0]"),
    ],
)
async def test_what_is_above_a_limit_leaves_nothing_behind(
    store: InMemorySessionStore, batch: list[NewRecord], field: str
) -> None:
    with pytest.raises(RecordTooLargeError) as caught:
        await store.append("c", "in", batch)

    assert caught.value.field == field
    assert (await store.append("c", "in", data(1))).first == 0


async def test_what_is_just_below_the_limits_is_taken(store: InMemorySessionStore) -> None:
    longest = (1 << 20) - 8 - len('{"data":""}')

    await store.append("c", "in", data("x" * longest))
    await store.append("c", "out", data("x" * longest), epoch=1)
    await store.append("c", "in", data(*range(1000)))
    await store.append("c", "in", [NewRecord("a", (("h", "x" * 1023),) * 32)])
    with pytest.raises(RecordTooLargeError):
        await store.append("c", "out", data("x" * (longest + 1)), epoch=1)


async def test_values_headers_and_ids_are_read_back_as_they_were(store: InMemorySessionStore) -> None:
    chunk = TextDelta(id="t", delta="\ud83d", extra={"new": [1, None]})
    records = [
        NewRecord({"n": 2**80, "s": "\udc00", "unknown": {"deep": [1.5, True, None]}}, (("a", "1"), ("a", "2"))),
        NewRecord('{"kind":"stop"}'),
        NewRecord(chunk, (("turn-in-event-id", "0"),), "p1"),
        control_record("turn-complete"),
        NewRecord(None, (("", "fence"), ("", ""))),
    ]

    await out(store, *records)
    page = await store.read("c", "out")

    assert [(each.data, each.headers, each.id) for each in page.records] == [
        (each.data, each.headers, each.id) for each in records
    ]
    assert page.records[2].data is chunk


@pytest.mark.parametrize("direction", ["in", "out"])
async def test_what_json_cannot_hold_is_refused(store: InMemorySessionStore, direction: Direction) -> None:
    epoch = 1 if direction == "out" else None

    for batch in (data({"a": float("nan")}), data(1, {"a": [b"x"]})):
        with pytest.raises(InvalidArgumentError, match=r"^`records\[\d\]\.data\.a"):
            await store.append("c", direction, batch, epoch=epoch)

    assert (await store.read("c", direction)).next == 0


async def test_an_instant_is_the_stores_clock(store: InMemorySessionStore) -> None:
    await out(store, *data("x"))

    assert (await store.read("c", "out")).records[0].appended_at == VirtualClock().now()


async def test_each_log_refuses_the_arguments_of_the_other(store: InMemorySessionStore) -> None:
    with pytest.raises(InvalidArgumentError, match=r"`epoch` is None: an append to `\.out` gives its run's epoch"):
        await store.append("c", "out", data(1))
    with pytest.raises(InvalidArgumentError, match=r"`epoch` is 1: only an append to `\.out` takes it"):
        await store.append("c", "in", data(1), epoch=1)
    with pytest.raises(InvalidArgumentError, match=r"`commit_in` is 0: only an append to `\.out` takes it"):
        await store.append("c", "in", data(1), commit_in=0)
    with pytest.raises(InvalidArgumentError, match=r"only an append to `\.in` asks for a run"):
        await store.append("c", "out", data(1), epoch=1, run=RunRequest("continuation"))
    with pytest.raises(InvalidArgumentError, match=r"`\.in` is trimmed by `compact` alone"):
        await store.append("c", "in", [trim_record(before=0)])


async def test_an_epoch_that_may_not_write_changes_nothing(store: InMemorySessionStore) -> None:
    for batch in (data("chunk"), [control_record("turn-complete")], [trim_record(before=0)], data(1, 2)):
        with pytest.raises(LeaseLostError) as caught:
            await store.append("c", "out", batch, epoch=7)
        assert (caught.value.epoch, caught.value.current_epoch) == (7, 1)

    assert (await store.read("c", "out")).next == 0


async def test_a_session_without_a_run_is_written_by_nobody() -> None:
    async with InMemorySessionStore() as store:
        await store.create_session(SessionSpec(session_id="c", task="agent"))

        for epoch in (-1, 0, 1):
            with pytest.raises(LeaseLostError):
                store.append_nowait("c", "out", data("x"), epoch=epoch)


# --- keys ---


async def test_a_key_stores_its_batch_once(store: InMemorySessionStore) -> None:
    """ST-27, F-12."""
    first = await store.append("c", "in", data("a", "b"), key="k")
    repeat = await store.append("c", "in", data("something else"), key="k")
    other = await store.append("c", "in", data("c"), key="k2")
    on_out = await store.append("c", "out", data("d"), epoch=1, key="k")

    assert (first.first, first.last, first.duplicate) == (0, 1, False)
    assert (repeat.first, repeat.last, repeat.duplicate) == (0, 1, True)
    assert (other.first, other.duplicate) == (2, False)
    assert (on_out.first, on_out.duplicate) == (0, False)


async def test_of_twenty_appends_with_one_key_one_stores(store: InMemorySessionStore) -> None:
    acks: list[bool] = []
    async with store.handle() as other:

        async def send(handle: InMemorySessionStore) -> None:
            acks.append((await handle.append("c", "in", data("x"), key="k")).duplicate)

        async with anyio.create_task_group() as tasks:
            for each in range(20):
                tasks.start_soon(send, other if each % 2 else store)

    assert sorted(acks) == [False] + [True] * 19
    assert (await store.read("c", "in")).next == 1


async def test_keys_of_out_end_with_their_epoch_and_keys_of_in_after_a_day() -> None:
    clock = VirtualClock()
    async with InMemorySessionStore(clock=clock) as store:
        await store.create_session(SessionSpec(session_id="c", task="agent"), run=RunRequest("initial"))
        await store.append("c", "in", data("x"), key="k")
        await store.append("c", "out", data("x"), epoch=1, key="k")
        store.revoke("c")
        await store.ensure_run("c", RunRequest("continuation"))

        of_out = await store.append("c", "out", data("x"), epoch=2, key="k")
        clock.advance(86399)
        of_in = await store.append("c", "in", data("x"), key="k")
        clock.advance(2)
        later = await store.append("c", "in", data("x"), key="k")

    assert not of_out.duplicate
    assert of_in.duplicate
    assert not later.duplicate


async def test_a_key_has_1_to_128_characters(store: InMemorySessionStore) -> None:
    for key in ("", "k" * 129):
        with pytest.raises(InvalidArgumentError, match="a key has 1 to 128 characters"):
            await store.append("c", "in", data("x"), key=key)


# --- reading ---


async def test_a_page_begins_above_the_cursor(store: InMemorySessionStore) -> None:
    await out(store, *data(*"abcdefghij"))

    async def read(**options: Any) -> list[int]:
        return numbers((await store.read("c", "out", **options)).records)

    assert await read() == list(range(10))
    assert await read(after=-1) == list(range(10))
    assert await read(after=4) == [5, 6, 7, 8, 9]
    assert await read(after=8) == [9]
    assert await read(after=9) == []
    assert await read(after=100) == []
    assert await read(after=2, limit=3) == [3, 4, 5]
    assert await read(after=2, max_bytes=1) == [3]


async def test_a_page_is_about_as_large_as_asked(store: InMemorySessionStore) -> None:
    await out(store, *data(*["x" * 1000] * 20))

    page = await store.read("c", "out", max_bytes=5500)

    assert len(page.records) == 5
    assert (page.next, page.first_kept) == (20, 0)


async def test_reading_an_unknown_session_is_an_error(store: InMemorySessionStore) -> None:
    with pytest.raises(SessionNotFoundError, match="session 'x' is not in the store"):
        await store.read("x", "out")
    with pytest.raises(SessionNotFoundError):
        await store.append("x", "in", data(1))
    with pytest.raises(InvalidArgumentError, match="`limit` is 0"):
        await store.read("c", "out", limit=0)


async def test_a_closed_store_says_so() -> None:
    store = InMemorySessionStore()

    with pytest.raises(StoreClosedError, match="not open: use it inside `async with store:`"):
        await store.create_session(SessionSpec(session_id="c", task="agent"))
    with pytest.raises(StoreClosedError):
        store.append_nowait("c", "out", data(1), epoch=1)
    with pytest.raises(StoreClosedError):
        await store.read("c", "out")


# --- trim ---


async def test_a_trim_is_a_record_and_removes_what_lies_below(store: InMemorySessionStore) -> None:
    await out(store, *data("a", "b"), control_record("turn-complete"), *data("c"))

    number = await out(store, trim_record(before=2))
    page = await store.read("c", "out")
    clamped = await store.read("c", "out", after=0)

    assert number == 4
    assert numbers(page.records) == numbers(clamped.records) == [2, 3, 4]
    assert page.records[-1].headers == (("", "trim"),)
    assert (page.next, page.first_kept) == (5, 2)


async def test_a_trim_backwards_or_above_its_own_number_removes_nothing(store: InMemorySessionStore) -> None:
    await out(store, *data("a", "b", "c"), trim_record(before=2))

    for before in (2, 1, 0, 8, 100):
        await out(store, trim_record(before=before))
        assert (await store.read("c", "out")).first_kept == 2

    await out(store, trim_record(before=9))
    assert numbers((await store.read("c", "out")).records) == [9]


async def test_a_follower_sees_no_hole_while_the_log_is_trimmed(store: InMemorySessionStore) -> None:
    seen: list[int] = []

    async def write() -> None:
        last = -1
        for turn in range(1000):
            number = await out(store, *data(turn, turn), control_record("turn-complete"))
            if last >= 0:
                await out(store, trim_record(before=last))
            last = number
            if turn % 7 == 0:
                await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks, store.follow("c", "out") as pages:
        tasks.start_soon(write)
        async for page in pages:
            got = numbers(page.records)
            assert got == list(range(got[0], got[0] + len(got)))
            assert got[0] == max(page.first_kept, seen[-1] + 1 if seen else 0)
            seen += got
            if seen[-1] == 3998:
                break

    assert seen == sorted(set(seen))


async def test_compacting_removes_old_input_that_is_dealt_with() -> None:
    clock = VirtualClock()
    async with InMemorySessionStore(clock=clock) as store:
        await store.create_session(SessionSpec(session_id="c", task="agent"), run=RunRequest("initial"))
        await store.append("c", "in", data("a", "b"), key="k")
        clock.advance(100)
        await store.append("c", "in", data("c", "d"))
        await store.append("c", "out", [control_record("turn-complete")], epoch=1, commit_in=2)

        young = await store.compact(older_than=200)
        old = await store.compact(older_than=50)
        clock.advance(100)
        rest = await store.compact(older_than=50)
        page = await store.read("c", "in")
        repeat = await store.append("c", "in", data("a", "b"), key="k")

    assert (young, old, rest) == (0, 2, 1)
    assert numbers(page.records) == [3]
    assert (repeat.first, repeat.duplicate) == (0, True)


# --- following ---


async def test_following_yields_what_is_there_and_then_what_comes(store: InMemorySessionStore) -> None:
    await out(store, *data("a", "b", "c"))
    pages: list[RecordPage] = []

    async with anyio.create_task_group() as tasks, store.handle() as other, store.follow("c", "out", after=0) as follow:
        pages.append(await anext(follow))
        tasks.start_soon(other_append, other)
        pages.append(await anext(follow))

    assert [numbers(page.records) for page in pages] == [[1, 2], [3]]


async def other_append(store: InMemorySessionStore) -> None:
    await out(store, *data("d"))


async def test_following_from_the_future_begins_there(store: InMemorySessionStore) -> None:
    async with anyio.create_task_group() as tasks, store.follow("c", "out", after=2) as pages:

        async def write() -> None:
            for each in range(5):
                await out(store, *data(each))

        tasks.start_soon(write)
        page = await anext(pages)
        assert numbers(page.records) == [3, 4]


async def test_two_hundred_followers_get_all_of_their_logs(store: InMemorySessionStore) -> None:
    names = [f"s{each}" for each in range(200)]
    got: dict[str, list[object]] = {name: [] for name in names}

    async def read(name: str) -> None:
        async with store.follow(name, "in") as pages:
            async for page in pages:
                got[name] += [record.data for record in page.records]
                if len(got[name]) == 20:
                    return

    async with store.handle() as other, anyio.create_task_group() as tasks:
        for name in names:
            await store.create_session(SessionSpec(session_id=name, task="agent"))
            tasks.start_soon(read, name)
        await anyio.lowlevel.checkpoint()
        for each in range(20):
            for name in names:
                (other if each % 2 else store).append_nowait(name, "in", data(each))
            await anyio.lowlevel.checkpoint()

    assert all(values == list(range(20)) for values in got.values())


async def test_cancelling_a_waiting_follower_loses_nothing(store: InMemorySessionStore) -> None:
    seen: list[int] = []
    writing = anyio.Event()

    async def write() -> None:
        for each in range(300):
            await out(store, *data(each))
            await anyio.lowlevel.checkpoint()
        writing.set()

    async def read_some(scope: anyio.CancelScope) -> None:
        with scope:
            async with store.follow("c", "out", after=seen[-1] if seen else None) as pages:
                async for page in pages:
                    seen.extend(numbers(page.records))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        for _ in range(100):
            scope = anyio.CancelScope()
            async with anyio.create_task_group() as readers:
                readers.start_soon(read_some, scope)
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
                scope.cancel()
        await writing.wait()
    seen += numbers((await store.read("c", "out", after=seen[-1])).records)

    assert seen == list(range(300))


async def test_a_reader_that_stops_asking_gets_all_of_it_later(store: InMemorySessionStore) -> None:
    seen: list[int] = []
    async with store.follow("c", "out") as pages:
        for each in range(5000):
            await out(store, *data(each))

        while len(seen) < 5000:
            page = await anext(pages)
            assert len(page.records) <= 1000
            seen += numbers(page.records)

    assert seen == list(range(5000))


async def test_deleting_the_session_ends_its_followers(store: InMemorySessionStore) -> None:
    async def read() -> None:
        with pytest.raises(SessionNotFoundError):
            async with store.follow("c", "out") as pages:
                await anext(pages)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        await store.delete_session("c")
        await store.create_session(SessionSpec(session_id="c", task="agent"))


async def test_closing_a_handle_ends_those_who_wait_in_it(store: InMemorySessionStore) -> None:
    other = store.handle()

    async def read(handle: InMemorySessionStore) -> None:
        with pytest.raises(StoreClosedError):
            async with handle.follow("c", "out") as pages:
                await anext(pages)

    async with anyio.create_task_group() as tasks, other:
        tasks.start_soon(read, other)
        await anyio.wait_all_tasks_blocked()

    assert (await store.append("c", "out", data("x"), epoch=1)).first == 0


# --- observing ---


async def test_an_observer_sees_every_record_before_a_trim_removes_it(store: InMemorySessionStore) -> None:
    seen: list[tuple[str, str, list[int]]] = []
    kept: list[int] = []

    def observe(session_id: str, direction: Direction, records: tuple[Record, ...]) -> None:
        seen.append((session_id, direction, numbers(records)))
        kept.append(len(store._sessions["c"].out.records))  # pyright: ignore[reportPrivateUsage]

    unsubscribe = store.observe(observe)
    async with store.handle() as other:
        store.append_nowait("c", "out", data("a"), epoch=1)
        await other.append("c", "out", [*data("b"), control_record("turn-complete")], epoch=1)
        await store.append("c", "in", data("m"))
        await store.append("c", "out", [trim_record(before=3)], epoch=1)
        unsubscribe()
        unsubscribe()
        await store.append("c", "in", data("m"))

    assert seen == [("c", "out", [0]), ("c", "out", [1, 2]), ("c", "in", [0]), ("c", "out", [3])]
    assert kept == [1, 3, 3, 4]
    assert (await store.read("c", "out")).first_kept == 3


async def test_following_can_be_ended_from_outside_while_it_waits(store: InMemorySessionStore) -> None:
    seen: list[int] = []
    async with store.follow("c", "out") as pages, anyio.create_task_group() as tasks:

        async def read() -> None:
            async for page in pages:
                seen.extend(numbers(page.records))

        tasks.start_soon(read)
        await out(store, *data("a", "b"))
        await anyio.wait_all_tasks_blocked()
        pages.stop()
    await out(store, *data("c"))

    assert seen == [0, 1]
