"""Replays a scenario of the chat agent and compares what happened with what was recorded."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from conformance.chat_agent.comparing import problems_of
from conformance.chat_agent.scenario import observe, throws_plain_value

SHOWN = 12
"""How many differences a failure shows."""


def replay(golden: dict[str, Any]) -> None:
    """Run one scenario; skip it if Python cannot express it.

    Raises:
        AssertionError: something differs from what was recorded; the text says what, the most telling first.
    """
    if throws_plain_value(golden):
        pytest.skip("it throws a bare string, which Python cannot")
    actual = anyio.run(observe, golden)
    problems = problems_of(golden, actual)
    if problems:
        more = [f"… and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        notes = [f"note: {each}" for each in actual["notes"]]
        raise AssertionError("\n".join([golden["name"], *problems[:SHOWN], *more, *notes]))
