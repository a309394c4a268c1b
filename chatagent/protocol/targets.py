"""What a request is about: the run that an abort stops, the tool call that data is written beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.protocol.errors import MessageNotFoundError, RunNotFoundError, ToolCallNotFoundError
from chatagent.ui import ToolPart

if TYPE_CHECKING:
    from chatagent.protocol.models import Run
    from chatagent.protocol.reducer import ThreadModel
    from chatagent.ui import UIMessage

__all__ = ["abort_target", "call_beside"]


def abort_target(model: ThreadModel, run_id: str | None) -> Run | None:
    """Return the run that an abort stops: the one named, or the one at work or waiting, or the first that is queued.

    Returns:
        The run; `None` where there is nothing to stop.

    Raises:
        RunNotFoundError: the thread has no run of this id.
    """
    if run_id is None:
        return model.active_run or next(iter(model.live.values()), None)
    if run_id not in model.runs:
        raise RunNotFoundError(thread_id=model.thread_id, run_id=run_id)
    return model.live.get(run_id)


def call_beside(model: ThreadModel, *, message_id: str, tool_call_id: str) -> tuple[UIMessage, ToolPart]:
    """Return the message and the tool call in it that data is to stand beside.

    Raises:
        MessageNotFoundError: the thread has no such message.
        ToolCallNotFoundError: the message has no such call.
    """
    message = model.message(message_id)
    if message is None:
        raise MessageNotFoundError(thread_id=model.thread_id, message_id=message_id)
    for part in message.parts:
        if isinstance(part, ToolPart) and part.tool_call_id == tool_call_id:
            return message, part
    raise ToolCallNotFoundError(message_id=message_id, tool_call_id=tool_call_id)
