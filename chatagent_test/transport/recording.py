"""Scripts and seeds out of what was recorded: events of a real run, snapshots of a real thread (rule BT-12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.protocol import (
    GenerationFailed,
    GenerationMessageChunk,
    GenerationStarted,
    is_reserved,
    mark_of,
    tool_name_of,
)
from chatagent.ui import (
    UNSET,
    DataChunk,
    DataUIPart,
    FileUIPart,
    MessageReducer,
    ReasoningUIPart,
    SourceUrlUIPart,
    StepStartUIPart,
    TextDelta,
    TextUIPart,
    ToolPart,
)
from chatagent_test.transport.errors import ScriptError
from chatagent_test.transport.scripts import (
    AssistantScript,
    DataReply,
    ErrorScript,
    FileReply,
    ReasoningReply,
    ReplyPart,
    SeedAction,
    SourceReply,
    StepReply,
    TextReply,
    ToolReply,
)
from chatagent_test.transport.values import json_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatagent.protocol import ThreadEvent
    from chatagent.ui import UIMessage, UIPart

__all__ = ["script_of_events", "script_of_message"]


def script_of_events(events: Iterable[ThreadEvent], run_id: str | None) -> AssistantScript | ErrorScript:
    """Return a script that says what a run said, or fails as it failed."""
    recorded = list(events)
    if run_id is None:
        started = [event.run.run_id for event in recorded if isinstance(event, GenerationStarted)]
        if not started:
            raise ScriptError("reply.from_events: no run begins among these events")
        run_id = started[-1]
    reducer = MessageReducer()
    chunks = [each for each in recorded if isinstance(each, GenerationMessageChunk) and each.run_id == run_id]
    for event in chunks:
        reducer.feed(event.chunk)
    failed = next((e for e in recorded if isinstance(e, GenerationFailed) and e.run.run_id == run_id), None)
    if failed is not None and not chunks:
        return ErrorScript(failed.error.message, failed.error.code)
    return script_of_message(reducer.message, _transient(chunks), _deltas(chunks))


def script_of_message(
    message: UIMessage, transient: Iterable[DataReply] = (), deltas: Iterable[tuple[str, ...]] = ()
) -> AssistantScript:
    """Return a script whose message has the parts of this one."""
    marks = [mark for part in message.parts if (mark := mark_of(part)) is not None]
    actions = {mark.tool_call_id: mark for mark in marks if mark.resolution is UNSET}
    parts: list[ReplyPart] = []
    cuts = iter(deltas)
    for part in message.parts:
        if isinstance(part, TextUIPart):
            cut = next(cuts, None)
            parts.append(TextReply(part.text, cut if cut is not None and "".join(cut) == part.text else None))
        elif isinstance(part, ToolPart):
            parts.append(_tool_reply(part, actions.get(part.tool_call_id)))
        else:
            parts += _other(part)
    while parts and isinstance(parts[0], StepReply):
        del parts[0]
    return AssistantScript((*transient, *parts))


def _other(part: UIPart) -> list[ReplyPart]:
    match part:
        case ReasoningUIPart():
            return [ReasoningReply(part.text)]
        case StepStartUIPart():
            return [StepReply()]
        case FileUIPart():
            return [FileReply(part.url, part.media_type)]
        case SourceUrlUIPart():
            return [SourceReply(part.url, part.title)]
        case DataUIPart() if not is_reserved(part.type):
            return [DataReply(part.name, json_value(part.data), part.id)]
        case _:
            return []


def _tool_reply(part: ToolPart, mark: Any) -> ToolReply:
    name, call_id = tool_name_of(part), part.tool_call_id
    given = json_value(part.input)
    if part.state == "output-available":
        return ToolReply(name, "result", call_id, given, json_value(part.output))
    if part.state == "output-error":
        return ToolReply(name, "error", call_id, given, error=part.error_text or "")
    if part.approval is not None:
        return ToolReply(name, "approval", call_id, given, approval_id=part.approval.id)
    if mark is not None:
        is_output = mark.suspend_name is None
        asked = UNSET if is_output else json_value(mark.input)
        action = SeedAction(mark.action_name, asked, mark.action_id, mark.action_name == "output" and not is_output)
        return ToolReply(name, "waiting", call_id, given, action=action)
    raise ScriptError(
        f"the call {call_id!r} of tool {name!r} is {part.state}: a script needs calls that have an outcome"
    )


def _transient(chunks: Iterable[GenerationMessageChunk]) -> list[DataReply]:
    found = [event.chunk for event in chunks if isinstance(event.chunk, DataChunk) and event.chunk.transient]
    return [DataReply(each.name, json_value(each.data), each.id, transient=True) for each in found]


def _deltas(chunks: Iterable[GenerationMessageChunk]) -> list[tuple[str, ...]]:
    """Return the deltas of each text, in the order of the texts."""
    texts: dict[str, list[str]] = {}
    for event in chunks:
        if isinstance(event.chunk, TextDelta):
            texts.setdefault(event.chunk.id, []).append(event.chunk.delta)
    return [tuple(each) for each in texts.values()]
