"""A UI message stream that knows its message: the ids it sends, and what its two callbacks are told (rules 12.4, 12.6).

The server's side of the reducer. Who makes the chunks, and when a stream ends, is the business of the streams: the one
of a call, and the one that is put together by hand.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from chatagent.ui.messages import UIMessage
from chatagent.ui.reducer import MessageReducer
from chatagent.ui.validation import parse_ui_message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.ids import IdGenerator
    from chatagent.ui.chunks import Chunk, Start
    from chatagent.ui.wire import FinishReason

__all__ = [
    "DEFAULT_ERROR_TEXT",
    "OriginalMessages",
    "ResponseTracker",
    "StreamEndEvent",
    "StreamOutcome",
    "StreamStepEndEvent",
]

DEFAULT_ERROR_TEXT = "An error occurred."
"""What a user sees of an error unless `on_error` says otherwise."""

OriginalMessages: TypeAlias = Sequence[UIMessage | Mapping[str, object]]
"""The conversation so far; dicts are in wire form."""


@dataclass(frozen=True, slots=True)
class StreamOutcome:
    """How a stream ended."""

    status: Literal["completed", "aborted", "failed", "unknown"]
    """`failed`: an error that nothing made good, or the stream itself could not go on."""
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
        return [*map(parse_ui_message, kept), self.response_message]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEndEvent(StreamStepEndEvent):
    """The stream has ended, or nobody reads it any more."""

    is_aborted: bool
    """The work was aborted, and the stream says so."""
    outcome: StreamOutcome
    finish_reason: FinishReason | None = None
    """What the `finish` chunk said; `None` if there was none."""
    is_cancelled: bool = False
    """The stream was closed or cancelled before its end, and nothing that came before says how the work went."""


class ResponseTracker:
    """Follows the chunks that one stream sends, and calls its callbacks.

    Without callbacks nothing is followed: the stream is *untracked*, and a chunk that does not fit the message passes.

    Args:
        original_messages: the conversation so far. If it ends with an assistant message, that message is continued; the
            other messages are not looked at before a callback asks for them.
        generate_id: makes the message's id, unless it continues one; without it the message has none.
        on_step_end: called by `end_step`.
        on_end: called by `end`.
        on_error: told what `on_step_end` raised; what it returns is not used.
    """

    __slots__ = (
        "_continued",
        "_is_over",
        "_on_end",
        "_on_error",
        "_on_step_end",
        "_originals",
        "_reducer",
        "feed",
        "message_id",
    )

    def __init__(
        self,
        *,
        original_messages: OriginalMessages | None,
        generate_id: IdGenerator | None,
        on_step_end: Callable[[StreamStepEndEvent], object] | None,
        on_end: Callable[[StreamEndEvent], object] | None,
        on_error: Callable[[Exception], object],
    ) -> None:
        self._originals: OriginalMessages = original_messages or ()
        self._on_step_end, self._on_end, self._on_error = on_step_end, on_end, on_error
        self._continued = _last_assistant(self._originals)
        self._is_over = False
        self.message_id: str | None = None
        """The id that the message has, unless a `start` chunk says another one."""
        if self._continued is not None:
            self.message_id = self._continued.id
        elif generate_id is not None:
            self.message_id = generate_id()
        self._reducer: MessageReducer | None = None
        self.feed: Callable[[Chunk], object] = _pass
        """Takes the next chunk that is sent; raises a `UIMessageStreamError` if it does not fit the message."""
        if on_step_end is not None or on_end is not None:
            begun = self._continued or UIMessage(id=self.message_id or "", role="assistant", parts=())
            self._reducer = MessageReducer(begun, on_new_id="rename")
            self.feed = self._reducer.feed

    def with_id(self, start: Start) -> Start:
        """Return the `start` chunk with the message's id, unless it has one."""
        if start.message_id is not None or self.message_id is None:
            return start
        return replace(start, message_id=self.message_id)

    async def end_step(self) -> None:
        """Call `on_step_end` with the message as it stands; what it raises goes to `on_error`.

        Call it with the `finish-step` chunk fed and not yet passed on.
        """
        reducer, on_step_end = self._reducer, self._on_step_end
        if reducer is None or on_step_end is None:
            return
        message = reducer.message
        event = StreamStepEndEvent(
            response_message=message,
            is_continuation=self._continues(message),
            original_messages=self._originals,
        )
        try:
            await _call(on_step_end, event)
        except Exception as exc:  # noqa: BLE001 - a user's callback: what it raises is reported (rule 12.6)
            self._on_error(exc)

    async def end(self, outcome: StreamOutcome, *, is_aborted: bool = False, is_cancelled: bool = False) -> None:
        """Call `on_end`; a second call does nothing.

        Args:
            outcome: how the stream ended.
            is_aborted: an `abort` chunk was sent.
            is_cancelled: the stream was closed or cancelled before its end.

        Raises:
            Exception: what `on_end` raised.
        """
        reducer, on_end = self._reducer, self._on_end
        if self._is_over or reducer is None or on_end is None:
            return
        self._is_over = True
        message = reducer.message
        event = StreamEndEvent(
            response_message=message,
            is_continuation=self._continues(message),
            original_messages=self._originals,
            is_aborted=is_aborted or outcome.status == "aborted",
            outcome=outcome,
            finish_reason=reducer.finish_reason,
            is_cancelled=is_cancelled and outcome.status == "unknown",
        )
        await _call(on_end, event)

    def _continues(self, message: UIMessage) -> bool:
        return self._continued is not None and message.id == self._continued.id


def _pass(_chunk: Chunk) -> None:
    return None


async def _call(callback: Callable[[Any], object], event: object) -> None:
    made = callback(event)
    if inspect.isawaitable(made):
        await cast("Awaitable[object]", made)


def _last_assistant(messages: OriginalMessages) -> UIMessage | None:
    last = parse_ui_message(messages[-1]) if messages else None
    return last if last is not None and last.role == "assistant" else None
