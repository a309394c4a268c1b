"""News: waiting for the next thing that happens, whatever it is."""

from __future__ import annotations

import anyio

__all__ = ["News"]


class News:
    """Lets one or many wait until something has happened; they look for themselves what it was."""

    def __init__(self) -> None:
        self._news: anyio.Event | None = None

    def news(self) -> anyio.Event:
        """Return an event that is set at the next thing that happens."""
        if self._news is None:
            self._news = anyio.Event()
        return self._news

    def stir(self) -> None:
        """Let whoever waits for news look again."""
        if self._news is not None:
            news, self._news = self._news, None
            news.set()
