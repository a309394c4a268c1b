"""What goes wrong around tools: their definitions, their calls, and the approvals of these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.errors.base import short
from chatagent.errors.model import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence


class ToolError(ModelError):
    """What goes wrong around a tool call."""


class NoSuchToolError(ToolError, LookupError):
    """The model called a tool that is not there."""

    def __init__(self, *, tool_name: str, available_tools: Sequence[str]) -> None:
        there = f"Available tools: {', '.join(available_tools)}." if available_tools else "No tools are available."
        super().__init__(f"Model tried to call unavailable tool '{tool_name}'. {there}")
        self.tool_name, self.available_tools = tool_name, list(available_tools)


class InvalidToolInputError(ToolError, ValueError):
    """The input of a tool call is no JSON, or does not fit the tool's schema."""

    def __init__(self, *, tool_name: str, tool_input: str, problem: str) -> None:
        super().__init__(f"Invalid input for tool {tool_name}: {problem}")
        self.tool_name, self.tool_input, self.problem = tool_name, tool_input, problem


class ToolCallRepairError(ToolError):
    """`repair_tool_call` itself failed; its cause is what it raised, `original_error` what it should have repaired."""

    def __init__(self, *, original_error: BaseException, problem: str) -> None:
        super().__init__(f"Error repairing tool call: {problem}")
        self.original_error = original_error


class ToolChoiceViolationError(ToolError):
    """The model did not keep to `tool_choice`."""


class InvalidToolApprovalError(ToolError, ValueError):
    """An approval that answers no request of the history."""

    def __init__(self, *, approval_id: str) -> None:
        super().__init__(
            f"Tool approval response references unknown approvalId: {short(approval_id)}. No matching request was found"
        )
        self.approval_id = approval_id


class ToolCallNotFoundForApprovalError(ToolError, LookupError):
    """An approval request names a call that is not in the history."""

    def __init__(self, *, tool_call_id: str, approval_id: str) -> None:
        super().__init__(f"Tool call {short(tool_call_id)} not found for approval request {short(approval_id)}")
        self.tool_call_id, self.approval_id = tool_call_id, approval_id


class InvalidToolApprovalSignatureError(ToolError, ValueError):
    """An approved call does not carry the signature of the request that was sent, so it may not run."""

    def __init__(self, *, approval_id: str, tool_call_id: str) -> None:
        super().__init__(
            f"Tool call {short(tool_call_id)} was approved, but the signature of approval request "
            f"{short(approval_id)} is missing or wrong: the call is not the one that was asked about"
        )
        self.approval_id, self.tool_call_id = approval_id, tool_call_id


class ToolDefinitionError(ToolError, TypeError):
    """A function that cannot be made a tool."""
