"""Waiters, gates, and the ledger that counts who waits."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from chatagent.current import current_run
from chatagent.waiting import Gate, Ledger, Waiter, Wakeup
from ground.fake_run import FakeRun, a_run

pytestmark = pytest.mark.anyio


async def test_a_waiter_that_was_woken_before_lets_the_task_go_on_at_once() -> None:
    waiter = Waiter()

    waiter.wake()
    waiter.wake()

    with anyio.fail_after(1):
        await waiter.wait()
    assert waiter.woken


async def test_a_task_of_no_run_waits_uncounted() -> None:
    waiter, steps = Waiter(), list[str]()

    async def wait() -> None:
        await waiter.wait()
        steps.append("on")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert steps == []
        waiter.wake()

    assert steps == ["on"]


async def test_a_task_of_a_run_counts_as_waiting_until_it_is_woken() -> None:
    async with a_run() as run:
        waiter = Waiter("a key")
        task = run.start(waiter.wait)
        before_its_first_step = (run.ledger.alive, list(run.ledger.parked), run.ledger.quiet)
        await run.settled()
        waiting = (run.ledger.alive, list(run.ledger.parked), run.ledger.quiet)

        waiter.wake()

        woken = (run.ledger.alive, list(run.ledger.parked), run.ledger.quiet)
        await task.wait()

    assert before_its_first_step == (1, [], False)
    assert waiting == (1, [waiter], True)
    assert woken == (1, [], False), "the count goes down before the sleeper goes on"
    assert (run.ledger.alive, run.ledger.quiet) == (0, True)


async def test_a_cancelled_waiter_takes_itself_out_of_the_count() -> None:
    async with a_run() as run:
        waiter = Waiter()
        task = run.start(waiter.wait)
        await run.settled()

        await task.close()
        waiter.wake()

    assert task.cancelled
    assert (run.ledger.alive, len(run.ledger.parked)) == (0, 0)


@pytest.mark.parametrize("first", ["wake", "cancel"])
async def test_a_waiter_that_is_woken_and_cancelled_at_once_is_counted_down_once(first: str) -> None:
    async with a_run() as run:
        waiter, other = Waiter(), Waiter()
        task, bystander = run.start(waiter.wait), run.start(other.wait)
        await run.settled()

        for action in (waiter.wake, task.cancel) if first == "wake" else (task.cancel, waiter.wake):
            action()
        counted = len(run.ledger.parked)
        await task.join()

        assert counted == 1
        assert list(run.ledger.parked) == [other]
        assert run.ledger.alive == 1
        other.wake()
        await bystander.wait()


async def test_a_task_that_user_code_starts_in_a_run_is_not_counted() -> None:
    async with a_run() as run:
        waiter = Waiter()

        async def with_a_group_of_its_own() -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(waiter.wait)

        task = run.start(with_a_group_of_its_own)
        await anyio.wait_all_tasks_blocked()
        counted = (run.ledger.alive, len(run.ledger.parked), run.ledger.quiet)
        waiter.wake()
        await task.wait()

    assert counted == (1, 0, False)


async def test_a_task_of_another_run_is_not_counted_in_this_one() -> None:
    async with a_run() as outer:
        inner = FakeRun()
        waiter = Waiter()

        async def work() -> None:
            current_run.set(inner)
            await waiter.wait()

        task = outer.start(work)
        await anyio.wait_all_tasks_blocked()
        counted = (outer.ledger.quiet, inner.ledger.alive, len(inner.ledger.parked))
        waiter.wake()
        await task.wait()

    assert counted == (False, 0, 0)


async def test_a_gate_lets_everybody_through_once_it_is_open() -> None:
    gate, through = Gate("the door"), list[int]()

    async def go(number: int) -> None:
        await gate.wait()
        through.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(go, number)
        await anyio.wait_all_tasks_blocked()
        assert (gate.waiting, gate.is_open, through) == (3, False, [])
        gate.open()
        gate.open()
        await go(3)

    assert sorted(through) == [0, 1, 2, 3]
    assert (gate.waiting, gate.is_open) == (0, True)


async def test_a_cancelled_task_leaves_the_gate() -> None:
    gate = Gate()

    with anyio.move_on_after(0):
        await gate.wait()

    assert gate.waiting == 0
    gate.open()


@pytest.mark.parametrize("first", ["open", "cancel"])
async def test_a_gate_that_opens_while_its_waiter_is_cancelled_stays_sound(first: str) -> None:
    async with a_run() as run:
        gate = Gate()
        cancelled, waiting = run.start(gate.wait), run.start(gate.wait)
        await run.settled()

        for action in (gate.open, cancelled.cancel) if first == "open" else (cancelled.cancel, gate.open):
            action()
        await cancelled.join()
        await waiting.wait()

    assert (gate.waiting, run.ledger.alive, len(run.ledger.parked)) == (0, 0, 0)


async def test_what_stops_time_is_known_while_somebody_waits_there() -> None:
    async with a_run() as run:
        hold, gate = Gate("a hold", stops_time=True), Gate("a gate")
        tasks = [run.start(hold.wait), run.start(gate.wait)]
        await run.settled()
        at_both = (run.ledger.time_stands_still, sorted(waiter.label for waiter in run.ledger.parked))

        hold.open()

        at_the_gate = run.ledger.time_stands_still
        gate.open()
        for task in tasks:
            await task.wait()

    assert at_both == (True, ["a gate", "a hold"])
    assert not at_the_gate


async def test_a_run_is_never_quiet_while_a_child_is_between_its_spawn_and_its_first_step() -> None:
    async with a_run() as run:
        gate, steps = Gate(), list[str]()
        run.ledger.watch(lambda: steps.append("quiet"))

        async def child() -> None:
            steps.append("child")
            await gate.wait()

        async def parent() -> None:
            steps.append("parent")
            run.tasks.start(child, name="child")
            await gate.wait()

        run.start(parent)
        await run.settled()
        gate.open()

    assert steps[:3] == ["parent", "child", "quiet"]


async def test_a_run_without_tasks_is_quiet() -> None:
    ledger = Ledger()

    assert ledger.quiet
    assert not ledger.time_stands_still
    assert not ledger.has_current_task()


async def test_a_watch_calls_at_every_moment_of_quiet_until_it_ends() -> None:
    async with a_run() as run:
        first, second, called = Gate(), Gate(), list[str]()
        unwatch = run.ledger.watch(lambda: called.append("a"))
        other = run.ledger.watch(lambda: called.append("b"))

        async def work() -> None:
            await first.wait()
            await second.wait()

        task = run.start(work)
        await run.settled()
        unwatch()
        unwatch()
        first.open()
        await run.settled()
        other()
        second.open()
        await task.wait()

    assert called == ["a", "b", "b"]


async def test_every_change_of_a_count_changes_the_version() -> None:
    async with a_run() as run:
        gate, versions = Gate(), [run.ledger.version]

        task = run.start(gate.wait)
        versions.append(run.ledger.version)
        await run.settled()
        versions.append(run.ledger.version)
        gate.open()
        versions.append(run.ledger.version)
        await task.wait()
        versions.append(run.ledger.version)

    assert versions == sorted(set(versions))


async def test_a_parent_that_waits_for_its_child_counts_as_waiting() -> None:
    async with a_run() as run:
        gate = Gate("the child's gate")

        async def parent() -> None:
            child = run.tasks.start(gate.wait, name="the child")
            await child.wait()

        task = run.start(parent)
        await run.settled()
        labels = sorted(waiter.label for waiter in run.ledger.parked)
        gate.open()
        await task.wait()

    assert labels == ["the child's gate", "the end of the child"]


async def test_a_busy_task_keeps_the_run_from_being_quiet() -> None:
    async with a_run() as run:
        seen: list[bool] = []

        async def busy() -> None:
            for _ in range(3):
                await checkpoint()
                seen.append(run.ledger.quiet)

        await run.start(busy).wait()

    assert seen == [False] * 3


async def test_a_wakeup_ends_one_sleep_once_and_is_counted_by_nobody() -> None:
    wakeup, order = Wakeup(), list[str]()
    async with a_run() as run:

        async def sleep() -> None:
            await wakeup.wait()
            order.append("woken")

        task = run.tasks.start(sleep, name="a sleeper")
        await checkpoint()
        order.append("still asleep" if not run.ledger.quiet else "counted as waiting")
        wakeup.wake()
        wakeup.wake()
        await task.join()
        await wakeup.wait()

    assert order == ["still asleep", "woken"]


async def test_a_wakeup_may_come_after_its_sleeper_was_cancelled() -> None:
    wakeup = Wakeup()

    with anyio.move_on_after(0) as scope:
        await wakeup.wait()
    wakeup.wake()

    assert scope.cancelled_caught


async def test_a_wakeup_tells_whether_it_came_in_time() -> None:
    late, early, woken = Wakeup(), Wakeup(), Wakeup()
    woken.wake()

    async with anyio.create_task_group() as tasks:

        async def wake() -> None:
            early.wake()

        tasks.start_soon(wake)
        in_time = await early.wait(within=10)

    assert (await late.wait(within=0.01), in_time, await woken.wait(within=0)) == (False, True, True)
