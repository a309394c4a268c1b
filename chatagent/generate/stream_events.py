"""What `on_end` and `on_step_end` of a UI message stream are called with (rule 12.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from chatagent.ui import UIMessage, parse_ui_message

if TYPE_CHECKING:
    from chatagent.ui import FinishReason

__all__ = ["StreamEndEvent", "StreamOutcome", "StreamStepEndEvent"]

OriginalMessages = Sequence[UIMessage | Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """How a stream ended."""

    status: Literal["completed", "aborted", "failed", "unknown"]
    """`failed`: an error that no `finish` followed, or the stream itself could not go on."""
    error: object = None
    """What went wrong; only with `failed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStepEndEvent:
    """A step is complete; the message as it stands."""

    response_message: UIMessage
    is_continuation: bool
    """The message goes on with the last of the original ones."""
    original_messages: OriginalMessages

    @property
    def messages(self) -> list[UIMessage]:
        """The original messages with the response behind them, or in place of the one that it continues."""
        kept = self.original_messages[:-1] if self.is_continuation else self.original_messages
        return [
            *(each if isinstance(each, UIMessage) else parse_ui_message(each) for each in kept),
            self.response_message,
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEndEvent(StreamStepEndEvent):
    """The stream has ended, or nobody reads it any more."""

    is_aborted: bool
    """The call was aborted, and the stream says so."""
    outcome: StreamOutcome
    finish_reason: FinishReason | None = None
    """What the `finish` chunk said; `None` if there was none."""
    is_cancelled: bool = False
    """The stream was closed or cancelled before its end."""
