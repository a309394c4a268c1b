"""Completing a turn: deferred work, the two completion hooks, the turn-complete record, the snapshot (T-45 to T-52)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from chatagent.agent.cleanup import cleanup_aborted_parts
from chatagent.agent.compaction import compact_after_turn
from chatagent.agent.events import BeforeTurnCompleteEvent, TurnCompleteEvent
from chatagent.agent.work import SnapshotWork
from chatagent.errors import LeaseLostError, OutOfMemoryError
from chatagent.session.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState
    from chatagent.agent.writer import ChunkWriter
    from chatagent.model import ModelMessage
    from chatagent.ui import UIMessage

__all__ = ["complete_event", "complete_turn", "failed_turn_event", "save_snapshot", "write_turn_complete"]

logger = logging.getLogger("chatagent")

DEFER_LIMIT = 5.0
"""Seconds that deferred work has before the turn goes on without it (T-45)."""


async def complete_turn(run: AgentRun, turn: TurnState) -> None:
    """Bring a turn whose answer is committed to its end."""
    await run.settle_tasks(turn.deferred, limit=DEFER_LIMIT)
    await compact_after_turn(run, turn)
    conversation = run.state.conversation
    await run.writing_hook("on_before_turn_complete", lambda writer: _before_event(run, turn, writer))
    await conversation.apply_override()
    _fold_in_late_parts(run, turn)
    turn.out_seq = await write_turn_complete(run, turn, token=turn.access_token)
    try:
        await run.hook("on_turn_complete", lambda: complete_event(run, turn))
    except (LeaseLostError, OutOfMemoryError):
        raise
    except Exception as exc:
        if not run.env.strict:
            raise
        await _tell_of_failed_hook(run, turn, exc)
    await conversation.apply_override()
    await save_snapshot(run, turn.out_seq)


async def _tell_of_failed_hook(run: AgentRun, turn: TurnState, exc: Exception) -> None:
    """Call `on_turn_complete` once more with its own failure: the client's turn is closed already (G-28)."""
    logger.exception("`on_turn_complete` of agent %r failed", run.agent.id, exc_info=exc)
    turn.error = exc
    try:
        await run.hook("on_turn_complete", lambda: failed_turn_event(run, turn, exc))
    except (LeaseLostError, OutOfMemoryError):
        raise
    except Exception:  # the user's hook
        logger.exception("`on_turn_complete` of agent %r failed again, with its own error", run.agent.id)


def _before_event(run: AgentRun, turn: TurnState, writer: ChunkWriter) -> BeforeTurnCompleteEvent[Any]:
    return BeforeTurnCompleteEvent(**_fields(run, turn), writer=writer)


def complete_event(run: AgentRun, turn: TurnState) -> TurnCompleteEvent[Any]:
    """Return what `on_turn_complete` is told of a turn that is closed on the wire."""
    return TurnCompleteEvent(**_fields(run, turn), last_event_id=str(turn.out_seq))


def failed_turn_event(
    run: AgentRun,
    turn: TurnState,
    error: BaseException,
    *,
    new_ui_messages: Sequence[UIMessage] | None = None,
    new_messages: Sequence[ModelMessage] = (),
) -> TurnCompleteEvent[Any]:
    """Return what `on_turn_complete` is told of a turn that failed (E-6, G-32)."""
    if new_ui_messages is None:
        message = turn.incoming.payload.message
        new_ui_messages = [] if message is None else [message]
    response = None if turn.response is None else cleanup_aborted_parts(turn.response)
    fields: dict[str, Any] = _fields(run, turn) | {
        "new_ui_messages": list(new_ui_messages),
        "new_messages": list(new_messages),
        "response_message": response,
        "raw_response_message": response,
        "usage": None,
        "finish_reason": "error",
    }
    return TurnCompleteEvent(**fields, last_event_id=None if turn.out_seq is None else str(turn.out_seq), error=error)


def _fields(run: AgentRun, turn: TurnState) -> dict[str, Any]:
    """Return what all completion events share (H-13)."""
    conversation = run.state.conversation
    return {
        "ctx": run.env.context,
        "chat_id": run.chat_id,
        "messages": list(conversation.model),
        "ui_messages": conversation.chain.to_list(),
        "new_messages": list(turn.new_messages),
        "new_ui_messages": list(turn.new_ui_messages),
        "response_message": turn.response,
        "raw_response_message": turn.raw_response,
        "turn": turn.number,
        "run_id": run.run_id,
        "chat_access_token": turn.access_token,
        "client_data": turn.client_data,
        "stopped": turn.stopped,
        "continuation": run.continuation,
        "previous_run_id": run.previous_run_id,
        "preloaded": run.preloaded,
        "usage": turn.usage,
        "total_usage": run.state.total_usage,
        "finish_reason": turn.finish_reason,
    }


def _fold_in_late_parts(run: AgentRun, turn: TurnState) -> None:
    """Append the data parts that were written since the commit to the answer in the chain (T-49)."""
    conversation = run.state.conversation
    if turn.response is None or not turn.response_parts:
        return
    position = conversation.chain.position(turn.response.id)
    if position is not None:
        stored = conversation.chain[position]
        turn.response = stored.model_copy(update={"parts": (*stored.parts, *turn.response_parts)})
        conversation.chain = conversation.chain.replace(position, turn.response)
        turn.response_parts = []


async def write_turn_complete(run: AgentRun, turn: TurnState, *, token: str | None) -> int:
    """Close the turn on the wire; its input counts as done from here on (T-50, G-26)."""
    progress = run.in_.progress
    for seq in (turn.incoming.seq, *turn.steering.injected_seqs):
        progress.done(seq)
    cursor = progress.committed if progress.committed >= 0 else None
    stopped = turn.stop.signal.aborted and not run.cancelled
    number = await run.out.write_turn_complete(token=token, in_cursor=cursor, ahead=progress.ahead, stopped=stopped)
    turn.out_seq = number
    run.observer.turn_completed(turn.report(run.state.total_usage))
    return number


async def save_snapshot(run: AgentRun, out_seq: int | None) -> None:
    """Save the chain and both cursors; a failed save is a warning, the records are still there (S-1, S-2, S-5)."""
    if not run.out.keeps_unsaved:
        return
    chain = run.state.conversation.chain
    progress = run.in_.progress
    committed = progress.committed
    snapshot = Snapshot(
        saved_at=int(run.clock.now() * 1000),
        messages=chain.to_list(),
        last_out_event_id=None if out_seq is None else str(out_seq),
        last_in_event_id=str(committed) if committed >= 0 else None,
        in_event_ids_ahead=[str(seq) for seq in progress.ahead],
    )
    try:
        with run.observer.during(SnapshotWork(messages=len(snapshot.messages))):
            await run.env.snapshots.save(run.chat_id, snapshot, epoch=run.env.lease.epoch)
    except LeaseLostError:
        raise
    except Exception:  # any store
        logger.warning("the snapshot of session %r could not be saved", run.chat_id, exc_info=True)
    else:
        run.out.last_saved, run.state.saved = out_seq, chain.items
