"""Backends that break rules of the profiles `watch` and `heads`."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from anyio import get_current_task

from chatagent.protocol import (
    GenerationAborted,
    GenerationFailed,
    GenerationMessageChunk,
    MessageAdded,
    MessageRemoved,
    StateChanged,
    ThreadDeleted,
    ThreadHead,
    ThreadHeadChanged,
    ThreadNotFoundError,
)
from chatagent.protocol.models import BEGINNING
from chatagent.ui import Abort, DataChunk, Start, TextUIPart
from suite.mutant import Mutant, caught_by, nothing_in_place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from chatagent.protocol import (
        EventStream,
        ThreadEvent,
        ThreadHeadEvent,
        ThreadHeadPage,
        ThreadQuery,
        ThreadSnapshot,
    )
    from chatagent.ui import UIMessage
    from chatagent_test import MockAgentTransport


def renumbered(keep: Callable[[ThreadEvent], bool]) -> Callable[[ThreadEvent], list[ThreadEvent]]:
    """Lose events, and close the numbers up."""
    lost = 0

    def alter(event: ThreadEvent) -> list[ThreadEvent]:
        nonlocal lost
        if keep(event):
            return [replace(event, seq=event.seq - lost)]
        lost += 1
        return []

    return alter


@caught_by("watch-reduces-to-snapshot")
class LosesEveryTenthEvent(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        return renumbered(lambda event: event.seq % 10 != 0)


@caught_by("watch-reconnect", "watch-numbering")
class NumbersEachWatchFromOne(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        numbers = count(1)
        return lambda event: [replace(event, seq=next(numbers))]


@caught_by("watch-order-success", "watch-order-failure", "watch-unknown-thread", "watch-order-queue", "regen-order")
class StartsBeforeTheMessageIsThere(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        held: list[ThreadEvent] = []

        def alter(event: ThreadEvent) -> Iterable[ThreadEvent]:
            if isinstance(event, MessageAdded | MessageRemoved):
                held.append(event)
                return []
            told = [*held]
            held.clear()
            if not told:
                return [event]
            return [replace(event, seq=told[0].seq), *(replace(each, seq=each.seq + 1) for each in told)]

        return alter


@caught_by("watch-order-failure")
class SaysSomethingBeforeItFails(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        def alter(event: ThreadEvent) -> Iterable[ThreadEvent]:
            if not isinstance(event, GenerationFailed):
                return [event]
            begun = GenerationMessageChunk(
                thread_id=event.thread_id,
                seq=event.seq,
                at=event.at,
                run_id=event.run.run_id,
                message_id="msg-empty",
                index=0,
                chunk=Start("msg-empty"),
            )
            return [begun, replace(event, seq=event.seq + 1)]

        return alter


@caught_by("watch-order-abort")
class StopsWithoutAChunk(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        is_abort = isinstance(event, GenerationMessageChunk) and isinstance(event.chunk, Abort)
        return nothing_in_place_of(event) if is_abort else event


@caught_by("watch-replay", "watch-replay-middle")
class ReplaysOneTooFew(Mutant):
    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        return super().watch_thread(thread_id, after=None if after is None else after + 1)


@caught_by("watch-from-now")
class AlwaysReplays(Mutant):
    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        return super().watch_thread(thread_id, after=after or 0)


@caught_by("watch-forgotten")
class SaysNothingOfGaps(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        return lambda event: [] if isinstance(event, StateChanged) else [event]


@caught_by("watch-two-readers")
class GivesEachEventToOneReader(Mutant):
    def __init__(self, mock: MockAgentTransport) -> None:
        super().__init__(mock)
        self._given: set[int] = set()

    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        def alter(event: ThreadEvent) -> Iterable[ThreadEvent]:
            is_new = event.seq not in self._given
            self._given.add(event.seq)
            return [event] if is_new else []

        return alter


@caught_by("watch-slow-reader")
class DropsWhatASlowReaderHasNotRead(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        newest = 0

        def is_kept(event: ThreadEvent) -> bool:
            nonlocal newest
            newest = newest or len(self.mock.inspect.events(event.thread_id))
            return newest - event.seq < 1_000 or not isinstance(event, GenerationMessageChunk) or event.index < 100

        return renumbered(is_kept)


@caught_by("watch-chunk-index")
class CountsChunksAnewOnResume(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        base = 0

        def alter(event: ThreadEvent) -> Iterable[ThreadEvent]:
            nonlocal base
            if not isinstance(event, GenerationMessageChunk):
                return [event]
            if isinstance(event.chunk, Start):
                base = event.index
            return [replace(event, index=event.index - base)]

        return alter


@caught_by("watch-gap-one-refresh", "watch-duplicates-ignored", "watch-unknown-event")
class CutsTextsOnReload(Mutant):
    def snapshot(self, snapshot: ThreadSnapshot) -> ThreadSnapshot:
        def cut(message: UIMessage) -> UIMessage:
            parts = [
                part.model_copy(update={"text": part.text[:5]}) if isinstance(part, TextUIPart) else part
                for part in message.parts
            ]
            return message.model_copy(update={"parts": tuple(parts)})

        return snapshot.model_copy(update={"messages": tuple(cut(each) for each in snapshot.messages)})


@caught_by("watch-gap-one-refresh")
class ReadsFromACache(Mutant):
    def __init__(self, mock: MockAgentTransport) -> None:
        super().__init__(mock)
        self._read: dict[str, ThreadSnapshot | None] = {}

    async def get_thread(self, thread_id: str) -> ThreadSnapshot | None:
        if thread_id not in self._read:
            self._read[thread_id] = await super().get_thread(thread_id)
        return self._read[thread_id]


@caught_by("watch-unknown-event")
class KeepsTransientDataToItself(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        def is_kept(event: ThreadEvent) -> bool:
            return not (isinstance(event, GenerationMessageChunk) and isinstance(event.chunk, DataChunk))

        return renumbered(is_kept)


class _WatchOfOneTask:
    """A watch that can be left only by the task that entered it."""

    def __init__(self, inner: AbstractAsyncContextManager[EventStream[ThreadEvent]]) -> None:
        self._inner = inner
        self._task = -1

    async def __aenter__(self) -> EventStream[ThreadEvent]:
        self._task = get_current_task().id
        return await self._inner.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        if get_current_task().id != self._task:
            raise RuntimeError("left in another task")
        await self._inner.__aexit__(None, None, None)


@caught_by("watch-other-task-close")
class TiesWatchesToTasks(Mutant):
    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        return _WatchOfOneTask(super().watch_thread(thread_id, after=after))


class _WatchThatStays:
    """A watch that nobody can leave."""

    def __init__(self, inner: AbstractAsyncContextManager[EventStream[ThreadEvent]]) -> None:
        self._inner = inner

    async def __aenter__(self) -> EventStream[ThreadEvent]:
        return await self._inner.__aenter__()

    async def __aexit__(self, *_: object) -> None:
        pass


@caught_by("watch-no-leak")
class HoldsWatchesForever(Mutant):
    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        return _WatchThatStays(super().watch_thread(thread_id, after=after))


@caught_by("watch-unknown-thread")
class WatchesOnlyWhatIsThere(Mutant):
    def watch_thread(
        self, thread_id: str, *, after: int | None
    ) -> AbstractAsyncContextManager[EventStream[ThreadEvent]]:
        if self.mock.inspect.thread(thread_id) is None:
            raise ThreadNotFoundError(thread_id=thread_id)
        return super().watch_thread(thread_id, after=after)


@caught_by("watch-ends-on-delete")
class DeletesWithoutAWord(Mutant):
    def new_alteration(self) -> Callable[[ThreadEvent], Iterable[ThreadEvent]]:
        return lambda event: [] if isinstance(event, ThreadDeleted) else [event]


# The list of threads ----------------------------------------------------------------------------------------------


@caught_by("heads-created", "heads-rename")
class TellsEveryChangeAsANewThread(Mutant):
    def head_event(self, event: ThreadHeadEvent) -> ThreadHeadEvent:
        return replace(event, reason="created") if isinstance(event, ThreadHeadChanged) else event


@caught_by("heads-created")
class NeverTellsOfNewThreads(Mutant):
    def head_event(self, event: ThreadHeadEvent) -> ThreadHeadEvent:
        is_new = isinstance(event, ThreadHeadChanged) and event.reason == "created"
        return replace(event, reason="activity") if is_new else event


@caught_by("heads-status")
class TellsNoStatus(Mutant):
    def head_event(self, event: ThreadHeadEvent) -> ThreadHeadEvent:
        if not isinstance(event, ThreadHeadChanged):
            return event
        return replace(event, head=event.head.model_copy(update={"status": "idle"}))


@caught_by("heads-list-order", "heads-paging")
class ListsTheOldestFirst(Mutant):
    async def list_threads(self, query: ThreadQuery) -> ThreadHeadPage:
        page = await super().list_threads(query)
        return page.model_copy(update={"heads": page.heads[::-1]})


@caught_by("heads-paging")
class ForgetsThePage(Mutant):
    async def list_threads(self, query: ThreadQuery) -> ThreadHeadPage:
        return await super().list_threads(query.model_copy(update={"cursor": None}))


@caught_by("heads-rename")
class KeepsOldTitles(Mutant):
    async def rename_thread(self, thread_id: str, title: str) -> ThreadHead:
        head = await super().rename_thread(thread_id, "Untitled")
        return head.model_copy(update={"title": title})


@caught_by("heads-rename-unknown")
class RenamesWhatIsNotThere(Mutant):
    async def rename_thread(self, thread_id: str, title: str) -> ThreadHead:
        try:
            return await super().rename_thread(thread_id, title)
        except ThreadNotFoundError:
            return ThreadHead(
                thread_id=thread_id, title=title, status="idle", created_at=BEGINNING, updated_at=BEGINNING
            )


@caught_by("heads-delete")
class ListsDeletedThreads(Mutant):
    def __init__(self, mock: MockAgentTransport) -> None:
        super().__init__(mock)
        self._deleted: list[ThreadHead] = []

    async def delete_thread(self, thread_id: str) -> None:
        found = self.mock.inspect.thread(thread_id)
        await super().delete_thread(thread_id)
        self._deleted += [] if found is None else [found.thread]

    async def list_threads(self, query: ThreadQuery) -> ThreadHeadPage:
        page = await super().list_threads(query)
        return page.model_copy(update={"heads": (*page.heads, *self._deleted)})


@caught_by("heads-delete-running")
class DeletesWithoutStopping(Mutant):
    def event(self, event: ThreadEvent) -> ThreadEvent:
        return nothing_in_place_of(event) if isinstance(event, GenerationAborted) else event


@caught_by("heads-reuse-id")
class NumbersReusedThreadsFromOne(Mutant):
    def __init__(self, mock: MockAgentTransport) -> None:
        super().__init__(mock)
        self._base = 0

    async def delete_thread(self, thread_id: str) -> None:
        found = self.mock.inspect.thread(thread_id)
        self._base = 0 if found is None else found.seq + 1
        await super().delete_thread(thread_id)

    def snapshot(self, snapshot: ThreadSnapshot) -> ThreadSnapshot:
        return snapshot.model_copy(update={"seq": snapshot.seq - self._base})


@caught_by("heads-replay")
class ReplaysTheWholeList(Mutant):
    def watch_thread_heads(self, *, after: int | None) -> AbstractAsyncContextManager[EventStream[ThreadHeadEvent]]:
        return super().watch_thread_heads(after=0)
