"""Backends with one rule broken each, made of the scripted one: what the suite must catch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from chatagent.protocol import GenerationMessageChunk, UnknownEvent
from chatagent_test.conformance import ForwardingTransport
from chatagent_test.conformance.streams import AlteredWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from chatagent.protocol import EventStream, Run, ThreadEvent, ThreadHeadEvent, ThreadSnapshot
    from chatagent.ui import Chunk, UIMessage
    from chatagent_test import MockAgentTransport

__all__ = ["Mutant", "caught_by", "nothing_in_place_of"]


class Mutant(ForwardingTransport):
    """A transport whose subclasses change events, snapshots or calls."""

    caught_by: ClassVar[tuple[str, ...]] = ()
    """The cases that must fail on it."""

    def __init__(self, mock: MockAgentTransport) -> None:
        super().__init__(mock)
        self.mock = mock

    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        return AlteredWatch(super().watch_thread(thread_id, after=after), self.new_alteration())

    def watch_thread_heads(self, *, after: int | None) -> AbstractAsyncContextManager[EventStream[ThreadHeadEvent]]:
        return AlteredWatch(super().watch_thread_heads(after=after), lambda event: [self.head_event(event)])

    async def get_thread(self, thread_id: str) -> ThreadSnapshot | None:
        snapshot = await super().get_thread(thread_id)
        return None if snapshot is None else self.snapshot(snapshot)

    # What subclasses change ---------------------------------------------------------------------------------------

    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        """Return what happens to the events of one watch."""
        return lambda event: [self.event(event)]

    def event(self, event: ThreadEvent) -> ThreadEvent:
        """Return what becomes of an event."""
        if isinstance(event, GenerationMessageChunk):
            return replace(event, chunk=self.chunk(event.chunk))
        run: Run | None = getattr(event, "run", None)
        if run is not None:
            return replace(event, run=self.run(run))
        message: UIMessage | None = getattr(event, "message", None)
        return event if message is None else replace(event, message=self.message(message))

    def chunk(self, chunk: Chunk) -> Chunk:
        """Return what becomes of a chunk."""
        return chunk

    def head_event(self, event: ThreadHeadEvent) -> ThreadHeadEvent:
        """Return what becomes of an event of the list."""
        return event

    def snapshot(self, snapshot: ThreadSnapshot) -> ThreadSnapshot:
        """Return what becomes of a thread that is read."""
        changes: dict[str, Any] = {
            "messages": tuple(self.message(each) for each in snapshot.messages),
            "runs": tuple(self.run(each) for each in snapshot.runs),
        }
        return snapshot.model_copy(update=changes)

    def message(self, message: UIMessage) -> UIMessage:
        """Return what becomes of a message, in snapshots and events."""
        return message

    def run(self, run: Run) -> Run:
        """Return what becomes of a run, in snapshots and events."""
        return run


def caught_by(*case_ids: str) -> Callable[[type[Mutant]], type[Mutant]]:
    """Say which cases must fail on a mutant."""

    def mark(mutant: type[Mutant]) -> type[Mutant]:
        mutant.caught_by = case_ids
        return mutant

    return mark


def nothing_in_place_of(event: ThreadEvent) -> ThreadEvent:
    """Return an event that only moves the number."""
    return UnknownEvent(type="nothing", thread_id=event.thread_id, seq=event.seq, at=event.at)
