"""How the outcome of a tool call is told to the model (rules 6.8 and 14.6).

Shared by the conversion of UI messages and by the step loop, so that a result reads the same in both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from chatagent.errors import MessageConversionError
from chatagent.model.codec import parse_tool_output
from chatagent.model.prompt import ToolResultOutput
from chatagent.ui.slots import UNSET

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = [
    "ToModelOutput",
    "ToModelOutputEvent",
    "ToolWithModelOutput",
    "plain_tool_output",
    "tool_output",
    "tool_output_now",
]


@dataclass(frozen=True, slots=True)
class ToModelOutputEvent:
    """What `to_model_output` of a tool is called with."""

    tool_call_id: str
    input: object
    output: object
    """What the tool returned; `None` if it returned nothing."""


ToModelOutput = Callable[[ToModelOutputEvent], object]
"""Returns a `ToolResultOutput`, or its wire form; sync or async."""


class ToolWithModelOutput(Protocol):
    """A tool, as far as it matters here. Inherit from nothing."""

    @property
    def to_model_output(self) -> ToModelOutput | None:
        """How the tool's output is told to the model; `None` tells it as it is."""
        ...


Tools = Mapping[str, ToolWithModelOutput]


def plain_tool_output(output: object) -> ToolResultOutput:
    """Return an output as it is told without `to_model_output`: text for a string, JSON for all else (none: `null`)."""
    if isinstance(output, str):
        return ToolResultOutput("text", output)
    return ToolResultOutput("json", None if output is UNSET else output)


async def tool_output(tool: ToolWithModelOutput | None, event: ToModelOutputEvent) -> ToolResultOutput:
    """Return an output as the model is told it.

    Args:
        tool: the tool that was called; `None` if nobody knows it any more.
        event: the call and its output.

    Raises:
        InvalidPromptError: `to_model_output` returned no tool result output.
    """
    made = _made_by(tool, event)
    return parse_tool_output(await cast("Awaitable[object]", made) if inspect.isawaitable(made) else made)


def tool_output_now(tool: ToolWithModelOutput | None, event: ToModelOutputEvent) -> ToolResultOutput:
    """Return an output as the model is told it, where nobody can wait; see `tool_output`.

    Raises:
        MessageConversionError: `to_model_output` is async.
        InvalidPromptError: `to_model_output` returned no tool result output.
    """
    made = _made_by(tool, event)
    if inspect.isawaitable(made):
        if inspect.iscoroutine(made):
            made.close()
        problem = (
            f"`to_model_output` of the tool that answered call {event.tool_call_id!r} is async; "
            "convert with `convert_to_model_messages_async`"
        )
        raise MessageConversionError(field="output", value=event.output, problem=problem)
    return parse_tool_output(made)


def _made_by(tool: ToolWithModelOutput | None, event: ToModelOutputEvent) -> object:
    convert = None if tool is None else tool.to_model_output
    return plain_tool_output(event.output) if convert is None else convert(event)
