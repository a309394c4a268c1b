"""Runs as spans of OpenTelemetry: an observer that opens one when work begins and ends it when the work does.

A span is current exactly while its work goes on in that task, so what user code and SDKs record nests below it. What a
span is called and says is in `attributes.py`. This is the one module that imports OpenTelemetry's API, which does
nothing until a tracer provider is given to it, here or globally. Needs the extra `chatagent[otel]`.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent import HookCall, NullObserver, ReadWork, RunWork, TurnWork
from chatagent.errors import AbortError, MissingExtraError
from chatagent.telemetry.attributes import (
    attributes_of_read,
    attributes_of_report,
    attributes_of_work,
    hook_span_name,
    plain_text,
    span_name,
)

try:
    from opentelemetry import context as otel_context
    from opentelemetry import trace
except ImportError as exc:
    raise MissingExtraError(package="opentelemetry-api", extra="otel") from exc

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from chatagent.agent import RunInfo, TurnReport, Work
    from chatagent.telemetry.attributes import NamedWork

__all__ = ["OpenTelemetry"]

logger = logging.getLogger("chatagent")

CANCELLED = "cancelled"
"""What `error.type` and the status say of work that ended because its run was cancelled or killed."""


class OpenTelemetry:
    """Records runs as spans. Give it to an agent as `telemetry=…`, or to the surroundings of a run.

    Args:
        tracer_provider: makes the tracer; by default the global one, as it is when a run boots.
        record_content: whether spans show the beginning of users' texts, and the client data.
    """

    def __init__(self, *, tracer_provider: TracerProvider | None = None, record_content: bool = True) -> None:
        self._tracer_provider = tracer_provider
        self._record_content = record_content

    def observe(self, run: RunInfo) -> RunSpans:
        """Return what makes spans of a run; called once as the run is made."""
        tracer = trace.get_tracer("chatagent", tracer_provider=self._tracer_provider)
        return RunSpans(tracer, run, record_content=self._record_content)


@dataclass(slots=True)
class _OpenTurn:
    """The turn that is on."""

    span: Span
    outer: Span
    """What was current when it began."""
    has_settled: bool = False


class RunSpans(NullObserver):
    """The spans of one run. They lie on the run's clock; what fails here is logged, and changes nothing for the run."""

    def __init__(self, tracer: Tracer, run: RunInfo, *, record_content: bool) -> None:
        self._tracer, self._clock, self._record_content = tracer, run.clock, record_content
        self._of_all = {"gen_ai.conversation.id": plain_text(run.chat_id)}
        self._turn: _OpenTurn | None = None
        self._calls: dict[int, tuple[HookCall, Span]] = {}
        """The hook calls that are on, by the identity of their records."""

    def hook_started(self, call: HookCall) -> None:
        """Open the span of a call."""
        self._calls[id(call)] = (call, self._start(hook_span_name(call.name)))

    def hook_ended(self, call: HookCall) -> None:
        """End it, with what the call raised."""
        _, span = self._calls.pop(id(call))
        if call.outcome == "cancelled":
            self._mark_cancelled(span)
        elif call.error is not None:
            self._mark(span, call.error)
        self._end(span)

    def turn_settled(self, report: TurnReport) -> None:
        """Say on the turn's span how the turn went."""
        turn = self._turn
        if turn is None:
            return
        turn.has_settled = True
        with _harmless():
            turn.span.set_attributes(attributes_of_report(report))
        error = report.error if report.error is not None else report.stream_error
        if isinstance(error, BaseException):
            self._mark(turn.span, error)
        elif error is not None:
            with _harmless():
                turn.span.set_status(trace.StatusCode.ERROR, plain_text(str(error)))

    def waiting(self, *, suspended: bool) -> None:
        """Say on the span of the wait, which is current, that the run is put away."""
        if suspended:
            with _harmless():
                trace.get_current_span().add_event("suspended", timestamp=self._now())

    def noted(self, facts: Mapping[str, object]) -> None:
        """Say it on the turn's span; outside a turn on the current one."""
        span = trace.get_current_span() if self._turn is None else self._turn.span
        with _harmless():
            span.set_attributes({f"chat.{name}": _value(fact) for name, fact in facts.items()})

    def during(self, work: Work | HookCall) -> AbstractContextManager[object]:
        """Make the span of a hook call current, or open one for other work, current while the work goes on."""
        if isinstance(work, HookCall):
            return _current(self._calls[id(work)][1])
        if isinstance(work, RunWork):
            return self._whole_run()
        if isinstance(work, ReadWork):
            return self._reading(work)
        if isinstance(work, TurnWork):
            return self._turn_is_on(work)
        return self._working(work)

    @contextmanager
    def _whole_run(self) -> Generator[None]:
        """End with the run whatever was never told to have ended, such as a call that nobody came to await."""
        try:
            yield
        finally:
            calls, self._calls = self._calls, {}
            for _, span in calls.values():
                self._mark_cancelled(span)
                self._end(span)

    @contextmanager
    def _working(self, work: NamedWork, *, is_current: bool = True) -> Generator[Span]:
        span = self._start(span_name(work), attributes_of_work(work, with_content=self._record_content))
        try:
            with _current(span) if is_current else nullcontext():
                yield span
        except BaseException as exc:
            self._mark(span, exc)
            raise
        finally:
            self._end(span)

    @contextmanager
    def _turn_is_on(self, work: TurnWork) -> Generator[None]:
        outer = trace.get_current_span()
        with self._working(work, is_current=not work.is_open_ended) as span:
            turn = self._turn = _OpenTurn(span, outer)
            try:
                yield
                if not turn.has_settled and not work.is_open_ended:
                    self._mark_cancelled(span)
            finally:
                self._turn = None

    @contextmanager
    def _reading(self, read: ReadWork) -> Generator[None]:
        """Say on the boot's span, which is current, how long a read took and how much it found."""
        began_at = self._clock.now()
        try:
            yield
        finally:
            with _harmless():
                trace.get_current_span().set_attributes(attributes_of_read(read, self._clock.now() - began_at))

    def _start(self, name: str, attributes: Mapping[str, Any] | None = None) -> Span:
        with _harmless():
            facts = {**self._of_all, **(attributes or {})}
            return self._tracer.start_span(name, self._parent(), attributes=facts, start_time=self._now())
        return trace.INVALID_SPAN

    def _parent(self) -> Context:
        """Return the current context, with the turn in it if its span is not.

        That is so in the turns of custom agents, and in tasks that were started before the turn and live on, such as
        the one that reads input.
        """
        here, turn = otel_context.get_current(), self._turn
        current = trace.get_current_span(here)
        if turn is not None and (current is turn.outer or not current.is_recording()):
            return trace.set_span_in_context(turn.span, here)
        return here

    def _mark(self, span: Span, error: BaseException) -> None:
        """Say that the work failed; a stop of the user's is no failure."""
        if isinstance(error, AbortError):
            with _harmless():
                span.add_event("aborted", timestamp=self._now())
            return
        if not isinstance(error, Exception | KeyboardInterrupt | SystemExit):
            self._mark_cancelled(span)
            return
        with _harmless():
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(trace.StatusCode.ERROR, plain_text(str(error)))
            span.record_exception(error, timestamp=self._now())

    def _mark_cancelled(self, span: Span) -> None:
        with _harmless():
            span.set_attribute("error.type", CANCELLED)
            span.set_status(trace.StatusCode.ERROR, CANCELLED)

    def _end(self, span: Span) -> None:
        with _harmless():
            span.end(self._now())

    def _now(self) -> int:
        """Return the instant on the run's clock, in nanoseconds."""
        return int(self._clock.now() * 1e9)


@contextmanager
def _current(span: Span) -> Generator[None]:
    token = otel_context.attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        otel_context.detach(token)


@contextmanager
def _harmless() -> Generator[None]:
    """Log what a tracer, a span processor or a sampler raises: nothing of a run may depend on them."""
    try:
        yield
    except Exception:
        logger.exception("telemetry failed; the run goes on without it")


def _value(fact: object) -> Any:
    if isinstance(fact, str):
        return plain_text(fact)
    return fact if isinstance(fact, bool | int | float) else [plain_text(str(each)) for each in _members(fact)]


def _members(fact: object) -> Sequence[object]:
    return cast("Sequence[object]", fact) if isinstance(fact, list | tuple) else (fact,)
