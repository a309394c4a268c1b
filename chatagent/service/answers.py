"""What a client has answered, as the agent is told it: an assistant message of answers alone (MP-14, MP-16, MP-18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from chatagent.agent import RESUME_KEY, slim_submit_message_for_wire
from chatagent.protocol import SuspensionMark, mark_of
from chatagent.ui import UNSET, ToolPart, to_wire

if TYPE_CHECKING:
    from chatagent.ui import UIMessage

__all__ = ["answers_of"]


def answers_of(message: UIMessage) -> dict[str, Any]:
    """Return the message that brings the answers to its calls, in wire form.

    The output of a client's tool and the answer to an approval stand in the state of the call. The answer to a question
    of a tool stands beside it; the call says `approval-responded`, since what is open is cleaned away.
    """
    slim = slim_submit_message_for_wire(message)
    has_states = slim is not message
    wire: dict[str, Any] = {"id": message.id, "role": message.role, "parts": []}
    if has_states and slim is not None:
        wire = to_wire(slim)
    marks = [mark for part in message.parts if (mark := mark_of(part)) is not None]
    parts = cast("list[dict[str, Any]]", wire["parts"])
    for part in message.parts:
        if isinstance(part, ToolPart) and part.state == "input-available":
            told = [_told(mark) for mark in marks if _answers(mark, part)]
            if told:
                parts.append(_resumed(part, told))
    return wire


def _answers(mark: SuspensionMark, part: ToolPart) -> bool:
    is_question = mark.suspend_name is not None and mark.resolution is not UNSET
    return is_question and mark.tool_call_id == part.tool_call_id


def _told(mark: SuspensionMark) -> dict[str, Any]:
    return {"actionId": mark.action_id, "name": mark.suspend_name, "value": mark.resolution}


def _resumed(part: ToolPart, told: list[dict[str, Any]]) -> dict[str, Any]:
    shown = to_wire(part)
    resumed: dict[str, Any] = {key: shown[key] for key in ("type", "toolName", "toolCallId") if key in shown}
    return {
        **resumed,
        "state": "approval-responded",
        "approval": {"id": told[-1]["actionId"], "approved": True},
        RESUME_KEY: told,
    }
