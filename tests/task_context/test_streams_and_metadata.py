"""Input streams, output streams and metadata, from the code's side and from the test's (rule X-30)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from chatagent.errors import ChatContextError, InputStreamTimeoutError, WaitTimeoutError
from chatagent.task import InputResult, StreamInputTimeoutError, metadata, streams
from chatagent_test import run_in_mock_task_context
from task_context.working import begin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from chatagent.session import SuspendedWait
    from chatagent_test import TaskDrivers

pytestmark = pytest.mark.anyio


# Input streams --------------------------------------------------------------------------------------------------------


async def test_data_go_to_all_waits_and_to_all_handlers() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        stream, seen = streams.input("s"), list[Any]()
        waits = [await begin(stream.once), await begin(stream.once)]
        stream.on(lambda data: seen.append(("sync", data)))
        stream.on(lambda data: seen.append(("again", data)))

        await drivers.inputs.send("s", 1)

        return [[(await wait.wait()).output for wait in waits], seen]

    assert await run_in_mock_task_context(task) == [[1, 1], [("sync", 1), ("again", 1)]]


async def test_what_nobody_takes_is_kept_for_the_next_waits_in_order() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        stream = streams.input("s")
        await drivers.inputs.send("s", 1)
        await drivers.inputs.send("s", 2)
        return [(await stream.once()).output, (await stream.once()).output, (await stream.once(timeout=1)).ok]

    assert await run_in_mock_task_context(task) == [1, 2, False]


async def test_what_a_handler_or_a_wait_has_had_is_not_kept() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        stream, seen = streams.input("s"), list[Any]()
        subscription = stream.on(seen.append)
        await drivers.inputs.send("s", 1)
        subscription.off()
        wait = await begin(stream.once)
        await drivers.inputs.send("s", 2)
        return [seen, (await wait.wait()).output, (await stream.once(timeout=1)).ok]

    assert await run_in_mock_task_context(task) == [[1], 2, False]


async def test_streams_do_not_mix() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        await drivers.inputs.send("a", 1)
        await drivers.inputs.send("b", 2)
        return [(await streams.input("b").once()).output, (await streams.input("a").once()).output]

    assert await run_in_mock_task_context(task) == [2, 1]


async def test_async_handlers_are_awaited_by_send_and_a_failing_one_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        stream, seen = streams.input("s"), list[Any]()

        async def slow(data: Any) -> None:
            await drivers.clock.sleep(5)
            seen.append(data)

        def failing(_: Any) -> None:
            raise RuntimeError("on purpose")

        stream.on(failing)
        stream.on(slow)
        await drivers.inputs.send("s", 1)
        return list(seen)

    with caplog.at_level(logging.ERROR, logger="chatagent"):
        assert await run_in_mock_task_context(task) == [1]

    assert [record.message for record in caplog.records] == ["a handler of input stream 's' failed"]


async def test_peek_shows_the_newest_data_whoever_has_had_them() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        stream = streams.input("s")
        seen = [stream.peek()]
        await drivers.inputs.send("s", 1)
        seen.append(stream.peek())
        await stream.once()
        seen.append(stream.peek())
        stream.on(lambda _: None)
        await drivers.inputs.send("s", 2)
        return [*seen, stream.peek()]

    assert await run_in_mock_task_context(task) == [None, 1, 1, 2]


async def test_a_wait_ends_when_its_time_is_up() -> None:
    async def task(drivers: TaskDrivers) -> tuple[InputResult, float]:
        began = drivers.clock.now()
        return await streams.input("s").once(timeout=30), drivers.clock.now() - began

    result, seconds = await run_in_mock_task_context(task)

    assert (result.ok, result.output, seconds) == (False, None, 30)
    assert isinstance(result.error, StreamInputTimeoutError)
    assert isinstance(result.error, InputStreamTimeoutError)
    assert isinstance(result.error, WaitTimeoutError)
    assert str(result.error) == "input stream 's': nothing came within 30 s"


async def test_closing_a_stream_ends_the_waits_that_are_on_with_a_timeout_error() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        stream = streams.input("s")
        waits = [await begin(stream.once), await begin(stream.wait)]
        drivers.inputs.close("s")
        results = [await wait.wait() for wait in waits]
        await drivers.inputs.send("s", "later")
        return [*results, (await stream.once()).output]

    *ended, later = await run_in_mock_task_context(task)

    assert [str(result.error) for result in ended] == ["input stream 's': was closed before anything came"] * 2
    assert later == "later"


async def test_data_that_came_to_a_cancelled_wait_alone_are_kept() -> None:
    async def task(drivers: TaskDrivers) -> Any:
        stream = streams.input("s")
        wait = await begin(stream.once)
        wait.cancel()
        await drivers.inputs.send("s", 1)
        await wait.join()
        return (await stream.once(timeout=1)).output

    assert await run_in_mock_task_context(task) == 1


async def test_a_suspended_wait_goes_on_in_place_or_as_the_runtime_manager_likes() -> None:
    class Manager:
        def __init__(self) -> None:
            self.waits: list[SuspendedWait] = []

        async def suspend(self, wait: SuspendedWait, resume: Callable[[], Awaitable[Any]]) -> Any:
            self.waits.append(wait)
            return await resume()

    async def task(drivers: TaskDrivers) -> Any:
        await drivers.inputs.send("s", 1)
        return (await streams.input("s").wait(timeout=9)).output

    manager = Manager()

    assert await run_in_mock_task_context(task) == 1
    assert await run_in_mock_task_context(task, runtime_manager=manager) == 1
    assert [(wait.kind, wait.id, wait.timeout) for wait in manager.waits] == [("stream", "s", 9)]


@pytest.mark.parametrize("use", ["on", "once", "wait"])
async def test_there_are_no_input_streams_outside_a_run(use: str) -> None:
    stream = streams.input("s")

    with pytest.raises(ChatContextError, match="input"):
        await {"on": _on, "once": stream.once, "wait": stream.wait}[use]()

    assert stream.peek() is None


async def _on() -> None:
    streams.input("s").on(print)


# Output streams -------------------------------------------------------------------------------------------------------


async def test_what_is_written_is_seen_in_order_by_stream_as_a_copy() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        streams.output("a").append(1)
        streams.output("b").append({"x": 1})
        streams.output("a").append(2)
        chunks = drivers.outputs.chunks("a")
        chunks.append("mine")
        drivers.outputs.all()["a"].append("mine")
        return [drivers.outputs.chunks("a"), drivers.outputs.chunks("none"), drivers.outputs.all()]

    assert await run_in_mock_task_context(task) == [[1, 2], [], {"a": [1, 2], "b": [{"x": 1}]}]


async def test_one_stream_or_all_are_cleared() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        for name in "ab":
            streams.output(name).append(name)
        drivers.outputs.clear("a")
        after_one = drivers.outputs.all()
        drivers.outputs.clear()
        return [after_one, drivers.outputs.all()]

    assert await run_in_mock_task_context(task) == [{"b": ["b"]}, {}]


async def test_listeners_hear_of_every_write_until_they_unsubscribe_and_may_fail() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        heard: list[Any] = []

        def failing(_stream: str, _chunk: Any) -> None:
            raise RuntimeError("on purpose")

        drivers.outputs.on_write(failing)
        unsubscribe = drivers.outputs.on_write(lambda stream, chunk: heard.append((stream, chunk)))
        streams.output("a").append(1)
        await streams.output("b").pipe([2]).wait_until_complete()
        unsubscribe()
        unsubscribe()
        streams.output("a").append(3)
        return [heard, drivers.outputs.all()]

    assert await run_in_mock_task_context(task) == [[("a", 1), ("b", 2)], {"a": [1, 3], "b": [2]}]


async def test_a_piped_source_is_drained_eagerly_and_its_failure_keeps_what_came() -> None:
    async def source() -> AsyncIterator[int]:
        yield 1
        await checkpoint()
        yield 2
        raise RuntimeError("on purpose")

    def plain() -> Iterator[int]:
        yield 3
        raise RuntimeError("on purpose")

    async def task(drivers: TaskDrivers) -> list[Any]:
        piped = streams.output("a").pipe(source())
        nobody_asked = streams.output("b").pipe(plain())
        del nobody_asked
        await piped.wait_until_complete()
        for _ in range(3):
            await checkpoint()
        return [drivers.outputs.chunks("a"), drivers.outputs.chunks("b")]

    assert await run_in_mock_task_context(task) == [[1, 2], [3]]


async def test_there_are_no_output_streams_outside_a_run() -> None:
    with pytest.raises(ChatContextError, match="append"):
        streams.output("a").append(1)
    with pytest.raises(ChatContextError, match="pipe"):
        streams.output("a").pipe([1])


# Metadata -------------------------------------------------------------------------------------------------------------


async def test_metadata_are_set_read_and_deleted() -> None:
    async def task(drivers: TaskDrivers) -> list[Any]:
        metadata.set("a", 1)
        drivers.metadata.set("b", [2])
        metadata.del_("missing")
        read = [metadata.get_key("a"), metadata.get_key("b"), metadata.get_key("c"), drivers.metadata.current()]
        metadata.del_("a")
        return [*read, drivers.metadata.current()]

    assert await run_in_mock_task_context(task) == [1, [2], None, {"a": 1, "b": [2]}, {"b": [2]}]


async def test_append_makes_a_list_and_remove_takes_equal_values_out() -> None:
    async def task(_: TaskDrivers) -> list[Any]:
        metadata.append("new", 1)
        metadata.append("new", 2)
        metadata.append("new", 1)
        metadata.set("text", "x")
        metadata.remove("text", "x")
        before = metadata.current()
        metadata.append("text", "y")
        metadata.remove("new", 1)
        metadata.remove("missing", 1)
        return [before, metadata.current()]

    assert await run_in_mock_task_context(task) == [
        {"new": [1, 2, 1], "text": "x"},
        {"new": [2], "text": ["y"]},
    ]


async def test_numbers_are_counted_from_zero() -> None:
    async def task(_: TaskDrivers) -> dict[str, Any]:
        metadata.increment("up")
        metadata.increment("up", 2.5)
        metadata.decrement("down")
        metadata.decrement("down", 4)
        return metadata.current()

    assert await run_in_mock_task_context(task) == {"up": 3.5, "down": -5}


async def test_update_replaces_everything() -> None:
    async def task(_: TaskDrivers) -> dict[str, Any]:
        metadata.set("a", 1)
        metadata.update({"b": 2})
        return metadata.current()

    assert await run_in_mock_task_context(task) == {"b": 2}


async def test_what_is_read_is_a_copy() -> None:
    async def task(_: TaskDrivers) -> dict[str, Any]:
        given = {"x": 1}
        metadata.set("a", given)
        given["x"] = 2
        metadata.current()["a"]["x"] = 3
        metadata.get_key("a")["x"] = 4
        return metadata.current()

    assert await run_in_mock_task_context(task) == {"a": {"x": 1}}


async def test_parent_and_root_are_itself_and_flushing_does_nothing() -> None:
    async def task(_: TaskDrivers) -> dict[str, Any]:
        metadata.parent.set("parent", 1)
        metadata.root.set("root", 2)
        await metadata.flush()
        await metadata.refresh()
        return metadata.current()

    assert await run_in_mock_task_context(task) == {"parent": 1, "root": 2}


async def test_tasks_and_threads_of_the_function_share_them() -> None:
    async def task(drivers: TaskDrivers) -> dict[str, Any]:
        await anyio.to_thread.run_sync(lambda: metadata.increment("count"))
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(count)
        return drivers.metadata.current()

    async def count() -> None:
        metadata.increment("count")

    assert await run_in_mock_task_context(task) == {"count": 4}
