"""What a run remembers: for its whole life, and for one turn (rules T-2 to T-4)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chatagent.agent.chain import MessageChain, MessageConverter
from chatagent.agent.injected import Steering
from chatagent.agent.merge import ToolCallMap
from chatagent.agent.observer import TurnReport
from chatagent.agent.superseded import waits_for_its_tool
from chatagent.agent.work import TurnWork
from chatagent.model import LanguageModelUsage
from chatagent.signals import AbortController, AbortSignal
from chatagent.ui import StartStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from chatagent.agent.compaction import InnerCompaction
    from chatagent.agent.compaction_options import CompactionOptions
    from chatagent.agent.handover import HandoverSignal
    from chatagent.agent.pending_messages import PendingMessagesOptions
    from chatagent.agent.prompt import StoredPrompt
    from chatagent.agent.skills import ResolvedSkill
    from chatagent.agent.wire import Incoming
    from chatagent.generate import Tool, UIMessageStreamOptions
    from chatagent.model import ModelMessage
    from chatagent.tasks import OwnedTask
    from chatagent.ui import Chunk, DataUIPart, UIMessage

__all__ = ["Conversation", "RunState", "TurnState"]


class Conversation:
    """The chain and its model messages, with the change that user code wants but that is not applied yet (N-10)."""

    __slots__ = ("chain", "converter", "model", "override")

    def __init__(self) -> None:
        self.chain = MessageChain()
        self.model: list[ModelMessage] = []
        """The model list: the chain converted, and background messages that were injected (N-41)."""
        self.converter = MessageConverter()
        self.override: MessageChain | None = None
        """What `chat.history` made of the chain since the last checkpoint; `None` if nothing."""

    @property
    def seen(self) -> MessageChain:
        """The chain as `chat.history` shows it: with the pending change."""
        return self.chain if self.override is None else self.override

    @property
    def supersedes(self) -> bool:
        """Whether whatever joins the chain changes what its last message is to the model (G-63)."""
        return self.chain.last is not None and waits_for_its_tool(self.chain.last)

    async def set_chain(self, messages: Iterable[UIMessage]) -> None:
        """Replace the chain and convert it anew."""
        self.chain = messages if isinstance(messages, MessageChain) else MessageChain(messages)
        await self.reconvert()

    async def reconvert(self) -> None:
        """Make the model list from the chain; injected background messages are gone then.

        A message that no model can be shown is left out, so that it fails one turn at most.
        """
        self.model = await self.converter.convert_what_can_be(self.chain)
        self.converter.forget_all_but(self.chain)

    async def take_in(self, messages: Sequence[UIMessage], *, keep_model: bool = False) -> list[ModelMessage]:
        """Put messages at the end, the last at the place of its id if it has one; returns what they converted to.

        The model list grows by them. It is made anew only where an older entry of it has changed.

        Args:
            messages: the messages; those in front of the last one stand directly before it.
            keep_model: whether the model list grows even then: it holds something else than the chain.
        """
        if not messages:
            return []
        supersedes = self.supersedes
        *behind, last = messages
        self.chain, replaced = self.chain.upsert(last, behind=behind)
        converted = await self.converter.convert_what_can_be(messages)
        if (replaced or supersedes) and not keep_model:
            await self.reconvert()
        else:
            self.model += converted
        return converted

    async def apply_override(self) -> bool:
        """Make the pending change, if there is one, the chain (N-11)."""
        if self.override is None:
            return False
        chain, self.override = self.override, None
        await self.set_chain(chain)
        return True


@dataclass(slots=True)
class RunState:
    """What a run remembers for its whole life."""

    could_have_prior_state: bool = False
    """Whether this may not be the conversation's first run (C-53)."""
    conversation: Conversation = field(default_factory=Conversation)
    saved: Sequence[UIMessage] | None = None
    """The chain of the last snapshot."""
    tool_calls: ToolCallMap = field(default_factory=ToolCallMap)
    previous_turn_usage: LanguageModelUsage | None = None
    total_usage: LanguageModelUsage = field(default_factory=LanguageModelUsage)
    recovered: deque[Incoming] = field(default_factory=deque["Incoming"])
    """Turns that the boot dispatches, ahead of every other source (R-8)."""
    buffered: deque[Incoming] = field(default_factory=deque["Incoming"])
    """Payloads that came while a turn was on (T-2)."""
    background: list[ModelMessage] = field(default_factory=list["ModelMessage"])
    """What `chat.inject` queued (T-3)."""
    steered_ids: set[str] = field(default_factory=set[str])
    """Ids of the messages that a turn's steering queue has let go; sent again they are dropped (G-25)."""
    prompt: StoredPrompt | None = None
    """Set by `chat.prompt.set`."""
    skills: Sequence[ResolvedSkill] | None = None
    """Set by `chat.skills.set`."""
    upgrade_requested: bool = False
    end_run_requested: bool = False
    turn_timeout: float | None = None
    """Set by `chat.set_turn_timeout`."""
    idle_timeout: float | None = None
    """Set by `chat.set_idle_timeout`."""
    stream_options: UIMessageStreamOptions | None = None
    """Set by `chat.set_ui_message_stream_options`, for the next conversion only (N-60)."""
    handover: HandoverSignal | None = None
    """What a head start has handed over and no turn has taken yet."""
    awaits_handover: bool = False
    """Whether the code of a custom agent may still ask for the handover signal (G-27)."""
    handed_out: deque[Incoming] = field(default_factory=deque["Incoming"])
    """Payloads that the code of a custom agent was told of and that no turn has answered."""
    is_closed: bool = False
    """Whether a `close` has reached the code of a custom agent."""
    last_completed_turn: int | None = None
    local_records: dict[str, Any] = field(default_factory=dict[str, Any])
    """The records of `chat.local`, by id."""


@dataclass(slots=True)
class TurnState:
    """What belongs to one turn or action."""

    number: int
    incoming: Incoming
    messages: list[UIMessage]
    """What the turn brings, cleaned (T-11)."""
    conversation: Conversation = field(default_factory=Conversation)
    """The lists that the answer goes into."""
    compaction_options: CompactionOptions[Any] | None = None
    pending_options: PendingMessagesOptions[Any] | None = None
    """With this option the turn takes messages in that come while it is on."""
    stop: AbortController = field(default_factory=AbortController)
    signal: AbortSignal = field(default_factory=AbortSignal)
    """Aborted by a stop of this turn or by the cancellation of the run."""
    client_data: Any = None
    tools: dict[str, Tool] = field(default_factory=dict[str, "Tool"])
    access_token: str = ""
    pipe_count: int = 0
    captured: list[Chunk] = field(default_factory=list["Chunk"])
    """The chunks of the answer so far; emptied once the answer is committed."""
    response: UIMessage | None = None
    """The answer, as it stands in the chain."""
    raw_response: UIMessage | None = None
    finish_reason: str | None = None
    usage: LanguageModelUsage | None = None
    response_parts: list[DataUIPart] = field(default_factory=list["DataUIPart"])
    """Data parts that user code wrote for the answer (N-22)."""
    response_committed: bool = False
    steering: Steering = field(default_factory=Steering)
    """The messages that came while the turn was on, if the agent steers."""
    steps_asked: int = 0
    """How many steps a model was asked for, where nobody captures their chunks."""
    compaction: InnerCompaction | None = None
    """What the turn was compacted to between its steps."""
    deferred: list[OwnedTask] = field(default_factory=list["OwnedTask"])
    new_ui_messages: list[UIMessage] = field(default_factory=list["UIMessage"])
    new_messages: list[ModelMessage] = field(default_factory=list["ModelMessage"])
    stopped: bool = False
    error: BaseException | None = None
    stream_error: object = None
    """What the answer's stream told in an `error` chunk, at its end; such a turn has not failed (E-11 b)."""
    run_metadata: dict[str, Any] | None = None
    """What clients can read of their run; `None` while it is what the payload says."""
    out_seq: int | None = None
    """Number of the turn-complete record."""
    observed: AbstractContextManager[object] | None = None
    """Left when the turn of a custom agent is over."""

    @property
    def is_action(self) -> bool:
        """Whether this is an action and no turn."""
        return self.incoming.payload.trigger == "action"

    @property
    def steps_begun(self) -> int:
        """How many steps of the answer have come so far."""
        return [*map(type, self.captured)].count(StartStep) if self.captured else self.steps_asked

    def work(self, *, is_open_ended: bool = False) -> TurnWork:
        """Return what observers are told as the turn begins."""
        return TurnWork(
            turn=self.number,
            is_action=self.is_action,
            payload=self.incoming.payload,
            messages=self.conversation.chain.items,
            is_open_ended=is_open_ended,
        )

    def report(self, total_usage: LanguageModelUsage) -> TurnReport:
        """Return how the turn stands, for observers; `total_usage` is what the run's turns so far took."""
        return TurnReport(
            turn=self.number,
            is_action=self.is_action,
            in_seq=self.incoming.seq,
            out_seq=self.out_seq,
            response=self.response,
            error=self.error,
            stream_error=self.stream_error,
            finish_reason=self.finish_reason,
            stopped=self.stopped,
            injected_seqs=tuple(self.steering.injected_seqs),
            usage=self.usage,
            total_usage=total_usage,
            chain=self.conversation.chain.items,
        )

    def note_stream_end(self, event: Any) -> None:
        """Keep what went wrong inside a stream that has ended; `event` is what its `on_end` was called with."""
        self.stream_error = getattr(getattr(event, "outcome", None), "error", None)

    def add_new(self, messages: Sequence[UIMessage], converted: Sequence[ModelMessage]) -> None:
        """List messages as new in this turn."""
        self.new_ui_messages += messages
        self.new_messages += converted
