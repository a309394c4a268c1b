"""`run_in_mock_task_context`: the context it makes, and that it is the function's alone (rules X-30 to X-42)."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from agent.making import agent_of, saying
from chatagent import chat, locals
from chatagent.current import current_clock, current_run, current_tasks
from chatagent.errors import InvalidArgumentError, LocalNotFoundError, WaitTimeoutError
from chatagent.session import Session
from chatagent.task import current_context, current_worker, is_warm_start, metadata, streams
from chatagent_test import mock_chat_agent, run_in_mock_task_context

if TYPE_CHECKING:
    from chatagent_test import TaskDrivers

pytestmark = pytest.mark.anyio

NAME = locals.create("name", str)
START = 1735689600.0


# The run context ------------------------------------------------------------------------------------------------------


async def test_the_context_has_defaults_for_tests() -> None:
    async def task(drivers: TaskDrivers) -> dict[str, Any]:
        assert drivers.ctx is current_context()
        return asdict(drivers.ctx)

    assert await run_in_mock_task_context(task) == {
        "task": {"id": "test-task", "file_path": "test_task.py"},
        "attempt": {"number": 1, "started_at": START},
        "run": {
            "id": "run_test",
            "tags": (),
            "is_test": False,
            "is_replay": False,
            "created_at": START,
            "started_at": START,
            "epoch": 1,
        },
        "machine": {"name": "micro", "cpu": 1, "memory": 0.5, "cents_per_ms": 0},
        "queue": {"name": "test-queue", "id": "test-queue-id"},
        "environment": {"id": "test-env-id", "slug": "test-env", "type": "DEVELOPMENT"},
        "organization": {"id": "test-org-id", "slug": "test-org", "name": "Test Org"},
        "project": {
            "id": "test-project-id",
            "ref": "test-project-ref",
            "slug": "test-project",
            "name": "Test Project",
        },
        "batch": None,
    }


async def test_overrides_of_the_context_are_merged_by_section() -> None:
    context = await run_in_mock_task_context(
        lambda drivers: drivers.ctx, ctx={"run": {"id": "run_7", "tags": ["a"]}, "attempt": {"number": 2}, "batch": "b"}
    )

    assert (context.run.id, context.run.tags, context.run.is_test) == ("run_7", ("a",), False)
    assert (context.attempt.number, context.attempt.started_at) == (2, START)
    assert (context.batch, context.queue.name) == ("b", "test-queue")


async def test_worker_and_warm_start_are_given_too() -> None:
    async def task(drivers: TaskDrivers) -> tuple[Any, bool]:
        assert drivers.worker is current_worker()
        assert drivers.is_warm_start is is_warm_start()
        return asdict(drivers.worker), drivers.is_warm_start

    default = {"id": "test-worker-id", "version": "test-version", "content_hash": "test-content-hash", "engine": "V2"}

    assert await run_in_mock_task_context(task) == (default, False)
    assert await run_in_mock_task_context(task, worker={"version": "2"}, is_warm_start=True) == (
        {**default, "version": "2"},
        True,
    )


@pytest.mark.parametrize("options", [{"ctx": {"runs": {}}}, {"ctx": {"run": {"name": "x"}}}, {"worker": {"name": "x"}}])
async def test_what_a_context_does_not_have_is_refused(options: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        await run_in_mock_task_context(lambda _: None, **options)


# Locals ---------------------------------------------------------------------------------------------------------------


async def test_what_the_driver_sets_the_code_finds_and_the_other_way_round() -> None:
    async def code_under_test() -> str:
        locals.set(NAME, locals.get_or_throw(NAME).upper())
        return locals.get_or_throw(NAME)

    async def task(drivers: TaskDrivers) -> tuple[str, str | None, str]:
        assert drivers.locals.get(NAME) is None
        set_value = drivers.locals.set(NAME, "ada")
        return await code_under_test(), drivers.locals.get(NAME), set_value

    assert await run_in_mock_task_context(task) == ("ADA", "ADA", "ada")


async def test_keys_with_one_id_share_a_value_and_falsy_values_are_values() -> None:
    async def task(_: TaskDrivers) -> list[Any]:
        locals.set(locals.create("count", int), 0)
        return [locals.get(locals.create("count")), locals.get_or_throw(locals.create("count", int))]

    assert await run_in_mock_task_context(task) == [0, 0]


async def test_a_local_that_was_not_set_is_none_or_an_error() -> None:
    async def task(drivers: TaskDrivers) -> None:
        assert locals.get(NAME) is None
        with pytest.raises(LocalNotFoundError, match="Local with id name not found"):
            locals.get_or_throw(NAME)
        with pytest.raises(LocalNotFoundError):
            drivers.locals.get_or_throw(NAME)

    await run_in_mock_task_context(task)


# Of the function alone ------------------------------------------------------------------------------------------------


def outside() -> list[Any]:
    """What code outside any run sees."""
    locals.set(NAME, "nobody")
    metadata.set("key", "nobody")
    return [
        current_run.get(),
        current_context(),
        current_worker(),
        is_warm_start(),
        current_tasks(),
        locals.get(NAME),
        metadata.get_key("key"),
        metadata.current(),
        streams.input("any").peek(),
    ]


NOTHING: list[Any] = [None, None, None, False, None, None, None, {}, None]


async def test_outside_and_after_it_there_is_nothing() -> None:
    assert outside() == NOTHING

    async def task(drivers: TaskDrivers) -> None:
        drivers.locals.set(NAME, "ada")
        metadata.set("key", 1)
        assert current_clock() is drivers.clock

    await run_in_mock_task_context(task)

    assert outside() == NOTHING


async def test_it_is_gone_after_an_error_which_comes_out_as_itself() -> None:
    error = RuntimeError("on purpose")

    async def task(_: TaskDrivers) -> None:
        raise error

    with pytest.raises(RuntimeError) as raised:
        await run_in_mock_task_context(task)

    assert raised.value is error
    assert outside() == NOTHING


async def test_a_cancelled_context_ends_its_function() -> None:
    ended: list[str] = []

    async def task(_: TaskDrivers) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("function")

    with anyio.move_on_after(0.01) as limit:
        await run_in_mock_task_context(task)

    assert limit.cancelled_caught
    assert ended == ["function"]


async def test_a_sync_function_and_one_that_returns_nothing_will_do() -> None:
    assert await run_in_mock_task_context(lambda drivers: drivers.ctx.run.id) == "run_test"


async def test_contexts_side_by_side_do_not_notice_each_other() -> None:
    seen: dict[str, list[Any]] = {}
    together = anyio.Event()
    arrived: list[str] = []

    async def run_one(name: str) -> None:
        async def task(drivers: TaskDrivers) -> None:
            drivers.locals.set(NAME, name)
            metadata.set("name", name)
            arrived.append(name)
            if len(arrived) == 20:
                together.set()
            await together.wait()
            session, stream = Session("shared"), streams.input("shared")
            await drivers.sessions.in_.send("shared", {"from": name})
            await drivers.inputs.send("shared", name)
            streams.output("shared").append(name)
            record = (await session.in_.once()).output
            seen[name] = [
                locals.get(NAME),
                metadata.current(),
                record and record.data,
                (await stream.once()).output,
                drivers.outputs.all(),
                current_context() and drivers.ctx.run.id,
            ]

        await run_in_mock_task_context(task, ctx={"run": {"id": f"run_{name}"}})

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(run_one, f"n{number}")

    assert seen == {
        f"n{n}": [f"n{n}", {"name": f"n{n}"}, {"from": f"n{n}"}, f"n{n}", {"shared": [f"n{n}"]}, f"run_n{n}"]
        for n in range(20)
    }


async def test_contexts_in_threads_with_loops_of_their_own(anyio_backend: str) -> None:
    async def task(drivers: TaskDrivers) -> str:
        drivers.locals.set(NAME, drivers.ctx.run.id)
        await drivers.clock.sleep(60)
        return locals.get_or_throw(NAME)

    async def run_one(number: int) -> str:
        return await run_in_mock_task_context(task, ctx={"run": {"id": f"run_{number}"}})

    names: list[str] = []

    async def in_a_thread(number: int) -> None:
        names.append(await anyio.to_thread.run_sync(lambda: anyio.run(run_one, number, backend=anyio_backend)))

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(in_a_thread, number)

    assert sorted(names) == ["run_0", "run_1", "run_2"]


async def test_contexts_inside_each_other_do_not_notice_each_other() -> None:
    async def inner(drivers: TaskDrivers) -> list[Any]:
        before = [locals.get(NAME), metadata.current(), drivers.ctx.run.id]
        drivers.locals.set(NAME, "inner")
        metadata.set("who", "inner")
        await drivers.clock.sleep(3600)
        return before

    async def outer(drivers: TaskDrivers) -> list[Any]:
        drivers.locals.set(NAME, "outer")
        metadata.set("who", "outer")
        before = await run_in_mock_task_context(inner, ctx={"run": {"id": "run_inner"}})
        assert drivers.clock.now() == START
        return [before, locals.get(NAME), metadata.current(), drivers.ctx.run.id]

    assert await run_in_mock_task_context(outer) == [[None, {}, "run_inner"], "outer", {"who": "outer"}, "run_test"]


async def test_the_outer_drivers_drive_the_outer_context_from_inside_the_inner_one() -> None:
    async def outer(drivers: TaskDrivers) -> list[Any]:
        async def inner(inner_drivers: TaskDrivers) -> Any:
            await drivers.sessions.in_.send("c", "for the outer one")
            return Session("c").in_.peek()

        of_inner = await run_in_mock_task_context(inner)
        record = (await Session("c").in_.once()).output
        in_vain = await Session("c").in_.once(timeout=60)
        return [of_inner, record and record.data, in_vain.ok, drivers.clock.now() - START]

    assert await run_in_mock_task_context(outer) == [None, "for the outer one", False, 60]


async def test_a_harness_inside_a_context_has_a_run_of_its_own() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        drivers.locals.set(NAME, "of the task")
        seen: list[Any] = []
        agent = agent_of(saying("hi"), on_turn_start=lambda event: seen.append((locals.get(NAME), event.ctx.run.id)))
        async with mock_chat_agent(agent, task_context={"run": {"id": "run_agent"}}) as harness:
            seen.append((await harness.send_message("hello")).text)
        return [*seen, locals.get(NAME), drivers.ctx.run.id]

    assert await run_in_mock_task_context(task, ctx={"run": {"id": "run_task"}}) == [
        (None, "run_agent"),
        "hi",
        "of the task",
        "run_task",
    ]


async def test_two_contexts_of_one_test_share_nothing() -> None:
    await run_in_mock_task_context(lambda drivers: drivers.locals.set(NAME, "first"))

    assert await run_in_mock_task_context(lambda drivers: drivers.locals.get(NAME)) is None


# Time and tasks -------------------------------------------------------------------------------------------------------


async def test_time_is_virtual_and_moves_by_itself() -> None:
    async def task(drivers: TaskDrivers) -> float:
        await chat.sleep(3600)
        result = await Session("c").in_.once(timeout=60)
        assert not result.ok
        return drivers.clock.now() - START

    assert await run_in_mock_task_context(task) == 3660


async def test_a_task_group_of_the_functions_own_may_sleep_too() -> None:
    async def task(drivers: TaskDrivers) -> float:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(chat.sleep, 10)
            tasks.start_soon(chat.sleep, 20)
        return drivers.clock.now() - START

    assert await run_in_mock_task_context(task) == 20


async def test_what_the_function_left_behind_is_ended() -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("task")

    async def task(_: TaskDrivers) -> None:
        tasks = current_tasks()
        assert tasks is not None
        tasks.start(forever, name="forever")
        await anyio.lowlevel.checkpoint()

    await run_in_mock_task_context(task)

    assert ended == ["task"]


async def test_a_function_that_waits_in_vain_is_told_what_for() -> None:
    async def task(_: TaskDrivers) -> None:
        await streams.input("approval").once()

    with pytest.raises(WaitTimeoutError) as raised:
        await run_in_mock_task_context(task, wait_timeout=0.02)

    text = str(raised.value)
    assert text.startswith("the function in the task context: nothing came within 0.02 s.\n")
    assert "waiting: data on input stream 'approval'" in text
    assert f"{__file__}:" in text
    assert outside() == NOTHING


async def test_a_function_that_waits_on_something_foreign_has_all_the_time_it_needs(anyio_backend_name: str) -> None:
    async def task(_: TaskDrivers) -> str:
        if anyio_backend_name == "asyncio":
            await asyncio.sleep(0.05)
        else:
            await anyio.sleep(0.05)
        return "done"

    assert await run_in_mock_task_context(task, wait_timeout=0.001) == "done"
