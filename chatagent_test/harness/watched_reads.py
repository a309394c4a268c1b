"""The harness's session store, as a run sees it that is to die: what the run reads is told to a crash plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from chatagent.session import AppendAck, Direction, InMemorySessionStore, RecordPage
    from chatagent.session.store import SessionStore
    from chatagent_test.harness.crash_plan import CrashPlan

__all__ = ["watched_reads"]


def watched_reads(store: InMemorySessionStore, plan: CrashPlan) -> SessionStore:
    """Return the store, with its reads told to a plan."""
    return cast("SessionStore", _WatchedReads(store, plan))


class _WatchedReads:
    def __init__(self, store: InMemorySessionStore, plan: CrashPlan) -> None:
        self._store, self._plan = store, plan

    def append_nowait(self, *arguments: Any, **options: Any) -> AppendAck:
        return self._store.append_nowait(*arguments, **options)

    def data_appender(self, session_id: str, epoch: int) -> Callable[[object], int]:
        return self._store.data_appender(session_id, epoch)

    async def read(self, session_id: str, direction: Direction, **options: Any) -> RecordPage:
        return self._told(direction, await self._store.read(session_id, direction, **options))

    def follow(self, session_id: str, direction: Direction, *, after: int | None = None) -> _WatchedFollower:
        return _WatchedFollower(
            self._store.follow(session_id, direction, after=after), lambda page: self._told(direction, page)
        )

    def _told(self, direction: Direction, page: RecordPage) -> RecordPage:
        for record in page.records:
            self._plan.record("read", direction, record)
        return page

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _WatchedFollower:
    def __init__(self, follower: Any, told: Callable[[RecordPage], RecordPage]) -> None:
        self._follower, self._told = follower, told

    async def __aenter__(self) -> _WatchedFollower:
        await self._follower.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._follower.__aexit__(exc_type, exc, traceback)

    def __aiter__(self) -> _WatchedFollower:
        return self

    async def __anext__(self) -> RecordPage:
        return self._told(await self._follower.__anext__())
