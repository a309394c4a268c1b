"""JSON text as `JSON.stringify` of JavaScript prints it (rules 16.10, 16.11, 17.2).

Compact, keys as they come, everything beyond ASCII raw, lone surrogates escaped, numbers in JavaScript's spelling. Two
things differ on purpose: integers beyond 2^53 keep their digits, and numbers that are not finite are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from math import isfinite
from typing import TYPE_CHECKING, Final, cast

from chatagent.errors import InvalidArgumentError
from chatagent.ui.surrogates import join_surrogates

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["format_json", "format_json_bytes"]


def format_json(value: object) -> str:
    """Return the JSON text of a plain value: `None`, booleans, numbers, strings, lists, tuples, dicts with string keys.

    A lone surrogate stays in the text as it is; `format_json_bytes` escapes it.

    Raises:
        InvalidArgumentError: a value has no JSON form; `argument` is its path, such as `value.items[2].price`.
    """
    try:
        return _WRITERS.get(type(value), _write_other)(value)
    except RecursionError:
        raise InvalidArgumentError(
            argument="value", value=value, problem="it is nested too deeply, or in itself"
        ) from None
    except _NotJsonError as error:
        error.path.append("value")
        problem = error.problem
        path = "".join(reversed(error.path))
        raise InvalidArgumentError(argument=path, value=error.value, problem=problem) from None


def format_json_bytes(value: object) -> bytes:
    """Return the JSON text of a plain value as UTF-8, a lone surrogate as the escape of its number.

    Raises:
        InvalidArgumentError: a value has no JSON form; `argument` is its path.
    """
    text = format_json(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return join_surrogates(text).encode("utf-8", "backslashreplace")


class _NotJsonError(Exception):
    """Collects the path of a value without JSON form, from the inside outwards."""

    def __init__(self, value: object, problem: str) -> None:
        super().__init__(problem)
        self.value, self.problem = value, problem
        self.path: list[str] = []


def _write_dict(value: Mapping[str, object]) -> str:
    items: list[str] = []
    for key, item in value.items():
        try:
            items.append(_key(key) + _WRITERS.get(type(item), _write_other)(item))
        except _NotJsonError as error:
            error.path.append(f".{key}")
            raise
    return "{" + ",".join(items) + "}"


def _write_list(value: Sequence[object]) -> str:
    items: list[str] = []
    for item in value:
        try:
            items.append(_WRITERS.get(type(item), _write_other)(item))
        except _NotJsonError as error:
            error.path.append(f"[{len(items)}]")
            raise
    return "[" + ",".join(items) + "]"


@lru_cache(maxsize=512)
def _short_key(key: str) -> str:
    return encode_basestring(key) + ":"


def _key(key: object) -> str:
    """Return a key with its colon; the keys of a wire are few, so the short ones are remembered."""
    if not isinstance(key, str):
        raise _NotJsonError(key, "a key of a JSON object is a string")
    return _short_key(key) if len(key) < 32 else encode_basestring(key) + ":"


def _write_float(value: float) -> str:
    if not isfinite(value):
        raise _NotJsonError(value, "JSON has no such number: give a finite one, or None")
    text = repr(value)
    if 1e-6 <= abs(value) < 1e21 or not value:
        return text if text[-2:] != ".0" and "e" not in text else _write_positional(text)
    return text.replace("e-0", "e-")


def _write_positional(text: str) -> str:
    """Spell a number without exponent: `1e-05` as `0.00001`, `1e+16` and `2.0` as whole numbers."""
    plain = format(Decimal(text), "f")
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return "0" if plain == "-0" else plain


def _write_other(value: object) -> str:
    """Write what is a subclass of a plain type, such as an enum with string values."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return encode_basestring(str.__str__(value))
        case int():
            return int.__repr__(value)
        case float():
            return _write_float(float(value))
        case Mapping():
            return _write_dict(cast("Mapping[str, object]", value))
        case list() | tuple():
            return _write_list(cast("Sequence[object]", value))
        case _:
            raise _NotJsonError(value, f"a {type(value).__name__} has no JSON form: make plain JSON of it first")


_WRITERS: Final[dict[type, Callable[..., str]]] = {
    str: encode_basestring,
    bool: {True: "true", False: "false"}.__getitem__,
    type(None): {None: "null"}.__getitem__,
    int: int.__repr__,
    float: _write_float,
    dict: _write_dict,
    list: _write_list,
    tuple: _write_list,
}
