"""Prompts and tools as the Responses API takes them.

What the model said goes back as the items it came in: with their ids where they are known, and reasoning with its
encrypted content. What the API has no form for is left out, and the caller is warned of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from chatagent.errors import InvalidPromptError
from chatagent.model import (
    AssistantMessage,
    FunctionTool,
    InlineData,
    ProviderTool,
    ReasoningPart,
    ReferenceData,
    SystemMessage,
    TextData,
    TextPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UrlData,
    UserMessage,
    tagged_data,
)
from chatagent.providers.content import (
    data_url,
    media_type_of,
    metadata_text,
    output_parts,
    output_text,
    parts_of,
    reference_of,
)
from chatagent.providers.requests import json_text, member_of, snake_case_keys, unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openai.types.responses import (
        EasyInputMessageParam,
        FunctionToolParam,
        ResponseFunctionToolCallParam,
        ResponseInputContentParam,
        ResponseInputFileParam,
        ResponseInputImageParam,
        ResponseInputItemParam,
        ResponseOutputMessageParam,
        ResponseReasoningItemParam,
        ToolParam,
    )
    from openai.types.responses.response_create_params import ToolChoice as ToolChoiceParam
    from openai.types.responses.response_function_call_output_item_list_param import (
        ResponseFunctionCallOutputItemParam,
    )
    from openai.types.responses.response_output_message_param import Content

    from chatagent.model import AssistantContentPart, CallWarning, FilePart, ModelMessage, ModelTool, Prompt, ToolChoice

__all__ = ["hosted_kind", "responses_input", "responses_tool_choice", "responses_tools"]

API = "the Responses API"

Warn: TypeAlias = "list[CallWarning]"


def responses_input(prompt: Prompt, warnings: Warn) -> list[ResponseInputItemParam]:
    """Return a prompt as the API takes it.

    Args:
        prompt: the prompt.
        warnings: what is left out is told here.

    Raises:
        InvalidPromptError: a file has a form that cannot be sent.
    """
    items: list[ResponseInputItemParam] = []
    for message in prompt:
        items += _message(message, warnings)
    return items


def responses_tools(tools: Iterable[ModelTool], warnings: Warn) -> list[ToolParam]:
    """Return tools as the API takes them; `openai.NAME` is its own tool of the type NAME."""
    made: list[ToolParam] = []
    for tool in tools:
        kind = hosted_kind(tool)
        if isinstance(tool, FunctionTool):
            made.append(_function(tool, warnings))
        elif kind is None:
            warnings.append(unsupported(f"tool {tool.id}", f"{API} runs the tools of `openai` only"))
        else:
            made.append(cast("ToolParam", {"type": kind, **cast("dict[str, object]", snake_case_keys(tool.args))}))
    return made


def responses_tool_choice(choice: ToolChoice, tools: Iterable[ModelTool]) -> ToolChoiceParam | None:
    """Return a tool choice as the API takes it; `None` for its default."""
    if choice.type == "auto":
        return None
    if choice.type != "tool":
        return choice.type
    kinds = (hosted_kind(tool) for tool in tools if tool.name == choice.tool_name)
    kind = next(kinds, None)
    if kind is not None:
        return cast("ToolChoiceParam", {"type": kind})
    return {"type": "function", "name": choice.tool_name or ""}


def hosted_kind(tool: ModelTool) -> str | None:
    """Return the API's type of a tool that the provider runs; `None` if it is not one of its own."""
    vendor, _, kind = tool.id.partition(".") if isinstance(tool, ProviderTool) else ("", "", "")
    return kind if vendor == "openai" else None


def _function(tool: FunctionTool, warnings: Warn) -> FunctionToolParam:
    if tool.input_examples:
        warnings.append(unsupported(f"input_examples of tool {tool.name}", f"{API} takes none"))
    # Without `strict` the API makes every parameter required, which is not what the schema says.
    made: FunctionToolParam = {
        "type": "function",
        "name": tool.name,
        "parameters": dict(tool.input_schema),
        "strict": bool(tool.strict),
    }
    if tool.description is not None:
        made["description"] = tool.description
    return made


def _message(message: ModelMessage, warnings: Warn) -> Sequence[ResponseInputItemParam]:
    match message:
        case SystemMessage():
            system: EasyInputMessageParam = {"role": "system", "content": message.content}
            return [system]
        case UserMessage():
            content = [_input_part(part) for part in parts_of(message.content)]
            only = content[0] if len(content) == 1 else None
            user: EasyInputMessageParam = {"role": "user", "content": content}
            if only is not None and only["type"] == "input_text":
                user["content"] = only["text"]
            return [user]
        case AssistantMessage():
            return _assistant_items(message.content, warnings)
        case ToolMessage():
            return [_tool_item(part, warnings) for part in message.content]


def _input_part(part: TextPart | FilePart) -> ResponseInputContentParam:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    media_type, data = media_type_of(part), tagged_data(part.data)
    if isinstance(data, TextData):
        return {"type": "input_text", "text": data.text}
    if media_type.startswith("image/"):
        return _image(part, media_type, data)
    file: ResponseInputFileParam = {"type": "input_file"}
    match data:
        case UrlData():
            file["file_url"] = data.url
        case ReferenceData():
            file["file_id"] = _file_id(data)
        case InlineData():
            file["filename"] = part.filename or f"file.{media_type.rpartition('/')[2]}"
            file["file_data"] = data_url(media_type, data)
    return file


def _image(part: FilePart, media_type: str, data: InlineData | UrlData | ReferenceData) -> ResponseInputImageParam:
    detail = metadata_text(part.provider_options, "openai", "imageDetail") or "auto"
    image: ResponseInputImageParam = {"type": "input_image", "detail": cast("Literal['auto']", detail)}
    match data:
        case UrlData():
            image["image_url"] = data.url
        case ReferenceData():
            image["file_id"] = _file_id(data)
        case InlineData():
            image["image_url"] = data_url(media_type, data)
    return image


def _file_id(data: ReferenceData) -> str:
    file_id = reference_of(data, "openai")
    if file_id is None:
        msg = f"a file by reference ({dict(data.reference)!r:.200}) has no id at `openai`: send its data"
        raise InvalidPromptError(msg)
    return file_id


# What the model said ----------------------------------------------------------------------------------------------


def _assistant_items(content: str | Sequence[AssistantContentPart], warnings: Warn) -> list[ResponseInputItemParam]:
    items: list[ResponseInputItemParam] = []
    thoughts: list[ReasoningPart] = []
    for part in (TextPart(content),) if isinstance(content, str) else content:
        if isinstance(part, ReasoningPart):
            if thoughts and not _belong_together(thoughts[-1], part):
                items += _reasoning_items(thoughts, warnings)
                thoughts = []
            thoughts.append(part)
            continue
        items += _reasoning_items(thoughts, warnings)
        thoughts = []
        if isinstance(part, TextPart):
            items.append(_said(part))
        elif isinstance(part, ToolCallPart) and not part.provider_executed:
            items.append(_function_call(part))
        elif isinstance(part, ToolCallPart | ToolResultPart):
            items += _hosted_items(part, items, warnings)
        elif part.type != "tool-approval-request":
            warnings.append(unsupported(f"{part.type} of an assistant message", f"{API} has no form for it"))
    return [*items, *_reasoning_items(thoughts, warnings)]


def _belong_together(first: ReasoningPart, second: ReasoningPart) -> bool:
    """Return whether two pieces of reasoning came in one item; its encrypted content is told with the last piece."""
    item_id = metadata_text(first.provider_options, "openai", "itemId")
    if item_id != metadata_text(second.provider_options, "openai", "itemId"):
        return False
    return item_id is not None or _encrypted(first) is None


def _encrypted(part: ReasoningPart) -> str | None:
    return metadata_text(part.provider_options, "openai", "reasoningEncryptedContent")


def _reasoning_items(parts: Sequence[ReasoningPart], warnings: Warn) -> list[ResponseInputItemParam]:
    """Return the pieces of one reasoning item as that item; nothing if the provider could not know it again."""
    if not parts:
        return []
    item_id = metadata_text(parts[0].provider_options, "openai", "itemId")
    encrypted = next((found for part in reversed(parts) if (found := _encrypted(part)) is not None), None)
    if item_id is None and encrypted is None:
        warnings.append(unsupported("reasoning of another model", f"{API} takes back only what it gave"))
        return []
    # The SDK's type demands an id; the API takes encrypted content without one.
    item = cast(
        "ResponseReasoningItemParam", {"type": "reasoning"} if item_id is None else {"type": "reasoning", "id": item_id}
    )
    item["summary"] = [{"type": "summary_text", "text": part.text} for part in parts if part.text]
    if encrypted is not None:
        item["encrypted_content"] = encrypted
    return [item]


def _said(part: TextPart) -> ResponseInputItemParam:
    given = member_of(part.provider_options, "openai")
    content: Content = {"type": "output_text", "text": part.text, "annotations": []}
    if member_of(given, "refusal"):
        content = {"type": "refusal", "refusal": part.text}
    # The SDK's type demands an id and a status; the API takes messages that were not its own.
    message = cast("ResponseOutputMessageParam", {"role": "assistant", "content": [content]})
    item_id = metadata_text(part.provider_options, "openai", "itemId")
    if item_id is not None:
        message["type"], message["id"], message["status"] = "message", item_id, "completed"
    phase = metadata_text(part.provider_options, "openai", "phase")
    if phase is not None:
        message["phase"] = cast("Literal['commentary']", phase)
    return message


def _function_call(part: ToolCallPart) -> ResponseInputItemParam:
    call: ResponseFunctionToolCallParam = {
        "type": "function_call",
        "call_id": part.tool_call_id,
        "name": part.tool_name,
        "arguments": json_text(part.input),
    }
    item_id = metadata_text(part.provider_options, "openai", "itemId")
    if item_id is not None:
        call["id"] = item_id
    return call


def _hosted_items(
    part: ToolCallPart | ToolResultPart, items: Sequence[ResponseInputItemParam], warnings: Warn
) -> list[ResponseInputItemParam]:
    """Return a call of a hosted tool, which the provider has stored, by its id; its result is part of the same item."""
    item_id = metadata_text(part.provider_options, "openai", "itemId")
    if item_id is None:
        if isinstance(part, ToolCallPart):
            warnings.append(unsupported(f"call of hosted tool {part.tool_name}", f"{API} knows it by its item id only"))
        return []
    reference: ResponseInputItemParam = {"type": "item_reference", "id": item_id}
    return [] if reference in items else [reference]


# What tools answered ----------------------------------------------------------------------------------------------


def _tool_item(part: ToolResultPart | ToolApprovalResponsePart, warnings: Warn) -> ResponseInputItemParam:
    if isinstance(part, ToolApprovalResponsePart):
        return {
            "type": "mcp_approval_response",
            "approval_request_id": part.approval_id,
            "approve": part.approved,
        }
    text = output_text(part.output)
    if text is not None:
        return {"type": "function_call_output", "call_id": part.tool_call_id, "output": text}
    content: list[ResponseFunctionCallOutputItemParam] = []
    for item in output_parts(part.output):
        if item is None:
            warnings.append(unsupported(f"an item in a result of tool {part.tool_name}", "its kind is not known"))
        else:
            content.append(cast("ResponseFunctionCallOutputItemParam", _input_part(item)))
    return {"type": "function_call_output", "call_id": part.tool_call_id, "output": content}
