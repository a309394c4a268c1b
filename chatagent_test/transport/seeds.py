"""What a backend holds already, as values (rules SD-4 to SD-17). `given` builds them; nothing happens until `seed`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from chatagent.ui import Role, UIPart
from chatagent_test.transport.values import show_call

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from chatagent.protocol import Initiator, Producer, Relation, RunStatus
    from chatagent_test.transport.scripts import SeedAction, ToolOutcome

__all__ = [
    "SeedFile",
    "SeedItem",
    "SeedMessage",
    "SeedPart",
    "SeedRun",
    "SeedText",
    "SeedThread",
    "SeedTool",
]


@dataclass(frozen=True, slots=True, repr=False)
class SeedText:
    """A text."""

    text: str

    def __repr__(self) -> str:
        return show_call("given.text", self.text)


@dataclass(frozen=True, slots=True, repr=False)
class SeedTool:
    """A tool call in one of its states."""

    name: str
    outcome: ToolOutcome
    call_id: str | None = None
    input: object = None
    output: object = None
    error: str | None = None
    action: SeedAction | None = None
    approval_id: str | None = None

    @property
    def where(self) -> str:
        """The builder call, for messages."""
        return f"given.tool({self.name!r}).{self.outcome}"

    def __repr__(self) -> str:
        given = [f"input={self.input!r}"]
        if self.outcome == "error":
            given = [repr(self.error), f"input={self.input!r}"]
        elif self.outcome == "result":
            given.append(f"output={self.output!r}")
        if self.action is not None:
            given.append(f"action={self.action!r}")
        if self.approval_id is not None:
            given.append(f"approval_id={self.approval_id!r}")
        tool = show_call("given.tool", self.name, call_id=self.call_id)
        return f"{tool}.{self.outcome}({', '.join(given)})"


SeedPart: TypeAlias = SeedText | SeedTool | UIPart


@dataclass(frozen=True, slots=True, repr=False)
class SeedMessage:
    """A message."""

    role: Role
    relation: Relation
    producer: Producer
    parts: tuple[SeedPart, ...]
    message_id: str | None = None
    metadata: Mapping[str, object] | None = None

    def __repr__(self) -> str:
        word = {"input": "given.input", "context": "given.context", "output": "given.output"}.get(self.relation)
        named: dict[str, object] = {"message_id": self.message_id, "metadata": self.metadata}
        default = {"input": "user", "context": "lifecycle", "output": "model"}.get(self.relation, "")
        if self.producer != default:
            named["producer"] = self.producer
        if word is None:
            return f"given.standalone({show_call('given.message', self.role, *self.parts, **named)})"
        if self.relation == "output":
            return show_call(word, *self.parts, **named)
        if self.relation == "context" and self.role != "system":
            named["role"] = self.role
        only = self.parts[0] if len(self.parts) == 1 else None
        return show_call(word, only.text if isinstance(only, SeedText) else list(self.parts), **named)


@dataclass(frozen=True, slots=True, repr=False)
class SeedRun:
    """A run with the messages that it owns."""

    messages: tuple[SeedMessage, ...]
    run_id: str | None = None
    status: RunStatus | None = None
    initiator: Initiator = "send"
    answers: str | None = None
    metadata: Mapping[str, object] | None = None
    error: str | None = None

    @property
    def name(self) -> str:
        """How messages call it."""
        return "a run" if self.run_id is None else f"run {self.run_id!r}"

    def __repr__(self) -> str:
        initiator = None if self.initiator == "send" else self.initiator
        return show_call(
            "given.run",
            *self.messages,
            run_id=self.run_id,
            status=self.status,
            initiator=initiator,
            answers=self.answers,
            metadata=self.metadata,
            error=self.error,
        )


@dataclass(frozen=True, slots=True, repr=False)
class SeedThread:
    """A thread."""

    thread_id: str
    entries: tuple[SeedRun | SeedMessage, ...]
    title: str | None = None
    metadata: Mapping[str, object] | None = None
    created_at: datetime | None = None

    def __repr__(self) -> str:
        return show_call(
            "given.thread",
            self.thread_id,
            *self.entries,
            title=self.title,
            metadata=self.metadata,
            created_at=self.created_at,
        )


@dataclass(frozen=True, slots=True, repr=False)
class SeedFile:
    """A file of the agent."""

    file_id: str
    filename: str
    media_type: str
    body: bytes
    metadata: Mapping[str, object] | None = None

    def __repr__(self) -> str:
        return show_call(
            "given.file",
            self.file_id,
            filename=self.filename,
            media_type=self.media_type,
            body=self.body,
            metadata=self.metadata,
        )


SeedItem: TypeAlias = SeedThread | SeedFile
