"""Strict checks of plain values: what an object must hold, may hold and must not hold.

A check takes a value and its path, and returns the value without the keys that its shape does not know; the first thing
that is wrong is raised with its path. Which shapes messages have is `message_shapes.py`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, cast

from chatagent.errors import MessageValidationError
from chatagent.ui.kinds import UNSET

__all__ = [
    "FORBIDDEN",
    "Check",
    "Field",
    "Optional",
    "Shape",
    "anything",
    "as_object",
    "boolean",
    "exactly",
    "index",
    "json_object",
    "list_of",
    "object_of",
    "one_of",
    "string",
]

Check: TypeAlias = Callable[[object, str], object]
"""Takes a value and its path; returns it clean, or raises a `MessageValidationError`."""


@dataclass(frozen=True, slots=True)
class Optional:
    """A key that may be absent; `null` is not absent."""

    check: Check


class _Forbidden(Enum):
    FORBIDDEN = "forbidden"


FORBIDDEN: Final = _Forbidden.FORBIDDEN
"""A key that must be absent, because it would say something else."""

Field: TypeAlias = Check | Optional | _Forbidden
"""What stands under a key: a check alone means that the key is required."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What an object holds, by wire key. Its keys are checked in the order in which they stand here."""

    fields: Mapping[str, Field]
    """Keys that nobody names are dropped."""

    def __call__(self, value: object, path: str) -> dict[str, object]:
        """Return the object with the keys that the shape knows.

        Raises:
            MessageValidationError: it is no object, or one of its keys is wrong.
        """
        given = as_object(value, path)
        clean: dict[str, object] = {}
        for key, rule in self.fields.items():
            if key in given:
                clean[key] = _accept(rule, given[key], f"{path}.{key}")
            elif not isinstance(rule, Optional | _Forbidden):
                raise MessageValidationError(field=f"{path}.{key}", value=UNSET, problem="the key is required")
        return clean


def _accept(rule: Field, value: object, path: str) -> object:
    if isinstance(rule, _Forbidden):
        raise MessageValidationError(field=path, value=value, problem="it does not belong here: leave the key out")
    return rule.check(value, path) if isinstance(rule, Optional) else rule(value, path)


def as_object(value: object, path: str) -> dict[str, object]:
    """Return the value as a dict with string keys.

    Raises:
        MessageValidationError: it is no JSON object.
    """
    if isinstance(value, dict):
        fields = cast("dict[object, object]", value)
        if all(isinstance(key, str) for key in fields):
            return cast("dict[str, object]", fields)
    raise _wrong(cast("object", value), path, "an object")


def anything(value: object, _path: str) -> object:
    """Accept any value."""
    return value


def string(value: object, path: str) -> object:
    """Accept a string."""
    return _of(str, value, path, "a string")


def boolean(value: object, path: str) -> object:
    """Accept `true` and `false`."""
    return _of(bool, value, path, "true or false")


def index(value: object, path: str) -> object:
    """Accept a whole number from 0 up."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _wrong(value, path, "a whole number, 0 or more")
    return value


def exactly(*, value: bool) -> Check:
    """Return a check that accepts only `true` or only `false`."""

    def check(found: object, path: str) -> object:
        if found is not value:
            raise _wrong(found, path, "true" if value else "false")
        return found

    return check


def one_of(*words: str) -> Check:
    """Return a check that accepts some strings only."""

    def check(value: object, path: str) -> object:
        if not isinstance(value, str) or value not in words:
            raise _wrong(value, path, f"one of {', '.join(map(repr, words))}")
        return value

    return check


def object_of(check_value: Check) -> Check:
    """Return a check that accepts an object with any keys, whose values are checked each."""

    def check(value: object, path: str) -> object:
        return {key: check_value(each, f"{path}.{key}") for key, each in as_object(value, path).items()}

    return check


json_object = object_of(anything)


def list_of(check_item: Check) -> Check:
    """Return a check that accepts a list or a tuple, whose items are checked each."""

    def check(value: object, path: str) -> object:
        if not isinstance(value, list | tuple):
            raise _wrong(value, path, "a list")
        items = cast("list[object] | tuple[object, ...]", value)
        return [check_item(item, f"{path}[{index}]") for index, item in enumerate(items)]

    return check


def _of(cls: type, value: object, path: str, expected: str) -> object:
    if not isinstance(value, cls):
        raise _wrong(value, path, expected)
    return value


def _wrong(value: object, path: str, expected: str) -> MessageValidationError:
    return MessageValidationError(field=path, value=value, problem=f"it must be {expected}")
