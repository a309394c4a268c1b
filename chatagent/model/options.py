"""What a model call is asked with besides its prompt: tools, tool choice, settings.

The names and the wire form are those of the model protocol (rules 3.1 to 3.3). Nothing here knows how a tool runs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar, Literal, TypedDict

from chatagent.model.codec import prompt_to_wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from chatagent.model.prompt import Prompt, ProviderOptions
    from chatagent.signals import AbortSignal

__all__ = [
    "CallOptions",
    "CallSettings",
    "FunctionTool",
    "JsonResponseFormat",
    "ModelTool",
    "ProviderTool",
    "ReasoningEffort",
    "ResponseFormat",
    "TextResponseFormat",
    "ToolChoice",
]

ReasoningEffort = Literal["provider-default", "none", "minimal", "low", "medium", "high", "xhigh", "max"]


class CallSettings(TypedDict, total=False):
    """Settings of a model call; one that is not given is left to the provider."""

    max_output_tokens: int
    temperature: float
    top_p: float
    top_k: int
    presence_penalty: float
    frequency_penalty: float
    stop_sequences: Sequence[str]
    seed: int
    reasoning: ReasoningEffort


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTool:
    """A tool as the model sees it: a name and the JSON schema of its input."""

    type: ClassVar[Literal["function"]] = "function"
    name: str
    input_schema: Mapping[str, object]
    description: str | None = None
    input_examples: Sequence[Mapping[str, object]] | None = None
    """Each has the key `input`."""
    provider_options: ProviderOptions | None = None
    strict: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderTool:
    """A tool that the provider defines."""

    type: ClassVar[Literal["provider"]] = "provider"
    id: str
    """Of the form `vendor.name`."""
    name: str
    args: Mapping[str, object]


ModelTool = FunctionTool | ProviderTool
"""A tool as the model sees it."""


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether the model may, must, or must not call a tool."""

    type: Literal["auto", "none", "required", "tool"] = "auto"
    tool_name: str | None = None
    """The tool that must be called; only with type `tool`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextResponseFormat:
    """The answer is free text."""

    type: ClassVar[Literal["text"]] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonResponseFormat:
    """The answer is JSON."""

    type: ClassVar[Literal["json"]] = "json"
    schema: Mapping[str, object] | None = None
    name: str | None = None
    description: str | None = None


ResponseFormat = TextResponseFormat | JsonResponseFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """Everything that one model call is asked with. A value: a record of calls keeps it as it is."""

    prompt: Prompt
    tools: Sequence[ModelTool] | None = None
    """In definition order; `None` if there is none."""
    tool_choice: ToolChoice = ToolChoice()
    abort_signal: AbortSignal | None = None
    include_raw_chunks: bool = False
    headers: Mapping[str, str] | None = None
    provider_options: ProviderOptions | None = None
    response_format: ResponseFormat | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop_sequences: Sequence[str] | None = None
    seed: int | None = None
    reasoning: ReasoningEffort | None = None

    def to_wire(self) -> dict[str, object]:
        """Return the wire form, for records and comparisons; what is not given is absent, and so is the signal."""
        wire: dict[str, object] = {key: getattr(self, name) for name, key in _SETTINGS.items()}
        if self.response_format is not None:
            wire["responseFormat"] = _to_wire(self.response_format)
        if self.tools:
            wire["tools"] = [_to_wire(tool) for tool in self.tools]
        wire["toolChoice"] = _to_wire(self.tool_choice)
        wire["prompt"] = prompt_to_wire(self.prompt)
        wire["providerOptions"], wire["headers"] = self.provider_options, self.headers
        wire["includeRawChunks"] = self.include_raw_chunks
        return {key: value for key, value in wire.items() if value is not None}


_SETTINGS = {
    "max_output_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "stop_sequences": "stopSequences",
    "seed": "seed",
    "reasoning": "reasoning",
}
_KEYS = {
    "input_schema": "inputSchema",
    "input_examples": "inputExamples",
    "provider_options": "providerOptions",
    "tool_name": "toolName",
}


def _to_wire(value: ModelTool | ToolChoice | ResponseFormat) -> dict[str, object]:
    wire: dict[str, object] = {"type": value.type}
    for each in fields(value):
        item = getattr(value, each.name)
        if item is not None:
            wire[_KEYS.get(each.name, each.name)] = item
    return wire
