"""The turn loop: one payload after the other, each a turn or an action, until nothing is left or wanted.

It reads as the behaviour reference's section 2: open the turn, bring its messages into the chain, ask for the answer,
commit it, complete the turn, choose what comes next. Each of these is a module of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.agent.accumulate import accumulate, incoming_messages
from chatagent.agent.actions import run_action
from chatagent.agent.answer import ask_for_answer, commit_answer, settle_answer, take_in_background
from chatagent.agent.compaction import apply_inner
from chatagent.agent.completion import complete_turn, save_snapshot
from chatagent.agent.events import ChatStartEvent, ResolveToolsEvent, TurnStartEvent
from chatagent.agent.failure import fail_turn
from chatagent.agent.handover import splice_handover, take_final_handover
from chatagent.agent.inputs import MidTurnListener, next_incoming
from chatagent.agent.tools import tools_by_name
from chatagent.errors import AbortError, LeaseLostError, OutOfMemoryError
from chatagent.signals import AbortSignal

if TYPE_CHECKING:
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState
    from chatagent.agent.wire import Incoming
    from chatagent.agent.writer import ChunkWriter

__all__ = ["run_turns"]


async def run_turns(run: AgentRun, first: Incoming | None) -> None:
    """Take payloads until the run ends; returns when it has nothing more to do (rules T-1 to T-64)."""
    incoming = first
    while incoming is not None:
        turn = run.new_turn(incoming)
        with run.observer.during(turn.work()):
            goes_on = await _run_one(run, turn)
        if not goes_on or run.turn_number >= run.options.max_turns:
            return
        incoming = await next_incoming(run, turn)


async def _run_one(run: AgentRun, turn: TurnState) -> bool:
    """Work one payload off; returns whether the run goes on."""
    run.turn = turn
    run.observer.turn_started(turn.number, turn.incoming.seq)
    listener = MidTurnListener(run)
    try:
        goes_on = await (_action(run, turn, listener) if turn.is_action else _turn(run, turn, listener))
    except (OutOfMemoryError, LeaseLostError):
        raise
    except Exception as exc:  # noqa: BLE001 - whatever ends a turn is told to client and hooks; the run goes on
        if run.cancelled and isinstance(exc, AbortError):
            return False
        listener.off()
        await fail_turn(run, turn, exc)
        goes_on = not run.cancelled
    finally:
        listener.off()
        run.turn = None
    if run.cancelled and turn.out_seq is None:
        return False
    if not turn.is_action:
        run.state.last_completed_turn = turn.number
        run.turn_number += 1
    run.observer.turn_settled(turn.report(run.state.total_usage))
    return goes_on


async def _turn(run: AgentRun, turn: TurnState, listener: MidTurnListener) -> bool:
    await _open(run, turn, listener)
    await accumulate(run, turn)
    splice_handover(run)
    await _start(run, turn)
    if run.state.upgrade_requested:
        await _keep_head_start(run, turn)
        await upgrade(run)
        return False
    if take_final_handover(run, turn):
        listener.off()
        take_in_background(run, turn)
    else:
        await ask_for_answer(run, turn, listener)
    await settle_answer(run, turn)
    await apply_inner(run, turn)
    await commit_answer(run, turn)
    if run.cancelled:
        return False
    await complete_turn(run, turn)
    return True


async def _action(run: AgentRun, turn: TurnState, listener: MidTurnListener) -> bool:
    await _open(run, turn, listener)
    await run_action(run, turn, listener)
    return not run.cancelled


async def _open(run: AgentRun, turn: TurnState, listener: MidTurnListener) -> None:
    """Read the payload, resolve the tools, arm the stop (T-10 to T-16)."""
    run.out.begin_turn(turn.incoming.seq)
    if not turn.is_action:
        turn.access_token = run.env.mint_token()  # first, so that the event of a turn that fails has it too (G-32)
    turn.signal = AbortSignal.any(turn.stop.signal, run.cancel_signal)
    if turn.incoming.failure is not None:
        raise turn.incoming.failure
    turn.messages = incoming_messages(turn.incoming.payload)
    turn.client_data = run.parse_client_data(turn.incoming.payload)
    turn.tools = await resolve_tools(run, turn.number, turn.client_data)
    run.state.conversation.converter.use_tools(turn.tools if run.options.tools is not None else None)
    listener.attach()


async def resolve_tools(run: AgentRun, number: int, client_data: Any) -> dict[str, Any]:
    """Return the tools by name: the agent's set, or what its function gives for this turn (T-14)."""
    declared = run.options.tools
    if callable(declared):
        event = ResolveToolsEvent(
            chat_id=run.chat_id, turn=number, continuation=run.continuation, client_data=client_data
        )
        declared = await run.call("tools", declared, event)
    return tools_by_name(declared, agent_id=run.agent.id)


async def _start(run: AgentRun, turn: TurnState) -> None:
    """Call the hooks that open a turn; pending history changes count from `on_turn_start` on (T-27, T-28, G-22)."""
    conversation = run.state.conversation
    if turn.number == 0 and not run.state.could_have_prior_state:
        await run.writing_hook("on_chat_start", lambda writer: _chat_start_event(run, turn, writer))
    await conversation.apply_override()
    await run.writing_hook("on_turn_start", lambda writer: _turn_start_event(run, turn, writer))
    await conversation.apply_override()


def _chat_start_event(run: AgentRun, turn: TurnState, writer: ChunkWriter) -> ChatStartEvent[Any]:
    return ChatStartEvent(
        ctx=run.env.context,
        chat_id=run.chat_id,
        messages=list(run.state.conversation.model),
        client_data=turn.client_data,
        run_id=run.run_id,
        chat_access_token=turn.access_token,
        continuation=False,
        previous_run_id=run.previous_run_id,
        preloaded=run.preloaded,
        writer=writer,
    )


def _turn_start_event(run: AgentRun, turn: TurnState, writer: ChunkWriter) -> TurnStartEvent[Any]:
    conversation = run.state.conversation
    return TurnStartEvent(
        ctx=run.env.context,
        chat_id=run.chat_id,
        messages=list(conversation.model),
        ui_messages=conversation.chain.to_list(),
        turn=turn.number,
        run_id=run.run_id,
        chat_access_token=turn.access_token,
        client_data=turn.client_data,
        continuation=run.continuation,
        previous_run_id=run.previous_run_id,
        preloaded=run.preloaded,
        previous_turn_usage=run.state.previous_turn_usage,
        total_usage=run.state.total_usage,
        writer=writer,
    )


async def _keep_head_start(run: AgentRun, turn: TurnState) -> None:
    """Save what a head start has brought: no record of `.in` holds it for the run that takes over."""
    if turn.number == 0 and run.env.payload.trigger == "handover-prepare":
        last = await run.out.flush()
        await save_snapshot(run, last if last >= 0 else None)


async def upgrade(run: AgentRun) -> None:
    """Hand the session over to a newer version before the model was asked (T-29, 1.14)."""
    run.observer.upgrade_requested()
    await run.out.write_upgrade_required()
