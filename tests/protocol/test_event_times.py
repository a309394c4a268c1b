"""The times of events: what was used last comes first in a list, even where the clock stands still."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from chatagent.protocol import EventTimes
from chatagent_test import VirtualClock

TICK = timedelta(microseconds=1)


def test_the_events_of_one_thread_at_one_moment_have_one_time() -> None:
    times = EventTimes(VirtualClock())

    first = times.now("t-1")

    assert times.now("t-1") == first == times.last


def test_another_thread_is_a_microsecond_later_where_the_clock_stands_still() -> None:
    times = EventTimes(VirtualClock())

    given = [times.now(thread) for thread in ("t-1", "t-2", "t-1")]

    assert given == [given[0], given[0] + TICK, given[0] + 2 * TICK]


def test_the_time_is_the_clock_s_again_once_it_has_moved_on() -> None:
    clock = VirtualClock()
    times = EventTimes(clock)
    for thread in ("t-1", "t-2"):
        times.now(thread)

    clock.advance(5.0)

    assert times.now("t-1") == datetime.fromtimestamp(clock.now(), UTC)


def test_a_clock_that_goes_back_gives_no_earlier_time() -> None:
    class Back:
        def __init__(self) -> None:
            self.seconds = [10.0, 4.0]

        def now(self) -> float:
            return self.seconds.pop(0)

    times = EventTimes(Back())  # type: ignore[arg-type] - all that is asked of it

    assert times.now("t-1") == times.now("t-1")
