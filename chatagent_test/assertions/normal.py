"""Making text stable: ids and times that differ from run to run get names that do not."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["Normal"]

_KINDS = {
    "messageId": "message",
    "toolCallId": "call",
    "approvalId": "approval",
    "sourceId": "source",
    "id": "id",
}
"""Keys of the wire that hold ids, and what their names begin with."""
_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE)
_INSTANT = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b", re.IGNORECASE)
_LONGEST = 400
"""Characters of one text; longer ones are cut."""


class Normal:
    """Names for what differs, given in the order in which it comes.

    Args:
        began_at: an instant before everything, in seconds since 1970.
        ended_at: an instant behind everything; numbers between the two are instants.
        keeps_ids: leave ids as they are.
    """

    def __init__(self, began_at: float, ended_at: float, *, keeps_ids: bool = False) -> None:
        self._began_at, self._ended_at, self._keeps_ids = began_at, ended_at, keeps_ids
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def name(self, kind: str, value: str) -> str:
        """Return the name of an id, `message-1`, `call-1` and so on; the same for the same id."""
        if self._keeps_ids:
            return value
        if value not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[value] = f"{kind}-{self._counts[kind]}"
        return self._names[value]

    def text(self, text: str) -> str:
        """Return a text without what differs in it: UUIDs, instants in ISO form, addresses."""
        if not self._keeps_ids:
            text = _UUID.sub(lambda found: f"<{self.name('uuid', found[0].lower())}>", text)
        text = _ADDRESS.sub("0x…", _INSTANT.sub("<time>", text))
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}… ({len(text)} characters)"

    def data(self, value: Any) -> Any:
        """Return plain data without what differs in it."""
        if isinstance(value, Mapping):
            items = cast("Mapping[str, Any]", value).items()
            return {key: self._of_key(key, item) for key, item in items}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in cast("list[Any]", value)]
        if isinstance(value, str):
            return self.text(value)
        return "<time>" if self._is_instant(value) else value

    def json(self, value: Any) -> str:
        """Return plain data as JSON on one line, without what differs in it."""
        return json.dumps(self.data(value), ensure_ascii=False, default=lambda other: self.text(repr(other)))

    def error(self, error: object) -> str:
        """Return an exception's class and text on one line; something else that failed a turn as its text."""
        text = self.text(str(error)).replace("\n", "\\n")
        return f"{type(error).__name__}: {text}" if isinstance(error, BaseException) else text

    def _of_key(self, key: str, value: Any) -> Any:
        if key == "publicAccessToken":
            return "<token>"
        return self.name(_KINDS[key], value) if key in _KINDS and isinstance(value, str) else self.data(value)

    def _is_instant(self, value: Any) -> bool:
        """Return whether a number is an instant of the run, in seconds or in milliseconds."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return False
        return any(self._began_at <= number <= self._ended_at for number in (value, value / 1000))
