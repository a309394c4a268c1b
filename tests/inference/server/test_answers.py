"""Queues, keys, and how scripted bodies go out."""

from __future__ import annotations

import time

import httpx2
import pytest

from chatagent.errors import InvalidArgumentError
from chatagent_test import script
from chatagent_test.inference import (
    InferenceEndpoint,
    MockInferenceServer,
    RawBody,
    RequestMatcher,
    ScriptedResponse,
    SseEvent,
)
from inference.asking import (
    CHAT,
    ENDPOINTS,
    MESSAGES,
    RESPONSES,
    ask,
    connection,
    data_of,
    deltas_of,
    get,
    in_background,
    raw_request,
    read_to_end,
    read_until,
    text_of,
)

EVENTS = [SseEvent.of({"n": 1}), SseEvent.of({"n": 2}), SseEvent.of({"n": 3})]


def test_queued_answers_come_in_order_and_at_their_own_path(server: MockInferenceServer) -> None:
    """INF-026"""
    server.enqueue_response(CHAT.path, ScriptedResponse.text(401, "no"))
    server.enqueue_response(CHAT.path, ScriptedResponse.json(500, {"error": "broken"}))

    elsewhere = ask(server, RESPONSES)
    answers = [ask(server, CHAT) for _ in range(3)]

    assert text_of(RESPONSES, elsewhere.json()) == "Echo: hi"
    assert [answer.status_code for answer in answers] == [401, 500, 200]
    assert text_of(CHAT, answers[2].json()) == "Echo: hi"


def test_a_script_needs_no_key_and_the_gate_is_back_behind_it(server: MockInferenceServer) -> None:
    """INF-027"""
    server.set_required_auth("secret")
    server.enqueue_response(CHAT.path, ScriptedResponse.json(200, {"scripted": True}))

    assert ask(server).json() == {"scripted": True}
    assert ask(server).status_code == 401
    assert [entry.answered_by for entry in server.requests()] == ["fifo", "auth"]


@pytest.mark.anyio
@pytest.mark.parametrize("fixed", [None, "fixed text"])
async def test_a_key_opens_every_mode(fixed: str | None) -> None:
    """INF-028"""
    server = await MockInferenceServer.start_with_required_auth([], "secret")
    if fixed:
        server.set_response(fixed)

    refused = ask(server, stream=True)
    let_in = ask(server, stream=True, headers={"authorization": "Bearer secret"})
    await server.aclose()

    assert refused.status_code == 401
    assert "".join(deltas_of(CHAT, let_in.content)) == (fixed or "Echo: hi")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"authorization": "bearer secret"}, 200),
        ({"x-api-key": "secret"}, 200),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Basic secret"}, 401),
        ({"authorization": "BEARER secret"}, 401),
        ({"x-api-key": "wrong"}, 401),
        ({}, 401),
    ],
)
def test_what_counts_as_the_key(headers: dict[str, str], status: int) -> None:
    """INF-029"""
    with MockInferenceServer(required_auth="secret", auth_error_style="reference") as server:
        answer = ask(server, headers=headers)

    assert answer.status_code == status
    if status == 401:
        said = "missing API key; set the x-api-key header or Authorization: Bearer header"
        assert answer.json() == {"error": said}


def test_a_401_has_the_shape_of_its_provider() -> None:
    with MockInferenceServer(required_auth="secret") as server:
        chat, messages = ask(server, CHAT).json(), ask(server, MESSAGES).json()
        server.set_required_auth(None)
        assert ask(server).status_code == 200

    assert chat["error"]["code"] == "invalid_api_key"
    assert messages["type"] == "error"
    assert messages["error"]["type"] == "authentication_error"


def test_the_other_routes_need_no_key() -> None:
    """INF-030"""
    with MockInferenceServer(required_auth="secret") as server:
        answers = [get(server, f"/v1/{name}").status_code for name in ("models", "user", "settings")]

    assert answers == [200, 200, 404]


def test_headers_and_body_of_a_script_reach_the_client(server: MockInferenceServer) -> None:
    """INF-031"""
    limited = ScriptedResponse.json(429, {"error": "slow down"}, headers=[("retry-after", "7"), ("Set-Cookie", "a=1")])
    server.enqueue_response(CHAT.path, limited.with_headers([("set-cookie", "b=2")]))

    answer = ask(server)

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert answer.json() == {"error": "slow down"}


def test_a_raw_body_arrives_byte_for_byte(server: MockInferenceServer) -> None:
    """INF-032"""
    content = b"data: {not json\n\ndata: \xff\xfe\n\n"
    server.enqueue_response(CHAT.path, ScriptedResponse.text(200, content))

    answer = ask(server, stream=True)

    assert answer.content == content
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_chunks_of_a_raw_body_stay_chunks(server: MockInferenceServer) -> None:
    server.enqueue_response(CHAT.path, ScriptedResponse(200, (), RawBody([b"ab", b"c"])))

    with connection(server) as client:
        client.sendall(raw_request(CHAT))
        assert read_until(client, b"0\r\n\r\n").endswith(b"\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")


def test_named_and_plain_events_keep_their_order(server: MockInferenceServer) -> None:
    """INF-033"""
    server.enqueue_response(CHAT.path, ScriptedResponse.sse([SseEvent.named("tick", "1"), SseEvent.of("plain")]))

    assert ask(server, stream=True).content == b"event: tick\ndata: 1\n\ndata: plain\n\n"


@pytest.mark.parametrize("status", [42, 1000])
def test_a_status_that_is_none_is_refused(server: MockInferenceServer, status: int) -> None:
    """INF-034"""
    with pytest.raises(ValueError, match="a status is a number from 100 to 999"):
        server.enqueue_response(CHAT.path, ScriptedResponse.text(status, ""))


@pytest.mark.parametrize("header", [("bad name", "x"), ("name", "two\nlines")])
def test_a_header_that_cannot_be_sent_is_refused(server: MockInferenceServer, header: tuple[str, str]) -> None:
    """INF-035"""
    with pytest.raises(ValueError, match="header"):
        server.enqueue_response(CHAT.path, ScriptedResponse.text(200, "", headers=[header]))

    assert text_of(CHAT, ask(server).json()) == "Echo: hi"


def test_the_short_forms_keep_the_status() -> None:
    """INF-036"""
    assert ScriptedResponse.sse([]).status == 200
    assert ScriptedResponse.json(418, {}).status == 418
    assert ScriptedResponse.text(503, "").status == 503


def test_a_chunk_delay_stands_before_every_frame(server: MockInferenceServer) -> None:
    """INF-045"""
    server.set_chunk_delay(0.05)
    server.enqueue_response(CHAT.path, ScriptedResponse.sse(EVENTS))

    began = time.perf_counter()
    with httpx2.stream("POST", f"{server.url}/chat/completions", json={"stream": True}) as answer:
        pieces = answer.iter_raw()
        first = next(pieces)
        first_after = time.perf_counter() - began
        list(pieces)
    all_after = time.perf_counter() - began
    server.set_chunk_delay(60)
    server.set_chunk_delay(None)
    server.enqueue_response(CHAT.path, ScriptedResponse.sse(EVENTS))
    ask(server, stream=True, timeout=5)

    assert first == b'data: {"n":1}\n\n'
    assert first_after >= 0.05
    assert all_after >= 0.15


def test_a_stream_under_way_does_not_see_a_new_delay(server: MockInferenceServer) -> None:
    """INF-046"""
    held = server.expect_response_blocked(
        "held", RequestMatcher.any(CHAT), ScriptedResponse.sse(EVENTS), block_before=0
    )
    answer = in_background(lambda: ask(server, stream=True))
    held.wait_blocked_sync()

    server.set_chunk_delay(30)
    held.release()

    assert len(data_of(answer.result(5).content)) == 3


def test_a_delay_is_for_streams_alone(server: MockInferenceServer) -> None:
    """INF-047"""
    server.set_chunk_delay(30)
    server.enqueue_response(CHAT.path, ScriptedResponse.json(200, {}))
    server.enqueue_response(CHAT.path, ScriptedResponse.text(200, [b"a", b"b"]))

    assert ask(server, timeout=5).status_code == ask(server, timeout=5).status_code == 200


def test_a_silent_stream_gets_comments() -> None:
    """INF-057"""
    with MockInferenceServer(keep_alive=0.02) as server:
        held = server.expect_response_blocked("held", RequestMatcher.any(CHAT), ScriptedResponse.sse(EVENTS))
        with connection(server) as client:
            client.sendall(raw_request(CHAT, headers={"connection": "close"}))
            seen = read_until(client, b": keep-alive\n\r\n")
            seen += read_until(client, b": keep-alive\n\r\n")
            held.release()
            seen += read_to_end(client)
        server.enqueue_response(CHAT.path, ScriptedResponse.sse(EVENTS, frame_delays=[0, 0.05, 0.05]))
        slow = ask(server, stream=True)

    assert b": keep-alive\n\n" not in seen
    assert b": keep-alive\n" in slow.content
    assert data_of(slow.content) == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize("seconds", [0, -1, float("inf")])
def test_a_time_that_makes_no_sense_is_refused(server: MockInferenceServer, seconds: float) -> None:
    with pytest.raises(InvalidArgumentError, match="`seconds`"):
        server.set_keep_alive(seconds)
    if seconds:
        with pytest.raises(InvalidArgumentError, match="`seconds`"):
            server.set_chunk_delay(seconds)


def test_the_same_response_twice_is_two_entries(server: MockInferenceServer) -> None:
    """INF-058"""
    response = ScriptedResponse.sse(EVENTS)
    server.enqueue_response(CHAT.path, response)
    server.enqueue_response(CHAT.path, response)

    assert ask(server).content == ask(server).content
    assert text_of(CHAT, ask(server).json()) == "Echo: hi"


def test_a_stream_that_is_cut_lacks_its_end(server: MockInferenceServer) -> None:
    server.enqueue_response(CHAT.path, ScriptedResponse.sse(EVENTS, end="abort", truncate_after=2, cut_bytes=3))

    with connection(server) as client:
        client.sendall(raw_request(CHAT))
        seen = read_to_end(client)

    assert seen.endswith(b'data: {"n":2\r\n')
    assert server.requests()[0].outcome == "aborted"


def test_a_client_that_leaves_in_mid_stream_is_noticed(server: MockInferenceServer) -> None:
    server.enqueue_response(CHAT.path, ScriptedResponse.sse(EVENTS, frame_delays=[0, 30]))

    with connection(server) as client:
        client.sendall(raw_request(CHAT))
        read_until(client, b'{"n":1}\n\n')
    server.wait_idle_sync()

    assert server.requests()[0].outcome == "client_disconnected"
    assert text_of(CHAT, ask(server).json()) == "Echo: hi"


# Scripts of what a model says -------------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("stream", [True, False])
def test_one_script_answers_at_every_endpoint(
    server: MockInferenceServer, endpoint: InferenceEndpoint, *, stream: bool
) -> None:
    server.expect_response("say", RequestMatcher.any(endpoint), script.text("a  b"))

    answer = ask(server, endpoint, stream=stream)

    said = "".join(deltas_of(endpoint, answer.content)) if stream else text_of(endpoint, answer.json())
    assert said == "a  b"
    assert server.requests()[0].mismatch is None


def test_a_script_fails_in_the_shape_of_the_endpoint(server: MockInferenceServer) -> None:
    server.enqueue_response(MESSAGES.path, script.error(429, retry_after=0.5))

    answer = ask(server, MESSAGES)

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "0.5")
    assert answer.json()["error"]["type"] == "rate_limit_error"


def test_a_hold_of_a_script_waits_for_its_release(server: MockInferenceServer) -> None:
    said = script.text("one").hold("middle").text("two")
    server.expect_response("held", RequestMatcher.any(CHAT), said)
    answer = in_background(lambda: ask(server, stream=True))

    server.reached_sync("middle")
    assert not answer.done()
    server.release("middle")

    assert "".join(deltas_of(CHAT, answer.result(5).content)) == "onetwo"


def test_a_hold_that_nobody_reaches_says_so(server: MockInferenceServer) -> None:
    with pytest.raises(AssertionError, match=r"^no answer has come to the hold `nowhere`, after 0\.01 s\nrequests:"):
        server.reached_sync("nowhere", timeout=0.01)
