"""JSON inside scripts and seeds: copied where it enters, so that nobody changes a script from outside (rule BT-7)."""

from __future__ import annotations

import math
from typing import Any, cast

from pydantic_core import PydanticSerializationError, to_jsonable_python

from chatagent_test.transport.errors import ScriptError

__all__ = ["error_text", "json_value", "show", "show_call"]


def json_value(value: object) -> Any:
    """Return a copy of a value as JSON data; pydantic models and other typed values are dumped.

    Raises:
        ScriptError: it is nothing that could go over a wire.
    """
    try:
        made = to_jsonable_python(value, by_alias=True)
    except PydanticSerializationError as error:
        raise ScriptError(
            f"{value!r:.100} is no JSON data, and nothing that pydantic makes some of: {error}"
        ) from error
    if not _is_finite(made):
        raise ScriptError(f"{value!r:.100} is no JSON data: JSON has neither nan nor infinity")
    return made


def _is_finite(value: object) -> bool:
    """Return whether every number in JSON data is one that JSON has."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_is_finite(each) for each in cast("dict[str, object]", value).values())
    return not isinstance(value, list) or all(_is_finite(each) for each in cast("list[object]", value))


def error_text(error: BaseException | str) -> str:
    """Return what an error says: its text, or its class where it has none."""
    return (str(error) or type(error).__name__) if isinstance(error, BaseException) else error


def show(value: object) -> str:
    """Return a value as code."""
    return repr(value)


def show_call(name: str, *positional: object, **named: object) -> str:
    """Return a call as code; named arguments that are `None`, or empty, are left out."""
    given = [show(each) for each in positional]
    given += [f"{key}={show(value)}" for key, value in named.items() if not _is_default(value)]
    return f"{name}({', '.join(given)})"


def _is_default(value: object) -> bool:
    return value is None or value is False or (isinstance(value, tuple | dict) and not cast("tuple[object]", value))
