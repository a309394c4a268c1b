"""Loading seeds: from values to what a backend stores, checked as a whole before anything changes (SD-1 to SD-17)."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from chatagent.protocol import (
    FileContent,
    FileInfo,
    Initiator,
    Ownership,
    Run,
    RunError,
    RunStatus,
    ThreadError,
    ThreadHead,
    ThreadIdError,
    ThreadSnapshot,
    action_records,
    check_thread_id,
    is_reserved,
    mark_of,
    owned,
    ownership_of,
    suspension_chunk,
    tool_name_of,
    unresolved_marks,
)
from chatagent.ui import (
    DataUIPart,
    DynamicToolUIPart,
    TextUIPart,
    ToolApproval,
    ToolPart,
    ToolUIPart,
    UIMessage,
)
from chatagent_test.transport.errors import ScriptError, SeedError, UnknownToolError, nearest
from chatagent_test.transport.player import make_mark
from chatagent_test.transport.seeds import SeedFile, SeedMessage, SeedRun, SeedText, SeedThread, SeedTool
from chatagent_test.transport.values import json_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from chatagent.ui import UIPart
    from chatagent_test.transport.seeds import SeedItem
    from chatagent_test.transport.store import MockStore
    from chatagent_test.transport.tools import ToolBook

__all__ = ["Seeder"]


_STATUSES: Final = get_args(RunStatus)
_INITIATORS: Final = get_args(Initiator)
_ALLOWED: Final = {
    "input": (("user",), ("user", "trigger")),
    "context": (("system", "user"), ("lifecycle",)),
    "output": (("assistant",), ("model", "lifecycle")),
}
"""The roles and producers of a run's messages, by their relation (DM-21)."""


@dataclass(slots=True)
class _Loaded:
    """A thread, ready to be stored."""

    seed: SeedThread
    snapshot: ThreadSnapshot


class Seeder:
    """Loads seeds into a store.

    Args:
        store: where they go.
        book: how tools are shown, and what values are checked by.
    """

    def __init__(self, store: MockStore, book: ToolBook) -> None:
        self._store, self._book = store, book

    def load(self, items: Sequence[SeedItem]) -> list[str]:
        """Store threads and files; one that is there already is replaced.

        Returns:
            The ids of the threads that have a run at work.

        Raises:
            SeedError: no backend could hold one of them; the store is as it was.
        """
        ids_before = copy.deepcopy(self._store.ids)
        try:
            threads = [self._thread(item) for item in items if isinstance(item, SeedThread)]
            files = [self._file(item) for item in items if isinstance(item, SeedFile)]
            self._check_items(items)
        except BaseException:
            self._store.ids = ids_before
            raise
        for content in files:
            self._store.files[content.info.file_id] = content
        for each in threads:
            self._store.thread(each.seed.thread_id).load(each.snapshot)
        return [each.seed.thread_id for each in threads if each.snapshot.thread.status != "idle"]

    def _check_items(self, items: Sequence[SeedItem]) -> None:
        for item in items:
            if not isinstance(cast("object", item), SeedThread | SeedFile):
                raise SeedError(f"seed({item!r:.100}): seed what given.thread(...) or given.file(...) returns")

    def _file(self, seed: SeedFile) -> FileContent:
        info = FileInfo(
            file_id=self._store.ids.take("file", seed.file_id),
            filename=seed.filename,
            media_type=seed.media_type,
            size_bytes=len(seed.body),
            metadata=json_value(seed.metadata or {}),
            created_at=self._store.now(),
        )
        return FileContent(info=info, body=seed.body)

    # Threads ------------------------------------------------------------------------------------------------------

    def _thread(self, seed: SeedThread) -> _Loaded:
        try:
            check_thread_id(seed.thread_id)
        except ThreadIdError as refused:
            raise SeedError(f"given.thread: {refused}") from refused
        at = seed.created_at or self._store.now(seed.thread_id)
        self._take_given_ids(seed)
        messages: list[UIMessage] = []
        runs: list[Run] = []
        error: ThreadError | None = None
        for entry in seed.entries:
            if isinstance(entry, SeedRun):
                run, own = self._run(seed, entry, at)
                runs.append(run)
                messages += own
                error = _error_of(run)
            elif entry.relation == "standalone":
                messages.append(self._message(entry, None))
            else:
                raise SeedError(f"{_of(seed)}: {entry!r:.100} belongs to a run; put it into given.run(...)")
        _check_unique(seed, [message.id for message in messages], "message id")
        for message in messages:
            _check_unique(seed, [part.tool_call_id for part in message.parts if isinstance(part, ToolPart)], "call id")
        _check_unique(seed, [each for message in messages for each in _action_ids(message)], "action id")
        _check_unique(seed, [run.run_id for run in runs], "run id")
        _check_answers(seed, runs, messages)
        _check_order(seed, runs)
        return _Loaded(seed, self._snapshot(seed, at, runs, messages, error))

    def _snapshot(
        self,
        seed: SeedThread,
        at: datetime,
        runs: list[Run],
        messages: list[UIMessage],
        error: ThreadError | None,
    ) -> ThreadSnapshot:
        active = next((run for run in runs if run.status in ("running", "waiting")), None)
        queued = any(run.status == "queued" for run in runs)
        head: dict[str, Any] = {
            "thread_id": seed.thread_id,
            "status": active.status if active is not None else "running" if queued else "idle",
            "metadata": json_value(seed.metadata or {}),
            "created_at": at,
            "updated_at": at,
        }
        if seed.title is not None:
            head["title"] = seed.title
        fields: dict[str, Any] = {"messages": tuple(messages), "runs": tuple(runs), "seq": 0}
        if active is not None:
            head["active_run_id"] = active.run_id
            if active.status == "waiting":
                own = [each for each in messages if _owner(each) == active.run_id]
                fields["actions"] = action_records(own, active.run_id)
        if error is not None:
            fields["error"] = error
        return ThreadSnapshot.model_validate({"thread": ThreadHead.model_validate(head), **fields})

    def _take_given_ids(self, seed: SeedThread) -> None:
        """Keep every id that the seed gives from being made for something else in it."""
        ids = self._store.ids
        for entry in seed.entries:
            of_run = entry.messages if isinstance(entry, SeedRun) else (entry,)
            if isinstance(entry, SeedRun) and entry.run_id is not None:
                ids.take("run", entry.run_id)
            for message in of_run:
                if message.message_id is not None:
                    ids.take("msg", message.message_id)
                calls = [part.call_id for part in message.parts if isinstance(part, SeedTool)]
                ids.take_all("call", [each for each in calls if each is not None])

    # Runs ---------------------------------------------------------------------------------------------------------

    def _run(self, thread: SeedThread, seed: SeedRun, at: datetime) -> tuple[Run, list[UIMessage]]:
        where = f"{_of(thread)}: {seed.name}"
        _check_words(where, seed)
        _check_messages(where, seed)
        run_id = self._store.ids.take("run", seed.run_id)
        messages = [self._message(each, run_id) for each in seed.messages]
        inputs = [made.id for made, each in zip(messages, seed.messages, strict=True) if each.relation == "input"]
        status = self._status(where, seed, messages)
        metadata = json_value(seed.metadata or {})
        if seed.metadata is not None and self._book.contract is not None:
            problem = self._book.contract.run_metadata.problem(metadata, "metadata")
            if problem is not None:
                raise SeedError(f"{where}: {problem.field}: {problem.text}; it is {problem.value!r:.200}")
        fields: dict[str, Any] = {
            "run_id": run_id,
            "thread_id": thread.thread_id,
            "status": status,
            "initiator": seed.initiator,
            "metadata": metadata,
            "created_at": at,
        }
        answered = inputs[0] if inputs else seed.answers
        if answered is not None:
            fields["input_message_id"] = answered
        if status != "queued":
            fields["started_at"] = at
        if status in ("completed", "failed", "aborted"):
            fields["settled_at"] = at
        if seed.error is not None:
            fields["error"] = RunError(message=seed.error)
        return Run.model_validate(fields), messages

    def _status(self, where: str, seed: SeedRun, messages: list[UIMessage]) -> RunStatus:
        waiting = [mark for message in messages for mark in unresolved_marks(message)]
        status: RunStatus = seed.status or (
            "failed" if seed.error is not None else "waiting" if waiting else "completed"
        )
        if (status == "failed") != (seed.error is not None):
            raise SeedError(
                f"{where} is {status} with error={seed.error!r}: a failed run has an error, and no other has"
            )
        if status == "waiting" and not waiting:
            raise SeedError(f"{where} is waiting, but no tool call of it waits; use given.tool(...).waiting(...)")
        if waiting and status == "completed":
            mark = waiting[0]
            raise SeedError(
                f"{where} is completed, but its call {mark.tool_call_id!r} of tool {mark.tool_name!r} waits for "
                f"{mark.name!r}; leave the status out, or settle the call"
            )
        return status

    # Messages -----------------------------------------------------------------------------------------------------

    def _message(self, seed: SeedMessage, run_id: str | None) -> UIMessage:
        parts: list[UIPart] = []
        for part in seed.parts:
            parts += self._parts(seed, part)
        fields: dict[str, Any] = {
            "id": self._store.ids.take("msg", seed.message_id),
            "role": seed.role,
            "parts": parts,
        }
        if seed.metadata is not None:
            fields["metadata"] = json_value(seed.metadata)
        message = owned(UIMessage.model_validate(fields), Ownership(seed.producer, seed.relation, run_id))
        self._store.ids.take_message(message)
        return message

    def _parts(self, message: SeedMessage, part: object) -> list[UIPart]:
        if isinstance(part, SeedText):
            return [_text(part, message)]
        if isinstance(part, SeedTool):
            return self._tool(part)
        native: UIPart = copy.deepcopy(cast("UIPart", part))
        if isinstance(native, DataUIPart) and not is_reserved(native.type):
            self._as_seed(self._book.check_data, native.name, native.data, f"a {native.type} part")
        elif isinstance(native, ToolPart) and self._book.contract is not None:
            self._check_native(native)
        return [native]

    def _check_native(self, part: ToolPart) -> None:
        """Refuse a native part of a call that the tool could not have had."""
        name = tool_name_of(part)
        where = f"a native part of tool {name!r}"
        self._book.look(name, where)
        if part.state not in ("input-streaming", "output-error"):  # an input that was refused may be anything
            self._as_seed(self._book.check_input, name, part.input, where)
        if part.state == "output-available" and part.preliminary is not True:
            self._as_seed(self._book.check_output, name, part.output, where)

    def _tool(self, seed: SeedTool) -> list[UIPart]:
        look = self._book.look(seed.name, seed.where)
        call_id = self._store.ids.take("call", seed.call_id)
        given = json_value(seed.input)
        self._as_seed(self._book.check_input, seed.name, given, seed.where)
        fields: dict[str, Any] = {"tool_call_id": call_id, "state": "input-available", "input": given}
        fields |= {"tool_name": look.name} if look.dynamic else {"type": f"tool-{look.name}"}
        if look.metadata is not None:
            fields["tool_metadata"] = look.metadata
        behind: list[UIPart] = []
        match seed.outcome:
            case "result":
                output = json_value(seed.output)
                self._as_seed(self._book.check_output, seed.name, output, seed.where)
                fields |= {"state": "output-available", "output": output}
            case "error":
                fields |= {"state": "output-error", "error_text": seed.error}
            case "approval":
                approval = ToolApproval(id=self._store.ids.take("approval", seed.approval_id))
                fields |= {"state": "approval-requested", "approval": approval}
            case "waiting":
                behind.append(self._suspension(seed, call_id, given))
            case _:
                pass
        tool = DynamicToolUIPart.model_validate(fields) if look.dynamic else ToolUIPart.model_validate(fields)
        return [tool, *behind]

    def _suspension(self, seed: SeedTool, call_id: str, given: object) -> UIPart:
        assert seed.action is not None
        self._as_seed(self._book.check_action, seed.name, seed.action, seed.where)
        try:
            mark = make_mark(
                seed.action,
                tool_name=seed.name,
                call_id=call_id,
                tool_input=given,
                action_id=self._store.ids.take("action", seed.action.action_id),
                where=seed.where,
            )
        except ScriptError as error:
            raise SeedError(str(error)) from error
        chunk = suspension_chunk(mark)
        return DataUIPart.model_validate({"type": chunk.type, "id": chunk.id, "data": chunk.data})

    def _as_seed(self, check: Any, *values: object) -> None:
        """Run a check of scripts; what it finds is the seed's fault."""
        try:
            check(*values)
        except UnknownToolError:
            raise
        except ScriptError as error:
            raise SeedError(str(error)) from error


def _text(part: SeedText, message: SeedMessage) -> TextUIPart:
    if message.relation == "output":
        return TextUIPart(text=part.text, state="done")
    return TextUIPart(text=part.text)


def _of(seed: SeedThread) -> str:
    return f"thread {seed.thread_id!r}"


def _owner(message: UIMessage) -> str | None:
    return ownership_of(message).run_id


def _error_of(run: Run) -> ThreadError | None:
    """Return what the thread says of its last run."""
    if run.error is None:
        return None
    fields: dict[str, Any] = {"message": run.error.message, "operation": run.initiator, "run_id": run.run_id}
    if run.input_message_id is not None:
        fields["message_id"] = run.input_message_id
    return ThreadError.model_validate(fields)


def _check_messages(where: str, seed: SeedRun) -> None:
    for message in seed.messages:
        if message.relation == "standalone":
            raise SeedError(f"{where}: {message!r:.100} stands alone; put it beside the run, into given.thread(...)")
    inputs = [each for each in seed.messages if each.relation == "input"]
    answers_older = seed.initiator in ("retry", "regenerate")
    withdrawn = seed.status == "aborted" and not seed.messages
    if not inputs and seed.initiator != "action" and not (answers_older and seed.answers) and not withdrawn:
        way = "name what it answers with answers=..." if answers_older else "start it with given.input(...)"
        raise SeedError(f"{where} has no input message; {way}")
    triggered = any(each.producer == "trigger" for each in inputs)
    if triggered != (seed.initiator == "trigger") and not withdrawn:
        raise SeedError(
            f"{where} has initiator {seed.initiator!r} and an input of "
            f"{'a trigger' if triggered else 'the user'}: producer='trigger' and initiator='trigger' belong together"
        )


def _check_words(where: str, seed: SeedRun) -> None:
    """Refuse a status, an initiator, a role or a producer that there is not; callers may be untyped."""
    for word, given, known in (("status", seed.status, _STATUSES), ("initiator", seed.initiator, _INITIATORS)):
        if given is not None and given not in known:
            raise SeedError(f"{where}: {word}={given!r}; {nearest(str(given), known)}")
    for message in seed.messages:
        roles, producers = _ALLOWED.get(message.relation, ((), ()))
        if roles and message.role not in roles:
            raise SeedError(f"{where}: {message!r:.100}: its role is {' or '.join(roles)}, not {message.role!r}")
        if producers and message.producer not in producers:
            allowed = " or ".join(producers)
            raise SeedError(f"{where}: {message!r:.100}: its producer is {allowed}, not {message.producer!r}")


def _action_ids(message: UIMessage) -> list[str]:
    marks = [mark.action_id for part in message.parts if (mark := mark_of(part)) is not None]
    approvals = [part.approval for part in message.parts if isinstance(part, ToolPart)]
    return marks + [approval.id for approval in approvals if approval is not None]


def _check_unique(seed: SeedThread, ids: list[str], what: str) -> None:
    twice = [each for each, count in Counter(ids).items() if count > 1]
    if twice:
        raise SeedError(f"{_of(seed)}: the {what} {twice[0]!r} is there twice")


def _check_answers(seed: SeedThread, runs: list[Run], messages: list[UIMessage]) -> None:
    ids = {message.id for message in messages}
    for run in runs:
        if run.input_message_id is not None and run.input_message_id not in ids:
            raise SeedError(f"{_of(seed)}: run {run.run_id!r} answers {run.input_message_id!r}, which is not there")


def _check_order(seed: SeedThread, runs: list[Run]) -> None:
    """Refuse a run at work that is not the last one; only queued ones come behind it."""
    order = {"running": 1, "waiting": 1, "queued": 2}
    ranks = [order.get(run.status, 0) for run in runs]
    if ranks != sorted(ranks) or ranks.count(1) > 1 or (2 in ranks and 1 not in ranks):
        told = ", ".join(f"{run.run_id} ({run.status})" for run in runs)
        raise SeedError(f"{_of(seed)}: only the last run may be at work, and only queued ones come behind it: {told}")
