"""Closing the turn of a run that died between the end of its answer and the turn-complete (G-64).

The answer is there, so the model is not asked again: what the dead run did not come to do is done at the boot.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from chatagent.agent.completion import save_snapshot
from chatagent.agent.events import TurnCompleteEvent
from chatagent.errors import ClientDataError, LeaseLostError, MessageConversionError, OutOfMemoryError

if TYPE_CHECKING:
    from chatagent.agent.past import UnclosedTurn
    from chatagent.agent.run import AgentRun
    from chatagent.model import ModelMessage
    from chatagent.ui import UIMessage

__all__ = ["close_turn"]

logger = logging.getLogger("chatagent")


async def close_turn(run: AgentRun, turn: UnclosedTurn) -> None:
    """Write the turn-complete, call `on_turn_complete`, and save the snapshot; `on_before_turn_complete` is not called.

    A failing hook is logged; the run goes on.
    """
    progress = run.in_.progress
    for seq in turn.in_seqs:
        progress.done(seq)
    cursor = progress.committed if progress.committed >= 0 else None
    out_seq = await run.out.write_turn_complete(token=run.env.mint_token(), in_cursor=cursor)
    new = [each for each in (None if turn.question is None else turn.question.message, turn.answer) if each is not None]
    converted = await _convert(run, new)
    try:
        await run.hook("on_turn_complete", lambda: _event(run, turn, new, converted, out_seq))
    except (LeaseLostError, OutOfMemoryError):
        raise
    except Exception:  # the user's hook
        logger.exception("`on_turn_complete` of agent %r failed on a turn that was closed at the boot", run.agent.id)
    await run.state.conversation.apply_override()
    await save_snapshot(run, out_seq)


async def _convert(run: AgentRun, messages: list[UIMessage]) -> list[ModelMessage]:
    try:
        return await run.state.conversation.converter.convert(messages)
    except MessageConversionError:
        return []


def _event(
    run: AgentRun, turn: UnclosedTurn, new: list[UIMessage], converted: list[ModelMessage], out_seq: int
) -> TurnCompleteEvent[Any]:
    conversation = run.state.conversation
    return TurnCompleteEvent(
        ctx=run.env.context,
        chat_id=run.chat_id,
        messages=list(conversation.model),
        ui_messages=conversation.chain.to_list(),
        new_messages=converted,
        new_ui_messages=new,
        response_message=turn.answer,
        raw_response_message=turn.answer,
        turn=0,
        run_id=run.run_id,
        chat_access_token=run.env.mint_token(),
        client_data=_client_data(run, turn),
        stopped=False,
        continuation=run.continuation,
        previous_run_id=run.previous_run_id,
        preloaded=run.preloaded,
        usage=None,
        total_usage=run.state.total_usage,
        finish_reason=turn.finish_reason,
        last_event_id=str(out_seq),
    )


def _client_data(run: AgentRun, turn: UnclosedTurn) -> Any:
    """Return the client data of the record that was answered; `None` if it no longer parses."""
    metadata = run.env.payload.metadata if turn.question is None else turn.question.metadata
    try:
        return run.parse_client_data(run.env.payload.model_copy(update={"metadata": metadata}))
    except ClientDataError:
        return None
