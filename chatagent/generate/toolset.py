"""The tools of a call by name: how they are given, which of them a step has, and how a model is shown them (3.2)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from chatagent.errors import ToolDefinitionError
from chatagent.generate.tools import Tool, tool
from chatagent.model import FunctionTool, ModelTool, ProviderTool

__all__ = ["Tools", "active_only", "model_tools", "tools_by_name"]

Tools: TypeAlias = Mapping[str, Tool | Callable[..., object]] | Sequence[Tool | Callable[..., object]]
"""Tools, or functions to make tools of: by name, or in a list."""


def tools_by_name(tools: Tools | None) -> dict[str, Tool]:
    """Return the tools by name, in the order in which they were given.

    Raises:
        ToolDefinitionError: a tool in a list has no name, or two have the same.
    """
    if not tools:
        return {}
    if isinstance(tools, Mapping):
        return {name: _as_tool(each) for name, each in tools.items()}
    if not isinstance(tools, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise ToolDefinitionError(f"`tools` is {tools!r}; give a list of tools, or tools by name")
    named: dict[str, Tool] = {}
    for each in map(_as_tool, tools):
        if each.name is None:
            raise ToolDefinitionError("a tool in a list needs a name: give `name=`, or give the tools as a mapping")
        if each.name in named:
            msg = f"two tools are named {each.name!r}; give one of them another `name=`"
            raise ToolDefinitionError(msg)
        named[each.name] = each
    return named


def active_only(
    tools: Mapping[str, Tool], active: Collection[str] | None, order: Sequence[str] | None
) -> dict[str, Tool]:
    """Return the tools that a step has.

    Args:
        tools: all tools.
        active: the names of those to keep; `None` keeps all.
        order: the names that come first, in this order; the rest follows by name. `None` keeps the order.
    """
    kept = {name: each for name, each in tools.items() if active is None or name in active}
    if order is None:
        return kept
    first = [name for name in order if name in kept]
    return {name: kept[name] for name in (*first, *sorted(set(kept) - set(first)))}


def model_tools(tools: Mapping[str, Tool], contexts: Mapping[str, object]) -> list[ModelTool] | None:
    """Return the tools as a model is shown them; `None` if there is none."""
    return [_model_tool(name, each, contexts.get(name)) for name, each in tools.items()] or None


def _as_tool(value: Tool | Callable[..., object]) -> Tool:
    return value if isinstance(value, Tool) else tool(value)


def _model_tool(name: str, each: Tool, context: object) -> ModelTool:
    if each.kind == "provider":
        return ProviderTool(id=each.provider_id or "", name=name, args=each.args or {})
    return FunctionTool(
        name=name,
        input_schema=each.input_schema,
        description=each.describe(context),
        input_examples=each.input_examples,
        provider_options=each.provider_options,
        strict=each.strict,
    )
