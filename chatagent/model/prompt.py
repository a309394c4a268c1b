"""The messages that a language model is asked with: their classes, nothing else.

Users pass them to `stream_text`, a model gets them as its prompt. They are values: nobody can change one, so a message
may stand in many prompts, and may be known again by its identity. Their wire form is read and written in
`chatagent.model.codec`, what turns messages into a prompt is in `chatagent.model.standardize`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from chatagent.ui.slots import UNSET

if TYPE_CHECKING:
    from chatagent.model.files import BareData, FileData

__all__ = [
    "AssistantContentPart",
    "AssistantMessage",
    "CustomPart",
    "FilePart",
    "ImagePart",
    "ModelMessage",
    "Prompt",
    "ProviderOptions",
    "ReasoningFilePart",
    "ReasoningPart",
    "SystemMessage",
    "TextPart",
    "ToolApprovalRequestPart",
    "ToolApprovalResponsePart",
    "ToolCallPart",
    "ToolContentPart",
    "ToolMessage",
    "ToolResultOutput",
    "ToolResultOutputType",
    "ToolResultPart",
    "UserContentPart",
    "UserMessage",
]

ProviderOptions = Mapping[str, Mapping[str, object]]
"""What only one provider understands: provider name -> key -> JSON value."""

Extra = Mapping[str, object]
"""Wire keys that this release does not know, kept as they came."""


def _memo() -> object:
    """Return the field in which `chatagent.model.standardize` keeps what it made of a message."""
    return field(default=None, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    _: KW_ONLY
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image of the user; a model gets it as a file."""

    type: ClassVar[Literal["image"]] = "image"
    image: BareData | FileData
    _: KW_ONLY
    media_type: str | None = None
    """What the first bytes tell wins over this."""
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file."""

    type: ClassVar[Literal["file"]] = "file"
    data: BareData | FileData
    media_type: str
    _: KW_ONLY
    filename: str | None = None
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """What the model thought before it spoke."""

    type: ClassVar[Literal["reasoning"]] = "reasoning"
    text: str
    _: KW_ONLY
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None


@dataclass(frozen=True, slots=True)
class ReasoningFilePart:
    """A file that the model made while it thought."""

    type: ClassVar[Literal["reasoning-file"]] = "reasoning-file"
    data: BareData | FileData
    media_type: str
    _: KW_ONLY
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None


@dataclass(frozen=True, slots=True)
class CustomPart:
    """Content of a kind that only one provider has."""

    type: ClassVar[Literal["custom"]] = "custom"
    kind: str
    """Of the form `provider.name`."""
    _: KW_ONLY
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A call of a tool by the model."""

    type: ClassVar[Literal["tool-call"]] = "tool-call"
    tool_call_id: str
    tool_name: str
    input: object = UNSET
    """The parsed input; `UNSET` if the call never had one."""
    _: KW_ONLY
    provider_executed: bool | None = None
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None


ToolResultOutputType = Literal["text", "json", "error-text", "error-json", "execution-denied", "content"]


@dataclass(frozen=True, slots=True)
class ToolResultOutput:
    """The outcome of a tool call, as the model is told it (rule 2.3)."""

    type: ToolResultOutputType
    value: object = UNSET
    """`text`, `error-text`: a string. `json`, `error-json`: any JSON value. `content`: a list of items, each a mapping
    with a `type`. `execution-denied`: `UNSET`."""
    _: KW_ONLY
    reason: str | None = None
    """Why the execution was denied."""
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """The answer to a tool call."""

    type: ClassVar[Literal["tool-result"]] = "tool-result"
    tool_call_id: str
    tool_name: str
    output: ToolResultOutput
    _: KW_ONLY
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None


@dataclass(frozen=True, slots=True)
class ToolApprovalRequestPart:
    """A tool call that waits for somebody's approval; a model never sees this part."""

    type: ClassVar[Literal["tool-approval-request"]] = "tool-approval-request"
    approval_id: str
    tool_call_id: str
    _: KW_ONLY
    is_automatic: bool | None = None
    reason: str | None = None
    signature: str | None = None
    input_schema_input: object = UNSET
    """The input before the tool's schema changed it; `UNSET` if the schema changed nothing."""
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None


@dataclass(frozen=True, slots=True)
class ToolApprovalResponsePart:
    """The answer to an approval request; a model sees those for tools that its provider runs."""

    type: ClassVar[Literal["tool-approval-response"]] = "tool-approval-response"
    approval_id: str
    approved: bool
    _: KW_ONLY
    reason: str | None = None
    provider_executed: bool | None = None
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None


UserContentPart = TextPart | ImagePart | FilePart
AssistantContentPart = (
    TextPart
    | FilePart
    | ReasoningPart
    | ReasoningFilePart
    | CustomPart
    | ToolCallPart
    | ToolResultPart
    | ToolApprovalRequestPart
)
ToolContentPart = ToolResultPart | ToolApprovalResponsePart


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Instructions for the model."""

    role: ClassVar[Literal["system"]] = "system"
    content: str
    _: KW_ONLY
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None
    memo: object = _memo()
    beginning: object = _memo()


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user says: a text, or parts (kept as a tuple)."""

    role: ClassVar[Literal["user"]] = "user"
    content: str | Sequence[UserContentPart]
    _: KW_ONLY
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None
    memo: object = _memo()
    beginning: object = _memo()

    def __post_init__(self) -> None:
        _freeze_content(self, self.content)


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model said: a text, or parts (kept as a tuple)."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    content: str | Sequence[AssistantContentPart]
    _: KW_ONLY
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None
    memo: object = _memo()
    beginning: object = _memo()

    def __post_init__(self) -> None:
        _freeze_content(self, self.content)


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """What tools answered, and what was approved (kept as a tuple)."""

    role: ClassVar[Literal["tool"]] = "tool"
    content: Sequence[ToolContentPart]
    _: KW_ONLY
    provider_options: ProviderOptions | None = None
    extra: Extra | None = None
    memo: object = _memo()
    beginning: object = _memo()

    def __post_init__(self) -> None:
        _freeze_content(self, self.content)


ModelMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage
"""One message of a prompt."""

Prompt = Sequence[ModelMessage]
"""What a language model is asked with, oldest message first."""


def _freeze_content(message: object, content: object) -> None:
    """Keep a list of parts as a tuple, so that a message that was read once cannot change afterwards."""
    if not isinstance(content, (str, tuple)):
        object.__setattr__(message, "content", tuple(content))  # type: ignore[arg-type] - annotated as a sequence
