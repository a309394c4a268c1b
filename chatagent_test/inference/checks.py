"""Checks of what a test gives: what is of the wrong kind is refused where it is given, not when a request comes."""

from __future__ import annotations

from types import UnionType
from typing import Any, TypeAlias, cast

from chatagent.errors import InvalidArgumentError

__all__ = ["Kind", "need", "need_function", "need_texts"]

Kind: TypeAlias = type[Any] | UnionType


def need(argument: str, value: object, kind: Kind, wanted: str) -> None:
    """Refuse a value that is of another kind.

    Args:
        argument: what an error calls it.
        value: what was given.
        kind: a class, or a union of classes; of numbers, `True` is none.
        wanted: the kind in words.

    Raises:
        InvalidArgumentError: it is something else.
    """
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise InvalidArgumentError(argument=argument, value=value, problem=f"it is {wanted}")


def need_function(argument: str, value: object, wanted: str) -> None:
    """Refuse what cannot be called; arguments and errors as for `need`."""
    if not callable(value):
        raise InvalidArgumentError(argument=argument, value=value, problem=f"it is {wanted}")


def need_texts(argument: str, values: object) -> tuple[str, ...]:
    """Return the texts of a list; errors as for `need`."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise InvalidArgumentError(argument=argument, value=values, problem="give a list of texts")
    given = tuple(cast("Any", values))
    if not all(isinstance(value, str) for value in given):
        raise InvalidArgumentError(argument=argument, value=values, problem="give a list of texts")
    return given
