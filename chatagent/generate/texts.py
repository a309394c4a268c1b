"""The texts that errors and abort reasons get on the way to a model, to a user and into a stream.

Rules 9.6 (any value as an error text), 8.2 (abort reasons) and 9.2 (a provider's error payload becomes an error).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from chatagent.errors import AbortError, StreamProviderError

__all__ = ["abort_error", "abort_text", "error_text", "provider_error", "to_json"]


def error_text(error: object) -> str:
    """Return the text of anything that was raised or sent as an error."""
    if error is None:
        return "unknown error"
    if isinstance(error, str):
        return error
    if isinstance(error, BaseException):
        name, text = type(error).__name__, str(error)
        return f"{name}: {text}" if text else name
    return to_json(error)


def abort_error(reason: object) -> BaseException:
    """Return what awaiting a result raises after an abort: the reason if it is an exception, else an `AbortError`."""
    return reason if isinstance(reason, BaseException) else AbortError(reason)


def abort_text(reason: object) -> str:
    """Return the reason of an abort as the stream carries it; `None` stands for no reason."""
    return error_text(AbortError() if reason is None else reason)


def to_json(value: object) -> str:
    """Return compact JSON; what JSON does not know is written as its `repr`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)


def provider_error(error: object) -> object:
    """Turn a provider's error payload into an error; anything else stays as it is.

    The message may stand at the top, under `error`, or under `response.error`.
    """
    if not isinstance(error, Mapping):
        return error
    payload = cast("Mapping[str, object]", error)
    for inner in (payload, payload.get("error"), _inside(payload.get("response"), "error")):
        message = _inside(inner, "message")
        if isinstance(message, str):
            return _stream_provider_error(message, cast("Mapping[str, object]", inner), payload)
    return payload


def _stream_provider_error(
    message: str, inner: Mapping[str, object], payload: Mapping[str, object]
) -> StreamProviderError:
    kind, code, retryable = inner.get("type"), inner.get("code"), inner.get("is_retryable", inner.get("isRetryable"))
    stated = [source.get(key) for source in (inner, payload) for key in ("status_code", "statusCode", "status")]
    return StreamProviderError(
        message,
        error_type=kind if isinstance(kind, str) else None,
        code=code if isinstance(code, str | int) else None,
        status_code=next((status for status in stated if isinstance(status, int)), None),
        is_retryable=retryable if isinstance(retryable, bool) else None,
        payload=payload,
    )


def _inside(value: object, key: str) -> object:
    return cast("Mapping[str, object]", value).get(key) if isinstance(value, Mapping) else None
