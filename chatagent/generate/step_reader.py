"""One step's model stream, part by part: what the model says becomes parts of the full stream.

Each part costs plain calls only; what must be awaited (parsing a call, asking for approval, callbacks) is returned and
awaited by the reading loop. Follows rules 5.1, 5.2, 5.8 to 5.10, 6.1 to 6.4, 6.9, 6.11, 6.12 and 7.1 to 7.3.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from chatagent.errors import ToolCallNotFoundForApprovalError, ToolChoiceViolationError
from chatagent.generate.approval import ApprovalDecision, ApprovalEvent, decide, sign
from chatagent.generate.events import ModelCallEndEvent
from chatagent.generate.execution import ToolRun, tool_error
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
    FullToolApprovalRequest,
    FullToolApprovalResponse,
    FullToolCall,
    FullToolError,
    FullToolInputDelta,
    FullToolInputEnd,
    FullToolInputStart,
    FullToolOutputDenied,
    FullToolResult,
    GeneratedFile,
)
from chatagent.generate.stopped import Stopped
from chatagent.generate.texts import error_text, provider_error
from chatagent.generate.tools import InputAvailable, InputDelta, Tool, ToolCallOptions
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
    from chatagent.generate.tool_calls import ParsedCall, ToolCallParser
    from chatagent.model import CallWarning, ModelMessage, RequestInfo, ToolChoice
    from chatagent.model.files import BareData, FileData
    from chatagent.ui import FinishReason, ProviderMetadata

__all__ = ["StepReader"]

_Handler = Callable[["StepReader", Any], Awaitable[None] | None]


class StepReader:
    """Reads the stream of one step, and keeps what the end of the step needs to know.

    Args:
        call: the call that the step belongs to.
        number: the step's number.
        parser: parses its tool calls.
        tool_choice: what the model was told about calling tools.
        request: what was sent to the provider.
    """

    def __init__(
        self,
        call: Call,
        *,
        number: int,
        parser: ToolCallParser,
        tool_choice: ToolChoice,
        request: RequestInfo | None,
    ) -> None:
        self._call = call
        self._emit = call.emitter.emit
        self._number = number
        self._parser = parser
        self._tools: Mapping[str, Tool] = parser.tools
        self._messages: Sequence[ModelMessage] = parser.messages
        self._choice = tool_choice
        self._request = request
        self._texts, self._reasonings = call.texts, call.reasonings
        self._texts.open.clear()
        self._reasonings.open.clear()
        self._has_begun = False
        self._has_violated = False
        self._inputs: dict[str, Tool] = {}
        self._runs: list[ToolRun] = []
        self.calls: dict[str, ParsedCall] = {}
        self.answered = 0
        """Calls of this side that have a result, an error, or an automatic denial."""
        self.warnings: tuple[CallWarning, ...] = ()
        self.response = ModelResponseMetadata()
        self.finish_reason: FinishReason | None = None
        self.raw_finish_reason: str | None = None
        self.usage = LanguageModelUsage()
        self.provider_metadata: ProviderMetadata | None = None
        self.has_finished = False
        self.has_failed = False

    async def read(self, stream: AsyncIterable[ModelStreamPart | Mapping[str, object]]) -> None:
        """Read the stream to its end.

        Raises:
            Exception: what the stream raises, or an error for a part that is none.
            Stopped: the call was aborted or closed; nothing more is taken.
        """
        call, handlers = self._call, self._HANDLERS
        log, pending = call.log, call.emitter.pending
        parts = log.parts
        watch = call.deadlines.output if call.deadlines.watches_output else None
        async for given in stream:
            part: Any = given
            handler = handlers.get(type(part))
            if handler is None:
                part = parse_stream_part(part)
                handler = handlers[type(part)]
            if watch is not None and is_output(part):
                watch()
            if not self._has_begun and type(part) is not ModelStreamStart:
                self._begin()
            wait = handler(self, part)
            if wait is not None:
                await wait
            if pending:
                await call.flush()
            if call.is_stopped:
                raise Stopped
            if len(parts) >= log.limit:
                await log.room()

    def client_calls(self) -> int:
        """Return how many calls of this step are answered on this side."""
        return sum(not each.part.provider_executed for each in self.calls.values())

    def take_output(self, output: FullToolResult | FullToolError) -> None:
        """Pass on what came of a tool that ran here."""
        if isinstance(output, FullToolError) or not output.preliminary:
            self.answered += 1
        self._emit(output)

    async def end(self) -> None:
        """Do what is left to do when the stream has ended without a `finish` part."""
        if not self.has_finished:
            await self._check_choice()

    def _begin(self) -> None:
        self._has_begun = True
        self._emit(FullStartStep(warnings=self.warnings, request=self._request))

    # Text and reasoning -------------------------------------------------------------------------------------------

    def _text_start(self, part: ModelTextStart) -> None:
        self._emit(FullTextStart(id=self._texts.start(part.id), provider_metadata=part.provider_metadata))

    def _text_delta(self, part: ModelTextDelta) -> None:
        delta, metadata = part.delta, part.provider_metadata
        if not delta and metadata is None:
            return
        unique = self._texts.open.get(part.id)
        if unique is None:
            self._emit(FullTextDelta(id=part.id, text=delta, provider_metadata=metadata))
            self._unknown_block("text", part.id)
            return
        self._emit(FullTextDelta(id=unique, text=delta, provider_metadata=metadata))

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

    def _error(self, part: ModelError) -> Awaitable[None]:
        self.has_failed = True
        self.finish_reason = "error"
        return self._report(provider_error(part.error))

    async def _report(self, error: object) -> None:
        self._emit(FullError(error=error))
        await self._call.report_error(error)

    async def _finish(self, part: ModelFinish) -> None:
        if self.has_finished:
            return
        self.has_finished = True
        self.finish_reason = part.finish_reason.unified
        self.raw_finish_reason = part.finish_reason.raw
        self.usage = flatten_usage(part.usage)
        self.provider_metadata = part.provider_metadata
        await self._check_choice()
        ended = ModelCallEndEvent(step_number=self._number, finish_reason=self.finish_reason, usage=self.usage)
        await self._call.notify("on_language_model_call_end", ended)
        if self.finish_reason in ("stop", "tool-calls") and self._choice.type != "none":
            self._call.runner.start(self._runs)

    async def _check_choice(self) -> None:
        """Report a model that did not call what it had to call (rule 6.11)."""
        if self._has_violated:
            self.finish_reason = "error"
            return
        wanted = self._choice.tool_name
        called = [each.part.tool_name for each in self.calls.values()]
        met = wanted in called if self._choice.type == "tool" else bool(called)
        if self._choice.type in ("auto", "none") or met or self.has_failed:
            return
        what = f"a call of tool '{wanted}'" if self._choice.type == "tool" else "a tool call"
        demanded = self._choice.type if wanted is None else f"'{wanted}'"
        await self._violate(f"Model response did not contain {what} even though tool choice was {demanded}.")

    async def _violate(self, message: str) -> None:
        self._has_violated = True
        self.finish_reason = "error"
        await self._report(ToolChoiceViolationError(message))

    def _withheld(self) -> Awaitable[None] | None:
        """Drop a tool part that the model had no right to; report it the first time."""
        if self._has_violated:
            return None
        return self._violate("Model response contained a tool call even though tool choice was none.")

    # Tool input and calls -----------------------------------------------------------------------------------------

    def _tool_input_start(self, part: ModelToolInputStart) -> Awaitable[None] | None:
        if self._choice.type == "none":
            return self._withheld()
        tool = self._tools.get(part.tool_name)
        self._emit(
            FullToolInputStart(
                id=part.id,
                tool_name=part.tool_name,
                provider_executed=part.provider_executed,
                dynamic=tool is not None and tool.kind == "dynamic" if part.dynamic is None else part.dynamic,
                title=part.title if tool is None or tool.title is None else tool.title,
                input_encoding=part.input_encoding,
                tool_metadata=None if tool is None else tool.metadata,
                provider_metadata=part.provider_metadata,
            )
        )
        if tool is None:
            return None
        self._inputs[part.id] = tool
        return self._call.told_tool(tool.on_input_start, lambda: self._options(part.id, part.tool_name))

    def _tool_input_delta(self, part: ModelToolInputDelta) -> Awaitable[None] | None:
        if self._choice.type == "none":
            return self._withheld()
        self._emit(FullToolInputDelta(id=part.id, delta=part.delta, provider_metadata=part.provider_metadata))
        tool = self._inputs.get(part.id)
        if tool is None or tool.on_input_delta is None:
            return None
        return self._call.told_tool(
            tool.on_input_delta,
            lambda: InputDelta(part.id, part.delta, self._options(part.id, tool.name or "")),
        )

    def _tool_input_end(self, part: ModelToolInputEnd) -> Awaitable[None] | None:
        if self._choice.type == "none":
            return self._withheld()
        self._emit(FullToolInputEnd(id=part.id, provider_metadata=part.provider_metadata))
        return None

    def _tool_call(self, part: ModelToolCall) -> Awaitable[None] | None:
        return self._withheld() if self._choice.type == "none" else self._take_call(part)

    async def _take_call(self, raw: ModelToolCall) -> None:
        parsed = await self._parser.parse(raw)
        part, tool = parsed.part, parsed.tool
        self.calls[part.tool_call_id] = parsed
        self._call.known_calls[part.tool_call_id] = part
        self._emit(part)
        if part.invalid:
            if not part.provider_executed:
                self.take_output(tool_error(part, error_text(part.error)))
            return
        if tool is None:
            return
        options = self._options(part.tool_call_id, part.tool_name)
        heard = self._call.told_tool(
            tool.on_input_available, lambda: InputAvailable(part.tool_call_id, parsed.value, options)
        )
        if heard is not None:
            await heard
        if part.provider_executed:
            if tool.supports_deferred_results:
                self._call.deferred.add(part.tool_call_id)
            return
        await self._approve(parsed, tool, options)

    async def _approve(self, parsed: ParsedCall, tool: Tool, options: ToolCallOptions) -> None:
        """Ask who has to say so whether a call may run, and act on it (rules 7.1 to 7.3)."""
        part, plan = parsed.part, self._call.plan
        event = ApprovalEvent(
            tool_call=part, value=parsed.value, options=options, runtime_context=self._call.runtime_context
        )
        try:
            decision = await decide(plan.tool_approval, tool, event)
        except Exception as exc:  # noqa: BLE001 - a user's policy: a call that it cannot judge must not run
            self.take_output(tool_error(part, exc))
            return
        if decision.type != "not-applicable":
            approval_id = self._request_approval(part, decision)
            if decision.type == "user-approval":
                return
            self._answer_approval(part, approval_id, decision)
            if decision.type == "denied":
                return
        if tool.run is not None:
            limit = plan.timeout.of_tool(part.tool_name)
            self._runs.append(ToolRun(part, tool, parsed.value, options, limit))

    def _request_approval(self, part: FullToolCall, decision: ApprovalDecision) -> str:
        plan = self._call.plan
        approval_id, signature = plan.generate_id(), None
        if plan.tool_approval_secret is not None:
            signature = sign(
                plan.tool_approval_secret,
                approval_id=approval_id,
                tool_call_id=part.tool_call_id,
                tool_name=part.tool_name,
                tool_input=part.input,
            )
        asks_user = decision.type == "user-approval"
        self._emit(
            FullToolApprovalRequest(
                approval_id=approval_id,
                tool_call=part,
                is_automatic=None if asks_user else True,
                reason=decision.reason if asks_user else None,
                signature=signature,
            )
        )
        return approval_id

    def _answer_approval(self, part: FullToolCall, approval_id: str, decision: ApprovalDecision) -> None:
        approved = decision.type == "approved"
        self._emit(
            FullToolApprovalResponse(approval_id=approval_id, tool_call=part, approved=approved, reason=decision.reason)
        )
        if not approved:
            self.answered += 1
            self._emit(FullToolOutputDenied(tool_call_id=part.tool_call_id, tool_name=part.tool_name))

    # What the provider runs itself --------------------------------------------------------------------------------

    def _tool_result(self, part: ModelToolResult) -> Awaitable[None] | None:
        if self._choice.type == "none":
            return self._withheld()
        call = self._call.known_calls.get(part.tool_call_id)
        if not part.preliminary:
            self._call.deferred.discard(part.tool_call_id)
        shared: dict[str, Any] = {
            "tool_call_id": part.tool_call_id,
            "tool_name": part.tool_name,
            "provider_executed": True,
            "dynamic": part.dynamic,
            "tool_metadata": None if call is None else call.tool_metadata,
            "provider_metadata": part.provider_metadata,
        }
        if call is not None:
            shared["input"] = call.input
        if part.is_error:
            self._emit(FullToolError(error=part.result, **shared))
        else:
            self._emit(FullToolResult(output=part.result, preliminary=part.preliminary, **shared))
        return None

    def _tool_approval_request(self, part: ModelToolApprovalRequest) -> Awaitable[None] | None:
        if self._choice.type == "none":
            return self._withheld()
        call = self._call.known_calls.get(part.tool_call_id)
        if call is None:
            return self._report(
                ToolCallNotFoundForApprovalError(tool_call_id=part.tool_call_id, approval_id=part.approval_id)
            )
        self._emit(
            FullToolApprovalRequest(
                approval_id=part.approval_id, tool_call=call, provider_metadata=part.provider_metadata
            )
        )
        return None

    def _options(self, tool_call_id: str, tool_name: str) -> ToolCallOptions:
        return self._call.tool_options(tool_call_id, tool_name, self._messages)

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
