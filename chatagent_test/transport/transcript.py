"""A thread as text, for golden files (rule BT-13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.protocol import GenerationMessageChunk, event_to_wire, ownership_of
from chatagent.ui import TextUIPart, format_json, to_wire

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatagent.protocol import ThreadEvent, ThreadSnapshot
    from chatagent.ui import UIPart

__all__ = ["transcript_of"]


def transcript_of(snapshot: ThreadSnapshot, events: Iterable[ThreadEvent]) -> str:
    """Return messages, runs and events of a thread as text."""
    head = snapshot.thread
    lines = [f"thread {head.thread_id}: {head.status}" + (f", {head.title!r}" if head.title is not None else "")]
    lines.append("messages")
    for message in snapshot.messages:
        owner = ownership_of(message)
        lines.append(f"  {message.id} {message.role} ({owner.relation} of {owner.run_id or 'no run'})")
        lines += [f"    {_part_line(part)}" for part in message.parts]
    lines.append("runs")
    for run in snapshot.runs:
        why = run.error.message if run.error is not None else run.abort_reason
        lines.append(f"  {run.run_id} {run.initiator}: {run.status}" + (f" ({why})" if why else ""))
    lines.append("events")
    lines += [f"  {event.seq:>3} {_event_line(event)}" for event in events]
    return "\n".join(lines) + "\n"


def _part_line(part: UIPart) -> str:
    if isinstance(part, TextUIPart):
        return f"text {part.text!r}"
    wire = to_wire(part)
    kind = wire.pop("type")
    return f"{kind} {format_json(wire)}" if wire else str(kind)


def _event_line(event: ThreadEvent) -> str:
    if isinstance(event, GenerationMessageChunk):
        wire = to_wire(event.chunk)
        kind = wire.pop("type")
        told = f" {format_json(wire)}" if wire else ""
        return f"{event.message_id}[{event.index}] {kind}{told}"
    wire = event_to_wire(event)
    run = wire.get("run")
    told = f" {run['runId']}" if isinstance(run, dict) else ""
    return f"{event.type}{told}"
