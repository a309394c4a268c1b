"""The one place that imports the `anthropic` SDK: its client, and its errors as errors of the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio.lowlevel import RunVar

from chatagent.errors import MissingAPIKeyError, MissingExtraError
from chatagent.providers.default_client import unretried
from chatagent.providers.failures import connection_error, status_error, stream_error
from chatagent.providers.requests import member_of

try:
    import anthropic
    from anthropic.types import Message
    from anthropic.types.message_create_params import MessageCreateParamsStreaming
except ImportError as exc:
    raise MissingExtraError(package="anthropic", extra="anthropic") from exc

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["PARAMETERS", "Message", "client_or_default", "translated"]

PARAMETERS = frozenset(MessageCreateParamsStreaming.__annotations__)
"""What the SDK's method has parameters for; other members of a request are sent beside them."""

_DEFAULT_CLIENT: RunVar[AsyncAnthropic] = RunVar("chatagent_anthropic_client")
"""The client of all models of an event loop that were given none; connections cannot be shared between loops."""

_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""What the provider would have answered with, had it failed before its stream began."""


def client_or_default(client: AsyncAnthropic | None) -> AsyncAnthropic:
    """Return a client that does not retry: the given one (or a copy of it), or the event loop's own.

    Raises:
        MissingAPIKeyError: there is no client, and no key in the environment to make one with.
    """
    return unretried(client, _DEFAULT_CLIENT, _default_client)


def _default_client() -> AsyncAnthropic:
    client = anthropic.AsyncAnthropic(max_retries=0)
    if client.api_key is None and client.auth_token is None and client.credentials is None:
        raise MissingAPIKeyError(provider="anthropic", variable="ANTHROPIC_API_KEY", client="AsyncAnthropic")
    return client


def translated(exc: Exception) -> Exception:
    """Return the package's error for one of the SDK; any other is returned as it is."""
    match exc:
        case anthropic.APIStatusError() if exc.status_code < 400:
            return _streamed(exc)
        case anthropic.APIStatusError():
            return status_error(exc.response, exc.body)
        case anthropic.APIConnectionError():
            message = exc.message if exc.__cause__ is None else f"{exc.message} {exc.__cause__}".strip()
            return connection_error(message, exc.request.url)
        case anthropic.APIError():
            return stream_error(exc.body, message=exc.message)
        case _:
            return exc


def _streamed(exc: anthropic.APIStatusError) -> Exception:
    """Return the error for an `error` event, which the SDK raises with the status of the stream that it came in."""
    error = member_of(exc.body, "error")
    kind, message = member_of(error, "type"), member_of(error, "message")
    return stream_error(
        exc.body,
        message=message if isinstance(message, str) else str(exc.body),
        error_type=kind if isinstance(kind, str) else None,
        status=_STATUS_OF_TYPE.get(str(kind)),
    )
