"""Replays every golden file: one test a file, its id the file's path.

A file listed in `not_yet.txt` must fail, one listed in `differs.toml` must differ from what was recorded; so neither
list can outlive its reason.
"""

from __future__ import annotations

import importlib

import pytest

from conformance.goldens import FAMILIES, GOLDENS, OWN_GOLDENS, Golden, differs, goldens_of, not_yet

REPLAYERS = {
    "chat-agent": "conformance.families.chat_agent",
    "ai-sdk/stream-text": "conformance.families.stream_text",
    "ai-sdk/reduce": "conformance.families.reduce",
    "ai-sdk/convert": "conformance.families.convert",
    "ai-sdk/partial-json": "conformance.families.partial_json",
    "ai-sdk/sse": "conformance.families.sse",
    "ai-sdk/ui-stream": "conformance.families.ui_stream",
    "ai-sdk/validate": "conformance.families.validate",
    "wire": "conformance.families.wire",
}


def cases() -> list[object]:
    expected_to_fail, different = not_yet(), differs()
    params: list[object] = []
    if not any((GOLDENS / family).is_dir() for family in FAMILIES):
        params.append(pytest.param(Golden("no family", GOLDENS / "*"), id=f"no goldens in {GOLDENS}"))
    for family in FAMILIES:
        if not (GOLDENS / family).is_dir():
            params.append(pytest.param(None, id=family, marks=pytest.mark.skip(reason=f"no {family} in {GOLDENS}")))
            continue
        files = goldens_of(family)
        if not files:
            params.append(pytest.param(Golden(family, GOLDENS / family / "*.json"), id=f"{family}/empty"))
        for golden in files:
            marks = []
            if golden.key in expected_to_fail:
                marks.append(pytest.mark.xfail(strict=True, reason="not yet"))
            elif golden.key in different:
                reason = f"{different[golden.key]['guarantee']}: {different[golden.key]['because']}"
                marks.append(pytest.mark.xfail(strict=True, raises=AssertionError, reason=reason))
            params.append(pytest.param(golden, id=golden.key, marks=marks))
    return params


@pytest.mark.parametrize("golden", cases())
def test_golden(golden: Golden) -> None:
    assert "*" not in golden.path.name, f"{golden.path.parent} holds no golden"
    replayer = REPLAYERS.get(golden.family)
    assert replayer is not None, f"{golden.family} is not replayed yet"

    importlib.import_module(replayer).replay(golden.load())


def test_every_listed_name_has_a_golden() -> None:
    there = {golden.key for family in FAMILIES for golden in goldens_of(family, OWN_GOLDENS)}

    assert not_yet() | set(differs()) <= there
    assert not not_yet() & set(differs())
