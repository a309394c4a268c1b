"""`given`: the words of which seeds are built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError

from chatagent.protocol import RESERVED_KEY, Ownership, ThreadSnapshot, ownership_of
from chatagent.ui import UNSET, FileUIPart, Role, UIMessage, Unset, problem_of
from chatagent_test.transport.errors import ScriptError, SeedError
from chatagent_test.transport.scripts import SeedAction
from chatagent_test.transport.seeds import (
    SeedFile,
    SeedMessage,
    SeedPart,
    SeedRun,
    SeedText,
    SeedThread,
    SeedTool,
)
from chatagent_test.transport.values import error_text, json_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from chatagent.protocol import Initiator, Producer, Relation, Run, RunStatus

__all__ = ["Given", "GivenTool", "given"]


class GivenTool:
    """A tool call that still needs its state."""

    def __init__(self, name: str, call_id: str | None) -> None:
        self._name, self._call_id = name, call_id

    def __repr__(self) -> str:
        return f"given.tool({self._name!r})"

    def result(self, input: object, output: object) -> SeedTool:
        """The tool gave this output."""
        return self._made("result", input, output=_json(output))

    def error(self, error: BaseException | str, input: object = None) -> SeedTool:
        """The tool failed."""
        return self._made("error", {} if input is None else input, error=error_text(error))

    def waiting(self, input: object, action: SeedAction) -> SeedTool:
        """The call waits for the client."""
        return self._made("waiting", input, action=action)

    def approval(self, input: object, approval_id: str | None = None) -> SeedTool:
        """The call waits for an approval."""
        return self._made("approval", input, approval_id=approval_id)

    def running(self, input: object) -> SeedTool:
        """The call has its input and no output."""
        return self._made("running", input)

    def _made(self, outcome: Any, input: object, **values: Any) -> SeedTool:
        return SeedTool(self._name, outcome, self._call_id, _json(input), **values)


class Given:
    """What a backend holds already. Use the object `given`."""

    def text(self, text: str) -> SeedText:
        """A text."""
        return SeedText(text)

    def file_part(self, url: str, media_type: str, filename: str | None = None) -> FileUIPart:
        """A file in a message."""
        fields = {"url": url, "media_type": media_type}
        return FileUIPart.model_validate(fields if filename is None else {**fields, "filename": filename})

    def tool(self, name: str, call_id: str | None = None) -> GivenTool:
        """A tool call; say its state: `.result`, `.error`, `.waiting`, `.approval`, `.running`."""
        if not name:
            raise SeedError("given.tool(''): a tool has a name")
        return GivenTool(name, call_id)

    def action(
        self,
        name: str,
        input: object | Unset = UNSET,
        action_id: str | None = None,
        declared_suspend: bool = False,  # noqa: FBT001 - the order of the builder's words
    ) -> SeedAction:
        """What a call waits for; see `reply.action`."""
        made = UNSET if input is UNSET else _json(input)
        return SeedAction(name, made, action_id, declared_suspend)

    def input(
        self,
        text_or_parts: str | Sequence[SeedPart],
        *,
        producer: Producer = "user",
        message_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> SeedMessage:
        """What a run answers; `producer="trigger"` belongs to a run with `initiator="trigger"`."""
        return _message("user", "input", producer, text_or_parts, message_id, metadata)

    def context(
        self,
        text_or_parts: str | Sequence[SeedPart],
        *,
        role: Role = "system",
        producer: Producer = "lifecycle",
        message_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> SeedMessage:
        """What a run is told besides."""
        return _message(role, "context", producer, text_or_parts, message_id, metadata)

    def output(
        self,
        *parts: str | SeedPart,
        producer: Producer = "model",
        message_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> SeedMessage:
        """What a run has said."""
        return _message("assistant", "output", producer, parts, message_id, metadata)

    def assistant(
        self,
        *parts: str | SeedPart | Mapping[str, object],
        producer: Producer = "model",
        message_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> SeedMessage:
        """What a run has said, native parts (objects or their wire form) included."""
        return _message("assistant", "output", producer, parts, message_id, metadata)

    def message(
        self,
        role: Role,
        *parts: str | SeedPart | Mapping[str, object],
        producer: Producer | None = None,
        message_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> SeedMessage:
        """A message for `standalone`."""
        defaults: dict[str, Producer] = {"user": "user", "assistant": "model", "system": "lifecycle"}
        return _message(role, "standalone", producer or defaults[role], parts, message_id, metadata)

    def standalone(self, message: SeedMessage) -> SeedMessage:
        """A message that no run owns."""
        return SeedMessage(
            message.role, "standalone", message.producer, message.parts, message.message_id, message.metadata
        )

    def run(
        self,
        *messages: SeedMessage,
        run_id: str | None = None,
        status: RunStatus | None = None,
        initiator: Initiator = "send",
        answers: str | None = None,
        metadata: Mapping[str, object] | None = None,
        error: BaseException | str | None = None,
    ) -> SeedRun:
        """A run with its messages.

        Args:
            *messages: in order, at least one of them an input.
            run_id: by default the mock counts.
            status: `failed` with an error, `waiting` if a call waits, else `completed`.
            initiator: what began it.
            answers: the id of the older message that it answers; for `retry` and `regenerate`, which have no input.
            metadata: taken as it is.
            error: why it failed.
        """
        told = None if error is None else error_text(error)
        made = None if metadata is None else _json(dict(metadata))
        return SeedRun(messages, run_id, status, initiator, answers, made, told)

    def thread(
        self,
        thread_id: str,
        *entries: SeedRun | SeedMessage,
        title: str | None = None,
        metadata: Mapping[str, object] | None = None,
        created_at: datetime | None = None,
    ) -> SeedThread:
        """A thread of runs and standalone messages, in order."""
        made = None if metadata is None else _json(dict(metadata))
        return SeedThread(thread_id, entries, title, made, created_at)

    def file(
        self,
        file_id: str,
        *,
        filename: str,
        media_type: str,
        body: bytes,
        metadata: Mapping[str, object] | None = None,
    ) -> SeedFile:
        """A file of the agent."""
        return SeedFile(file_id, filename, media_type, body, None if metadata is None else _json(dict(metadata)))

    def from_snapshot(self, snapshot: ThreadSnapshot) -> SeedThread:
        """A seed that gives a recorded thread again: its messages, runs, title and metadata."""
        runs = {run.run_id: run for run in snapshot.runs}
        own: dict[str, list[SeedMessage]] = {run_id: [] for run_id in runs}
        entries: list[SeedRun | SeedMessage | str] = []
        for message in snapshot.messages:
            owner = ownership_of(message)
            made = _recorded(message, owner)
            if owner.run_id not in runs:
                entries.append(self.standalone(made))
                continue
            if not own[owner.run_id]:
                entries.append(owner.run_id)
            own[owner.run_id].append(made)
        entries += [run_id for run_id in runs if not own[run_id]]
        made_entries = [_recorded_run(runs[each], own[each]) if isinstance(each, str) else each for each in entries]
        head = snapshot.thread
        return SeedThread(head.thread_id, tuple(made_entries), head.title, dict(head.metadata), head.created_at)


def _message(
    role: Role,
    relation: Relation,
    producer: Producer,
    parts: object,
    message_id: str | None,
    metadata: Mapping[str, object] | None,
) -> SeedMessage:
    given_parts = (parts,) if isinstance(parts, str) else tuple(cast("Sequence[object]", parts))
    made = tuple(_part(role, each) for each in given_parts)
    if metadata is not None and RESERVED_KEY in metadata:
        raise SeedError(f"metadata: the key {RESERVED_KEY!r} is kept for the protocol")
    told = None if metadata is None else _json(dict(metadata))
    return SeedMessage(role, relation, producer, made, message_id, told)


def _part(role: Role, part: object) -> SeedPart:
    if isinstance(part, str):
        return SeedText(part)
    if isinstance(part, GivenTool):
        raise SeedError(f"{part!r} has no state; say one, such as .result(...)")
    if isinstance(part, SeedText | SeedTool):
        return part
    try:  # a native part, or its wire form: what pydantic takes for one
        return UIMessage.model_validate({"id": "", "role": role, "parts": [part]}).parts[0]
    except ValidationError as refused:
        raise SeedError(f"{part!r:.200} is no part of a message: {problem_of(refused)}") from refused


def _json(value: object) -> Any:
    """Return a copy of a value as JSON data; what is none is the seed's fault."""
    try:
        return json_value(value)
    except ScriptError as refused:
        raise SeedError(str(refused)) from refused


def _recorded_run(run: Run, own: list[SeedMessage]) -> SeedRun:
    has_input = any(each.relation == "input" for each in own)
    answers = None if has_input else run.input_message_id
    error = None if run.error is None else run.error.message
    return SeedRun(tuple(own), run.run_id, run.status, run.initiator, answers, run.metadata, error)


def _recorded(message: UIMessage, owner: Ownership) -> SeedMessage:
    metadata: object = message.metadata
    stated = cast("dict[str, object]", metadata) if isinstance(metadata, dict) else {}
    own = {key: value for key, value in stated.items() if key != RESERVED_KEY}
    return SeedMessage(message.role, owner.relation, owner.producer, tuple(message.parts), message.id, own or None)


given: Final = Given()
"""The words of which seeds are built."""
