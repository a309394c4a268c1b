"""The scripted backend passes the whole suite."""

from __future__ import annotations

import pytest

from chatagent_test import conformance

pytestmark = pytest.mark.anyio


@conformance.parametrize()
async def test_the_mock_conforms(case: conformance.Case) -> None:
    await case.run(conformance.MockBackend())
