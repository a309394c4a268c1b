"""Waits that threads, asyncio tasks and trio tasks can share: a latch that opens once, and conditions on shared state.

The server answers on a thread of its own while tests wait on loops and threads of theirs, so whoever opens a latch
knows nothing about those who wait. Nothing here polls.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio.lowlevel import current_token

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DEFAULT_TIMEOUT", "Board", "Latch", "scaled"]

DEFAULT_TIMEOUT = 10.0
"""Seconds that a wait may take before it is scaled."""


def scaled(seconds: float) -> float:
    """Return seconds times `CHATAGENT_TEST_TIMEOUT_SCALE`, if that is a positive integer."""
    scale = os.environ.get("CHATAGENT_TEST_TIMEOUT_SCALE", "")
    return seconds * int(scale) if scale.isascii() and scale.isdigit() and int(scale) else seconds


class Latch:
    """Shut until somebody opens it, and open from then on."""

    __slots__ = ("_is_open", "_lock", "_wakers")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_open = False
        self._wakers: list[Callable[[], None]] = []

    @property
    def is_open(self) -> bool:
        """Whether it has been opened."""
        return self._is_open

    @property
    def waiting(self) -> int:
        """How many wait for it."""
        return len(self._wakers)

    def open(self) -> None:
        """Open it and wake all who wait; does nothing the second time."""
        with self._lock:
            self._is_open = True
            wakers, self._wakers = self._wakers, []
        for waker in wakers:
            waker()

    def add_waker(self, waker: Callable[[], None]) -> bool:
        """Have something called, on the opener's thread, when the latch opens.

        Returns:
            Whether it will be called: `False` if the latch is open already.
        """
        with self._lock:
            if not self._is_open:
                self._wakers.append(waker)
            return not self._is_open

    def discard_waker(self, waker: Callable[[], None]) -> None:
        """Forget a waker, if it is still there."""
        with self._lock:
            if waker in self._wakers:
                self._wakers.remove(waker)

    def wait_sync(self, timeout: float | None = None) -> bool:
        """Block this thread until the latch is open.

        Args:
            timeout: at most so many seconds; `None` waits as long as it takes.

        Returns:
            Whether the latch is open.
        """
        event = threading.Event()
        waker = event.set
        if self.add_waker(waker):
            try:
                event.wait(timeout)
            finally:
                self.discard_waker(waker)
        return self._is_open

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - the same words as its sync twin
        """Wait on any anyio loop; arguments and result as for `wait_sync`."""
        event = anyio.Event()
        waker = _from_any_thread(event.set)
        if not self.add_waker(waker):
            await anyio.lowlevel.checkpoint()
            return True
        try:
            with anyio.move_on_after(timeout):
                await event.wait()
        finally:
            self.discard_waker(waker)
        return self._is_open


class Board:
    """One lock for a server's shared state, and waits for conditions on it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._watchers: list[tuple[Callable[[], bool], Latch]] = []

    def changed(self) -> None:
        """Wake those whose condition holds now. Call it with the lock held, after each change."""
        if not self._watchers:
            return
        met = [watcher for watcher in self._watchers if watcher[0]()]
        for watcher in met:
            self._watchers.remove(watcher)
            watcher[1].open()

    def wait_sync(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Block until a condition holds; return whether it did within `timeout` seconds."""
        watcher = self._watch(condition)
        if watcher is None:
            return True
        try:
            return watcher[1].wait_sync(timeout)
        finally:
            self._unwatch(watcher)

    async def wait(self, condition: Callable[[], bool], timeout: float) -> bool:  # noqa: ASYNC109 - as its sync twin
        """Wait until a condition holds; return whether it did within `timeout` seconds."""
        watcher = self._watch(condition)
        if watcher is None:
            await anyio.lowlevel.checkpoint()
            return True
        try:
            return await watcher[1].wait(timeout)
        finally:
            self._unwatch(watcher)

    def _watch(self, condition: Callable[[], bool]) -> tuple[Callable[[], bool], Latch] | None:
        with self.lock:
            if condition():
                return None
            watcher = (condition, Latch())
            self._watchers.append(watcher)
            return watcher

    def _unwatch(self, watcher: tuple[Callable[[], bool], Latch]) -> None:
        with self.lock:
            if watcher in self._watchers:
                self._watchers.remove(watcher)


def _from_any_thread(callback: Callable[[], None]) -> Callable[[], None]:
    """Return something that any thread may call to have a callback run on the loop that runs here."""
    token = current_token()
    loop = cast("Any", token.native_token)  # anyio names no type: a trio token, or an asyncio loop
    schedule = loop.run_sync_soon if hasattr(loop, "run_sync_soon") else loop.call_soon_threadsafe

    def wake() -> None:
        try:
            schedule(callback)
        except RuntimeError:
            return  # the loop has ended, and with it whoever waited there

    return wake
