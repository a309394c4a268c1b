"""Starting, closing, and what happens in between to clients that are still there."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
import threading
import time

import anyio
import httpx2
import pytest

from chatagent_test.inference import (
    MockInferenceServer,
    MockModel,
    RequestMatcher,
    ScriptedResponse,
    ServerClosedError,
    ServerNotStartedError,
    SseEvent,
)
from inference.asking import CHAT, ask, connection, get, in_background, raw_request, read_to_end, read_until

EVENTS = ScriptedResponse.sse([SseEvent.of({"n": 1}), SseEvent.of({"n": 2})])


@pytest.mark.anyio
async def test_a_started_server_listens_on_loopback_and_says_where() -> None:
    """INF-001"""
    server = await MockInferenceServer.start()
    try:
        assert server.url.startswith("http://127.0.0.1:")
        assert server.url == f"{server.origin}/v1" == server.openai_base_url
        assert server.anthropic_base_url == server.origin
        assert server.origin.count("/") == 2
    finally:
        await server.aclose()


def test_it_can_be_connected_to_at_once() -> None:
    """INF-002"""
    for _ in range(20):
        with MockInferenceServer() as server, connection(server) as client:
            client.sendall(b"GET /v1/models HTTP/1.1\r\nhost: mock\r\nconnection: close\r\n\r\n")
            assert read_to_end(client).startswith(b"HTTP/1.1 200")


def test_a_port_that_is_taken_fails_the_start() -> None:
    """INF-008"""
    with MockInferenceServer() as first:
        port = int(first.origin.rpartition(":")[2])

        with pytest.raises(OSError, match=r"[Aa]ddress already in use"), MockInferenceServer(port=port):
            pass

        assert get(first, "/v1/models").status_code == 200


def test_a_closed_server_refuses_connections_and_may_be_closed_again() -> None:
    """INF-009"""
    with MockInferenceServer() as server:
        origin = server.origin

    server.close()

    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{origin}/v1/models")
    with pytest.raises(ServerClosedError):
        server.enqueue_response(CHAT.path, EVENTS)
    with pytest.raises(ServerClosedError):
        server.expect_response("late", RequestMatcher.any(CHAT), EVENTS)


def test_two_servers_share_nothing() -> None:
    """INF-055"""
    with MockInferenceServer() as one, MockInferenceServer([MockModel("other")]) as two:
        one.set_response("fixed")
        one.enqueue_response(CHAT.path, ScriptedResponse.text(418, "teapot"))

        assert ask(two).json()["choices"][0]["message"]["content"] == "Echo: hi"
        assert ask(one).status_code == 418
        assert [entry["id"] for entry in get(two, "/v1/models").json()["data"]] == ["other"]
        assert (one.request_count(), two.request_count()) == (1, 2)


def test_starting_and_stopping_an_idle_server_is_quick() -> None:
    with MockInferenceServer():
        pass  # what is imported once is not the server's to answer for

    times: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        with MockInferenceServer() as server:
            started = time.perf_counter()
            assert get(server, "/v1/models").status_code == 200
            closing = time.perf_counter()
        times.append(max(started - began, time.perf_counter() - closing))

    assert sorted(times)[2] < 0.05


def test_a_blocked_answer_never_holds_up_the_close() -> None:
    with MockInferenceServer() as server:
        held = server.expect_response_blocked("held", RequestMatcher.any(CHAT), EVENTS)
        answer = in_background(lambda: ask(server, stream=True))
        held.wait_blocked_sync()

        began = time.perf_counter()
        server.close()

    assert time.perf_counter() - began < 0.9
    assert answer.result(5).content.endswith(b'data: {"n":2}\n\n')


def test_a_stream_that_does_not_end_is_broken_off_a_second_after_the_close() -> None:
    stalled = ScriptedResponse.sse([SseEvent.of({"n": 1})], end="stall")
    with MockInferenceServer() as server, connection(server) as client:
        server.enqueue_response(CHAT.path, stalled)
        client.sendall(raw_request(CHAT))
        read_until(client, b'{"n":1}\n\n')

        began = time.perf_counter()
        server.close()

        assert 0.9 < time.perf_counter() - began < 2.5
        assert not read_to_end(client).endswith(b"0\r\n\r\n")
    assert server.requests()[0].outcome == "aborted"


def test_requests_while_it_closes_are_not_answered() -> None:
    stalled = ScriptedResponse.sse([SseEvent.of({"n": 1})], end="stall")
    with MockInferenceServer() as server, connection(server) as kept, connection(server) as client:
        kept.sendall(b"GET /v1/models HTTP/1.1\r\nhost: mock\r\n\r\n")
        read_until(kept, b"test-model")
        server.enqueue_response(CHAT.path, stalled)
        client.sendall(raw_request(CHAT))
        read_until(client, b'{"n":1}\n\n')

        closing = in_background(server.close)
        with pytest.raises(ServerClosedError):
            server.expect_response("other", RequestMatcher.any(CHAT), EVENTS).wait_received_sync()
        kept.sendall(b"GET /v1/models HTTP/1.1\r\nhost: mock\r\n\r\n")

        assert read_to_end(kept) == b""
        closing.result(5)
    assert server.request_count() == 2


@pytest.mark.anyio
async def test_the_loop_goes_on_while_an_async_close_waits() -> None:
    stalled = ScriptedResponse.sse([SseEvent.of({"n": 1})], end="stall")
    server = await MockInferenceServer.start()
    server.enqueue_response(CHAT.path, stalled)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while not server.is_closed or ticks < 3:
            ticks += 1
            await anyio.lowlevel.checkpoint()

    with connection(server) as client:
        client.sendall(raw_request(CHAT))
        read_until(client, b'{"n":1}\n\n')
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            await server.aclose()

    assert ticks >= 3


def test_a_blocking_client_is_answered_while_the_tests_own_loop_is_blocked() -> None:
    async def main() -> str:
        async with MockInferenceServer() as server:
            return ask(server).json()["choices"][0]["message"]["content"]

    assert anyio.run(main) == "Echo: hi"


def test_a_collected_server_stops() -> None:
    server = MockInferenceServer()
    server.__enter__()
    origin, before = server.origin, threading.active_count()

    del server
    gc.collect()

    assert threading.active_count() < before
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{origin}/v1/models")


def test_an_interpreter_that_exits_with_an_open_server_does_not_hang() -> None:
    program = (
        "import socket\n"
        "from chatagent_test import *\n"
        "from chatagent_test.inference import *\n"
        "server = MockInferenceServer()\n"
        "server.__enter__()\n"
        "held = server.expect_response_blocked('held', RequestMatcher.any(InferenceEndpoint.CHAT_COMPLETIONS),\n"
        "    ScriptedResponse.sse([SseEvent.of({'n': 1})]))\n"
        "client = socket.create_connection(('127.0.0.1', int(server.origin.rpartition(':')[2])))\n"
        "client.sendall(b'POST /v1/chat/completions HTTP/1.1\\r\\nhost: x\\r\\ncontent-type: application/json\\r\\n'\n"
        "    b'content-length: 2\\r\\n\\r\\n{}')\n"
        "held.wait_blocked_sync()\n"
        "print('left open')\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)

    assert (done.stdout, done.stderr, done.returncode) == ("left open\n", "", 0)


def test_a_server_without_a_port_says_how_to_reach_it() -> None:
    with MockInferenceServer(listen=False) as server, pytest.raises(ServerNotStartedError, match=r"transport\(\)"):
        _ = server.url


@pytest.mark.parametrize("line", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"])
def test_what_is_no_http_gets_a_400(line: bytes) -> None:
    with MockInferenceServer() as server, connection(server) as client:
        client.sendall(line)

        assert read_to_end(client).startswith(b"HTTP/1.1 400")


def test_pipelined_requests_are_answered_in_order() -> None:
    with MockInferenceServer() as server, connection(server) as client:
        server.set_chunk_delay(0.001)
        client.sendall(raw_request(CHAT) + b"GET /v1/user HTTP/1.1\r\nhost: mock\r\nconnection: close\r\n\r\n")

        seen = read_to_end(client)

    assert seen.index(b"[DONE]") < seen.index(b"mock-user")


def test_a_client_of_http_1_0_gets_a_stream_without_chunks() -> None:
    with MockInferenceServer() as server, connection(server) as client:
        client.sendall(raw_request(CHAT).replace(b"HTTP/1.1", b"HTTP/1.0"))

        head, _, body = read_to_end(client).partition(b"\r\n\r\n")

    assert b"chunked" not in head.lower()
    assert body.startswith(b"data: ")
    assert body.endswith(b"data: [DONE]\n\n")


def test_a_client_that_waits_for_leave_to_send_gets_it() -> None:
    head, _, body = raw_request(CHAT, headers={"expect": "100-continue"}).partition(b"\r\n\r\n")
    with MockInferenceServer() as server, connection(server) as client:
        client.sendall(head + b"\r\n\r\n")
        read_until(client, b"100 ")
        client.sendall(body)

        assert b"[DONE]" in read_until(client, b"0\r\n\r\n")


def test_taken_ports_leave_no_thread_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        before = threading.active_count()
        with pytest.raises(OSError, match="in use"):
            MockInferenceServer(port=taken.getsockname()[1]).__enter__()

        assert threading.active_count() == before


def test_a_server_may_be_entered_when_it_runs_and_not_when_it_is_closed() -> None:
    with MockInferenceServer() as server:
        origin = server.origin
        with server as same:
            assert same.origin == origin

    with pytest.raises(ServerClosedError):
        server.__enter__()


def test_an_offer_of_another_protocol_is_passed_over() -> None:
    upgrade = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMAAABk"}
    with MockInferenceServer() as server, connection(server) as client:
        client.sendall(raw_request(CHAT, headers=upgrade) + raw_request(CHAT, stream=False))

        seen = read_until(client, b'chat.completion"')

    assert b"[DONE]" in seen
    assert seen.count(b"HTTP/1.1 200") == 2


def test_a_tunnel_is_refused() -> None:
    with MockInferenceServer() as server, connection(server) as client:
        client.sendall(b"CONNECT api.openai.com:443 HTTP/1.1\r\nhost: api.openai.com:443\r\n\r\n")

        assert read_to_end(client).startswith(b"HTTP/1.1 405")


def test_an_answer_to_head_has_no_body() -> None:
    with MockInferenceServer() as server, connection(server) as client:
        client.sendall(b"HEAD /v1/models HTTP/1.1\r\nhost: mock\r\n\r\n")
        client.sendall(b"GET /v1/user HTTP/1.1\r\nhost: mock\r\nconnection: close\r\n\r\n")

        first, _, rest = read_to_end(client).partition(b"\r\n\r\n")

    assert first.startswith(b"HTTP/1.1 405")
    assert rest.startswith(b"HTTP/1.1 200")


def test_a_head_without_end_is_refused() -> None:
    with MockInferenceServer() as server, connection(server) as client:
        client.sendall(b"GET /v1/models HTTP/1.1\r\nx-long: " + b"x" * 300_000)

        assert client.recv(65536).startswith(b"HTTP/1.1 431")


def test_a_request_that_comes_byte_by_byte_is_answered() -> None:
    with MockInferenceServer() as server, connection(server) as client:
        for byte in raw_request(CHAT, stream=False):
            client.sendall(bytes([byte]))

        assert b"Echo: hi" in read_until(client, b"}}")


def test_a_body_in_chunks_is_put_together() -> None:
    pieces = iter([b'{"messages": [{"role": "user", ', b'"content": "in pieces"}]}'])
    with MockInferenceServer() as server:
        headers = {"content-type": "application/json"}
        answer = httpx2.post(f"{server.url}/chat/completions", content=pieces, headers=headers)

    assert answer.json()["choices"][0]["message"]["content"] == "Echo: in pieces"


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    with MockInferenceServer() as server:
        headers = {"content-type": "application/json"}
        answer = httpx2.post(f"{server.url}/messages", content=b"[" * 100_000, headers=headers)

    assert answer.status_code == 400


def test_the_environment_leads_clients_to_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("no_proxy", "example.com")
    with MockInferenceServer(required_auth="secret") as server:
        variables = server.environment()

        assert variables == {
            "OPENAI_BASE_URL": server.openai_base_url,
            "OPENAI_API_KEY": "secret",
            "ANTHROPIC_BASE_URL": server.anthropic_base_url,
            "ANTHROPIC_API_KEY": "secret",
            "NO_PROXY": "example.com,127.0.0.1",
            "no_proxy": "example.com,127.0.0.1",
        }


def test_a_server_without_a_port_has_no_environment() -> None:
    server = MockInferenceServer(listen=False)

    with pytest.raises(ServerNotStartedError):
        server.environment()

    server.close()
