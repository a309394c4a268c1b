"""Backends that break rules of the profile `core`."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from anyio import CancelScope

from chatagent.protocol import (
    EmptyMessageError,
    GenerationAborted,
    GenerationCompleted,
    GenerationFailed,
    GenerationFailedError,
    GenerationMessageChunk,
    GenerationQueued,
    GenerationStarted,
    MessageRemoved,
    RunError,
    RunNotFoundError,
    StateChanged,
    ThreadError,
    ThreadHead,
    ThreadModel,
    ThreadSnapshot,
    is_reserved,
)
from chatagent.protocol.models import BEGINNING, changed
from chatagent.ui import (
    DataChunk,
    DataUIPart,
    StartStep,
    TextDelta,
    TextUIPart,
    ToolInputAvailable,
    ToolOutputAvailable,
    ToolOutputError,
    ToolPart,
    UIMessage,
)
from chatagent_test import given
from suite.mutant import Mutant, caught_by, nothing_in_place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from chatagent.protocol import (
        AbortRequest,
        AgentManifest,
        EventStream,
        Run,
        RunReceipt,
        SendRequest,
        ThreadEvent,
    )
    from chatagent.ui import Chunk
    from chatagent_test import MockAgentTransport


def with_message(request: SendRequest, **values: object) -> SendRequest:
    return request.model_copy(update={"message": request.message.model_copy(update=values)})


@caught_by("core-create-on-send", "core-cancel-before-admission")
class ShowsThreadsThatNobodyMade(Mutant):
    async def get_thread(self, thread_id: str) -> ThreadSnapshot | None:
        head = ThreadHead(thread_id=thread_id, status="idle", created_at=BEGINNING, updated_at=BEGINNING)
        return await super().get_thread(thread_id) or ThreadSnapshot(thread=head, seq=0)


@caught_by("core-user-message-kept", "core-text-answer")
class ForgetsWhoOwnsMessages(Mutant):
    def message(self, message: UIMessage) -> UIMessage:
        return message.model_copy(update={"metadata": {}})


@caught_by("core-state-after-send")
class TellsAStartAsAPlaceInLine(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        if not isinstance(event, GenerationStarted):
            return super().event(event)
        run = changed(event.run, status="queued")
        return GenerationQueued(run=run, thread_id=event.thread_id, seq=event.seq, at=event.at)


@caught_by("core-text-answer", "core-two-turns", "watch-reduces-to-snapshot")
class LosesTheEndsOfTexts(Mutant):
    def chunk(self, chunk: Chunk) -> Chunk:
        return replace(chunk, delta=chunk.delta[:-1]) if isinstance(chunk, TextDelta) else chunk


@caught_by("core-settles-idle")
class ForgetsWhenRunsEnd(Mutant):
    def run(self, run: Run) -> Run:
        return changed(run, clear=("settled_at",))


@caught_by("core-two-turns")
class GivesEverythingToTheFirstRun(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        return replace(event, run_id="run-1") if isinstance(event, GenerationMessageChunk) else super().event(event)


@caught_by("core-ids-stable")
class MakesNewIdsWithEveryRead(Mutant):
    def __init__(self, mock: MockAgentTransport) -> None:
        super().__init__(mock)
        self._reads = count()

    def snapshot(self, snapshot: ThreadSnapshot) -> ThreadSnapshot:
        read = next(self._reads)
        messages = [each.model_copy(update={"id": f"{each.id}-{read}"}) for each in snapshot.messages]
        return snapshot.model_copy(update={"messages": tuple(messages)})


@caught_by("core-given-message-id", "core-duplicate-message-id")
class GivesMessagesIdsOfItsOwn(Mutant):
    async def send(self, request: SendRequest) -> RunReceipt:
        return await super().send(with_message(request, id=""))


@caught_by("core-idempotent-send")
class IgnoresRequestIds(Mutant):
    def __init__(self, mock: MockAgentTransport) -> None:
        super().__init__(mock)
        self._numbers = count()

    async def send(self, request: SendRequest) -> RunReceipt:
        return await super().send(request.model_copy(update={"request_id": f"own-{next(self._numbers)}"}))


@caught_by("core-empty-message")
class StoresAMessageBeforeItRefusesIt(Mutant):
    async def send(self, request: SendRequest) -> RunReceipt:
        try:
            return await super().send(request)
        except EmptyMessageError:
            message = given.message("user", "", message_id="msg-refused")
            self.mock.seed(given.thread(request.thread_id, given.standalone(message)))
            raise


@caught_by("core-empty-message")
class FillsEmptyMessages(Mutant):
    async def send(self, request: SendRequest) -> RunReceipt:
        parts = [part for part in request.message.parts if not isinstance(part, TextUIPart) or part.text.strip()]
        return await super().send(with_message(request, parts=tuple(parts) or (TextUIPart(text="…"),)))


@caught_by("core-bad-thread-id")
class MendsThreadIds(Mutant):
    async def send(self, request: SendRequest) -> RunReceipt:
        mended = request.thread_id.replace(" ", "-").replace("/", "-")[:128] or "unnamed"
        return await super().send(request.model_copy(update={"thread_id": mended}))


@caught_by("core-reserved-part-refused")
class DropsReservedParts(Mutant):
    async def send(self, request: SendRequest) -> RunReceipt:
        parts = [part for part in request.message.parts if not is_reserved(part.type)]
        return await super().send(with_message(request, parts=tuple(parts), metadata=None))


@caught_by("core-parts-in-order")
class SortsParts(Mutant):
    def message(self, message: UIMessage) -> UIMessage:
        return message.model_copy(update={"parts": tuple(sorted(message.parts, key=lambda part: part.type))})


@caught_by("core-unicode-and-size")
class CutsLongTexts(Mutant):
    def message(self, message: UIMessage) -> UIMessage:
        parts = [
            part.model_copy(update={"text": part.text[:65_536]}) if isinstance(part, TextUIPart) else part
            for part in message.parts
        ]
        return message.model_copy(update={"parts": tuple(parts)})


@caught_by("core-unicode-and-size")
class KnowsAsciiOnly(Mutant):
    def chunk(self, chunk: Chunk) -> Chunk:
        if not isinstance(chunk, TextDelta):
            return chunk
        return replace(chunk, delta=chunk.delta.encode("ascii", "replace").decode())


@caught_by("core-client-data-arrives")
class LosesClientData(Mutant):
    async def send(self, request: SendRequest) -> RunReceipt:
        return await super().send(request.model_copy(update={"client_data": None}))


@caught_by("core-cancel-before-admission")
class CannotBeCancelled(Mutant):
    async def send(self, request: SendRequest) -> RunReceipt:
        with CancelScope(shield=True):
            return await super().send(request)
        raise AssertionError("nobody cancels this scope")


@caught_by("core-threads-isolated")
class TellsEveryWatchOfAllThreads(Mutant):
    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        del thread_id
        return super().watch_thread("t-0", after=after)


@caught_by("core-tool-result")
class HidesWhoseToolItIs(Mutant):
    def chunk(self, chunk: Chunk) -> Chunk:
        return (
            replace(chunk, tool_metadata=None) if isinstance(chunk, ToolInputAvailable | ToolOutputAvailable) else chunk
        )


@caught_by("core-tool-error-keeps-run")
class FailsWithItsTools(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        if not isinstance(event, GenerationCompleted):
            return event
        run = changed(event.run, status="failed", error=RunError(message="a tool failed"))
        error = ThreadError(message="a tool failed", operation="send", run_id=run.run_id)
        return GenerationFailed(run=run, error=error, thread_id=event.thread_id, seq=event.seq, at=event.at)


@caught_by("core-step-border")
class KnowsNoSteps(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        is_border = isinstance(event, GenerationMessageChunk) and isinstance(event.chunk, StartStep)
        return nothing_in_place_of(event) if is_border else event


@caught_by("core-transient-data")
class KeepsTransientData(Mutant):
    def chunk(self, chunk: Chunk) -> Chunk:
        return replace(chunk, transient=None) if isinstance(chunk, DataChunk) else chunk


@caught_by("core-data-replaced")
class LosesTheIdsOfData(Mutant):
    def chunk(self, chunk: Chunk) -> Chunk:
        return replace(chunk, id=None) if isinstance(chunk, DataChunk) else chunk


@caught_by("core-run-metadata-default")
class GivesAllRunsOneMetadata(Mutant):
    _shared: dict[str, object] = {"rating": None}  # noqa: RUF012 - that it is shared is the fault

    def run(self, run: Run) -> Run:
        return changed(run, metadata=self._shared)


@caught_by("core-run-metadata-default")
class ForgetsTheMetadataOfRuns(Mutant):
    def run(self, run: Run) -> Run:
        return changed(run, metadata={})


@caught_by("core-second-client-sees-all", "watch-reduces-to-snapshot")
class LosesDataOnReload(Mutant):
    def snapshot(self, snapshot: ThreadSnapshot) -> ThreadSnapshot:
        def without(message: UIMessage) -> UIMessage:
            kept = tuple(part for part in message.parts if not isinstance(part, DataUIPart))
            return message.model_copy(update={"parts": kept})

        return snapshot.model_copy(update={"messages": tuple(without(each) for each in snapshot.messages)})


@caught_by("core-tool-error-keeps-run")
class HidesWhyToolsFail(Mutant):
    def chunk(self, chunk: Chunk) -> Chunk:
        return replace(chunk, error_text="An error occurred.") if isinstance(chunk, ToolOutputError) else chunk


@caught_by("core-manifest")
class HasNoQuestionsToShow(Mutant):
    async def get_manifest(self) -> AgentManifest:
        found = await super().get_manifest()
        tools = tuple(each.model_copy(update={"suspends": ()}) for each in found.tools)
        return found.model_copy(update={"tools": tools})


@caught_by("core-manifest")
class HasNoToolsToShow(Mutant):
    async def get_manifest(self) -> AgentManifest:
        return (await super().get_manifest()).model_copy(update={"tools": ()})


@caught_by("core-closed", "watch-closed")
class CannotBeClosed(Mutant):
    async def aclose(self) -> None:
        pass


@caught_by("core-fail-sets-error", "core-wait-does-not-raise", "retry-fails-again", "act-resume-fails")
class HidesWhyItFailed(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        if not isinstance(event, GenerationFailed):
            return event
        return replace(event, error=event.error.model_copy(update={"message": "An error occurred."}))


@caught_by("core-fail-keeps-input")
class DropsWhatItCouldNotAnswer(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        if not isinstance(event, GenerationFailed):
            return event
        return StateChanged(thread_id=event.thread_id, seq=event.seq, at=event.at)

    def snapshot(self, snapshot: ThreadSnapshot) -> ThreadSnapshot:
        gone = None if snapshot.error is None else snapshot.error.message_id
        kept = tuple(each for each in snapshot.messages if each.id != gone)
        return snapshot.model_copy(update={"messages": kept})


@caught_by("core-fail-cleans-partial")
class KeepsUnfinishedCalls(Mutant):
    def snapshot(self, snapshot: ThreadSnapshot) -> ThreadSnapshot:
        model, last = ThreadModel(snapshot.thread.thread_id), dict[str, UIMessage]()
        for event in self.mock.inspect.events(snapshot.thread.thread_id):
            if isinstance(event, GenerationFailed):
                last = {message.id: message for message in model.messages()}
            model.apply(event)
        messages = [_with_calls_of(each, last.get(each.id)) for each in snapshot.messages]
        return snapshot.model_copy(update={"messages": tuple(messages)})


def _with_calls_of(message: UIMessage, before: UIMessage | None) -> UIMessage:
    calls = () if before is None else tuple(part for part in before.parts if isinstance(part, ToolPart))
    known = {part.tool_call_id for part in message.parts if isinstance(part, ToolPart)}
    lost = tuple(part for part in calls if part.tool_call_id not in known)
    return message.model_copy(update={"parts": (*message.parts, *lost)})


@caught_by("core-next-send-clears-error", "retry-after-failure")
class NeverForgetsAnError(Mutant):
    _error: ThreadError | None = None

    def event(self, event: ThreadEvent) -> ThreadEvent:
        if isinstance(event, GenerationFailed):
            self._error = event.error
        return event

    def snapshot(self, snapshot: ThreadSnapshot) -> ThreadSnapshot:
        return snapshot.model_copy(update={"error": snapshot.error or self._error})


@caught_by("core-wait-does-not-raise")
class RaisesWhatAgentsRaise(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        if isinstance(event, GenerationFailed):
            raise GenerationFailedError(event.error)
        return event


@caught_by("core-queue-second-send", "watch-order-queue")
class StartsQueuedRunsAtOnce(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        if not isinstance(event, GenerationQueued):
            return event
        run = self.run(event.run)
        return GenerationStarted(run=run, operation="send", thread_id=event.thread_id, seq=event.seq, at=event.at)

    def run(self, run: Run) -> Run:
        return changed(run, status="running", started_at=run.created_at) if run.status == "queued" else run


@caught_by("core-queue-order")
class PutsAnswersAtTheEnd(Mutant):
    def snapshot(self, snapshot: ThreadSnapshot) -> ThreadSnapshot:
        users = [each for each in snapshot.messages if each.role == "user"]
        others = [each for each in snapshot.messages if each.role != "user"]
        return snapshot.model_copy(update={"messages": (*users, *others)})


@caught_by("core-queue-order")
class ForgetsTheRunInLine(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        queued: set[str] = set()

        def alter(event: ThreadEvent) -> Iterable[ThreadEvent]:
            if isinstance(event, GenerationQueued):
                queued.add(event.run.run_id)
            of_run: Any = getattr(event, "run", None)
            is_of_queued = not isinstance(event, GenerationQueued) and of_run is not None and of_run.run_id in queued
            return [nothing_in_place_of(event) if is_of_queued else event]

        return alter


@caught_by("core-abort-running", "core-abort-queued", "act-abort-waiting")
class SaysThatNothingWasStopped(Mutant):
    async def abort(self, request: AbortRequest) -> bool:
        await super().abort(request)
        return False


@caught_by("core-abort-running", "watch-order-abort")
class TakesAStopForAFailure(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        if not isinstance(event, GenerationAborted):
            return event
        run = changed(event.run, status="failed", error=RunError(message="stopped"))
        error = ThreadError(message="stopped", operation="send", run_id=run.run_id)
        return GenerationFailed(run=run, error=error, thread_id=event.thread_id, seq=event.seq, at=event.at)


@caught_by("core-abort-keeps-text")
class DropsWhatItSaidBeforeAStop(Mutant):
    def snapshot(self, snapshot: ThreadSnapshot) -> ThreadSnapshot:
        kept = tuple(each for each in snapshot.messages if each.role == "user")
        return snapshot.model_copy(update={"messages": kept})


@caught_by(
    "core-abort-queued", "retry-drops-partial", "regen-last", "regen-earlier", "regen-by-user-message", "regen-order"
)
class RemovesNothing(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        return nothing_in_place_of(event) if isinstance(event, MessageRemoved) else event


@caught_by("core-abort-settled")
class SaysThatItStoppedWhatWasOver(Mutant):
    async def abort(self, request: AbortRequest) -> bool:
        await super().abort(request)
        return True


@caught_by("core-abort-unknown-run")
class StopsRunsThatAreNotThere(Mutant):
    async def abort(self, request: AbortRequest) -> bool:
        try:
            return await super().abort(request)
        except RunNotFoundError:
            return False
