"""What an exploration has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CrashReport", "CrashViolation"]


@dataclass(frozen=True, slots=True)
class CrashViolation:
    """One thing that is wrong with the outcome of one conversation."""

    crash_points: Sequence[str]
    """Where its runs died, in order, such as `17: wrote record 5 of .out (text-delta)`; none without a crash."""
    rule: str
    """Which rule is broken, such as `lost message`."""
    detail: str

    def __str__(self) -> str:
        where = ", then ".join(self.crash_points) or "without a crash"
        return f"{self.rule} [{where}]: {self.detail}"


@dataclass(slots=True)
class CrashReport:
    """The outcome of `explore_crashes`."""

    conversations: int = 0
    """How often the conversation was held."""
    crash_points: int = 0
    """How many crashes there were in them."""
    violations: list[CrashViolation] = field(default_factory=list[CrashViolation])
    """What was wrong, in the order of the crash points."""

    @property
    def ok(self) -> bool:
        """Whether there were crashes, and none did harm."""
        return self.crash_points > 0 and not self.violations

    def assert_ok(self) -> None:
        """Fail unless there were crashes and none did harm.

        Raises:
            AssertionError: with every violation and its crash point.
        """
        if not self.ok:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        head = f"{self.conversations} conversations with {self.crash_points} crashes, {len(self.violations)} violations"
        return "\n".join([head, *(f"- {violation}" for violation in self.violations)])
