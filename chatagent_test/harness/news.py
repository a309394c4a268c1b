"""News: waiting for the next thing that happens, whatever it is."""

from __future__ import annotations

import math

from chatagent.waiting import Wakeup

__all__ = ["News"]


class News:
    """Lets one or many wait until something has happened; they look for themselves what it was."""

    def __init__(self) -> None:
        self._waiting: list[Wakeup] = []

    async def news(self, within: float = math.inf) -> None:
        """Return at the next thing that happens, or after so many real seconds."""
        wakeup = Wakeup()
        self._waiting.append(wakeup)
        try:
            await wakeup.wait(within)
        finally:
            if wakeup in self._waiting:
                self._waiting.remove(wakeup)

    def stir(self) -> None:
        """Let whoever waits for news look again."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for wakeup in waiting:
                wakeup.wake()
