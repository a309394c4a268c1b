"""From scripts to what is said, in no format yet: items, waits, failures and the end.

Blocks of the model protocol that a script gives as parts are put together again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from chatagent.errors import APICallError, InvalidArgumentError
from chatagent.model import (
    FinishReason,
    ModelError,
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
    Usage,
)
from chatagent_test.inference.formats.items import Call, Reasoning, Said, Source, Text
from chatagent_test.scripting.render import IdCounter, needs_finish
from chatagent_test.scripting.steps import (
    BreaksStep,
    ErrorStep,
    FileStep,
    FinishStep,
    HangStep,
    HoldStep,
    PartsStep,
    PauseStep,
    ReasoningStep,
    SourceStep,
    Step,
    TextStep,
    ToolCallStep,
    WaitStep,
    seconds_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chatagent_test.scripting import Script

__all__ = ["End", "Failure", "Play", "failure_of", "items_of", "played"]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error, as a provider tells it."""

    message: str
    status: int | None = None
    retry_after: str | None = None
    """The value of the header."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of the answer; without a usage, its numbers are whoever renders it to say."""

    reason: FinishReason
    usage: Usage | None = None


Play: TypeAlias = Said | WaitStep | BreaksStep | Failure | End

_SILENT = frozenset({"stream-start", "response-metadata", "ping", "raw"})
"""Parts that say nothing that a format could hold."""


def played(script: Script, ids: IdCounter) -> list[Play]:
    """Return what comes of a script, in order.

    Raises:
        InvalidArgumentError: it says something that none of the three formats can.
    """
    said: list[Play] = []
    for step in script.steps:
        _add(said, step, ids)
    if needs_finish(script):
        called = any(isinstance(each, Call) for each in said)
        said.append(End(FinishReason("tool-calls" if called else "stop")))
    return said


def failure_of(step: ErrorStep) -> Failure:
    """Return what a provider tells of an error."""
    error, status = step.error, step.status_code
    retry_after = None if step.retry_after is None else seconds_text(step.retry_after)
    if isinstance(error, APICallError):
        headers = {name.lower(): value for name, value in error.response_headers.items()}
        return Failure(str(error), error.status_code, headers.get("retry-after"))
    return Failure(str(error), status, retry_after)


def _add(said: list[Play], step: Step, ids: IdCounter) -> None:
    match step:
        case TextStep():
            said.append(Text("".join(step.chunks), step.chunks))
        case ReasoningStep():
            said.append(Reasoning("".join(step.chunks), step.chunks))
        case ToolCallStep():
            said.append(Call(step.tool_call_id or ids.next("call"), step.tool_name, step.input_text))
        case SourceStep():
            _add_source(said, step.url, step.title)
        case FileStep():
            raise _cannot(step)
        case ErrorStep():
            said.append(failure_of(step))
        case FinishStep():
            said.append(End(step.reason, step.usage))
        case PartsStep():
            _Blocks(said).add_all(step.parts)
        case PauseStep() | HoldStep() | HangStep() | BreaksStep():
            said.append(step)


def _add_source(said: list[Play], url: str | None, title: str | None) -> None:
    """Hang a source on the text in front of it, or on an empty one of its own: no format has it alone."""
    if url is None:
        raise InvalidArgumentError(
            argument="script", value=title, problem="a source that is a document cannot go out over HTTP; a page can"
        )
    before = said[-1] if said else None
    if isinstance(before, Text):
        said[-1] = Text(before.text, before.deltas, (*before.sources, Source(url, title)))
    else:
        said.append(Text("", ("",), (Source(url, title),)))


def _cannot(value: object) -> InvalidArgumentError:
    problem = "none of the three formats can say that; give a ScriptedResponse"
    return InvalidArgumentError(argument="script", value=value, problem=problem)


@dataclass(slots=True)
class _Blocks:
    """Puts parts together to what they say."""

    said: list[Play]
    deltas: dict[tuple[type, str], list[str]] = field(default_factory=dict[tuple[type, str], list[str]])

    def add_all(self, parts: tuple[ModelStreamPart, ...]) -> None:
        for part in parts:
            self._add(part)
        self._rest()

    def _add(self, part: ModelStreamPart) -> None:
        match part:
            case ModelTextStart() | ModelReasoningStart() | ModelToolInputStart():
                self.deltas[type(part), part.id] = []
            case ModelTextDelta() | ModelReasoningDelta() | ModelToolInputDelta():
                self.deltas.setdefault((_START[type(part)], part.id), []).append(part.delta)
            case ModelTextEnd():
                self._close(ModelTextStart, part.id)
            case ModelReasoningEnd():
                self._close(ModelReasoningStart, part.id)
            case _:
                self._add_whole(part)

    def _add_whole(self, part: ModelStreamPart) -> None:
        match part:
            case ModelToolCall():
                pieces = self.deltas.pop((ModelToolInputStart, part.tool_call_id), None)
                fragments = pieces if pieces and "".join(pieces) == part.input else None
                self.said.append(Call(part.tool_call_id, part.tool_name, part.input, fragments))
            case ModelSource():
                _add_source(self.said, part.url, part.title)
            case ModelError():
                self.said.append(
                    failure_of(ErrorStep(part.error if isinstance(part.error, Exception) else str(part.error)))
                )
            case ModelFinish():
                self.said.append(End(part.finish_reason, part.usage))
            case ModelToolInputEnd():
                pass
            case _ if part.type in _SILENT:
                pass
            case _:
                raise _cannot(part)

    def _close(self, kind: type, block: str) -> None:
        pieces = self.deltas.pop((kind, block), [])
        item = Text if kind is ModelTextStart else Reasoning
        self.said.append(item("".join(pieces), pieces))

    def _rest(self) -> None:
        """Say what was begun and never ended."""
        for kind, block in list(self.deltas):
            if kind is not ModelToolInputStart:
                self._close(kind, block)


_START: dict[type, type] = {
    ModelTextDelta: ModelTextStart,
    ModelReasoningDelta: ModelReasoningStart,
    ModelToolInputDelta: ModelToolInputStart,
}


def items_of(said: list[Play]) -> Iterator[Said]:
    """Yield what is said, waits and ends left out."""
    return (each for each in said if isinstance(each, Text | Reasoning | Call))
