"""`reply`: the words of which scripts are built."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from chatagent.protocol import RESERVED_KEY, is_reserved
from chatagent.ui import UNSET, FinishReason, Unset
from chatagent_test.transport.errors import ScriptError
from chatagent_test.transport.recording import script_of_events
from chatagent_test.transport.scripts import (
    AssistantScript,
    DataReply,
    ErrorScript,
    FileReply,
    NothingScript,
    PauseReply,
    ReasoningReply,
    ReplyPart,
    SeedAction,
    SourceReply,
    StepReply,
    TextReply,
    ToolReply,
)
from chatagent_test.transport.values import error_text, json_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from chatagent.protocol import ThreadEvent

__all__ = ["Reply", "ReplyTool", "reply"]

_PARTS: Final = (
    TextReply,
    ReasoningReply,
    ToolReply,
    DataReply,
    FileReply,
    SourceReply,
    StepReply,
    PauseReply,
)


class ReplyTool:
    """A tool call that still needs its outcome."""

    def __init__(self, name: str, call_id: str | None) -> None:
        self._name, self._call_id = name, call_id

    def __repr__(self) -> str:
        return f"reply.tool({self._name!r})"

    def result(self, input: object, output: object) -> ToolReply:
        """The tool is called with this input and gives this output."""
        return self._made("result", input=json_value(input), output=json_value(output))

    def error(self, error: BaseException | str, input: object = None) -> ToolReply:
        """The tool fails; the run goes on."""
        return self._made("error", input=json_value({} if input is None else input), error=error_text(error))

    def waiting(self, input: object, action: SeedAction) -> ToolReply:
        """The call waits for the client; its input and what the client is asked are two things."""
        return self._made("waiting", input=json_value(input), action=action)

    def approval(self, input: object, approval_id: str | None = None) -> ToolReply:
        """The call waits for an approval."""
        return self._made("approval", input=json_value(input), approval_id=approval_id)

    def resolved(self, output: object) -> ToolReply:
        """In the script of a resumed run: the call that waited gives this output."""
        return self._made("resolved", output=json_value(output))

    def resolved_error(self, error: BaseException | str) -> ToolReply:
        """In the script of a resumed run: the call that waited fails."""
        return self._made("resolved_error", error=error_text(error))

    def _made(self, outcome: Any, **values: Any) -> ToolReply:
        return ToolReply(self._name, outcome, self._call_id, **values)


class Reply:
    """What a scripted agent answers to a client. Use the object `reply`."""

    def assistant(
        self,
        *parts: str | ReplyPart,
        message_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
        finish_reason: FinishReason | None = None,
    ) -> AssistantScript:
        """An answer of these parts, in order; a string is a text.

        Args:
            *parts: what is said.
            message_id: the message's id; by default the mock counts `msg-1`, `msg-2`, …
            metadata: the message's metadata.
            finish_reason: by default `tool-calls` if a call waits, else `stop`.
        """
        if metadata is not None and RESERVED_KEY in metadata:
            raise ScriptError(f"reply.assistant(metadata=…): the key {RESERVED_KEY!r} is kept for the protocol")
        made = tuple(_part(index, part) for index, part in enumerate(parts))
        return AssistantScript(made, message_id, None if metadata is None else json_value(metadata), finish_reason)

    def text(self, text: str, *, chunks: Sequence[str] | None = None) -> TextReply:
        """A text; `chunks` are the deltas in which it comes, which together are the text."""
        if chunks is None:
            return TextReply(text)
        if isinstance(chunks, str) or "".join(chunks) != text:
            raise ScriptError(f"reply.text({text!r}, chunks={chunks!r}): the chunks together must be the text")
        return TextReply(text, tuple(chunks))

    def reasoning(self, text: str) -> ReasoningReply:
        """What the model thinks aloud."""
        return ReasoningReply(text)

    def tool(self, name: str, call_id: str | None = None) -> ReplyTool:
        """A tool call; say what comes of it: `.result`, `.error`, `.waiting`, `.approval` or `.resolved`."""
        if not name:
            raise ScriptError("reply.tool(''): a tool has a name")
        return ReplyTool(name, call_id)

    def action(
        self,
        name: str,
        input: object | Unset = UNSET,
        action_id: str | None = None,
        declared_suspend: bool = False,  # noqa: FBT001 - the order of the builder's words
    ) -> SeedAction:
        """What a call waits for.

        Args:
            name: the tool's question; `output` is a client tool's output, unless the tool declares such a question.
            input: what the client is asked; for a client tool's output it is the tool's input.
            action_id: by default the mock counts.
            declared_suspend: the tool declares a question called `output`.
        """
        made = UNSET if input is UNSET else json_value(input)
        return SeedAction(name, made, action_id, declared_suspend)

    def data(self, name: str, value: object, data_id: str | None = None, *, transient: bool = False) -> DataReply:
        """Data of the application: a `data-<name>` part; transient data is told and not kept."""
        if not name:
            raise ScriptError("reply.data(''): data has a name")
        if is_reserved(f"data-{name}"):
            raise ScriptError(f"reply.data({name!r}, …): names that begin with 'chatagent-' are kept for the protocol")
        return DataReply(name, json_value(value), data_id, transient)

    def file(self, url: str, media_type: str) -> FileReply:
        """A file that the agent made."""
        return FileReply(url, media_type)

    def source_url(self, url: str, title: str | None = None) -> SourceReply:
        """A page that the agent drew on."""
        return SourceReply(url, title)

    def step(self) -> StepReply:
        """The border between two model calls."""
        return StepReply()

    def pause(self, seconds: float) -> PauseReply:
        """Nothing comes until the mock's clock has moved on by so many seconds."""
        if not 0 <= seconds < math.inf:
            raise ScriptError(f"reply.pause({seconds!r}): a pause is 0 seconds or more")
        return PauseReply(seconds)

    def nothing(self) -> NothingScript:
        """The run is completed without any message."""
        return NothingScript()

    def error(self, error: BaseException | str, code: str | None = None) -> ErrorScript:
        """The run fails before it says anything: the message stays, and `retry()` is possible."""
        return ErrorScript(error_text(error), code)

    def from_events(self, events: Iterable[ThreadEvent], run_id: str | None = None) -> AssistantScript | ErrorScript:
        """A script that says what a recorded run said.

        Args:
            events: the events of a thread.
            run_id: the run; by default the last one among the events.
        """
        return script_of_events(events, run_id)


def _part(index: int, part: object) -> ReplyPart:
    if isinstance(part, str):
        return TextReply(part)
    if isinstance(part, _PARTS):
        return part
    if isinstance(part, ReplyTool):
        raise ScriptError(f"reply.assistant: part {index} is {part!r}; say what comes of it, such as .result(...)")
    raise ScriptError(
        f"reply.assistant: part {index} is {part!r:.100}; a part is a string or what reply.text(...) gives"
    )


reply: Final = Reply()
"""The words of which scripts are built."""
