"""Time, as the runtime sees it: the `Clock` protocol and the system's clock.

Everything that waits for time takes a clock from its surroundings (`chatagent.current.current_clock`), never from the
machine, so that a test can hand in a clock of its own. Deadlines that call back are in `chatagent.timers`.
"""

from __future__ import annotations

import re
import time
from typing import Protocol, runtime_checkable

import anyio

from chatagent.errors import InvalidArgumentError

__all__ = ["Clock", "Duration", "SystemClock", "to_seconds"]

Duration = float | str
"""Seconds, or a text of numbers and units such as `"1h30m"` (units `w`, `d`, `h`, `hr`, `m`, `s`)."""

_UNITS = {"w": 604800.0, "d": 86400.0, "hr": 3600.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:w|d|hr|h|m|s))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(w|d|hr|h|m|s)")


@runtime_checkable
class Clock(Protocol):
    """Tells the time and waits for it. Implement these three methods; inherit from nothing."""

    def now(self) -> float:
        """Return the current instant, in seconds since 1970; it never goes backwards."""
        ...

    async def sleep(self, seconds: float, /) -> None:
        """Return after so many seconds; at once, but not before other tasks had a chance, if that is 0 or less."""
        ...

    async def sleep_until(self, at: float, /) -> None:
        """Return when the clock shows the instant `at` or later."""
        ...


class SystemClock:
    """The machine's clock."""

    __slots__ = ()

    def now(self) -> float:
        """Return the current instant, in seconds since 1970."""
        return time.time()

    async def sleep(self, seconds: float, /) -> None:
        """Return after so many seconds of real time."""
        await anyio.sleep(max(0.0, seconds))

    async def sleep_until(self, at: float, /) -> None:
        """Return when the machine's clock shows the instant `at`."""
        await self.sleep(at - self.now())


def to_seconds(duration: Duration, *, argument: str = "duration") -> float:
    """Return a duration in seconds (rule C-82).

    Args:
        duration: seconds, or a text of numbers and units such as `"1h30m"`.
        argument: the name under which an error shows it.

    Raises:
        InvalidArgumentError: it is negative, not finite, or a text that is no duration.
    """
    if isinstance(duration, str):
        text = duration.strip()
        if not _DURATION.fullmatch(text):
            raise InvalidArgumentError(
                argument=argument, value=duration, problem='a duration reads like "1h30m", with units w, d, h, hr, m, s'
            )
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(text))
    else:
        seconds = duration
    # Callers may be untyped.
    if not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgumentError(argument=argument, value=duration, problem="a duration is 0 seconds or more")
    return float(seconds)
