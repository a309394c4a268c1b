"""`chat.MessageAccumulator`: a conversation for code that runs a loop of its own (N-85).

The same lists, conversion, steering and compaction that the turn loop works with, to be fed by hand. It works for the
turn that is on; what waits to steer an answer stays over the turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent.answer import commit_answer
from chatagent.agent.cleanup import cleanup_aborted_parts
from chatagent.agent.compaction import apply_inner, compact_after_turn
from chatagent.agent.custom_handover import take_handover
from chatagent.agent.custom_turns import open_turn
from chatagent.agent.handover import seed_head_start, splice
from chatagent.agent.injected import PendingMessage, Steering
from chatagent.agent.merge import merge_incoming_into_stored
from chatagent.agent.run import this_run
from chatagent.agent.state import Conversation
from chatagent.agent.stream_text_options import prepare_next_step
from chatagent.agent.wire import Incoming, WirePayload
from chatagent.errors import ChatContextError
from chatagent.model import parse_model_message
from chatagent.ui import UIMessage, parse_ui_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.agent.compaction_options import CompactionOptions
    from chatagent.agent.handover import HandoverSignal
    from chatagent.agent.pending_messages import PendingMessagesOptions
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState
    from chatagent.clock import Duration
    from chatagent.generate import PrepareStep, PrepareStepEvent, StepChanges
    from chatagent.model import LanguageModelUsage, ModelMessage

__all__ = ["ConsumedHandover", "MessageAccumulator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedHandover:
    """What `consume_handover` has found."""

    is_final: bool
    """Whether the whole answer was handed over; then there is nothing to ask a model."""
    skipped: bool
    """Whether nothing was: the head start gave up, or did not say anything in time."""


class MessageAccumulator:
    """A conversation as UI messages and as model messages.

    Args:
        compaction: when and how `prepare_step` and `compact_if_needed` put a summary in its place.
        pending_messages: what `prepare_step` does with the messages that were given to `steer`.
    """

    def __init__(
        self,
        *,
        compaction: CompactionOptions[Any] | None = None,
        pending_messages: PendingMessagesOptions[Any] | None = None,
    ) -> None:
        self._compaction, self._pending = compaction, pending_messages
        self._conversation = Conversation()
        self._queue: list[PendingMessage] = []
        self._of: TurnState | None = None
        self._mine: TurnState | None = None

    @property
    def model_messages(self) -> list[ModelMessage]:
        """What to ask the model with; a list of the caller's own."""
        return list(self._conversation.model)

    @property
    def ui_messages(self) -> list[UIMessage]:
        """The conversation as clients see it; a list of the caller's own."""
        return self._conversation.chain.to_list()

    async def add_incoming(
        self,
        messages: Sequence[UIMessage | Mapping[str, Any]],
        trigger: str | None = "submit-message",
        turn: int = 0,
    ) -> list[ModelMessage]:
        """Bring in what a payload carries, and return what to ask the model with.

        Args:
            messages: the payload's message, or your whole history; answers are cleaned of unfinished tool calls. A
                message that is there already only brings the answers to its tool calls.
            trigger: the payload's trigger. `regenerate-message` replaces the conversation; without messages it drops
                the last answer.
            turn: the number of the turn; in turn 0 the messages replace the conversation.

        Raises:
            InvalidMessageError: one of them is no message; nothing was changed.
        """
        conversation, parsed = self._conversation, [self._parsed(message) for message in messages]
        cleaned = [cleanup_aborted_parts(each) if each.role == "assistant" else each for each in parsed]
        if not cleaned:
            if trigger == "regenerate-message":
                await conversation.set_chain(conversation.chain.without_trailing_non_users())
        elif turn == 0 or trigger == "regenerate-message":
            await conversation.set_chain(cleaned)
        else:
            await self._append(cleaned)
        return self.model_messages

    async def _append(self, messages: Sequence[UIMessage]) -> None:
        conversation = self._conversation
        fresh: list[UIMessage] = []
        merged = conversation.supersedes
        for message in messages:
            position = conversation.chain.position(message.id)
            if position is None:
                conversation.chain = conversation.chain.append(message)
                fresh.append(message)
                continue
            merged = True
            stored = merge_incoming_into_stored(conversation.chain[position], message)
            conversation.chain = conversation.chain.replace(position, stored)
        if merged:
            await conversation.reconvert()
        else:
            conversation.model += await conversation.converter.convert_what_can_be(fresh)

    async def add_response(self, message: UIMessage | Mapping[str, Any]) -> None:
        """Bring in an answer: at the place of its id, or else at the end.

        What a step hook injected stands before it, and what was compacted between its steps is the base of it.

        Args:
            message: the answer, as `chat.pipe_and_capture` gives it; without an id it gets one.

        Raises:
            ChatContextError: there is no run.
            InvalidMessageError: it is no message; nothing was changed.
        """
        run, turn = self._turn("add_response")
        turn.response = message if isinstance(message, UIMessage) else self._parsed(message)
        await apply_inner(run, turn)
        await commit_answer(run, turn)
        turn.compaction = None

    async def set_messages(self, messages: Sequence[UIMessage | Mapping[str, Any]]) -> None:
        """Replace the conversation.

        Raises:
            InvalidMessageError: one of them is no message; nothing was changed.
        """
        await self._conversation.set_chain([self._parsed(message) for message in messages])

    def steer(
        self,
        message: UIMessage | Mapping[str, Any],
        model_messages: Sequence[ModelMessage | Mapping[str, Any]] | None = None,
    ) -> None:
        """Let a message wait for the next step of the answer that is under way.

        Args:
            message: the user's message.
            model_messages: what the model is given of it; by default what it converts to.

        Raises:
            ChatContextError: there is no run.
            InvalidMessageError: it is no message; nothing was changed.
        """
        run = this_run("chat.MessageAccumulator.steer")
        parsed = self._parsed(message)
        found = next((each for each in run.state.handed_out if _carries(each, parsed)), None)
        incoming = found or Incoming(WirePayload(chat_id=run.chat_id, message=parsed), None)
        given: list[ModelMessage] | None = None
        if model_messages is not None:
            given = [parse_model_message(cast("Any", e)) if isinstance(e, Mapping) else e for e in model_messages]
        self._queue.append(PendingMessage(parsed, incoming, given))

    async def steer_async(self, message: UIMessage | Mapping[str, Any]) -> None:
        """Let a message wait for the next step, unless it cannot be shown to a model.

        Raises:
            ChatContextError: there is no run.
            InvalidMessageError: it is no message; nothing was changed.
            MessageConversionError: no model can be shown it; nothing was changed.
        """
        parsed = self._parsed(message)
        await self._conversation.converter.convert([parsed])
        self.steer(parsed)

    def drain_steering(self) -> list[UIMessage]:
        """Return the messages that no step has taken in, and let them wait no longer."""
        drained, self._queue[:] = [each.message for each in self._queue], []
        return drained

    def prepare_step(self) -> PrepareStep | None:
        """Return the step hook for `stream_text`: compaction, then steering; `None` if there is neither."""
        if self._compaction is None and self._pending is None:
            return None

        async def prepare_step(event: PrepareStepEvent) -> StepChanges | None:
            run, turn = self._turn("prepare_step")
            turn.steering.queue = list(self._queue)
            try:
                return await prepare_next_step(run, turn, event)
            finally:
                waiting = {id(each) for each in turn.steering.queue}
                self._queue[:] = [each for each in self._queue if id(each) in waiting]

        return prepare_step

    async def compact_if_needed(
        self, usage: LanguageModelUsage | None, context: Mapping[str, Any] | None = None
    ) -> bool:
        """Put a summary in the place of the model messages, if `compaction` says so; behind an answer.

        Args:
            usage: what the answer took; nothing is done without.
            context: what the callbacks see instead of the turn's own: `turn`, `client_data`.

        Returns:
            Whether it was done.

        Raises:
            ChatContextError: there is no run.
        """
        run, turn = self._turn("compact_if_needed")
        given = context or {}
        told = replace(
            turn,
            usage=usage,
            number=given.get("turn", turn.number),
            client_data=given.get("client_data", turn.client_data),
        )
        return await compact_after_turn(run, told)

    def apply_handover(self, signal: HandoverSignal) -> None:
        """Put what a head start has handed over behind the conversation, unless it is there already (C-92)."""
        if signal.kind == "handover":
            splice(self._conversation, signal, this_run("chat.MessageAccumulator.apply_handover").env.new_id)

    async def consume_handover(
        self,
        *,
        payload: WirePayload,
        idle_timeout: float | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109 - on the run's clock
    ) -> ConsumedHandover:
        """Wait for the end of a head start, and begin the conversation with it.

        Args:
            payload: the boot payload.
            idle_timeout: seconds to wait warm; by default what the payload says, else 60.
            timeout: how long to wait suspended behind that; by default not at all.

        Raises:
            ChatContextError: there is no run of a custom agent.
        """
        signal = await take_handover(payload, idle_timeout=idle_timeout, timeout=timeout)
        if signal is None or signal.kind == "handover-skip":
            return ConsumedHandover(is_final=False, skipped=True)
        await seed_head_start(self._conversation, payload)
        self.apply_handover(signal)
        return ConsumedHandover(is_final=signal.is_final, skipped=False)

    def _turn(self, name: str) -> tuple[AgentRun, TurnState]:
        """Return the run, and the state that the accumulator keeps for the turn that is on."""
        name = f"chat.MessageAccumulator.{name}"
        run = this_run(name)
        of = run.turn or open_turn(run)
        if of is None:
            raise ChatContextError(name, needs="turn")
        if self._mine is None or of is not self._of:
            self._of = of
            self._mine = replace(
                of,
                conversation=self._conversation,
                compaction_options=self._compaction,
                pending_options=self._pending,
                # The list of numbers is the turn's own, whose completion makes them count as worked off.
                steering=Steering(injected_seqs=of.steering.injected_seqs),
                captured=[],
                compaction=None,
                steps_asked=0,
            )
        return run, self._mine

    def _parsed(self, message: UIMessage | Mapping[str, Any]) -> UIMessage:
        if isinstance(message, UIMessage):
            return message
        return parse_ui_message(cast("Any", message), generate_id=this_run("chat.MessageAccumulator").env.new_id)


def _carries(incoming: Incoming, message: UIMessage) -> bool:
    carried = incoming.payload.message
    return carried is not None and carried.id == message.id
