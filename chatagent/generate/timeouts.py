"""The limits of a call that is under way, on the clock of its run (rule 8.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.timers import call_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.clock import Clock
    from chatagent.generate.settings import Timeouts

__all__ = ["TIMEOUT_TEXT", "Deadlines"]

TIMEOUT_TEXT = "The operation was aborted due to timeout"


class Deadlines:
    """Aborts a call when one of its limits is reached.

    Args:
        limits: the limits.
        clock: the clock that they are on.
        abort: called with the `TimeoutError` of the first limit that is reached.
    """

    __slots__ = ("_abort", "_clock", "_last_output_at", "_limits", "_take_back", "watches_output")

    def __init__(self, limits: Timeouts, clock: Clock, abort: Callable[[TimeoutError], None]) -> None:
        self._limits, self._clock, self._abort = limits, clock, abort
        self._take_back: dict[str, Callable[[], None]] = {}
        self._last_output_at = 0.0
        self.watches_output = limits.first_chunk is not None or limits.chunk is not None
        """Whether `output` must be called for each output of the model."""

    def call_begins(self) -> None:
        """Start the limit of the whole call."""
        self._arm("Total", self._limits.total)

    def step_begins(self) -> None:
        """Start the limit of a step."""
        self._arm("Step", self._limits.step)

    def step_ends(self) -> None:
        """Take the limit of the step back."""
        self._disarm("Step")

    def stream_begins(self) -> None:
        """Start the limit of the first output."""
        self._arm("First chunk", self._limits.first_chunk)

    def output(self) -> None:
        """Note that the model said something."""
        self._disarm("First chunk")
        self._last_output_at = self._clock.now()
        if "Chunk" not in self._take_back:
            self._arm("Chunk", self._limits.chunk)

    def stream_ends(self) -> None:
        """Take the limits of the stream back."""
        self._disarm("First chunk")
        self._disarm("Chunk")

    def call_ends(self) -> None:
        """Take all limits back."""
        for name in tuple(self._take_back):
            self._disarm(name)

    def _arm(self, name: str, seconds: float | None) -> None:
        if seconds is None:
            return
        self._disarm(name)
        at = self._clock.now() + seconds

        def reached() -> None:
            self._reached(name, seconds)

        self._take_back[name] = call_at(self._clock, at, reached, kind="limit")

    def _disarm(self, name: str) -> None:
        take_back = self._take_back.pop(name, None)
        if take_back is not None:
            take_back()

    def _reached(self, name: str, seconds: float) -> None:
        self._take_back.pop(name, None)
        if name == "Chunk":
            # One timer for many outputs: it is not moved at each of them, but looks back when its time has come.
            rest = self._last_output_at + seconds - self._clock.now()
            if rest > 0:
                self._take_back[name] = call_at(
                    self._clock, self._clock.now() + rest, lambda: self._reached(name, seconds), kind="limit"
                )
                return
        if name == "Total":
            self._abort(TimeoutError(TIMEOUT_TEXT))
        else:
            self._abort(TimeoutError(f"{name} timeout of {seconds * 1000:g}ms exceeded"))
