"""Bringing what a turn brings into the chain: validation, hydration, merging (rules T-20 to T-25)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent.cleanup import cleanup_aborted_parts
from chatagent.agent.events import HydrateMessagesEvent, ValidateMessagesEvent
from chatagent.agent.merge import merge_incoming_into_stored
from chatagent.agent.storable import storable_message
from chatagent.errors import HookResultError

if TYPE_CHECKING:
    from chatagent.agent.chain import MessageChain
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState
    from chatagent.agent.wire import WirePayload
    from chatagent.ui import UIMessage

__all__ = ["accumulate", "hydrate", "incoming_messages", "ui_messages_from_hook"]

logger = logging.getLogger("chatagent")


def incoming_messages(payload: WirePayload) -> list[UIMessage]:
    """Return what a payload brings, cleaned (T-11)."""
    message = payload.message
    if message is None:
        return []
    return [cleanup_aborted_parts(message) if message.role == "assistant" else message]


async def accumulate(run: AgentRun, turn: TurnState) -> None:
    """Validate what the turn brings and bring it into the chain."""
    if run.state.handover is not None and run.agent.has("hydrate_messages") and not turn.messages:
        turn.messages = list(run.env.payload.head_start_messages or ())
    if turn.messages:
        await _validate(run, turn)
    if run.agent.has("hydrate_messages"):
        await _accumulate_hydrated(run, turn)
    else:
        await _accumulate_kept(run, turn)
    if not run.state.conversation.chain:
        logger.warning("agent %r: turn %s has no messages; the model is given an empty list", run.agent.id, turn.number)


async def _validate(run: AgentRun, turn: TurnState) -> None:
    fn = run.agent.hook("on_validate_messages")
    if fn is None:
        return
    event = ValidateMessagesEvent(
        messages=list(turn.messages),
        chat_id=run.chat_id,
        turn=turn.number,
        trigger=turn.incoming.payload.trigger or "submit-message",
    )
    turn.messages = ui_messages_from_hook(
        run, "on_validate_messages", await run.call("on_validate_messages", fn, event)
    )


async def hydrate(run: AgentRun, turn: TurnState, incoming: Sequence[UIMessage]) -> list[UIMessage]:
    """Ask `hydrate_messages` for the chain."""
    fn = run.agent.hook("hydrate_messages")
    assert fn is not None
    event = HydrateMessagesEvent(
        chat_id=run.chat_id,
        turn=turn.number,
        trigger=turn.incoming.payload.trigger or "submit-message",
        incoming_messages=list(incoming),
        previous_messages=run.state.conversation.chain.to_list(),
        client_data=turn.client_data,
        continuation=run.continuation,
        previous_run_id=run.previous_run_id,
    )
    return ui_messages_from_hook(run, "hydrate_messages", await run.call("hydrate_messages", fn, event))


async def _accumulate_hydrated(run: AgentRun, turn: TurnState) -> None:
    """Take the chain from the hook, with the tool answers of the incoming message laid over it (T-22)."""
    conversation = run.state.conversation
    known = {message.id for message in conversation.chain if message.id}
    hydrated = await hydrate(run, turn, turn.messages)
    for message in turn.messages:
        for position, stored in enumerate(hydrated):
            if message.id and stored.id == message.id:
                hydrated[position] = merge_incoming_into_stored(stored, message)
                break
    await conversation.set_chain(hydrated)
    if turn.incoming.payload.trigger in ("submit-message", None) and turn.messages:
        last = turn.messages[-1]
        if last.id not in known:
            turn.add_new([last], await conversation.converter.convert([last]))


async def _accumulate_kept(run: AgentRun, turn: TurnState) -> None:
    """Bring the incoming messages into the chain that the run keeps (T-23)."""
    conversation = run.state.conversation
    if turn.incoming.payload.trigger == "regenerate-message":
        again = conversation.chain.to_be_answered_again(turn.incoming.payload.message_id)
        await conversation.set_chain(again)
        return
    chain = conversation.chain
    fresh: list[UIMessage] = []
    merged = False
    for message in turn.messages:
        position = _position_of(run, chain, message)
        if position is None:
            chain = chain.append(message)
            fresh.append(message)
        else:
            chain = chain.replace(position, merge_incoming_into_stored(chain[position], message))
            merged = True
        run.state.tool_calls.record(message if position is None else chain[position])
    converted = await conversation.converter.convert(fresh)
    is_remade = merged or (bool(fresh) and conversation.supersedes)
    conversation.chain = chain
    if is_remade:
        await conversation.reconvert()
    else:
        conversation.model += converted
    turn.add_new(fresh, converted)


def _position_of(run: AgentRun, chain: MessageChain, message: UIMessage) -> int | None:
    position = chain.position(message.id)
    if position is None:
        owner = run.state.tool_calls.owner_of(message)
        position = None if owner is None else chain.position(owner)
    return position


def ui_messages_from_hook(run: AgentRun, hook: str, result: object) -> list[UIMessage]:
    """Return the messages that a hook returned, dicts made into messages.

    Raises:
        HookResultError: it returned no list.
        InvalidMessageError: one of them is no message, or JSON cannot hold it.
    """
    if not isinstance(result, Sequence) or isinstance(result, str):
        raise HookResultError(hook=hook, expected="a list of UI messages", value=result)
    return [storable_message(message, new_id=run.env.new_id) for message in cast("Sequence[Any]", result)]
