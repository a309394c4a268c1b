"""Compaction: a summary takes the place of a conversation that has grown too long for the model (N-42 to N-46).

*Inner*, between two steps of a turn: the next step is asked with the summary alone. *Outer*, behind a turn: the next
turn begins with it. Either way the history that clients see stays whole, unless the agent says otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent.accumulate import ui_messages_from_hook
from chatagent.agent.answer import model_messages_from_hook, prepare_messages
from chatagent.agent.chain import MessageChain
from chatagent.agent.compaction_options import (
    CompactionSource,
    CompactionState,
    CompactMessagesEvent,
    CompactResult,
    ShouldCompactEvent,
    SummarizeEvent,
)
from chatagent.agent.events import CompactedEvent
from chatagent.agent.work import CompactionWork
from chatagent.errors import HookResultError, InvalidArgumentError, LeaseLostError, OutOfMemoryError
from chatagent.model import AssistantMessage, ModelMessage, TextPart, UserMessage
from chatagent.ui import DataChunk, FinishStep, UnknownChunk, to_wire

if TYPE_CHECKING:
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState
    from chatagent.agent.writer import ChunkWriter
    from chatagent.generate import StepResult
    from chatagent.model import LanguageModelUsage
    from chatagent.ui import UIMessage

__all__ = [
    "CompactionPlan",
    "InnerCompaction",
    "apply_inner",
    "compact",
    "compact_after_turn",
    "compaction_plan",
    "is_compaction_safe",
]

logger = logging.getLogger("chatagent")

_OPEN = ("partial-call", "input-streaming", "input-available", "approval-requested")
_STATES = (*_OPEN, "approval-responded", "output-available", "output-error", "output-denied")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """When to compact within a turn, and how."""

    summarize: Callable[[SummarizeEvent[Any]], Any]
    should_compact: Callable[[ShouldCompactEvent[Any]], Any] | None = None
    threshold: int | None = None
    """Without `should_compact`: compact if the last step took more tokens than this."""


def compaction_plan(
    summarize: Callable[[SummarizeEvent[Any]], Any],
    threshold: int | None,
    should_compact: Callable[[ShouldCompactEvent[Any]], Any] | None,
) -> CompactionPlan:
    """Return the plan that a caller of `chat.compact` has.

    Raises:
        InvalidArgumentError: nothing says when to compact.
    """
    if threshold is None and should_compact is None:
        problem = "without it, `should_compact` must say when to compact"
        raise InvalidArgumentError(argument="threshold", value=threshold, problem=problem)
    return CompactionPlan(summarize=summarize, threshold=threshold, should_compact=should_compact)


@dataclass(slots=True)
class InnerCompaction:
    """What a turn was compacted to, and what was given to the model since."""

    state: CompactionState
    first_step: StepResult
    """Tells the call that was compacted from another one of the same turn."""
    additions: list[tuple[int, Sequence[ModelMessage]]] = field(
        default_factory=list[tuple[int, "Sequence[ModelMessage]"]]
    )
    """Messages that were put between steps, each with the number of messages that the steps had added by then."""

    def add(self, steps: Sequence[StepResult], messages: Sequence[ModelMessage]) -> None:
        """Take it that messages were put behind these steps."""
        if messages and self.is_of(steps):
            self.additions.append((len(_responses(steps)), list(messages)))

    def is_of(self, steps: Sequence[StepResult]) -> bool:
        """Return whether these are steps of the call that was compacted."""
        return bool(steps) and steps[0] is self.first_step

    def rebuilt(self, steps: Sequence[StepResult]) -> list[ModelMessage]:
        """Return the summary, and what steps and steering have added since."""
        responses, position = _responses(steps), self.state.base_response_message_count
        messages: list[ModelMessage] = [UserMessage(self.state.summary)]
        for at, added in self.additions:
            messages += [*responses[position:at], *added]
            position = at
        return messages + responses[position:]


def _responses(steps: Sequence[StepResult]) -> list[ModelMessage]:
    return [message for step in steps for message in step.response.messages]


# Within a turn ----------------------------------------------------------------------------------------------------


async def compact(
    run: AgentRun, turn: TurnState, messages: Sequence[ModelMessage], steps: Sequence[StepResult], plan: CompactionPlan
) -> CompactResult:
    """Compact between two steps, if it is time and the last step left no call unanswered (N-42).

    Raises:
        HookResultError: `summarize` returned no text, or `prepare_messages` no list.
        Exception: what one of the callbacks raised; nothing is compacted then.
    """
    if not steps or not is_step_safe(steps[-1]):
        return CompactResult("skipped")
    done = turn.compaction
    if done is not None and done.is_of(steps):
        return CompactResult(
            "rebuilt", await prepare_messages(run, turn, done.rebuilt(steps), reason="compaction-rebuild")
        )
    if not await _is_time(run, turn, messages, steps, plan):
        return CompactResult("skipped")
    with run.observer.during(CompactionWork(source="inner")):
        summary = await _compact_now(run, turn, messages, steps, plan)
    prepared = await prepare_messages(run, turn, [UserMessage(summary)], reason="compaction-result")
    return CompactResult("compacted", prepared, summary)


def is_step_safe(step: StepResult) -> bool:
    """Return whether a step ended well and all its tool calls were answered."""
    answered = {part.tool_call_id for part in (*step.tool_results, *step.tool_errors)}
    return step.finish_reason != "error" and all(call.tool_call_id in answered for call in step.tool_calls)


async def _is_time(
    run: AgentRun, turn: TurnState, messages: Sequence[ModelMessage], steps: Sequence[StepResult], plan: CompactionPlan
) -> bool:
    usage = steps[-1].usage
    if plan.should_compact is None:
        return usage.total_tokens is not None and plan.threshold is not None and usage.total_tokens > plan.threshold
    of_step = {"step_number": len(steps) - 1, "steps": list(steps)}
    return await _should_compact(run, turn, plan.should_compact, messages, usage, "inner", **of_step)


async def _compact_now(
    run: AgentRun, turn: TurnState, messages: Sequence[ModelMessage], steps: Sequence[StepResult], plan: CompactionPlan
) -> str:
    """Summarise, and tell client and hook; the chunks look like a step of their own, so that nothing mixes with it."""
    usage, number = steps[-1].usage, len(steps) - 1
    run.out.write(UnknownChunk(type="step-start"))
    tell = _teller(run, usage)
    tell("compacting")
    summary = await _summary(run, turn, plan.summarize, messages, usage, "inner", step_number=number)
    turn.compaction = InnerCompaction(CompactionState(summary, len(_responses(steps))), steps[0])
    if await _tell_compacted(run, turn, summary, messages, usage, step_number=number):
        tell("complete")
        run.out.write(FinishStep())
    return summary


async def apply_inner(run: AgentRun, turn: TurnState) -> None:
    """Make what the turn was compacted to the base of its answer (T-39, N-43)."""
    if turn.compaction is not None and not run.cancelled:
        await _replace_lists(run, turn, turn.compaction.state.summary, "inner")


# Behind a turn ----------------------------------------------------------------------------------------------------


async def compact_after_turn(run: AgentRun, turn: TurnState) -> bool:
    """Compact behind a turn whose usage is known, unless it was stopped or compacted already (T-46, N-44).

    Returns:
        Whether it was compacted now.
    """
    options, usage = turn.compaction_options, turn.usage
    if options is None or usage is None or turn.stopped or turn.compaction is not None:
        return False
    conversation = turn.conversation
    before = list(conversation.model)
    if not await _should_compact(run, turn, options["should_compact"], before, usage, "outer"):
        return False
    with run.observer.during(CompactionWork(source="outer")):
        tell = _teller(run, usage)
        tell("compacting")
        summary = await _summary(run, turn, options["summarize"], before, usage, "outer")
        await _replace_lists(run, turn, summary, "outer")
        if await _tell_compacted(run, turn, summary, conversation.model, usage, step_number=-1):
            tell("complete")
    return True


# What both share --------------------------------------------------------------------------------------------------


async def _should_compact(
    run: AgentRun,
    turn: TurnState,
    fn: Callable[[ShouldCompactEvent[Any]], Any],
    messages: Sequence[ModelMessage],
    usage: LanguageModelUsage,
    source: CompactionSource,
    **of_step: Any,
) -> bool:
    event = ShouldCompactEvent(
        messages=list(messages),
        total_tokens=usage.total_tokens,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        usage=usage,
        total_usage=run.state.total_usage,
        chat_id=run.chat_id,
        turn=turn.number,
        client_data=turn.client_data,
        source=source,
        **of_step,
    )
    return bool(await run.call("should_compact", fn, event))


async def _summary(
    run: AgentRun,
    turn: TurnState,
    fn: Callable[[SummarizeEvent[Any]], Any],
    messages: Sequence[ModelMessage],
    usage: LanguageModelUsage,
    source: CompactionSource,
    *,
    step_number: int | None = None,
) -> str:
    event = SummarizeEvent(
        messages=list(messages),
        usage=usage,
        total_usage=run.state.total_usage,
        chat_id=run.chat_id,
        turn=turn.number,
        client_data=turn.client_data,
        source=source,
        step_number=step_number,
    )
    summary = await run.call("summarize", fn, event)
    if not isinstance(summary, str):
        raise HookResultError(hook="summarize", expected="a text", value=summary)
    return summary


def _teller(run: AgentRun, usage: LanguageModelUsage) -> Callable[[str], None]:
    """Return what tells the client how far the compaction is; nothing of it is stored."""
    chunk_id = run.env.new_id()
    tokens = {} if usage.total_tokens is None else {"totalTokens": usage.total_tokens}

    def tell(status: str) -> None:
        data = {"status": status, **tokens}
        run.out.write(DataChunk(type="data-compaction", id=chunk_id, data=data, transient=True))

    return tell


async def _tell_compacted(
    run: AgentRun,
    turn: TurnState,
    summary: str,
    messages: Sequence[ModelMessage],
    usage: LanguageModelUsage,
    *,
    step_number: int,
) -> bool:
    """Call `on_compacted`; returns whether it went well. Its failure is logged, for the compaction stands by then."""

    def make_event(writer: ChunkWriter) -> CompactedEvent:
        return CompactedEvent(
            ctx=run.env.context,
            summary=summary,
            messages=list(messages),
            message_count=len(messages),
            usage=usage,
            total_tokens=usage.total_tokens,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            step_number=step_number,
            chat_id=run.chat_id,
            turn=turn.number,
            writer=writer,
        )

    try:
        await run.writing_hook("on_compacted", make_event, joins_answer=False)
    except (OutOfMemoryError, LeaseLostError):
        raise
    except Exception:  # the user's hook
        logger.exception("`on_compacted` of agent %r failed", run.agent.id)
        return False
    return True


async def _replace_lists(run: AgentRun, turn: TurnState, summary: str, source: CompactionSource) -> None:
    """Replace the model list by the summary, or by what the agent makes of it; the chain only if the agent says so."""
    options, conversation = turn.compaction_options or {}, turn.conversation
    event = CompactMessagesEvent(
        summary=summary,
        ui_messages=conversation.chain.to_list(),
        model_messages=list(conversation.model),
        chat_id=run.chat_id,
        turn=turn.number,
        client_data=turn.client_data,
        source=source,
    )
    model: list[ModelMessage] = [AssistantMessage((TextPart(f"[Conversation summary]\n\n{summary}"),))]
    chain = None
    name = "compact_model_messages"
    if name in options:
        model = model_messages_from_hook(name, await run.call(name, options[name], event))
    name = "compact_ui_messages"
    if name in options:
        chain = ui_messages_from_hook(run, name, await run.call(name, options[name], event))
    conversation.model = model
    if chain is not None:
        conversation.chain = MessageChain(chain)


# For user code ----------------------------------------------------------------------------------------------------


def is_compaction_safe(messages: Sequence[UIMessage | Mapping[str, Any]]) -> bool:
    """Return whether no tool call of these messages waits for its answer (N-46).

    A history that is cut while a call is open loses either the call or its answer.

    Args:
        messages: UI messages, or their wire form; the tool parts of older clients (`tool-invocation`) are known too.
    """
    return not any(_is_open(part) for message in messages for part in _assistant_parts(message))


def _assistant_parts(message: UIMessage | Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    wire = message if isinstance(message, Mapping) else to_wire(message)
    return cast("Sequence[Mapping[str, Any]]", wire["parts"]) if wire["role"] == "assistant" else ()


def _is_open(part: Mapping[str, Any]) -> bool:
    kind, state = part["type"], part.get("state")
    if kind == "tool-invocation" and state not in _STATES:
        return part.get("toolInvocation", part).get("state", state) not in ("result", "error")
    if not kind.startswith("tool-") and kind != "dynamic-tool":
        return False
    is_approved = state == "approval-responded" and part.get("approval", {}).get("approved") is not False
    return is_approved or state in _OPEN
