"""An answer that was streamed, beside what an agent has stored of it itself: nothing, what it went on with, or all.

An agent that keeps its own history may have stored the answer before its turn was over. Values in, values out (G-64).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.agent.merge import tool_parts
from chatagent.agent.replay import reduce_segment
from chatagent.ui import (
    Start,
    StepStartUIPart,
    TextDelta,
    TextUIPart,
    ToolInputAvailable,
    ToolInputError,
    ToolInputStart,
    ToolOutputAvailable,
    ToolOutputDenied,
    ToolOutputError,
    ToolPart,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.ui import Chunk, UIMessage

__all__ = ["answer_beside", "answer_id"]

CALLS = (ToolInputStart, ToolInputAvailable, ToolInputError)
OUTCOMES = (ToolOutputAvailable, ToolOutputError, ToolOutputDenied)
RESOLVED = ("output-available", "output-error", "output-denied")


def answer_id(chunks: Sequence[Chunk]) -> str | None:
    """Return the id of the message that an answer is, as its `start` tells it."""
    return next((chunk.message_id for chunk in chunks if isinstance(chunk, Start)), None)


def answer_beside(
    stored: UIMessage | None, chunks: Sequence[Chunk], question: UIMessage | None, *, is_anew: bool
) -> UIMessage | None:
    """Return the whole answer: the stored message if that has all of it, or else what the chunks make.

    Args:
        stored: the message with the answer's id, if the store has one.
        chunks: the answer as it was streamed.
        question: what was answered; a client's tool answers go on with the message that asked for them.
        is_anew: whether the answer was asked for anew, so that it goes on with no message.
    """
    if stored is None:
        return reduce_segment(chunks)
    if _has_all(stored, chunks):
        return stored
    if question is None:
        return reduce_segment(chunks, None if is_anew else stored)
    return reduce_segment(chunks, _until_it_waited(stored, question) if question.role == "assistant" else None)


def _until_it_waited(stored: UIMessage, answers: UIMessage) -> UIMessage:
    """Return a message without the steps behind the calls that these answers are for."""
    answered = {part.tool_call_id for part in tool_parts(answers)}
    places = [
        place for place, part in enumerate(stored.parts) if isinstance(part, ToolPart) and part.tool_call_id in answered
    ]
    begin = places[-1] if places else len(stored.parts)
    for place in range(begin, len(stored.parts)):
        if isinstance(stored.parts[place], StepStartUIPart):
            return stored.model_copy(update={"parts": tuple(stored.parts[:place])})
    return stored


def _has_all(stored: UIMessage, chunks: Sequence[Chunk]) -> bool:
    """Return whether a message ends with the texts and calls that were streamed, and has the outcomes of the calls."""
    outcomes = {chunk.tool_call_id for chunk in chunks if isinstance(chunk, OUTCOMES)}
    told, kept = _told_by_chunks(chunks), _told_by_parts(stored)
    if not told or not outcomes <= {part.tool_call_id for part in tool_parts(stored) if part.state in RESOLVED}:
        return False
    ending = kept[-len(told) :]
    if len(ending) < len(told) or ending[1:] != told[1:]:
        return False
    (kind, first), (kept_kind, kept_first) = told[0], ending[0]
    return kind == kept_kind and (kept_first.endswith(first) if kind == "text" else kept_first == first)


def _told_by_chunks(chunks: Sequence[Chunk]) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []
    for chunk in chunks:
        if isinstance(chunk, TextDelta):
            _add_text(told, chunk.delta)
        elif isinstance(chunk, CALLS) and ("call", chunk.tool_call_id) not in told:
            told.append(("call", chunk.tool_call_id))
    return told


def _told_by_parts(message: UIMessage) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []
    for part in message.parts:
        if isinstance(part, TextUIPart):
            _add_text(told, part.text)
        elif isinstance(part, ToolPart):
            told.append(("call", part.tool_call_id))
    return told


def _add_text(told: list[tuple[str, str]], text: str) -> None:
    """Add a text; texts next to each other count as one, however they are cut."""
    if not text:
        return
    if told and told[-1][0] == "text":
        told[-1] = ("text", told[-1][1] + text)
    else:
        told.append(("text", text))
