"""`chat.messages`: what clients send, payload by payload, for code that runs a loop of its own (C-40).

Only message records are taken; records of other kinds stay where they are (G-27). A `close` ends every wait (G-20), and
a payload that cannot be read is answered with its error and handed to nobody.
"""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent.custom_turns import begin_turn, hand_out, leave_turn, let_go_of_handed_out, this_custom_run
from chatagent.agent.failure import fail_turn
from chatagent.agent.inputs import read_record
from chatagent.agent.run import this_run
from chatagent.agent.steering import is_repeated
from chatagent.agent.wire import WirePayload, is_message
from chatagent.agent.work import WaitWork
from chatagent.clock import Duration, to_seconds
from chatagent.ui import to_wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from chatagent.agent.run import AgentRun
    from chatagent.errors import WaitTimeoutError
    from chatagent.session.channel import Subscription, WaitResult
    from chatagent.session.records import Record
    from chatagent.session.store import AppendAck

__all__ = ["MessageResult", "Messages"]

logger = logging.getLogger("chatagent")


@dataclass(frozen=True, slots=True)
class MessageResult:
    """How a wait for a payload ended."""

    ok: bool
    output: WirePayload | None = None
    """The payload, if one came."""
    error: WaitTimeoutError | None = None
    """Why none came; `None` if the session was closed, or the run is to end."""


class Messages:
    """The functions behind `chat.messages`. All but `send` need a custom agent."""

    __slots__ = ()

    def on(self, handler: Callable[[WirePayload], object]) -> Subscription:
        """Call a handler with each payload that nobody waits for; those that are there already first.

        Each counts as a turn of its own, behind the one that is on.

        Args:
            handler: sync or async; what it raises is logged.

        Raises:
            ChatContextError: there is no run of a custom agent.
        """
        run = this_custom_run("chat.messages.on")

        def on_record(record: Record) -> bool:
            if not _is_new_message(run, record):
                return False
            incoming = read_record(run, record)
            if incoming.failure is not None or incoming.payload.trigger == "close":
                return False
            hand_out(run, incoming)
            _call_handler(run, handler, incoming.payload)
            return True

        return run.in_.on(on_record)

    async def once(self, timeout: Duration | None = None) -> MessageResult:  # noqa: ASYNC109 - on the run's clock
        """Take the next payload, waiting warm.

        Args:
            timeout: how long to wait; without it there is no end.

        Raises:
            ChatContextError: there is no run of a custom agent.
        """
        run, seconds = this_custom_run("chat.messages.once"), _seconds(timeout)
        return await _take(run, lambda matches: run.in_.once(seconds, matches=matches, label="a message"))

    async def wait(self, timeout: Duration | None = None) -> MessageResult:  # noqa: ASYNC109 - on the run's clock
        """Take the next payload, waiting suspended.

        Args:
            timeout: how long to wait; without it there is no end.

        Raises:
            ChatContextError: there is no run of a custom agent.
        """
        run, seconds = this_custom_run("chat.messages.wait"), _seconds(timeout)

        async def wait(matches: Callable[[Record], bool]) -> WaitResult:
            if run.in_.peek(matches) is None:
                run.observer.waiting(suspended=True)
            return await run.in_.wait(seconds, matches=matches, label="a message (suspended)")

        return await _take(run, wait)

    async def wait_with_idle_timeout(
        self,
        idle_timeout: float,
        timeout: Duration | None = None,  # noqa: ASYNC109 - on the run's clock
        *,
        skip_suspend: bool = False,
        on_suspend: Callable[[], Awaitable[None] | None] | None = None,
        on_resume: Callable[[], Awaitable[None] | None] | None = None,
    ) -> MessageResult:
        """Take the next payload, waiting warm at first and suspended then.

        Args:
            idle_timeout: seconds to wait warm; `chat.set_idle_timeout` overrides it, 0 suspends at once.
            timeout: how long to wait suspended; without it there is no end.
            skip_suspend: give up after the idle time.
            on_suspend: called before the run suspends.
            on_resume: called after a payload has ended the suspension.

        Raises:
            ChatContextError: there is no run of a custom agent.
        """
        run, seconds = this_custom_run("chat.messages.wait_with_idle_timeout"), _seconds(timeout)
        idle = idle_timeout if run.state.idle_timeout is None else run.state.idle_timeout

        async def suspend() -> None:
            await _call(on_suspend)
            run.observer.waiting(suspended=True)

        async def wait(matches: Callable[[Record], bool]) -> WaitResult:
            return await run.in_.wait_with_idle_timeout(
                idle,
                seconds if run.state.turn_timeout is None else run.state.turn_timeout,
                skip_suspend=skip_suspend,
                on_suspend=suspend,
                on_resume=lambda: _call(on_resume),
                matches=matches,
            )

        return await _take(run, wait)

    def peek(self) -> WirePayload | None:
        """Return the next payload if it is there already, and leave it there; `None` for none, and for a `close`.

        Raises:
            ChatContextError: there is no run of a custom agent.
        """
        run = this_custom_run("chat.messages.peek")
        record = run.in_.peek(lambda each: _is_new_message(run, each))
        incoming = None if record is None else read_record(run, record)
        is_close = incoming is None or incoming.payload.trigger == "close"
        return None if incoming is None or is_close or incoming.failure is not None else incoming.payload

    async def send(self, payload: WirePayload | Mapping[str, Any]) -> AppendAck:
        """Put a payload on the session's `.in`, as a client does.

        Raises:
            ChatContextError: there is no run.
        """
        run = this_run("chat.messages.send")
        wire = to_wire(payload) if isinstance(payload, WirePayload) else dict(payload)
        return await run.in_.append({"kind": "message", "payload": wire})


async def _take(run: AgentRun, wait: Callable[[Callable[[Record], bool]], Awaitable[WaitResult]]) -> MessageResult:
    """Wait for a payload that can be handed out, and begin its turn."""

    def matches(record: Record) -> bool:
        return _is_new_message(run, record)

    while True:
        if run.turn is None or run.turn.out_seq is not None:
            leave_turn(run)
            let_go_of_handed_out(run)
        if run.state.is_closed or (_is_to_end(run) and run.in_.peek(matches) is None):
            return MessageResult(ok=False)
        with run.observer.during(WaitWork(waits_for="next message")):
            run.observer.waiting(suspended=False)
            result = await wait(matches)
        if result.output is None:
            return MessageResult(ok=False, error=result.error)
        incoming = read_record(run, result.output)
        if incoming.payload.trigger == "close":
            run.in_.progress.done(incoming.seq)
            run.state.is_closed = True
            return MessageResult(ok=False)
        turn = begin_turn(run, incoming)
        if incoming.failure is None:
            return MessageResult(ok=True, output=incoming.payload)
        await fail_turn(run, turn, incoming.failure)


def _is_to_end(run: AgentRun) -> bool:
    return run.state.end_run_requested or run.state.upgrade_requested


def _is_new_message(run: AgentRun, record: Record) -> bool:
    return is_message(record) and not is_repeated(run, record)


def _call_handler(run: AgentRun, handler: Callable[[WirePayload], object], payload: WirePayload) -> None:
    async def finish(work: Awaitable[object]) -> None:
        try:
            await work
        except Exception:  # the user's handler
            logger.exception("a handler of chat.messages failed")

    try:
        outcome = handler(payload)
    except Exception:  # the user's handler
        logger.exception("a handler of chat.messages failed")
        return
    if inspect.isawaitable(outcome):
        work = cast("Awaitable[object]", outcome)
        run.tasks.start(lambda: finish(work), name="a handler of chat.messages")


async def _call(fn: Callable[[], Awaitable[None] | None] | None) -> None:
    outcome = None if fn is None else fn()
    if outcome is not None:
        await outcome


def _seconds(timeout: Duration | None) -> float | None:
    return None if timeout is None else to_seconds(timeout, argument="timeout")
