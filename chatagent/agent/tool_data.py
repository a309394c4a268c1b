"""Data that clients write beside a tool call: a reserved action, which reaches the history and no hook (MP-19)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from chatagent.ui import DataChunk, DataUIPart

if TYPE_CHECKING:
    from chatagent.agent.run import AgentRun
    from chatagent.ui import UIMessage

__all__ = ["TOOL_DATA_ACTION", "apply_tool_data", "is_tool_data", "tool_data_action"]

logger = logging.getLogger("chatagent")

TOOL_DATA_ACTION: Final = "chatagent:tool-data"
"""The `type` of the reserved action."""


def tool_data_action(*, message_id: str, channel: str, data_id: str, value: object) -> dict[str, Any]:
    """Return the action that writes data into a message."""
    return {
        "type": TOOL_DATA_ACTION,
        "messageId": message_id,
        "channel": channel,
        "dataId": data_id,
        "value": value,
    }


def is_tool_data(action: object) -> bool:
    """Return whether an action is the reserved one."""
    return isinstance(action, Mapping) and cast("Mapping[str, object]", action).get("type") == TOOL_DATA_ACTION


def apply_tool_data(run: AgentRun, action: Mapping[str, Any]) -> None:
    """Put the data into its message in the chain, and tell those who read the session; an unknown message is logged."""
    conversation = run.state.conversation
    position = conversation.chain.position(str(action["messageId"]))
    if position is None:
        logger.warning("session %r: data came for message %r, which is gone", run.chat_id, action["messageId"])
        return
    kind, data_id, value = f"data-{action['channel']}", str(action["dataId"]), action["value"]
    message = _with_data(conversation.chain[position], DataUIPart(type=kind, id=data_id, data=value))
    # The model list stays as it is: a data part is nothing to the model.
    conversation.chain = conversation.chain.replace(position, message)
    run.out.write(DataChunk(kind, value, data_id))


def _with_data(message: UIMessage, data: DataUIPart) -> UIMessage:
    places = [
        place
        for place, part in enumerate(message.parts)
        if isinstance(part, DataUIPart) and part.type == data.type and part.id == data.id
    ]
    parts = [*message.parts]
    if places:
        parts[places[0]] = data
    else:
        parts.append(data)
    return message.model_copy(update={"parts": tuple(parts)})
