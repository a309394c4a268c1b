"""One turn of an agent that may ask at any of several endpoints: an expectation at each, of which one is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent_test.inference.expectations.expectation import Expectation, PhaseWaits, Surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from chatagent_test.inference.expectations.calls import Expected

__all__ = ["AgentTurnExpectation"]


class AgentTurnExpectation(PhaseWaits):
    """A turn that is expected at one of several endpoints.

    Waits return when one side gets there, `release` opens all, and the side that is satisfied withdraws the others, so
    that no later turn claims a stale one.
    """

    def __init__(self, surroundings: Surroundings, sides: Sequence[Expected]) -> None:
        super().__init__(surroundings, sides)
        self.sides = tuple(Expectation(surroundings, side) for side in sides)

    def unsatisfied_diagnostics(self) -> Iterator[str]:
        """Yield name and phase of each side that was not answered."""
        yield from (side.diagnostic() for side in self.sides if not side.is_satisfied)

    def __repr__(self) -> str:
        return f"<{self.diagnostic()}>"
