"""Records as text, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.session import (
    EncodedRecord,
    NewRecord,
    Record,
    control_record,
    decode_record,
    encode_record,
    trim_point,
    trim_record,
)
from chatagent.ui import DataChunk, TextDelta, UnknownChunk

TEXT = st.text()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def stored(new: NewRecord) -> Record:
    return Record(new.data, new.headers, new.id, seq=4, appended_at=2.5)


@given(data=JSON, id=st.none() | TEXT, headers=st.lists(st.tuples(st.text(min_size=1), TEXT), max_size=3))
def test_a_record_of_plain_data_comes_back_equal(data: object, id: str | None, headers: list[tuple[str, str]]) -> None:
    record = stored(NewRecord(data, (("h", ""), *headers), id))

    back = decode_record("in", encode_record(record), seq=4, appended_at=2.5)

    if ("trigger-control") not in dict(record.headers):
        assert back == record
    assert back.body() == record.body()


@pytest.mark.parametrize(
    "new",
    [
        NewRecord(TextDelta(id="t", delta="\ud83d", extra={"new": 1}), (("turn-in-event-id", "3"),)),
        NewRecord(DataChunk(type="data-x", data=None, id="d"), id="part"),
        NewRecord(UnknownChunk(type="new-type", extra={"x": 1})),
        control_record("turn-complete", session_in_event_id=3),
        NewRecord(None, (("", "fence"),)),
        trim_record(before=3),
        NewRecord("no chunk"),
        NewRecord({"no": "type"}),
    ],
)
def test_a_record_of_out_comes_back_equal(new: NewRecord) -> None:
    back = decode_record("out", encode_record(new), seq=4, appended_at=2.5)

    assert back == stored(new)
    assert trim_point(back) == trim_point(new)


def test_input_stays_what_it_was_text_or_object() -> None:
    for data in ('{"kind":"stop"}', {"kind": "stop"}, {"type": "text-delta", "id": "t", "delta": "x"}):
        assert decode_record("in", encode_record(NewRecord(data)), seq=0, appended_at=0.0).data == data


def test_a_chunk_that_does_not_decode_stays_as_it_came() -> None:
    back = decode_record("out", EncodedRecord("", '{"data":{"type":"text-delta"}}'), seq=0, appended_at=0.0)

    assert back.data == {"type": "text-delta"}


def test_a_record_that_is_passed_on_is_not_parsed() -> None:
    back = decode_record("out", EncodedRecord("", "no json at all"), seq=7, appended_at=1.0)

    assert (back.seq, back.headers, back.body()) == (7, (), "no json at all")
    with pytest.raises(ValueError, match="Expecting value"):
        _ = back.data
    with pytest.raises(AttributeError, match="a record has no attribute 'other'"):
        _ = back.other  # type: ignore[attr-defined]


def test_the_two_texts_are_compact_json() -> None:
    encoded = encode_record(NewRecord({"a": [1, "é"]}, (("h", "v"),), "p"))

    assert encoded == EncodedRecord('[["h","v"]]', '{"data":{"a":[1,"é"]},"id":"p"}')
