"""The reducer: chunks in, the assistant's message out (rules 13.2 to 13.8).

Each chunk costs the same, whatever the message holds already; a message is made only when one is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

from chatagent.errors import UIMessageStreamError
from chatagent.ui import chunks as c
from chatagent.ui.codec import parse_chunk
from chatagent.ui.drafts import StreamedInput, TextDraft, ToolDraft
from chatagent.ui.kinds import UNSET
from chatagent.ui.messages import (
    CustomUIPart,
    DataUIPart,
    FileUIPart,
    ReasoningFileUIPart,
    SourceDocumentUIPart,
    SourceUrlUIPart,
    SteeringMessageUIPart,
    StepStartUIPart,
    ToolApproval,
    UIMessage,
)
from chatagent.ui.under_way import MessageUnderWay, empty_message

if TYPE_CHECKING:
    from chatagent.ui.wire import FinishReason

__all__ = ["MessageReducer"]

_Apply: TypeAlias = Callable[["MessageReducer", Any], bool]


class MessageReducer(MessageUnderWay):
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
        super().__init__(message)

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

    def _pass(self, _chunk: c.Chunk) -> bool:
        return False

    # Message and steps --------------------------------------------------------------------------------------------

    def _start(self, chunk: c.Start) -> bool:
        if chunk.message_id is not None and chunk.message_id != self._base.id:
            if self._on_new_id == "restart":
                self._begin(empty_message(chunk.message_id))
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
