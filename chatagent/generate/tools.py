"""Tools: what a model may call, and the ways to define one.

`@tool` makes one of a function, `tool(…)` of what is given, `provider_tool(…)` names one that the provider runs. How
and when a tool runs is the step loop's business.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast, overload

from chatagent.errors import ToolDefinitionError
from chatagent.errors.spelling import did_you_mean
from chatagent.generate.suspension import Suspend, ask
from chatagent.generate.tool_schema import InputSchema, SchemaSource, function_schema, input_schema_of

if TYPE_CHECKING:
    from chatagent.model import ModelMessage, ProviderOptions
    from chatagent.model.tool_output import ToModelOutput
    from chatagent.signals import AbortSignal
    from chatagent.ui import JSONObject, ValueSchema

__all__ = [
    "Execute",
    "InputAvailable",
    "InputDelta",
    "NeedsApproval",
    "Tool",
    "ToolCallOptions",
    "ToolOptions",
    "provider_tool",
    "tool",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallOptions:
    """What a tool is told besides its input."""

    tool_call_id: str
    messages: Sequence[ModelMessage]
    """The messages that the model was asked with in this step, without the instructions."""
    abort_signal: AbortSignal
    """Aborted when the call is, when the tool's own time is up, and when nobody reads the stream any more."""
    context: object = None
    """The tool's entry in `tools_context`."""
    suspends: Mapping[str, Suspend] = field(default_factory=dict[str, Suspend])
    """The questions that the tool has declared."""

    async def suspend(self, name: str, shown: object = None) -> Any:
        """Ask the client something, and return the answer.

        The first time it does not return: the tool's run ends there, and the call waits. With the answer the tool runs
        again from its beginning, so what it does before it asks is done twice. Await it in the tool's own task.

        Args:
            name: the question, one of the tool's `suspends`.
            shown: what the client is shown, as the question declares it.

        Returns:
            The answer, parsed as the question declares it.

        Raises:
            InvalidArgumentError: no such question was declared, or a value does not fit.
            ChatContextError: there is no run whose client could answer.
        """
        return ask(self.suspends, self.tool_call_id, name, shown)


@dataclass(frozen=True, slots=True)
class InputDelta:
    """What `on_input_delta` of a tool is called with."""

    tool_call_id: str
    input_text_delta: str
    options: ToolCallOptions


@dataclass(frozen=True, slots=True)
class InputAvailable:
    """What `on_input_available` of a tool is called with."""

    tool_call_id: str
    input: object
    """The checked input."""
    options: ToolCallOptions


Execute = Callable[..., object]
"""Runs a tool: `(input)` or `(input, options)`, sync, async, or a generator of preliminary results."""

NeedsApproval = bool | Callable[[Any, ToolCallOptions], bool | Awaitable[bool]]
"""Whether somebody must approve a call; a function gets the checked input and the options."""


class ToolOptions(TypedDict, total=False):
    """What may be said about a tool besides its name, its input and its function."""

    description: str | Callable[[object], str]
    output_schema: SchemaSource
    needs_approval: NeedsApproval
    suspends: Mapping[str, Suspend]
    """The questions that `options.suspend` may ask, by name."""
    data_channels: Mapping[str, ValueSchema | None]
    """The channels of data that clients may write beside its calls; without it any."""
    to_model_output: ToModelOutput
    title: str
    metadata: JSONObject
    strict: bool
    input_examples: Sequence[Mapping[str, object]]
    provider_options: ProviderOptions
    dynamic: bool
    on_input_start: Callable[[ToolCallOptions], object]
    on_input_delta: Callable[[InputDelta], object]
    on_input_available: Callable[[InputAvailable], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something that a model may call. Made by `tool` and `provider_tool`; a value, which many calls may share."""

    name: str | None
    """Its own name; where tools are given as a mapping, the key counts."""
    input: InputSchema
    description: str | Callable[[object], str] | None = None
    """For the model; a function gets the tool's context."""
    run: Callable[[Any, ToolCallOptions], object] | None = None
    """Calls the tool's function with checked input; `None` for a tool that the client answers."""
    output: InputSchema | None = None
    needs_approval: NeedsApproval = False
    suspends: Mapping[str, Suspend] = field(default_factory=dict[str, Suspend])
    """The questions that it may ask while it runs, by name."""
    data_channels: Mapping[str, ValueSchema | None] | None = None
    """The channels of data beside its calls; `None` lets any name go."""
    to_model_output: ToModelOutput | None = None
    title: str | None = None
    metadata: JSONObject | None = None
    """Passed along to the UI with every call."""
    strict: bool | None = None
    input_examples: Sequence[Mapping[str, object]] | None = None
    provider_options: ProviderOptions | None = None
    on_input_start: Callable[[ToolCallOptions], object] | None = None
    on_input_delta: Callable[[InputDelta], object] | None = None
    on_input_available: Callable[[InputAvailable], object] | None = None
    kind: Literal["function", "dynamic", "provider"] = "function"
    provider_id: str | None = None
    """`vendor.name`, for a tool that the provider runs."""
    args: Mapping[str, object] | None = None
    supports_deferred_results: bool = False
    function: Callable[..., object] | None = None
    """What the tool was made of."""

    @property
    def input_schema(self) -> JSONObject:
        """The JSON schema of the input, as the model is shown it."""
        return self.input.json_schema

    @property
    def output_schema(self) -> JSONObject | None:
        """The JSON schema of the output, if one was given."""
        return None if self.output is None else self.output.json_schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function that the tool was made of, as it was written."""
        if self.function is None:
            raise TypeError(f"tool {self.name!r} has no function of its own")
        return self.function(*args, **kwargs)

    def describe(self, context: object) -> str | None:
        """Return the description for a model, given the tool's context."""
        return self.description(context) if callable(self.description) else self.description


@overload
def tool(function: Callable[..., object], /) -> Tool: ...


@overload
def tool(
    *,
    execute: Execute,
    name: str | None = None,
    input_schema: SchemaSource | None = None,
    **options: Unpack[ToolOptions],
) -> Tool: ...


@overload
def tool(
    *,
    input_schema: SchemaSource,
    name: str | None = None,
    execute: Execute | None = None,
    **options: Unpack[ToolOptions],
) -> Tool: ...


@overload
def tool(*, name: str | None = None, **options: Unpack[ToolOptions]) -> Callable[[Callable[..., object]], Tool]: ...


def tool(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    execute: Execute | None = None,
    input_schema: SchemaSource | None = None,
    **options: Unpack[ToolOptions],
) -> Tool | Callable[[Callable[..., object]], Tool]:
    """Define a tool.

    As a decorator (`@tool`, or `@tool(title="…")`) the name, the description and the schema come from the function: its
    parameters are the fields of the input, checked by pydantic, their texts come from the docstring's `Args:`. A
    parameter annotated `ToolCallOptions` gets the options of the call. A sync function runs in the event loop, so it
    must not block.

    Args:
        function: the function to make a tool of.
        name: the name under which the model calls it; by default the function's. Where tools are given as a mapping,
            the key counts.
        execute: runs the tool, called with the checked input and, if it takes a second parameter, the options. An async
            generator's values are preliminary results, the last of them is the result. What it returns must be JSON, or
            something that pydantic can turn into JSON. Without it the client answers the call.
        input_schema: a pydantic model or another class that pydantic can check, a `TypeAdapter`, or a JSON schema as a
            dict (of which `type`, `required`, `properties`, `items` and `enum` are checked). Without it, `execute`
            tells the schema by its signature, as with `@tool`.
        **options: see `ToolOptions`.

    Returns:
        The tool; or a decorator that makes one, if neither a function nor a schema was given.

    Raises:
        ToolDefinitionError: an option that there is not, a name that no model could call, or no schema can be made; the
            message names the option or the parameter.
    """
    _check_options(options)
    if name is not None:
        _check_name(name)
    if function is not None:
        return _of_function(function, name, options)
    if input_schema is not None:
        return _of_schema(input_schema, execute, name, options)
    if execute is not None:
        return _of_function(execute, name, options)

    def decorate(decorated: Callable[..., object]) -> Tool:
        return _of_function(decorated, name, options)

    return decorate


def provider_tool(
    *,
    id: str,
    name: str,
    args: Mapping[str, object] | None = None,
    input_schema: SchemaSource | None = None,
    supports_deferred_results: bool = False,
    execute: Execute | None = None,
    **options: Unpack[ToolOptions],
) -> Tool:
    """Name a tool that the provider defines.

    Args:
        id: the provider's name for it, `vendor.name`.
        name: the name under which the model calls it.
        args: its configuration.
        input_schema: how its input is checked, as for `tool`; by default any object is good.
        supports_deferred_results: its result may come in a later step.
        execute: runs it here, if the provider leaves that to the caller.
        **options: see `ToolOptions`.
    """
    _check_name(name)
    made = _of_schema(input_schema or {"type": "object"}, execute, name, options)
    return replace(
        made,
        kind="provider",
        provider_id=id,
        args=dict(args or {}),
        supports_deferred_results=supports_deferred_results,
    )


def _of_function(function: Callable[..., object], name: str | None, options: ToolOptions) -> Tool:
    name = name or str(getattr(function, "__name__", ""))
    _check_name(name)
    told = function_schema(function, ToolCallOptions, tool_name=name)
    made = _built(name, told.input, options)
    return replace(
        made,
        run=told.call,
        function=function,
        description=told.description if made.description is None else made.description,
    )


def _of_schema(source: SchemaSource, execute: Execute | None, name: str | None, options: ToolOptions) -> Tool:
    made = _built(name, input_schema_of(source, tool_name=name or "?"), options)
    return made if execute is None else replace(made, run=_runner(execute), function=execute)


def _built(name: str | None, schema: InputSchema, options: ToolOptions) -> Tool:
    values = cast("dict[str, Any]", dict(options))
    output = values.pop("output_schema", None)
    kind: Literal["function", "dynamic"] = "dynamic" if values.pop("dynamic", False) else "function"
    if values.get("suspends") and values.get("needs_approval"):
        msg = f"tool {name!r} needs approval, so it asks no questions of its own; declare the approval as one of them"
        raise ToolDefinitionError(msg)
    return Tool(
        name=name,
        input=schema,
        output=None if output is None else input_schema_of(output, tool_name=name or "?", must_be_object=False),
        kind=kind,
        **values,
    )


def _runner(execute: Execute) -> Callable[[Any, ToolCallOptions], object]:
    """Call `execute` with the options only if it takes them."""
    parameters = list(inspect.signature(execute).parameters.values())
    named = next((each for each in parameters if each.name == "options" and each.kind is each.KEYWORD_ONLY), None)
    if named is not None:
        return lambda value, options: execute(value, options=options)
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(positional) > 1 or any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return execute
    if not positional:
        return lambda _value, _options: execute()
    return lambda value, _options: execute(value)


def _check_options(options: Mapping[str, object]) -> None:
    known = [*ToolOptions.__annotations__, "name", "execute", "input_schema"]
    for name in options:
        if name not in ToolOptions.__annotations__:
            raise ToolDefinitionError(f"there is no option `{name}` of a tool{did_you_mean(name, known)}")


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        msg = f"a tool cannot be named {name!r}; give `name=` a word of letters, digits, `_` and `-`"
        raise ToolDefinitionError(msg)
