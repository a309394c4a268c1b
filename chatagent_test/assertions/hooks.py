"""`assert_hooks`: which hooks were called in a turn, in which order, and how they went."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from chatagent.agent import HookCall
from chatagent.errors import InvalidArgumentError
from chatagent_test.assertions.alignment import Comparison
from chatagent_test.assertions.matching import differences, fits, items_of
from chatagent_test.harness import ChatAgentHarness, Turn

if TYPE_CHECKING:
    from types import EllipsisType

__all__ = ["ExpectedHook", "assert_hooks"]

ExpectedHook: TypeAlias = "str | Mapping[str, Any] | HookCall | EllipsisType"
"""A name; some attributes of the call; a call; or `...` for any number of calls."""

_FIELDS = tuple(each.name for each in dataclasses.fields(HookCall))


def assert_hooks(turn: Turn | ChatAgentHarness | Sequence[HookCall], expected: Sequence[ExpectedHook]) -> None:
    """Check the hook calls of a turn, in order; `run` and a `tools` function count too.

    Args:
        turn: the turn; or a harness, for all its calls, those of the boot included; or calls.
        expected: one item a call. A string is the hook's name, however the call went; a dict holds attributes of the
            `HookCall` and what they must be, such as `{"name": "run", "outcome": "raised", "error": LookupError}`,
            where `event` may be a dict of attributes itself; `...` stands for any number of calls, none included.

    Raises:
        AssertionError: they are not as expected; the text shows how.
        InvalidArgumentError: an item is none of these, or one of the arguments is no list.
    """
    __tracebackhide__ = True
    wanted = [_checked(item) for item in items_of("expected", expected, "a list with one item a call")]
    what, actual = _calls(turn)
    if fits(wanted, actual, lambda want, have: not _details(want, have)):
        return
    comparison = Comparison(
        expected=wanted,
        actual=actual,
        details=_details,
        is_alike=lambda want, have: _name_of(want) == have.name,
        show_expected=_show_expected,
        show_actual=_show,
    )
    raise AssertionError("\n".join([f"{what} are not as expected (-)", *comparison.lines()]))


def _calls(turn: Any) -> tuple[str, list[HookCall]]:
    if isinstance(turn, Turn):
        return f"the hook calls of turn {turn.index}", turn.hooks
    if isinstance(turn, ChatAgentHarness):
        return "the hook calls of the harness", turn.hooks
    return "the hook calls", items_of("turn", turn, "a turn (awaited), a harness, or a list of hook calls")


def _checked(item: object) -> Any:
    if item is ... or isinstance(item, str | HookCall):
        return cast("object", item)
    if isinstance(item, Mapping):
        for key in cast("Mapping[str, Any]", item):
            if key not in _FIELDS:
                problem = f"no attribute of a hook call; these are: {', '.join(_FIELDS)}"
                raise InvalidArgumentError(argument="expected", value=key, problem=problem)
        return cast("object", item)
    problem = "give a name, a dict of attributes, a HookCall, or `...` for anything in between"
    raise InvalidArgumentError(argument="expected", value=item, problem=problem)


def _name_of(expected: Any) -> Any:
    if isinstance(expected, HookCall):
        return expected.name
    return expected if isinstance(expected, str) else cast("Mapping[str, Any]", expected).get("name")


def _details(expected: Any, actual: HookCall) -> list[str]:
    if isinstance(expected, str):
        return [] if expected == actual.name else [f"name: expected {expected}, got {actual.name}"]
    return differences(expected, actual)


def _show_expected(expected: Any) -> str:
    if not isinstance(expected, Mapping):
        return expected if isinstance(expected, str) else _show(expected)
    attributes = cast("Mapping[str, Any]", expected)
    rest = ", ".join(f"{key} {_short(value)}" for key, value in attributes.items() if key != "name")
    return f"{attributes.get('name', '(any hook)')}{f' ({rest})' if rest else ''}"


def _show(call: HookCall) -> str:
    if call.error is not None:
        return f"{call.name} ({call.outcome} {call.error!r})"
    return call.name if call.outcome == "returned" else f"{call.name} ({call.outcome or 'at work'})"


def _short(value: object) -> str:
    return value.__name__ if isinstance(value, type) else value if isinstance(value, str) else repr(value)
