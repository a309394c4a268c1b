"""The scripted backend as a backend of the suite."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from chatagent.protocol import PROFILES
from chatagent.ui import FileUIPart
from chatagent_test.conformance.backend import ReceivedCommand, ReceivedInput
from chatagent_test.conformance.contract import CONTRACT, EXPLOSION, RUN_METADATA
from chatagent_test.conformance.forwarding import ForwardingTransport
from chatagent_test.transport import create_mock_agent_transport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence

    from chatagent.client import AgentClientTransport
    from chatagent.protocol import FileInfo, Profile
    from chatagent.ui import UIMessage
    from chatagent_test.conformance.backend import HeldAnswer, Script
    from chatagent_test.transport import CommandCall, MockAgentTransport, StreamedResponse, TextController

__all__ = ["MockBackend", "MockSession"]

FILE_SCHEME = "chatagent-file:"


class MockBackend:
    """Runs the suite on `create_mock_agent_transport`, or on a transport of yours that wraps it.

    Args:
        wrap: makes the transport under test of the mock; by default the mock itself is tested.
        profiles: what the mock can, and its manifest declares.
    """

    def __init__(
        self,
        wrap: Callable[[MockAgentTransport], AgentClientTransport] | None = None,
        *,
        profiles: Collection[Profile] = PROFILES,
    ) -> None:
        self._wrap, self._profiles = wrap, profiles

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[MockSession]:
        """Make a mock that plays the agent of `CONTRACT`."""
        declared = tuple(each for each in PROFILES if each in self._profiles)
        mock = create_mock_agent_transport(
            contract=CONTRACT,
            manifest=CONTRACT.manifest().model_copy(update={"profiles": declared}),
            initial_metadata=RUN_METADATA,
            profiles=self._profiles,
            strict=False,
        )
        async with mock:
            yield MockSession(mock, mock if self._wrap is None else self._wrap(mock))


class MockSession:
    """A mock, and the transport before it.

    Args:
        mock: the backend.
        transport: the transport under test.
    """

    def __init__(self, mock: MockAgentTransport, transport: AgentClientTransport) -> None:
        self.mock, self.transport = mock, transport
        self._calls: list[ReceivedCommand] = []
        mock.commands.set("echo", self._echo)
        mock.commands.set("explode", self._explode)

    def answer(self, *scripts: Script) -> None:
        self.mock.responses.queue(*scripts)

    def hold(self) -> HeldAnswer:
        return _MockHeldAnswer(self.mock.responses.stream())

    async def disconnect(self) -> None:
        self.mock.events.disconnect()

    async def forget(self, thread_id: str) -> None:
        self.mock.events.forget(thread_id)

    async def second_transport(self) -> AgentClientTransport:
        return _AnotherSide(self.transport)

    def received(self, thread_id: str) -> Sequence[ReceivedInput]:
        logged = [each for each in self.mock.inspect.requests.all() if each.operation == "send" and each.error is None]
        return [
            ReceivedInput(
                parts=each.request.message.parts,
                client_data=each.request.client_data,
                files=self._files_of(each.request.message),
            )
            for each in logged
            if each.request.thread_id == thread_id
        ]

    def received_commands(self) -> Sequence[ReceivedCommand]:
        return tuple(self._calls)

    def stored_files(self) -> Sequence[FileInfo]:
        return self.mock.inspect.files()

    def open_watches(self, thread_id: str) -> int:
        return self.mock.inspect.watchers(thread_id)

    def _files_of(self, message: UIMessage) -> Mapping[str, bytes]:
        urls = [part.url for part in message.parts if isinstance(part, FileUIPart)]
        ids = [url.removeprefix(FILE_SCHEME) for url in urls if url.startswith(FILE_SCHEME)]
        return {file_id: self.mock.files.read(file_id).body for file_id in ids}

    def _echo(self, call: CommandCall) -> object:
        self._note(call)
        return call.input

    def _explode(self, call: CommandCall) -> object:
        self._note(call)
        raise RuntimeError(EXPLOSION)

    def _note(self, call: CommandCall) -> None:
        self._calls.append(ReceivedCommand(name=call.name, input=call.input, client_data=call.client_data))


class _AnotherSide(ForwardingTransport):
    """The same backend for another client, whose end does not end the backend."""

    async def aclose(self) -> None:
        """Leave the backend as it is."""


class _MockHeldAnswer:
    def __init__(self, response: StreamedResponse) -> None:
        self._response = response
        self._text: TextController | None = None

    async def emit_text(self, text: str) -> None:
        await self._response.wait_until_started()
        if self._text is None:
            self._text = self._response.text()
        await self._text.delta(text)

    async def emit_tool_input(self, tool_name: str, json_text: str) -> None:
        await self._end_text()
        await self._response.tool(tool_name).input.delta(json_text)

    async def finish(self) -> None:
        await self._end_text()
        await self._response.complete()

    async def fail(self, message: str) -> None:
        await self._response.wait_until_started()
        await self._response.fail(message)

    async def _end_text(self) -> None:
        await self._response.wait_until_started()
        text, self._text = self._text, None
        if text is not None:
            await text.end()
