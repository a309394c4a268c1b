from __future__ import annotations

import enum
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.errors import InvalidArgumentError
from chatagent.ui import format_json, format_json_bytes
from ui.strategies import JSON


@given(JSON)
def test_any_reader_reads_what_was_written(value: object) -> None:
    assert json.loads(format_json_bytes(value)) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_its_value(value: float) -> None:
    text = format_json(value)

    assert float(text) == value
    assert ("." in text or "e" in text) is not (value.is_integer() and abs(value) < 1e21)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (1e-05, "0.00001"),
        (1.5e-6, "0.0000015"),
        (1e-07, "1e-7"),
        (-2.5e-09, "-2.5e-9"),
        (1e-10, "1e-10"),
        (5e-324, "5e-324"),
        (1e16, "10000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e21, "1e+21"),
        (-1.5e300, "-1.5e+300"),
        (2**53 + 1, "9007199254740993"),
        (10**30, "1000000000000000000000000000000"),
        (True, "true"),
    ],
)
def test_numbers_are_spelled_as_javascript_does(value: float, text: str) -> None:
    assert format_json(value) == text


def test_strings_are_escaped_as_javascript_does() -> None:
    text = '"\\/\b\t\n\f\r\x00\x1f\x7f\u2028é😀'

    assert format_json_bytes(text) == '"\\"\\\\/\\b\\t\\n\\f\\r\\u0000\\u001f\x7f\u2028é😀"'.encode()


def test_a_lone_surrogate_is_escaped_and_a_pair_is_joined() -> None:
    assert format_json_bytes(["\ud83d", "\ud83d\ude00", "\ude00x"]) == b'["\\ud83d","\xf0\x9f\x98\x80","\\ude00x"]'


def test_the_form_is_compact_and_keys_keep_their_order() -> None:
    assert format_json({"b": [1, (None, False)], "a": {}}) == '{"b":[1,[null,false]],"a":{}}'


def test_subclasses_of_plain_types_are_written_as_these() -> None:
    class Colour(enum.StrEnum):
        RED = "red"

    class Level(enum.IntEnum):
        HIGH = 3

    assert format_json([Colour.RED, Level.HIGH]) == '["red",3]'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, float("nan")]}, r"^`value\.a\[1\]` is nan: JSON has no such number: give a finite one, or None$"),
        (float("-inf"), r"^`value` is -inf: JSON has no such number"),
        ({"a": b"x"}, r"^`value\.a` is b'x': a bytes has no JSON form: make plain JSON of it first$"),
        ({1: 2}, r"^`value\.1` is 1: a key of a JSON object is a string$"),
    ],
)
def test_what_has_no_json_form_is_refused_with_its_path(value: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        format_json(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)

    with pytest.raises(InvalidArgumentError, match="nested too deeply, or in itself"):
        format_json(value)
