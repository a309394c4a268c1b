"""Model messages as the history that pydantic-ai keeps: in its serialized form, so that it need not be imported here.

What pydantic-ai noted down in the metadata of its chunks (signatures of thoughts, ids of providers) goes back into the
parts that it came from. Left out is what its history has no place for: content that only one provider has, files of
thoughts, and files of the assistant that are no inline data.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pydantic_core import to_json

from chatagent.errors import InvalidPromptError
from chatagent.model import (
    AssistantMessage,
    FilePart,
    ImagePart,
    InlineData,
    ReasoningPart,
    ReferenceData,
    SystemMessage,
    TextData,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultPart,
    UrlData,
    UserMessage,
    tagged_data,
    to_base64,
)
from chatagent.model.files import detect_image_type
from chatagent.ui import UNSET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatagent.model import (
        AssistantContentPart,
        FileData,
        ModelMessage,
        ProviderOptions,
        ToolResultOutput,
        UserContentPart,
    )
    from chatagent.ui import JSONObject

__all__ = ["DENIED", "History", "history_of"]

DENIED = "Tool call execution denied."
"""What the model is told of a call that was denied without a reason."""

_METADATA_KEY = "pydantic_ai"
"""Under which pydantic-ai keeps what it wants to see again, in the metadata of chunks and parts."""

_KEPT_OF_TEXT = ("id", "provider_name", "provider_details")
_KEPT_OF_THINKING = (*_KEPT_OF_TEXT, "signature")
_KEPT_OF_CALL = (*_KEPT_OF_TEXT, "tool_kind")


@dataclass(frozen=True, slots=True)
class History:
    """A conversation in the terms of pydantic-ai."""

    messages: list[JSONObject]
    """Its messages, serialized."""
    approvals: dict[str, bool | str]
    """The answers at the end, by the id of the call: approved, denied, or denied for a reason."""


def history_of(messages: Sequence[ModelMessage]) -> History:
    """Return a conversation as pydantic-ai's history.

    Args:
        messages: the conversation, oldest message first.

    Raises:
        InvalidPromptError: there are no messages, or a file cannot be read.
    """
    if not messages:
        msg = "Invalid prompt: messages must not be empty"
        raise InvalidPromptError(msg)
    asked = _calls_by_approval(messages)
    approvals = _open_answers(messages[-1], asked)
    converted: list[JSONObject] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            _append(converted, "response", _said(message), **_origin(message))
        else:
            skipped = approvals.keys() if message is messages[-1] else ()
            _append(converted, "request", _asked(message, asked, skipped))
    return History(converted, approvals)


def _append(messages: list[JSONObject], kind: str, parts: Iterator[JSONObject], **more: object) -> None:
    listed = list(parts)
    if listed:
        messages.append({"kind": kind, "parts": listed, **more})


# Approvals ------------------------------------------------------------------------------------------------------------


def _calls_by_approval(messages: Sequence[ModelMessage]) -> dict[str, str]:
    """Return the ids of the calls that were asked about, by the id of the question."""
    return {
        part.approval_id: part.tool_call_id
        for message in messages
        if isinstance(message, AssistantMessage) and not isinstance(message.content, str)
        for part in message.content
        if isinstance(part, ToolApprovalRequestPart)
    }


def _open_answers(last: ModelMessage, asked: Mapping[str, str]) -> dict[str, bool | str]:
    """Return the answers in the last message on which nothing was done yet."""
    if not isinstance(last, ToolMessage):
        return {}
    settled = {
        part.tool_call_id
        for part in last.content
        if isinstance(part, ToolResultPart) and part.output.type != "execution-denied"
    }
    answers: dict[str, bool | str] = {}
    for part in last.content:
        call_id = asked.get(part.approval_id) if isinstance(part, ToolApprovalResponsePart) else None
        if isinstance(part, ToolApprovalResponsePart) and call_id is not None and call_id not in settled:
            answers[call_id] = part.approved or part.reason or False
    return answers


# What the model was told ----------------------------------------------------------------------------------------------


def _asked(
    message: SystemMessage | UserMessage | ToolMessage, asked: Mapping[str, str], skipped: Collection[str]
) -> Iterator[JSONObject]:
    match message:
        case SystemMessage():
            yield {"part_kind": "system-prompt", "content": message.content}
        case UserMessage():
            yield {"part_kind": "user-prompt", "content": _user_content(message.content)}
        case ToolMessage():
            denied = {
                asked.get(part.approval_id)
                for part in message.content
                if isinstance(part, ToolApprovalResponsePart) and not part.approved
            }
            for part in message.content:
                if isinstance(part, ToolResultPart) and part.tool_call_id not in skipped:
                    yield _tool_return(part, is_denied=part.tool_call_id in denied)


def _user_content(content: str | Sequence[UserContentPart]) -> object:
    if isinstance(content, str):
        return content
    items = [item for part in content if (item := _user_item(part)) != ""]
    match items:
        case [str() as text]:
            return text
        case _:
            return items


def _user_item(part: UserContentPart) -> str | JSONObject:
    match part:
        case TextPart():
            return part.text
        case ImagePart():
            return _file(tagged_data(part.image), part.media_type or "image/*")
        case FilePart():
            return _file(tagged_data(part.data), part.media_type)


def _tool_return(part: ToolResultPart, *, is_denied: bool) -> JSONObject:
    output = part.output
    failed = "failed" if output.type.startswith("error") else "success"
    return {
        "part_kind": "tool-return",
        "tool_name": part.tool_name,
        "tool_call_id": part.tool_call_id,
        "content": _output(output),
        "outcome": "denied" if is_denied or output.type == "execution-denied" else failed,
    }


def _output(output: ToolResultOutput) -> object:
    if output.type == "execution-denied":
        return output.reason or DENIED
    if output.type != "content":
        return output.value
    items = cast("Sequence[Mapping[str, object]]", output.value)
    return [item.get("text") if item.get("type") == "text" else dict(item) for item in items]


# What the model said --------------------------------------------------------------------------------------------------


def _said(message: AssistantMessage) -> Iterator[JSONObject]:
    if isinstance(message.content, str):
        yield {"part_kind": "text", "content": message.content}
        return
    for part in message.content:
        said = _said_part(part)
        if said is not None:
            yield said


def _said_part(part: AssistantContentPart) -> JSONObject | None:
    match part:
        case TextPart():
            empty = not part.text and part.provider_options is None
            return None if empty else {"part_kind": "text", "content": part.text, **_kept(part, _KEPT_OF_TEXT)}
        case ReasoningPart():
            return {"part_kind": "thinking", "content": part.text, **_kept(part, _KEPT_OF_THINKING)}
        case FilePart():
            data = tagged_data(part.data)
            if not isinstance(data, InlineData):
                return None
            return {"part_kind": "file", "content": _file(data, part.media_type), **_kept(part, _KEPT_OF_TEXT)}
        case ToolCallPart():
            return _call(part)
        case ToolResultPart():
            return (
                _tool_return(part, is_denied=False) | {"part_kind": "builtin-tool-return"} | _kept(part, _KEPT_OF_CALL)
            )
        case _:
            return None


def _call(part: ToolCallPart) -> JSONObject:
    return {
        "part_kind": "builtin-tool-call" if part.provider_executed else "tool-call",
        "tool_name": part.tool_name,
        "tool_call_id": part.tool_call_id,
        "args": _arguments(part.input),
        **_kept(part, _KEPT_OF_CALL),
    }


def _arguments(value: object) -> object:
    """Return the input of a call: an object, or the text that should have been one."""
    if value is None or value is UNSET:
        return None
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    return value if isinstance(value, str) else to_json(value).decode()


def _origin(message: AssistantMessage) -> JSONObject:
    """Return which provider a response came from, as its parts tell it."""
    for part in () if isinstance(message.content, str) else message.content:
        kept = _metadata(part.provider_options)
        if "provider_name" in kept and "canonical_system" in kept:
            return {key: kept[key] for key in ("provider_name", "canonical_system")}
    return {}


def _kept(part: AssistantContentPart, keys: Sequence[str]) -> JSONObject:
    metadata = _metadata(part.provider_options)
    return {key: metadata[key] for key in keys if key in metadata}


def _metadata(options: ProviderOptions | None) -> Mapping[str, object]:
    return (options or {}).get(_METADATA_KEY, {})


# Files ----------------------------------------------------------------------------------------------------------------


def _file(data: FileData, media_type: str) -> JSONObject:
    match data:
        case InlineData():
            known = not media_type.endswith("/*")
            sure = media_type if known else detect_image_type(data.data) or "image/png"
            return {"kind": "binary", "data": to_base64(data.data), "media_type": sure}
        case TextData():
            return {"kind": "binary", "data": to_base64(data.text.encode()), "media_type": media_type}
        case UrlData():
            general = media_type.partition("/")[0]
            kind = f"{general}-url" if general in ("image", "audio", "video") else "document-url"
            named = {} if media_type.endswith("/*") else {"media_type": media_type}
            return {"kind": kind, "url": data.url, **named}
        case ReferenceData():
            return {"kind": "uploaded-file", "media_type": media_type, **_reference(data)}


def _reference(data: ReferenceData) -> JSONObject:
    for provider, file_id in data.reference.items():
        return {"provider_name": provider, "file_id": file_id}
    msg = "Invalid prompt: a file by reference names no provider that holds it"
    raise InvalidPromptError(msg)
