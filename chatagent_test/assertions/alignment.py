"""Showing how a sequence is not the expected one: what stands where it should, what is missing, what came in between.

pytest rewrites the assertions of tests, not those of packages, so the text is made here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Comparison"]

_CELLS = 400_000
"""Above so many comparisons only the first difference is looked for."""
_STRAY, _CHANGED, _ABSORBED = 1_000_000, 500_000, 1
"""The cost of an item without a partner, of two that are alike, and of one in a gap, which is no more than a tie's."""
_AROUND = 3
"""How many items that are as expected are shown before and behind a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How two sequences differ.

    Args:
        expected: what should be there; `...` stands for any number of items.
        actual: what is there.
        details: the differences between two items, as lines; none if they match.
        is_alike: whether two items that do not match are still one and the same thing, differently.
        show_expected: an expected item on one line.
        show_actual: an item on one line.
    """

    expected: Sequence[Any]
    actual: Sequence[Any]
    details: Callable[[Any, Any], list[str]]
    is_alike: Callable[[Any, Any], bool]
    show_expected: Callable[[Any], str]
    show_actual: Callable[[Any], str]

    def lines(self) -> list[str]:
        """Return the text: `-` is expected and missing, `+` is there and not expected, what differs is told below."""
        if (len(self.expected) + 1) * (len(self.actual) + 1) > _CELLS:
            return self._first_difference()
        return _shortened([line for step in self._steps() for line in self._of_step(*step)])

    def _of_step(self, want: int | None, have: int | None) -> list[str]:
        expected = None if want is None else self.expected[want]
        if want is None:
            return [f"+ {self.show_actual(self.actual[have or 0])}"]
        if expected is ...:
            return ["  …"] if have is None else [f"  … {self.show_actual(self.actual[have])}"]
        if have is None:
            return [f"- {self.show_expected(expected)}"]
        actual = self.actual[have]
        found = self.details(expected, actual)
        if not found:
            return [f"  {self.show_actual(actual)}"]
        return [
            f"- {self.show_expected(expected)}",
            f"+ {self.show_actual(actual)}",
            *(f"      {each}" for each in found),
        ]

    def _steps(self) -> list[tuple[int | None, int | None]]:
        """Return pairs of positions that go together, in order; an item alone has `None` beside it."""
        costs = self._costs()
        want, have = len(self.expected), len(self.actual)
        steps: list[tuple[int | None, int | None]] = []
        while want or have:
            _, want_step, have_step = costs[want][have]
            is_gap = want > 0 and self.expected[want - 1] is ...
            took = (want - 1 if want_step or is_gap else None, have - 1 if have_step else None)
            if not (is_gap and want_step):  # the gap itself was told with what it stands for
                steps.append(took)
            elif not steps or steps[-1][0] != want - 1:
                steps.append((want - 1, None))
            want, have = want - want_step, have - have_step
        return steps[::-1]

    def _costs(self) -> list[list[tuple[int, int, int]]]:
        """Return, for each pair of ends, the least cost and the last step to it."""
        rows: list[list[tuple[int, int, int]]] = [[(0, 0, 0)]]
        for _ in self.actual:
            rows[0].append((rows[0][-1][0] + _STRAY, 0, 1))
        for number, expected in enumerate(self.expected):
            above = rows[number]
            is_gap = expected is ...
            row = [(above[0][0] + (0 if is_gap else _STRAY), 1, 0)]
            for position, actual in enumerate(self.actual):
                left, up, across = row[position][0], above[position + 1][0], above[position][0]
                if is_gap:
                    row.append(min((left + _ABSORBED, 0, 1), (up, 1, 0), key=_cost))
                    continue
                together = (across + self._distance(expected, actual), 1, 1)
                row.append(min(together, (up + _STRAY, 1, 0), (left + _STRAY, 0, 1), key=_cost))
            rows.append(row)
        return rows

    def _distance(self, expected: Any, actual: Any) -> int:
        if not self.details(expected, actual):
            return 0
        return _CHANGED if self.is_alike(expected, actual) else 3 * _STRAY

    def _first_difference(self) -> list[str]:
        pairs = zip(self.expected, self.actual, strict=False)
        place = next((i for i, (want, have) in enumerate(pairs) if want is ... or self.details(want, have)), None)
        if place is None:
            place = min(len(self.expected), len(self.actual))
        lines = [f"the first difference is at item {place}; behind it all is left out"]
        want = place if place < len(self.expected) else None
        return lines + self._of_step(want, place if place < len(self.actual) else None)


def _cost(way: tuple[int, int, int]) -> int:
    return way[0]


def _shortened(lines: list[str]) -> list[str]:
    """Leave out what is as expected and far from every difference."""
    marked = [number for number, line in enumerate(lines) if line[0] in "+-" or line.startswith("      ")]
    near = {place for number in marked for place in range(number - _AROUND, number + _AROUND + 1)}
    short: list[str] = []
    left_out = 0
    for number, line in enumerate(lines):
        if number in near or len(lines) <= 4 * _AROUND:
            if left_out:
                short.append(f"  ({left_out} more)")
            short.append(line)
            left_out = 0
        else:
            left_out += 1
    return [*short, f"  ({left_out} more)"] if left_out else short
