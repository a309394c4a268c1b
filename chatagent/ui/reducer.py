"""The reducer: chunks in, the assistant's message out (rules 13.2 to 13.8).

Each chunk costs the same, whatever the message holds already; a message is made only when one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

from chatagent.errors import UIMessageStreamError
from chatagent.ui import chunks as c
from chatagent.ui.codec import parse_chunk
from chatagent.ui.drafts import Draft, StreamedInput, TextDraft, ToolDraft
from chatagent.ui.kinds import UNSET
from chatagent.ui.messages import (
    CustomUIPart,
    DataUIPart,
    DynamicToolUIPart,
    FileUIPart,
    ReasoningFileUIPart,
    ReasoningUIPart,
    SourceDocumentUIPart,
    SourceUrlUIPart,
    SteeringMessageUIPart,
    StepStartUIPart,
    TextUIPart,
    ToolApproval,
    ToolPart,
    UIMessage,
    UIPart,
)
from chatagent.ui.metadata import merge_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chatagent.ui.wire import FinishReason

__all__ = ["MessageReducer"]

_Apply: TypeAlias = Callable[["MessageReducer", Any], bool]


class MessageReducer:
    """Reduces the chunks of one message.

    Args:
        message: where to begin. An assistant message is continued; of another one only the id is taken.
        on_new_id: what a `start` chunk with another id than the message's does. `"restart"` begins an empty message, as
            a client does that reads a stream; `"rename"` keeps the parts, as a server does that tracks its own stream.
    """

    def __init__(
        self, message: UIMessage | None = None, *, on_new_id: Literal["restart", "rename"] = "restart"
    ) -> None:
        self._on_new_id = on_new_id
        self.finish_reason: FinishReason | None = None
        """What the last `finish` chunk said; `None` until one says something."""
        self._has_state = False
        if message is None or message.role != "assistant":
            message = _empty_message("" if message is None else message.id)
        self._begin(message)

    @property
    def message(self) -> UIMessage:
        """The message as it stands; the same object until a chunk changes it."""
        if self._message is None:
            self._message = self._base.model_copy(update={"parts": self._built_parts()})
        return self._message

    @property
    def last_state(self) -> UIMessage | None:
        """The message as it stood at the last chunk that changed it visibly; `None` if none did.

        It differs from `message` in that it lacks the `step-start` of a step in which nothing came yet.
        """
        if not self._has_state:
            return None
        if self._visible_count == len(self._parts):
            return self.message
        return self._base.model_copy(update={"parts": self._built_parts()[: self._visible_count]})

    def feed(self, chunk: c.Chunk | dict[str, Any]) -> bool:
        """Take the next chunk, and return whether it made a state that a reader should see.

        A chunk of an unknown type, `error` and `abort` change nothing.

        Raises:
            UIMessageStreamError: the chunk names a block, call or approval that is not there; the message is unchanged.
            ChunkError: a dict that is no chunk.
        """
        apply = self._APPLY.get(type(chunk))
        if apply is None:
            chunk = parse_chunk(chunk, allow_unknown=True)
            apply = self._APPLY.get(type(chunk), MessageReducer._pass)
        if not apply(self, chunk):
            return False
        self._has_state = True
        self._message = None
        self._visible_count = len(self._parts)
        return True

    @property
    def open_blocks(self) -> tuple[dict[str, int], dict[str, int]]:
        """The open text blocks and the open reasoning blocks: the part's index by the block's id.

        What `resume_blocks` of another reducer needs to go on with this message.
        """
        texts = {block_id: draft.index for block_id, draft in self._texts.items()}
        return texts, {block_id: draft.index for block_id, draft in self._reasonings.items()}

    def resume_blocks(self, texts: Mapping[str, int], reasonings: Mapping[str, int]) -> None:
        """Go on with blocks that were open when the message was left; an index at which none stands is passed over."""
        for blocks, known, kind in ((texts, self._texts, TextUIPart), (reasonings, self._reasonings, ReasoningUIPart)):
            for block_id, index in blocks.items():
                part = self._parts[index] if 0 <= index < len(self._parts) else None
                if isinstance(part, kind):
                    own_id = part.id if isinstance(part, ReasoningUIPart) else None
                    draft = TextDraft(index, block_id=own_id, provider_metadata=part.provider_metadata)
                    draft.pieces.append(part.text)
                    known[block_id] = draft

    # The message under way ----------------------------------------------------------------------------------------

    def _begin(self, message: UIMessage) -> None:
        self._base = message
        """The message without its parts: id, role, metadata, unknown fields."""
        self._message: UIMessage | None = message
        self._parts: list[UIPart | None] = list(message.parts)
        """The parts as they were last built; `None` for one that never was."""
        self._stale: list[Draft] = []
        self._visible_count = len(self._parts)
        self._step = 0
        """Number of the current step."""
        self._step_start = 0
        """Index of the first part of the current step."""
        self._texts: dict[str, TextDraft] = {}
        self._reasonings: dict[str, TextDraft] = {}
        self._inputs: dict[str, StreamedInput] = {}
        self._tools: list[ToolDraft] = []
        self._calls: dict[str, list[ToolDraft]] = {}
        """The tool calls by their id, in order."""
        self._approvals: dict[str, ToolDraft] = {}
        self._data: dict[tuple[str, str], int] = {}
        """The index of each data part that has an id."""
        for index, part in enumerate(message.parts):
            self._take_part(index, part)
        self._resume_inputs()

    def _take_part(self, index: int, part: UIPart) -> None:
        """Note what later chunks may refer to in a part that was there before."""
        if isinstance(part, StepStartUIPart):
            self._step += 1
            self._step_start = index + 1
        elif isinstance(part, ToolPart):
            dynamic = isinstance(part, DynamicToolUIPart)
            draft = ToolDraft(index, step=self._step, call_id=part.tool_call_id, dynamic=dynamic, part=part)
            self._add_tool(draft)
            if part.approval is not None:
                self._approvals.setdefault(part.approval.id, draft)
        elif isinstance(part, DataUIPart) and part.id is not None:
            self._data.setdefault((part.type, part.id), index)

    def _resume_inputs(self) -> None:
        """Go on with the inputs that were coming in when the message was left (rule 13.8)."""
        for draft in self._tools:
            part = draft.part
            if draft.step != self._step or part is None or part.state != "input-streaming":
                continue
            self._inputs[draft.call_id] = StreamedInput(
                cast("Any", part).tool_name,
                dynamic=draft.dynamic,
                title=part.title,
                tool_metadata=part.tool_metadata,
                encoding=part.input_encoding,
                text=part.raw_input if isinstance(part.raw_input, str) else "",
            )

    def _built_parts(self) -> tuple[UIPart, ...]:
        for draft in self._stale:
            draft.is_stale = False
            self._parts[draft.index] = cast("TextDraft | ToolDraft", draft).build()
        self._stale.clear()
        return cast("tuple[UIPart, ...]", tuple(self._parts))

    def _change(self, draft: Draft) -> bool:
        if not draft.is_stale:
            draft.is_stale = True
            self._stale.append(draft)
        return True

    def _append(self, part: UIPart) -> bool:
        self._parts.append(part)
        return True

    def _append_draft(self, draft: Draft) -> None:
        self._parts.append(None)
        self._change(draft)

    def _merge_metadata(self, metadata: object) -> bool:
        if metadata is None or metadata is UNSET:
            return False
        known = self._base.metadata
        self._base = self._base.model_copy(
            update={"metadata": metadata if known is None else merge_metadata(known, metadata)}
        )
        return True

    def _pass(self, _chunk: c.Chunk) -> bool:
        return False

    # Message and steps --------------------------------------------------------------------------------------------

    def _start(self, chunk: c.Start) -> bool:
        if chunk.message_id is not None and chunk.message_id != self._base.id:
            if self._on_new_id == "restart":
                self._begin(_empty_message(chunk.message_id))
            else:
                self._base = self._base.model_copy(update={"id": chunk.message_id})
        return self._merge_metadata(chunk.message_metadata) or chunk.message_id is not None

    def _message_metadata(self, chunk: c.MessageMetadata) -> bool:
        return self._merge_metadata(chunk.message_metadata)

    def _finish(self, chunk: c.Finish) -> bool:
        if chunk.finish_reason is not None:
            self.finish_reason = chunk.finish_reason
        return self._merge_metadata(chunk.message_metadata)

    def _start_step(self, _chunk: c.StartStep) -> bool:
        self._parts.append(StepStartUIPart())
        self._message = None
        self._step += 1
        self._step_start = len(self._parts)
        return False

    def _reset_step(self, _chunk: c.ResetStep) -> bool:
        self._texts.clear()
        self._reasonings.clear()
        self._inputs.clear()
        start = self._step_start
        if len(self._parts) == start:
            return False
        while self._tools and self._tools[-1].index >= start:
            self._remove_tool()
        for index, part in enumerate(self._parts[start:], start):
            if isinstance(part, DataUIPart) and part.id is not None and self._data.get((part.type, part.id)) == index:
                del self._data[part.type, part.id]
        del self._parts[start:]
        self._stale = [draft for draft in self._stale if draft.index < start]
        return True

    # Text and reasoning -------------------------------------------------------------------------------------------

    def _text_start(self, chunk: c.TextStart) -> bool:
        draft = TextDraft(len(self._parts), block_id=None, provider_metadata=chunk.provider_metadata)
        self._texts[chunk.id] = draft
        self._append_draft(draft)
        return True

    def _reasoning_start(self, chunk: c.ReasoningStart) -> bool:
        draft = TextDraft(len(self._parts), block_id=chunk.id, provider_metadata=chunk.provider_metadata)
        self._reasonings[chunk.id] = draft
        self._append_draft(draft)
        return True

    def _text_delta(self, chunk: c.TextDelta) -> bool:
        draft = self._texts.get(chunk.id)
        if draft is None:
            raise _missing_block("text", chunk)
        draft.pieces.append(chunk.delta)
        if chunk.provider_metadata is not None:
            draft.provider_metadata = chunk.provider_metadata
        return True if draft.is_stale else self._change(draft)

    def _reasoning_delta(self, chunk: c.ReasoningDelta) -> bool:
        draft = self._reasonings.get(chunk.id)
        if draft is None:
            raise _missing_block("reasoning", chunk)
        draft.pieces.append(chunk.delta)
        if chunk.provider_metadata is not None:
            draft.provider_metadata = chunk.provider_metadata
        return True if draft.is_stale else self._change(draft)

    def _text_end(self, chunk: c.TextEnd) -> bool:
        draft = self._texts.pop(chunk.id, None)
        if draft is None:
            raise _missing_block("text", chunk)
        if chunk.citations is not None:
            draft.citations = chunk.citations
        return self._end_block(draft, chunk)

    def _reasoning_end(self, chunk: c.ReasoningEnd) -> bool:
        draft = self._reasonings.pop(chunk.id, None)
        if draft is None:
            raise _missing_block("reasoning", chunk)
        return self._end_block(draft, chunk)

    def _end_block(self, draft: TextDraft, chunk: c.TextEnd | c.ReasoningEnd) -> bool:
        draft.state = "done"
        if chunk.provider_metadata is not None:
            draft.provider_metadata = chunk.provider_metadata
        return self._change(draft)

    # Tool calls: finding ------------------------------------------------------------------------------------------

    def _add_tool(self, draft: ToolDraft) -> None:
        self._tools.append(draft)
        self._calls.setdefault(draft.call_id, []).append(draft)

    def _remove_tool(self) -> None:
        """Forget the last tool call."""
        draft = self._tools.pop()
        same_id = self._calls[draft.call_id]
        same_id.pop()
        if not same_id:
            del self._calls[draft.call_id]
        if draft.approval_id is not None and self._approvals.get(draft.approval_id) is draft:
            del self._approvals[draft.approval_id]

    def _in_step(self, call_id: str) -> list[ToolDraft]:
        """Return the calls of that id in the current step; there is one of each kind at most that chunks have made."""
        found: list[ToolDraft] = []
        for draft in reversed(self._calls.get(call_id, ())):
            if draft.step != self._step:
                break
            found.append(draft)
        found.reverse()
        return found

    def _upsert(self, call_id: str, *, dynamic: bool) -> ToolDraft:
        """Return the call of that id and kind in the current step; if there is none, append it."""
        for draft in self._in_step(call_id):
            if draft.dynamic is dynamic:
                self._change(draft)
                return draft
        draft = ToolDraft(len(self._parts), step=self._step, call_id=call_id, dynamic=dynamic)
        self._add_tool(draft)
        self._append_draft(draft)
        return draft

    def _find(
        self, chunk: c.ToolApprovalRequest | c.ToolOutputAvailable | c.ToolOutputError | c.ToolOutputDenied
    ) -> ToolDraft:
        """Return the call that a chunk refers to: in the current step if it is there, else the last one of its id."""
        known = self._calls.get(chunk.tool_call_id)
        if known is None:
            raise UIMessageStreamError(
                f'No tool invocation found for tool call ID "{chunk.tool_call_id}".',
                chunk_type=chunk.type,
                chunk_id=chunk.tool_call_id,
            )
        draft = next(iter(self._in_step(chunk.tool_call_id)), known[-1])
        self._change(draft)
        return draft

    # Tool calls: input --------------------------------------------------------------------------------------------

    def _tool_input_start(self, chunk: c.ToolInputStart) -> bool:
        streamed = StreamedInput(
            chunk.tool_name,
            dynamic=bool(chunk.dynamic),
            title=chunk.title,
            tool_metadata=chunk.tool_metadata,
            encoding=chunk.input_encoding,
        )
        self._inputs[chunk.tool_call_id] = streamed
        draft = self._upsert(chunk.tool_call_id, dynamic=streamed.dynamic)
        state_fields = {} if streamed.encoding is None else {"input_encoding": streamed.encoding}
        draft.enter("input-streaming", chunk.tool_name, **state_fields)
        draft.amend(chunk, title=chunk.title)
        return True

    def _tool_input_delta(self, chunk: c.ToolInputDelta) -> bool:
        streamed = self._inputs.get(chunk.tool_call_id)
        if streamed is None:
            raise UIMessageStreamError(
                f'Received tool-input-delta for missing tool call with ID "{chunk.tool_call_id}". '
                'Ensure a "tool-input-start" chunk is sent before any "tool-input-delta" chunks.',
                chunk_type=chunk.type,
                chunk_id=chunk.tool_call_id,
            )
        draft = streamed.draft
        if draft is not None and draft.streamed is streamed:
            if draft.step == self._step:
                streamed.pending.append(chunk.input_text_delta)
                return self._change(draft)
            draft.settle()
        streamed.pending.append(chunk.input_text_delta)
        self._upsert(chunk.tool_call_id, dynamic=streamed.dynamic).stream(streamed)
        return True

    def _tool_input_available(self, chunk: c.ToolInputAvailable) -> bool:
        draft = self._upsert(chunk.tool_call_id, dynamic=bool(chunk.dynamic))
        draft.enter("input-available", chunk.tool_name, input=chunk.input)
        draft.amend(chunk, title=chunk.title)
        return True

    def _tool_input_error(self, chunk: c.ToolInputError) -> bool:
        there = self._in_step(chunk.tool_call_id)
        draft = self._upsert(chunk.tool_call_id, dynamic=there[0].dynamic if there else bool(chunk.dynamic))
        draft.enter("output-error", chunk.tool_name, input=chunk.input, error_text=chunk.error_text)
        draft.amend(chunk)
        return True

    # Tool calls: approval and output ------------------------------------------------------------------------------

    def _tool_approval_request(self, chunk: c.ToolApprovalRequest) -> bool:
        draft = self._find(chunk)
        before = draft.approval_id
        if before is not None and self._approvals.get(before) is draft:
            del self._approvals[before]
        draft.move("approval-requested", _approval_of(chunk))
        self._approvals.setdefault(chunk.approval_id, draft)
        return True

    def _tool_approval_response(self, chunk: c.ToolApprovalResponse) -> bool:
        draft = self._approvals.get(chunk.approval_id) or next(
            (each for each in self._tools if each.approval_id == chunk.approval_id), None
        )
        if draft is None:
            raise UIMessageStreamError(
                f'No tool invocation found for approval ID "{chunk.approval_id}".',
                chunk_type=chunk.type,
                chunk_id=chunk.approval_id,
            )
        answer: dict[str, object] = {"approved": chunk.approved}
        if chunk.reason is not None:
            answer["reason"] = chunk.reason
        approval = cast("ToolApproval", draft.kept("approval")["approval"])
        draft.move("approval-responded", approval.model_copy(update=answer))
        draft.answer(chunk)
        return self._change(draft)

    def _tool_output_available(self, chunk: c.ToolOutputAvailable) -> bool:
        draft = self._find(chunk)
        kept = draft.kept("input")
        if chunk.preliminary is not None:
            kept["preliminary"] = chunk.preliminary
        draft.enter("output-available", output=chunk.output, **kept)
        draft.amend(chunk)
        return True

    def _tool_output_error(self, chunk: c.ToolOutputError) -> bool:
        draft = self._find(chunk)
        kept = draft.kept("input") if draft.dynamic else draft.kept("input", "raw_input")
        draft.enter("output-error", error_text=chunk.error_text, **kept)
        draft.amend(chunk)
        return True

    def _tool_output_denied(self, chunk: c.ToolOutputDenied) -> bool:
        self._find(chunk).move("output-denied")
        return True

    # Everything that is appended as it comes ----------------------------------------------------------------------

    def _data_chunk(self, chunk: c.DataChunk) -> bool:
        if chunk.transient:
            return False
        if chunk.id is not None:
            key = (chunk.type, chunk.id)
            index = self._data.get(key)
            if index is not None:
                part = cast("DataUIPart", self._parts[index])
                self._parts[index] = part.model_copy(update={"data": chunk.data})
                return True
            self._data[key] = len(self._parts)
        fields: dict[str, object] = {**(chunk.extra or {}), "type": chunk.type, "data": chunk.data}
        if chunk.id is not None:
            fields["id"] = chunk.id
        if chunk.transient is not None:
            fields["transient"] = chunk.transient
        return self._append(DataUIPart.model_validate(fields))

    def _file(self, chunk: c.File) -> bool:
        return self._append(FileUIPart.model_validate(_given(chunk, "media_type", "url", "provider_metadata")))

    def _reasoning_file(self, chunk: c.ReasoningFile) -> bool:
        return self._append(ReasoningFileUIPart.model_validate(_given(chunk, "media_type", "url", "provider_metadata")))

    def _source_url(self, chunk: c.SourceUrl) -> bool:
        fields = _given(chunk, "source_id", "url", "title", "provider_metadata")
        return self._append(SourceUrlUIPart.model_validate(fields))

    def _source_document(self, chunk: c.SourceDocument) -> bool:
        fields = _given(chunk, "source_id", "media_type", "title", "filename", "provider_metadata")
        return self._append(SourceDocumentUIPart.model_validate(fields))

    def _custom(self, chunk: c.Custom) -> bool:
        return self._append(CustomUIPart.model_validate(_given(chunk, "kind", "provider_metadata")))

    def _steering_message(self, chunk: c.SteeringMessage) -> bool:
        return self._append(SteeringMessageUIPart(id=chunk.id, parts=chunk.parts))

    _APPLY: ClassVar[dict[type, _Apply]] = {
        c.Start: _start,
        c.StartStep: _start_step,
        c.FinishStep: _pass,
        c.ResetStep: _reset_step,
        c.TextStart: _text_start,
        c.TextDelta: _text_delta,
        c.TextEnd: _text_end,
        c.ReasoningStart: _reasoning_start,
        c.ReasoningDelta: _reasoning_delta,
        c.ReasoningEnd: _reasoning_end,
        c.ToolInputStart: _tool_input_start,
        c.ToolInputDelta: _tool_input_delta,
        c.ToolInputAvailable: _tool_input_available,
        c.ToolInputError: _tool_input_error,
        c.ToolApprovalRequest: _tool_approval_request,
        c.ToolApprovalResponse: _tool_approval_response,
        c.ToolOutputAvailable: _tool_output_available,
        c.ToolOutputError: _tool_output_error,
        c.ToolOutputDenied: _tool_output_denied,
        c.SourceUrl: _source_url,
        c.SourceDocument: _source_document,
        c.File: _file,
        c.ReasoningFile: _reasoning_file,
        c.Custom: _custom,
        c.DataChunk: _data_chunk,
        c.SteeringMessage: _steering_message,
        c.MessageMetadata: _message_metadata,
        c.Error: _pass,
        c.Abort: _pass,
        c.Finish: _finish,
        c.UnknownChunk: _pass,
    }


def _empty_message(message_id: str) -> UIMessage:
    return UIMessage(id=message_id, role="assistant", parts=())


def _given(chunk: object, *names: str) -> dict[str, object]:
    """Return those of a chunk's attributes that are there."""
    return {name: value for name in names if (value := getattr(chunk, name)) is not None}


def _approval_of(chunk: c.ToolApprovalRequest) -> ToolApproval:
    fields: dict[str, object] = {"id": chunk.approval_id}
    if chunk.approval_descriptor is not UNSET:
        fields["descriptor"] = chunk.approval_descriptor
    if chunk.input_schema_input is not UNSET:
        fields["input_schema_input"] = chunk.input_schema_input
    if chunk.reason is not None:
        fields["request_reason"] = chunk.reason
    if chunk.is_automatic:
        fields["is_automatic"] = True
    if chunk.signature is not None:
        fields["signature"] = chunk.signature
    return ToolApproval.model_validate(fields)


def _missing_block(
    kind: str, chunk: c.TextDelta | c.TextEnd | c.ReasoningDelta | c.ReasoningEnd
) -> UIMessageStreamError:
    return UIMessageStreamError(
        f'Received {chunk.type} for missing {kind} part with ID "{chunk.id}". '
        f'Ensure a "{kind}-start" chunk is sent before any "{chunk.type}" chunks.',
        chunk_type=chunk.type,
        chunk_id=chunk.id,
    )
