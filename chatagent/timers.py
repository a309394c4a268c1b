"""Deadlines that call back: one entry on the clock, no task that sleeps for it.

A virtual clock keeps such entries itself; for any other clock an owned task sleeps. Three kinds are told apart, since
a driver that moves virtual time may jump to some and not to others.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal, Protocol

from anyio.lowlevel import checkpoint

from chatagent.tasks import OwnedTask

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.clock import Clock
    from chatagent.waiting import Waiter

__all__ = ["TimerClock", "TimerKind", "call_at", "wait_until"]

logger = logging.getLogger("chatagent")

TimerKind = Literal["sleep", "limit", "wait"]
"""What a deadline is: a *sleep* that somebody asked for, a *limit* on work that is going on, or the end of a *wait* for
input between turns."""


class TimerClock(Protocol):
    """A clock that can call back by itself."""

    def call_at(self, at: float, callback: Callable[[], None], /, *, kind: TimerKind) -> Callable[[], None]:
        """Call `callback` once the clock shows `at`; returns what takes the entry back."""
        ...


def call_at(clock: Clock, at: float, callback: Callable[[], None], *, kind: TimerKind) -> Callable[[], None]:
    """Call `callback` once the clock shows `at`.

    Args:
        clock: the clock that the deadline is on.
        at: the instant, in seconds of that clock.
        callback: called once, in the clock's own step or in a task of its own; it must not wait.
        kind: what the deadline is for.

    Returns:
        A function that takes the deadline back; calling it late or twice does nothing.
    """
    own: Callable[..., Callable[[], None]] | None = getattr(clock, "call_at", None)
    if own is not None:
        return own(at, callback, kind=kind)

    async def sleep_then_call() -> None:
        await clock.sleep_until(at)
        try:
            callback()
        except Exception:  # nobody waits for a timer, so nobody else would tell
            logger.exception("the callback of a timer (%s) failed", kind)

    return OwnedTask(sleep_then_call, name=f"a timer ({kind})").cancel


async def wait_until(waiter: Waiter, clock: Clock, at: float | None, *, kind: TimerKind) -> bool:
    """Wait until the waiter is woken or the clock shows `at`.

    Args:
        waiter: what is waited for.
        clock: the clock that the deadline is on.
        at: the instant at which to give up; `None` waits without end. One that is past gives up at once, but not before
            other tasks had a chance.
        kind: what the deadline is for.

    Returns:
        `False` if the time ran out first.
    """
    if at is None or waiter.woken:
        await waiter.wait()
        return True
    if at <= clock.now():
        await checkpoint()
        return waiter.woken
    timed_out = False

    def give_up() -> None:
        nonlocal timed_out
        if not waiter.woken:
            timed_out = True
            waiter.wake()

    take_back = call_at(clock, at, give_up, kind=kind)
    try:
        await waiter.wait()
    finally:
        take_back()
    return not timed_out
