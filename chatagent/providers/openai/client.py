"""The one place that imports the `openai` SDK: its client, and its errors as errors of the package."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from anyio.lowlevel import RunVar

from chatagent.errors import MissingAPIKeyError, MissingExtraError
from chatagent.providers.default_client import unretried
from chatagent.providers.failures import connection_error, status_error, stream_error

try:
    import openai
    from openai.types.chat import ChatCompletion
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
    from openai.types.responses import Response
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
except ImportError as exc:
    raise MissingExtraError(package="openai", extra="openai") from exc

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = [
    "CHAT_PARAMETERS",
    "RESPONSES_PARAMETERS",
    "ChatCompletion",
    "Response",
    "client_or_default",
    "failure_of",
    "translated",
]

CHAT_PARAMETERS = frozenset(CompletionCreateParamsStreaming.__annotations__)
RESPONSES_PARAMETERS = frozenset(ResponseCreateParamsStreaming.__annotations__)
"""What the SDK's methods have parameters for; other members of a request are sent beside them."""

_DEFAULT_CLIENT: RunVar[AsyncOpenAI] = RunVar("chatagent_openai_client")
"""The client of all models of an event loop that were given none; connections cannot be shared between loops."""

_STATUS_OF_CODE = {"rate_limit_exceeded": 429, "server_error": 500, "internal_error": 500, "vector_store_timeout": 504}
"""What the provider would have answered with, had it failed before its stream began; others never pass."""


def client_or_default(client: AsyncOpenAI | None) -> AsyncOpenAI:
    """Return a client that does not retry: the given one (or a copy of it), or the event loop's own.

    Raises:
        MissingAPIKeyError: there is no client, and no key in the environment to make one with.
    """
    return unretried(client, _DEFAULT_CLIENT, _default_client)


def _default_client() -> AsyncOpenAI:
    if not os.environ.get("OPENAI_API_KEY"):
        raise MissingAPIKeyError(provider="openai", variable="OPENAI_API_KEY", client="AsyncOpenAI")
    return openai.AsyncOpenAI(max_retries=0)


def translated(exc: Exception) -> Exception:
    """Return the package's error for one of the SDK; any other is returned as it is."""
    match exc:
        case openai.APIStatusError():
            error = status_error(exc.response, exc.body)
        case openai.APIConnectionError():
            error = connection_error(_with_cause(exc), exc.request.url)
        case openai.APIError():
            return failure_of(exc.message, code=exc.code, error_type=exc.type, payload=exc.body)
        case _:
            return exc
    return error


def failure_of(message: str, *, code: str | None, error_type: str | None = None, payload: object) -> Exception:
    """Return the error for one that came inside a stream."""
    status = _STATUS_OF_CODE.get(code or "", _STATUS_OF_CODE.get(error_type or ""))
    return stream_error(payload, message=message, error_type=error_type, code=code, status=status)


def _with_cause(exc: openai.APIConnectionError) -> str:
    return exc.message if exc.__cause__ is None else f"{exc.message} {exc.__cause__}".strip()
