"""JSON as JavaScript reads it: no `NaN`, no infinities, and on request no keys that reach for an object's prototype."""

from __future__ import annotations

import json
from typing import Final, NoReturn, cast

__all__ = ["find_forbidden_key", "parse_json"]


def parse_json(text: str) -> object:
    """Parse one JSON text. Integers stay exact, however long; a number beyond a double's range becomes infinite.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def find_forbidden_key(value: object) -> str | None:
    """Return a key for which clients refuse the whole JSON (`__proto__`, `constructor.prototype`), or `None`."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending.extend(cast("list[object]", node))
        elif isinstance(node, dict):
            fields = cast("dict[str, object]", node)
            if "__proto__" in fields:
                return "__proto__"
            built = fields.get("constructor")
            if isinstance(built, dict) and "prototype" in built:
                return "constructor.prototype"
            pending.extend(fields.values())
    return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
