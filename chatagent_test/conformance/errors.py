"""What the suite raises and warns of (rule CT-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.errors import ChatAgentError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CaseFailedError", "ConformanceWarning", "Mismatch"]


class CaseFailedError(ChatAgentError, AssertionError):
    """A transport broke a rule; the error says which, what was expected, what came, and what had happened so far."""

    def __init__(
        self,
        *,
        case_id: str,
        title: str,
        rules: Sequence[str],
        expected: str,
        came: str,
        events: Sequence[str],
    ) -> None:
        """Build the message.

        Args:
            case_id: the case.
            title: what it shows.
            rules: the rules that it is about.
            expected: what should have been.
            came: what was.
            events: the events of each thread of the case that clients have read, a line each.
        """
        told = "\n".join(f"  {line}" for line in events) or "  none"
        super().__init__(
            f"{case_id} ({', '.join(rules)}): {title}\nexpected: {expected}\ncame: {came}\nevents so far:\n{told}"
        )
        self.case_id, self.title, self.rules = case_id, title, tuple(rules)
        self.expected, self.came, self.events = expected, came, tuple(events)


class ConformanceWarning(UserWarning):
    """Something about the suite's use that makes its result say less than it seems to."""


class Mismatch(AssertionError):
    """What a case expected did not come."""

    def __init__(self, expected: str, came: str) -> None:
        super().__init__(f"expected: {expected}\ncame: {came}")
        self.expected, self.came = expected, came
