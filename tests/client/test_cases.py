"""Every case of a transport, on the scripted backend."""

from __future__ import annotations

from collections import Counter
from importlib import import_module

import anyio
import pytest

from client.backends import MockBackend
from client.casebook import CASES, Stage

pytestmark = pytest.mark.anyio

for module in ("core", "watch", "besides", "regeneration", "actions"):
    import_module(f"client.cases_{module}")


@pytest.mark.parametrize("case_id", CASES)
async def test_the_mock_shows(case_id: str) -> None:
    """MTR-150: every profile."""
    async with MockBackend().open() as session:
        stage = Stage(session)
        with anyio.fail_after(5):
            await CASES[case_id].play(stage)
        await stage.client.aclose()


def test_no_case_was_dropped() -> None:
    counted = Counter(case.profiles[0] for case in CASES.values())

    assert counted == {
        "core": 39,
        "watch": 21,
        "heads": 10,
        "files": 9,
        "commands": 7,
        "regeneration": 10,
        "actions": 25,
    }
