"""Small questions about JSON values that directives and steps ask: conditions, references, matching."""

from __future__ import annotations

import copy
import re
from typing import Any

Wire = dict[str, Any]

_MISSING = object()


def matches(pattern: object, value: object) -> bool:
    """Return whether a value has the fields of a pattern, recursively; it may have others."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(
            key in value and matches(item, value[key]) for key, item in pattern.items()
        )
    if isinstance(pattern, list):
        return (
            isinstance(value, list)
            and len(value) == len(pattern)
            and all(matches(item, there) for item, there in zip(pattern, value, strict=True))
        )
    return pattern == value and isinstance(pattern, bool) == isinstance(value, bool)


def applies(directive: Wire, event: Wire, call: int) -> bool:
    """Return whether a directive is to be performed.

    Args:
        directive: the directive with its conditions, if it has any.
        event: the event in wire form.
        call: the how-manieth call this is, counted from 1.
    """
    on_call = directive.get("onCall")
    if on_call is not None and call not in (on_call if isinstance(on_call, list) else [on_call]):
        return False
    if "ifAction" in directive and look_up(event, ["action", "type"]) != directive["ifAction"]:
        return False
    return matches(directive.get("ifEvent", {}), event)


def resolve(value: Any, event: Wire) -> Any:
    """Return a copy of a value in which each string `$event.a.b` is replaced by that field of the event."""
    if isinstance(value, dict):
        return {key: resolve(item, event) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, event) for item in value]
    if isinstance(value, str) and value.startswith("$event."):
        return copy.deepcopy(look_up(event, value.split(".")[1:]))
    return value


def look_up(value: Any, path: list[str]) -> Any:
    """Return what stands at a path of keys and list indexes; `None` if nothing does."""
    for key in path:
        value = _item(value, key)
        if value is _MISSING:
            return None
    return value


def _item(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return value.get(key, _MISSING)
    if isinstance(value, list) and key.isdigit() and int(key) < len(value):
        return value[int(key)]
    return _MISSING


def snake(name: str) -> str:
    """Return a reference's camelCase name as ours: `getPendingToolCalls` is `get_pending_tool_calls`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def camel(name: str) -> str:
    """Return one of our names as the reference spells it: `new_ui_messages` is `newUIMessages`."""
    first, *rest = name.split("_")
    return first + "".join("UI" if word == "ui" else word.capitalize() for word in rest)
