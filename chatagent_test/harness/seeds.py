"""What a test wants a run to find when it boots, and the checks that a seed cannot be ignored silently (G-6, G-13)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from chatagent.errors import HarnessStateError, InvalidArgumentError
from chatagent.session import Snapshot
from chatagent.ui import Start, UIMessage, parse_chunk, parse_ui_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from chatagent.agent import ChatAgent
    from chatagent.ids import IdGenerator
    from chatagent.ui import Chunk

__all__ = ["Seeds"]


class Seeds:
    """The seeds of one harness.

    Args:
        agent: whose boot will look for them.
        reads_past: whether the boot reads the past at all.
        strict: whether a seed that nobody reads is an error; else it is a warning.
        new_id: makes ids for messages that have none.
        taken: told of the messages that were seeded, whose ids must not be made again.
    """

    def __init__(
        self,
        agent: ChatAgent[Any],
        *,
        reads_past: bool,
        strict: bool,
        new_id: IdGenerator,
        taken: Callable[[Iterable[Any]], None],
    ) -> None:
        self.snapshot: Any = None
        """A `Snapshot`, or the JSON that a store would hold."""
        self.out_tail: Sequence[Chunk] = ()
        self.partial: UIMessage | None = None
        self.partial_raw: UIMessage | None = None
        self.in_tail: Sequence[UIMessage] = ()
        self._agent, self._reads_past, self._strict, self._new_id = agent, reads_past, strict, new_id
        self._taken = taken

    @property
    def any_record(self) -> bool:
        """Whether something was seeded that lies in a store."""
        return self.snapshot is not None or bool(self.out_tail) or bool(self.in_tail)

    def seed_snapshot(self, snapshot: Snapshot | Mapping[str, Any] | None) -> None:
        """See `ChatAgentHarness.seed_snapshot`."""
        if snapshot is not None and not isinstance(snapshot, Snapshot | Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            problem = "give a Snapshot, such as get_snapshot() returns, or its wire form"
            raise InvalidArgumentError(argument="snapshot", value=snapshot, problem=problem)
        if snapshot is None:
            self.snapshot = None
        elif self._is_read("snapshot"):
            if self._agent.has("hydrate_messages"):
                self._complain(
                    "a snapshot and `hydrate_messages` exclude each other: an agent that keeps its history reads none"
                )
            self.snapshot = snapshot
            stored: Any = snapshot.get("messages") if isinstance(snapshot, Mapping) else snapshot.messages
            self._taken(cast("Sequence[Any]", stored) if isinstance(stored, list | tuple) else ())

    def seed_out_tail(self, chunks: Sequence[Chunk | Mapping[str, Any]] | None) -> None:
        """See `ChatAgentHarness.seed_session_out_tail`."""
        if not self._is_read("out tail"):
            return
        self.out_tail = [parse_chunk(cast("Any", chunk), allow_unknown=True) for chunk in chunks or ()]
        self._taken({"id": chunk.message_id} for chunk in self.out_tail if isinstance(chunk, Start))

    def seed_partial(
        self, message: UIMessage | Mapping[str, Any] | None, raw: UIMessage | Mapping[str, Any] | None
    ) -> None:
        """See `ChatAgentHarness.seed_session_out_partial`."""
        if not self._is_read("partial answer"):
            return
        parse: Callable[[Any], UIMessage] = parse_ui_message
        self.partial = None if message is None else parse(message)
        self.partial_raw = self.partial if raw is None else parse(raw)
        self._taken(() if self.partial is None else (self.partial,))

    def seed_in_tail(self, messages: Sequence[UIMessage | Mapping[str, Any]]) -> None:
        """See `ChatAgentHarness.seed_session_in_tail`."""
        if isinstance(messages, str | Mapping | UIMessage):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise InvalidArgumentError(argument="messages", value=messages, problem="give a list of user messages")
        if not self._is_read("in tail"):
            return
        self._taken(messages)
        self.in_tail = [parse_ui_message(cast("Any", each), generate_id=self._new_id) for each in messages]

    def _is_read(self, what: str) -> bool:
        """Return whether the boot will look; complain if it will not."""
        if self._agent.options.is_custom and what in ("snapshot", "partial answer"):
            self._complain(f"this boot would not read the seeded {what}: a custom agent has no past")
            return False
        if not self._reads_past:
            self._complain(
                f"this boot would not read the seeded {what}: only a continuation or a retry reads the past; make the "
                'harness with continuation=True, or with task_context={"attempt": {"number": 2}}'
            )
        return self._reads_past

    def _complain(self, problem: str) -> None:
        if self._strict:
            raise HarnessStateError(problem)
        warnings.warn(problem, RuntimeWarning, stacklevel=5)
