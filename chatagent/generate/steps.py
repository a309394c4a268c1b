"""What came of one step: its content in stream order, and everything that can be read off it (rule 10.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from chatagent.generate.parts import (
    FullCustom,
    FullFile,
    FullReasoningFile,
    FullSource,
    FullToolApprovalRequest,
    FullToolApprovalResponse,
    FullToolCall,
    FullToolError,
    FullToolResult,
    GeneratedFile,
    StepPerformance,
)
from chatagent.model import ModelReasoning, ModelText

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from chatagent.model import CallWarning, LanguageModelUsage, ModelMessage, RequestInfo
    from chatagent.ui import FinishReason, ProviderMetadata

__all__ = ["ContentPart", "StepResponse", "StepResult"]

ContentPart: TypeAlias = (
    ModelText
    | ModelReasoning
    | FullSource
    | FullFile
    | FullReasoningFile
    | FullCustom
    | FullToolCall
    | FullToolResult
    | FullToolError
    | FullToolApprovalRequest
    | FullToolApprovalResponse
)
"""One piece of what came of a step; blocks are whole, tool results final."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResponse:
    """What the provider said about its answer, and the messages that the step adds to the conversation."""

    id: str
    timestamp: datetime
    model_id: str
    headers: Mapping[str, str] | None = None
    messages: tuple[ModelMessage, ...] = ()
    """Of this step only: an assistant message and a tool message, each if it is not empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """One model call and the tools it led to."""

    step_number: int
    """Zero-based within the call."""
    content: tuple[ContentPart, ...]
    """In stream order; a block stands where it began."""
    finish_reason: FinishReason
    usage: LanguageModelUsage
    response: StepResponse
    raw_finish_reason: str | None = None
    warnings: tuple[CallWarning, ...] = ()
    request: RequestInfo | None = None
    provider_metadata: ProviderMetadata | None = None
    performance: StepPerformance | None = None

    @property
    def text(self) -> str:
        """The texts joined."""
        return "".join(part.text for part in self.content if isinstance(part, ModelText))

    @property
    def reasoning(self) -> tuple[ModelReasoning | FullReasoningFile, ...]:
        """The reasoning blocks and files."""
        return tuple(part for part in self.content if isinstance(part, ModelReasoning | FullReasoningFile))

    @property
    def reasoning_text(self) -> str | None:
        """The reasoning texts joined; `None` if there is none."""
        texts = [part.text for part in self.content if isinstance(part, ModelReasoning)]
        return "".join(texts) or None

    @property
    def files(self) -> tuple[GeneratedFile, ...]:
        """The files that the model made."""
        return tuple(part.file for part in self.content if isinstance(part, FullFile))

    @property
    def sources(self) -> tuple[FullSource, ...]:
        """What the model drew on."""
        return tuple(part for part in self.content if isinstance(part, FullSource))

    @property
    def tool_calls(self) -> tuple[FullToolCall, ...]:
        """The calls, invalid ones included."""
        return tuple(part for part in self.content if isinstance(part, FullToolCall))

    @property
    def static_tool_calls(self) -> tuple[FullToolCall, ...]:
        """The calls of tools whose schema was known when the program was written."""
        return tuple(call for call in self.tool_calls if not call.dynamic)

    @property
    def dynamic_tool_calls(self) -> tuple[FullToolCall, ...]:
        """The other calls."""
        return tuple(call for call in self.tool_calls if call.dynamic)

    @property
    def tool_results(self) -> tuple[FullToolResult, ...]:
        """The final results, in the order in which they came."""
        return tuple(part for part in self.content if isinstance(part, FullToolResult))

    @property
    def tool_errors(self) -> tuple[FullToolError, ...]:
        """The calls that failed."""
        return tuple(part for part in self.content if isinstance(part, FullToolError))
