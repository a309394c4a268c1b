"""The functions that an agent has declared for clients, as attributes of a thread (rule TH-40)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from chatagent.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.client.thread import Thread

    Command: TypeAlias = Callable[..., Awaitable[Any]]

__all__ = ["ThreadCommands"]


class ThreadCommands:
    """`await thread.commands.refresh({"id": 7})`, or with keywords; `thread.commands["a-name"]` for other names."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread

    def __getattr__(self, name: str) -> Command:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> Command:
        async def command(*values: object, client_data: object = None, **fields: object) -> Any:
            if len(values) > 1 or (values and fields):
                raise InvalidArgumentError(
                    argument=f"commands.{name}", value=values, problem="give one input, or its fields as keywords"
                )
            given = values[0] if values else fields or None
            return await self._thread.execute_command(name, given, client_data=client_data)

        return command
