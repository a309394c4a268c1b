"""Partial matches: what an expectation says of a value, and where the value is different.

An expectation is a value that must be equal; a mapping, of which the value must have each key (or attribute) with a
value that matches; a sequence, matched item by item, in which `...` stands for any number of items; a class, which
stands for any value of it; or `...`, which anything matches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from chatagent.errors import InvalidArgumentError

__all__ = ["differences", "fits", "items_of", "show"]

_MISSING = object()


def fits(expected: Sequence[Any], actual: Sequence[Any], is_match: Callable[[Any, Any], bool]) -> bool:
    """Return whether the items match in order; `...` among the expected ones stands for any number of items."""
    want = have = 0
    gap, resume = -1, 0
    while have < len(actual):
        if want < len(expected) and expected[want] is ...:
            gap, resume, want = want, have, want + 1
        elif want < len(expected) and is_match(expected[want], actual[have]):
            want, have = want + 1, have + 1
        elif gap >= 0:
            resume += 1
            want, have = gap + 1, resume
        else:
            return False
    return all(item is ... for item in expected[want:])


def items_of(argument: str, value: object, problem: str) -> list[Any]:
    """Return the items of what a test has given as a list.

    Raises:
        InvalidArgumentError: it is none, such as a text or something that was not awaited.
    """
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidArgumentError(argument=argument, value=cast("object", value), problem=problem)
    return list(cast("Iterable[Any]", value))


def differences(expected: Any, actual: Any, path: str = "") -> list[str]:
    """Return one line for each place at which a value is not as expected; none if it matches.

    Args:
        expected: the expectation.
        actual: the value.
        path: where the value stands, for the lines.
    """
    if expected is ...:
        return []
    if isinstance(expected, type):
        return [] if isinstance(actual, expected) else [_line(path, f"any {expected.__name__}", show(actual))]
    if isinstance(expected, Mapping):
        return _of_keys(cast("Mapping[str, Any]", expected), actual, path)
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        return _of_items(cast("Sequence[Any]", expected), cast("Sequence[Any]", actual), path)
    if expected == actual:
        return []
    if isinstance(expected, str) and isinstance(actual, str):
        return [_line(path, *_around_the_difference(expected, actual))]
    return [_line(path, show(expected), show(actual))]


def show(value: Any, limit: int = 120) -> str:
    """Return a value on one line, as JSON where it is data, cut at `limit` characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_as_data)
    except (TypeError, ValueError):
        text = repr(value)
    text = text.replace("\n", "\\n")
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _of_keys(expected: Mapping[str, Any], actual: Any, path: str) -> list[str]:
    lines: list[str] = []
    for key, value in expected.items():
        found = _get(actual, key)
        where = f"{path}.{key}" if path else str(key)
        if found is _MISSING:
            lines.append(f"{where}: expected {show(value)}, but there is none{_hint(key, actual)}")
        else:
            lines += differences(value, found, where)
    return lines


def _of_items(expected: Sequence[Any], actual: Sequence[Any], path: str) -> list[str]:
    if fits(expected, actual, lambda want, have: not differences(want, have)):
        return []
    if ... in expected or len(expected) != len(actual):
        return [_line(path, show(expected), show(actual))]
    pairs = enumerate(zip(expected, actual, strict=True))
    return [line for number, (want, have) in pairs for line in differences(want, have, f"{path}[{number}]")]


def _get(value: Any, key: str) -> Any:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).get(key, _MISSING)
    return getattr(value, key, _MISSING)


def _hint(key: str, actual: Any) -> str:
    """Say how the wire spells a key that was given in snake_case."""
    first, *rest = key.split("_")
    wire_key = first + "".join(word.capitalize() for word in rest)
    is_there = wire_key != key and _get(actual, wire_key) is not _MISSING
    return f" (on the wire it is {wire_key!r})" if is_there else ""


def _line(path: str, expected: str, actual: str) -> str:
    return f"{path + ': ' if path else ''}expected {expected}, got {actual}"


def _around_the_difference(expected: str, actual: str, around: int = 40) -> tuple[str, str]:
    """Return two texts; of long ones what stands around the first difference."""
    if max(len(expected), len(actual)) <= 2 * around:
        return show(expected), show(actual)
    same = next((i for i, (a, b) in enumerate(zip(expected, actual, strict=False)) if a != b), None)
    start = max((min(len(expected), len(actual)) if same is None else same) - around // 2, 0)
    return tuple(f"{'…' if start else ''}{show(text[start : start + 2 * around])}" for text in (expected, actual))  # type: ignore[return-value] - of two texts


def _as_data(value: Any) -> Any:
    if value is ...:
        return "…"
    return value.__name__ if isinstance(value, type) else repr(value)
