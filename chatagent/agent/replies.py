"""Answers that code gives instead of a model: a text or a UI message as the chunks that a model's stream would have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.ui import (
    Chunk,
    FileUIPart,
    Finish,
    FinishStep,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ReasoningUIPart,
    Start,
    StartStep,
    StepStartUIPart,
    TextDelta,
    TextEnd,
    TextStart,
    TextUIPart,
    UIMessage,
    UIPart,
    parse_chunk,
    to_wire,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["message_chunks"]

_SAME_ON_THE_WIRE = ("source-url", "source-document", "custom", "reasoning-file")


def message_chunks(message: UIMessage) -> Iterator[Chunk]:
    """Yield the stream of one step that says what a message says, under its id (G-23).

    Text, reasoning, files, sources and data parts are sent; tool parts are not: no model has called those tools.
    """
    yield Start(message_id=message.id)
    yield StartStep()
    for number, part in enumerate(message.parts, start=1):
        yield from _part_chunks(part, f"part-{number}")
    yield FinishStep()
    yield Finish(finish_reason="stop")


def _part_chunks(part: UIPart, block_id: str) -> Iterator[Chunk]:
    if isinstance(part, TextUIPart):
        yield TextStart(id=block_id)
        yield TextDelta(id=block_id, delta=part.text)
        yield TextEnd(id=block_id)
    elif isinstance(part, ReasoningUIPart):
        yield ReasoningStart(id=block_id)
        yield ReasoningDelta(id=block_id, delta=part.text)
        yield ReasoningEnd(id=block_id)
    elif isinstance(part, FileUIPart):
        yield parse_chunk({"type": "file", "url": part.url, "mediaType": part.media_type})
    elif part.type in _SAME_ON_THE_WIRE or part.type.startswith("data-"):
        yield parse_chunk(to_wire(part))
    elif isinstance(part, StepStartUIPart):
        return
