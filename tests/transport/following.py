"""What tests of the mock look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from chatagent.protocol import GenerationMessageChunk, ThreadModel
from chatagent.ui import ToolPart, to_wire

if TYPE_CHECKING:
    from chatagent.client import Thread
    from chatagent.protocol import ThreadMessage
    from chatagent.protocol import ToolPart as ShownToolPart
    from chatagent.ui import UIMessage
    from chatagent_test import MockAgentClient


def last_message(mock: MockAgentClient, thread_id: str = "t-1") -> UIMessage:
    """Return the last message as it is stored."""
    snapshot = mock.inspect.thread(thread_id)
    assert snapshot is not None
    return snapshot.messages[-1]


def last_tool(mock: MockAgentClient, thread_id: str = "t-1") -> ToolPart:
    """Return the last tool call as it is stored."""
    return [part for part in last_message(mock, thread_id).parts if isinstance(part, ToolPart)][-1]


def last_call(thread: Thread) -> tuple[ThreadMessage, ShownToolPart]:
    """Return the last tool call as the facade shows it, with its message."""
    message = next(each for each in reversed(thread.get_state().messages) if each.tool_parts)
    return message, message.tool_parts[-1]


def event_types(mock: MockAgentClient, thread_id: str = "t-1") -> list[str]:
    """Return the types of a thread's events; of a chunk event, the chunk's."""
    return [
        event.chunk.type if isinstance(event, GenerationMessageChunk) else event.type
        for event in mock.inspect.events(thread_id)
    ]


def chunks(mock: MockAgentClient, thread_id: str = "t-1") -> list[dict[str, object]]:
    """Return a thread's chunks in wire form."""
    events = mock.inspect.events(thread_id)
    return [to_wire(event.chunk) for event in events if isinstance(event, GenerationMessageChunk)]


def reduced_log(mock: MockAgentClient, thread_id: str = "t-1") -> ThreadModel:
    """Return what the thread's log makes of nothing."""
    model = ThreadModel(thread_id)
    for event in mock.inspect.events(thread_id):
        model.apply(event)
    return model


def provenance(part: ToolPart) -> Any:
    """Return what a tool part says of its tool."""
    return cast("dict[str, Any]", part.tool_metadata or {}).get("chatagent")
