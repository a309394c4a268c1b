"""The gates of a scenario: places where the agent waits until the driver lets it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from chatagent.signals import AbortSignal


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
