"""Small models, agents and messages, for tests of what agents do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from chatagent import chat, is_step_count, stream_text, tool
from chatagent.ui import TextUIPart, UIMessage
from chatagent_test import MockLanguageModel, Script, script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Unpack

    from chatagent import ChatAgent
    from chatagent.agent import RunEvent
    from chatagent.model import ModelMessage
    from chatagent_test import ChatAgentHarness, Turn


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


Hook: TypeAlias = "Callable[[Any], Any]"


class Options(TypedDict, total=False):
    """Options of an agent, with hooks of any event."""

    id: Any
    run: Hook
    on_boot: Hook
    on_recovery_boot: Hook
    on_preload: Hook
    on_chat_start: Hook
    on_validate_messages: Hook
    hydrate_messages: Hook
    on_action: Hook
    on_turn_start: Hook
    prepare_messages: Hook
    on_compacted: Hook
    on_before_turn_complete: Hook
    on_turn_complete: Hook
    on_chat_suspend: Hook
    on_chat_resume: Hook
    client_data_schema: Any
    action_schema: Any
    tools: Any
    compaction: Any
    pending_messages: Any
    ui_message_stream_options: Any
    max_turns: Any
    turn_timeout: Any
    idle_timeout: Any
    preload_idle_timeout: Any
    preload_timeout: Any
    exit_after_preload_idle: Any
    allow_client_system_messages: Any
    on_turn_error: Any
    chat_access_token_ttl: Any
    oom_machine: Any
    telemetry: Any
    machine: Any
    queue: Any
    max_duration: Any


def agent_of(model: MockLanguageModel | None = None, /, **options: Unpack[Options]) -> ChatAgent[Any]:
    """An agent that asks the model (by default one that says `ok` to everything)."""
    model = model or MockLanguageModel(script.text("ok"))
    given: dict[str, Any] = {"id": "tester", "run": asking(model), **options}
    return chat.agent(**given)


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


def prompt_of(model: MockLanguageModel, call: int = 0) -> list[Any]:
    """The messages that the model was asked with in one of its calls."""
    return list(model.do_stream_calls[call].prompt)


def parts_of(message: UIMessage | None) -> list[dict[str, Any]]:
    """The parts of a message, in wire form."""
    assert message is not None
    wire: Any = message.to_wire()
    return wire["parts"]


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


def kept(harness: ChatAgentHarness) -> list[UIMessage]:
    """Return the history that the run has saved last."""
    snapshot = harness.get_snapshot()
    assert snapshot is not None
    return list(snapshot.messages)


def events(harness: ChatAgentHarness, name: str) -> list[Any]:
    """What every call of a hook was given, in order."""
    return [call.event for call in harness.hooks if call.name == name]


def nothing(event: Any) -> None:
    """A hook that does nothing."""
