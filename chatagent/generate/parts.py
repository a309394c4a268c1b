"""The parts of the full stream: everything that happens in a call of `stream_text`, in order (rule 10.1).

One class a type, named `Full` and the type in CamelCase. They come by the ten thousand, so they are the slotted objects
of `chatagent.ui.slots`; which of them become chunks is decided in `mapping.py`.
"""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - annotations are read at run time
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

from chatagent.generate.texts import error_text
from chatagent.model import CallWarning, InlineData, LanguageModelUsage, RequestInfo, ResponseInfo, UrlData
from chatagent.model.files import to_base64, to_bytes
from chatagent.ui import UNSET, FinishReason, JSONObject, Kind, ProviderMetadata, Unset, WireObject, wire_class
from chatagent.ui.messages import FileUIPart, TextUIPart  # noqa: TC001 - likewise

__all__ = [
    "FullAbort",
    "FullCustom",
    "FullError",
    "FullFile",
    "FullFinish",
    "FullFinishStep",
    "FullPing",
    "FullRaw",
    "FullReasoningDelta",
    "FullReasoningEnd",
    "FullReasoningFile",
    "FullReasoningStart",
    "FullSource",
    "FullStart",
    "FullStartStep",
    "FullSteeringMessage",
    "FullStreamPart",
    "FullTextDelta",
    "FullTextEnd",
    "FullTextStart",
    "FullToolApprovalRequest",
    "FullToolApprovalResponse",
    "FullToolCall",
    "FullToolError",
    "FullToolInputDelta",
    "FullToolInputEnd",
    "FullToolInputStart",
    "FullToolOutputDenied",
    "FullToolResult",
    "GeneratedFile",
    "StepPerformance",
]


@dataclass(frozen=True, slots=True)
class GeneratedFile:
    """A file that the model made."""

    media_type: str
    data: InlineData | UrlData
    """The file itself, or where it can be fetched."""

    @property
    def base64(self) -> str | None:
        """The content as base64 text; `None` for a file that is only a URL."""
        return None if isinstance(self.data, UrlData) else to_base64(self.data.data)

    @property
    def content(self) -> bytes | None:
        """The content as bytes; `None` for a file that is only a URL."""
        return None if isinstance(self.data, UrlData) else to_bytes(self.data.data)

    @property
    def url(self) -> str:
        """The URL under which the UI shows it; a data URL if the content is here."""
        if isinstance(self.data, UrlData):
            return self.data.url
        return f"data:{self.media_type};base64,{to_base64(self.data.data)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPerformance:
    """How long a step took, in seconds of the clock it ran on."""

    step_seconds: float
    """From before `prepare_step` to the end of the last tool."""
    response_seconds: float
    """The model call alone: from the request to the end of its stream."""
    first_output_seconds: float | None = None
    """From the start of the stream to the first output; `None` if there was none."""


def _write_file(file: GeneratedFile) -> object:
    if isinstance(file.data, UrlData):
        return {"mediaType": file.media_type, "url": file.data.url}
    return {"mediaType": file.media_type, "base64": file.base64}


def _write_usage(usage: LanguageModelUsage) -> object:
    return usage.to_wire()


def _write_response(response: ResponseInfo) -> object:
    shown = {
        "id": response.id,
        "timestamp": None if response.timestamp is None else response.timestamp.isoformat(),
        "modelId": response.model_id,
        "headers": None if response.headers is None else dict(response.headers),
    }
    return {key: value for key, value in shown.items() if value is not None}


def _write_performance(performance: StepPerformance) -> object:
    shown = {
        "stepSeconds": performance.step_seconds,
        "responseSeconds": performance.response_seconds,
        "firstOutputSeconds": performance.first_output_seconds,
    }
    return {key: value for key, value in shown.items() if value is not None}


def _write_error(error: object) -> object:
    return error_text(error) if isinstance(error, BaseException) else error


def _write_request(request: RequestInfo) -> object:
    return {} if request.body is None else {"body": request.body}


_File: TypeAlias = Annotated[GeneratedFile, Kind("a file", instance_of=GeneratedFile, encode=_write_file)]
_Usage: TypeAlias = Annotated[LanguageModelUsage, Kind("a usage", instance_of=LanguageModelUsage, encode=_write_usage)]
_Response: TypeAlias = Annotated[ResponseInfo, Kind("a response", instance_of=ResponseInfo, encode=_write_response)]
_Request: TypeAlias = Annotated[RequestInfo, Kind("a request", instance_of=RequestInfo, encode=_write_request)]
_Performance: TypeAlias = Annotated[
    StepPerformance, Kind("a performance", instance_of=StepPerformance, encode=_write_performance)
]
_Anything: TypeAlias = Annotated[object, Kind("anything", encode=_write_error)]


@wire_class
class FullStart(WireObject):
    """The call begins."""

    type: ClassVar[Literal["start"]] = "start"


@wire_class
class FullStartStep(WireObject):
    """A model call begins to give output."""

    type: ClassVar[Literal["start-step"]] = "start-step"
    warnings: Sequence[CallWarning]
    request: _Request | None = None


@wire_class
class FullTextStart(WireObject):
    """Opens a text block; its id is unique over the whole call."""

    type: ClassVar[Literal["text-start"]] = "text-start"
    id: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullTextDelta(WireObject):
    """More text of an open block."""

    type: ClassVar[Literal["text-delta"]] = "text-delta"
    id: str
    text: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullTextEnd(WireObject):
    """Closes a text block."""

    type: ClassVar[Literal["text-end"]] = "text-end"
    id: str
    citations: Sequence[object] | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullReasoningStart(WireObject):
    """Opens a reasoning block; its id is unique over the whole call."""

    type: ClassVar[Literal["reasoning-start"]] = "reasoning-start"
    id: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullReasoningDelta(WireObject):
    """More text of an open reasoning block."""

    type: ClassVar[Literal["reasoning-delta"]] = "reasoning-delta"
    id: str
    text: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullReasoningEnd(WireObject):
    """Closes a reasoning block."""

    type: ClassVar[Literal["reasoning-end"]] = "reasoning-end"
    id: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullToolInputStart(WireObject):
    """The model begins to write a tool's input; `id` is the call's id."""

    type: ClassVar[Literal["tool-input-start"]] = "tool-input-start"
    id: str
    tool_name: str
    provider_executed: bool | None = None
    dynamic: bool | None = None
    title: str | None = None
    input_encoding: Literal["json", "text"] | None = None
    tool_metadata: JSONObject | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullToolInputDelta(WireObject):
    """More text of a tool's input."""

    type: ClassVar[Literal["tool-input-delta"]] = "tool-input-delta"
    id: str
    delta: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullToolInputEnd(WireObject):
    """The text of a tool's input is complete; the call follows."""

    type: ClassVar[Literal["tool-input-end"]] = "tool-input-end"
    id: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullToolCall(WireObject):
    """A call of a tool, its input parsed."""

    type: ClassVar[Literal["tool-call"]] = "tool-call"
    tool_call_id: str
    tool_name: str
    input: object
    """The parsed JSON as the model wrote it; the raw text if it is no JSON."""
    provider_executed: bool | None = None
    dynamic: bool | None = None
    """`True` for a tool whose schema was not known when the program was written, and for every invalid call."""
    invalid: bool | None = None
    error: _Anything | Unset = UNSET
    """Why the call is invalid."""
    title: str | None = None
    tool_metadata: JSONObject | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullToolResult(WireObject):
    """What a tool returned, or one of its preliminary values."""

    type: ClassVar[Literal["tool-result"]] = "tool-result"
    tool_call_id: str
    tool_name: str
    input: object | Unset = UNSET
    """The call's input; `UNSET` if the call was made in an earlier call of `stream_text`."""
    output: object | Unset = UNSET
    """`UNSET` if the tool is a generator that yielded nothing."""
    provider_executed: bool | None = None
    dynamic: bool | None = None
    preliminary: bool | None = None
    title: str | None = None
    tool_metadata: JSONObject | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullToolError(WireObject):
    """A tool failed; the loop goes on, and the model is told."""

    type: ClassVar[Literal["tool-error"]] = "tool-error"
    tool_call_id: str
    tool_name: str
    error: _Anything
    """What the tool raised; a text for an invalid call."""
    input: object | Unset = UNSET
    provider_executed: bool | None = None
    dynamic: bool | None = None
    title: str | None = None
    tool_metadata: JSONObject | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullToolOutputDenied(WireObject):
    """A tool does not run, because it was not approved."""

    type: ClassVar[Literal["tool-output-denied"]] = "tool-output-denied"
    tool_call_id: str
    tool_name: str


@wire_class
class FullToolApprovalRequest(WireObject):
    """Asks whether a tool may run."""

    type: ClassVar[Literal["tool-approval-request"]] = "tool-approval-request"
    approval_id: str
    tool_call: FullToolCall
    is_automatic: bool | None = None
    """A policy answers it, not the user."""
    reason: str | None = None
    signature: str | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullToolApprovalResponse(WireObject):
    """A policy's answer to an approval request."""

    type: ClassVar[Literal["tool-approval-response"]] = "tool-approval-response"
    approval_id: str
    tool_call: FullToolCall
    approved: bool
    reason: str | None = None
    provider_executed: bool | None = None


@wire_class
class FullFile(WireObject):
    """A file that the model made."""

    type: ClassVar[Literal["file"]] = "file"
    file: _File
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullReasoningFile(WireObject):
    """A file that the model made while it thought."""

    type: ClassVar[Literal["reasoning-file"]] = "reasoning-file"
    file: _File
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullSource(WireObject):
    """A page or a document that the model drew on."""

    type: ClassVar[Literal["source"]] = "source"
    source_type: Literal["url", "document"]
    id: str
    url: str | None = None
    title: str | None = None
    media_type: str | None = None
    filename: str | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullCustom(WireObject):
    """Content of a kind that only one provider has."""

    type: ClassVar[Literal["custom"]] = "custom"
    kind: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class FullSteeringMessage(WireObject):
    """A user message that was put into the run while the model was at work; a transform may add one."""

    type: ClassVar[Literal["steering-message"]] = "steering-message"
    id: str
    parts: Annotated[
        Sequence[TextUIPart | FileUIPart],
        Kind("a list of parts", encode=lambda parts: [part.to_wire() for part in parts]),
    ]


@wire_class
class FullFinishStep(WireObject):
    """A model call and its tools are done."""

    type: ClassVar[Literal["finish-step"]] = "finish-step"
    finish_reason: FinishReason
    usage: _Usage
    response: _Response
    raw_finish_reason: str | None = None
    provider_metadata: ProviderMetadata | None = None
    performance: _Performance | None = None


@wire_class
class FullFinish(WireObject):
    """All steps are done."""

    type: ClassVar[Literal["finish"]] = "finish"
    finish_reason: FinishReason
    total_usage: _Usage
    raw_finish_reason: str | None = None


@wire_class
class FullAbort(WireObject):
    """The call was aborted; nothing follows."""

    type: ClassVar[Literal["abort"]] = "abort"
    reason: str | None = None


@wire_class
class FullError(WireObject):
    """Something went wrong; more may follow."""

    type: ClassVar[Literal["error"]] = "error"
    error: _Anything


@wire_class
class FullRaw(WireObject):
    """What the provider sent, unchanged; only with `include_raw_chunks`."""

    type: ClassVar[Literal["raw"]] = "raw"
    raw_value: object


@wire_class
class FullPing(WireObject):
    """Keeps the connection alive."""

    type: ClassVar[Literal["ping"]] = "ping"


FullStreamPart: TypeAlias = (
    FullStart
    | FullStartStep
    | FullTextStart
    | FullTextDelta
    | FullTextEnd
    | FullReasoningStart
    | FullReasoningDelta
    | FullReasoningEnd
    | FullToolInputStart
    | FullToolInputDelta
    | FullToolInputEnd
    | FullToolCall
    | FullToolResult
    | FullToolError
    | FullToolOutputDenied
    | FullToolApprovalRequest
    | FullToolApprovalResponse
    | FullFile
    | FullReasoningFile
    | FullSource
    | FullCustom
    | FullSteeringMessage
    | FullFinishStep
    | FullFinish
    | FullAbort
    | FullError
    | FullRaw
    | FullPing
)
"""One part of the full stream."""
