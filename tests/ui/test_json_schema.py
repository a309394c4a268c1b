"""The small check of JSON schemas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.ui.json_schema import schema_problem

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def schema_of(value: Any) -> dict[str, Any]:
    """Return a schema that fits just values of this shape."""
    match value:
        case None:
            return {"type": "null"}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string", "enum": [value]}
        case list():
            return {"type": "array"} | ({"items": schema_of(value[0])} if len(value) == 1 else {})
        case _:
            properties = {key: schema_of(each) for key, each in value.items()}
            return {"type": "object", "properties": properties, "required": list(value)}


@given(JSON)
def test_a_value_fits_the_schema_of_its_shape(value: Any) -> None:
    assert schema_problem(schema_of(value), value) is None


@given(JSON)
def test_everything_fits_a_schema_that_says_nothing(value: Any) -> None:
    assert schema_problem({}, value) is None
    assert schema_problem({"type": "unheard-of", "minimum": 3}, value) is None


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"type": "integer"}, True, "`input` must be integer, it is True"),
        ({"type": "integer"}, 1.5, "`input` must be integer, it is 1.5"),
        ({"type": ["string", "null"]}, 1, "`input` must be string or null, it is 1"),
        ({"enum": [1, "a"]}, True, "`input` must be one of [1, 'a'], it is True"),
        ({"type": "object", "required": ["a"]}, {}, "`input.a` is required"),
        (
            {"type": "array", "items": {"properties": {"a": {"type": "string"}}}},
            [{"a": "x"}, {"a": 2}],
            "`input[1].a` must be string, it is 2",
        ),
    ],
)
def test_the_first_problem_is_named_with_its_path(schema: Any, value: Any, problem: str) -> None:
    assert schema_problem(schema, value) == problem


def test_a_whole_float_counts_as_an_integer() -> None:
    assert schema_problem({"type": "integer"}, 2.0) is None
