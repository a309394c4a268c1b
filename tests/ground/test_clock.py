"""Durations, and the machine's clock."""

from __future__ import annotations

import time

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from chatagent.clock import Clock, SystemClock, to_seconds
from chatagent.current import current_clock, current_tasks
from chatagent.errors import InvalidArgumentError
from chatagent_test.clock import VirtualClock
from ground.fake_run import a_run

UNITS = {"w": 604800, "d": 86400, "hr": 3600, "h": 3600, "m": 60, "s": 1}


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [
        (0, 0.0),
        (2.5, 2.5),
        ("30s", 30.0),
        ("1h30m", 5400.0),
        ("1hr30m", 5400.0),
        ("2w1d", 1296000.0),
        ("1.5h", 5400.0),
        ("0s", 0.0),
        (" 5m ", 300.0),
        ("1s1s", 2.0),
    ],
)
def test_a_duration_is_seconds_or_a_text_of_numbers_and_units(duration: float | str, seconds: float) -> None:
    assert to_seconds(duration) == seconds
    assert isinstance(to_seconds(duration), float)


@given(st.lists(st.tuples(st.integers(0, 1000), st.sampled_from(sorted(UNITS))), min_size=1, max_size=6))
def test_the_parts_of_a_duration_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)

    assert to_seconds(text) == sum(number * UNITS[unit] for number, unit in parts)


@pytest.mark.parametrize("text", ["", "5", "h", "1x", "1h 30m", "-1s", "1h30", "1.h", "1H", "1h\n2m"])
def test_a_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        to_seconds(text, argument="turn_timeout")

    assert str(caught.value) == (
        f'`turn_timeout` is {text!r}: a duration reads like "1h30m", with units w, d, h, hr, m, s'
    )


@pytest.mark.parametrize("duration", [-1, -0.001, float("inf"), float("-inf"), float("nan"), "9" * 400 + "s"])
def test_a_duration_that_is_negative_or_not_finite_is_refused(duration: float | str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`duration` is .*: a duration is 0 seconds or more$"):
        to_seconds(duration)


def test_both_clocks_are_clocks() -> None:
    assert isinstance(SystemClock(), Clock)
    assert isinstance(VirtualClock(), Clock)


def test_the_system_clock_shows_the_machines_time() -> None:
    before = time.time()
    now = SystemClock().now()

    assert before <= now <= time.time()


@pytest.mark.anyio
async def test_the_system_clock_sleeps_in_real_time() -> None:
    clock = SystemClock()
    start = time.monotonic()

    await clock.sleep(0.002)
    await clock.sleep_until(clock.now() + 0.002)

    assert time.monotonic() - start >= 0.0039


@pytest.mark.anyio
@pytest.mark.parametrize("clock", [SystemClock(), VirtualClock()], ids=["system", "virtual"])
@pytest.mark.parametrize("seconds", [0.0, -5.0])
async def test_a_sleep_that_is_over_at_once_still_lets_others_run(clock: Clock, seconds: float) -> None:
    steps: list[str] = []

    async def other() -> None:
        while True:
            steps.append("other")
            await checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await checkpoint()
        steps.clear()
        await clock.sleep(seconds)
        await clock.sleep_until(clock.now() + seconds)
        tasks.cancel_scope.cancel()

    assert steps


@pytest.mark.anyio
async def test_the_current_clock_and_tasks_are_the_runs() -> None:
    assert isinstance(current_clock(), SystemClock)
    assert current_tasks() is None

    async with a_run() as run:
        assert current_clock() is run.clock
        assert current_tasks() is run.tasks
