"""Agents of pydantic-ai with scripted models, for tests of how they are driven."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from pydantic_ai import Agent
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel

from chatagent import chat
from chatagent.adapters.pydantic_ai import PydanticAIStream
from chatagent.ui import UIMessage, to_wire

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

    from chatagent import ChatAgent
    from chatagent.agent import RunEvent, TurnCompleteEvent
    from chatagent_test import ChatAgentHarness, Turn

ASYNCIO_ONLY = "pydantic-ai makes tasks of asyncio itself, so it cannot run on trio"
BACKENDS = ["asyncio", pytest.param("trio", marks=pytest.mark.skip(reason=ASYNCIO_ONLY))]
"""The params of a module's `anyio_backend`."""

Said: TypeAlias = str | Mapping[int, DeltaToolCall] | Mapping[int, DeltaThinkingPart]
"""A piece of what a model says."""

Answer: TypeAlias = Sequence[Said] | Exception | Callable[[], AsyncIterator[Said]]
"""What a model does when it is asked: says these pieces, fails, or what a function does."""


class ScriptedModel(FunctionModel):
    """A model that gives these answers, one a call, and remembers what it was asked with."""

    def __init__(self, *answers: Answer) -> None:
        self.asked: list[list[ModelMessage]] = []
        self.infos: list[AgentInfo] = []
        self.answers = list(answers)
        super().__init__(stream_function=self.stream)

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        self.asked.append(list(messages))
        self.infos.append(info)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            async for piece in answer():
                yield piece
        else:
            for piece in answer:
                yield piece


def call(name: str, arguments: str = "{}", *, tool_call_id: str = "call-1") -> list[Said]:
    """An answer that calls a tool."""
    return [{0: DeltaToolCall(name, arguments, tool_call_id=tool_call_id)}]


def saying(*answers: Answer) -> Agent[None, str]:
    """An agent with such a model."""
    return Agent(ScriptedModel(*answers))


def model_of(agent: Agent[Any, Any]) -> ScriptedModel:
    assert isinstance(agent.model, ScriptedModel)
    return agent.model


def chatting(agent: Agent[Any, Any], **options: Any) -> ChatAgent[Any]:
    """A chat agent that lets the agent answer."""

    def run(event: RunEvent[Any]) -> PydanticAIStream[Any]:
        return PydanticAIStream(agent, event)

    given: dict[str, Any] = {"id": "tester", "run": run, **options}
    return chat.agent(**given)


def ask(text: str = "hello") -> UIMessage:
    return UIMessage.model_validate({"id": "u-1", "role": "user", "parts": [{"type": "text", "text": text}]})


def chunks_of(turn: Turn) -> list[dict[str, Any]]:
    """The chunks of a turn, without the record that closes it."""
    return [to_wire(chunk) for chunk in turn.chunks]


def types_of(turn: Turn) -> list[str]:
    return [chunk.type for chunk in turn.chunks]


def asked_with(model: ScriptedModel, number: int) -> list[tuple[str, object]]:
    """Kind and content of each part that a model was asked with."""
    return [
        (part.part_kind, getattr(part, "content", getattr(part, "args", None)))
        for message in model.asked[number]
        for part in message.parts
    ]


def kept(harness: ChatAgentHarness) -> list[dict[str, Any]]:
    snapshot = harness.get_snapshot()
    assert snapshot is not None
    return [to_wire(message) for message in snapshot.messages]


def completes(harness: ChatAgentHarness) -> list[TurnCompleteEvent[Any]]:
    return [each.event for each in harness.hooks if each.name == "on_turn_complete"]


def complete(event: TurnCompleteEvent[Any]) -> None:
    return None
