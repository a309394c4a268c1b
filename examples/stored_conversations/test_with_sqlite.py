"""The same agent with SQLite: nothing of it changes, `setup_locals` brings another database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from chatagent_test import MockLanguageModel, mock_chat_agent, mock_id, script
from stored_conversations.conversation import CONVERSATIONS, MODEL, librarian
from stored_conversations.sqlite_conversations import SqliteConversations

if TYPE_CHECKING:
    from pathlib import Path

    from chatagent.task import LocalValues

pytestmark = pytest.mark.anyio


async def test_a_conversation_goes_on_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "library.db"
    model = MockLanguageModel([script.text("Welcome, Ada."), script.text("You are Ada.")])

    async def one_process(ids: str, said: str) -> str:
        with SqliteConversations(path) as conversations:

            def set_up(values: LocalValues) -> None:
                values.set(CONVERSATIONS, conversations)
                values.set(MODEL, model)

            async with mock_chat_agent(librarian, chat_id="ada", setup_locals=set_up, ids=mock_id(ids)) as harness:
                return (await harness.send_message(said)).text

    assert await one_process("first", "I am Ada.") == "Welcome, Ada."
    assert await one_process("second", "Who am I?") == "You are Ada."
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT id, json_extract(body, '$.role') FROM messages ORDER BY position").fetchall()

    assert rows == [("first-0", "user"), ("first-1", "assistant"), ("second-0", "user"), ("second-1", "assistant")]


async def test_conversations_stay_apart(tmp_path: Path) -> None:
    model = MockLanguageModel(script.text("Welcome."))

    with SqliteConversations(tmp_path / "library.db") as conversations:

        def set_up(values: LocalValues) -> None:
            values.set(CONVERSATIONS, conversations)
            values.set(MODEL, model)

        for chat_id in ("ada", "grace"):
            async with mock_chat_agent(librarian, chat_id=chat_id, setup_locals=set_up) as harness:
                await harness.send_message(f"I am {chat_id}.")

        assert [message.text for message in await conversations.load("ada")] == ["I am ada.", "Welcome."]
        assert [message.text for message in await conversations.load("grace")] == ["I am grace.", "Welcome."]
        assert await conversations.load("nobody") == []
