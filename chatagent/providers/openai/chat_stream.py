"""What the Chat Completions API answers, chunk by chunk or in one piece, as parts of the model protocol.

Servers that speak the same API leave out members that the SDK's types promise, and add some of their own
(`reasoning_content`); both are reckoned with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

from chatagent.ids import random_id
from chatagent.model import (
    GenerateResult,
    ModelContent,
    ModelFinish,
    ModelReasoning,
    ModelReasoningDelta,
    ModelReasoningEnd,
    ModelReasoningStart,
    ModelResponseMetadata,
    ModelSource,
    ModelStreamPart,
    ModelText,
    ModelTextDelta,
    ModelTextEnd,
    ModelTextStart,
    ModelToolCall,
    ModelToolInputDelta,
    ModelToolInputEnd,
    ModelToolInputStart,
    ResponseInfo,
)
from chatagent.providers.openai.usage import chat_finish_reason, chat_usage, created_at
from chatagent.providers.requests import member_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
    from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta, ChoiceDeltaToolCall

    from chatagent.ui import ProviderMetadata

__all__ = ["ChatReader", "chat_answer"]

REFUSAL: ProviderMetadata = {"openai": {"refusal": True}}
"""Marks a text as the model's refusal, so that it goes back as one."""

_Kind = Literal["text", "refusal", "reasoning"]


@dataclass(slots=True)
class _Call:
    """A tool call while it streams."""

    id: str
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    has_begun: bool = False


class ChatReader:
    """Reads the chunks of one answer."""

    def __init__(self) -> None:
        self._parts: list[ModelStreamPart] = []
        self._is_told = False
        self._open: _Kind | None = None
        self._block_id = ""
        self._blocks = 0
        self._calls: dict[int, _Call] = {}
        self._has_refused = False
        self._reason: str | None = None
        self._usage: CompletionUsage | None = None
        self._logprobs: list[object] = []

    def read(self, event: ChatCompletionChunk, /) -> list[ModelStreamPart]:
        """Return the parts that a chunk stands for."""
        if not self._is_told:
            self._tell(event)
        if event.usage is not None:
            self._usage = event.usage
        for choice in event.choices or ():
            if not choice.index:
                self._read_choice(choice)
        return self._taken()

    def end(self) -> list[ModelStreamPart]:
        """Return the tool calls and the finish, if the model has said why it stopped."""
        self._close_block()
        if self._reason is None:
            return self._taken()
        for call in self._calls.values():
            self._end_call(call)
        self._parts.append(
            ModelFinish(
                finish_reason=chat_finish_reason(self._reason, has_refused=self._has_refused),
                usage=chat_usage(self._usage),
                provider_metadata=_metadata(self._usage, self._logprobs),
            )
        )
        return self._taken()

    def _taken(self) -> list[ModelStreamPart]:
        parts, self._parts = self._parts, []
        return parts

    def _tell(self, chunk: ChatCompletionChunk) -> None:
        """Pass on what the first chunk that knows its id tells about the answer."""
        if chunk.id or chunk.model:
            self._is_told = True
            self._parts.append(
                ModelResponseMetadata(
                    id=chunk.id or None, timestamp=created_at(chunk.created), model_id=chunk.model or None
                )
            )

    def _read_choice(self, choice: Choice) -> None:
        delta = cast("ChoiceDelta | None", choice.delta)  # the last chunk of some servers has none
        if delta is not None:
            self._say("reasoning", _reasoning_of(delta))
            self._say("text", delta.content)
            self._say("refusal", delta.refusal)
            self._parts += _sources((delta.model_extra or {}).get("annotations"))
            for call in delta.tool_calls or ():
                self._read_call(call)
        if choice.logprobs is not None and choice.logprobs.content:
            self._logprobs += [each.to_dict(mode="json") for each in choice.logprobs.content]
        if choice.finish_reason:
            self._reason = choice.finish_reason

    # Text, refusals and reasoning ---------------------------------------------------------------------------------

    def _say(self, kind: _Kind, text: str | None) -> None:
        if not text:
            return
        if self._open != kind:
            self._open_block(kind)
        delta = ModelReasoningDelta if kind == "reasoning" else ModelTextDelta
        self._parts.append(delta(id=self._block_id, delta=text))

    def _open_block(self, kind: _Kind) -> None:
        self._close_block()
        block_id = self._block_id = str(self._blocks)
        self._open = kind
        self._blocks += 1
        if kind == "reasoning":
            self._parts.append(ModelReasoningStart(id=block_id))
        elif kind == "refusal":
            self._has_refused = True
            self._parts.append(ModelTextStart(id=block_id, provider_metadata=REFUSAL))
        else:
            self._parts.append(ModelTextStart(id=block_id))

    def _close_block(self) -> None:
        if self._open is None:
            return
        end = ModelReasoningEnd if self._open == "reasoning" else ModelTextEnd
        self._parts.append(end(id=self._block_id))
        self._open = None

    # Tool calls ---------------------------------------------------------------------------------------------------

    def _read_call(self, delta: ChoiceDeltaToolCall) -> None:
        """Take in a fragment of a call. Fragments of several calls may alternate, so none ends before the answer."""
        call = self._call_of(delta)
        function = delta.function
        if function is None:
            return
        if function.name and not call.has_begun:
            call.name = function.name
            call.has_begun = True
            self._close_block()
            self._parts.append(ModelToolInputStart(id=call.id, tool_name=call.name))
            if call.pieces:
                self._parts.append(ModelToolInputDelta(id=call.id, delta="".join(call.pieces)))
        if function.arguments:
            call.pieces.append(function.arguments)
            if call.has_begun:
                self._parts.append(ModelToolInputDelta(id=call.id, delta=function.arguments))

    def _call_of(self, delta: ChoiceDeltaToolCall) -> _Call:
        """Return the call that a fragment belongs to; without an index, one with a new id begins a new call."""
        index = cast("int | None", delta.index)
        if index is None:
            known = next((key for key, call in self._calls.items() if call.id == delta.id), None)
            last = max(self._calls, default=-1)
            index = known if known is not None else last + 1 if delta.id or last < 0 else last
        call = self._calls.get(index)
        if call is None:
            call = self._calls[index] = _Call(delta.id or f"call_{random_id()}")
        return call

    def _end_call(self, call: _Call) -> None:
        if not call.has_begun:
            self._parts.append(ModelToolInputStart(id=call.id, tool_name=call.name))
        self._parts.append(ModelToolInputEnd(id=call.id))
        self._parts.append(ModelToolCall(tool_call_id=call.id, tool_name=call.name, input="".join(call.pieces) or "{}"))


def chat_answer(completion: ChatCompletion) -> GenerateResult:
    """Return an answer in one piece; request, warnings and headers are for the caller to add."""
    choice = completion.choices[0]
    message = choice.message
    logprobs = [] if choice.logprobs is None else [each.to_dict(mode="json") for each in choice.logprobs.content or ()]
    return GenerateResult(
        content=tuple(_content(message)),
        finish_reason=chat_finish_reason(choice.finish_reason, has_refused=bool(message.refusal)),
        usage=chat_usage(completion.usage),
        provider_metadata=_metadata(completion.usage, logprobs),
        response=ResponseInfo(
            id=completion.id, timestamp=created_at(completion.created), model_id=completion.model, body=completion
        ),
    )


def _content(message: ChatCompletionMessage) -> Iterator[ModelContent]:
    reasoning = _reasoning_of(message)
    if reasoning:
        yield ModelReasoning(text=reasoning)
    if message.content:
        yield ModelText(text=message.content)
    if message.refusal:
        yield ModelText(text=message.refusal, provider_metadata=REFUSAL)
    yield from _sources([each.to_dict() for each in message.annotations or ()])
    for call in message.tool_calls or ():
        if call.type == "function":
            yield ModelToolCall(
                tool_call_id=call.id, tool_name=call.function.name, input=call.function.arguments or "{}"
            )


def _reasoning_of(message: ChoiceDelta | ChatCompletionMessage) -> str | None:
    """Return the reasoning that compatible servers put beside the content, under one of two names."""
    extra = message.model_extra or {}
    text: object = extra.get("reasoning_content") or extra.get("reasoning")
    return text if isinstance(text, str) else None


def _sources(annotations: object) -> Iterator[ModelSource]:
    """Yield the web pages that an answer with built-in search cites."""
    for each in cast("list[object]", annotations) if isinstance(annotations, list) else ():
        page = member_of(each, "url_citation")
        url, title = member_of(page, "url"), member_of(page, "title")
        if isinstance(url, str):
            yield ModelSource(
                source_type="url", id=random_id(), url=url, title=title if isinstance(title, str) else None
            )


def _metadata(usage: CompletionUsage | None, logprobs: Sequence[object]) -> ProviderMetadata | None:
    told: dict[str, object] = {"logprobs": logprobs} if logprobs else {}
    details = None if usage is None else usage.completion_tokens_details
    if details is not None and details.accepted_prediction_tokens is not None:
        told["acceptedPredictionTokens"] = details.accepted_prediction_tokens
    if details is not None and details.rejected_prediction_tokens is not None:
        told["rejectedPredictionTokens"] = details.rejected_prediction_tokens
    return {"openai": told} if told else None
