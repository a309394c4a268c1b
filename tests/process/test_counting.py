"""The server that counts connections."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from chatagent.errors import HarnessStateError
from chatagent_test.process import CountingServer, counting

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_a_client_uses_its_connection_again() -> None:
    """INF-056"""
    with CountingServer() as server, httpx2.Client() as client:
        answers = [client.post(f"{server.url}/chat/completions", json={"n": number}) for number in range(3)]

        assert [(each.status_code, each.headers["content-type"], each.json()) for each in answers] == [
            (200, "application/json", {})
        ] * 3
        assert server.accepts == 1
        assert [head.partition(b"\r\n")[0] for head in server.heads] == [b"POST /v1/chat/completions HTTP/1.1"] * 3
        assert all(head.endswith(b"\r\n\r\n") and b"content-length: " in head.lower() for head in server.heads)


def test_clients_that_connect_anew_are_counted() -> None:
    with CountingServer() as server:
        for _ in range(3):
            httpx2.get(server.url)

        assert (server.accepts, len(server.heads)) == (3, 3)


def test_a_body_in_chunks_is_no_second_request() -> None:
    def body() -> Iterator[bytes]:
        yield b"GET / HTTP/1.1\r\n\r\n"
        yield b"more"

    with CountingServer() as server, httpx2.Client() as client:
        client.post(server.url, content=body())
        client.get(server.url)

        assert (server.accepts, len(server.heads)) == (1, 2)


@pytest.mark.anyio
async def test_async_clients_use_theirs_again(anyio_backend: Any) -> None:
    async with CountingServer() as server, httpx2.AsyncClient() as client:
        for _ in range(3):
            await client.get(server.url)

        assert (server.accepts, len(server.heads)) == (1, 3)


def test_a_close_cuts_connections_that_are_kept_alive() -> None:
    server = CountingServer()
    with httpx2.Client() as client:
        with server:
            url = server.url
            client.get(url)
        server.close()

        with pytest.raises(httpx2.TransportError):
            client.get(url)


def test_a_server_that_was_not_started_has_no_url() -> None:
    with pytest.raises(HarnessStateError, match=r"^the counting server has no port: enter it "):
        _ = CountingServer().url


def test_a_close_cuts_a_connection_whose_thread_has_not_begun_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    accepted, cut = threading.Event(), threading.Event()
    connections, servers = vars(counting)["_Connection"], vars(counting)["_Server"]
    begin, end = connections.setup, servers.server_close

    def begin_late(connection: Any) -> None:
        accepted.set()
        cut.wait()
        begin(connection)

    def end_behind_the_cut(server: Any) -> None:
        cut.set()
        end(server)

    monkeypatch.setattr(connections, "setup", begin_late)
    monkeypatch.setattr(servers, "server_close", end_behind_the_cut)
    server = CountingServer().__enter__()
    with socket.create_connection(("127.0.0.1", int(server.url.split(":")[2].split("/")[0]))):
        accepted.wait()
        closing = threading.Thread(target=server.close, daemon=True)
        closing.start()
        closing.join(5)

    assert not closing.is_alive()
