"""What the cases of a transport run on: a backend that opens sessions, and what a session offers on its far side."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel

from chatagent.protocol import (
    AgentContract,
    CommandContract,
    SuspendContract,
    ToolContract,
    ValueContract,
)
from chatagent_test import MockAgentTransport, create_mock_agent_transport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from contextlib import AbstractAsyncContextManager

    from chatagent.client import AgentClientTransport
    from chatagent.ui import UIPart
    from chatagent_test import ReplyScript, StreamedResponse


class Query(BaseModel):
    q: int


class Found(BaseModel):
    n: int


class Refund(BaseModel):
    order: int


class Kind(BaseModel):
    kind: str


class Picked(BaseModel):
    name: str


class Question(BaseModel):
    question: str


class Verdict(BaseModel):
    ok: bool


class Echo(BaseModel):
    a: int


class Rated(BaseModel):
    rating: int | None


def _of(kind: Any) -> ValueContract:
    return ValueContract.of(kind)


PROGRESS = {"progress": _of(int)}
CONTRACT = AgentContract(
    agent_id="conformance",
    tools={
        "lookup": ToolContract(name="lookup", tool_id="lookup", input=_of(Query), output=_of(Found), data=PROGRESS),
        "refund": ToolContract(
            name="refund", tool_id="refund", input=_of(Refund), output=_of(Found), needs_approval=True
        ),
        "review": ToolContract(
            name="review",
            tool_id="review",
            input=_of(Query),
            output=_of(Found),
            suspends={
                "approval": SuspendContract(input=_of(Question), resume=_of(Verdict)),
                "output": SuspendContract(input=_of(Question), resume=_of(Verdict)),
            },
        ),
        "pick_file": ToolContract(
            name="pick_file", tool_id="pick_file", executor="client", input=_of(Kind), output=_of(Picked), data=PROGRESS
        ),
    },
    commands={
        "echo": CommandContract(name="echo", input=_of(Echo), output=_of(Echo)),
        "explode": CommandContract(name="explode"),
    },
    run_metadata=_of(Rated),
)
"""The agent that every backend of these cases stands for."""


@dataclass(frozen=True)
class ReceivedInput:
    """What the agent has seen of a send."""

    parts: Sequence[UIPart]
    client_data: object


class HeldAnswer(Protocol):
    """An answer that the case plays."""

    async def emit_text(self, text: str) -> None: ...

    async def emit_tool_input(self, name: str, json_text: str) -> None: ...

    async def finish(self) -> None: ...

    async def fail(self, error: str) -> None: ...


class Session(Protocol):
    """One case's backend."""

    transport: AgentClientTransport

    def answer(self, *scripts: ReplyScript) -> None: ...

    def hold(self) -> HeldAnswer: ...

    async def disconnect(self) -> None: ...

    async def forget(self, thread_id: str) -> None: ...

    def lose_next_event(self, thread_id: str) -> None: ...

    def repeat_next_event(self, thread_id: str) -> None: ...

    async def second_transport(self) -> AgentClientTransport: ...

    def received(self, thread_id: str) -> Sequence[ReceivedInput]: ...

    def commands_seen(self) -> Sequence[object]: ...


class Backend(Protocol):
    """Opens sessions."""

    def open(self) -> AbstractAsyncContextManager[Session]: ...


class MockHeldAnswer:
    def __init__(self, response: StreamedResponse) -> None:
        self._response = response

    async def emit_text(self, text: str) -> None:
        part = self._response.text()
        await part.delta(text)
        self._part = part

    async def emit_tool_input(self, name: str, json_text: str) -> None:
        await self._response.tool(name).input.delta(json_text)

    async def finish(self) -> None:
        part = getattr(self, "_part", None)
        if part is not None:
            await part.end()
        await self._response.complete()

    async def fail(self, error: str) -> None:
        await self._response.fail(error)


class MockSession:
    def __init__(self) -> None:
        self.mock: MockAgentTransport = create_mock_agent_transport(
            contract=CONTRACT, initial_metadata={"rating": None}, strict=False
        )
        self.transport: Any = self.mock
        self._commands: list[object] = []

        def echo(call: Any) -> object:
            self._commands.append(call)
            return call.input

        def explode(call: Any) -> object:
            raise RuntimeError("boom")

        self.mock.commands.set("echo", echo)
        self.mock.commands.set("explode", explode)

    def answer(self, *scripts: ReplyScript) -> None:
        self.mock.responses.queue(*scripts)

    def hold(self) -> MockHeldAnswer:
        return MockHeldAnswer(self.mock.responses.stream())

    async def disconnect(self) -> None:
        self.mock.events.disconnect()

    async def forget(self, thread_id: str) -> None:
        self.mock.events.forget(thread_id)

    def lose_next_event(self, thread_id: str) -> None:
        self.mock.faults.lose_next_event(thread_id)

    def repeat_next_event(self, thread_id: str) -> None:
        self.mock.faults.repeat_next_event(thread_id)

    async def second_transport(self) -> Any:
        return self.mock

    def received(self, thread_id: str) -> list[ReceivedInput]:
        logged = self.mock.inspect.requests.all()
        sends = [each.request for each in logged if each.operation == "send" and each.error is None]
        return [ReceivedInput(each.message.parts, each.client_data) for each in sends if each.thread_id == thread_id]

    def commands_seen(self) -> list[object]:
        return self._commands


class MockBackend:
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[MockSession, None]:
        session = MockSession()
        async with session.mock:
            yield session
