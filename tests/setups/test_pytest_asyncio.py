"""Plain pytest-asyncio in strict mode, the harness in a fixture: set up and torn down in tasks of their own (D6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from agent.making import agent_of, asking, saying
from chatagent import chat
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent_test import ChatAgentHarness

pytestmark = pytest.mark.asyncio


@pytest.fixture
def model() -> MockLanguageModel:
    return saying(script.pause(3600).text("one"), script.text("two ").hold("middle"), "three")


@pytest_asyncio.fixture
async def harness(model: MockLanguageModel) -> AsyncIterator[ChatAgentHarness]:
    async with mock_chat_agent(agent_of(model)) as harness:
        yield harness


@pytest_asyncio.fixture
async def half_way(model: MockLanguageModel, harness: ChatAgentHarness) -> ChatAgentHarness:
    """A conversation whose second answer streams."""
    await harness.send_message("a")
    harness.begin_message("b")
    await model.reached("middle")
    return harness


async def test_a_turn(harness: ChatAgentHarness) -> None:
    turn = await harness.send_message("hello")

    assert turn.text == "one"


async def test_a_turn_that_still_streams_when_the_fixture_is_torn_down(half_way: ChatAgentHarness) -> None:
    assert half_way.turns[0].text == "one"
    assert not half_way.run_ended


async def test_a_turn_that_another_fixture_began(half_way: ChatAgentHarness, model: MockLanguageModel) -> None:
    model.release("middle")
    await half_way.wait_idle()
    turn = await half_way.send_message("c")

    assert [each.text for each in half_way.turns] == ["one", "two ", "three"]
    assert turn.index == 2


async def test_a_harness_that_the_test_closes_itself(harness: ChatAgentHarness) -> None:
    await harness.send_message("hello")
    await harness.close()

    assert harness.run_ended


async def test_two_harnesses_in_a_test_beside_that_of_the_fixture(harness: ChatAgentHarness) -> None:
    def run(event: Any) -> Any:
        return asking(saying("mine"))(event)

    async with mock_chat_agent(agent_of(run=run)) as own:
        turns = [await own.send_message("x"), await harness.send_message("x")]

    assert [turn.text for turn in turns] == ["mine", "one"]


async def test_time_can_be_moved_from_the_test(harness: ChatAgentHarness) -> None:
    await harness.start()
    await harness.advance(60)

    assert harness.clock.now() == 1735689660.0


async def test_functions_of_the_namespace_do_not_leak_into_the_test(harness: ChatAgentHarness) -> None:
    await harness.send_message("hello")

    with pytest.raises(RuntimeError, match=r"^chat.end_run was called outside a run"):
        chat.end_run()
