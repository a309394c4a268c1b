"""Tasks that belong to somebody: a task of its own outside everybody's task group, and the set of a run's tasks.

This is the one place of the code base that spawns without a task group. A run, and each of its tools and deferred
works, lives in an `OwnedTask`: its scope is entered and left in that task alone, so that a harness works in a fixture
whose setup and teardown run in different tasks. Whoever starts one closes it.
"""

from __future__ import annotations

import asyncio
import contextvars
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio
from anyio.lowlevel import current_token

from chatagent.waiting import Gate, Ledger

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Around", "OwnedTask", "TaskSet", "current_loop", "is_being_cancelled"]

Around: TypeAlias = "Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]"
"""Does what a task of that name is to do, and sees each of its steps."""


class OwnedTask:
    """A task outside everybody's task group, with a cancel scope of its own. It starts at once.

    What it raises is kept, and raised again by `wait`; only the backend's own cancellation passes through.

    Args:
        fn: the async function to run, without arguments.
        name: how the task is called in messages and debuggers.
        ledger: the ledger that counts it; `None` if nobody does.
        context: the context to run in; a copy of the caller's by default.
        on_end: called with the task when it has ended, before whoever waits for that goes on; it must not wait.
        stop: called by `end`; returns whether the function will end by itself at once, so that nobody need cancel it.
    """

    __slots__ = (
        "_done",
        "_home",
        "_ledger",
        "_loop",
        "_on_end",
        "_scope",
        "_stop",
        "_task",
        "_task_id",
        "cancelled",
        "error",
        "name",
        "result",
    )

    def __init__(
        self,
        fn: Callable[[], Awaitable[Any]],
        *,
        name: str,
        ledger: Ledger | None = None,
        context: contextvars.Context | None = None,
        on_end: Callable[[OwnedTask], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self.name = name
        self.error: BaseException | None = None
        self.result: Any = None
        self.cancelled = False
        """Whether it ended because it was cancelled."""
        self._scope = anyio.CancelScope()
        self._done = Gate(f"the end of {name}")
        self._ledger, self._on_end, self._stop = ledger, on_end, stop
        self._task_id: int | None = None
        self._home = current_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        if ledger is not None:
            ledger.expect()
        # An empty context is false, and still the one that was asked for.
        self._task = self._spawn(fn, contextvars.copy_context() if context is None else context)

    @property
    def done(self) -> bool:
        """Whether the task has ended."""
        return self._done.is_open

    @property
    def native_task(self) -> Any:
        """The backend's own task object, for those who want to see where it stands; `None` once it has ended."""
        return self._task

    @property
    def loop_is_here(self) -> bool:
        """Whether the caller works in the event loop in which the task lives."""
        try:
            return current_loop() == self._home
        except RuntimeError:
            return False

    @property
    def loop_is_gone(self) -> bool:
        """Whether that event loop was closed with the task still in it; a loop that ends in order ends its tasks."""
        return not self.done and self._loop is not None and self._loop.is_closed()

    def cancel(self) -> None:
        """Cancel what runs inside; does nothing once it has ended, or once its event loop is gone."""
        if not self.done and self.loop_is_here:
            self._scope.cancel()

    def end(self) -> None:
        """Let it stop by itself, if it can; else cancel it. Does nothing where `cancel` does nothing."""
        if self._stop is None or not self.loop_is_here or not self._stop():
            self.cancel()

    async def join(self) -> None:
        """Return when the task has ended, however it ended."""
        if self.loop_is_here:
            await self._done.wait()

    async def wait(self) -> Any:
        """Return what the function returned, or `None` if it was cancelled; raise what it raised.

        Raises:
            RuntimeError: its event loop is gone, so it will never end.
        """
        await self.join()
        if self.error is not None:
            raise self.error
        if not self.done:
            msg = f"{self.name} belongs to another event loop and will never end"
            raise RuntimeError(msg)
        return self.result

    async def close(self) -> None:
        """Cancel it and wait for its end, even if the caller is being cancelled. Errors stay in `error`."""
        self.cancel()
        with anyio.CancelScope(shield=True):
            await self.join()

    def _spawn(self, fn: Callable[[], Awaitable[Any]], context: contextvars.Context) -> Any:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            import trio.lowlevel

            return trio.lowlevel.spawn_system_task(self._main, fn, name=self.name, context=context)
        self._loop = loop
        task = loop.create_task(self._main(fn), name=self.name, context=context)
        task.add_done_callback(self._dropped)
        return task

    async def _main(self, fn: Callable[[], Awaitable[Any]]) -> None:
        try:
            if self._ledger is not None:
                self._task_id = self._ledger.enter()
            with self._scope:
                await self._keep(fn)
        finally:
            self._end()

    async def _keep(self, fn: Callable[[], Awaitable[Any]]) -> None:
        try:
            self.result = await fn()
        except anyio.get_cancelled_exc_class():
            self.cancelled = True
            raise
        except BaseException as exc:  # noqa: BLE001 - kept for the owner, which raises it in its own task
            self.error = _error_in(exc)
            self.cancelled = self.error is None

    def _dropped(self, _: object) -> None:
        """End a task that never ran: asyncio drops what it cancels before its first step, as it does when it closes."""
        if not self.done:
            self.cancelled = True
            self._end()

    def _end(self) -> None:
        self._task = self._stop = None  # they hold all that the task has worked on
        if self._on_end is not None:
            self._on_end(self)
        self._done.open()
        if self._ledger is not None:
            self._ledger.leave(self._task_id)


def current_loop() -> object:
    """Return what tells the current event loop from others; asyncio's own loop, since that is quick.

    Raises:
        RuntimeError: there is none.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return current_token()


class TaskSet:
    """The tasks of one owner, counted by one ledger. Closing it ends them all.

    Args:
        ledger: the ledger that counts the tasks.
        around: called with a task's name and function in the function's place, for whoever wants to see its steps.
    """

    __slots__ = ("_around", "_closed", "active", "ledger")

    def __init__(self, ledger: Ledger | None = None, *, around: Around | None = None) -> None:
        self.ledger = ledger or Ledger()
        self._around = around
        self.active: set[OwnedTask] = set()
        self._closed = False

    def start(
        self, fn: Callable[[], Awaitable[Any]], *, name: str, stop: Callable[[], bool] | None = None
    ) -> OwnedTask:
        """Start a task that ends with this set at the latest, in a copy of the caller's context.

        Args:
            fn: the async function to run.
            name: how the task is called.
            stop: see `OwnedTask`.
        """
        if self._closed:
            msg = f"cannot start {name}: its owner has ended"
            raise RuntimeError(msg)
        work = fn if self._around is None else partial(self._around, name, fn)
        task = OwnedTask(work, name=name, ledger=self.ledger, on_end=self.active.discard, stop=stop)
        if not task.done:
            self.active.add(task)
        return task

    async def close(self) -> None:
        """End all tasks and wait for that, even if the caller is being cancelled."""
        self._closed = True
        for task in tuple(self.active):
            task.end()
        with anyio.CancelScope(shield=True):
            for task in tuple(self.active):
                await task.join()


def is_being_cancelled() -> bool:
    """Return whether a cancellation that has just arrived was meant for the current task.

    On asyncio, awaiting another task or future that was cancelled raises the same exception. Trio has no such thing.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return True
    return task is None or task.cancelling() > 0


def _error_in(error: BaseException) -> BaseException | None:
    """Return what failed: without the cancellations that trio puts beside it, and out of groups of one."""
    rest: BaseException | None = error
    if isinstance(error, BaseExceptionGroup):
        rest = cast("BaseExceptionGroup[BaseException]", error).split(anyio.get_cancelled_exc_class())[1]
    return None if rest is None else _unwrapped(rest)


def _unwrapped(error: BaseException) -> BaseException:
    """Take an error out of the groups of one that task groups put around it."""
    inner: BaseException = error
    while isinstance(inner, BaseExceptionGroup):
        members = cast("tuple[BaseException, ...]", inner.exceptions)  # pyright: ignore[reportUnknownMemberType]
        if len(members) != 1:
            return error
        inner = members[0]
    return inner
