"""A call of `stream_text` at work: one coroutine that runs step after step and pushes every part through plain calls.

Whoever wants the parts first starts it: `pump` of a UI stream runs it in its own task, a reader starts an owned task.
All of it stands under one cancel scope, so that an abort ends a wait for the model or for a tool at once. Follows
sections 5, 8 and 9; what happens inside a step is in `step.py`.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import anyio
from anyio.lowlevel import checkpoint

from chatagent.current import current_clock, current_tasks
from chatagent.errors import AbortError, InvalidPromptError, NoOutputGeneratedError, ToolError
from chatagent.generate.blocks import BlockIds
from chatagent.generate.continuation import continue_approvals
from chatagent.generate.emitter import Emitter
from chatagent.generate.events import AbortEvent, EndEvent, StartEvent, StepErrorEvent, call_back, log_error
from chatagent.generate.execution import ToolRunner
from chatagent.generate.log import PartLog
from chatagent.generate.outcome import Outcome
from chatagent.generate.parts import FullAbort, FullError, FullFinish, FullStart
from chatagent.generate.step import Conversation, FinishedStep, StepFailedError, run_step
from chatagent.generate.stop import should_stop
from chatagent.generate.stopped import Stopped
from chatagent.generate.texts import abort_error, abort_text
from chatagent.generate.timeouts import Deadlines
from chatagent.generate.tools import ToolCallOptions
from chatagent.model import LanguageModelUsage, ModelMessage, add_usage
from chatagent.model.standardize import standardize_prompt
from chatagent.signals import AbortController, AbortSignal
from chatagent.tasks import OwnedTask, TaskSet, current_loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Mapping, Sequence

    from chatagent.generate.settings import Plan

__all__ = ["Call"]

CLOSE_GRACE = 5.0
"""Real seconds that a model's stream has to close before it is left alone."""

CLOSED_TEXT = "the stream was closed before its end"


class Call:
    """One call at work.

    Args:
        plan: everything that it was made with.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = current_clock()
        run_tasks = current_tasks()
        self._owns_tasks = run_tasks is None
        self.tasks = run_tasks or TaskSet()
        """Where the loop and the tools run: the run's tasks, or tasks of this call alone."""
        self._controller = AbortController()
        self.signal = AbortSignal.any(plan.abort_signal, self._controller.signal)
        """Aborted by the caller, by a limit, and when nobody reads any more."""
        self.log = PartLog(on_demand=self.ensure_started, on_abandoned=self._abandon)
        self._callbacks: dict[str, Any] = {**plan.callbacks}
        self.emitter = Emitter(self.log, plan.callbacks.get("on_chunk"), plan.transforms)
        self.outcome = Outcome()
        self.deadlines = Deadlines(plan.timeout, self.clock, self._controller.abort)
        self.runner = ToolRunner(
            self.tasks,
            self.clock,
            concurrency=plan.tool_call_concurrency,
            on_late_end=plan.callbacks.get("on_tool_execution_end"),
        )
        self.texts, self.reasonings = BlockIds(plan.generate_id), BlockIds(plan.generate_id)
        self.runtime_context: Mapping[str, object] = plan.runtime_context
        self.tools_context: Mapping[str, object] = plan.tools_context
        self.deferred: set[str] = set()
        """Calls that the provider runs and answers in a later step."""
        self.open_stream: AsyncIterable[object] | None = None
        """The model's stream that is being read."""
        self.is_in_step = False
        """`on_step_start` has been called for a step that has no result yet."""
        self.is_started = False
        self.is_stopped = False
        """The call was aborted or closed; nothing more is taken from the model."""
        self.is_closed = False
        """It was closed, or the task that ran it was cancelled, before its end."""
        self._is_over = False
        """The last part has been made; an abort comes too late."""
        self._protected = 0
        self._scope: anyio.CancelScope | None = None
        self._task: OwnedTask | None = None
        self._loop: object = None

    # Starting and stopping ----------------------------------------------------------------------------------------

    def ensure_started(self) -> None:
        """Start the loop in an owned task, unless it has been started."""
        if not self.is_started:
            self.is_started = True
            self._task = self.tasks.start(self._drive, name="stream_text")

    async def drive(self) -> None:
        """Run the loop in the current task; only if it has not been started."""
        assert not self.is_started, "the loop of a call runs once"
        self.is_started = True
        await self._drive()

    def close(self) -> None:
        """End the call without a word: nobody reads it any more. Does nothing once it has ended."""
        if self.log.ended or self.is_closed:
            return
        self.is_closed = True
        self._controller.abort(AbortError(CLOSED_TEXT))
        if not self.is_started:
            self.is_started = True
            self._settle_closed()

    async def aclose(self) -> None:
        """End the call, and its tools if they are its own."""
        self.close()
        if self._task is not None:
            await self._task.join()
        if self._owns_tasks:
            await self.tasks.close()

    def stop_if_aborted(self) -> None:
        """Unwind the loop if the call was aborted, even before it began.

        Raises:
            Stopped: the call was aborted.
        """
        if self.signal.aborted:
            self.is_stopped = True
            raise Stopped

    def check_stopped(self) -> None:
        """Do nothing, or unwind the loop.

        Raises:
            Stopped: the call was aborted or closed.
        """
        if self.is_stopped:
            raise Stopped

    def _abandon(self) -> None:
        """Close the call because its last reader was dropped, perhaps after the event loop has gone."""
        try:
            is_here = current_loop() == self._loop
        except RuntimeError:
            is_here = False
        if is_here:
            self.close()

    def _stop(self) -> None:
        if self._is_over:
            return
        self.is_stopped = True
        if self._scope is not None and not self._protected:
            self._scope.cancel()

    # For the steps ------------------------------------------------------------------------------------------------

    async def notify(self, name: str, event: object) -> None:
        """Call one of the call's callbacks and wait for it. An abort meanwhile takes effect when it has returned."""
        callback = self._callbacks.get(name)
        if callback is not None:
            await self._protect(call_back(callback, event, name=name))

    async def flush(self) -> None:
        """Await what the last parts have left to be awaited."""
        pending = self.emitter.pending
        while pending:
            await self._protect(pending.pop(0))

    async def report(self, error: object) -> None:
        """Pass an error on in the stream, and tell `on_error` of it."""
        self.emitter.emit(FullError(error=error))
        await self.report_error(error)

    async def report_error(self, error: object) -> None:
        """Tell `on_error` of an error; without one it is logged."""
        on_error = self.plan.callbacks.get("on_error") or log_error
        await self._protect(call_back(on_error, error, name="on_error"))

    def told_tool(self, callback: Callable[[Any], object] | None, event: Callable[[], object]) -> Any:
        """Return what to await so that a callback of a tool hears of its input; `None` if there is no callback."""
        if callback is None:
            return None
        return self._protect(call_back(callback, event(), name="a callback of a tool's input"))

    def tool_options(self, tool_call_id: str, tool_name: str, messages: Sequence[ModelMessage]) -> ToolCallOptions:
        """Return what a tool is told besides its input."""
        tool = self.plan.tools.get(tool_name)
        return ToolCallOptions(
            tool_call_id=tool_call_id,
            messages=messages,
            abort_signal=self.signal,
            context=self.tools_context.get(tool_name),
            suspends={} if tool is None else tool.suspends,
        )

    async def close_stream(self) -> None:
        """Close the model's stream, if it can be closed; one that hangs is left alone after a while."""
        stream, self.open_stream = self.open_stream, None
        close = getattr(stream, "aclose", None)
        if close is None or (inspect.isasyncgen(stream) and stream.ag_frame is None):
            return
        with anyio.move_on_after(CLOSE_GRACE, shield=True):
            try:
                made = close()
                if inspect.isawaitable(made):
                    await made
            except Exception as exc:  # noqa: BLE001 - the stream has been read; how it closes changes nothing
                log_error(exc)

    async def _protect(self, work: Any) -> None:
        """Await something of the user's that an abort must not cut in two."""
        self._protected += 1
        try:
            await work
        finally:
            self._protected -= 1
        self.check_stopped()

    # The loop -----------------------------------------------------------------------------------------------------

    async def _drive(self) -> None:
        if self.is_closed:
            self._settle_closed()
            return
        self._loop = current_loop()
        # A call that was aborted before it began goes as far as the model, so that its stream has a start (rule 8.4).
        unsubscribe = None if self.signal.aborted else self.signal.add_callback(self._stop)
        self.deadlines.call_begins()
        try:
            await self._run_in_scope()
            if self.is_stopped and not self.log.ended:
                await self._end_stopped()
        except BaseException as exc:
            self._interrupted(exc)
            raise
        finally:
            if unsubscribe is not None:
                unsubscribe()
            self.deadlines.call_ends()
            self.runner.abandon()
            self.emitter.drop_pending()
            await self.close_stream()

    async def _run_in_scope(self) -> None:
        try:
            with anyio.CancelScope() as scope:
                self._scope = scope
                await self._run()
        except Stopped:
            pass
        except Exception as exc:  # noqa: BLE001 - the model's stream failed: readers raise it (rule 9.4)
            if not self.is_stopped:
                await self._break_off(exc)
        finally:
            self._scope = None

    async def _run(self) -> None:
        conversation = await self._begin()
        while conversation is not None:
            try:
                step = await run_step(self, conversation)
                goes_on = await self._goes_on(step)
            except StepFailedError as failed:
                self.check_stopped()
                await self._fail(failed)
                return
            self.check_stopped()
            if not goes_on:
                await self._finish()
                return

    async def _begin(self) -> Conversation | None:
        """Check what the call was made with, and act on approvals; `None` if the call has failed."""
        plan = self.plan
        try:
            standard = standardize_prompt(
                prompt=plan.prompt,
                messages=plan.messages,
                instructions=plan.instructions,
                allow_system_in_messages=plan.allow_system_in_messages,
            )
        except InvalidPromptError as exc:
            self.emitter.emit(FullStart())
            await self._fail(StepFailedError(exc, has_begun=False))
            return None
        started = StartEvent(
            model=plan.step.model,
            instructions=standard.instructions,
            messages=standard.messages,
            runtime_context=self.runtime_context,
        )
        await self.notify("on_start", started)
        self.emitter.emit(FullStart())
        await self.flush()
        conversation = Conversation(standard.instructions, standard.messages, standard.instructions, standard.messages)
        try:
            told = await continue_approvals(self, standard.messages)
        except ToolError as exc:
            await self._fail(StepFailedError(exc, has_begun=False))
            return None
        if told is not None:
            self.outcome.initial_messages = (told,)
            conversation.messages = (*conversation.messages, told)
        if self.runner.suspended:
            await self._end_waiting()
            return None
        return conversation

    async def _end_waiting(self) -> None:
        """End the call before its first step: a tool that was to go on has asked something else."""
        total = LanguageModelUsage()
        self._is_over = True
        self.emitter.emit(FullFinish(finish_reason="tool-calls", raw_finish_reason=None, total_usage=total))
        await self.flush()
        self.outcome.resolve("tool-calls", total)
        await self._tell_end(total)
        self.log.end()

    async def _goes_on(self, step: FinishedStep) -> bool:
        """Return whether another step runs (rule 5.3)."""
        if step.result.finish_reason == "interrupted" or step.client_calls != step.answered:
            return False
        if not step.client_calls and not self.deferred:
            return False
        try:
            return not await should_stop(self.plan.stop_when, tuple(self.outcome.steps))
        except Exception as exc:
            raise StepFailedError(exc, has_begun=False) from exc

    async def _finish(self) -> None:
        steps = self.outcome.steps
        last, total = steps[-1], LanguageModelUsage()
        for step in steps:
            total = add_usage(total, step.usage)
        self._is_over = True
        self.emitter.emit(
            FullFinish(finish_reason=last.finish_reason, raw_finish_reason=last.raw_finish_reason, total_usage=total)
        )
        await self.flush()
        self.outcome.resolve(last.finish_reason, total)
        await self._tell_end(total)
        self.log.end()

    async def _fail(self, failed: StepFailedError) -> None:
        """End the call because a step gave no result (rules 5.10 and 9.1)."""
        error = failed.error
        self._is_over = True
        self.emitter.emit(FullError(error=error))
        await self.flush()
        # Of the first step's call that fails, the step is told first; of all others, the call.
        is_first_call = not self.outcome.steps and not failed.is_empty_stream
        if is_first_call:
            await self._tell_step_error(failed)
        await self.report_error(error)
        if not is_first_call:
            await self._tell_step_error(failed)
        if failed.is_empty_stream:
            self.outcome.reject(error)
        elif self.outcome.steps:
            self.outcome.resolve("other", LanguageModelUsage())
            await self._tell_end(LanguageModelUsage())
        else:
            nothing = NoOutputGeneratedError("No output generated. Check the stream for errors.")
            nothing.__cause__ = error
            self.outcome.reject(nothing, messages_error=error)
        self.log.end()

    async def _tell_step_error(self, failed: StepFailedError) -> None:
        if failed.has_begun:
            number = len(self.outcome.steps)
            await self.notify("on_step_error", StepErrorEvent(step_number=number, error=failed.error))

    async def _break_off(self, error: Exception) -> None:
        """End the call because the model's stream, or reading it, has failed (rule 9.4)."""
        self._is_over = True
        if self.is_in_step:
            failed = StepErrorEvent(step_number=len(self.outcome.steps), error=error)
            await call_back(self.plan.callbacks.get("on_step_error"), failed, name="on_step_error")
        self.outcome.reject(error)
        self.log.end(error)

    async def _tell_end(self, total: LanguageModelUsage) -> None:
        ended = EndEvent(
            steps=tuple(self.outcome.steps),
            total_usage=total,
            response_messages=self.outcome.response_messages,
        )
        await call_back(self.plan.callbacks.get("on_end"), ended, name="on_end")

    async def _end_stopped(self) -> None:
        """End the call after an abort, or because nobody reads it any more."""
        self.emitter.drop_pending()
        if self.is_closed:
            self._settle_closed()
            return
        await checkpoint()  # Whoever waits for the signal hears first, so that their last words come before the end.
        reason = self.signal.reason
        self.emitter.pass_on(FullAbort(reason=abort_text(reason)))
        self.outcome.reject(abort_error(reason))
        for wait in self.emitter.pending:
            await wait
        self.emitter.pending.clear()
        aborted = AbortEvent(steps=tuple(self.outcome.steps), reason=AbortError() if reason is None else reason)
        await call_back(self.plan.callbacks.get("on_abort"), aborted, name="on_abort")
        self.log.end()

    def _settle_closed(self) -> None:
        error = AbortError(CLOSED_TEXT)
        self.outcome.reject(error)
        self.log.end(error)

    def _interrupted(self, exc: BaseException) -> None:
        """Leave nobody waiting when the task that runs the loop is cancelled, or something beyond errors is raised."""
        self.is_closed = self.is_stopped = True
        cancelled = isinstance(exc, anyio.get_cancelled_exc_class())
        error = AbortError(CLOSED_TEXT) if cancelled else exc
        self.outcome.reject(error)
        self.log.end(error)
        self._controller.abort(error)
