"""An agent that steers, a model that stands still between two steps, and what to look at, for tests of steering."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent.making import agent_of
from chatagent import chat, is_step_count, stream_text, tool
from chatagent.model import message_to_wire
from chatagent_test import ChatAgentHarness, MockLanguageModel, script

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatagent import ChatAgent
    from chatagent.agent import PendingMessagesOptions, RunEvent
    from chatagent.ui import UIMessage


MARK = "data-pending-message-injected"

CALL = script.tool_call("look", {}, tool_call_id="c-1").hold("held")
"""A step that calls a tool and then stands still, so that a test can act."""


@tool
def look() -> str:
    """Look."""
    return "seen"


def steered(model: MockLanguageModel) -> Callable[[RunEvent[Any]], Any]:
    """A `run` that asks the model with the runtime's step hook."""

    def run(event: RunEvent[Any]) -> Any:
        arguments: dict[str, Any] = {
            **chat.to_stream_text_options(tools=event.tools),
            "model": model,
            "messages": event.messages,
            "stop_when": is_step_count(5),
            "abort_signal": event.signal,
            "max_retries": 0,
        }
        return stream_text(**arguments)

    return run


Hook = Callable[[Any], Any]


def steering_agent(
    model: MockLanguageModel,
    pending: PendingMessagesOptions[Any] | None,
    *,
    tools: Any = (look,),
    run: Hook | None = None,
    on_error: Hook = str,
    **hooks: Hook,
) -> ChatAgent[Any]:
    named: dict[str, Any] = dict(hooks)
    return agent_of(
        None,
        run=run or steered(model),
        tools=tools,
        pending_messages=pending,
        ui_message_stream_options={"on_error": on_error},
        **named,
    )


def always(event: Any) -> bool:
    return True


def never(event: Any) -> bool:
    return False


def part_types(message: UIMessage) -> list[str]:
    return [part.type for part in message.parts]


def called(harness: ChatAgentHarness, name: str) -> list[Any]:
    return [call.event for call in harness.hooks if call.name == name]


def said(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Prompt messages in wire form, content that is a text made into a part, as models are asked."""
    return [message_to_wire(message) for message in messages]


async def while_held(harness: ChatAgentHarness, model: MockLanguageModel, *messages: UIMessage) -> None:
    """Let these messages come while the model stands at its hold, then let it go on."""
    await model.reached("held")
    for message in messages:
        harness.begin_message(message)
    await harness.settle()
    model.release("held")
