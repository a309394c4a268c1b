"""One step's model stream, part by part: what the model says becomes parts of the full stream.

Each part costs plain calls only; what must be awaited (parsing a call, asking for approval, callbacks) is returned and
awaited by the reading loop. Follows rules 5.1, 5.2, 5.8 and 5.9; tool parts are `step_tools.py`'s business.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from typing import TYPE_CHECKING, Any, ClassVar

from chatagent.generate.events import ModelCallEndEvent
from chatagent.generate.parts import (
    FullCustom,
    FullError,
    FullFile,
    FullPing,
    FullRaw,
    FullReasoningDelta,
    FullReasoningEnd,
    FullReasoningFile,
    FullReasoningStart,
    FullSource,
    FullStartStep,
    FullTextDelta,
    FullTextEnd,
    FullTextStart,
    GeneratedFile,
)
from chatagent.generate.step_tools import StepTools
from chatagent.generate.stopped import Stopped
from chatagent.generate.texts import error_text, provider_error
from chatagent.model import (
    LanguageModelUsage,
    ModelCustom,
    ModelError,
    ModelFile,
    ModelFinish,
    ModelPing,
    ModelRaw,
    ModelReasoningDelta,
    ModelReasoningEnd,
    ModelReasoningFile,
    ModelReasoningStart,
    ModelResponseMetadata,
    ModelSource,
    ModelStreamPart,
    ModelStreamStart,
    ModelTextDelta,
    ModelTextEnd,
    ModelTextStart,
    ModelToolApprovalRequest,
    ModelToolCall,
    ModelToolInputDelta,
    ModelToolInputEnd,
    ModelToolInputStart,
    ModelToolResult,
    flatten_usage,
    parse_stream_part,
    tagged_data,
)
from chatagent.model.files import InlineData, UrlData

if TYPE_CHECKING:
    from chatagent.generate.loop import Call
    from chatagent.generate.tool_calls import ToolCallParser
    from chatagent.model import CallWarning, RequestInfo, ToolChoice
    from chatagent.model.files import BareData, FileData
    from chatagent.ui import FinishReason, ProviderMetadata

__all__ = ["StepReader", "StreamRetryError"]


class StreamRetryError(Exception):
    """The stream sent an error, and the step may be tried again; for `step.py` alone."""

    def __init__(self, error: object) -> None:
        super().__init__(error_text(error))
        self.error = error


_Handler = Callable[["StepReader", Any], Awaitable[None] | None]


class StepReader:
    """Reads the stream of one step, and keeps what the end of the step needs to know.

    Args:
        call: the call that the step belongs to.
        number: the step's number.
        parser: parses its tool calls.
        tool_choice: what the model was told about calling tools.
        request: what was sent to the provider.
        may_retry: an error in the stream ends the reading, so that the step can be tried again.
        holds_tools: tool parts, and all that comes behind one, are held back until the stream is known to be good.
        goes_on: an earlier try of the step has begun to give output.
    """

    def __init__(
        self,
        call: Call,
        *,
        number: int,
        parser: ToolCallParser,
        tool_choice: ToolChoice,
        request: RequestInfo | None,
        may_retry: bool = False,
        holds_tools: bool = False,
        goes_on: bool = False,
    ) -> None:
        self._call = call
        self._emit = call.emitter.emit
        self._emit_delta = call.emitter.emit_delta
        self._number = number
        self.tools = StepTools(call, parser=parser, tool_choice=tool_choice)
        self._may_run = tool_choice.type != "none"
        self._request = request
        self._texts, self._reasonings = call.texts, call.reasonings
        self._texts.open.clear()
        self._reasonings.open.clear()
        self._first_text: str | None = None
        """The step's first text block; its deltas carry on the metadata of the ones before."""
        self._first_metadata: ProviderMetadata | None = None
        self.has_begun = goes_on
        self._may_retry, self._holds_tools = may_retry, holds_tools
        self._held: list[Any] = []
        self.first_entry = call.log.mark()
        """Where in the log the step's parts begin, without those of earlier tries."""
        self.warnings: tuple[CallWarning, ...] = ()
        self.response = ModelResponseMetadata()
        self.finish_reason: FinishReason | None = None
        self.raw_finish_reason: str | None = None
        self.usage = LanguageModelUsage()
        self.provider_metadata: ProviderMetadata | None = None
        self.has_finished = False
        self.has_failed = False
        self.finished_at: float | None = None
        """When the model had said everything."""

    async def read(self, stream: AsyncIterable[Any]) -> None:
        """Read the stream to its end.

        Args:
            stream: the parts, as objects or in wire form.

        Raises:
            Exception: what the stream raises, or an error for a part that is none.
            StreamRetryError: the stream sent an error, and the step may be tried again.
            Stopped: the call was aborted or closed; nothing more is taken.
        """
        call, handlers = self._call, self._HANDLERS
        log, pending = call.log, call.emitter.pending
        watch = call.deadlines.output if call.deadlines.watches_output else None
        async for given in stream:
            part: Any = given
            handler = handlers.get(type(part))  # pyright: ignore[reportUnknownArgumentType] - any class may come
            if handler is None:
                part = parse_stream_part(part)
                handler = handlers[type(part)]
            if watch is not None and is_output(part):
                watch()
            if not self.has_begun and type(part) is not ModelStreamStart:
                self._begin()
            if self._holds_tools and self._is_held(part):
                self._held.append(part)
                continue
            wait = handler(self, part)
            if wait is not None:
                await wait
            if pending:
                await call.flush()
            if call.is_stopped:
                raise Stopped
            if log.count >= log.limit:
                await log.room()

    async def end(self) -> None:
        """Do what is left to do when the stream has ended without a `finish` part."""
        if not self.has_finished:
            await self._release()

    async def fail(self, error: Exception) -> None:
        """End a step whose stream has failed, because it could not be tried again."""
        self.has_failed = True
        self.finish_reason = "error"
        await self._call.report(error)

    def _is_held(self, part: ModelStreamPart) -> bool:
        kind = type(part)
        return kind in _TOOL_PARTS or (bool(self._held) and kind not in _NEVER_HELD)

    async def _release(self) -> None:
        """Take the parts that were held back."""
        held, self._held = self._held, []
        for part in held:
            wait = self._HANDLERS[type(part)](self, part)
            if wait is not None:
                await wait

    def _begin(self) -> None:
        self.has_begun = True
        self._emit(FullStartStep(warnings=self.warnings, request=self._request))

    # Text and reasoning -------------------------------------------------------------------------------------------

    def _text_start(self, part: ModelTextStart) -> None:
        unique = self._texts.start(part.id)
        if self._first_text is None:
            self._first_text = unique
        self._emit(FullTextStart(id=unique, provider_metadata=part.provider_metadata))

    def _text_delta(self, part: ModelTextDelta) -> None:
        delta, metadata = part.delta, part.provider_metadata
        if not delta and metadata is None:
            return
        unique = self._texts.open.get(part.id)
        if unique is None:
            self._emit(FullTextDelta(part.id, delta, metadata))
            self._unknown_block("text", part.id)
            return
        if unique == self._first_text:
            self._first_metadata = metadata = metadata or self._first_metadata
        if metadata is None:
            self._emit_delta(FullTextDelta, unique, delta)
        else:
            self._emit(FullTextDelta(unique, delta, metadata))

    def _text_end(self, part: ModelTextEnd) -> None:
        unique = self._texts.open.pop(part.id, None)
        self._emit(
            FullTextEnd(id=unique or part.id, citations=part.citations, provider_metadata=part.provider_metadata)
        )
        if unique is None:
            self._unknown_block("text", part.id)

    def _reasoning_start(self, part: ModelReasoningStart) -> None:
        self._emit(FullReasoningStart(id=self._reasonings.start(part.id), provider_metadata=part.provider_metadata))

    def _reasoning_delta(self, part: ModelReasoningDelta) -> None:
        unique = self._reasonings.open.get(part.id)
        if unique is not None and part.provider_metadata is None:
            self._emit_delta(FullReasoningDelta, unique, part.delta)
            return
        self._emit(FullReasoningDelta(id=unique or part.id, text=part.delta, provider_metadata=part.provider_metadata))
        if unique is None:
            self._unknown_block("reasoning", part.id)

    def _reasoning_end(self, part: ModelReasoningEnd) -> None:
        unique = self._reasonings.open.pop(part.id, None)
        self._emit(FullReasoningEnd(id=unique or part.id, provider_metadata=part.provider_metadata))
        if unique is None:
            self._unknown_block("reasoning", part.id)

    def _unknown_block(self, kind: str, block_id: str) -> None:
        self._emit(FullError(error=f"{kind} part {block_id} not found"))

    # Other content ------------------------------------------------------------------------------------------------

    def _file(self, part: ModelFile) -> None:
        self._emit(FullFile(file=_generated(part.media_type, part.data), provider_metadata=part.provider_metadata))

    def _reasoning_file(self, part: ModelReasoningFile) -> None:
        file = _generated(part.media_type, part.data)
        self._emit(FullReasoningFile(file=file, provider_metadata=part.provider_metadata))

    def _source(self, part: ModelSource) -> None:
        self._emit(
            FullSource(
                source_type=part.source_type,
                id=part.id,
                url=part.url,
                title=part.title,
                media_type=part.media_type,
                filename=part.filename,
                provider_metadata=part.provider_metadata,
            )
        )

    def _custom(self, part: ModelCustom) -> None:
        self._emit(FullCustom(kind=part.kind, provider_metadata=part.provider_metadata))

    def _raw(self, part: ModelRaw) -> None:
        if self._call.plan.include_raw_chunks:
            self._emit(FullRaw(raw_value=part.raw_value))

    def _ping(self, _part: ModelPing) -> None:
        self._emit(FullPing())

    # The call itself ----------------------------------------------------------------------------------------------

    def _stream_start(self, part: ModelStreamStart) -> None:
        self.warnings = (*self.warnings, *part.warnings)

    def _response_metadata(self, part: ModelResponseMetadata) -> None:
        known = self.response
        self.response = ModelResponseMetadata(
            id=part.id or known.id,
            timestamp=part.timestamp or known.timestamp,
            model_id=part.model_id or known.model_id,
        )

    async def _error(self, part: ModelError) -> None:
        error = provider_error(part.error)
        if self._may_retry:
            await self._call.report_error(error)
            self._close_blocks()
            raise StreamRetryError(error)
        await self._release()
        self.has_failed = True
        self.finish_reason = "error"
        await self._call.report(error)

    def _close_blocks(self) -> None:
        for block in self._texts.open.values():
            self._emit(FullTextEnd(id=block))
        for block in self._reasonings.open.values():
            self._emit(FullReasoningEnd(id=block))

    async def _finish(self, part: ModelFinish) -> None:
        if self.has_finished:
            return
        self.has_finished = True
        await self._release()
        self.finish_reason = part.finish_reason.unified
        self.raw_finish_reason = part.finish_reason.raw
        self.usage = flatten_usage(part.usage)
        self.provider_metadata = part.provider_metadata
        ended = ModelCallEndEvent(step_number=self._number, finish_reason=self.finish_reason, usage=self.usage)
        await self._call.notify("on_language_model_call_end", ended)
        violation = None if self.finish_reason == "interrupted" and self._may_run else self.tools.choice_error()
        if violation is not None:
            self.finish_reason = "error"
            await self._call.report(violation)
        self.finished_at = self._call.clock.now()
        self._call.deadlines.stream_ends()
        if self.finish_reason in ("stop", "tool-calls") and self._may_run:
            await self._run_tools()

    async def _run_tools(self) -> None:
        """Run the tools of the step, and pass on what comes of them as it comes; the model's stream waits meanwhile."""
        call = self._call
        await call.runner.start(self.tools.runs, call.notify)
        while (output := await call.runner.next_output(call.notify)) is not None:
            self.tools.take_output(output)
            await call.flush()
            await call.log.room()

    # Tools, which have a class of their own -----------------------------------------------------------------------

    def _tool_input_start(self, part: ModelToolInputStart) -> Awaitable[None] | None:
        return self.tools.input_start(part)

    def _tool_input_delta(self, part: ModelToolInputDelta) -> Awaitable[None] | None:
        return self.tools.input_delta(part)

    def _tool_input_end(self, part: ModelToolInputEnd) -> Awaitable[None] | None:
        return self.tools.input_end(part)

    def _tool_call(self, part: ModelToolCall) -> Awaitable[None] | None:
        return self.tools.call(part)

    def _tool_result(self, part: ModelToolResult) -> Awaitable[None] | None:
        return self.tools.result(part)

    def _tool_approval_request(self, part: ModelToolApprovalRequest) -> Awaitable[None] | None:
        return self.tools.approval_request(part)

    _HANDLERS: ClassVar[dict[type, _Handler]] = {
        ModelStreamStart: _stream_start,
        ModelResponseMetadata: _response_metadata,
        ModelTextStart: _text_start,
        ModelTextDelta: _text_delta,
        ModelTextEnd: _text_end,
        ModelReasoningStart: _reasoning_start,
        ModelReasoningDelta: _reasoning_delta,
        ModelReasoningEnd: _reasoning_end,
        ModelToolInputStart: _tool_input_start,
        ModelToolInputDelta: _tool_input_delta,
        ModelToolInputEnd: _tool_input_end,
        ModelToolCall: _tool_call,
        ModelToolResult: _tool_result,
        ModelToolApprovalRequest: _tool_approval_request,
        ModelFile: _file,
        ModelReasoningFile: _reasoning_file,
        ModelCustom: _custom,
        ModelSource: _source,
        ModelFinish: _finish,
        ModelRaw: _raw,
        ModelError: _error,
        ModelPing: _ping,
    }


_TOOL_PARTS = frozenset(
    {
        ModelToolInputStart,
        ModelToolInputDelta,
        ModelToolInputEnd,
        ModelToolCall,
        ModelToolResult,
        ModelToolApprovalRequest,
    }
)


_NEVER_HELD = frozenset({ModelError, ModelPing, ModelFinish, ModelStreamStart})


def is_output(part: ModelStreamPart) -> bool:
    """Return whether the model says something with a part: text of any kind, a file, or a tool call (rule 5.10)."""
    if isinstance(part, ModelTextDelta | ModelReasoningDelta | ModelToolInputDelta):
        return bool(part.delta)
    return isinstance(part, ModelFile | ModelReasoningFile | ModelToolCall)


def _generated(media_type: str, data: BareData | FileData) -> GeneratedFile:
    tagged = tagged_data(data)
    if isinstance(tagged, InlineData | UrlData):
        return GeneratedFile(media_type, tagged)
    msg = f"a model gave a file as {tagged!r:.200}; a generated file is data or a URL"
    raise TypeError(msg)
