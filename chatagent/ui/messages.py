"""UI messages and their parts: what a conversation's history is made of.

Frozen values that are shared freely; a changed message is a new one (`model_copy(update=…)`). Unknown fields and parts
of unknown types are kept as they came. Which fields a tool part has in which state is not checked here: history must
stay readable, and the strict check is `validate_ui_messages`. Follows rules 11.1 to 11.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, cast, get_args

from pydantic import Discriminator, GetCoreSchemaHandler, StrictBool, Tag

from chatagent.ui.wire import JSONObject, ProviderMetadata, WireModel

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

__all__ = [
    "CustomUIPart",
    "DataUIPart",
    "DynamicToolUIPart",
    "FileUIPart",
    "ReasoningFileUIPart",
    "ReasoningUIPart",
    "Role",
    "SourceDocumentUIPart",
    "SourceUrlUIPart",
    "SteeringMessageUIPart",
    "StepStartUIPart",
    "TextUIPart",
    "ToolApproval",
    "ToolPart",
    "ToolState",
    "ToolUIPart",
    "UIMessage",
    "UIPart",
    "UnknownUIPart",
]

Role: TypeAlias = Literal["system", "user", "assistant"]

BlockState: TypeAlias = Literal["streaming", "done"]
"""Whether more deltas may come."""

ToolState: TypeAlias = Literal[
    "input-streaming",
    "input-available",
    "approval-requested",
    "approval-responded",
    "output-available",
    "output-error",
    "output-denied",
    "partial-call",
]
"""How far a tool call has come; `partial-call` is the old word for `input-streaming`."""


class _AsTuple:
    """Marks a sequence field that is stored as a tuple: a list may be given, but keeps no hold on the message."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(tuple[get_args(source)[0], ...])


class _UIPart(WireModel):
    """Base of the parts: `type` counts as given even where it is the default, so that it is always dumped."""

    def model_post_init(self, context: Any, /) -> None:
        self.__pydantic_fields_set__.add("type")


class TextUIPart(_UIPart):
    """Text, for the user or from the model."""

    type: Literal["text"] = "text"
    text: str
    state: BlockState | None = None
    citations: Sequence[object] | None = None
    provider_metadata: ProviderMetadata | None = None


class ReasoningUIPart(_UIPart):
    """What the model thought aloud; `id` is the block's id in the stream."""

    type: Literal["reasoning"] = "reasoning"
    text: str
    id: str | None = None
    state: BlockState | None = None
    provider_metadata: ProviderMetadata | None = None


class FileUIPart(_UIPart):
    """A file, by its http or data URL."""

    type: Literal["file"] = "file"
    media_type: str
    url: str
    filename: str | None = None
    provider_reference: JSONObject | None = None
    provider_metadata: ProviderMetadata | None = None


class ReasoningFileUIPart(_UIPart):
    """A file that belongs to the model's reasoning."""

    type: Literal["reasoning-file"] = "reasoning-file"
    media_type: str
    url: str
    provider_metadata: ProviderMetadata | None = None


class SourceUrlUIPart(_UIPart):
    """A page that the model drew on."""

    type: Literal["source-url"] = "source-url"
    source_id: str
    url: str
    title: str | None = None
    provider_metadata: ProviderMetadata | None = None


class SourceDocumentUIPart(_UIPart):
    """A document that the model drew on."""

    type: Literal["source-document"] = "source-document"
    source_id: str
    media_type: str
    title: str
    filename: str | None = None
    provider_metadata: ProviderMetadata | None = None


class CustomUIPart(_UIPart):
    """Something of a provider's own; `kind` is `provider.name`."""

    type: Literal["custom"] = "custom"
    kind: str
    provider_metadata: ProviderMetadata | None = None


class StepStartUIPart(_UIPart):
    """Marks where a model call begins."""

    type: Literal["step-start"] = "step-start"


class DataUIPart(_UIPart):
    """Data of the application; the type is `data-NAME`."""

    type: str
    data: object
    id: str | None = None

    @property
    def name(self) -> str:
        """The type without `data-`."""
        return self.type.removeprefix("data-")


class ToolApproval(WireModel):
    """A question to the user whether a tool may run, with the answer once there is one."""

    id: str
    approved: StrictBool | None = None
    reason: str | None = None
    request_reason: str | None = None
    descriptor: object = None
    is_automatic: StrictBool | None = None
    signature: str | None = None
    input_schema_input: object = None


class ToolPart(_UIPart):
    """What the parts of static and dynamic tools share. Which fields are there depends on `state` (rule 11.3)."""

    tool_call_id: str
    state: ToolState
    title: str | None = None
    tool_metadata: JSONObject | None = None
    provider_executed: StrictBool | None = None
    input: object = None
    raw_input: object = None
    """The input's text so far, or what could not be parsed."""
    input_encoding: Literal["json", "text"] | None = None
    output: object = None
    preliminary: StrictBool | None = None
    error_text: str | None = None
    approval: ToolApproval | None = None
    call_provider_metadata: ProviderMetadata | None = None
    result_provider_metadata: ProviderMetadata | None = None


class ToolUIPart(ToolPart):
    """A call of a declared tool; the type is `tool-NAME`."""

    type: str

    @property
    def tool_name(self) -> str:
        """Everything after the first dash of the type."""
        return self.type.partition("-")[2]


class DynamicToolUIPart(ToolPart):
    """A call of a tool that was not declared; `dynamic: false` marks a declared one that is gone."""

    type: Literal["dynamic-tool"] = "dynamic-tool"
    tool_name: str
    dynamic: StrictBool | None = None


class UnknownUIPart(_UIPart):
    """A part of a type that this release does not know, kept as it came (`model_extra` has its fields)."""

    type: str


_SINGLE_TAGS: Final = frozenset(
    {
        "text",
        "reasoning",
        "file",
        "reasoning-file",
        "source-url",
        "source-document",
        "custom",
        "step-start",
        "steering-message",
        "dynamic-tool",
    }
)


def _type_of(value: object) -> object:
    return cast("dict[str, object]", value).get("type") if isinstance(value, dict) else getattr(value, "type", None)


def _part_tag(value: object) -> str | None:
    kind = _type_of(value)
    if not isinstance(kind, str):
        return None
    if kind in _SINGLE_TAGS:
        return kind
    if kind.startswith("tool-"):
        return "tool"
    return "data" if kind.startswith("data-") else "unknown"


def _steering_tag(value: object) -> str | None:
    kind = _type_of(value)
    if not isinstance(kind, str):
        return None
    return kind if kind in ("text", "file") else "unknown"


SteeringPart: TypeAlias = Annotated[
    Annotated[TextUIPart, Tag("text")] | Annotated[FileUIPart, Tag("file")] | Annotated[UnknownUIPart, Tag("unknown")],
    Discriminator(_steering_tag),
]


class SteeringMessageUIPart(_UIPart):
    """A user message that was put into the run while the model was at work."""

    type: Literal["steering-message"] = "steering-message"
    id: str
    parts: Annotated[Sequence[SteeringPart], _AsTuple()]


UIPart: TypeAlias = Annotated[
    Annotated[TextUIPart, Tag("text")]
    | Annotated[ReasoningUIPart, Tag("reasoning")]
    | Annotated[FileUIPart, Tag("file")]
    | Annotated[ReasoningFileUIPart, Tag("reasoning-file")]
    | Annotated[SourceUrlUIPart, Tag("source-url")]
    | Annotated[SourceDocumentUIPart, Tag("source-document")]
    | Annotated[CustomUIPart, Tag("custom")]
    | Annotated[StepStartUIPart, Tag("step-start")]
    | Annotated[SteeringMessageUIPart, Tag("steering-message")]
    | Annotated[DynamicToolUIPart, Tag("dynamic-tool")]
    | Annotated[ToolUIPart, Tag("tool")]
    | Annotated[DataUIPart, Tag("data")]
    | Annotated[UnknownUIPart, Tag("unknown")],
    Discriminator(_part_tag),
]
"""Any part of a message, told apart by `type`."""


class UIMessage(WireModel):
    """One message of a conversation.

    Args:
        id: unique within the conversation; `""` for one that never got an id.
        role: who speaks.
        parts: what is said, in order; a list or a tuple, stored as a tuple.
        metadata: what the application keeps beside the message; any JSON value.
    """

    id: str
    role: Role
    parts: Annotated[Sequence[UIPart], _AsTuple()]
    metadata: object = None

    @property
    def text(self) -> str:
        """The text parts joined, without separator."""
        return "".join(part.text for part in self.parts if isinstance(part, TextUIPart))

    @property
    def tool_parts(self) -> tuple[ToolUIPart | DynamicToolUIPart, ...]:
        """The tool calls with what came of them, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolUIPart | DynamicToolUIPart))
