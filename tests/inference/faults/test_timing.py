"""The pace of a stream (7.11)."""

from __future__ import annotations

from typing import Any

import pytest

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.scripted import ScriptedResponse, SseBody
from chatagent_test.inference.sse import SseEvent
from chatagent_test.inference.timing import TimingProfile, delays_of

EVENTS = [SseEvent.of(str(number)) for number in range(3)]


def test_the_first_frame_has_a_time_of_its_own() -> None:
    assert TimingProfile(first=0.5, tokens_per_second=20).delays(3) == [0.5, 0.05, 0.05]
    assert TimingProfile(first=0.5).delays(2) == [0.5, 0]
    assert TimingProfile(first=0.5).delays(0) == []


def test_jitter_is_the_same_for_the_same_seed_and_within_its_bounds() -> None:
    profile = TimingProfile(first=1, tokens_per_second=1, jitter=0.2, seed=4)

    delays = profile.delays(50)

    assert delays == profile.delays(50) != TimingProfile(first=1, tokens_per_second=1, jitter=0.2).delays(50)
    assert all(0.8 <= delay <= 1.2 for delay in delays)
    assert len(set(delays)) == 50


def test_delays_of_the_answer_itself_stay() -> None:
    response = ScriptedResponse.sse(EVENTS, frame_delays=[None, 7])

    body = TimingProfile(first=0.5, tokens_per_second=2).apply(response).body

    assert isinstance(body, SseBody)
    assert body.frame_delays == (0.5, 7, 0.5)
    assert body.events == tuple(EVENTS)


def test_what_is_no_stream_is_not_touched() -> None:
    response = ScriptedResponse.json(200, {})

    assert TimingProfile(first=1).apply(response) is response


def test_a_recorded_pace_can_be_played_faster() -> None:
    assert delays_of([0.5, 0.5, 2.5], speed=2) == [0.25, 0, 1]
    assert delays_of([]) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"first": -1}, "^`first` is -1: it is 0 seconds or more$"),
        ({"first": float("nan")}, "^`first` is nan"),
        ({"tokens_per_second": 0}, "^`tokens_per_second` is 0: it is more than 0, or `None`$"),
        ({"jitter": 2}, "^`jitter` is 2: it is 0 to 1$"),
    ],
)
def test_a_pace_that_makes_no_sense_is_refused(arguments: Any, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        TimingProfile(**arguments)


@pytest.mark.parametrize(("times", "speed"), [([2, 1], 1), ([-1], 1), ([1], 0), ([1], -1), ([float("inf")], 1)])
def test_a_recorded_pace_that_makes_no_sense_is_refused(times: Any, speed: float) -> None:
    with pytest.raises(InvalidArgumentError):
        delays_of(times, speed=speed)
