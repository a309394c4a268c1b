"""Goldens of `ai-sdk/partial-json`: the value of JSON that breaks off, whole and fed in pieces."""

from __future__ import annotations

import json
import math
from typing import Any

from chatagent.ui import UNSET, PartialJson, parse_partial_json
from chatagent.ui.partial_json import PartialJsonScanner


def replay(golden: dict[str, Any]) -> None:
    results = golden["observed"]["results"]
    assert [result["text"] for result in results] == golden["texts"]
    for result in results:
        text = result["text"]
        expected = {key: result[key] for key in ("state", "value") if key in result}

        assert _shown(parse_partial_json(text)) == _canonical(expected), text

        scanner = PartialJsonScanner()
        for char in text:
            scanner.feed(char)
        assert _shown(scanner.result()) == _canonical(expected), text


def _shown(result: PartialJson) -> str:
    shown: dict[str, object] = {"state": result.state}
    if result.value is not UNSET:
        shown["value"] = _as_recorded(result.value)
    return _canonical(shown)


def _as_recorded(value: object) -> object:
    """A number beyond a double's range was recorded as null, a whole one without fraction."""
    if isinstance(value, dict):
        return {key: _as_recorded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_recorded(item) for item in value]
    if isinstance(value, float):
        return None if math.isinf(value) else int(value) if value.is_integer() else value
    return value


def _canonical(value: object) -> str:
    """Return a text that tells `True` from `1`, as `==` does not."""
    return json.dumps(value, sort_keys=True)
