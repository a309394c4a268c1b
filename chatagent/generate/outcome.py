"""What a call has come to, for everybody who awaits a part of it (rules 9.1 and 10.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.model import LanguageModelUsage
from chatagent.waiting import Gate

if TYPE_CHECKING:
    from chatagent.generate.steps import StepResult
    from chatagent.model import ModelMessage
    from chatagent.ui import FinishReason

__all__ = ["Outcome"]


class Outcome:
    """Open until the call has ended, or failed."""

    __slots__ = ("_error", "_messages_error", "_settled", "finish_reason", "initial_messages", "steps", "total_usage")

    def __init__(self) -> None:
        self.steps: list[StepResult] = []
        """The finished steps."""
        self.initial_messages: tuple[ModelMessage, ...] = ()
        """What a continuation added before the first step."""
        self.finish_reason: FinishReason = "other"
        self.total_usage = LanguageModelUsage()
        self._settled = Gate("the end of stream_text")
        self._error: BaseException | None = None
        self._messages_error: BaseException | None = None

    @property
    def response_messages(self) -> tuple[ModelMessage, ...]:
        """What the finished steps add to the conversation, with what a continuation added before them."""
        return (*self.initial_messages, *(message for step in self.steps for message in step.response.messages))

    @property
    def is_settled(self) -> bool:
        """Whether the call has ended."""
        return self._settled.is_open

    def resolve(self, finish_reason: FinishReason, total_usage: LanguageModelUsage) -> None:
        """Settle with the steps that are finished."""
        if not self._settled.is_open:
            self.finish_reason, self.total_usage = finish_reason, total_usage
            self._settled.open()

    def reject(self, error: BaseException, *, messages_error: BaseException | None = None) -> None:
        """Settle with an error.

        Args:
            error: what awaiting anything raises.
            messages_error: what awaiting the response messages raises, if that is something else.
        """
        if not self._settled.is_open:
            self._error, self._messages_error = error, messages_error or error
            self._settled.open()

    async def settled(self) -> None:
        """Return when the call has ended, however it did."""
        await self._settled.wait()

    async def wait(self, *, for_messages: bool = False) -> None:
        """Return when the call has ended; raise if it gave nothing."""
        await self._settled.wait()
        error = self._messages_error if for_messages else self._error
        if error is not None:
            raise error
