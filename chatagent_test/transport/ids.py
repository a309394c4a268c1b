"""Ids that are the same in every run of a test: counted by kind, from 1 (rule MK-4)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatagent.ui import UIMessage

from chatagent.protocol import mark_of
from chatagent.ui import ToolPart

__all__ = ["IdCounters"]


class IdCounters:
    """Counts ids; one that is taken already is skipped."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._taken: set[tuple[str, str]] = set()

    def new(self, kind: str) -> str:
        """Return the next id of a kind: `msg-1`."""
        while True:
            self._counts[kind] += 1
            made = f"{kind}-{self._counts[kind]}"
            if (kind, made) not in self._taken:
                self._taken.add((kind, made))
                return made

    def take(self, kind: str, given: str | None) -> str:
        """Return the id that was given, and keep it from being made again; without one, a new one."""
        if given is None:
            return self.new(kind)
        self._taken.add((kind, given))
        return given

    def take_message(self, message: UIMessage) -> None:
        """Keep the ids of a message and of what is in it from being made again."""
        self._taken.add(("msg", message.id))
        for part in message.parts:
            if isinstance(part, ToolPart):
                self._taken.add(("call", part.tool_call_id))
                if part.approval is not None:
                    self._taken.add(("approval", part.approval.id))
            mark = mark_of(part)
            if mark is not None:
                self._taken.add(("action", mark.action_id))

    def take_all(self, kind: str, given: Iterable[str]) -> None:
        """Keep these ids from being made again."""
        self._taken.update((kind, each) for each in given)
