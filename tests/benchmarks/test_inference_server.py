"""What a mock inference server costs, against a bare application on the same HTTP layer, in one process.

The load comes from a thread of its own over a few kept connections; it sends raw bytes and looks for the end of each
answer, so that a client library is not what is measured. A bare application reads JSON and dumps its reply anew for
each request, since a mock server must be able to; it neither logs, matches nor counts.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from chatagent_test import script
from chatagent_test.inference import InferenceEndpoint, MockInferenceServer, RequestMatcher
from chatagent_test.inference.server.connection import Connection
from chatagent_test.inference.server.host import Host
from chatagent_test.inference.steps import Frames, Head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.conftest import Bench
    from chatagent_test.inference.server.requests import Request
    from chatagent_test.inference.steps import Steps

CONNECTIONS = 8
WORDS = 400
SHORT = "It is sunny in Paris today."
CHAT = InferenceEndpoint.CHAT_COMPLETIONS
JSON_HEADERS = (("content-type", "application/json"),)
SSE_HEADERS = (("content-type", "text/event-stream"), ("cache-control", "no-cache"))


class BareApplication:
    """Answers every request with the same text."""

    max_body_bytes = 1 << 20

    def __init__(self) -> None:
        self.count = 0

    def answer(self, request: Request) -> Steps[None]:
        body: dict[str, Any] = json.loads(request.body)
        self.count += 1
        head = {"id": f"chatcmpl-{self.count}", "created": 0, "model": body["model"]}
        if not body.get("stream"):
            message = {"role": "assistant", "content": SHORT}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10}
            content = json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
            yield Head(200, JSON_HEADERS, len(content))
            yield Frames((content,))
            return
        yield Head(200, SSE_HEADERS, None)
        yield Frames([self._event(head, {"content": "word "}) for _ in range(WORDS)])
        yield Frames([self._event(head, {}, "stop"), b"data: [DONE]\n\n"])

    def _event(self, head: dict[str, object], delta: dict[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"


@pytest.fixture
def bare() -> Iterator[int]:
    application: Any = BareApplication()
    host = Host(lambda host: Connection(application, host))
    host.listen(0)
    assert host.port is not None
    yield host.port
    host.stop()


def request_bytes(text: str, *, stream: bool) -> bytes:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], "stream": stream}).encode()
    head = f"POST {CHAT.path} HTTP/1.1\r\nhost: mock\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def load(port: int, request: bytes, end: bytes, count: int) -> float:
    """Send so many requests over a few connections; return the seconds that it took."""
    selector = selectors.DefaultSelector()
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    began, left, open_answers = time.perf_counter(), count, 0
    for client in clients:
        selector.register(client, selectors.EVENT_READ)
        client.sendall(request)
        left, open_answers = left - 1, open_answers + 1
    tails = dict.fromkeys(clients, b"")
    while open_answers:
        ready = selector.select(10)
        assert ready, f"no answer came; {open_answers} are open"
        for key, _ in ready:
            client: Any = key.fileobj
            tails[client] = (tails[client] + client.recv(262_144))[-len(end) :]
            if tails[client] == end:
                tails[client] = b""
                open_answers -= 1
                if left > 0:
                    client.sendall(request)
                    left, open_answers = left - 1, open_answers + 1
    seconds = time.perf_counter() - began
    selector.close()
    for client in clients:
        client.close()
    return seconds


def best(port: int, request: bytes, end: bytes, count: int, runs: int) -> float:
    return min(load(port, request, end, count) for _ in range(runs))


def test_replies_are_nearly_as_many_as_those_of_a_bare_application(bench: Bench, bare: int) -> None:
    count, runs = bench.size(4_000, 20), bench.size(5, 1)
    request = request_bytes(SHORT, stream=False)
    with MockInferenceServer() as server:
        port = int(server.origin.rpartition(":")[2])
        server.set_response(SHORT)
        ours = best(port, request, b"}}", count, runs)
        server.clear_requests()
        yardstick = best(bare, request, b"}}", count, runs)

    bench.report(f"mock server: {count / ours:,.0f} replies a second, bare: {count / yardstick:,.0f}")
    bench.ratio("a reply of the mock server to one of a bare application", ours, yardstick, limit=1 / 0.6)


def test_events_are_as_many_as_those_of_a_bare_application(bench: Bench, bare: int) -> None:
    count, runs = bench.size(200, 10), bench.size(5, 1)
    request, end = request_bytes("go on", stream=True), b"data: [DONE]\n\n\r\n0\r\n\r\n"
    with MockInferenceServer() as server:
        port = int(server.origin.rpartition(":")[2])
        server.set_response("word " * WORDS)
        ours = best(port, request, end, count, runs)
        yardstick = best(bare, request, end, count, runs)

    events = count * WORDS
    bench.report(f"mock server: {events / ours:,.0f} events a second, bare: {events / yardstick:,.0f}")
    bench.ratio("an event of the mock server to one of a bare application", ours, yardstick, limit=1 / 0.6)


def test_events_of_a_script_are_as_many_as_those_of_a_bare_application(bench: Bench, bare: int) -> None:
    count, runs = bench.size(100, 2), bench.size(3, 1)
    request = request_bytes("hello", stream=True)
    yardstick = best(bare, request, b"[DONE]\n\n\r\n0\r\n\r\n", count, runs)
    with MockInferenceServer() as server:
        matcher = RequestMatcher.any(CHAT).where(last_user="hello", stream=True)
        server.expect_response("words", matcher, script.text("word " * WORDS, chunks=["word "] * WORDS)).always()
        port = int(server.origin.rpartition(":")[2])
        ours = best(port, request, b"[DONE]\n\n\r\n0\r\n\r\n", count, runs)

    events = count * WORDS
    bench.report(f"mock server: {events / ours:,.0f} scripted events a second, bare: {events / yardstick:,.0f}")
    bench.ratio("an event of a script to one of a bare application", ours, yardstick, limit=1 / 0.6)


def test_scripted_answers_cost_little_more(bench: Bench) -> None:
    count, runs = bench.size(2_000, 20), bench.size(3, 1)
    request = request_bytes(SHORT, stream=False)
    with MockInferenceServer() as server:
        port = int(server.origin.rpartition(":")[2])
        server.set_response(SHORT)
        fixed = best(port, request, b"}}", count, runs)
        matcher = RequestMatcher.any(CHAT).where(last_user="Paris", model="m")
        server.expect_response("paris", matcher, script.text(SHORT)).always()
        scripted = best(port, request, b"}}", count, runs)

    bench.report(f"mock server: {count / scripted:,.0f} scripted replies a second")
    bench.ratio("a scripted reply to a fixed one", scripted, fixed, limit=3)


def test_a_server_starts_and_stops_within_milliseconds(bench: Bench) -> None:
    times: list[float] = []
    for _ in range(bench.size(50, 3)):
        began = time.perf_counter()
        with MockInferenceServer():
            pass
        times.append(time.perf_counter() - began)

    bench.report(f"mock server: started and stopped in {sorted(times)[len(times) // 2] * 1000:.1f} ms")
