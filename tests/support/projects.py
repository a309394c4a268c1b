"""Small projects of users, made on the spot and run by a pytest of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

INI = """
[pytest]
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""

USUAL_PLUGINS = ("anyio.pytest_plugin", "pytest_asyncio.plugin", "xdist.plugin")
"""What users have installed beside ours."""

OURS = "chatagent_test.pytest_plugin"


def options_of(plugins: Sequence[str]) -> list[str]:
    """Return the options that load these plugins, and keep nothing behind."""
    return [*(option for name in plugins for option in ("-p", name)), "-p", "no:cacheprovider"]


def run_project(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    files: Mapping[str, str],
    *arguments: str,
    plugins: Sequence[str],
) -> pytest.RunResult:
    """Make a project of these files and run its tests in a process of their own, where warnings are errors.

    Only the plugins named are loaded: what else happens to be installed here is no part of the set-up.
    """
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini(INI)
    pytester.makepyfile(**files)
    return pytester.runpytest_subprocess(*options_of(plugins), *arguments)
