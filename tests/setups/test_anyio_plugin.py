"""anyio's own pytest plugin on both backends, the harness in a fixture (D6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from agent.making import agent_of, saying
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent_test import ChatAgentHarness

pytestmark = pytest.mark.anyio


@pytest.fixture
def model() -> MockLanguageModel:
    return saying(script.pause(3600).text("one"), script.text("two ").hold("middle"), "three")


@pytest.fixture
async def harness(model: MockLanguageModel) -> AsyncIterator[ChatAgentHarness]:
    async with mock_chat_agent(agent_of(model)) as harness:
        yield harness


async def test_a_turn(harness: ChatAgentHarness) -> None:
    turn = await harness.send_message("hello")

    assert turn.text == "one"


async def test_a_turn_that_still_streams_when_the_fixture_is_torn_down(
    harness: ChatAgentHarness, model: MockLanguageModel
) -> None:
    await harness.send_message("a")
    harness.begin_message("b")
    await model.reached("middle")

    assert not harness.run_ended


async def test_senders_in_a_task_group_of_the_test(harness: ChatAgentHarness, model: MockLanguageModel) -> None:
    model.release("middle")
    async with anyio.create_task_group() as tasks:
        for text in ("a", "b", "c"):
            tasks.start_soon(harness.send_message, text)

    assert [turn.text for turn in harness.turns] == ["one", "two ", "three"]


async def test_a_limit_on_a_test_ends_the_wait_and_the_fixture_the_run(
    harness: ChatAgentHarness, model: MockLanguageModel
) -> None:
    await harness.send_message("a")
    with anyio.move_on_after(0.02) as limit:
        await harness.send_message("b")

    assert limit.cancelled_caught
    assert not harness.run_ended
