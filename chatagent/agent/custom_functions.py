"""The functions of `chat` for agents with a loop of their own (N-82 to N-87)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.agent.accumulator import MessageAccumulator
from chatagent.agent.capture import PipeAndCaptureResult, capture
from chatagent.agent.chat_session import ChatSession, SessionOptions
from chatagent.agent.custom_handover import take_handover
from chatagent.agent.custom_turns import StopSignal, TurnCursors, complete_turn, open_turn, this_custom_run
from chatagent.agent.facades import Messages
from chatagent.agent.run import this_run
from chatagent.clock import Duration, to_seconds
from chatagent.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.agent.compaction_options import CompactionOptions
    from chatagent.agent.handover import HandoverSignal
    from chatagent.agent.pending_messages import PendingMessagesOptions
    from chatagent.agent.wire import WirePayload
    from chatagent.signals import AbortSignal
    from chatagent.ui import UIMessage

__all__ = ["CustomFunctions"]


class CustomFunctions:
    """What `chat` offers to custom agents."""

    messages = Messages()

    MessageAccumulator = MessageAccumulator

    def create_stop_signal(self) -> StopSignal:
        """Return a signal that the user's stop aborts, for the turn that is on (N-82).

        Raises:
            ChatContextError: there is no run of a custom agent.
        """
        return StopSignal(this_custom_run("chat.create_stop_signal"))

    async def write_turn_complete(self, *, public_access_token: str | None = None) -> TurnCursors:
        """Tell clients that the turn is over; what it has taken counts as worked off (N-83).

        Args:
            public_access_token: the access token that clients go on with; by default what the run's surroundings mint.

        Raises:
            ChatContextError: there is no run of a custom agent.
        """
        run = this_custom_run("chat.write_turn_complete")
        token = run.env.mint_token() if public_access_token is None else public_access_token
        return await complete_turn(run, token=token)

    async def pipe_and_capture(
        self,
        source: Any,
        *,
        abort_signal: AbortSignal | None = None,
        original_messages: Sequence[UIMessage] | None = None,
    ) -> PipeAndCaptureResult:
        """Send an answer and return it as a message; neither a stop nor a failing source makes this raise (N-84).

        Args:
            source: an object with `to_ui_message_stream`, or an async iterable of chunks.
            abort_signal: ends the piping; by default the turn's own.
            original_messages: the conversation, if the answer may go on with its last message.

        Raises:
            ChatContextError: there is no run.
            LeaseLostError: the run may write no more.
        """
        run = this_run("chat.pipe_and_capture")
        turn = open_turn(run)
        signal = abort_signal
        if turn is not None:
            turn.pipe_count += 1
            signal = signal or turn.signal
        result = await capture(run, source, [], abort_signal=signal, original_messages=original_messages)
        if turn is not None and run.options.is_custom:
            turn.response, turn.finish_reason = result.message, result.finish_reason
            turn.stream_error = result.stream_error
        return result

    async def wait_for_handover(
        self,
        *,
        payload: WirePayload,
        idle_timeout: float | None = None,
        timeout: Duration | None = None,  # noqa: ASYNC109 - on the run's clock
    ) -> HandoverSignal | None:
        """Wait for the end of a head start (N-86).

        Args:
            payload: the boot payload.
            idle_timeout: seconds to wait warm; by default what the payload says, else 60.
            timeout: how long to wait suspended behind that; by default not at all.

        Returns:
            The signal, which may be a skip; `None` if the run was booted in another way, no signal came in time, or it
            could not be read.

        Raises:
            ChatContextError: there is no run of a custom agent.
        """
        return await take_handover(payload, idle_timeout=idle_timeout, timeout=timeout)

    def create_session(
        self,
        payload: WirePayload,
        *,
        abort_signal: AbortSignal,
        idle_timeout: float = 30.0,
        timeout: Duration = "1h",
        max_turns: int = 100,
        compaction: CompactionOptions[Any] | None = None,
        pending_messages: PendingMessagesOptions[Any] | None = None,
    ) -> ChatSession:
        """Return the run's turns, for `async for` (N-87).

        Args:
            payload: the boot payload.
            abort_signal: ends the session; usually the run's own.
            idle_timeout: seconds to wait warm for a message; `chat.set_idle_timeout` overrides it.
            timeout: how long to wait suspended behind that; `chat.set_turn_timeout` overrides it.
            max_turns: turns after which the session ends.
            compaction: when to put a summary in the place of a conversation that has grown too long, and which.
            pending_messages: what becomes of messages that come while a turn is on; without it each is a turn of its
                own.

        Raises:
            ChatContextError: there is no run of a custom agent.
            InvalidArgumentError: `max_turns` is below 1, or a duration is none.
        """
        run = this_custom_run("chat.create_session")
        if max_turns < 1:
            raise InvalidArgumentError(argument="max_turns", value=max_turns, problem="a session has at least one turn")
        options = SessionOptions(
            abort_signal=abort_signal,
            idle_timeout=to_seconds(idle_timeout, argument="idle_timeout"),
            timeout=to_seconds(timeout, argument="timeout"),
            max_turns=max_turns,
            compaction=compaction,
            pending_messages=pending_messages,
        )
        return ChatSession(run, payload, options)
