"""Fixtures whose event loop is gone when they are torn down: nothing hangs, and what is told can be acted on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugin.projects import AGENT, run

if TYPE_CHECKING:
    import pytest

pytest_plugins = ["pytester"]

HEAD = """
    import asyncio

    import pytest
    from chatagent.errors import HarnessStateError
    from greeter import greeter
    from chatagent_test import mock_chat_agent
"""


def result_of(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, test: str) -> pytest.RunResult:
    return run(pytester, monkeypatch, {"greeter": AGENT, "test_it": f"{HEAD}\f{test}"})


def test_a_harness_of_a_loop_that_ended_in_order_is_closed_quietly(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = """
        @pytest.fixture
        def harness():
            harness = mock_chat_agent(greeter)
            yield harness
            asyncio.run(harness.close(raise_errors=True))
            asyncio.run(harness.close())

        def test_in_another_loop(harness, chat_harness):
            async def main():
                await harness.send_message("hi")
                await chat_harness(greeter).send_message("hi")

            asyncio.run(main())
            assert harness.turns[0].text == "hello there"
    """

    result_of(pytester, monkeypatch, test).assert_outcomes(passed=1)


def test_a_harness_of_a_loop_that_was_closed_over_its_run_says_so(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = """
        import gc

        @pytest.fixture
        def loop():
            loop = asyncio.new_event_loop()
            loop.set_exception_handler(lambda loop, context: None)
            yield loop
            gc.collect()

        @pytest.fixture
        def harness(loop):
            harness = mock_chat_agent(greeter)
            yield harness
            with pytest.warns(ResourceWarning, match="^the event loop of the harness is gone, and the run of agent"):
                asyncio.run(harness.close())
            asyncio.run(harness.close())

        def test_in_a_loop_that_is_closed(harness, loop):
            loop.run_until_complete(harness.send_message("hi"))
            loop.close()

        def test_in_a_loop_that_is_closed_with_the_factory(chat_harness, loop):
            loop.run_until_complete(chat_harness(greeter).send_message("hi"))
            loop.close()
    """

    result = result_of(pytester, monkeypatch, test)

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["E * AssertionError: the harness was not closed before its event loop ended; *"])


def test_a_harness_of_a_loop_that_is_still_there_is_to_be_closed_in_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = """
        def test_two_loops():
            one, two = asyncio.new_event_loop(), asyncio.new_event_loop()
            harness = mock_chat_agent(greeter)
            one.run_until_complete(harness.send_message("hi"))
            for call in (harness.close, harness.start, lambda: harness.send_message("x"), harness.wait_idle):
                with pytest.raises(HarnessStateError, match="that is not the one that runs here"):
                    two.run_until_complete(call())
            one.run_until_complete(harness.close())
            one.close()
            two.close()
    """

    result_of(pytester, monkeypatch, test).assert_outcomes(passed=1)


def test_a_failure_of_a_test_without_a_loop_of_the_plugins_is_told(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = """
        from chatagent import chat

        @chat.agent(id="broken")
        async def broken(event):
            raise LookupError("no such shop")

        async def converse(harness):
            harness.begin_message("hi")
            await harness.wait_idle()

        def test_a_turn(chat_harness):
            asyncio.run(converse(chat_harness(broken)))

        def test_that_fails_itself(chat_harness):
            asyncio.run(converse(chat_harness(broken)))
            assert 1 == 2
    """

    result = result_of(pytester, monkeypatch, test)

    result.assert_outcomes(passed=1, errors=1, failed=1)
    result.stdout.fnmatch_lines(["E * LookupError: no such shop", "E * assert 1 == 2"])
