"""A thread as a backend keeps it: its state, its log, and the life of its runs (rules DM-10 to DM-42, EV-20 to EV-29).

Nothing here says where an answer comes from: the mock plays scripts, a service reads what an agent streams. Both admit,
write, settle and abort through this one class, so that they emit the same events. Every method takes effect at once, or
raises and has changed nothing.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from chatagent.protocol import events as e
from chatagent.protocol.errors import ActionNotPendingError, ActionProblem, RunNotFoundError
from chatagent.protocol.isolation import PLAIN_CHUNKS, own_event
from chatagent.protocol.log import EventLog
from chatagent.protocol.models import Initiator, Operation, Run, RunError, ThreadError, changed
from chatagent.protocol.ownership import (
    Ownership,
    SuspensionMark,
    action_records,
    mark_of,
    owned,
    ownership_of,
    suspension_chunk,
)
from chatagent.protocol.reducer import ThreadModel
from chatagent.protocol.repeats import REMEMBERED_REQUESTS
from chatagent.ui import UNSET, Chunk, ToolApprovalResponse, ToolOutputAvailable, ToolPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from chatagent.clock import Clock
    from chatagent.protocol.models import ActionRecord, ThreadSnapshot
    from chatagent.protocol.ownership import Producer
    from chatagent.protocol.requests import ActionReceipt, RunReceipt

__all__ = ["BackendSetting", "BackendThread"]

_OPERATIONS: Final[dict[Initiator, Operation]] = {
    "send": "send",
    "retry": "retry",
    "regenerate": "regenerate",
    "action": "action",
    "trigger": "trigger",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSetting:
    """What a backend gives all its threads."""

    clock: Clock
    now: Callable[[str], datetime]
    """The time of an event of a thread."""
    new_id: Callable[[str], str]
    """Makes an id of a kind: `run`."""
    head_event: Callable[[e.ThreadHeadChanged | e.ThreadHeadRemoved], None]
    """Takes what the list of threads is told; number and time are still to be filled in."""
    log_size: int = 1_000


class BackendThread:
    """One thread of a backend.

    Args:
        thread_id: the thread.
        setting: what the backend gives it.
    """

    def __init__(self, thread_id: str, setting: BackendSetting) -> None:
        self.thread_id, self._setting = thread_id, setting
        self.model = ThreadModel(thread_id)
        self.log: EventLog[e.ThreadEvent] = EventLog(setting.log_size, self._gap)
        self.publish: Callable[[e.ThreadEvent], None] = self.log.append
        """Where events go once they are part of the state; whoever tests faults puts something between."""
        self.receipts: OrderedDict[str, RunReceipt | ActionReceipt] = OrderedDict()
        self._closed_actions: dict[str, ActionProblem] = {}
        self._operations: dict[str, Operation] = {}
        self._at = setting.now(thread_id)
        self._seconds = setting.clock.now
        self._last_seconds = self._seconds()

    # Events -------------------------------------------------------------------------------------------------------

    def stamp(self) -> dict[str, Any]:
        """Return what the next event begins with."""
        self._at = self._setting.now(self.thread_id)
        self._last_seconds = self._seconds()
        return {"thread_id": self.thread_id, "seq": self.model.seq + 1, "at": self._at}

    def emit(self, event: e.ThreadEvent, *, quiet: bool = False) -> int:
        """Make an event part of the state, log it and tell the list of threads; returns its number.

        Args:
            event: the event, stamped.
            quiet: whether an event right behind it will tell the list.
        """
        model = self.model
        existed, before = model.exists, model.status
        model.apply(own_event(event))
        self.publish(event)
        if not existed and model.exists:
            self._tell("created")
        elif isinstance(event, e.ThreadUpdated):
            self._tell("attributes")
        elif model.exists and model.status != before:
            self._tell("status")
        elif isinstance(event, e.MessageAdded) and not quiet:
            self._tell("activity")
        return event.seq

    def chunk(self, run_id: str, message_id: str, chunk: Chunk, producer: Producer = "model") -> None:
        """Write a chunk to a message of a run; a `start` chunk begins the message, or goes on with it.

        Raises:
            UIMessageStreamError: it does not fit the message.
        """
        seconds = self._seconds()
        if seconds != self._last_seconds:
            self._last_seconds = seconds
            self._at = self._setting.now(self.thread_id)
        model = self.model
        event = e.GenerationMessageChunk(
            self.thread_id, model.seq + 1, self._at, run_id, message_id, model.next_index(message_id), producer, chunk
        )
        model.apply_chunk(event if type(chunk) in PLAIN_CHUNKS else own_event(event))
        self.publish(event)

    def load(self, snapshot: ThreadSnapshot, *, operations: Mapping[str, Operation] | None = None) -> None:
        """Become what a snapshot says, without an event; what came before cannot be replayed."""
        seq = max(self.model.seq, self.log.seq, snapshot.seq - 1) + 1
        self.model.load(snapshot.model_copy(update={"seq": seq}))
        self.log.skip_to(seq)
        self._closed_actions.clear()
        self._operations = dict(operations or {})

    def remember(self, request_id: str, receipt: RunReceipt | ActionReceipt) -> None:
        """Keep a receipt, so that the same request does nothing a second time (TP-22)."""
        self.receipts[request_id] = receipt
        if len(self.receipts) > REMEMBERED_REQUESTS:
            self.receipts.popitem(last=False)

    def delete(self) -> None:
        """Delete the thread: its runs are aborted, its log is emptied, its numbers go on (EV-28)."""
        for run in tuple(self.model.live.values()):
            self._end(run, "aborted", reason=None)
        self.emit(e.ThreadDeleted(**self.stamp()))
        self.log.finish()
        self.log.forget()
        self.receipts.clear()
        self._closed_actions.clear()
        self._setting.head_event(e.ThreadHeadRemoved(thread_id=self.thread_id, at=self._at))

    def _gap(self, seq: int) -> e.ThreadEvent:
        return e.StateChanged(thread_id=self.thread_id, seq=seq, at=self._at)

    def _tell(self, reason: e.HeadReason) -> None:
        head = copy.deepcopy(self.model.head) if self.model.metadata else self.model.head
        event = e.ThreadHeadChanged(thread_id=self.thread_id, at=self._at, reason=reason, head=head)
        self._setting.head_event(event)

    # Runs ---------------------------------------------------------------------------------------------------------

    def admit(
        self,
        *,
        initiator: Initiator,
        metadata: Mapping[str, object],
        message: UIMessage | None = None,
        producer: Producer = "user",
        input_message_id: str | None = None,
        removed: tuple[str, ...] = (),
    ) -> tuple[Run, int]:
        """Admit a generation, which starts at once or waits for those before it (TP-20).

        A run that waits for the client is superseded (TH-12).

        Args:
            initiator: what begins it.
            metadata: the run's metadata; kept as it is.
            message: its new input, with its id.
            producer: who wrote the input.
            input_message_id: the older input that it answers instead.
            removed: messages that go from the history for it.

        Returns:
            The run, and the number of the event that admitted it.
        """
        self._supersede()
        run_id = self._setting.new_id("run")
        busy = bool(self.model.live)
        if message is not None:
            input_message_id = message.id
            new = owned(message, Ownership(producer, "input", run_id))
            self.emit(e.MessageAdded(message=new, **self.stamp()), quiet=not busy)
        if removed:
            self.emit(e.MessageRemoved(message_ids=removed, **self.stamp()))
        stamp = self.stamp()
        fields: dict[str, object] = {
            "run_id": run_id,
            "thread_id": self.thread_id,
            "status": "queued" if busy else "running",
            "initiator": initiator,
            "metadata": dict(metadata),
            "created_at": self._at,
        }
        if input_message_id is not None:
            fields["input_message_id"] = input_message_id
        if not busy:
            fields["started_at"] = self._at
        run = Run.model_validate(fields)
        self._operations[run_id] = _OPERATIONS[initiator]
        if busy:
            return run, self.emit(e.GenerationQueued(run=run, **stamp))
        return run, self.emit(e.GenerationStarted(run=run, operation=_OPERATIONS[initiator], **stamp))

    def start_next(self) -> Run | None:
        """Start the oldest queued run if nothing is at work; one that waits for the client is superseded."""
        waiting = [run for run in self.model.live.values() if run.status == "queued"]
        active = self.model.active_run
        if not waiting or (active is not None and active.status == "running"):
            return None
        self._supersede()
        stamp = self.stamp()
        run = changed(waiting[0], status="running", started_at=self._at)
        self.emit(e.GenerationStarted(run=run, operation=self.operation(run.run_id), **stamp))
        return run

    def goes_on(self, run_id: str, operation: Operation) -> None:
        """Take it that the current generation of a run answers this: the thread was loaded in the middle of it."""
        self._operations[run_id] = operation

    def operation(self, run_id: str) -> Operation:
        """Return what the current generation of a run answers."""
        return self._operations.get(run_id) or _OPERATIONS[self.model.runs[run_id].initiator]

    def complete(self, run_id: str) -> Run:
        """End a generation well: the run is completed, or waits if a tool call of it waits for the client."""
        run = self._live_run(run_id)
        messages = [self.model.message(each) for each in self.model.message_ids(run_id)]
        actions = action_records((each for each in messages if each is not None), run_id)
        if not actions:
            return self._end(run, "completed")
        waiting = changed(run, status="waiting")
        self.emit(e.GenerationWaiting(run=waiting, actions=actions, **self.stamp()))
        return waiting

    def settle(self, run_id: str) -> Run:
        """End a run well, whatever still waits in it."""
        return self._end(self._live_run(run_id), "completed")

    def fail(self, run_id: str, message: str, *, code: str | None = None) -> Run:
        """End a run because of an error (DM-42)."""
        run = self._live_run(run_id)
        stamp = self.stamp()
        told: dict[str, str] = {"message": message} if code is None else {"message": message, "code": code}
        failed = changed(run, status="failed", settled_at=self._at, error=RunError.model_validate(told))
        error: dict[str, str] = {**told, "operation": self.operation(run_id), "run_id": run_id}
        if run.input_message_id is not None:
            error["message_id"] = run.input_message_id
        self.emit(e.GenerationFailed(run=failed, error=ThreadError.model_validate(error), **stamp))
        return failed

    def abort(self, run_id: str, reason: str | None = None) -> Run:
        """End a run on purpose; one that had not started takes its input with it (EV-29)."""
        run = self._live_run(run_id)
        if run.status == "queued":
            self.emit(e.MessageRemoved(message_ids=tuple(self.model.message_ids(run_id)), **self.stamp()))
        return self._end(run, "aborted", reason=reason)

    def _live_run(self, run_id: str) -> Run:
        run = self.model.live.get(run_id)
        if run is None:
            raise RunNotFoundError(thread_id=self.thread_id, run_id=run_id)
        return run

    def _end(self, run: Run, status: str, *, reason: str | None = None) -> Run:
        stamp = self.stamp()
        values: dict[str, Any] = {"status": status, "settled_at": self._at}
        if reason is not None:
            values["abort_reason"] = reason
        ended = changed(run, **values)
        for action in self.model.actions:
            if action.run_id == run.run_id:
                problem: ActionProblem = "superseded" if reason == "superseded" else "aborted"
                self._closed_actions[action.action_id] = problem
        if status == "completed":
            self.emit(e.GenerationCompleted(run=ended, **stamp))
        else:
            self.emit(e.GenerationAborted(run=ended, **stamp))
        return ended

    def _supersede(self) -> None:
        active = self.model.active_run
        if active is not None and active.status == "waiting":
            self._end(active, "aborted", reason="superseded")

    # Actions ------------------------------------------------------------------------------------------------------

    def pending_action(self, action_id: str) -> ActionRecord:
        """Return a pending action.

        Raises:
            ActionNotPendingError: it is not pending; the reason says why.
        """
        for action in self.model.actions:
            if action.action_id == action_id:
                return action
        reason = self._closed_actions.get(action_id) or _why_closed(self.model, action_id)
        raise ActionNotPendingError(action_id=action_id, reason=reason)

    def resolve(self, action_id: str, value: object) -> tuple[Run | None, int]:
        """Answer a pending action; with the last one its run resumes (PA-4).

        Returns:
            The run, if it goes on; and the number of the event that says so, or of the `action.resolved`.

        Raises:
            ActionNotPendingError: it is not pending.
        """
        action = self.pending_action(action_id)
        self.chunk(action.run_id, action.message_id, _answer_chunk(self.model, action, value))
        self._closed_actions[action_id] = "resolved"
        remaining = len(self.model.actions) - 1
        seq = self.emit(e.ActionResolved(action_id=action_id, remaining=remaining, **self.stamp()))
        if remaining:
            return None, seq
        run = changed(self.model.runs[action.run_id], status="running")
        self._operations[run.run_id] = "resume"
        return run, self.emit(e.GenerationResumed(run=run, **self.stamp()))

    def push(self, event: e.ThreadEvent, seq: int | None) -> None:
        """Log an event that is not part of the state; by default under the next number (IE-1)."""
        stamp = self.stamp()
        if seq is not None:
            stamp["seq"] = seq
        told = replace(event, **stamp)
        self.publish(told)
        self.model.skip_to(told.seq)


def _why_closed(model: ThreadModel, action_id: str) -> ActionProblem:
    """Say why an action is not pending by what the messages tell, for a thread that was loaded since it was."""
    for message in model.messages():
        for part in message.parts:
            mark = mark_of(part)
            approval = part.approval if isinstance(part, ToolPart) else None
            if mark is not None and mark.action_id == action_id:
                is_answered = mark.resolution is not UNSET or _has_output(message, mark.tool_call_id)
            elif approval is not None and approval.id == action_id:
                is_answered = approval.approved is not None
            else:
                continue
            run = model.runs.get(ownership_of(message).run_id or "")
            if is_answered or run is None or run.status != "aborted":
                return "resolved" if is_answered else "unknown"
            return "superseded" if run.abort_reason == "superseded" else "aborted"
    return "unknown"


def _has_output(message: UIMessage, tool_call_id: str) -> bool:
    calls = (part for part in message.parts if isinstance(part, ToolPart) and part.tool_call_id == tool_call_id)
    return any(call.state != "input-available" for call in calls)


def _answer_chunk(model: ThreadModel, action: ActionRecord, value: object) -> Chunk:
    """Return the chunk that says what was answered."""
    message = model.message(action.message_id)
    marks = [mark for part in (message.parts if message else ()) if (mark := mark_of(part)) is not None]
    mark = next((each for each in marks if each.action_id == action.action_id), None)
    if mark is None:
        answer = cast("Mapping[str, Any]", value)
        return ToolApprovalResponse(action.action_id, bool(answer["approved"]), answer.get("reason"))
    if mark.suspend_name is None:
        return ToolOutputAvailable(action.tool_call_id, value)
    resolved = SuspensionMark(
        mark.action_id, mark.tool_call_id, mark.tool_name, mark.name, mark.suspend_name, mark.input, value
    )
    return suspension_chunk(resolved)
