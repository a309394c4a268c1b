"""`mock.commands`: the functions that clients may call (rules CM-1 to CM-4)."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from chatagent.protocol import CommandFailedError, CommandNotFoundError, check_command
from chatagent_test.transport.errors import MockError, ScriptError, nearest
from chatagent_test.transport.values import error_text, json_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.protocol import AgentContract, CommandRequest

    Handler: TypeAlias = Callable[["CommandCall"], object]

__all__ = ["CommandCall", "MockCommands"]


@dataclass(frozen=True, slots=True)
class CommandCall:
    """What a handler is called with."""

    name: str
    input: Any
    thread_id: str
    client_data: Any


class MockCommands:
    """The handlers of commands, by name."""

    def __init__(self, contract: AgentContract | None) -> None:
        self._contract = contract
        self._handlers: dict[str, Handler] = {}
        self.unexpected: list[str] = []
        """Calls of commands that the agent has and the test does not handle."""

    def set(self, name: str, handler: Handler) -> None:
        """Handle a command by a function, sync or async; another one takes its place.

        Raises:
            ScriptError: the contract has no such command.
        """
        known = None if self._contract is None else self._contract.commands
        if known is not None and name not in known:
            raise ScriptError(f"commands.set({name!r}): the agent has no such command; {nearest(name, known)}")
        self._handlers[name] = handler

    def remove(self, name: str) -> None:
        """Handle a command no more; does nothing if none is handled."""
        self._handlers.pop(name, None)

    def clear(self) -> None:
        """Handle no command."""
        self._handlers.clear()
        self.unexpected.clear()

    async def call(self, request: CommandRequest) -> object:
        """Call the handler of a command.

        Raises:
            CommandNotFoundError: nobody handles it.
            CommandInputError: its input does not fit the contract; the handler was not called.
            CommandFailedError: the handler raised.
            ScriptError: the result does not fit the contract.
        """
        declared = check_command(self._contract, request.command, request.input)
        handler = self._handlers.get(request.command)
        if handler is None:
            if declared is not None:
                self.unexpected.append(f"command {request.command!r} was called, and no commands.set(...) handles it")
            raise CommandNotFoundError(command=request.command, known=list(self._handlers))
        given = json_value(request.input)
        call = CommandCall(request.command, given, request.thread_id, json_value(request.client_data))
        try:
            result = handler(call)
            if inspect.isawaitable(result):
                result = await result
        except MockError:
            raise
        except Exception as error:  # the handler is the test's own and stands for the agent's
            raise CommandFailedError(command=request.command, problem=error_text(error)) from error
        told = json_value(result)
        problem = None if declared is None else declared.output.problem(told, "result")
        if problem is not None:
            raise ScriptError(
                f"the handler of command {request.command!r}: {problem.field}: {problem.text}; "
                f"it is {problem.value!r:.200}"
            )
        return told
