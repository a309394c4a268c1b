"""The parts of a stream to the answer in one piece that says the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chatagent.errors import APICallError
from chatagent.model import (
    CallWarning,
    FinishReason,
    GenerateResult,
    ModelContent,
    ModelCustom,
    ModelError,
    ModelFile,
    ModelFinish,
    ModelReasoning,
    ModelReasoningDelta,
    ModelReasoningFile,
    ModelReasoningStart,
    ModelResponseMetadata,
    ModelSource,
    ModelStreamPart,
    ModelStreamStart,
    ModelText,
    ModelTextDelta,
    ModelTextStart,
    ModelToolApprovalRequest,
    ModelToolCall,
    ModelToolResult,
    ResponseInfo,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["whole_answer"]


@dataclass(slots=True)
class _Block:
    """A text or reasoning block that grows."""

    kind: type[ModelText | ModelReasoning]
    pieces: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Answer:
    """The answer so far."""

    content: list[ModelContent | _Block] = field(default_factory=list[ModelContent | _Block])
    texts: dict[str, _Block] = field(default_factory=dict[str, _Block])
    reasonings: dict[str, _Block] = field(default_factory=dict[str, _Block])
    warnings: tuple[CallWarning, ...] = ()
    response: ResponseInfo | None = None
    finish: ModelFinish = field(default_factory=lambda: ModelFinish(FinishReason("other"), Usage()))

    def add(self, part: ModelStreamPart) -> None:
        match part:
            case ModelTextStart():
                self.texts[part.id] = self._open(ModelText)
            case ModelReasoningStart():
                self.reasonings[part.id] = self._open(ModelReasoning)
            case ModelTextDelta():
                self.texts[part.id].pieces.append(part.delta)
            case ModelReasoningDelta():
                self.reasonings[part.id].pieces.append(part.delta)
            case ModelError():
                raise part.error if isinstance(part.error, Exception) else APICallError(str(part.error))
            case _:
                self._add_whole(part)

    def _add_whole(self, part: ModelStreamPart) -> None:
        match part:
            case ModelStreamStart():
                self.warnings = tuple(part.warnings)
            case ModelResponseMetadata():
                self.response = ResponseInfo(id=part.id, timestamp=part.timestamp, model_id=part.model_id)
            case ModelFinish():
                self.finish = part
            case (
                ModelFile()
                | ModelReasoningFile()
                | ModelCustom()
                | ModelSource()
                | ModelToolCall()
                | ModelToolResult()
                | ModelToolApprovalRequest()
            ):
                self.content.append(part)
            case _:
                pass  # ends of blocks, streamed inputs, raw parts and pings say nothing more

    def _open(self, kind: type[ModelText | ModelReasoning]) -> _Block:
        block = _Block(kind)
        self.content.append(block)
        return block


def whole_answer(parts: Iterable[ModelStreamPart]) -> GenerateResult:
    """Return the answer in one piece that says the same as a stream of parts.

    Raises:
        Exception: the error of the first `error` part; one that is no exception becomes an `APICallError`.
    """
    answer = _Answer()
    for part in parts:
        answer.add(part)
    return GenerateResult(
        content=[each.kind("".join(each.pieces)) if isinstance(each, _Block) else each for each in answer.content],
        finish_reason=answer.finish.finish_reason,
        usage=answer.finish.usage,
        warnings=answer.warnings,
        provider_metadata=answer.finish.provider_metadata,
        response=answer.response,
    )
