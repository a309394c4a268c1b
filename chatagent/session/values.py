"""What a record may carry: the check that JSON can hold a value, a bound on its size, and its JSON text.

The check runs at every append, twenty thousand times a turn, so it is one pass that refuses and weighs at once: plain
data is walked, of a chunk only the fields that hold something, and text counts by its length. Exact sizes are taken
only of what comes near a limit.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, cast

from chatagent.errors import InvalidArgumentError
from chatagent.ui.codec import to_wire
from chatagent.ui.slots import UNSET, WireObject
from chatagent.ui.wire import WireModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["BYTES_PER_WEIGHT", "WEIGHERS", "NotJSONError", "json_size", "json_text", "weigh"]

BYTES_PER_WEIGHT: Final = 6
"""A value of weight *w* takes at most 6 *w* bytes of JSON; plain ASCII text takes about *w*."""

_ATOM: Final = 8
"""Weight of a number, `true`, `false` or `null` with its separator."""

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class NotJSONError(Exception):
    """JSON cannot hold the value; `weigh` says which and where."""


def weigh(value: object, argument: str) -> int:
    """Refuse what JSON cannot hold, and return a bound on the size of the rest (rule ST-4).

    Args:
        value: JSON data, a chunk, a UI message or a typed payload, or lists and dicts of them.
        argument: the name under which an error shows the value.

    Returns:
        The weight: the value takes at most `BYTES_PER_WEIGHT` times as many bytes of JSON text.

    Raises:
        InvalidArgumentError: there is a number that is not finite, a key that is no text, or a value that is not JSON;
            the error names its path.
    """
    try:
        return WEIGHERS[type(value)](value)
    except (NotJSONError, RecursionError):
        raise _refusal(value, argument) from None


def json_text(value: object) -> str:
    """Return a weighed value as JSON text: no spaces, all beyond ASCII as it is, lone surrogates escaped.

    Numbers keep their kind: unlike in JavaScript's spelling, a float is read back as the float that it was.
    """
    # Chunks, messages and what holds them become plain data; plain data pass through.
    text = _ENCODER.encode(to_wire(cast("dict[str, object]", value)))
    return text if text.isascii() else _LONE_SURROGATE.sub(_escaped, text)


def json_size(value: object) -> int:
    """Return how many bytes of UTF-8 a weighed value takes as JSON."""
    return len(json_text(value).encode())


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


class _Weighers(dict[type, "Callable[[Any], int]"]):
    """The weigher of each type that has been met."""

    def __missing__(self, kind: type) -> Callable[[Any], int]:
        found = self[kind] = _weigher_of(kind)
        return found


def _weigher_of(kind: type) -> Callable[[Any], int]:
    if issubclass(kind, WireObject):
        return _wire_object_weigher(kind)
    for base, weigher in _BY_BASE:
        if issubclass(kind, base):
            return weigher
    return _refuse


def _weigh_atom(_value: object) -> int:
    return _ATOM


def _weigh_text(value: str) -> int:
    return len(value) + 4


def _weigh_int(value: int) -> int:
    return _ATOM + (value.bit_length() >> 3)


def _weigh_float(value: float) -> int:
    if not math.isfinite(value):
        raise NotJSONError
    return _ATOM


def _weigh_list(value: list[object] | tuple[object, ...]) -> int:
    weight = _ATOM
    for item in value:
        weight += WEIGHERS[type(item)](item)
    return weight


def _weigh_dict(value: dict[object, object]) -> int:
    weight = _ATOM
    for key, item in value.items():
        if not isinstance(key, str):
            raise NotJSONError
        weight += len(key) + 4 + WEIGHERS[type(item)](item)
    return weight


def _weigh_model(value: WireModel) -> int:
    weight = _weigh_dict(cast("dict[object, object]", value.__dict__))
    if value.__pydantic_extra__:
        weight += _weigh_dict(cast("dict[object, object]", value.__pydantic_extra__))
    return weight


def _refuse(_value: object) -> int:
    raise NotJSONError


def _wire_object_weigher(kind: type[WireObject]) -> Callable[[Any], int]:
    """Return the function that weighs the objects of a class.

    Its source is made from the names of the fields alone: a loop over them would cost more than all the rest, and every
    chunk of a turn comes here.
    """
    names = [each.name for each in fields(kind)]
    lines = ["def weigh_fields(value):", f"    weight = {32 + sum(len(name) + 6 for name in names)}"]
    for name in names:
        lines += [
            f"    item = value.{name}",
            "    if type(item) is str:",
            "        weight += len(item)",
            "    elif item is not None and item is not UNSET:",
            "        weight += WEIGHERS[type(item)](item)",
        ]
    namespace: dict[str, Any] = {"UNSET": UNSET, "WEIGHERS": WEIGHERS}
    exec("\n".join([*lines, "    return weight"]), namespace)
    return namespace["weigh_fields"]


_BY_BASE: Final[tuple[tuple[type, Callable[[Any], int]], ...]] = (
    (str, _weigh_text),
    (bool, _weigh_atom),
    (int, _weigh_int),
    (float, _weigh_float),
    (type(None), _weigh_atom),
    (dict, _weigh_dict),
    (list, _weigh_list),
    (tuple, _weigh_list),
    (WireModel, _weigh_model),
)

WEIGHERS: Final = _Weighers()
"""What weighs the values of a type; raises `NotJSONError` or `RecursionError`, and `weigh` then says what is wrong."""


def _refusal(value: object, path: str) -> InvalidArgumentError:
    """Say which value it is, going down to the first item that fails."""
    found = value
    for _ in range(100):
        bad = next(((step, item) for step, item in _items(found) if not _holds(item)), None)
        if bad is None:
            break
        path, found = path + bad[0], bad[1]
    else:
        return InvalidArgumentError(argument=path, value="…", problem="nested too deeply, or inside itself")
    return InvalidArgumentError(argument=path, value=found, problem=_problem(found))


def _problem(value: object) -> str:
    if isinstance(value, float):
        return "JSON has no numbers that are not finite"
    if isinstance(value, dict):
        return "the keys of a JSON object are text"
    return f"JSON cannot hold a value of type {type(value).__name__}"


def _holds(value: object) -> bool:
    try:
        WEIGHERS[type(value)](value)
    except (NotJSONError, RecursionError):
        return False
    return True


def _items(value: object) -> Iterator[tuple[str, object]]:
    """Yield what is directly inside, each with its step of the path."""
    if isinstance(value, WireObject):
        inside = ((each.name, getattr(value, each.name)) for each in fields(value))
        yield from ((f".{name}", item) for name, item in inside if item is not UNSET)
    elif isinstance(value, WireModel):
        yield from ((f".{name}", item) for name, item in value)
    elif isinstance(value, dict):
        yield from ((f".{key}", item) for key, item in cast("dict[object, object]", value).items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{index}]", item) for index, item in enumerate(cast("list[object]", value)))
