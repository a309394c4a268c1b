"""Turns of a custom agent: its own code decides when one begins and ends, so the runtime only keeps the account.

A turn begins with the payload that the code takes, and ends with the turn-complete that it writes. What it takes
meanwhile belongs to the same turn. The account feeds the committed cursor (G-26), stops, and observers (X-18).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatagent.agent.completion import write_turn_complete
from chatagent.agent.run import AgentRun, this_run
from chatagent.agent.wire import Incoming, is_stop, stop_reason
from chatagent.errors import ChatContextError
from chatagent.signals import AbortController, AbortSignal

if TYPE_CHECKING:
    from chatagent.agent.state import TurnState
    from chatagent.session.records import Record

__all__ = [
    "StopSignal",
    "TurnCursors",
    "begin_turn",
    "complete_turn",
    "drop_turn",
    "hand_out",
    "leave_turn",
    "let_go_of_handed_out",
    "open_turn",
    "this_custom_run",
]


@dataclass(frozen=True, slots=True)
class TurnCursors:
    """Where both channels stood when a turn was completed."""

    last_event_id: str
    """Number of the turn-complete record on `.out`."""
    session_in_event_id: str | None
    """The committed cursor of `.in`; `None` before any record was worked off."""


def this_custom_run(name: str) -> AgentRun:
    """Return the run of a custom agent that the caller works in.

    Raises:
        ChatContextError: there is none; the runtime itself takes the input of a `chat.agent`.
    """
    run = this_run(name)
    if not run.options.is_custom:
        raise ChatContextError(name, needs="custom agent")
    return run


def begin_turn(run: AgentRun, incoming: Incoming) -> TurnState:
    """Take it that the agent's code works on a payload now; a turn that is not complete goes on with it."""
    turn = run.turn
    if turn is not None and turn.out_seq is None:
        if incoming.seq is not None and incoming.seq != turn.incoming.seq:
            turn.steering.injected_seqs.append(incoming.seq)
        return turn
    leave_turn(run)
    turn = run.turn = run.new_turn(incoming)
    turn.client_data = incoming.payload.metadata
    turn.signal = AbortSignal.any(turn.stop.signal, run.cancel_signal)
    run.out.begin_turn(incoming.seq)
    turn.observed = run.observer.during(turn.work(is_open_ended=True))
    turn.observed.__enter__()
    run.observer.turn_started(turn.number, incoming.seq)
    return turn


def hand_out(run: AgentRun, incoming: Incoming) -> None:
    """Take it that the agent's code was told of a payload: it is worked on now, or behind the turn that is on."""
    turn = run.turn
    if turn is None or turn.out_seq is not None:
        begin_turn(run, incoming)
    elif incoming.seq != turn.incoming.seq:
        run.state.handed_out.append(incoming)


def let_go_of_handed_out(run: AgentRun) -> None:
    """Take what was handed out as dealt with: the agent's code asks for more and has no turn open."""
    while run.state.handed_out:
        run.in_.progress.done(run.state.handed_out.popleft().seq)


def open_turn(run: AgentRun) -> TurnState | None:
    """Return the turn that is on; of a custom agent one begins if none is, with what was handed out if there is any."""
    turn = run.turn
    if not run.options.is_custom or (turn is not None and turn.out_seq is None):
        return turn
    handed_out = run.state.handed_out
    return begin_turn(run, handed_out.popleft() if handed_out else Incoming(run.env.payload, None))


async def complete_turn(run: AgentRun, *, token: str | None) -> TurnCursors:
    """Close the turn that is on, on the wire; what it has taken counts as worked off (N-83)."""
    turn = open_turn(run)
    assert turn is not None
    turn.stopped = turn.stop.signal.aborted and not run.cancelled
    number = await write_turn_complete(run, turn, token=token)
    injected = set(turn.steering.injected_seqs)
    run.state.handed_out = type(run.state.handed_out)(each for each in run.state.handed_out if each.seq not in injected)
    committed = run.in_.progress.committed
    return TurnCursors(str(number), str(committed) if committed >= 0 else None)


def leave_turn(run: AgentRun) -> None:
    """Take it that the agent's code goes on from the turn that it completed last."""
    turn = run.turn
    if turn is None:
        return
    run.turn = None
    run.turn_number += 1
    if turn.out_seq is not None:
        run.state.last_completed_turn = turn.number
        run.observer.turn_settled(turn.report(run.state.total_usage))
    _leave_observed(turn, None)


def drop_turn(run: AgentRun, error: BaseException) -> None:
    """Take it that the agent's code has failed or was cancelled; a turn that is on ends there."""
    if run.turn is not None:
        _leave_observed(run.turn, error)


def _leave_observed(turn: TurnState, error: BaseException | None) -> None:
    observed, turn.observed = turn.observed, None
    if observed is not None:
        observed.__exit__(None if error is None else type(error), error, None)


class StopSignal:
    """A signal that the user's stop aborts: what `chat.create_stop_signal` returns (N-82)."""

    __slots__ = ("_controller", "_run", "_subscription")

    def __init__(self, run: AgentRun) -> None:
        self._run = run
        self._controller = AbortController()
        turn = run.turn
        if turn is not None and turn.out_seq is None and turn.stop.signal.aborted:
            self._controller.abort(turn.stop.signal.reason)
        self._subscription = run.in_.on(self._see)

    @property
    def signal(self) -> AbortSignal:
        """The signal for the turn; a new one after `reset`."""
        return self._controller.signal

    def reset(self) -> None:
        """Take a new signal, for the next turn."""
        self._controller = AbortController()

    def cleanup(self) -> None:
        """Listen to stops no longer. A second call does nothing."""
        self._subscription.off()

    def _see(self, record: Record) -> bool:
        run = self._run
        is_on = run.turn is not None and run.turn.out_seq is None
        if is_stop(record) and (is_on or run.state.handed_out):
            self._controller.abort(stop_reason(record))
        return False
