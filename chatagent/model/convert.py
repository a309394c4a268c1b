"""UI messages to the messages that a model is asked with (rules 14.1 to 14.8).

One message is converted at a time, so that callers can keep what a message became beside it: apart from one rule
(`is_superseded`), nothing depends on the neighbours. Nothing is awaited here; tools whose `to_model_output` is async
need `convert_to_model_messages_async`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from chatagent.errors import InvalidMessageError, MessageConversionError
from chatagent.model.codec import parse_user_part
from chatagent.model.files import ReferenceData, UrlData, is_url
from chatagent.model.prompt import (
    AssistantContentPart,
    AssistantMessage,
    CustomPart,
    FilePart,
    ModelMessage,
    ReasoningFilePart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolApprovalRequestPart,
    ToolApprovalResponsePart,
    ToolCallPart,
    ToolContentPart,
    ToolMessage,
    ToolResultOutput,
    ToolResultPart,
    UserContentPart,
    UserMessage,
)
from chatagent.model.tool_output import ToModelOutputEvent, ToolWithModelOutput, tool_output, tool_output_now
from chatagent.ui.messages import (
    CustomUIPart,
    DataUIPart,
    DynamicToolUIPart,
    FileUIPart,
    ReasoningFileUIPart,
    ReasoningUIPart,
    SteeringMessageUIPart,
    StepStartUIPart,
    TextUIPart,
    ToolUIPart,
    UIMessage,
)
from chatagent.ui.slots import UNSET
from chatagent.ui.validation import parse_ui_message

if TYPE_CHECKING:
    from chatagent.ui.messages import ToolApproval, ToolPart, UIPart

__all__ = [
    "Conversion",
    "ConvertDataPart",
    "convert_message",
    "convert_to_model_messages",
    "convert_to_model_messages_async",
    "superseded_before",
]

ConvertDataPart = Callable[[DataUIPart], TextPart | FilePart | Mapping[str, object] | None]
"""Turns a data part into what the model sees of it, a text or a file (or its wire form); `None` drops it."""

_OUTPUT_GONE = ToolResultOutput("text", "Tool output omitted because the tool is no longer available.")
_DENIED = "Tool call execution denied."
_ROLES = ("system", "user", "assistant")
_FINISHED = frozenset({"approval-responded", "output-available", "output-error", "output-denied"})
_STREAMING = frozenset({"input-streaming", "partial-call"})
_BLOCK_PARTS = (TextUIPart, ReasoningUIPart, FileUIPart, ReasoningFileUIPart, CustomUIPart, DataUIPart)
_TOOL_PARTS = (ToolUIPart, DynamicToolUIPart)

_ToolPart = ToolUIPart | DynamicToolUIPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """How UI messages are converted; the options of `convert_to_model_messages` as a value."""

    tools: Mapping[str, ToolWithModelOutput] | None = None
    ignore_incomplete_tool_calls: bool = False
    convert_data_part: ConvertDataPart | None = None
    outputs: Mapping[int, ToolResultOutput] = field(default_factory=dict[int, ToolResultOutput])
    """Outputs that are made already, by the `id()` of their tool part."""


def convert_to_model_messages(
    messages: Iterable[UIMessage | Mapping[str, object]],
    *,
    tools: Mapping[str, ToolWithModelOutput] | None = None,
    ignore_incomplete_tool_calls: bool = False,
    convert_data_part: ConvertDataPart | None = None,
) -> list[ModelMessage]:
    """Convert UI messages to the messages that a model is asked with.

    Args:
        messages: UI messages, or their wire form; ids are not needed.
        tools: the tools of now, by name; their `to_model_output` is called, with a `ToModelOutputEvent`.
        ignore_incomplete_tool_calls: leave out the calls that have no final outcome; a model refuses calls without
            results.
        convert_data_part: what the model sees of a data part; without it, nothing.

    Returns:
        The messages for the model. One UI message gives none, one, or (with tools or several steps) many.

    Raises:
        MessageConversionError: a role is unknown, a file's URL is none, or a `to_model_output` is async.
        InvalidMessageError: a message in wire form that is none.
    """
    conversion = Conversion(
        tools=tools,
        ignore_incomplete_tool_calls=ignore_incomplete_tool_calls,
        convert_data_part=convert_data_part,
    )
    return _convert(_parsed(messages), conversion)


async def convert_to_model_messages_async(
    messages: Iterable[UIMessage | Mapping[str, object]],
    *,
    tools: Mapping[str, ToolWithModelOutput] | None = None,
    ignore_incomplete_tool_calls: bool = False,
    convert_data_part: ConvertDataPart | None = None,
) -> list[ModelMessage]:
    """Convert like `convert_to_model_messages`, and wait for a `to_model_output` that is async."""
    parsed = _parsed(messages)
    outputs: dict[int, ToolResultOutput] = {}
    for part in (part for message in parsed for part in message.parts if isinstance(part, _TOOL_PARTS)):
        tool = None if tools is None else tools.get(part.tool_name)
        if tool is not None and part.state == "output-available":
            outputs[id(part)] = await tool_output(tool, _output_event(part))
    conversion = Conversion(
        tools=tools,
        ignore_incomplete_tool_calls=ignore_incomplete_tool_calls,
        convert_data_part=convert_data_part,
        outputs=outputs,
    )
    return _convert(parsed, conversion)


def superseded_before(messages: Sequence[UIMessage]) -> int:
    """Return the index of the last user message, 0 if there is none.

    Approval requests in front of it are superseded: the user moved on, and they are dropped (rule 14.7). It is the one
    rule for which the place of a message matters, and only for messages with a part in state `approval-requested`.
    """
    return max((index for index, message in enumerate(messages) if message.role == "user"), default=0)


def convert_message(
    message: UIMessage, conversion: Conversion, *, superseded: bool = False
) -> tuple[ModelMessage, ...]:
    """Convert one UI message.

    Args:
        message: the message.
        conversion: the options.
        superseded: a user message comes later in the list, so that open approval requests are dropped.

    Returns:
        What the message gives, in order; it depends on the arguments alone.

    Raises:
        MessageConversionError: see `convert_to_model_messages`.
    """
    try:
        match message.role:
            case "system":
                return (_system(message),)
            case "user":
                return (UserMessage(tuple(_user_content(message.parts, conversion))),)
            case "assistant":
                return tuple(_assistant(message, conversion, superseded=superseded))
    except _PartError as exc:
        field = f"{_path_of(exc.part, message.parts)}.{exc.field}"
        raise MessageConversionError(field=field, value=exc.value, problem=exc.problem) from None


class _PartError(Exception):
    """A part that no model can be shown. Where it stands is looked for only then."""

    def __init__(self, part: object, field: str, value: object, problem: str) -> None:
        super().__init__(problem)
        self.part, self.field, self.value, self.problem = part, field, value, problem


def _path_of(part: object, parts: Sequence[UIPart]) -> str:
    for index, each in enumerate(parts):
        if each is part:
            return f"parts[{index}]"
        if isinstance(each, SteeringMessageUIPart) and any(inner is part for inner in each.parts):
            return f"parts[{index}].{_path_of(part, each.parts)}"
    raise AssertionError("the part is one of the message's")


def _convert(messages: Sequence[UIMessage], conversion: Conversion) -> list[ModelMessage]:
    last_user = superseded_before(messages)
    converted: list[ModelMessage] = []
    for index, message in enumerate(messages):
        try:
            converted += convert_message(message, conversion, superseded=index < last_user)
        except MessageConversionError as exc:
            raise MessageConversionError(
                field=f"messages[{index}].{exc.field}", value=exc.value, problem=exc.problem
            ) from None
    return converted


def _parsed(messages: Iterable[UIMessage | Mapping[str, object]]) -> list[UIMessage]:
    return [
        message if isinstance(message, UIMessage) else _parse(message, f"messages[{index}]")
        for index, message in enumerate(messages)
    ]


def _parse(wire: Mapping[str, object], path: str) -> UIMessage:
    role = wire.get("role") if isinstance(cast("object", wire), Mapping) else None
    if isinstance(role, str) and role not in _ROLES:
        problem = f"Unsupported role: {role}; a UI message is of role {', '.join(_ROLES)}"
        raise MessageConversionError(field=f"{path}.role", value=role, problem=problem)
    try:
        return parse_ui_message(wire, generate_id=str)
    except InvalidMessageError as exc:
        field = path if exc.field == "message" else f"{path}.{exc.field}"
        raise InvalidMessageError(field=field, value=exc.value, problem=exc.problem) from None


def _system(message: UIMessage) -> SystemMessage:
    texts = [part for part in message.parts if isinstance(part, TextUIPart)]
    options: dict[str, dict[str, object]] = {}
    for part in texts:
        options.update(part.provider_metadata or {})
    return SystemMessage("".join(part.text for part in texts), provider_options=options or None)


def _user_content(parts: Sequence[UIPart], conversion: Conversion) -> Iterator[UserContentPart]:
    for part in parts:
        if isinstance(part, TextUIPart):
            yield TextPart(part.text, provider_options=part.provider_metadata)
        elif isinstance(part, FileUIPart):
            yield _file(part)
        elif isinstance(part, DataUIPart):
            converted = _data(part, conversion)
            if converted is not None:
                yield converted


def _file(part: FileUIPart) -> FilePart:
    data = ReferenceData(cast("dict[str, str]", part.provider_reference)) if part.provider_reference else _url(part)
    return FilePart(data, part.media_type, filename=part.filename, provider_options=part.provider_metadata)


def _url(part: FileUIPart | ReasoningFileUIPart) -> UrlData:
    if not is_url(part.url):
        problem = "it is no URL; one begins with a scheme, such as `https:` or `data:`"
        raise _PartError(part, "url", part.url, problem)
    return UrlData(part.url)


def _data(part: DataUIPart, conversion: Conversion) -> TextPart | FilePart | None:
    converted = None if conversion.convert_data_part is None else conversion.convert_data_part(part)
    return (
        None if converted is None else cast("TextPart | FilePart", parse_user_part(converted, path="convert_data_part"))
    )


def _assistant(message: UIMessage, conversion: Conversion, *, superseded: bool) -> Iterator[ModelMessage]:
    block: list[UIPart] = []
    for part in message.parts:
        if isinstance(part, StepStartUIPart):
            yield from _block(block, conversion)
            block = []
        elif isinstance(part, SteeringMessageUIPart):
            yield from _block(block, conversion)
            block = []
            yield UserMessage(tuple(_user_content(part.parts, conversion)))
        elif isinstance(part, _TOOL_PARTS):
            if _is_shown(part, conversion, superseded=superseded):
                block.append(part)
        elif isinstance(part, _BLOCK_PARTS):
            block.append(part)
    yield from _block(block, conversion)


def _is_shown(part: _ToolPart, conversion: Conversion, *, superseded: bool) -> bool:
    """Return whether the model sees a tool call at all."""
    if conversion.ignore_incomplete_tool_calls:
        return part.state in _FINISHED and not (part.state == "output-available" and part.preliminary)
    return part.state not in _STREAMING and not (superseded and part.state == "approval-requested")


def _block(block: Sequence[UIPart], conversion: Conversion) -> Iterator[ModelMessage]:
    """Yield what the parts of one step give: an assistant and a tool message, each only if it holds something."""
    content: list[AssistantContentPart] = []
    answers: list[ToolContentPart] = []
    for part in block:
        if isinstance(part, _TOOL_PARTS):
            content.extend(_call(part, conversion))
            answers.extend(_answer(part, conversion))
        else:
            converted = _said(part, conversion)
            if converted is not None:
                content.append(converted)
    if content:
        yield AssistantMessage(tuple(content))
    if answers:
        yield ToolMessage(tuple(answers))


def _said(part: UIPart, conversion: Conversion) -> AssistantContentPart | None:
    match part:
        case TextUIPart():
            return TextPart(part.text, provider_options=part.provider_metadata)
        case ReasoningUIPart():
            return ReasoningPart(part.text, provider_options=part.provider_metadata)
        case FileUIPart():
            return _file(part)
        case ReasoningFileUIPart():
            return ReasoningFilePart(_url(part), part.media_type, provider_options=part.provider_metadata)
        case CustomUIPart():
            return CustomPart(part.kind, provider_options=part.provider_metadata)
        case DataUIPart():
            return _data(part, conversion)
        case _:
            return None


def _call(part: _ToolPart, conversion: Conversion) -> Iterator[AssistantContentPart]:
    """Yield a call, its approval request, and, if the provider ran the tool, its result."""
    failed = part.state == "output-error"
    options = part.call_provider_metadata
    yield ToolCallPart(
        part.tool_call_id,
        part.tool_name,
        _input(part),
        provider_executed=part.provider_executed,
        provider_options=options if options is not None or not failed else part.result_provider_metadata,
    )
    approval = part.approval
    if approval is not None:
        yield ToolApprovalRequestPart(
            approval.id,
            part.tool_call_id,
            is_automatic=approval.is_automatic,
            reason=approval.request_reason,
            signature=approval.signature,
            input_schema_input=_given(approval, "input_schema_input"),
        )
    if part.provider_executed and part.state in ("output-available", "output-error"):
        yield ToolResultPart(
            part.tool_call_id,
            part.tool_name,
            ToolResultOutput("error-json", part.error_text) if failed else _output(part, conversion),
            provider_options=options if part.result_provider_metadata is None else part.result_provider_metadata,
        )


def _answer(part: _ToolPart, conversion: Conversion) -> Iterator[ToolContentPart]:
    """Yield the answer to an approval request, and the outcome of a call that the provider did not run."""
    approval = part.approval
    if approval is not None and approval.approved is not None:
        yield ToolApprovalResponsePart(
            approval.id,
            approval.approved,
            reason=approval.reason,
            provider_executed=part.provider_executed,
        )
    outcome = _outcome(part, conversion)
    if outcome is not None:
        yield ToolResultPart(part.tool_call_id, part.tool_name, outcome, provider_options=part.call_provider_metadata)


def _outcome(part: _ToolPart, conversion: Conversion) -> ToolResultOutput | None:
    """Return what the tool message says of a call; `None` if it is open, or told in the assistant message."""
    approval = part.approval
    if part.state == "approval-responded" and approval is not None and approval.approved is False:
        return ToolResultOutput("execution-denied", reason=approval.reason)
    if part.provider_executed:
        return None
    match part.state:
        case "output-available":
            return _output(part, conversion)
        case "output-error":
            return ToolResultOutput("error-text", part.error_text or "")
        case "output-denied":
            reason = None if approval is None else approval.reason
            return ToolResultOutput("error-text", _DENIED if reason is None else reason)
        case _:
            return None


def _output(part: _ToolPart, conversion: Conversion) -> ToolResultOutput:
    made = conversion.outputs.get(id(part))
    if made is not None:
        return made
    tool = None if conversion.tools is None else conversion.tools.get(part.tool_name)
    if tool is None and isinstance(part, DynamicToolUIPart) and part.dynamic is False:
        return _OUTPUT_GONE
    try:
        return tool_output_now(tool, _output_event(part))
    except MessageConversionError as exc:
        raise _PartError(part, exc.field, exc.value, exc.problem) from None


def _output_event(part: _ToolPart) -> ToModelOutputEvent:
    return ToModelOutputEvent(part.tool_call_id, part.input, part.output)


def _input(part: _ToolPart) -> object:
    if part.state == "output-error" and part.input is None:
        return UNSET if part.raw_input is None else part.raw_input
    return _given(part, "input")


def _given(source: ToolPart | ToolApproval, name: str) -> object:
    """Return a field in which `null` is a value; `UNSET` if it was never given."""
    return getattr(source, name) if name in source.model_fields_set else UNSET
