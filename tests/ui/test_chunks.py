from __future__ import annotations

import pytest
from hypothesis import given

from chatagent.errors import ChunkError
from chatagent.ui import (
    CHUNK_TYPES,
    UNSET,
    Chunk,
    DataChunk,
    Finish,
    SteeringMessage,
    TextDelta,
    TextUIPart,
    ToolOutputAvailable,
    UnknownChunk,
    parse_chunk,
    to_wire,
)
from ui.strategies import CHUNKS


@given(CHUNKS)
def test_a_chunk_survives_the_wire(chunk: Chunk) -> None:
    wire = to_wire(chunk)

    again = parse_chunk(wire)

    assert again == chunk
    assert to_wire(again) == wire


@given(CHUNKS)
def test_the_type_comes_first_and_absent_keys_are_absent(chunk: Chunk) -> None:
    wire = to_wire(chunk)

    assert next(iter(wire)) == "type"
    assert wire["type"] == chunk.type
    assert UNSET not in wire.values()


def test_attributes_are_the_snake_case_of_the_wire_keys() -> None:
    chunk = parse_chunk({"type": "tool-output-available", "toolCallId": "c1", "output": None, "preliminary": True})

    assert chunk == ToolOutputAvailable(tool_call_id="c1", output=None, preliminary=True)


def test_null_is_a_value_where_any_json_is_allowed() -> None:
    chunk = parse_chunk({"type": "finish", "messageMetadata": None})

    assert chunk == Finish(message_metadata=None)
    assert to_wire(chunk) == {"type": "finish", "messageMetadata": None}
    assert to_wire(Finish()) == {"type": "finish"}


def test_unknown_keys_are_kept_behind_the_others() -> None:
    wire = {"type": "text-delta", "future": [1], "id": "t1", "delta": "x"}

    chunk = parse_chunk(wire)

    assert chunk == TextDelta("t1", "x", extra={"future": [1]})
    assert list(to_wire(chunk)) == ["type", "id", "delta", "future"]


def test_data_chunks_say_their_name() -> None:
    chunk = parse_chunk({"type": "data-weather-now", "data": 1})

    assert isinstance(chunk, DataChunk)
    assert (chunk.type, chunk.name) == ("data-weather-now", "weather-now")


def test_a_chunk_is_taken_as_it_is() -> None:
    chunk = TextDelta("t1", "x")

    assert parse_chunk(chunk) is chunk


def test_an_unknown_type_is_passed_on_for_those_who_ask() -> None:
    wire = {"type": "brand-new", "x": 1}

    chunk = parse_chunk(wire, allow_unknown=True)

    assert chunk == UnknownChunk("brand-new", extra={"x": 1})
    assert to_wire(chunk) == wire


def test_steering_messages_hold_parts() -> None:
    wire = {"type": "steering-message", "id": "s1", "parts": [{"type": "text", "text": "wait", "later": True}]}

    chunk = parse_chunk(wire)

    assert isinstance(chunk, SteeringMessage)
    assert isinstance(chunk.parts[0], TextUIPart)
    assert to_wire(chunk) == wire


def test_lists_and_dicts_of_chunks_are_written_too() -> None:
    assert to_wire([TextDelta("t1", "x")]) == [{"type": "text-delta", "id": "t1", "delta": "x"}]
    assert to_wire({"chunk": TextDelta("t1", "x"), "n": 1}) == {
        "chunk": {"type": "text-delta", "id": "t1", "delta": "x"},
        "n": 1,
    }


def test_a_chunk_shows_what_it_holds() -> None:
    assert repr(TextDelta("t1", "x")) == "TextDelta(id='t1', delta='x')"
    assert repr(ToolOutputAvailable("c1", None)) == "ToolOutputAvailable(tool_call_id='c1', output=None)"


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        (5, r"^chunk <absent>: `chunk` is 5: give a chunk, or a dict with a `type`$"),
        ({}, r"^chunk <absent>: `type` is <absent>: a chunk has a string here$"),
        ({"type": 1}, r"^chunk 1: `type` is 1: a chunk has a string here$"),
        (
            {"type": "brand-new"},
            r"^chunk 'brand-new': `type` is 'brand-new': no chunk has this type; data of your own ",
        ),
        (
            {"type": "text-delta", "id": "t"},
            r"^chunk 'text-delta': `delta` is <absent>: the key is required: give a str",
        ),
        ({"type": "text-delta", "id": "t", "delta": 1}, r"^chunk 'text-delta': `delta` is 1: it must be a string$"),
        ({"type": "data-x"}, r"^chunk 'data-x': `data` is <absent>: the key is required: give any JSON value$"),
        (
            {"type": "start", "messageId": None},
            r"^chunk 'start': `messageId` is None: it must be a string; leave the key out for none$",
        ),
        (
            {"type": "finish", "finishReason": "done"},
            r"^chunk 'finish': `finishReason` is 'done': it must be one of 'stop'",
        ),
        (
            {"type": "text-start", "id": "t", "providerMetadata": {"p": 1}},
            r"^chunk 'text-start': `providerMetadata` is {'p': 1}: it must be an object whose values are each an ob",
        ),
        (
            {"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": 1}]},
            r"^chunk 'steering-message': `parts\[0\]\.text` is 1: input should be a valid string$",
        ),
    ],
)
def test_what_a_client_would_refuse_is_refused(wire: object, message: str) -> None:
    with pytest.raises(ChunkError, match=message):
        parse_chunk(wire)


def test_the_table_knows_each_class_by_its_type() -> None:
    assert all(CHUNK_TYPES[cls.type] is cls for cls in CHUNK_TYPES.values())  # pyright: ignore[reportUnknownMemberType]
    assert len(CHUNK_TYPES) == 29
