"""An agent's tools by name, however they were declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from chatagent.errors import HookResultError

__all__ = ["tools_by_name"]


def tools_by_name(declared: object, *, agent_id: str) -> dict[str, Any]:
    """Return tools by name.

    Args:
        declared: a mapping of names to tools, a list of tools that know their names, or `None`.
        agent_id: whose they are, for the error.

    Raises:
        HookResultError: it is something else, a tool of the list has no name, or two have the same.
    """
    if declared is None:
        return {}
    if isinstance(declared, Mapping):
        return dict(cast("Mapping[str, Any]", declared))
    if isinstance(declared, Sequence) and not isinstance(declared, str):
        named: dict[str, Any] = {}
        for each in cast("Sequence[Any]", declared):
            name = getattr(each, "name", None)
            if not name:
                expected = "tools that have a name, which `@tool` makes of a function"
                raise HookResultError(hook="tools", expected=expected, value=each)
            if name in named:
                expected = f"tools of different names, not two named {name!r}"
                raise HookResultError(hook="tools", expected=expected, value=cast("object", declared))
            named[name] = each
        return named
    raise HookResultError(hook="tools", expected=f"a mapping of names to tools for agent {agent_id!r}", value=declared)
