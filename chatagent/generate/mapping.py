"""From parts of the full stream to chunks of the UI message stream (rules 12.2 and 12.3).

One part gives one chunk at most. Which message the chunks belong to, and its metadata, is `ui_stream.py`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from chatagent.generate.parts import (
    FullAbort,
    FullCustom,
    FullError,
    FullFile,
    FullFinish,
    FullFinishStep,
    FullReasoningDelta,
    FullReasoningEnd,
    FullReasoningFile,
    FullReasoningStart,
    FullSource,
    FullStart,
    FullStartStep,
    FullSteeringMessage,
    FullTextDelta,
    FullTextEnd,
    FullTextStart,
    FullToolApprovalRequest,
    FullToolApprovalResponse,
    FullToolCall,
    FullToolError,
    FullToolInputDelta,
    FullToolInputStart,
    FullToolOutputDenied,
    FullToolResult,
)
from chatagent.generate.texts import error_text, to_json
from chatagent.ui import (
    UNSET,
    Abort,
    Chunk,
    Custom,
    Error,
    File,
    Finish,
    FinishStep,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
    ReasoningStart,
    SourceDocument,
    SourceUrl,
    Start,
    StartStep,
    SteeringMessage,
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

if TYPE_CHECKING:
    from chatagent.generate.tools import Tool

__all__ = ["ChunkMapper", "MapPart"]

MapPart: TypeAlias = Callable[["ChunkMapper", Any], Chunk | None]


@dataclass(slots=True, kw_only=True)
class ChunkMapper:
    """How one UI stream sees the parts. Look a part's type up in `TABLE` and call what stands there."""

    tools: Mapping[str, Tool]
    on_error: Callable[[object], str]
    """Gives the text of an error."""
    redact_tool_errors: bool
    message_id: str | None = None
    """The id that the `start` chunk carries."""
    send_reasoning: bool = True
    send_sources: bool = False
    send_start: bool = True
    send_finish: bool = True
    invalid_calls: set[str] = field(default_factory=set[str])
    """Calls that were reported as invalid, so that their errors need no chunk of their own."""

    # Whole message and steps --------------------------------------------------------------------------------------

    def _start(self, _part: FullStart) -> Chunk | None:
        return Start(message_id=self.message_id) if self.send_start else None

    def _start_step(self, _part: FullStartStep) -> Chunk:
        return StartStep()

    def _finish_step(self, _part: FullFinishStep) -> Chunk:
        return FinishStep()

    def _finish(self, part: FullFinish) -> Chunk | None:
        return Finish(finish_reason=part.finish_reason) if self.send_finish else None

    def _abort(self, part: FullAbort) -> Chunk:
        return Abort(reason=part.reason)

    def _error(self, part: FullError) -> Chunk:
        return Error(error_text=self.on_error(part.error))

    # Text, reasoning, files, sources ------------------------------------------------------------------------------

    def _text_start(self, part: FullTextStart) -> Chunk:
        return TextStart(id=part.id, provider_metadata=part.provider_metadata)

    def _text_delta(self, part: FullTextDelta) -> Chunk:
        return TextDelta(part.id, part.text, part.provider_metadata)

    def _text_end(self, part: FullTextEnd) -> Chunk:
        return TextEnd(id=part.id, citations=part.citations, provider_metadata=part.provider_metadata)

    def _reasoning_start(self, part: FullReasoningStart) -> Chunk | None:
        if not self.send_reasoning:
            return None
        return ReasoningStart(id=part.id, provider_metadata=part.provider_metadata)

    def _reasoning_delta(self, part: FullReasoningDelta) -> Chunk | None:
        if not self.send_reasoning:
            return None
        return ReasoningDelta(id=part.id, delta=part.text, provider_metadata=part.provider_metadata)

    def _reasoning_end(self, part: FullReasoningEnd) -> Chunk | None:
        return ReasoningEnd(id=part.id, provider_metadata=part.provider_metadata) if self.send_reasoning else None

    def _file(self, part: FullFile) -> Chunk:
        return File(media_type=part.file.media_type, url=part.file.url, provider_metadata=part.provider_metadata)

    def _reasoning_file(self, part: FullReasoningFile) -> Chunk | None:
        if not self.send_reasoning:
            return None
        file = part.file
        return ReasoningFile(media_type=file.media_type, url=file.url, provider_metadata=part.provider_metadata)

    def _source(self, part: FullSource) -> Chunk | None:
        if not self.send_sources:
            return None
        if part.source_type == "url":
            return SourceUrl(
                source_id=part.id, url=part.url or "", title=part.title, provider_metadata=part.provider_metadata
            )
        return SourceDocument(
            source_id=part.id,
            media_type=part.media_type or "",
            title=part.title or "",
            filename=part.filename,
            provider_metadata=part.provider_metadata,
        )

    def _custom(self, part: FullCustom) -> Chunk:
        return Custom(kind=part.kind, provider_metadata=part.provider_metadata)

    def _steering_message(self, part: FullSteeringMessage) -> Chunk:
        return SteeringMessage(id=part.id, parts=part.parts)

    # Tools --------------------------------------------------------------------------------------------------------

    def _tool_input_start(self, part: FullToolInputStart) -> Chunk:
        return ToolInputStart(
            tool_call_id=part.id,
            tool_name=part.tool_name,
            input_encoding=part.input_encoding,
            provider_executed=part.provider_executed,
            provider_metadata=part.provider_metadata,
            tool_metadata=part.tool_metadata,
            dynamic=self._dynamic(part),
            title=part.title,
        )

    def _tool_input_delta(self, part: FullToolInputDelta) -> Chunk:
        return ToolInputDelta(tool_call_id=part.id, input_text_delta=part.delta)

    def _tool_call(self, part: FullToolCall) -> Chunk:
        if part.invalid:
            return self._tool_input_error(part)
        return ToolInputAvailable(
            tool_call_id=part.tool_call_id,
            tool_name=part.tool_name,
            input=part.input,
            provider_executed=part.provider_executed,
            provider_metadata=part.provider_metadata,
            tool_metadata=part.tool_metadata,
            dynamic=self._dynamic(part),
            title=part.title,
        )

    def _tool_input_error(self, part: FullToolCall) -> Chunk:
        self.invalid_calls.add(part.tool_call_id)
        hidden = self.redact_tool_errors or part.provider_executed
        return ToolInputError(
            tool_call_id=part.tool_call_id,
            tool_name=part.tool_name,
            input=part.input,
            error_text=self.on_error(part.error) if hidden else error_text(part.error),
            provider_executed=part.provider_executed,
            provider_metadata=part.provider_metadata,
            tool_metadata=part.tool_metadata,
            dynamic=self._dynamic(part),
            title=part.title,
        )

    def _tool_result(self, part: FullToolResult) -> Chunk:
        return ToolOutputAvailable(
            tool_call_id=part.tool_call_id,
            output=None if part.output is UNSET else part.output,
            provider_executed=part.provider_executed,
            provider_metadata=part.provider_metadata,
            tool_metadata=part.tool_metadata,
            preliminary=part.preliminary,
            dynamic=self._dynamic(part),
        )

    def _tool_error(self, part: FullToolError) -> Chunk | None:
        if not part.provider_executed and part.tool_call_id in self.invalid_calls:
            self.invalid_calls.discard(part.tool_call_id)
            return None
        return ToolOutputError(
            tool_call_id=part.tool_call_id,
            error_text=self._tool_error_text(part),
            provider_executed=part.provider_executed,
            provider_metadata=part.provider_metadata,
            tool_metadata=part.tool_metadata,
            dynamic=self._dynamic(part),
        )

    def _tool_error_text(self, part: FullToolError) -> str:
        if part.provider_executed:
            return part.error if isinstance(part.error, str) else to_json(part.error)
        return self.on_error(part.error) if self.redact_tool_errors else error_text(part.error)

    def _tool_approval_request(self, part: FullToolApprovalRequest) -> Chunk:
        return ToolApprovalRequest(
            approval_id=part.approval_id,
            tool_call_id=part.tool_call.tool_call_id,
            reason=part.reason,
            is_automatic=part.is_automatic,
            signature=part.signature,
        )

    def _tool_approval_response(self, part: FullToolApprovalResponse) -> Chunk:
        return ToolApprovalResponse(
            approval_id=part.approval_id,
            approved=part.approved,
            reason=part.reason,
            provider_executed=part.provider_executed,
        )

    def _tool_output_denied(self, part: FullToolOutputDenied) -> Chunk:
        return ToolOutputDenied(tool_call_id=part.tool_call_id)

    def _dynamic(self, part: FullToolInputStart | FullToolCall | FullToolResult | FullToolError) -> bool | None:
        """Return what a chunk says: of a declared tool `True` or nothing, of another what the part says."""
        tool = self.tools.get(part.tool_name)
        if tool is None:
            return part.dynamic
        return True if tool.kind == "dynamic" else None

    TABLE: ClassVar[dict[type, MapPart]] = {
        FullStart: _start,
        FullStartStep: _start_step,
        FullTextStart: _text_start,
        FullTextDelta: _text_delta,
        FullTextEnd: _text_end,
        FullReasoningStart: _reasoning_start,
        FullReasoningDelta: _reasoning_delta,
        FullReasoningEnd: _reasoning_end,
        FullToolInputStart: _tool_input_start,
        FullToolInputDelta: _tool_input_delta,
        FullToolCall: _tool_call,
        FullToolResult: _tool_result,
        FullToolError: _tool_error,
        FullToolOutputDenied: _tool_output_denied,
        FullToolApprovalRequest: _tool_approval_request,
        FullToolApprovalResponse: _tool_approval_response,
        FullFile: _file,
        FullReasoningFile: _reasoning_file,
        FullSource: _source,
        FullCustom: _custom,
        FullSteeringMessage: _steering_message,
        FullFinishStep: _finish_step,
        FullFinish: _finish,
        FullAbort: _abort,
        FullError: _error,
    }
    """What makes the chunk of a part, by the part's type; a type that is not here gives none."""
