"""What the mock keeps: threads, the list's own log, files, ids and the time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chatagent.protocol import (
    BackendSetting,
    BackendThread,
    EventLog,
    EventTimes,
    StateChanged,
    ThreadNotFoundError,
)
from chatagent_test.transport.ids import IdCounters

if TYPE_CHECKING:
    from datetime import datetime

    from chatagent.clock import Clock
    from chatagent.protocol import FileContent, ThreadHeadChanged, ThreadHeadEvent, ThreadHeadRemoved

__all__ = ["MockStore"]


class MockStore:
    """Everything that a backend would keep.

    Args:
        clock: the time of whatever happens.
        log_size: how many events of a thread are kept.
    """

    def __init__(self, clock: Clock, log_size: int) -> None:
        self._clock, self._log_size = clock, log_size
        self.heads: EventLog[ThreadHeadEvent] = EventLog(log_size, self._gap)
        self.threads: dict[str, BackendThread] = {}
        self._clear()

    def _clear(self) -> None:
        self.ids = IdCounters()
        self.files: dict[str, FileContent] = {}
        self._times = EventTimes(self._clock)

    def reset(self) -> None:
        """Begin anew: every watch ends normally, ids and numbers count from the beginning."""
        for thread in self.threads.values():
            thread.log.cut()
        self.threads.clear()
        self.heads.cut()
        self.heads = EventLog(self._log_size, self._gap)
        self._clear()

    def thread(self, thread_id: str) -> BackendThread:
        """Return the thread of this id, whether it exists for clients or not."""
        thread = self.threads.get(thread_id)
        if thread is None:
            setting = BackendSetting(
                clock=self._clock,
                now=self.now,
                new_id=lambda kind: self.ids.new(kind),
                head_event=self.tell,
                log_size=self._log_size,
            )
            thread = self.threads[thread_id] = BackendThread(thread_id, setting)
        return thread

    def existing(self, thread_id: str) -> BackendThread:
        """Return a thread that exists.

        Raises:
            ThreadNotFoundError: it does not.
        """
        thread = self.threads.get(thread_id)
        if thread is None or not thread.model.exists:
            raise ThreadNotFoundError(thread_id=thread_id)
        return thread

    def now(self, thread_id: str = "") -> datetime:
        """Return the time of what happens in a thread; see `EventTimes`."""
        return self._times.now(thread_id)

    def tell(self, event: ThreadHeadChanged | ThreadHeadRemoved) -> None:
        """Log an event of the list of threads."""
        seq = self.heads.seq + 1
        self.heads.append(replace(event, seq=seq))

    def push_head(self, event: ThreadHeadEvent, seq: int | None) -> None:
        """Log an event of the list of threads that changes nothing here."""
        number = self.heads.seq + 1 if seq is None else seq
        self.heads.append(replace(event, seq=number, at=self.now()))

    def _gap(self, seq: int) -> ThreadHeadEvent:
        return StateChanged(seq=seq, at=self._times.last)
