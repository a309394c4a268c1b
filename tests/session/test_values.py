"""The check that JSON can hold what is appended, and the bound on its size."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.errors import InvalidArgumentError
from chatagent.session.values import BYTES_PER_WEIGHT, json_size, json_text, weigh
from chatagent.ui import (
    DataChunk,
    DataUIPart,
    DynamicToolUIPart,
    Finish,
    StartStep,
    SteeringMessage,
    TextDelta,
    TextUIPart,
    ToolOutputAvailable,
    ToolUIPart,
    UIMessage,
    parse_chunk,
)

TEXT = st.text(st.characters(codec=None, exclude_categories=()))


def json_values(keys: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=20,
    )


JSON = json_values(TEXT)
KEYED_JSON = json_values(st.text())
"""Without lone surrogates in keys: a message that holds such a key has no wire form."""


@given(JSON)
def test_plain_json_is_taken_and_never_larger_than_its_weight_says(value: object) -> None:
    weight = weigh(value, "data")

    assert json_size(value) <= BYTES_PER_WEIGHT * weight


@given(TEXT, JSON)
def test_a_chunk_is_never_larger_than_its_weight_says(text: str, value: Any) -> None:
    chunks = [
        TextDelta(id=text, delta=text, extra={text: value}),
        ToolOutputAvailable(tool_call_id=text, output=value),
        DataChunk(type="data-" + text, data=value),
        StartStep(),
        Finish(),
    ]

    for chunk in chunks:
        assert json_size(chunk) <= BYTES_PER_WEIGHT * weigh(chunk, "data")


@given(TEXT, KEYED_JSON)
def test_a_message_is_never_larger_than_its_weight_says(text: str, value: Any) -> None:
    message = UIMessage(
        id=text,
        role="assistant",
        metadata=value,
        parts=[
            TextUIPart(text=text),
            DataUIPart(type="data-x", data=value),
            ToolUIPart(type="tool-x", tool_call_id=text, state="output-available", input=value, output=value),
            DynamicToolUIPart(tool_name=text, tool_call_id=text, state="input-available", input=value),
        ],
    )

    assert json_size({"payload": {"message": message}}) <= BYTES_PER_WEIGHT * weigh(
        {"payload": {"message": message}}, "data"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "`data` is nan: JSON has no numbers that are not finite"),
        ({"a": [1, float("inf")]}, "`data.a[1]` is inf: JSON has no numbers that are not finite"),
        ([b"x"], "`data[0]` is b'x': JSON cannot hold a value of type bytes"),
        ({"a": {1, 2}}, "`data.a` is {1, 2}: JSON cannot hold a value of type set"),
        ({"a": {1: "x"}}, "`data.a` is {1: 'x'}: the keys of a JSON object are text"),
        (
            TextDelta(id="t", delta="x", extra={"k": [b""]}),
            "`data.extra.k[0]` is b'': JSON cannot hold a value of type",
        ),
        (ToolOutputAvailable(tool_call_id="c", output={"n": float("nan")}), "`data.output.n` is nan: JSON has no"),
        (
            UIMessage(id="m", role="user", parts=[DataUIPart(type="data-x", data=[object])]),
            "`data.parts[0].data[0]` is <class 'object'>: JSON cannot hold a value of type type",
        ),
    ],
)
def test_what_json_cannot_hold_is_refused_by_its_path(value: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        weigh(value, "data")

    assert str(caught.value).startswith(message)


def test_a_value_inside_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)

    with pytest.raises(InvalidArgumentError, match="nested too deeply, or inside itself"):
        weigh(loop, "data")


def test_lone_surrogates_are_kept_and_escaped_in_text() -> None:
    assert weigh({"a": "\udc00"}, "data")
    assert json_text({"a": "é\udc00"}) == '{"a":"é\\udc00"}'


def test_a_steering_chunk_with_parts_is_taken() -> None:
    chunk = parse_chunk({"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "x"}]})

    assert isinstance(chunk, SteeringMessage)
    assert json_size(chunk) <= BYTES_PER_WEIGHT * weigh(chunk, "data")
