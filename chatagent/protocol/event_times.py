"""The times of events, by which a list of threads is sorted (rule CL-3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chatagent.clock import Clock

__all__ = ["EventTimes"]

_TICK: Final = timedelta(microseconds=1)


class EventTimes:
    """Gives what happens in the threads of one backend its time; none is before the one given last.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._seconds = clock.now
        self._last_seconds: float = -1.0
        self._last_thread = ""
        self.last = datetime.fromtimestamp(0, UTC)
        """The time that was given last; the beginning of 1970 before any."""

    def now(self, thread_id: str = "") -> datetime:
        """Return the time of what happens in a thread.

        Where the clock stands still, the time of another thread's event is a microsecond later: a list of threads is
        sorted by their times, and what was used last must come first in it.
        """
        seconds = self._seconds()
        if seconds != self._last_seconds:
            self._last_seconds = seconds
            self.last = max(datetime.fromtimestamp(seconds, UTC), self.last)
        elif thread_id != self._last_thread and self._last_thread:
            self.last += _TICK
        self._last_thread = thread_id
        return self.last
