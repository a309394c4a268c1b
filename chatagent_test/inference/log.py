"""What a server was asked: one entry a request, in the order of arrival, and the questions that tests put to it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chatagent_test.inference.waiting import Board

__all__ = ["LogEntry", "Outcome", "RequestKind", "RequestLog"]

KEPT_ENTRIES = 1024

Outcome: TypeAlias = Literal["complete", "client_disconnected", "aborted"]
"""How an answer ended: whole as scripted, its client gone, or cut off by the server (a script, an error, its close)."""


class RequestKind(Enum):
    """What a request is for: a user-facing turn, or work beside it."""

    FOREGROUND = "foreground"
    AUXILIARY = "auxiliary"


@dataclass(slots=True, eq=False)
class LogEntry:
    """One request, and what became of it. The server fills in the second half as it answers."""

    method: str
    path: str
    """Without the query, but for `/v1/user`, which keeps it (1.8.8)."""
    body: Any = field(repr=False)
    """The parsed JSON, or `None`."""
    authorization: str | None = None
    """The header as it came."""
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False)
    """Lower-case name and value of each, in the order of arrival."""
    query: str = ""
    raw_body: bytes = field(default=b"", repr=False)
    received_at: float = 0.0
    """On the monotonic clock."""
    kind: RequestKind | None = None
    """Of inference requests; `None` for all others."""
    answered_by: str | None = None
    """`expectation:NAME`, `replay:NAME`, `fifo`, `auth`, `agent_turn`, `echo`, `fixed`, `validation`, `recording`,
    `route` (a fixed one) or `error`; `None` until that is decided."""
    status: int | None = None
    """`None` until the head of the answer has been sent."""
    outcome: Outcome | None = None
    """`None` while the answer is under way."""
    mismatch: str | None = None
    """What a scripted body and the request's `stream` disagree about, if they do."""
    error: str | None = None
    """Why the request was refused, or the exception that its answer failed with."""
    rejected: bool = False
    """Refused before any answer was looked for; such requests count as rejected only."""
    index: int = 0
    """Position among all requests of the server, forgotten ones included."""

    def header(self, name: str) -> str | None:
        """Return the first value of a header, whatever the case of its name; `None` if there is none."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key == wanted), None)

    @property
    def members(self) -> dict[str, Any]:
        """The body, if it is a JSON object; else an empty one."""
        body: object = self.body
        return cast("dict[str, Any]", body) if isinstance(body, dict) else {}

    @property
    def streams(self) -> bool:
        """Whether the request asks for a stream."""
        return self.members.get("stream") is True

    @property
    def retry_count(self) -> int | None:
        """How many tries of the same call the client says went before (2.6.6); `None` if it says nothing."""
        said = self.header("x-stainless-retry-count")
        return int(said) if said is not None and said.isascii() and said.isdigit() else None

    @property
    def line(self) -> str:
        """Method and path, and what else a reader of a log wants to know."""
        notes = [f"refused: {self.error}"] if self.rejected else []
        if self.retry_count:
            notes.append(f"retry {self.retry_count}")
        return f"{self.method} {self.path}" + (f" ({', '.join(notes)})" if notes else "")


class RequestLog:
    """The newest entries, and the count of all."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._entries: deque[LogEntry] = deque(maxlen=KEPT_ENTRIES)
        self.arrived = 0
        """All requests, refused and forgotten ones included."""
        self.count = 0
        self.rejected_count = 0
        self.keep = True

    def append(self, entry: LogEntry) -> None:
        """Take down a request; one that is `rejected` counts as such."""
        with self._board.lock:
            entry.index = self.arrived
            self.arrived += 1
            if entry.rejected:
                self.rejected_count += 1
            else:
                self.count += 1
            if self.keep:
                self._entries.append(entry)
            self._board.changed()

    def entries(self) -> list[LogEntry]:
        """Return what is kept, oldest first."""
        with self._board.lock:
            return list(self._entries)

    def accepted(self) -> list[LogEntry]:
        """Return what is kept and was not refused unread."""
        return [entry for entry in self.entries() if not entry.rejected]

    def clear(self) -> None:
        """Forget all, counts included."""
        with self._board.lock:
            self._entries.clear()
            self.count = self.rejected_count = 0

    def has_path(self, fragment: str) -> bool:
        """Whether a kept request went to a path that contains this."""
        return any(fragment in entry.path for entry in self.accepted())

    def last_system_prompt(self) -> str | None:
        """Return what the newest request with one told the model beforehand (1.8.6)."""
        for entry in reversed(self.accepted()):
            reader = _PROMPTS.get(entry.path)
            if reader is not None:
                return reader(entry.members)
        return None

    def summary(self) -> str:
        """Return one line a request, for messages."""
        entries = self.entries()
        if not entries:
            return "(no requests received)"
        return "\n".join(f"  [{number}] {entry.line}" for number, entry in enumerate(entries))


def _openai_prompt(body: dict[str, Any]) -> str | None:
    messages = body.get("messages")
    first = cast("Any", messages)[0] if isinstance(messages, list) and messages else None
    content = cast("dict[str, Any]", first).get("content") if isinstance(first, dict) else None
    return content if isinstance(content, str) else _text(body.get("instructions"))


def _anthropic_prompt(body: dict[str, Any]) -> str | None:
    system = body.get("system")
    if not isinstance(system, list):
        return _text(system)
    blocks = [cast("dict[str, Any]", block) for block in cast("list[Any]", system) if isinstance(block, dict)]
    return "".join(block["text"] for block in blocks if isinstance(block.get("text"), str))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


_PROMPTS: dict[str, Callable[[dict[str, Any]], str | None]] = {
    "/v1/chat/completions": _openai_prompt,
    "/v1/responses": _openai_prompt,
    "/v1/messages": _anthropic_prompt,
}
