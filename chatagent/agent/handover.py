"""Head start: another process has run the first model step, and hands it over to the run that waits (1.13).

The run waits for the signal, then plays turn 0 with what it was given: the whole answer, or the first step of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

from chatagent.agent.wire import Incoming, input_of, is_handover, record_kind
from chatagent.agent.work import WaitWork
from chatagent.errors import InvalidMessageError, InvalidPromptError
from chatagent.model import AssistantMessage, ModelMessage, ReasoningPart, TextPart, ToolCallPart, parse_model_message
from chatagent.ui import ReasoningUIPart, TextUIPart, ToolUIPart, UIMessage, UIPart

if TYPE_CHECKING:
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import Conversation, TurnState
    from chatagent.agent.wire import WirePayload
    from chatagent.ids import IdGenerator
    from chatagent.session.records import Record

__all__ = [
    "HandoverSignal",
    "handed_over",
    "keep_handover",
    "receive_handover",
    "seed_head_start",
    "splice",
    "splice_handover",
    "take_final_handover",
    "wait_for_handover",
]

DEFAULT_HANDOVER_TIMEOUT = 60.0
"""Seconds that a run waits for the signal, if neither agent nor payload say otherwise (G-39)."""


@dataclass(frozen=True, slots=True)
class HandoverSignal:
    """How a head start has ended: what was handed over, or that there is nothing."""

    messages: Sequence[ModelMessage]
    """The first step, as model messages; with open tool calls the last one approves them."""
    message_id: str | None
    is_final: bool
    """Whether it is the whole answer."""
    kind: Literal["handover", "handover-skip"] = "handover"
    """`handover-skip`: the head start gave up."""


async def wait_for_handover(run: AgentRun) -> Incoming | None:
    """Wait for the signal (C-91); returns the payload of turn 0, `None` if the run has nothing to do."""
    incoming, run.state.handover = await receive_handover(run, run.env.payload, idle_timeout=run.options.idle_timeout)
    return incoming


async def receive_handover(
    run: AgentRun,
    payload: WirePayload,
    *,
    idle_timeout: float | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - on the run's clock
) -> tuple[Incoming | None, HandoverSignal | None]:
    """Wait for the signal.

    Args:
        run: who waits.
        payload: the payload that the run was booted with.
        idle_timeout: seconds to wait warm; by default what the payload says, else 60 (G-39).
        timeout: seconds to wait suspended behind that; by default the wait ends with the idle time.

    Returns:
        The payload that a handover makes of the boot's, and the signal. A skip makes none, no signal in time gives
        neither, and a handover that cannot be read gives a payload that fails.
    """
    given = (idle_timeout, payload.idle_timeout_in_seconds)
    idle = next((seconds for seconds in given if seconds is not None), DEFAULT_HANDOVER_TIMEOUT)
    with run.observer.during(WaitWork(waits_for="handover signal")):
        run.observer.waiting(suspended=False)
        if timeout is None:
            result = await run.in_.once(idle, matches=is_handover, label="the handover signal")
        else:
            result = await run.in_.wait_with_idle_timeout(idle, timeout, matches=is_handover)
    record = result.output
    if record is None:
        return None, None
    if record_kind(record) == "handover-skip":
        run.in_.progress.done(record.seq)
        return None, HandoverSignal((), None, is_final=False, kind="handover-skip")
    payload = payload.without_one_shot_fields(trigger="submit-message")
    try:
        return Incoming(payload, record.seq), _parse(record)
    except (InvalidMessageError, InvalidPromptError) as exc:
        return Incoming(payload, record.seq, exc), None


def _parse(record: Record) -> HandoverSignal:
    data = input_of(record)
    partial = data.get("partialAssistantMessage")
    if not isinstance(partial, Sequence) or isinstance(partial, str):
        problem = "a handover carries a list of model messages"
        raise InvalidMessageError(field="partialAssistantMessage", value=partial, problem=problem)
    message_id = data.get("messageId")
    if message_id is not None and not isinstance(message_id, str):
        raise InvalidMessageError(field="messageId", value=message_id, problem="an id is a string")
    messages = [
        parse_model_message(cast("Any", each))
        for each in cast("Sequence[Any]", partial)
        if isinstance(each, Mapping) and "role" in each
    ]
    return HandoverSignal(messages, message_id, data.get("isFinal") is True)


async def seed_head_start(conversation: Conversation, payload: WirePayload) -> None:
    """Begin an empty chain with the history that a head start brings (B-5)."""
    if payload.trigger == "handover-prepare" and payload.head_start_messages and not conversation.chain:
        await conversation.set_chain(payload.head_start_messages)


def splice_handover(run: AgentRun) -> None:
    """Put what was handed over behind the conversation, unless the history has it already (C-92)."""
    handover = run.state.handover
    if handover is None:
        return
    message = splice(run.state.conversation, handover, run.env.new_id)
    if message is not None:
        run.state.handover = replace(handover, message_id=message.id)
        run.state.tool_calls.record(message)


def keep_handover(run: AgentRun) -> None:
    """Keep what was handed over for a turn that has failed: clients have seen it, and no later turn is its own."""
    splice_handover(run)
    run.state.handover = None


def splice(conversation: Conversation, handover: HandoverSignal, new_id: IdGenerator) -> UIMessage | None:
    """Put what was handed over behind a conversation; returns the message that it makes, if it makes one (C-92)."""
    if handover.message_id and conversation.chain.find(handover.message_id) is not None:
        return None
    message = _ui_message(handover, new_id)
    if message is not None:
        conversation.chain = conversation.chain.append(message)
    conversation.model += handover.messages
    return message


def take_final_handover(run: AgentRun, turn: TurnState) -> bool:
    """Make a whole answer that was handed over the turn's own; returns whether there was one (C-94)."""
    handover, run.state.handover = run.state.handover, None
    if handover is None or not handover.is_final:
        return False
    last = run.state.conversation.chain.last
    if last is not None and last.role == "assistant":
        turn.response, turn.finish_reason = last, "stop"
    return True


def handed_over(record: Record, message_id: str) -> UIMessage | None:
    """Return the message that a handover of an earlier run has begun, under the id that the run gave it."""
    return (
        None
        if record_kind(record) == "handover-skip"
        else _ui_message(replace(_parse(record), message_id=message_id), str)
    )


def _ui_message(handover: HandoverSignal, new_id: IdGenerator) -> UIMessage | None:
    """Return the UI message that the first assistant message stands for; none for one without parts (C-93)."""
    assistant = next((each for each in handover.messages if isinstance(each, AssistantMessage)), None)
    if assistant is None or isinstance(assistant.content, str):
        return None
    parts = [part for part in map(_ui_part, assistant.content) if part is not None]
    return UIMessage(id=handover.message_id or new_id(), role="assistant", parts=parts) if parts else None


def _ui_part(part: object) -> UIPart | None:
    if isinstance(part, TextPart):
        return TextUIPart(text=part.text)
    if isinstance(part, ReasoningPart):
        fields: dict[str, Any] = {"text": part.text, "state": "done"}
        if part.provider_options is not None:
            fields["provider_metadata"] = part.provider_options
        return ReasoningUIPart.model_validate(fields)
    if isinstance(part, ToolCallPart):
        return ToolUIPart(
            type=f"tool-{part.tool_name}", tool_call_id=part.tool_call_id, state="input-available", input=part.input
        )
    return None
