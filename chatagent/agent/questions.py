"""Questions of tools that clients answer (MP-17, MP-18): asking them, and what becomes of the answers.

The answers lie in the metadata of the call's part, so that they outlive the run. A call with a new answer is shown to
the step loop as an approved one: it runs before the model is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from chatagent.protocol import RESERVED_KEY
from chatagent.ui import DataChunk, ToolApproval, ToolPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["RESUME_KEY", "SUSPEND_TYPE", "answers_in", "as_approved", "question_chunk", "with_answers"]

SUSPEND_TYPE: Final = "data-chatagent-suspend"
"""Data of this type say that a tool call asks the client something."""
RESUME_KEY: Final = "resume"
"""What a client's answer carries beside its call: a list of `{name, value, actionId}`."""

PartT = TypeVar("PartT", bound=ToolPart)


def question_chunk(tool_call_id: str, name: str, shown: object) -> DataChunk:
    """Return what tells a service that a call waits for an answer."""
    return DataChunk(SUSPEND_TYPE, {"toolCallId": tool_call_id, "name": name, "input": shown}, transient=True)


def with_answers(stored: PartT, incoming: ToolPart) -> PartT | None:
    """Return the stored call with the answers that the incoming one brings; `None` if that brings none."""
    brought = (incoming.model_extra or {}).get(RESUME_KEY)
    if not isinstance(brought, Sequence):
        return None
    told = cast("Sequence[Mapping[str, Any]]", brought)
    answers = {**_answers(stored), **{str(each["name"]): each.get("value") for each in told}}
    metadata = dict(stored.tool_metadata or {})
    reserved = cast("Mapping[str, object]", metadata.get(RESERVED_KEY) or {})
    metadata[RESERVED_KEY] = {**reserved, "answers": answers}
    return stored.model_copy(update={"tool_metadata": metadata})


def answers_in(messages: Iterable[UIMessage], tool_call_id: str) -> Mapping[str, object]:
    """Return the answers to the questions of a call, by the questions' names."""
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolPart) and part.tool_call_id == tool_call_id:
                return _answers(part)
    return {}


def as_approved(message: UIMessage) -> UIMessage:
    """Return the message with each open call that has answers as an approved one; the message itself if none has."""
    if message.role != "assistant" or not any(_goes_on(part) for part in message.parts):
        return message
    parts = tuple(_approved(cast("ToolPart", part)) if _goes_on(part) else part for part in message.parts)
    return message.model_copy(update={"parts": parts})


def _goes_on(part: object) -> bool:
    return isinstance(part, ToolPart) and part.state == "input-available" and bool(_answers(part))


def _approved(part: ToolPart) -> ToolPart:
    approval = ToolApproval(id=f"answers-{part.tool_call_id}", approved=True)
    return part.model_copy(update={"state": "approval-responded", "approval": approval})


def _answers(part: ToolPart) -> Mapping[str, object]:
    reserved = (part.tool_metadata or {}).get(RESERVED_KEY)
    if not isinstance(reserved, Mapping):
        return {}
    return cast("Mapping[str, Mapping[str, object]]", reserved).get("answers", {})
