"""What a record is, and how control records and commands are told apart from data."""

from __future__ import annotations

import json

import pytest

from chatagent.errors import InvalidArgumentError
from chatagent.session import (
    NewRecord,
    Record,
    control_record,
    control_type,
    header,
    is_command,
    trim_point,
    trim_record,
)
from chatagent.ui import TextDelta


def test_the_first_header_of_a_name_counts() -> None:
    record = NewRecord(headers=(("a", "1"), ("b", "2"), ("a", "3")))

    assert header(record, "a") == "1"
    assert header(record, "b") == "2"
    assert header(record, "c") is None


def test_a_control_record_names_its_subtype_and_leaves_absent_siblings_out() -> None:
    record = control_record("turn-complete", public_access_token=None, session_in_event_id=4)

    assert record.headers == (("trigger-control", "turn-complete"), ("session-in-event-id", "4"))
    assert record.data is None
    assert control_type(record) == "turn-complete"
    assert not is_command(record)


def test_data_is_no_control_record_whatever_its_headers() -> None:
    plain = NewRecord({"type": "start"})
    answering = NewRecord({"type": "start"}, (("turn-in-event-id", "3"),))

    assert control_type(plain) is None
    assert control_type(answering) is None
    assert not is_command(answering)


def test_a_record_whose_first_header_has_no_name_is_a_command() -> None:
    record = NewRecord(headers=(("", "fence"), ("trigger-control", "turn-complete")))

    assert is_command(record)
    assert control_type(record) is None
    assert trim_point(record) is None


def test_a_trim_names_the_number_below_which_it_removes() -> None:
    record = trim_record(before=7)

    assert record.headers == (("", "trim"),)
    assert is_command(record)
    assert trim_point(record) == 7
    with pytest.raises(InvalidArgumentError, match=r"^`before` is -1: a log's numbers begin at 0$"):
        trim_record(before=-1)


def test_a_body_is_the_wire_text_of_data_and_id() -> None:
    chunk = Record(TextDelta(id="t", delta="hé \ud83d"), id="p1", seq=0, appended_at=1.0)
    plain = Record({"kind": "stop"}, seq=1, appended_at=1.0)
    control = Record(None, (("trigger-control", "turn-complete"),), seq=2, appended_at=1.0)

    assert json.loads(chunk.body()) == {"data": {"type": "text-delta", "id": "t", "delta": "hé \ud83d"}, "id": "p1"}
    assert plain.body() == '{"data":{"kind":"stop"}}'
    assert control.body() == ""


def test_records_are_equal_by_value() -> None:
    record = Record({"a": 1}, seq=3, appended_at=2.0)

    assert record == Record({"a": 1}, seq=3, appended_at=2.0)
    assert record != Record({"a": 1}, seq=4, appended_at=2.0)
    assert record != NewRecord({"a": 1})
