"""The service's transport in this process as a backend of the suite: the agent of the suite, with real turns."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from chatagent.protocol import TransportUnavailableError
from chatagent.service import AgentService, InMemoryFileStore
from chatagent_test.conformance.agent import ScriptedAgent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from chatagent.client import AgentClientTransport
    from chatagent.protocol import FileContent, FileInfo
    from chatagent_test.conformance.backend import HeldAnswer, ReceivedCommand, ReceivedInput, Script

__all__ = ["InProcessBackend", "InProcessSession"]


class InProcessBackend:
    """Runs the suite on `AgentService.transport()`, with real turns of a real agent and everything in memory.

    Args:
        wrap: makes the transport under test of the service's; by default the service's itself is tested.
    """

    def __init__(self, wrap: Callable[[AgentClientTransport], AgentClientTransport] | None = None) -> None:
        self._wrap = wrap or _as_it_is

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[InProcessSession]:
        """Make a service of the suite's agent."""
        scripted = ScriptedAgent()
        files = _ListedFiles()
        async with AgentService(scripted.agent, files=files) as service:
            yield InProcessSession(service, scripted, files, self._wrap)


def _as_it_is(transport: AgentClientTransport) -> AgentClientTransport:
    return transport


class _ListedFiles(InMemoryFileStore):
    """A store that can say what it has."""

    def __init__(self) -> None:
        super().__init__()
        self.infos: list[FileInfo] = []

    async def save(self, content: FileContent) -> None:
        """Store a file."""
        await super().save(content)
        self.infos.append(content.info)


class InProcessSession:
    """A service, and a transport to it.

    Args:
        service: the service.
        scripted: its agent.
        files: where its files are.
        wrap: makes the transport under test of the service's.
    """

    def __init__(
        self,
        service: AgentService,
        scripted: ScriptedAgent,
        files: _ListedFiles,
        wrap: Callable[[AgentClientTransport], AgentClientTransport],
    ) -> None:
        self._service, self._scripted, self._files = service, scripted, files
        self._wrap = wrap
        self.transport = wrap(service.transport())

    def answer(self, *scripts: Script) -> None:
        self._scripted.answer(*scripts)

    def hold(self) -> HeldAnswer:
        return self._scripted.hold()

    async def disconnect(self) -> None:
        for head in self._service.heads():
            self._service.log(head.thread_id).cut(lambda: TransportUnavailableError(operation="watch_thread"))

    async def forget(self, thread_id: str) -> None:
        self._service.log(thread_id).forget()

    async def second_transport(self) -> AgentClientTransport:
        return self._wrap(self._service.transport())

    def received(self, thread_id: str) -> Sequence[ReceivedInput]:
        return self._scripted.received(thread_id)

    def received_commands(self) -> Sequence[ReceivedCommand]:
        return self._scripted.received_commands()

    def stored_files(self) -> Sequence[FileInfo]:
        return tuple(self._files.infos)

    def open_watches(self, thread_id: str) -> int:
        return self._service.log(thread_id).watchers
