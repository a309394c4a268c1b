"""The names and attributes of spans: what is said of a turn, a hook, a wait, without anything of a tracer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from chatagent.agent import (
    BootWork,
    CompactionWork,
    InjectionWork,
    SnapshotWork,
    StreamWork,
    TurnWork,
    WaitWork,
)
from chatagent.ui import TextUIPart

if TYPE_CHECKING:
    from chatagent.agent import ReadWork, TurnReport
    from chatagent.model import LanguageModelUsage
    from chatagent.ui import UIMessage

__all__ = [
    "NamedWork",
    "attributes_of_read",
    "attributes_of_report",
    "attributes_of_work",
    "hook_span_name",
    "plain_text",
    "span_name",
]

PREVIEW = 80
"""Characters of a user's text that a span shows."""

NamedWork = TurnWork | BootWork | SnapshotWork | StreamWork | WaitWork | CompactionWork | InjectionWork
"""The work that has a span of its own."""

_NAMES: dict[type, str] = {
    BootWork: "chat.boot",
    SnapshotWork: "snapshot.write",
    StreamWork: "stream response",
    CompactionWork: "context compaction",
    InjectionWork: "pending message injected",
}


def span_name(work: NamedWork) -> str:
    """Return what the span of this work is called."""
    if isinstance(work, TurnWork):
        return "chat action" if work.is_action else f"chat turn {work.turn + 1}"
    if isinstance(work, WaitWork):
        return f"waiting for {work.waits_for}"
    return _NAMES[type(work)]


def hook_span_name(hook: str) -> str:
    """Return what the span of a call of this hook is called: its name on the wire, such as `onTurnStart()`."""
    first, *others = hook.split("_")
    return f"{first}{''.join(map(str.capitalize, others))}()"


def attributes_of_work(work: NamedWork, *, with_content: bool) -> dict[str, Any]:
    """Return what is known of a piece of work as it begins.

    Args:
        work: the work.
        with_content: whether what users have sent may be told.
    """
    if isinstance(work, TurnWork):
        return _of_turn(work) | (_content_of_turn(work) if with_content else {})
    if isinstance(work, SnapshotWork):
        return {"chat.snapshot.messages": work.messages}
    if isinstance(work, CompactionWork):
        return {"chat.compaction.source": work.source}
    if isinstance(work, InjectionWork):
        return {"chat.injected.messages": work.count}
    return {}


def _of_turn(work: TurnWork) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "chat.trigger": work.payload.trigger or "submit-message",
    }
    return facts if work.is_action else {"turn.number": work.turn + 1, **facts}


def _content_of_turn(work: TurnWork) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    text = None if work.is_action else _last_user_text(work)
    if text is not None:
        facts["chat.user_message"] = plain_text(text[:PREVIEW])
    if work.payload.metadata is not None:
        facts["chat.client_data"] = plain_text(json.dumps(work.payload.metadata, ensure_ascii=False, default=str))
    return facts


def _last_user_text(work: TurnWork) -> str | None:
    """Return the text of the last user message there is: the one that came, else the conversation's."""
    message = work.payload.message
    if message is not None and message.role == "user":
        return _text_of(message)
    return next((_text_of(each) for each in reversed(work.messages) if each.role == "user"), None)


def _text_of(message: UIMessage) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, TextUIPart))


def plain_text(text: str) -> str:
    """Return a text that every exporter can encode: half a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def attributes_of_read(read: ReadWork, seconds: float) -> dict[str, Any]:
    """Return what `chat.boot` says of one read of the past: its duration in seconds, and how much it found."""
    found = "messages" if read.what == "snapshot" else "records"
    facts: dict[str, Any] = {f"chat.boot.{read.what}.duration": seconds}
    return facts if read.count is None else {**facts, f"chat.boot.{read.what}.{found}": read.count}


def attributes_of_report(report: TurnReport) -> dict[str, Any]:
    """Return what is known of a turn once it has settled: usage, that of the run so far, and whether it was stopped."""
    facts = _of_usage(report.usage, "") | _of_usage(report.total_usage, "cumulative_")
    return {**facts, "chat.stopped": True} if report.stopped else facts


def _of_usage(usage: LanguageModelUsage | None, prefix: str) -> dict[str, Any]:
    if usage is None:
        return {}
    counts = {"input": usage.input_tokens, "output": usage.output_tokens, "total": usage.total_tokens}
    return {f"gen_ai.usage.{prefix}{name}_tokens": count for name, count in counts.items() if count is not None}
