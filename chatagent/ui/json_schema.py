"""A check of JSON values against a JSON schema, as far as tools need it.

Looks at `type`, `required`, `properties`, `items` and `enum` and passes over everything else: a model is told the whole
schema, and a tool that needs more than this checks its input with pydantic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

__all__ = ["schema_problem"]

Schema = Mapping[str, Any]


def schema_problem(schema: Schema, value: object, path: str = "input") -> str | None:
    """Return what is wrong with a value, the first thing found; `None` if it fits.

    Args:
        schema: the JSON schema.
        value: plain JSON data.
        path: where the value stands, for the text.
    """
    wanted = schema.get("type")
    types: list[str] = [wanted] if isinstance(wanted, str) else list(cast("list[str]", wanted or []))
    if types and not any(_is_of(kind, value) for kind in types):
        return f"`{path}` must be {' or '.join(types)}, it is {value!r:.100}"
    if "enum" in schema and not any(_equal(value, allowed) for allowed in schema["enum"]):
        return f"`{path}` must be one of {schema['enum']!r:.200}, it is {value!r:.100}"
    if isinstance(value, dict):
        return _object_problem(schema, cast("dict[str, object]", value), path)
    if isinstance(value, list):
        return _list_problem(schema, cast("list[object]", value), path)
    return None


def _object_problem(schema: Schema, value: dict[str, object], path: str) -> str | None:
    for name in schema.get("required") or ():
        if name not in value:
            return f"`{path}.{name}` is required"
    properties: Mapping[str, object] = schema.get("properties") or {}
    for name, inner in properties.items():
        if name in value and isinstance(inner, Mapping):
            problem = schema_problem(cast("Schema", inner), value[name], f"{path}.{name}")
            if problem is not None:
                return problem
    return None


def _list_problem(schema: Schema, value: list[object], path: str) -> str | None:
    inner = schema.get("items")
    if not isinstance(inner, Mapping):
        return None
    for index, item in enumerate(value):
        problem = schema_problem(cast("Schema", inner), item, f"{path}[{index}]")
        if problem is not None:
            return problem
    return None


_TYPES: dict[str, Callable[[object], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: (
        not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
}


def _is_of(kind: str, value: object) -> bool:
    test = _TYPES.get(kind)
    return test is None or test(value)


def _equal(value: object, allowed: object) -> bool:
    """Compare as JSON does: `true` is not 1."""
    return value == allowed and isinstance(value, bool) is isinstance(allowed, bool)
