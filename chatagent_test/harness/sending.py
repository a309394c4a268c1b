"""Sending: everything that a client hands to the run, and the turn that comes of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from chatagent.agent import parse_client_message
from chatagent.errors import (
    AgentRunEndedError,
    HarnessModeError,
    HarnessStateError,
    InvalidArgumentError,
    InvalidMessageError,
    RecordTooLargeError,
)
from chatagent.ui import TextUIPart, UIMessage, to_wire
from chatagent.ui.js_json import format_json
from chatagent_test.harness.given import in_words_of_the_driver, model_messages
from chatagent_test.harness.state import ELSEWHERE
from chatagent_test.harness.turn import PendingTurn, Turn
from chatagent_test.harness.waits import Waits
from chatagent_test.harness.watch import Sent
from chatagent_test.harness.where import describe_past

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Sending", "Until"]

Until = Literal["idle", "turn_complete", "sent"]
"""What a driver waits for: all of the turn done; its turn-complete record written; nothing."""


class Sending(Waits):
    """The part of a harness that sends."""

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

    def _append(self, data: Mapping[str, Any], sent: Sent) -> None:
        try:
            sent.put(self._platform.send(data), self._watch)
        except InvalidArgumentError as exc:
            sent.refusal = in_words_of_the_driver(exc)
        except RecordTooLargeError as exc:
            sent.refusal = exc

    def _has_received(self, sent: Sent) -> bool:
        return sent.seq is not None and self._run.has_received(sent.seq)

    async def _await_turn(self, sent: Sent, until: Until, name: str) -> Turn:
        watch = self._watch
        if self._is_elsewhere():
            raise HarnessStateError(f"{name}: {ELSEWHERE}; await the turn where it was begun")
        if until == "sent":
            await self._driver.until(lambda: sent.was_tried or watch.ended, f"{name}: the run has not booted")
            if sent.refusal is not None:
                raise sent.refusal
            return Turn(None, ())
        settled = until == "idle"
        await self._driver.until(
            lambda: sent.is_over(watch, self._run, settled=settled) or watch.ended, f"{name}: the turn goes on"
        )
        self._check_answered(sent, name, settled=settled)
        seen = sent.turn_in(watch)
        assert seen is not None
        if settled and seen.was_cut_off:
            seen.told = True  # what ended the run came from behind the turn-complete; how the turn went is its context
            self._failures.raise_run_error()
        self._failures.tell(seen)
        end = seen.settled_at if settled else seen.complete_at
        return Turn(seen, watch.records[sent.window_start(watch, seen) : end])

    def _check_answered(self, sent: Sent, name: str, *, settled: bool) -> None:
        """Raise what there is to say of something sent that no turn will answer any more."""
        watch = self._watch
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

    def _check_handover(self, name: str) -> None:
        """Check that the run waits for a head start, or will."""
        booted, _ = self._boot_of_run or (self._boot_payload, None)
        problem = None
        if self._mode != "handover-prepare":
            problem = f"the run was booted in mode {self._mode!r}; use mode='handover-prepare'"
        elif booted.get("trigger") != "handover-prepare":
            problem = "this run goes on from an earlier one; a head start is handed over to the first run alone"
        if problem is not None:
            raise HarnessModeError(f"{name}: {problem}{self._so_far}")
        self._check_sendable()
        if any(not turn.died for turn in self._watch.turns):
            problem = "the run has its head start, and waits for none any more; go on with send_message"
            raise HarnessStateError(f"{name}: {problem}{self._so_far}")
