"""What becomes of an answer that a crash cut off, and of the messages that nobody answered (rules R-1 to R-9)."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatagent.agent.accumulate import ui_messages_from_hook
from chatagent.agent.events import PendingToolCall, RecoveryBootEvent, RecoveryResult
from chatagent.agent.injected import marked_ids
from chatagent.agent.merge import merge_by_id_replace_wins, tool_parts
from chatagent.agent.wire import Incoming, WirePayload
from chatagent.errors import HookResultError, LeaseLostError, OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chatagent.agent.past import Past
    from chatagent.agent.run import AgentRun
    from chatagent.agent.writer import ChunkWriter
    from chatagent.ui import UIMessage

__all__ = ["Recovery", "decide_recovery", "pending_tool_calls", "synthetic_payloads"]

logger = logging.getLogger("chatagent")


@dataclass(frozen=True, slots=True)
class Recovery:
    """What the boot goes on with."""

    chain: Sequence[UIMessage]
    turns: Sequence[UIMessage]
    before_boot: Callable[[], Any] | None = None
    is_overridden: bool = False
    """Whether `on_recovery_boot` has said so."""


def smart_default(past: Past, retried: UIMessage | None = None) -> Recovery:
    """Return what happens without a hook (R-3).

    Args:
        past: what was read.
        retried: the message that this run was booted with, and will answer first (R-7).
    """
    question = past.question
    if retried is not None and past.partial_of is None and all(user.id != retried.id for user in past.users):
        question = None  # what was cut off answered that message, which stands on no log
    if past.partial is None or question is None:
        return Recovery(past.settled, past.users)
    # What was injected into the cut-off answer has reached the model: it belongs to that answer (G-62).
    injected = marked_ids(past.partial)
    others = [user for user in past.users if user is not question]
    asked = [user for user in others if user.id in injected]
    chain = merge_by_id_replace_wins(past.settled, [question, *asked, past.partial])
    return Recovery(chain, [user for user in others if user.id not in injected])


async def decide_recovery(run: AgentRun, past: Past) -> Recovery:
    """Ask `on_recovery_boot`, if there is one and something was cut off; else the default (R-2, R-4, G-34)."""
    default = smart_default(past, run.env.payload.message)
    if past.partial_raw is None or not run.agent.has("on_recovery_boot"):
        return default
    try:
        result = await run.writing_hook("on_recovery_boot", lambda writer: _event(run, past, writer))
        return _with_result(run, default, result)
    except (LeaseLostError, OutOfMemoryError):
        raise
    except Exception:  # the user's hook
        logger.exception("`on_recovery_boot` of agent %r failed; the defaults hold", run.agent.id)
        return default


def _with_result(run: AgentRun, default: Recovery, result: Any) -> Recovery:
    if result is None:
        return default
    if not isinstance(result, RecoveryResult):
        raise HookResultError(hook="on_recovery_boot", expected="a RecoveryResult or nothing", value=result)
    chain, turns = default.chain, default.turns
    if result.chain is not None:
        chain = ui_messages_from_hook(run, "on_recovery_boot", result.chain)
    if result.recovered_turns is not None:
        turns = ui_messages_from_hook(run, "on_recovery_boot", result.recovered_turns)
    is_overridden = result.chain is not None or result.recovered_turns is not None
    return Recovery(chain, turns, result.before_boot, is_overridden)


def _event(run: AgentRun, past: Past, writer: ChunkWriter) -> RecoveryBootEvent:
    return RecoveryBootEvent(
        ctx=run.env.context,
        chat_id=run.chat_id,
        run_id=run.run_id,
        previous_run_id=run.previous_run_id or "",
        cause="unknown",
        settled_messages=list(past.settled),
        in_flight_users=past.users,
        partial_assistant=past.partial,
        pending_tool_calls=pending_tool_calls(past.partial_raw),
        writer=writer,
    )


def pending_tool_calls(raw: UIMessage | None) -> list[PendingToolCall]:
    """Return the calls of a cut-off answer that have an input and no result (R-9)."""
    if raw is None:
        return []
    positions = {id(part): position for position, part in enumerate(raw.parts)}
    return [
        PendingToolCall(
            tool_call_id=part.tool_call_id,
            tool_name=part.tool_name,
            input=part.input,
            part_index=positions[id(part)],
        )
        for part in tool_parts(raw)
        if part.state == "input-available" and part.tool_call_id
    ]


async def call_before_boot(before_boot: Callable[[], Any]) -> None:
    """Call what a recovery hook wants done before the first turn; its failure ends the run."""
    result = before_boot()
    if inspect.isawaitable(result):
        await result


def synthetic_payloads(run: AgentRun, past: Past, turns: Sequence[UIMessage]) -> list[Incoming]:
    """Return the payloads that dispatch recovered messages (R-6, R-7)."""
    boot = run.env.payload
    records = {each.message.id: each for each in past.in_flight}
    own_id = boot.message.id if boot.message is not None else None
    dispatched: list[Incoming] = []
    for message in turns:
        record = records.get(message.id)
        if message.id == own_id:
            continue
        payload = WirePayload(
            chat_id=boot.chat_id,
            session_id=boot.session_id,
            trigger="submit-message",
            message=message,
            message_id=message.id,
            continuation=boot.continuation,
            previous_run_id=boot.previous_run_id,
            metadata=boot.metadata if record is None else record.metadata,
        )
        dispatched.append(Incoming(payload, None if record is None else record.seq))
    return dispatched
