"""What `stream_text` returns: the streams of a call, and everything that can be awaited of it (rules 10.2 and 10.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, Unpack, runtime_checkable

from chatagent.errors import NoOutputGeneratedError
from chatagent.generate.log import FullStream, TextStream
from chatagent.generate.ui_stream import UIMessageStream, UIMessageStreamOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Sequence

    from chatagent.generate.loop import Call
    from chatagent.generate.outcome import Outcome
    from chatagent.generate.output import Output
    from chatagent.generate.parts import (
        FullReasoningFile,
        FullSource,
        FullToolCall,
        FullToolError,
        FullToolResult,
        GeneratedFile,
    )
    from chatagent.generate.steps import ContentPart, StepResponse, StepResult
    from chatagent.model import CallWarning, LanguageModelUsage, ModelMessage, ModelReasoning, RequestInfo
    from chatagent.ui import Chunk, FinishReason, ProviderMetadata

__all__ = ["Later", "StreamTextResult", "Streamable"]

ValueT = TypeVar("ValueT")
ValueCoT = TypeVar("ValueCoT", covariant=True)


@runtime_checkable
class Streamable(Protocol):
    """Anything that can be shown as a UI message stream, such as a `StreamTextResult`. Inherit from nothing.

    It may also have an awaitable `total_usage`.
    """

    def to_ui_message_stream(self, **options: Unpack[UIMessageStreamOptions]) -> AsyncIterator[Chunk]:
        """Return the chunks.

        The stream goes on with the last message of `original_messages` if that is the assistant's; else its `start`
        chunk carries what `generate_message_id` gives. `on_end` is called with a `StreamEndEvent`, exactly once, when
        the stream ends or is closed; it is not called when the source raises. Errors inside the stream are `error`
        chunks with the text that `on_error` gives.
        """
        ...


class Later(Generic[ValueCoT]):
    """Something to await, as often as wanted. Looking at it does nothing; awaiting it consumes the stream."""

    __slots__ = ("_is_settled", "_read")

    def __init__(
        self, read: Callable[[], Generator[Any, Any, ValueCoT]], *, is_settled: Callable[[], bool] = lambda: False
    ) -> None:
        self._read, self._is_settled = read, is_settled

    @property
    def is_settled(self) -> bool:
        """Whether awaiting it returns, or raises, at once. `False` where that cannot be told."""
        return self._is_settled()

    def __await__(self) -> Generator[Any, Any, ValueCoT]:
        return self._read()


class StreamTextResult:
    """A call of `stream_text`. Nothing happens before somebody reads one of its streams or awaits one of its values.

    The streams may be read at the same time, each gets everything from the first part on, and the model is read only as
    fast as the fastest reader. Single values are of the last step, lists and usage cover all steps. Awaiting one raises
    what kept the call from giving a result: `NoOutputGeneratedError`, the reason of an abort (an `AbortError` unless
    the reason is an exception), or what the model's stream raised.
    """

    __slots__ = ("_call", "_output")

    def __init__(self, call: Call, output: Output | None) -> None:
        self._call = call
        self._output = output

    # Streams ------------------------------------------------------------------------------------------------------

    @property
    def full_stream(self) -> FullStream:
        """Everything that happens, part by part; a new reader at each access."""
        return FullStream(self._call.log)

    @property
    def text_stream(self) -> TextStream:
        """The text, delta by delta, over all steps; a new reader at each access."""
        return TextStream(FullStream(self._call.log))

    def to_ui_message_stream(self, **options: Unpack[UIMessageStreamOptions]) -> UIMessageStream:
        """Return the chunks of the UI message stream; see `Streamable`.

        Args:
            **options: see `UIMessageStreamOptions`.

        Returns:
            A new reader, to be read once: with `async for`, or with its method `pump`.
        """
        return UIMessageStream(self._call, **options)

    async def consume_stream(self) -> None:
        """Run the call to its end without reading it; what goes wrong is in the stream and in the values."""
        self._start()
        await self._call.outcome.settled()

    async def aclose(self) -> None:
        """End the call, whoever reads it, and the tools that belong to no run."""
        await self._call.aclose()

    # Values -------------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> Later[tuple[StepResult, ...]]:
        """The finished steps."""
        return self._later(lambda outcome: tuple(outcome.steps))

    @property
    def text(self) -> Later[str]:
        """The text of the last step."""
        return self._of_last(lambda step: step.text)

    @property
    def reasoning(self) -> Later[tuple[ModelReasoning | FullReasoningFile, ...]]:
        """The reasoning of the last step."""
        return self._of_last(lambda step: step.reasoning)

    @property
    def reasoning_text(self) -> Later[str | None]:
        """The reasoning of the last step as one text; `None` if there is none."""
        return self._of_last(lambda step: step.reasoning_text)

    @property
    def finish_reason(self) -> Later[FinishReason]:
        """Why the last step ended; `other` if a later step could not be asked."""
        return self._later(lambda outcome: outcome.finish_reason)

    @property
    def raw_finish_reason(self) -> Later[str | None]:
        """The provider's own word for it."""
        return self._of_last(lambda step: step.raw_finish_reason)

    @property
    def total_usage(self) -> Later[LanguageModelUsage]:
        """The usage of all steps together."""
        return self._later(lambda outcome: outcome.total_usage)

    @property
    def usage(self) -> Later[LanguageModelUsage]:
        """The same as `total_usage`."""
        return self.total_usage

    @property
    def response(self) -> Later[StepResponse]:
        """The response of the last step."""
        return self._of_last(lambda step: step.response)

    @property
    def request(self) -> Later[RequestInfo | None]:
        """What was sent to the provider in the last step."""
        return self._of_last(lambda step: step.request)

    @property
    def provider_metadata(self) -> Later[ProviderMetadata | None]:
        """What the provider added in the last step."""
        return self._of_last(lambda step: step.provider_metadata)

    @property
    def response_messages(self) -> Later[tuple[ModelMessage, ...]]:
        """What the call adds to the conversation."""

        def read() -> Generator[Any, Any, tuple[ModelMessage, ...]]:
            self._start()
            yield from self._call.outcome.wait(for_messages=True).__await__()
            return self._call.outcome.response_messages

        return Later(read)

    @property
    def content(self) -> Later[tuple[ContentPart, ...]]:
        """The content of all steps."""
        return self._over_all(lambda step: step.content)

    @property
    def tool_calls(self) -> Later[tuple[FullToolCall, ...]]:
        """The tool calls of all steps."""
        return self._over_all(lambda step: step.tool_calls)

    @property
    def static_tool_calls(self) -> Later[tuple[FullToolCall, ...]]:
        """Those of them whose tool's schema was known when the program was written."""
        return self._over_all(lambda step: step.static_tool_calls)

    @property
    def dynamic_tool_calls(self) -> Later[tuple[FullToolCall, ...]]:
        """The other tool calls of all steps."""
        return self._over_all(lambda step: step.dynamic_tool_calls)

    @property
    def tool_results(self) -> Later[tuple[FullToolResult, ...]]:
        """The tool results of all steps."""
        return self._over_all(lambda step: step.tool_results)

    @property
    def tool_errors(self) -> Later[tuple[FullToolError, ...]]:
        """The tool errors of all steps."""
        return self._over_all(lambda step: step.tool_errors)

    @property
    def files(self) -> Later[tuple[GeneratedFile, ...]]:
        """The files of all steps."""
        return self._over_all(lambda step: step.files)

    @property
    def sources(self) -> Later[tuple[FullSource, ...]]:
        """The sources of all steps."""
        return self._over_all(lambda step: step.sources)

    @property
    def warnings(self) -> Later[tuple[CallWarning, ...]]:
        """The warnings of all steps."""
        return self._over_all(lambda step: step.warnings)

    @property
    def output(self) -> Later[Any]:
        """The text of the last step, read by the `output` of the call; the text itself if there is none."""
        output = self._output
        return self._of_last(lambda step: step.text if output is None else output.read(step.text))

    def _start(self) -> None:
        call = self._call
        if not call.outcome.is_settled:
            call.log.drain()
            call.ensure_started()

    def _later(self, value: Callable[[Outcome], ValueT]) -> Later[ValueT]:
        def read() -> Generator[Any, Any, ValueT]:
            self._start()
            yield from self._call.outcome.wait().__await__()
            return value(self._call.outcome)

        return Later(read, is_settled=lambda: self._call.outcome.is_settled)

    def _of_last(self, value: Callable[[StepResult], ValueT]) -> Later[ValueT]:
        return self._later(lambda outcome: value(_last_step(outcome)))

    def _over_all(self, values: Callable[[StepResult], Sequence[ValueT]]) -> Later[tuple[ValueT, ...]]:
        return self._later(lambda outcome: tuple(each for step in outcome.steps for each in values(step)))


def _last_step(outcome: Outcome) -> StepResult:
    if not outcome.steps:
        raise NoOutputGeneratedError("No output generated. A tool that was to go on waits for another answer.")
    return outcome.steps[-1]
