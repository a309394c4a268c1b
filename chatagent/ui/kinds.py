"""Kinds of wire values: what a field of a slotted wire class accepts, and how it is decoded and encoded.

An annotation is read once per field, when its class is first read or written. Classes that themselves have a wire form
are resolved by the caller (`slots.py`), so that this module knows plain values only.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, cast, get_args, get_origin

__all__ = ["UNSET", "Fail", "Kind", "Resolve", "Unset", "kind_of", "split_optional"]


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "<absent>"

    def __repr__(self) -> str:
        return self.value


UNSET: Final = Unset.UNSET
"""Stands for a key that is not there, in fields where `None` is a value (the JSON `null`)."""

Fail: TypeAlias = Callable[[object, str, object, str], Exception]
"""Builds the error for a bad wire value: of the whole wire value, the field's path, what stood there, what is wrong."""

Decode: TypeAlias = Callable[[object, Fail, object, str], object]
"""Turns an accepted wire value into the attribute's: value, `Fail`, whole wire value, the field's path."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What one field accepts.

    Put one into `Annotated[…, Kind(…)]` for a field whose annotation alone does not say enough.
    """

    expected: str
    """What an error says the value must be, such as `a string`."""
    accepts: Callable[[object], bool] | None = None
    """Whether a wire value is one of the kind; `None` accepts everything."""
    instance_of: type | None = None
    """The quick form of `accepts`: the class that a value must be an instance of."""
    decode: Decode | None = None
    """Makes the attribute of an accepted wire value; `None` takes it as it is."""
    encode: Callable[[Any], object] | None = None
    """Makes the wire value of an attribute; `None` takes it as it is."""


Resolve: TypeAlias = Callable[[object], Kind | None]
"""Gives the kind of an annotation that only the caller knows."""

_UNIONS: Final = (Union, types.UnionType)

ANYTHING: Final = Kind("any JSON value")
STRING: Final = Kind("a string", instance_of=str)
BOOLEAN: Final = Kind("true or false", instance_of=bool)
NULL: Final = Kind("null", instance_of=types.NoneType)
BYTES: Final = Kind("bytes", instance_of=bytes)
INTEGER: Final = Kind("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool))
NUMBER: Final = Kind("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool))

_PLAIN: Final[dict[object, Kind]] = {
    object: ANYTHING,
    Any: ANYTHING,
    str: STRING,
    bool: BOOLEAN,
    types.NoneType: NULL,
    bytes: BYTES,
    int: INTEGER,
    float: NUMBER,
}


def split_optional(annotation: object) -> tuple[object, object | None]:
    """Split `X | None` and `X | Unset` into X and its marker of absence (`None` itself is returned as `NoneType`)."""
    if get_origin(annotation) not in _UNIONS:
        return annotation, None
    members = get_args(annotation)
    for marker in (Unset, types.NoneType):
        if marker in members:
            rest = tuple(member for member in members if member is not marker)
            return (rest[0] if len(rest) == 1 else Union[rest]), marker  # noqa: UP007 - members known at run time only
    return annotation, None


def kind_of(annotation: object, resolve: Resolve) -> Kind:
    """Return the kind of an annotation.

    Args:
        annotation: a resolved annotation, without its marker of absence.
        resolve: asked for what is no plain annotation.

    Raises:
        TypeError: no rule fits the annotation.
    """
    plain = _PLAIN.get(annotation) if getattr(annotation, "__hash__", None) else None
    if plain is not None:
        return plain
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        stated = [note for note in arguments[1:] if isinstance(note, Kind)]
        return stated[0] if stated else kind_of(arguments[0], resolve)
    if origin is Literal:
        return _one_of(arguments)
    if annotation is dict or origin is dict:
        return _object_of(kind_of(arguments[1], resolve) if arguments else ANYTHING)
    if origin in (list, tuple, Sequence):
        return _list_of(kind_of(arguments[0], resolve))
    if origin in _UNIONS:
        return _any_of([kind_of(argument, resolve) for argument in arguments])
    return _resolved(annotation, resolve)


def _resolved(annotation: object, resolve: Resolve) -> Kind:
    kind = resolve(annotation)
    if kind is None:
        raise TypeError(f"no wire kind for the annotation {annotation!r}: say it with Annotated[…, Kind(…)]")
    return kind


def _one_of(words: tuple[object, ...]) -> Kind:
    allowed = frozenset(words)
    shown = ", ".join(repr(word) for word in words)
    return Kind(f"one of {shown}", lambda value: isinstance(value, str) and value in allowed)


def _object_of(values: Kind) -> Kind:
    if values is ANYTHING:
        return Kind("an object", instance_of=dict)
    if values.decode is not None:
        raise TypeError("an object's values can be of a plain kind only: say it with Annotated[…, Kind(…)]")
    accepts = _acceptor(values)
    return Kind(
        f"an object whose values are each {values.expected}",
        lambda value: isinstance(value, dict) and all(map(accepts, cast("dict[str, object]", value).values())),
    )


def _list_of(items: Kind) -> Kind:
    accepts, decode, encode = _acceptor(items), items.decode, items.encode
    expected = "a list" if items is ANYTHING else f"a list whose items are each {items.expected}"

    def decode_list(value: object, fail: Fail, wire: object, path: str) -> object:
        assert decode is not None
        values = cast("list[object]", value)
        return [decode(item, fail, wire, f"{path}[{index}]") for index, item in enumerate(values)]

    def encode_list(value: Sequence[object]) -> object:
        return list(value) if encode is None else [encode(item) for item in value]

    return Kind(
        expected,
        lambda value: isinstance(value, list | tuple) and all(map(accepts, cast("list[object]", value))),
        decode=decode_list if decode is not None else None,
        encode=encode_list,
    )


def _any_of(kinds: list[Kind]) -> Kind:
    """Return the kind of a union; its members must be plain, since nothing says which of them would decode a value."""
    if ANYTHING in kinds:
        return ANYTHING
    if any(kind.decode is not None for kind in kinds):
        raise TypeError("a union can be of plain kinds only: say it with Annotated[…, Kind(…)]")
    acceptors = [_acceptor(kind) for kind in kinds]
    return Kind(
        " or ".join(kind.expected for kind in kinds), lambda value: any(accepts(value) for accepts in acceptors)
    )


def _acceptor(kind: Kind) -> Callable[[object], bool]:
    wanted = kind.instance_of
    if wanted is not None:
        return lambda value: isinstance(value, wanted)
    return kind.accepts or (lambda _value: True)
