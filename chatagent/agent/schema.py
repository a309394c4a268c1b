"""Schemas for what clients send beside messages: client data and actions.

A schema is a pydantic model or any type that pydantic can check, a `TypeAdapter`, or a function that parses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_origin

from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Parser", "problem_of", "schema_parser"]

Parser = "Callable[[Any], Any]"
"""Returns the parsed value, or raises."""


def schema_parser(schema: Any) -> Callable[[Any], Any]:
    """Return the function that parses a value by a schema.

    Args:
        schema: a type, a `TypeAdapter`, a function, or `None` to take values as they come.
    """
    if schema is None:
        return _as_it_came
    if isinstance(schema, TypeAdapter):
        return cast("TypeAdapter[Any]", schema).validate_python
    if isinstance(schema, type) or get_origin(schema) is not None or not callable(schema):
        return TypeAdapter[Any](schema).validate_python
    return schema


def problem_of(error: Exception) -> str:
    """Say what a schema did not like: path and reason of each fault, in one line."""
    if not isinstance(error, ValidationError):
        return str(error) or type(error).__name__
    faults = [f"`{'.'.join(map(str, each['loc'])) or 'the value'}`: {each['msg']}" for each in error.errors()]
    return "; ".join(faults)


def _as_it_came(value: Any) -> Any:
    return value
