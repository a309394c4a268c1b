"""Checks of what clients send against a contract: answers, inputs of commands, data beside tool calls (ER-8).

The client makes them before it asks, a backend when it is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from chatagent.protocol.errors import ActionValueError, CommandInputError, CommandNotFoundError, ToolDataError
from chatagent.protocol.rules import check_channel

if TYPE_CHECKING:
    from chatagent.protocol.contract import AgentContract, CommandContract, ToolContract, ValueContract
    from chatagent.protocol.models import ActionRecord

__all__ = ["answer_contract", "check_action", "check_answer", "check_command", "check_tool_data", "input_contract"]


def check_answer(contract: AgentContract | None, action: ActionRecord, value: object) -> None:
    """Refuse an answer that does not fit the action.

    Args:
        contract: the agent's contract, if it is known; the answer to an approval is checked without it too.
        action: what is answered.
        value: the answer, as JSON.

    Raises:
        ActionValueError: it does not fit.
    """
    if _is_approval(action):
        _check_approval(action, value)
        return
    wanted = answer_contract(contract, action)
    problem = None if wanted is None else wanted.problem(value, "value")
    if problem is not None:
        raise ActionValueError(action=action.name, field=problem.field, problem=problem.text)


def check_action(contract: AgentContract | None, action: object) -> None:
    """Refuse a custom action that the agent does not take.

    Raises:
        ActionValueError: it does not fit.
    """
    problem = None if contract is None else contract.action.problem(action, "action")
    if problem is not None:
        raise ActionValueError(action="send_action", field=problem.field, problem=problem.text)


def answer_contract(contract: AgentContract | None, action: ActionRecord) -> ValueContract | None:
    """Return what the answer to an action must look like: a client tool's output, or the answer to its question."""
    tool = _tool(contract, action.tool_name)
    if tool is None:
        return None
    if action.suspend_name is None:
        return tool.output
    suspend = tool.suspends.get(action.suspend_name)
    return None if suspend is None else suspend.resume


def input_contract(contract: AgentContract | None, action: ActionRecord) -> ValueContract | None:
    """Return what the input of an action looks like: the tool's input, or what its question shows."""
    tool = _tool(contract, action.tool_name)
    if tool is None:
        return None
    if action.suspend_name is None:
        return tool.input
    suspend = tool.suspends.get(action.suspend_name)
    return None if suspend is None else suspend.input


def check_command(contract: AgentContract | None, name: str, value: object) -> CommandContract | None:
    """Refuse a command that the contract has not got, or an input that does not fit it.

    Returns:
        What the contract says of the command; `None` if it says nothing.

    Raises:
        CommandNotFoundError: there is no such command.
        CommandInputError: the input does not fit.
    """
    if contract is None or contract.commands is None:
        return None
    command = contract.commands.get(name)
    if command is None:
        raise CommandNotFoundError(command=name, known=list(contract.commands))
    problem = command.input.problem(value, "input")
    if problem is not None:
        raise CommandInputError(command=name, field=problem.field, problem=problem.text)
    return command


def check_tool_data(contract: AgentContract | None, tool_name: str, channel: str, value: object) -> None:
    """Refuse data for a channel that the tool has not got, or that the channel does not take.

    Raises:
        ReservedNameError: the channel is the protocol's own.
        ToolDataError: there is no such channel, or the value does not fit it.
    """
    check_channel(channel)
    tool = _tool(contract, tool_name)
    if tool is None or tool.data is None:
        return
    if channel not in tool.data:
        known = ", ".join(sorted(tool.data)) or "none"
        raise ToolDataError(tool=tool_name, channel=channel, problem=f"there is no such channel; there are {known}")
    problem = tool.data[channel].problem(value, "value")
    if problem is not None:
        raise ToolDataError(tool=tool_name, channel=channel, problem=f"`{problem.field}`: {problem.text}")


def _tool(contract: AgentContract | None, name: str) -> ToolContract | None:
    return None if contract is None or contract.tools is None else contract.tools.get(name)


def _is_approval(action: ActionRecord) -> bool:
    return action.action_name == "approval" and action.suspend_name is None


def _check_approval(action: ActionRecord, value: object) -> None:
    if not isinstance(value, dict):
        problem = f'give {{"approved": true or false, "reason": text}}, not {value!r:.100}'
        raise ActionValueError(action=action.name, field="value", problem=problem)
    fields = cast("dict[str, object]", value)
    if not isinstance(fields.get("approved"), bool):
        problem = f"it is true or false, not {fields.get('approved')!r:.100}"
        raise ActionValueError(action=action.name, field="value.approved", problem=problem)
    if "reason" in fields and not isinstance(fields["reason"], str):
        problem = f"it is a text, not {fields['reason']!r:.100}"
        raise ActionValueError(action=action.name, field="value.reason", problem=problem)
