"""Reserved names: who wrote a message and for which run, and which tool calls wait for the client.

Both stand inside the messages, under names that begin with `chatagent`, so that a stored message tells everything
(rules DM-20 to DM-34).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from chatagent.protocol.models import ActionRecord
from chatagent.ui import UNSET, DataChunk, DataUIPart, DynamicToolUIPart, ToolPart, ToolUIPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chatagent.ui import UIPart

__all__ = [
    "RESERVED_KEY",
    "RESERVED_PREFIX",
    "SUSPENSION_TYPE",
    "Ownership",
    "Producer",
    "Relation",
    "SuspensionMark",
    "action_records",
    "is_reserved",
    "mark_of",
    "owned",
    "ownership_of",
    "suspension_chunk",
    "tool_name_of",
    "unresolved_marks",
]

RESERVED_KEY: Final = "chatagent"
"""The key of a message's metadata, and of a tool part's, that belongs to the protocol."""
RESERVED_PREFIX: Final = "data-chatagent-"
"""How the types of reserved parts and chunks begin."""
SUSPENSION_TYPE: Final = "data-chatagent-suspension"

Producer: TypeAlias = Literal["user", "model", "lifecycle", "trigger"]
"""Who wrote a message."""
Relation: TypeAlias = Literal["input", "context", "output", "standalone"]
"""How a message belongs to its run."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who wrote a message, and for which run."""

    producer: Producer
    relation: Relation
    run_id: str | None = None

    def to_wire(self) -> dict[str, object]:
        """Return what stands under the reserved key of the metadata."""
        wire: dict[str, object] = {"producer": self.producer, "relation": self.relation}
        if self.run_id is not None:
            wire["runId"] = self.run_id
        return wire


_GUESSES: Final[dict[str, tuple[Producer, Relation]]] = {
    "user": ("user", "standalone"),
    "assistant": ("model", "standalone"),
    "system": ("lifecycle", "standalone"),
}


def ownership_of(message: UIMessage) -> Ownership:
    """Return who owns a message; one that does not say belongs to no run."""
    guess = _GUESSES[message.role]
    stated = _as_mapping(_as_mapping(message.metadata).get(RESERVED_KEY))
    fields = cast("Mapping[str, str]", stated)
    return Ownership(
        cast("Producer", fields.get("producer", guess[0])),
        cast("Relation", fields.get("relation", guess[1])),
        fields.get("runId"),
    )


def owned(message: UIMessage, ownership: Ownership) -> UIMessage:
    """Return the message with an owner; what else its metadata holds stays."""
    metadata = {**_as_mapping(message.metadata), RESERVED_KEY: ownership.to_wire()}
    return message.model_copy(update={"metadata": metadata})


def is_reserved(part_type: str) -> bool:
    """Return whether parts and chunks of this type are the protocol's own."""
    return part_type.startswith(RESERVED_PREFIX)


def tool_name_of(part: ToolPart) -> str:
    """Return the name of the tool that a part is a call of."""
    return cast("ToolUIPart | DynamicToolUIPart", part).tool_name


@dataclass(frozen=True, slots=True)
class SuspensionMark:
    """A reserved part that says that a tool call waits, or waited, for the client (DM-33)."""

    action_id: str
    tool_call_id: str
    tool_name: str
    name: str
    """The full name, `<tool>.<action>`."""
    suspend_name: str | None
    input: object
    resolution: object = UNSET
    """What was answered; `UNSET` while nobody has."""

    @property
    def action_name(self) -> str:
        """The action's name without the tool's."""
        return self.name.removeprefix(f"{self.tool_name}.")

    def to_data(self) -> dict[str, object]:
        """Return the data of the reserved part."""
        data: dict[str, object] = {
            "toolCallId": self.tool_call_id,
            "toolName": self.tool_name,
            "action": self.name,
        }
        if self.suspend_name is not None:
            data["suspendName"] = self.suspend_name
        data["input"] = self.input
        if self.resolution is not UNSET:
            data["resolution"] = {"value": self.resolution}
        return data


def suspension_chunk(mark: SuspensionMark) -> DataChunk:
    """Return the chunk that writes the reserved part."""
    return DataChunk(type=SUSPENSION_TYPE, id=mark.action_id, data=mark.to_data())


def mark_of(part: UIPart) -> SuspensionMark | None:
    """Return what a reserved part says of a call that waits; `None` for any other part."""
    if not isinstance(part, DataUIPart) or part.type != SUSPENSION_TYPE:
        return None
    data = _as_mapping(part.data)
    resolution = data.get("resolution")
    return SuspensionMark(
        action_id=part.id or "",
        tool_call_id=str(data.get("toolCallId", "")),
        tool_name=str(data.get("toolName", "")),
        name=str(data.get("action", "")),
        suspend_name=cast("str | None", data.get("suspendName")),
        input=data.get("input"),
        resolution=UNSET if resolution is None else _as_mapping(resolution).get("value"),
    )


def _as_mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def unresolved_marks(message: UIMessage) -> list[SuspensionMark]:
    """Return what still waits in a message, approvals included, in the order of the parts.

    A mark counts only if its tool call is there and has no output.
    """
    waiting: list[SuspensionMark] = []
    calls: dict[str, ToolPart] = {}
    for part in message.parts:
        if isinstance(part, ToolPart):
            calls[part.tool_call_id] = part
            if part.state == "approval-requested" and part.approval is not None:
                name = tool_name_of(part)
                waiting.append(
                    SuspensionMark(part.approval.id, part.tool_call_id, name, f"{name}.approval", None, part.input)
                )
            continue
        mark = mark_of(part)
        if mark is not None and mark.resolution is UNSET:
            call = calls.get(mark.tool_call_id)
            if call is not None and call.state == "input-available":
                waiting.append(mark)
    return waiting


def action_records(messages: Iterable[UIMessage], run_id: str) -> tuple[ActionRecord, ...]:
    """Return the pending actions of a run's messages, in the order of the parts (DM-41)."""
    found: list[ActionRecord] = []
    for message in messages:
        for mark in unresolved_marks(message):
            fields: dict[str, object] = {
                "action_id": mark.action_id,
                "run_id": run_id,
                "message_id": message.id,
                "tool_call_id": mark.tool_call_id,
                "tool_name": mark.tool_name,
                "name": mark.name,
                "action_name": mark.action_name,
                "input": mark.input,
            }
            if mark.suspend_name is not None:
                fields["suspend_name"] = mark.suspend_name
            found.append(ActionRecord.model_validate(fields))
    return tuple(found)
