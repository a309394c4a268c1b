"""Recorded exchanges: their files, and answers from them (7.10)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.faults import Fault
from chatagent_test.inference.formats import chat_completion_events_exact, messages_api_events
from chatagent_test.inference.recording import Exchange, Recordings, Scrubber, case_response
from chatagent_test.inference.scripted import JsonBody, RawBody, SseBody, sent_bytes
from chatagent_test.inference.sse import SseEvent, render_sse
from conformance.goldens import OWN_GOLDENS, goldens_of

if TYPE_CHECKING:
    from pathlib import Path

SSE = [("content-type", "text/event-stream; charset=utf-8")]
JSON = [("content-type", "application/json")]
CHAT = "/v1/chat/completions"


def recorded(chunks: list[bytes], **changes: Any) -> Exchange:
    given: dict[str, Any] = {"endpoint": CHAT, "request": {"model": "m"}, "status": 200, "headers": SSE}
    return Exchange.recorded(**{**given, "chunks": chunks, **changes})


def kept(exchange: Exchange) -> Exchange:
    """Return an exchange that went through its file."""
    return Exchange.from_json(exchange.to_json())


# Files ------------------------------------------------------------------------------------------------------------


def test_a_stream_is_kept_as_events_that_people_can_read() -> None:
    frames = [render_sse(event) for event in [SseEvent.named("a", {"x": 1}), SseEvent.of("[DONE]")]]

    case = recorded(frames).case

    assert case["body"] == {"kind": "events", "events": [{"event": "a", "data": {"x": 1}}, {"data": "[DONE]"}]}
    assert case["chunk_lengths"] == [len(frame) for frame in frames]
    assert case["connection_end"] == "clean"
    assert case["name"].startswith("chat_completions_")


@pytest.mark.parametrize("data", ["[1, 2]", '{"a": 1}', "1e2", '"x"', '"\\u00e9"', "1.0", '{"a":1,"a":2}', "NaN"])
def test_data_that_json_would_not_dump_alike_stays_a_text(data: str) -> None:
    frame = render_sse(SseEvent.of(data))

    exchange = kept(recorded([frame]))

    assert sent_bytes(exchange.response().body) == frame


@pytest.mark.parametrize(
    ("body", "headers", "kind"),
    [
        (b'{"a":1}', JSON, "json"),
        (b'{"a": 1}', JSON, "text"),
        (b'"x"', JSON, "text"),
        (b"<html>", [("content-type", "text/html")], "text"),
        (b": hello\n\ndata: x\r\n\r\n", SSE, "text"),
        (b"data: x", SSE, "text"),
        (b"\xff\xfe", [], "chunks_b64"),
        (b"", SSE, "events"),
    ],
)
def test_a_body_takes_the_form_that_gives_the_same_bytes(body: bytes, headers: Any, kind: str) -> None:
    exchange = kept(recorded([body] if body else [], headers=headers))

    assert exchange.case["body"]["kind"] == kind
    assert sent_bytes(exchange.response().body) == body


@given(
    chunks=st.lists(st.binary(max_size=40), max_size=6),
    headers=st.sampled_from([SSE, JSON, []]),
    end=st.sampled_from(["clean", "abort"]),
)
def test_what_was_recorded_is_answered_in_the_same_chunks(chunks: list[bytes], headers: Any, end: Any) -> None:
    exchange = kept(recorded(chunks, headers=headers, end=end, scrubber=Scrubber(patterns=[])))

    body = exchange.response().body

    assert sent_bytes(body) == b"".join(chunks)
    match body:
        case JsonBody():
            pieces = (body.content,)
        case SseBody():
            pieces = body.frames
        case RawBody():
            pieces = body.chunks
    assert [piece for piece in pieces if piece] == [chunk for chunk in chunks if chunk]
    assert getattr(body, "end", "clean") == end


def test_cuts_across_frames_are_kept() -> None:
    wire = b"".join(map(render_sse, chat_completion_events_exact("naïve 🙂")))
    chunks = [wire[:50], wire[50:51], wire[51:]]

    response = kept(recorded(chunks)).response()

    assert isinstance(response.body, RawBody)
    assert response.body.chunks == tuple(chunks)
    assert dict(response.wire_headers) == dict(SSE)


def test_a_pace_is_played_only_if_it_is_asked_for() -> None:
    frames = [render_sse(SseEvent.of(text)) for text in "abc"]
    exchange = kept(recorded(frames, times=[0.5, 1.5, 1.5]))

    at_once, twice = exchange.response().body, exchange.response(speed=2).body

    assert isinstance(at_once, SseBody)
    assert isinstance(twice, SseBody)
    assert (at_once.frame_delays, twice.frame_delays) == ((), (0.25, 0.5, 0))


def test_a_frame_comes_with_the_chunk_that_completes_it() -> None:
    frames = [render_sse(SseEvent.of(text)) for text in "abc"]
    wire = b"".join(frames)
    exchange = recorded([wire[:5], wire[5:20], wire[20:]], times=[1, 2, 4])

    body = exchange.response(speed=1).body

    assert isinstance(body, SseBody)
    assert body.frames == tuple(frames)
    assert body.frame_delays == (2, 0, 2)


def test_headers_of_the_connection_are_not_answered_with() -> None:
    headers = [
        *SSE,
        ("Content-Length", "3"),
        ("transfer-encoding", "chunked"),
        ("set-cookie", "a"),
        ("set-cookie", "b"),
    ]

    exchange = kept(recorded([], headers=headers))

    assert [name for name, _ in exchange.response().headers] == ["content-type", "set-cookie", "set-cookie"]


def test_conformance_cases_are_recordings_too() -> None:
    for golden in goldens_of("wire", OWN_GOLDENS):
        text = golden.path.read_text(encoding="utf-8")

        exchange = Exchange.from_json(text)

        assert exchange.response() == case_response(json.loads(text))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": None}, r"^`name` is None: every recording has that member$"),
        ({"body": None}, r"^`body` is None: every recording has that member$"),
        ({"body_sha256": "0"}, r"^`body_sha256` is '0': the body of the recording was changed by hand"),
        ({"chunk_lengths": [1]}, r"^`chunk_lengths` is \[1\]: together the chunks are the 9 bytes of the body$"),
        ({"body": {"kind": "yaml"}}, r"^`body.kind` is 'yaml': a body is of kind 'events', 'json', 'text'"),
        ({"body": {"kind": "chunks_b64", "chunks_b64": ["?"]}}, r"^`chunks_b64` is '\?': it is no base64"),
        ({"status": 7}, r"^`status` is 7: a status is a number"),
    ],
)
def test_a_file_that_is_wrong_names_the_member(change: dict[str, Any], problem: str) -> None:
    case = {**recorded([render_sse(SseEvent.of("x"))]).case, **change}
    case = {key: value for key, value in case.items() if value is not None}

    with pytest.raises(InvalidArgumentError, match=problem):
        Exchange.from_json(json.dumps(case))


@pytest.mark.parametrize("text", ["", "{", "[]", "7"])
def test_a_file_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`text` is "):
        Exchange.from_json(text)


def test_there_is_a_time_for_each_chunk() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`times` is \[1\]: there is one for each of the 2 chunks"):
        recorded([b"a", b"b"], times=[1])


# Secrets ----------------------------------------------------------------------------------------------------------

KEY = "sk-proj-abcdefghijklmnop1234567890"


def test_secrets_are_kept_nowhere() -> None:
    exchange = recorded(
        [b'data: {"text":"my key is ', KEY[:9].encode(), f'{KEY[9:]}"}}\n\n'.encode()],
        request={
            "messages": [{"role": "user", "content": f"use {KEY}"}],
            "mcp_servers": [{"authorization_token": "t"}],
        },
        request_headers=[("Authorization", f"Bearer {KEY}"), ("x-api-key", "plain"), ("user-agent", "openai")],
        headers=[*SSE, ("set-cookie", "session=1"), ("x-echo", KEY)],
    )

    text = exchange.to_json()
    assert KEY not in text
    assert KEY[:9] not in text
    assert "session=1" not in text
    assert exchange.case["request"]["mcp_servers"] == [{"authorization_token": "[scrubbed]"}]
    assert exchange.case["request_headers"] == {
        "Authorization": "[scrubbed]",
        "x-api-key": "[scrubbed]",
        "user-agent": "openai",
    }
    assert exchange.case["chunk_lengths"] == [25, 9, len(KEY) - 9 + 4]
    assert "*" * len(KEY) in text


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-" + "x1Y-" * 6,
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "Bearer abcdefgh.ijkl",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    ],
)
def test_what_looks_like_a_key_is_masked(secret: str) -> None:
    masked = Scrubber().text(f"({secret})")

    assert masked == f"({'*' * len(secret)})"


@pytest.mark.parametrize(
    "text", ["sk-8 ski lifts", "the task-force", "password", "Bearer of news", "naïve 🙂", "\ud83d"]
)
def test_what_does_not_stays(text: str) -> None:
    assert Scrubber().text(text) == text


def test_secrets_in_json_inside_json_are_masked() -> None:
    content = b'{"arguments":"{\\"api_key\\":\\"hunter2\\"}","password":"hunter2"}'

    assert b"hunter2" not in Scrubber().content(content)
    assert len(Scrubber().content(content)) == len(content)


def test_own_secrets_headers_and_patterns_are_taken_out_too() -> None:
    scrubber = Scrubber(["hunter2"], headers=["X-Mine"], patterns=[r"id-(\d+)"])

    assert scrubber.text("hunter2 and id-77") == "******* and id-**"
    assert scrubber.headers([("x-mine", "v"), ("x-other", "hunter2")]) == [
        ("x-mine", "[scrubbed]"),
        ("x-other", "*******"),
    ]
    with pytest.raises(InvalidArgumentError, match=r"^`secrets` is 'a': a secret has 4 characters or more$"):
        Scrubber(["a"])


# Folders ----------------------------------------------------------------------------------------------------------


def say(text: str, request: Any = None, **changes: Any) -> Exchange:
    frames = [render_sse(event) for event in messages_api_events(text)]
    return recorded(frames, request=request or {"model": "m", "n": [1, 2]}, **changes)


def test_what_is_saved_is_answered_with(tmp_path: Path) -> None:
    Recordings(tmp_path / "new").save(say("one"))

    again = Recordings(tmp_path / "new")

    exchange = again.find(CHAT, {"n": [1, 2], "model": "m"})
    assert exchange is not None
    assert exchange.case == say("one").case
    assert again.find(CHAT, {"n": [2, 1], "model": "m"}) is None
    assert again.find("/v1/responses", {"n": [1, 2], "model": "m"}) is None
    assert again.find(CHAT, {"n": [1, 2], "model": "m"}, method="PUT") is None
    assert [path.suffix for path in (tmp_path / "new").iterdir()] == [".json"]


def test_equal_requests_are_answered_in_order_and_the_last_answer_stays(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path)
    for text in ("one", "two", "three"):
        recordings.save(say(text))

    again = Recordings(tmp_path)
    answers = [again.answer(CHAT, {"model": "m", "n": [1, 2]}) for _ in range(4)]

    bodies = [sent_bytes(answer.body) for answer in answers if answer is not None]
    assert [text for body in bodies for text in ("one", "two", "three") if text.encode() in body] == [
        "one",
        "two",
        "three",
        "three",
    ]


def test_recordings_that_nobody_asks_for_are_named(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path)
    recordings.save(say("one", name="a"))
    recordings.save(say("two", name="b"))
    recordings.save(say("other", {"model": "other"}, name="c"))
    assert recordings.unused == []

    again = Recordings(tmp_path)
    again.find(CHAT, {"model": "m", "n": [1, 2]})

    assert len(again) == 3
    assert again.unused == ["b.json", "c.json"]


def test_a_request_is_compared_without_its_secrets(tmp_path: Path) -> None:
    Recordings(tmp_path).save(say("one", {"model": "m", "api_key": "first-key"}))

    assert Recordings(tmp_path).find(CHAT, {"model": "m", "api_key": "another-key"}) is not None


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")

    with pytest.raises(InvalidArgumentError, match=r"^`folder` is '.*bad\.json': it is no recording: `text` is '\{'"):
        Recordings(tmp_path)


@pytest.mark.parametrize("headers", [[], [("content-type", "text/event-stream")], [("x-own", "1")]])
def test_a_recorded_answer_has_the_headers_that_came_and_no_others(headers: Any) -> None:
    exchange = kept(recorded([b"data: x\n\n", b"data: y\n\n"], headers=headers))

    response = exchange.response()

    assert list(response.wire_headers) == headers
    assert list(Fault.cut_frame(at=0).apply(response).wire_headers) == headers


@pytest.mark.parametrize(
    ("member", "value"),
    [("headers", 5), ("headers", ["x"]), ("body", {"kind": "chunks_b64"}), ("body", {"kind": "events", "events": [5]})],
)
def test_a_file_whose_members_are_of_the_wrong_kind_is_refused(member: str, value: Any) -> None:
    case = {**recorded([b"data: x\n\n"]).case, member: value}

    with pytest.raises(InvalidArgumentError):
        Exchange.from_json(json.dumps(case))
