"""From what a model streams as a tool call to a call that can run, or that is marked as invalid (rules 6.1 to 6.3)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from chatagent.errors import InvalidToolInputError, NoSuchToolError, ToolCallRepairError, ToolError
from chatagent.generate.parts import FullToolCall
from chatagent.generate.texts import error_text
from chatagent.model import ModelToolCall
from chatagent.ui.strict_json import find_forbidden_key, parse_json

if TYPE_CHECKING:
    from chatagent.generate.tools import Tool
    from chatagent.model import ModelMessage, SystemMessage
    from chatagent.ui import JSONObject

__all__ = ["ParsedCall", "RefineToolInput", "RepairEvent", "RepairToolCall", "ToolCallParser", "check_input"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairEvent:
    """A call that cannot be used, for `repair_tool_call` to correct."""

    tool_call: ModelToolCall
    """As the model streamed it."""
    tools: Mapping[str, Tool]
    instructions: Sequence[SystemMessage]
    messages: Sequence[ModelMessage]
    error: NoSuchToolError | InvalidToolInputError

    def input_schema(self, tool_name: str) -> JSONObject:
        """Return the JSON schema of a tool's input."""
        return self.tools[tool_name].input_schema


RepairToolCall: TypeAlias = Callable[[RepairEvent], ModelToolCall | Awaitable[ModelToolCall | None] | None]
"""Returns the call corrected, still as JSON text, or `None` to give up."""

RefineToolInput: TypeAlias = Mapping[str, Callable[[object], object]]
"""By tool name: takes the checked JSON input and returns the one to use, which is checked again; sync or async."""


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call, and what it takes to run it."""

    part: FullToolCall
    tool: Tool | None = None
    """`None` for a call that nobody here can run."""
    value: object = None
    """The checked input, as the tool gets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallParser:
    """Parses the calls of one step."""

    tools: Mapping[str, Tool]
    """The tools that the model was shown."""
    instructions: Sequence[SystemMessage]
    messages: Sequence[ModelMessage]
    repair: RepairToolCall | None = None
    refine: RefineToolInput | None = None

    async def parse(self, raw: ModelToolCall) -> ParsedCall:
        """Return the call; one that cannot be used, even after a repair, is marked as invalid."""
        try:
            return await self._parsed(raw)
        except (NoSuchToolError, InvalidToolInputError) as exc:
            if self.repair is None:
                return self._invalid(raw, exc)
            return await self._repaired(self.repair, raw, exc)

    async def _repaired(
        self, repair: RepairToolCall, raw: ModelToolCall, error: NoSuchToolError | InvalidToolInputError
    ) -> ParsedCall:
        event = RepairEvent(
            tool_call=raw, tools=self.tools, instructions=self.instructions, messages=self.messages, error=error
        )
        try:
            answer = repair(event)
            corrected = await answer if inspect.isawaitable(answer) else answer
        except Exception as exc:  # noqa: BLE001 - a user's function: what it raises makes the call invalid (rule 6.2)
            failed = ToolCallRepairError(original_error=error, problem=error_text(exc))
            failed.__cause__ = exc
            return self._invalid(raw, failed)
        if corrected is None:
            return self._invalid(raw, error)
        try:
            return await self._parsed(corrected)
        except (NoSuchToolError, InvalidToolInputError) as exc:
            return self._invalid(raw, exc)

    async def _parsed(self, raw: ModelToolCall) -> ParsedCall:
        tool = self.tools.get(raw.tool_name)
        if tool is None:
            if raw.provider_executed and raw.dynamic:
                return ParsedCall(replace(_call_part(raw, _parse_input(raw), None), dynamic=True))
            raise NoSuchToolError(tool_name=raw.tool_name, available_tools=list(self.tools))
        data = _parse_input(raw)
        value = check_input(tool, raw.tool_name, data, raw.input)
        refine = None if self.refine is None else self.refine.get(raw.tool_name)
        if refine is not None:
            refined = refine(data)
            data = await cast("Awaitable[object]", refined) if inspect.isawaitable(refined) else refined
            value = check_input(tool, raw.tool_name, data, raw.input)
        return ParsedCall(_call_part(raw, data, tool), tool, value)

    def _invalid(self, raw: ModelToolCall, error: ToolError) -> ParsedCall:
        try:
            data = _parse_json(raw)
        except InvalidToolInputError:
            data = raw.input
        part = _call_part(raw, data, self.tools.get(raw.tool_name))
        return ParsedCall(replace(part, dynamic=True, invalid=True, error=error))


def check_input(tool: Tool, tool_name: str, data: object, text: str) -> object:
    """Return the value that the tool gets for its input.

    Args:
        tool: the tool.
        tool_name: the name under which it was called.
        data: the input as JSON data.
        text: the input as the model wrote it, for the error.

    Raises:
        InvalidToolInputError: the input does not fit the tool's schema.
    """
    try:
        return tool.input.parse(data)
    except ValueError as exc:
        problem = f"it does not fit the tool's schema: {exc}"
        raise InvalidToolInputError(tool_name=tool_name, tool_input=text, problem=problem) from exc


def _parse_input(raw: ModelToolCall) -> object:
    """Parse a call's input; blank text counts as an empty object."""
    return _parse_json(raw) if raw.input.strip() else {}


def _parse_json(raw: ModelToolCall) -> object:
    text = raw.input
    try:
        data = parse_json(text)
    except ValueError as exc:
        problem = f"it is no JSON: {exc}"
        raise InvalidToolInputError(tool_name=raw.tool_name, tool_input=text, problem=problem) from exc
    forbidden = find_forbidden_key(data)
    if forbidden is not None:
        problem = f"it has the key `{forbidden}`, which no tool may be given"
        raise InvalidToolInputError(tool_name=raw.tool_name, tool_input=text, problem=problem)
    return data


def _call_part(raw: ModelToolCall, data: object, tool: Tool | None) -> FullToolCall:
    return FullToolCall(
        tool_call_id=raw.tool_call_id,
        tool_name=raw.tool_name,
        input=data,
        provider_executed=raw.provider_executed,
        dynamic=True if tool is not None and tool.kind == "dynamic" else None,
        title=None if tool is None else tool.title,
        tool_metadata=None if tool is None else tool.metadata,
        provider_metadata=raw.provider_metadata,
    )
