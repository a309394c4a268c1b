"""What an interrupted message is cleaned of before it is kept (rules C-60 to C-64)."""

from __future__ import annotations

from chatagent.ui.messages import ReasoningUIPart, TextUIPart, ToolPart, UIMessage, UIPart

__all__ = ["cleanup_aborted_parts"]

_UNFINISHED = ("partial-call", "input-available", "input-streaming")


def cleanup_aborted_parts(message: UIMessage) -> UIMessage:
    """Return the message without tool calls that have no answer, its open texts closed (C-63).

    Tool parts in `partial-call`, `input-available` or `input-streaming` are removed; text and reasoning parts that were
    `streaming` become `done`; everything else stays as it is. A message that needs no cleaning is returned itself.
    """
    kept = [_closed(part) for part in message.parts if not _is_unfinished(part)]
    if len(kept) == len(message.parts) and all(new is old for new, old in zip(kept, message.parts, strict=True)):
        return message
    return message.model_copy(update={"parts": tuple(kept)})


def _is_unfinished(part: UIPart) -> bool:
    return isinstance(part, ToolPart) and part.state in _UNFINISHED


def _closed(part: UIPart) -> UIPart:
    if isinstance(part, TextUIPart | ReasoningUIPart) and part.state == "streaming":
        return part.model_copy(update={"state": "done"})
    return part
