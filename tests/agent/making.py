"""Small models, agents and messages, for tests of what agents do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent import chat, is_step_count, stream_text, tool
from chatagent.ui import TextUIPart, UIMessage
from chatagent_test import MockLanguageModel, Script, script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from chatagent import ChatAgent
    from chatagent.agent import RunEvent
    from chatagent.model import ModelMessage
    from chatagent_test import Turn


def saying(*answers: str | Script) -> MockLanguageModel:
    """A model that gives these answers, one a call; a string is a text."""
    return MockLanguageModel([script.text(each) if isinstance(each, str) else each for each in answers])


def asking(model: MockLanguageModel) -> Callable[[RunEvent[Any]], Any]:
    """A `run` that asks the model with what it is given."""

    def run(event: RunEvent[Any]) -> Any:
        return stream_text(
            model=model,
            messages=event.messages,
            tools=event.tools,
            stop_when=is_step_count(5),
            abort_signal=event.signal,
            max_retries=0,
        )

    return run


def agent_of(model: MockLanguageModel | None = None, **options: Any) -> ChatAgent[Any]:
    """An agent that asks the model (by default one that says `ok` to everything)."""
    model = model or MockLanguageModel(script.text("ok"))
    return chat.agent(**{"id": "tester", "run": asking(model), **options})


ASK_USER = {"ask_user": tool(description="Ask the user.", input_schema={"type": "object"})}
"""A tool that the client answers."""


def user(message_id: str, text: str = "hello") -> UIMessage:
    return UIMessage(id=message_id, role="user", parts=[TextUIPart(text=text)])


def assistant(message_id: str, *parts: Any) -> UIMessage:
    """An answer; a part is a string, a part object, or its wire form."""
    wire = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return UIMessage.model_validate({"id": message_id, "role": "assistant", "parts": wire})


def tool_part(call_id: str, state: str, *, name: str = "search", **fields: Any) -> dict[str, Any]:
    """The wire form of a tool part."""
    return {"type": f"tool-{name}", "toolCallId": call_id, "state": state, **fields}


def ids(messages: Iterable[UIMessage]) -> list[str]:
    return [message.id for message in messages]


def roles(messages: Iterable[UIMessage | ModelMessage]) -> list[str]:
    return [message.role for message in messages]


def texts(messages: Iterable[UIMessage]) -> list[str]:
    return [message.text for message in messages]


def types(turn: Turn) -> list[str]:
    """The types of a turn's raw chunks, control records included."""
    return [chunk["type"] for chunk in turn.raw_chunks]


TEXT_TURN = [
    "start",
    "start-step",
    "text-start",
    "text-delta",
    "text-end",
    "finish-step",
    "finish",
    "trigger:turn-complete",
]
"""What a client sees of an answer of one text."""
FAILED_TURN = ["error", "trigger:turn-complete"]
"""What it sees of a turn that failed before its answer."""
