"""What a call of `stream_text` is made with, as values: the plan of the call, and what `prepare_step` may change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from chatagent.errors import InvalidArgumentError
from chatagent.generate.parts import FullStreamPart
from chatagent.model import CallSettings, SystemMessage, ToolChoice
from chatagent.providers.resolve import resolve_model

if TYPE_CHECKING:
    from chatagent.generate.approval import ToolApproval
    from chatagent.generate.events import Callbacks
    from chatagent.generate.steps import StepResult
    from chatagent.generate.stop import StopWhen
    from chatagent.generate.tool_calls import RefineToolInput, RepairToolCall
    from chatagent.generate.tools import Tool
    from chatagent.ids import IdGenerator
    from chatagent.model import LanguageModel, ModelMessage, ProviderOptions, ResponseFormat
    from chatagent.model.standardize import Download, Instructions
    from chatagent.signals import AbortSignal

__all__ = [
    "NO_TIMEOUTS",
    "Plan",
    "PrepareStep",
    "PrepareStepEvent",
    "StepChanges",
    "StepSettings",
    "Timeouts",
    "Transform",
    "check_whole",
    "merge_provider_options",
    "tool_choice_of",
]

Transform: TypeAlias = Callable[[FullStreamPart], Iterable[FullStreamPart]]
"""Turns one part of the full stream into the parts that take its place; none drops it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Limits of a call, in seconds of the clock it runs on; `None` is no limit.

    All but the tools' abort the call, with a `TimeoutError` as the reason.
    """

    total: float | None = None
    step: float | None = None
    """From before `prepare_step` to the end of the step's last tool."""
    first_chunk: float | None = None
    """From the start of the model's stream to its first output."""
    chunk: float | None = None
    """Between two outputs of the model."""
    tool: float | None = None
    """For each run of a tool. It aborts that tool's signal only."""
    tools: Mapping[str, float] = field(default_factory=dict[str, float])
    """By tool name, in place of `tool`."""

    def __post_init__(self) -> None:
        stated = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "tools"}
        for name, seconds in {**stated, **self.tools}.items():
            if seconds is not None and not 0 < seconds < float("inf"):
                problem = "a limit is more than 0 seconds and finite; leave it out for none"
                raise InvalidArgumentError(argument=f"timeout.{name}", value=seconds, problem=problem)

    def of_tool(self, name: str) -> float | None:
        """Return the limit of a tool."""
        return self.tools.get(name, self.tool)


NO_TIMEOUTS = Timeouts()
"""What holds for a call without `timeout`."""


class StepChanges(CallSettings, total=False):
    """What `prepare_step` may return. Instructions, messages and contexts hold for later steps too, else nothing."""

    model: LanguageModel | str
    tool_choice: ToolChoice | str | Mapping[str, object]
    active_tools: Sequence[str]
    tool_order: Sequence[str]
    instructions: Instructions
    messages: Sequence[ModelMessage | Mapping[str, object]]
    provider_options: ProviderOptions
    runtime_context: Mapping[str, object]
    tools_context: Mapping[str, object]


def check_whole(argument: str, value: object, *, least: int | None = None) -> None:
    """Check that an argument is a whole number, if it is given.

    Raises:
        InvalidArgumentError: it is none, or less than `least`.
    """
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        problem = "it is a whole number" if least is None else f"it is a whole number, {least} or more"
        raise InvalidArgumentError(argument=argument, value=value, problem=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareStepEvent:
    """What `prepare_step` is called with."""

    model: LanguageModel
    steps: Sequence[StepResult]
    """The finished ones."""
    step_number: int
    instructions: Sequence[SystemMessage]
    initial_instructions: Sequence[SystemMessage]
    messages: Sequence[ModelMessage]
    """What the model would be asked with, without the instructions."""
    initial_messages: Sequence[ModelMessage]
    response_messages: Sequence[ModelMessage]
    """What the steps so far have added."""
    tools_context: Mapping[str, object]
    runtime_context: Mapping[str, object]


PrepareStep: TypeAlias = Callable[[PrepareStepEvent], StepChanges | Awaitable[StepChanges | None] | None]
"""Called before each step, the first included; `None` changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSettings:
    """What a step is asked with besides its messages."""

    model: LanguageModel
    tool_choice: ToolChoice
    active_tools: Sequence[str] | None = None
    tool_order: Sequence[str] | None = None
    provider_options: ProviderOptions | None = None
    settings: CallSettings = field(default_factory=CallSettings)

    def __post_init__(self) -> None:
        check_whole("max_output_tokens", self.settings.get("max_output_tokens"), least=1)
        check_whole("seed", self.settings.get("seed"))

    def changed(self, changes: StepChanges) -> StepSettings:
        """Return the settings of one step."""
        given = cast("dict[str, Any]", changes)
        values: dict[str, Any] = {
            key: given[key] for key in ("model", "active_tools", "tool_order") if given.get(key) is not None
        }
        if "model" in values:
            values["model"] = resolve_model(values["model"])
        if given.get("tool_choice") is not None:
            values["tool_choice"] = tool_choice_of(given["tool_choice"])
        if given.get("provider_options"):
            values["provider_options"] = merge_provider_options(self.provider_options, given["provider_options"])
        own = {key: given[key] for key in CallSettings.__optional_keys__ if given.get(key) is not None}
        if own:
            values["settings"] = {**self.settings, **own}
        return replace(self, **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that a call was made with."""

    step: StepSettings
    prompt: str | Sequence[ModelMessage | Mapping[str, object]] | None
    messages: Sequence[ModelMessage | Mapping[str, object]] | None
    instructions: Instructions | None
    allow_system_in_messages: bool
    tools: Mapping[str, Tool]
    stop_when: StopWhen
    tool_call_concurrency: int | None
    tool_approval: ToolApproval | None
    tool_approval_secret: str | bytes | None
    prepare_step: PrepareStep | None
    repair_tool_call: RepairToolCall | None
    refine_tool_input: RefineToolInput | None
    abort_signal: AbortSignal | None
    timeout: Timeouts
    max_retries: int
    stream_retries: int
    headers: Mapping[str, str] | None
    response_format: ResponseFormat | None
    include_raw_chunks: bool
    transforms: Sequence[Transform]
    runtime_context: Mapping[str, object]
    tools_context: Mapping[str, object]
    download: Download | None
    generate_id: IdGenerator
    generate_response_id: IdGenerator
    """Apart from the other ids, so that a run that counts its messages does not count responses among them."""
    callbacks: Callbacks


def tool_choice_of(value: ToolChoice | str | Mapping[str, object]) -> ToolChoice:
    """Return a tool choice in its one form.

    Raises:
        InvalidArgumentError: it is none of the four.
    """
    if isinstance(value, ToolChoice):
        return value
    source: Mapping[str, object] = {"type": value} if isinstance(value, str) else value
    name = source.get("toolName", source.get("tool_name"))
    match source.get("type"):
        case "auto" | "none" | "required":
            return ToolChoice(cast("Literal['auto', 'none', 'required']", source["type"]))
        case "tool" if isinstance(name, str):
            return ToolChoice("tool", name)
        case _:
            problem = 'it must be "auto", "none", "required" or ToolChoice("tool", NAME)'
            raise InvalidArgumentError(argument="tool_choice", value=value, problem=problem)


def merge_provider_options(base: ProviderOptions | None, over: ProviderOptions | None) -> ProviderOptions | None:
    """Return both, merged in depth; the second wins."""
    if not base or not over:
        return over or base
    return cast("ProviderOptions", _merged(base, over))


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        known = merged.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            merged[key] = _merged(cast("Mapping[str, Any]", known), cast("Mapping[str, Any]", value))
        else:
            merged[key] = value
    return merged
