"""Between the notation of the goldens and live values (FORMAT.md, "Notation, everywhere")."""

from __future__ import annotations

import base64
import json
from datetime import datetime
from typing import Any

from chatagent.errors import AbortError, APICallError
from chatagent.generate.texts import error_text
from chatagent.model import Url
from chatagent.ui import UNSET, write_wire
from chatagent.ui.slots import WireObject


class Error(Exception):
    """JavaScript's plain `Error`."""


class Thrown(Exception):
    """Carries a value that is no error, which JavaScript can throw and Python cannot."""

    def __init__(self, value: object) -> None:
        super().__init__("unknown error" if value is None else json.dumps(value, separators=(",", ":")))
        self.value = value


def live(value: Any) -> Any:
    """Make the live value of what a golden notes down."""
    if isinstance(value, list):
        return [live(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "$error" in value:
        return named_error(value["$error"], value.get("name"))
    if "$apiError" in value:
        return APICallError(
            value["$apiError"], status_code=value["statusCode"], response_headers={"retry-after-ms": "1"}
        )
    if "$date" in value:
        return datetime.fromisoformat(value["$date"])
    if "$url" in value:
        return Url(value["$url"])
    if "$bytes" in value:
        return base64.b64decode(value["$bytes"])
    if "$repeat" in value:
        return value["$repeat"] * value["times"]
    return {key: live(each) for key, each in value.items()}


def named_error(error: object, name: str | None) -> Exception:
    if not isinstance(error, str):
        return Thrown(error)
    if name == "AbortError":
        return AbortError()
    return Error(error) if name in (None, "Error") else type(name, (Exception,), {})(error)


def noted(value: Any) -> Any:
    """Write a live value as a golden does, with `$error` and nothing else of the notation."""
    if isinstance(value, Thrown):
        return value.value
    if isinstance(value, AbortError) and value.reason is not None:
        return value.reason
    if isinstance(value, BaseException):
        return {"$error": str(value), "name": type(value).__name__}
    if isinstance(value, WireObject):
        wire = write_wire(value)
        error = getattr(value, "error", UNSET)
        return noted(wire if error is UNSET else {**wire, "error": error})
    if isinstance(value, dict):
        return {key: noted(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [noted(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def text_of(error: object) -> str:
    """Return the text of an error as `on_error` with `{message: true}` gives it."""
    return str(error) if isinstance(error, BaseException) else error_text(error)
