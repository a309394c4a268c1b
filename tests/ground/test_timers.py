"""Deadlines that call back, on a clock that keeps them itself and on one that does not."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio.lowlevel import checkpoint

from chatagent.clock import SystemClock
from chatagent.timers import call_at, wait_until
from chatagent.waiting import Waiter
from chatagent_test.clock import VirtualClock
from ground.fake_run import a_run

if TYPE_CHECKING:
    from chatagent.clock import Clock

pytestmark = pytest.mark.anyio

CLOCKS = pytest.mark.parametrize("clock", [SystemClock(), VirtualClock()], ids=["system", "virtual"])


class Recorder:
    """Remembers what called, and lets a test wait for it."""

    def __init__(self) -> None:
        self.called = anyio.Event()
        self.times = 0

    def __call__(self) -> None:
        self.times += 1
        self.called.set()


def pass_time(clock: Clock, seconds: float) -> None:
    """Move the clock, if it waits to be moved."""
    if isinstance(clock, VirtualClock):
        clock.advance(seconds)


@CLOCKS
async def test_a_deadline_calls_back_once_when_its_time_has_come(clock: Clock) -> None:
    recorder = Recorder()
    due = clock.now() + 0.002

    take_back = call_at(clock, due, recorder, kind="limit")
    await checkpoint()
    early = recorder.times
    pass_time(clock, 0.002)
    with anyio.fail_after(5):
        await recorder.called.wait()
    take_back()

    assert (early, recorder.times) == (0, 1)
    assert clock.now() >= due - 0.001


@CLOCKS
async def test_a_deadline_that_was_taken_back_never_calls(clock: Clock) -> None:
    taken_back, later = Recorder(), Recorder()

    take_back = call_at(clock, clock.now() + 0.001, taken_back, kind="limit")
    take_back()
    take_back()
    call_at(clock, clock.now() + 0.004, later, kind="limit")
    pass_time(clock, 1.0)
    with anyio.fail_after(5):
        await later.called.wait()

    assert (taken_back.times, later.times) == (0, 1)


@CLOCKS
async def test_deadlines_call_in_the_order_of_their_times(clock: Clock) -> None:
    order: list[str] = []
    last = Recorder()
    start = clock.now()

    call_at(clock, start + 0.02, lambda: order.append("second"), kind="wait")
    call_at(clock, start + 0.001, lambda: order.append("first"), kind="sleep")
    call_at(clock, start + 0.04, last, kind="limit")
    pass_time(clock, 1.0)
    with anyio.fail_after(5):
        await last.called.wait()

    assert order == ["first", "second"]


async def test_a_callback_that_fails_in_a_task_of_its_own_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock, after = SystemClock(), Recorder()

    def fail() -> None:
        raise ValueError("broken")

    with caplog.at_level(logging.ERROR, logger="chatagent"):
        call_at(clock, clock.now(), fail, kind="limit")
        call_at(clock, clock.now() + 0.01, after, kind="limit")
        with anyio.fail_after(5):
            await after.called.wait()

    [record] = caplog.records
    assert record.message == "the callback of a timer (limit) failed"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "broken"


async def test_a_timer_of_the_system_clock_is_no_task_of_the_run() -> None:
    async with a_run(SystemClock()) as run:
        waiter = Waiter()

        async def work() -> bool:
            return await wait_until(waiter, run.clock, run.clock.now() + 60, kind="limit")

        task = run.start(work)
        await run.settled()
        counted = (run.ledger.alive, len(run.ledger.parked))
        waiter.wake()
        in_time = await task.wait()

    assert counted == (1, 1)
    assert in_time


@CLOCKS
async def test_a_wait_is_over_when_it_is_woken(clock: Clock) -> None:
    waiter, outcomes = Waiter(), list[bool]()

    async def wait() -> None:
        outcomes.append(await wait_until(waiter, clock, clock.now() + 3600, kind="wait"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        waiter.wake()

    assert outcomes == [True]
    if isinstance(clock, VirtualClock):
        assert clock.pending == []


@CLOCKS
async def test_a_wait_is_over_when_its_time_has_run_out(clock: Clock) -> None:
    waiter, outcomes = Waiter(), list[bool]()

    async def wait() -> None:
        outcomes.append(await wait_until(waiter, clock, clock.now() + 0.002, kind="wait"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            pass_time(clock, 0.002)

    assert outcomes == [False]


@CLOCKS
async def test_a_wait_without_a_deadline_is_over_when_it_is_woken(clock: Clock) -> None:
    waiter = Waiter()
    waiter.wake()

    assert await wait_until(waiter, clock, None, kind="wait")


@CLOCKS
async def test_a_wait_whose_time_is_past_gives_up_at_once(clock: Clock) -> None:
    woken = Waiter()
    woken.wake()

    with anyio.fail_after(1):
        for late in (0.0, -5.0):
            assert not await wait_until(Waiter(), clock, clock.now() + late, kind="wait")
            assert await wait_until(woken, clock, clock.now() + late, kind="wait")


async def test_what_wakes_a_wait_of_no_time_before_it_gives_up_counts() -> None:
    clock, waiter = VirtualClock(), Waiter()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(checkpoint)
        waiter.wake()

        assert await wait_until(waiter, clock, clock.now(), kind="wait")


@pytest.mark.parametrize("first", ["wake", "time"])
async def test_of_a_wake_and_a_deadline_at_once_the_first_counts(first: str) -> None:
    clock, waiter, outcomes = VirtualClock(), Waiter(), list[bool]()

    async def wait() -> None:
        outcomes.append(await wait_until(waiter, clock, clock.now() + 1, kind="wait"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        if first == "wake":
            waiter.wake()
        clock.advance(1)
        waiter.wake()

    assert outcomes == [first == "wake"]


async def test_a_cancelled_wait_takes_its_deadline_back() -> None:
    async with a_run() as run:

        async def work() -> None:
            await wait_until(Waiter(), run.clock, run.clock.now() + 1, kind="limit")

        task = run.start(work)
        await run.settled()
        while_waiting = run.clock.pending
        await task.close()

        assert while_waiting == [(1.0, "limit")]
        assert run.clock.pending == []
