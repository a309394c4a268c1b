"""`stream_text`: ask a model, run the tools that it calls, and stream everything that happens."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Unpack, cast

from chatagent.current import current_new_id, current_run
from chatagent.errors import InvalidArgumentError
from chatagent.errors.spelling import nearest
from chatagent.generate.events import Callbacks
from chatagent.generate.loop import Call
from chatagent.generate.output import output_of
from chatagent.generate.result import StreamTextResult
from chatagent.generate.retry import check_max_retries
from chatagent.generate.settings import NO_TIMEOUTS, Plan, StepSettings, Timeouts, check_whole, tool_choice_of
from chatagent.generate.stop import check_stop_when, is_step_count
from chatagent.generate.toolset import tools_by_name
from chatagent.ids import random_id
from chatagent.model import CallSettings, ToolChoice
from chatagent.providers.resolve import resolve_model
from chatagent.signals import AbortSignal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.generate.approval import ToolApproval
    from chatagent.generate.settings import PrepareStep, Transform
    from chatagent.generate.stop import StopWhen
    from chatagent.generate.tool_calls import RefineToolInput, RepairToolCall
    from chatagent.generate.tool_schema import SchemaSource
    from chatagent.generate.toolset import Tools
    from chatagent.ids import IdGenerator
    from chatagent.model import LanguageModel, ModelMessage, ProviderOptions
    from chatagent.model.standardize import Download, Instructions

__all__ = ["CallbacksAndSettings", "stream_text"]


class CallbacksAndSettings(Callbacks, CallSettings, total=False):
    """The callbacks of a call, and the settings of its model calls."""


def stream_text(
    *,
    model: LanguageModel | str,
    instructions: Instructions | None = None,
    prompt: str | Sequence[ModelMessage | Mapping[str, object]] | None = None,
    messages: Sequence[ModelMessage | Mapping[str, object]] | None = None,
    tools: Tools | None = None,
    tool_choice: ToolChoice | str | Mapping[str, object] = "auto",
    stop_when: StopWhen | None = None,
    active_tools: Sequence[str] | None = None,
    tool_order: Sequence[str] | None = None,
    tool_call_concurrency: int | None = None,
    tool_approval: ToolApproval | None = None,
    tool_approval_secret: str | bytes | None = None,
    prepare_step: PrepareStep | None = None,
    repair_tool_call: RepairToolCall | None = None,
    refine_tool_input: RefineToolInput | None = None,
    abort_signal: AbortSignal | None = None,
    timeout: float | Timeouts | None = None,
    max_retries: int = 2,
    stream_retries: int | None = None,
    headers: Mapping[str, str] | None = None,
    provider_options: ProviderOptions | None = None,
    output: SchemaSource | None = None,
    include_raw_chunks: bool = False,
    transforms: Sequence[Transform] = (),
    runtime_context: Mapping[str, object] | None = None,
    tools_context: Mapping[str, object] | None = None,
    allow_system_in_messages: bool = False,
    download: Download | None = None,
    generate_id: IdGenerator | None = None,
    **callbacks_and_settings: Unpack[CallbacksAndSettings],
) -> StreamTextResult:
    """Ask a model, run the tools that it calls, ask again with their results, and stream all of it.

    Returns at once; the model is asked when somebody reads the result. What goes wrong later comes as `error` parts, or
    is raised by those who read and await; see `StreamTextResult`.

    Args:
        model: the model to ask: an object, or a name such as `"openai:gpt-5.2"` or `"anthropic:claude-opus-4-8"`.
        instructions: what the model is told first: a text, or system messages.
        prompt: a text, which becomes one user message, or messages. Exclusive with `messages`.
        messages: the conversation, oldest first, as objects or in wire form.
        tools: what the model may call, by name or in a list; plain functions become tools.
        tool_choice: `"auto"`, `"none"`, `"required"`, or `ToolChoice("tool", NAME)`; a model that does not keep to it
            ends the step with an error.
        stop_when: when to stop although another step could run; by default after one step.
        active_tools: the names of the tools that the model may call; all by default.
        tool_order: the names of the tools that the model is shown first.
        tool_call_concurrency: how many tools of a step may run at the same time; all by default.
        tool_approval: who must approve a call; see `ToolApproval`.
        tool_approval_secret: signs approval requests, and makes approved calls without a valid signature an error.
        prepare_step: called before each step; may change what it is asked with.
        repair_tool_call: may correct a call that names no tool, or whose input does not fit.
        refine_tool_input: by tool name, changes the input of a call before it runs.
        abort_signal: ends the call; the stream then ends with an `abort` part.
        timeout: limits in seconds; a number limits the whole call.
        max_retries: how often a model call that failed in a retryable way is made again.
        stream_retries: how often a step is tried again whose stream sent an `error` part; not at all by default.
        headers: added to the requests to the provider.
        provider_options: what only one provider understands.
        output: the shape of the answer, as for `input_schema` of a tool; `result.output` is the checked value.
        include_raw_chunks: pass on what the provider sent, as `raw` parts.
        transforms: functions that turn one part of the full stream into the parts that take its place.
        runtime_context: passed to callbacks, `prepare_step` and policies.
        tools_context: by tool name, passed to the tool as `options.context`.
        allow_system_in_messages: whether system messages may stand among `messages`. In a turn of a chat agent they
            always may, since what a client sent has been checked by then.
        download: fetches the URLs that the model does not read itself; without it such a URL is an error.
        generate_id: makes ids of approvals, responses and repeated blocks; those of the current run by default.
        **callbacks_and_settings: the callbacks of `Callbacks` and the settings of `CallSettings`. What a callback
            raises is logged and changes nothing; without `on_error`, errors are logged (logger `chatagent`).

    Raises:
        InvalidArgumentError: an argument is out of its range.
        ToolDefinitionError: a function cannot be made a tool.
        ModelNameError: a model's name that says no provider, or none that is known.
        MissingExtraError: the provider's SDK is not installed; the text says how to install it.
    """
    model = _model_of(model)
    _check_conversation("prompt", prompt)
    _check_conversation("messages", messages)
    if stop_when is not None:
        check_stop_when(stop_when)
    check_max_retries(max_retries)
    check_whole("tool_call_concurrency", tool_call_concurrency, least=1)
    callbacks, settings = _taken_apart(callbacks_and_settings)
    _check_abort_signal(abort_signal)
    run = current_run.get()
    shape = output_of(output)
    plan = Plan(
        step=StepSettings(
            model=model,
            tool_choice=tool_choice_of(tool_choice),
            active_tools=active_tools,
            tool_order=tool_order,
            provider_options=provider_options,
            settings=settings,
        ),
        prompt=prompt,
        messages=messages,
        instructions=instructions,
        allow_system_in_messages=allow_system_in_messages or (run is not None and run.in_turn),
        tools=tools_by_name(tools),
        stop_when=is_step_count(1) if stop_when is None else stop_when,
        tool_call_concurrency=tool_call_concurrency,
        tool_approval=tool_approval,
        tool_approval_secret=tool_approval_secret,
        prepare_step=prepare_step,
        repair_tool_call=repair_tool_call,
        refine_tool_input=refine_tool_input,
        abort_signal=abort_signal,
        timeout=_timeouts(timeout),
        max_retries=max_retries,
        stream_retries=stream_retries or 0,
        headers=headers,
        response_format=None if shape is None else shape.response_format,
        include_raw_chunks=include_raw_chunks,
        transforms=tuple(transforms),
        runtime_context=runtime_context or {},
        tools_context=tools_context or {},
        download=download,
        generate_id=generate_id or current_new_id(),
        generate_response_id=generate_id or random_id,
        callbacks=callbacks,
    )
    return StreamTextResult(Call(plan), shape)


def _model_of(model: LanguageModel | str) -> LanguageModel:
    model = resolve_model(model)
    if not hasattr(model, "do_stream"):
        problem = 'a model object, such as OpenAIChatModel("…"), or its name, such as "openai:…"'
        raise InvalidArgumentError(argument="model", value=model, problem=problem)
    return model


def _taken_apart(given: CallbacksAndSettings) -> tuple[Callbacks, CallSettings]:
    """Return the callbacks and the settings that were given, without those that are `None`."""
    unknown = given.keys() - CallSettings.__optional_keys__ - Callbacks.__optional_keys__
    if unknown:
        raise TypeError(f"stream_text() got unexpected keyword arguments: {_with_meant(unknown)}")
    of_use = {key: value for key, value in given.items() if value is not None}
    settings = {key: of_use.pop(key) for key in tuple(of_use) if key in CallSettings.__optional_keys__}
    return cast("Callbacks", of_use), cast("CallSettings", settings)


def _check_abort_signal(abort_signal: object) -> None:
    if abort_signal is not None and not isinstance(abort_signal, AbortSignal):
        problem = "an AbortSignal; of a controller pass its `.signal`"
        raise InvalidArgumentError(argument="abort_signal", value=abort_signal, problem=problem)


def _check_conversation(argument: str, value: object) -> None:
    """Refuse what is neither a text nor a list of messages; the messages are checked when the model is asked."""
    if value is not None and (not isinstance(value, Iterable) or isinstance(value, Mapping | bytes)):
        problem = "give a list of messages, or as `prompt` a text"
        raise InvalidArgumentError(argument=argument, value=cast("object", value), problem=problem)


def _with_meant(unknown: Iterable[str]) -> str:
    """Name arguments that there are not, each with the one that it looks like."""
    known = [*inspect.signature(stream_text).parameters, *CallSettings.__optional_keys__, *Callbacks.__optional_keys__]
    near = {name: nearest(name, known) for name in sorted(unknown)}
    return ", ".join(f"{name} (did you mean {meant}?)" if meant else name for name, meant in near.items())


def _timeouts(timeout: float | Timeouts | None) -> Timeouts:
    if timeout is None:
        return NO_TIMEOUTS
    if isinstance(timeout, Timeouts):
        return timeout
    if not isinstance(timeout, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        problem = "seconds for the whole call, or `Timeouts(chunk=20)` for limits on parts of it"
        raise InvalidArgumentError(argument="timeout", value=timeout, problem=problem)
    return Timeouts(total=timeout)
