"""Running the tools of a step: each in a task of its own, results in the order in which they come (rules 6.4 to 6.7).

The tasks do not belong to the step. When a call is aborted its stream ends at once, while a tool may go on and finish;
it has the signal, and what it returns is dropped.
"""

from __future__ import annotations

import contextlib
import inspect
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Generator, Iterable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import anyio
from pydantic_core import to_jsonable_python

from chatagent.current import working_on
from chatagent.errors import AbortError
from chatagent.generate.events import ToolExecutionEndEvent, ToolExecutionStartEvent, call_back
from chatagent.generate.parts import FullToolCall, FullToolError, FullToolResult
from chatagent.generate.suspension import ToolSuspendedSignal
from chatagent.generate.texts import error_text
from chatagent.generate.timeouts import TIMEOUT_TEXT
from chatagent.signals import AbortController, AbortSignal
from chatagent.timers import call_at
from chatagent.ui import UNSET, Unset
from chatagent.ui.js_json import format_json
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from chatagent.clock import Clock
    from chatagent.generate.tools import Tool, ToolCallOptions
    from chatagent.tasks import TaskSet

__all__ = ["ToolRun", "ToolRunner"]

Notify: TypeAlias = Callable[[str, object], Awaitable[None]]


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


class _Output(NamedTuple):
    """Something that came of a tool. What compares lower is handed out first."""

    at: float
    beat: float
    """How many outputs of the call came before it, and how long an output of its kind takes behind them."""
    order: int
    """The place of the call among the others."""
    number: int
    """Counts the outputs, so that no two of them compare equal this far."""
    part: FullToolResult | FullToolError
    ended: ToolExecutionEndEvent | None
    """`None` for a preliminary result."""
    raised: BaseException | None


class ToolRunner:
    """Runs tools and hands out what comes of them.

    What comes at the same instant of the clock is handed out in turns, in call order, so that a run on a virtual clock
    is the same each time, however the event loop orders its tasks: preliminary results at once, the end of a call a
    little later, an error before a result. For the same reason they start one after the other.

    Args:
        tasks: where the tools run.
        clock: the clock of their timeouts.
        concurrency: how many may run at the same time; `None` for all.
        on_late_end: `on_tool_execution_end`, for tools that end when nobody waits for them any more.
    """

    __slots__ = (
        "_clock",
        "_concurrency",
        "_count",
        "_is_abandoned",
        "_on_late_end",
        "_order",
        "_outputs",
        "_queued",
        "_running",
        "_tasks",
        "_turns",
        "_waiter",
        "suspended",
    )

    def __init__(
        self,
        tasks: TaskSet,
        clock: Clock,
        *,
        concurrency: int | None,
        on_late_end: Callable[[ToolExecutionEndEvent], object] | None,
    ) -> None:
        self._tasks, self._clock, self._concurrency = tasks, clock, concurrency
        self._on_late_end = on_late_end
        self._queued: deque[ToolRun] = deque()
        self._order: dict[str, int] = {}
        self._turns: dict[str, int] = {}
        self._running = 0
        self._outputs: list[_Output] = []
        """A heap."""
        self._count = 0
        self._waiter: Waiter | None = None
        self._is_abandoned = False
        self.suspended = 0
        """How many calls have asked the client something, and wait."""

    async def start(self, runs: Iterable[ToolRun], notify: Notify) -> None:
        """Start the calls, as many at once as may run together; the others follow as these end.

        Args:
            runs: the calls.
            notify: calls one of the callbacks of `stream_text`, by name, in the task of its loop.
        """
        for run in runs:
            self._order[run.call.tool_call_id] = len(self._order)
            self._queued.append(run)
        await self._fill(notify)

    def abandon(self) -> None:
        """Start no more calls; those that run go on by themselves."""
        self._is_abandoned = True
        self._queued.clear()
        untold = [output.ended for output in self._outputs if output.ended is not None]
        if untold and self._on_late_end is not None:
            with contextlib.suppress(RuntimeError):  # the run that the tools belonged to has ended
                self._tasks.start(lambda: self._tell_late(untold), name="on_tool_execution_end")

    async def next_output(self, notify: Notify) -> FullToolResult | FullToolError | None:
        """Return the next result, error or preliminary result; `None` once all calls have ended.

        Args:
            notify: see `start`.

        Raises:
            BaseException: a tool raised something that is no `Exception`, such as `KeyboardInterrupt`.
        """
        while True:
            if self._outputs:
                return await self._take(notify)
            await self._fill(notify)
            if self._outputs:
                continue
            if not self._running:
                return None
            self._waiter = Waiter("the tools of the step")
            await self._waiter.wait()

    async def _fill(self, notify: Notify) -> None:
        ready: list[ToolRun] = []
        while self._queued and (self._concurrency is None or self._running + len(ready) < self._concurrency):
            run = self._queued.popleft()
            started = ToolExecutionStartEvent(tool_call=run.call, messages=run.options.messages)
            await notify("on_tool_execution_start", started)
            ready.append(run)
        for run in ready:
            begun = Waiter("the start of a tool")
            self._running += 1
            self._tasks.start(lambda run=run, begun=begun: self._run(run, begun), name=f"tool {run.call.tool_name}")
            if len(ready) > 1:
                await begun.wait()

    async def _take(self, notify: Notify) -> FullToolResult | FullToolError:
        first = heappop(self._outputs)
        if first.raised is not None:
            raise first.raised
        if first.ended is not None:
            await notify("on_tool_execution_end", first.ended)
        return first.part

    def _put(
        self,
        part: FullToolResult | FullToolError,
        ended: ToolExecutionEndEvent | None = None,
        raised: BaseException | None = None,
    ) -> None:
        self._count += 1
        call_id = part.tool_call_id
        turn = self._turns[call_id] = self._turns.get(call_id, -1) + 1
        beat = turn + _lag(part)
        heappush(
            self._outputs, _Output(self._clock.now(), beat, self._order[call_id], self._count, part, ended, raised)
        )
        if self._waiter is not None:
            self._waiter.wake()

    async def _run(self, run: ToolRun, begun: Waiter) -> None:
        begun.wake()
        begun_at = self._clock.now()
        part: FullToolResult | FullToolError = tool_error(
            run.call, AbortError("the run that the tool belonged to has ended")
        )
        raised: BaseException | None = None
        is_suspended = False
        try:
            with working_on(f"tool {run.call.tool_name!r}"):
                part = await self._limited(run)
        except ToolSuspendedSignal:
            is_suspended = True
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as exc:  # handed to the loop, which raises it in its own task
            raised = exc
            raise
        finally:
            self._running -= 1
            ended = ToolExecutionEndEvent(tool_call=run.call, output=part, seconds=self._clock.now() - begun_at)
            if is_suspended:
                self._let_wait()
            else:
                self._put(part, ended, raised)
        if self._is_abandoned and not is_suspended:
            await self._tell_late([ended])

    def _let_wait(self) -> None:
        """Take it that a call has ended without an outcome: the client is asked."""
        self.suspended += 1
        if self._waiter is not None:
            self._waiter.wake()

    async def _tell_late(self, events: Iterable[ToolExecutionEndEvent]) -> None:
        for event in events:
            await call_back(self._on_late_end, event, name="on_tool_execution_end")

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


def _lag(part: FullToolResult | FullToolError) -> float:
    if isinstance(part, FullToolError):
        return 2
    return 0 if part.preliminary else 2.5


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


def invalid_call_error(call: FullToolCall) -> FullToolError:
    """Return what is said of a call that cannot run because the model wrote it wrongly (rule 6.2)."""
    return FullToolError(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        input=call.input,
        error=error_text(call.error),
        dynamic=True,
        title=call.title,
        tool_metadata=call.tool_metadata,
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
    if value is None or isinstance(value, str | bool | int):
        return value
    plain = to_jsonable_python(value)
    format_json(plain)  # raises for what no client could read, such as a number that is not finite
    return plain
