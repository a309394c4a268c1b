"""Where the next payload comes from, and what happens to input that comes while a turn is on.

The order is: turns that the boot recovered, payloads that came meanwhile, then a wait, warm at first and suspended
after the idle time (rules T-16, T-60 to T-63). A `close` ends the run wherever it is found (G-20).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from chatagent.agent.events import ChatResumeEvent, ChatSuspendEvent, SuspendPhase
from chatagent.agent.steering import hand_back, is_repeated, take_pending
from chatagent.agent.wire import is_handover, is_message, is_stop, read_incoming, stop_reason
from chatagent.agent.work import WaitWork
from chatagent.errors import LeaseLostError, OutOfMemoryError

if TYPE_CHECKING:
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState
    from chatagent.agent.wire import Incoming
    from chatagent.agent.work import WaitsFor
    from chatagent.session.records import Record

__all__ = ["MidTurnListener", "attach_run_listener", "next_incoming", "read_record", "wait_for_incoming"]

logger = logging.getLogger("chatagent")


def attach_run_listener(run: AgentRun) -> None:
    """Take stops for the turn that is on, and drop what nobody of this run will want (C-112, C-41)."""

    def on_record(record: Record) -> bool:
        if is_stop(record):
            if run.turn is not None:
                run.turn.stop.abort(stop_reason(record))
        elif is_message(record):
            if not is_repeated(run, record):
                return False
        elif is_handover(record):
            if run.state.awaits_handover:
                return False
        else:
            logger.warning("session %r: record %s of `.in` has no known kind", run.chat_id, record.seq)
        run.in_.progress.done(record.seq)
        return True

    run.in_.on(on_record)


class MidTurnListener:
    """Keeps what comes while a turn is on: each payload becomes a turn of its own, in order (T-16, F-4).

    An agent with `pending_messages` may take messages into the turn that is on instead (N-70).
    """

    __slots__ = ("_run", "_subscription")

    def __init__(self, run: AgentRun) -> None:
        self._run = run
        self._subscription: Any = None

    def attach(self) -> None:
        """Begin to listen; what the channel holds already is taken at once."""
        self._subscription = self._run.in_.on(self._take)

    def off(self) -> None:
        """Stop listening: later input stays on the channel. A second call does nothing (T-64)."""
        if self._subscription is None:
            return
        self._subscription.off()
        self._subscription = None
        if self._run.turn is not None:
            hand_back(self._run, self._run.turn)

    def _take(self, record: Record) -> bool:
        run = self._run
        if not is_message(record) or is_repeated(run, record):
            return False
        incoming = read_record(run, record)
        if run.turn is None or not take_pending(run, run.turn, incoming):
            run.state.buffered.append(incoming)
        return True


def read_record(run: AgentRun, record: Record) -> Incoming:
    """Read the payload of a `message` record by the rules of this run's agent."""
    return read_incoming(
        record,
        chat_id=run.chat_id,
        new_id=run.env.new_id,
        allow_system=run.options.allow_client_system_messages,
    )


async def next_incoming(run: AgentRun, turn: TurnState) -> Incoming | None:
    """Return the next payload; `None` if the run is to end (T-60 to T-63, E-8)."""
    state = run.state
    is_last = state.upgrade_requested or state.end_run_requested
    if is_last and turn.error is not None:
        return None
    if state.recovered:
        return state.recovered.popleft()
    if state.buffered:
        return _unless_close(run, state.buffered.popleft())
    if is_last:
        return None
    if turn.error is not None:
        return await wait_for_incoming(
            run, phase=None, waits_for="next message (after error)", client_data=turn.client_data
        )
    return await wait_for_incoming(run, phase="turn", client_data=turn.client_data)


async def wait_for_incoming(
    run: AgentRun,
    *,
    phase: SuspendPhase | None,
    client_data: Any,
    waits_for: WaitsFor = "next message",
    idle_timeout: float | None = None,
    suspend_timeout: float | None = None,
    skip_suspend: bool = False,
) -> Incoming | None:
    """Wait for a payload, warm and then suspended (1.12).

    Args:
        run: who waits.
        phase: which hooks to call around the suspension; `None` calls none.
        client_data: what those hooks see.
        waits_for: what the wait is called for observers.
        idle_timeout: seconds to wait warm; the run's own by default.
        suspend_timeout: seconds to wait suspended; the run's own by default.
        skip_suspend: end the run after the idle time.

    Returns:
        The payload; `None` if none came in time, the run was cancelled, or the payload asks to close.
    """

    async def suspend() -> None:
        await _call_phase_hook(run, "on_chat_suspend", ChatSuspendEvent, phase, client_data)
        run.observer.waiting(suspended=True)

    async def resume() -> None:
        await _call_phase_hook(run, "on_chat_resume", ChatResumeEvent, phase, client_data)

    with run.observer.during(WaitWork(waits_for=waits_for)):
        run.observer.waiting(suspended=False)
        result = await run.in_.wait_with_idle_timeout(
            run.idle_timeout if idle_timeout is None else idle_timeout,
            run.turn_timeout if suspend_timeout is None else suspend_timeout,
            skip_suspend=skip_suspend,
            on_suspend=suspend,
            on_resume=resume,
            matches=lambda record: is_message(record) and not is_repeated(run, record),
        )
    if result.output is None:
        return None
    return _unless_close(run, read_record(run, result.output))


def _unless_close(run: AgentRun, incoming: Incoming) -> Incoming | None:
    if incoming.payload.trigger == "close":
        run.in_.progress.done(incoming.seq)
        return None
    return incoming


async def _call_phase_hook(
    run: AgentRun, name: str, event_type: Any, phase: SuspendPhase | None, client_data: Any
) -> None:
    """Call a suspend or resume hook; between turns its failure is logged and changes nothing (G-29)."""
    if phase is None:
        return
    conversation = run.state.conversation
    of_turn: dict[str, Any] = {}
    if phase == "turn":
        of_turn = {
            "turn": run.state.last_completed_turn,
            "messages": list(conversation.model),
            "ui_messages": conversation.chain.to_list(),
        }

    def make_event() -> Any:
        return event_type(
            phase=phase, ctx=run.env.context, chat_id=run.chat_id, run_id=run.run_id, client_data=client_data, **of_turn
        )

    try:
        await run.hook(name, make_event)
    except (LeaseLostError, OutOfMemoryError):
        raise
    except Exception:  # the user's hook
        if phase != "turn":
            raise
        logger.exception("`%s` of agent %r failed; the run goes on", name, run.agent.id)
