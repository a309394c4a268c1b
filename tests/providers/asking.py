"""Asking a model in tests, and reading what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from chatagent.model import (
    AssistantMessage,
    CallOptions,
    FunctionTool,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolResultOutput,
    ToolResultPart,
    UserMessage,
    stream_part_to_wire,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.model import LanguageModel, ModelMessage, ModelStreamPart

PartT = TypeVar("PartT")

WEATHER = FunctionTool(name="weather", description="The weather.", input_schema={"type": "object", "properties": {}})
HI = UserMessage("hi")


def asked(*prompt: ModelMessage, **options: Any) -> CallOptions:
    """Return call options; without a prompt, somebody says hi."""
    return CallOptions(prompt=prompt or (HI,), **options)


async def stream_of(model: LanguageModel, options: CallOptions | None = None) -> list[ModelStreamPart]:
    """Return the parts of an answer, `stream-start` left out."""
    result = await model.do_stream(options or asked())
    return [part async for part in result.stream][1:]  # type: ignore[misc] - the models give objects


def of(kind: type[PartT], parts: Sequence[object]) -> list[PartT]:
    return [part for part in parts if isinstance(part, kind)]


def outline(parts: Sequence[ModelStreamPart]) -> list[str]:
    """Return parts on one line each: type, id and text, such as `text-delta 0 'Hi'`."""
    lines: list[str] = []
    for part in parts:
        wire = stream_part_to_wire(part)
        names = ("id", "toolCallId", "toolName", "delta", "input", "url")
        shown = [repr(wire[name]) if name in ("delta", "input") else str(wire[name]) for name in names if name in wire]
        lines.append(" ".join([part.type, *shown]))
    return lines


def tool_turn(output: ToolResultOutput, **call: Any) -> tuple[ModelMessage, ...]:
    """Return a conversation in which a tool was called."""
    return (
        SystemMessage("Be brief."),
        HI,
        AssistantMessage([TextPart("Let me see."), ToolCallPart("call_1", "weather", {"city": "Oslo"}, **call)]),
        ToolMessage([ToolResultPart("call_1", "weather", output)]),
    )
