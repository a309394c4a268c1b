"""Backends that break rules of the profile `actions`."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from chatagent.errors import ChatAgentError
from chatagent.protocol import (
    ActionNotPendingError,
    ActionReceipt,
    ActionResolved,
    ActionValueError,
    GenerationCompleted,
    GenerationMessageChunk,
    GenerationResumed,
    GenerationWaiting,
    RegenerateRequest,
    SendRequest,
    ThreadBusyError,
    mark_of,
)
from chatagent.protocol.models import changed
from chatagent.ui import DataChunk, DataUIPart, TextUIPart, ToolApprovalResponse, UIMessage
from suite.mutant import Mutant, caught_by, nothing_in_place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from chatagent.protocol import (
        ActionRecord,
        Run,
        RunReceipt,
        SendActionRequest,
        SubmitActionRequest,
        ThreadEvent,
        ThreadSnapshot,
        ToolDataRequest,
    )
    from chatagent.ui import Chunk, UIPart
    from chatagent_test import MockAgentTransport


def _with_parts(message: UIMessage, parts: Iterable[Any]) -> UIMessage:
    return message.model_copy(update={"parts": tuple(parts)})


@caught_by("act-client-tool-waits")
class CompletesWhatWaits(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        if not isinstance(event, GenerationWaiting):
            return event
        run = changed(event.run, status="completed", settled_at=event.at)
        return GenerationCompleted(run=run, thread_id=event.thread_id, seq=event.seq, at=event.at)


class ChangesActions(Mutant):
    """Changes the actions that wait, in events and in snapshots."""

    def action(self, action: ActionRecord) -> ActionRecord:
        return action

    def event(self, event: ThreadEvent) -> ThreadEvent:
        if not isinstance(event, GenerationWaiting):
            return super().event(event)
        return replace(event, actions=tuple(self.action(each) for each in event.actions))

    def snapshot(self, snapshot: ThreadSnapshot) -> ThreadSnapshot:
        return snapshot.model_copy(update={"actions": tuple(self.action(each) for each in snapshot.actions)})


@caught_by("act-pending-pair")
class NamesAnotherMessage(ChangesActions):
    def action(self, action: ActionRecord) -> ActionRecord:
        return action.model_copy(update={"message_id": "msg-1"})


@caught_by("act-suspend-input")
class ShowsTheInputOfTheTool(ChangesActions):
    def action(self, action: ActionRecord) -> ActionRecord:
        return action.model_copy(update={"input": {"order": 7}})


class ChangesMarks(Mutant):
    """Changes the reserved parts, in events and in snapshots."""

    def data(self, data: dict[str, Any]) -> dict[str, Any]:
        return data

    def chunk(self, chunk: Chunk) -> Chunk:
        if not isinstance(chunk, DataChunk) or not chunk.type.startswith("data-chatagent-"):
            return chunk
        return replace(chunk, data=self.data(cast("dict[str, Any]", chunk.data)))

    def message(self, message: UIMessage) -> UIMessage:
        return _with_parts(message, (self._part(part) for part in message.parts))

    def _part(self, part: UIPart) -> UIPart:
        if not isinstance(part, DataUIPart) or mark_of(part) is None:
            return part
        return part.model_copy(update={"data": self.data(cast("dict[str, Any]", part.data))})


@caught_by("act-implicit-output")
class DeclaresEveryQuestion(ChangesMarks):
    def data(self, data: dict[str, Any]) -> dict[str, Any]:
        return {**data, "suspendName": "output"}


@caught_by("act-declared-output")
class DeclaresNoQuestion(ChangesMarks):
    def data(self, data: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in data.items() if key != "suspendName"}


@caught_by("act-reserved-hidden")
class ShowsReservedParts(Mutant):
    def chunk(self, chunk: Chunk) -> Chunk:
        if not isinstance(chunk, DataChunk):
            return chunk
        return replace(chunk, type=chunk.type.replace("chatagent-", ""))

    def message(self, message: UIMessage) -> UIMessage:
        parts = [
            part.model_copy(update={"type": part.type.replace("chatagent-", "")})
            if isinstance(part, DataUIPart)
            else part
            for part in message.parts
        ]
        return _with_parts(message, parts)


@caught_by("act-submit-resumes")
class ResumesUnderANewRun(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        has_resumed = False

        def alter(event: ThreadEvent) -> Iterable[ThreadEvent]:
            nonlocal has_resumed
            has_resumed = has_resumed or isinstance(event, GenerationResumed)
            run: Run | None = getattr(event, "run", None)
            return [replace(event, run=_as_new(run)) if has_resumed and run is not None else event]

        return alter

    async def submit_action(self, request: SubmitActionRequest) -> ActionReceipt:
        receipt = await super().submit_action(request)
        return receipt.model_copy(update={"run_id": receipt.run_id and "run-new"})


def _as_new(run: Run) -> Run:
    return changed(run, run_id="run-new")


@caught_by("act-same-message", "watch-chunk-index")
class ResumesInANewMessage(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        has_resumed = False

        def alter(event: ThreadEvent) -> Iterable[ThreadEvent]:
            nonlocal has_resumed
            has_resumed = has_resumed or isinstance(event, GenerationResumed)
            is_new = has_resumed and isinstance(event, GenerationMessageChunk)
            return [replace(event, message_id="msg-new") if is_new else event]

        return alter


@caught_by("act-order")
class ResumesBeforeTheAnswerIsTaken(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        held: list[ThreadEvent] = []

        def alter(event: ThreadEvent) -> Iterable[ThreadEvent]:
            if isinstance(event, ActionResolved) and not event.remaining:
                held.append(event)
                return []
            if not held:
                return [event]
            resolved = held.pop()
            return [replace(event, seq=resolved.seq), replace(resolved, seq=event.seq)]

        return alter


@caught_by("act-two-pending")
class TakesTheFirstAnswerForAll(Mutant):
    async def submit_action(self, request: SubmitActionRequest) -> ActionReceipt:
        receipt = await super().submit_action(request)
        found = self.mock.inspect.thread(request.thread_id)
        for number, action in enumerate(() if found is None else found.actions):
            other = {"action_id": action.action_id, "request_id": f"{request.request_id}-{number}"}
            receipt = await super().submit_action(request.model_copy(update=other))
        return receipt


@caught_by("act-submit-twice", "act-submit-race", "act-superseded", "act-abort-waiting")
class TakesEveryAnswer(Mutant):
    async def submit_action(self, request: SubmitActionRequest) -> ActionReceipt:
        try:
            return await super().submit_action(request)
        except ActionNotPendingError:
            return ActionReceipt(thread_id=request.thread_id, seq=0)


@caught_by("act-approve")
class NeverSaysThatACallWasApproved(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        is_answer = isinstance(event, GenerationMessageChunk) and isinstance(event.chunk, ToolApprovalResponse)
        return nothing_in_place_of(event) if is_answer else event


@caught_by("act-deny")
class ApprovesEverything(Mutant):
    async def submit_action(self, request: SubmitActionRequest) -> ActionReceipt:
        return await super().submit_action(request.model_copy(update={"value": {"approved": True}}))


@caught_by("act-suspend-resumes")
class ForgetsAnswers(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        chunk = event.chunk if isinstance(event, GenerationMessageChunk) else None
        is_answer = isinstance(chunk, DataChunk) and "resolution" in cast("dict[str, Any]", chunk.data)
        return nothing_in_place_of(event) if is_answer else event


@caught_by("act-bad-value")
class MendsAnswers(Mutant):
    async def submit_action(self, request: SubmitActionRequest) -> ActionReceipt:
        try:
            return await super().submit_action(request)
        except ActionValueError:
            return await super().submit_action(request.model_copy(update={"value": {"approved": True}}))


@caught_by("act-superseded")
class ForgetsWhyRunsWereAborted(Mutant):
    def run(self, run: Run) -> Run:
        return changed(run, clear=("abort_reason",))


@caught_by("act-survives-reload")
class ForgetsActionsOnReload(Mutant):
    def snapshot(self, snapshot: ThreadSnapshot) -> ThreadSnapshot:
        return snapshot.model_copy(update={"actions": ()})


@caught_by("act-regenerate-waiting")
class TakesWaitingForWork(Mutant):
    async def regenerate(self, request: RegenerateRequest) -> RunReceipt:
        found = self.mock.inspect.thread(request.thread_id)
        if found is not None and found.thread.active_run_id is not None:
            raise ThreadBusyError(thread_id=request.thread_id, active_run_id=found.thread.active_run_id)
        return await super().regenerate(request)


@caught_by("act-tool-data")
class NeverReplacesToolData(Mutant):
    def __init__(self, mock: MockAgentTransport) -> None:
        super().__init__(mock)
        self._numbers = count()

    async def write_tool_data(self, request: ToolDataRequest) -> None:
        await super().write_tool_data(request.model_copy(update={"data_id": f"d-{next(self._numbers)}"}))


@caught_by("act-tool-data-unknown", "act-tool-data-reserved")
class TakesAnyToolData(Mutant):
    async def write_tool_data(self, request: ToolDataRequest) -> None:
        try:
            await super().write_tool_data(request)
        except ChatAgentError:
            return


@caught_by("act-custom-action")
class TakesActionsForMessages(Mutant):
    async def send_action(self, request: SendActionRequest) -> RunReceipt:
        message = UIMessage(id="", role="user", parts=(TextUIPart(text=str(request.action)),))
        return await super().send(
            SendRequest(request_id=request.request_id, thread_id=request.thread_id, message=message)
        )
