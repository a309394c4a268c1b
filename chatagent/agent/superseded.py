"""Approvals that came too late: the user had moved on before the tool could run (G-63).

The history keeps the answer as it was given. Only what the model is shown differs: a call without an outcome in front
of later messages is an error for every provider, so such a call counts as denied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeGuard

from chatagent.ui import DynamicToolUIPart, ToolUIPart

if TYPE_CHECKING:
    from chatagent.ui import UIMessage, UIPart

__all__ = ["deny_what_was_superseded", "waits_for_its_tool"]

SUPERSEDED: Final = "The approval came after the conversation had moved on; the tool was not run."
"""The reason that the model is given."""


def waits_for_its_tool(message: UIMessage) -> bool:
    """Return whether a call of the message is approved and its tool has not run."""
    return message.role == "assistant" and any(_is_waiting(part) for part in message.parts)


def deny_what_was_superseded(message: UIMessage) -> UIMessage:
    """Return the message with every approved call whose tool has not run as a denied one, with the reason."""
    return message.model_copy(update={"parts": tuple(_denied(part) for part in message.parts)})


def _is_waiting(part: UIPart) -> TypeGuard[ToolUIPart | DynamicToolUIPart]:
    return (
        isinstance(part, ToolUIPart | DynamicToolUIPart)
        and part.state == "approval-responded"
        and (part.approval is not None and part.approval.approved is not False)
    )


def _denied(part: UIPart) -> UIPart:
    if not _is_waiting(part) or part.approval is None:
        return part
    approval = part.approval.model_copy(update={"approved": False, "reason": SUPERSEDED})
    return part.model_copy(update={"approval": approval})
