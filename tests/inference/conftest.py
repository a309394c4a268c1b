"""A server for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent_test.inference import MockInferenceServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[MockInferenceServer]:
    with MockInferenceServer() as server:
        yield server
