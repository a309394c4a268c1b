"""Tests of the bot, over a scripted backend, and over the agent itself with a scripted model.

The fixture `agent` is all that changes. The scripted backend is given the agent's contract, so that no test scripts
what the agent could not say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pytest

from chatagent_test import MockLanguageModel, create_in_process_client, create_mock_agent_client, reply
from slack_bot import SlackBot
from support_agent import create_support_agent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent_test import InProcessClient, MockAgentClient

    Backend: TypeAlias = MockAgentClient | InProcessClient

pytestmark = pytest.mark.anyio


@dataclass
class FakeWorkspace:
    """Remembers what was posted, and what each message became."""

    texts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    buttons: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    async def post(self, channel: str, text: str, *, buttons: tuple[str, ...] = ()) -> str:
        message_id = f"{channel}/{len(self.texts)}"
        self.texts[message_id], self.buttons[message_id] = [text], buttons
        return message_id

    async def update(self, message_id: str, text: str, *, buttons: tuple[str, ...] = ()) -> None:
        self.texts[message_id].append(text)
        self.buttons[message_id] = buttons

    @property
    def shown(self) -> list[str]:
        """What the channel shows in the end."""
        return [versions[-1] for versions in self.texts.values()]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["scripted", "in process"])
async def agent(request: pytest.FixtureRequest, anyio_backend: str) -> AsyncIterator[Backend]:
    if request.param == "scripted":
        mock = create_mock_agent_client(contract=create_support_agent(MockLanguageModel()))
    else:
        mock = create_in_process_client(create_support_agent)
    async with mock:
        yield mock


@pytest.fixture
def workspace() -> FakeWorkspace:
    return FakeWorkspace()


@pytest.fixture
def bot(agent: Backend, workspace: FakeWorkspace) -> SlackBot:
    return SlackBot(agent.client, workspace)


async def test_an_answer_grows_in_its_message(agent: Backend, workspace: FakeWorkspace, bot: SlackBot) -> None:
    agent.responses.queue(reply.assistant(reply.text("Four euros.", chunks=["Four ", "euros."])))

    await bot.on_message("c-1", "What is a coffee?")

    assert workspace.texts["c-1/0"] == ["…", "Four ", "Four euros."]


async def test_each_channel_is_a_conversation_of_its_own(
    agent: Backend, workspace: FakeWorkspace, bot: SlackBot
) -> None:
    agent.responses.for_thread("c-1").queue(reply.assistant("One."))
    agent.responses.for_thread("c-2").queue(reply.assistant("Two."))

    await bot.on_message("c-2", "Which one?")
    await bot.on_message("c-1", "Which one?")

    assert workspace.shown == ["Two.", "One."]


@pytest.mark.parametrize(("button", "answer"), [("Approve", "Refunded."), ("Refuse", "Then I leave it.")])
async def test_a_refund_needs_a_click(
    agent: Backend, workspace: FakeWorkspace, bot: SlackBot, button: str, answer: str
) -> None:
    agent.responses.queue(
        reply.assistant(reply.tool("refund").approval({"order": 7})),
        reply.assistant(answer) if button == "Refuse" else reply.assistant(reply.tool("refund").resolved(True), answer),
    )
    await bot.on_message("c-1", "Refund order 7.")
    (asked,) = bot.questions

    await bot.on_button(asked, button)

    question = "May I call refund with {'order': 7}?"
    assert workspace.shown == ["I need your answer first.", f"{question} {button}.", answer]
    assert bot.questions == {}


async def test_a_failure_can_be_tried_again(agent: Backend, workspace: FakeWorkspace, bot: SlackBot) -> None:
    agent.responses.queue(reply.error("the model is overloaded"), reply.assistant("Four euros."))

    await bot.on_message("c-1", "What is a coffee?")
    offered = workspace.buttons["c-1/0"]
    await bot.on_retry("c-1")

    assert workspace.shown == ["That failed: the model is overloaded", "Four euros."]
    assert offered == ("Retry",)
    assert [message.text for message in bot.client.thread("c-1").get_state().messages] == [
        "What is a coffee?",
        "Four euros.",
    ]
