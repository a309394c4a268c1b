"""Parts that still change: what the reducer keeps of a text block and of a tool call between chunks.

A draft takes a chunk with constant work; the part itself is built when somebody looks at the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, cast

from chatagent.ui.kinds import UNSET
from chatagent.ui.messages import DynamicToolUIPart, ReasoningUIPart, TextUIPart, ToolApproval, ToolUIPart
from chatagent.ui.partial_json import PartialJsonScanner
from chatagent.ui.surrogates import join_pieces, join_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.ui.chunks import (
        ToolApprovalResponse,
        ToolInputAvailable,
        ToolInputError,
        ToolInputStart,
        ToolOutputAvailable,
        ToolOutputError,
    )
    from chatagent.ui.messages import ToolPart, ToolState
    from chatagent.ui.wire import JSONObject, ProviderMetadata

    ToolChunk: TypeAlias = ToolInputStart | ToolInputAvailable | ToolInputError | ToolOutputAvailable | ToolOutputError

__all__ = ["Draft", "StreamedInput", "TextDraft", "ToolDraft"]


class Draft:
    """A part of the message under way, at `index` among its parts."""

    __slots__ = ("index", "is_stale")

    def __init__(self, index: int) -> None:
        self.index = index
        self.is_stale = False
        """Whether the part that was built last no longer says what the draft does."""


class TextDraft(Draft):
    """An open text or reasoning block; `block_id` is kept in a reasoning part only."""

    __slots__ = ("block_id", "citations", "pieces", "provider_metadata", "state")

    def __init__(self, index: int, *, block_id: str | None, provider_metadata: ProviderMetadata | None) -> None:
        super().__init__(index)
        self.block_id = block_id
        self.pieces: list[str] = []
        self.state = "streaming"
        self.citations: Sequence[object] | None = None
        self.provider_metadata = provider_metadata

    def build(self) -> TextUIPart | ReasoningUIPart:
        """Return the part as it stands."""
        fields: dict[str, object] = {"text": join_pieces(self.pieces), "state": self.state}
        if self.provider_metadata is not None:
            fields["provider_metadata"] = self.provider_metadata
        if self.block_id is not None:
            return ReasoningUIPart.model_validate({"id": self.block_id, **fields})
        if self.citations is not None:
            fields["citations"] = self.citations
        return TextUIPart.model_validate(fields)


class StreamedInput:
    """A tool's input while its text comes in."""

    __slots__ = ("draft", "dynamic", "encoding", "pending", "scanner", "title", "tool_metadata", "tool_name")

    def __init__(
        self,
        tool_name: str,
        *,
        dynamic: bool,
        title: str | None = None,
        tool_metadata: JSONObject | None = None,
        encoding: str | None = None,
        text: str = "",
    ) -> None:
        self.tool_name, self.dynamic = tool_name, dynamic
        self.title, self.tool_metadata, self.encoding = title, tool_metadata, encoding
        self.pending: list[str] = [text]
        """Pieces that were not scanned yet, because nobody has looked."""
        self.scanner = PartialJsonScanner()
        self.draft: ToolDraft | None = None
        """The part that showed the last delta."""

    def fields(self) -> dict[str, object]:
        """Return `raw_input`, and `input` as far as the text has one."""
        if self.encoding == "text":
            text = join_pieces(self.pending)
            return {"raw_input": text, "input": text}
        self.scanner.feed("".join(self.pending))
        self.pending.clear()
        value = self.scanner.result().value
        fields: dict[str, object] = {"raw_input": join_surrogates(self.scanner.text)}
        if value is not UNSET:
            fields["input"] = value
        return fields


_STATE_FIELDS: Final = ("input", "output", "error_text", "raw_input", "preliminary", "input_encoding")
"""What belongs to a state: a chunk that moves the call to another one sets them anew or clears them (rule 13.3)."""


class ToolDraft(Draft):
    """A tool call, static or dynamic, of step number `step`; `fields` are those of the part, by attribute name."""

    __slots__ = ("call_id", "dynamic", "fields", "part", "step", "streamed")

    def __init__(self, index: int, *, step: int, call_id: str, dynamic: bool, part: ToolPart | None = None) -> None:
        super().__init__(index)
        self.step, self.call_id, self.dynamic = step, call_id, dynamic
        self.part = part
        """The part of a message that was there before; its fields are taken over when they are first needed."""
        self.fields: dict[str, object] = {"tool_call_id": call_id}
        self.streamed: StreamedInput | None = None
        """Where `raw_input` and `input` come from while the input's text comes in."""

    @property
    def approval_id(self) -> str | None:
        """The id of the call's approval, if it has one."""
        approval = self.part.approval if self.part is not None else self.fields.get("approval")
        return cast("ToolApproval", approval).id if approval is not None else None

    def build(self) -> ToolUIPart | DynamicToolUIPart:
        """Return the part as it stands."""
        self._take_over()
        fields = self.fields if self.streamed is None else {**self.fields, **self.streamed.fields()}
        return DynamicToolUIPart.model_validate(fields) if self.dynamic else ToolUIPart.model_validate(fields)

    def enter(self, state: ToolState, tool_name: str | None = None, /, **state_fields: object) -> None:
        """Move the call to a state whose own fields are `state_fields`; a name that is given replaces the tool's."""
        self._take_over()
        self.streamed = None
        for name in _STATE_FIELDS:
            self.fields.pop(name, None)
        self.fields["state"] = state
        self.fields.update(state_fields)
        if tool_name is not None:
            self._name(tool_name)

    def amend(self, chunk: ToolChunk, *, title: str | None = None) -> None:
        """Take what a chunk says beside the state: title, metadata, who runs the tool; what it leaves out stays.

        The title is given apart: a chunk that tells of an invalid input has one that the part does not take over.
        """
        fields = self.fields
        if title is not None:
            fields["title"] = title
        if chunk.tool_metadata is not None:
            fields["tool_metadata"] = chunk.tool_metadata
        if chunk.provider_executed is not None:
            fields["provider_executed"] = chunk.provider_executed
        if chunk.provider_metadata is not None:
            is_output = fields["state"] in ("output-available", "output-error")
            fields["result_provider_metadata" if is_output else "call_provider_metadata"] = chunk.provider_metadata

    def stream(self, streamed: StreamedInput) -> None:
        """Show the input that is coming in."""
        state_fields = {} if streamed.encoding is None else {"input_encoding": streamed.encoding}
        self.enter("input-streaming", streamed.tool_name, **state_fields)
        if streamed.title is not None:
            self.fields["title"] = streamed.title
        if streamed.tool_metadata is not None:
            self.fields["tool_metadata"] = streamed.tool_metadata
        self.streamed, streamed.draft = streamed, self

    def move(self, state: ToolState, approval: ToolApproval | None = None) -> None:
        """Move the call to a state that leaves all other fields alone; an approval that is given replaces its own."""
        self.settle()
        self.fields["state"] = state
        if approval is not None:
            self.fields["approval"] = approval

    def answer(self, chunk: ToolApprovalResponse) -> None:
        """Take what the answer to an approval says of the call itself."""
        if chunk.provider_executed is not None:
            self.fields["provider_executed"] = chunk.provider_executed
        if chunk.provider_metadata is not None:
            self.fields["call_provider_metadata"] = chunk.provider_metadata

    def settle(self) -> None:
        """Keep the input as far as it has come: what comes later is not for this part."""
        self._take_over()
        if self.streamed is not None:
            self.fields.update(self.streamed.fields())
            self.streamed = None

    def kept(self, *names: str) -> dict[str, object]:
        """Return those of the named fields that the call has."""
        self.settle()
        return {name: self.fields[name] for name in names if name in self.fields}

    def _name(self, tool_name: str) -> None:
        if self.dynamic:
            self.fields["tool_name"] = tool_name
        else:
            self.fields["type"] = f"tool-{tool_name}"

    def _take_over(self) -> None:
        part, self.part = self.part, None
        if part is not None:
            given = part.model_fields_set & type(part).model_fields.keys()
            self.fields = {**{name: getattr(part, name) for name in given}, **(part.model_extra or {})}
