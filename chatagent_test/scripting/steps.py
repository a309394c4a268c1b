"""The steps of a script, as values. What they become is up to those who play a script.

Two kinds: what the model says, and where it waits or breaks off. They hold nothing that could change, so a script may
be shared by any number of models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from chatagent.model import FinishReason, ModelStreamPart, Usage

__all__ = [
    "BreaksStep",
    "ErrorStep",
    "FileStep",
    "FinishStep",
    "HangStep",
    "HoldStep",
    "OutputStep",
    "PartsStep",
    "PauseStep",
    "ReasoningStep",
    "SourceStep",
    "Step",
    "TextStep",
    "ToolCallStep",
    "WaitStep",
    "seconds_text",
]


def seconds_text(seconds: float) -> str:
    """Return seconds as the header `retry-after` says them: in plain digits, however many or few they are."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class TextStep:
    """A text block, in these deltas."""

    chunks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReasoningStep:
    """A reasoning block, in these deltas."""

    chunks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ToolCallStep:
    """A tool call."""

    tool_name: str
    input_text: str
    """The input as JSON text (or as the text that is no JSON, if the script wants that)."""
    tool_call_id: str | None
    """`None`: whoever plays the script gives one."""


@dataclass(frozen=True, slots=True)
class FileStep:
    """A generated file."""

    data: str | bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class SourceStep:
    """A source: with `url` a page, else a document."""

    url: str | None
    title: str | None
    media_type: str | None
    filename: str | None
    source_id: str | None


@dataclass(frozen=True, slots=True)
class ErrorStep:
    """An error: before any output the call itself fails with it, after output it is one of the parts."""

    error: Exception | str
    status_code: int | None = None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class PartsStep:
    """Parts of the model protocol, as they are."""

    parts: tuple[ModelStreamPart, ...]


@dataclass(frozen=True, slots=True)
class FinishStep:
    """The end of the answer."""

    reason: FinishReason
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class PauseStep:
    """Nothing comes for so many seconds of the clock."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HoldStep:
    """Nothing comes until the test releases this name; virtual time stands still."""

    name: str


@dataclass(frozen=True, slots=True)
class HangStep:
    """Nothing comes any more; virtual time goes on, so that limits fire."""


@dataclass(frozen=True, slots=True)
class BreaksStep:
    """The stream itself fails."""

    exception: BaseException


WaitStep: TypeAlias = PauseStep | HoldStep | HangStep
OutputStep: TypeAlias = (
    TextStep | ReasoningStep | ToolCallStep | FileStep | SourceStep | ErrorStep | PartsStep | FinishStep
)
Step: TypeAlias = OutputStep | WaitStep | BreaksStep
