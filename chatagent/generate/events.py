"""What the callbacks of a call are given, and how they are called (rules 10.7 and 10.8).

Callbacks are sync or async, and awaited. What one raises is logged and changes nothing.
"""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from chatagent.generate.parts import (
        FullSource,
        FullStreamPart,
        FullToolCall,
        FullToolError,
        FullToolResult,
        GeneratedFile,
    )
    from chatagent.generate.steps import ContentPart, StepResponse, StepResult
    from chatagent.model import CallWarning, LanguageModel, LanguageModelUsage, ModelMessage, Prompt, SystemMessage
    from chatagent.ui import FinishReason

__all__ = [
    "AbortEvent",
    "Callbacks",
    "EndEvent",
    "ModelCallEndEvent",
    "ModelCallStartEvent",
    "StartEvent",
    "StepErrorEvent",
    "StepStartEvent",
    "ToolExecutionEndEvent",
    "ToolExecutionStartEvent",
    "call_back",
    "log_error",
]

_log = logging.getLogger("chatagent")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEvent:
    """The call begins; its input has been checked."""

    model: LanguageModel
    instructions: Sequence[SystemMessage]
    messages: Sequence[ModelMessage]
    runtime_context: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStartEvent:
    """A step begins; `prepare_step` has been asked."""

    step_number: int
    model: LanguageModel
    messages: Sequence[ModelMessage]
    steps: Sequence[StepResult]
    """The finished ones."""
    runtime_context: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallStartEvent:
    """The model is about to be asked."""

    step_number: int
    model: LanguageModel
    prompt: Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallEndEvent:
    """The model has said everything."""

    step_number: int
    finish_reason: FinishReason
    usage: LanguageModelUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionStartEvent:
    """A tool is about to run."""

    tool_call: FullToolCall
    messages: Sequence[ModelMessage]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolExecutionEndEvent:
    """A tool has run."""

    tool_call: FullToolCall
    output: FullToolResult | FullToolError
    """The final result, or what it raised."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepErrorEvent:
    """A step began and gave no result."""

    step_number: int
    error: object


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortEvent:
    """The call was aborted."""

    steps: Sequence[StepResult]
    """The finished ones."""
    reason: object
    """What the aborter gave; an `AbortError` if it gave nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndEvent:
    """The call has ended with at least one finished step. Lists cover all steps, single values are of the last."""

    steps: Sequence[StepResult]
    total_usage: LanguageModelUsage
    response_messages: Sequence[ModelMessage]

    @property
    def final_step(self) -> StepResult:
        """The last finished step."""
        return self.steps[-1]

    @property
    def text(self) -> str:
        """The text of the last step."""
        return self.final_step.text

    @property
    def reasoning_text(self) -> str | None:
        """The reasoning of the last step; `None` if there is none."""
        return self.final_step.reasoning_text

    @property
    def finish_reason(self) -> FinishReason:
        """Why the last step ended."""
        return self.final_step.finish_reason

    @property
    def raw_finish_reason(self) -> str | None:
        """The provider's own word for it."""
        return self.final_step.raw_finish_reason

    @property
    def response(self) -> StepResponse:
        """The response of the last step."""
        return self.final_step.response

    @property
    def usage(self) -> LanguageModelUsage:
        """The same as `total_usage`."""
        return self.total_usage

    @property
    def content(self) -> tuple[ContentPart, ...]:
        """The content of all steps."""
        return tuple(part for step in self.steps for part in step.content)

    @property
    def tool_calls(self) -> tuple[FullToolCall, ...]:
        """The calls of all steps."""
        return tuple(part for step in self.steps for part in step.tool_calls)

    @property
    def tool_results(self) -> tuple[FullToolResult, ...]:
        """The results of all steps."""
        return tuple(part for step in self.steps for part in step.tool_results)

    @property
    def files(self) -> tuple[GeneratedFile, ...]:
        """The files of all steps."""
        return tuple(part for step in self.steps for part in step.files)

    @property
    def sources(self) -> tuple[FullSource, ...]:
        """The sources of all steps."""
        return tuple(part for step in self.steps for part in step.sources)

    @property
    def warnings(self) -> tuple[CallWarning, ...]:
        """The warnings of all steps."""
        return tuple(part for step in self.steps for part in step.warnings)


class Callbacks(TypedDict, total=False):
    """The callbacks of a call; each gets one value and may be sync or async."""

    on_start: Callable[[StartEvent], object] | None
    on_step_start: Callable[[StepStartEvent], object] | None
    on_language_model_call_start: Callable[[ModelCallStartEvent], object] | None
    on_language_model_call_end: Callable[[ModelCallEndEvent], object] | None
    on_chunk: Callable[[FullStreamPart], object] | None
    on_tool_execution_start: Callable[[ToolExecutionStartEvent], object] | None
    on_tool_execution_end: Callable[[ToolExecutionEndEvent], object] | None
    on_step_end: Callable[[StepResult], object] | None
    on_step_error: Callable[[StepErrorEvent], object] | None
    on_error: Callable[[object], object] | None
    on_abort: Callable[[AbortEvent], object] | None
    on_end: Callable[[EndEvent], object] | None


def log_error(error: object) -> None:
    """Report an error that nobody else reports; the default of `on_error`.

    Goes to the logger `chatagent`, which prints to standard error unless the program has set up logging.
    """
    exception = error if isinstance(error, BaseException) else None
    _log.error("stream_text: %s", error, exc_info=exception)


async def call_back(callback: Callable[[Any], object] | None, event: object, *, name: str) -> None:
    """Call a callback, if there is one, and wait for it; log what it raises."""
    if callback is None:
        return
    try:
        made = callback(event)
        if inspect.isawaitable(made):
            await cast("Awaitable[object]", made)
    except Exception:  # noqa: BLE001 - a user's callback: what it raises must not change the stream (rule 9.7)
        _log.exception("stream_text: `%s` raised", name)
