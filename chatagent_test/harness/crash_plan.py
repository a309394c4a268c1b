"""Where a run is to die: behind the n-th thing that happens in it."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, TypeVar

from chatagent_test.harness.where import NO_USER_CODE, innermost_frame_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence

    from chatagent.session import Direction, Record

__all__ = ["CrashPlan"]

T = TypeVar("T")


class CrashPlan:
    """Counts what happens in the runs of one harness, and lets each die at its point.

    Args:
        points: how many things happen in the first run before it dies, in the one that continues it, and so on; runs
            behind the last point live.
        suspensions: whether the suspensions of the run's tasks are counted; records are otherwise.
    """

    def __init__(self, points: Sequence[int] = (), *, suspensions: bool = False) -> None:
        self.suspensions = suspensions
        self.strike: Callable[[], None] | None = None
        """Lets the run die at once; set while one is on."""
        self.reached: list[str] = []
        """The points at which a run has died, in words."""
        self._points = tuple(points)
        self._count = 0

    @property
    def is_over(self) -> bool:
        """Whether every point was reached."""
        return len(self.reached) == len(self._points)

    def record(self, verb: str, direction: Direction, record: Record) -> None:
        """Take it that a record was written or read."""
        if not self.suspensions:
            self._pass(lambda: f"{verb} record {record.seq} of .{direction} ({_content(record)})")

    def snapshot_saved(self) -> None:
        """Take it that a snapshot was saved."""
        if not self.suspensions:
            self._pass(lambda: "saved a snapshot")

    def suspended(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        """Take it that a task of the run waits, which does this."""
        if self.suspensions:
            self._pass(lambda: _place(coroutine))

    def around(self, fn: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
        """Do what a task of the run is to do, and count its suspensions."""

        async def work() -> Any:
            return await fn()

        return _counting_suspensions(work(), self)

    def _pass(self, describe: Callable[[], str]) -> None:
        if self.strike is None or self.is_over:
            return
        self._count += 1
        if self._count == self._points[len(self.reached)]:
            self.reached.append(f"{self._count}: {describe()}")
            self._count = 0
            strike, self.strike = self.strike, None
            strike()


def _place(coroutine: Coroutine[Any, Any, Any]) -> str:
    frame = innermost_frame_in(coroutine)
    return "suspended" if frame == NO_USER_CODE else f"suspended at {frame}"


def _content(record: Record) -> str:
    data: Any = record.data
    if data is None:
        return next(iter(dict(record.headers or ()).values()), "empty")
    if isinstance(data, dict):
        return str(data.get("kind") or data.get("type"))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    return str(getattr(data, "type", type(data).__name__))


@types.coroutine
def _counting_suspensions(coroutine: Coroutine[Any, Any, T], plan: CrashPlan) -> Generator[Any, Any, T]:
    """Run a coroutine and tell a plan each time it really waits.

    It opens nothing on the way and passes on what it gets, so it makes no difference on any backend.
    """
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            waits_for = coroutine.send(value) if error is None else coroutine.throw(error)
        except StopIteration as end:
            return end.value
        plan.suspended(coroutine)
        error = value = None
        try:
            value = yield waits_for
        except BaseException as thrown:  # noqa: BLE001 - whatever it is, it is the coroutine's
            error = thrown
