"""Writes the chunks of one generation, as an agent streams them (rules CK-1 to CK-22).

Knows the grammar: where a step begins and ends, which call waits. What is said comes from a script or from the hand of
the test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.protocol import SuspensionMark, suspension_chunk
from chatagent.ui import (
    UNSET,
    Abort,
    Chunk,
    DataChunk,
    Error,
    File,
    Finish,
    FinishReason,
    FinishStep,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ReasoningUIPart,
    SourceUrl,
    Start,
    StartStep,
    TextDelta,
    TextEnd,
    TextStart,
    TextUIPart,
    ToolApprovalRequest,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputError,
    ToolInputStart,
    ToolOutputAvailable,
    ToolOutputDenied,
    ToolOutputError,
    ToolPart,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.protocol import BackendThread
    from chatagent_test.transport.ids import IdCounters
    from chatagent_test.transport.tools import ToolLook

__all__ = ["ResponseWriter"]


class ResponseWriter:
    """The answer of one run, or what it says once it has resumed.

    Args:
        thread: where the chunks go.
        run_id: the run.
        ids: makes the ids.
        resumes: the message that a resumed run goes on with.
    """

    def __init__(self, thread: BackendThread, run_id: str, ids: IdCounters, resumes: str | None) -> None:
        self._thread, self._run_id, self._ids = thread, run_id, ids
        self._resumes = resumes
        self.message_id = resumes
        self.has_begun = False
        self.waits = False
        """Whether a call waits for the client."""
        self._behind_tool = False
        """Whether a settled tool call is the last thing of the step that is no data."""
        self._texts = self._reasonings = 0

    def emit(self, chunk: Chunk) -> None:
        """Write a chunk."""
        assert self.message_id is not None
        self._thread.chunk(self._run_id, self.message_id, chunk)

    # Begin and end ------------------------------------------------------------------------------------------------

    def begin(
        self,
        message_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
        resolved: Mapping[str, tuple[object, str | None]] | None = None,
    ) -> None:
        """Begin the message, or go on with the one that waited; does nothing the second time.

        Args:
            message_id: the id of a new message; by default one is made.
            metadata: what the message carries.
            resolved: output and error text of the calls that waited, by their ids.
        """
        if self.has_begun:
            return
        self.has_begun = True
        self.message_id = self._resumes or self._ids.take("msg", message_id)
        self.emit(Start(self.message_id, UNSET if metadata is None else dict(metadata)))
        if self._resumes is not None:
            self._settle_waiting(resolved or {})
        self.emit(StartStep())

    def _settle_waiting(self, resolved: Mapping[str, tuple[object, str | None]]) -> None:
        message = self._thread.model.message(self._resumes or "")
        parts = () if message is None else message.parts
        self._texts = sum(isinstance(part, TextUIPart) for part in parts)
        self._reasonings = sum(isinstance(part, ReasoningUIPart) for part in parts)
        for part in parts:
            if not isinstance(part, ToolPart):
                continue
            if part.tool_call_id in resolved:
                output, error = resolved[part.tool_call_id]
                call_id = part.tool_call_id
                self.emit(ToolOutputAvailable(call_id, output) if error is None else ToolOutputError(call_id, error))
            elif part.state == "approval-responded" and part.approval is not None and part.approval.approved is False:
                self.emit(ToolOutputDenied(part.tool_call_id))

    def finish(self, reason: FinishReason | None) -> None:
        """End the message."""
        self.begin()
        self.emit(FinishStep())
        self.emit(Finish(reason or ("tool-calls" if self.waits else "stop")))

    def fail(self, text: str) -> None:
        """Say that the answer failed, if it had begun."""
        if self.has_begun:
            self.emit(Error(text))

    def abort(self, reason: str | None) -> None:
        """Say that the answer was cut off, if it had begun."""
        if self.has_begun:
            self.emit(Abort(reason))

    def step(self) -> None:
        """Write the border between two model calls."""
        self.begin()
        self.emit(FinishStep())
        self.emit(StartStep())
        self._behind_tool = False

    def border(self) -> None:
        """Write a border if what comes next belongs to the next model call."""
        self.begin()
        if self._behind_tool:
            self.step()

    # Blocks -------------------------------------------------------------------------------------------------------

    def text_start(self, text_id: str | None = None) -> str:
        """Open a text."""
        self.border()
        self._texts += 1
        made = text_id or f"text-{self._texts}"
        self.emit(TextStart(made))
        return made

    def text_delta(self, text_id: str, delta: str) -> None:
        """Write more of a text."""
        assert self.message_id is not None
        self._thread.chunk(self._run_id, self.message_id, TextDelta(text_id, delta))

    def text_end(self, text_id: str) -> None:
        """Close a text."""
        self.emit(TextEnd(text_id))

    def reasoning_start(self, reasoning_id: str | None = None) -> str:
        """Open a block of reasoning."""
        self.border()
        self._reasonings += 1
        made = reasoning_id or f"reasoning-{self._reasonings}"
        self.emit(ReasoningStart(made))
        return made

    def reasoning_delta(self, reasoning_id: str, delta: str) -> None:
        """Write more reasoning."""
        self.emit(ReasoningDelta(reasoning_id, delta))

    def reasoning_end(self, reasoning_id: str) -> None:
        """Close a block of reasoning."""
        self.emit(ReasoningEnd(reasoning_id))

    def file(self, url: str, media_type: str) -> None:
        """Write a file."""
        self.border()
        self.emit(File(media_type, url))

    def source_url(self, url: str, title: str | None) -> None:
        """Write a source."""
        self.border()
        self.emit(SourceUrl(self._ids.new("source"), url, title))

    def data(self, name: str, value: object, data_id: str | None, *, transient: bool = False) -> None:
        """Write data; it never opens a step."""
        self.begin()
        self.emit(DataChunk(f"data-{name}", value, data_id, True if transient else None))

    # Tool calls ---------------------------------------------------------------------------------------------------

    def tool_input_start(self, look: ToolLook, call_id: str) -> None:
        """Begin a call whose input is streamed."""
        self.begin()
        self.emit(ToolInputStart(tool_call_id=call_id, tool_name=look.name, **_shown(look)))

    def tool_input_delta(self, call_id: str, text: str) -> None:
        """Write more of the input's text."""
        self.emit(ToolInputDelta(call_id, text))

    def tool_input(self, look: ToolLook, call_id: str, value: object) -> None:
        """Write the whole input."""
        self.begin()
        self.emit(ToolInputAvailable(tool_call_id=call_id, tool_name=look.name, input=value, **_shown(look)))

    def tool_input_error(self, look: ToolLook, call_id: str, raw: str, text: str) -> None:
        """Write that the input could not be used."""
        self.emit(ToolInputError(tool_call_id=call_id, tool_name=look.name, input=raw, error_text=text, **_shown(look)))
        self._behind_tool = True

    def tool_output(self, look: ToolLook, call_id: str, value: object) -> None:
        """Write what the tool gave."""
        self.emit(ToolOutputAvailable(tool_call_id=call_id, output=value, **_shown(look)))
        self._behind_tool = True

    def tool_error(self, look: ToolLook, call_id: str, text: str) -> None:
        """Write that the tool failed."""
        self.emit(ToolOutputError(tool_call_id=call_id, error_text=text, **_shown(look)))
        self._behind_tool = True

    def tool_waiting(self, mark: SuspensionMark) -> None:
        """Write that the call waits for the client."""
        self.emit(suspension_chunk(mark))
        self.waits = True

    def tool_approval(self, call_id: str, approval_id: str) -> None:
        """Write that the call waits for an approval."""
        self.emit(ToolApprovalRequest(approval_id, call_id))
        self.waits = True


def _shown(look: ToolLook) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if look.metadata is not None:
        shown["tool_metadata"] = look.metadata
    if look.dynamic:
        shown["dynamic"] = True
    return shown
