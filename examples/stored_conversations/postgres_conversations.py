"""Conversations in PostgreSQL: psycopg 3 in a thread, so that it works on any event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import psycopg
from psycopg.types.json import Jsonb

from chatagent import UIMessage
from chatagent.ui import to_wire

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (
    chat_id text NOT NULL,
    id text NOT NULL,
    position integer NOT NULL,
    body jsonb NOT NULL,
    PRIMARY KEY (chat_id, id)
)
"""


class PostgresConversations:
    """One connection, used by one thread at a time; a server of many runs takes its connections from a pool."""

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._one_at_a_time = anyio.CapacityLimiter(1)
        self._connection.execute(SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    async def load(self, chat_id: str) -> list[UIMessage]:
        return await anyio.to_thread.run_sync(self._load, chat_id, limiter=self._one_at_a_time)

    async def save(self, chat_id: str, messages: Sequence[UIMessage]) -> None:
        await anyio.to_thread.run_sync(self._save, chat_id, messages, limiter=self._one_at_a_time)

    def _load(self, chat_id: str) -> list[UIMessage]:
        query = "SELECT body FROM messages WHERE chat_id = %s ORDER BY position"
        return [UIMessage.model_validate(body) for (body,) in self._connection.execute(query, (chat_id,))]

    def _save(self, chat_id: str, messages: Sequence[UIMessage]) -> None:
        rows = [(chat_id, each.id, at, Jsonb(to_wire(each))) for at, each in enumerate(messages)]
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute("DELETE FROM messages WHERE chat_id = %s", (chat_id,))
            cursor.executemany("INSERT INTO messages (chat_id, id, position, body) VALUES (%s, %s, %s, %s)", rows)
