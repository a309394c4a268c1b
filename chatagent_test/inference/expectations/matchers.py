"""Which requests an expectation is for, and why another is not one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.expectations import conditions
from chatagent_test.inference.log import LogEntry, RequestKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from chatagent_test.inference.expectations.classifying import RequestClassifier
    from chatagent_test.inference.expectations.conditions import Condition, Text

__all__ = ["RequestMatcher"]


@dataclass(frozen=True, slots=True)
class RequestMatcher:
    """Which requests are meant: an endpoint (or any), a kind (or either), and what the request says.

    Start with `RequestMatcher.any(endpoint)`: plain SDK calls carry none of the headers that mark user-facing turns.
    """

    endpoint: InferenceEndpoint | None
    """`None` for whichever of the inference endpoints is asked."""
    kind: RequestKind | None = None
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "endpoint", _endpoint(self.endpoint))

    @property
    def endpoints(self) -> tuple[InferenceEndpoint, ...]:
        """Where the requests that are meant may come."""
        return tuple(InferenceEndpoint) if self.endpoint is None else (self.endpoint,)

    @classmethod
    def any(cls, endpoint: InferenceEndpoint | None = None) -> RequestMatcher:
        """Return a matcher of every request to an endpoint, or to all three of them."""
        return cls(endpoint)

    @classmethod
    def foreground(cls, endpoint: InferenceEndpoint) -> RequestMatcher:
        """Return a matcher of the user-facing turns at an endpoint."""
        return cls(endpoint, RequestKind.FOREGROUND)

    @classmethod
    def auxiliary(cls, endpoint: InferenceEndpoint) -> RequestMatcher:
        """Return a matcher of the side work at an endpoint."""
        return cls(endpoint, RequestKind.AUXILIARY)

    def where(
        self,
        *,
        model: Text | None = None,
        last_user: Text | None = None,
        system: Text | None = None,
        tool_result: str | tuple[str | None, Text | None] | None = None,
        has_tool: str | None = None,
        stream: bool | None = None,
        json: Mapping[str, Any] | None = None,
        headers: Mapping[str, Text | None] | None = None,
        predicate: Callable[[LogEntry], object] | None = None,
    ) -> RequestMatcher:
        """Return a narrower matcher: all that is given must hold, beside what was asked before.

        Args:
            model: the whole name, or a pattern found in it.
            last_user: a string in the text of the last user message, or a pattern found in it.
            system: the same for system and developer messages, `instructions`, or `system`.
            tool_result: the id of a call that has a result in the request, or a pair of id and text (either `None`).
            has_tool: the name of a tool on offer.
            stream: whether a stream is asked for.
            json: members of the body; objects in it may have more, lists and all else must be equal.
            headers: whole values, patterns found in them, or `None` for a header that must not be there.
            predicate: a function of the log entry, called with the server's lock held: it must not wait.

        Raises:
            InvalidArgumentError: one of them is of another kind.
        """
        found = [
            conditions.model_is(model) if model is not None else None,
            conditions.last_user_says(last_user) if last_user is not None else None,
            conditions.system_says(system) if system is not None else None,
            conditions.tool_result_is(tool_result) if tool_result is not None else None,
            conditions.has_tool(has_tool) if has_tool is not None else None,
            conditions.streams(stream) if stream is not None else None,
            conditions.body_has(json) if json is not None else None,
            conditions.headers_are(headers) if headers is not None else None,
            conditions.satisfies(predicate) if predicate is not None else None,
        ]
        return replace(self, conditions=(*self.conditions, *(each for each in found if each is not None)))

    def matches(self, entry: LogEntry) -> bool:
        """Whether a request is one of those that are meant."""
        return (
            entry.path in [each.value for each in self.endpoints]
            and self.kind in (None, entry.kind)
            and all(condition.problem(entry) is None for condition in self.conditions)
        )

    def why_not(self, entry: LogEntry, classifier: RequestClassifier) -> str | None:
        """Return everything that keeps a request from being one of those that are meant; `None` if nothing does."""
        wanted = [each.value for each in self.endpoints]
        if entry.path not in wanted:
            return f"its endpoint is {entry.path}, wanted {' or '.join(wanted)}"
        problems: list[str] = []
        if self.kind not in (None, entry.kind) and entry.kind is not None:
            _, reason = classifier.decide(entry)
            problems.append(f"kind is {entry.kind.value} because {reason}")
        problems += [said for condition in self.conditions if (said := condition.problem(entry)) is not None]
        return "; ".join(problems) or None


def _endpoint(given: object) -> InferenceEndpoint | None:
    if given is None or isinstance(given, InferenceEndpoint):
        return given
    known = ", ".join(each.name for each in InferenceEndpoint)
    raise InvalidArgumentError(argument="endpoint", value=given, problem=f"it is an InferenceEndpoint: {known}")
