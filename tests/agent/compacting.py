"""An agent that compacts, and what to look at, for tests of compaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent.making import agent_of
from chatagent import chat, is_step_count, stream_text, tool
from chatagent.model import AssistantMessage, TextPart, message_to_wire
from chatagent_test import ChatAgentHarness, MockLanguageModel, script

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatagent import ChatAgent
    from chatagent.agent import CompactionOptions, RunEvent


LONG = {"inputTokens": {"total": 200}, "outputTokens": {"total": 20}}
CALL = script.tool_call("look", {}, tool_call_id="c-1").finish("tool-calls", usage=LONG)
SUMMARY = AssistantMessage((TextPart("[Conversation summary]\n\nThey talked."),))
"""What the model list is after a compaction."""


@tool
def look() -> str:
    """Look."""
    return "seen"


Hook = Callable[[Any], Any]


def over(limit: int) -> Hook:
    return lambda event: (event.total_tokens or 0) > limit


OVER_100 = over(100)


def compacting(
    *,
    should_compact: Hook = OVER_100,
    summarize: Hook = lambda event: "They talked.",
    **more: Hook,
) -> CompactionOptions[Any]:
    """Options that compact over 100 tokens."""
    options: Any = {"should_compact": should_compact, "summarize": summarize, **more}
    return options


def with_options(model: MockLanguageModel, **more: Any) -> Callable[[RunEvent[Any]], Any]:
    """A `run` that asks the model with the runtime's step hook."""

    def run(event: RunEvent[Any]) -> Any:
        arguments: dict[str, Any] = {
            **chat.to_stream_text_options(tools=event.tools),
            "model": model,
            "messages": event.messages,
            "stop_when": is_step_count(6),
            "abort_signal": event.signal,
            "max_retries": 0,
            **more,
        }
        return stream_text(**arguments)

    return run


def compacting_agent(
    model: MockLanguageModel,
    *,
    compaction: CompactionOptions[Any] | None = None,
    tools: Any = (look,),
    run: Hook | None = None,
    **hooks: Hook,
) -> ChatAgent[Any]:
    named: dict[str, Any] = dict(hooks)
    return agent_of(None, run=run or with_options(model), tools=tools, compaction=compaction or compacting(), **named)


def called(harness: ChatAgentHarness, name: str) -> list[Any]:
    return [call.event for call in harness.hooks if call.name == name]


def wire(messages: Iterable[Any]) -> list[dict[str, Any]]:
    return [message_to_wire(message) for message in messages]


def text_of(message: Any) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(part.text for part in message.content if isinstance(part, TextPart))
