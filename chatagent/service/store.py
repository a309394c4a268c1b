"""Where a service keeps its threads: the `ThreadStore` protocol, and the store in memory (rules MP-1, MP-4, MP-31).

A store is written to in the same step in which an event happens, before any watch sees it, so its methods do not wait.
It holds the thread as clients see it; the conversation as the agent sees it is in the session and its snapshot.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from chatagent.protocol import ThreadDeleted, ThreadModel, is_settled
from chatagent.service.errors import ThreadStoreBusyError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from chatagent.protocol import ActionReceipt, Operation, RunReceipt, ThreadEvent, ThreadHead, ThreadSnapshot

__all__ = ["InMemoryThreadStore", "OutboxEntry", "StoredThread", "TapState", "ThreadStore", "ThreadWrite"]

Receipt: TypeAlias = "RunReceipt | ActionReceipt"

KEPT_RECEIPTS: Final = 1_000
"""How many receipts of a thread are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxEntry:
    """A generation that is not settled: what is, or will be, on `.in` for it."""

    run_id: str
    operation: Operation
    payload: Mapping[str, Any]
    """The wire payload of its record."""
    key: str
    """Names the append, so that it happens once."""
    in_seq: int | None = None
    """The number of its record; `None` while that is not on `.in`."""
    stop: Literal["wanted", "sent"] | None = None
    """Whether the client has aborted it, and the agent was told."""
    abort_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TapState:
    """How far `.out` was read, and what is known of the turn that is being read."""

    out_seq: int = -1
    """The last number that was read."""
    turn: int | None = None
    """The number of the `.in` record that the turn answers."""
    message_id: str | None = None
    """The message that its chunks go to; `None` before its `start`."""
    error: str | None = None
    """What its `error` chunk said."""
    is_closed: bool = False
    """Whether an `abort` chunk has come."""
    in_seq: int = -1
    """The highest number of `.in` that belongs to a generation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredThread:
    """A thread as it was stored."""

    snapshot: ThreadSnapshot | None
    """The thread up to some event; `None` if all of it is in the events, or if it does not exist."""
    events: Sequence[ThreadEvent]
    """The newest events, oldest first: those that can be replayed, and all that the snapshot does not hold."""
    seq: int
    """The number of the newest event; it goes on after a deletion."""
    outbox: tuple[OutboxEntry, ...] = ()
    """The generations that are not settled, in the order of their admission."""
    tap: TapState = field(default_factory=TapState)
    receipts: Sequence[tuple[str, Receipt]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadWrite:
    """What is to be stored in one step; a field that is `None` stays as it is."""

    events: Sequence[ThreadEvent] = ()
    outbox: tuple[OutboxEntry, ...] | None = None
    tap: TapState | None = None
    receipts: tuple[tuple[str, Receipt], ...] = ()
    """Receipts to be kept beside those that are there."""
    snapshot: ThreadSnapshot | None = None
    """The thread up to the last of the events, now and then; earlier events are needed for replay only."""
    head_seq: int | None = None
    """The number of the newest event of the list of threads."""


class ThreadStore(Protocol):
    """Where threads live. Implement these methods; inherit from nothing.

    They are called inside the service's own steps and must not wait. What `write` has returned from is kept.
    """

    def open(self) -> None:
        """Take the store for one service. A store that outlives its process gives up the claim of one that has died.

        Raises:
            ThreadStoreBusyError: another service has it.
        """
        ...

    def close(self) -> None:
        """Give the store back; the next service may open it."""
        ...

    def load(self, thread_id: str) -> StoredThread | None:
        """Return a thread; `None` if nothing was ever stored of it."""
        ...

    def write(self, thread_id: str, write: ThreadWrite) -> None:
        """Store all of a write, or raise and store nothing. A `thread.deleted` among the events drops what was."""
        ...

    def heads(self) -> Sequence[ThreadHead]:
        """Return the heads of all threads that exist, in any order."""
        ...

    def unsettled(self) -> Collection[str]:
        """Return the ids of the threads whose outbox is not empty."""
        ...

    def head_seq(self) -> int:
        """Return the number of the newest event of the list of threads."""
        ...


class InMemoryThreadStore:
    """A `ThreadStore` in memory: it shares the values that it is given, and dies with its process.

    Args:
        log_size: how many events of a thread are kept for replay.
    """

    def __init__(self, *, log_size: int = 1_000) -> None:
        self._log_size = log_size
        self._threads: dict[str, _Kept] = {}
        self._head_seq = 0
        self._is_open = False

    def open(self) -> None:
        """Take the store for one service."""
        if self._is_open:
            raise ThreadStoreBusyError
        self._is_open = True

    def close(self) -> None:
        """Give the store back."""
        self._is_open = False

    def load(self, thread_id: str) -> StoredThread | None:
        """Return a thread; `None` if nothing was ever stored of it."""
        kept = self._threads.get(thread_id)
        return None if kept is None else kept.stored()

    def write(self, thread_id: str, write: ThreadWrite) -> None:
        """Store a write."""
        kept = self._threads.get(thread_id)
        if kept is None:
            kept = self._threads[thread_id] = _Kept()
        kept.take(write, self._log_size)
        if write.head_seq is not None:
            self._head_seq = write.head_seq

    def heads(self) -> Sequence[ThreadHead]:
        """Return the heads of all threads that exist."""
        heads = (kept.head(thread_id) for thread_id, kept in self._threads.items())
        return [head for head in heads if head is not None]

    def unsettled(self) -> Collection[str]:
        """Return the ids of the threads whose outbox is not empty."""
        return [thread_id for thread_id, kept in self._threads.items() if kept.outbox]

    def head_seq(self) -> int:
        """Return the number of the newest event of the list of threads."""
        return self._head_seq


class _Kept:
    """One thread in memory."""

    __slots__ = ("_head", "_head_is_known", "events", "outbox", "receipts", "seq", "snapshot", "tap")

    def __init__(self) -> None:
        self.snapshot: ThreadSnapshot | None = None
        self.events: deque[ThreadEvent] = deque()
        self.seq = 0
        self.outbox: tuple[OutboxEntry, ...] = ()
        self.tap = TapState()
        self.receipts: OrderedDict[str, Receipt] = OrderedDict()
        self._head: ThreadHead | None = None
        self._head_is_known = False

    def head(self, thread_id: str) -> ThreadHead | None:
        """Return the thread's head, made anew only after a write; `None` if the thread does not exist."""
        if not self._head_is_known:
            model = model_of(thread_id, self.stored())
            self._head, self._head_is_known = model.head if model.exists else None, True
        return self._head

    def stored(self) -> StoredThread:
        return StoredThread(
            snapshot=self.snapshot,
            events=tuple(self.events),
            seq=self.seq,
            outbox=self.outbox,
            tap=self.tap,
            receipts=tuple(self.receipts.items()),
        )

    def take(self, write: ThreadWrite, log_size: int) -> None:
        self._head_is_known = False
        for event in write.events:
            self.events.append(event)
            self.seq = max(self.seq, event.seq)
            if type(event) is ThreadDeleted:
                self.events.clear()
                self.receipts.clear()
                self.snapshot, self.outbox, self.tap = None, (), TapState()
        if write.outbox is not None:
            self.outbox = write.outbox
        if write.tap is not None:
            self.tap = write.tap
        if write.snapshot is not None:
            self.snapshot = write.snapshot
            self.seq = max(self.seq, write.snapshot.seq)
            while len(self.events) > log_size and self.events[0].seq <= write.snapshot.seq:
                self.events.popleft()
        for request_id, receipt in write.receipts:
            self.receipts[request_id] = receipt
            if len(self.receipts) > KEPT_RECEIPTS:
                self.receipts.popitem(last=False)


def model_of(thread_id: str, stored: StoredThread) -> ThreadModel:
    """Return the thread that was stored: its snapshot, and what came behind it."""
    model = ThreadModel(thread_id, stored.snapshot)
    for event in stored.events:
        if event.seq > model.seq:
            model.apply(event)
    model.skip_to(stored.seq)
    return model


def unsettled_entries(outbox: Sequence[OutboxEntry], model: ThreadModel) -> dict[str, OutboxEntry]:
    """Return the entries whose runs are not settled, by run."""
    runs = model.runs
    return {each.run_id: each for each in outbox if each.run_id in runs and not is_settled(runs[each.run_id].status)}
