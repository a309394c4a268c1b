"""Records: what lies on a session's two logs, and the names of their headers.

A record carries data (a chunk on `.out`, an input on `.in`), or it is a control record (`trigger-control` names its
subtype), or a command to the log itself (the first header's name is empty). Rules C-10 to C-16 and ST-31, ST-34.
Records are made by the ten thousand: slotted, frozen for a type checker only, and shared by all who read them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar, cast, dataclass_transform

from chatagent.errors import InvalidArgumentError
from chatagent.session.values import json_text

__all__ = [
    "LAST_EVENT_ID",
    "PUBLIC_ACCESS_TOKEN",
    "RUN_BOOT_ID",
    "SESSION_IN_EVENT_ID",
    "SESSION_IN_EVENT_IDS_AHEAD",
    "STOPPED",
    "TRIGGER_CONTROL",
    "TURN_COMPLETE",
    "TURN_IN_EVENT_ID",
    "UPGRADE_REQUIRED",
    "Direction",
    "Headers",
    "NewRecord",
    "Record",
    "body_text",
    "control_record",
    "control_type",
    "header",
    "is_command",
    "slotted",
    "trim_point",
    "trim_record",
]

Direction = Literal["in", "out"]
"""Which log: `in` is what clients send to the agent, `out` what the agent sends to them."""

Headers = tuple[tuple[str, str], ...]
"""Names and values, in order; the first match of a name counts."""

TRIGGER_CONTROL: Final = "trigger-control"
"""Header that makes a record a control record; its value is the subtype."""

TURN_COMPLETE: Final = "turn-complete"
"""Control subtype: the turn is over."""

UPGRADE_REQUIRED: Final = "upgrade-required"
"""Control subtype: a newer version of the agent takes over."""

PUBLIC_ACCESS_TOKEN: Final = "public-access-token"
"""Header of a turn-complete: a refreshed token for clients."""

SESSION_IN_EVENT_ID: Final = "session-in-event-id"
"""Header of a turn-complete: the committed cursor of `.in`."""

SESSION_IN_EVENT_IDS_AHEAD: Final = "session-in-event-ids-ahead"
"""Header of a turn-complete: the records of `.in` above the committed cursor that are done with, between commas."""

LAST_EVENT_ID: Final = "last-event-id"
"""Header reserved for a head-start bridge."""

TURN_IN_EVENT_ID: Final = "turn-in-event-id"
"""Header of a turn's first data record: the number of the `.in` record that the turn answers."""

STOPPED: Final = "stopped"
"""Header of a turn-complete: the client has stopped the turn; its value is `true`."""

RUN_BOOT_ID: Final = "run-boot-id"
"""Header of the first data record that a run writes before its first turn: the run's id."""

_TRIM: Final[Headers] = (("", "trim"),)

ClassT = TypeVar("ClassT", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def slotted(cls: ClassT) -> ClassT:
    """Make a class a slotted dataclass, frozen for a type checker and cheap to make at run time."""
    return cast("ClassT", dataclass(slots=True)(cls))


@slotted
class NewRecord:
    """What is to be appended."""

    data: object = None
    """A JSON value, a chunk or a typed payload; `None` for control records, the number for a trim."""
    headers: Headers = ()
    id: str | None = None
    """Stands beside `data` on the wire, for clients that drop doubles; a store does not interpret it."""


@slotted
class Record(NewRecord):
    """A record as it lies on its log."""

    seq: int = -1
    """Its number; 0 is the log's first, and none is left out or used twice."""
    appended_at: float = 0.0
    """When it was appended, on the store's clock."""

    def __eq__(self, other: object) -> bool:
        # By value also between a record that was kept and one that was read from a disk.
        return isinstance(other, Record) and _values(self) == _values(other)

    def body(self) -> str:
        """Return the wire text (rule P-22): `{"data", "id"}` as JSON, empty for a control record."""
        return body_text(self)


def _values(record: Record) -> tuple[object, ...]:
    return (record.seq, record.headers, record.id, record.data, record.appended_at)


def body_text(record: NewRecord) -> str:
    """Return a record's wire text: `{"data", "id"}` as JSON, empty for control records, a number for a trim."""
    if is_command(record) or control_type(record) is not None:
        return "" if record.data is None else json_text(record.data)
    return json_text({"data": record.data} if record.id is None else {"data": record.data, "id": record.id})


def header(record: NewRecord, name: str) -> str | None:
    """Return the value of the first header of that name; `None` if there is none."""
    for each, value in record.headers:
        if each == name:
            return value
    return None


def is_command(record: NewRecord) -> bool:
    """Return whether the record is for the log itself: readers pass it by and move their cursor only."""
    headers = record.headers
    return bool(headers) and headers[0][0] == ""


def control_type(record: NewRecord) -> str | None:
    """Return the subtype of a control record; `None` for data and commands."""
    if not record.headers or is_command(record):
        return None
    return header(record, TRIGGER_CONTROL)


def control_record(subtype: str, **siblings: str | int | None) -> NewRecord:
    """Make a control record.

    Args:
        subtype: `turn-complete` or `upgrade-required`.
        siblings: further headers, `public_access_token` for `public-access-token`; `None` leaves one out.
    """
    further = ((name.replace("_", "-"), str(value)) for name, value in siblings.items() if value is not None)
    return NewRecord(headers=((TRIGGER_CONTROL, subtype), *further))


def trim_record(*, before: int) -> NewRecord:
    """Make the command that removes all records of its log below the number `before` (rule ST-31)."""
    if before < 0:
        raise InvalidArgumentError(argument="before", value=before, problem="a log's numbers begin at 0")
    return NewRecord(before, _TRIM)


def trim_point(record: NewRecord) -> int | None:
    """Return the number below which a trim command removes; `None` for any other record."""
    if record.headers != _TRIM or type(record.data) is not int:
        return None
    return record.data
