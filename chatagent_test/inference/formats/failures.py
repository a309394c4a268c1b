"""Errors as each provider words them (4.7)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.scripted import ScriptedResponse
from chatagent_test.scripting import Script, script
from chatagent_test.scripting.steps import seconds_text

if TYPE_CHECKING:
    from chatagent_test.inference.scripted import Headers

__all__ = ["anthropic_error", "error_response", "error_type", "openai_error", "rate_limited"]

REQUEST_ID = "req_test"

_OPENAI = {401: ("invalid_request_error", "invalid_api_key"), 429: ("rate_limit_error", "rate_limit_exceeded")}
_ANTHROPIC = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error_type(endpoint: InferenceEndpoint, status: int) -> str:
    """Return the word that a provider has for an error of this status."""
    if endpoint is InferenceEndpoint.MESSAGES:
        return _ANTHROPIC.get(status, "invalid_request_error" if status < 500 else "api_error")
    return _OPENAI.get(status, ("invalid_request_error" if status < 500 else "server_error", None))[0]


def openai_error(
    status: int,
    message: str,
    *,
    type: str | None = None,
    code: str | None = None,
    param: str | None = None,
    headers: Headers = (),
) -> ScriptedResponse:
    """Return an error as OpenAI words it.

    Args:
        status: 400 or more.
        message: the text.
        type: its type; the usual one of the status by default.
        code: its code; the usual one of the status by default, which most have none of.
        param: the member of the request that is wrong.
        headers: more headers, such as `retry-after`.
    """
    _check(status)
    kind = error_type(InferenceEndpoint.CHAT_COMPLETIONS, status) if type is None else type
    default_code = _OPENAI.get(status, (None, None))[1] if type is None else None
    error = {"message": message, "type": kind, "param": param, "code": code or default_code}
    return ScriptedResponse.json(status, {"error": error}, headers=headers)


def anthropic_error(
    status: int, message: str, *, type: str | None = None, request_id: str = REQUEST_ID, headers: Headers = ()
) -> ScriptedResponse:
    """Return an error as Anthropic words it; arguments as for `openai_error`.

    Args:
        status: 400 or more.
        message: the text.
        type: its type; the usual one of the status by default.
        request_id: stands in the body, and in the header `request-id` unless `headers` have one.
        headers: more headers, such as `retry-after`.
    """
    _check(status)
    kind = error_type(InferenceEndpoint.MESSAGES, status) if type is None else type
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}
    response = ScriptedResponse.json(status, body, headers=headers)
    if any(name.lower() == "request-id" for name, _ in response.headers):
        return response
    return response.with_headers({"request-id": request_id})


def error_response(
    endpoint: InferenceEndpoint, status: int, message: str, *, retry_after: float | None = None
) -> ScriptedResponse:
    """Return an error in the shape of an endpoint.

    Args:
        endpoint: which one.
        status: 400 or more.
        message: the text.
        retry_after: seconds that the client is asked to wait; fractions are allowed.
    """
    headers = {} if retry_after is None else {"retry-after": seconds_text(retry_after)}
    if endpoint is InferenceEndpoint.MESSAGES:
        return anthropic_error(status, message, headers=headers)
    return openai_error(status, message, headers=headers)


def rate_limited(retry_after: float = 0) -> Script:
    """Return a 429 that takes the shape of whichever endpoint asks: the script `script.error(429, …)`.

    Args:
        retry_after: seconds that the client is asked to wait. The SDKs do wait, so keep it small.
    """
    if not 0 <= retry_after < math.inf:
        raise InvalidArgumentError(argument="retry_after", value=retry_after, problem="it is 0 seconds or more")
    return script.error(429, retry_after=retry_after)


def _check(status: int) -> None:
    if not 400 <= status <= 599:
        raise InvalidArgumentError(argument="status", value=status, problem="an HTTP status of an error is 400 to 599")
