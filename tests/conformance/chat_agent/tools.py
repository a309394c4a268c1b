"""The tools of a scenario: each logs its call, waits for its gate, performs its directives, and gives its outcome."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from chatagent import tool
from conformance.chat_agent.errors import scenario_error
from conformance.chat_agent.moments import Moment
from conformance.chat_agent.wire import value_to_wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from chatagent.generate import Tool, ToolCallOptions
    from conformance.chat_agent.directives import Performer
    from conformance.chat_agent.gates import Gates
    from conformance.chat_agent.recording import Recorder
    from conformance.chat_agent.values import Wire


def make_tools(declared: dict[str, Wire], performer: Performer, gates: Gates, recorder: Recorder) -> dict[str, Tool]:
    """Return the tools that a scenario declares, by name."""
    return {name: _make(name, each, performer, gates, recorder) for name, each in declared.items()}


def _make(name: str, declared: Wire, performer: Performer, gates: Gates, recorder: Recorder) -> Tool:
    options: dict[str, Any] = {}
    if "description" in declared:
        options["description"] = declared["description"]
    if "needsApproval" in declared:
        options["needs_approval"] = declared["needsApproval"]
    if "modelOutput" in declared:
        options["to_model_output"] = lambda _event: copy.deepcopy(declared["modelOutput"])

    async def begin(value: Any, call: ToolCallOptions) -> None:
        wire = {"input": value_to_wire(value), "toolCallId": call.tool_call_id}
        recorder.event("tool", {"name": name, **copy.deepcopy(wire)})
        if "gate" in declared:
            await gates.wait(declared["gate"])
        if "then" in declared:
            moment = Moment("tool", wire, 1, signal=call.abort_signal)
            await recorder.noting_errors(f"tool {name}", performer.perform(declared["then"], moment))

    execute = _execute(declared, begin)
    if execute is not None:
        options["execute"] = execute
    return tool(name=name, input_schema=declared["inputSchema"], **options)


def _execute(declared: Wire, begin: Callable[[Any, ToolCallOptions], Any]) -> Callable[..., Any] | None:
    """Return the function of a tool; `None` if the tool belongs to the client."""

    async def outcome(value: Any, options: ToolCallOptions) -> Any:
        await begin(value, options)
        if "throws" in declared:
            raise scenario_error(declared["throws"])
        return copy.deepcopy(declared["result"])

    async def outcomes(value: Any, options: ToolCallOptions) -> AsyncIterator[Any]:
        await begin(value, options)
        for each in copy.deepcopy(declared["yields"]):
            yield each

    if "yields" in declared:
        return outcomes
    return outcome if "result" in declared or "throws" in declared else None
