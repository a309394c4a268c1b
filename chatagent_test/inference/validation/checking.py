"""Requests that a provider would refuse, and its answer to them (7.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.formats.failures import anthropic_error, openai_error
from chatagent_test.inference.validation.anthropic_messages import messages_findings
from chatagent_test.inference.validation.findings import Finding, an_object, kind_of
from chatagent_test.inference.validation.openai_chat import chat_findings
from chatagent_test.inference.validation.openai_responses import responses_findings

if TYPE_CHECKING:
    from chatagent_test.inference.scripted import ScriptedResponse

__all__ = ["request_problems", "validate_request"]

_FINDINGS = {
    InferenceEndpoint.CHAT_COMPLETIONS: chat_findings,
    InferenceEndpoint.RESPONSES: responses_findings,
    InferenceEndpoint.MESSAGES: messages_findings,
}


def request_problems(endpoint: InferenceEndpoint, body: object) -> list[Finding]:
    """Return everything in a request body that the provider refuses; nothing if it would take it.

    What is checked is what a request says, not what a model can: names of models are not.
    """
    members = an_object(body)
    if members is None:
        return [Finding(f"the body of a request is an object, and this is {kind_of(body)}")]
    return list(_FINDINGS[endpoint](members))


def validate_request(endpoint: InferenceEndpoint, body: object) -> ScriptedResponse | None:
    """Return the provider's 400 for the first thing that is wrong with a request; `None` if it would take it."""
    problems = request_problems(endpoint, body)
    if not problems:
        return None
    first = problems[0]
    if endpoint is InferenceEndpoint.MESSAGES:
        return anthropic_error(400, first.message)
    return openai_error(400, first.message, code=first.code, param=first.param)
