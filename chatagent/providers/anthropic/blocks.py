"""Content blocks, citations, usage and stop reasons of the Messages API in the terms of the model protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from chatagent.ids import random_id
from chatagent.model import (
    FinishReason,
    InputTokens,
    ModelContent,
    ModelFinish,
    ModelReasoning,
    ModelSource,
    ModelText,
    ModelToolCall,
    ModelToolResult,
    OutputTokens,
    Usage,
)
from chatagent.providers.requests import json_text, member_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anthropic.types import ContentBlock, TextBlock

    from chatagent.model import UnifiedFinishReason
    from chatagent.ui import ProviderMetadata

__all__ = ["block_content", "finish_of", "redacted", "result_of", "signed", "source_of"]

_REASONS: Final[dict[str, UnifiedFinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",  # it goes on when its message is sent back, so nothing is wrong with it
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
}
_RESULT = "_tool_result"


def signed(signature: str) -> ProviderMetadata | None:
    """Return the metadata of thinking: the signature without which it cannot go back; `None` if there is none."""
    return {"anthropic": {"signature": signature}} if signature else None


def redacted(data: str) -> ProviderMetadata:
    """Return the metadata of thinking that nobody may read, but that goes back."""
    return {"anthropic": {"redactedData": data}}


def block_content(block: ContentBlock, declared: frozenset[str]) -> Iterator[ModelContent]:
    """Yield the content that a complete block stands for; nothing for a block of a type that nobody knows.

    Args:
        block: the block, but no result of a server tool (see `result_of`).
        declared: the names of the tools that the model was asked with.
    """
    match block.type:
        case "text":
            yield from _text(block)
        case "thinking":
            yield ModelReasoning(text=block.thinking, provider_metadata=signed(block.signature))
        case "redacted_thinking":
            yield ModelReasoning(text="", provider_metadata=redacted(block.data))
        case "tool_use":
            yield ModelToolCall(tool_call_id=block.id, tool_name=block.name, input=json_text(block.input))
        case "server_tool_use":
            yield ModelToolCall(
                tool_call_id=block.id,
                tool_name=block.name,
                input=json_text(block.input),
                provider_executed=True,
                dynamic=None if block.name in declared else True,
            )
        case _:
            pass


def result_of(block: ContentBlock, names: Mapping[str, str], declared: frozenset[str]) -> ModelToolResult | None:
    """Return the result of a server tool; `None` if the block is something else.

    Args:
        block: the block.
        names: the names of the server tools that were called in this answer, by call id.
        declared: the names of the tools that the model was asked with.
    """
    if not block.type.endswith(_RESULT):
        return None
    content = block.to_dict(mode="json")
    call_id = str(content.get("tool_use_id"))
    name = names.get(call_id, block.type.removesuffix(_RESULT))
    result = content.get("content")
    return ModelToolResult(
        tool_call_id=call_id,
        tool_name=name,
        result=result,
        is_error=True if str(member_of(result, "type")).endswith("_error") else None,
        dynamic=None if name in declared else True,
    )


def source_of(citation: Mapping[str, object]) -> ModelSource:
    """Return what a citation cites: a web page, or one of the documents of the prompt."""
    title = citation.get("title") or citation.get("document_title")
    url = citation.get("url")
    told: ProviderMetadata = {"anthropic": {"citedText": citation.get("cited_text")}}
    if isinstance(url, str):
        title = title if isinstance(title, str) else None
        return ModelSource(source_type="url", id=random_id(), url=url, title=title, provider_metadata=told)
    return ModelSource(
        source_type="document",
        id=random_id(),
        media_type="application/pdf" if citation.get("type") == "page_location" else "text/plain",
        title=title if isinstance(title, str) else f"Document {citation.get('document_index', '')}".strip(),
        provider_metadata=told,
    )


def finish_of(reason: str, usage: Mapping[str, object], told: Mapping[str, object]) -> ModelFinish:
    """Return the end of an answer.

    Args:
        reason: the API's stop reason.
        usage: its usage record.
        told: what else it says about the end; `None` values are left out.
    """
    known = {_camel(key): value for key, value in told.items() if value is not None}
    return ModelFinish(
        finish_reason=FinishReason(_REASONS.get(reason, "other"), reason),
        usage=_usage(usage),
        provider_metadata={"anthropic": known} if known else None,
    )


def _text(block: TextBlock) -> Iterator[ModelContent]:
    citations = [each.to_dict(mode="json") for each in block.citations or ()]
    yield ModelText(text=block.text, extra={"citations": citations} if citations else None)
    for citation in citations:
        yield source_of(citation)


def _usage(record: Mapping[str, object]) -> Usage:
    """Return the usage; the API counts what it read from and wrote to its cache apart from the other input."""
    fresh, read, written = (
        _count(record.get(key)) for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    made = _count(record.get("output_tokens"))
    thought = _count(member_of(record.get("output_tokens_details"), "thinking_tokens"))
    return Usage(
        input_tokens=InputTokens(
            total=None if fresh is None else fresh + (read or 0) + (written or 0),
            no_cache=fresh,
            cache_read=read,
            cache_write=written,
        ),
        output_tokens=OutputTokens(
            total=made,
            text=None if made is None or thought is None else made - thought,
            reasoning=thought,
        ),
        raw=dict(record) or None,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
