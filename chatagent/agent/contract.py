"""The contract of an agent: what its definition says of its tools, its actions and its client data.

What a definition does not say yet (data parts, metadata, commands, questions of tools) is declared beside it, where the
contract is asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, cast, get_type_hints

from pydantic import PydanticUserError

from chatagent.errors import InvalidArgumentError
from chatagent.generate import Tool, tools_by_name
from chatagent.protocol import (
    AgentContract,
    CommandContract,
    SuspendContract,
    ToolContract,
    ValueContract,
)

if TYPE_CHECKING:
    from chatagent.agent.definition import AgentOptions
    from chatagent.ui import ValueSchema

__all__ = ["ContractOptions", "contract_of"]


class ContractOptions(TypedDict, total=False):
    """What an agent's contract says beside its definition; schemas are types, `TypeAdapter`s, JSON schemas, parsers."""

    version: str
    data_parts: Mapping[str, ValueSchema]
    """The `data-<name>` parts of answers; without it any goes."""
    run_metadata: ValueSchema
    message_metadata: ValueSchema
    commands: Mapping[str, tuple[ValueSchema | None, ValueSchema | None]]
    """Input and output of the functions that clients may call."""
    suspends: Mapping[str, Mapping[str, tuple[ValueSchema | None, ValueSchema | None]]]
    """By tool, the questions that it may ask: what each shows, and what answers it."""
    tool_data: Mapping[str, Mapping[str, ValueSchema | None]]
    """By tool, the channels of data beside its calls; a tool that is not named takes any."""


def contract_of(options: AgentOptions, declared: ContractOptions) -> AgentContract:
    """Return the contract of an agent with these options."""
    data_parts = declared.get("data_parts")
    return AgentContract(
        agent_id=options.id,
        version=declared.get("version", "1"),
        tools=_tools(options, declared),
        commands=_commands(options, declared),
        data_parts=None if data_parts is None else {name: ValueContract.of(each) for name, each in data_parts.items()},
        run_metadata=ValueContract.of(declared.get("run_metadata", options.run_metadata_schema)),
        message_metadata=ValueContract.of(declared.get("message_metadata")),
        client_data=ValueContract.of(options.client_data_schema),
        action=ValueContract.of(options.action_schema),
    )


def _commands(options: AgentOptions, declared: ContractOptions) -> dict[str, CommandContract] | None:
    """Return the agent's commands, and what is declared beside them; `None` if there are neither."""
    known = {name: each.contract(name) for name, each in options.commands.items()}
    for name, (given, result) in (declared.get("commands") or {}).items():
        known[name] = CommandContract(name=name, input=ValueContract.of(given), output=ValueContract.of(result))
    return known if known or "commands" in declared else None


def _tools(options: AgentOptions, declared: ContractOptions) -> dict[str, ToolContract] | None:
    """Return the tools; `None` if they depend on the turn, so that nobody knows them before."""
    given = options.tools
    if given is not None and not isinstance(given, Mapping) and callable(given):
        return None
    tools = tools_by_name(cast("Any", given))
    for option in ("suspends", "tool_data"):
        for name in cast("Mapping[str, object]", declared.get(option, {})):
            if name not in tools:
                known = ", ".join(tools) or "none"
                raise InvalidArgumentError(argument=option, value=name, problem=f"no such tool; there are {known}")
    return {name: _tool(name, each, declared) for name, each in tools.items()}


def _tool(name: str, tool: Tool, declared: ContractOptions) -> ToolContract:
    channels = declared.get("tool_data", {}).get(name, tool.data_channels)
    questions = {each: (asked.input, asked.resume) for each, asked in tool.suspends.items()}
    return ToolContract(
        name=name,
        tool_id=None if tool.kind == "dynamic" else name,
        executor="client" if tool.run is None and tool.kind != "provider" else "server",
        description=tool.description if isinstance(tool.description, str) else None,
        input=ValueContract(tool.input.json_schema, tool.input.parse),
        output=_output(tool),
        needs_approval=bool(tool.needs_approval),
        suspends={
            each: SuspendContract(input=ValueContract.of(shown), resume=ValueContract.of(answer))
            for each, (shown, answer) in declared.get("suspends", {}).get(name, questions).items()
        },
        data=None if channels is None else {each: ValueContract.of(schema) for each, schema in channels.items()},
    )


def _output(tool: Tool) -> ValueContract | None:
    """Return what a tool gives: by its output schema, else by what its function is annotated to return."""
    if tool.output is not None:
        return ValueContract(tool.output.json_schema, tool.output.parse)
    annotation = _returned(tool.function)
    if annotation is None:
        return None
    try:
        return ValueContract.of(annotation)
    except (PydanticUserError, InvalidArgumentError):
        return None  # a type that pydantic cannot check promises nothing about JSON


def _returned(function: Callable[..., object] | None) -> Any:
    if function is None or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return None
    try:
        return get_type_hints(function, include_extras=True).get("return")
    except (NameError, TypeError):
        return None  # an annotation for type checkers only
