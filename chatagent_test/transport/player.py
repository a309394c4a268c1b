"""Plays a script: from its parts to the writer's chunks, stopping at pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from chatagent.protocol import SuspensionMark, tool_name_of
from chatagent.ui import UNSET, ToolPart
from chatagent_test.transport.checking import action_input
from chatagent_test.transport.errors import ScriptError
from chatagent_test.transport.scripts import (
    AssistantScript,
    DataReply,
    FileReply,
    PauseReply,
    ReasoningReply,
    SeedAction,
    SourceReply,
    StepReply,
    TextReply,
    ToolReply,
)
from chatagent_test.transport.values import json_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatagent.ui import UIMessage
    from chatagent_test.transport.ids import IdCounters
    from chatagent_test.transport.scripts import ReplyPart
    from chatagent_test.transport.tools import ToolBook
    from chatagent_test.transport.writer import ResponseWriter

__all__ = ["ScriptPlayer", "make_mark", "resolutions"]


def make_mark(
    action: SeedAction, *, tool_name: str, call_id: str, tool_input: object, action_id: str, where: str
) -> SuspensionMark:
    """Return what says that a call waits (DM-33)."""
    return SuspensionMark(
        action_id=action_id,
        tool_call_id=call_id,
        tool_name=tool_name,
        name=f"{tool_name}.{action.name}",
        suspend_name=None if action.is_implicit else action.name,
        input=json_value(action_input(action, tool_input, where)),
    )


def resolutions(script: AssistantScript, waited: UIMessage | None) -> dict[str, tuple[object, str | None]]:
    """Return what the script says of the calls that waited: output and error text by call id.

    Args:
        script: the script.
        waited: the message of the run that waited; `None` for a run that did not.

    Raises:
        ScriptError: it settles a call of a tool that no call of the message waited for.
    """
    found: dict[str, tuple[object, str | None]] = {}
    open_calls = [] if waited is None else [part for part in waited.parts if _is_open(part)]
    for part in script.parts:
        if not isinstance(part, ToolReply) or not part.resolves:
            continue
        fitting = [
            call
            for call in open_calls
            if tool_name_of(call) == part.name
            and call.tool_call_id not in found
            and part.call_id in (None, call.tool_call_id)
        ]
        if not fitting:
            names = ", ".join(sorted({tool_name_of(call) for call in open_calls})) or "none"
            raise ScriptError(
                f"{part!r}: the run that claims this script has no open call of tool {part.name!r}; open calls: {names}"
            )
        output = None if part.output is UNSET else json_value(part.output)
        found[fitting[0].tool_call_id] = (output, part.error)
    return found


def _is_open(part: object) -> TypeGuard[ToolPart]:
    return isinstance(part, ToolPart) and part.state in ("input-available", "approval-responded", "approval-requested")


class ScriptPlayer:
    """Plays one script into one writer.

    Args:
        script: what to say.
        writer: where it goes.
        book: how tools are shown.
        ids: makes the ids.
        waited: the message that a resumed run goes on with.
    """

    def __init__(
        self,
        script: AssistantScript,
        writer: ResponseWriter,
        book: ToolBook,
        ids: IdCounters,
        waited: UIMessage | None,
    ) -> None:
        self._script, self._writer, self._book, self._ids, self._waited = script, writer, book, ids, waited

    def play(self) -> Iterator[float]:
        """Write the script; yields the seconds of each pause and goes on when it is resumed."""
        script, writer = self._script, self._writer
        writer.begin(script.message_id, script.metadata, resolutions(script, self._waited))
        for part in script.parts:
            if isinstance(part, PauseReply):
                yield part.seconds
            else:
                self._write(part)
        writer.finish(script.finish_reason)

    def _write(self, part: ReplyPart) -> None:
        writer = self._writer
        match part:
            case TextReply():
                self._write_text(part)
            case ReasoningReply():
                self._write_reasoning(part)
            case ToolReply():
                self._write_tool(part)
            case DataReply():
                writer.data(part.name, json_value(part.value), part.data_id, transient=part.transient)
            case FileReply():
                writer.file(part.url, part.media_type)
            case SourceReply():
                writer.source_url(part.url, part.title)
            case StepReply():
                writer.step()
            case PauseReply():
                pass

    def _write_text(self, part: TextReply) -> None:
        writer = self._writer
        block = writer.text_start()
        chunks = part.chunks if part.chunks is not None else (part.text,) if part.text else ()
        delta = writer.text_delta
        for each in chunks:
            delta(block, each)
        writer.text_end(block)

    def _write_reasoning(self, part: ReasoningReply) -> None:
        block = self._writer.reasoning_start()
        if part.text:
            self._writer.reasoning_delta(block, part.text)
        self._writer.reasoning_end(block)

    def _write_tool(self, part: ToolReply) -> None:
        if part.resolves:
            return  # said at the beginning
        writer, look = self._writer, self._book.look(part.name, part.where)
        call_id = self._ids.take("call", part.call_id)
        given = json_value(part.input)
        writer.tool_input(look, call_id, given)
        match part.outcome:
            case "result":
                writer.tool_output(look, call_id, json_value(part.output))
            case "error":
                writer.tool_error(look, call_id, part.error or "")
            case "approval":
                writer.tool_approval(call_id, self._ids.take("approval", part.approval_id))
            case _:
                assert part.action is not None
                action_id = self._ids.take("action", part.action.action_id)
                mark = make_mark(
                    part.action,
                    tool_name=part.name,
                    call_id=call_id,
                    tool_input=given,
                    action_id=action_id,
                    where=part.where,
                )
                writer.tool_waiting(mark)
