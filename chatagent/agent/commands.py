"""Commands: functions beside the agent that clients may call (MP-20). They are no turns, and run outside of any."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chatagent.errors import AgentDefinitionError
from chatagent.protocol import CommandContract, ValueContract

if TYPE_CHECKING:
    from chatagent.task import LocalValues
    from chatagent.ui import UIMessage, ValueSchema

__all__ = ["Command", "CommandContext", "command"]

Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What a command's handler sees of the conversation that it was called in."""

    chat_id: str
    client_data: Any
    """The client data of the call, parsed by the agent's schema."""
    locals: LocalValues
    """The locals of the conversation's run; those of a run to come if there is none."""
    history: Sequence[UIMessage]
    """The conversation as the last turn has left it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A function that clients may call. Made by `command`."""

    handler: Handler
    input: ValueContract = field(default_factory=ValueContract)
    output: ValueContract = field(default_factory=ValueContract)
    takes_context: bool = False

    async def call(self, value: object, context: CommandContext) -> Any:
        """Call the handler with an input that fits.

        Raises:
            Exception: what the handler raised.
        """
        given = self.input.parsed(value)
        result = self.handler(given, context) if self.takes_context else self.handler(given)
        if inspect.isawaitable(result):
            return await result
        return result

    def contract(self, name: str) -> CommandContract:
        """Return what clients may know of it."""
        return CommandContract(name=name, input=self.input, output=self.output)


def command(handler: Handler, *, input: ValueSchema | None = None, output: ValueSchema | None = None) -> Command:
    """Make a function one that clients may call.

    Args:
        handler: called with the checked input and, if it takes a second parameter, a `CommandContext`; sync or async.
            What it returns is JSON, or something that pydantic can turn into JSON.
        input: a pydantic model or any type pydantic can check, a `TypeAdapter`, a JSON schema, or a function that
            parses; anything goes without.
        output: the same for what it returns.

    Raises:
        AgentDefinitionError: `handler` is no function of one or two parameters.
    """
    if not callable(handler):
        raise AgentDefinitionError(f"the handler of a command is a function, not {handler!r}")
    count = _positional(handler)
    if count not in (1, 2):
        raise AgentDefinitionError(f"the handler of a command takes an input and perhaps a context: {handler!r}")
    return Command(
        handler=handler, input=ValueContract.of(input), output=ValueContract.of(output), takes_context=count == 2
    )


def check_commands(agent_id: str, given: object) -> Mapping[str, Command]:
    """Refuse what is no mapping of commands by their names.

    Raises:
        AgentDefinitionError: it is not.
    """
    if not isinstance(given, Mapping):
        raise AgentDefinitionError(f"agent {agent_id!r}: `commands` is a mapping of commands by name, not {given!r}")
    for name, each in given.items():  # pyright: ignore[reportUnknownVariableType] - callers may be untyped
        if not isinstance(name, str) or not isinstance(each, Command):
            problem = f"has {each!r} under {name!r}; give command(handler, …)"
            raise AgentDefinitionError(f"agent {agent_id!r}: `commands` {problem}")
    return dict(given)  # pyright: ignore[reportUnknownArgumentType] - checked above


def _positional(handler: Handler) -> int:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(handler).parameters.values()
    return sum(each.kind in kinds for each in parameters)
