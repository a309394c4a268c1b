"""Where tools run, told with each of their calls (rule DM-31): an agent's stream does not say it, the service does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from chatagent.protocol import RESERVED_KEY, tool_name_of
from chatagent.ui import (
    Chunk,
    ToolInputAvailable,
    ToolInputError,
    ToolInputStart,
    ToolPart,
    UIMessage,
    UIPart,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.protocol import AgentContract

__all__ = ["ToolLooks"]


class ToolLooks:
    """How the calls of an agent's tools are shown.

    Args:
        contract: what is known of the tools; of an agent whose tools depend on the turn nothing is.
    """

    def __init__(self, contract: AgentContract) -> None:
        self._executors: dict[str, str] = {}
        self._told: dict[str, dict[str, object]] = {}
        for name, tool in (contract.tools or {}).items():
            told: dict[str, object] = {"executor": tool.executor}
            if tool.tool_id is not None:
                told["toolId"] = tool.tool_id
            self._executors[name] = tool.executor
            self._told[name] = told

    def waits_for_client(self, part: ToolPart) -> bool:
        """Return whether a call of a finished answer waits for the client's output."""
        if part.state != "input-available" or getattr(part, "provider_executed", None):
            return False
        return self._executors.get(tool_name_of(part), "client") == "client"

    def show(self, chunk: Chunk) -> Chunk:
        """Return the chunk that begins a call, with what is known of its tool."""
        if not isinstance(chunk, ToolInputStart | ToolInputAvailable | ToolInputError):
            return chunk
        told = self._told.get(chunk.tool_name)
        if told is None:
            return chunk
        return replace(chunk, tool_metadata={**(chunk.tool_metadata or {}), RESERVED_KEY: told})

    def shown(self, message: UIMessage) -> UIMessage:
        """Return a message of the agent's with what is known of its tools."""
        if message.role != "assistant" or not any(isinstance(part, ToolPart) for part in message.parts):
            return message
        return message.model_copy(update={"parts": tuple(self._shown(part) for part in message.parts)})

    def _shown(self, part: UIPart) -> UIPart:
        told = self._told.get(tool_name_of(part)) if isinstance(part, ToolPart) else None
        if told is None:
            return part
        known = cast("Mapping[str, object]", getattr(part, "tool_metadata", None) or {})
        return part.model_copy(update={"tool_metadata": {**known, RESERVED_KEY: told}})
