"""chatagent_test: drive real agents in memory, with a scripted model and virtual time."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chatagent.agent import BootReport, HookCall
    from chatagent_test.assertions import assert_chunks, assert_hooks, transcript
    from chatagent_test.clock import VirtualClock
    from chatagent_test.crashes import CrashingChat, CrashPointKind, CrashReport, CrashViolation, explore_crashes
    from chatagent_test.harness import ChatAgentHarness, Mode, PendingTurn, Turn, Until, mock_chat_agent
    from chatagent_test.inference import (
        AgentTurnExpectation,
        Expectation,
        InferenceEndpoint,
        JsonBody,
        MockInferenceServer,
        MockModel,
        RawBody,
        RequestClassifier,
        RequestMatcher,
        ScriptedResponse,
        SseBody,
        SseEvent,
    )
    from chatagent_test.language_model import MockLanguageModel, mock_id, mock_values, simulate_stream
    from chatagent_test.network import NetworkDeniedError, NetworkGuard, deny_network
    from chatagent_test.scripting import Script, script
    from chatagent_test.streams import ChunkStream
    from chatagent_test.task_context import StartedAgent, TaskDrivers, run_in_mock_task_context

__all__ = [
    "AgentTurnExpectation",
    "BootReport",
    "ChatAgentHarness",
    "ChunkStream",
    "CrashPointKind",
    "CrashReport",
    "CrashViolation",
    "CrashingChat",
    "Expectation",
    "HookCall",
    "InferenceEndpoint",
    "JsonBody",
    "MockInferenceServer",
    "MockLanguageModel",
    "MockModel",
    "Mode",
    "NetworkDeniedError",
    "NetworkGuard",
    "PendingTurn",
    "RawBody",
    "RequestClassifier",
    "RequestMatcher",
    "Script",
    "ScriptedResponse",
    "SseBody",
    "SseEvent",
    "StartedAgent",
    "TaskDrivers",
    "Turn",
    "Until",
    "VirtualClock",
    "assert_chunks",
    "assert_hooks",
    "deny_network",
    "explore_crashes",
    "mock_chat_agent",
    "mock_id",
    "mock_values",
    "run_in_mock_task_context",
    "script",
    "simulate_stream",
    "transcript",
]

_HOMES = {
    "chatagent.agent": ("BootReport", "HookCall"),
    "chatagent_test.assertions": ("assert_chunks", "assert_hooks", "transcript"),
    "chatagent_test.clock": ("VirtualClock",),
    "chatagent_test.crashes": (
        "CrashPointKind",
        "CrashReport",
        "CrashViolation",
        "CrashingChat",
        "explore_crashes",
    ),
    "chatagent_test.harness": ("ChatAgentHarness", "Mode", "PendingTurn", "Turn", "Until", "mock_chat_agent"),
    "chatagent_test.inference": (
        "AgentTurnExpectation",
        "Expectation",
        "InferenceEndpoint",
        "JsonBody",
        "MockInferenceServer",
        "MockModel",
        "RawBody",
        "RequestClassifier",
        "RequestMatcher",
        "ScriptedResponse",
        "SseBody",
        "SseEvent",
    ),
    "chatagent_test.language_model": ("MockLanguageModel", "mock_id", "mock_values", "simulate_stream"),
    "chatagent_test.network": ("NetworkDeniedError", "NetworkGuard", "deny_network"),
    "chatagent_test.scripting": ("Script", "script"),
    "chatagent_test.streams": ("ChunkStream",),
    "chatagent_test.task_context": ("StartedAgent", "TaskDrivers", "run_in_mock_task_context"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for: pytest imports this package in every run of every project."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
