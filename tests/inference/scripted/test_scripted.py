"""Scripted answers: what goes out, and what is refused when it is written (3.2 to 3.8)."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.scripted import (
    FrameWait,
    JsonBody,
    RawBody,
    ScriptedResponse,
    SseBody,
    sent_bytes,
)
from chatagent_test.inference.sse import SseEvent
from chatagent_test.scripting.steps import HoldStep, PauseStep

A, B, C = (SseEvent.of(text) for text in "abc")


# What goes out ----------------------------------------------------------------------------------------------------


def test_each_kind_has_its_status_and_its_content_type() -> None:
    """INF-036."""
    stream = ScriptedResponse.sse([A])
    whole = ScriptedResponse.json(503, {"a": 1})
    raw = ScriptedResponse.text(418, "tea")

    assert (stream.status, whole.status, raw.status) == (200, 503, 418)
    assert stream.wire_headers == (("content-type", "text/event-stream"), ("cache-control", "no-cache"))
    assert whole.wire_headers == (("content-type", "application/json"),)
    assert raw.wire_headers == (("content-type", "text/plain; charset=utf-8"),)
    assert [sent_bytes(each.body) for each in (stream, whole, raw)] == [b"data: a\n\n", b'{"a":1}', b"tea"]


def test_a_header_of_the_script_replaces_the_default_in_any_case() -> None:
    response = ScriptedResponse.text(200, "x", headers={"Content-Type": "text/html"})

    assert response.wire_headers == (("Content-Type", "text/html"),)


def test_a_name_given_twice_is_sent_twice() -> None:
    response = ScriptedResponse.json(200, {}, headers=[("set-cookie", "a=1"), ("set-cookie", "b=2")])

    assert response.wire_headers[1:] == (("set-cookie", "a=1"), ("set-cookie", "b=2"))


def test_more_headers_come_behind() -> None:
    response = ScriptedResponse.json(200, {}, headers={"a": "1"}).with_headers({"b": "2"})

    assert response.headers == (("a", "1"), ("b", "2"))


def test_a_raw_body_goes_out_in_its_chunks() -> None:
    body = RawBody([b"na\xc3", b"", b"\xafve"])

    assert body.chunks == (b"na\xc3", b"\xafve")


def test_a_body_keeps_what_it_was_given_whatever_comes_of_it() -> None:
    value, events = {"a": [1]}, [A]
    whole, stream = JsonBody(value), SseBody(events)

    value["a"].append(2)
    events.append(B)

    assert whole.content == b'{"a":[1]}'
    assert whole.value == {"a": [1]}
    assert stream.frames == (b"data: a\n\n",)


def test_a_model_goes_out_under_its_aliases() -> None:
    class Reply(BaseModel):
        ok: bool

    assert JsonBody(Reply(ok=True)).content == b'{"ok":true}'


def test_equal_answers_are_equal() -> None:
    assert ScriptedResponse.sse([A, B]) == ScriptedResponse.sse((A, B))
    assert JsonBody({"a": 1}) == JsonBody({"a": 1}) != JsonBody({"a": 2})
    assert RawBody("é") == RawBody("é".encode()) == RawBody(["é".encode()]) != RawBody([b"\xc3", b"\xa9"])
    assert len({ScriptedResponse.json(200, {"a": 1}), ScriptedResponse.json(200, {"a": 1})}) == 1


# Streams ----------------------------------------------------------------------------------------------------------


def test_a_stream_may_end_early_and_inside_a_frame() -> None:
    body = SseBody([A, B, C], truncate_after=2, cut_bytes=3)

    assert body.frames == (b"data: a\n\n", b"data: ")


def test_delays_that_are_not_given_are_the_servers() -> None:
    body = SseBody([A, B, C], frame_delays=[0.5, None])

    assert [body.delay_before(index) for index in range(3)] == [0.5, None, None]


def test_waits_behind_a_cut_stand_at_the_end() -> None:
    pause, hold = PauseStep(1.0), HoldStep("h")
    body = SseBody([A, B, C], truncate_after=1, waits=[FrameWait(0, pause), FrameWait(2, hold)])

    assert (body.waits_before(0), body.waits_before(1)) == ((pause,), (hold,))


@pytest.mark.parametrize(
    ("payloads", "index"),
    [
        ([{"choices": [{"finish_reason": None}]}, {"choices": [{"finish_reason": "stop"}]}, {"choices": []}], 1),
        ([{"type": "response.created"}, {"type": "response.incomplete"}], 1),
        ([{"type": "message_delta", "delta": {"stop_reason": None}}, {"type": "message_stop"}], None),
        ([{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}], 0),
        (["[DONE]", "{broken", [1]], None),
    ],
)
def test_a_stream_knows_with_which_frame_its_answer_ends(payloads: list[Any], index: int | None) -> None:
    assert SseBody([SseEvent.of(payload) for payload in payloads]).terminal_index == index


# What is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [42, 1000, 99, 0, -200, True, "200", 2.0, None])
def test_a_status_that_is_none_is_refused(status: Any) -> None:
    """INF-034."""
    with pytest.raises(InvalidArgumentError, match=r"^`status` is .*: a status is a number from 100 to 999$"):
        ScriptedResponse.json(status, {})


@pytest.mark.parametrize("status", [100, 199])
def test_an_interim_status_is_refused(status: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"1xx is no answer"):
        ScriptedResponse.text(status, "")


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_has_none(status: int) -> None:
    for response in (JsonBody({}), SseBody([]), RawBody("x"), RawBody("", "abort")):
        with pytest.raises(InvalidArgumentError, match=r"it goes without a body"):
            ScriptedResponse(status, (), response)
    assert ScriptedResponse.text(status, "").status == status


@pytest.mark.parametrize("name", ["", "a b", "a:b", "é", "a\n", "a\x00"])
def test_a_header_name_that_is_no_token_is_refused(name: str) -> None:
    """INF-035."""
    with pytest.raises(InvalidArgumentError, match=r"^`headers` is .*: the name of a header is an HTTP token$"):
        ScriptedResponse.json(200, {}, headers=[(name, "x")])


@pytest.mark.parametrize("value", ["a\nb", "a\r", "\x00", "\x1b[0m", "\x7f", " a", "a ", "日本"])
def test_a_header_value_that_no_header_carries_is_refused(value: str) -> None:
    """INF-035."""
    with pytest.raises(InvalidArgumentError, match=r"^`headers` is .*: the value of `x-name` has a character"):
        ScriptedResponse.json(200, {}, headers={"x-name": value})


@pytest.mark.parametrize("value", ["", "a\tb", "a b", "caf\xe9"])
def test_a_header_value_may_hold_tabs_and_spaces_inside(value: str) -> None:
    assert ScriptedResponse.json(200, {}, headers={"x-name": value}).headers == (("x-name", value),)


@pytest.mark.parametrize("headers", [["ab"], [("a", 1)], [("a", "b", "c")], [("a",)]])
def test_headers_that_are_no_pairs_are_refused(headers: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"each is a pair of two strings$"):
        ScriptedResponse.json(200, {}, headers=headers)


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding"])
def test_how_a_body_is_framed_is_not_for_a_script(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"how the body is framed is the server's to say"):
        ScriptedResponse.json(200, {}, headers={name: "3"})


@pytest.mark.parametrize("value", [float("nan"), [float("-inf")], {1}, b"x", object()])
def test_a_body_that_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`value` is .*: it cannot go out as JSON"):
        ScriptedResponse.json(200, value)


@pytest.mark.parametrize("content", [7, None, ["text"], [b"a", 1]])
def test_a_raw_body_of_anything_else_is_refused(content: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`content` is .*: give text, bytes, or a list of bytes$"):
        RawBody(content)


def test_a_raw_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`content` is .*: UTF-8 cannot say it"):
        RawBody("\ud800")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"events": "abc"}, "^`events` is 'abc': give a list of SseEvent$"),
        ({"events": ["a"]}, "^`events` is 'a': it is no SseEvent$"),
        ({"end": "sudden"}, "^`end` is 'sudden': it is 'clean', 'abort' or 'stall'$"),
        ({"truncate_after": -1}, "^`truncate_after` is -1: it is a whole number, 0 or more$"),
        ({"truncate_after": True}, "^`truncate_after` is True: it is a whole number"),
        ({"cut_bytes": 1.5}, "^`cut_bytes` is 1.5: it is a whole number"),
        ({"cut_bytes": 9}, "^`cut_bytes` is 9: the last frame that is sent has 9 bytes, of which one at least stays$"),
        ({"cut_bytes": 1, "truncate_after": 0}, "^`cut_bytes` is 1: the last frame that is sent has 0 bytes"),
        ({"frame_delays": [-1]}, "^`frame_delays` is -1: a delay is 0 seconds or more, or `None`$"),
        ({"frame_delays": [float("inf")]}, "^`frame_delays` is inf: a delay"),
        ({"frame_delays": ["1"]}, "^`frame_delays` is '1': a delay"),
        ({"frame_delays": [1, 1, 1, 1]}, "^`frame_delays` is .*: there are 3 frames only$"),
        ({"waits": [FrameWait(4, PauseStep(1))]}, "^`waits` is .*: there are 3 frames only$"),
        ({"waits": [FrameWait(0, None)]}, "^`waits` is None: it is a pause, a hold or a hang of a script$"),
    ],
)
def test_a_stream_that_makes_no_sense_is_refused(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        SseBody(**{"events": [A, B, C], **arguments})


def test_a_body_is_one_of_the_three() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`body` is .*: give a JsonBody, an SseBody or a RawBody$"):
        ScriptedResponse(200, (), {"a": 1})  # pyright: ignore[reportArgumentType]
