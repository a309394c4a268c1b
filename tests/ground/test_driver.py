"""Moving virtual time: by the first rule, when nothing can go on, and by the second, when user code waits abroad."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

from chatagent.clock import SystemClock
from chatagent.errors import InvalidArgumentError, WaitTimeoutError
from chatagent.timers import call_at, wait_until
from chatagent.waiting import Gate, Waiter
from chatagent_test.clock import EPOCH, VirtualClock
from ground.fake_run import FakeRun, a_driver, a_run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

pytestmark = pytest.mark.anyio

SHORT = 0.05
"""Real seconds that are enough for the second rule to move time, if it wants to."""


def sleeper(run: FakeRun, seconds: float, woken: list[float]) -> Callable[[], Coroutine[Any, Any, None]]:
    async def sleep() -> None:
        await run.clock.sleep(seconds)
        woken.append(run.clock.now() - EPOCH)

    return sleep


async def in_a_group_of_its_own(*children: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Wait as user code may: the children are no tasks of the run, and their parent looks busy."""
    async with anyio.create_task_group() as tasks:
        for child in children:
            tasks.start_soon(child)


async def test_time_moves_from_deadline_to_deadline_while_a_driver_waits() -> None:
    async with a_run() as run:
        woken: list[float] = []
        for seconds in (3600.0, 1.0, 60.0):
            run.start(sleeper(run, seconds, woken))

        await a_driver(run).until(lambda: len(woken) == 3, "the sleepers sleep")

    assert woken == [1.0, 60.0, 3600.0]


async def test_time_stands_as_soon_as_what_is_waited_for_has_come() -> None:
    async with a_run() as run:
        woken: list[float] = []
        for seconds in (1.0, 60.0):
            run.start(sleeper(run, seconds, woken))

        await a_driver(run).until(lambda: bool(woken), "the sleepers sleep")

        assert run.clock.now() == EPOCH + 1


@pytest.mark.parametrize("by_hand", ["auto_advance", "move_time"])
async def test_time_does_not_move_by_itself_if_the_test_steps_by_hand(by_hand: str) -> None:
    async with a_run() as run:
        woken: list[float] = []
        run.start(sleeper(run, 1.0, woken))
        driver = a_driver(run, auto_advance=by_hand != "auto_advance", wait_timeout=SHORT)

        with pytest.raises(WaitTimeoutError, match=r"^it sleeps: not within 0.05 s of real time\.\nwhere the run"):
            await driver.until(lambda: bool(woken), "it sleeps", move_time=by_hand != "move_time")
        await driver.advance(1.0)

    assert woken == [1.0]


async def test_time_moves_for_a_limit_but_not_for_the_end_of_a_wait() -> None:
    async with a_run() as run:
        ended: list[str] = []
        for kind, seconds in (("limit", 5.0), ("wait", 7.0)):
            call_at(run.clock, EPOCH + seconds, lambda kind=kind: ended.append(kind), kind=kind)  # type: ignore[arg-type]
        run.start(Waiter("input").wait)

        await a_driver(run).until(lambda: "limit" in ended, "the limit is not reached")
        with pytest.raises(WaitTimeoutError):
            await a_driver(run, wait_timeout=SHORT).until(lambda: "wait" in ended, "the wait goes on")

    assert ended == ["limit"]


async def test_a_wait_that_ends_before_a_sleep_ends_at_its_own_instant() -> None:
    async with a_run() as run:
        steps: list[tuple[str, float]] = []

        async def wait_for_input() -> None:
            await wait_until(Waiter("input"), run.clock, EPOCH + 30.0, kind="wait")
            steps.append(("suspended", run.clock.now() - EPOCH))
            await run.clock.sleep(5.0)
            steps.append(("hook", run.clock.now() - EPOCH))

        async def deferred() -> None:
            await run.clock.sleep(60.0)
            steps.append(("deferred", run.clock.now() - EPOCH))

        run.start(wait_for_input)
        run.start(deferred)
        await a_driver(run).until(lambda: len(steps) == 3, "deferred work goes on")

    assert steps == [("suspended", 30.0), ("hook", 35.0), ("deferred", 60.0)]


async def test_a_place_that_stops_time_stops_it_until_it_opens() -> None:
    async with a_run() as run:
        hold, woken = Gate("a hold", stops_time=True), list[float]()
        run.start(hold.wait)
        run.start(sleeper(run, 1.0, woken))

        with pytest.raises(WaitTimeoutError):
            await a_driver(run, wait_timeout=SHORT).until(lambda: bool(woken), "held")
        held_at = run.clock.now()
        hold.open()
        await a_driver(run).until(lambda: bool(woken), "held")

    assert (held_at, woken) == (EPOCH, [1.0])


async def test_a_driver_waits_for_what_comes_from_outside_the_run() -> None:
    async with a_run() as run:
        gate = Gate()
        task = run.start(gate.wait)

        async def open_later() -> None:
            await run.settled()
            for _ in range(3):
                await checkpoint()
            gate.open()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(open_later)
            await a_driver(run).until(lambda: task.done, "nobody opens")

    assert task.done


async def test_giving_up_comes_at_once_when_nothing_of_the_run_can_bring_it_about() -> None:
    async with a_run() as run:
        woken: list[float] = []
        run.start(sleeper(run, 4.0, woken))
        run.start(sleeper(run, 6.0, woken))
        driver = a_driver(run)

        with anyio.fail_after(2):
            too_soon = await driver.until_or_give_up(lambda: bool(woken), 5.0)
            given_up = await driver.until_or_give_up(lambda: len(woken) == 2, 5.0, grace=5.0)
            reached = await driver.until_or_give_up(lambda: len(woken) == 2, 5.0, grace=5.0)

    assert (too_soon, given_up, reached) == (False, False, True)
    assert woken == [4.0, 6.0]


async def test_advancing_goes_through_every_deadline_and_lets_the_run_work_in_between() -> None:
    async with a_run() as run:
        ticks: list[float] = []

        async def tick() -> None:
            while True:
                await run.clock.sleep(10.0)
                await checkpoint()
                ticks.append(run.clock.now() - EPOCH)

        run.start(tick)
        driver = a_driver(run, auto_advance=False)
        await driver.advance(35.0)
        after_one = (list(ticks), run.clock.now())
        await driver.advance(5.0)

    assert after_one == ([10.0, 20.0, 30.0], EPOCH + 35)
    assert ticks == [10.0, 20.0, 30.0, 40.0]


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
async def test_advancing_takes_a_finite_time(seconds: float) -> None:
    async with a_run() as run:
        with pytest.raises(InvalidArgumentError, match=r"^`seconds` is .*: a duration is 0 seconds or more$"):
            await a_driver(run).advance(seconds)

        assert run.clock.now() == EPOCH


async def test_settling_waits_for_busy_tasks_and_moves_no_time() -> None:
    async with a_run() as run:
        steps: list[str] = []

        async def work() -> None:
            for _ in range(10):
                await checkpoint()
            steps.append("worked")
            await run.clock.sleep(1.0)
            steps.append("slept")

        run.start(work)
        await a_driver(run).settle()

        assert steps == ["worked"]
        assert run.clock.now() == EPOCH


async def test_settling_gives_up_on_a_run_that_waits_on_something_foreign() -> None:
    async with a_run() as run:
        run.start(anyio.sleep_forever)

        with pytest.raises(WaitTimeoutError, match=r"^settle: the run was not quiet within 0.05 s\.\nwhere"):
            await a_driver(run, wait_timeout=SHORT).settle()


async def test_cancellations_under_way_arrive_before_time_moves() -> None:
    async with a_run() as run:
        steps: list[tuple[str, float]] = []

        async def clean_up_when_cancelled() -> None:
            try:
                await run.clock.sleep(100.0)
            finally:
                with anyio.CancelScope(shield=True):
                    await checkpoint()
                    steps.append(("cleaned up", run.clock.now() - EPOCH))

        async def cancel_and_sleep() -> None:
            task = run.tasks.start(clean_up_when_cancelled, name="cancelled")
            await run.clock.sleep(1.0)
            task.cancel()
            await run.clock.sleep(1.0)
            steps.append(("slept", run.clock.now() - EPOCH))

        task = run.start(cancel_and_sleep)
        await a_driver(run).until(lambda: task.done, "it sleeps")

    assert steps == [("cleaned up", 1.0), ("slept", 2.0)]


async def test_a_real_clock_is_waited_for() -> None:
    async with a_run(SystemClock()) as run:
        task = run.start(lambda: run.clock.sleep(0.002))

        await a_driver(run).until(lambda: task.done, "it sleeps")
        given_up = not await a_driver(run).until_or_give_up(lambda: False, 0.002)

    assert task.done
    assert given_up


# --- several runs on one clock ---


async def test_time_waits_for_every_run_that_lives_by_the_clock() -> None:
    clock = VirtualClock()
    async with a_run(clock) as one, a_run(clock) as other:
        driver, other_driver = a_driver(one), a_driver(other)
        busy, steps = anyio.Event(), list[tuple[str, float]]()
        call_at(clock, EPOCH + 1.0, lambda: steps.append(("limit", clock.now() - EPOCH)), kind="limit")

        async def work() -> None:
            await busy.wait()
            steps.append(("worked", clock.now() - EPOCH))
            await Waiter("input").wait()

        other.start(work)
        one.start(Waiter("input").wait)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(driver.until, lambda: len(steps) == 2, "nothing happens")
            await anyio.wait_all_tasks_blocked()
            assert steps == []
            busy.set()
        await other_driver.settle()

    assert steps == [("worked", 0.0), ("limit", 1.0)]


async def test_a_hold_of_one_run_stops_the_time_of_all_that_live_by_the_clock() -> None:
    clock = VirtualClock()
    async with a_run(clock) as one, a_run(clock) as other:
        driver = a_driver(one, wait_timeout=SHORT)
        a_driver(other)
        hold, woken = Gate("a hold", stops_time=True), list[float]()
        other.start(hold.wait)
        one.start(sleeper(one, 1.0, woken))

        with pytest.raises(WaitTimeoutError):
            await driver.until(lambda: bool(woken), "held")
        hold.open()
        await driver.until(lambda: bool(woken), "held")

    assert woken == [1.0]


# --- the second rule ---


async def test_time_moves_for_sleepers_in_a_task_group_of_the_users_own() -> None:
    async with a_run() as run:
        woken: list[float] = []
        task = run.start(lambda: in_a_group_of_its_own(*(sleeper(run, seconds, woken) for seconds in (2.0, 1.0))))

        await a_driver(run).until(lambda: task.done, "the group goes on")

    assert woken == [1.0, 2.0]
    assert run.clock.now() == EPOCH + 2


async def test_time_moves_for_any_deadline_of_a_sleep_in_a_group_of_the_users_own() -> None:
    async with a_run() as run:

        async def pause() -> None:
            await wait_until(Waiter("a pause"), run.clock, EPOCH + 3.0, kind="sleep")

        task = run.start(lambda: in_a_group_of_its_own(pause))
        await a_driver(run).until(lambda: task.done, "the group goes on")

        assert run.clock.now() == EPOCH + 3


async def test_time_does_not_move_by_the_second_rule_before_the_run_has_been_still_for_a_while() -> None:
    async with a_run() as run:
        woken, at_work = list[float](), list[float]()

        async def work() -> None:
            for _ in range(200):
                await checkpoint()
                at_work.append(run.clock.now() - EPOCH)

        task = run.start(lambda: in_a_group_of_its_own(sleeper(run, 1.0, woken), work))
        await a_driver(run).until(lambda: task.done, "the group goes on")

    assert at_work == [0.0] * 200
    assert woken == [1.0]


async def test_a_sleep_passes_while_a_real_query_is_on() -> None:
    async with a_run() as run:
        woken, answer = list[float](), threading.Event()

        async def query() -> None:
            await anyio.to_thread.run_sync(answer.wait)

        task = run.start(lambda: in_a_group_of_its_own(query, sleeper(run, 1.0, woken)))
        await a_driver(run).until(lambda: bool(woken), "it sleeps")
        still_on = not task.done
        answer.set()
        await a_driver(run).until(lambda: task.done, "the query goes on")

    assert still_on
    assert woken == [1.0]


@pytest.mark.parametrize("kind", ["limit", "wait"])
@pytest.mark.parametrize("sleep", [None, 1.0, 10.0])
async def test_a_foreign_wait_never_trips_a_limit_nor_ends_a_wait(kind: str, sleep: float | None) -> None:
    async with a_run() as run:
        woken, answer, tripped = list[float](), threading.Event(), list[float]()

        async def query() -> None:
            await anyio.to_thread.run_sync(answer.wait)

        call_at(run.clock, EPOCH + 5.0, lambda: tripped.append(run.clock.now() - EPOCH), kind=kind)  # type: ignore[arg-type]
        children = [query] if sleep is None else [query, sleeper(run, sleep, woken)]
        task = run.start(lambda: in_a_group_of_its_own(*children))
        if sleep == 1.0:
            await a_driver(run).until(lambda: bool(woken), "it sleeps")
        with pytest.raises(WaitTimeoutError):
            await a_driver(run, wait_timeout=SHORT).until(lambda: False, "nothing")
        meanwhile = (list(woken), list(tripped))
        answer.set()
        with anyio.move_on_after(SHORT):
            await task.join()

    assert meanwhile == ([1.0] if sleep == 1.0 else [], [])


async def test_an_event_set_from_outside_is_waited_for_without_moving_time() -> None:
    async with a_run() as run:
        event, tripped = anyio.Event(), list[float]()
        call_at(run.clock, EPOCH + 5.0, lambda: tripped.append(run.clock.now()), kind="limit")
        task = run.start(event.wait)
        driver = a_driver(run)

        async def set_later() -> None:
            await anyio.sleep(SHORT)  # foreign work, which takes longer than the driver's patience
            event.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(set_later)
            await driver.until(lambda: task.done, "nobody sets it")

        assert tripped == []
        assert run.clock.now() == EPOCH


async def test_what_has_come_while_the_second_rule_asked_stops_it_from_moving() -> None:
    async with a_run() as run:
        looks: list[float] = []
        run.start(lambda: in_a_group_of_its_own(sleeper(run, 1.0, [])))
        await anyio.wait_all_tasks_blocked()

        def done() -> bool:
            looks.append(run.clock.now())
            return len(looks) > 1

        await a_driver(run).until(done, "nothing")

        assert looks == [EPOCH] * 3
        assert run.clock.now() == EPOCH


async def test_advancing_moves_sleepers_in_a_task_group_of_the_users_own() -> None:
    async with a_run() as run:
        woken: list[float] = []
        task = run.start(lambda: in_a_group_of_its_own(*(sleeper(run, seconds, woken) for seconds in (1.0, 2.0, 8.0))))
        driver = a_driver(run, auto_advance=False)

        await driver.advance(5.0)
        after_five = (list(woken), run.clock.now() - EPOCH, task.done)
        await driver.advance(3.0)

    assert after_five == ([1.0, 2.0], 5.0, False)
    assert (woken, task.done) == ([1.0, 2.0, 8.0], True)


async def test_advancing_past_a_limit_waits_for_a_real_query_first() -> None:
    async with a_run() as run:
        woken, answer, steps = list[float](), threading.Event(), list[str]()

        async def query() -> None:
            await anyio.to_thread.run_sync(answer.wait)
            steps.append("answered")

        call_at(run.clock, EPOCH + 1.0, lambda: steps.append("limit"), kind="limit")
        run.start(lambda: in_a_group_of_its_own(query))
        run.start(sleeper(run, 3.0, woken))
        threading.Timer(0.03, answer.set).start()
        driver = a_driver(run, auto_advance=False)
        await driver.advance(5.0)

    assert steps == ["answered", "limit"]
    assert woken == [3.0]


async def test_a_predicate_about_a_task_that_is_not_the_runs_is_looked_at_after_a_move() -> None:
    async with a_run() as run:
        woken: list[float] = []
        run.start(lambda: in_a_group_of_its_own(anyio.sleep_forever, sleeper(run, 1.0, woken)))

        with anyio.fail_after(2):
            await a_driver(run).until(lambda: bool(woken), "it sleeps")

    assert woken == [1.0]
