"""Running the tools of a step: each in a task of its own, results in the order in which they come (rules 6.4 to 6.7).

The tasks do not belong to the step. When a call is aborted its stream ends at once, while a tool may go on and finish;
it has the signal, and what it returns is dropped.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Generator, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import anyio
from pydantic_core import to_jsonable_python

from chatagent.errors import AbortError
from chatagent.generate.events import Callbacks, ToolExecutionEndEvent, ToolExecutionStartEvent, call_back
from chatagent.generate.parts import FullToolCall, FullToolError, FullToolResult
from chatagent.signals import AbortController, AbortSignal
from chatagent.timers import call_at
from chatagent.ui import UNSET, Unset
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from chatagent.clock import Clock
    from chatagent.generate.tools import Tool, ToolCallOptions
    from chatagent.tasks import TaskSet

__all__ = ["ToolRun", "ToolRunner"]

TIMEOUT_TEXT = "The operation was aborted due to timeout"


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A call that is to run."""

    call: FullToolCall
    tool: Tool
    value: object
    """The checked input."""
    options: ToolCallOptions
    timeout: float | None = None
    """Seconds after which the tool's signal is aborted."""


class ToolRunner:
    """Runs tools and hands out what comes of them.

    Args:
        tasks: where the tools run.
        clock: the clock of their timeouts.
        callbacks: `on_tool_execution_start` and `on_tool_execution_end` are called in the task of the tool.
        concurrency: how many may run at the same time; `None` for all.
    """

    __slots__ = ("_callbacks", "_clock", "_concurrency", "_done", "_queued", "_running", "_tasks", "_waiter")

    def __init__(self, tasks: TaskSet, clock: Clock, callbacks: Callbacks, concurrency: int | None) -> None:
        self._tasks, self._clock, self._callbacks, self._concurrency = tasks, clock, callbacks, concurrency
        self._queued: deque[ToolRun] = deque()
        self._running = 0
        self._done: deque[FullToolResult | FullToolError | BaseException] = deque()
        self._waiter: Waiter | None = None

    def start(self, runs: Iterable[ToolRun]) -> None:
        """Start the calls, as many at once as may run together."""
        self._queued.extend(runs)
        self._fill()

    def abandon(self) -> None:
        """Start no more calls; those that run go on by themselves."""
        self._queued.clear()

    async def next_output(self) -> FullToolResult | FullToolError | None:
        """Return the next result, error or preliminary result; `None` once all calls have ended.

        Raises:
            BaseException: a tool raised something that is no `Exception`, such as `KeyboardInterrupt`.
        """
        while not self._done:
            if not self._running:
                return None
            self._waiter = Waiter("the tools of the step")
            await self._waiter.wait()
        output = self._done.popleft()
        if isinstance(output, BaseException):
            raise output
        return output

    def _fill(self) -> None:
        while self._queued and (self._concurrency is None or self._running < self._concurrency):
            run = self._queued.popleft()
            self._running += 1
            self._tasks.start(lambda run=run: self._run(run), name=f"tool {run.call.tool_name}")

    def _put(self, output: FullToolResult | FullToolError | BaseException) -> None:
        self._done.append(output)
        if self._waiter is not None:
            self._waiter.wake()

    async def _run(self, run: ToolRun) -> None:
        output: FullToolResult | FullToolError | BaseException = tool_error(
            run.call, AbortError("the run that the tool belonged to has ended")
        )
        try:
            output = await self._observed(run)
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as exc:  # handed to the loop, which raises it in its own task
            output = exc
            raise
        finally:
            self._running -= 1
            self._put(output)
            self._fill()

    async def _observed(self, run: ToolRun) -> FullToolResult | FullToolError:
        """Run a tool between its two callbacks."""
        started = ToolExecutionStartEvent(tool_call=run.call, messages=run.options.messages)
        await call_back(self._callbacks.get("on_tool_execution_start"), started, name="on_tool_execution_start")
        start = self._clock.now()
        output = await self._limited(run)
        ended = ToolExecutionEndEvent(tool_call=run.call, output=output, seconds=self._clock.now() - start)
        await call_back(self._callbacks.get("on_tool_execution_end"), ended, name="on_tool_execution_end")
        return output

    async def _limited(self, run: ToolRun) -> FullToolResult | FullToolError:
        """Run a tool under its timeout, which aborts the tool's signal and nothing else."""
        if run.timeout is None:
            return await execute(run, self._put)
        controller = AbortController()
        signal = AbortSignal.any(run.options.abort_signal, controller.signal)
        take_back = call_at(
            self._clock,
            self._clock.now() + run.timeout,
            lambda: controller.abort(TimeoutError(TIMEOUT_TEXT)),
            kind="limit",
        )
        try:
            return await execute(replace(run, options=replace(run.options, abort_signal=signal)), self._put)
        finally:
            take_back()


async def execute(run: ToolRun, preliminary: Callable[[FullToolResult], None]) -> FullToolResult | FullToolError:
    """Run one tool.

    Args:
        run: the call.
        preliminary: called with each value that a generator tool yields.

    Returns:
        The final result, or the error if the tool raised one.
    """
    call, tool = run.call, run.tool
    assert tool.run is not None, "a tool without a function is answered by the client"
    try:
        output: object = tool.run(run.value, run.options)
        if inspect.isawaitable(output):
            output = await cast("Awaitable[object]", output)
        if isinstance(output, AsyncIterable | Generator):
            output = await _last_value(cast("Any", output), call, preliminary)
        else:
            output = _jsonable(output)
    except Exception as exc:  # noqa: BLE001 - a user's tool: what it raises is told to the model (rule 6.7)
        return tool_error(call, exc)
    return tool_result(call, output, dynamic=bool(call.dynamic))


def tool_result(
    call: FullToolCall, output: object | Unset, *, dynamic: bool | None, preliminary: bool | None = None
) -> FullToolResult:
    """Return a result of a tool that was run here."""
    return FullToolResult(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        input=call.input,
        output=output,
        dynamic=dynamic,
        preliminary=preliminary,
        tool_metadata=call.tool_metadata,
        provider_metadata=call.provider_metadata,
    )


def tool_error(call: FullToolCall, error: object) -> FullToolError:
    """Return the failure of a tool that was to run here."""
    return FullToolError(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        input=call.input,
        error=error,
        dynamic=bool(call.dynamic),
        tool_metadata=call.tool_metadata,
        provider_metadata=call.provider_metadata,
    )


async def _last_value(
    values: AsyncIterable[object] | Generator[object, None, None],
    call: FullToolCall,
    preliminary: Callable[[FullToolResult], None],
) -> object | Unset:
    """Hand out the values of a generator tool as they come, and return the last; `UNSET` if there was none."""
    last: object | Unset = UNSET
    dynamic = call.dynamic or None
    if isinstance(values, Generator):
        for value in values:
            last = _jsonable(value)
            preliminary(tool_result(call, last, dynamic=dynamic, preliminary=True))
        return last
    try:
        async for value in values:
            last = _jsonable(value)
            preliminary(tool_result(call, last, dynamic=dynamic, preliminary=True))
    finally:
        close = getattr(values, "aclose", None)
        if close is not None:
            with anyio.CancelScope(shield=True):
                await close()
    return last


def _jsonable(value: object) -> object:
    """Return what a tool returned as plain JSON data, since it goes to a model, into messages and over wires."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return to_jsonable_python(value)
