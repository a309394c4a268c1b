"""HTTP itself: what clients may do on a connection that the SDKs never do."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from chatagent_test.inference import MockInferenceServer, RequestMatcher, ScriptedResponse, SseEvent
from inference.asking import CHAT, ENDPOINTS, connection, raw_request, read_to_end, read_until

STREAM = ScriptedResponse.sse([SseEvent.of("first"), SseEvent.of("last")])


def post(path: str, content: bytes, *headers: str, version: str = "1.1") -> bytes:
    lines = [f"POST {path} HTTP/{version}", "host: mock", "content-type: application/json", *headers]
    return "\r\n".join([*lines, f"content-length: {len(content)}", "", ""]).encode() + content


@pytest.mark.parametrize("value", ["100-continue", "100-Continue"])
def test_leave_to_send_is_asked_for_in_any_case(server: MockInferenceServer, value: str) -> None:
    request = post(CHAT.path, b"{}", f"expect: {value}")

    with connection(server) as client:
        client.sendall(request.removesuffix(b"{}"))
        leave = read_until(client, b"\r\n\r\n")

    assert leave == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_leave_to_send_never_stands_in_the_midst_of_another_answer(server: MockInferenceServer) -> None:
    held = server.expect_response_blocked("held", RequestMatcher.any(), STREAM)
    second = post(CHAT.path, b"{}", "expect: 100-continue", "connection: close")

    with connection(server) as client:
        client.sendall(raw_request(CHAT) + second.removesuffix(b"{}"))
        held.wait_blocked_sync()
        held.release()
        first = read_until(client, b"100 Continue\r\n\r\n")
        client.sendall(b"{}")
        rest = read_to_end(client)

    assert first.endswith(b"data: last\n\n\r\n0\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
    assert rest.startswith(b"HTTP/1.1 200 OK\r\n")


def test_what_is_no_http_behind_a_request_waits_for_its_answer(server: MockInferenceServer) -> None:
    held = server.expect_response_blocked("held", RequestMatcher.any(), STREAM)

    with connection(server) as client:
        client.sendall(raw_request(CHAT) + b"NO HTTP\r\n\r\nmore of it")
        held.wait_blocked_sync()
        held.release()
        told = read_to_end(client)

    whole, _, refusal = told.partition(b"\r\n0\r\n\r\n")
    assert whole.endswith(b"data: last\n\n")
    assert refusal.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert server.requests()[-1].outcome == "complete"


def test_a_client_of_http_1_0_is_told_that_its_connection_stays(server: MockInferenceServer) -> None:
    kept = post(CHAT.path, b"{}", "connection: keep-alive", version="1.0")

    with connection(server) as client:
        client.sendall(kept)
        head = read_until(client, b"\r\n\r\n").partition(b"\r\n\r\n")[0]
        client.sendall(post(CHAT.path, b"{}", version="1.0"))
        last = read_to_end(client)

    assert b"connection: keep-alive" in head
    assert b"connection: close" in last


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_has_no_length(server: MockInferenceServer, status: int) -> None:
    server.enqueue_response(CHAT.path, ScriptedResponse.text(status, ""))

    with connection(server) as client:
        client.sendall(raw_request(CHAT, headers={"connection": "close"}))
        told = read_to_end(client)

    head, _, body = told.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"content-length" not in head
    assert b"transfer-encoding" not in head
    assert body == b""


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize(
    "content",
    [
        b'{"temperature": NaN}',
        b'{"temperature": -Infinity}',
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        "{}".encode("utf-32-le"),
        b'{"model": "\xff"}',
    ],
)
def test_json_is_what_providers_take_for_json(server: MockInferenceServer, endpoint: Any, content: bytes) -> None:
    headers = {"content-type": "application/json"}

    answer = httpx2.post(f"{server.origin}{endpoint.path}", content=content, headers=headers)

    assert answer.status_code == 400
    (entry,) = server.requests()
    assert (entry.body, entry.raw_body, entry.rejected) == (None, content, True)


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/v1/privacy/coding-data-retention"), ("POST", "/sessions/a/data"), ("PUT", "/sessions/a")],
)
@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b"{"])
def test_routes_beside_inference_answer_whatever_their_body_says(
    server: MockInferenceServer, method: str, path: str, content: bytes
) -> None:
    answer = httpx2.request(method, f"{server.origin}{path}", content=content)

    assert answer.status_code == 200
    (entry,) = server.requests()
    assert (entry.body, entry.raw_body) == (None, content)


def test_text_beyond_unicode_is_echoed_as_it_was_escaped(server: MockInferenceServer) -> None:
    content = json.dumps({"messages": [{"role": "user", "content": "half \ud83d"}]})

    answer = httpx2.post(
        f"{server.origin}{CHAT.path}", content=content, headers={"content-type": "application/json"}
    ).text

    assert r'"content":"Echo: half \ud83d"' in answer
