"""Steering and compaction as a scenario declares them; every callback logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import chatagent.agent
from conformance.chat_agent.errors import UnsupportedScenarioError
from conformance.chat_agent.values import snake
from conformance.chat_agent.wire import event_to_wire, value_to_wire

if TYPE_CHECKING:
    from conformance.chat_agent.recording import Recorder
    from conformance.chat_agent.values import Wire


def pending_messages(declared: Wire, recorder: Recorder) -> Any:
    """Return the steering options of an agent.

    Raises:
        UnsupportedScenarioError: the runtime has no steering.
    """
    options: dict[str, Any] = {
        "on_received": lambda event: recorder.event("onReceived", event_to_wire(event)),
        "on_injected": lambda event: recorder.event("onInjected", event_to_wire(event)),
    }
    if "shouldInject" in declared:

        def should_inject(event: Any) -> bool:
            recorder.event("shouldInject", _some(event, ("stepNumber", "messages")))
            if declared["shouldInject"] == "afterSteps":
                return len(event.steps) > 0
            return declared["shouldInject"]

        options["should_inject"] = should_inject
    if "prepare" in declared:
        options["prepare"] = lambda _event: declared["prepare"]
    return _made("PendingMessagesOptions", options)


def compaction(declared: Wire, recorder: Recorder) -> Any:
    """Return the compaction options of an agent.

    Raises:
        UnsupportedScenarioError: the runtime has no compaction.
    """

    def should_compact(event: Any) -> bool:
        shown = ("totalTokens", "inputTokens", "outputTokens", "source", "turn", "messages")
        recorder.event("shouldCompact", _some(event, shown))
        return (event.total_tokens or 0) > declared["overTokens"]

    def summarize(event: Any) -> str:
        recorder.event("summarize", _some(event, ("source", "turn", "messages")))
        return declared["summary"]

    return _made("CompactionOptions", {"should_compact": should_compact, "summarize": summarize})


def _some(event: Any, names: tuple[str, ...]) -> Wire:
    values = {name: value_to_wire(getattr(event, snake(name))) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _made(class_name: str, options: dict[str, Any]) -> Any:
    options_class = getattr(chatagent.agent, class_name, None)
    if options_class is None:
        raise UnsupportedScenarioError(f"the runtime has no {class_name}")
    return options_class(**options)
