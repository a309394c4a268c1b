"""Where an answer waits to be read in the same process: filled by a runner, emptied by a client on any thread."""

from __future__ import annotations

import threading
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from chatagent_test.inference.waiting import Latch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent_test.inference.steps import Head

__all__ = ["BodyEnded", "Mail", "Mailbox"]


class BodyEnded(Enum):
    """How a body ended."""

    WHOLE = "whole"
    CUT = "cut"


Mail: TypeAlias = "Head | bytes | BodyEnded"


class Mailbox:
    """A sink that keeps what was said until it is taken."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._mail: deque[Mail] = deque()
        self._more = Latch()

    def head(self, head: Head) -> None:
        self._put(head)

    def frames(self, frames: Sequence[bytes]) -> None:
        self._put(*[frame for frame in frames if frame])

    def flush(self) -> None:
        """Nothing is held back here."""

    def end(self) -> None:
        self._put(BodyEnded.WHOLE)

    def cut(self) -> None:
        self._put(BodyEnded.CUT)

    async def take(self, timeout: float | None = None) -> Mail | None:  # noqa: ASYNC109 - as its sync twin
        """Take the next mail; `None` if nothing came within so many seconds."""
        while True:
            more = self._next()
            if not isinstance(more, Latch):
                return more
            if not await more.wait(timeout):
                return None

    def take_sync(self, timeout: float | None = None) -> Mail | None:
        """Take the next mail; `None` if nothing came within so many seconds."""
        while True:
            more = self._next()
            if not isinstance(more, Latch):
                return more
            if not more.wait_sync(timeout):
                return None

    def _next(self) -> Mail | Latch:
        with self._lock:
            if self._mail:
                return self._mail.popleft()
            self._more = Latch()
            return self._more

    def _put(self, *mail: Mail) -> None:
        with self._lock:
            self._mail.extend(mail)
            more = self._more
        more.open()
