"""Compares what a test says about request bodies with those that came, and shows where they differ."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any, cast

from chatagent_test.inference.errors import UnexpectedBodiesError
from chatagent_test.inference.expectations.conditions import difference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatagent_test.inference.log import LogEntry

__all__ = ["check_bodies"]


def check_bodies(wanted: Sequence[Mapping[str, Any]], found: Sequence[LogEntry]) -> None:
    """Raise `UnexpectedBodiesError` unless each request says what is wanted of it."""
    problems: list[str] = []
    if len(wanted) != len(found):
        problems.append(f"{len(found)} inference requests, wanted {len(wanted)}")
    for number, (body, entry) in enumerate(zip(wanted, found, strict=False)):
        problem = difference(dict(body), entry.body)
        if problem is not None:
            problems += [f"request {number} ({entry.line}): {problem}", *_diff(body, entry.body)]
    problems += [f"request {number} ({entry.line}) was not wanted" for number, entry in _rest(found, len(wanted))]
    problems += [f"request {number} did not come: {_pretty(body)}" for number, body in _rest(wanted, len(found))]
    if problems:
        raise UnexpectedBodiesError("\n".join(problems))


def _rest(values: Sequence[Any], start: int) -> list[tuple[int, Any]]:
    return list(enumerate(values))[start:]


def _diff(wanted: object, found: object) -> list[str]:
    """Return a diff of what is wanted with the part of the body that it speaks about."""
    left, right = _pretty(wanted).splitlines(), _pretty(_shared(wanted, found)).splitlines()
    return [f"  {line}" for line in difflib.unified_diff(left, right, "wanted", "found", lineterm="", n=3)]


def _shared(wanted: object, found: object) -> object:
    if isinstance(wanted, dict) and isinstance(found, dict):
        there = cast("dict[str, object]", found)
        members = cast("dict[str, object]", wanted)
        return {key: _shared(value, there[key]) for key, value in members.items() if key in there}
    if isinstance(wanted, list) and isinstance(found, list) and len(cast("Any", wanted)) == len(cast("Any", found)):
        pairs = zip(cast("list[object]", wanted), cast("list[object]", found), strict=True)
        return [_shared(*pair) for pair in pairs]
    return cast("object", found)


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
