"""Small projects of users, run by a pytest of their own with our plugin beside the usual ones."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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

INI = """
[pytest]
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""

PLUGINS = ("anyio.pytest_plugin", "pytest_asyncio.plugin", "xdist.plugin", "chatagent_test.pytest_plugin")


def run(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    files: Mapping[str, str],
    *arguments: str,
) -> pytest.RunResult:
    """Make a project of these files and run its tests in a process of their own, where warnings are errors.

    Only the plugins at hand are loaded: what else happens to be installed here is no part of the set-up.
    """
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini(INI)
    sources = {name: "\n".join(dedent(block) for block in text.split("\f")) for name, text in files.items()}
    pytester.makepyfile(**sources)
    plugins = [option for name in PLUGINS for option in ("-p", name)]
    return pytester.runpytest_subprocess(*plugins, "-p", "no:cacheprovider", *arguments)
