"""One step: prepare it, ask the model, read its stream, run the tools, and put the result together.

Nothing here decides whether another step follows; that is the loop's business.
"""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import anyio

from chatagent.current import current_run, working_on
from chatagent.errors import NoOutputGeneratedError
from chatagent.generate.events import ModelCallStartEvent, StepStartEvent
from chatagent.generate.log import DeltaRun
from chatagent.generate.parts import (
    FullFile,
    FullFinishStep,
    FullReasoningDelta,
    FullReasoningFile,
    FullTextDelta,
    FullToolCall,
    FullToolInputDelta,
    StepPerformance,
)
from chatagent.generate.response import collect_content, response_messages
from chatagent.generate.retry import FACTOR, FIRST_DELAY, retry_delay, with_retries
from chatagent.generate.settings import PrepareStepEvent, StepSettings
from chatagent.generate.step_reader import StepReader, StreamRetryError
from chatagent.generate.steps import StepResponse, StepResult
from chatagent.generate.tool_calls import ToolCallParser
from chatagent.generate.toolset import active_only, model_tools
from chatagent.model import CallOptions, ModelMessage, ResponseInfo, StreamResult, SystemMessage, parse_model_messages
from chatagent.model.standardize import build_prompt, standardize_prompt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from chatagent.generate.log import LogEntry
    from chatagent.generate.loop import Call
    from chatagent.generate.tools import Tool
    from chatagent.model import Prompt

__all__ = ["Conversation", "FinishedStep", "StepFailedError", "run_step"]


class StepFailedError(Exception):
    """A step gave no result; for the loop alone.

    Args:
        error: what went wrong.
        has_begun: whether `on_step_start` had been called.
        is_empty_stream: the model was asked and said nothing.
    """

    def __init__(self, error: Exception, *, has_begun: bool, is_empty_stream: bool = False) -> None:
        super().__init__(str(error))
        self.error, self.has_begun, self.is_empty_stream = error, has_begun, is_empty_stream


@dataclass(slots=True)
class Conversation:
    """What carries over from step to step."""

    initial_instructions: tuple[SystemMessage, ...]
    initial_messages: tuple[ModelMessage, ...]
    instructions: tuple[SystemMessage, ...]
    messages: tuple[ModelMessage, ...]
    """What the next step is asked with, without the instructions."""


@dataclass(frozen=True, slots=True)
class FinishedStep:
    """A step's result, and what tells whether another one follows."""

    result: StepResult
    client_calls: int
    """Calls that are answered on this side."""
    answered: int
    """How many of them have an answer."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A step that is ready to be asked."""

    number: int
    began_at: float
    settings: StepSettings
    tools: Mapping[str, Tool]
    prompt: Prompt


async def run_step(call: Call, conversation: Conversation) -> FinishedStep:
    """Run the next step, and add what came of it to the conversation.

    Raises:
        StepFailedError: it could not be prepared, the model could not be asked, or it said nothing.
        Exception: the model's stream failed.
    """
    call.deadlines.step_begins()
    prepared = await _prepare(call, conversation)
    began = StepStartEvent(
        step_number=prepared.number,
        model=prepared.settings.model,
        messages=conversation.messages,
        steps=tuple(call.outcome.steps),
        runtime_context=call.runtime_context,
    )
    await call.notify("on_step_start", began)
    call.is_in_step = True
    asked_at = call.clock.now()
    reader, answer = await _ask_and_read(call, prepared, conversation)
    parts = call.log.entries[reader.first_entry :]
    if not reader.has_finished and not reader.has_failed and not any(map(_is_output, parts)):
        empty = NoOutputGeneratedError("No output generated. The model stream ended without a finish chunk.")
        raise StepFailedError(empty, has_begun=True, is_empty_stream=True)
    ended_at = call.clock.now()
    responded_at = ended_at if reader.finished_at is None else reader.finished_at
    performance = StepPerformance(step_seconds=ended_at - prepared.began_at, response_seconds=responded_at - asked_at)
    result = await _result(call, prepared, reader, answer, parts, performance)
    await _finish(call, result)
    conversation.messages = (*conversation.messages, *result.response.messages)
    return FinishedStep(result, reader.tools.client_calls, reader.tools.answered)


async def _prepare(call: Call, conversation: Conversation) -> _Prepared:
    began_at = call.clock.now()
    number = len(call.outcome.steps)
    try:
        settings = await _asked_to_change(call, conversation, number)
        tools = active_only(call.plan.tools, settings.active_tools, settings.tool_order)
        prompt = await build_prompt(
            conversation.messages,
            model=settings.model,
            instructions=conversation.instructions,
            download=call.plan.download,
        )
    except Exception as exc:
        raise StepFailedError(exc, has_begun=False) from exc
    return _Prepared(number, began_at, settings, tools, prompt)


async def _asked_to_change(call: Call, conversation: Conversation, number: int) -> StepSettings:
    """Ask `prepare_step`, and take over what holds for later steps too (rule 5.6)."""
    plan = call.plan
    if plan.prepare_step is None:
        return plan.step
    event = PrepareStepEvent(
        model=plan.step.model,
        steps=tuple(call.outcome.steps),
        step_number=number,
        instructions=conversation.instructions,
        initial_instructions=conversation.initial_instructions,
        messages=conversation.messages,
        initial_messages=conversation.initial_messages,
        response_messages=call.outcome.response_messages,
        tools_context=call.tools_context,
        runtime_context=call.runtime_context,
    )
    answer = plan.prepare_step(event)
    changes = await answer if inspect.isawaitable(answer) else answer
    if not changes:
        return plan.step
    instructions, messages = changes.get("instructions"), changes.get("messages")
    if instructions is not None:
        # The check of instructions is part of the check of a prompt, of which nothing else is wanted here.
        conversation.instructions = standardize_prompt(prompt=" ", instructions=instructions).instructions
    if messages is not None:
        conversation.messages = tuple(parse_model_messages(messages))
    runtime_context, tools_context = changes.get("runtime_context"), changes.get("tools_context")
    if runtime_context is not None:
        call.runtime_context = runtime_context
    if tools_context is not None:
        call.tools_context = tools_context
    return plan.step.changed(changes)


async def _ask(call: Call, prepared: _Prepared) -> StreamResult:
    plan, settings = call.plan, prepared.settings
    options = CallOptions(
        prompt=prepared.prompt,
        tools=model_tools(prepared.tools, call.tools_context),
        tool_choice=settings.tool_choice,
        abort_signal=call.signal,
        include_raw_chunks=plan.include_raw_chunks,
        headers=plan.headers,
        provider_options=settings.provider_options,
        response_format=plan.response_format,
        **settings.settings,
    )
    started = ModelCallStartEvent(step_number=prepared.number, model=settings.model, prompt=prepared.prompt)
    await call.notify("on_language_model_call_start", started)
    run = current_run.get()

    def ask() -> Awaitable[StreamResult]:
        if run is not None:
            run.model_called(settings.model, options)
        return settings.model.do_stream(options)

    if call.signal.aborted:
        await _ask_in_vain(call, ask)
    try:
        with working_on(f"the call of model {settings.model.model_id!r}"):
            return await with_retries(ask, max_retries=plan.max_retries, clock=call.clock)
    except Exception as exc:
        raise StepFailedError(exc, has_begun=True) from exc


async def _ask_in_vain(call: Call, ask: Callable[[], Awaitable[StreamResult]]) -> None:
    """Ask a model whose answer nobody wants any more: its signal tells it so, and nobody waits for it (rule 8.4).

    That the call fails is what it should do; the stream says `abort` all the same.

    Raises:
        Stopped: always.
    """
    with anyio.CancelScope() as scope, contextlib.suppress(Exception):
        scope.cancel()
        call.open_stream = (await ask()).stream
    call.stop_if_aborted()


async def _ask_and_read(call: Call, prepared: _Prepared, conversation: Conversation) -> tuple[StepReader, StreamResult]:
    """Ask the model and read its stream; again, if the stream sends an error and may be retried (`stream_retries`)."""
    parser, retries = _parser(call, prepared, conversation), call.plan.stream_retries
    failed: tuple[StepReader, StreamResult] | None = None
    for tries_left in range(retries, -1, -1):
        try:
            answer = await _ask(call, prepared)
        except StepFailedError as exc:
            if failed is None:
                raise
            await failed[0].fail(exc.error)
            return failed
        reader = StepReader(
            call,
            number=prepared.number,
            parser=parser,
            tool_choice=prepared.settings.tool_choice,
            request=answer.request,
            may_retry=tries_left > 0,
            holds_tools=retries > 0,
            goes_on=failed is not None and failed[0].has_begun,
        )
        try:
            await _read(call, reader, answer)
        except StreamRetryError as exc:
            await call.flush()
            await call.close_stream()
            delay = FIRST_DELAY * FACTOR ** (retries - tries_left)
            await call.clock.sleep(retry_delay(exc.error, delay, now=call.clock.now()))
            failed = reader, answer
            continue
        return reader, answer
    raise AssertionError("the last try is not retried")


def _parser(call: Call, prepared: _Prepared, conversation: Conversation) -> ToolCallParser:
    plan = call.plan
    return ToolCallParser(
        tools={name: each for name, each in plan.tools.items() if name in prepared.tools},
        instructions=conversation.instructions,
        messages=conversation.messages,
        repair=plan.repair_tool_call if plan.tools else None,
        refine=plan.refine_tool_input,
    )


async def _read(call: Call, reader: StepReader, answer: StreamResult) -> None:
    call.open_stream = answer.stream
    call.deadlines.stream_begins()
    await reader.read(answer.stream)
    call.deadlines.stream_ends()
    await call.close_stream()
    call.check_stopped()
    await reader.end()
    await call.flush()


async def _result(
    call: Call,
    prepared: _Prepared,
    reader: StepReader,
    answer: StreamResult,
    parts: Sequence[LogEntry],
    performance: StepPerformance,
) -> StepResult:
    content = collect_content(parts)
    told = reader.response
    response = StepResponse(
        id=told.id or call.plan.generate_response_id(),
        timestamp=told.timestamp or datetime.fromtimestamp(call.clock.now(), UTC),
        model_id=told.model_id or prepared.settings.model.model_id,
        headers=None if answer.response is None else answer.response.headers,
        messages=await response_messages(content, call.plan.tools),
    )
    return StepResult(
        step_number=prepared.number,
        content=content,
        finish_reason=reader.finish_reason or "other",
        raw_finish_reason=reader.raw_finish_reason,
        usage=reader.usage,
        response=response,
        warnings=reader.warnings,
        request=answer.request,
        provider_metadata=reader.provider_metadata,
        performance=performance,
    )


async def _finish(call: Call, result: StepResult) -> None:
    response = result.response
    call.emitter.emit(
        FullFinishStep(
            finish_reason=result.finish_reason,
            raw_finish_reason=result.raw_finish_reason,
            usage=result.usage,
            response=ResponseInfo(
                id=response.id, timestamp=response.timestamp, model_id=response.model_id, headers=response.headers
            ),
            provider_metadata=result.provider_metadata,
            performance=result.performance,
        )
    )
    await call.flush()
    call.is_in_step = False
    call.outcome.steps.append(result)
    await call.notify("on_step_end", result)
    call.deadlines.step_ends()


def _is_output(part: LogEntry) -> bool:
    """Return whether the model said something with a part (rule 5.10)."""
    if isinstance(part, DeltaRun):
        return any(part.texts)
    if isinstance(part, FullTextDelta | FullReasoningDelta):
        return bool(part.text)
    if isinstance(part, FullToolInputDelta):
        return bool(part.delta)
    return isinstance(part, FullFile | FullReasoningFile | FullToolCall)
