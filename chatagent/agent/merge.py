"""Merging messages: tool answers into stored calls, histories into one (rules M-1, M-10, M-11, W-4, W-5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from chatagent.agent.questions import with_answers
from chatagent.ui import DynamicToolUIPart, ToolUIPart, UIMessage, UIPart

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ToolCallMap",
    "merge_by_id_replace_wins",
    "merge_incoming_into_stored",
    "slim_submit_message_for_wire",
    "upsert_incoming_message",
]

AnyToolPart: TypeAlias = ToolUIPart | DynamicToolUIPart

_ADVANCED = ("output-available", "output-error", "approval-responded", "output-denied")
_TERMINAL = ("output-available", "output-error", "output-denied")
_CARRIED: dict[str, tuple[str, ...]] = {
    "output-available": ("output", "approval"),
    "output-error": ("error_text", "approval"),
    "approval-responded": ("approval",),
    "output-denied": ("approval",),
}
"""Which fields a tool part brings along in each state that a client can put it into."""


def tool_parts(message: UIMessage) -> list[AnyToolPart]:
    """Return the tool parts of a message, static and dynamic, in order."""
    return [part for part in message.parts if isinstance(part, ToolUIPart | DynamicToolUIPart)]


def merge_incoming_into_stored(stored: UIMessage, incoming: UIMessage) -> UIMessage:
    """Return the stored message with the tool progress of the incoming one laid over it (M-10).

    The stored message wins in everything but tool progress, and final states never go back. A message that nothing
    changed in is returned itself.
    """
    progress = {
        part.tool_call_id: part for part in tool_parts(incoming) if part.tool_call_id and part.state in _ADVANCED
    }
    parts = tuple(
        _overlay(part, progress.get(part.tool_call_id)) if isinstance(part, ToolUIPart | DynamicToolUIPart) else part
        for part in stored.parts
    )
    if all(new is old for new, old in zip(parts, stored.parts, strict=True)):
        return stored
    return stored.model_copy(update={"parts": parts})


def _overlay(stored: AnyToolPart, incoming: AnyToolPart | None) -> AnyToolPart:
    if incoming is None or stored.state in _TERMINAL or stored.state == incoming.state:
        return stored
    answered = with_answers(stored, incoming)
    if answered is not None:
        return answered
    update: dict[str, object] = {"state": incoming.state}
    for name in _CARRIED[incoming.state]:
        if name in incoming.model_fields_set:
            update[name] = getattr(incoming, name)
    return stored.model_copy(update=update)


class ToolCallMap:
    """Which assistant message each tool call belongs to (M-11): clients may answer under a made-up message id."""

    __slots__ = ("_owners",)

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def record(self, message: UIMessage) -> None:
        """Remember the calls of an assistant message."""
        if message.role == "assistant" and message.id:
            for part in tool_parts(message):
                if part.tool_call_id:
                    self._owners[part.tool_call_id] = message.id

    def owner_of(self, message: UIMessage) -> str | None:
        """Return the id of the message that has one of these calls already; the first call that is known decides."""
        owners = (self._owners.get(part.tool_call_id) for part in tool_parts(message))
        return next((owner for owner in owners if owner is not None), None)


def merge_by_id_replace_wins(a: Sequence[UIMessage], b: Sequence[UIMessage]) -> list[UIMessage]:
    """Return `a` with the messages of `b`: at the place of their id, else behind (M-1). Neither list is changed."""
    merged = list(a)
    places = {message.id: place for place, message in enumerate(merged) if message.id}
    for message in b:
        place = places.get(message.id) if message.id else None
        if place is not None:
            merged[place] = message
            continue
        if message.id:
            places[message.id] = len(merged)
        merged.append(message)
    return merged


class IncomingEvent(Protocol):
    """What `upsert_incoming_message` reads of a hydrate event."""

    @property
    def trigger(self) -> Any: ...
    @property
    def incoming_messages(self) -> Sequence[UIMessage]: ...


def upsert_incoming_message(stored: list[UIMessage], event: IncomingEvent) -> bool:
    """Append the message that a turn brings to a stored history, unless it is there already (W-5).

    Args:
        stored: your history; appended to in place.
        event: the event of `hydrate_messages`.

    Returns:
        Whether a message was appended. Only the last incoming message of a `submit-message` turn ever is.
    """
    if event.trigger != "submit-message" or not event.incoming_messages:
        return False
    message = event.incoming_messages[-1]
    if message.id and any(known.id == message.id for known in stored):
        return False
    stored.append(message)
    return True


def slim_submit_message_for_wire(message: UIMessage | None) -> UIMessage | None:
    """Return what a client needs to send of a message (W-4): of an assistant message only its tool answers.

    A message without answers is returned itself.
    """
    if message is None or message.role != "assistant":
        return message
    answers = [part for part in tool_parts(message) if part.state in _ADVANCED]
    if not answers:
        return message
    slim: list[UIPart] = [_slim(part) for part in answers]
    return UIMessage(id=message.id, role=message.role, parts=slim)


def _slim(part: AnyToolPart) -> AnyToolPart:
    fields: dict[str, object] = {"type": part.type, "tool_call_id": part.tool_call_id, "state": part.state}
    if isinstance(part, DynamicToolUIPart):
        fields["tool_name"] = part.tool_name
    fields |= {name: getattr(part, name) for name in _CARRIED[part.state] if name in part.model_fields_set}
    return type(part).model_validate(fields)
