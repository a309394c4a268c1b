from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.ui import UNSET, PartialJson, parse_partial_json
from chatagent.ui.partial_json import PartialJsonScanner
from ui.strategies import JSON

JSON_LIKE = st.text(st.sampled_from('{}[]",:\\u0a1-+.eEtrufalsn \n\ud83d\ude00é'), max_size=40)


@given(JSON_LIKE, st.lists(st.integers(0, 40), max_size=5))
def test_a_text_in_pieces_gives_what_the_whole_gives(text: str, cuts: list[int]) -> None:
    scanner = PartialJsonScanner()
    start = 0
    for cut in [*sorted(cuts), len(text)]:
        scanner.feed(text[start:cut])
        scanner.result()
        start = max(start, cut)

    assert scanner.result() == parse_partial_json(text)


@given(JSON, st.data())
def test_every_prefix_of_a_structure_has_a_value_and_the_whole_is_exact(value: object, data: st.DataObject) -> None:
    text = json.dumps({"value": value}, ensure_ascii=data.draw(st.booleans()))
    end = data.draw(st.integers(1, len(text)))

    assert parse_partial_json(text) == PartialJson({"value": value}, "successful-parse")
    assert parse_partial_json(text[:end]).state != "failed-parse"


@given(st.text(max_size=20))
def test_no_text_raises(text: str) -> None:
    result = parse_partial_json(text)

    assert (result.value is UNSET) is (result.state == "failed-parse")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":"x\\', {"a": "x"}),
        ('{"a":"x\\u00e', {"a": "x"}),
        ('{"a":"x\\u00e9', {"a": "xé"}),
        ('{"a\\"b":1', {'a"b': 1}),
        ('{"a":1e', {"a": 1}),
        ('{"a":-', {}),
        ('{"a":[{"b":tr', {"a": [{"b": True}]}),
        ('[1,{"a":nul', [1, {"a": None}]),
        ("[1}", [1]),
        ("[truex", [True]),
    ],
)
def test_what_is_not_complete_is_completed_or_left_out(text: str, value: object) -> None:
    assert parse_partial_json(text) == PartialJson(value, "repaired-parse")


def test_a_structure_too_deep_for_the_parser_has_no_value() -> None:
    assert parse_partial_json("[" * 100_000).state == "failed-parse"


def test_halves_of_a_character_are_joined() -> None:
    scanner = PartialJsonScanner()

    scanner.feed('{"a":"\ud83d')
    half = scanner.result()
    scanner.feed('\ude00"}')

    assert half.value == {"a": "\ud83d"}
    assert scanner.result() == PartialJson({"a": "😀"}, "successful-parse")
    assert scanner.text == '{"a":"😀"}'
