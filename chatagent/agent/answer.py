"""The answer of a turn: asking `run` for it, streaming it, and committing it to the chain (rules T-30 to T-43)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent.capture import fetch_usage, pipe_captured, reduce_chunks
from chatagent.agent.cleanup import cleanup_aborted_parts
from chatagent.agent.events import PrepareMessagesEvent, RunEvent
from chatagent.agent.injected import insert_marks
from chatagent.agent.pipe import is_streamable
from chatagent.errors import AbortError, HookResultError
from chatagent.model import ModelMessage, ToolApprovalResponsePart, ToolMessage, add_usage, parse_model_messages
from chatagent.ui import UIMessage

if TYPE_CHECKING:
    from chatagent.agent.events import PrepareReason
    from chatagent.agent.inputs import MidTurnListener
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState

__all__ = [
    "ask_for_answer",
    "commit_answer",
    "model_messages_from_hook",
    "prepare_messages",
    "reduce_captured",
    "settle_answer",
    "stream_answer",
    "take_in_background",
]

logger = logging.getLogger("chatagent")


async def ask_for_answer(run: AgentRun, turn: TurnState, listener: MidTurnListener) -> None:
    """Call `run` with the prepared messages and stream what it returns."""
    conversation = turn.conversation
    try:
        await conversation.apply_override()
        take_in_background(run, turn)
        messages = await prepare_messages(run, turn, conversation.model)
        result = await run.call("run", run.agent.run, _run_event(run, turn, messages))
        if turn.pipe_count == 0 and is_streamable(result):
            await stream_answer(run, turn, result, original_messages=conversation.chain.to_list())
        elif turn.pipe_count:
            turn.usage = await fetch_usage(run, result)
        else:
            _tell_of_no_answer(run, turn, result)
    except AbortError:
        if run.cancelled:
            raise
    finally:
        listener.off()


def _tell_of_no_answer(run: AgentRun, turn: TurnState, result: object) -> None:
    """Log that a turn gives no answer, unless it was meant to: a forgotten `return` looks like an empty answer."""
    way_out = "return what stream_text gave, or send chunks of your own with `await chat.pipe(…)`"
    if result is not None:
        told = "`run` of agent %r returned %r, which is no stream and was ignored; %s"
        logger.warning(told, run.agent.id, result, way_out)
    elif run.out.is_silent and not turn.signal.aborted and not run.state.end_run_requested:
        logger.warning("`run` of agent %r returned nothing, and the turn has sent nothing; %s", run.agent.id, way_out)


def take_in_background(run: AgentRun, turn: TurnState) -> None:
    """Put what `chat.inject` queued behind the conversation, unless that hid a pending approval (T-30)."""
    state, model = run.state, turn.conversation.model
    if state.background and not (model and model[-1].role == "tool"):
        model += state.background
        state.background = []


async def prepare_messages(
    run: AgentRun, turn: TurnState, messages: Sequence[ModelMessage], *, reason: PrepareReason = "run"
) -> list[ModelMessage]:
    """Let `prepare_messages` have its say; a pending approval stays at the end whatever it does (T-32, M-12).

    Raises:
        HookResultError: the hook returned no list.
    """
    fn = run.agent.hook("prepare_messages")
    if fn is None:
        return list(messages)
    event = PrepareMessagesEvent(
        messages=list(messages), reason=reason, chat_id=run.chat_id, turn=turn.number, client_data=turn.client_data
    )
    prepared = model_messages_from_hook("prepare_messages", await run.call("prepare_messages", fn, event))
    return _keep_approval_tail(messages, prepared)


def model_messages_from_hook(hook: str, result: object) -> list[ModelMessage]:
    """Return the model messages that user code returned, wire forms made into messages.

    Raises:
        HookResultError: it returned no list.
        InvalidPromptError: one of them is no model message.
    """
    if not isinstance(result, Sequence) or isinstance(result, str):
        raise HookResultError(hook=hook, expected="a list of model messages", value=result)
    return parse_model_messages(cast("Sequence[Any]", result))


def _keep_approval_tail(before: Sequence[ModelMessage], prepared: list[ModelMessage]) -> list[ModelMessage]:
    if not before or not _answers_approvals(before[-1]):
        return prepared
    tail = before[-1]
    if prepared and prepared[-1] is tail:
        return prepared
    kept = [message for message in prepared if message is not tail]
    while kept and _answers_approvals(kept[-1]):
        kept.pop()
    return [*kept, tail]


def _answers_approvals(message: ModelMessage) -> bool:
    return isinstance(message, ToolMessage) and any(
        isinstance(part, ToolApprovalResponsePart) for part in message.content
    )


def _run_event(run: AgentRun, turn: TurnState, messages: list[ModelMessage]) -> RunEvent[Any]:
    payload, state = turn.incoming.payload, run.state
    return RunEvent(
        chat_id=run.chat_id,
        trigger=payload.trigger or "submit-message",
        messages=messages,
        client_data=turn.client_data,
        continuation=run.continuation,
        preloaded=run.preloaded,
        total_usage=state.total_usage,
        ctx=run.env.context,
        tools=dict(turn.tools),
        signal=turn.signal,
        cancel_signal=run.cancel_signal,
        stop_signal=turn.stop.signal,
        previous_run_id=run.previous_run_id,
        previous_turn_usage=state.previous_turn_usage,
        message_id=payload.message_id,
        action=payload.action,
        idle_timeout_in_seconds=payload.idle_timeout_in_seconds,
        session_id=payload.session_id,
        client_run_id=payload.client_run_id,
    )


async def stream_answer(
    run: AgentRun, turn: TurnState, source: Any, *, original_messages: Sequence[UIMessage] | None
) -> None:
    """Pipe the answer to the client, keep its chunks, and take what `on_end` says of it (T-34, T-36, T-37)."""

    def on_end(event: Any) -> None:
        turn.response, turn.finish_reason = event.response_message, event.finish_reason
        turn.note_stream_end(event)

    await pipe_captured(
        run, source, turn.captured, on_end=on_end, abort_signal=turn.signal, original_messages=original_messages
    )
    turn.usage = await fetch_usage(run, source)


async def settle_answer(run: AgentRun, turn: TurnState) -> None:
    """Count the usage, take what history became meanwhile, and see whether the turn was stopped (T-37 to T-40)."""
    if turn.usage is not None:
        run.state.total_usage = add_usage(run.state.total_usage, turn.usage)
        run.state.previous_turn_usage = turn.usage
    await turn.conversation.apply_override()
    turn.stopped = turn.stop.signal.aborted and not run.cancelled
    if turn.response is None and turn.stopped and turn.captured:
        turn.response = reduce_captured(turn)


async def commit_answer(run: AgentRun, turn: TurnState) -> None:
    """Make the answer part of the chain, behind the messages that steered it (T-41 to T-43, G-62)."""
    turn.raw_response = turn.response
    injections, injected = turn.steering.take_injections()
    if turn.response is not None:
        answer = cleanup_aborted_parts(turn.response) if turn.stopped else turn.response
        answer = insert_marks(answer, injections, turn.steps_begun)
        if not answer.id:
            answer = answer.model_copy(update={"id": run.env.new_id()})
        turn.response = _with_parts(answer, turn)
        await _put_into_chain(run, turn, injected, turn.response)
    else:
        await _put_in_without_answer(run, turn, injected)
    if turn.response is not None:
        turn.response_committed = True
        turn.captured = []


def _with_parts(answer: UIMessage, turn: TurnState) -> UIMessage:
    if not turn.response_parts:
        return answer
    parts, turn.response_parts = (*answer.parts, *turn.response_parts), []
    return answer.model_copy(update={"parts": parts})


async def _put_into_chain(run: AgentRun, turn: TurnState, injected: Sequence[UIMessage], answer: UIMessage) -> None:
    """Put the answer at the place of its id, or at the end; a failing conversion skips only the model's side (F-86)."""
    new = [*injected, answer]
    run.state.tool_calls.record(answer)
    turn.add_new(new, await turn.conversation.take_in(new, keep_model=turn.compaction is not None))


async def _put_in_without_answer(run: AgentRun, turn: TurnState, injected: Sequence[UIMessage]) -> None:
    """Put in what a turn has brought whose answer was not captured: injected messages, and parts that code wrote."""
    conversation = turn.conversation
    if injected:
        turn.add_new(injected, await conversation.take_in(injected, keep_model=turn.compaction is not None))
    if turn.response_parts:
        turn.response = UIMessage(id=run.env.new_id(), role="assistant", parts=tuple(turn.response_parts))
        turn.response_parts = []
        conversation.chain = conversation.chain.append(turn.response)
        turn.add_new([turn.response], ())


def reduce_captured(turn: TurnState) -> UIMessage | None:
    """Return the message that the captured chunks make, or `None` if they make none (E-5)."""
    return reduce_chunks(turn.captured, turn.conversation.chain.last)
