"""Tasks that belong to somebody: their starts, ends, errors and cancellation."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import warnings
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from chatagent.tasks import OwnedTask, TaskSet
from chatagent.waiting import Gate, Ledger, Waiter
from ground.fake_run import a_run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio

COLOUR: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


async def for_ever() -> None:
    await Waiter("for ever").wait()


async def several_checkpoints() -> None:
    for _ in range(5):
        await checkpoint()


async def test_a_task_returns_what_its_function_returned() -> None:
    async def work() -> int:
        await checkpoint()
        return 7

    task = OwnedTask(work, name="work")

    assert not task.done
    assert await task.wait() == 7
    assert await task.wait() == 7
    assert (task.done, task.result, task.error, task.cancelled, task.name) == (True, 7, None, False, "work")


async def test_a_task_keeps_its_error_and_raises_it_to_whoever_waits() -> None:
    error = ValueError("broken")

    async def work() -> None:
        raise error

    task = OwnedTask(work, name="work")
    await task.join()
    raised: list[BaseException] = []
    for _ in range(2):
        try:
            await task.wait()
        except ValueError as exc:
            raised.append(exc)

    assert task.error is error
    assert raised == [error, error]
    assert not task.cancelled


async def test_an_error_that_nobody_waits_for_disturbs_nobody() -> None:
    async def work() -> None:
        raise ValueError("broken")

    task = OwnedTask(work, name="work")
    await task.close()

    assert isinstance(task.error, ValueError)


async def test_an_error_comes_out_of_groups_of_one() -> None:
    async def fail() -> None:
        raise ValueError("broken")

    async def work() -> None:
        async with anyio.create_task_group() as outer, anyio.create_task_group() as inner:
            outer.start_soon(several_checkpoints)
            inner.start_soon(fail)

    with pytest.raises(ValueError, match=r"^broken$"):
        await OwnedTask(work, name="work").wait()


async def test_a_group_of_several_errors_stays_a_group() -> None:
    async def fail(number: int) -> None:
        raise ValueError(number)

    async def work() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail, 1)
            tasks.start_soon(fail, 2)

    task = OwnedTask(work, name="work")
    with pytest.raises(BaseExceptionGroup) as caught:
        await task.wait()

    assert sorted(str(error) for error in caught.value.exceptions) == ["1", "2"]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
async def test_an_interrupt_inside_is_kept_for_whoever_waits(interrupt: type[BaseException]) -> None:
    async def work() -> None:
        raise interrupt

    task = OwnedTask(work, name="work")
    await task.join()

    assert isinstance(task.error, interrupt)
    with pytest.raises(interrupt):
        await task.wait()


async def test_a_task_that_one_task_starts_another_may_close() -> None:
    started: list[OwnedTask] = []
    ended: list[str] = []

    async def work() -> None:
        try:
            with anyio.CancelScope():
                await for_ever()
        finally:
            ended.append("work")

    async def setup() -> None:
        started.append(OwnedTask(work, name="work"))
        await several_checkpoints()

    async def teardown() -> None:
        await started[0].close()

    for step in (setup, teardown):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(step)

    assert ended == ["work"]
    assert (started[0].done, started[0].cancelled, started[0].error) == (True, True, None)


async def test_a_cancelled_task_gives_no_result_and_no_error() -> None:
    task = OwnedTask(for_ever, name="work")
    await checkpoint()

    task.cancel()
    result = await task.wait()
    task.cancel()
    await task.close()

    assert result is None
    assert (task.cancelled, task.error) == (True, None)


async def test_a_task_that_is_cancelled_before_its_first_step_ends_at_its_first_wait() -> None:
    steps: list[str] = []

    async def work() -> None:
        steps.append("begun")
        await checkpoint()
        steps.append("gone on")

    task = OwnedTask(work, name="work")
    await task.close()

    assert steps == ["begun"]
    assert task.cancelled


async def test_a_task_that_finishes_in_spite_of_its_cancellation_has_a_result() -> None:
    async def work() -> str:
        with anyio.CancelScope(shield=True):
            await several_checkpoints()
        return "written"

    task = OwnedTask(work, name="work")
    await checkpoint()
    await task.close()

    assert (task.result, task.cancelled) == ("written", False)


async def test_an_error_of_the_clean_up_is_kept() -> None:
    async def work() -> None:
        try:
            await for_ever()
        finally:
            raise ValueError("in the clean-up")

    task = OwnedTask(work, name="work")
    await checkpoint()
    await task.close()

    assert str(task.error) == "in the clean-up"
    assert not task.cancelled


async def test_a_task_that_cancels_itself_is_cancelled() -> None:
    async def work() -> None:
        task.cancel()
        await checkpoint()

    task = OwnedTask(work, name="work")
    await task.join()

    assert task.cancelled


async def test_the_cancellations_of_a_trio_nursery_are_no_errors(anyio_backend: str) -> None:
    if anyio_backend != "trio":
        pytest.skip("asyncio's groups leave cancellations out by themselves")
    import trio

    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("broken")

    async def work(*children: Callable[[], Awaitable[None]]) -> None:
        async with trio.open_nursery() as nursery:
            for child in children:
                nursery.start_soon(child)

    cancelled = OwnedTask(lambda: work(trio.sleep_forever, trio.sleep_forever), name="two sleepers")
    failed = OwnedTask(lambda: work(trio.sleep_forever, fail_when_cancelled), name="a sleeper and a failure")
    await anyio.wait_all_tasks_blocked()
    await cancelled.close()
    await failed.close()

    assert (cancelled.cancelled, cancelled.error) == (True, None)
    assert (failed.cancelled, type(failed.error)) == (False, ValueError)


async def test_closing_waits_for_the_end_even_if_the_closer_is_cancelled() -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            await for_ever()
        finally:
            with anyio.CancelScope(shield=True):
                await several_checkpoints()
            steps.append("cleaned up")

    task = OwnedTask(work, name="work")
    await checkpoint()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await task.close()
        steps.append("closed")

    assert steps == ["cleaned up", "closed"]


async def test_whoever_waits_for_a_task_can_be_cancelled_without_it() -> None:
    task = OwnedTask(for_ever, name="work")

    with anyio.move_on_after(0) as scope:
        await task.wait()

    assert scope.cancelled_caught
    assert not task.done
    await task.close()


async def test_a_task_runs_in_a_copy_of_its_starters_context() -> None:
    token = COLOUR.set("red")

    async def work() -> str:
        found = COLOUR.get()
        COLOUR.set("blue")
        return found

    found = await OwnedTask(work, name="work").wait()
    left = COLOUR.get()
    COLOUR.reset(token)

    assert (found, left) == ("red", "red")


async def test_a_task_runs_in_the_context_that_it_is_given_even_if_that_is_empty() -> None:
    token = COLOUR.set("red")
    context = contextvars.Context()

    async def work() -> str:
        found = COLOUR.get()
        COLOUR.set("green")
        return found

    found = await OwnedTask(work, name="work", context=context).wait()
    COLOUR.reset(token)

    assert found == "none"
    assert context[COLOUR] == "green"


async def test_the_end_of_a_task_is_told_before_whoever_waits_goes_on() -> None:
    steps: list[str] = []
    ledger = Ledger()

    def ended(task: OwnedTask) -> None:
        steps.append(f"{task.name} ended with {task.result}, {ledger.alive} alive")

    async def work() -> int:
        await checkpoint()
        return 1

    task = OwnedTask(work, name="work", ledger=ledger, on_end=ended)
    await task.wait()
    steps.append("waited")

    assert steps == ["work ended with 1, 1 alive", "waited"]
    assert ledger.alive == 0


async def test_the_native_task_shows_where_it_stands(anyio_backend: str) -> None:
    task = OwnedTask(for_ever, name="the work")
    native = task.native_task

    name = native.get_name() if anyio_backend == "asyncio" else native.name
    await task.close()

    assert name == "the work"


@pytest.mark.parametrize("collect", [False, True])
def test_a_forgotten_task_is_cancelled_quietly_when_the_loop_ends(
    anyio_backend: str,
    collect: bool,  # noqa: FBT001 - a parameter of the test
    caplog: pytest.LogCaptureFixture,
) -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            await for_ever()
        finally:
            steps.append("ended")

    async def main() -> None:
        OwnedTask(work, name="work")
        await several_checkpoints()
        if collect:
            gc.collect()
        steps.append("main")

    anyio.run(main, backend=anyio_backend)
    gc.collect()

    assert steps == ["main", "ended"]
    assert caplog.records == []


def test_a_task_of_a_loop_that_has_ended_is_closed_already(anyio_backend: str) -> None:
    async def start() -> tuple[OwnedTask, TaskSet]:
        tasks = TaskSet()
        tasks.start(for_ever, name="a task of the set")
        task = OwnedTask(for_ever, name="work", ledger=tasks.ledger)
        await several_checkpoints()
        return task, tasks

    async def close() -> None:
        with anyio.fail_after(5):
            await task.close()
            await tasks.close()

    task, tasks = anyio.run(start, backend=anyio_backend)
    task.cancel()
    anyio.run(close, backend=anyio_backend)

    assert (task.done, task.cancelled, task.error) == (True, True, None)
    assert (tasks.active, tasks.ledger.alive) == (set(), 0)


def test_a_task_whose_loop_stands_still_elsewhere_keeps_nobody_waiting(anyio_backend: str) -> None:
    loop = asyncio.new_event_loop()

    async def start() -> OwnedTask:
        task = OwnedTask(for_ever, name="work")
        await several_checkpoints()
        return task

    async def use_it_elsewhere() -> None:
        with anyio.fail_after(5):
            task.cancel()
            await task.join()
            await task.close()
            with pytest.raises(RuntimeError, match=r"^work belongs to another event loop and will never end$"):
                await task.wait()

    task = loop.run_until_complete(start())
    anyio.run(use_it_elsewhere, backend=anyio_backend)
    still_alive = not task.done
    loop.run_until_complete(task.close())
    loop.close()

    assert still_alive
    assert task.done


def test_a_set_is_closed_elsewhere_without_telling_its_tasks_to_stop(anyio_backend: str) -> None:
    """What would wake them belongs to the loop that they wait in, and that is closed."""
    loop, tasks, stopped = asyncio.new_event_loop(), TaskSet(), Waiter("to be told to stop")
    loop.set_exception_handler(lambda loop, context: None)

    def stop() -> bool:
        stopped.wake()
        return True

    async def start() -> OwnedTask:
        task = tasks.start(stopped.wait, name="work", stop=stop)
        await several_checkpoints()
        return task

    task = loop.run_until_complete(start())
    loop.close()
    anyio.run(tasks.close, backend=anyio_backend)

    assert (task.done, stopped.woken) == (False, False)
    tasks.active.clear()
    del task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def test_a_task_knows_whether_its_loop_is_here_or_was_closed_over_it() -> None:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)

    async def start() -> tuple[OwnedTask, bool]:
        task = OwnedTask(for_ever, name="work")
        await several_checkpoints()
        return task, task.loop_is_here

    async def look(task: OwnedTask) -> bool:
        return task.loop_is_here

    task, was_here = loop.run_until_complete(start())
    is_here = asyncio.run(look(task))
    was_gone = task.loop_is_gone
    loop.close()

    assert (was_here, is_here, task.loop_is_here) == (True, False, False)
    assert (was_gone, task.loop_is_gone, task.done) == (False, True, False)
    del task
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


async def test_what_a_set_puts_around_its_tasks_sees_their_names_and_runs_them() -> None:
    seen: list[str] = []

    async def around(name: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        seen.append(name)
        return await fn()

    async def work() -> str:
        return "done"

    tasks = TaskSet(around=around)
    result = await tasks.start(work, name="work").wait()
    await tasks.close()

    assert (result, seen) == ("done", ["work"])


def test_a_task_that_the_ending_loop_drops_before_its_first_step_has_ended() -> None:
    dropped: list[OwnedTask] = []
    steps: list[str] = []

    async def run(tasks: TaskSet) -> None:
        try:
            while True:
                dropped.append(tasks.start(for_ever, name="late"))
                await checkpoint()
        finally:
            await tasks.close()
            steps.append("closed")

    async def main() -> TaskSet:
        tasks = TaskSet()
        OwnedTask(lambda: run(tasks), name="run")
        await several_checkpoints()
        return tasks

    tasks = asyncio.run(main())

    assert steps == ["closed"]
    assert all(task.done and task.cancelled for task in dropped)
    assert (tasks.active, tasks.ledger.alive) == (set(), 0)


async def test_a_set_knows_its_tasks_until_they_end() -> None:
    tasks, gate = TaskSet(), Gate()

    task = tasks.start(gate.wait, name="work")
    at_work = set(tasks.active)
    gate.open()
    await task.wait()

    assert at_work == {task}
    assert tasks.active == set()
    assert tasks.ledger.alive == 0


async def test_closing_a_set_ends_all_its_tasks_and_lets_nobody_in() -> None:
    tasks = TaskSet()
    ended: list[str] = []

    async def work() -> None:
        try:
            await for_ever()
        finally:
            with anyio.CancelScope(shield=True):
                await several_checkpoints()
            ended.append("work")

    started = [tasks.start(work, name=f"work {number}") for number in range(3)]
    await checkpoint()
    started.append(tasks.start(work, name="not begun"))
    await tasks.close()
    await tasks.close()

    assert ended == ["work"] * 4
    assert all(task.done for task in started)
    assert (tasks.active, tasks.ledger.alive) == (set(), 0)
    with pytest.raises(RuntimeError, match=r"^cannot start too late: its owner has ended$"):
        tasks.start(work, name="too late")


async def test_a_set_closes_while_its_tasks_wait_for_each_other() -> None:
    async with a_run() as run:

        async def child() -> None:
            await for_ever()

        async def parent() -> None:
            await run.tasks.start(child, name="child").wait()

        async def grandparent() -> None:
            await run.tasks.start(parent, name="parent").join()

        top = run.start(grandparent)
        await run.settled()
        waiting = (run.ledger.alive, len(run.ledger.parked))
        await run.tasks.close()

        assert waiting == (3, 3)
        assert top.cancelled
        assert (run.ledger.alive, len(run.ledger.parked), run.tasks.active) == (0, 0, set())


async def test_a_task_of_the_clean_up_cannot_outlive_the_set() -> None:
    tasks = TaskSet()
    refused: list[Exception] = []

    async def work() -> None:
        try:
            await for_ever()
        finally:
            try:
                tasks.start(for_ever, name="late")
            except RuntimeError as exc:
                refused.append(exc)

    tasks.start(work, name="work")
    await checkpoint()
    await tasks.close()

    assert len(refused) == 1
    assert tasks.active == set()


async def test_a_set_closes_to_the_end_even_if_the_closer_is_cancelled() -> None:
    tasks = TaskSet()
    tasks.start(for_ever, name="work")
    await checkpoint()

    with anyio.CancelScope() as scope:
        scope.cancel()
        await tasks.close()

    assert tasks.active == set()


async def test_whoever_closes_a_set_counts_as_waiting_meanwhile() -> None:
    async with a_run() as run:
        inner, gate = TaskSet(run.ledger), Gate("the clean-up")

        async def work() -> None:
            try:
                await for_ever()
            finally:
                with anyio.CancelScope(shield=True):
                    await gate.wait()

        async def close_others() -> None:
            inner.start(work, name="work")
            await checkpoint()
            await inner.close()

        closer = run.start(close_others)
        await run.settled()
        labels = sorted(waiter.label for waiter in run.ledger.parked)
        gate.open()
        await closer.wait()

    assert labels == ["the clean-up", "the end of work"]


async def test_tasks_of_one_set_share_its_ledger() -> None:
    ledger = Ledger()
    tasks = TaskSet(ledger)

    async def nested() -> Any:
        return await tasks.start(several_checkpoints, name="inner").wait()

    await tasks.start(nested, name="outer").wait()

    assert tasks.ledger is ledger
    assert ledger.alive == 0


async def test_a_set_lets_a_task_stop_by_itself_that_can_and_cancels_the_others() -> None:
    stopped, tasks = Waiter("to be told to stop"), TaskSet()

    def stop() -> bool:
        stopped.wake()
        return True

    told = tasks.start(stopped.wait, name="told", stop=stop)
    deaf = tasks.start(for_ever, name="deaf", stop=lambda: False)
    other = tasks.start(for_ever, name="other")
    await checkpoint()
    await tasks.close()

    assert [each.cancelled for each in (told, deaf, other)] == [False, True, True]
    assert all(each.done for each in (told, deaf, other))
