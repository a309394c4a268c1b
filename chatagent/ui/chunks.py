"""The chunks of the UI message stream, one class a type (rule 11.4).

Attributes are the snake_case of the wire keys. What a chunk does to the message is the reducer's business; how it is
read from and written to the wire, the codec's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Final, Literal, TypeAlias, cast

from pydantic import ValidationError

from chatagent.ui.messages import SteeringMessageUIPart, SteeringPart
from chatagent.ui.slots import UNSET, Fail, Kind, Unset, WireObject, wire_class
from chatagent.ui.validation import first_problem
from chatagent.ui.wire import FinishReason, JSONObject, ProviderMetadata

__all__ = [
    "CHUNK_TYPES",
    "Abort",
    "Chunk",
    "Custom",
    "DataChunk",
    "Error",
    "File",
    "Finish",
    "FinishStep",
    "MessageMetadata",
    "ReasoningDelta",
    "ReasoningEnd",
    "ReasoningFile",
    "ReasoningStart",
    "ResetStep",
    "SourceDocument",
    "SourceUrl",
    "Start",
    "StartStep",
    "SteeringMessage",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ToolApprovalRequest",
    "ToolApprovalResponse",
    "ToolInputAvailable",
    "ToolInputDelta",
    "ToolInputError",
    "ToolInputStart",
    "ToolOutputAvailable",
    "ToolOutputDenied",
    "ToolOutputError",
    "UnknownChunk",
]


def _decode_steering_parts(value: object, fail: Fail, root: object, path: str) -> object:
    try:
        return SteeringMessageUIPart(id="", parts=cast("Sequence[SteeringPart]", value)).parts
    except ValidationError as error:
        field, found, problem = first_problem(error)
        raise fail(root, path.removesuffix("parts") + field, found, problem) from None


def _encode_steering_parts(parts: Sequence[SteeringPart]) -> object:
    return [part.to_wire() for part in parts]


_STEERING_PARTS: Final = Kind(
    "a list of text and file parts",
    lambda value: isinstance(value, list | tuple),
    decode=_decode_steering_parts,
    encode=_encode_steering_parts,
)


@wire_class
class Start(WireObject):
    """Begins the message, or goes on with the one of that id."""

    type: ClassVar[Literal["start"]] = "start"
    message_id: str | None = None
    message_metadata: object | Unset = UNSET


@wire_class
class StartStep(WireObject):
    """A model call begins."""

    type: ClassVar[Literal["start-step"]] = "start-step"


@wire_class
class FinishStep(WireObject):
    """A model call and its tools are done."""

    type: ClassVar[Literal["finish-step"]] = "finish-step"


@wire_class
class ResetStep(WireObject):
    """What came of the current model call is void; it is tried again."""

    type: ClassVar[Literal["reset-step"]] = "reset-step"


@wire_class
class TextStart(WireObject):
    """Opens a text block; its id is unique among the open ones."""

    type: ClassVar[Literal["text-start"]] = "text-start"
    id: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class TextDelta(WireObject):
    """More text of an open block."""

    type: ClassVar[Literal["text-delta"]] = "text-delta"
    id: str
    delta: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class TextEnd(WireObject):
    """Closes a text block."""

    type: ClassVar[Literal["text-end"]] = "text-end"
    id: str
    citations: Sequence[object] | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ReasoningStart(WireObject):
    """Opens a reasoning block; its id is unique among the open ones."""

    type: ClassVar[Literal["reasoning-start"]] = "reasoning-start"
    id: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ReasoningDelta(WireObject):
    """More text of an open reasoning block."""

    type: ClassVar[Literal["reasoning-delta"]] = "reasoning-delta"
    id: str
    delta: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ReasoningEnd(WireObject):
    """Closes a reasoning block."""

    type: ClassVar[Literal["reasoning-end"]] = "reasoning-end"
    id: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ToolInputStart(WireObject):
    """The model begins to write a tool's input."""

    type: ClassVar[Literal["tool-input-start"]] = "tool-input-start"
    tool_call_id: str
    tool_name: str
    input_encoding: Literal["json", "text"] | None = None
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None
    tool_metadata: JSONObject | None = None
    dynamic: bool | None = None
    title: str | None = None


@wire_class
class ToolInputDelta(WireObject):
    """More text of a tool's input."""

    type: ClassVar[Literal["tool-input-delta"]] = "tool-input-delta"
    tool_call_id: str
    input_text_delta: str


@wire_class
class ToolInputAvailable(WireObject):
    """A tool call is complete, streamed before or not."""

    type: ClassVar[Literal["tool-input-available"]] = "tool-input-available"
    tool_call_id: str
    tool_name: str
    input: object
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None
    tool_metadata: JSONObject | None = None
    dynamic: bool | None = None
    title: str | None = None


@wire_class
class ToolInputError(WireObject):
    """A tool call whose input cannot be used."""

    type: ClassVar[Literal["tool-input-error"]] = "tool-input-error"
    tool_call_id: str
    tool_name: str
    input: object
    error_text: str
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None
    tool_metadata: JSONObject | None = None
    dynamic: bool | None = None
    title: str | None = None


@wire_class
class ToolApprovalRequest(WireObject):
    """Asks whether a tool may run; `reason` is the question's, `is_automatic` says that a policy answers it."""

    type: ClassVar[Literal["tool-approval-request"]] = "tool-approval-request"
    approval_id: str
    tool_call_id: str
    reason: str | None = None
    is_automatic: bool | None = None
    signature: str | None = None
    input_schema_input: object | Unset = UNSET
    approval_descriptor: object | Unset = UNSET


@wire_class
class ToolApprovalResponse(WireObject):
    """The answer to an approval request."""

    type: ClassVar[Literal["tool-approval-response"]] = "tool-approval-response"
    approval_id: str
    approved: bool
    reason: str | None = None
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ToolOutputAvailable(WireObject):
    """What a tool returned; with `preliminary`, another output follows."""

    type: ClassVar[Literal["tool-output-available"]] = "tool-output-available"
    tool_call_id: str
    output: object
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None
    tool_metadata: JSONObject | None = None
    preliminary: bool | None = None
    dynamic: bool | None = None


@wire_class
class ToolOutputError(WireObject):
    """A tool failed."""

    type: ClassVar[Literal["tool-output-error"]] = "tool-output-error"
    tool_call_id: str
    error_text: str
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None
    tool_metadata: JSONObject | None = None
    dynamic: bool | None = None


@wire_class
class ToolOutputDenied(WireObject):
    """A tool did not run, because it was not approved."""

    type: ClassVar[Literal["tool-output-denied"]] = "tool-output-denied"
    tool_call_id: str


@wire_class
class SourceUrl(WireObject):
    """A page that the model drew on."""

    type: ClassVar[Literal["source-url"]] = "source-url"
    source_id: str
    url: str
    title: str | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class SourceDocument(WireObject):
    """A document that the model drew on."""

    type: ClassVar[Literal["source-document"]] = "source-document"
    source_id: str
    media_type: str
    title: str
    filename: str | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class File(WireObject):
    """A file that the model made, as a URL (usually a data URL)."""

    type: ClassVar[Literal["file"]] = "file"
    media_type: str
    url: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ReasoningFile(WireObject):
    """A file that belongs to the model's reasoning."""

    type: ClassVar[Literal["reasoning-file"]] = "reasoning-file"
    media_type: str
    url: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class Custom(WireObject):
    """Something of a provider's own; `kind` is `provider.name`."""

    type: ClassVar[Literal["custom"]] = "custom"
    kind: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class DataChunk(WireObject):
    """Data of the application; the type is `data-NAME`, and the same `id` again replaces the data."""

    type: str
    data: object
    id: str | None = None
    transient: bool | None = None

    @property
    def name(self) -> str:
        """The type without `data-`."""
        return self.type.removeprefix("data-")


@wire_class
class SteeringMessage(WireObject):
    """A user message that was put into the run while the model was at work."""

    type: ClassVar[Literal["steering-message"]] = "steering-message"
    id: str
    parts: Annotated[Sequence[SteeringPart], _STEERING_PARTS]


@wire_class
class MessageMetadata(WireObject):
    """Metadata to merge into the message."""

    type: ClassVar[Literal["message-metadata"]] = "message-metadata"
    message_metadata: object


@wire_class
class Error(WireObject):
    """Something failed; the message stands as it is."""

    type: ClassVar[Literal["error"]] = "error"
    error_text: str


@wire_class
class Abort(WireObject):
    """The answer was cut off on purpose."""

    type: ClassVar[Literal["abort"]] = "abort"
    reason: str | None = None


@wire_class
class Finish(WireObject):
    """The message is complete."""

    type: ClassVar[Literal["finish"]] = "finish"
    finish_reason: FinishReason | None = None
    message_metadata: object | Unset = UNSET


@wire_class
class UnknownChunk(WireObject):
    """A chunk of a type that this release does not know, for those who pass it on; `extra` has its fields."""

    type: str


Chunk: TypeAlias = (
    Start
    | StartStep
    | FinishStep
    | ResetStep
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolInputStart
    | ToolInputDelta
    | ToolInputAvailable
    | ToolInputError
    | ToolApprovalRequest
    | ToolApprovalResponse
    | ToolOutputAvailable
    | ToolOutputError
    | ToolOutputDenied
    | SourceUrl
    | SourceDocument
    | File
    | ReasoningFile
    | Custom
    | DataChunk
    | SteeringMessage
    | MessageMetadata
    | Error
    | Abort
    | Finish
    | UnknownChunk
)
"""Any chunk, told apart by its class (or by `type`)."""

CHUNK_TYPES: Final[dict[str, type[Chunk]]] = {
    each.type: each
    for each in (
        Start,
        StartStep,
        FinishStep,
        ResetStep,
        TextStart,
        TextDelta,
        TextEnd,
        ReasoningStart,
        ReasoningDelta,
        ReasoningEnd,
        ToolInputStart,
        ToolInputDelta,
        ToolInputAvailable,
        ToolInputError,
        ToolApprovalRequest,
        ToolApprovalResponse,
        ToolOutputAvailable,
        ToolOutputError,
        ToolOutputDenied,
        SourceUrl,
        SourceDocument,
        File,
        ReasoningFile,
        Custom,
        SteeringMessage,
        MessageMetadata,
        Error,
        Abort,
        Finish,
    )
}
"""The class of each wire type; `data-NAME` types are not in it, since all of them are `DataChunk`."""
