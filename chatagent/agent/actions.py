"""Actions: a client's commands, which change the conversation and are no turns (rules A-1 to A-8)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent.accumulate import hydrate
from chatagent.agent.capture import stream_options
from chatagent.agent.completion import save_snapshot, write_turn_complete
from chatagent.agent.events import ActionEvent
from chatagent.agent.pipe import is_streamable, pipe_chunks
from chatagent.agent.replies import message_chunks
from chatagent.agent.tool_data import apply_tool_data, is_tool_data
from chatagent.agent.work import StreamWork
from chatagent.errors import AbortError, ActionError
from chatagent.ui import TextUIPart, UIMessage, parse_ui_message, problem_of

if TYPE_CHECKING:
    from chatagent.agent.inputs import MidTurnListener
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState

__all__ = ["run_action"]

logger = logging.getLogger("chatagent")


async def run_action(run: AgentRun, turn: TurnState, listener: MidTurnListener) -> None:
    """Give an action to `on_action`, stream what it returns, and close it on the wire."""
    conversation = run.state.conversation
    before, model_before = conversation.chain, conversation.model
    try:
        if is_tool_data(turn.incoming.payload.action):
            listener.off()
            apply_tool_data(run, turn.incoming.payload.action)
        else:
            await _act(run, turn, listener)
    except Exception:
        conversation.chain, conversation.model, conversation.override = before, model_before, None
        raise
    if run.cancelled:
        return
    turn.out_seq = await write_turn_complete(run, turn, token=None)
    if conversation.chain.items != before.items:
        await save_snapshot(run, turn.out_seq)
    elif run.state.saved == before.items:
        run.out.last_saved = turn.out_seq  # what the action has streamed is no part of the history


async def _act(run: AgentRun, turn: TurnState, listener: MidTurnListener) -> None:
    conversation = run.state.conversation
    action = _parse(run, turn)
    if run.agent.has("hydrate_messages"):
        await conversation.set_chain(await hydrate(run, turn, []))
    result = await _handle(run, turn, action)
    await conversation.apply_override()
    listener.off()
    await _stream(run, turn, result)


def _parse(run: AgentRun, turn: TurnState) -> Any:
    value = turn.incoming.payload.action
    try:
        return run.agent.parse_action(value)
    except Exception as exc:  # a schema may be any function
        raise ActionError(agent_id=run.agent.id, value=value, problem=problem_of(exc)) from exc


async def _handle(run: AgentRun, turn: TurnState, action: Any) -> Any:
    fn = run.agent.hook("on_action")
    if fn is None:
        run.agent.warn_once("action", f"agent {run.agent.id!r} has no `on_action` handler; the action was ignored")
        return None
    conversation = run.state.conversation
    event = ActionEvent(
        action=action,
        chat_id=run.chat_id,
        turn=turn.number,
        client_data=turn.client_data,
        ui_messages=conversation.chain.to_list(),
        messages=list(conversation.model),
    )
    return await run.call("on_action", fn, event)


async def _stream(run: AgentRun, turn: TurnState, result: Any) -> None:
    """Send what the handler returned; it never enters the chain by itself (A-4, A-6, G-23)."""
    if turn.pipe_count:
        return
    if isinstance(result, str):
        result = UIMessage(id=run.env.new_id(), role="assistant", parts=[TextUIPart(text=result)])
    if isinstance(result, Mapping) and {"role", "parts"} <= cast("Mapping[str, Any]", result).keys():
        result = parse_ui_message(cast("Any", result), generate_id=run.env.new_id)
    if isinstance(result, UIMessage):
        for chunk in message_chunks(result):
            run.out.write(chunk)
    elif is_streamable(cast("object", result)):
        try:
            options = {"generate_message_id": run.env.new_id} | stream_options(run) | {"on_end": turn.note_stream_end}
            with run.observer.during(StreamWork()):
                await pipe_chunks(result, run.out.write, abort_signal=turn.signal, options=options)
        except AbortError:
            if not turn.signal.aborted:
                raise
    elif result is not None:
        told = "`on_action` of agent %r returned %r, which is no text, message or stream and was ignored"
        logger.warning(told, run.agent.id, cast("object", result))
