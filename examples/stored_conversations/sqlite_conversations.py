"""Conversations in SQLite: the standard library's `sqlite3`, in a thread, so that it works on any event loop."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from chatagent import UIMessage
from chatagent.ui import to_wire

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

SCHEMA = """
CREATE TABLE IF NOT EXISTS messages (
    chat_id TEXT NOT NULL,
    id TEXT NOT NULL,
    position INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (chat_id, id)
)
"""


class SqliteConversations:
    """One connection, used by one thread at a time. Open it where your process starts, and close it where it ends."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._one_at_a_time = anyio.CapacityLimiter(1)
        with self._connection:
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
        rows = self._connection.execute("SELECT body FROM messages WHERE chat_id = ? ORDER BY position", (chat_id,))
        return [UIMessage.model_validate_json(body) for (body,) in rows]

    def _save(self, chat_id: str, messages: Sequence[UIMessage]) -> None:
        rows = [(chat_id, each.id, at, json.dumps(to_wire(each))) for at, each in enumerate(messages)]
        with self._connection:  # one transaction: a reader sees the old conversation or the new one
            self._connection.execute("DELETE FROM messages WHERE chat_id = ?", (chat_id,))
            self._connection.executemany("INSERT INTO messages (chat_id, id, position, body) VALUES (?, ?, ?, ?)", rows)
