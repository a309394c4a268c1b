"""Asking for a URL with every client there is, and a server on loopback to ask."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import httpx2

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

REMOTE = "https://api.example.com/v1/things"
"""Nobody answers there, and nothing of the tests may find out."""


class Server:
    """A server on loopback that answers everything with 200, and counts."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.paths: list[str] = []


@contextmanager
def a_server() -> Generator[Server]:
    server = Server("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.paths.append(self.path)
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{listening.server_address[1]}/there"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


async def by_httpx(url: str, **options: Any) -> str:
    async with httpx.AsyncClient(trust_env=False, **options) as client:
        return (await client.get(url)).text


async def by_httpx2(url: str, **options: Any) -> str:
    async with httpx2.AsyncClient(trust_env=False, **options) as client:
        return (await client.get(url)).text


async def by_sync_httpx(url: str, **options: Any) -> str:
    with httpx.Client(trust_env=False, **options) as client:
        return client.get(url).text  # noqa: ASYNC212 - that is the point


async def by_sync_httpx2(url: str, **options: Any) -> str:
    with httpx2.Client(trust_env=False, **options) as client:
        return client.get(url).text


CLIENTS: list[Callable[..., Awaitable[str]]] = [by_httpx, by_httpx2, by_sync_httpx, by_sync_httpx2]


def patched_methods() -> dict[str, Any]:
    """What the network transports do now, to be compared."""
    owners = (httpx.HTTPTransport, httpx.AsyncHTTPTransport, httpx2.HTTPTransport, httpx2.AsyncHTTPTransport)
    return {
        f"{owner.__module__}.{owner.__name__}.{name}": vars(owner)[name]
        for owner in owners
        for name in ("handle_request", "handle_async_request")
        if name in vars(owner)
    }
