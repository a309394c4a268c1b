"""What lies around a task beside its session: its context, its metadata, its streams, and how it suspends.

A run of an agent has such surroundings too, so that code which uses them works in both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chatagent.current import current_surroundings
from chatagent.task.context import RunContext, WorkerInfo
from chatagent.task.input_streams import InputStream, InputStreams
from chatagent.task.metadata import RunMetadata
from chatagent.task.output_streams import OutputStream, OutputStreams

if TYPE_CHECKING:
    from chatagent.session.channel import Channel
    from chatagent.session.records import Direction
    from chatagent.session.suspension import RuntimeManager

__all__ = ["Streams", "TaskSurroundings", "current_context", "current_worker", "is_warm_start", "streams"]


@dataclass(slots=True, kw_only=True)
class TaskSurroundings:
    """What one run has around it."""

    context: RunContext
    worker: WorkerInfo = field(default_factory=WorkerInfo)
    is_warm_start: bool = False
    """Whether the worker had run something before."""
    metadata: RunMetadata = field(default_factory=RunMetadata)
    inputs: InputStreams = field(default_factory=InputStreams)
    outputs: OutputStreams = field(default_factory=OutputStreams)
    runtime: RuntimeManager | None = None
    """Puts the run away while it waits suspended; without one it waits in place."""
    channels: dict[tuple[str, Direction], Channel] = field(default_factory=dict["tuple[str, Direction]", "Channel"])
    """The channels of sessions that code of the run has opened; all its `Session` objects of one id share them."""


class Streams:
    """The functions behind `chatagent.task.streams`."""

    __slots__ = ()

    def input(self, stream_id: str) -> InputStream:
        """Return the current run's input stream of this id; it need not be there yet."""
        return InputStream(stream_id)

    def output(self, stream_id: str) -> OutputStream:
        """Return the current run's output stream of this id; it need not be there yet."""
        return OutputStream(stream_id)


streams = Streams()
"""Data to and from the current run by name: `streams.input("approval")`, `streams.output("progress")`."""


def current_context() -> RunContext | None:
    """Return the context of the current run; `None` outside any run."""
    surroundings = current_surroundings()
    return None if surroundings is None else surroundings.context


def current_worker() -> WorkerInfo | None:
    """Return who runs the current run; `None` outside any run."""
    surroundings = current_surroundings()
    return None if surroundings is None else surroundings.worker


def is_warm_start() -> bool:
    """Return whether the worker of the current run had run something before; `False` outside any run."""
    surroundings = current_surroundings()
    return False if surroundings is None else surroundings.is_warm_start
