"""The gates of a scenario: places where the agent waits until the driver lets it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio.lowlevel import checkpoint

from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from chatagent.signals import AbortSignal


async def first_steps() -> None:
    """Let a task that was just started go on to where it first waits: what is started in the reference does so at once.

    A send puts its record on `.in` in these steps, and deferred work does what it has to wait for nothing for.
    """
    for _ in range(2):  # one is not enough where tasks are woken in any order
        await checkpoint()


class Gates:
    """Gates by name; one that was opened stays open.

    Virtual time stands still while somebody waits at one: only the driver decides how the scenario goes on.
    """

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._waiting: dict[str, list[Waiter]] = {}

    def open(self, name: str) -> None:
        """Let everybody through, from now on."""
        self._open.add(name)
        for waiter in self._waiting.pop(name, []):
            waiter.wake()

    async def wait(self, name: str, *, unless: AbortSignal | None = None) -> None:
        """Return when the gate is open, or when the signal is aborted."""
        if name in self._open:
            return
        waiter = Waiter(f"gate {name!r}", stops_time=True)
        self._waiting.setdefault(name, []).append(waiter)
        unsubscribe = unless.add_callback(waiter.wake) if unless is not None else None
        try:
            await waiter.wait()
        finally:
            if unsubscribe is not None:
                unsubscribe()
            if waiter in self._waiting.get(name, ()):
                self._waiting[name].remove(waiter)
