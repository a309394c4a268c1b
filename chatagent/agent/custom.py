"""Custom agents: code of one's own in the place of the turn loop, on the same session, clock and tasks (N-80, N-81).

No hooks, no chain, no snapshot and no recovery: the code takes payloads from `chat.messages` or `chat.create_session`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatagent.agent.custom_turns import begin_turn, drop_turn, leave_turn
from chatagent.agent.inputs import attach_run_listener
from chatagent.agent.observer import BootReport
from chatagent.agent.replay import committed_cursor, done_ahead, read_all
from chatagent.agent.wire import Incoming

if TYPE_CHECKING:
    from chatagent.agent.run import AgentRun
    from chatagent.agent.wire import WirePayload
    from chatagent.signals import AbortSignal
    from chatagent.task import RunContext

__all__ = ["CustomRunContext", "run_custom"]

logger = logging.getLogger("chatagent")


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomRunContext:
    """What the function of a custom agent receives beside the boot payload."""

    ctx: RunContext
    """What hooks see as `event.ctx`."""
    signal: AbortSignal
    """Aborted when the run is cancelled."""


async def run_custom(run: AgentRun) -> None:
    """Run a custom agent's function from its boot to its end.

    Raises:
        Exception: what the function raised.
    """
    payload = run.env.payload
    await seed_in_cursor(run)
    run.state.awaits_handover = payload.trigger == "handover-prepare"
    attach_run_listener(run)
    run.observer.booted(BootReport())
    if payload.trigger == "close":
        return
    if payload.message is not None or payload.trigger in ("regenerate-message", "action"):
        begin_turn(run, Incoming(payload, None))
    context = CustomRunContext(ctx=run.env.context, signal=run.cancel_signal)

    def call(boot_payload: WirePayload) -> Any:
        return run.agent.run(boot_payload, context)

    try:
        await run.call("run", call, payload)
    except BaseException as exc:
        drop_turn(run, exc)
        raise
    leave_turn(run)


async def seed_in_cursor(run: AgentRun) -> None:
    """Begin `.in` behind what earlier runs have answered, as `.out` tells; unreadable, it begins at its start."""
    if run.in_.last_dispatched_seq_num is not None:
        return
    try:
        records = await read_all(run.env.store, run.chat_id, "out")
    except Exception:  # any store
        logger.warning("`.out` of session %r could not be read for the cursor of `.in`", run.chat_id, exc_info=True)
        return
    run.in_.go_on_after(committed_cursor(records), done_ahead(records))
