"""`ChatAgentHarness`: an agent's real run, with its ends tied off in memory.

The turn loop, the hooks, the stores and the replay are the runtime's own; only the clock, the ids and the client's side
are the harness's. A driver call returns when its turn has settled, raises when that can never happen, and never hangs.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import anyio

from chatagent.agent import ChatAgent, parse_client_message
from chatagent.errors import (
    AgentRunEndedError,
    HarnessClosedError,
    HarnessModeError,
    HarnessStateError,
    InvalidArgumentError,
    InvalidMessageError,
    RecordTooLargeError,
)
from chatagent.ui import TextUIPart, UIMessage, to_wire
from chatagent.ui.js_json import format_json
from chatagent.waiting import Ledger
from chatagent_test.harness.blocking import levels_to_the_test
from chatagent_test.harness.driven_run import DrivenRun
from chatagent_test.harness.driver import Driver
from chatagent_test.harness.failures import Failures
from chatagent_test.harness.given import in_words_of_the_driver, model_messages
from chatagent_test.harness.ids import CountedIds
from chatagent_test.harness.inspection import Inspection
from chatagent_test.harness.platform import Platform
from chatagent_test.harness.run_control import RunControl
from chatagent_test.harness.seeds import Seeds
from chatagent_test.harness.turn import PendingTurn, Turn
from chatagent_test.harness.waits import Waits
from chatagent_test.harness.watch import RunWatch, Sent
from chatagent_test.harness.where import describe_past, describe_run, innermost_user_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from chatagent.agent import Telemetry
    from chatagent.clock import Clock
    from chatagent.ids import IdGenerator
    from chatagent.session import Snapshot
    from chatagent.task import LocalValues
    from chatagent.ui import Chunk
    from chatagent_test.harness.run_network import RunNetwork

__all__ = ["ChatAgentHarness", "Mode", "Until"]

_ELSEWHERE = "the harness lives in the event loop in which it was first used, and that is not the one that runs here"

Until = Literal["idle", "turn_complete", "sent"]
"""What a driver waits for: all of the turn done; its turn-complete record written; nothing."""

Mode = Literal["preload", "submit-message", "continuation", "handover-prepare"]
"""How the run boots."""


class ChatAgentHarness(Waits, RunControl, Inspection):
    """Drives one agent through a conversation. Made by `mock_chat_agent`; use it as `async with`."""

    def __init__(
        self,
        agent: ChatAgent[Any],
        *,
        boot_payload: Mapping[str, Any],
        mode: Mode,
        client_data: Any,
        task_context: Mapping[str, Any] | None,
        setup_locals: Callable[[LocalValues], Any] | None,
        clock: Clock,
        auto_advance: bool,
        ids: IdGenerator | None,
        wait_timeout: float,
        network: RunNetwork,
        strict: bool,
        telemetry: Telemetry | Literal["agent"] | None = None,
    ) -> None:
        self.chat_id: str = boot_payload["chatId"]
        """The conversation's id."""
        self.clock = clock
        """The clock of everything in this harness."""
        self.wait_timeout = wait_timeout
        """Real seconds after which a driver gives up."""
        self._agent, self._mode, self._client_data = agent, mode, client_data
        self._boot_payload = dict(boot_payload)
        self._counted = CountedIds()
        self._counted.take(boot_payload.get("headStartMessages") or ())
        self._new_id: IdGenerator = ids or self._counted
        self._watch = RunWatch()
        self._driver = Driver(
            Ledger(),
            self._watch,
            clock,
            auto_advance=auto_advance,
            wait_timeout=wait_timeout,
            describe=self._describe,
            afterwards=self._watch.blocking.warn,
        )
        self._platform = Platform(agent, self.chat_id, clock, self._new_id, self._watch, telemetry)
        self._seeds = Seeds(
            agent,
            reads_past=_reads_past(boot_payload, task_context),
            strict=strict,
            new_id=self._new_id,
            taken=self._counted.take,
        )
        self._task_context = task_context
        self._run_number = 1
        self._new_run = partial(
            _new_run,
            self._platform,
            self._driver,
            setup_locals=setup_locals,
            strict=strict,
            new_id=self._new_id,
            network=network,
        )
        self._run = DrivenRun(
            self._platform,
            self._driver,
            task_context=task_context,
            setup_locals=setup_locals,
            strict=strict,
            seeds=self._seeds,
            network=network,
        )
        self._failures = Failures(self._run, self._watch, network)
        self._sent: list[Sent] = []
        self._state: Literal["open", "closing", "closed"] = "open"

    def _describe(self) -> str:
        run = self._run
        return describe_run(self._watch, self._driver.ledger, self.clock, run.task, run.other_tasks)

    # --- seeds ---

    def seed_snapshot(self, snapshot: Snapshot | Mapping[str, Any] | None) -> None:
        """Let the boot find this snapshot.

        Raises:
            HarnessStateError: the run has booted, or this boot reads no snapshot.
        """
        self._check_not_started("seed")
        self._seeds.seed_snapshot(snapshot)

    def seed_session_out_tail(self, chunks: Sequence[Chunk | Mapping[str, Any]] | None = None) -> None:
        """Let the boot find these chunks on `.out`; an answer that is not finished counts as cut off.

        Raises:
            HarnessStateError: the run has booted, or this boot replays nothing.
        """
        self._check_not_started("seed")
        self._seeds.seed_out_tail(chunks)

    def seed_session_out_partial(
        self, message: UIMessage | Mapping[str, Any] | None, *, raw: UIMessage | Mapping[str, Any] | None = None
    ) -> None:
        """Let the boot find this answer cut off.

        Args:
            message: the answer as it is after clean-up.
            raw: the answer as it was streamed; the same by default.

        Raises:
            HarnessStateError: the run has booted, or this boot replays nothing.
        """
        self._check_not_started("seed")
        self._seeds.seed_partial(message, raw)

    def seed_session_in_tail(self, messages: Sequence[UIMessage | Mapping[str, Any]]) -> None:
        """Let the boot find these user messages unanswered on `.in`.

        Raises:
            HarnessStateError: the run has booted, or this boot replays nothing.
        """
        self._check_not_started("seed")
        self._seeds.seed_in_tail(messages)

    # --- drivers ---

    async def start(self) -> None:
        """Boot the run, and wait until it waits for input, works on a turn, or has ended.

        In mode `submit-message` there is nothing to boot before the first message (G-5); then this does nothing.

        Raises:
            BaseException: what ended the run while it booted.
        """
        self._check_open()
        if self._mode == "submit-message" and not self._run.started:
            return
        self._boot()
        watch = self._watch
        await self._driver.until(
            lambda: watch.is_waiting or bool(watch.turns) or watch.ended, "start: the run has not finished booting"
        )
        self._failures.raise_run_error()
        self._check_open()  # somebody else may have closed it meanwhile

    async def send_message(self, message: str | UIMessage | Mapping[str, Any], *, until: Until = "idle") -> Turn:
        """Send one user message and wait until its turn has settled.

        Args:
            message: the user's message; a string becomes one text part under a generated id.
            until: the moment to wait for; `"idle"` is after the turn's last hook and its snapshot.

        Returns:
            The turn, its chunks in the order in which the client would have seen them.

        Raises:
            InvalidMessageError: it is no message; nothing was queued.
            HarnessClosedError: the harness is closed; nothing was queued.
            AgentRunEndedError: the run is over, so nobody answers; its cause is the run's own error.
            WaitTimeoutError: not settled within `wait_timeout` real seconds; the turn still runs.
        """
        return await self._send(self._submit(message), until, "send_message")

    def begin_message(self, message: str | UIMessage | Mapping[str, Any]) -> PendingTurn:
        """Send one user message and go on; `await` what is returned to get the turn.

        Args:
            message: the user's message; a string becomes one text part under a generated id.

        Raises:
            InvalidMessageError: it is no message; nothing was queued.
            HarnessClosedError: the harness is closed; nothing was queued.
            AgentRunEndedError: the run is over, so nobody answers.
        """
        sent = Sent()
        self._post(self._submit(message), sent)
        return PendingTurn(lambda: self._await_turn(sent, "idle", "begin_message"))

    async def send_regenerate(self, *, until: Until = "idle") -> Turn:
        """Ask for the last answer once more; raises what `send_message` raises."""
        return await self._send(self._payload("regenerate-message"), until, "send_regenerate")

    async def send_action(self, action: Any, *, until: Until = "idle") -> Turn:
        """Send an action, any JSON value; raises what `send_message` raises.

        Returns:
            What was written for it; an action is no turn, so `hooks` holds only what it called.
        """
        return await self._send({**self._payload("action"), "action": action}, until, "send_action")

    async def send_handover(
        self,
        *,
        partial_assistant_message: Sequence[Mapping[str, Any]],
        is_final: bool = False,
        message_id: str | None = None,
        until: Until = "idle",
    ) -> Turn:
        """Hand a first step over to the waiting run, and wait until its turn has settled.

        Args:
            partial_assistant_message: the step, as model messages in wire form.
            is_final: whether it is the whole answer.
            message_id: the id of the answer's message.
            until: the moment to wait for.

        Raises:
            HarnessModeError: this run was not booted in mode `handover-prepare`; nothing was queued.
            HarnessStateError: the run has its head start; nothing was queued.
            InvalidArgumentError: the step is no list of messages, or JSON cannot hold it; nothing was queued.
        """
        self._check_handover("send_handover")
        data: dict[str, Any] = {
            "kind": "handover",
            "partialAssistantMessage": model_messages(partial_assistant_message),
            "isFinal": is_final,
        }
        if message_id is not None:
            data["messageId"] = message_id
        sent = Sent()
        self._sent.append(sent)
        self._put(data, sent)
        return await self._await_turn(sent, until, "send_handover")

    async def send_handover_skip(self) -> None:
        """Tell the waiting run that the head start gave up, and wait until it has ended.

        Raises:
            HarnessModeError: this run was not booted in mode `handover-prepare`; nothing was queued.
            HarnessStateError: the run has its head start; nothing was queued.
        """
        self._check_handover("send_handover_skip")
        self._put({"kind": "handover-skip"}, Sent())
        await self.wait_ended()

    async def send_head_start(self, *, messages: Sequence[UIMessage | Mapping[str, Any]]) -> None:
        """Boot the run in mode `handover-prepare` with this history; `send_handover` follows.

        Raises:
            HarnessModeError: the run has started; the history of a head start is given at the boot.
        """
        self._check_open()
        if self._run.started:
            raise HarnessModeError(
                "send_head_start: the run has started; a head start boots it, so call this first, "
                f"or make the harness with mode='handover-prepare' and head_start_messages=[…]{self._so_far}"
            )
        self._mode = "handover-prepare"
        history = [to_wire(message) for message in messages]
        self._boot_payload |= {"trigger": "handover-prepare", "headStartMessages": history}
        await self.start()

    async def send_stop(self, message: str | None = None) -> None:
        """Ask to stop the turn that is on, and return once the run has heard it; the turn ends by itself.

        Args:
            message: the reason that the run's signals show; `stopped` without one.
        """
        self._check_open()
        self._check_running()
        if self._mode == "submit-message" and not self._run.started:
            raise HarnessModeError("send_stop: in mode submit-message the run boots with its first message; send that")
        data: dict[str, Any] = {"kind": "stop"} if message is None else {"kind": "stop", "message": message}
        sent = Sent()
        self._put(data, sent)
        if self._driver.ledger.has_current_task():
            return  # a hook or tool that stops its own turn: the run hears it while that goes on
        await self._driver.until(
            lambda: self._watch.ended or sent.refusal is not None or self._has_received(sent),
            "send_stop: the run has not heard it",
            move_time=False,
        )
        if sent.refusal is not None:
            raise sent.refusal
        if not self._has_received(sent):
            self._raise_ended("send_stop")

    async def close(self, *, raise_errors: bool = False) -> None:
        """End the run and wait for its end. May be called twice, and after the run has ended.

        A run that waits takes the close record and returns. One that works sees its signals aborted with reason `close`
        and may finish what it does; after 5 seconds on its clock it is cancelled.

        Args:
            raise_errors: raise what ended the run or failed a turn, unless a driver has raised it or returned the turn.

        Raises:
            HarnessStateError: the run itself calls it, in a hook or a tool.
        """
        if self._is_elsewhere():
            self._close_elsewhere(raise_errors=raise_errors)
            return
        if self._driver.ledger.has_current_task():
            raise HarnessStateError(
                "close: the run cannot wait for its own end; call it in the test, or end the run with chat.end_run()"
            )
        if self._state == "open":
            self._state = "closing"
            # Whoever is being cancelled ends its run all the same: nobody else would.
            with anyio.CancelScope(shield=True):
                await self._end()
        elif self._run.task is not None:
            await self._run.task.join()
        if raise_errors:
            self._failures.raise_untold()

    def check_abandoned(self) -> None:
        """Look at a harness whose event loop has ended, in a fixture or a test without one.

        Raises:
            AssertionError: its run is still on, and nobody can end it any more.
            BaseException: what ended the run or failed a turn, if no driver has told.
        """
        task = self._run.task
        if task is None or self._state == "closed":
            return
        if not task.done:
            where = innermost_user_frame(task)
            msg = f"the harness was not closed before its event loop ended; {task.name} stands at {where}"
            raise AssertionError(f"{msg}; use `async with` where it is used")
        self._failures.raise_untold()

    async def __aenter__(self) -> Self:
        """Begin the run; its boot goes on while the block begins."""
        self._begin_waiting()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the harness; a failure that no driver has told is raised, unless the block itself raised."""
        await self.close(raise_errors=exc is None)

    # --- sending ---

    def _submit(self, message: str | UIMessage | Mapping[str, Any]) -> dict[str, Any]:
        self._check_sendable()
        return {**self._payload("submit-message"), "message": self._client_message(message)}

    def _client_message(self, message: str | UIMessage | Mapping[str, Any]) -> UIMessage:
        if isinstance(message, str):
            return UIMessage(id=self._new_id(), role="user", parts=[TextUIPart(text=message)])
        if isinstance(message, list | tuple):
            raise TypeError("a send takes one message; send several one after the other")
        allow_system = self._agent.options.allow_client_system_messages
        parsed = parse_client_message(message, new_id=self._new_id, allow_system=allow_system)
        try:
            format_json(to_wire(parsed))
        except InvalidArgumentError as error:
            field = error.argument.replace("value", "message", 1)
            raise InvalidMessageError(field=field, value=error.value, problem="no client can send it") from error
        self._counted.take((parsed,))
        return parsed

    def _payload(self, trigger: str) -> dict[str, Any]:
        payload: dict[str, Any] = {"chatId": self.chat_id, "trigger": trigger}
        return payload if self._client_data is None else {**payload, "metadata": self._client_data}

    async def _send(self, payload: dict[str, Any], until: Until, name: str) -> Turn:
        if until not in get_args(Until):
            raise InvalidArgumentError(argument="until", value=until, problem=f"one of {', '.join(get_args(Until))}")
        if until != "sent" and self._driver.ledger.has_current_task():
            problem = "the run would wait for itself, so nothing was sent; call it in the test, or `begin_message` here"
            raise HarnessStateError(f"{name}: {problem}{self._so_far}")
        sent = Sent()
        self._post(payload, sent)
        return await self._await_turn(sent, until, name)

    def _post(self, payload: dict[str, Any], sent: Sent) -> None:
        """Put a payload on its way: as the boot payload's message, or as a record once the run has read the past."""
        self._check_sendable()
        if not self._run.started and self._mode == "submit-message":
            message = payload.get("message")
            if not isinstance(message, UIMessage):
                raise HarnessModeError(
                    "in mode submit-message the run boots with its first message; send that before anything else"
                )
            self._sent.append(sent)
            sent.put(None, self._watch)
            booted = {**self._boot_payload, "message": to_wire(message)}
            self._boot_of_run = booted, self._task_context or {}
            self._run.start(booted)
            return
        self._boot()
        if isinstance(payload.get("message"), UIMessage):
            payload = {**payload, "message": to_wire(payload["message"])}
        self._sent.append(sent)
        self._put({"kind": "message", "payload": payload}, sent)

    def _put(self, data: Mapping[str, Any], sent: Sent) -> None:
        """Put a record on `.in`, as soon as the run has read the past.

        Raises:
            InvalidArgumentError: JSON cannot hold it; nothing was queued.
            RecordTooLargeError: it is above a limit; nothing was queued.
        """
        self._boot()
        self._run.when_booted(partial(self._append, data, sent))
        if sent.refusal is not None:
            raise sent.refusal

    def _has_received(self, sent: Sent) -> bool:
        return sent.seq is not None and self._run.has_received(sent.seq)

    def _append(self, data: Mapping[str, Any], sent: Sent) -> None:
        try:
            sent.put(self._platform.send(data), self._watch)
        except InvalidArgumentError as exc:
            sent.refusal = in_words_of_the_driver(exc)
        except RecordTooLargeError as exc:
            sent.refusal = exc

    async def _await_turn(self, sent: Sent, until: Until, name: str) -> Turn:
        watch = self._watch
        if self._is_elsewhere():
            raise HarnessStateError(f"{name}: {_ELSEWHERE}; await the turn where it was begun")
        if until == "sent":
            await self._driver.until(lambda: sent.was_tried or watch.ended, f"{name}: the run has not booted")
            if sent.refusal is not None:
                raise sent.refusal
            return Turn(None, ())
        settled = until == "idle"
        await self._driver.until(
            lambda: sent.is_over(watch, self._run, settled=settled) or watch.ended, f"{name}: the turn goes on"
        )
        if sent.refusal is not None:
            raise sent.refusal
        if sent.died and not watch.ended and sent.turn_in(watch) is None:
            problem = "the run died while it answered; what it had streamed stands in the history"
            raise AgentRunEndedError(f"{name}: {problem}\n{describe_past(watch)}")
        if sent.is_dropped(watch, self._run):
            problem = "no turn comes of it: the run has taken in a message with this id before"
            raise HarnessStateError(f"{name}: {problem}\n{describe_past(watch)}")
        if sent.is_abandoned(watch):
            problem = "the agent's code went on without completing the turn: call chat.write_turn_complete(), or"
            raise HarnessStateError(f"{name}: {problem} `complete` or `done` of the turn\n{describe_past(watch)}")
        if not sent.is_answered(watch, settled=settled):
            self._raise_ended(name)
        seen = sent.turn_in(watch)
        assert seen is not None
        if settled and seen.was_cut_off:
            seen.told = True  # what ended the run came from behind the turn-complete; how the turn went is its context
            self._failures.raise_run_error()
        self._failures.tell(seen)
        end = seen.settled_at if settled else seen.complete_at
        return Turn(seen, watch.records[sent.window_start(watch, seen) : end])

    async def _end(self) -> None:
        try:
            await self._run.end(wait_timeout=self.wait_timeout)
        finally:
            self._state = "closed"
            self._driver.let_go()
            if self._session is not None:
                await self._session.aclose()
            await self._platform.close()
            self._watch.stir()
            self._watch.blocking.warn()

    def _close_elsewhere(self, *, raise_errors: bool) -> None:
        """Close a harness whose event loop is another one: nothing can be awaited that lives there."""
        task = self._run.task
        assert task is not None
        if not task.done and not task.loop_is_gone:
            raise HarnessStateError(f"close: {_ELSEWHERE}; close it where it was used")
        if not task.done and self._state == "open":
            warnings.warn(
                f"the event loop of the harness is gone, and {task.name} was still on, "
                f"at {innermost_user_frame(task)}; close the harness before its loop ends",
                ResourceWarning,
                stacklevel=levels_to_the_test(),
            )
        self._state = "closed"
        self._driver.let_go()
        if raise_errors:
            self._failures.raise_untold()

    # --- checks ---

    def _boot(self) -> None:
        if self._mode != "submit-message":
            self._run.start(self._boot_payload)

    def _begin_waiting(self) -> None:
        self._check_open()
        self._boot()

    def _check_not_started(self, what: str) -> None:
        if self._run.started:
            raise HarnessStateError(f"{what}: the run has booted; {what} before the first driver call{self._so_far}")

    def _check_open(self) -> None:
        if self._state != "open":
            raise HarnessClosedError(f"the harness is closed; make a new one{self._so_far}")
        if self._is_elsewhere():
            raise HarnessStateError(f"{_ELSEWHERE}; make a harness in each loop, in a fixture no wider than its loop")

    def _is_elsewhere(self) -> bool:
        """Return whether the caller works in another event loop than the run, or in none."""
        return self._run.task is not None and not self._run.task.loop_is_here

    def _check_sendable(self) -> None:
        self._check_open()
        self._check_running()

    def _check_running(self) -> None:
        if self._watch.ended:
            self._raise_ended("send")

    def _raise_ended(self, name: str) -> None:
        self._failures.raise_run_error()
        if self._state != "open":
            raise HarnessClosedError(
                f"{name}: the harness was closed before it was answered\n{describe_past(self._watch)}"
            )
        problem = f"the run of agent {self._agent.id!r} has ended, nobody is left to answer"
        raise AgentRunEndedError(f"{name}: {problem}\n{describe_past(self._watch)}") from self.run_error


def _new_run(
    platform: Platform,
    driver: Driver,
    task_context: Mapping[str, Any] | None,
    *,
    setup_locals: Callable[[LocalValues], Any] | None,
    strict: bool,
    new_id: IdGenerator,
    network: RunNetwork,
) -> DrivenRun:
    """Return a further run on a session, for which nothing is seeded."""
    seeds = Seeds(platform.agent, reads_past=True, strict=strict, new_id=new_id, taken=lambda _messages: None)
    return DrivenRun(
        platform,
        driver,
        task_context=task_context,
        setup_locals=setup_locals,
        strict=strict,
        seeds=seeds,
        network=network,
    )


def _reads_past(boot_payload: Mapping[str, Any], task_context: Mapping[str, Any] | None) -> bool:
    """Return whether a boot reads the past: it continues a run, or is a retry (C-53)."""
    sections = task_context or {}
    sections = sections.get("ctx", sections)
    return boot_payload.get("continuation") is True or sections.get("attempt", {}).get("number", 1) > 1
