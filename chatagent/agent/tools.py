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
        HookResultError: it is something else, or a tool of the list has no name.
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
                raise HookResultError(hook="tools", expected="tools that have a name", value=each)
            named[name] = each
        return named
    raise HookResultError(hook="tools", expected=f"a mapping of names to tools for agent {agent_id!r}", value=declared)
