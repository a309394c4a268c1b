"""Parts of a model's stream: reading, writing, and what is refused."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import get_args

import pytest

from chatagent.errors import InvalidStreamPartError, UnknownStreamPartError
from chatagent.model import (
    FinishReason,
    InlineData,
    ModelError,
    ModelFile,
    ModelFinish,
    ModelPing,
    ModelResponseMetadata,
    ModelStreamPart,
    ModelTextDelta,
    ModelToolResult,
    parse_stream_part,
    stream_part_to_wire,
)

META = {"p": {"k": 1}}
USAGE = {"inputTokens": {"total": 3}, "outputTokens": {"total": 4}}
WIRE = [
    {"type": "stream-start", "warnings": [{"type": "other", "message": "m"}]},
    {"type": "response-metadata", "id": "r", "timestamp": "2025-01-01T00:00:00.000Z", "modelId": "m"},
    {"type": "text-start", "id": "0", "providerMetadata": META},
    {"type": "text-delta", "id": "0", "delta": "a"},
    {"type": "text-end", "id": "0", "citations": [{"url": "u"}]},
    {"type": "reasoning-start", "id": "0"},
    {"type": "reasoning-delta", "id": "0", "delta": "a"},
    {"type": "reasoning-end", "id": "0", "providerMetadata": META},
    {"type": "tool-input-start", "id": "c", "toolName": "t", "dynamic": True, "inputEncoding": "json"},
    {"type": "tool-input-delta", "id": "c", "delta": "{"},
    {"type": "tool-input-end", "id": "c"},
    {"type": "tool-call", "toolCallId": "c", "toolName": "t", "input": "{}", "providerExecuted": True},
    {"type": "tool-result", "toolCallId": "c", "toolName": "t", "result": [1], "isError": False},
    {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c"},
    {"type": "file", "mediaType": "text/plain", "data": "SGk="},
    {"type": "file", "mediaType": "text/plain", "data": {"type": "url", "url": "https://e.com/a"}},
    {"type": "reasoning-file", "mediaType": "text/plain", "data": {"type": "data", "data": "SGk="}},
    {"type": "custom", "kind": "p.k", "providerMetadata": META},
    {"type": "source", "sourceType": "document", "id": "s", "mediaType": "text/plain", "title": "T", "filename": "f"},
    {"type": "source", "sourceType": "url", "id": "s", "url": "https://e.com", "title": "T"},
    {"type": "finish", "finishReason": {"unified": "stop", "raw": "end"}, "usage": USAGE},
    {"type": "raw", "rawValue": {"x": 1}},
    {"type": "error", "error": "broken"},
    {"type": "ping"},
]


@pytest.mark.parametrize("wire", WIRE, ids=lambda wire: wire["type"])
def test_a_part_reads_and_writes_without_loss(wire: dict[str, object]) -> None:
    part = parse_stream_part(wire)

    assert stream_part_to_wire(part) == wire
    assert parse_stream_part(part) is part


def test_every_type_has_a_sample_above() -> None:
    assert {part.type for part in get_args(ModelStreamPart)} == {wire["type"] for wire in WIRE}


def test_unknown_keys_are_kept() -> None:
    wire = {"type": "text-delta", "id": "0", "delta": "a", "logprobs": [1]}

    part = parse_stream_part(wire)

    assert part.extra == {"logprobs": [1]}
    assert stream_part_to_wire(part) == wire


def test_null_counts_as_absent_except_where_it_is_a_value() -> None:
    delta = parse_stream_part({"type": "text-delta", "id": "0", "delta": "a", "providerMetadata": None})
    result = parse_stream_part({"type": "tool-result", "toolCallId": "c", "toolName": "t", "result": None})
    error = parse_stream_part({"type": "error", "error": None})

    assert delta == ModelTextDelta("0", "a")
    assert result == ModelToolResult("c", "t", None)
    assert error == ModelError(None)


def test_live_values_may_stand_in_wire_form() -> None:
    at = datetime(2025, 1, 1, tzinfo=UTC)
    failure = RuntimeError("x")

    parts = [
        parse_stream_part({"type": "response-metadata", "timestamp": at}),
        parse_stream_part({"type": "error", "error": failure}),
        parse_stream_part({"type": "file", "mediaType": "a/b", "data": {"type": "data", "data": b"x"}}),
        parse_stream_part({"type": "finish", "finishReason": "length", "usage": {}}),
    ]

    assert parts[0] == ModelResponseMetadata(timestamp=at)
    assert parts[1] == ModelError(failure)
    assert parts[2] == ModelFile("a/b", InlineData(b"x"))
    assert isinstance(parts[3], ModelFinish)
    assert parts[3].finish_reason == FinishReason("length")


@pytest.mark.parametrize("part", [{"type": "text-dleta", "id": "0"}, {"id": "0"}, "text", None, {"type": ["ping"]}])
def test_what_is_no_part_is_refused_by_name(part: object) -> None:
    with pytest.raises(UnknownStreamPartError, match=re.escape(repr(part))):
        parse_stream_part(part)


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        ({"type": "text-delta", "id": "0"}, "`delta`"),
        ({"type": "text-delta", "id": 0, "delta": "a"}, "`id` is 0: it must be a string"),
        ({"type": "tool-call", "toolCallId": "c", "toolName": "t", "input": {}}, "`input` is {}: it must be a string"),
        ({"type": "finish", "finishReason": {"unified": "done"}, "usage": {}}, "must be one of"),
        ({"type": "file", "mediaType": "a/b", "data": 7}, "file data is 7"),
        ({"type": "response-metadata", "timestamp": "soon"}, "ISO 8601"),
    ],
)
def test_a_wrong_field_is_named(wire: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidStreamPartError, match=re.escape(text)):
        parse_stream_part(wire)


def test_a_ping_has_no_fields() -> None:
    assert parse_stream_part({"type": "ping"}) == ModelPing()
