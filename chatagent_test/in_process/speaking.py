"""What a language model says to give the answer that a `reply` script describes.

It says what stands in the script and nothing else: what comes of a tool call is the tool's own doing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chatagent import chat
from chatagent.model import (
    FinishReason,
    InputTokens,
    ModelFile,
    ModelFinish,
    ModelReasoningDelta,
    ModelReasoningEnd,
    ModelReasoningStart,
    ModelSource,
    ModelStreamPart,
    ModelTextDelta,
    ModelTextEnd,
    ModelTextStart,
    ModelToolCall,
    OutputTokens,
    Usage,
)
from chatagent.ui import DataChunk, format_json
from chatagent_test.transport.scripts import (
    AssistantScript,
    DataReply,
    FileReply,
    ReasoningReply,
    ReplyPart,
    SourceReply,
    TextReply,
    ToolReply,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

__all__ = ["USAGE", "model_calls", "speak"]

USAGE: Final = Usage(input_tokens=InputTokens(total=10), output_tokens=OutputTokens(total=10))


def model_calls(script: AssistantScript) -> list[list[ReplyPart]]:
    """Return the parts of an answer by model call: what stands behind a tool's result is said in the next one.

    Behind results at the end there is one more call, in which the model says nothing. What settles a call that waited
    is no call of a model: the tool does it.
    """
    calls: list[list[ReplyPart]] = [[]]
    is_behind_tool = False
    for part in script.parts:
        if isinstance(part, ToolReply):
            if not part.resolves:
                calls[-1].append(part)
                is_behind_tool = not part.waits
            continue
        if is_behind_tool and not isinstance(part, DataReply):
            calls.append([])
            is_behind_tool = False
        calls[-1].append(part)
    return [*calls, []] if is_behind_tool else calls


async def speak(parts: list[ReplyPart], call_ids: Iterator[str]) -> AsyncGenerator[ModelStreamPart]:
    """Say the parts of one model call; data goes to the client beside the model's stream."""
    for index, part in enumerate(parts):
        if isinstance(part, DataReply):
            chat.response.write(DataChunk(f"data-{part.name}", part.value, part.data_id, part.transient or None))
        for said in _parts(part, f"block-{index}", call_ids):
            yield said
    called = any(isinstance(part, ToolReply) for part in parts)
    yield ModelFinish(FinishReason("tool-calls" if called else "stop"), USAGE)


def _parts(part: ReplyPart, block: str, call_ids: Iterator[str]) -> Iterator[ModelStreamPart]:
    match part:
        case TextReply():
            yield ModelTextStart(block)
            for delta in part.chunks or ([part.text] if part.text else []):
                yield ModelTextDelta(block, delta)
            yield ModelTextEnd(block)
        case ReasoningReply():
            yield ModelReasoningStart(block)
            yield ModelReasoningDelta(block, part.text)
            yield ModelReasoningEnd(block)
        case ToolReply():
            yield ModelToolCall(next(call_ids), part.name, format_json(part.input))
        case FileReply():
            yield ModelFile(part.media_type, part.url)
        case SourceReply():
            yield ModelSource("url", block, url=part.url, title=part.title)
        case _:
            return
