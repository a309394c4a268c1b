"""What the Messages API answers, event by event or in one piece, as parts of the model protocol."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from chatagent.model import (
    GenerateResult,
    ModelContent,
    ModelReasoningDelta,
    ModelReasoningEnd,
    ModelReasoningStart,
    ModelResponseMetadata,
    ModelStreamPart,
    ModelTextDelta,
    ModelTextEnd,
    ModelTextStart,
    ModelToolCall,
    ModelToolInputDelta,
    ModelToolInputEnd,
    ModelToolInputStart,
    ResponseInfo,
)
from chatagent.providers.anthropic.blocks import block_content, finish_of, redacted, result_of, signed, source_of
from chatagent.providers.requests import json_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from anthropic.types import (
        CitationsDelta,
        ContentBlock,
        InputJSONDelta,
        Message,
        RawContentBlockDeltaEvent,
        RawContentBlockStartEvent,
        RawContentBlockStopEvent,
        RawMessageDeltaEvent,
        RawMessageStartEvent,
        RawMessageStreamEvent,
        ServerToolUseBlock,
        SignatureDelta,
        TextDelta,
        ThinkingDelta,
        ToolUseBlock,
    )

    from chatagent.ui import ProviderMetadata

__all__ = ["MessagesReader", "messages_answer"]


@dataclass(slots=True)
class _Block:
    """A content block that is open."""

    kind: Literal["text", "reasoning", "call"]
    id: str
    metadata: ProviderMetadata | None = None
    """What to tell at the end of reasoning."""
    citations: list[object] = field(default_factory=list[object])
    pieces: list[str] = field(default_factory=list[str])
    """The input of a call, as far as it has streamed."""
    call: ModelToolCall | None = None
    """The call with the input that its start gave."""


class MessagesReader:
    """Reads the events of one answer.

    Args:
        declared: the names of the tools that the model was asked with.
    """

    def __init__(self, declared: frozenset[str]) -> None:
        self._declared = declared
        self._parts: list[ModelStreamPart] = []
        self._open: dict[int, _Block] = {}
        self._names: dict[str, str] = {}
        self._reason: str | None = None
        self._told: dict[str, object] = {}
        self._usage: dict[str, object] = {}

    def read(self, event: RawMessageStreamEvent, /) -> list[ModelStreamPart]:
        """Return the parts that an event stands for; none for an event of a type that nobody knows."""
        handler = self._EVENTS.get(event.type)
        if handler is not None:
            handler(self, event)
        return self._taken()

    def end(self) -> list[ModelStreamPart]:
        """Return the finish, if the model has said why it stopped; a call that is not complete stays so."""
        for block in self._open.values():
            if block.kind != "call":
                self._end_block(block)
        self._open.clear()
        if self._reason is not None:
            self._parts.append(finish_of(self._reason, self._usage, self._told))
        return self._taken()

    def _taken(self) -> list[ModelStreamPart]:
        parts, self._parts = self._parts, []
        return parts

    # The message --------------------------------------------------------------------------------------------------

    def _message_start(self, event: RawMessageStartEvent) -> None:
        message = event.message
        self._parts.append(ModelResponseMetadata(id=message.id, model_id=message.model or None))
        self._take_usage(message.usage)

    def _message_delta(self, event: RawMessageDeltaEvent) -> None:
        delta = event.delta
        self._reason = delta.stop_reason or self._reason
        self._told = delta.to_dict(mode="json")
        self._told.pop("stop_reason", None)
        self._take_usage(event.usage)

    def _take_usage(self, usage: Any) -> None:
        """Take in a usage record; later ones are cumulative, and may leave out what has not changed."""
        if usage is not None:
            self._usage |= {key: value for key, value in usage.to_dict(mode="json").items() if value is not None}

    # Blocks -------------------------------------------------------------------------------------------------------

    def _block_start(self, event: RawContentBlockStartEvent) -> None:
        start, index = event.content_block, event.index
        match start.type:
            case "text":
                self._open_text(index)
            case "thinking":
                self._open_reasoning(index, None)
            case "redacted_thinking":
                self._open_reasoning(index, redacted(start.data))
            case "tool_use" | "server_tool_use":
                self._open_call(index, start)
            case _:
                self._result(start)

    def _open_text(self, index: int) -> _Block:
        block = self._open[index] = _Block("text", str(index))
        self._parts.append(ModelTextStart(id=block.id))
        return block

    def _open_reasoning(self, index: int, metadata: ProviderMetadata | None) -> _Block:
        block = self._open[index] = _Block("reasoning", str(index), metadata)
        self._parts.append(ModelReasoningStart(id=block.id, provider_metadata=metadata))
        return block

    def _open_call(self, index: int, start: ToolUseBlock | ServerToolUseBlock) -> None:
        is_hosted = start.type == "server_tool_use" or None
        call = ModelToolCall(
            tool_call_id=start.id,
            tool_name=start.name,
            input=json_text(start.input or {}),
            provider_executed=is_hosted,
            dynamic=True if is_hosted and start.name not in self._declared else None,
        )
        if is_hosted:
            self._names[start.id] = start.name
        self._open[index] = _Block("call", start.id, call=call)
        self._parts.append(
            ModelToolInputStart(
                id=call.tool_call_id, tool_name=call.tool_name, provider_executed=is_hosted, dynamic=call.dynamic
            )
        )

    def _result(self, block: ContentBlock) -> None:
        result = result_of(block, self._names, self._declared)
        if result is not None:
            self._parts.append(result)

    def _block_stop(self, event: RawContentBlockStopEvent) -> None:
        block = self._open.pop(event.index, None)
        if block is not None:
            self._end_block(block)

    def _end_block(self, block: _Block) -> None:
        if block.kind == "text":
            self._parts.append(ModelTextEnd(id=block.id, citations=block.citations or None))
        elif block.kind == "reasoning":
            self._parts.append(ModelReasoningEnd(id=block.id, provider_metadata=block.metadata))
        elif block.call is not None:
            self._end_call(block, block.call)

    def _end_call(self, block: _Block, call: ModelToolCall) -> None:
        given = "".join(block.pieces) or call.input
        if not block.pieces:
            self._parts.append(ModelToolInputDelta(id=block.id, delta=given))
        self._parts.append(ModelToolInputEnd(id=block.id))
        self._parts.append(
            ModelToolCall(
                tool_call_id=call.tool_call_id,
                tool_name=call.tool_name,
                input=given,
                provider_executed=call.provider_executed,
                dynamic=call.dynamic,
            )
        )

    # Deltas -------------------------------------------------------------------------------------------------------

    def _block_delta(self, event: RawContentBlockDeltaEvent) -> None:
        handler = self._DELTAS.get(event.delta.type)
        if handler is not None:
            handler(self, event.index, event.delta)

    def _text(self, index: int, delta: TextDelta) -> None:
        block = self._open.get(index) or self._open_text(index)
        self._parts.append(ModelTextDelta(id=block.id, delta=delta.text))

    def _citation(self, index: int, delta: CitationsDelta) -> None:
        block = self._open.get(index) or self._open_text(index)
        citation = delta.citation.to_dict(mode="json")
        block.citations.append(citation)
        self._parts.append(source_of(citation))

    def _thinking(self, index: int, delta: ThinkingDelta) -> None:
        block = self._open.get(index) or self._open_reasoning(index, None)
        self._parts.append(ModelReasoningDelta(id=block.id, delta=delta.thinking))

    def _signature(self, index: int, delta: SignatureDelta) -> None:
        block = self._open.get(index) or self._open_reasoning(index, None)
        block.metadata = signed(delta.signature)

    def _input(self, index: int, delta: InputJSONDelta) -> None:
        """Pass on a fragment of a call's input; the first one is empty as a rule, and says nothing."""
        block = self._open.get(index)
        if block is not None and delta.partial_json:
            block.pieces.append(delta.partial_json)
            self._parts.append(ModelToolInputDelta(id=block.id, delta=delta.partial_json))

    _EVENTS: ClassVar[dict[str, Callable[[MessagesReader, Any], None]]] = {
        "message_start": _message_start,
        "message_delta": _message_delta,
        "content_block_start": _block_start,
        "content_block_delta": _block_delta,
        "content_block_stop": _block_stop,
    }
    _DELTAS: ClassVar[dict[str, Callable[[MessagesReader, int, Any], None]]] = {
        "text_delta": _text,
        "citations_delta": _citation,
        "thinking_delta": _thinking,
        "signature_delta": _signature,
        "input_json_delta": _input,
    }


def messages_answer(message: Message, declared: frozenset[str]) -> GenerateResult:
    """Return an answer in one piece; request, warnings and headers are for the caller to add.

    Args:
        message: the whole message.
        declared: the names of the tools that the model was asked with.
    """
    names = {block.id: block.name for block in message.content or () if block.type == "server_tool_use"}
    content: list[ModelContent] = []
    for block in message.content or ():
        result = result_of(block, names, declared)
        content += block_content(block, declared) if result is None else (result,)
    told = {"stop_sequence": message.stop_sequence}
    usage = {key: value for key, value in message.usage.to_dict(mode="json").items() if value is not None}
    finish = finish_of(message.stop_reason or "", usage, told)
    return GenerateResult(
        content=tuple(content),
        finish_reason=finish.finish_reason,
        usage=finish.usage,
        provider_metadata=finish.provider_metadata,
        response=ResponseInfo(id=message.id, model_id=message.model, body=message),
    )
