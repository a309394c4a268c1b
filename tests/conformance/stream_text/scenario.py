"""Runs a golden's scenario in a run of its own: virtual time, and an abort only when everybody is idle."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import anyio.lowlevel

from chatagent.generate import (
    AbortEvent,
    EndEvent,
    FullStreamPart,
    PrepareStepEvent,
    StepResult,
    StreamEndEvent,
    StreamStepEndEvent,
    StreamTextResult,
    Timeouts,
    ToolExecutionEndEvent,
    has_tool_call,
    is_step_count,
    stream_text,
)
from chatagent.model import (
    CallOptions,
    ModelToolCall,
    convert_to_model_messages,
    prompt_to_wire,
)
from chatagent.signals import AbortController
from chatagent.ui import UNSET, parse_ui_message, to_wire, write_wire
from chatagent.waiting import Gate
from conformance.stream_text.live import Thrown, live, named_error, noted, text_of
from conformance.stream_text.scripted import ScriptedModel, scripted_tools
from support.virtual_run import VirtualRun

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

How = Literal["read", "pump"]
"""`read`: the UI stream and the full stream at the same time. `pump`: the UI stream is pumped, and the full stream read
when all is over."""


class Scenario(VirtualRun):
    """One run of a golden's scenario. It is the current run of everything that happens in it."""

    def __init__(self, golden: dict[str, Any]) -> None:
        super().__init__()
        self.golden = golden
        self.call: dict[str, Any] = golden["call"]
        self.events: list[dict[str, Any]] = []
        self.ui_events: list[dict[str, Any]] = []
        self.observed: dict[str, Any] = {}
        self._controller = AbortController()
        self._aborts: deque[tuple[object, Gate]] = deque()
        self._ids = 0
        self._message_ids = iter(self.call.get("ui", {}).get("generateMessageId", ()))

    def note(self, event: str, **fields: Any) -> None:
        self.events.append({"event": event, **{key: value for key, value in fields.items() if value is not UNSET}})

    async def abort_when_quiet(self, reason: object) -> None:
        """Abort the call once nobody can go on, and return then."""
        gate = Gate("the abort")
        self._aborts.append((reason, gate))
        await gate.wait()

    def abort_reason(self) -> BaseException:
        """Return the error that somebody raises who gives up because of the abort."""
        reason = self._controller.signal.reason
        if reason is None:
            return named_error("This operation was aborted", "AbortError")
        return reason if isinstance(reason, BaseException) else Thrown(reason)

    async def observe(self, how: How) -> dict[str, Any]:
        """Run it, and return what was observed."""
        await self.play(lambda: self._play(how))
        return self.observed

    def move_on(self) -> None:
        """Abort, if somebody asked for it; else move time on."""
        if not self._aborts:
            super().move_on()
            return
        reason, gate = self._aborts.popleft()
        self._controller.abort(reason)
        gate.open()

    async def _play(self, how: How) -> None:
        model = ScriptedModel(self.golden, self)
        tools = scripted_tools(self.golden, self)
        abort = self.call.get("abort", {})
        if abort.get("before"):
            self._controller.abort(live(abort.get("reason")))
        try:
            result = stream_text(
                model=model,
                tools=tools,
                abort_signal=self._controller.signal,
                generate_id=self._generate_id,
                **self._input(tools),
                **self._options(),
                **self._callbacks(),
            )
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is observed
            self.observed["thrown"] = noted(exc)
            return
        ui = result.to_ui_message_stream(**self._ui_options())
        observed = self.observed
        if how == "pump":
            observed["uiChunks"] = chunks = []
            await self._caught(ui.pump(lambda chunk: chunks.append(to_wire(chunk))), "uiStreamError")
            await self._read(result.full_stream, "fullStream", "fullStreamError", noted)
        else:
            reading = [
                self.tasks.start(lambda: self._read(ui, "uiChunks", "uiStreamError", to_wire), name="UI stream"),
                self.tasks.start(
                    lambda: self._read(result.full_stream, "fullStream", "fullStreamError", noted), name="full stream"
                ),
            ]
            for task in reading:
                await task.wait()
        await self._await_values(result)
        observed["modelCalls"] = [_shown_call(options) for options in model.calls]
        observed["events"] = self.events
        observed["uiEvents"] = self.ui_events

    async def _read(self, stream: Any, key: str, error_key: str, show: Callable[[Any], Any]) -> None:
        items: list[Any] = []
        self.observed[key] = items

        async def read() -> None:
            async for item in stream:
                items.append(show(item))

        await self._caught(read(), error_key)

    async def _caught(self, work: Awaitable[Any], error_key: str) -> None:
        try:
            await work
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is observed
            self.observed[error_key] = noted(exc)

    async def _await_values(self, result: StreamTextResult) -> None:
        async def value(awaitable: Any, show: Callable[[Any], Any]) -> Any:
            try:
                return noted(show(await awaitable))
            except Exception as exc:  # noqa: BLE001 - likewise
                return {"$rejected": noted(exc)}

        self.observed |= {
            "steps": await value(result.steps, lambda steps: [_shown_step(step) for step in steps]),
            "text": await value(result.text, lambda text: text),
            "finishReason": await value(result.finish_reason, lambda reason: reason),
            "totalUsage": await value(result.total_usage, lambda usage: usage.to_wire()),
            "responseMessages": await value(result.response_messages, prompt_to_wire),
        }

    # What the call is made with -----------------------------------------------------------------------------------

    def _generate_id(self) -> str:
        self._ids += 1
        return f"generated-{self._ids}"

    def _input(self, tools: Any) -> dict[str, Any]:
        call = self.call
        if "uiMessages" in call:
            return {"messages": convert_to_model_messages(call["uiMessages"], tools=tools)}
        return {key: live(call[key]) for key in ("prompt", "messages") if key in call}

    def _options(self) -> dict[str, Any]:
        call = self.call
        options: dict[str, Any] = {name: call[key] for key, name in _SAME.items() if key in call}
        options["max_retries"] = call.get("maxRetries", 0)
        if "stopWhen" in call:
            options["stop_when"] = _stop_when(call["stopWhen"])
        if "timeout" in call:
            options["timeout"] = _timeout(call["timeout"])
        if "prepareStep" in call:
            options["prepare_step"] = self._prepare_step
        if "repair" in call:
            options["repair_tool_call"] = self._repair
        return options

    def _prepare_step(self, event: PrepareStepEvent) -> Any:
        self.note("prepareStep", stepNumber=event.step_number, messages=len(event.messages), steps=len(event.steps))
        answers = self.call["prepareStep"]
        answer = answers[event.step_number] if event.step_number < len(answers) else None
        if answer is None:
            return None
        if "throw" in answer:
            raise named_error(answer["throw"], None)
        return {_SAME.get(key, key): live(value) for key, value in answer.items()}

    def _repair(self, event: Any) -> ModelToolCall | None:
        error = {"name": type(event.error).__name__}
        self.note("repairToolCall", toolCallId=event.tool_call.tool_call_id, error=error)
        spec = self.call["repair"]
        if "throw" in spec:
            raise named_error(spec["throw"], None)
        if spec.get("giveUp"):
            return None
        changed = {name: spec[key] for key, name in _REPAIRED.items() if key in spec}
        return replace(event.tool_call, **changed)

    def _callbacks(self) -> dict[str, Any]:
        note = self.note

        def on_tool_execution_end(event: ToolExecutionEndEvent) -> None:
            shown = noted(event.output)
            told = "error" if shown["type"] == "tool-error" else "output"
            outcome = {told: shown[told]} if told == "error" or shown.get(told) is not None else {}
            note("onToolExecutionEnd", toolCallId=event.tool_call.tool_call_id, outcome=shown["type"], **outcome)

        def on_abort(event: AbortEvent) -> None:
            note("onAbort", steps=len(event.steps), reason=noted(event.reason))

        def on_end(event: EndEvent) -> None:
            note(
                "onEnd",
                text=event.text,
                finishReason=event.finish_reason,
                totalUsage=event.total_usage.to_wire(),
                steps=len(event.steps),
                responseMessages=prompt_to_wire(event.response_messages),
            )

        def on_step_end(step: StepResult) -> None:
            note("onStepEnd", stepNumber=step.step_number, finishReason=step.finish_reason)

        callbacks: dict[str, Any] = {
            "on_start": lambda event: note("onStart", messages=prompt_to_wire(event.messages)),
            "on_step_start": lambda event: note("onStepStart", stepNumber=event.step_number),
            "on_tool_execution_start": lambda event: note(
                "onToolExecutionStart", toolCallId=event.tool_call.tool_call_id, toolName=event.tool_call.tool_name
            ),
            "on_tool_execution_end": on_tool_execution_end,
            "on_step_end": on_step_end,
            "on_error": None if self.call.get("noOnError") else lambda error: note("onError", error=noted(error)),
            "on_abort": on_abort,
            "on_end": on_end,
        }
        if self.call.get("logChunks"):
            callbacks["on_chunk"] = lambda part: note("onChunk", type=part.type)
        if self.call.get("onStepError"):
            callbacks["on_step_error"] = lambda event: note(
                "onStepError", stepNumber=event.step_number, error=noted(event.error)
            )
        return callbacks

    def _ui_options(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.call.get("ui", {})
        options: dict[str, Any] = {name: spec[key] for key, name in _UI_SAME.items() if key in spec}
        if "messageMetadata" in spec:
            options["message_metadata"] = lambda part: _metadata(spec["messageMetadata"], part)
        if "onError" in spec:
            given = spec["onError"]
            options["on_error"] = lambda error: given["text"] if "text" in given else f"error: {text_of(error)}"
        if "originalMessages" in spec:
            originals = spec["originalMessages"]
            originals = self.call["uiMessages"] if originals is True else originals
            options["original_messages"] = [parse_ui_message(message) for message in originals]
        if "generateMessageId" in spec:
            options["generate_message_id"] = lambda: next(self._message_ids)
        if spec.get("onEnd", True):
            options["on_end"] = self._on_ui_end
        if spec.get("onStepEnd"):
            options["on_step_end"] = self._on_ui_step_end
        return options

    def _on_ui_end(self, event: StreamEndEvent) -> None:
        outcome: dict[str, Any] = {"status": event.outcome.status}
        if event.outcome.status == "failed":
            outcome["error"] = noted(event.outcome.error)
        noted_event: dict[str, Any] = {
            "event": "onEnd",
            "isAborted": event.is_aborted,
            "isContinuation": event.is_continuation,
            "outcome": outcome,
            "responseMessage": event.response_message.to_wire(),
            "messageIds": [message.id for message in event.messages],
        }
        if event.finish_reason is not None:
            noted_event["finishReason"] = event.finish_reason
        if event.is_cancelled:
            noted_event["isCancelled"] = True
        self.ui_events.append(noted_event)

    async def _on_ui_step_end(self, event: StreamStepEndEvent) -> None:
        await anyio.lowlevel.checkpoint()
        self.ui_events.append(
            {
                "event": "onStepEnd",
                "isContinuation": event.is_continuation,
                "responseMessage": event.response_message.to_wire(),
                "messageIds": [message.id for message in event.messages],
            }
        )


_SAME = {
    "instructions": "instructions",
    "toolChoice": "tool_choice",
    "activeTools": "active_tools",
    "toolOrder": "tool_order",
    "toolCallConcurrency": "tool_call_concurrency",
    "toolApproval": "tool_approval",
    "toolApprovalSecret": "tool_approval_secret",
    "maxOutputTokens": "max_output_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
    "stopSequences": "stop_sequences",
    "seed": "seed",
    "reasoning": "reasoning",
    "providerOptions": "provider_options",
    "includeRawChunks": "include_raw_chunks",
    "allowSystemInMessages": "allow_system_in_messages",
    "streamRetries": "stream_retries",
    "headers": "headers",
}
_REPAIRED = {"toolCallId": "tool_call_id", "toolName": "tool_name", "input": "input"}
_UI_SAME = {
    "sendReasoning": "send_reasoning",
    "sendSources": "send_sources",
    "sendStart": "send_start",
    "sendFinish": "send_finish",
    "redactToolErrors": "redact_tool_errors",
}
_TIMEOUTS = {
    "totalMs": "total",
    "stepMs": "step",
    "firstChunkMs": "first_chunk",
    "chunkMs": "chunk",
    "toolMs": "tool",
}
_SETTINGS = (
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_k",
    "presence_penalty",
    "frequency_penalty",
    "stop_sequences",
    "seed",
    "reasoning",
    "provider_options",
)


def _stop_when(spec: Any) -> Any:
    if isinstance(spec, list):
        return [_stop_when(each) for each in spec]
    if "stepCount" in spec:
        return is_step_count(spec["stepCount"])
    names = spec["hasToolCall"]
    return has_tool_call(*([names] if isinstance(names, str) else names))


def _timeout(spec: Any) -> Timeouts:
    if not isinstance(spec, dict):
        return Timeouts(total=spec / 1000)
    return Timeouts(**{name: spec[key] / 1000 for key, name in _TIMEOUTS.items() if key in spec})


def _metadata(spec: dict[str, Any], part: FullStreamPart) -> Any:
    given = spec.get(part.type)
    if not isinstance(given, dict):
        return given
    wire = write_wire(part)
    return {
        key: wire[value.removeprefix("$part.")] if isinstance(value, str) and value.startswith("$part.") else value
        for key, value in given.items()
    }


def _shown_call(options: CallOptions) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "prompt": prompt_to_wire(options.prompt),
        "toolChoice": {"type": options.tool_choice.type},
        "includeRawChunks": options.include_raw_chunks,
        "hasAbortSignal": options.abort_signal is not None,
    }
    if options.tool_choice.tool_name is not None:
        shown["toolChoice"]["toolName"] = options.tool_choice.tool_name
    if options.tools is not None:
        shown["tools"] = [_shown_tool(each) for each in options.tools]
    for name in _SETTINGS:
        value = getattr(options, name)
        if value is not None:
            shown[_camel(name)] = value
    return shown


def _shown_tool(given: Any) -> dict[str, Any]:
    names = ("id", "name", "args", "input_schema", "description", "input_examples", "provider_options", "strict")
    fields = {_camel(name): getattr(given, name, None) for name in names}
    return {"type": given.type, **{key: value for key, value in fields.items() if value is not None}}


def _shown_step(step: StepResult) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "stepNumber": step.step_number,
        "text": step.text,
        "contentTypes": [part.type for part in step.content],
        "toolCalls": step.tool_calls,
        "toolResults": step.tool_results,
        "toolErrors": step.tool_errors,
        "finishReason": step.finish_reason,
        "usage": step.usage.to_wire(),
        "warnings": step.warnings,
        "responseMessages": prompt_to_wire(step.response.messages),
    }
    if step.reasoning_text is not None:
        shown["reasoningText"] = step.reasoning_text
    if step.raw_finish_reason is not None:
        shown["rawFinishReason"] = step.raw_finish_reason
    return shown


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
