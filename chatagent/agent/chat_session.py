"""`chat.create_session`: a custom agent's loop as an async iterator of turns (N-87).

The turn loop without its hooks: each turn brings its message into the run's conversation, the caller asks the model,
and `complete` sends the answer, keeps it and closes the turn. No snapshot is kept.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent.accumulate import accumulate
from chatagent.agent.answer import commit_answer, settle_answer, take_in_background
from chatagent.agent.capture import capture, fetch_usage
from chatagent.agent.cleanup import cleanup_aborted_parts
from chatagent.agent.compaction import apply_inner, compact_after_turn
from chatagent.agent.custom_turns import begin_turn, complete_turn, leave_turn
from chatagent.agent.failure import fail_turn, keep_what_is_there
from chatagent.agent.handover import receive_handover, seed_head_start, splice_handover
from chatagent.agent.inputs import MidTurnListener, wait_for_incoming
from chatagent.agent.loop import upgrade
from chatagent.agent.stream_text_options import step_hook
from chatagent.agent.wire import Incoming, WirePayload
from chatagent.errors import InvalidArgumentError, LeaseLostError
from chatagent.signals import AbortSignal
from chatagent.ui import UIMessage, parse_ui_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatagent.agent.compaction_options import CompactionOptions
    from chatagent.agent.pending_messages import PendingMessagesOptions
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import Conversation, TurnState
    from chatagent.agent.work import WaitsFor
    from chatagent.generate import PrepareStep
    from chatagent.model import LanguageModelUsage, ModelMessage

__all__ = ["ChatSession", "ChatTurn", "SessionOptions", "TurnHandover"]

logger = logging.getLogger("chatagent")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """How a session of turns goes."""

    abort_signal: AbortSignal
    """Ends the session."""
    idle_timeout: float
    """Seconds to wait warm for a message."""
    timeout: float
    """Seconds to wait suspended behind that."""
    max_turns: int
    compaction: CompactionOptions[Any] | None
    pending_messages: PendingMessagesOptions[Any] | None


@dataclass(frozen=True, slots=True)
class TurnHandover:
    """That a turn begins with what a head start has handed over."""

    is_final: bool
    """Whether that is the whole answer: `complete()` without a source takes it."""


class ChatSession:
    """The turns of one run, one after the other; use it in `async for`."""

    def __init__(self, run: AgentRun, payload: WirePayload, options: SessionOptions) -> None:
        self._run, self._payload, self._options = run, payload, options
        self._current: ChatTurn | None = None
        self._has_begun = False
        self._count = 0
        self._is_over = False

    def __aiter__(self) -> ChatSession:
        return self

    async def __anext__(self) -> ChatTurn:
        """Return the next turn, once there is a message for one."""
        while not self._is_over:
            incoming = await self._next_incoming()
            if incoming is None or await self._is_to_hand_over(incoming):
                break
            turn = await self._begin(incoming)
            if turn is not None:
                return turn
        self._is_over = True
        raise StopAsyncIteration

    @property
    def _is_cancelled(self) -> bool:
        return self._run.cancelled or self._options.abort_signal.aborted

    async def _next_incoming(self) -> Incoming | None:
        if not self._has_begun:
            self._has_begun = True
            return await self._first()
        run, state = self._run, self._run.state
        self._leave()
        if self._count >= self._options.max_turns or self._is_cancelled:
            return None
        if state.buffered:
            incoming = state.buffered.popleft()
            if incoming.payload.trigger != "close":
                return incoming
            run.in_.progress.done(incoming.seq)
            return None
        if state.upgrade_requested or state.end_run_requested:
            return None
        return await self._wait()

    async def _first(self) -> Incoming | None:
        """Return what the boot payload stands for, or what it waits for."""
        run, payload = self._run, self._payload
        if payload.trigger == "close":
            return None
        if payload.trigger == "handover-prepare":
            incoming, run.state.handover = await receive_handover(run, payload)
            run.state.awaits_handover = False
            await seed_head_start(run.state.conversation, payload)
            return incoming
        is_continuation = payload.continuation is True and payload.message is None
        is_for_input = payload.trigger is None and payload.message is None
        if payload.trigger != "preload" and not is_for_input and not is_continuation:
            return Incoming(payload, None)
        return await self._wait("next message (continuation)" if is_continuation else "first message")

    async def _wait(self, waits_for: WaitsFor = "next message") -> Incoming | None:
        """Wait for a message; `None` if none came, the session is to end, or a `close` came (G-20)."""
        run, options = self._run, self._options
        unsubscribe = options.abort_signal.add_callback(run.in_.interrupt)
        try:
            incoming = await wait_for_incoming(
                run,
                phase=None,
                client_data=None,
                waits_for=waits_for,
                idle_timeout=options.idle_timeout if run.state.idle_timeout is None else run.state.idle_timeout,
                suspend_timeout=options.timeout if run.state.turn_timeout is None else run.state.turn_timeout,
            )
        finally:
            unsubscribe()
        return None if self._is_cancelled else incoming

    async def _is_to_hand_over(self, incoming: Incoming) -> bool:
        """Let a newer version answer if the code asked for one; what was taken is left for it (G-26)."""
        if not self._run.state.upgrade_requested:
            return False
        await upgrade(self._run)
        return True

    async def _begin(self, incoming: Incoming) -> ChatTurn | None:
        """Bring the payload in; one that cannot be is answered with the error, and makes no turn here."""
        run, options = self._run, self._options
        state = begin_turn(run, incoming)
        state.signal = AbortSignal.any(state.stop.signal, run.cancel_signal, options.abort_signal)
        state.compaction_options, state.pending_options = options.compaction, options.pending_messages
        state.access_token = run.env.mint_token()
        self._count += 1
        listener = MidTurnListener(run)
        try:
            listener.attach()
            await _bring_in(run, state, incoming)
        except LeaseLostError:
            raise
        except Exception as exc:  # noqa: BLE001 - told to the client, as the turn loop does; the session goes on
            listener.off()
            await fail_turn(run, state, exc)
            leave_turn(run)
            return None
        self._current = ChatTurn(run, state, listener, continuation=self._payload.continuation is True)
        return self._current

    def _leave(self) -> None:
        turn, self._current = self._current, None
        if turn is None:
            return
        turn.release()
        leave_turn(self._run)


async def _bring_in(run: AgentRun, turn: TurnState, incoming: Incoming) -> None:
    if incoming.failure is not None:
        raise incoming.failure
    conversation, message = run.state.conversation, incoming.payload.message
    if message is not None:
        turn.messages = [cleanup_aborted_parts(message) if message.role == "assistant" else message]
    await conversation.apply_override()
    await accumulate(run, turn)
    splice_handover(run)
    take_in_background(run, turn)


class ChatTurn:
    """One turn of a session. It is over for the client when `complete` or `done` has returned."""

    def __init__(self, run: AgentRun, turn: TurnState, listener: MidTurnListener, *, continuation: bool) -> None:
        self._run, self._turn, self._listener = run, turn, listener
        self.continuation = continuation
        """Whether the run continues an earlier one."""
        handover, run.state.handover = run.state.handover, None
        self.handover = None if handover is None else TurnHandover(handover.is_final)
        """What a head start has handed over for this turn; `None` for most."""
        self.previous_turn_usage: LanguageModelUsage | None = run.state.previous_turn_usage
        """What the turn before took, if the model told."""

    @property
    def number(self) -> int:
        """The turn's number, from 0."""
        return self._turn.number

    @property
    def chat_id(self) -> str:
        """The conversation's id."""
        return self._run.chat_id

    @property
    def payload(self) -> WirePayload:
        """What the client has sent."""
        return self._turn.incoming.payload

    @property
    def trigger(self) -> str:
        """The payload's trigger."""
        return self.payload.trigger or "submit-message"

    @property
    def client_data(self) -> Any:
        """The payload's client data, as it came."""
        return self.payload.metadata

    @property
    def messages(self) -> list[ModelMessage]:
        """The conversation, ready for the model; a list of the caller's own."""
        return list(self._conversation.model)

    @property
    def ui_messages(self) -> list[UIMessage]:
        """The conversation as clients see it; a list of the caller's own."""
        return self._conversation.seen.to_list()

    @property
    def signal(self) -> AbortSignal:
        """Aborted when the turn is stopped, the run is cancelled, or the session's own signal is aborted."""
        return self._turn.signal

    @property
    def stopped(self) -> bool:
        """Whether the user has stopped this turn."""
        return self._turn.stop.signal.aborted and not self._run.cancelled

    @property
    def total_usage(self) -> LanguageModelUsage:
        """What all turns so far took."""
        return self._run.state.total_usage

    @property
    def _conversation(self) -> Conversation:
        return self._turn.conversation

    async def set_messages(self, messages: Sequence[UIMessage | Mapping[str, Any]]) -> None:
        """Replace the conversation, such as by what you have stored of it.

        Raises:
            InvalidMessageError: one of them is no message; nothing was changed.
        """
        parsed = [parse_ui_message(cast("Any", each), generate_id=self._run.env.new_id) for each in messages]
        self._conversation.override = None
        await self._conversation.set_chain(parsed)

    def prepare_step(self) -> PrepareStep | None:
        """Return the step hook for `stream_text`: compaction, then steering; `None` if the session has neither."""
        turn = self._turn
        if turn.compaction_options is None and turn.pending_options is None:
            return None
        return step_hook(self._run)

    async def complete(self, source: Any = None) -> UIMessage | None:
        """Send an answer, keep it in the conversation, and close the turn.

        Args:
            source: an object with `to_ui_message_stream`, or an async iterable of chunks. Only the whole answer of a
                head start needs none.

        Returns:
            The answer as it is kept; `None` if there is none, or the run was cancelled.

        Raises:
            InvalidArgumentError: there is no source, and no whole answer was handed over; the turn is still on.
            Exception: what the source raised; what was sent is kept in the conversation, and the turn is still on:
                call `done`.
        """
        run, turn = self._run, self._turn
        if source is None:
            self._take_final_handover()
        elif not await self._stream(source):
            await self.done()
            return None
        await settle_answer(run, turn)
        if source is not None:
            await self._keep()
        await self._close()
        return turn.response

    def _take_final_handover(self) -> None:
        if self.handover is None or not self.handover.is_final:
            problem = "the turn requires a stream source unless turn.handover.is_final is true"
            raise InvalidArgumentError(argument="source", value=None, problem=problem)
        last = self._conversation.chain.last
        if last is not None and last.role == "assistant":
            self._turn.response, self._turn.finish_reason = last, "stop"

    async def _stream(self, source: Any) -> bool:
        """Pipe and capture; returns whether there is anything to keep, which is not so once the run was cancelled."""
        run, turn = self._run, self._turn
        originals = None if self.handover is None else self._conversation.chain.to_list()
        turn.captured = []
        turn.pipe_count += 1
        try:
            result = await capture(run, source, turn.captured, abort_signal=turn.signal, original_messages=originals)
        finally:
            self._listener.off()
        if run.cancelled:
            return False
        turn.response, turn.finish_reason = result.message, result.finish_reason
        turn.stream_error = result.stream_error
        if result.error is not None:
            await self._keep_fragment(result.error)
            raise result.error
        if result.status == "aborted" and turn.response is not None:
            turn.response = cleanup_aborted_parts(turn.response)
        turn.usage = await fetch_usage(run, source)
        return True

    async def _keep_fragment(self, error: Exception) -> None:
        turn = self._turn
        turn.error, turn.finish_reason = error, "error"
        turn.response = None  # what has come is judged by its chunks: it must not take an older message's place (F-43)
        await keep_what_is_there(self._run, turn)
        turn.response_committed, turn.captured = True, []

    async def _keep(self) -> None:
        run, turn = self._run, self._turn
        await apply_inner(run, turn)
        await commit_answer(run, turn)
        await compact_after_turn(run, turn)

    async def add_response(self, message: UIMessage | Mapping[str, Any]) -> None:
        """Keep an answer that you have sent yourself; `done` closes the turn.

        Raises:
            InvalidMessageError: it is no message; nothing was changed.
        """
        run, turn = self._run, self._turn
        turn.response = parse_ui_message(cast("Any", message), generate_id=run.env.new_id)
        turn.stopped = self.stopped
        await apply_inner(run, turn)
        await commit_answer(run, turn)

    async def done(self) -> None:
        """Close the turn without sending anything; does nothing if it is closed."""
        if self._turn.out_seq is None:
            await self._conversation.apply_override()
            await self._close()

    async def _close(self) -> None:
        self._listener.off()
        if self._turn.out_seq is None:
            await complete_turn(self._run, token=self._turn.access_token)

    def release(self) -> None:
        """Take it that the caller goes on to the next turn."""
        self._listener.off()
        if self._turn.out_seq is None:
            logger.warning(
                "turn %s of agent %r was left without `complete` or `done`: its client still waits",
                self._turn.number,
                self._run.agent.id,
            )
