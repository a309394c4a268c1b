"""What a scripted agent answers, as values (rules RQ-7 to RQ-12, BT-7).

They hold no state: one script may be queued in many tests. `reply` builds them; `repr` gives the code that would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeGuard

from chatagent.ui import UNSET, FinishReason, Unset
from chatagent_test.transport.values import show_call

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "AssistantScript",
    "DataReply",
    "ErrorScript",
    "FileReply",
    "NothingScript",
    "PauseReply",
    "ReasoningReply",
    "ReplyPart",
    "Script",
    "SeedAction",
    "SourceReply",
    "StepReply",
    "TextReply",
    "ToolOutcome",
    "ToolReply",
]

ToolOutcome: TypeAlias = Literal["result", "error", "waiting", "approval", "resolved", "resolved_error", "running"]


@dataclass(frozen=True, slots=True, repr=False)
class SeedAction:
    """What a tool call waits for: a question of the tool's, or the output of a client tool."""

    name: str
    input: object | Unset = UNSET
    action_id: str | None = None
    declared_suspend: bool = False
    """Whether the tool declares a question of this name, even if it is called `output`."""

    @property
    def is_implicit(self) -> bool:
        """Whether it is a client tool's output, which no tool declares."""
        return self.name == "output" and not self.declared_suspend

    def __repr__(self) -> str:
        given = () if self.input is UNSET else (self.input,)
        return show_call(
            "reply.action", self.name, *given, action_id=self.action_id, declared_suspend=self.declared_suspend
        )


@dataclass(frozen=True, slots=True, repr=False)
class TextReply:
    """A text, in these deltas."""

    text: str
    chunks: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        chunks = None if self.chunks is None else list(self.chunks)
        return show_call("reply.text", self.text) if chunks is None else f"reply.text({self.text!r}, chunks={chunks!r})"


@dataclass(frozen=True, slots=True, repr=False)
class ReasoningReply:
    """What the model thinks aloud."""

    text: str

    def __repr__(self) -> str:
        return show_call("reply.reasoning", self.text)


@dataclass(frozen=True, slots=True, repr=False)
class ToolReply:
    """A tool call and what comes of it."""

    name: str
    outcome: ToolOutcome
    call_id: str | None = None
    input: object = UNSET
    output: object = UNSET
    error: str | None = None
    action: SeedAction | None = None
    approval_id: str | None = None

    @property
    def resolves(self) -> bool:
        """Whether it settles a call of an earlier generation that waited."""
        return self.outcome in ("resolved", "resolved_error")

    @property
    def waits(self) -> bool:
        """Whether the client must answer before the run can go on."""
        return self.outcome in ("waiting", "approval")

    @property
    def where(self) -> str:
        """The builder call, for messages."""
        return f"reply.tool({self.name!r}).{self.outcome}"

    def __repr__(self) -> str:
        tool = show_call("reply.tool", self.name, call_id=self.call_id)
        given: list[str] = []
        if self.resolves:
            given.append(repr(self.error if self.outcome == "resolved_error" else self.output))
        elif self.outcome == "error":
            given += [repr(self.error), f"input={self.input!r}"]
        else:
            given.append(f"input={self.input!r}")
            if self.output is not UNSET:
                given.append(f"output={self.output!r}")
            if self.action is not None:
                given.append(f"action={self.action!r}")
            if self.approval_id is not None:
                given.append(f"approval_id={self.approval_id!r}")
        return f"{tool}.{self.outcome}({', '.join(given)})"


@dataclass(frozen=True, slots=True, repr=False)
class DataReply:
    """Data of the application."""

    name: str
    value: object
    data_id: str | None = None
    transient: bool = False

    def __repr__(self) -> str:
        return show_call("reply.data", self.name, self.value, data_id=self.data_id, transient=self.transient)


@dataclass(frozen=True, slots=True, repr=False)
class FileReply:
    """A file that the agent made."""

    url: str
    media_type: str

    def __repr__(self) -> str:
        return show_call("reply.file", self.url, self.media_type)


@dataclass(frozen=True, slots=True, repr=False)
class SourceReply:
    """A page that the agent drew on."""

    url: str
    title: str | None = None

    def __repr__(self) -> str:
        return show_call("reply.source_url", self.url, title=self.title)


@dataclass(frozen=True, slots=True, repr=False)
class StepReply:
    """The border between two model calls."""

    def __repr__(self) -> str:
        return "reply.step()"


@dataclass(frozen=True, slots=True, repr=False)
class PauseReply:
    """Nothing comes for so many seconds of the clock."""

    seconds: float

    def __repr__(self) -> str:
        return show_call("reply.pause", self.seconds)


ReplyPart: TypeAlias = (
    TextReply | ReasoningReply | ToolReply | DataReply | FileReply | SourceReply | StepReply | PauseReply
)


@dataclass(frozen=True, slots=True, repr=False)
class AssistantScript:
    """An answer."""

    parts: tuple[ReplyPart, ...]
    message_id: str | None = None
    metadata: Mapping[str, object] | None = None
    finish_reason: FinishReason | None = None

    @property
    def resolved_tools(self) -> list[str]:
        """The tools whose waiting calls it settles."""
        return [part.name for part in self.parts if isinstance(part, ToolReply) and part.resolves]

    def __repr__(self) -> str:
        parts = [part.text if _is_plain(part) else part for part in self.parts]
        return show_call(
            "reply.assistant",
            *parts,
            message_id=self.message_id,
            metadata=self.metadata,
            finish_reason=self.finish_reason,
        )


def _is_plain(part: ReplyPart) -> TypeGuard[TextReply]:
    return isinstance(part, TextReply) and part.chunks is None


@dataclass(frozen=True, slots=True, repr=False)
class ErrorScript:
    """The run fails before it says anything."""

    message: str
    code: str | None = None

    def __repr__(self) -> str:
        return show_call("reply.error", self.message, code=self.code)


@dataclass(frozen=True, slots=True, repr=False)
class NothingScript:
    """The run is completed without any message."""

    def __repr__(self) -> str:
        return "reply.nothing()"


Script: TypeAlias = AssistantScript | ErrorScript | NothingScript

SCRIPT_TYPES: Final = (AssistantScript, ErrorScript, NothingScript)
