"""A provider inside the process: answers the requests of a real SDK, and keeps them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

Chunk = bytes | Exception
"""What comes next of a body: bytes, or the failure of the connection."""


@dataclass
class Answer:
    """One HTTP answer. Without an `end`, the body ends where its chunks do."""

    chunks: Sequence[Chunk] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    hangs: bool = False
    """The connection stays open behind the chunks, and says nothing."""
    is_silent: bool = False
    """Not even the head of the answer comes."""


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: Answer, on_close: Callable[[], None], on_hang: Callable[[], None]) -> None:
        self._answer, self._on_close, self._on_hang = answer, on_close, on_hang

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._answer.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk
        if self._answer.hangs:
            self._on_hang()
            await anyio.sleep_forever()

    async def aclose(self) -> None:
        self._on_close()


class Provider(httpx2.AsyncBaseTransport):
    """Gives its answers one after the other; the last one for ever."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[httpx2.Request] = []
        self.bodies: list[Any] = []
        self.open_bodies = 0
        self.reached = anyio.Event()
        """Somebody waits for an answer that does not come."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        content = await request.aread()
        self.requests.append(request)
        self.bodies.append(json.loads(content) if content else None)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        if answer.is_silent:
            self.reached.set()
            await anyio.sleep_forever()
        self.open_bodies += 1
        return httpx2.Response(
            answer.status, headers=answer.headers, stream=_Body(answer, self._closed, self.reached.set)
        )

    def _closed(self) -> None:
        self.open_bodies -= 1

    def http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=self)

    def openai(self) -> AsyncOpenAI:
        return AsyncOpenAI(api_key="test", base_url="http://provider.test/v1", http_client=self.http())

    def anthropic(self) -> AsyncAnthropic:
        return AsyncAnthropic(api_key="test", base_url="http://provider.test", http_client=self.http())


def sse(*events: object, named: bool = False, done: bool = False, hangs: bool = False) -> Answer:
    """Return a stream of events; `named` puts each one's type in front, as Anthropic does."""
    frames = [f"event: {event['type']}\n" if named and isinstance(event, dict) else "" for event in events]
    frames = [f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(frames, events, strict=True)]
    frames += ["data: [DONE]\n\n"] if done else []
    return Answer([frame.encode() for frame in frames], hangs=hangs)


def whole(body: object, *, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """Return an answer in one piece, as JSON."""
    return Answer([json.dumps(body).encode()], status, {"content-type": "application/json", **(headers or {})})


def cut(body: bytes, size: int) -> Iterable[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))
