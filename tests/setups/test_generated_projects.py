"""Small projects of users, made on the spot and run by a pytest of their own: each plugin with its usual settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.projects import USUAL_PLUGINS, run_project

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["pytester"]

AGENT = """
    from chatagent import chat, stream_text
    from chatagent_test import MockLanguageModel, mock_chat_agent, script

    MODEL = MockLanguageModel(script.pause(3600).text("hello ").pause(60).text("there"))


    @chat.agent(id="greeter")
    def greeter(event):
        return stream_text(model=MODEL, messages=event.messages, abort_signal=event.signal)


    def open_harness():
        return mock_chat_agent(greeter)
"""
"""The agent under test, in a module of its own."""

TESTS = """
    async def test_a_turn(harness):
        turn = await harness.send_message("hi")
        assert turn.text == "hello there"


    async def test_a_second_conversation_knows_nothing_of_the_first(harness):
        turn = await harness.send_message("hi")
        assert turn.index == 0
        assert len(harness.get_snapshot().messages) == 2


    async def test_a_turn_that_streams_when_the_test_ends(harness):
        harness.begin_message("hi")
        await harness.wait_streaming("hello")


    async def test_a_stop(harness):
        pending = harness.begin_message("hi")
        await harness.wait_streaming("hello")
        await harness.send_stop()
        assert (await pending).stopped
"""
ASYNCIO_FIXTURE = """
    import pytest
    import pytest_asyncio

    from greeter import open_harness


    @pytest_asyncio.fixture
    async def harness():
        async with open_harness() as harness:
            yield harness
"""
ANYIO_FIXTURE = """
    import pytest

    from greeter import open_harness

    pytestmark = pytest.mark.anyio


    @pytest.fixture(params=["asyncio", "trio"])
    def anyio_backend(request):
        return request.param


    @pytest.fixture
    async def harness():
        async with open_harness() as harness:
            yield harness
"""
FAILING = """
    async def test_a_hook_that_fails_unseen(harness):
        harness.begin_message("hi")
        await harness.wait_idle()
"""


BOTH_PLUGINS = {
    "greeter": AGENT,
    "test_anyio": ANYIO_FIXTURE + TESTS,
    "test_asyncio": ASYNCIO_FIXTURE + "    pytestmark = pytest.mark.asyncio\n" + TESTS,
}
"""Strict pytest-asyncio beside anyio's plugin on both backends."""


def test_strict_pytest_asyncio_and_anyio_s_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_project(pytester, monkeypatch, BOTH_PLUGINS, "-o", "asyncio_mode=strict", plugins=USUAL_PLUGINS)

    result.assert_outcomes(passed=12)


def test_xdist_with_two_workers(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_project(pytester, monkeypatch, BOTH_PLUGINS, "-n", "2", plugins=USUAL_PLUGINS)

    result.assert_outcomes(passed=12)
    result.stdout.fnmatch_lines(["*2 workers*"])


def test_pytest_asyncio_in_auto_mode(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"greeter": AGENT, "test_greeter": ASYNCIO_FIXTURE + TESTS}

    result = run_project(pytester, monkeypatch, files, "-o", "asyncio_mode=auto", plugins=USUAL_PLUGINS)

    result.assert_outcomes(passed=4)


def test_a_failure_that_no_driver_saw_fails_the_fixture_with_itself(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D6: not in a group, and not as a message about a task that was never awaited."""
    agent = (
        AGENT
        + """

    @greeter.on_turn_start
    def fail(event):
        raise LookupError("no such shop")
"""
    )
    files = {"greeter": agent, "test_greeter": ANYIO_FIXTURE + FAILING}

    result = run_project(pytester, monkeypatch, files, plugins=USUAL_PLUGINS)

    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(["E * LookupError: no such shop"])
    result.stdout.no_fnmatch_line("*ExceptionGroup*")
