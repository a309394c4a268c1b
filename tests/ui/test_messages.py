from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from chatagent.errors import InvalidMessageError
from chatagent.ui import (
    DataUIPart,
    DynamicToolUIPart,
    TextUIPart,
    ToolApproval,
    ToolUIPart,
    UIMessage,
    UnknownUIPart,
    parse_chunk,
    parse_ui_message,
    to_wire,
)
from conformance.goldens import OWN_GOLDENS
from ui.strategies import JSON, TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterator


def messages_in(value: Any) -> Iterator[dict[str, Any]]:
    """Every UI message in a golden."""
    if isinstance(value, dict):
        if isinstance(value.get("parts"), list) and value.get("role") in ("system", "user", "assistant"):
            yield value
        for item in value.values():
            yield from messages_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from messages_in(item)


@pytest.mark.parametrize(
    "family", ["ai-sdk/reduce", "ai-sdk/convert", "ai-sdk/stream-text", "ai-sdk/ui-stream", "chat-agent"]
)
def test_every_recorded_message_goes_out_as_it_came_in(family: str) -> None:
    goldens = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((OWN_GOLDENS / family).glob("*.json"))]
    messages = [message for golden in goldens for message in messages_in(golden)]

    again = [to_wire(parse_ui_message(message, generate_id=lambda: "made")) for message in messages]

    assert messages
    assert again == [message if "id" in message else {"id": "made", **message} for message in messages]


@given(
    st.dictionaries(st.sampled_from(["title", "newKey", "rawInput", "input", "output", "x_y"]), JSON, max_size=3),
    TEXTS,
)
def test_unknown_fields_and_absent_ones_survive(fields: dict[str, Any], text: str) -> None:
    fields.pop("title", None)
    wire = {
        "id": "m1",
        "role": "assistant",
        "parts": [
            {"type": "tool-x", "toolCallId": "c", "state": "input-available", **fields},
            {"type": "text", "text": text, **{f"u-{key}": value for key, value in fields.items()}},
        ],
        "createdAt": 5,
    }

    assert to_wire(parse_ui_message(wire)) == wire


def test_parts_may_be_given_as_a_list_and_are_kept_as_a_tuple() -> None:
    parts = [TextUIPart(text="hi")]

    message = UIMessage(id="u1", role="user", parts=parts)
    parts.append(TextUIPart(text="more"))

    assert message.parts == (TextUIPart(text="hi"),)
    assert to_wire(message) == {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}


def test_a_message_cannot_be_changed_but_copied_with_changes() -> None:
    message = UIMessage(id="u1", role="user", parts=[TextUIPart(text="hi")])

    with pytest.raises(ValidationError):
        message.id = "u2"  # pyright: ignore[reportAttributeAccessIssue]

    assert message.model_copy(update={"id": "u2"}).id == "u2"
    assert message.id == "u1"


def test_the_text_of_a_message_is_that_of_its_text_parts() -> None:
    message = parse_ui_message(
        {
            "id": "m",
            "role": "assistant",
            "parts": [
                {"type": "text", "text": "a"},
                {"type": "reasoning", "text": "no"},
                {"type": "step-start"},
                {"type": "text", "text": "b"},
            ],
        }
    )

    assert message.text == "ab"


def test_the_tool_parts_of_a_message_are_its_calls_in_order() -> None:
    message = parse_ui_message(
        {
            "id": "m",
            "role": "assistant",
            "parts": [
                {"type": "tool-add", "toolCallId": "c-1", "state": "input-available", "input": {}},
                {"type": "text", "text": "a"},
                {
                    "type": "dynamic-tool",
                    "toolName": "any",
                    "toolCallId": "c-2",
                    "state": "input-available",
                    "input": {},
                },
                {"type": "data-tool", "data": 1},
            ],
        }
    )

    assert [part.tool_call_id for part in message.tool_parts] == ["c-1", "c-2"]


def test_tool_parts_know_the_name_of_their_tool() -> None:
    static = ToolUIPart(type="tool-get-weather-now", tool_call_id="c", state="input-available", input={})
    dynamic = DynamicToolUIPart(tool_name="mcp", tool_call_id="c", state="input-available", input={})

    assert (static.tool_name, dynamic.tool_name) == ("get-weather-now", "mcp")
    assert to_wire(dynamic) == {
        "type": "dynamic-tool",
        "toolName": "mcp",
        "toolCallId": "c",
        "state": "input-available",
        "input": {},
    }


def test_parts_are_told_apart_by_their_type() -> None:
    message = parse_ui_message(
        {
            "id": "m",
            "role": "assistant",
            "parts": [
                {"type": "data-weather", "data": None},
                {"type": "hologram", "depth": 3},
                {
                    "type": "tool-x",
                    "toolCallId": "c",
                    "state": "approval-requested",
                    "input": 1,
                    "approval": {"id": "a", "descriptor": None, "isAutomatic": True},
                },
            ],
        }
    )
    data, unknown, call = message.parts

    assert isinstance(data, DataUIPart)
    assert data.name == "weather"
    assert isinstance(unknown, UnknownUIPart)
    assert unknown.model_extra == {"depth": 3}
    assert isinstance(call, ToolUIPart)
    assert call.approval == ToolApproval(id="a", descriptor=None, is_automatic=True)


def test_a_missing_id_is_made_up_if_there_is_a_generator() -> None:
    wire = {"role": "user", "parts": []}

    message = parse_ui_message(wire, generate_id=lambda: "made")

    assert to_wire(message) == {"id": "made", "role": "user", "parts": []}
    assert "id" not in wire


def test_a_message_is_taken_as_it_is() -> None:
    message = UIMessage(id="u1", role="user", parts=[])

    assert parse_ui_message(message) is message


@pytest.mark.parametrize(
    ("wire", "field", "message"),
    [
        ("hi", "message", r"^message: `message` is 'hi': give a UIMessage, or a dict with `role` and `parts`$"),
        (
            {"role": "user", "parts": []},
            "id",
            r"^message: `id` is <absent>: the key is required: give the message an id",
        ),
        ({"id": "u", "parts": []}, "role", r"^message: `role` is <absent>: the key is required: give `system`, `user`"),
        ({"id": "u", "role": "user"}, "parts", r"^message: `parts` is <absent>: the key is required: give a list of"),
        (
            {"id": "u", "role": "bot", "parts": []},
            "role",
            r"^message: `role` is 'bot': input should be 'system', 'user'",
        ),
        (
            {"id": "u", "role": "user", "parts": "hi"},
            "parts",
            r"^message: `parts` is 'hi': input should be a valid list$",
        ),
        (
            {"id": "u", "role": "user", "parts": [{"type": "text", "text": "a"}, {"type": "text", "text": 5}]},
            "parts[1].text",
            r"^message: `parts\[1\]\.text` is 5: input should be a valid string$",
        ),
        (
            {"id": "u", "role": "user", "parts": [{"text": "a"}]},
            "parts[0].type",
            r"^message: `parts\[0\]\.type` is <absent>: a part is an object with a string `type`$",
        ),
        (
            {"id": "u", "role": "assistant", "parts": [{"type": "tool-x", "state": "input-available"}]},
            "parts[0].toolCallId",
            r"^message: `parts\[0\]\.toolCallId` is <absent>: the key is required$",
        ),
        (
            {
                "id": "u",
                "role": "assistant",
                "parts": [{"type": "steering-message", "id": "s", "parts": [{"type": "file"}]}],
            },
            "parts[0].parts[0].mediaType",
            r"^message: `parts\[0\]\.parts\[0\]\.mediaType` is <absent>: the key is required$",
        ),
    ],
)
def test_an_error_names_the_field_the_value_and_the_way_out(wire: object, field: str, message: str) -> None:
    with pytest.raises(InvalidMessageError, match=message) as caught:
        parse_ui_message(wire)

    assert caught.value.field == field


def test_messages_and_chunks_are_taken_as_dicts_and_are_equal_to_no_dict() -> None:
    """D-1: unknown keys are kept, what is dumped is camelCase, and a comparison with a dict is no silent success."""
    wire = {"id": "a-1", "role": "assistant", "parts": [{"type": "source-url", "sourceId": "s", "url": "u", "new": 1}]}
    chunk_wire = {"type": "start", "messageId": "a-1", "new": 1}

    message, chunk = parse_ui_message(wire), parse_chunk(chunk_wire)

    assert (to_wire(message), to_wire(chunk)) == (wire, chunk_wire)
    assert message != wire
    assert chunk != chunk_wire
