"""The example, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "pydantic_ai_agent.py"


def test_the_example_shows_each_turn() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )

    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "user:   What is an espresso?",
        "tool:   look_up_price({'drink': 'espresso'}) gave '2.20'",
        "agent:  An espresso is 2.20.",
        "user:   Thank you.",
        "agent:  An espresso is 2.20.",
        "stored: user, assistant, user, assistant",
        "virtual time that passed: 60 seconds",
    ]
