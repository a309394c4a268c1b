"""What it costs to have the plugin installed: next to nothing, until a fixture is used."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from plugin.projects import run

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["pytester"]

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
FIXTURES = {
    "chat_harness": "Give what makes harnesses:",
    "mock_agent": "Give a real client over a scripted backend,",
    "mock_agent_factory": "Give what makes clients over scripted backends:",
    "mock_agent_options": "Give the arguments of `create_mock_agent_client`",
    "mock_inference": "Give a strict `MockInferenceServer`",
    "mock_inference_environment": "Lead SDK clients that are made from the environment",
    "mock_inference_session [[]session scope]": "Give one `MockInferenceServer` to all tests,",
    "mock_model": "Give what makes scripted models:",
    "no_network": "Let HTTP requests of the test fail",
    "virtual_clock": "Give a virtual clock,",
}
LOADED = """
import sys, pytest
before = set(sys.modules)
import chatagent_test.pytest_plugin
print(sorted(set(sys.modules) - before))
"""


def test_loading_the_plugin_imports_nothing_but_itself() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)

    assert done.stdout == "['chatagent_test', 'chatagent_test.pytest_plugin']\n"


def test_a_run_without_its_fixtures_imports_nothing_of_ours(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failing test included: its report looks for harnesses only if there can be any."""
    test = """
        import sys

        def loaded():
            return sorted({"anyio", "chatagent", "pydantic", "trio", "chatagent_test.fixtures"} & set(sys.modules))

        def test_a_failure():
            assert not "seen"

        def test_nothing_is_imported():
            assert loaded() == []
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test)

    result = pytester.runpytest_subprocess("-p", "chatagent_test.pytest_plugin", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=1, failed=1)


def test_the_plugin_is_an_entry_point_of_pytest() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]

    (target,) = project["entry-points"]["pytest11"].values()

    assert set(project["entry-points"]["pytest11"]) == {"chatagent"}
    assert find_spec(target) is not None


def test_the_fixtures_are_listed_with_what_they_are_for(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(pytester, monkeypatch, {"test_nothing": ""}, "--fixtures")

    for name, purpose in FIXTURES.items():
        result.stdout.fnmatch_lines([f"{name} *", f"    {purpose} *"])


def test_the_marker_is_registered(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(pytester, monkeypatch, {"test_nothing": ""}, "--markers")

    result.stdout.fnmatch_lines(["@pytest.mark.inference(script=..., [*][*]options): what `mock_inference` answers, *"])
