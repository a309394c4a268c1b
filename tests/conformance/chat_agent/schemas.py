"""The JSON schemas of scenarios as parsers: defaults are filled in, unknown keys dropped."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Schema = dict[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}


class SchemaMismatchError(ValueError):
    """A value does not fit its schema."""


def parser(schema: Schema) -> Callable[[object], object]:
    """Return a function that parses a value by a schema, or raises `SchemaMismatchError`."""
    return lambda value: parse(schema, value, "value")


def parse(schema: Schema, value: object, path: str) -> object:
    if "oneOf" in schema:
        return _parse_one_of(schema["oneOf"], value, path)
    if "const" in schema and not _same(value, schema["const"]):
        raise SchemaMismatchError(f"{path}: {value!r} is not {schema['const']!r}")
    if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
        raise SchemaMismatchError(f"{path}: {value!r} is none of {schema['enum']!r}")
    _check_type(schema.get("type"), value, path)
    if isinstance(value, dict) and "properties" in schema:
        return _parse_object(schema, value, path)
    if isinstance(value, list) and "items" in schema:
        return [parse(schema["items"], item, f"{path}[{index}]") for index, item in enumerate(value)]
    return copy.deepcopy(value)


def _parse_one_of(schemas: list[Schema], value: object, path: str) -> object:
    problems: list[str] = []
    for each in schemas:
        try:
            return parse(each, value, path)
        except SchemaMismatchError as error:
            problems.append(str(error))
    raise SchemaMismatchError(f"{path}: fits no alternative ({'; '.join(problems)})")


def _parse_object(schema: Schema, value: dict[str, Any], path: str) -> dict[str, Any]:
    required = schema.get("required", ())
    parsed: dict[str, Any] = {}
    for key, of_key in schema["properties"].items():
        if key in value:
            parsed[key] = parse(of_key, value[key], f"{path}.{key}")
        elif "default" in of_key:
            parsed[key] = copy.deepcopy(of_key["default"])
        elif key in required:
            raise SchemaMismatchError(f"{path}.{key}: it is required")
    return parsed


def _check_type(declared: str | list[str] | None, value: object, path: str) -> None:
    if declared is None:
        return
    names = [declared] if isinstance(declared, str) else declared
    if not any(_is_of(each, value) for each in names):
        raise SchemaMismatchError(f"{path}: {value!r} is no {' or '.join(names)}")


def _is_of(name: str, value: object) -> bool:
    if name in ("number", "integer") and isinstance(value, bool):
        return False
    return isinstance(value, _TYPES[name])


def _same(left: object, right: object) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)
