"""Prompt messages to and from their wire form: camelCase dicts, absent keys absent, unknown keys kept.

Callers may pass messages as dicts wherever they may pass objects; they are read and checked here, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from typing import NamedTuple, TypeVar, cast

from chatagent.errors import InvalidPromptError
from chatagent.model.files import file_data_to_wire, parse_file_data
from chatagent.model.prompt import (
    AssistantMessage,
    CustomPart,
    FilePart,
    ImagePart,
    ModelMessage,
    ReasoningFilePart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolMessage,
    ToolResultOutput,
    ToolResultPart,
    UserMessage,
)
from chatagent.ui.messages import UIMessage
from chatagent.ui.slots import UNSET

__all__ = [
    "message_to_wire",
    "parse_model_message",
    "parse_model_messages",
    "parse_tool_output",
    "parse_user_part",
    "prompt_to_wire",
]

ValueT = TypeVar("ValueT")

_MESSAGES: dict[str, type[ModelMessage]] = {
    message.role: message for message in (SystemMessage, UserMessage, AssistantMessage, ToolMessage)
}
_USER_PARTS = (TextPart, ImagePart, FilePart)
_ASSISTANT_PARTS = (
    TextPart,
    FilePart,
    ReasoningPart,
    ReasoningFilePart,
    CustomPart,
    ToolCallPart,
    ToolResultPart,
    ToolApprovalRequestPart,
)
_TOOL_PARTS = (ToolResultPart, ToolApprovalResponsePart)
_PARTS: dict[type[ModelMessage], dict[str, type]] = {
    UserMessage: {part.type: part for part in _USER_PARTS},
    AssistantMessage: {part.type: part for part in _ASSISTANT_PARTS},
    ToolMessage: {part.type: part for part in _TOOL_PARTS},
}
_MESSAGE_TYPES = frozenset({SystemMessage, UserMessage, AssistantMessage, ToolMessage})
_UI_MESSAGE = ", a UI message; convert it with `convert_to_model_messages`"
_OUTPUT_TYPES = ("text", "json", "error-text", "error-json", "execution-denied", "content")


def parse_model_messages(values: Iterable[object]) -> list[ModelMessage]:
    """Read messages from their wire form; see `parse_model_message`."""
    if isinstance(values, str | Mapping):
        raise _wrong("messages", cast("object", values), "; give a list of messages")
    values = list(values)
    if _MESSAGE_TYPES.issuperset(map(type, values)):
        return cast("list[ModelMessage]", values)
    return [parse_model_message(value, path=f"messages[{index}]") for index, value in enumerate(values)]


def parse_model_message(value: object, *, path: str = "message") -> ModelMessage:
    """Read one message from its wire form.

    Args:
        value: the message as a mapping; a message object is returned as it is.
        path: where the message stands, for error texts.

    Returns:
        The message; keys that nobody knows are in its `extra`, content that is a string stays a string.

    Raises:
        InvalidPromptError: it is no message; the text names the first thing that is wrong.
    """
    if isinstance(value, (SystemMessage, UserMessage, AssistantMessage, ToolMessage)):
        return value
    if isinstance(value, UIMessage):
        raise _wrong(path, value, _UI_MESSAGE)
    source = _mapping(value, path)
    role = source.get("role")
    message = _MESSAGES.get(role) if isinstance(role, str) else None
    if message is None:
        hint = "; it must be one of `system`, `user`, `assistant`, `tool`"
        raise _wrong(f"{path}.role", role, hint)
    if "parts" in source and "content" not in source:
        raise _wrong(path, value, _UI_MESSAGE)
    return _read(message, source, path, ignored="role")


def prompt_to_wire(messages: Iterable[ModelMessage]) -> list[dict[str, object]]:
    """Return messages in their wire form; see `message_to_wire`."""
    return [message_to_wire(message) for message in messages]


def message_to_wire(message: ModelMessage) -> dict[str, object]:
    """Return one message in its wire form: plain JSON-able data, bytes as base64 text."""
    wire: dict[str, object] = {"role": message.role}
    content = message.content
    if isinstance(content, str):
        wire["content"] = content
    else:
        wire["content"] = [_write(part, {"type": part.type}) for part in content]
    return _write(message, wire)


class _Field(NamedTuple):
    name: str
    key: str
    required: bool
    nullable: bool
    """Whether `None` is a value of its own, so that only `UNSET` means absent."""


@cache
def _fields(cls: type) -> tuple[_Field, ...]:
    return tuple(
        _Field(each.name, _camel(each.name), each.default is MISSING, each.default is UNSET or each.name == "value")
        for each in fields(cls)
        if each.name not in ("extra", "memo", "beginning")
    )


def _write(value: object, wire: dict[str, object]) -> dict[str, object]:
    """Add the fields of a message, part or output to its wire form."""
    for name, key, _, nullable in _fields(type(value)):
        item = getattr(value, name)
        if key in wire or item is UNSET or (item is None and not nullable):
            continue
        writer = _WRITERS.get(name)
        wire[key] = item if writer is None else writer(item)
    extra = cast("Mapping[str, object] | None", getattr(value, "extra"))  # noqa: B009 - every class of prompt.py has it
    if extra:
        wire.update(extra)
    return wire


def _write_output(output: ToolResultOutput) -> dict[str, object]:
    return _write(output, {"type": output.type})


_WRITERS: dict[str, Callable[..., object]] = {
    "data": file_data_to_wire,
    "image": file_data_to_wire,
    "output": _write_output,
}


def _read(cls: type[ValueT], source: Mapping[str, object], path: str, *, ignored: str = "type") -> ValueT:
    """Make an object of a class of prompt.py from its wire form."""
    values: dict[str, object] = {}
    table = _fields(cls)
    for name, key, required, nullable in table:
        item = source.get(key, UNSET)
        if item is UNSET or (item is None and not nullable):
            if required:
                raise _wrong(f"{path}.{key}", None if item is UNSET else item, "; it is required")
            continue
        values[name] = _read_field(cls, name, item, f"{path}.{key}")
    known = {key for _, key, _, _ in table} | {ignored}
    extra = {key: item for key, item in source.items() if key not in known}
    return cls(**values, **({"extra": extra} if extra else {}))


def _read_field(cls: type, name: str, item: object, path: str) -> object:
    if name == "content":
        return _read_content(cast("type[ModelMessage]", cls), item, path)
    if name in ("data", "image"):
        return _read_data(item, path)
    if name == "output":
        return parse_tool_output(item, path=path)
    expected = _EXPECTED.get(name)
    if expected is not None and not isinstance(item, expected[0]):
        raise _wrong(path, item, f"; it must be {expected[1]}")
    return item


_TEXT, _FLAG, _OBJECT = (str, "a string"), (bool, "true or false"), (Mapping, "an object")
_EXPECTED: dict[str, tuple[type, str]] = {
    "approval_id": _TEXT,
    "approved": _FLAG,
    "filename": _TEXT,
    "is_automatic": _FLAG,
    "kind": _TEXT,
    "media_type": _TEXT,
    "provider_executed": _FLAG,
    "provider_options": _OBJECT,
    "reason": _TEXT,
    "signature": _TEXT,
    "text": _TEXT,
    "tool_call_id": _TEXT,
    "tool_name": _TEXT,
}


def _read_content(cls: type[ModelMessage], content: object, path: str) -> object:
    if isinstance(content, str) and cls is not ToolMessage:
        return content
    parts = _PARTS.get(cls)
    if parts is None or isinstance(content, (str, bytes)) or not isinstance(content, Sequence):
        raise _wrong(path, content, "; it must be a string" if parts is None else "; it must be a list of parts")
    items = cast("Sequence[object]", content)
    return tuple(_read_part(parts, item, f"{path}[{index}]") for index, item in enumerate(items))


def _read_part(parts: Mapping[str, type], item: object, path: str) -> object:
    if isinstance(item, tuple(parts.values())):
        return item
    source = _mapping(item, path)
    kind = source.get("type")
    part = parts.get(kind) if isinstance(kind, str) else None
    if part is None:
        raise _wrong(f"{path}.type", kind, f"; here it must be one of {', '.join(f'`{each}`' for each in parts)}")
    return _read(cast("type[object]", part), source, path)


def parse_user_part(item: object, *, path: str = "part") -> TextPart | ImagePart | FilePart:
    """Read one part of a user message from its wire form; an object is returned as it is.

    Raises:
        InvalidPromptError: it is no such part.
    """
    return cast("TextPart | ImagePart | FilePart", _read_part(_PARTS[UserMessage], item, path))


def parse_tool_output(item: object, *, path: str = "output") -> ToolResultOutput:
    """Read the outcome of a tool call from its wire form; an object is returned as it is.

    Raises:
        InvalidPromptError: it is none of the forms of rule 2.3.
    """
    if isinstance(item, ToolResultOutput):
        return item
    source = _mapping(item, path)
    kind = source.get("type")
    if kind not in _OUTPUT_TYPES:
        raise _wrong(f"{path}.type", kind, f"; it must be one of {', '.join(f'`{each}`' for each in _OUTPUT_TYPES)}")
    if kind in ("text", "error-text") and not isinstance(source.get("value"), str):
        raise _wrong(f"{path}.value", source.get("value"), "; it must be a string")
    if kind == "content" and not isinstance(source.get("value"), (list, tuple)):
        raise _wrong(f"{path}.value", source.get("value"), "; it must be a list of items")
    if kind in ("json", "error-json"):
        source = {"value": None, **source}
    return _read(ToolResultOutput, source, path, ignored="")


def _read_data(item: object, path: str) -> object:
    try:
        return parse_file_data(item)
    except InvalidPromptError as exc:
        msg = f"{path}: {exc}"
        raise InvalidPromptError(msg) from None


def _mapping(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _wrong(path, value, "; it must be an object")
    return cast("Mapping[str, object]", value)


def _wrong(path: str, value: object, hint: str) -> InvalidPromptError:
    return InvalidPromptError(f"Invalid prompt: `{path}` is {value!r:.200}{hint}")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
