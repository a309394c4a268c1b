"""The clock that moves only when it is told to."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.errors import InvalidArgumentError
from chatagent_test.clock import EPOCH, VirtualClock
from ground.fake_run import a_run


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_it_begins_with_the_year_2025(clock: VirtualClock) -> None:
    assert clock.now() == EPOCH == 1735689600.0
    assert VirtualClock(start=5.0).now() == 5.0


@pytest.mark.anyio
async def test_a_sleeper_wakes_at_its_deadline_and_not_before(clock: VirtualClock) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.sleep, 3600.0)
        await clock.wait_sleeping(1)

        clock.advance(3599.0)
        assert clock.sleeping == 1

        clock.advance(1.0)
        assert clock.sleeping == 0


@pytest.mark.anyio
async def test_sleepers_go_on_only_when_the_one_who_moved_the_clock_waits(clock: VirtualClock) -> None:
    woken: list[float] = []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(clock.now())

    async with anyio.create_task_group() as tasks:
        for seconds in (3.0, 1.0, 2.0):
            tasks.start_soon(sleep, seconds)
        await clock.wait_sleeping(3)
        clock.advance(2.0)
        assert woken == []
        await anyio.wait_all_tasks_blocked()
        assert woken == [EPOCH + 2, EPOCH + 2]
        clock.advance(1.0)

    assert woken == [EPOCH + 2, EPOCH + 2, EPOCH + 3]


@pytest.mark.anyio
async def test_a_cancelled_sleeper_leaves_the_clock(clock: VirtualClock) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.sleep, 5.0)
        tasks.start_soon(clock.sleep, 6.0)
        await clock.wait_sleeping(2)
        tasks.cancel_scope.cancel()

    assert (clock.sleeping, clock.pending, clock.next_deadline()) == (0, [], None)


@pytest.mark.anyio
async def test_a_sleeper_that_is_woken_and_cancelled_at_once_is_counted_once(clock: VirtualClock) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.sleep, 5.0)
        await clock.wait_sleeping(1)
        clock.advance(5.0)
        tasks.cancel_scope.cancel()

    assert clock.sleeping == 0


@pytest.mark.anyio
async def test_waiting_for_sleepers_ends_when_there_are_enough(clock: VirtualClock) -> None:
    reached: list[int] = []

    async def wait(count: int) -> None:
        await clock.wait_sleeping(count)
        reached.append(count)

    async with anyio.create_task_group() as tasks:
        for count in (0, 1, 2):
            tasks.start_soon(wait, count)
        tasks.start_soon(clock.sleep, 1.0)
        await anyio.wait_all_tasks_blocked()
        assert sorted(reached) == [0, 1]
        tasks.start_soon(clock.sleep, 1.0)
        await anyio.wait_all_tasks_blocked()
        clock.advance(1.0)

    assert sorted(reached) == [0, 1, 2]


@pytest.mark.anyio
async def test_a_cancelled_wait_for_sleepers_is_forgotten(clock: VirtualClock) -> None:
    with anyio.move_on_after(0):
        await clock.wait_sleeping(1)

    assert clock._watchers == []  # pyright: ignore[reportPrivateUsage]


@pytest.mark.anyio
async def test_a_sleep_without_end_is_never_a_deadline(clock: VirtualClock) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.sleep, float("inf"))
        await clock.wait_sleeping(1)
        assert clock.next_deadline() is None
        clock.advance(1e9)
        assert clock.sleeping == 1
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_sleeping_task_says_until_when() -> None:
    async with a_run(VirtualClock(start=100.0)) as run:
        run.start(lambda: run.clock.sleep(7.5))
        await run.settled()

        assert [waiter.label for waiter in run.ledger.parked] == ["a sleep until 7.5 s after the clock's start"]


def test_callbacks_come_in_the_order_of_their_deadlines_and_then_of_their_making(clock: VirtualClock) -> None:
    called: list[tuple[str, float]] = []
    for name, seconds in (("late", 5.0), ("early", 1.0), ("late too", 5.0), ("never", 9.0)):
        clock.call_at(EPOCH + seconds, lambda name=name: called.append((name, clock.now() - EPOCH)), kind="sleep")

    clock.advance(6.0)

    assert called == [("early", 1.0), ("late", 5.0), ("late too", 5.0)]
    assert clock.now() == EPOCH + 6


def test_a_callback_may_set_deadlines_that_fall_into_the_same_move(clock: VirtualClock) -> None:
    called: list[float] = []

    def again() -> None:
        called.append(clock.now() - EPOCH)
        clock.call_at(clock.now() + 1.0, again, kind="limit")

    clock.call_at(EPOCH + 1.0, again, kind="limit")
    clock.advance(3.5)

    assert called == [1.0, 2.0, 3.0]
    assert clock.pending == [(0.5, "limit")]


def test_a_callback_may_take_another_back(clock: VirtualClock) -> None:
    called: list[str] = []
    take_back = clock.call_at(EPOCH + 2.0, lambda: called.append("second"), kind="limit")
    clock.call_at(EPOCH + 1.0, take_back, kind="limit")

    clock.advance(3.0)
    take_back()

    assert called == []
    assert clock.pending == []


def test_a_callback_that_fails_leaves_the_clock_sound(clock: VirtualClock) -> None:
    called: list[str] = []

    def fail() -> None:
        raise ValueError("broken")

    clock.call_at(EPOCH + 1.0, fail, kind="limit")
    clock.call_at(EPOCH + 2.0, lambda: called.append("second"), kind="limit")
    with pytest.raises(ValueError, match=r"^broken$"):
        clock.advance(5.0)
    stopped_at = clock.now()
    clock.advance(4.0)

    assert stopped_at == EPOCH + 1
    assert (clock.now(), called) == (EPOCH + 5, ["second"])


def test_a_deadline_that_is_past_calls_at_the_next_move_and_turns_no_time_back(clock: VirtualClock) -> None:
    called: list[float] = []
    clock.advance(10.0)
    clock.call_at(EPOCH + 5.0, lambda: called.append(clock.now()), kind="limit")

    clock.advance(0.0)

    assert called == [EPOCH + 10]


def test_deadlines_are_told_apart_by_kind(clock: VirtualClock) -> None:
    clock.call_at(EPOCH + 1.0, lambda: None, kind="wait")
    clock.call_at(EPOCH + 2.0, lambda: None, kind="limit")
    clock.call_at(EPOCH + 3.0, lambda: None, kind="sleep")

    assert clock.pending == [(1.0, "wait"), (2.0, "limit"), (3.0, "sleep")]
    assert clock.next_deadline() == EPOCH + 1
    assert clock.next_deadline(("sleep", "limit")) == EPOCH + 2
    assert clock.next_deadline(("sleep",)) == EPOCH + 3
    clock.advance(2.5)
    assert clock.next_deadline(("limit",)) is None


@pytest.mark.parametrize(
    ("seconds", "problem"),
    [
        (-0.001, "time does not go backwards"),
        (float("-inf"), "time does not go backwards"),
        (float("inf"), "time goes on step by finite step"),
        (float("nan"), "time goes on step by finite step"),
    ],
)
def test_time_goes_on_by_a_finite_step(clock: VirtualClock, seconds: float, problem: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        clock.advance(seconds)

    assert str(caught.value) == f"`seconds` is {seconds}: {problem}"
    assert clock.now() == EPOCH


def test_moving_to_an_instant_that_is_past_leaves_the_time_as_it_is(clock: VirtualClock) -> None:
    clock.advance(10.0)

    clock.move_to(EPOCH + 5)

    assert clock.now() == EPOCH + 10


def test_deadlines_that_were_taken_back_do_not_pile_up(clock: VirtualClock) -> None:
    keep = clock.call_at(EPOCH + 1.0, lambda: None, kind="limit")

    for number in range(10_000):
        clock.call_at(EPOCH + 100.0 + number, lambda: None, kind="limit")()

    assert len(clock._entries) <= 70  # pyright: ignore[reportPrivateUsage]
    assert clock.pending == [(1.0, "limit")]
    keep()


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=100), st.lists(st.integers(0, 7), max_size=10))
def test_whoever_is_due_is_called_and_nobody_else(deadlines: list[tuple[int, bool]], moves: list[int]) -> None:
    clock = VirtualClock(start=0.0)
    called: list[tuple[int, int]] = []
    for order, (at, is_taken_back) in enumerate(deadlines):
        take_back = clock.call_at(at, lambda at=at, order=order: called.append((at, order)), kind="limit")
        if is_taken_back:
            take_back()

    for seconds in moves:
        clock.advance(seconds)

    live = [(at, order) for order, (at, is_taken_back) in enumerate(deadlines) if not is_taken_back]
    due = sorted(each for each in live if each[0] <= sum(moves)) if moves else []
    assert called == due
    assert [at + sum(moves) for at, _ in clock.pending] == sorted(at for at, order in live if (at, order) not in due)
