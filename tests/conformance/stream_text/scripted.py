"""The model and the tools that a golden describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chatagent.current import current_clock
from chatagent.generate import InputAvailable, InputDelta, Tool, ToolCallOptions, provider_tool, tool
from chatagent.model import CallOptions, StreamResult, prompt_to_wire
from chatagent.waiting import Gate
from conformance.stream_text.live import live, named_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from conformance.stream_text.scenario import Scenario


class ScriptedModel:
    """Answers each call with the next entry of the golden."""

    provider = "mock-provider"
    model_id = "mock-model-id"

    def __init__(self, golden: dict[str, Any], scenario: Scenario) -> None:
        self.specification_version = golden.get("protocol", "v3")
        self.supported_urls = golden.get("supportedUrls", {})
        self.calls: list[CallOptions] = []
        self._entries: list[dict[str, Any]] = golden["model"]
        self._scenario = scenario

    async def do_generate(self, _options: CallOptions) -> Any:
        raise NotImplementedError

    async def do_stream(self, options: CallOptions) -> StreamResult:
        self.calls.append(options)
        step = len(self.calls) - 1
        if step >= len(self._entries):
            raise RuntimeError("the model was called more often than the golden says")
        entry = self._entries[step]
        if "callError" in entry:
            raise live(entry["callError"])
        return StreamResult(stream=self._stream(entry, step))

    async def _stream(self, entry: dict[str, Any], step: int) -> AsyncIterator[dict[str, Any]]:
        abort = self._scenario.call.get("abort", {})
        after = abort.get("afterModelParts") if abort.get("step", 0) == step else None
        for index, part in enumerate(entry["parts"]):
            if index == after:
                await self._abort(abort)
            yield live(part)
        if after == len(entry["parts"]):
            await self._abort(abort)
        if "streamError" in entry:
            raise live(entry["streamError"])
        if entry.get("hang"):
            await Gate("a model that hangs").wait()

    async def _abort(self, abort: dict[str, Any]) -> None:
        """Abort the call, and fail or hang then."""
        await self._scenario.abort_when_quiet(live(abort.get("reason")))
        if abort.get("then") == "error":
            raise self._scenario.abort_reason()
        await Gate("a model that hangs").wait()


def scripted_tools(golden: dict[str, Any], scenario: Scenario) -> dict[str, Tool]:
    return {name: _tool(name, spec, scenario) for name, spec in golden.get("tools", {}).items()}


def _tool(name: str, spec: dict[str, Any], scenario: Scenario) -> Tool:
    options: dict[str, Any] = {
        "description": spec.get("description"),
        "title": spec.get("title"),
        "metadata": spec.get("metadata"),
        "strict": spec.get("strict"),
        "input_examples": spec.get("inputExamples"),
        "provider_options": spec.get("providerOptions"),
        "output_schema": spec.get("outputSchema"),
        "dynamic": spec.get("dynamic"),
        "needs_approval": _needs_approval(spec.get("needsApproval")),
    }
    if "modelOutput" in spec:
        options["to_model_output"] = lambda _event: spec["modelOutput"]
    if spec.get("inputCallbacks"):
        options |= _input_callbacks(name, scenario)
    given = {key: value for key, value in options.items() if value is not None}
    schema = spec.get("inputSchema", {"type": "object"})
    execute = _execute(name, spec, scenario) if "execute" in spec else None
    provider = spec.get("provider")
    if provider is not None:
        return provider_tool(
            id=provider["id"],
            name=name,
            args=provider["args"],
            input_schema=schema,
            supports_deferred_results=provider.get("supportsDeferredResults", False),
            execute=execute,
            **given,
        )
    return tool(input_schema=schema, execute=execute, name=name, **given)


def _needs_approval(spec: Any) -> Any:
    if isinstance(spec, dict):
        return lambda value, _options: value == spec["inputEquals"]
    return spec


def _input_callbacks(name: str, scenario: Scenario) -> dict[str, Callable[[Any], object]]:
    def on_start(_options: ToolCallOptions) -> None:
        scenario.note("tool.onInputStart", toolName=name)

    def on_delta(event: InputDelta) -> None:
        scenario.note("tool.onInputDelta", toolName=name, inputTextDelta=event.input_text_delta)

    def on_available(event: InputAvailable) -> None:
        scenario.note("tool.onInputAvailable", toolName=name, input=event.input)

    return {"on_input_start": on_start, "on_input_delta": on_delta, "on_input_available": on_available}


def _execute(name: str, spec: dict[str, Any], scenario: Scenario) -> Callable[[Any, ToolCallOptions], object]:
    what: dict[str, Any] = spec["execute"]

    async def wait() -> None:
        if "delayMs" in spec:
            await current_clock().sleep(spec["delayMs"] / 1000)

    async def run(value: object, options: ToolCallOptions) -> object:
        if what.get("recordOptions"):
            _record_options(name, options, scenario)
        await wait()
        return await _outcome(what, value, options, scenario)

    async def generate(_value: object, _options: ToolCallOptions) -> AsyncIterator[object]:
        for each in what["yields"]:
            await wait()
            yield each
        if "thenError" in what:
            raise named_error(what["thenError"], what.get("name"))

    return generate if "yields" in what else run


async def _outcome(what: dict[str, Any], value: object, options: ToolCallOptions, scenario: Scenario) -> object:
    if "error" in what:
        raise named_error(what["error"], what.get("name"))
    if "abort" in what:
        return await _abort(what, scenario)
    if what.get("untilAborted"):
        await options.abort_signal.wait()
        raise options.abort_signal.reason  # type: ignore[misc] - an exception, as limits give
    return value if what.get("echo") else what.get("result")


def _record_options(name: str, options: ToolCallOptions, scenario: Scenario) -> None:
    scenario.note(
        "tool.execute",
        toolName=name,
        toolCallId=options.tool_call_id,
        messages=prompt_to_wire(options.messages),
        hasAbortSignal=options.abort_signal is not None,
    )


async def _abort(what: dict[str, Any], scenario: Scenario) -> object:
    await scenario.abort_when_quiet(live(what.get("reason")))
    if what["abort"] == "then-throw":
        raise scenario.abort_reason()
    if what["abort"] == "then-hang":
        await Gate("a tool that hangs").wait()
    return what.get("result")
