"""What directives have at hand when they are performed: the event of the hook, `run`, tool or deferred work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from conformance.chat_agent.wire import event_to_wire

if TYPE_CHECKING:
    from conformance.chat_agent.values import Wire


@dataclass(frozen=True)
class Moment:
    """One call of something that has directives."""

    name: str
    """The reference's name of the hook, `run`, `tools` or `tool`."""
    wire: Wire
    """The event as the log shows it."""
    call: int
    """The how-manieth call it is in the whole scenario, from 1."""
    event: Any = None
    """What our runtime gave; `None` for a tool."""
    signal: Any = None
    """What `waitAbort` waits for."""

    @staticmethod
    def of_event(name: str, event: Any, call: int) -> Moment:
        return Moment(name, event_to_wire(event), call, event, getattr(event, "signal", None))

    def first(self) -> Moment:
        """Return the same moment as its own first call: so `then` counts."""
        return replace(self, call=1)
