"""Broken answers: what is left of a good one (7.12)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.faults import Fault, RandomFaults
from chatagent_test.inference.formats import chat_completion_events_exact
from chatagent_test.inference.scripted import FrameWait, RawBody, ScriptedResponse, SseBody, sent_bytes
from chatagent_test.inference.sse import SseEvent, parse_sse
from chatagent_test.scripting.steps import HoldStep

EVENTS = [SseEvent.of({"n": number, "text": "naïve 🙂" if number == 2 else "x"}) for number in range(4)]
GOOD = ScriptedResponse.sse(EVENTS)
WHOLE = ScriptedResponse.json(200, {"text": "x"}, headers={"x-name": "1"})

EMPTY = ScriptedResponse.text(204, "")


def broken(fault: Fault, response: ScriptedResponse = GOOD) -> SseBody:
    body = fault.apply(response).body
    assert isinstance(body, SseBody)
    return body


def test_a_truncated_stream_ends_in_order() -> None:
    body = broken(Fault.truncate(after=2))

    assert (body.frames, body.end) == (stream().frames[:2], "clean")


def test_an_aborted_stream_closes_its_socket() -> None:
    body = broken(Fault.abort(after=3))

    assert (body.frames, body.end) == (stream().frames[:3], "abort")


def test_a_stalled_stream_never_ends() -> None:
    body = broken(Fault.stall(after=0))

    assert (body.frames, body.end) == ((), "stall")


def test_a_cut_frame_is_half_there_and_no_event() -> None:
    body = broken(Fault.cut_frame(at=1))

    frames = stream().frames
    assert body.frames == (frames[0], frames[1][: len(frames[1]) - len(frames[1]) // 2])
    assert parse_sse(b"".join(body.frames)) == EVENTS[:1]
    assert body.end == "abort"


def test_a_cut_in_a_character_leaves_bytes_that_are_no_text() -> None:
    body = broken(Fault.cut_utf8())

    assert len(body.frames) == 3
    with pytest.raises(UnicodeDecodeError, match="unexpected end of data"):
        b"".join(body.frames).decode()


@pytest.mark.parametrize("at", range(4))
def test_a_malformed_frame_is_whole_but_no_json(at: int) -> None:
    body = broken(Fault.malformed(at=at))

    assert len(body.frames) == 4
    assert [is_json(event.data) for event in parse_sse(sent_bytes(body))] == [index != at for index in range(4)]


@pytest.mark.parametrize("data", ["[DONE]", "12", "", "1"])
def test_any_data_can_be_malformed(data: str) -> None:
    body = broken(Fault.malformed(at=0), ScriptedResponse.sse([SseEvent.of(data)]))

    assert not is_json(body.events[0].data)


def test_a_frame_that_comes_twice_takes_its_surroundings_along() -> None:
    waits = [FrameWait(1, HoldStep("a")), FrameWait(2, HoldStep("b"))]
    response = ScriptedResponse(200, (), SseBody(EVENTS, truncate_after=3, frame_delays=[1, 2, 3], waits=waits))

    body = broken(Fault.duplicate(at=1), response)

    assert list(body.frames) == [*stream().frames[:2], *stream().frames[1:3]]
    assert body.frame_delays == (1, 2, 0, 3)
    assert [(wait.index, wait.step) for wait in body.waits] == [(1, HoldStep("a")), (3, HoldStep("b"))]


def test_frames_may_be_counted_from_the_end() -> None:
    assert broken(Fault.duplicate(at=-1)).frames[-2:] == stream().frames[-1:] * 2


@pytest.mark.parametrize("response", [GOOD, WHOLE])
def test_a_wrong_content_type_replaces_the_right_one(response: ScriptedResponse) -> None:
    headers = dict(Fault.wrong_content_type().apply(response).wire_headers)

    assert headers.pop("content-type") == "text/html"
    assert headers == {name: value for name, value in response.wire_headers if name != "content-type"}


@pytest.mark.parametrize(
    "fault", [Fault.abort(after=1), Fault.stall(after=1), Fault.cut_frame(), Fault.malformed(at=0)]
)
def test_half_of_what_is_no_stream_is_sent(fault: Fault) -> None:
    response = fault.apply(WHOLE)

    assert isinstance(response.body, RawBody)
    assert response.body.chunks == (b'{"text',)
    assert response.body.end == fault.end
    assert response.wire_headers == WHOLE.wire_headers


@pytest.mark.parametrize(
    ("fault", "response", "problem"),
    [
        (Fault.abort(after=5), GOOD, "^`after` is 5: the answer sends 4 frames$"),
        (Fault.truncate(after=-1), GOOD, "^`after` is -1: the answer sends 4 frames$"),
        (Fault.malformed(at=4), GOOD, "^`at` is 4: the answer sends 4 frames$"),
        (Fault.cut_frame(at=-5), GOOD, "^`at` is -5: the answer sends 4 frames$"),
        (Fault.cut_utf8(at=3), GOOD, "^`at` is 3: no frame from there on has a character of several bytes$"),
        (Fault.duplicate(at=0), WHOLE, "^`response` is .*: only a stream can be hit by 'duplicate'$"),
        (Fault.cut_utf8(), WHOLE, "^`response` is .*: only a stream can be hit by 'cut-utf8'$"),
    ],
)
def test_what_cannot_break_so_is_said(fault: Fault, response: ScriptedResponse, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        fault.apply(response)


def test_a_kind_that_nobody_knows_is_refused() -> None:
    kind: Any = "explode"
    with pytest.raises(InvalidArgumentError, match=r"^`kind` is 'explode': it is one of truncate, abort, "):
        Fault(kind)


# At random --------------------------------------------------------------------------------------------------------


def test_the_same_seed_breaks_the_same_answers() -> None:
    first, second, other = RandomFaults(0.5, seed=7), RandomFaults(0.5, seed=7), RandomFaults(0.5, seed=8)

    for faults in (first, second, other):
        for _ in range(50):
            faults.apply(GOOD)

    assert first.applied == second.applied != other.applied
    assert None in first.applied
    assert len({fault.kind for fault in first.applied if fault}) > 3


def test_an_answer_without_luck_does_not_change_the_luck_of_the_next() -> None:
    mixed, alike = RandomFaults(1, seed=3), RandomFaults(1, seed=3)

    for response in (ScriptedResponse.sse([]), WHOLE, GOOD, GOOD):
        mixed.apply(response)
    for _ in range(4):
        alike.apply(GOOD)

    assert mixed.applied[2:] == alike.applied[2:]


@pytest.mark.parametrize("probability", [0, 1])
def test_certainty_is_certain(probability: float) -> None:
    faults = RandomFaults(probability, kinds=["abort", "malformed"])

    answers = [faults.apply(GOOD) for _ in range(20)]

    assert all((answer is GOOD) == (probability == 0) for answer in answers)


@given(
    seed=st.integers(),
    text=st.text(),
    kinds=st.lists(
        st.sampled_from(
            ["truncate", "abort", "stall", "cut-frame", "cut-utf8", "malformed", "duplicate", "content-type"]
        ),
        min_size=1,
    ),
)
def test_any_answer_can_be_broken_at_random(seed: int, text: str, kinds: Any) -> None:
    faults = RandomFaults(1, seed=seed, kinds=kinds)

    for response in (ScriptedResponse.sse(chat_completion_events_exact(text)), ScriptedResponse.sse([]), WHOLE, EMPTY):
        answer = faults.apply(response)

        assert (answer == response) == (faults.applied[-1] is None or harmless(faults.applied[-1], response))


def harmless(fault: Fault | None, response: ScriptedResponse) -> bool:
    """Return whether a fault happens to change nothing: a stream of no frames that ends in order."""
    return fault is not None and fault.apply(response) == response


@pytest.mark.parametrize(("probability", "kinds"), [(-0.1, ["abort"]), (1.1, ["abort"]), (0.5, []), (0.5, ["x"])])
def test_luck_that_makes_no_sense_is_refused(probability: float, kinds: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        RandomFaults(probability, kinds=kinds)


def stream() -> SseBody:
    assert isinstance(GOOD.body, SseBody)
    return GOOD.body


def is_json(data: str) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True
