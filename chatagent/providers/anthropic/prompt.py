"""Prompts and tools as the Messages API takes them.

Neighbouring messages of one side are one turn. Thinking goes back with its signature; what the API has no form for is
left out, and the caller is warned of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, cast

from chatagent.errors import InvalidPromptError
from chatagent.model import (
    AssistantMessage,
    FilePart,
    FunctionTool,
    InlineData,
    ReasoningPart,
    ReferenceData,
    SystemMessage,
    TextData,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UrlData,
    UserMessage,
    tagged_data,
    to_base64,
)
from chatagent.model.files import to_bytes
from chatagent.providers.content import (
    media_type_of,
    metadata_text,
    output_parts,
    output_text,
    parts_of,
    reference_of,
)
from chatagent.providers.requests import Body, member_of, snake_case_keys, unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable

    from anthropic.types import (
        ContentBlockParam,
        DocumentBlockParam,
        ImageBlockParam,
        MessageParam,
        TextBlockParam,
        ToolChoiceParam,
        ToolParam,
        ToolResultBlockParam,
        ToolUnionParam,
    )
    from anthropic.types.tool_result_block_param import Content

    from chatagent.model import (
        AssistantContentPart,
        CallWarning,
        ModelMessage,
        ModelTool,
        Prompt,
        ProviderOptions,
        ToolChoice,
    )

__all__ = ["MessagesPrompt", "messages_prompt", "messages_tool_choice", "messages_tools"]

API = "the Messages API"

Warn: TypeAlias = "list[CallWarning]"
Turns: TypeAlias = "list[tuple[Literal['user', 'assistant'], list[ContentBlockParam]]]"

BlockT = TypeVar("BlockT")

_RESULT_TYPES: Final = {
    "tool_search_tool_regex": "tool_search_tool_result",
    "tool_search_tool_bm25": "tool_search_tool_result",
}
"""The block types of results of server tools whose name is not in front of it."""


@dataclass(slots=True)
class MessagesPrompt:
    """A prompt as the API takes it."""

    system: list[TextBlockParam] = field(default_factory=list["TextBlockParam"])
    messages: list[MessageParam] = field(default_factory=list["MessageParam"])


def messages_prompt(prompt: Prompt, warnings: Warn) -> MessagesPrompt:
    """Return a prompt as the API takes it.

    System messages in front become the system prompt. Later ones become a text of the user's turn in `<system>` tags,
    because most models take no system messages there.

    Args:
        prompt: the prompt.
        warnings: what is left out is told here.

    Raises:
        InvalidPromptError: a file has a form that cannot be sent.
    """
    made = MessagesPrompt()
    turns: Turns = []
    for message in prompt:
        if isinstance(message, SystemMessage) and not turns:
            made.system.append(_cached({"type": "text", "text": message.content}, message.provider_options))
            continue
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        turns[-1][1].extend(_blocks(message, warnings))
    _trim_prefill(turns)
    for role, blocks in turns:
        if blocks:
            made.messages.append(cast("MessageParam", {"role": role, "content": _in_order(blocks)}))
    return made


def messages_tools(tools: Iterable[ModelTool], warnings: Warn) -> list[ToolUnionParam]:
    """Return tools as the API takes them; `anthropic.KIND` is its own tool of that type, under its own name."""
    made: list[ToolUnionParam] = []
    for tool in tools:
        if isinstance(tool, FunctionTool):
            made.append(_function(tool))
            continue
        vendor, _, kind = tool.id.partition(".")
        if vendor == "anthropic" and kind:
            members = cast("Body", snake_case_keys(tool.args))
            made.append(cast("ToolUnionParam", {"type": kind, "name": tool.name, **members}))
        else:
            warnings.append(unsupported(f"tool {tool.id}", f"{API} runs the tools of `anthropic` only"))
    return made


def messages_tool_choice(choice: ToolChoice, *, one_at_a_time: bool | None) -> ToolChoiceParam | None:
    """Return a tool choice as the API takes it; `None` for its default.

    Args:
        choice: the choice.
        one_at_a_time: whether the model may call several tools at once; `None` says nothing about it.
    """
    made: Body
    match choice.type:
        case "none":
            return {"type": "none"}
        case "auto":
            made = {"type": "auto"}
        case "required":
            made = {"type": "any"}
        case "tool":
            made = {"type": "tool", "name": choice.tool_name}
    if one_at_a_time is not None:
        made["disable_parallel_tool_use"] = one_at_a_time
    return None if made == {"type": "auto"} else cast("ToolChoiceParam", made)


def _function(tool: FunctionTool) -> ToolParam:
    made: ToolParam = {"name": tool.name, "input_schema": dict(tool.input_schema)}
    if tool.description is not None:
        made["description"] = tool.description
    if tool.strict is not None:
        made["strict"] = tool.strict
    if tool.input_examples:
        made["input_examples"] = [cast("Body", example["input"]) for example in tool.input_examples]
    return _cached(made, tool.provider_options)


def _in_order(blocks: list[ContentBlockParam]) -> str | list[ContentBlockParam]:
    """Return the content of a turn: results of tools must come first, and a plain text needs no block."""
    if len(blocks) == 1 and blocks[0]["type"] == "text" and len(blocks[0]) == 2:
        return blocks[0]["text"]
    return sorted(blocks, key=lambda block: block["type"] != "tool_result")


def _trim_prefill(turns: Turns) -> None:
    """Take the white space off the end of an answer that the model shall go on with; the API refuses it."""
    if not turns or turns[-1][0] != "assistant" or not turns[-1][1]:
        return
    blocks = turns[-1][1]
    last = blocks[-1]
    if last["type"] == "text":
        last["text"] = last["text"].rstrip()
        if not last["text"]:
            blocks.pop()


def _blocks(message: ModelMessage, warnings: Warn) -> list[ContentBlockParam]:
    """Return the content of a message; cache options of the message are those of its last block."""
    blocks = _content(message, warnings)
    if blocks and "cache_control" not in blocks[-1] and "thinking" not in blocks[-1]["type"]:
        _cached(blocks[-1], message.provider_options)
    return blocks


def _content(message: ModelMessage, warnings: Warn) -> list[ContentBlockParam]:
    match message:
        case SystemMessage():
            return [{"type": "text", "text": f"<system>\n{message.content}\n</system>"}]
        case UserMessage():
            return [_user_block(part) for part in parts_of(message.content) if not _is_empty(part)]
        case AssistantMessage():
            parts = (TextPart(message.content),) if isinstance(message.content, str) else message.content
            made = (_assistant_block(part, warnings) for part in parts if not _is_empty(part))
            return [block for block in made if block is not None]
        case ToolMessage():
            results = (part for part in message.content if isinstance(part, ToolResultPart))
            return [_tool_result(part, warnings) for part in results]


def _is_empty(part: object) -> bool:
    return isinstance(part, TextPart) and not part.text


# What the user says -----------------------------------------------------------------------------------------------


def _user_block(part: TextPart | FilePart) -> TextBlockParam | ImageBlockParam | DocumentBlockParam:
    if isinstance(part, TextPart):
        return _cached({"type": "text", "text": part.text}, part.provider_options)
    media_type = media_type_of(part)
    source = _source(part, media_type)
    if source is None:
        msg = f"{API} takes images, PDF files and texts; a user message holds a file of type {media_type}"
        raise InvalidPromptError(msg)
    if media_type.startswith("image/"):
        image = cast("ImageBlockParam", {"type": "image", "source": source})
        return _cached(image, part.provider_options)
    document = cast("DocumentBlockParam", {"type": "document", "source": source})
    title = metadata_text(part.provider_options, "anthropic", "title") or part.filename
    if title is not None:
        document["title"] = title
    context = metadata_text(part.provider_options, "anthropic", "context")
    if context is not None:
        document["context"] = context
    if isinstance(citations := member_of(member_of(part.provider_options, "anthropic"), "citations"), Mapping):
        document["citations"] = {"enabled": bool(member_of(cast("object", citations), "enabled"))}
    return _cached(document, part.provider_options)


def _source(part: FilePart, media_type: str) -> Body | None:
    """Return the source of an image or document; `None` for a file of another kind."""
    data = tagged_data(part.data)
    match data:
        case ReferenceData():
            file_id = reference_of(data, "anthropic")
            return None if file_id is None else {"type": "file", "file_id": file_id}
        case UrlData():
            return {"type": "url", "url": data.url}
        case TextData():
            return {"type": "text", "media_type": "text/plain", "data": data.text}
        case InlineData():
            if media_type.startswith("text/"):
                text = to_bytes(data.data).decode("utf-8", "replace")
                return {"type": "text", "media_type": "text/plain", "data": text}
            if media_type == "application/pdf" or media_type.startswith("image/"):
                return {"type": "base64", "media_type": media_type, "data": to_base64(data.data)}
            return None


# What the model said ----------------------------------------------------------------------------------------------


def _assistant_block(part: AssistantContentPart, warnings: Warn) -> ContentBlockParam | None:
    match part:
        case TextPart():
            return _cached({"type": "text", "text": part.text}, part.provider_options)
        case ReasoningPart():
            return _thinking(part, warnings)
        case ToolCallPart():
            kind = "server_tool_use" if part.provider_executed else "tool_use"
            call = {"type": kind, "id": part.tool_call_id, "name": part.tool_name, "input": _object(part.input)}
            return _cached(cast("ContentBlockParam", call), part.provider_options)
        case ToolResultPart():
            kind = _RESULT_TYPES.get(part.tool_name, f"{part.tool_name}_tool_result")
            result = {"type": kind, "tool_use_id": part.tool_call_id, "content": part.output.value}
            return cast("ContentBlockParam", result)
        case _:
            if part.type != "tool-approval-request":
                warnings.append(unsupported(f"{part.type} of an assistant message", f"{API} has no form for it"))
            return None


def _object(value: object) -> Mapping[str, object]:
    """Return a call's input; the API takes objects only, so that of a call whose input was none is empty."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _thinking(part: ReasoningPart, warnings: Warn) -> ContentBlockParam | None:
    signature = metadata_text(part.provider_options, "anthropic", "signature")
    if signature is not None:
        return {"type": "thinking", "thinking": part.text, "signature": signature}
    redacted = metadata_text(part.provider_options, "anthropic", "redactedData")
    if redacted is not None:
        return {"type": "redacted_thinking", "data": redacted}
    warnings.append(unsupported("reasoning without a signature", f"{API} takes back only what it gave"))
    return None


# What tools answered ----------------------------------------------------------------------------------------------


def _tool_result(part: ToolResultPart, warnings: Warn) -> ToolResultBlockParam:
    text = output_text(part.output)
    result: ToolResultBlockParam = {"type": "tool_result", "tool_use_id": part.tool_call_id}
    if text is not None:
        result["content"] = text
    else:
        result["content"] = _result_content(part, warnings)
    if part.output.type in ("error-text", "error-json"):
        result["is_error"] = True
    _cached(result, part.output.provider_options)
    return _cached(result, part.provider_options)


def _result_content(part: ToolResultPart, warnings: Warn) -> list[Content]:
    content: list[Content] = []
    for item in output_parts(part.output):
        if item is None or (isinstance(item, FilePart) and _source(item, media_type_of(item)) is None):
            warnings.append(unsupported(f"an item in a result of tool {part.tool_name}", f"{API} has no form for it"))
        elif not _is_empty(item):
            content.append(_user_block(item))
    return content


def _cached(block: BlockT, options: ProviderOptions | None) -> BlockT:
    """Put the cache options of a part on its block."""
    given = member_of(options, "anthropic")
    wanted = member_of(given, "cacheControl") or member_of(given, "cache_control")
    if isinstance(wanted, Mapping):
        cast("Body", block)["cache_control"] = snake_case_keys(cast("object", wanted))
    return block
