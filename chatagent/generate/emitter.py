"""Where the parts of a call go: into the log, to `on_chunk`, and to the one that drives the call, if it wants them.

Emitting is a plain call. What must be awaited on the way is collected, and awaited by the loop before it goes on.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from chatagent.generate.events import call_back

if TYPE_CHECKING:
    from chatagent.generate.log import PartLog
    from chatagent.generate.parts import FullReasoningDelta, FullStreamPart, FullTextDelta
    from chatagent.generate.settings import Transform

__all__ = ["DeltaSink", "Emitter", "PartSink"]

PartSink: TypeAlias = Callable[["FullStreamPart"], Awaitable[None] | None]
"""Takes a part; what it returns is awaited before the next one is made."""

DeltaSink: TypeAlias = Callable[["type[FullTextDelta | FullReasoningDelta]", str, str], None]
"""Takes a delta: what kind of part it is, the id of its block, and the text."""


class Emitter:
    """Passes parts on.

    Args:
        log: keeps all parts.
        on_chunk: the callback of that name.
        transforms: applied to each part, the first one first.
    """

    __slots__ = ("_on_chunk", "_transforms", "delta_sink", "log", "pending", "sink")

    def __init__(
        self, log: PartLog, on_chunk: Callable[[FullStreamPart], object] | None, transforms: Sequence[Transform]
    ) -> None:
        self.log = log
        self.sink: PartSink | None = None
        self.delta_sink: DeltaSink | None = None
        """Takes deltas without metadata in place of `sink`, if it is set."""
        self.pending: list[Awaitable[object]] = []
        """What must be awaited before the loop goes on; always this one list."""
        self._on_chunk, self._transforms = on_chunk, transforms

    @property
    def emit(self) -> Callable[[FullStreamPart], None]:
        """Takes the next part of the call."""
        return self._transformed if self._transforms else self.pass_on

    @property
    def emit_delta(self) -> DeltaSink:
        """Takes the next delta that has no metadata: the path that a long answer goes by the ten thousand."""
        return self._delta_as_part if self._transforms or self._on_chunk else self._pass_on_delta

    def pass_on(self, part: FullStreamPart) -> None:
        """Pass on a part that is not to be transformed."""
        self.log.append(part)
        if self.sink is not None:
            wait = self.sink(part)
            if wait is not None:
                self.pending.append(wait)
        if self._on_chunk is not None:
            self.pending.append(call_back(self._on_chunk, part, name="on_chunk"))

    def _pass_on_delta(self, make: type[FullTextDelta | FullReasoningDelta], block_id: str, text: str) -> None:
        self.log.append_delta(make, block_id, text)
        if self.delta_sink is not None:
            self.delta_sink(make, block_id, text)
        elif self.sink is not None:
            wait = self.sink(make(block_id, text))
            if wait is not None:
                self.pending.append(wait)

    def _delta_as_part(self, make: type[FullTextDelta | FullReasoningDelta], block_id: str, text: str) -> None:
        self.emit(make(block_id, text))

    def drop_pending(self) -> None:
        """Forget what is to be awaited."""
        for wait in self.pending:
            if inspect.iscoroutine(wait):
                wait.close()
        self.pending.clear()

    def _transformed(self, part: FullStreamPart) -> None:
        parts = [part]
        for transform in self._transforms:
            parts = [made for each in parts for made in transform(each)]
        for made in parts:
            self.pass_on(made)
