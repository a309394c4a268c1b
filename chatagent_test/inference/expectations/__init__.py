"""Expectations: which request gets which answer, once, and what to say when it does not come."""

from __future__ import annotations

from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.expectations.agent_turn import AgentTurnExpectation
from chatagent_test.inference.expectations.calls import ExpectationPhase
from chatagent_test.inference.expectations.classifying import RequestClassifier
from chatagent_test.inference.expectations.expectation import Expectation
from chatagent_test.inference.expectations.matchers import RequestMatcher
from chatagent_test.inference.log import RequestKind

__all__ = [
    "AgentTurnExpectation",
    "Expectation",
    "ExpectationPhase",
    "InferenceEndpoint",
    "RequestClassifier",
    "RequestKind",
    "RequestMatcher",
]
