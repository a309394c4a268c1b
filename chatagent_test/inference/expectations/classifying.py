"""Tells user-facing turns from the work beside them, by the headers that agents send and the tools on offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from chatagent_test.inference.checks import need, need_function, need_texts
from chatagent_test.inference.log import LogEntry, RequestKind

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Classify", "RequestClassifier", "as_classifier"]

TURN_INDEX_HEADERS = ("x-chatagent-turn-idx", "x-grok-turn-idx")
REQUEST_ID_HEADERS = ("x-chatagent-req-id", "x-grok-req-id")


@dataclass(frozen=True, slots=True)
class RequestClassifier:
    """Decides the kind of an inference request (2.1.2).

    Args:
        turn_index_headers: headers that mark a user-facing turn.
        request_id_headers: headers that name a logical call; alone, they mark side work.
        min_tools: so many tools on offer make a turn of a request without such headers.
        classify: decides instead of all that; request ids are read as before.
    """

    turn_index_headers: tuple[str, ...] = TURN_INDEX_HEADERS
    request_id_headers: tuple[str, ...] = REQUEST_ID_HEADERS
    min_tools: int = 2
    classify: Classify | None = None

    def __post_init__(self) -> None:
        for argument in ("turn_index_headers", "request_id_headers"):
            names: object = getattr(self, argument)
            object.__setattr__(self, argument, tuple(name.lower() for name in need_texts(argument, names)))
        need("min_tools", self.min_tools, int, "a number of tools")
        if self.classify is not None:
            need_function("classify", self.classify, "a function of the log entry")

    def kind(self, entry: LogEntry) -> RequestKind:
        """Return what a request is for."""
        if self.classify is not None:
            return self.classify(entry)
        return self.decide(entry)[0]

    def decide(self, entry: LogEntry) -> tuple[RequestKind, str]:
        """Return what a request is for, and what says so."""
        if self.classify is not None:
            return self.classify(entry), "the server's own `classify` says so"
        turn = _spoken(entry, self.turn_index_headers)
        if turn is not None:
            return RequestKind.FOREGROUND, f"header {turn[0]} is {turn[1]!r}"
        call = _spoken(entry, self.request_id_headers)
        if call is not None:
            return RequestKind.AUXILIARY, f"header {call[0]} comes without a turn index"
        tools: object = entry.members.get("tools")
        count = len(cast("list[object]", tools)) if isinstance(tools, list) else 0
        if count >= self.min_tools:
            return RequestKind.FOREGROUND, f"it offers {count} tools"
        return RequestKind.AUXILIARY, f"no turn index, and {count} of the {self.min_tools} tools that would make a turn"

    def request_id(self, entry: LogEntry) -> str | None:
        """Return the id of the logical call, trimmed; `None` if the client gives none."""
        found = _spoken(entry, self.request_id_headers)
        return found[1] if found is not None else None


Classify: TypeAlias = "Callable[[LogEntry], RequestKind]"


def as_classifier(given: RequestClassifier | Classify | None) -> RequestClassifier:
    """Return what was given as a classifier."""
    if given is None:
        return RequestClassifier()
    return given if isinstance(given, RequestClassifier) else RequestClassifier(classify=given)


def _spoken(entry: LogEntry, names: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the first of these headers that has a text in it: empty, blank or not ASCII counts as absent (2.1.3)."""
    for name, value in entry.headers:
        if name in names and value.isascii() and value.strip():
            return name, value.strip()
    return None
