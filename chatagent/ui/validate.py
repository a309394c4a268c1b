"""The strict check of whole conversations, such as a store or a client gives them (rule 14.9).

Structure first, then the application's own schemas: metadata, data parts, and the input and output of tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

from pydantic_core import PydanticSerializationError

from chatagent.errors import InvalidArgumentError, MessageValidationError
from chatagent.ui.codec import to_wire
from chatagent.ui.kinds import UNSET
from chatagent.ui.message_shapes import check_message
from chatagent.ui.messages import UIMessage
from chatagent.ui.schema import problem_of, schema_parser

if TYPE_CHECKING:
    from chatagent.ui.schema import Parse, ValueSchema
    from chatagent.ui.wire import JSONObject

__all__ = [
    "InvalidMessages",
    "MessageValidation",
    "ToolSchema",
    "ToolWithSchemas",
    "ValidMessages",
    "safe_validate_ui_messages",
    "validate_ui_messages",
]


class ToolSchema(Protocol):
    """How a tool checks its input or its output."""

    @property
    def parse(self) -> Callable[[object], object]:
        """Returns the parsed value, or raises."""
        ...


class ToolWithSchemas(Protocol):
    """As much of a tool as the check of its calls needs."""

    @property
    def input(self) -> ToolSchema:
        """Checks the input."""
        ...

    @property
    def output(self) -> ToolSchema | None:
        """Checks the output; `None` lets every output pass."""
        ...


@dataclass(frozen=True, slots=True)
class ValidMessages:
    """The messages are as they must be."""

    data: list[UIMessage]
    success: Literal[True] = field(default=True, init=False)


@dataclass(frozen=True, slots=True)
class InvalidMessages:
    """The messages are not as they must be."""

    error: MessageValidationError | InvalidArgumentError
    """The first thing that is wrong."""
    success: Literal[False] = field(default=False, init=False)


MessageValidation: TypeAlias = ValidMessages | InvalidMessages
"""Told apart by their class, or by `success is True`."""


def validate_ui_messages(
    messages: object,
    *,
    metadata_schema: ValueSchema | None = None,
    data_schemas: Mapping[str, ValueSchema] | None = None,
    tools: Mapping[str, ToolWithSchemas] | None = None,
) -> list[UIMessage]:
    """Check messages and return them clean (rule 14.9).

    Strict, unlike what enters a running conversation: a part of an unknown type is an error, and so is a field that
    belongs to another state of a tool part. Fields that no rule names are dropped. Schemas check and change nothing:
    what they parse is not used.

    A finished call that its tool no longer fits stays readable, as a dynamic one with `dynamic: false`: one of a tool
    that is gone, one that failed, and one that has an output and `{}` as its input.

    Args:
        messages: a list of messages, as dicts in wire form or as `UIMessage`s.
        metadata_schema: for the metadata of every message; absent metadata is checked as `None`.
        data_schemas: for the data of each kind of data part, by its name without `data-`. Once schemas are given, a
            kind without one is an error.
        tools: the tools of now, by name; static tool parts are checked by them, dynamic ones never.

    Returns:
        The messages, in order.

    Raises:
        MessageValidationError: something is wrong; `field` is the path of the first such thing.
        InvalidArgumentError: `messages` is `None`, or one of the schemas cannot be used.
    """
    schemas = _Schemas(metadata_schema, data_schemas, tools)
    wires = [check_message(message, f"messages[{index}]") for index, message in enumerate(_list_of(messages))]
    schemas.check_metadata(wires)
    schemas.check_parts(wires)
    return [UIMessage.model_validate(wire) for wire in wires]


def safe_validate_ui_messages(
    messages: object,
    *,
    metadata_schema: ValueSchema | None = None,
    data_schemas: Mapping[str, ValueSchema] | None = None,
    tools: Mapping[str, ToolWithSchemas] | None = None,
) -> MessageValidation:
    """Check messages as `validate_ui_messages` does, and return what came of it instead of raising.

    Args:
        messages: a list of messages, as dicts in wire form or as `UIMessage`s.
        metadata_schema: for the metadata of every message.
        data_schemas: for the data of each kind of data part.
        tools: the tools of now, by name.

    Returns:
        `ValidMessages` with the messages as `data`, or `InvalidMessages` with the `error`.
    """
    try:
        data = validate_ui_messages(messages, metadata_schema=metadata_schema, data_schemas=data_schemas, tools=tools)
    except (MessageValidationError, InvalidArgumentError) as error:
        return InvalidMessages(error)
    return ValidMessages(data)


def _list_of(messages: object) -> list[object]:
    """Return the messages in wire form, not checked yet."""
    if messages is None:
        raise InvalidArgumentError(argument="messages", value=None, problem="give the list of messages to check")
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes | bytearray):
        raise MessageValidationError(field="messages", value=messages, problem="it must be a list")
    given = cast("Sequence[object]", messages)
    if not given:
        raise MessageValidationError(field="messages", value=given, problem="there must be one message at least")
    return [_wire_of(message, index) for index, message in enumerate(given)]


def _wire_of(message: object, index: int) -> object:
    try:
        return cast("object", to_wire(cast("Any", message)))
    except PydanticSerializationError as exc:
        raise MessageValidationError(
            field=f"messages[{index}]", value=message, problem=f"it has no JSON form: {exc}"
        ) from exc


_FINISHED: Final = ("output-available", "output-error", "output-denied")


class _Schemas:
    """What the application says of its messages."""

    def __init__(
        self,
        metadata_schema: ValueSchema | None,
        data_schemas: Mapping[str, ValueSchema] | None,
        tools: Mapping[str, ToolWithSchemas] | None,
    ) -> None:
        self._metadata: Parse | None = None
        if metadata_schema is not None:
            self._metadata = schema_parser(metadata_schema, argument="metadata_schema")
        self._data: dict[str, Parse] | None = None
        if data_schemas is not None:
            self._data = {
                name: schema_parser(schema, argument=f"data_schemas[{name!r}]") for name, schema in data_schemas.items()
            }
        self._tools = tools

    def check_metadata(self, wires: list[dict[str, object]]) -> None:
        if self._metadata is None:
            return
        for index, wire in enumerate(wires):
            _apply(
                self._metadata,
                wire.get("metadata", UNSET),
                field=f"messages[{index}].metadata",
                schema="metadata_schema",
                entity_id=cast("str", wire["id"]),
            )

    def check_parts(self, wires: list[dict[str, object]]) -> None:
        """Check data and tool parts; parts that must become dynamic ones are replaced in place."""
        for message_index, wire in enumerate(wires):
            parts = cast("list[JSONObject]", wire["parts"])
            for index, part in enumerate(parts):
                kind, path = cast("str", part["type"]), f"messages[{message_index}].parts[{index}]"
                if self._data is not None and kind.startswith("data-"):
                    _check_data(self._data, part, path)
                elif self._tools is not None and kind.startswith("tool-") and not _fits(self._tools, part, path):
                    parts[index] = _as_dynamic(part)


def _check_data(parsers: Mapping[str, Parse], part: JSONObject, path: str) -> None:
    name, data_id = cast("str", part["type"]).removeprefix("data-"), cast("str | None", part.get("id"))
    field, parse = f"{path}.data", parsers.get(name)
    if parse is None:
        raise MessageValidationError(
            field=field,
            value=part["data"],
            problem=f"there is no schema for it; add {name!r} to `data_schemas`",
            entity_name=name,
            entity_id=data_id,
        )
    _apply(parse, part["data"], field=field, schema="schema in `data_schemas`", entity_name=name, entity_id=data_id)


def _fits(tools: Mapping[str, ToolWithSchemas], part: JSONObject, path: str) -> bool:
    """Return whether a static tool part may stay one.

    Raises:
        MessageValidationError: it may not, and it cannot be kept as a dynamic one either.
    """
    name, call_id = cast("str", part["type"]).removeprefix("tool-"), cast("str", part["toolCallId"])
    tool, state = tools.get(name), part["state"]
    if tool is None:
        if state in _FINISHED:
            return False
        raise MessageValidationError(
            field=f"{path}.input",
            value=part.get("input", UNSET),
            problem=f"there is no tool of this name, and the call is not finished; add {name!r} to `tools`",
            entity_name=name,
            entity_id=call_id,
        )
    fits = _input_fits(tool, part, path, name)
    if state == "output-available" and tool.output is not None:
        _apply(
            tool.output.parse,
            part.get("output", UNSET),
            field=f"{path}.output",
            schema="tool's `output_schema`",
            entity_name=name,
            entity_id=call_id,
        )
    return fits


def _input_fits(tool: ToolWithSchemas, part: JSONObject, path: str, name: str) -> bool:
    state, value = part["state"], part.get("input", UNSET)
    if state == "input-streaming" or (state == "output-error" and value is UNSET):
        return True
    try:
        _apply(
            tool.input.parse,
            value,
            field=f"{path}.input",
            schema="tool's `input_schema`",
            entity_name=name,
            entity_id=cast("str", part["toolCallId"]),
        )
    except MessageValidationError:
        # A failed call may have failed by its input, and `{}` stands for an input that never came.
        if state == "output-error" or (state == "output-available" and value == {}):
            return False
        raise
    return True


def _as_dynamic(part: JSONObject) -> JSONObject:
    name = cast("str", part["type"]).removeprefix("tool-")
    return {**part, "type": "dynamic-tool", "toolName": name, "dynamic": False}


def _apply(
    parse: Callable[[Any], object],
    value: object,
    *,
    field: str,
    schema: str,
    entity_name: str | None = None,
    entity_id: str | None = None,
) -> None:
    """Check a value by a schema; an absent one is checked as `None`.

    Raises:
        MessageValidationError: the schema raised something, which is the cause.
    """
    try:
        parse(None if value is UNSET else value)
    except Exception as exc:
        raise MessageValidationError(
            field=field,
            value=value,
            problem=f"it does not fit the {schema}: {problem_of(exc)}",
            entity_name=entity_name,
            entity_id=entity_id,
        ) from exc
