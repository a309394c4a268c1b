"""What is wrong with a request, and how to look for it: the first thing found is what a provider answers with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

__all__ = ["Body", "Finding", "Findings", "a_list", "an_object", "dicts", "is_number", "kind_of", "matches", "texts_of"]

Body: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a request that a provider refuses."""

    message: str
    param: str | None = None
    """The member that is wrong, as OpenAI names it."""
    code: str | None = None
    """OpenAI's code for it."""


Findings: TypeAlias = Iterator[Finding]

_KINDS: list[tuple[type, str]] = [
    (bool, "a boolean"),
    (dict, "an object"),
    (float, "a decimal"),
    (int, "an integer"),
    (list, "an array"),
    (str, "a string"),
    (type(None), "null"),
]


def kind_of(value: object) -> str:
    """Return what a JSON value is, with its article."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), type(value).__name__)


def is_number(value: object) -> bool:
    """Return whether a JSON value is a number; `true` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def an_object(value: object) -> Body | None:
    """Return a JSON object; `None` for anything else."""
    return cast("Body", value) if isinstance(value, dict) else None


def a_list(value: object) -> list[object] | None:
    """Return a JSON array; `None` for anything else."""
    return cast("list[object]", value) if isinstance(value, list) else None


def dicts(value: object) -> list[tuple[int, Body]]:
    """Return the objects of a list, with their places; nothing if it is no list."""
    members = enumerate(a_list(value) or ())
    return [(index, member) for index, each in members if (member := an_object(each)) is not None]


def texts_of(members: object, key: str) -> list[str]:
    """Return what the objects of a list have under a key, as far as that is text."""
    return [each[key] for _, each in dicts(members) if isinstance(each.get(key), str)]


def matches(pattern: str, value: object) -> bool:
    """Return whether a value is a text that a pattern covers."""
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None
