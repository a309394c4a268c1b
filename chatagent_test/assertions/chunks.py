"""`assert_chunks`: what a client saw of a turn, item by item."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from chatagent.errors import InvalidArgumentError
from chatagent.ui import to_wire
from chatagent_test.assertions.alignment import Comparison
from chatagent_test.assertions.matching import differences, fits, items_of, show
from chatagent_test.harness import ChatAgentHarness, Turn

if TYPE_CHECKING:
    from types import EllipsisType

    from chatagent.ui import Chunk

__all__ = ["ExpectedChunk", "assert_chunks"]

ExpectedChunk: TypeAlias = "str | Mapping[str, Any] | Chunk | EllipsisType"
"""A type; some keys in wire form; a chunk; or `...` for any number of chunks."""


def assert_chunks(
    turn: Turn | ChatAgentHarness | Sequence[Chunk | Mapping[str, Any]],
    expected: Sequence[ExpectedChunk],
    *,
    with_control: bool = False,
) -> None:
    """Check the chunks of a turn, in order.

    Args:
        turn: the turn; or a harness, for all it has written; or chunks.
        expected: one item a chunk. A string is the chunk's type; a dict holds keys in wire form, of which others may
            stand beside them, with values that may be partial likewise; a chunk object must be equal; `...` stands for
            any number of chunks, none included.
        with_control: whether control records count, as `trigger:turn-complete` and `trigger:upgrade-required`.

    Raises:
        AssertionError: they are not as expected; the text shows how.
        InvalidArgumentError: an item is none of these, or one of the arguments is no list.
    """
    __tracebackhide__ = True
    wanted = [_checked(item) for item in items_of("expected", expected, "a list with one item a chunk")]
    what, actual = _wire_chunks(turn, with_control=with_control)
    if fits(wanted, actual, lambda want, have: not _details(want, have)):
        return
    comparison = Comparison(
        expected=wanted,
        actual=actual,
        details=_details,
        is_alike=lambda want, have: _type_of(want) == have.get("type"),
        show_expected=_show,
        show_actual=_show,
    )
    raise AssertionError("\n".join([f"{what} are not as expected (-)", *comparison.lines()]))


def _wire_chunks(turn: Any, *, with_control: bool) -> tuple[str, list[dict[str, Any]]]:
    if isinstance(turn, Turn):
        name, raw = f"the chunks of turn {turn.index}", turn.raw_chunks
    elif isinstance(turn, ChatAgentHarness):
        name, raw = "the chunks of the harness", turn.all_raw_chunks
    else:
        problem = "a turn (awaited), a harness, or a list of chunks"
        name, raw = "the chunks", [_as_wire(chunk) for chunk in items_of("turn", turn, problem)]
    return name, [chunk for chunk in raw if with_control or not str(chunk.get("type")).startswith("trigger:")]


def _checked(item: object) -> Any:
    if item is ... or isinstance(item, str | Mapping):
        return cast("object", item)
    if dataclasses.is_dataclass(item) and not isinstance(item, type) and hasattr(item, "type"):
        return _Exactly(_as_wire(item))
    problem = "give a type, a dict of keys in wire form, a chunk, or `...` for anything in between"
    raise InvalidArgumentError(argument="expected", value=item, problem=problem)


class _Exactly(dict[str, Any]):
    """A chunk in wire form that allows no other keys."""


def _as_wire(chunk: Any) -> dict[str, Any]:
    return dict(cast("Mapping[str, Any]", chunk)) if isinstance(chunk, Mapping) else cast("Any", to_wire(chunk))


def _type_of(expected: Any) -> Any:
    return expected if isinstance(expected, str) else cast("Mapping[str, Any]", expected).get("type")


def _details(expected: Any, actual: dict[str, Any]) -> list[str]:
    if isinstance(expected, str):
        return [] if actual.get("type") == expected else [f"type: expected {expected}, got {actual.get('type')}"]
    found = differences(expected, actual)
    if isinstance(expected, _Exactly):
        found += [f"{key}: not expected" for key in actual if key not in expected]
    return found


def _show(chunk: Any) -> str:
    if isinstance(chunk, str):
        return chunk
    rest = {key: value for key, value in cast("Mapping[str, Any]", chunk).items() if key != "type"}
    return f"{chunk.get('type', '(any type)')} {show(rest)}" if rest else str(chunk.get("type"))
