"""The limits of ids, keys and what may be appended, the same in every store (rules ST-10, ST-27, ST-30)."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

from chatagent.errors import InvalidArgumentError, RecordTooLargeError
from chatagent.session.records import body_text
from chatagent.session.values import BYTES_PER_WEIGHT, weigh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.session.records import Headers, NewRecord

__all__ = [
    "LIGHT_BODY",
    "MAX_BATCH",
    "MAX_RECORDS",
    "check_key",
    "check_limit",
    "check_session_id",
    "weigh_batch",
    "weigh_record",
]

MAX_BODY: Final = (1 << 20) - 8
"""Bytes of a record's wire text."""

MAX_RECORDS: Final = 1000
MAX_BATCH: Final = 4 << 20
"""Bytes of a batch's wire texts."""

MAX_HEADERS: Final = 32
MAX_HEADER: Final = 1024
"""Bytes of a header, name and value together."""

_ENVELOPE: Final = 16
"""Weight of the wire text around the data."""

LIGHT_BODY: Final = MAX_BODY // BYTES_PER_WEIGHT - _ENVELOPE
"""Data up to this weight is below the limit, whatever it is made of."""


def weigh_batch(records: Sequence[NewRecord]) -> list[int]:
    """Check a batch and return the weights of its records.

    Raises:
        InvalidArgumentError: the batch is empty, or JSON cannot hold a value.
        RecordTooLargeError: the batch or one of its records is above a limit.
    """
    if not records:
        raise InvalidArgumentError(argument="records", value=records, problem="a batch has one record at least")
    if len(records) > MAX_RECORDS:
        raise RecordTooLargeError(field="records", size=len(records), limit=MAX_RECORDS)
    weights = [weigh_record(record, index) for index, record in enumerate(records)]
    if sum(weights) * BYTES_PER_WEIGHT > MAX_BATCH:
        size = sum(len(body_text(record).encode()) for record in records)
        if size > MAX_BATCH:
            raise RecordTooLargeError(field="the batch", size=size, limit=MAX_BATCH)
    return weights


def weigh_record(record: NewRecord, index: int) -> int:
    """Check one record of a batch and return its weight."""
    weight = weigh(record.data, f"records[{index}].data") + _ENVELOPE
    if record.id is not None:
        weight += weigh(record.id, f"records[{index}].id")
    if record.headers:
        _check_headers(record.headers, index)
    if weight * BYTES_PER_WEIGHT > MAX_BODY:
        size = len(body_text(record).encode())
        if size > MAX_BODY:
            raise RecordTooLargeError(field=f"records[{index}].data", size=size, limit=MAX_BODY)
    return weight


def _check_headers(headers: Headers, index: int) -> None:
    field = f"records[{index}].headers"
    if len(headers) > MAX_HEADERS:
        raise RecordTooLargeError(field=field, size=len(headers), limit=MAX_HEADERS)
    for position, (name, value) in enumerate(headers):
        size = len(name.encode("utf-8", "surrogatepass")) + len(value.encode("utf-8", "surrogatepass"))
        if size > MAX_HEADER:
            raise RecordTooLargeError(field=f"{field}[{position}]", size=size, limit=MAX_HEADER)


def check_session_id(session_id: str) -> None:
    """Refuse what is no external id of a session."""
    problem = ""
    if not 1 <= len(session_id) <= 256:
        problem = "a session's id has 1 to 256 characters"
    elif session_id.startswith("session_"):
        problem = "ids that begin with `session_` are given by the store"
    elif any(unicodedata.category(character) == "Cc" for character in session_id):
        problem = "a session's id has no control characters"
    if problem:
        raise InvalidArgumentError(argument="session_id", value=session_id, problem=problem)


def check_key(key: str) -> str:
    """Refuse what is no key of a batch; return it otherwise."""
    if not 1 <= len(key) <= 128:
        raise InvalidArgumentError(argument="key", value=key, problem="a key has 1 to 128 characters")
    return key


def check_limit(limit: int) -> int:
    """Refuse what is no limit of a page; return it otherwise."""
    if limit < 1:
        raise InvalidArgumentError(argument="limit", value=limit, problem="a limit is 1 or more")
    return limit
