"""The event that each hook receives: frozen, with lists of its own, generic in the client data.

Fields follow the hook reference (chat-agent 2.8). A list in an event is a copy: what a hook does to it changes nothing;
changes go through `chat.history`. Fields that do not apply are `None`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from chatagent.agent.wire import Trigger
    from chatagent.agent.writer import ChunkWriter
    from chatagent.generate import Tool
    from chatagent.model import LanguageModelUsage, ModelMessage
    from chatagent.signals import AbortSignal
    from chatagent.task import RunContext
    from chatagent.ui import UIMessage

__all__ = [
    "ActionEvent",
    "BeforeTurnCompleteEvent",
    "BootEvent",
    "ChatResumeEvent",
    "ChatStartEvent",
    "ChatSuspendEvent",
    "CompactedEvent",
    "HydrateMessagesEvent",
    "PendingToolCall",
    "PreloadEvent",
    "PrepareMessagesEvent",
    "PrepareReason",
    "RecoveryBootEvent",
    "RecoveryResult",
    "ResolveToolsEvent",
    "RunEvent",
    "SuspendPhase",
    "TurnCompleteEvent",
    "TurnStartEvent",
    "ValidateMessagesEvent",
]

ClientDataT = TypeVar("ClientDataT")

PrepareReason = Literal["run", "compaction-rebuild", "compaction-result"]
SuspendPhase = Literal["preload", "continuation", "turn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BootEvent(Generic[ClientDataT]):
    """`on_boot`: a run has started, be it for a new conversation or for one that goes on (H-1)."""

    ctx: RunContext
    chat_id: str
    run_id: str
    chat_access_token: str
    client_data: ClientDataT
    continuation: bool
    previous_run_id: str | None
    preloaded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingToolCall:
    """A tool call that a crashed run left without a result (R-9)."""

    tool_call_id: str
    tool_name: str
    input: object
    part_index: int
    """Position of the call's part in the partial message as it was streamed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryBootEvent:
    """`on_recovery_boot`: the run before this one died in the middle of an answer (H-2)."""

    ctx: RunContext
    chat_id: str
    run_id: str
    previous_run_id: str
    """Empty if unknown."""
    cause: Literal["unknown"]
    settled_messages: list[UIMessage]
    in_flight_users: list[UIMessage]
    """User messages that were never answered, in order."""
    partial_assistant: UIMessage | None
    """What was streamed of the answer, cleaned of unfinished tool calls; `None` if nothing is left."""
    pending_tool_calls: list[PendingToolCall]
    writer: ChunkWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryResult:
    """What `on_recovery_boot` may return; a field left at `None` keeps the default (R-4).

    Args:
        chain: replaces the chain.
        recovered_turns: the user messages to answer now, in order; an empty list answers none.
        before_boot: called after the hook and before the first turn; its failure ends the run.
    """

    chain: Sequence[UIMessage] | None = None
    recovered_turns: Sequence[UIMessage] | None = None
    before_boot: Callable[[], Awaitable[None] | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreloadEvent(Generic[ClientDataT]):
    """`on_preload`: the run was started ahead of the first message (H-3)."""

    ctx: RunContext
    chat_id: str
    run_id: str
    chat_access_token: str
    client_data: ClientDataT
    writer: ChunkWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatStartEvent(Generic[ClientDataT]):
    """`on_chat_start`: the first turn of a conversation (H-4)."""

    ctx: RunContext
    chat_id: str
    messages: list[ModelMessage]
    client_data: ClientDataT
    run_id: str
    chat_access_token: str
    continuation: bool
    """Always `False`."""
    previous_run_id: str | None
    preloaded: bool
    writer: ChunkWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateMessagesEvent:
    """`on_validate_messages`: what a turn brings, before anything uses it; the hook returns what to use (H-5)."""

    messages: list[UIMessage]
    chat_id: str
    turn: int
    trigger: Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class HydrateMessagesEvent(Generic[ClientDataT]):
    """`hydrate_messages`: the hook returns the whole chain, from a store of its own (H-6)."""

    chat_id: str
    turn: int
    trigger: Trigger
    incoming_messages: list[UIMessage]
    previous_messages: list[UIMessage]
    client_data: ClientDataT
    continuation: bool
    previous_run_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionEvent(Generic[ClientDataT]):
    """`on_action`: a client's command; what the hook returns may be streamed (H-7)."""

    action: Any
    """Parsed by `action_schema`; as it came without one."""
    chat_id: str
    turn: int
    client_data: ClientDataT
    ui_messages: list[UIMessage]
    messages: list[ModelMessage]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStartEvent(Generic[ClientDataT]):
    """`on_turn_start`: the turn's messages are in the chain, the model was not asked yet (H-8)."""

    ctx: RunContext
    chat_id: str
    messages: list[ModelMessage]
    ui_messages: list[UIMessage]
    turn: int
    run_id: str
    chat_access_token: str
    client_data: ClientDataT
    continuation: bool
    previous_run_id: str | None
    preloaded: bool
    previous_turn_usage: LanguageModelUsage | None
    total_usage: LanguageModelUsage
    writer: ChunkWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareMessagesEvent(Generic[ClientDataT]):
    """`prepare_messages`: the model messages about to be used; the hook returns those to use (H-9)."""

    messages: list[ModelMessage]
    reason: PrepareReason
    chat_id: str
    turn: int
    client_data: ClientDataT


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(Generic[ClientDataT]):
    """`run`: one turn's work; what it returns is streamed to the client (H-12)."""

    chat_id: str
    trigger: Trigger
    messages: list[ModelMessage]
    """The conversation, ready for the model."""
    client_data: ClientDataT
    continuation: bool
    preloaded: bool
    total_usage: LanguageModelUsage
    ctx: RunContext
    tools: dict[str, Tool]
    """The agent's tools; empty if it declares none."""
    signal: AbortSignal
    """Aborted when the turn is stopped or the run is cancelled."""
    cancel_signal: AbortSignal
    """Aborted when the run is cancelled."""
    stop_signal: AbortSignal
    """Aborted when the user stops this turn."""
    previous_run_id: str | None = None
    previous_turn_usage: LanguageModelUsage | None = None
    message_id: str | None = None
    action: Any = None
    idle_timeout_in_seconds: float | None = None
    session_id: str | None = None
    client_run_id: str | None = None
    """The client's run that the turn works for; `None` where no service keeps such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedEvent:
    """`on_compacted`: a summary has taken the place of the conversation (H-14)."""

    ctx: RunContext
    summary: str
    messages: list[ModelMessage]
    """Between steps what was summarised; behind a turn the model list as it is now."""
    message_count: int
    """How many these are."""
    usage: LanguageModelUsage
    """Of the step, or of the turn, that was too long."""
    total_tokens: int | None
    input_tokens: int | None
    output_tokens: int | None
    step_number: int
    """The last finished step; -1 behind a turn."""
    chat_id: str
    turn: int
    writer: ChunkWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTurnCompleteEvent(Generic[ClientDataT]):
    """`on_before_turn_complete`: the answer is in the chain, the client still waits (H-10)."""

    ctx: RunContext
    chat_id: str
    messages: list[ModelMessage]
    ui_messages: list[UIMessage]
    new_messages: list[ModelMessage]
    new_ui_messages: list[UIMessage]
    response_message: UIMessage | None
    raw_response_message: UIMessage | None
    turn: int
    run_id: str
    chat_access_token: str
    client_data: ClientDataT
    stopped: bool
    continuation: bool
    previous_run_id: str | None
    preloaded: bool
    usage: LanguageModelUsage | None
    total_usage: LanguageModelUsage
    finish_reason: str | None
    writer: ChunkWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCompleteEvent(Generic[ClientDataT]):
    """`on_turn_complete`: the client knows that the turn is over (H-11, H-13)."""

    ctx: RunContext
    chat_id: str
    messages: list[ModelMessage]
    ui_messages: list[UIMessage]
    new_messages: list[ModelMessage]
    """The model messages that this turn added."""
    new_ui_messages: list[UIMessage]
    """The messages that this turn added: of a plain turn the user's and the answer."""
    response_message: UIMessage | None
    """The answer as it was stored; `None` if nothing was captured."""
    raw_response_message: UIMessage | None
    """The answer as it was streamed, before clean-up and without parts written by hooks."""
    turn: int
    run_id: str
    chat_access_token: str
    client_data: ClientDataT | None
    """`None` if it could not be parsed."""
    stopped: bool
    continuation: bool
    previous_run_id: str | None
    preloaded: bool
    usage: LanguageModelUsage | None
    total_usage: LanguageModelUsage
    finish_reason: str | None
    last_event_id: str | None
    """Number of the turn's turn-complete record on `.out`."""
    error: BaseException | None = None
    """Why the turn failed; `None` for one that did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatSuspendEvent(Generic[ClientDataT]):
    """`on_chat_suspend`: nothing came for the idle time, the run is about to be put away (H-15)."""

    phase: SuspendPhase
    ctx: RunContext
    chat_id: str
    run_id: str
    client_data: ClientDataT
    turn: int | None = None
    """The turn that was completed last; `None` before any, and outside phase `turn`."""
    messages: list[ModelMessage] | None = None
    ui_messages: list[UIMessage] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatResumeEvent(Generic[ClientDataT]):
    """`on_chat_resume`: a message came while the run was put away (H-16)."""

    phase: SuspendPhase
    ctx: RunContext
    chat_id: str
    run_id: str
    client_data: ClientDataT
    turn: int | None = None
    messages: list[ModelMessage] | None = None
    ui_messages: list[UIMessage] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveToolsEvent(Generic[ClientDataT]):
    """What a `tools` function receives; it returns the turn's tools (H-17)."""

    chat_id: str
    turn: int
    continuation: bool
    client_data: ClientDataT
