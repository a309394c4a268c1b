"""One thread of a service: what clients see of a session, and what is still to be sent to it.

Every step is a plain call that changes the thread, stores the change, and lets the watches see it. What has to wait (an
append, a read) is a job, and jobs come one after the other. Rules MP-1 to MP-9, MP-25, MP-29 to MP-31, MP-40 to MP-43.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chatagent.errors import SessionNotFoundError, StoreClosedError
from chatagent.protocol import (
    BackendSetting,
    BackendThread,
    MessageAdded,
    Ownership,
    StateChanged,
    TransportUnavailableError,
    owned,
)
from chatagent.service.conversation import AgentConversation
from chatagent.service.jobs import Jobs
from chatagent.service.journal import Journal
from chatagent.service.store import OutboxEntry, TapState, model_of, unsettled_entries
from chatagent.service.tap import Tap
from chatagent.session import NewRecord, RunRequest, SessionSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatagent.agent import TurnReport
    from chatagent.protocol import ActionReceipt, Run, RunReceipt, ThreadEvent
    from chatagent.service.provenance import ToolLooks
    from chatagent.service.runs import HostedRun, RunHost
    from chatagent.service.setting import ServiceSetting
    from chatagent.session import Record
    from chatagent.tasks import OwnedTask
    from chatagent.ui import UIMessage

__all__ = ["ServiceThread"]

logger = logging.getLogger("chatagent")

APPEND_FAILED = "append_failed"
RUN_ENDED = "run_ended"
"""Codes of errors that are the service's own."""
RETRY_DELAY = 1.0
"""Seconds after which a write that was refused is tried again."""


class ServiceThread:
    """One thread, loaded.

    Args:
        thread_id: the thread; the session has the same id.
        setting: what it shares with the others.
        looks: how calls of tools are shown.
        host: runs the agent.
    """

    def __init__(self, thread_id: str, setting: ServiceSetting, looks: ToolLooks, host: RunHost) -> None:
        self.thread_id = thread_id
        self._setting, self._looks, self._host = setting, looks, host
        self._journal = Journal(thread_id, setting, self._stored_beside)
        self.jobs = Jobs(setting.tasks, f"thread {thread_id!r}")
        self.backend = BackendThread(
            thread_id,
            BackendSetting(
                clock=setting.clock,
                now=setting.now,
                new_id=setting.new_id,
                head_event=self._journal.take_head,
                log_size=setting.log_size,
            ),
        )
        self.backend.publish = self._journal.take
        self.outbox: dict[str, OutboxEntry] = {}
        """The generations that are not settled, in the order of their admission."""
        self.client_data: Any = None
        self.hosted: HostedRun | None = None
        """The runtime run of the session, if it is here."""
        self._last_in = -1
        self._conversation = AgentConversation(looks.shown)
        self._has_session = False
        self._reader: OwnedTask | None = None
        self._retry: OwnedTask | None = None
        state = self._restore()
        self.tap = self._new_tap(state)

    def _restore(self) -> TapState:
        """Take what is stored of the thread; returns how far its log was read."""
        stored = self._setting.threads.load(self.thread_id)
        if stored is None:
            return TapState()
        backend, log = self.backend, self.backend.log
        backend.model = model_of(self.thread_id, stored)
        if stored.events:
            log.skip_to(stored.events[0].seq - 1)
            for event in stored.events:
                log.append(event)
        else:
            log.skip_to(stored.seq)
        backend.receipts.update(stored.receipts)
        self.outbox = unsettled_entries(stored.outbox, backend.model)
        for entry in self.outbox.values():
            backend.goes_on(entry.run_id, entry.operation)
            self.client_data = entry.payload.get("metadata")  # an answer of the client's brings none of its own
        for run in backend.model.runs.values():
            self._note_unsent(run)
        self._last_in = stored.tap.in_seq
        return stored.tap

    def _new_tap(self, state: TapState) -> Tap:
        return Tap(
            self.backend,
            self._looks,
            active=self.active_entry,
            found_number=self._found_number,
            context=self._context,
            run_metadata=self._run_metadata,
            settled=self._settled,
            new_id=self._setting.new_id,
            state=state,
        )

    def _note_unsent(self, run: Run) -> None:
        """Remember the input of a run that never reached the agent."""
        if run.input_message_id is not None and run.error is not None and run.error.code == APPEND_FAILED:
            self._conversation.never_gets(run.input_message_id)

    @property
    def is_at_rest(self) -> bool:
        """Whether nobody uses the thread and all of it is stored, so that it can be let go and loaded again.

        What waits for the client is at rest too: its answer loads the thread.
        """
        return not (
            self.hosted is not None
            or self.jobs.is_busy
            or not self._conversation.is_at_rest
            or self._journal.has_unsaved
            or self.backend.log.watchers
            or self._is_at_work
            or any(task is not None and not task.done for task in (self._reader, self._retry))
        )

    @property
    def _is_at_work(self) -> bool:
        """Whether the agent has something to answer; what waits for the client costs nothing meanwhile."""
        return any(run.status != "waiting" for run in self.backend.model.live.values())

    # Storing ------------------------------------------------------------------------------------------------------

    def _take_at_once(self, event: ThreadEvent) -> None:
        self._journal.take(event)
        self.flush()

    def flush(self, receipt: tuple[str, RunReceipt | ActionReceipt] | None = None) -> None:
        """Store what has happened, then let the watches see it (MP-31).

        Raises:
            TransportUnavailableError: the store refused; the watches have seen nothing of it. It is stored with what
                happens next.
        """
        if receipt is not None:
            self._journal.take_receipt(*receipt)
        self._journal.write(self.backend)

    def keep(self) -> None:
        """Store what has happened on the agent's side; what the store refuses is tried again until it does not."""
        try:
            self.flush()
        except TransportUnavailableError as refused:
            logger.warning("thread %r: %s", self.thread_id, refused)
            if self._retry is None or self._retry.done:
                name = f"another try to store thread {self.thread_id!r}"
                self._retry = self._setting.tasks.start(self._keep_trying, name=name)

    async def _keep_trying(self) -> None:
        while True:
            await self._setting.clock.sleep(RETRY_DELAY)
            try:
                self.flush()
            except TransportUnavailableError:
                continue
            return

    def _stored_beside(self) -> tuple[tuple[OutboxEntry, ...], TapState]:
        return tuple(self.outbox.values()), replace(self.tap.state, in_seq=self._last_in)

    def _put(self, entry: OutboxEntry) -> None:
        self.outbox[entry.run_id] = entry
        self._journal.is_dirty = True

    # Generations --------------------------------------------------------------------------------------------------

    def active_entry(self) -> OutboxEntry | None:
        """Return the generation that the agent is at work on, or is to be."""
        run = self.backend.model.active_run
        return self.outbox.get(run.run_id) if run is not None and run.status == "running" else None

    def admitted(self, run: Run, payload: Mapping[str, Any]) -> None:
        """Take a generation that was admitted: send it off, or let it wait for those before it (MP-4, MP-40)."""
        for run_id in [each for each in self.outbox if each not in self.backend.model.live]:
            del self.outbox[run_id]  # what it superseded
        operation = self.backend.operation(run.run_id)
        entry = OutboxEntry(
            run_id=run.run_id, operation=operation, payload=_of_run(payload, run), key=f"{run.run_id}/0"
        )
        self._put(entry)
        if run.status == "running":
            self._send(entry)

    def resumed(self, run: Run, payload: Mapping[str, Any]) -> None:
        """Send the answers that a run was waiting for."""
        before = self.outbox.get(run.run_id)
        number = 1 + int(before.key.rpartition("/")[2]) if before is not None else 1
        entry = OutboxEntry(
            run_id=run.run_id, operation="resume", payload=_of_run(payload, run), key=f"{run.run_id}/{number}"
        )
        self._put(entry)
        self._send(entry)

    def stop(self, run: Run, reason: str | None) -> None:
        """Abort a run that is not settled (MP-9)."""
        entry = self.outbox.get(run.run_id)
        if run.status != "running" or entry is None:
            self.backend.abort(run.run_id, reason)
            self.outbox.pop(run.run_id, None)
            self._journal.is_dirty = True
            return
        if entry.stop is None:
            self._put(replace(entry, stop="wanted", abort_reason=reason))
            self._send_stop()

    def turn_started(self, in_seq: int | None) -> None:
        """Take it that the agent has begun to work on a record: from now on a stop reaches it."""
        entry = self.active_entry()
        if entry is not None and entry.in_seq is None and in_seq is not None:
            self._found_number(entry, in_seq)
        self._send_stop()
        self.keep()

    def _send_stop(self) -> None:
        """Tell the agent to stop, once it is at work on what is to be stopped: an earlier stop would reach nobody."""
        entry, hosted = self.active_entry(), self.hosted
        if entry is None or entry.stop != "wanted" or hosted is None or entry.in_seq is None:
            return
        if hosted.turn_of != entry.in_seq:
            return
        self._put(replace(entry, stop="sent"))
        record: dict[str, Any] = {"kind": "stop"}
        if entry.abort_reason is not None:
            record["message"] = entry.abort_reason

        async def append() -> None:
            await self._append(record, key=f"{entry.key}/stop")

        self.jobs.add(append)

    def _send(self, entry: OutboxEntry) -> None:
        self.jobs.add(lambda: self._dispatch(entry))

    def _found_number(self, entry: OutboxEntry, in_seq: int) -> None:
        """Take the number of a record that the agent is at work on; it is told before the append has returned."""
        if in_seq > self._last_in:
            self._numbered(entry, in_seq)

    def _context(self, run_id: str, messages: Sequence[UIMessage]) -> None:
        """Show messages that the agent has put in front of its model (MP-27)."""
        for message in messages:
            new = owned(message, Ownership("lifecycle", "context", run_id))
            self.backend.emit(MessageAdded(message=new, **self.backend.stamp()))

    def _run_metadata(self, run_id: str, metadata: Mapping[str, Any]) -> None:
        """Take what clients can read of a run; they see it with the run's next event (MP-24)."""
        model = self.backend.model
        for runs in (model.runs, model.live):
            if run_id in runs:
                runs[run_id] = runs[run_id].model_copy(update={"metadata": dict(metadata)})
        self._journal.is_dirty = self._journal.wants_snapshot = True

    def _numbered(self, entry: OutboxEntry, in_seq: int) -> None:
        self._last_in = max(self._last_in, in_seq)
        current = self.outbox.get(entry.run_id)
        if current is not None and current.key == entry.key and current.in_seq is None:
            self._put(replace(current, in_seq=in_seq))

    def _settled(self, entry: OutboxEntry) -> None:
        """Go on behind the end of a generation: what waits for the client stays, else the next one starts."""
        run = self.backend.model.runs[entry.run_id]
        if run.settled:
            self.outbox.pop(entry.run_id, None)
        self._journal.is_dirty = True
        started = self.backend.start_next()
        if started is not None:
            for run_id in [each for each in self.outbox if each not in self.backend.model.live]:
                del self.outbox[run_id]
            self._send(self.outbox[started.run_id])

    def fail(self, entry: OutboxEntry, message: str, code: str) -> None:
        """End a generation by an error of the service's own."""
        if entry.run_id in self.backend.model.live:
            self._note_unsent(self.backend.fail(entry.run_id, message, code=code))
            self.tap.forget_turn()
            self._settled(entry)
            self.keep()

    # The session --------------------------------------------------------------------------------------------------

    async def _dispatch(self, entry: OutboxEntry) -> None:
        """Put a generation's record on `.in` (MP-3, MP-40)."""
        if self.outbox.get(entry.run_id) is None:
            return
        try:
            ack_last = await self._append({"kind": "message", "payload": entry.payload}, key=entry.key, wants_run=True)
        except Exception as exc:  # noqa: BLE001 - any store; the client is told
            self.fail(entry, str(exc) or type(exc).__name__, APPEND_FAILED)
            return
        self._numbered(entry, ack_last)
        self._send_stop()
        self.keep()

    def write_tool_data(self, action: Mapping[str, Any], *, key: str) -> None:
        """Let the agent's conversation have data that the thread shows already (MP-19)."""
        payload = {"chatId": self.thread_id, "trigger": "action", "action": action}
        if self.client_data is not None:
            payload["metadata"] = self.client_data
        self._conversation.gets_tool_data()
        self.jobs.add(lambda: self._append_tool_data(payload, key))

    async def _append_tool_data(self, payload: Mapping[str, Any], key: str) -> None:
        try:
            number = await self._append({"kind": "message", "payload": payload}, key=key, wants_run=True)
        except Exception:  # any store; clients see the data, the agent does not
            self._conversation.lost_tool_data()
            logger.exception("thread %r: data of a client's did not reach the agent", self.thread_id)
            return
        self._last_in = max(self._last_in, number)
        self._conversation.numbered_tool_data(number)

    async def _append(self, record: Mapping[str, Any], *, key: str, wants_run: bool = False) -> int:
        sessions = self._setting.sessions
        created = await self._ensure_session()
        request: RunRequest | None = None
        if wants_run:
            overrides = {} if self.client_data is None else {"metadata": self.client_data}
            request = RunRequest("initial" if created else "continuation", overrides)
        ack = await sessions.append(self.thread_id, "in", [NewRecord(dict(record))], key=key, run=request)
        self.read_on()
        return ack.last

    async def _ensure_session(self) -> bool:
        if self._has_session:
            return False
        spec = SessionSpec(
            session_id=self.thread_id,
            task=self._setting.agent.id,
            trigger_config={"basePayload": {"chatId": self.thread_id}},
        )
        created = (await self._setting.sessions.create_session(spec)).created
        self._has_session = True
        return created

    def read_on(self) -> None:
        """Follow `.out` from the last number that was read, unless somebody does (MP-41)."""
        if self._reader is None or self._reader.done:
            name = f"the reader of thread {self.thread_id!r}"
            self._reader = self._setting.tasks.start(self._follow, name=name)

    def rest(self) -> None:
        """Stop following: nobody is at work on the session (MP-43)."""
        if self._reader is not None and not self._is_at_work:
            self._reader.cancel()
            self._reader = None

    async def _follow(self) -> None:
        tap = self.tap
        try:
            async with self._setting.sessions.follow(self.thread_id, "out", after=self._read_seq) as pages:
                async for page in pages:
                    if tap is not self.tap:
                        return  # the thread was deleted, and its numbers begin anew
                    self.take(page.records)
        except (SessionNotFoundError, StoreClosedError):
            return

    @property
    def _read_seq(self) -> int | None:
        return self.tap.out_seq if self.tap.out_seq >= 0 else None

    def take(self, records: Sequence[Record]) -> None:
        """Take records of `.out`; those that were taken already are passed by."""
        take = self.tap.take
        for record in records:
            take(record)
        self._journal.is_dirty = True
        self._compare()
        self.keep()

    async def catch_up(self) -> None:
        """Take what is on `.out` now."""
        while True:
            page = await self._setting.sessions.read(self.thread_id, "out", after=self._read_seq)
            fresh = [record for record in page.records if record.seq > self.tap.out_seq]
            if not fresh:
                return
            self.take(fresh)

    # The conversation ---------------------------------------------------------------------------------------------

    @property
    def conversation(self) -> Sequence[UIMessage] | None:
        """The agent's conversation as the last turn has left it; `None` before the first one here."""
        return self._conversation.messages

    def conversation_settled(self, report: TurnReport) -> None:
        """Take the conversation as a turn or an action has left it (MP-25)."""
        self._conversation.settled(report)
        self._compare()
        self.keep()

    def _compare(self) -> None:
        """Take the conversation over where the agent has changed it; while a generation is on, that must wait."""
        model = self.backend.model
        messages = self._conversation.taken_over(model, out_seq=self.tap.out_seq)
        if messages is None:
            return
        model.load(model.snapshot().model_copy(update={"messages": messages}))
        self.backend.push(StateChanged(), None)
        self._journal.wants_snapshot = True

    # The runtime run ----------------------------------------------------------------------------------------------

    def run_waits(self, hosted: HostedRun, *, suspended: bool) -> None:
        """Take it that the run has nothing to do: what it is done with and has not answered, it has dropped (MP-30)."""
        entry = self.active_entry()
        if entry is not None and entry.in_seq is not None and hosted.is_done_with(entry.in_seq):
            self.jobs.add(lambda: self._judge_dropped(entry))
        elif suspended:
            self.rest()

    async def _judge_dropped(self, entry: OutboxEntry) -> None:
        await self.catch_up()
        current = self.active_entry()
        if current is not None and current.key == entry.key:
            self.fail(current, "the run ended before it had answered", RUN_ENDED)

    def lose(self, hosted: HostedRun) -> None:
        """Take it that a runtime run is here no more; what it has left undone, the next one finds."""
        if self.hosted is hosted:
            self.hosted = None

    def run_over(self, hosted: HostedRun) -> None:
        """Take it that the session's runtime run has ended, however it ended."""
        self.lose(hosted)
        self.jobs.add(lambda: self._after_run(hosted.error))

    async def _after_run(self, error: BaseException | None) -> None:
        """See whether somebody goes on with what the run has left; else say that it failed (MP-7)."""
        try:
            await self.catch_up()
            await self._setting.sessions.recover()
            info = await self._setting.sessions.get_session(self.thread_id)
        except (SessionNotFoundError, StoreClosedError):
            return
        entry = self.active_entry()
        if entry is None or info is None or (entry.in_seq is None and error is None):
            if info is not None and info.current_run is None:
                self.rest()
            return
        if info.current_run is not None:
            return
        text = "the run ended before it had answered" if error is None else str(error) or type(error).__name__
        if entry.in_seq is None or info.in_committed >= entry.in_seq:
            self.fail(entry, text, RUN_ENDED)
        else:
            self.fail(entry, text, RUN_ENDED)
            await self._host.bury(self.thread_id, entry.in_seq, text)

    # Coming back --------------------------------------------------------------------------------------------------

    def revive(self) -> None:
        """Go on with what a service before this one has left undone (MP-4, MP-31)."""
        if self.outbox:
            self.jobs.add(self._revive)

    async def _revive(self) -> None:
        sessions = self._setting.sessions
        info = await sessions.get_session(self.thread_id)
        if info is not None:
            self._has_session = True
            await self.catch_up()
        entry = self.active_entry()
        if entry is None:
            if self.backend.start_next() is not None:
                entry = self.active_entry()
                self.keep()
            if entry is None:
                return
        if entry.in_seq is None:
            await self._dispatch(entry)
            return
        self.read_on()
        if info is not None and info.current_run is None:
            await sessions.ensure_run(self.thread_id, RunRequest("crash"))

    # Deletion -----------------------------------------------------------------------------------------------------

    def delete(self) -> None:
        """Delete the thread, and behind it the session with its conversation (MP-22)."""
        self.outbox.clear()
        self.backend.publish = self._take_at_once  # the log ends behind the last event, so it cannot wait
        try:
            self.backend.delete()
        finally:
            self.backend.publish = self._journal.take
        self._conversation = AgentConversation(self._looks.shown)
        self._last_in = -1
        hosted, self.hosted = self.hosted, None
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
        self.tap = self._new_tap(TapState())
        self.keep()
        self.jobs.add(lambda: self._delete_session(hosted))

    async def _delete_session(self, hosted: HostedRun | None) -> None:
        if hosted is not None:
            await hosted.end("deleted")
        await self._setting.sessions.delete_session(self.thread_id)
        await self._setting.snapshots.delete(self.thread_id)
        self._has_session = False


def _of_run(payload: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Return a payload that says which run of the client's it is for (MP-2), and what can be read of that."""
    told = {"clientRunId": run.run_id}
    return {**payload, **told, "runMetadata": run.metadata} if run.metadata else {**payload, **told}
