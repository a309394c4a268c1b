"""Streams and values for tests."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from chatagent.current import current_run
from chatagent.errors import InvalidArgumentError
from chatagent.waiting import Ledger
from chatagent_test.clock import VirtualClock
from chatagent_test.language_model import (
    convert_array_to_stream,
    convert_stream_to_array,
    mock_id,
    mock_values,
    simulate_stream,
)

pytestmark = pytest.mark.anyio


class Run:
    """As much of a run as a stream asks for."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.ledger = Ledger()


async def test_a_list_becomes_a_stream_and_a_stream_a_list() -> None:
    assert await convert_stream_to_array(convert_array_to_stream([1, None, 3])) == [1, None, 3]


async def test_parts_come_after_their_delays() -> None:
    clock = VirtualClock()
    token = current_run.set(Run(clock))  # type: ignore[arg-type] - as much of it as is needed
    start, came = clock.now(), list[tuple[str, float]]()

    async def read() -> None:
        async for part in simulate_stream(["a", "b", "c"], initial_delay=10, chunk_delay=2):
            came.append((part, clock.now() - start))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            for seconds in (10, 2, 2):
                while clock.next_deadline() is None:
                    await anyio.lowlevel.checkpoint()
                clock.advance(seconds)
    current_run.reset(token)

    assert came == [("a", 10), ("b", 12), ("c", 14)]


async def test_without_delays_nothing_waits_and_nothing_is_asked_in_advance() -> None:
    asked: list[int] = []

    def parts() -> Any:
        for number in range(3):
            asked.append(number)
            yield number

    stream = simulate_stream(parts())

    assert await anext(stream) == 0
    assert asked == [0]


async def test_an_empty_stream_ends_without_delay() -> None:
    with anyio.fail_after(5):
        assert await convert_stream_to_array(simulate_stream([], initial_delay=3600)) == []


async def test_a_closed_stream_gives_no_more() -> None:
    stream = simulate_stream([1, 2])

    await anext(stream)
    await stream.aclose()

    assert await convert_stream_to_array(stream) == []


def test_a_negative_delay_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`chunk_delay` is -1: a delay is 0 seconds or more"):
        simulate_stream([], chunk_delay=-1)


def test_ids_are_counted_from_zero() -> None:
    plain, named = mock_id(), mock_id("msg")

    assert [plain(), plain(), named()] == ["id-0", "id-1", "msg-0"]


def test_the_last_value_stays() -> None:
    value = mock_values("a", "b")

    assert [value(), value(), value(), value()] == ["a", "b", "b", "b"]
    with pytest.raises(InvalidArgumentError):
        mock_values()
