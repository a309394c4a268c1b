"""What takes a run time and is no hook: `RunObserver.during` gets one of these as it begins.

They nest: the run around all, boot, turns and waits inside it, and within a turn its stream, its compactions, and so
on. What is known only at the end is filled in before the work ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.agent.compaction_options import CompactionSource
    from chatagent.agent.wire import WirePayload
    from chatagent.ui import UIMessage

__all__ = [
    "BootWork",
    "CompactionWork",
    "InjectionWork",
    "ReadWork",
    "RunWork",
    "SnapshotWork",
    "StreamWork",
    "TurnWork",
    "WaitWork",
    "WaitsFor",
    "Work",
]

WaitsFor: TypeAlias = Literal[
    "first message",
    "next message",
    "next message (continuation)",
    "next message (after error)",
    "handover signal",
]
"""What a run waits for: the first message after a preload, the next one behind a turn, behind a turn that failed, the
first one of a continuation, or the end of a head start."""


@dataclass(frozen=True, slots=True)
class RunWork:
    """The whole run, from its boot to its end."""


@dataclass(frozen=True, slots=True)
class BootWork:
    """All that comes before the first turn or wait: reading the past, `on_boot`, recovery."""


@dataclass(slots=True, kw_only=True)
class ReadWork:
    """One of the boot's reads of the past."""

    what: Literal["snapshot", "out", "in"]
    """The snapshot, or the tail of a channel."""
    count: int | None = None
    """Messages in the snapshot, or records in the tail; `None` until they are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnWork:
    """A turn or an action. How it went is told by `RunObserver.turn_settled`, unless it was cut off."""

    turn: int
    """Zero-based within the run; of an action, the number of the turn that comes next."""
    is_action: bool
    payload: WirePayload
    messages: Sequence[UIMessage]
    """The conversation as the turn found it."""
    is_open_ended: bool = False
    """Whether a custom agent's code decides where it ends: that may be another task than where it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotWork:
    """Saving the conversation. A failure passes through here, and is a warning of the run's."""

    messages: int
    """How many messages it holds."""


@dataclass(frozen=True, slots=True)
class StreamWork:
    """Piping an answer to the client, from the first chunk asked for to the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitWork:
    """Waiting for input, warm and then suspended, with the hooks around the suspension."""

    waits_for: WaitsFor


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionWork:
    """Putting a summary in the place of the conversation, once it is decided."""

    source: CompactionSource
    """Between two steps (`inner`), or behind a turn (`outer`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionWork:
    """Taking messages that came meanwhile into the turn that is on, once it is decided."""

    count: int
    """How many messages."""


Work: TypeAlias = (
    RunWork | BootWork | ReadWork | TurnWork | SnapshotWork | StreamWork | WaitWork | CompactionWork | InjectionWork
)
