"""Asks a mock inference server over HTTP, and reads what it streams."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx2

from chatagent_test.inference import InferenceEndpoint
from chatagent_test.inference.sse import parse_sse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from chatagent_test.inference import MockInferenceServer

CHAT, RESPONSES, MESSAGES = (
    InferenceEndpoint.CHAT_COMPLETIONS,
    InferenceEndpoint.RESPONSES,
    InferenceEndpoint.MESSAGES,
)
TURN = {"x-chatagent-turn-idx": "1"}
ENDPOINTS = list(InferenceEndpoint)


def side(call_id: str = "call") -> dict[str, str]:
    return {"x-chatagent-req-id": call_id}


def turn(call_id: str) -> dict[str, str]:
    return {**TURN, **side(call_id)}


def body_for(endpoint: InferenceEndpoint, text: object = "hi", **members: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": text}]
    return {"model": "test-model", "input" if endpoint is RESPONSES else "messages": said, **members}


def ask(
    server: MockInferenceServer,
    endpoint: InferenceEndpoint = CHAT,
    text: object = "hi",
    *,
    headers: dict[str, str] | None = None,
    stream: bool = False,
    timeout: float = 10,
    **members: Any,
) -> httpx2.Response:
    given = body_for(endpoint, text, **({"stream": True} if stream else {}), **members)
    return httpx2.post(f"{server.origin}{endpoint.path}", json=given, headers=headers, timeout=timeout)


def get(server: MockInferenceServer, path: str, **options: Any) -> httpx2.Response:
    return httpx2.get(f"{server.origin}{path}", **options)


def data_of(content: bytes) -> list[Any]:
    """Return what the events of a stream say, `[DONE]` left out."""
    return [json.loads(event.data) for event in parse_sse(content) if event.data != "[DONE]"]


def deltas_of(endpoint: InferenceEndpoint, content: bytes) -> list[str]:
    """Return the text deltas of a stream."""
    found: list[str | None] = []
    for data in data_of(content):
        if endpoint is CHAT:
            found += [choice["delta"].get("content") for choice in data["choices"]]
        elif data["type"] == "response.output_text.delta":
            found.append(data["delta"])
        elif data["type"] == "content_block_delta":
            found.append(data["delta"]["text"])
    return [each for each in found if each is not None]


def text_of(endpoint: InferenceEndpoint, whole: dict[str, Any]) -> str:
    """Return the text of an answer in one piece."""
    if endpoint is CHAT:
        return whole["choices"][0]["message"]["content"]
    if endpoint is RESPONSES:
        return whole["output"][0]["content"][0]["text"]
    return whole["content"][0]["text"]


def in_background(work: Callable[[], Any]) -> Future[Any]:
    """Do something on a thread of its own."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


@contextmanager
def connection(server: MockInferenceServer) -> Iterator[socket.socket]:
    """Connect without any HTTP library, to see and to send bytes as they are."""
    port = int(server.origin.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 5) as client:
        yield client


def raw_request(endpoint: InferenceEndpoint, *, stream: bool = True, headers: dict[str, str] | None = None) -> bytes:
    content = json.dumps(body_for(endpoint, stream=stream)).encode()
    lines = [f"POST {endpoint.path} HTTP/1.1", "host: mock", "content-type: application/json"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, f"content-length: {len(content)}", "", ""]).encode() + content


def read_until(client: socket.socket, end: bytes) -> bytes:
    """Read until so much has come."""
    seen, limit = b"", time.monotonic() + 10
    while end not in seen:
        assert time.monotonic() < limit, f"{end!r} is not in {seen!r}"
        piece = client.recv(65536)
        assert piece, f"closed behind {seen!r}"
        seen += piece
    return seen


def read_to_end(client: socket.socket) -> bytes:
    seen = b""
    while piece := client.recv(65536):
        seen += piece
    return seen


def is_silent(client: socket.socket, seconds: float = 0.05) -> bool:
    """Whether nothing comes for a moment."""
    client.settimeout(seconds)
    try:
        return client.recv(1, socket.MSG_PEEK) is None
    except TimeoutError:
        return True
    finally:
        client.settimeout(5)
