"""What went through a transport: the events that its watches gave, and how often it was asked what."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from chatagent.protocol import event_to_wire
from chatagent.ui import format_json
from chatagent_test.conformance.forwarding import ForwardingTransport
from chatagent_test.conformance.streams import AlteredWatch

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from chatagent.client import AgentClientTransport
    from chatagent.protocol import EventStream, ThreadEvent, ThreadSnapshot

__all__ = ["RecordingTransport", "event_line"]

LONGEST = 160
"""Characters of an event's line."""


def event_line(event: ThreadEvent) -> str:
    """Return an event as a line of text."""
    wire = event_to_wire(event)
    for known in ("type", "seq", "at", "threadId"):
        wire.pop(known, None)
    told = f"{event.seq:>4} {event.type} {format_json(wire) if wire else ''}".rstrip()
    return told if len(told) <= LONGEST else f"{told[: LONGEST - 1]}…"


class RecordingTransport(ForwardingTransport):
    """Passes everything on, and remembers what it saw.

    Args:
        inner: where calls go.
    """

    def __init__(self, inner: AgentClientTransport) -> None:
        super().__init__(inner)
        self.seen: dict[str, dict[tuple[int, str], ThreadEvent]] = {}
        """By thread, the events that any watch of it has given, by number and type: two watches give the same ones."""
        self.reads: Counter[str] = Counter()
        """By thread, how often it was read whole."""

    async def get_thread(self, thread_id: str) -> ThreadSnapshot | None:
        self.reads[thread_id] += 1
        return await super().get_thread(thread_id)

    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        seen = self.seen.setdefault(thread_id, {})

        def note(event: ThreadEvent) -> tuple[ThreadEvent]:
            seen.setdefault((event.seq, event.type), event)
            return (event,)

        return AlteredWatch(super().watch_thread(thread_id, after=after), note)

    def lines(self) -> list[str]:
        """Return what was seen as text."""
        lines: list[str] = []
        for thread_id, events in self.seen.items():
            lines.append(f"thread {thread_id}:" if events else f"thread {thread_id}: none")
            lines += [event_line(event) for _, event in sorted(events.items(), key=lambda item: item[0])]
        return lines
