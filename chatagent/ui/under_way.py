"""A message while chunks come in: its parts, those of them that still change, and what later chunks may refer to.

What each chunk does to it is the reducer's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from chatagent.ui.drafts import Draft, StreamedInput, TextDraft, ToolDraft
from chatagent.ui.kinds import UNSET
from chatagent.ui.messages import (
    DataUIPart,
    DynamicToolUIPart,
    ReasoningUIPart,
    StepStartUIPart,
    TextUIPart,
    ToolPart,
    UIMessage,
    UIPart,
)
from chatagent.ui.metadata import merge_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MessageUnderWay", "empty_message"]


class MessageUnderWay:
    """One message under way.

    Args:
        message: where to begin. An assistant message is continued; of another one only the id is taken.
    """

    def __init__(self, message: UIMessage | None) -> None:
        self._has_state = False
        if message is None or message.role != "assistant":
            message = empty_message("" if message is None else message.id)
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

    def _begin(self, message: UIMessage) -> None:
        self._base = message
        """The message without its parts: id, role, metadata, unknown fields."""
        self._message: UIMessage | None = message
        self._parts: list[UIPart | None] = list(message.parts)
        """The parts as they were last built; `None` for one that never was."""
        self._stale: list[Draft] = []
        self._visible_count = len(self._parts)
        self._step: int = 0
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

    # Tool calls ----------------------------------------------------------------------------------------------------

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


def empty_message(message_id: str) -> UIMessage:
    """Return an answer in which nothing has come yet."""
    return UIMessage(id=message_id, role="assistant", parts=())
