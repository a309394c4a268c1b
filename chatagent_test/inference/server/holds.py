"""Holds that scripts name: where an answer waits until a test lets it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent_test.inference.waiting import Latch

if TYPE_CHECKING:
    from chatagent_test.inference.waiting import Board

__all__ = ["NamedHolds"]


class NamedHolds:
    """A latch for each name. Once released, a name stays open."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._latches: dict[str, Latch] = {}
        self._reached: dict[str, int] = {}

    def arrive(self, name: str) -> Latch:
        """Come to a hold; return what to wait for."""
        with self._board.lock:
            self._reached[name] = self._reached.get(name, 0) + 1
            self._board.changed()
            return self._latch(name)

    def is_reached(self, name: str) -> bool:
        """Whether an answer has come to it."""
        return name in self._reached

    def release(self, name: str) -> None:
        """Let all go on that wait there, or will come there."""
        with self._board.lock:
            latch = self._latch(name)
        latch.open()

    def release_all(self) -> None:
        """Release every name that was ever reached."""
        with self._board.lock:
            latches = list(self._latches.values())
        for latch in latches:
            latch.open()

    def _latch(self, name: str) -> Latch:
        return self._latches.setdefault(name, Latch())
