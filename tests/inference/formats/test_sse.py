"""One event as a frame, and back (3.1, 3.5, 4.4)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.sse import SseEvent, SseParser, parse_sse, render_sse

LINES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"))
DATA = st.text(st.characters(codec="utf-8", exclude_characters="\r"))
EVENTS = st.builds(SseEvent, st.none() | LINES.filter(bool), DATA)


def test_a_frame_has_its_name_first_and_a_line_for_each_of_its_lines() -> None:
    """FMT-016."""
    assert render_sse(SseEvent.named("ping", "a\nb\n")) == b"event: ping\ndata: a\ndata: b\ndata: \n\n"
    assert render_sse(SseEvent.of("x")) == b"data: x\n\n"
    assert render_sse(SseEvent.of("")) == b"data: \n\n"


def test_what_is_no_string_is_dumped_as_compact_json() -> None:
    class Point(BaseModel):
        x: int

    assert SseEvent.of({"a": [1, "é"]}).data == '{"a":[1,"é"]}'
    assert SseEvent.named("e", [Point(x=1)]).data == '[{"x":1}]'
    assert SseEvent.of("é") == SseEvent(None, "é")


@pytest.mark.parametrize(
    ("event", "data", "problem"),
    [
        ("a\nb", "", r"^`event` is 'a\\nb': a name is one line$"),
        ("a\rb", "", r"^`event` is 'a\\rb': a name is one line$"),
        ("", "", r"^`event` is '': a name is a text; `None` leaves it out$"),
        (7, "", r"^`event` is 7: a name is a text"),
        ("\ud800", "", r"^`event` is .*: UTF-8 cannot say it"),
        (None, "a\r\nb", r"^`data` is 'a\\r\\nb': a frame cannot carry a CR$"),
        (None, "a\rb", r"^`data` is 'a\\rb': a frame cannot carry a CR$"),
        (None, "\ud800", r"^`data` is .*: UTF-8 cannot say it"),
        (None, {"a": 1}, r"^`data` is .*: it is a string; `SseEvent.of` and `SseEvent.named` take JSON values$"),
    ],
)
def test_what_no_frame_can_say_is_refused(event: Any, data: Any, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        SseEvent(event, data)


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf")}, {1, 2}, object()])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`data` is .*: it cannot go out as JSON"):
        SseEvent.of(value)


@given(events=st.lists(EVENTS), data=st.data())
def test_frames_come_back_as_events_however_they_are_cut(events: list[SseEvent], data: st.DataObject) -> None:
    wire = b"".join(map(render_sse, events))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=8)))

    pieces = [wire[start:end] for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True)]

    assert parse_sse(pieces) == events
    assert parse_sse(wire) == events


@given(events=st.lists(EVENTS), ends=st.data())
def test_any_line_end_will_do(events: list[SseEvent], ends: st.DataObject) -> None:
    wire = b"".join(map(render_sse, events))
    end = ends.draw(st.sampled_from([b"\r\n", b"\r", b"\n"]))

    cut_up = [bytes([byte]) for byte in wire.replace(b"\n", end)]

    assert parse_sse(cut_up) == parse_sse(wire.replace(b"\n", end)) == events


@pytest.mark.parametrize(
    ("wire", "events"),
    [
        pytest.param(": hello\n\n:\n\ndata: x\n\n", [(None, "x")], id="comments"),
        pytest.param("id: 7\nretry: 3\ndata: x\n\nid: 8\n\n", [(None, "x")], id="id-and-retry"),
        pytest.param("event: keepalive\n\ndata: x\n\n", [(None, "x")], id="a-name-without-data-is-forgotten"),
        pytest.param("data:\n\n", [(None, "")], id="empty-data"),
        pytest.param("data\n\n", [(None, "")], id="no-colon"),
        pytest.param("data:x\ndata:  y\n\n", [(None, "x\n y")], id="one-space-is-optional"),
        pytest.param("data: x\nevent: late\n\n", [("late", "x")], id="a-name-may-come-last"),
        pytest.param("data: x\n\ndata: y\n", [(None, "x")], id="no-blank-line-no-event"),
        pytest.param("data: x\u2028y\u2029z\u0085w\n\n", [(None, "x\u2028y\u2029z\u0085w")], id="no-line-ends"),
        pytest.param("\ufeffdata: x\n\ndata: y\n\n", [(None, "y")], id="a-byte-order-mark-loses-the-first"),
        pytest.param("data: x\r\r", [(None, "x")], id="cr-at-the-very-end"),
    ],
)
def test_streams_are_read_as_the_sdks_read_them(wire: str, events: list[tuple[str | None, str]]) -> None:
    expected = [SseEvent(*event) for event in events]

    assert parse_sse(wire.encode()) == expected
    assert parse_sse(bytes([byte]) for byte in wire.encode()) == expected


def test_an_event_is_given_with_the_byte_that_completes_it() -> None:
    parser = SseParser()

    assert parser.feed(b"data: x\r") == []
    assert parser.feed(b"\n\r") == [SseEvent(None, "x")]
    assert parser.feed(b"\ndata: y\n\n") == [SseEvent(None, "y")]


def test_bytes_that_are_no_text_are_marked() -> None:
    assert parse_sse(b"data: a\xffb\n\n") == [SseEvent(None, "a\ufffdb")]
