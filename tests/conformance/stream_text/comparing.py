"""Compares what was observed with what a golden recorded, as loosely as FORMAT.md allows."""

from __future__ import annotations

import json
import re
from typing import Any

LOOSE = frozenset(
    {
        "InvalidArgumentError",
        "InvalidPromptError",
        "InvalidToolApprovalError",
        "InvalidToolApprovalSignatureError",
        "InvalidToolInputError",
        "MissingToolResultsError",
        "ToolCallNotFoundForApprovalError",
        "ToolCallRepairError",
    }
)
"""Errors of which only the name is compared: their texts are our own."""

_ABORTS = frozenset({"onAbort"})


def problems_of(recorded: dict[str, Any], observed: dict[str, Any], *, about: str) -> list[str]:
    """Return one text for each key that differs."""
    expected, actual = comparable(recorded), comparable({key: observed[key] for key in recorded if key in observed})
    expected = _with_generated_ids(expected)
    actual = _with_generated_ids(actual)
    for key in ("uiStreamError", "fullStreamError"):
        if key in observed and key not in recorded:
            actual[key] = observed[key]
    return [
        f"{about}: `{key}`\n  recorded {_short(expected.get(key))}\n  observed {_short(actual.get(key))}"
        for key in dict.fromkeys((*expected, *actual))
        if expected.get(key) != actual.get(key)
    ]


def comparable(observed: dict[str, Any]) -> dict[str, Any]:
    plain = _plain(observed)
    if "events" in plain:
        plain["events"] = _ordered(plain["events"])
    if isinstance(plain.get("fullStream"), list):
        plain["fullStreamTypes"] = [part["type"] for part in plain.pop("fullStream")]
    return plain


def _ordered(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put an `onAbort` last: where it stands among the events of tools and steps is not part of the contract."""
    return [*(each for each in events if each["event"] not in _ABORTS), *(e for e in events if e["event"] in _ABORTS)]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return _plain_text(value)
    if not isinstance(value, dict):
        return value
    if "$error" in value:
        return _plain_error(value)
    for live in ("$url", "$bytes", "$date"):
        if live in value:
            return value[live]
    # A function that returns nothing returns `None` in Python, which JavaScript tells from null.
    return {key: _plain(each) for key, each in value.items() if not (key == "output" and each is None)}


def _plain_error(value: dict[str, Any]) -> dict[str, Any]:
    name = value.get("name", "Error").removeprefix("AI_")
    return {"name": name} if name in LOOSE else {"name": name, "$error": _plain_text(value["$error"])}


def _plain_text(text: str) -> str:
    text = re.sub(r"\bAI_(\w+Error)\b", r"\1", text)
    text = text.replace("Thrown: ", "")
    return re.sub(r"(?s)(InvalidToolInputError: Invalid input for tool [\w-]+): .*", r"\1: …", text)


_GENERATED = re.compile(r"<id-\d+>|generated-\d+")


def _with_generated_ids(observed: dict[str, Any]) -> dict[str, Any]:
    """Number generated ids in the order in which they appear."""
    numbers: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        return numbers.setdefault(found[0], f"<id-{len(numbers) + 1}>")

    return json.loads(_GENERATED.sub(numbered, json.dumps(observed)))


def _short(value: Any, limit: int = 2500) -> str:
    text = json.dumps(value)
    return text if len(text) <= limit else text[:limit] + "…"
