"""What a language model says: the parts of its stream, and the content of an answer in one piece.

One class a type of the model protocol (rule 1.4), named `Model` and the type in CamelCase. The parts come by the ten
thousand, so they are the slotted objects of `chatagent.ui.slots`; what they mean to a step is decided by
`chatagent.generate`. Models of protocol v3 and v4 are both understood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, cast

from chatagent.errors import InvalidPromptError, InvalidStreamPartError, UnknownStreamPartError
from chatagent.model.files import BareData, FileData, file_data_to_wire, parse_file_data
from chatagent.model.usage import Usage, parse_usage
from chatagent.ui.slots import Fail, Kind, WireObject, codec_of, wire_class, write_wire
from chatagent.ui.wire import ProviderMetadata

__all__ = [
    "CallWarning",
    "FinishReason",
    "ModelContent",
    "ModelCustom",
    "ModelError",
    "ModelFile",
    "ModelFinish",
    "ModelPing",
    "ModelRaw",
    "ModelReasoning",
    "ModelReasoningDelta",
    "ModelReasoningEnd",
    "ModelReasoningFile",
    "ModelReasoningStart",
    "ModelResponseMetadata",
    "ModelSource",
    "ModelStreamPart",
    "ModelStreamStart",
    "ModelText",
    "ModelTextDelta",
    "ModelTextEnd",
    "ModelTextStart",
    "ModelToolApprovalRequest",
    "ModelToolCall",
    "ModelToolInputDelta",
    "ModelToolInputEnd",
    "ModelToolInputStart",
    "ModelToolResult",
    "UnifiedFinishReason",
    "parse_stream_part",
    "stream_part_to_wire",
]

UnifiedFinishReason: TypeAlias = Literal[
    "stop", "length", "content-filter", "tool-calls", "error", "other", "interrupted"
]


@dataclass(frozen=True, slots=True)
class FinishReason:
    """Why a model stopped."""

    unified: UnifiedFinishReason
    """One of the words that all models share; `interrupted` is of v4 only."""
    raw: str | None = None
    """The provider's own word."""

    def to_wire(self) -> dict[str, object]:
        """Return the wire form; a missing provider's word is absent."""
        return {"unified": self.unified} if self.raw is None else {"unified": self.unified, "raw": self.raw}


_REASON_FORMS: Final = (str, Mapping, FinishReason)
_REASONS: Final = frozenset(UnifiedFinishReason.__args__)


def _read_reason(value: object, fail: Fail, root: object, path: str) -> FinishReason:
    if isinstance(value, FinishReason):
        return value
    wire: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {"unified": value}
    unified = wire.get("unified", "")
    if unified not in _REASONS:
        raise fail(root, path, cast("object", value), f"its `unified` must be one of {', '.join(sorted(_REASONS))}")
    return FinishReason(unified, wire.get("raw"))


def _read_data(value: object, fail: Fail, root: object, path: str) -> BareData | FileData:
    try:
        return parse_file_data(value)
    except InvalidPromptError as exc:
        raise fail(root, path, value, str(exc)) from None


def _read_timestamp(value: object, fail: Fail, root: object, path: str) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(cast("str", value))
    except ValueError as exc:
        raise fail(root, path, value, f"it must be a date and time in ISO 8601: {exc}") from None


def _write_timestamp(value: datetime) -> str:
    utc = value.astimezone(UTC) if value.tzinfo else value
    return utc.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _write_reason(reason: FinishReason) -> dict[str, object]:
    return reason.to_wire()


def _write_usage(usage: Usage) -> dict[str, object]:
    return usage.to_wire()


def _read_usage(value: object, _fail: Fail, _root: object, _path: str) -> Usage:
    return value if isinstance(value, Usage) else parse_usage(value)


_Reason: TypeAlias = Annotated[
    FinishReason,
    Kind(
        "a finish reason",
        lambda value: isinstance(value, str | Mapping | FinishReason),
        None,
        _read_reason,
        _write_reason,
    ),
]
_Usage: TypeAlias = Annotated[
    Usage, Kind("a usage", lambda value: isinstance(value, Mapping | Usage), None, _read_usage, _write_usage)
]
_Data: TypeAlias = Annotated[BareData | FileData, Kind("file data", None, None, _read_data, file_data_to_wire)]
_Timestamp: TypeAlias = Annotated[
    datetime,
    Kind("a date and time", lambda value: isinstance(value, str | datetime), None, _read_timestamp, _write_timestamp),
]


@wire_class
class CallWarning(WireObject):
    """Something that the provider wants the caller to know (rule 1.8)."""

    type: Literal["unsupported", "compatibility", "deprecated", "other"]
    feature: str | None = None
    """What is not supported; with `unsupported` and `compatibility`."""
    details: str | None = None
    setting: str | None = None
    """What is deprecated; with `deprecated`."""
    message: str | None = None
    """With `deprecated` and `other`."""


@wire_class
class ModelStreamStart(WireObject):
    """The first part, before any output."""

    type: ClassVar[Literal["stream-start"]] = "stream-start"
    warnings: Sequence[CallWarning]


@wire_class
class ModelResponseMetadata(WireObject):
    """What the provider tells about its answer."""

    type: ClassVar[Literal["response-metadata"]] = "response-metadata"
    id: str | None = None
    timestamp: _Timestamp | None = None
    model_id: str | None = None


@wire_class
class ModelTextStart(WireObject):
    """A text block begins."""

    type: ClassVar[Literal["text-start"]] = "text-start"
    id: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelTextDelta(WireObject):
    """More of a text block."""

    type: ClassVar[Literal["text-delta"]] = "text-delta"
    id: str
    delta: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelTextEnd(WireObject):
    """A text block is complete."""

    type: ClassVar[Literal["text-end"]] = "text-end"
    id: str
    citations: Sequence[object] | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelReasoningStart(WireObject):
    """A reasoning block begins."""

    type: ClassVar[Literal["reasoning-start"]] = "reasoning-start"
    id: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelReasoningDelta(WireObject):
    """More of a reasoning block."""

    type: ClassVar[Literal["reasoning-delta"]] = "reasoning-delta"
    id: str
    delta: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelReasoningEnd(WireObject):
    """A reasoning block is complete."""

    type: ClassVar[Literal["reasoning-end"]] = "reasoning-end"
    id: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelToolInputStart(WireObject):
    """The input of a tool call begins to stream; `id` is the call's id."""

    type: ClassVar[Literal["tool-input-start"]] = "tool-input-start"
    id: str
    tool_name: str
    provider_executed: bool | None = None
    dynamic: bool | None = None
    title: str | None = None
    input_encoding: Literal["json", "text"] | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelToolInputDelta(WireObject):
    """More of the raw text of a tool call's input."""

    type: ClassVar[Literal["tool-input-delta"]] = "tool-input-delta"
    id: str
    delta: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelToolInputEnd(WireObject):
    """The streamed input of a tool call is complete; the call itself follows."""

    type: ClassVar[Literal["tool-input-end"]] = "tool-input-end"
    id: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelToolCall(WireObject):
    """A complete tool call, sent whether or not its input was streamed."""

    type: ClassVar[Literal["tool-call"]] = "tool-call"
    tool_call_id: str
    tool_name: str
    input: str
    """JSON text, not yet parsed."""
    provider_executed: bool | None = None
    dynamic: bool | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelToolResult(WireObject):
    """The result of a tool that the provider ran."""

    type: ClassVar[Literal["tool-result"]] = "tool-result"
    tool_call_id: str
    tool_name: str
    result: object
    is_error: bool | None = None
    preliminary: bool | None = None
    dynamic: bool | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelToolApprovalRequest(WireObject):
    """The provider asks for approval of a call of its own tool."""

    type: ClassVar[Literal["tool-approval-request"]] = "tool-approval-request"
    approval_id: str
    tool_call_id: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelFile(WireObject):
    """A generated file."""

    type: ClassVar[Literal["file"]] = "file"
    media_type: str
    data: _Data
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelReasoningFile(WireObject):
    """A file that was generated while reasoning."""

    type: ClassVar[Literal["reasoning-file"]] = "reasoning-file"
    media_type: str
    data: _Data
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelCustom(WireObject):
    """Content of a kind that only one provider has."""

    type: ClassVar[Literal["custom"]] = "custom"
    kind: str
    """Of the form `provider.name`."""
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelSource(WireObject):
    """A source that the answer draws on: a `url`, or a `document` (with media type and title)."""

    type: ClassVar[Literal["source"]] = "source"
    source_type: Literal["url", "document"]
    id: str
    url: str | None = None
    title: str | None = None
    media_type: str | None = None
    filename: str | None = None
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelFinish(WireObject):
    """The last part of a good call."""

    type: ClassVar[Literal["finish"]] = "finish"
    finish_reason: _Reason
    usage: _Usage
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelRaw(WireObject):
    """What the provider sent, unchanged; only if the call asked for it."""

    type: ClassVar[Literal["raw"]] = "raw"
    raw_value: object


@wire_class
class ModelError(WireObject):
    """Something went wrong; more parts may follow. Not an exception: `error` may be one, or any value."""

    type: ClassVar[Literal["error"]] = "error"
    error: object


@wire_class
class ModelPing(WireObject):
    """Keeps the connection alive."""

    type: ClassVar[Literal["ping"]] = "ping"


@wire_class
class ModelText(WireObject):
    """A whole text, in an answer in one piece."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    provider_metadata: ProviderMetadata | None = None


@wire_class
class ModelReasoning(WireObject):
    """A whole reasoning text, in an answer in one piece."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str
    provider_metadata: ProviderMetadata | None = None


ModelStreamPart: TypeAlias = (
    ModelStreamStart
    | ModelResponseMetadata
    | ModelTextStart
    | ModelTextDelta
    | ModelTextEnd
    | ModelReasoningStart
    | ModelReasoningDelta
    | ModelReasoningEnd
    | ModelToolInputStart
    | ModelToolInputDelta
    | ModelToolInputEnd
    | ModelToolCall
    | ModelToolResult
    | ModelToolApprovalRequest
    | ModelFile
    | ModelReasoningFile
    | ModelCustom
    | ModelSource
    | ModelFinish
    | ModelRaw
    | ModelError
    | ModelPing
)
"""One part of a model's stream."""

ModelContent: TypeAlias = (
    ModelText
    | ModelReasoning
    | ModelFile
    | ModelReasoningFile
    | ModelCustom
    | ModelSource
    | ModelToolCall
    | ModelToolResult
    | ModelToolApprovalRequest
)
"""One piece of an answer in one piece."""

_STREAM_PARTS: Final[dict[str, type[WireObject]]] = {part.type: part for part in ModelStreamPart.__args__}
_KNOWN: Final = frozenset(_STREAM_PARTS.values())
_NULL_IS_A_VALUE: Final = frozenset({"result", "rawValue", "error"})


def parse_stream_part(part: object) -> ModelStreamPart:
    """Read one part of a model's stream.

    Args:
        part: a part object, which is returned as it is, or a part in wire form. A `null` of an optional field counts as
            absent.

    Returns:
        The part; keys that nobody knows are in its `extra`.

    Raises:
        UnknownStreamPartError: it is no part, or of a type that nobody knows.
        InvalidStreamPartError: a field is missing or of the wrong kind.
    """
    if type(part) in _KNOWN:
        return cast("ModelStreamPart", part)
    wire: Mapping[str, Any] = cast("Mapping[str, Any]", part) if isinstance(part, Mapping) else {}
    wire_type: object = wire.get("type")
    cls = _STREAM_PARTS.get(wire_type) if isinstance(wire_type, str) else None
    if cls is None:
        raise UnknownStreamPartError(cast("object", part))
    if any(value is None for value in wire.values()):
        wire = {key: value for key, value in wire.items() if value is not None or key in _NULL_IS_A_VALUE}
    read = codec_of(cls).read
    return cast("ModelStreamPart", read(cast("dict[str, Any]", wire), _fail, cast("object", part), ""))


def stream_part_to_wire(part: ModelStreamPart | ModelContent) -> dict[str, object]:
    """Return the wire form of a part; absent fields are absent."""
    return write_wire(part)


def _fail(root: object, field: str, value: object, problem: str) -> InvalidStreamPartError:
    return InvalidStreamPartError(part=root, field=field, value=value, problem=problem)
