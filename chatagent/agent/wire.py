"""What clients put on `.in`, as the run reads it: wire payloads and the records around them.

Follows chat-agent rules 1.2 and 1.4. Messages are validated here, where they enter, and nowhere behind it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import ValidationError

from chatagent.errors import InvalidMessageError
from chatagent.ui import UIMessage, WireModel, parse_ui_message
from chatagent.ui.validation import first_problem

if TYPE_CHECKING:
    from chatagent.ids import IdGenerator
    from chatagent.session.records import Record

__all__ = [
    "Incoming",
    "Trigger",
    "WirePayload",
    "input_of",
    "is_handover",
    "is_message",
    "is_stop",
    "parse_client_message",
    "parse_payload",
    "read_incoming",
    "record_kind",
    "stop_reason",
]

Trigger = Literal["submit-message", "regenerate-message", "preload", "handover-prepare", "action", "close"]


class WirePayload(WireModel):
    """One message of a client to the agent (rule 1.4)."""

    chat_id: str
    trigger: Trigger | None = None
    """Absent on a continuation boot, and on a boot for what is on `.in` already."""
    message: UIMessage | None = None
    """At most one: a new user message, or an assistant message that carries tool answers."""
    head_start_messages: list[UIMessage] | None = None
    message_id: str | None = None
    metadata: Any = None
    """The client data, not validated yet."""
    action: Any = None
    continuation: bool | None = None
    previous_run_id: str | None = None
    idle_timeout_in_seconds: float | None = None
    session_id: str | None = None
    client_run_id: str | None = None
    """The client's run that the turn works for, if a service keeps such."""
    run_metadata: dict[str, Any] | None = None
    """What the client can read of that run."""

    def without_one_shot_fields(self, **changes: object) -> WirePayload:
        """Return a copy without the message and the head-start history, with some fields changed."""
        dropped = {"message": None, "head_start_messages": None, **changes}
        return self.model_copy(update=dropped)


@dataclass(frozen=True, slots=True)
class Incoming:
    """A payload and the number of the `.in` record that it came with."""

    payload: WirePayload
    seq: int | None
    """`None` for the boot payload and for what the runtime made itself."""
    failure: Exception | None = None
    """Why the record's own payload could not be read; `payload` is then what could be saved of it."""


def input_of(record: Record) -> Mapping[str, Any]:
    """Return what a record of `.in` carries; its data may be an object or the text of one (C-23). Empty if neither."""
    data = record.data
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError):
            return {}
    return cast("dict[str, Any]", data) if isinstance(data, dict) else {}


def record_kind(record: Record) -> str | None:
    """Return what a record of `.in` is: `message`, `stop`, `handover`, `handover-skip`, or `None` for anything else."""
    kind = input_of(record).get("kind")
    return kind if isinstance(kind, str) else None


def is_message(record: Record) -> bool:
    """Return whether a record carries a payload."""
    return record_kind(record) == "message"


def is_stop(record: Record) -> bool:
    """Return whether a record asks to stop the turn."""
    return record_kind(record) == "stop"


def stop_reason(record: Record) -> str:
    """Return what the signals that a stop aborts show as their reason (C-112)."""
    return input_of(record).get("message") or "stopped"


def is_handover(record: Record) -> bool:
    """Return whether a record ends a head start, in one way or the other."""
    return record_kind(record) in ("handover", "handover-skip")


def parse_payload(wire: object, *, new_id: IdGenerator, allow_system: bool) -> WirePayload:
    """Read a payload; messages without an id get one (G-57).

    Args:
        wire: the payload's JSON object.
        new_id: makes ids for messages that have none.
        allow_system: whether a client may send system messages (D13).

    Raises:
        InvalidMessageError: a field is missing or of the wrong kind, or the message is refused; the error names it.
    """
    if not isinstance(wire, Mapping):
        raise InvalidMessageError(field="payload", value=wire, problem="a payload is a JSON object")
    fields = dict(cast("Mapping[str, Any]", wire))
    message, history = fields.pop("message", None), fields.pop("headStartMessages", None)
    try:
        payload = WirePayload.model_validate(fields)
    except ValidationError as exc:
        field, value, problem = first_problem(exc)
        raise InvalidMessageError(field=field, value=value, problem=problem) from exc
    changes: dict[str, object] = {}
    if message is not None:
        changes["message"] = parse_client_message(message, new_id=new_id, allow_system=allow_system)
    if history is not None:
        changes["head_start_messages"] = _parse_history(history, new_id)
    return payload.model_copy(update=changes) if changes else payload


def _parse_history(history: object, new_id: IdGenerator) -> list[UIMessage]:
    if not isinstance(history, list | tuple):
        raise InvalidMessageError(field="headStartMessages", value=history, problem="give a list of messages")
    return [parse_ui_message(each, generate_id=new_id) for each in cast("list[Any]", history)]


def parse_client_message(message: object, *, new_id: IdGenerator, allow_system: bool) -> UIMessage:
    """Read a message that a client sends; one without an id, or with an empty one, gets one (G-57).

    Raises:
        InvalidMessageError: it breaks its format, or is a system message and those are not allowed (D13).
    """
    if isinstance(message, UIMessage) and not message.id:
        message = message.model_copy(update={"id": new_id()})
    elif isinstance(message, Mapping) and message.get("id", "") in (None, ""):  # pyright: ignore[reportUnknownMemberType] - JSON
        message = {**cast("Mapping[str, Any]", message), "id": new_id()}
    parsed = parse_ui_message(cast("Any", message), generate_id=new_id)
    if parsed.role == "system" and not allow_system:
        raise InvalidMessageError(
            field="role",
            value="system",
            problem="system messages come from the server; an agent may allow them with allow_client_system_messages",
        )
    return parsed


def read_incoming(record: Record, *, chat_id: str, new_id: IdGenerator, allow_system: bool) -> Incoming:
    """Read the payload of a `message` record; one that cannot be read becomes a turn that fails with the reason."""
    try:
        return Incoming(
            parse_payload(input_of(record).get("payload"), new_id=new_id, allow_system=allow_system), record.seq
        )
    except InvalidMessageError as exc:
        return Incoming(WirePayload(chat_id=chat_id, trigger="submit-message"), record.seq, exc)
