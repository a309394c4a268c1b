"""The one reducer: events in, the thread out. Backend, client and mock use the same (rules EV-2 to EV-19, DM-23).

`ThreadModel` is a thread under way: an event costs the same whatever the thread holds, and values are made only for
those who look. `apply_event` is the same as a function of values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from chatagent.errors import UIMessageStreamError
from chatagent.protocol import events as e
from chatagent.protocol.message_slot import MessageSlot, streaming_of
from chatagent.protocol.models import (
    BEGINNING,
    ActionRecord,
    Run,
    ThreadError,
    ThreadHead,
    ThreadSnapshot,
    ThreadStatus,
)
from chatagent.protocol.ownership import Ownership, owned
from chatagent.protocol.projection import ThreadMessage, ThreadState
from chatagent.ui import Start, UIMessage, cleanup_aborted_parts

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["ThreadModel", "apply_event"]

_Apply: TypeAlias = Callable[["ThreadModel", Any], None]


class ThreadModel:
    """A thread as the events have made it.

    Args:
        thread_id: the thread.
        snapshot: where to begin; by default a thread that does not exist.
    """

    def __init__(self, thread_id: str, snapshot: ThreadSnapshot | None = None) -> None:
        self.thread_id = thread_id
        self.clear(0)
        if snapshot is not None:
            self.load(snapshot)

    # Values -------------------------------------------------------------------------------------------------------

    @property
    def status(self) -> ThreadStatus:
        """The thread's status, which its runs make (DM-3)."""
        active = self.active_run
        if active is not None:
            return "waiting" if active.status == "waiting" else "running"
        return "running" if self.live else "idle"

    @property
    def active_run(self) -> Run | None:
        """The run that is at work or waits."""
        return next((run for run in self.live.values() if run.status != "queued"), None)

    @property
    def head(self) -> ThreadHead:
        """The thread as a list shows it."""
        fields: dict[str, object] = {
            "thread_id": self.thread_id,
            "status": self.status,
            "metadata": self.metadata,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }
        if self.title is not None:
            fields["title"] = self.title
        active = self.active_run
        if active is not None:
            fields["active_run_id"] = active.run_id
        return ThreadHead.model_validate(fields)

    def messages(self) -> tuple[UIMessage, ...]:
        """Return the messages as they are stored, in order."""
        return tuple(slot.current() for slot in self._order)

    def message(self, message_id: str) -> UIMessage | None:
        """Return one message as it is stored."""
        slot = self._slots.get(message_id)
        return None if slot is None else slot.current()

    def ownership(self, message_id: str) -> Ownership:
        """Return who owns a message that is there."""
        return self._slots[message_id].ownership

    def message_ids(self, run_id: str | None = None) -> list[str]:
        """Return the ids of the messages in order; of one run, if it is named."""
        slots = self._order if run_id is None else self._of_run.get(run_id, ())
        return [slot.message_id for slot in slots]

    def next_index(self, message_id: str) -> int:
        """Return how many chunks the message has had (EV-16)."""
        slot = self._slots.get(message_id)
        return 0 if slot is None else slot.chunks

    def snapshot(self) -> ThreadSnapshot:
        """Return the thread as it is stored."""
        fields: dict[str, object] = {
            "thread": self.head,
            "messages": self.messages(),
            "runs": tuple(self.runs.values()),
            "actions": self.actions,
            "seq": self.seq,
        }
        if self.error is not None:
            fields["error"] = self.error
        streaming = streaming_of(self._slots)
        if streaming:
            fields["streaming"] = streaming
        return ThreadSnapshot.model_construct(**cast("Any", fields))

    def state(self) -> ThreadState:
        """Return what the facade shows: the same object until something changes."""
        if self._state is None:
            self._state = ThreadState(
                thread=self._current_head(),
                messages=self._current_views(),
                runs=self._current_runs(),
                error=self.error,
                seq=self.seq,
                pending_actions=self.actions,
            )
        return self._state

    def _current_head(self) -> ThreadHead:
        if self._head is None:
            self._head = self.head
        return self._head

    def _current_runs(self) -> tuple[Run, ...]:
        if self._runs is None:
            self._runs = tuple(self.runs.values())
        return self._runs

    def _current_views(self) -> tuple[ThreadMessage, ...]:
        if self._views is None:
            for position, slot in enumerate(self._order):
                slot.position = position
            self._views = [slot.current_view() for slot in self._order]
        else:
            for slot in self._stale:
                self._views[slot.position] = slot.current_view()
        self._stale.clear()
        return tuple(self._views)

    def skip_to(self, seq: int) -> None:
        """Count an event that is not part of the state."""
        self.seq = max(self.seq, seq)
        self._state = None

    # Loading ------------------------------------------------------------------------------------------------------

    def clear(self, seq: int) -> None:
        """Become a thread that does not exist, at this number."""
        self.exists = False
        self.seq = seq
        self.title: str | None = None
        self.metadata: dict[str, object] = {}
        self.created_at: datetime = BEGINNING
        self.updated_at: datetime = BEGINNING
        self.runs: dict[str, Run] = {}
        self.live: dict[str, Run] = {}
        """The runs that are not settled, oldest first."""
        self.actions: tuple[ActionRecord, ...] = ()
        self.error: ThreadError | None = None
        self._order: list[MessageSlot] = []
        self._slots: dict[str, MessageSlot] = {}
        self._of_run: dict[str, list[MessageSlot]] = {}
        """The messages of each run, in order."""
        self._stale: list[MessageSlot] = []
        """The messages whose views are old; one may be named twice."""
        self._views: list[ThreadMessage] | None = None
        self._head: ThreadHead | None = None
        self._runs: tuple[Run, ...] | None = None
        self._state: ThreadState | None = None

    def load(self, snapshot: ThreadSnapshot) -> None:
        """Become what a snapshot says."""
        self.clear(snapshot.seq)
        self.exists = True
        head = snapshot.thread
        self.title, self.metadata = head.title, dict(head.metadata)
        self.created_at, self.updated_at = head.created_at, head.updated_at
        self.runs = {run.run_id: run for run in snapshot.runs}
        self.live = {run.run_id: run for run in snapshot.runs if not run.settled}
        self.actions, self.error = tuple(snapshot.actions), snapshot.error
        for message in snapshot.messages:
            self._add(MessageSlot(message), len(self._order))
        for each in snapshot.streaming:
            slot = self._slots.get(each.message_id)
            if slot is not None:
                slot.resume(each, is_streaming=slot.ownership.run_id in self.live)

    # Events -------------------------------------------------------------------------------------------------------

    def apply(self, event: e.ThreadEvent) -> None:
        """Take the next event. Its number is not checked: that is the reader's business.

        Raises:
            UIMessageStreamError: a chunk that does not fit; the model is unchanged.
        """
        if type(event) is e.GenerationMessageChunk:
            self.apply_chunk(event)
            return
        apply = self._APPLY.get(type(event))
        if apply is not None:
            if type(event) is not e.ThreadDeleted and not self.exists:
                self.exists = True
                self.created_at = event.at
            self.updated_at = event.at
            apply(self, event)
            self._head = None
        self.seq = event.seq
        self._state = None

    def apply_chunk(self, event: e.GenerationMessageChunk) -> None:
        """Take a chunk (EV-6).

        Raises:
            UIMessageStreamError: it does not fit the message, or there is no such message; the model is unchanged.
        """
        slot = self._slots.get(event.message_id)
        if slot is None:
            slot = self._new_slot(event)
        (slot.feed or slot.open())(event.chunk)
        slot.chunks = event.index + 1
        self.seq = event.seq
        if slot.is_clean:
            slot.is_clean = False
            slot.message = slot.view = self._state = None
            self._stale.append(slot)
        if not slot.is_streaming:
            run = self.live.get(event.run_id)
            slot.is_streaming = run is not None and run.status == "running" and slot.ownership.run_id == event.run_id

    def _new_slot(self, event: e.GenerationMessageChunk) -> MessageSlot:
        if type(event.chunk) is not Start:
            raise UIMessageStreamError(
                f"a {event.chunk.type} chunk came for message {event.message_id!r}, which nobody has begun",
                chunk_type=event.chunk.type,
                chunk_id=event.message_id,
            )
        empty = UIMessage(id=event.message_id, role="assistant", parts=())
        return self._insert(owned(empty, Ownership(event.producer, "output", event.run_id)))

    def _insert(self, message: UIMessage) -> MessageSlot:
        """Put a message where it belongs (DM-23)."""
        slot = MessageSlot(message)
        self._add(slot, self._place_of(slot.ownership))
        return slot

    def _add(self, slot: MessageSlot, position: int) -> None:
        if position < len(self._order):
            self._order.insert(position, slot)
            self._views = None
        else:
            slot.position = position
            self._order.append(slot)
            if self._views is not None:
                self._views.append(slot.current_view())
        self._slots[slot.message_id] = slot
        run_id = slot.ownership.run_id
        if run_id is not None:
            self._of_run.setdefault(run_id, []).append(slot)

    def _place_of(self, ownership: Ownership) -> int:
        run_id = ownership.run_id
        if run_id is None:
            return len(self._order)
        behind = self._of_run.get(run_id) or self._of_run.get(self._owner_of_input(run_id) or "")
        if not behind or behind[-1] is self._order[-1]:
            return len(self._order)
        return self._order.index(behind[-1]) + 1

    def _owner_of_input(self, run_id: str) -> str | None:
        """Return the run that owns the message which a run answers."""
        run = self.runs.get(run_id)
        answered = self._slots.get(run.input_message_id or "") if run is not None else None
        return None if answered is None else answered.ownership.run_id

    def _message_added(self, event: e.MessageAdded) -> None:
        known = self._slots.get(event.message.id)
        if known is None:
            self._insert(event.message)
        else:
            self._replace(known, event.message)

    def _message_removed(self, event: e.MessageRemoved) -> None:
        gone = {self._slots.pop(each) for each in event.message_ids if each in self._slots}
        self._order = [slot for slot in self._order if slot not in gone]
        self._stale = [slot for slot in self._stale if slot not in gone]
        for run_id in {slot.ownership.run_id for slot in gone} - {None}:
            self._of_run[run_id or ""] = [slot for slot in self._of_run[run_id or ""] if slot not in gone]
        self._views = None

    def _replace(self, slot: MessageSlot, message: UIMessage) -> None:
        slot.replace(message)
        self._stale.append(slot)

    def _run_changed(self, run: Run) -> None:
        self.runs[run.run_id] = run
        self._runs = None
        if run.settled:
            self.live.pop(run.run_id, None)
        else:
            self.live[run.run_id] = run

    def _run_event(self, event: e.GenerationQueued | e.GenerationCompleted) -> None:
        self._run_changed(event.run)
        if event.run.settled:
            self._end_streaming(event.run.run_id)
            self._drop_actions(event.run.run_id)

    def _started(self, event: e.GenerationStarted) -> None:
        self._run_changed(event.run)
        self._end_streaming(event.run.run_id)
        self.error = None

    def _waiting(self, event: e.GenerationWaiting) -> None:
        self._run_changed(event.run)
        self._end_streaming(event.run.run_id)
        self.actions = tuple(event.actions)

    def _resumed(self, event: e.GenerationResumed) -> None:
        self._run_changed(event.run)
        self._end_streaming(event.run.run_id)
        self._drop_actions(event.run.run_id)

    def _failed(self, event: e.GenerationFailed) -> None:
        self._clean(event.run.run_id)
        self._run_changed(event.run)
        self._drop_actions(event.run.run_id)
        self.error = event.error

    def _aborted(self, event: e.GenerationAborted) -> None:
        self._clean(event.run.run_id)
        self._run_changed(event.run)
        self._drop_actions(event.run.run_id)

    def _drop_actions(self, run_id: str) -> None:
        self.actions = tuple(each for each in self.actions if each.run_id != run_id)

    def _clean(self, run_id: str) -> None:
        """Clean what came of a run that did not end well (EV-17)."""
        for slot in self._streaming_of(run_id):
            slot.is_streaming = False
            self._replace(slot, cleanup_aborted_parts(slot.current()))

    def _end_streaming(self, run_id: str) -> None:
        for slot in self._streaming_of(run_id):
            slot.is_streaming = False
            self._replace(slot, slot.current())

    def _streaming_of(self, run_id: str) -> list[MessageSlot]:
        """Return a run's messages that are coming in."""
        return [slot for slot in self._of_run.get(run_id, ()) if slot.is_streaming]

    def _thread_updated(self, event: e.ThreadUpdated) -> None:
        self.title, self.metadata = event.head.title, dict(event.head.metadata)

    def _action_resolved(self, event: e.ActionResolved) -> None:
        self.actions = tuple(each for each in self.actions if each.action_id != event.action_id)

    def _thread_deleted(self, event: e.ThreadDeleted) -> None:
        self.clear(event.seq)

    _APPLY: ClassVar[dict[type, _Apply]] = {
        e.MessageAdded: _message_added,
        e.MessageRemoved: _message_removed,
        e.GenerationQueued: _run_event,
        e.GenerationStarted: _started,
        e.GenerationWaiting: _waiting,
        e.GenerationResumed: _resumed,
        e.GenerationCompleted: _run_event,
        e.GenerationFailed: _failed,
        e.GenerationAborted: _aborted,
        e.ThreadUpdated: _thread_updated,
        e.ActionResolved: _action_resolved,
        e.ThreadDeleted: _thread_deleted,
    }


def apply_event(snapshot: ThreadSnapshot, event: e.ThreadEvent) -> ThreadSnapshot:
    """Return the snapshot after one more event: the reducer as a function of values.

    Raises:
        UIMessageStreamError: a chunk that does not fit.
    """
    model = ThreadModel(snapshot.thread.thread_id, snapshot)
    model.apply(event)
    return model.snapshot()
