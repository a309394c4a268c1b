"""Fixtures that every test may use."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings

settings.register_profile("quick", max_examples=40)
settings.register_profile("thorough", max_examples=500, deadline=None)
settings.load_profile("quick")  # another one with `--hypothesis-profile`


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run an async test once on each backend."""
    return request.param


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over the thousands of tests that were collected; they live to the end anyway."""
    gc.collect()
    gc.freeze()
