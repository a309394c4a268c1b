"""The agents that the tests of the service talk to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent import chat, stream_text, tool
from chatagent.protocol import GenerationMessageChunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.agent import ChatAgent, RunEvent
    from chatagent.protocol import ThreadState
    from chatagent_test import InProcessClient, MockLanguageModel


def answering(**options: Any) -> Callable[[MockLanguageModel], ChatAgent[Any]]:
    """Return what makes an agent that answers with its model; the options are those of `chat.agent`."""

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        @chat.agent(id="support", **options)
        def agent(event: RunEvent[Any]) -> Any:
            return stream_text(
                model=model, messages=event.messages, tools=event.tools, abort_signal=event.signal, stop_when=until_done
            )

        return agent

    return make


def until_done(*_: object, **__: object) -> bool:
    """Go on as long as tools are called."""
    return False


@tool
def lookup(query: str) -> dict[str, str]:
    """Look something up."""
    return {"found": query}


@tool(needs_approval=True)
def refund(amount: int) -> str:
    """Pay money back."""
    return f"refunded {amount}"


pick_file = tool(
    name="pick_file",
    description="Let the user pick a file.",
    input_schema={"type": "object", "properties": {"kind": {"type": "string"}}},
    output_schema={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
)
"""A tool of the client's."""

TOOLS = [lookup, refund, pick_file]


def events_of(client: InProcessClient, thread_id: str = "t-1") -> list[str]:
    """Return the types of a thread's events; chunks show the chunk's type."""
    events = client.service.log(thread_id).events()
    return [each.chunk.type if isinstance(each, GenerationMessageChunk) else each.type for each in events]


def texts_of(state: ThreadState) -> list[str]:
    """Return what the messages say."""
    return [message.text for message in state.messages]
