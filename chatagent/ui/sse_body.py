"""The body of a response that carries a UI message stream: bytes as they come, kept alive if asked for (17.2, 17.3)."""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from chatagent.current import current_clock, current_tasks
from chatagent.errors import InvalidArgumentError
from chatagent.tasks import TaskSet
from chatagent.timers import wait_until
from chatagent.ui.client_majors import ClientMajor, chunk_for_client
from chatagent.ui.closing import close_stream
from chatagent.ui.sse import SSE_DONE, SSE_KEEP_ALIVE, SSE_OPEN, format_sse
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

    from chatagent.ui.chunks import Chunk

__all__ = ["iter_sse"]

MAX_KEEP_ALIVE = 2147483.647
"""Seconds; the longest interval that timers of the reference take."""


def iter_sse(
    chunks: AsyncIterable[Chunk], *, client_major: ClientMajor = 7, keep_alive: float | None = None
) -> AsyncGenerator[bytes]:
    """Return the body of a response, piece by piece.

    If the stream raises, the body breaks off without `[DONE]`, and what it raised is raised here. The stream is closed
    with the body, so close the body (`aclose`) that a client does not read to its end.

    Args:
        chunks: the stream.
        client_major: the major release of the client; towards 6 and 5 the chunks that those refuse are left out or
            said in older words.
        keep_alive: seconds without a chunk after which a comment is sent, so that nobody takes the connection for dead.

    Raises:
        InvalidArgumentError: an interval that is not positive, or too long.
    """
    if keep_alive is None:
        return _plain(chunks, client_major)
    if not 0 < keep_alive <= MAX_KEEP_ALIVE:
        problem = f"an interval is more than 0 and at most {MAX_KEEP_ALIVE} s"
        raise InvalidArgumentError(argument="keep_alive", value=keep_alive, problem=problem)
    return _kept_alive(chunks, client_major, keep_alive)


async def _plain(chunks: AsyncIterable[Chunk], client_major: ClientMajor) -> AsyncGenerator[bytes]:
    try:
        async for chunk in chunks:
            sent = chunk_for_client(chunk, client_major)
            if sent is not None:
                yield format_sse(sent)
        yield SSE_DONE
    finally:
        await close_stream(chunks)


async def _kept_alive(
    chunks: AsyncIterable[Chunk], client_major: ClientMajor, interval: float
) -> AsyncGenerator[bytes]:
    clock = current_clock()
    pieces = _Pieces(chunks, client_major)
    async with pieces.being_made():
        yield SSE_OPEN
        while True:
            piece = await pieces.next(clock.now() + interval)
            yield SSE_KEEP_ALIVE if piece is None else piece
            if piece is SSE_DONE:
                return


class _Pieces:
    """The pieces of a body, made by a task of their own, so that a wait for the next one can be given up."""

    def __init__(self, chunks: AsyncIterable[Chunk], client_major: ClientMajor) -> None:
        self._source = _plain(chunks, client_major)
        self._ready: deque[bytes] = deque()
        self._error: Exception | None = None
        self._reader: Waiter | None = None
        self._room: Waiter | None = None

    @asynccontextmanager
    async def being_made(self) -> AsyncGenerator[None]:
        own = TaskSet()
        task = (current_tasks() or own).start(self._make, name="a UI message stream that is kept alive")
        try:
            yield
        finally:
            await task.close()

    async def next(self, at: float) -> bytes | None:
        """Return the next piece; `None` if none came until `at`."""
        if not self._ready and self._error is None:
            self._reader = Waiter("the next chunk of a UI message stream")
            await wait_until(self._reader, current_clock(), at, kind="sleep")
            self._reader = None
        if self._ready:
            piece = self._ready.popleft()
            if self._room is not None:
                self._room.wake()
            return piece
        if self._error is not None:
            raise self._error
        return None

    async def _make(self) -> None:
        try:
            async for piece in self._source:
                self._ready.append(piece)
                self._wake_reader()
                await self._wait_for_room()
        except Exception as exc:  # noqa: BLE001 - raised to whoever reads the body
            self._error = exc
            self._wake_reader()
        finally:
            await close_stream(self._source)

    async def _wait_for_room(self) -> None:
        if self._ready:
            self._room = Waiter("the reader of a UI message stream")
            await self._room.wait()
            self._room = None

    def _wake_reader(self) -> None:
        if self._reader is not None:
            self._reader.wake()
