"""What the suite needs of whoever runs it: a backend that can be opened, and a hand on its far side (rule CT-4).

Implement the methods, inherit from nothing. What a far side cannot offer raises `Unsupported`: the cases that need it
are skipped, and say why.
"""

from __future__ import annotations

import unittest
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from chatagent.errors import ChatAgentError
from chatagent_test.transport import ReplyScript

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from chatagent.client import AgentClientTransport
    from chatagent.protocol import FileInfo
    from chatagent.ui import UIPart

__all__ = [
    "ConformanceBackend",
    "ConformanceSession",
    "FarSide",
    "HeldAnswer",
    "ReceivedCommand",
    "ReceivedInput",
    "Script",
    "Unsupported",
]

_MAY_BE_MISSING: Final = frozenset(
    {
        "disconnect",
        "forget",
        "hold",
        "open_watches",
        "received",
        "received_commands",
        "second_transport",
        "stored_files",
    }
)
"""The methods of a session without which the other cases can still be run."""

Script: TypeAlias = ReplyScript
"""What `reply` builds: what the agent says next. A backend with a real agent lets its model say the same."""


class Unsupported(ChatAgentError, unittest.SkipTest):
    """The far side cannot do this; the case that needs it is skipped with this reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedInput:
    """What an agent got with one user message."""

    parts: Sequence[UIPart]
    client_data: object = None
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The bytes of the stored files that the message refers to, by their ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedCommand:
    """What a command's handler was called with."""

    name: str
    input: object = None
    client_data: object = None


class HeldAnswer(Protocol):
    """An answer that waits for the test. Each method waits until a generation has begun to play it.

    A method returns once the backend has been told; when clients see it is another matter.
    """

    async def emit_text(self, text: str) -> None:
        """Say more of a text; the first call begins it."""
        ...

    async def emit_tool_input(self, tool_name: str, json_text: str) -> None:
        """End the text, begin a call of a tool, and stream this much of its input."""
        ...

    async def finish(self) -> None:
        """End the text and the answer."""
        ...

    async def fail(self, message: str) -> None:
        """Let the generation fail here, with this text; what is open stays open."""
        ...


class ConformanceSession(Protocol):
    """A backend with no threads and no files, and the transport under test before it.

    The agent behind it is that of `CONTRACT`: `echo` returns its input, `explode` raises with the text `EXPLOSION`,
    and a new run has the metadata `RUN_METADATA`.
    """

    @property
    def transport(self) -> AgentClientTransport:
        """The transport under test; the session closes it at its end, if a case has not."""
        ...

    def answer(self, *scripts: Script) -> None:
        """Let the next generations say this, one script each, in order, whatever their threads."""
        ...

    def hold(self) -> HeldAnswer:
        """Let the next generation that has no answer yet wait for the test."""
        ...

    async def disconnect(self) -> None:
        """Break the connection of every watch that is open."""
        ...

    async def forget(self, thread_id: str) -> None:
        """Lose the past events of a thread, so that they cannot be replayed."""
        ...

    async def second_transport(self) -> AgentClientTransport:
        """Return another transport to the same backend, as from another process. The suite closes it."""
        ...

    def received(self, thread_id: str) -> Sequence[ReceivedInput]:
        """Return what the agent got of a thread's users, oldest first."""
        ...

    def received_commands(self) -> Sequence[ReceivedCommand]:
        """Return the calls of commands' handlers, oldest first."""
        ...

    def stored_files(self) -> Sequence[FileInfo]:
        """Return what the backend has stored."""
        ...

    def open_watches(self, thread_id: str) -> int:
        """Return how many watches of a thread the backend holds."""
        ...


class FarSide:
    """A session as cases see it: what it has not got at all is what its far side cannot do.

    Args:
        session: the session of whoever runs the suite.
    """

    def __init__(self, session: ConformanceSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        if name in _MAY_BE_MISSING and not hasattr(self._session, name):
            raise Unsupported(f"the session has no method `{name}`; with one the case would be run")
        return getattr(self._session, name)


class ConformanceBackend(Protocol):
    """Opens sessions, one for each case."""

    def open(self) -> AbstractAsyncContextManager[ConformanceSession]:
        """Make a session, and clean up after it. It must work on asyncio and on trio."""
        ...
