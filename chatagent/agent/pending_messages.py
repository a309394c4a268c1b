"""The option `pending_messages` of an agent: what it may say about messages that come while a turn is on.

Only the callbacks and the events that they receive; what happens to the messages is in `steering.py` (N-70 to N-74).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chatagent.generate import StepResult
    from chatagent.model import ModelMessage
    from chatagent.ui import UIMessage

__all__ = [
    "PendingMessageReceivedEvent",
    "PendingMessagesEvent",
    "PendingMessagesInjectedEvent",
    "PendingMessagesOptions",
]

ClientDataT = TypeVar("ClientDataT")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMessageReceivedEvent:
    """`on_received`: a message came while a turn was on, and waits for a step that takes it in (N-70)."""

    message: UIMessage
    chat_id: str
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMessagesEvent(Generic[ClientDataT]):
    """`should_inject` and `prepare`: the model is about to be asked, and messages wait (N-71)."""

    messages: list[UIMessage]
    """The messages that wait, in the order in which they came."""
    model_messages: list[ModelMessage]
    """What the model would be asked with, without them."""
    steps: list[StepResult]
    """The finished steps of this call."""
    step_number: int
    """The number of the last finished step; -1 before the first."""
    chat_id: str
    turn: int
    client_data: ClientDataT


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMessagesInjectedEvent:
    """`on_injected`: the messages were given to the model (N-72)."""

    messages: list[UIMessage]
    injected_model_messages: list[ModelMessage]
    chat_id: str
    turn: int
    step_number: int


class PendingMessagesOptions(TypedDict, Generic[ClientDataT], total=False):
    """What becomes of messages that come while a turn is on. Callbacks may be sync or async.

    Also an empty dict turns steering on. Without `should_inject` no message is injected; each becomes a turn.
    """

    should_inject: Callable[[PendingMessagesEvent[ClientDataT]], Any]
    """Asked before each model call while messages wait; a true answer gives all of them to the model now."""
    prepare: Callable[[PendingMessagesEvent[ClientDataT]], Any]
    """Returns the model messages to inject, as objects or in wire form; by default what the messages convert to."""
    on_received: Callable[[PendingMessageReceivedEvent], object]
    """Called with each message as it comes; what it raises is logged."""
    on_injected: Callable[[PendingMessagesInjectedEvent], object]
    """Called once messages were injected; what it raises is logged."""


PENDING_MESSAGES_CALLBACKS: Sequence[str] = tuple(sorted(PendingMessagesOptions.__optional_keys__))
"""The names of the callbacks."""
