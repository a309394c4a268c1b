"""The agent with a dict for a database: the quickest test there is, and the one to write first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent_test import MockLanguageModel, mock_chat_agent, mock_id, script
from stored_conversations.conversation import CONVERSATIONS, MODEL, librarian

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent import UIMessage
    from chatagent.task import LocalValues

pytestmark = pytest.mark.anyio


class FakeConversations:
    """Conversations in a dict."""

    def __init__(self) -> None:
        self.kept: dict[str, list[UIMessage]] = {}

    async def load(self, chat_id: str) -> list[UIMessage]:
        return list(self.kept.get(chat_id, ()))

    async def save(self, chat_id: str, messages: Sequence[UIMessage]) -> None:
        self.kept[chat_id] = list(messages)


async def test_a_conversation_goes_on_where_it_was() -> None:
    conversations = FakeConversations()
    model = MockLanguageModel([script.text("Welcome, Ada."), script.text("You are Ada.")])

    def set_up(values: LocalValues) -> None:
        values.set(CONVERSATIONS, conversations)
        values.set(MODEL, model)

    async with mock_chat_agent(librarian, setup_locals=set_up) as harness:
        await harness.send_message("I am Ada.")
    async with mock_chat_agent(librarian, setup_locals=set_up, ids=mock_id("later")) as harness:
        turn = await harness.send_message("Who am I?")

    assert turn.text == "You are Ada."
    assert [message.role for message in model.do_stream_calls[1].prompt] == ["system", "user", "assistant", "user"]
    assert [message.text for message in conversations.kept["test-chat"]] == [
        "I am Ada.",
        "Welcome, Ada.",
        "Who am I?",
        "You are Ada.",
    ]


async def test_what_the_reader_said_is_kept_even_if_nobody_answers() -> None:
    conversations = FakeConversations()

    def set_up(values: LocalValues) -> None:
        values.set(CONVERSATIONS, conversations)
        values.set(MODEL, MockLanguageModel(script.text("Welcome, ").hold("mid").text("Ada.")))

    async with mock_chat_agent(librarian, setup_locals=set_up) as harness:
        harness.begin_message("I am Ada.")
        await harness.wait_streaming("Welcome")
        await harness.kill_run()

    assert [message.text for message in conversations.kept["test-chat"]] == ["I am Ada."]
