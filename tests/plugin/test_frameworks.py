"""The fixtures under each of the usual plugins and settings (D6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugin.projects import AGENT, ANYIO, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import inspect

    from greeter import MODEL, greeter
    from chatagent_test import mock_chat_agent, script


    async def test_a_turn(chat_harness):
        turn = await chat_harness(greeter).send_message("hi")
        assert turn.text == "hello there"


    async def test_a_turn_that_streams_when_the_test_ends(chat_harness):
        harness = chat_harness(greeter)
        harness.begin_message("hi")
        await harness.wait_streaming("hello")


    async def test_two_harnesses_of_which_one_has_a_block_of_its_own(chat_harness, mock_model):
        model = mock_model(script.text("mine"))
        one = chat_harness(greeter, setup_locals=lambda values: values.set(MODEL, model), chat_id="one")
        async with chat_harness(greeter) as two:
            turns = [await one.send_message("x"), await two.send_message("x")]
        assert [turn.text for turn in turns] == ["mine", "hello there"]
        assert two.run_ended and not one.run_ended


    async def test_harnesses_on_one_clock(chat_harness, virtual_clock):
        began = virtual_clock.now()
        for _ in range(2):
            await chat_harness(greeter, clock=virtual_clock).send_message("x")
        assert virtual_clock.now() - began == 2 * 3660


    async def test_a_harness_that_another_fixture_made(greeting):
        turn = await greeting.send_message("again")
        assert turn.index == 1


    class TestInAClass:
        async def test_a_turn(self, chat_harness):
            assert (await chat_harness(greeter).send_message("hi")).index == 0


    async def test_what_the_tests_before_have_made_is_closed(chat_harness):
        assert chat_harness.made == []
"""
GREETING = """
    from greeter import greeter


    @FIXTURE
    async def greeting(chat_harness):
        harness = chat_harness(greeter)
        await harness.send_message("first")
        yield harness
        assert harness.run_ended
"""
BY_HAND = """
    import asyncio

    from greeter import greeter
    from chatagent_test import mock_chat_agent


    def test_with_a_loop_of_its_own(chat_harness):
        async def main():
            async with chat_harness(greeter) as harness:
                return await harness.send_message("hi")

        assert asyncio.run(main()).text == "hello there"
"""


def with_fixture(decorator: str, module: str) -> str:
    return f"    import {module}\n\f{GREETING.replace('FIXTURE', decorator)}\f{TESTS}"


ASYNCIO = with_fixture("pytest_asyncio.fixture", "pytest_asyncio")
STRICT: Mapping[str, str] = {
    "greeter": AGENT,
    "test_anyio": f"{ANYIO}\f{with_fixture('pytest.fixture', 'pytest')}",
    "test_asyncio": f"    import pytest\n    pytestmark = pytest.mark.asyncio\n\f{ASYNCIO}",
    "test_by_hand": BY_HAND,
}
"""Strict pytest-asyncio beside anyio's plugin on both backends, and a test without either."""


def test_strict_pytest_asyncio_and_anyio_s_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(pytester, monkeypatch, STRICT, "-o", "asyncio_mode=strict")

    result.assert_outcomes(passed=3 * 7 + 1)


def test_pytest_asyncio_in_auto_mode(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(pytester, monkeypatch, {"greeter": AGENT, "test_asyncio": ASYNCIO}, "-o", "asyncio_mode=auto")

    result.assert_outcomes(passed=7)


def test_a_loop_for_all_tests_of_a_module(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    options = (
        "-o asyncio_mode=auto -o asyncio_default_test_loop_scope=module -o asyncio_default_fixture_loop_scope=module"
    )

    result = run(pytester, monkeypatch, {"greeter": AGENT, "test_asyncio": ASYNCIO}, *options.split())

    result.assert_outcomes(passed=7)


def test_xdist_with_two_workers(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {**STRICT, "test_failing": f"{ANYIO}\f{FAILING}"}

    result = run(pytester, monkeypatch, files, "-n", "2")

    result.assert_outcomes(passed=3 * 7 + 1, failed=2)
    result.stdout.fnmatch_lines(["*2 workers*", "*chatagent transcript of 'greeter', chat 'test-chat'*", "turn 0"])


FAILING = """
    from greeter import greeter


    async def test_a_failure(chat_harness):
        turn = await chat_harness(greeter).send_message("hi")
        assert turn.text == "goodbye"
"""
