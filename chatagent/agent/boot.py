"""How a run begins: read the past, rebuild the chain, call the boot hooks, find the first payload (1.7 to 1.12)."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio

from chatagent.agent.completion import save_snapshot
from chatagent.agent.custom import run_custom
from chatagent.agent.events import BootEvent, PreloadEvent
from chatagent.agent.handover import seed_head_start, wait_for_handover
from chatagent.agent.inputs import attach_run_listener, read_record, wait_for_incoming
from chatagent.agent.loop import resolve_tools, run_turns
from chatagent.agent.observer import BootReport
from chatagent.agent.past import Past, finds_unclosed, reconstruct, unclosed_turn
from chatagent.agent.recovery import Recovery, call_before_boot, decide_recovery, synthetic_payloads
from chatagent.agent.replay import committed_cursor, done_ahead, read_all
from chatagent.agent.unclosed import close_turn
from chatagent.agent.wire import Incoming
from chatagent.agent.work import BootWork, ReadWork, RunWork
from chatagent.errors import LeaseLostError, OutOfMemoryError, StoreError
from chatagent.session.store import RunRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.agent.run import AgentRun
    from chatagent.agent.writer import ChunkWriter
    from chatagent.session.snapshot import Snapshot
    from chatagent.session.store import RunOutcome

__all__ = ["run_agent"]

logger = logging.getLogger("chatagent")

T = TypeVar("T")

LEAVE_LIMIT = 5.0
"""Real seconds that the store has to take the session back."""

EXIT_LIMIT = 5.0
"""Seconds that deferred work has to end once the run itself is over."""


async def run_agent(run: AgentRun) -> None:
    """Run an agent from its boot to its end.

    Raises:
        ChatAgentError: the past could not be read; nothing was consumed and nothing overwritten (G-58, G-60).
        Exception: what a hook raised at a place where no turn could take it.
    """
    run.agent.seal()
    run.out.keeps_unsaved = not (run.options.is_custom or run.agent.has("hydrate_messages"))
    with run.observer.during(RunWork()):
        await _run_to_its_end(run)


async def _run_to_its_end(run: AgentRun) -> None:
    unsubscribe = run.cancel_signal.add_callback(run.in_.interrupt)
    outcome: RunOutcome = "failed"
    try:
        if run.options.is_custom:
            await run_custom(run)
        else:
            await run_turns(run, await boot(run))
        await run.settle_tasks(run.deferred, limit=EXIT_LIMIT)
        outcome = _outcome(run)
    except LeaseLostError:
        if not run.cancelled:
            raise
    except OutOfMemoryError:
        raise
    except Exception:
        await run.settle_tasks(run.deferred, limit=EXIT_LIMIT)
        raise
    finally:
        unsubscribe()
        await run.tasks.close()
        run.in_.close()
        await _leave(run, outcome)


def _outcome(run: AgentRun) -> RunOutcome:
    if run.cancelled:
        return "cancelled"
    return "upgraded" if run.state.upgrade_requested else "completed"


async def _leave(run: AgentRun, outcome: RunOutcome) -> None:
    """Give the session back; input that this run leaves undone gets a run of its own (ST-56 to ST-58)."""
    store, lease = run.env.store, run.env.lease
    with anyio.move_on_after(LEAVE_LIMIT, shield=True):
        try:
            if outcome == "upgraded":
                await store.end_run(lease, outcome, next_run=RunRequest("upgrade"))
                return
            seen = run.in_.progress.committed if outcome == "completed" else None
            if not (await store.end_run(lease, outcome, input_seen=seen)).ended:
                await store.end_run(lease, outcome, next_run=RunRequest("continuation"))
        except StoreError as exc:
            logger.info("run %r could not give session %r back: %s", lease.run_id, run.chat_id, exc)


async def boot(run: AgentRun) -> Incoming | None:
    """Do everything before the first turn; returns the first payload, `None` if the run ends here."""
    with run.observer.during(BootWork()):
        past = await _bring_back_the_past(run)
    return await _first_payload(run, past)


async def _bring_back_the_past(run: AgentRun) -> Past:
    """Read the past, call `on_boot`, and decide what becomes of what was cut off (B-2 to B-7)."""
    payload, state = run.env.payload, run.state
    state.could_have_prior_state = run.continuation or run.env.context.attempt.number > 1
    past = await read_past(run)
    if state.could_have_prior_state:
        run.out.begin_boot(run.run_id)
    run.observer.booted(_report(past))
    await state.conversation.set_chain(past.settled)
    brings_head_start = not run.agent.has("hydrate_messages")
    if brings_head_start:
        await seed_head_start(state.conversation, payload)
    await run.hook("on_boot", lambda: _boot_event(run))
    if past.unclosed is not None:
        await close_turn(run, past.unclosed)
    await recover(run, past)
    if brings_head_start:
        await seed_head_start(state.conversation, payload)
    return past


async def _first_payload(run: AgentRun, past: Past) -> Incoming | None:
    """Return what the first turn is to answer, once it is there; `None` if the run ends here (B-8 to B-13)."""
    payload = run.env.payload
    if payload.trigger == "preload":
        return await _first_after_preload(run)
    if payload.trigger == "handover-prepare":
        first = await wait_for_handover(run)
        attach_run_listener(run)
        return first
    attach_run_listener(run)
    if payload.trigger == "close":
        return None
    if (run.continuation and payload.message is None) or _was_answered_before(run, past):
        return await _first_of_continuation(run)
    if payload.trigger is None and payload.message is None:
        return await wait_for_incoming(run, phase=None, waits_for="first message", client_data=None)
    return Incoming(payload, None)


def _was_answered_before(run: AgentRun, past: Past) -> bool:
    """Return whether this is a second attempt whose first has answered the message that both were booted with."""
    message = run.env.payload.message
    if message is None or run.env.context.attempt.number == 1 or past.partial_raw is not None:
        return False
    chain = run.state.conversation.chain
    place = chain.position(message.id)
    return place is not None and any(each.role == "assistant" for each in chain.items[place + 1 :])


async def read_past(run: AgentRun) -> Past:
    """Read snapshot and both logs, if there may be a past and the agent keeps none of its own (B-2, B-3)."""
    if not run.state.could_have_prior_state:
        return Past()
    store, chat_id = run.env.store, run.chat_id
    if run.agent.has("hydrate_messages"):
        out = await _read(run, "out", read_all(store, chat_id, "out"), len)
        cursor = committed_cursor(out)
        run.in_.go_on_after(cursor, done_ahead(out))
        if not finds_unclosed(out):
            return Past(in_cursor=cursor)
        in_tail = await _read(run, "in", read_all(store, chat_id, "in", after=cursor), len)
        return Past(in_cursor=cursor, unclosed=unclosed_turn(out, in_tail, new_id=run.env.new_id))
    snapshot = await _read(run, "snapshot", run.env.snapshots.load(chat_id), _message_count)
    last_out = None if snapshot is None else snapshot.out_cursor
    stored_in = None if snapshot is None else snapshot.in_cursor
    out_tail = await _read(run, "out", read_all(store, chat_id, "out", after=last_out), len)
    in_tail = await _read(run, "in", read_all(store, chat_id, "in", after=stored_in), len)
    cursor = max((each for each in (stored_in, committed_cursor(out_tail)) if each is not None), default=None)
    stored_ahead, told_ahead = frozenset[int]() if snapshot is None else snapshot.in_ahead, done_ahead(out_tail)
    run.in_.go_on_after(cursor, stored_ahead | told_ahead)
    run.out.last_turn_complete = run.out.last_saved = last_out
    run.state.saved = None if snapshot is None else tuple(snapshot.messages)
    past = reconstruct(
        () if snapshot is None else snapshot.messages,
        out_tail,
        in_tail,
        cursor=cursor,
        stored_ahead=stored_ahead,
        told_ahead=told_ahead,
        new_id=run.env.new_id,
        snapshot_found=snapshot is not None,
        last_out_event_id=last_out,
        out_end=out_tail[-1].seq if out_tail else last_out,
    )
    if run.env.partial_answer is None:
        return past
    raw = run.env.partial_answer_raw or run.env.partial_answer
    return replace(past, partial=run.env.partial_answer, partial_raw=raw, partial_of=None)


async def _read(
    run: AgentRun, what: Literal["snapshot", "out", "in"], reading: Awaitable[T], count: Callable[[T], int]
) -> T:
    """Do one of the reads, and let the observer see how much it found."""
    work = ReadWork(what=what)
    with run.observer.during(work):
        found = await reading
        work.count = count(found)
    return found


def _message_count(snapshot: Snapshot | None) -> int:
    return 0 if snapshot is None else len(snapshot.messages)


async def recover(run: AgentRun, past: Past) -> None:
    """Decide what becomes of what a crash cut off, rebuild the chain, and queue the turns to dispatch (B-4, B-6)."""
    conversation = run.state.conversation
    decision = await decide_recovery(run, past)
    await _use_tools(run)
    if decision.chain is not past.settled:
        await conversation.set_chain(decision.chain)
    else:
        await conversation.reconvert()
    for message in conversation.chain:
        run.state.tool_calls.record(message)
    if decision.before_boot is not None:
        await call_before_boot(decision.before_boot)
    run.state.recovered.extend(synthetic_payloads(run, past, decision.turns))
    if past.in_flight:
        _take_in_tail(run, past)
    if decision.is_overridden:
        # The hook has seen what was cut off, and would not be asked again once this run has begun a turn.
        await save_snapshot(run, past.out_end)
    report = _report(past, decision)
    if report.suppressed:
        logger.warning(
            "session %r: `on_recovery_boot` has left messages out; nobody answers %s",
            run.chat_id,
            ", ".join(repr(message.id) for message in report.suppressed),
        )
    run.observer.booted(report)


def _take_in_tail(run: AgentRun, past: Past) -> None:
    """Take the tail of `.in` as read (R-5): what is dispatched is done with its turn, all else at once (G-26).

    Actions and regenerates that stand before a message are dispatched in their place.
    """
    last = past.in_flight[-1].seq
    recovered = run.state.recovered
    for record in past.commands:
        if record.seq < last:
            places = (n for n, each in enumerate(recovered) if each.seq is not None and each.seq > record.seq)
            recovered.insert(next(places, len(recovered)), read_record(run, record))
    dispatched = {incoming.seq for incoming in recovered}
    for seq in past.in_tail:
        if seq <= last and seq not in dispatched:
            run.in_.progress.done(seq)
    run.in_.skip_to(last)


def _report(past: Past, decision: Recovery | None = None) -> BootReport:
    turns = () if decision is None else tuple(decision.turns)
    kept = {message.id for message in (*turns, *(() if decision is None else decision.chain))}
    return BootReport(
        snapshot_found=past.snapshot_found,
        settled_messages=tuple(past.settled),
        in_flight_users=tuple(past.users),
        partial_assistant=past.partial,
        recovered_turns=turns,
        suppressed=() if decision is None else tuple(user for user in past.users if user.id not in kept),
    )


async def _use_tools(run: AgentRun) -> None:
    """Resolve the tools for converting the past; a failing function is a warning here (B-6)."""
    if run.options.tools is None or not run.state.conversation.chain:
        return
    try:
        tools = await resolve_tools(run, 0, run.parse_client_data(run.env.payload))
    except (LeaseLostError, KeyboardInterrupt):
        raise
    except Exception:  # the user's function
        logger.warning("the tools of agent %r could not be resolved at boot", run.agent.id, exc_info=True)
        return
    run.state.conversation.converter.use_tools(tools)


def _boot_event(run: AgentRun) -> BootEvent[Any]:
    return BootEvent(
        ctx=run.env.context,
        chat_id=run.chat_id,
        run_id=run.run_id,
        chat_access_token=run.env.mint_token(),
        client_data=run.parse_client_data(run.env.payload),
        continuation=run.continuation,
        previous_run_id=run.previous_run_id,
        preloaded=run.preloaded,
    )


async def _first_after_preload(run: AgentRun) -> Incoming | None:
    """Call `on_preload` and wait for the first message, or go on with what was recovered (B-8 to B-11)."""
    recovered = run.state.recovered
    if recovered:
        attach_run_listener(run)
        return recovered.popleft()
    client_data = run.parse_client_data(run.env.payload)
    await run.writing_hook("on_preload", lambda writer: _preload_event(run, client_data, writer))
    options = run.options
    first = await wait_for_incoming(
        run,
        phase="preload",
        waits_for="first message",
        client_data=client_data,
        idle_timeout=options.preload_idle_timeout,
        suspend_timeout=options.preload_timeout if run.state.turn_timeout is None else None,
        skip_suspend=options.exit_after_preload_idle,
    )
    attach_run_listener(run)
    return first


def _preload_event(run: AgentRun, client_data: Any, writer: ChunkWriter) -> PreloadEvent[Any]:
    return PreloadEvent(
        ctx=run.env.context,
        chat_id=run.chat_id,
        run_id=run.run_id,
        chat_access_token=run.env.mint_token(),
        client_data=client_data,
        writer=writer,
    )


async def _first_of_continuation(run: AgentRun) -> Incoming | None:
    """Go on with what was recovered, or wait for the first message (B-13)."""
    client_data = run.parse_client_data(run.env.payload)
    if run.state.recovered:
        return run.state.recovered.popleft()
    return await wait_for_incoming(
        run, phase="continuation", waits_for="next message (continuation)", client_data=client_data
    )
