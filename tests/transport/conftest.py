"""A mock and its first thread, made and closed by fixtures, as users do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent_test import create_mock_agent_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.client import Thread
    from chatagent_test import MockAgentClient


@pytest.fixture
async def mock(anyio_backend: str) -> AsyncIterator[MockAgentClient]:
    """A mock that must use up its scripts."""
    async with create_mock_agent_client() as made:
        yield made


@pytest.fixture
def thread(mock: MockAgentClient) -> Thread:
    """The thread `t-1` of the mock's client."""
    return mock.client.thread("t-1")
