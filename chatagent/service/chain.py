"""The conversation as the agent has it, beside the thread as clients see it (rules MP-8 and MP-25).

What the agent streamed is in both. What its hooks made of the history is in the conversation only, and then the thread
takes it over. The thread has more than the conversation: who owns a message, what waits for the client, where tools
run, and messages that are none of the conversation's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from chatagent.protocol import (
    RESERVED_KEY,
    Ownership,
    ThreadModel,
    is_reserved,
    mark_of,
    owned,
)
from chatagent.ui import DataUIPart, ToolPart, UIMessage, cleanup_aborted_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from chatagent.ui import UIPart

__all__ = ["ChainWatch"]

_NOT_THE_AGENTS: Final = frozenset({"context"})
"""Relations of messages that the conversation does not hold."""


class ChainWatch:
    """Compares one thread with the agent's conversation, turn by turn.

    A message that is the same object on both sides as at the last look is not looked into again, so that a turn costs
    what is new in it.

    Args:
        show: adds what clients are told of a message's tools.
    """

    def __init__(self, show: Callable[[UIMessage], UIMessage]) -> None:
        self._show = show
        self._equal: dict[str, tuple[UIMessage, UIMessage]] = {}
        """Pairs that were found equal, by the message's id: the agent's, the thread's."""

    def taken_over(
        self, model: ThreadModel, chain: Sequence[UIMessage], *, unsent: frozenset[str]
    ) -> tuple[UIMessage, ...] | None:
        """Return the messages that the thread is to have instead of its own; `None` if they say the same.

        Args:
            model: the thread.
            chain: the agent's conversation.
            unsent: ids of messages that never reached the agent.
        """
        if self._says_the_same(model, chain, unsent):
            return None
        known = {message.id for message in chain}
        beside = {message.id for message in model.messages() if self._is_beside(model, message, known, unsent)}
        return self._merged(model, chain, beside)

    def _says_the_same(self, model: ThreadModel, chain: Sequence[UIMessage], unsent: frozenset[str]) -> bool:
        known: set[str] | None = None
        position, end = 0, len(chain)
        for ours in model.messages():
            theirs = chain[position] if position < end else None
            if theirs is not None and theirs.id == ours.id:
                if not self._is_same(model, theirs, ours):
                    return False
                position += 1
                continue
            if known is None:
                known = {message.id for message in chain}
            if not self._is_beside(model, ours, known, unsent):
                return False
        return position == end

    def _is_beside(self, model: ThreadModel, message: UIMessage, known: set[str], unsent: frozenset[str]) -> bool:
        """Return whether a message is part of the thread and not of the conversation."""
        if message.id in known:
            return False
        ownership = model.ownership(message.id)
        run = model.runs.get(ownership.run_id or "")
        if ownership.relation in _NOT_THE_AGENTS or message.id in unsent:
            return True
        return run is not None and (run.status == "queued" or run.initiator == "action")

    def _is_same(self, model: ThreadModel, theirs: UIMessage, ours: UIMessage) -> bool:
        if theirs.id != ours.id:
            return False
        pair = self._equal.get(ours.id)
        if pair is not None and pair[0] is theirs and pair[1] is ours:
            return True
        run = model.runs.get(model.ownership(ours.id).run_id or "")
        clean = run is not None and run.status in ("failed", "aborted")
        is_same = _says_the_same(_plain(theirs, clean=clean), _plain(ours, clean=clean))
        if is_same:
            self._equal[ours.id] = theirs, ours
        return is_same

    def _merged(self, model: ThreadModel, chain: Sequence[UIMessage], beside: set[str]) -> tuple[UIMessage, ...]:
        """Return the conversation as a thread shows it, with what is only in the thread at its place."""
        merged: list[UIMessage] = []
        last_run: str | None = None
        for theirs in chain:
            ours = model.message(theirs.id)
            message = self._as_shown(model, theirs, ours, last_run)
            merged.append(message)
            last_run = _run_of(message) or last_run
        for position, message in enumerate(model.messages()):
            if message.id in beside:
                merged.insert(_place(merged, model.messages()[:position]), message)
        return tuple(merged)

    def _as_shown(
        self, model: ThreadModel, theirs: UIMessage, ours: UIMessage | None, last_run: str | None
    ) -> UIMessage:
        if ours is None:
            is_answer = theirs.role == "assistant" and last_run is not None
            ownership = (
                Ownership("model", "output", last_run)
                if is_answer
                else Ownership("user" if theirs.role == "user" else "lifecycle", "standalone")
            )
            return owned(self._show(_with_data_once(theirs)), ownership)
        if self._is_same(model, theirs, ours):
            return ours
        return owned(_with_marks(self._show(_with_data_once(theirs)), ours), model.ownership(ours.id))


def _run_of(message: UIMessage) -> str | None:
    metadata = cast("Mapping[str, Any]", message.metadata or {})
    return metadata.get(RESERVED_KEY, {}).get("runId")


def _place(merged: Sequence[UIMessage], before: Sequence[UIMessage]) -> int:
    """Return the place behind the last message that stood before."""
    ids = [message.id for message in merged]
    return next((ids.index(each.id) + 1 for each in reversed(before) if each.id in ids), 0)


def _with_data_once(message: UIMessage) -> UIMessage:
    """Return a message as clients show it: of data parts of one type and id there is the last, in the first's place."""
    places: dict[tuple[str, str], int] = {}
    parts: list[UIPart] = []
    for part in message.parts:
        key = (part.type, part.id) if isinstance(part, DataUIPart) and part.id is not None else None
        if key in places:
            parts[places[key]] = part
            continue
        if key is not None:
            places[key] = len(parts)
        parts.append(part)
    return message if len(parts) == len(message.parts) else message.model_copy(update={"parts": tuple(parts)})


def _with_marks(theirs: UIMessage, ours: UIMessage) -> UIMessage:
    """Put what says that a call waits, or waited, behind its call again."""
    marks: dict[str, list[UIPart]] = {}
    for part in ours.parts:
        mark = mark_of(part)
        if mark is not None:
            marks.setdefault(mark.tool_call_id, []).append(part)
    if not marks:
        return theirs
    parts: list[UIPart] = []
    for part in theirs.parts:
        parts.append(part)
        if isinstance(part, ToolPart):
            parts += marks.get(part.tool_call_id, [])
    return theirs.model_copy(update={"parts": tuple(parts)})


class _Plain(NamedTuple):
    """What a message says, whoever's it is.

    Data parts are compared by themselves: the agent keeps those that its code wrote behind the answer, each time one
    more, clients see them where they came, and of one id only what came last.
    """

    said: tuple[object, ...]
    data: dict[tuple[str, str], list[object]]
    """Data with an id: by type and id, all that there is of it."""
    nameless: list[object]
    """Data without an id."""


def _says_the_same(theirs: _Plain, ours: _Plain) -> bool:
    """Return whether the agent's message says what the thread's does, beyond the order of data."""
    if theirs.said != ours.said or theirs.data.keys() != ours.data.keys():
        return False
    if any(shown[-1] not in theirs.data[key] for key, shown in ours.data.items()):
        return False
    rest = list(theirs.nameless)
    for part in ours.nameless:
        if part not in rest:
            return False
        rest.remove(part)
    return not rest


def _plain(message: UIMessage, *, clean: bool) -> _Plain:
    """Return what a message says."""
    wire = (cleanup_aborted_parts(message) if clean else message).to_wire()
    told = cast("dict[str, object]", wire.get("metadata") or {})
    metadata = {key: value for key, value in told.items() if key != RESERVED_KEY}
    parts: list[object] = []
    data: dict[tuple[str, str], list[object]] = {}
    nameless: list[object] = []
    for part in cast("list[dict[str, Any]]", wire["parts"]):
        kind = str(part["type"])
        if is_reserved(kind):
            continue
        if kind.startswith("data-") and "id" in part:
            data.setdefault((kind, part["id"]), []).append(part)
        elif kind.startswith("data-"):
            nameless.append(part)
        else:
            parts.append(_plain_part(part))
    return _Plain((wire["role"], metadata, parts), data, nameless)


def _plain_part(part: dict[str, Any]) -> dict[str, Any]:
    told = part.get("toolMetadata")
    if not told or RESERVED_KEY not in told:
        return part
    rest = {key: value for key, value in told.items() if key != RESERVED_KEY}
    plain = {key: value for key, value in part.items() if key != "toolMetadata"}
    return {**plain, "toolMetadata": rest} if rest else plain
