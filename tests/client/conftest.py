"""A client over a scripted backend, and one of its threads."""

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
    async with create_mock_agent_client() as made:
        yield made


@pytest.fixture
def thread(mock: MockAgentClient) -> Thread:
    return mock.client.thread("t-1")
