"""Snapshots: a session's history as it stood after a turn, in memory and in wire form (section 1.6 of the wire format).

A snapshot is taken after every turn, of a history that may be long. So it shares the messages with whoever took it,
which is safe because nobody can change them; only the wire form costs work for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

from pydantic import GetCoreSchemaHandler, PlainValidator, ValidationError
from pydantic_core import PydanticCustomError

from chatagent.errors import SnapshotCorruptError, SnapshotVersionError
from chatagent.ui.messages import UIMessage
from chatagent.ui.strict_json import parse_json
from chatagent.ui.validation import first_problem
from chatagent.ui.wire import WireModel

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

__all__ = ["SNAPSHOT_VERSION", "Snapshot", "decode_snapshot", "encode_snapshot"]

SNAPSHOT_VERSION: Final = 1
"""The format that this release writes, and the only one that it reads."""


class _Messages:
    """Marks a list of messages that is stored as a tuple; messages are taken as they are, dicts are parsed."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(tuple[UIMessage, ...])


class _Texts:
    """Marks a list of texts that is stored as a tuple."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(tuple[str, ...])


def _milliseconds(value: object) -> int | float:
    """Take a number as it is: an integer stays one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise PydanticCustomError("milliseconds", "it must be a number of milliseconds")
    return value


class Snapshot(WireModel):
    """A session's history after a turn, and how far its two logs are in it.

    Args:
        saved_at: when it was taken, in milliseconds since 1970.
        messages: the whole history, oldest first; a list or a tuple, stored as a tuple.
        last_out_event_id: number of the turn's turn-complete record on `.out`, as text.
        last_in_event_id: the committed cursor of `.in`, as text.
        in_event_ids_ahead: the records of `.in` above that cursor that are done with as well, as text; a list or a
            tuple, stored as a tuple.
        version: always 1.
    """

    version: Literal[1] = SNAPSHOT_VERSION
    saved_at: Annotated[float, PlainValidator(_milliseconds)]
    messages: Annotated[Sequence[UIMessage], _Messages()]
    last_out_event_id: str | None = None
    last_in_event_id: str | None = None
    in_event_ids_ahead: Annotated[Sequence[str], _Texts()] = ()

    @property
    def out_cursor(self) -> int | None:
        """`last_out_event_id` as a number; `None` if it is absent or no number."""
        return _number(self.last_out_event_id)

    @property
    def in_cursor(self) -> int | None:
        """`last_in_event_id` as a number; `None` if it is absent or no number."""
        return _number(self.last_in_event_id)

    @property
    def in_ahead(self) -> frozenset[int]:
        """`in_event_ids_ahead` as numbers, without what is no number."""
        return frozenset(number for number in map(_number, self.in_event_ids_ahead) if number is not None)

    def to_wire(self) -> dict[str, object]:
        """Return the JSON form; the same as `encode_snapshot`."""
        return encode_snapshot(self)


def encode_snapshot(snapshot: Snapshot) -> dict[str, object]:
    """Return a snapshot's JSON form: camelCase keys, absent fields left out."""
    wire: dict[str, object] = {
        "version": snapshot.version,
        "savedAt": snapshot.saved_at,
        "messages": [message.to_wire() for message in snapshot.messages],
    }
    if snapshot.last_out_event_id is not None:
        wire["lastOutEventId"] = snapshot.last_out_event_id
    if snapshot.last_in_event_id is not None:
        wire["lastInEventId"] = snapshot.last_in_event_id
    if snapshot.in_event_ids_ahead:
        wire["inEventIdsAhead"] = list(snapshot.in_event_ids_ahead)
    return {**wire, **(snapshot.__pydantic_extra__ or {})}


def decode_snapshot(stored: object, *, session_id: str) -> Snapshot:
    """Make a snapshot of what a store holds (rules G-58, G-60).

    Args:
        stored: the JSON form, or its text or bytes.
        session_id: whose snapshot it is, for errors.

    Raises:
        SnapshotVersionError: its version is another than 1.
        SnapshotCorruptError: it does not decode; the error names the first field that is wrong.
    """
    wire = _parsed(stored, session_id) if isinstance(stored, str | bytes) else stored
    if not isinstance(wire, Mapping):
        raise SnapshotCorruptError(session_id=session_id, field="snapshot", problem="it is no JSON object")
    fields = cast("Mapping[str, object]", wire)
    if "version" not in fields:
        raise SnapshotCorruptError(session_id=session_id, field="version", problem="the key is required")
    version = fields["version"]
    if version != SNAPSHOT_VERSION or isinstance(version, bool):
        raise SnapshotVersionError(session_id=session_id, found=version, supported=SNAPSHOT_VERSION)
    known = {key: value for key, value in fields.items() if value is not None or key not in _OPTIONAL}
    try:
        return Snapshot.model_validate({**known, "version": SNAPSHOT_VERSION})
    except ValidationError as error:
        field, _, problem = first_problem(error)
        raise SnapshotCorruptError(session_id=session_id, field=field, problem=problem) from None


_OPTIONAL: Final = ("lastOutEventId", "lastInEventId", "inEventIdsAhead")


def _parsed(text: str | bytes, session_id: str) -> object:
    try:
        return parse_json(text if isinstance(text, str) else text.decode())
    except ValueError as error:
        raise SnapshotCorruptError(session_id=session_id, field="snapshot", problem=f"no JSON: {error}") from None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
