"""Closing the turn of a run that died between the end of its answer and the turn-complete (G-64).

The answer is there, so the model is not asked again: what the dead run did not come to do is done at the boot. An agent
that keeps its history itself is asked for it first, as the turn had asked: nobody else knows what it has stored so far.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from chatagent.agent.accumulate import accumulate, incoming_messages
from chatagent.agent.completion import complete_event, save_snapshot
from chatagent.agent.handover import handed_over
from chatagent.agent.inputs import read_record
from chatagent.agent.stored_answer import answer_beside, answer_id
from chatagent.agent.wire import Incoming, is_handover, is_message
from chatagent.errors import ClientDataError, LeaseLostError, OutOfMemoryError

if TYPE_CHECKING:
    from chatagent.agent.past import UnclosedTurn
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState
    from chatagent.ui import UIMessage

__all__ = ["close_turn"]

logger = logging.getLogger("chatagent")


async def close_turn(run: AgentRun, unclosed: UnclosedTurn) -> None:
    """Write the turn-complete, call `on_turn_complete`, and save the snapshot; `on_before_turn_complete` is not called.

    A failing `on_turn_complete` is logged; the run goes on.

    Raises:
        Exception: what `hydrate_messages` or `on_validate_messages` raised. Nothing is written then, so the turn is
            closed by a run that can read its past.
    """
    turn = run.new_turn(_incoming(run, unclosed))
    turn.finish_reason, turn.access_token = unclosed.finish_reason, run.env.mint_token()
    turn.client_data = _client_data(run, turn)
    if run.agent.has("hydrate_messages"):
        await _take_into_hydrated(run, turn, unclosed)
    else:
        await _list_new(run, turn, unclosed)
    turn.raw_response = turn.response
    progress = run.in_.progress
    for seq in unclosed.in_seqs:
        progress.done(seq)
    cursor = progress.committed if progress.committed >= 0 else None
    turn.out_seq = await run.out.write_turn_complete(token=turn.access_token, in_cursor=cursor, ahead=progress.ahead)
    try:
        await run.hook("on_turn_complete", lambda: complete_event(run, turn))
    except (LeaseLostError, OutOfMemoryError):
        raise
    except Exception:  # the user's hook
        logger.exception("`on_turn_complete` of agent %r failed on a turn that was closed at the boot", run.agent.id)
    await run.state.conversation.apply_override()
    await save_snapshot(run, turn.out_seq)


def _incoming(run: AgentRun, unclosed: UnclosedTurn) -> Incoming:
    record = unclosed.record
    if record is not None and is_message(record):
        return read_record(run, record)
    return Incoming(run.env.payload.without_one_shot_fields(trigger="submit-message"), unclosed.in_seq)


def _client_data(run: AgentRun, turn: TurnState) -> object:
    """Return the client data of the record that was answered; `None` if it no longer parses."""
    try:
        return run.parse_client_data(turn.incoming.payload)
    except ClientDataError:
        return None


async def _list_new(run: AgentRun, turn: TurnState, unclosed: UnclosedTurn) -> None:
    """List what is new by the turn; the chain has it already."""
    turn.response = unclosed.answer
    new = [unclosed.question, *(each.message for each in unclosed.injected), unclosed.answer]
    messages = [message for message in new if message is not None]
    turn.add_new(messages, await run.state.conversation.converter.convert_what_can_be(messages))


async def _take_into_hydrated(run: AgentRun, turn: TurnState, unclosed: UnclosedTurn) -> None:
    """Ask the agent for its history as the turn has, and put the answer behind it."""
    conversation = run.state.conversation
    turn.messages = incoming_messages(turn.incoming.payload)
    await accumulate(run, turn)
    await conversation.apply_override()
    answer = _answer(turn, unclosed)
    turn.response = answer if answer is not None and answer.parts else None
    injected = [each.message for each in unclosed.injected]
    answers = [] if turn.response is None else [turn.response]
    missing = [each for each in injected if conversation.chain.find(each.id) is None]
    await conversation.take_in([*missing, *answers])
    new = [*injected, *answers]
    turn.add_new(new, await conversation.converter.convert_what_can_be(new))


def _answer(turn: TurnState, unclosed: UnclosedTurn) -> UIMessage | None:
    """Return the answer: as the history has it already, or else as it was streamed."""
    message_id, payload = answer_id(unclosed.chunks), turn.incoming.payload
    stored = None if message_id is None else turn.conversation.chain.find(message_id)
    if stored is None and message_id is not None and unclosed.record is not None and is_handover(unclosed.record):
        stored = handed_over(unclosed.record, message_id)
    is_anew = payload.trigger == "regenerate-message"
    return answer_beside(stored, unclosed.chunks, payload.message, is_anew=is_anew)
