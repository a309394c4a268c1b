"""Chunks, parts and messages to and from their wire form: plain dicts and lists with camelCase keys.

Strict where things enter, as the clients of the wire are: a chunk that a client would refuse is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

from chatagent.errors import ChunkError
from chatagent.ui.chunks import CHUNK_TYPES, Chunk, DataChunk, UnknownChunk
from chatagent.ui.slots import UNSET, WireObject, codec_of, write_wire
from chatagent.ui.wire import WireModel

if TYPE_CHECKING:
    from chatagent.ui.wire import JSONObject

__all__ = ["parse_chunk", "to_wire"]

_CHUNK_CLASSES = frozenset({*CHUNK_TYPES.values(), DataChunk, UnknownChunk})


def parse_chunk(wire: object, *, allow_unknown: bool = False) -> Chunk:
    """Make a chunk of its wire form.

    Args:
        wire: a dict with camelCase keys; a chunk is returned as it is. Values are taken over, not copied; keys that the
            type does not have are kept in `extra`.
        allow_unknown: give an `UnknownChunk` for a type that nobody knows, instead of an error.

    Raises:
        ChunkError: the type is unknown, a required key is missing, or a value is of the wrong kind; `null` in an
            optional field is such a value (clients refuse it), save where any JSON value is allowed.
    """
    if type(wire) in _CHUNK_CLASSES:
        return cast("Chunk", wire)
    fields = cast("dict[str, Any]", wire) if type(wire) is dict else _as_dict(wire)
    kind = fields.get("type", UNSET)
    cls = CHUNK_TYPES.get(kind) if isinstance(kind, str) else None
    if cls is None:
        cls = _open_class(kind, allow_unknown=allow_unknown)
    return codec_of(cls).read(fields, _fail, fields, "")


def _as_dict(wire: object) -> dict[str, Any]:
    if isinstance(wire, Mapping):
        return dict(cast("Mapping[str, Any]", wire))
    raise ChunkError(chunk_type=UNSET, field="chunk", value=wire, problem="give a chunk, or a dict with a `type`")


def _open_class(kind: object, *, allow_unknown: bool) -> type[Chunk]:
    """Return the class of a type that is in no table."""
    if not isinstance(kind, str):
        raise ChunkError(chunk_type=kind, field="type", value=kind, problem="a chunk has a string here")
    if kind.startswith("data-"):
        return DataChunk
    if allow_unknown:
        return UnknownChunk
    raise ChunkError(
        chunk_type=kind,
        field="type",
        value=kind,
        problem="no chunk has this type; data of your own goes into a `data-NAME` chunk",
    )


def _fail(root: object, field: str, value: object, problem: str) -> Exception:
    kind = cast("JSONObject", root).get("type", UNSET)
    return ChunkError(chunk_type=kind, field=field, value=value, problem=problem)


@overload
def to_wire(value: WireObject | WireModel) -> dict[str, object]: ...
@overload
def to_wire(value: Sequence[object]) -> list[object]: ...
@overload
def to_wire(value: Mapping[str, object]) -> dict[str, object]: ...
def to_wire(value: object) -> object:
    """Return the wire form of a chunk, message or part, or of lists and dicts that hold some.

    Keys that are absent stay absent. Values that are JSON already are shared with the result where they can be: do not
    change it in place.
    """
    if isinstance(value, WireObject):
        return write_wire(value)
    if isinstance(value, WireModel):
        return value.to_wire()
    return _plain(value)


def _plain(value: object) -> object:
    if isinstance(value, WireObject | WireModel):
        return to_wire(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in cast("Mapping[str, object]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [_plain(item) for item in cast("Sequence[object]", value)]
    return value
