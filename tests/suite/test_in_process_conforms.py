"""The service passes the suite with real turns of a real agent."""

from __future__ import annotations

import pytest

from chatagent_test import conformance
from chatagent_test.conformance import InProcessBackend
from suite.json_transport import JsonTransport

pytestmark = pytest.mark.anyio


@conformance.parametrize()
async def test_the_service_conforms(case: conformance.Case) -> None:
    """MTR-151, in process."""
    await case.run(InProcessBackend())


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # JSON knows no event loop
@conformance.parametrize()
async def test_the_service_conforms_when_everything_goes_through_json(case: conformance.Case) -> None:
    await case.run(InProcessBackend(JsonTransport))
