"""Steering: messages that come while a turn is on, and reach the model between two steps of its answer.

With the option `pending_messages` a user's message that comes meanwhile waits in the turn's queue. Before each model
call the agent decides whether to inject what waits; what no step took in becomes the next turns (N-70 to N-74, G-25).
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent.answer import model_messages_from_hook
from chatagent.agent.injected import Injection, PendingMessage, mark_chunk, mark_part
from chatagent.agent.pending_messages import (
    PendingMessageReceivedEvent,
    PendingMessagesEvent,
    PendingMessagesInjectedEvent,
)
from chatagent.agent.wire import input_of, is_message
from chatagent.agent.work import InjectionWork
from chatagent.errors import LeaseLostError, MessageConversionError
from chatagent.model import convert_to_model_messages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from chatagent.agent.observer import HookCall
    from chatagent.agent.pending_messages import PendingMessagesOptions
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState
    from chatagent.agent.wire import Incoming
    from chatagent.generate import StepResult
    from chatagent.model import ModelMessage
    from chatagent.session.records import Record
    from chatagent.ui import UIMessage

__all__ = ["hand_back", "inject_pending", "is_repeated", "take_pending"]

logger = logging.getLogger("chatagent")


# Receiving --------------------------------------------------------------------------------------------------------


def is_repeated(run: AgentRun, record: Record) -> bool:
    """Return whether a record brings a message again that this run took in while a turn was on (G-25)."""
    if not run.state.steered_ids or not is_message(record):
        return False
    payload: Any = input_of(record).get("payload")
    if not isinstance(payload, dict):
        return False
    fields = cast("dict[str, Any]", payload)
    message = fields.get("message")
    is_submit = fields.get("trigger") in ("submit-message", None) and isinstance(message, dict)
    return is_submit and cast("dict[str, Any]", message).get("id") in run.state.steered_ids


def take_pending(run: AgentRun, turn: TurnState, incoming: Incoming) -> bool:
    """Queue a user's new message for a step of the turn; returns whether it was taken (N-70).

    Everything else (commands, tool answers, what cannot be read or shown to a model) stays ordinary input (G-21).
    """
    message = incoming.payload.message
    is_submit = incoming.payload.trigger in ("submit-message", None) and incoming.failure is None
    if turn.pending_options is None or turn.is_action or not is_submit:
        return False
    if message is None or message.role != "user" or _is_known(run, turn, message):
        return False
    try:
        convert_to_model_messages([message])
    except MessageConversionError:  # its own turn will say so
        return False
    _tell_received(run, turn, message)
    if any(each.message.id == message.id for each in turn.steering.queue):
        run.in_.progress.done(incoming.seq)
    else:
        turn.steering.queue.append(PendingMessage(message, incoming))
    return True


def _is_known(run: AgentRun, turn: TurnState, message: UIMessage) -> bool:
    """Return whether the message is in the chain, or about to be; then it says nothing new (T-23)."""
    return turn.conversation.chain.find(message.id) is not None or any(each.id == message.id for each in turn.messages)


def _tell_received(run: AgentRun, turn: TurnState, message: UIMessage) -> None:
    """Call `on_received` at once; while an earlier call is awaited, when that has returned (G-50)."""
    fn = (turn.pending_options or {}).get("on_received")
    if fn is None:
        return
    event = PendingMessageReceivedEvent(message=message, chat_id=run.chat_id, turn=turn.number)
    steering = turn.steering
    if steering.untold is not None:
        steering.untold.append(event)
        return
    work = _begin(run, fn, event)
    if work is None:
        return
    steering.untold = untold = deque["PendingMessageReceivedEvent"]()

    async def tell() -> None:
        await work
        while untold and run.turn is turn:
            more = _begin(run, fn, untold.popleft())
            if more is not None:
                await more
        steering.untold = None

    steering.telling = run.tasks.start(tell, name="on_received")


def _begin(run: AgentRun, fn: Callable[[Any], object], event: object) -> Awaitable[None] | None:
    """Call `on_received`; returns what is left to be awaited. Its failure is logged and changes nothing."""
    call = run.begin_call("on_received", event)
    try:
        with run.observer.during(call):
            result = fn(event)
    except Exception as exc:  # noqa: BLE001 - the user's callback
        run.end_call(call, exc)
        _log_failure(run, "on_received")
        return None
    if inspect.isawaitable(result):
        return _finish(run, call, result)
    run.end_call(call)
    return None


async def _finish(run: AgentRun, call: HookCall, result: Awaitable[Any]) -> None:
    try:
        with run.observer.during(call):
            await result
    except Exception as exc:  # noqa: BLE001 - the user's callback
        run.end_call(call, exc)
        _log_failure(run, "on_received")
    except BaseException as exc:
        run.end_call(call, exc)
        raise
    else:
        run.end_call(call)


def _log_failure(run: AgentRun, name: str) -> None:
    logger.exception("`%s` of agent %r failed; the turn goes on", name, run.agent.id)


# Injecting --------------------------------------------------------------------------------------------------------


async def inject_pending(
    run: AgentRun, turn: TurnState, messages: Sequence[ModelMessage], steps: Sequence[StepResult]
) -> list[ModelMessage]:
    """Return what the next step is to be given besides `messages`; nothing if no message waits, or the agent refuses.

    Raises:
        HookResultError: `prepare` returned no list.
        Exception: what `should_inject` or `prepare` raised; the messages still wait then.
    """
    options: PendingMessagesOptions[Any] = turn.pending_options or {}
    queue, should_inject = turn.steering.queue, options.get("should_inject")
    if not queue or should_inject is None:
        return []
    batch = tuple(queue)
    event = PendingMessagesEvent(
        messages=[each.message for each in batch],
        model_messages=list(messages),
        steps=list(steps),
        step_number=len(steps) - 1,
        chat_id=run.chat_id,
        turn=turn.number,
        client_data=turn.client_data,
    )
    if not await run.call("should_inject", should_inject, event):
        return []
    with run.observer.during(InjectionWork(count=len(batch))):
        prepare = options.get("prepare")
        prepared = _own_model_messages(batch)
        if prepare is not None:
            prepared = model_messages_from_hook("prepare", await run.call("prepare", prepare, event))
        injected = await turn.conversation.converter.convert(event.messages) if prepared is None else prepared
        _take_in(run, turn, batch, injected, prepared)
        if injected:
            await _tell_injected(run, turn, event, injected)
    return injected


def _own_model_messages(batch: Sequence[PendingMessage]) -> list[ModelMessage] | None:
    """Return what the messages came with for the model, if all of them did."""
    if any(each.model_messages is None for each in batch):
        return None
    return [message for each in batch for message in each.model_messages or ()]


def _take_in(
    run: AgentRun,
    turn: TurnState,
    batch: Sequence[PendingMessage],
    injected: Sequence[ModelMessage],
    prepared: Sequence[ModelMessage] | None,
) -> None:
    """Take the messages out of the queue, mark their place in the answer, and tell the client (N-72, G-62)."""
    steering, taken = turn.steering, {id(each) for each in batch}
    steering.queue = [each for each in steering.queue if id(each) not in taken]
    run.state.steered_ids.update(each.message.id for each in batch)
    steering.injected_seqs += [each.incoming.seq for each in batch if each.incoming.seq is not None]
    chunk = mark_chunk(run.env.new_id(), [each.message for each in batch])
    steering.injections.append(Injection(batch, mark_part(chunk, prepared), turn.steps_begun))
    if injected:
        run.out.write(chunk)


async def _tell_injected(
    run: AgentRun, turn: TurnState, of_batch: PendingMessagesEvent[Any], injected: Sequence[ModelMessage]
) -> None:
    fn = (turn.pending_options or {}).get("on_injected")
    if fn is None:
        return
    event = PendingMessagesInjectedEvent(
        messages=list(of_batch.messages),
        injected_model_messages=list(injected),
        chat_id=run.chat_id,
        turn=turn.number,
        step_number=of_batch.step_number,
    )
    try:
        await run.call("on_injected", fn, event)
    except LeaseLostError:
        raise
    except Exception:  # noqa: BLE001 - the user's callback
        _log_failure(run, "on_injected")


# The end of the turn ----------------------------------------------------------------------------------------------


def hand_back(run: AgentRun, turn: TurnState) -> None:
    """Make ordinary input of what no step took in: each message becomes a turn, in the order of arrival (G-25)."""
    queue, turn.steering.queue = turn.steering.queue, []
    if not queue:
        return
    run.state.steered_ids.update(each.message.id for each in queue)
    waiting = [*run.state.buffered, *(each.incoming for each in queue)]
    run.state.buffered = deque(sorted(waiting, key=lambda incoming: -1 if incoming.seq is None else incoming.seq))
