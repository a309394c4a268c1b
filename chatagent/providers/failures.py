"""What went wrong at a provider, as errors of the package.

The SDKs' own error classes are known to the providers' modules only; they pass the facts on to these functions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

from chatagent.errors import APICallError, StreamProviderError
from chatagent.providers.requests import member_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["as_call_error", "broken_stream", "connection_error", "is_worth_a_retry", "status_error", "stream_error"]

LONGEST_WORDS = 500
"""Characters of an answer that is no JSON (a proxy's error page, say) that go into an error's text."""


class _Request(Protocol):
    @property
    def url(self) -> object: ...


class Response(Protocol):
    """An HTTP response, as far as it matters here."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def text(self) -> str: ...

    @property
    def request(self) -> _Request: ...


def status_error(response: Response, body: object) -> APICallError:
    """Return the error for an answer with a status that says no.

    Args:
        response: the answer; its body has been read, or cannot be read any more.
        body: the body as the SDK has parsed it.
    """
    headers = {name.lower(): value for name, value in response.headers.items()}
    try:
        text = response.text
    except RuntimeError:  # an event hook of the user's HTTP client has closed the response unread
        text = None
    asked = headers.get("x-should-retry")
    return APICallError(
        _words(body) or f"the provider answered with HTTP status {response.status_code}",
        status_code=response.status_code,
        response_headers=headers,
        is_retryable={"true": True, "false": False}.get(asked or ""),
        url=str(response.request.url),
        response_body=text,
    )


def connection_error(message: str, url: object) -> APICallError:
    """Return the error for a call that got no answer."""
    return APICallError(message, is_retryable=True, url=str(url))


def stream_error(
    payload: object, *, message: str, error_type: str | None = None, code: str | None = None, status: int | None = None
) -> StreamProviderError:
    """Return the error for one that a provider reported inside its stream.

    Args:
        payload: what it sent.
        message: its own words.
        error_type: its name for the kind of error.
        code: its code for it.
        status: the HTTP status that it would have answered with.
    """
    retryable = None if status is None else is_worth_a_retry(status)
    return StreamProviderError(
        message, error_type=error_type, code=code, status_code=status, is_retryable=retryable, payload=payload
    )


def broken_stream(exc: Exception) -> APICallError:
    """Return the error for a stream that cannot be read on: it is no JSON, or the connection broke."""
    if isinstance(exc, ValueError):
        return APICallError(f"the provider's stream cannot be decoded: {exc}", is_retryable=False)
    return APICallError(f"the connection to the provider broke: {exc or type(exc).__name__}", is_retryable=True)


def as_call_error(error: object) -> BaseException:
    """Return an error as a model call raises it: what was reported inside a stream failed the call if it came first."""
    if not isinstance(error, StreamProviderError):
        return error if isinstance(error, BaseException) else APICallError(str(error), is_retryable=False)
    failed = APICallError(
        str(error),
        status_code=error.status_code,
        is_retryable=bool(error.is_retryable),
        response_body=json.dumps(error.payload, ensure_ascii=False, default=str),
    )
    failed.__cause__ = error
    return failed


def is_worth_a_retry(status: int) -> bool:
    """Return whether a call that was answered with a status may succeed when it is made again."""
    return status in (408, 409, 429) or status >= 500


def _words(body: object) -> str | None:
    """Return what a provider says in the body of an error: a message, at the top or under `error`, or plain text."""
    if isinstance(body, str):
        return body.strip()[:LONGEST_WORDS] or None
    if body is None:
        return None
    message = member_of(body, "message")
    return message if isinstance(message, str) and message else _words(member_of(body, "error"))
