"""Hypothesis strategies for chunk sequences as a model and its tools make them: all begun, nothing out of order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from chatagent.ui import (
    Custom,
    File,
    Finish,
    FinishStep,
    MessageMetadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
    ReasoningStart,
    SourceDocument,
    SourceUrl,
    Start,
    StartStep,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
    ToolApprovalResponse,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputError,
    ToolInputStart,
    ToolOutputAvailable,
    ToolOutputDenied,
    ToolOutputError,
)
from ui.strategies import DATA_CHUNKS, JSON, METADATA, NAMES, OBJECTS, STEERING_CHUNKS, TEXTS, chunk_of

if TYPE_CHECKING:
    from chatagent.ui import Chunk

SINGLE = st.one_of(
    *(chunk_of(cls) for cls in (File, ReasoningFile, SourceUrl, SourceDocument, Custom, MessageMetadata)),
    DATA_CHUNKS,
    STEERING_CHUNKS,
).map(lambda chunk: [chunk])


@st.composite
def block(draw: st.DrawFn) -> list[Chunk]:
    """A text or reasoning block, perhaps still open."""
    begin, more, end = draw(
        st.sampled_from([(TextStart, TextDelta, TextEnd), (ReasoningStart, ReasoningDelta, ReasoningEnd)])
    )
    metadata: Any = draw(st.none() | METADATA)
    chunks: list[Any] = [begin("b", metadata), *(more("b", delta) for delta in draw(st.lists(TEXTS, max_size=3)))]
    return chunks + ([end("b")] if draw(st.booleans()) else [])


LIVES = ("refused", "run", "run at once", "granted", "denied")


@st.composite
def call(draw: st.DrawFn) -> list[Chunk]:
    """A tool call under the id `CALL`, left at any point of its life."""
    life = draw(st.sampled_from(LIVES))
    dynamic = draw(st.none() | st.just(True))
    common: dict[str, Any] = {"tool_call_id": "CALL", "tool_name": draw(NAMES), "dynamic": dynamic}
    chunks: list[Chunk] = [] if life == "run at once" else draw(_begun(common))
    if life == "refused":
        chunks.append(ToolInputError(**common, input=draw(JSON), error_text="e"))
    else:
        told: Any = draw(st.none() | OBJECTS)
        chunks.append(ToolInputAvailable(**common, input=draw(JSON), tool_metadata=told))
    if life in ("granted", "denied"):
        asked = draw(chunk_of(ToolApprovalRequest).map(lambda chunk: _named(chunk, "CALL", "APPROVAL")))
        chunks += [asked, ToolApprovalResponse("APPROVAL", life == "granted", draw(st.none() | TEXTS))]
    if life == "denied":
        chunks.append(ToolOutputDenied("CALL"))
    elif life != "refused":
        chunks += draw(_answer())
    return chunks[: draw(st.integers(1, len(chunks)))]


@st.composite
def _begun(draw: st.DrawFn, common: dict[str, Any]) -> list[Chunk]:
    encoding: Any = draw(st.sampled_from([None, "json", "text"]))
    deltas = draw(st.lists(st.sampled_from(['{"a', '":1', "}"]), max_size=3))
    return [
        ToolInputStart(**common, input_encoding=encoding, title=draw(st.none() | TEXTS)),
        *(ToolInputDelta("CALL", delta) for delta in deltas),
    ]


@st.composite
def _answer(draw: st.DrawFn) -> list[Chunk]:
    told: Any = draw(st.none() | METADATA)
    if draw(st.booleans()):
        return [ToolOutputError("CALL", draw(TEXTS), provider_metadata=told)]
    final = ToolOutputAvailable("CALL", draw(JSON), provider_metadata=told)
    return [ToolOutputAvailable("CALL", draw(JSON), preliminary=True), final] if draw(st.booleans()) else [final]


def _named(chunk: Chunk, call_id: str, approval_id: str) -> Chunk:
    """Return the chunk with these ids, if it has such fields."""
    for name, value in (("tool_call_id", call_id), ("approval_id", approval_id)):
        if hasattr(chunk, name):
            setattr(chunk, name, value)
    return chunk


@st.composite
def well_formed_chunks(draw: st.DrawFn) -> list[Chunk]:
    """The chunks of one message."""
    chunks: list[Chunk] = [draw(chunk_of(Start))]
    number = 0
    for _ in range(draw(st.integers(0, 3))):
        chunks.append(StartStep())
        for piece in draw(st.lists(block() | call() | SINGLE, max_size=4)):
            number += 1
            chunks += [_named(chunk, f"CALL-{number}", f"APPROVAL-{number}") for chunk in piece]
        chunks.append(FinishStep())
    return [*chunks, draw(chunk_of(Finish))]
