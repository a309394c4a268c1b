"""The handover of a head start, for code that runs a loop of its own (N-86, C-42)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.agent.custom_turns import begin_turn, this_custom_run
from chatagent.agent.failure import fail_turn
from chatagent.agent.handover import receive_handover
from chatagent.clock import Duration, to_seconds

if TYPE_CHECKING:
    from chatagent.agent.handover import HandoverSignal
    from chatagent.agent.wire import WirePayload

__all__ = ["take_handover"]


async def take_handover(
    payload: WirePayload,
    *,
    idle_timeout: float | None,
    timeout: Duration | None,  # noqa: ASYNC109 - on the run's clock
) -> HandoverSignal | None:
    """Wait for the signal and begin the turn that it makes; see `chat.wait_for_handover`."""
    run = this_custom_run("chat.wait_for_handover")
    if payload.trigger != "handover-prepare":
        return None
    seconds = None if timeout is None else to_seconds(timeout, argument="timeout")
    incoming, signal = await receive_handover(run, payload, idle_timeout=idle_timeout, timeout=seconds)
    run.state.awaits_handover = False
    if incoming is not None:
        turn = begin_turn(run, incoming)
        if incoming.failure is not None:
            await fail_turn(run, turn, incoming.failure)
    return signal
