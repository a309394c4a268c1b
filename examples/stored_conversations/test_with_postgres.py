"""The same agent with PostgreSQL, on a server of the test's own. Skipped, saying why, where none can be had."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from chatagent_test import MockLanguageModel, mock_chat_agent, mock_id, script
from stored_conversations.conversation import CONVERSATIONS, MODEL, librarian
from stored_conversations.postgres_server import NoServerError, a_postgres_server

if TYPE_CHECKING:
    from collections.abc import Generator

    from chatagent.task import LocalValues

psycopg = pytest.importorskip("psycopg", reason='psycopg is not installed: pip install "psycopg[binary]"')

from stored_conversations.postgres_conversations import PostgresConversations  # noqa: E402 - needs psycopg

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def dsn() -> Generator[str]:
    with ExitStack() as stack:
        try:
            dsn = stack.enter_context(a_postgres_server())
        except NoServerError as exc:
            pytest.skip(str(exc))
        yield dsn


async def test_a_conversation_goes_on_in_another_process(dsn: str, anyio_backend_name: str) -> None:
    chat_id = f"ada-{anyio_backend_name}"
    model = MockLanguageModel([script.text("Welcome, Ada."), script.text("You are Ada.")])

    async def one_process(ids: str, said: str) -> str:
        with PostgresConversations(dsn) as conversations:

            def set_up(values: LocalValues) -> None:
                values.set(CONVERSATIONS, conversations)
                values.set(MODEL, model)

            async with mock_chat_agent(librarian, chat_id=chat_id, setup_locals=set_up, ids=mock_id(ids)) as harness:
                return (await harness.send_message(said)).text

    assert await one_process("first", "I am Ada.") == "Welcome, Ada."
    assert await one_process("second", "Who am I?") == "You are Ada."
    with psycopg.connect(dsn) as connection:
        rows: list[Any] = connection.execute(
            "SELECT id, body->>'role' FROM messages WHERE chat_id = %s ORDER BY position", (chat_id,)
        ).fetchall()

    assert rows == [("first-0", "user"), ("first-1", "assistant"), ("second-0", "user"), ("second-1", "assistant")]


async def test_a_save_that_fails_leaves_the_conversation_as_it_was(dsn: str, anyio_backend_name: str) -> None:
    chat_id = f"grace-{anyio_backend_name}"
    with PostgresConversations(dsn) as conversations:

        def set_up(values: LocalValues) -> None:
            values.set(CONVERSATIONS, conversations)
            values.set(MODEL, MockLanguageModel(script.text("Welcome.")))

        async with mock_chat_agent(librarian, chat_id=chat_id, setup_locals=set_up) as harness:
            await harness.send_message("I am Grace.")
        kept = await conversations.load(chat_id)
        with pytest.raises(psycopg.errors.UniqueViolation):
            await conversations.save(chat_id, [*kept, kept[0]])

        assert await conversations.load(chat_id) == kept
