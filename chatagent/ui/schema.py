"""Schemas that users give, and the functions that check values by them.

A schema is a type that pydantic can check, a `TypeAdapter`, a JSON schema, or a function that parses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast, get_origin

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from chatagent.errors import InvalidArgumentError
from chatagent.ui.json_schema import schema_problem

__all__ = ["Parse", "ValueSchema", "problem_of", "schema_parser"]

ValueSchema: TypeAlias = type | TypeAdapter[Any] | Mapping[str, Any] | Callable[[Any], object]
"""A pydantic model or another type that pydantic can check, a `TypeAdapter`, a JSON schema as a dict (as far as
`schema_problem` looks at one), or a function that returns the parsed value or raises."""

Parse: TypeAlias = Callable[[Any], Any]
"""Returns the parsed value, or raises what the schema raises."""


def schema_parser(schema: ValueSchema, *, argument: str = "schema") -> Parse:
    """Return the function that parses a value by a schema.

    Args:
        schema: the schema.
        argument: the name under which an error shows it.

    Returns:
        A function that returns the parsed value; it raises pydantic's `ValidationError`, a `ValueError` for a JSON
        schema, or whatever the user's function raises.

    Raises:
        InvalidArgumentError: pydantic cannot check values by it.
    """
    if isinstance(schema, TypeAdapter):
        return schema.validate_python
    if isinstance(schema, Mapping):
        return _json_schema_parser(cast("Mapping[str, Any]", schema))
    if not isinstance(schema, type) and get_origin(schema) is None and callable(schema):
        return schema
    if isinstance(schema, str):  # pydantic would wait for a class of that name until a value comes
        problem = "give a type, a `TypeAdapter`, a function that parses, or a JSON schema as a dict"
        raise InvalidArgumentError(argument=argument, value=schema, problem=problem)
    try:
        return TypeAdapter[Any](cast("Any", schema)).validate_python
    except (PydanticUserError, NameError, TypeError) as exc:
        raise InvalidArgumentError(
            argument=argument, value=schema, problem=f"pydantic cannot check values by it: {exc}"
        ) from exc


def problem_of(error: Exception) -> str:
    """Say what a schema did not like, in one line: path and reason of each fault, if it was pydantic that looked."""
    if not isinstance(error, ValidationError):
        return str(error) or type(error).__name__
    faults = [
        f"`{'.'.join(map(str, each['loc'])) or 'the value'}`: {each['msg']}"
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return "; ".join(faults)


def _json_schema_parser(schema: Mapping[str, Any]) -> Parse:
    def parse(value: object) -> object:
        problem = schema_problem(schema, value, "value")
        if problem is not None:
            raise ValueError(problem)
        return value

    return parse
