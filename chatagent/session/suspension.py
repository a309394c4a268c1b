"""Suspended waits: what a run waits for while it is put away, and the seam for those who bring it back.

Without a runtime manager a suspended wait goes on in place, which is what a run in one process needs (G-7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.session.records import Direction

__all__ = ["RuntimeManager", "SuspendedWait"]

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendedWait:
    """What a run that is put away waits for."""

    kind: Literal["session", "stream"]
    """A record on a channel of a session, or data on an input stream."""
    id: str
    """The session's id, or the stream's."""
    direction: Direction = "in"
    """Which channel of the session."""
    last_seq_num: int | None = None
    """The highest number that the channel has received; the record that ends the wait lies above it."""
    timeout: float | None = None
    """Seconds on the run's clock after which the wait is given up; `None` waits without end."""


class RuntimeManager(Protocol):
    """Puts a run away while it waits, and brings it back. Implement this method; inherit from nothing."""

    async def suspend(self, wait: SuspendedWait, resume: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Return what ends the wait.

        Args:
            wait: what is waited for.
            resume: waits in place and returns what a suspended wait returns; to be called at most once.
        """
        ...
