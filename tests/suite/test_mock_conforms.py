"""The scripted backend passes the whole suite, by itself and with a wire before it."""

from __future__ import annotations

import pytest

from chatagent_test import conformance
from suite.json_transport import JsonTransport

pytestmark = pytest.mark.anyio


@conformance.parametrize()
async def test_the_mock_conforms(case: conformance.Case) -> None:
    await case.run(conformance.MockBackend())


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # JSON knows no event loop
@conformance.parametrize()
async def test_the_mock_conforms_when_everything_goes_through_json(case: conformance.Case) -> None:
    await case.run(conformance.MockBackend(JsonTransport))
