"""Comments in a silent stream (1.4.5): how many, and where there is none."""

from __future__ import annotations

import pytest

from chatagent_test.inference import LogEntry, ScriptedResponse, SseEvent
from chatagent_test.inference.steps import KEEP_ALIVE, OPEN_GATE, Frames, Pace, Wait, play
from chatagent_test.inference.waiting import Latch


def silences(response: ScriptedResponse, keep_alive: float | None) -> list[float | bytes | None]:
    """Return the waits of an answer, and its frames, in order."""
    pace = Pace(None, keep_alive, lambda name: Latch())
    told: list[float | bytes | None] = []
    for step in play(response, LogEntry("POST", "/", None), OPEN_GATE, pace):
        if isinstance(step, Wait):
            told.append(step.limit)
        elif isinstance(step, Frames):
            told += step.frames
    return told


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (2.0, [2.0]),
        (3.0, [3.0]),
        (7.5, [3.0, KEEP_ALIVE, 3.0, KEEP_ALIVE, 1.5]),
    ],
)
def test_a_long_pause_has_a_comment_for_each_silence_and_lasts_no_longer(
    seconds: float, told: list[float | bytes]
) -> None:
    response = ScriptedResponse.sse([SseEvent.of("x")], frame_delays=[seconds])

    assert silences(response, 3.0) == [*told, b"data: x\n\n"]
    assert silences(response, None) == [seconds, b"data: x\n\n"]
