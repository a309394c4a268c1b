"""From scripts to the parts of the model protocol. No waiting happens here: a wait is an action like a part."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from chatagent.errors import APICallError
from chatagent.model import (
    FinishReason,
    InputTokens,
    ModelError,
    ModelFile,
    ModelFinish,
    ModelReasoningDelta,
    ModelReasoningEnd,
    ModelReasoningStart,
    ModelSource,
    ModelStreamPart,
    ModelTextDelta,
    ModelTextEnd,
    ModelTextStart,
    ModelToolCall,
    ModelToolInputDelta,
    ModelToolInputEnd,
    ModelToolInputStart,
    OutputTokens,
    Usage,
)
from chatagent_test.scripting.steps import (
    BreaksStep,
    ErrorStep,
    FileStep,
    FinishStep,
    HangStep,
    HoldStep,
    OutputStep,
    PartsStep,
    PauseStep,
    ReasoningStep,
    SourceStep,
    TextStep,
    ToolCallStep,
    WaitStep,
    seconds_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chatagent_test.scripting.builder import Script

__all__ = ["DEFAULT_USAGE", "Action", "IdCounter", "Rendered", "needs_finish", "render"]

DEFAULT_USAGE = Usage(input_tokens=InputTokens(total=10), output_tokens=OutputTokens(total=10))

Action: TypeAlias = ModelStreamPart | WaitStep | BreaksStep
"""What a stream does next: give a part, wait, or fail."""


_NO_OUTPUT = (PauseStep, HoldStep, HangStep, BreaksStep)
_BREATHS = (PauseStep, HoldStep)
_ENDS = (PartsStep, ErrorStep, HangStep, BreaksStep)


@dataclass(slots=True)
class IdCounter:
    """Makes ids such as `call-1`, counted for each kind; a model keeps one, so that no two of its calls share an id."""

    counts: Counter[str] = field(default_factory=Counter[str])

    def next(self, kind: str) -> str:
        """Return the next id of a kind."""
        self.counts[kind] += 1
        return f"{kind}-{self.counts[kind]}"


@dataclass(frozen=True, slots=True)
class Rendered:
    """What one call does."""

    waits: tuple[WaitStep, ...]
    """Where the call itself waits, before it fails."""
    failure: Exception | None
    """With what the call itself fails; `None` if it gives a stream."""
    actions: Iterable[Action]
    """What the stream does; worked out as it is asked for, once."""


def render(script: Script, ids: IdCounter) -> Rendered:
    """Return what a call does that answers with this script."""
    failure = script.fails
    if failure is not None:
        waits = tuple(step for step in script.steps if isinstance(step, PauseStep | HoldStep | HangStep))
        return Rendered(waits, _exception(failure), ())
    return Rendered((), None, _actions(script, ids))


def _actions(script: Script, ids: IdCounter) -> Iterator[Action]:
    for step in script.steps:
        if isinstance(step, _NO_OUTPUT):
            yield step
        else:
            yield from _parts(step, ids)
    if needs_finish(script):
        called = any(isinstance(step, ToolCallStep) for step in script.steps)
        yield ModelFinish(FinishReason("tool-calls" if called else "stop"), DEFAULT_USAGE)


def needs_finish(script: Script) -> bool:
    """Return whether a finish is to be added at the end of a script."""
    said = [step for step in script.steps if not isinstance(step, _BREATHS)]
    return not script.finished and not (said and isinstance(said[-1], _ENDS))


def _parts(step: OutputStep, ids: IdCounter) -> Iterator[ModelStreamPart]:
    match step:
        case TextStep():
            block = ids.next("text")
            yield ModelTextStart(block)
            yield from map(partial(ModelTextDelta, block), step.chunks)
            yield ModelTextEnd(block)
        case ReasoningStep():
            block = ids.next("reasoning")
            yield ModelReasoningStart(block)
            yield from map(partial(ModelReasoningDelta, block), step.chunks)
            yield ModelReasoningEnd(block)
        case ToolCallStep():
            yield from _tool_call(step, ids)
        case FileStep():
            yield ModelFile(step.media_type, step.data)
        case SourceStep():
            yield _source(step, ids)
        case ErrorStep():
            yield ModelError(step.error if step.status_code is None else _exception(step))
        case PartsStep():
            yield from step.parts
        case FinishStep():
            yield ModelFinish(step.reason, step.usage or DEFAULT_USAGE)


def _tool_call(step: ToolCallStep, ids: IdCounter) -> Iterator[ModelStreamPart]:
    call = step.tool_call_id or ids.next("call")
    yield ModelToolInputStart(call, step.tool_name)
    yield ModelToolInputDelta(call, step.input_text)
    yield ModelToolInputEnd(call)
    yield ModelToolCall(call, step.tool_name, step.input_text)


def _source(step: SourceStep, ids: IdCounter) -> ModelSource:
    return ModelSource(
        "document" if step.url is None else "url",
        step.source_id or ids.next("source"),
        url=step.url,
        title=step.title,
        media_type=step.media_type,
        filename=step.filename,
    )


def _exception(step: ErrorStep) -> Exception:
    if isinstance(step.error, Exception):
        return step.error
    headers = {} if step.retry_after is None else {"retry-after": seconds_text(step.retry_after)}
    if step.status_code is None:
        return APICallError(step.error, is_retryable=False)
    return APICallError(step.error, status_code=step.status_code, response_headers=headers)
