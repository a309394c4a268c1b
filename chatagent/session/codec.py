"""Records as text: the one form in which every store that writes to a disk or a socket keeps them (rule ST-4).

A record is two texts, its headers and its body, beside the number and the instant that the store keeps in columns of
its own. What is read back parses its body only when somebody asks for the data: a server that passes records on needs
none of it. The form of values is in `values.py`, that of snapshots in `snapshot.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from chatagent.errors import ChunkError
from chatagent.session.records import Record, body_text, control_type, is_command
from chatagent.session.values import json_text
from chatagent.ui.codec import parse_chunk
from chatagent.ui.strict_json import parse_json

if TYPE_CHECKING:
    from chatagent.session.records import Direction, Headers, NewRecord

__all__ = ["EncodedRecord", "decode_record", "encode_record"]


class EncodedRecord(NamedTuple):
    """A record's two texts."""

    headers: str
    """A JSON list of `[name, value]` pairs; empty for none."""
    body: str
    """The wire text, as `Record.body` returns it."""


def encode_record(record: NewRecord) -> EncodedRecord:
    """Return a record's two texts.

    Raises:
        InvalidArgumentError: JSON cannot hold the data; a checked record never raises it.
    """
    return EncodedRecord(json_text(record.headers) if record.headers else "", body_text(record))


def decode_record(direction: Direction, encoded: EncodedRecord, *, seq: int, appended_at: float) -> Record:
    """Return the record of two texts. Its body is parsed when its data are first asked for.

    Args:
        direction: the log that it was read from; data of `.out` become chunks where they are some.
        encoded: the texts.
        seq: its number.
        appended_at: when it was appended, on the store's clock.

    Raises:
        ValueError: the headers are no JSON; for the body, raised when the data are asked for.
    """
    headers: Headers = ()
    if encoded.headers:
        pairs = cast("list[list[str]]", parse_json(encoded.headers))
        headers = tuple((name, value) for name, value in pairs)
    return _StoredRecord(direction, encoded.body, headers, seq, appended_at)


class _StoredRecord(Record):
    """A record that was read from a disk: `data` and `id` stay unset until somebody asks for one of them."""

    __slots__ = ("_direction", "_text")

    def __init__(self, direction: Direction, text: str, headers: Headers, seq: int, appended_at: float) -> None:
        self._direction, self._text = direction, text
        self.headers, self.seq, self.appended_at = headers, seq, appended_at  # pyright: ignore[reportAttributeAccessIssue] - frozen for others

    def __getattr__(self, name: str) -> object:
        """Parse the body; called for a slot that is not set yet, and for names that are none."""
        if name not in ("data", "id"):
            raise AttributeError(f"a record has no attribute {name!r}")
        self.data, self.id = self._parsed()  # pyright: ignore[reportAttributeAccessIssue] - frozen for others
        return self.data if name == "data" else self.id

    def body(self) -> str:
        """Return the wire text, as it was stored."""
        return self._text

    def _parsed(self) -> tuple[object, str | None]:
        if is_command(self) or control_type(self) is not None:
            return (parse_json(self._text) if self._text else None), None
        body = cast("dict[str, object]", parse_json(self._text))
        data = body.get("data")
        if self._direction == "out" and isinstance(data, dict):
            data = _chunk_or_data(cast("dict[str, object]", data))
        return data, cast("str | None", body.get("id"))


def _chunk_or_data(data: dict[str, object]) -> object:
    """Make a chunk where it is one; what readers must skip (rule C-23) or stop at stays as it came."""
    if not isinstance(data.get("type"), str):
        return data
    try:
        return parse_chunk(data, allow_unknown=True)
    except ChunkError:
        return data
