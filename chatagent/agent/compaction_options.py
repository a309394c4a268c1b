"""The option `compaction` of an agent: when a conversation is replaced by a summary, and by which.

Only the callbacks, what they receive, and what `chat.compact` gives; the work is in `compaction.py` (N-42 to N-46).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, Required, TypedDict, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chatagent.generate import StepChanges, StepResult
    from chatagent.model import LanguageModelUsage, ModelMessage
    from chatagent.ui import UIMessage

__all__ = [
    "CompactMessagesEvent",
    "CompactResult",
    "CompactionOptions",
    "CompactionSource",
    "CompactionState",
    "ShouldCompactEvent",
    "SummarizeEvent",
]

ClientDataT = TypeVar("ClientDataT")

CompactionSource = Literal["inner", "outer"]
"""`inner`: between two steps of a turn. `outer`: behind a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShouldCompactEvent(Generic[ClientDataT]):
    """`should_compact`: a step or a turn is done, and its usage is known."""

    messages: list[ModelMessage]
    """All that the model would be asked with next."""
    total_tokens: int | None
    """Of the step, or of the turn; `None` if the model told none."""
    input_tokens: int | None
    output_tokens: int | None
    usage: LanguageModelUsage
    """The same in full."""
    total_usage: LanguageModelUsage
    """Of all completed turns of the run; for `outer` this one included."""
    chat_id: str
    turn: int
    client_data: ClientDataT
    source: CompactionSource
    step_number: int | None = None
    """The number of the last finished step; only for `inner`."""
    steps: list[StepResult] | None = None
    """The finished steps of this call; only for `inner`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeEvent(Generic[ClientDataT]):
    """`summarize`: gives the text that takes the place of the messages."""

    messages: list[ModelMessage]
    usage: LanguageModelUsage
    total_usage: LanguageModelUsage
    chat_id: str
    turn: int
    client_data: ClientDataT
    source: CompactionSource
    step_number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactMessagesEvent(Generic[ClientDataT]):
    """`compact_ui_messages` and `compact_model_messages`: what is to be kept beside the summary."""

    summary: str
    ui_messages: list[UIMessage]
    model_messages: list[ModelMessage]
    """The model list before it is replaced."""
    chat_id: str
    turn: int
    client_data: ClientDataT
    source: CompactionSource


class CompactionOptions(TypedDict, Generic[ClientDataT], total=False):
    """When and how a conversation is compacted. Callbacks may be sync or async."""

    should_compact: Required[Callable[[ShouldCompactEvent[ClientDataT]], Any]]
    """Asked between the steps of a turn and behind a turn; a true answer compacts."""
    summarize: Required[Callable[[SummarizeEvent[ClientDataT]], Any]]
    """Returns the summary, a text."""
    compact_model_messages: Callable[[CompactMessagesEvent[ClientDataT]], Any]
    """Returns the new model list, as objects or in wire form; by default one assistant message with the summary."""
    compact_ui_messages: Callable[[CompactMessagesEvent[ClientDataT]], Any]
    """Returns the new history; without it the history stays whole, and only the model sees the summary."""


COMPACTION_CALLBACKS: Sequence[str] = tuple(
    sorted(CompactionOptions.__required_keys__ | CompactionOptions.__optional_keys__)
)
"""The names of the callbacks."""


@dataclass(frozen=True, slots=True)
class CompactionState:
    """What a turn has been compacted to."""

    summary: str
    base_response_message_count: int
    """How many messages the steps so far had added; the summary covers them."""


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What `chat.compact` did.

    `skipped`: nothing was to be done, or could be. `compacted`: the messages are the summary. `rebuilt`: the turn was
    compacted before; the messages are the summary and what the steps since then have added.
    """

    type: Literal["skipped", "compacted", "rebuilt"]
    messages: list[ModelMessage] | None = None
    """What to ask the model with; `None` for `skipped`."""
    summary: str | None = None
    """Only for `compacted`."""

    @property
    def changes(self) -> StepChanges | None:
        """What `prepare_step` has to return for it."""
        return None if self.messages is None else {"messages": self.messages}
