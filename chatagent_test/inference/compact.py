"""JSON as it stands in frames and bodies: compact, and not escaped where UTF-8 can say it (4.0.2)."""

from __future__ import annotations

import json
from typing import Any, cast

from pydantic import BaseModel

from chatagent.errors import InvalidArgumentError

__all__ = ["compact_json", "json_string"]


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__name__} is no JSON value")


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain).encode


def compact_json(value: object, *, argument: str = "data") -> str:
    """Return a value as compact JSON that can be encoded as UTF-8.

    Args:
        value: a JSON value, or a pydantic model, at any depth.
        argument: what an error calls the value.

    Raises:
        InvalidArgumentError: it is no JSON value, or holds a NaN or an infinity.
    """
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidArgumentError(argument=argument, value=value, problem=f"it cannot go out as JSON: {exc}") from exc
    return text if text.isascii() else _encodable(text)


_quote = cast("Any", json.encoder).encode_basestring
"""Quotes one string without escaping what is not ASCII; frames are put together around it, which is cheaper by far."""


def json_string(text: str) -> str:
    """Return a string as JSON that can be encoded as UTF-8."""
    quoted: str = _quote(text)
    return quoted if quoted.isascii() else _encodable(quoted)


def _encodable(text: str) -> str:
    """Escape lone surrogates, which JSON can say and UTF-8 cannot; they stand in strings alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
