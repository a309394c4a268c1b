"""A tracer provider that remembers, for tests of spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from chatagent.telemetry import OpenTelemetry

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span

__all__ = ["Recorded"]


class Recorded(SpanProcessor):
    """Every span of one provider, in the order in which they were started."""

    def __init__(self, **options: Any) -> None:
        self.spans: list[ReadableSpan] = []
        self.ended: list[ReadableSpan] = []
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(self)
        self.telemetry = OpenTelemetry(tracer_provider=self.provider)
        self.tracer = self.provider.get_tracer("the user's")

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.spans.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    @property
    def open(self) -> list[str]:
        """The names of the spans that have not ended."""
        return [span.name for span in self.spans if span.end_time is None]

    @property
    def failed(self) -> dict[str, str | None]:
        """What the spans say that are marked as failed."""
        return {span.name: span.status.description for span in self.spans if not span.status.is_ok and is_marked(span)}

    def named(self, name: str) -> ReadableSpan:
        """Return the one span of this name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def attributes(self, name: str) -> dict[str, Any]:
        return dict(self.named(name).attributes or {})

    def exceptions(self, name: str) -> list[tuple[object, object]]:
        """Return type and message of each exception that is recorded on the one span of this name."""
        of = [event.attributes or {} for event in self.named(name).events if event.name == "exception"]
        return [(each["exception.type"], each["exception.message"]) for each in of]

    def events(self, name: str) -> list[str]:
        return [event.name for event in self.named(name).events]

    def seconds(self, name: str) -> float:
        """Return how long the one span of this name took."""
        span = self.named(name)
        assert span.end_time is not None
        assert span.start_time is not None
        return (span.end_time - span.start_time) / 1e9

    def parent(self, name: str) -> str | None:
        """Return the name of the parent of the one span of this name."""
        return self._parent(self.named(name))

    def tree(self) -> list[str]:
        """Return all names, each indented below its parent, a parent's children in the order of their beginning."""
        return [line for span in self.spans if self._parent(span) is None for line in self._lines(span, 0)]

    def _lines(self, span: ReadableSpan, depth: int) -> list[str]:
        children = [each for each in self.spans if each.parent is not None and span_id(each.parent) == span_id(span)]
        return ["  " * depth + span.name, *(line for each in children for line in self._lines(each, depth + 1))]

    def _parent(self, span: ReadableSpan) -> str | None:
        if span.parent is None:
            return None
        (parent,) = [each for each in self.spans if span_id(each) == span_id(span.parent)]
        return parent.name


def span_id(of: Any) -> int:
    context: Any = of.context if isinstance(of, ReadableSpan) else of
    return context.span_id


def is_marked(span: ReadableSpan) -> bool:
    return span.status.status_code.name == "ERROR"
