"""chatagent: write a chat agent once, run it for real, and test it as fast as a pure function."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatagent.agent import ChatAgent, chat, command
    from chatagent.errors import (
        AbortError,
        APICallError,
        ChatAgentError,
        ChatContextError,
        LocalNotFoundError,
        OutOfMemoryError,
        RetryError,
        ToolError,
    )
    from chatagent.generate import has_tool_call, is_loop_finished, is_step_count, stream_text, tool
    from chatagent.signals import AbortController, AbortSignal
    from chatagent.task import locals
    from chatagent.ui import UIMessage

__all__ = [
    "APICallError",
    "AbortController",
    "AbortError",
    "AbortSignal",
    "ChatAgent",
    "ChatAgentError",
    "ChatContextError",
    "LocalNotFoundError",
    "OutOfMemoryError",
    "RetryError",
    "ToolError",
    "UIMessage",
    "chat",
    "command",
    "has_tool_call",
    "is_loop_finished",
    "is_step_count",
    "locals",
    "stream_text",
    "tool",
]

_HOMES = {
    "chatagent.agent": ("ChatAgent", "chat", "command"),
    "chatagent.errors": (
        "APICallError",
        "AbortError",
        "ChatAgentError",
        "ChatContextError",
        "LocalNotFoundError",
        "OutOfMemoryError",
        "RetryError",
        "ToolError",
    ),
    "chatagent.generate": ("has_tool_call", "is_loop_finished", "is_step_count", "stream_text", "tool"),
    "chatagent.signals": ("AbortController", "AbortSignal"),
    "chatagent.task": ("locals",),
    "chatagent.ui": ("UIMessage",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that importing one room does not import all."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
