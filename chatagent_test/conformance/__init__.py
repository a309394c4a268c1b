"""The conformance suite: what every transport must show, to be run on a transport of your own."""

from __future__ import annotations

from chatagent_test.conformance.agent import ScriptedAgent
from chatagent_test.conformance.backend import (
    ConformanceBackend,
    ConformanceSession,
    HeldAnswer,
    ReceivedCommand,
    ReceivedInput,
    Script,
    Unsupported,
)
from chatagent_test.conformance.cases import Case
from chatagent_test.conformance.contract import CONTRACT, EXPLOSION, RUN_METADATA
from chatagent_test.conformance.errors import CaseFailedError, ConformanceWarning
from chatagent_test.conformance.forwarding import ForwardingTransport
from chatagent_test.conformance.in_process import InProcessBackend, InProcessSession
from chatagent_test.conformance.mock import MockBackend, MockSession
from chatagent_test.conformance.suite import cases, parametrize

__all__ = [
    "CONTRACT",
    "EXPLOSION",
    "RUN_METADATA",
    "Case",
    "CaseFailedError",
    "ConformanceBackend",
    "ConformanceSession",
    "ConformanceWarning",
    "ForwardingTransport",
    "HeldAnswer",
    "InProcessBackend",
    "InProcessSession",
    "MockBackend",
    "MockSession",
    "ReceivedCommand",
    "ReceivedInput",
    "Script",
    "ScriptedAgent",
    "Unsupported",
    "cases",
    "parametrize",
]
