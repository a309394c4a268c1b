"""Head start: another process has run the first model step, and hands it over to the run that waits (1.13).

The run waits for the signal, then plays turn 0 with what it was given: the whole answer, or the first step of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent.wire import Incoming, input_of, is_handover, record_kind
from chatagent.errors import InvalidMessageError, InvalidPromptError
from chatagent.model import AssistantMessage, ModelMessage, ReasoningPart, TextPart, ToolCallPart, parse_model_message
from chatagent.ui import ReasoningUIPart, TextUIPart, ToolUIPart, UIMessage, UIPart

if TYPE_CHECKING:
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState
    from chatagent.session.records import Record

__all__ = ["Handover", "splice_handover", "take_final_handover", "wait_for_handover"]

DEFAULT_HANDOVER_TIMEOUT = 60.0
"""Seconds that a run waits for the signal, if neither agent nor payload say otherwise (G-39)."""


@dataclass(frozen=True, slots=True)
class Handover:
    """What was handed over."""

    messages: Sequence[ModelMessage]
    """The first step, as model messages; with open tool calls the last one approves them."""
    message_id: str | None
    is_final: bool
    """Whether it is the whole answer."""


async def wait_for_handover(run: AgentRun) -> Incoming | None:
    """Wait for the signal (C-91); returns the payload of turn 0, `None` if the run has nothing to do."""
    run.env.observer.waiting(suspended=False)
    result = await run.in_.once(_timeout(run), matches=is_handover, label="the handover signal")
    record = result.output
    if record is None:
        return None
    if record_kind(record) == "handover-skip":
        run.in_.progress.done(record.seq)
        return None
    payload = run.env.payload.without_one_shot_fields(trigger="submit-message")
    try:
        run.state.handover = _parse(record, run)
    except (InvalidMessageError, InvalidPromptError) as exc:
        return Incoming(payload, record.seq, exc)
    return Incoming(payload, record.seq)


def _timeout(run: AgentRun) -> float:
    given = (run.options.idle_timeout, run.env.payload.idle_timeout_in_seconds)
    return next((seconds for seconds in given if seconds is not None), DEFAULT_HANDOVER_TIMEOUT)


def _parse(record: Record, run: AgentRun) -> Handover:
    data = input_of(record)
    partial = data.get("partialAssistantMessage")
    if not isinstance(partial, Sequence) or isinstance(partial, str):
        problem = "a handover carries a list of model messages"
        raise InvalidMessageError(field="partialAssistantMessage", value=partial, problem=problem)
    messages = [
        parse_model_message(cast("Any", each))
        for each in cast("Sequence[Any]", partial)
        if isinstance(each, Mapping) and "role" in each
    ]
    return Handover(messages, data.get("messageId"), data.get("isFinal") is True)


def splice_handover(run: AgentRun) -> None:
    """Put what was handed over behind the conversation, unless the history has it already (C-92)."""
    handover = run.state.handover
    conversation = run.state.conversation
    if handover is None or (handover.message_id and conversation.chain.find(handover.message_id) is not None):
        return
    message = _ui_message(handover, run)
    if message is not None:
        conversation.chain = conversation.chain.append(message)
        run.state.tool_calls.record(message)
    conversation.model += handover.messages


def take_final_handover(run: AgentRun, turn: TurnState) -> bool:
    """Make a whole answer that was handed over the turn's own; returns whether there was one (C-94)."""
    handover, run.state.handover = run.state.handover, None
    if handover is None or not handover.is_final:
        return False
    last = run.state.conversation.chain.last
    if last is not None and last.role == "assistant":
        turn.response, turn.finish_reason = last, "stop"
    return True


def _ui_message(handover: Handover, run: AgentRun) -> UIMessage | None:
    """Return the UI message that the first assistant message stands for; none for one without parts (C-93)."""
    assistant = next((each for each in handover.messages if isinstance(each, AssistantMessage)), None)
    if assistant is None or isinstance(assistant.content, str):
        return None
    parts = [part for part in map(_ui_part, assistant.content) if part is not None]
    return UIMessage(id=handover.message_id or run.env.new_id(), role="assistant", parts=parts) if parts else None


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
