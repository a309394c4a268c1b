"""What a backend keeps for itself, and what it hands out: values that could change are two objects (rule IN-4).

In one process nothing goes over a wire, so a client that changes a dict inside a part would change the backend's too.
What holds text alone is shared: nobody can change it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final, TypeVar

from chatagent.protocol import events as e
from chatagent.ui import (
    Abort,
    Error,
    File,
    Finish,
    FinishStep,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    SourceUrl,
    Start,
    StartStep,
    TextDelta,
    TextEnd,
    TextStart,
    TextUIPart,
    ToolApprovalRequest,
    ToolApprovalResponse,
    ToolInputDelta,
    ToolOutputDenied,
    ToolOutputError,
)

if TYPE_CHECKING:
    from chatagent.ui import UIMessage

__all__ = ["PLAIN_CHUNKS", "own_event"]

EventT = TypeVar("EventT")

PLAIN_CHUNKS: Final[frozenset[type]] = frozenset(
    {
        Abort,
        Error,
        File,
        FinishStep,
        ReasoningDelta,
        ReasoningEnd,
        ReasoningStart,
        SourceUrl,
        StartStep,
        TextDelta,
        TextEnd,
        TextStart,
        ToolApprovalRequest,
        ToolApprovalResponse,
        ToolInputDelta,
        ToolOutputDenied,
        ToolOutputError,
    }
)
"""The chunks whose fields are texts, or metadata that no script writes."""


def _is_plain_message(message: UIMessage) -> bool:
    """Return whether a message holds text alone, besides who owns it."""
    return all(type(part) is TextUIPart for part in message.parts)


def own_event(event: EventT) -> EventT:
    """Return the event, or a copy of it if it holds values that could be changed."""
    if type(event) is e.GenerationMessageChunk and type(event.chunk) in PLAIN_CHUNKS:
        return event  # what comes by the thousand is told apart at once
    return event if _is_plain(event) else copy.deepcopy(event)


def _is_plain(event: object) -> bool:
    match event:
        case e.GenerationMessageChunk(chunk=chunk):
            return _has_no_metadata(chunk)
        case e.MessageAdded(message=message):
            return False if not _is_plain_message(message) else len(_keys(message.metadata)) <= 1
        case e.GenerationWaiting():
            return False
        case e.ThreadUpdated(head=head) | e.ThreadHeadChanged(head=head):
            return not head.metadata
        case _:
            run = getattr(event, "run", None)
            return run is None or not run.metadata


def _has_no_metadata(chunk: object) -> bool:
    return isinstance(chunk, Start | Finish) and not isinstance(chunk.message_metadata, dict)


def _keys(metadata: object) -> dict[str, object]:
    return metadata if isinstance(metadata, dict) else {}  # pyright: ignore[reportUnknownVariableType]
