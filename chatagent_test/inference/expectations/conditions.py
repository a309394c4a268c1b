"""What a request must say: conditions on its content, each of which can tell why it is not met."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.checks import need, need_function
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.reading import last_user_text, system_text, tool_names, tool_results

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent_test.inference.log import LogEntry

__all__ = ["Condition", "Text", "difference"]

Text: TypeAlias = str | re.Pattern[str]
"""A string that must be in a text, or a pattern that must be found in it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One demand on a request."""

    argument: str
    """The argument of `where` that it comes from."""
    problem: Callable[[LogEntry], str | None]
    """Says why a request does not meet it; `None` if it does."""


def model_is(wanted: Text) -> Condition:
    """The model's whole name, or a pattern found in it."""
    _need_text("model", wanted)

    def problem(entry: LogEntry) -> str | None:
        model = entry.members.get("model")
        if isinstance(wanted, str):
            return None if model == wanted else f"model is {model!r}, wanted {wanted!r}"
        found = isinstance(model, str) and wanted.search(model)
        return None if found else f"model is {model!r}, wanted {_told(wanted)}"

    return Condition("model", problem)


def last_user_says(wanted: Text) -> Condition:
    """Text in the last user message."""
    _need_text("last_user", wanted)

    def problem(entry: LogEntry) -> str | None:
        return _text_problem("the last user message", last_user_text(_endpoint(entry), entry.members), wanted)

    return Condition("last_user", problem)


def system_says(wanted: Text) -> Condition:
    """Text in what the model is told beforehand."""
    _need_text("system", wanted)

    def problem(entry: LogEntry) -> str | None:
        return _text_problem("the system prompt", system_text(_endpoint(entry), entry.members), wanted)

    return Condition("system", problem)


def tool_result_is(given: str | tuple[str | None, Text | None]) -> Condition:
    """A tool result of this call, with this text."""
    kind = "the id of a call, or a pair of id and text"
    pair = (given, None) if isinstance(given, str) else given
    need("tool_result", pair, tuple, kind)
    if len(cast("tuple[object, ...]", pair)) != 2:
        raise InvalidArgumentError(argument="tool_result", value=given, problem=f"it is {kind}")
    call_id, wanted = pair
    need("tool_result", call_id, str | None, kind)
    if wanted is not None:
        _need_text("tool_result", wanted)

    def problem(entry: LogEntry) -> str | None:
        results = tool_results(_endpoint(entry), entry.members)
        ids = [result.call_id for result in results]
        of_call = [result for result in results if call_id in (None, result.call_id)]
        if not of_call:
            return f"there is no tool result of call {call_id!r}, but of {ids!r}" if ids else "there is no tool result"
        if wanted is None or any(_says(result.text, wanted) for result in of_call):
            return None
        texts = [result.text for result in of_call]
        return f"the tool result is {_short(texts)}, wanted {_told(wanted)}"

    return Condition("tool_result", problem)


def has_tool(name: str) -> Condition:
    """A tool on offer."""
    need("has_tool", name, str, "the name of a tool")

    def problem(entry: LogEntry) -> str | None:
        names = tool_names(entry.members)
        return None if name in names else f"the tools are {names!r}, wanted {name!r} among them"

    return Condition("has_tool", problem)


def streams(wanted: bool) -> Condition:  # noqa: FBT001 - the value that is looked for, not a switch
    """Whether a stream is asked for."""
    need("stream", wanted, bool, "true or false")

    def problem(entry: LogEntry) -> str | None:
        return None if entry.streams is wanted else f"stream is {entry.streams}, wanted {wanted}"

    return Condition("stream", problem)


def body_has(wanted: Mapping[str, Any]) -> Condition:
    """Members of the body."""
    need("json", wanted, Mapping, "the members that the body must have")
    members = dict(wanted)

    def problem(entry: LogEntry) -> str | None:
        return difference(members, entry.body)

    return Condition("json", problem)


def headers_are(wanted: Mapping[str, Text | None]) -> Condition:
    """Headers: a whole value, a pattern found in it, or `None` for one that must not be there."""
    need("headers", wanted, Mapping, "values and patterns by name")
    for name, value in wanted.items():
        need("headers", name, str, "values and patterns by name")
        if value is not None:
            _need_text(f"headers[{name!r}]", value)

    def problem(entry: LogEntry) -> str | None:
        for name, value in wanted.items():
            found = entry.header(name)
            is_met = found == value if value is None or isinstance(value, str) else bool(found and value.search(found))
            if not is_met:
                asked = "absent" if value is None else _told(value, whole=True)
                return f"header {name} is {'absent' if found is None else repr(found)}, wanted {asked}"
        return None

    return Condition("headers", problem)


def satisfies(predicate: Callable[[LogEntry], object]) -> Condition:
    """A function of the test."""
    need_function("predicate", predicate, "a function of the log entry")

    def problem(entry: LogEntry) -> str | None:
        name = getattr(predicate, "__name__", repr(predicate))
        return None if predicate(entry) else f"the predicate {name} says no"

    return Condition("predicate", problem)


def difference(wanted: object, found: object, path: str = "body") -> str | None:
    """Return where a JSON value lacks what is wanted of it: objects may have more members, all else is equal."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return f"{path} is {_short(found)}, wanted an object"
        there = cast("dict[str, object]", found)
        for key, value in cast("dict[str, object]", wanted).items():
            if key not in there:
                return f"{path} has no member {key!r}, wanted {_short(value)}"
            problem = difference(value, there[key], f"{path}.{key}")
            if problem is not None:
                return problem
        return None
    if isinstance(wanted, list) and isinstance(found, list):
        return _list_difference(cast("list[object]", wanted), cast("list[object]", found), path)
    is_equal = wanted == found and isinstance(wanted, bool) == isinstance(found, bool)
    return None if is_equal else f"{path} is {_short(cast('Any', found))}, wanted {_short(cast('Any', wanted))}"


def _list_difference(wanted: list[object], found: list[object], path: str) -> str | None:
    if len(wanted) != len(found):
        return f"{path} has {len(found)} elements, wanted {len(wanted)}"
    problems = (difference(*pair, f"{path}[{index}]") for index, pair in enumerate(zip(wanted, found, strict=True)))
    return next((problem for problem in problems if problem is not None), None)


def _need_text(argument: str, wanted: object) -> None:
    need(argument, wanted, str | re.Pattern, "a string, or a compiled pattern")


def _endpoint(entry: LogEntry) -> InferenceEndpoint:
    return InferenceEndpoint(entry.path)


def _text_problem(what: str, text: str | None, wanted: Text) -> str | None:
    if text is None:
        return f"there is no text in {what}"
    return None if _says(text, wanted) else f"{what} is {_short(text)}, wanted {_told(wanted)}"


def _says(text: str, wanted: Text) -> bool:
    return wanted in text if isinstance(wanted, str) else wanted.search(text) is not None


def _told(wanted: Text, *, whole: bool = False) -> str:
    if isinstance(wanted, str):
        return repr(wanted) if whole else f"{wanted!r} in it"
    return f"a match of /{wanted.pattern}/"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."
