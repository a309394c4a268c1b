"""Scripts: what a model says in one call, written as a chain of words.

`script.text("Let me look.").tool_call("search", {"q": "x"})` is one call. Every word gives a new script, so a beginning
may be shared by several. What makes no sense is refused by the word itself, so that the error points at the line of the
test that wrote it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, cast, get_args

from chatagent.errors import InvalidArgumentError
from chatagent.model import FinishReason, ModelFinish, UnifiedFinishReason, Usage, parse_stream_part, parse_usage
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
)
from chatagent_test.scripting.written import as_written

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Script", "script"]

_WAITS = (PauseStep, HoldStep)
_NOTHING_MORE = (
    "nothing comes behind `hang`, `breaks`, or an error before any output, which fails the call; "
    "an error part in front of everything is `parts([ModelError(...)])`"
)


@dataclass(frozen=True, slots=True)
class Script:
    """What a model says in one call: a value, made by chaining.

    Unless it ends with `finish`, `parts`, `error`, `hang` or `breaks`, a finish is added: `tool-calls` if there was a
    tool call, else `stop`, with a usage of 10 tokens each way.
    """

    steps: tuple[Step, ...] = ()

    def __repr__(self) -> str:
        """Return it as it is written."""
        return "script" + "".join(f".{as_written(step)}" for step in self.steps)

    def text(self, text: str, *, chunks: Sequence[str] | None = None) -> Script:
        """Say a text.

        Args:
            text: the whole text.
            chunks: the deltas in which it comes; together they are the text. One delta by default.
        """
        return self._with(TextStep(_chunks("text", text, chunks)))

    def reasoning(self, text: str, *, chunks: Sequence[str] | None = None) -> Script:
        """Think aloud; arguments as for `text`."""
        return self._with(ReasoningStep(_chunks("reasoning", text, chunks)))

    def tool_call(self, name: str, input: object, *, tool_call_id: str | None = None) -> Script:
        """Call a tool.

        Args:
            name: the tool's name.
            input: a JSON value; a string is taken as the raw text of the input, which need be no JSON.
            tool_call_id: id of the call; by default the model counts `call-1`, `call-2`, …
        """
        _need_text("name", name)
        taken = {step.tool_call_id for step in self.steps if isinstance(step, ToolCallStep)} - {None}
        if tool_call_id in taken:
            raise InvalidArgumentError(
                argument="tool_call_id", value=tool_call_id, problem="this script has a call of that id already"
            )
        return self._with(ToolCallStep(name, _input_text(input), tool_call_id))

    def file(self, data: str | bytes, media_type: str) -> Script:
        """Generate a file.

        Args:
            data: the file's bytes, or their base64 text.
            media_type: such as `image/png`.
        """
        _need_text("media_type", media_type)
        return self._with(FileStep(data, media_type))

    def source(
        self,
        url: str | None = None,
        *,
        title: str | None = None,
        media_type: str | None = None,
        filename: str | None = None,
        source_id: str | None = None,
    ) -> Script:
        """Name a source: a page by its `url`, or a document by `media_type` and `title`."""
        if url is None and (media_type is None or title is None):
            raise InvalidArgumentError(
                argument="url", value=url, problem="a source has a `url`, or else `media_type` and `title`"
            )
        return self._with(SourceStep(url, title, media_type, filename, source_id))

    def error(self, error_or_status: Exception | str | int, *, retry_after: float | None = None) -> Script:
        """Fail as a provider does: before any output the call itself fails, after output an `error` part comes.

        Args:
            error_or_status: an exception, an error text, or an HTTP status.
            retry_after: seconds that the provider asks to wait; only with a status.
        """
        if not isinstance(error_or_status, Exception | str | int):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise InvalidArgumentError(
                argument="error_or_status",
                value=error_or_status,
                problem="give an exception, a text, or an HTTP status",
            )
        if isinstance(error_or_status, int) and not 400 <= error_or_status <= 599:
            raise InvalidArgumentError(
                argument="error_or_status", value=error_or_status, problem="an HTTP status of an error is 400 to 599"
            )
        if retry_after is not None and (not isinstance(error_or_status, int) or not 0 <= retry_after < math.inf):
            raise InvalidArgumentError(
                argument="retry_after", value=retry_after, problem="it is 0 seconds or more, and goes with a status"
            )
        if isinstance(error_or_status, int):
            return self._with(ErrorStep(_status_text(error_or_status), error_or_status, retry_after))
        return self._with(ErrorStep(error_or_status))

    def parts(self, parts: Iterable[object]) -> Script:
        """Send parts of the model protocol as they are; no finish is added behind them.

        Args:
            parts: part objects, or parts in wire form.

        Raises:
            UnknownStreamPartError: one is no part.
            InvalidStreamPartError: one has a field missing or wrong.
        """
        return self._with(PartsStep(tuple(parse_stream_part(part) for part in parts)))

    def finish(
        self, reason: UnifiedFinishReason | FinishReason, *, usage: Usage | Mapping[str, object] | None = None
    ) -> Script:
        """End the answer.

        Args:
            reason: why the model stops.
            usage: the tokens used, nested as models report them (or their wire form); 10 each way by default.
        """
        if not isinstance(reason, FinishReason):
            if reason not in get_args(UnifiedFinishReason):
                known = ", ".join(get_args(UnifiedFinishReason))
                raise InvalidArgumentError(argument="reason", value=reason, problem=f"it is one of {known}")
            reason = FinishReason(reason)
        return self._with(FinishStep(reason, usage if isinstance(usage, Usage | None) else parse_usage(usage)))

    def pause(self, seconds: float) -> Script:
        """Send nothing for so many seconds of the clock (virtual in a harness)."""
        if not 0 <= seconds < math.inf:
            raise InvalidArgumentError(argument="seconds", value=seconds, problem="a pause is 0 seconds or more")
        return self._with(PauseStep(seconds))

    def hold(self, name: str) -> Script:
        """Send nothing until `model.release(name)`: the way to act at an exact point. Virtual time stands still."""
        _need_text("name", name)
        return self._with(HoldStep(name))

    def hang(self) -> Script:
        """Send nothing any more. Only an abort or a limit on the clock ends the call."""
        return self._with(HangStep())

    def breaks(self, exception: BaseException) -> Script:
        """Fail in the middle of the stream: reading the next part raises this exception."""
        if not isinstance(cast("object", exception), BaseException):
            raise InvalidArgumentError(argument="exception", value=exception, problem="give an exception object")
        return self._with(BreaksStep(exception))

    @property
    def holds(self) -> tuple[str, ...]:
        """The names of the holds, in order."""
        return tuple(step.name for step in self.steps if isinstance(step, HoldStep))

    @property
    def fails(self) -> ErrorStep | None:
        """The error with which the call itself fails; `None` if it gives a stream."""
        spoken = [step for step in self.steps if not isinstance(step, _WAITS)]
        return spoken[0] if spoken and isinstance(spoken[0], ErrorStep) else None

    @property
    def finished(self) -> bool:
        """Whether the answer has its end already."""
        return any(
            isinstance(step, FinishStep)
            or (isinstance(step, PartsStep) and any(isinstance(part, ModelFinish) for part in step.parts))
            for step in self.steps
        )

    def _with(self, step: Step) -> Script:
        last = self.steps[-1] if self.steps else None
        if isinstance(last, HangStep | BreaksStep) or self.fails is not None:
            raise InvalidArgumentError(argument="script", value=self, problem=_NOTHING_MORE)
        if self.finished and not isinstance(step, (*_WAITS, HangStep, BreaksStep, PartsStep, ErrorStep)):
            raise InvalidArgumentError(argument="script", value=self, problem="nothing is said behind `finish`")
        return Script((*self.steps, step))


script: Final = Script()
"""The empty script, with which every chain begins."""


def _chunks(word: str, text: str, chunks: Sequence[str] | None) -> tuple[str, ...]:
    if not isinstance(cast("object", text), str):
        raise InvalidArgumentError(argument=word, value=text, problem="it is a string")
    if chunks is None:
        return (text,)
    if isinstance(chunks, str) or "".join(chunks) != text:
        raise InvalidArgumentError(
            argument="chunks", value=chunks, problem=f"a list of strings which together are the text {text!r}"
        )
    return tuple(chunks)


def _need_text(argument: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidArgumentError(argument=argument, value=value, problem="it is a string that is not empty")


def _input_text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise InvalidArgumentError(
            argument="input", value=value, problem=f"a tool call's input is JSON, or its raw text: {exc}"
        ) from exc


def _status_text(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} error"
