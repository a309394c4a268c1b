"""Partial matches: what fits, and how a difference is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent_test.assertions.alignment import Comparison
from chatagent_test.assertions.matching import differences, fits, show


@dataclass
class Event:
    turn: int
    text: str


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 1),
        (..., None),
        ({}, {"a": 1}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": {"b": ...}}, {"a": {"b": 1, "c": 2}}),
        ({"a": str}, {"a": "x"}),
        ({"turn": 1}, Event(1, "x")),
        ([1, ..., 4], [1, 2, 3, 4]),
        ([..., {"a": 1}, ...], [{"a": 0}, {"a": 1, "b": 1}]),
        ([...], []),
        ({"a": None}, {"a": None}),
    ],
)
def test_what_fits_has_no_differences(expected: Any, actual: Any) -> None:
    assert differences(expected, actual) == []


@pytest.mark.parametrize(
    ("expected", "actual", "lines"),
    [
        (1, 2, ["expected 1, got 2"]),
        ({"a": 1}, {}, ["a: expected 1, but there is none"]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ["a.b: expected 1, got 2"]),
        ({"a": [1, {"b": 1}]}, {"a": [1, {"b": 2}]}, ["a[1].b: expected 1, got 2"]),
        ({"a": [1, ...]}, {"a": [2, 3]}, ['a: expected [1, "…"], got [2, 3]']),
        ({"a": [1, 2]}, {"a": [1]}, ["a: expected [1, 2], got [1]"]),
        ({"a": int}, {"a": "x"}, ['a: expected any int, got "x"']),
        ({"turn": 2}, Event(1, "x"), ["turn: expected 2, got 1"]),
        (
            {"tool_call_id": "c"},
            {"toolCallId": "c"},
            ["tool_call_id: expected \"c\", but there is none (on the wire it is 'toolCallId')"],
        ),
    ],
)
def test_a_difference_says_where_it_is_and_what_is_there(expected: Any, actual: Any, lines: list[str]) -> None:
    assert differences(expected, actual) == lines


def test_of_long_texts_what_stands_around_the_difference_is_shown() -> None:
    before = "all the same " * 20

    (line,) = differences(before + "left" + "." * 200, before + "right" + "." * 200)

    assert line.startswith('expected …"')
    assert "e same all the same left.." in line
    assert "e same all the same right.." in line
    assert len(line) < 220


def test_a_value_is_shown_on_one_line_and_cut() -> None:
    assert show({"a": "line\nline", "b": {1}}) == '{"a": "line\\nline", "b": "{1}"}'
    assert show("x" * 500) == '"' + "x" * 118 + "…"


def reference(expected: list[Any], actual: list[Any]) -> bool:
    """Whether a pattern matches, slowly and without a doubt."""
    if not expected:
        return not actual
    if expected[0] is ...:
        return any(reference(expected[1:], actual[start:]) for start in range(len(actual) + 1))
    return bool(actual) and expected[0] == actual[0] and reference(expected[1:], actual[1:])


ITEMS = st.sampled_from(["a", "b"])
PATTERNS = st.lists(st.one_of(ITEMS, st.just(...)), max_size=6)


@given(expected=PATTERNS, actual=st.lists(ITEMS, max_size=7))
def test_a_pattern_matches_as_by_trying_everything(expected: list[Any], actual: list[Any]) -> None:
    assert fits(expected, actual, lambda want, have: want == have) == reference(expected, actual)


def lines_of(expected: list[Any], actual: list[Any]) -> list[str]:
    return Comparison(
        expected=expected,
        actual=actual,
        details=lambda want, have: [] if want == have else ["differs"],
        is_alike=lambda want, have: want.upper() == have.upper(),
        show_expected=str,
        show_actual=str,
    ).lines()


@given(expected=PATTERNS, actual=st.lists(ITEMS, max_size=7))
def test_a_comparison_tells_every_item_once_and_marks_something_exactly_if_it_does_not_match(
    expected: list[Any], actual: list[Any]
) -> None:
    lines = lines_of(expected, actual)

    said = [line for line in lines if not line.startswith("  (")]
    marked = [line for line in lines if line[0] in "+-"]
    if said == lines:
        assert [line[-1] for line in said if line[0] != "-" and line != "  …"] == actual
        assert [line[2:] for line in said if line[0] != "+" and line[2] != "…"] == [x for x in expected if x is not ...]
    assert bool(marked) != reference(expected, actual)


def test_a_comparison_pairs_what_is_alike_and_leaves_out_what_is_far_from_a_difference() -> None:
    same = [f"s{number}" for number in range(20)]

    lines = lines_of([*same, "x", "gone", *same], [*same, "X", *same, "new"])

    assert lines == [
        "  (17 more)",
        "  s17",
        "  s18",
        "  s19",
        "- x",
        "+ X",
        "      differs",
        "- gone",
        "  s0",
        "  s1",
        "  s2",
        "  (14 more)",
        "  s17",
        "  s18",
        "  s19",
        "+ new",
    ]


def test_of_very_long_sequences_the_first_difference_is_told() -> None:
    same = [str(number) for number in range(1000)]

    assert lines_of([*same, "x"], [*same, "y"])[1:] == ["- x", "+ y", "      differs"]
    assert lines_of([*same, "x"], same)[1:] == ["- x"]
    assert lines_of(same, [*same, "y"])[1:] == ["+ y"]
