"""Slotted classes with a wire form: chunks here, stream parts in the rooms above.

A class lists its fields once, as a dataclass does; the annotations are its schema. From them a reader (wire dict to
object, checked) and a writer (object to wire dict) are generated when first needed, because objects of this kind are
made and written by the ten thousand: no loop over a table, no copy of a value that needs none.

Such objects are not frozen at run time (that would triple the cost of making one), but they are for a type checker.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast, dataclass_transform, get_type_hints

from chatagent.ui.kinds import UNSET, Fail, Kind, Unset, kind_of, split_optional

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["UNSET", "Codec", "Fail", "Kind", "Unset", "WireField", "WireObject", "codec_of", "wire_class", "write_wire"]

ClassT = TypeVar("ClassT", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def wire_class(cls: ClassT) -> ClassT:
    """Make a subclass of `WireObject` a slotted dataclass with a wire form.

    A field's wire key is its name in camelCase. A field without default is required on the wire. One annotated
    `X | None` or `X | Unset`, with that default, is left out when it is `None` or `UNSET`; for the former `null` is
    refused, for the latter it is a value. A class attribute `type` becomes the key `type`, which comes first.
    """
    # Comparing by value leaves the class unhashable, as its values (dicts) are.
    return cast("ClassT", dataclass(slots=True, repr=False)(cls))


@wire_class
class WireObject:
    """Base of the slotted classes with a wire form."""

    extra: dict[str, object] | None = field(default=None, kw_only=True)
    """Wire keys that the class does not know; kept, and written behind the others."""

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{each.name}={getattr(self, each.name)!r}"
            for each in _own_fields_first(type(self))
            if getattr(self, each.name) is not each.default
        )
        return f"{type(self).__name__}({shown})"


class WireField(NamedTuple):
    """One field of a wire class, as its codec sees it."""

    name: str
    key: str
    kind: Kind
    required: bool
    default: object
    """What the attribute is when the key is absent: `None` or `UNSET`."""


class Read(Protocol):
    """Makes an object of a checked wire dict; errors are built by `fail`, paths begin with `path`."""

    def __call__(self, wire: dict[str, Any], fail: Fail, root: object, path: str) -> Any: ...


class Codec(NamedTuple):
    """How the objects of one class are read and written."""

    fields: tuple[WireField, ...]
    read: Read
    write: Callable[[Any], dict[str, object]]


@cache
def codec_of(cls: type) -> Codec:
    """Return the codec of a wire class; it is generated at the first call.

    Raises:
        TypeError: a field's annotation has no wire kind.
    """
    table = _field_table(cls)
    return Codec(table, _generate_reader(cls, table), _generate_writer(cls, table))


def write_wire(value: WireObject) -> dict[str, object]:
    """Return the wire dict of an object; values that are JSON already are shared with it, not copied."""
    return codec_of(type(value)).write(value)


def _own_fields_first(cls: type) -> list[Any]:
    """Return the dataclass fields in the order in which they are written: `extra` last."""
    return sorted(fields(cls), key=lambda each: each.name == "extra")


def _field_table(cls: type) -> tuple[WireField, ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        _wire_field(cls, each.name, hints[each.name], each.default)
        for each in _own_fields_first(cls)
        if each.name != "extra"
    )


def _wire_field(cls: type, name: str, annotation: object, default: object) -> WireField:
    required = default is MISSING
    inner, marker = (annotation, None) if required else split_optional(annotation)
    absent: object = UNSET if marker is Unset else None
    if not required and (marker is None or default is not absent):
        raise TypeError(f"{cls.__name__}.{name}: an optional field is `X | None = None` or `X | Unset = UNSET`")
    try:
        kind = kind_of(inner, _nested)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.{name}: {error}") from None
    return WireField(name, _camel(name), kind, required, absent)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _nested(annotation: object) -> Kind | None:
    """Return the kind of a field whose values are objects of another wire class."""
    if not (isinstance(annotation, type) and issubclass(annotation, WireObject)):
        return None
    cls = annotation

    def decode(value: object, fail: Fail, root: object, path: str) -> object:
        if isinstance(value, cls):
            return value
        return codec_of(cls).read(cast("dict[str, Any]", value), fail, root, path + ".")

    return Kind("an object", lambda value: isinstance(value, dict | cls), decode=decode, encode=write_wire)


def _generate(name: str, lines: list[str], namespace: dict[str, object]) -> Any:
    exec("\n".join(lines), namespace)  # made of field names and repr() of keys only
    return namespace[name]


def _type_of(cls: type, table: tuple[WireField, ...]) -> str | None:
    """Return the wire type that all objects of the class share, if they do."""
    if any(each.name == "type" for each in table):
        return None
    return getattr(cls, "type", None)


def _generate_writer(cls: type, table: tuple[WireField, ...]) -> Callable[[Any], dict[str, object]]:
    namespace: dict[str, object] = {"UNSET": UNSET}
    wire_type = _type_of(cls, table)
    items = [] if wire_type is None else [f"'type': {wire_type!r}"]
    optional: list[str] = []
    for index, each in enumerate(table):
        namespace[f"encode_{index}"] = each.kind.encode
        shape = "{}" if each.kind.encode is None else f"encode_{index}({{}})"
        if each.required:
            items.append(f"{each.key!r}: {shape.format(f'self.{each.name}')}")
            continue
        optional += [
            f"    value = self.{each.name}",
            f"    if value is not {'UNSET' if each.default is UNSET else None}:",
            f"        wire[{each.key!r}] = {shape.format('value')}",
        ]
    lines = ["def write(self):", f"    wire = {{{', '.join(items)}}}", *optional]
    lines += ["    if self.extra:", "        wire.update(self.extra)", "    return wire"]
    return _generate("write", lines, namespace)


def _generate_reader(cls: type, table: tuple[WireField, ...]) -> Read:
    wire_type = _type_of(cls, table)
    known = {each.key for each in table} | ({"type"} if wire_type is not None else set[str]())
    namespace: dict[str, object] = {"cls": cls, "UNSET": UNSET, "known": frozenset(known)}
    lines = [
        "def read(wire, fail, root, path):",
        "    get = wire.get",
        f"    count = {1 if wire_type is not None else 0}",
    ]
    for index, each in enumerate(table):
        lines += _reading(index, each, namespace)
    arguments = ", ".join(f"{each.name}=v{index}" for index, each in enumerate(table))
    lines += [
        f"    made = cls({arguments})",
        "    if len(wire) != count:",
        "        made.extra = {key: value for key, value in wire.items() if key not in known} or None",
        "    return made",
    ]
    return _generate("read", lines, namespace)


def _reading(index: int, each: WireField, namespace: dict[str, object]) -> list[str]:
    """Return the lines that read and check one field into the local `v<index>`."""
    value, kind = f"v{index}", each.kind
    namespace.update({f"t{index}": kind.instance_of, f"a{index}": kind.accepts, f"d{index}": kind.decode})
    absent_problem = f"the key is required: give {kind.expected}"
    wrong_problem = (
        f"it must be {kind.expected}" if each.required else f"it must be {kind.expected}; leave the key out for none"
    )
    test = None
    if kind.instance_of is not None:
        test = f"not isinstance({value}, t{index})"
    elif kind.accepts is not None:
        test = f"not a{index}({value})"
    check: list[str] = []
    if test is not None:
        check = [f"if {test}:", f"    raise fail(root, path + {each.key!r}, {value}, {wrong_problem!r})"]
    if kind.decode is not None:
        check.append(f"{value} = d{index}({value}, fail, root, path + {each.key!r})")
    lines = [f"    {value} = get({each.key!r}, UNSET)", f"    if {value} is UNSET:"]
    if each.required:
        lines += [f"        raise fail(root, path + {each.key!r}, UNSET, {absent_problem!r})", "    count += 1"]
        return lines + ["    " + line for line in check]
    lines += [f"        {value} = {'UNSET' if each.default is UNSET else None}", "    else:", "        count += 1"]
    return lines + ["        " + line for line in check]
