"""The output items of the Responses API as content of the model protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from chatagent.ids import random_id
from chatagent.model import (
    ModelContent,
    ModelReasoning,
    ModelSource,
    ModelText,
    ModelToolCall,
    ModelToolResult,
    ProviderTool,
)
from chatagent.providers.openai.responses_prompt import hosted_kind
from chatagent.providers.requests import json_text, member_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputItem,
        ResponseOutputMessage,
        ResponseReasoningItem,
    )

    from chatagent.model import ModelTool
    from chatagent.ui import ProviderMetadata

__all__ = [
    "HOSTED_CALLS",
    "hosted_name",
    "hosted_names",
    "item_content",
    "message_metadata",
    "metadata_of",
    "reasoning_metadata",
    "source_of",
]

HOSTED_CALLS: Final = {
    "web_search_call": ("action",),
    "file_search_call": ("queries",),
    "code_interpreter_call": ("code", "container_id"),
    "image_generation_call": (),
    "mcp_call": ("arguments",),
}
"""The items that are calls of tools which the provider runs, and which of their members are the input."""


def metadata_of(item_id: str | None, **told: object) -> ProviderMetadata | None:
    """Return provider metadata with an item's id and what else is known of it; `None` if nothing is."""
    known = {key: value for key, value in {"itemId": item_id, **told}.items() if value is not None}
    return {"openai": known} if known else None


def message_metadata(item: ResponseOutputMessage, *, refusal: bool = False) -> ProviderMetadata | None:
    """Return the metadata of a text of a message."""
    return metadata_of(item.id, phase=item.phase, refusal=refusal or None)


def reasoning_metadata(item: ResponseReasoningItem) -> ProviderMetadata | None:
    """Return the metadata of the last piece of a reasoning item: with what makes the provider know it again."""
    return metadata_of(item.id, reasoningEncryptedContent=item.encrypted_content)


def hosted_names(tools: Iterable[ModelTool]) -> dict[str, str]:
    """Return the names of the tools that the provider runs, by the API's type of the tool."""
    return {kind: tool.name for tool in tools if isinstance(tool, ProviderTool) and (kind := hosted_kind(tool))}


def hosted_name(item: ResponseOutputItem, names: Mapping[str, str]) -> tuple[str, bool | None]:
    """Return the name of the tool that a hosted call is of, and whether it is dynamic, as nobody declared it."""
    if item.type == "mcp_call":
        return item.name, True
    base = item.type.removesuffix("_call")
    declared = next((name for kind, name in names.items() if kind.startswith(base)), None)
    return (base, True) if declared is None else (declared, None)


def item_content(item: ResponseOutputItem, names: Mapping[str, str]) -> Iterator[ModelContent]:
    """Yield the content that an output item stands for; nothing for an item of a kind that the protocol does not have.

    Args:
        item: a complete item.
        names: see `hosted_names`.
    """
    match item.type:
        case "message":
            yield from _message(item)
        case "reasoning":
            yield from _reasoning(item)
        case "function_call":
            yield _function_call(item)
        case kind if kind in HOSTED_CALLS:
            yield from _hosted_call(item, names)
        case _:
            pass


def source_of(annotation: object) -> ModelSource | None:
    """Return the source that an annotation of a text cites; `None` for one that cites none."""
    url, title = member_of(annotation, "url"), member_of(annotation, "title")
    if isinstance(url, str):
        return ModelSource(source_type="url", id=random_id(), url=url, title=title if isinstance(title, str) else None)
    filename = member_of(annotation, "filename") or member_of(annotation, "file_id")
    if not isinstance(filename, str):
        return None
    told = {"type": member_of(annotation, "type"), "fileId": member_of(annotation, "file_id")}
    return ModelSource(
        source_type="document",
        id=random_id(),
        media_type="text/plain",
        title=filename,
        filename=filename,
        provider_metadata={"openai": told},
    )


def _message(item: ResponseOutputMessage) -> Iterator[ModelContent]:
    for part in item.content or ():
        if part.type == "refusal":
            yield ModelText(text=part.refusal, provider_metadata=message_metadata(item, refusal=True))
            continue
        yield ModelText(text=part.text, provider_metadata=message_metadata(item))
        for annotation in part.annotations or ():
            source = source_of(annotation.to_dict())
            if source is not None:
                yield source


def _reasoning(item: ResponseReasoningItem) -> Iterator[ModelContent]:
    texts = [part.text for part in item.summary or ()] or [part.text for part in item.content or ()] or [""]
    *first, last = texts
    for text in first:
        yield ModelReasoning(text=text, provider_metadata=metadata_of(item.id))
    yield ModelReasoning(text=last, provider_metadata=reasoning_metadata(item))


def _function_call(item: ResponseFunctionToolCall) -> ModelToolCall:
    return ModelToolCall(
        tool_call_id=item.call_id,
        tool_name=item.name,
        input=item.arguments or "{}",
        provider_metadata=metadata_of(item.id),
    )


def _hosted_call(item: ResponseOutputItem, names: Mapping[str, str]) -> Iterator[ModelContent]:
    name, dynamic = hosted_name(item, names)
    members: dict[str, Any] = item.to_dict(mode="json")
    item_id = cast("str", members.pop("id"))
    kind = cast("str", members.pop("type"))
    given = {key: members.pop(key, None) for key in HOSTED_CALLS[kind]}
    call_input = given.get("arguments") or json_text(given.get("action") or given)
    yield ModelToolCall(
        tool_call_id=item_id,
        tool_name=name,
        input=call_input,
        provider_executed=True,
        dynamic=dynamic,
        provider_metadata=metadata_of(item_id),
    )
    yield ModelToolResult(
        tool_call_id=item_id,
        tool_name=name,
        result=members,
        is_error=True if members.get("status") == "failed" or members.get("error") else None,
        dynamic=dynamic,
        provider_metadata=metadata_of(item_id),
    )
