"""A turn that failed: the client is told; the user's message and what was streamed are kept (rules E-1 to E-9)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from chatagent.agent.answer import reduce_captured
from chatagent.agent.cleanup import cleanup_aborted_parts
from chatagent.agent.completion import failed_turn_event, save_snapshot, write_turn_complete
from chatagent.agent.handover import keep_handover
from chatagent.agent.injected import insert_marks
from chatagent.errors import LeaseLostError, OutOfMemoryError
from chatagent.ui import Error, UIMessage

if TYPE_CHECKING:
    from chatagent.agent.run import AgentRun
    from chatagent.agent.state import TurnState

__all__ = ["fail_turn", "keep_what_is_there"]

logger = logging.getLogger("chatagent")

MAX_OWN_WORDS = 1_000
"""Characters of an exception's own words that go on the wire; some carry whole stacks of frames in them (F-99)."""
MAX_ERROR_TEXT = 100_000
"""Characters of what the agent makes of an exception: a record has a limit, and a turn must be able to fail."""


async def fail_turn(run: AgentRun, turn: TurnState, error: Exception) -> None:
    """Close a turn or an action that an exception ended; the run goes on."""
    turn.error, turn.finish_reason = error, "error"
    turn.stopped = turn.stop.signal.aborted and not run.cancelled
    run.out.write(Error(error_text=_text(run, error)))
    turn.out_seq = await write_turn_complete(run, turn, token=None)
    if turn.is_action:
        return
    keep_handover(run)
    new_ui_messages = await keep_what_is_there(run, turn)
    converter = run.state.conversation.converter
    new_messages = [] if turn.response_committed else await converter.convert_what_can_be(new_ui_messages)
    try:
        await run.hook(
            "on_turn_complete",
            lambda: failed_turn_event(run, turn, error, new_ui_messages=new_ui_messages, new_messages=new_messages),
        )
    except (LeaseLostError, OutOfMemoryError):
        raise
    except Exception:  # the user's hook
        logger.exception("`on_turn_complete` of agent %r failed on a failed turn", run.agent.id)
    await run.state.conversation.apply_override()
    await save_snapshot(run, turn.out_seq)


def _text(run: AgentRun, error: Exception) -> str:
    """Return what the client reads (E-2, G-44): what the agent makes of it, else the exception's own words."""
    if run.options.on_turn_error is None:
        return _own_words(error)
    try:
        text = run.options.on_turn_error(error)
    except Exception:  # the user's function
        logger.exception("`on_turn_error` of agent %r failed", run.agent.id)
        return "An error occurred."
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        return _own_words(error)
    return text[:MAX_ERROR_TEXT]


def _own_words(error: Exception) -> str:
    words = str(error)
    return words if len(words) <= MAX_OWN_WORDS else f"{words[: MAX_OWN_WORDS - 1]}…"


async def keep_what_is_there(run: AgentRun, turn: TurnState) -> list[UIMessage]:
    """Bring the user's message and the partial answer into the chain; returns what is new by that (E-4, E-5)."""
    conversation = run.state.conversation
    new: list[UIMessage] = []
    message = turn.incoming.payload.message
    if message is not None:
        new.append(message)
        if conversation.chain.find(message.id) is None:
            await conversation.take_in([message])
    if not turn.response_committed:
        turn.raw_response = turn.response
        turn.response = await _partial(run, turn)
        injections, injected = turn.steering.take_injections()
        if turn.response is None:
            await conversation.take_in(injected)
        else:
            turn.response = insert_marks(turn.response, injections, turn.steps_begun)
            await conversation.take_in([*injected, turn.response])
        new += injected if turn.response is None else [*injected, turn.response]
    return new


async def _partial(run: AgentRun, turn: TurnState) -> UIMessage | None:
    """Return what is left of the answer, cleaned; a fragment never replaces a finished message (F-43)."""
    partial = turn.response
    if partial is None:
        partial = reduce_captured(turn)
        if partial is not None and run.state.conversation.chain.find(partial.id) is not None:
            return None
    if partial is None:
        return None
    partial = cleanup_aborted_parts(partial)
    try:
        await run.state.conversation.converter.convert([partial])
    except Exception:  # a tool's `to_model_output` is user code
        logger.warning("the partial answer of a failed turn cannot be shown to the model; it is dropped", exc_info=True)
        return None
    parts, turn.response_parts = (*partial.parts, *turn.response_parts), []
    return partial.model_copy(update={"id": partial.id or run.env.new_id(), "parts": parts})
