"""What the facade shows of a thread: frozen values without reserved parts (rules DM-43 to DM-47).

A pure function of the snapshot. `ThreadModel` makes the same values message by message, so that looking at a long
thread after each chunk costs what has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from chatagent.protocol.errors import GenerationFailedError, RunNotFoundError
from chatagent.protocol.ownership import RESERVED_KEY, is_reserved, mark_of, ownership_of
from chatagent.ui import (
    UNSET,
    DataUIPart,
    Role,
    TextUIPart,
    ToolApproval,
    ToolState,
    UIMessage,
    UIPart,
    Unset,
)
from chatagent.ui import ToolPart as StoredToolPart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatagent.protocol.models import ActionRecord, Run, ThreadError, ThreadHead, ThreadSnapshot
    from chatagent.protocol.ownership import Producer, Relation
    from chatagent.ui import DynamicToolUIPart, ToolUIPart

__all__ = ["Part", "Suspension", "ThreadMessage", "ThreadState", "ToolPart", "project", "project_message"]


@dataclass(frozen=True, slots=True)
class Suspension:
    """A question to the client on a tool call (DM-45)."""

    action_id: str
    action_name: str
    suspend_name: str | None
    """`None` for the output of a client tool and for an approval."""
    input: object
    resolution: object | Unset = UNSET
    """The answer; `UNSET` while there is none."""

    @property
    def pending(self) -> bool:
        """Whether there is no answer yet."""
        return self.resolution is UNSET


@dataclass(frozen=True, slots=True)
class ToolPart:
    """A tool call as the facade shows it; a field that the state has not got is `None`."""

    type: str
    tool_name: str
    tool_call_id: str
    state: ToolState
    input: object = None
    output: object = None
    error_text: str | None = None
    approval: ToolApproval | None = None
    tool_metadata: Mapping[str, object] | None = None
    suspensions: tuple[Suspension, ...] = ()
    """The questions on this call, in order."""

    @property
    def pending_suspension(self) -> Suspension | None:
        """The last question that has no answer; `None` once the call has settled."""
        if self.state not in ("input-available", "approval-requested"):
            return None
        return next((each for each in reversed(self.suspensions) if each.pending), None)


Part: TypeAlias = UIPart | ToolPart
"""A part of a message as the facade shows it."""


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    """A message as the facade shows it."""

    message_id: str
    role: Role
    parts: tuple[Part, ...]
    metadata: Mapping[str, object]
    """What the application keeps beside the message; the protocol's own key is not among it."""
    run_id: str | None
    """The run that owns it; `None` for a message that stands alone."""
    producer: Producer
    relation: Relation

    @property
    def text(self) -> str:
        """The text parts joined, without separator."""
        return "".join(part.text for part in self.parts if isinstance(part, TextUIPart))

    @property
    def tool_parts(self) -> tuple[ToolPart, ...]:
        """The tool calls, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolPart))


@dataclass(frozen=True, slots=True)
class ThreadState:
    """A thread at one moment; later ones are other objects."""

    thread: ThreadHead
    messages: tuple[ThreadMessage, ...]
    runs: tuple[Run, ...]
    """In the order in which they were made."""
    error: ThreadError | None
    """Why the last generation failed; `None` once a later one has begun."""
    seq: int
    """The number of the last event in it."""
    pending_actions: tuple[ActionRecord, ...] = ()
    """What waits for an answer, in the order of the parts."""

    @property
    def active_run(self) -> Run | None:
        """The run that is at work or waits; `None` if there is none."""
        return next((run for run in reversed(self.runs) if run.status in ("running", "waiting")), None)

    def run(self, run_id: str) -> Run:
        """Return a run.

        Raises:
            RunNotFoundError: there is none of this id.
        """
        for run in self.runs:
            if run.run_id == run_id:
                return run
        raise RunNotFoundError(thread_id=self.thread.thread_id, run_id=run_id)

    def raise_for_error(self) -> None:
        """Raise if the last generation failed.

        Raises:
            GenerationFailedError: it did; the error has what the thread says of it.
        """
        if self.error is not None:
            raise GenerationFailedError(self.error)


_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


def project(snapshot: ThreadSnapshot) -> ThreadState:
    """Return what the facade shows of a snapshot; equal snapshots give equal states."""
    return ThreadState(
        thread=snapshot.thread,
        messages=tuple(project_message(message) for message in snapshot.messages),
        runs=snapshot.runs,
        error=snapshot.error,
        seq=snapshot.seq,
        pending_actions=snapshot.actions,
    )


def project_message(message: UIMessage) -> ThreadMessage:
    """Return what the facade shows of a message."""
    ownership = ownership_of(message)
    return ThreadMessage(
        message_id=message.id,
        role=message.role,
        parts=_project_parts(message.parts),
        metadata=_own_metadata(message.metadata),
        run_id=ownership.run_id,
        producer=ownership.producer,
        relation=ownership.relation,
    )


def _own_metadata(metadata: object) -> Mapping[str, object]:
    if not isinstance(metadata, dict):
        return _NOTHING
    own = {key: value for key, value in cast("dict[str, object]", metadata).items() if key != RESERVED_KEY}
    return own or _NOTHING


def _project_parts(parts: Sequence[UIPart]) -> tuple[Part, ...]:
    suspensions: dict[str, list[Suspension]] = {}
    for part in parts:
        mark = mark_of(part)
        if mark is not None:
            suspension = Suspension(mark.action_id, mark.action_name, mark.suspend_name, mark.input, mark.resolution)
            suspensions.setdefault(mark.tool_call_id, []).append(suspension)
    shown: list[Part] = []
    for part in parts:
        if isinstance(part, StoredToolPart):
            shown.append(_project_tool(part, suspensions.get(part.tool_call_id, ())))
        elif not (isinstance(part, DataUIPart) and is_reserved(part.type)):
            shown.append(part)
    return tuple(shown)


def _project_tool(part: ToolUIPart | DynamicToolUIPart, suspensions: Sequence[Suspension]) -> ToolPart:
    found = [_with_output(each, part) for each in suspensions]
    if part.approval is not None:
        found.append(_approval_suspension(part.approval, part.input))
    return ToolPart(
        type=part.type,
        tool_name=part.tool_name,
        tool_call_id=part.tool_call_id,
        state=part.state,
        input=part.input,
        output=part.output,
        error_text=part.error_text,
        approval=part.approval,
        tool_metadata=part.tool_metadata,
        suspensions=tuple(found),
    )


def _with_output(suspension: Suspension, part: StoredToolPart) -> Suspension:
    """Take a client tool's output for the answer to its question, which has no other."""
    if suspension.suspend_name is None and suspension.pending and part.state == "output-available":
        return replace(suspension, resolution=part.output)
    return suspension


def _approval_suspension(approval: ToolApproval, tool_input: object) -> Suspension:
    if approval.approved is None:
        return Suspension(approval.id, "approval", None, tool_input)
    answer: dict[str, object] = {"approved": approval.approved}
    if approval.reason is not None:
        answer["reason"] = approval.reason
    return Suspension(approval.id, "approval", None, tool_input, answer)
