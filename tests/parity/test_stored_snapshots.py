"""Which stored values are a snapshot (SNP); what comes of them over HTTP is not shown here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chatagent.errors import SnapshotCorruptError, SnapshotVersionError
from chatagent.session import InMemorySnapshotStore

GOOD: dict[str, Any] = {"version": 1, "savedAt": 1, "messages": []}


@pytest.mark.parametrize(
    ("stored", "error"),
    [
        pytest.param("{broken", SnapshotCorruptError, id="SNP-004"),
        pytest.param({**GOOD, "version": 99}, SnapshotVersionError, id="SNP-005"),
        pytest.param({**GOOD, "messages": "none"}, SnapshotCorruptError, id="SNP-006"),
        pytest.param(json.dumps("a text"), SnapshotCorruptError, id="SNP-009"),
    ],
)
@pytest.mark.anyio
async def test_what_is_no_snapshot_is_an_error(stored: Any, error: type[Exception]) -> None:
    store = InMemorySnapshotStore()
    store.seed("session-1", stored)

    with pytest.raises(error):
        await store.load("session-1")


@pytest.mark.anyio
async def test_where_nothing_is_stored_there_is_none() -> None:
    """SNP-002."""
    assert await InMemorySnapshotStore().load("session-1") is None
