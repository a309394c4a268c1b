"""The quickstart, run as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUICKSTART = ROOT / "examples" / "quickstart.py"


def run_quickstart(path: Path = QUICKSTART, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    return subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        env={**env, "COLUMNS": "100", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def test_the_quickstart_shows_each_turn() -> None:
    done = run_quickstart()

    assert done.stderr == ""
    assert done.returncode == 0
    shown = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for line in (
        "Turn 1",
        "reply One flat white, coming up.",
        "hooks on_chat_start, on_turn_start, run, on_turn_complete",
        "stored 2 messages: user, assistant",
        "tool look_up_price({'drink': 'espresso'}) gave '2.20'",
        "hooks on_action",
        "reply Our beans come from (stopped)",
        "reply Welcome back! Another flat white?",
        "Virtual time that passed: 60 seconds.",
    ):
        assert line in shown, line


def test_the_quickstart_is_plain_where_nobody_looks() -> None:
    assert "\x1b" not in run_quickstart().stdout


def test_the_quickstart_prints_where_output_is_ascii() -> None:
    done = run_quickstart(PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0")

    assert done.returncode == 0


def test_a_quickstart_that_fails_says_so(tmp_path: Path) -> None:
    last = '    script.text("Welcome back! Another flat white?"),\n'
    text = QUICKSTART.read_text(encoding="utf-8")
    broken = tmp_path / "quickstart.py"
    broken.write_text(text.replace(last, f'{last}    script.text("Nobody asks for this."),\n'), encoding="utf-8")

    done = run_quickstart(broken)

    assert done.returncode == 1
    assert "the model's script has 1 of 7 entries left, the next is script.text('Nobody asks for this.')" in done.stderr
