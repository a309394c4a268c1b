"""From the parts of a step to its content, and from the content to the messages that it adds (rule 10.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from chatagent.generate.log import DeltaRun
from chatagent.generate.parts import (
    FullCustom,
    FullFile,
    FullReasoningDelta,
    FullReasoningEnd,
    FullReasoningFile,
    FullReasoningStart,
    FullSource,
    FullTextDelta,
    FullTextEnd,
    FullTextStart,
    FullToolApprovalRequest,
    FullToolApprovalResponse,
    FullToolCall,
    FullToolError,
    FullToolResult,
    GeneratedFile,
)
from chatagent.generate.texts import error_text
from chatagent.model import (
    AssistantContentPart,
    AssistantMessage,
    CustomPart,
    FilePart,
    ModelMessage,
    ModelReasoning,
    ModelText,
    ReasoningFilePart,
    ReasoningPart,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolContentPart,
    ToolMessage,
    ToolResultOutput,
    ToolResultPart,
    UrlData,
    to_base64,
)
from chatagent.model.tool_output import ToModelOutputEvent, tool_output
from chatagent.ui import UNSET
from chatagent.ui.surrogates import join_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from chatagent.generate.log import LogEntry
    from chatagent.generate.steps import ContentPart
    from chatagent.generate.tools import Tool
    from chatagent.ui import ProviderMetadata

__all__ = ["collect_content", "denied_output", "response_messages", "tool_result_part"]

_WHOLE = (
    FullSource,
    FullFile,
    FullReasoningFile,
    FullCustom,
    FullToolCall,
    FullToolError,
    FullToolApprovalRequest,
    FullToolApprovalResponse,
)


@dataclass(slots=True)
class _Block:
    """A text or reasoning block while its parts are put together."""

    make: type[ModelText | ModelReasoning]
    metadata: ProviderMetadata | None
    pieces: list[str] = field(default_factory=list[str])
    citations: Sequence[object] | None = None

    def content(self) -> ModelText | ModelReasoning:
        extra: dict[str, object] | None = None if self.citations is None else {"citations": list(self.citations)}
        return self.make(text=join_surrogates("".join(self.pieces)), provider_metadata=self.metadata, extra=extra)


def collect_content(parts: Iterable[LogEntry]) -> tuple[ContentPart, ...]:
    """Return the content that the parts of a step make; blocks stand where they began."""
    content: list[ContentPart | _Block] = []
    blocks: dict[tuple[type, str], _Block] = {}
    for part in parts:
        match part:
            case DeltaRun() | FullTextDelta() | FullReasoningDelta():
                _add(blocks, part)
            case FullTextStart():
                content.append(_opened(blocks, FullTextDelta, ModelText, part))
            case FullReasoningStart():
                content.append(_opened(blocks, FullReasoningDelta, ModelReasoning, part))
            case FullTextEnd() | FullReasoningEnd():
                _close(blocks, part)
            case FullToolResult():
                if not part.preliminary:
                    content.append(part)
            case _ if isinstance(part, _WHOLE):
                content.append(part)
            case _:
                pass
    return tuple(each.content() if isinstance(each, _Block) else each for each in content)


def _add(blocks: dict[tuple[type, str], _Block], part: DeltaRun | FullTextDelta | FullReasoningDelta) -> None:
    is_run = isinstance(part, DeltaRun)
    block = blocks.get((part.make if is_run else type(part), part.id))
    if block is None:
        return
    if is_run:
        block.pieces += part.texts
    else:
        block.pieces.append(part.text)
        block.metadata = part.provider_metadata or block.metadata


def _opened(
    blocks: dict[tuple[type, str], _Block],
    delta: type,
    make: type[ModelText | ModelReasoning],
    part: FullTextStart | FullReasoningStart,
) -> _Block:
    block = blocks[delta, part.id] = _Block(make, part.provider_metadata)
    return block


def _close(blocks: dict[tuple[type, str], _Block], part: FullTextEnd | FullReasoningEnd) -> None:
    delta = FullTextDelta if isinstance(part, FullTextEnd) else FullReasoningDelta
    block = blocks.pop((delta, part.id), None)
    if block is not None:
        block.metadata = part.provider_metadata or block.metadata
        block.citations = part.citations if isinstance(part, FullTextEnd) else None


async def response_messages(content: Sequence[ContentPart], tools: Mapping[str, Tool]) -> tuple[ModelMessage, ...]:
    """Return what a step adds to the conversation: an assistant message, then a tool message, each if not empty.

    Args:
        content: the content of the step.
        tools: all tools of the call; their `to_model_output` is asked.
    """
    assistant: list[AssistantContentPart] = []
    answers: list[ToolContentPart] = []
    for part in content:
        if isinstance(part, FullToolResult | FullToolError):
            made = await tool_result_part(part, tools.get(part.tool_name))
            (assistant if part.provider_executed else answers).append(made)
        elif isinstance(part, FullToolApprovalResponse):
            answers += _approval_response(part)
        else:
            assistant += _assistant_parts(part)
    messages: list[ModelMessage] = []
    if assistant:
        messages.append(AssistantMessage(tuple(assistant)))
    if answers:
        messages.append(ToolMessage(tuple(_in_call_order(answers, content))))
    return tuple(messages)


def _in_call_order(answers: Sequence[ToolContentPart], content: Sequence[ContentPart]) -> Iterator[ToolContentPart]:
    """Yield the answers with the results among them in call order, and the answers to approvals where they stand."""
    order: dict[str, int] = {}
    for part in content:
        if isinstance(part, FullToolCall):
            order.setdefault(part.tool_call_id, len(order))
    results = [each for each in answers if isinstance(each, ToolResultPart)]
    in_order = iter(sorted(results, key=lambda result: order.get(result.tool_call_id, len(order))))
    for each in answers:
        yield next(in_order) if isinstance(each, ToolResultPart) else each


async def tool_result_part(part: FullToolResult | FullToolError, tool: Tool | None) -> ToolResultPart:
    """Return the answer to a call as the model is told it (rule 6.8)."""
    if isinstance(part, FullToolResult):
        output = await tool_output(
            tool,
            ToModelOutputEvent(
                part.tool_call_id,
                None if part.input is UNSET else part.input,
                None if part.output is UNSET else part.output,
            ),
        )
    elif part.provider_executed:
        error = part.error
        output = ToolResultOutput("error-json", error_text(error) if isinstance(error, BaseException) else error)
    else:
        output = ToolResultOutput("error-text", error_text(part.error))
    return ToolResultPart(part.tool_call_id, part.tool_name, output, provider_options=part.provider_metadata)


def denied_output(reason: str | None) -> ToolResultOutput:
    """Return what a model is told of a call that was not approved."""
    return ToolResultOutput("execution-denied", reason=reason)


def _approval_response(part: FullToolApprovalResponse) -> list[ToolContentPart]:
    response = ToolApprovalResponsePart(
        part.approval_id, part.approved, reason=part.reason, provider_executed=part.provider_executed
    )
    if part.approved:
        return [response]
    call = part.tool_call
    return [response, ToolResultPart(call.tool_call_id, call.tool_name, denied_output(part.reason))]


def _assistant_parts(part: ContentPart) -> list[AssistantContentPart]:
    """Return what the assistant message holds of a piece of content; nothing of a source, or of an empty text."""
    match part:
        case ModelText():
            if not part.text and part.provider_metadata is None:
                return []
            return [TextPart(part.text, provider_options=part.provider_metadata)]
        case ModelReasoning():
            return [ReasoningPart(part.text, provider_options=part.provider_metadata)]
        case FullToolCall():
            return [_tool_call(part)]
        case FullToolApprovalRequest():
            request = ToolApprovalRequestPart(
                part.approval_id,
                part.tool_call.tool_call_id,
                is_automatic=part.is_automatic,
                reason=part.reason,
                signature=part.signature,
            )
            return [request]
        case FullFile():
            return [FilePart(_data(part.file), part.file.media_type, provider_options=part.provider_metadata)]
        case FullReasoningFile():
            return [ReasoningFilePart(_data(part.file), part.file.media_type, provider_options=part.provider_metadata)]
        case FullCustom():
            return [CustomPart(part.kind, provider_options=part.provider_metadata)]
        case _:
            return []


def _tool_call(part: FullToolCall) -> ToolCallPart:
    data: object = part.input
    if part.invalid and isinstance(data, str | int | float):
        data = {}
    return ToolCallPart(
        part.tool_call_id,
        part.tool_name,
        cast("object", data),
        provider_executed=part.provider_executed,
        provider_options=part.provider_metadata,
    )


def _data(file: GeneratedFile) -> str | UrlData:
    return file.data if isinstance(file.data, UrlData) else to_base64(file.data.data)
