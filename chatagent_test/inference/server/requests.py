"""A request as the HTTP layers hand it over, and what is wrong with it before anybody looks for an answer."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chatagent_test.inference.log import LogEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MAX_BODY_BYTES", "Request", "header_pairs"]

MAX_BODY_BYTES = 256 * 1024 * 1024

_JSON_TYPE = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, read to its end."""

    method: str
    path: str
    query: str
    headers: Sequence[tuple[str, str]]
    """Lower-case name and value of each, in the order of arrival."""
    body: bytes
    is_too_large: bool = False
    """The body is over the server's limit and has been thrown away."""

    def entry(self, *, path: str | None = None) -> LogEntry:
        """Return a log entry of this request; what its body says is still to be read."""
        authorization = next((value for name, value in self.headers if name == "authorization"), None)
        return LogEntry(
            self.method,
            self.path if path is None else path,
            None,
            authorization,
            self.headers,
            self.query,
            self.body,
            time.monotonic(),
        )

    def header(self, name: str) -> str | None:
        """Return the first value of a header given by its lower-case name."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def media_problem(self) -> str | None:
        """What is wrong with the content type of a JSON body; `None` if nothing is."""
        said = (self.header("content-type") or "").partition(";")[0].strip()
        if _JSON_TYPE.fullmatch(said):
            return None
        return f"the content type is {said!r}, wanted application/json" if said else "there is no content type"

    def parsed(self) -> Any:
        """Return the JSON body.

        Raises:
            ValueError: it is none, as providers see it: UTF-8 without a mark in front, and no `NaN`.
            RecursionError: it is nested too deeply to be read.
        """
        return _read_json(self.body.decode())


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")


_read_json = json.JSONDecoder(parse_constant=_refuse_constant).decode


def header_pairs(raw: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """Return headers as text, their names in lower case."""
    return tuple([(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw])
