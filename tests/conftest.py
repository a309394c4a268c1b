"""Fixtures that every test may use."""

from __future__ import annotations

import functools
import gc
import ssl
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

# No test is about how long an example takes, and a busy machine would fail any.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", UNTIMED, max_examples=40)
settings.register_profile("thorough", UNTIMED, max_examples=500)
settings.load_profile("quick")  # another one with `--hypothesis-profile`


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run an async test once on each backend."""
    return request.param


@pytest.fixture(scope="session", autouse=True)
def one_tls_context() -> Iterator[None]:
    """Let HTTP clients share the TLS context, which none of them uses here: its certificates take 20 ms to load."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over the thousands of tests that were collected; they live to the end anyway."""
    gc.collect()
    gc.freeze()
