"""What has happened in a thread and is not stored yet: it is stored first, and only then seen by watches (MP-31)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chatagent.protocol import TransportUnavailableError
from chatagent.service.store import ThreadWrite

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.protocol import (
        ActionReceipt,
        BackendThread,
        RunReceipt,
        ThreadEvent,
        ThreadHeadChanged,
        ThreadHeadRemoved,
        ThreadSnapshot,
    )
    from chatagent.service.setting import ServiceSetting
    from chatagent.service.store import OutboxEntry, TapState

__all__ = ["Journal"]


class Journal:
    """Collects the events of one thread and what goes with them, and stores them in one write.

    What the store refuses is kept and written with the next write, so that it misses nothing.

    Args:
        thread_id: the thread.
        setting: gives the store, and the log of the list of threads.
        state: gives what is stored beside the events: the outbox, and how far the session was read.
    """

    def __init__(
        self,
        thread_id: str,
        setting: ServiceSetting,
        state: Callable[[], tuple[tuple[OutboxEntry, ...], TapState]],
    ) -> None:
        self._thread_id, self._setting, self._state = thread_id, setting, state
        self._events: list[ThreadEvent] = []
        self._heads: list[ThreadHeadChanged | ThreadHeadRemoved] = []
        self._receipts: list[tuple[str, RunReceipt | ActionReceipt]] = []
        self._since_snapshot = 0
        """How many events have come since the last write with the whole thread."""
        self.is_dirty = False
        """Whether there is something to be stored without an event."""
        self.wants_snapshot = False
        """Whether the next write brings the whole thread."""

    @property
    def has_unsaved(self) -> bool:
        """Whether something has happened that is not stored."""
        return bool(self._events or self._heads or self._receipts or self.is_dirty)

    def take(self, event: ThreadEvent) -> None:
        """Take an event that is part of the thread."""
        self._events.append(event)

    def take_head(self, event: ThreadHeadChanged | ThreadHeadRemoved) -> None:
        """Take what the list of threads is to be told."""
        self._heads.append(event)

    def take_receipt(self, request_id: str, receipt: RunReceipt | ActionReceipt) -> None:
        """Take a receipt."""
        self._receipts.append((request_id, receipt))

    def write(self, backend: BackendThread) -> None:
        """Store what was taken, then let the watches see it.

        Raises:
            TransportUnavailableError: the store refused; the watches have seen nothing.
        """
        if not self.has_unsaved:
            return
        outbox, tap = self._state()
        setting = self._setting
        write = ThreadWrite(
            events=tuple(self._events),
            outbox=outbox,
            tap=tap,
            receipts=tuple(self._receipts),
            snapshot=self._snapshot(backend),
            head_seq=setting.heads.seq + len(self._heads),
        )
        try:
            setting.threads.write(self._thread_id, write)
        except Exception as exc:
            problem = f"the store of threads has refused a write: {exc}"
            raise TransportUnavailableError(operation="write", problem=problem) from exc
        events, self._events = self._events, []
        heads, self._heads = self._heads, []
        self._receipts = []
        self.is_dirty = self.wants_snapshot = False
        self._since_snapshot = 0 if write.snapshot is not None else self._since_snapshot + len(events)
        for event in events:
            backend.log.append(event)
        for head in heads:
            setting.heads.append(replace(head, seq=setting.heads.seq + 1))

    def _snapshot(self, backend: BackendThread) -> ThreadSnapshot | None:
        """Return the whole thread, now and then: a store can let go of the events before it."""
        is_due = self.wants_snapshot or self._since_snapshot > self._setting.log_size // 2
        return backend.model.snapshot() if is_due and backend.model.exists else None
