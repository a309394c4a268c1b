"""Prompts and tools as the Chat Completions API takes them.

What the API has no form for is left out, and the caller is warned of it; the order of everything else is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from chatagent.errors import InvalidPromptError
from chatagent.model import (
    AssistantMessage,
    FunctionTool,
    InlineData,
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
from chatagent.providers.content import (
    data_url,
    media_type_of,
    metadata_text,
    output_parts,
    output_text,
    parts_of,
    reference_of,
)
from chatagent.providers.requests import json_text, member_of, unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openai.types.chat import (
        ChatCompletionAssistantMessageParam,
        ChatCompletionContentPartParam,
        ChatCompletionContentPartTextParam,
        ChatCompletionFunctionToolParam,
        ChatCompletionMessageFunctionToolCallParam,
        ChatCompletionMessageParam,
        ChatCompletionToolChoiceOptionParam,
        ChatCompletionToolMessageParam,
    )
    from openai.types.chat.chat_completion_content_part_image_param import ImageURL
    from openai.types.chat.chat_completion_message_function_tool_call_param import Function

    from chatagent.model import AssistantContentPart, CallWarning, FilePart, ModelMessage, ModelTool, Prompt, ToolChoice

__all__ = ["chat_messages", "chat_tool_choice", "chat_tools"]

API = "the Chat Completions API"

Warn: TypeAlias = "list[CallWarning]"


def chat_messages(prompt: Prompt, warnings: Warn) -> list[ChatCompletionMessageParam]:
    """Return a prompt as the API takes it.

    Args:
        prompt: the prompt.
        warnings: what is left out is told here.

    Raises:
        InvalidPromptError: a file has a form that cannot be sent.
    """
    messages: list[ChatCompletionMessageParam] = []
    for message in prompt:
        messages += _message(message, warnings)
    return messages


def chat_tools(tools: Iterable[ModelTool], warnings: Warn) -> list[ChatCompletionFunctionToolParam]:
    """Return tools as the API takes them; it has none of its own."""
    made: list[ChatCompletionFunctionToolParam] = []
    for tool in tools:
        if isinstance(tool, FunctionTool):
            made.append(_tool(tool, warnings))
        else:
            warnings.append(unsupported(f"tool {tool.id}", f"{API} has no tools of its own; use the Responses API"))
    return made


def chat_tool_choice(choice: ToolChoice) -> ChatCompletionToolChoiceOptionParam | None:
    """Return a tool choice as the API takes it; `None` for its default."""
    match choice.type:
        case "auto":
            return None
        case "none" | "required":
            return choice.type
        case "tool":
            return {"type": "function", "function": {"name": choice.tool_name or ""}}


def _tool(tool: FunctionTool, warnings: Warn) -> ChatCompletionFunctionToolParam:
    if tool.input_examples:
        warnings.append(unsupported(f"input_examples of tool {tool.name}", f"{API} takes none"))
    made: ChatCompletionFunctionToolParam = {
        "type": "function",
        "function": {"name": tool.name, "parameters": dict(tool.input_schema)},
    }
    if tool.description is not None:
        made["function"]["description"] = tool.description
    if tool.strict is not None:
        made["function"]["strict"] = tool.strict
    return made


def _message(message: ModelMessage, warnings: Warn) -> Sequence[ChatCompletionMessageParam]:
    match message:
        case SystemMessage():
            return [{"role": "system", "content": message.content}]
        case UserMessage():
            content = [_user_part(part) for part in parts_of(message.content)]
            only = content[0] if len(content) == 1 else None
            if only is not None and only["type"] == "text":
                return [{"role": "user", "content": only["text"]}]
            return [{"role": "user", "content": content}]
        case AssistantMessage():
            return _assistant_message(message.content, warnings)
        case ToolMessage():
            return [_tool_message(part, warnings) for part in message.content if isinstance(part, ToolResultPart)]


def _user_part(part: TextPart | FilePart) -> ChatCompletionContentPartParam:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    media_type, data = media_type_of(part), tagged_data(part.data)
    if isinstance(data, TextData):
        return {"type": "text", "text": data.text}
    if media_type.startswith("image/") and not isinstance(data, ReferenceData):
        image: ImageURL = {"url": data.url if isinstance(data, UrlData) else data_url(media_type, data)}
        detail = metadata_text(part.provider_options, "openai", "imageDetail")
        if detail is not None:
            image["detail"] = cast("Literal['auto', 'low', 'high']", detail)
        return {"type": "image_url", "image_url": image}
    if isinstance(data, UrlData):
        msg = f"{API} takes no {media_type} file by URL ({data.url!r:.200}): send its data"
        raise InvalidPromptError(msg)
    if isinstance(data, ReferenceData):
        file_id = reference_of(data, "openai")
        if file_id is None:
            msg = f"a file by reference ({dict(data.reference)!r:.200}) has no id at `openai`: send its data"
            raise InvalidPromptError(msg)
        return {"type": "file", "file": {"file_id": file_id}}
    return _inline_file(media_type, data, part.filename)


def _inline_file(media_type: str, data: InlineData, filename: str | None) -> ChatCompletionContentPartParam:
    match media_type:
        case "audio/wav" | "audio/wave" | "audio/x-wav":
            return {"type": "input_audio", "input_audio": {"data": to_base64(data.data), "format": "wav"}}
        case "audio/mp3" | "audio/mpeg":
            return {"type": "input_audio", "input_audio": {"data": to_base64(data.data), "format": "mp3"}}
        case _:
            name = filename or f"file.{media_type.rpartition('/')[2]}"
            return {"type": "file", "file": {"filename": name, "file_data": data_url(media_type, data)}}


def _assistant_message(
    content: str | Sequence[AssistantContentPart], warnings: Warn
) -> list[ChatCompletionAssistantMessageParam]:
    """Return what the model said; reasoning is not sent, the API has no place for it."""
    parts = (TextPart(content),) if isinstance(content, str) else content
    texts: list[str] = []
    refusals: list[str] = []
    calls: list[ChatCompletionMessageFunctionToolCallParam] = []
    for part in parts:
        if isinstance(part, TextPart):
            (refusals if _is_refusal(part) else texts).append(part.text)
        elif isinstance(part, ToolCallPart) and not part.provider_executed:
            function: Function = {"name": part.tool_name, "arguments": json_text(part.input)}
            calls.append({"id": part.tool_call_id, "type": "function", "function": function})
        elif part.type != "reasoning" and part.type != "tool-approval-request":
            warnings.append(unsupported(f"{part.type} of an assistant message", f"{API} has no form for it"))
    if not (texts or refusals or calls):
        return []
    message: ChatCompletionAssistantMessageParam = {"role": "assistant", "content": "".join(texts) if texts else None}
    if refusals:
        message["refusal"] = "".join(refusals)
    if calls:
        message["tool_calls"] = calls
    return [message]


def _is_refusal(part: TextPart) -> bool:
    return bool(member_of(member_of(part.provider_options, "openai"), "refusal"))


def _tool_message(part: ToolResultPart, warnings: Warn) -> ChatCompletionToolMessageParam:
    text = output_text(part.output)
    if text is not None:
        return {"role": "tool", "tool_call_id": part.tool_call_id, "content": text}
    content: list[ChatCompletionContentPartTextParam] = []
    for item in output_parts(part.output):
        if isinstance(item, TextPart):
            content.append({"type": "text", "text": item.text})
        else:
            warnings.append(unsupported(f"files in a result of tool {part.tool_name}", f"{API} takes only text there"))
    return {"role": "tool", "tool_call_id": part.tool_call_id, "content": content}
