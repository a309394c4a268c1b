"""`chat.history`: reading the conversation and changing it, from hooks, tools and `run` (rules N-10 to N-13).

Reads see what was changed. Changes are applied at the next checkpoint of the turn: behind `on_action`, before and
behind `on_turn_start`, before `prepare_messages`, behind `run`, and behind the two completion hooks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent.chain import MessageChain
from chatagent.agent.merge import tool_parts
from chatagent.agent.run import this_run
from chatagent.agent.storable import storable_message
from chatagent.errors import InvalidMessageError
from chatagent.ui import UIMessage, parse_ui_message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.agent.merge import AnyToolPart
    from chatagent.agent.state import Conversation

__all__ = ["History", "NewToolResult", "ToolCallRef"]

_RESOLVED = ("output-available", "output-error")


@dataclass(frozen=True, slots=True)
class ToolCallRef:
    """A tool call in the history."""

    tool_call_id: str
    tool_name: str
    message_id: str


@dataclass(frozen=True, slots=True)
class NewToolResult:
    """The result of a tool call that the history does not have yet."""

    tool_call_id: str
    tool_name: str
    output: object
    """`None` if the tool failed."""
    error_text: str | None = None


class History:
    """The functions behind `chat.history`. All raise `ChatContextError` outside a run."""

    __slots__ = ()

    def all(self) -> list[UIMessage]:
        """Return all messages, in a list of your own."""
        return _conversation("all").seen.to_list()

    def get_chain(self) -> list[UIMessage]:
        """Return all messages, in a list of your own; the same as `all`."""
        return _conversation("get_chain").seen.to_list()

    def find_message(self, message_id: str) -> UIMessage | None:
        """Return the message with this id, or `None`."""
        return _conversation("find_message").seen.find(message_id)

    def get_pending_tool_calls(self) -> list[ToolCallRef]:
        """Return the calls of the last assistant message that wait for an answer."""
        chain = _conversation("get_pending_tool_calls").seen
        for message in reversed(chain.to_list()):
            if message.role == "assistant":
                return _calls(message, ("input-available",))
        return []

    def get_resolved_tool_calls(self) -> list[ToolCallRef]:
        """Return every call that has a result, in order."""
        chain = _conversation("get_resolved_tool_calls").seen
        return [call for message in chain if message.role == "assistant" for call in _calls(message, _RESOLVED)]

    def extract_new_tool_results(self, message: UIMessage | Mapping[str, Any]) -> list[NewToolResult]:
        """Return the results that an assistant message brings and the history does not have; each call once."""
        message = parse_ui_message(cast("Any", message), generate_id=this_run("chat.history").env.new_id)
        known = {call.tool_call_id for call in self.get_resolved_tool_calls()}
        results: list[NewToolResult] = []
        for part in tool_parts(message) if message.role == "assistant" else []:
            if part.state in _RESOLVED and part.tool_call_id not in known:
                known.add(part.tool_call_id)
                results.append(_result(part))
        return results

    def set(self, messages: Sequence[UIMessage | Mapping[str, Any]]) -> None:
        """Replace the whole history; an empty list clears it.

        Raises:
            InvalidMessageError: one of them is no message, or JSON cannot hold it; nothing was changed.
        """
        run = this_run("chat.history.set")
        if not isinstance(messages, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise InvalidMessageError(field="messages", value=messages, problem="give a list of messages")
        parsed = [storable_message(message, new_id=run.env.new_id) for message in messages]
        run.state.conversation.override = MessageChain(parsed)

    def remove(self, message_id: str) -> None:
        """Drop one message; an unknown id changes nothing."""
        conversation = _conversation("remove")
        _change(conversation, [message for message in conversation.seen if message.id != message_id])

    def rollback_to(self, message_id: str) -> None:
        """Drop everything behind a message; an unknown id changes nothing."""
        conversation = _conversation("rollback_to")
        position = conversation.seen.position(message_id)
        if position is not None:
            _change(conversation, conversation.seen.to_list()[: position + 1])

    def replace(self, message_id: str, message: UIMessage | Mapping[str, Any]) -> None:
        """Put another message in the place of one, wherever its id stands; an unknown id changes nothing.

        Raises:
            InvalidMessageError: it is no message, or JSON cannot hold it; nothing was changed.
        """
        run = this_run("chat.history.replace")
        conversation = run.state.conversation
        parsed = storable_message(message, new_id=run.env.new_id)
        _change(conversation, [parsed if known.id == message_id else known for known in conversation.seen])

    def slice(self, start: int, end: int | None = None) -> None:
        """Keep only the messages from `start` up to (not including) `end`; negative numbers count from the end."""
        conversation = _conversation("slice")
        _change(conversation, conversation.seen.to_list()[start:end])


def _conversation(name: str) -> Conversation:
    return this_run(f"chat.history.{name}").state.conversation


def _change(conversation: Conversation, messages: Iterable[UIMessage]) -> None:
    conversation.override = messages if isinstance(messages, MessageChain) else MessageChain(messages)


def _calls(message: UIMessage, states: Sequence[str]) -> list[ToolCallRef]:
    return [
        ToolCallRef(part.tool_call_id, part.tool_name, message.id)
        for part in tool_parts(message)
        if part.state in states
    ]


def _result(part: AnyToolPart) -> NewToolResult:
    if part.state == "output-error":
        return NewToolResult(part.tool_call_id, part.tool_name, None, part.error_text or "")
    return NewToolResult(part.tool_call_id, part.tool_name, part.output)
