"""Small projects of users, run by a pytest of their own with our plugin beside the usual ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from textwrap import dedent
from typing import TYPE_CHECKING, Any

from support.projects import INI, OURS, USUAL_PLUGINS, options_of, run_project

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pytest

AGENT = """
    from chatagent import chat, locals, stream_text
    from chatagent_test import MockLanguageModel, script

    MODEL = locals.create("model", MockLanguageModel)


    @chat.agent(id="greeter")
    def greeter(event):
        model = locals.get(MODEL) or MockLanguageModel(script.pause(3600).text("hello ").pause(60).text("there"))
        return stream_text(model=model, messages=event.messages, abort_signal=event.signal)
"""
"""The agent under test, in a module of its own."""

ANYIO = """
    import pytest

    pytestmark = pytest.mark.anyio


    @pytest.fixture(params=["asyncio", "trio"])
    def anyio_backend(request):
        return request.param
"""
"""What tests on both backends begin with."""

PLUGINS = (*USUAL_PLUGINS, OURS)


REPORTING = """
import json

def pytest_runtest_logreport(report):
    kept = {"test": report.nodeid, "when": report.when, "outcome": report.outcome}
    kept |= {"text": report.longreprtext, "sections": report.sections}
    with open("reports.jsonl", "a") as file:
        print(json.dumps(kept), file=file)
"""
"""Keeps the reports of a project as data."""


class Reports:
    """The reports of the project's run."""

    def __init__(self, lines: list[str]) -> None:
        self._all: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return those of one scenario."""
        return [each for each in self._all if each["test"].startswith(f"test_{name}.py::")]

    def outcomes(self, name: str) -> Counter[str]:
        """Count the calls that passed or failed, and the errors around them."""
        kinds = {("call", "passed"): "passed", ("call", "failed"): "failed"}
        found = ((each["when"], each["outcome"]) for each in self.of(name))
        return Counter(kinds.get(each, "errors") for each in found if each[0] == "call" or each[1] == "failed")

    def failures(self, name: str) -> list[dict[str, Any]]:
        """Return the reports of what failed."""
        return [each for each in self.of(name) if each["outcome"] == "failed"]

    def errors(self, name: str) -> list[str]:
        """Return the lines of the failures that pytest marks as their error."""
        lines = [line for each in self.failures(name) for line in each["text"].splitlines()]
        return [line[1:].strip() for line in lines if line.startswith("E ")]

    def transcripts(self, name: str) -> list[tuple[str, str]]:
        """Return the sections with transcripts: title and text."""
        sections = [tuple(section) for each in self.failures(name) for section in each["sections"]]
        return [section for section in sections if section[0].startswith("chatagent transcript")]


def run_reporting(folder: Path, files: Mapping[str, str], *arguments: str) -> Reports:
    """Run the tests of a project of which some fail, in a process of its own, and return their reports."""
    for name, source in {"conftest": REPORTING, **files}.items():
        (folder / f"{name}.py").write_text(_source(source), encoding="utf-8")
    (folder / "pytest.ini").write_text(INI, encoding="utf-8")
    surroundings = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options_of(PLUGINS), *arguments],
        cwd=folder,
        env={**surroundings, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stdout + done.stderr
    return Reports((folder / "reports.jsonl").read_text(encoding="utf-8").splitlines())


def _source(text: str) -> str:
    """Return a module of blocks, each of them indented in its own way."""
    return "\n".join(dedent(block) for block in text.split("\f"))


def run(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    files: Mapping[str, str],
    *arguments: str,
) -> pytest.RunResult:
    """Run the tests of a project with our plugin beside the usual ones; see `run_project`."""
    sources = {name: _source(text) for name, text in files.items()}
    return run_project(pytester, monkeypatch, sources, *arguments, plugins=PLUGINS)
