"""Prompt messages to and from their wire form."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.errors import InvalidPromptError
from chatagent.model import (
    AssistantMessage,
    FilePart,
    ImagePart,
    InlineData,
    ReferenceData,
    SystemMessage,
    TextData,
    TextPart,
    ToolCallPart,
    ToolMessage,
    UrlData,
    UserMessage,
    message_to_wire,
    parse_model_message,
    parse_model_messages,
    prompt_to_wire,
)
from chatagent.ui import UIMessage

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
WORD = st.text(max_size=8)
OPTIONS = st.fixed_dictionaries({}, optional={"providerOptions": st.just({"p": {"k": None}}), "future": JSON})


def part(kind: str, optional: dict[str, Any] | None = None, /, **required: Any) -> st.SearchStrategy[dict[str, Any]]:
    fields = st.fixed_dictionaries({"type": st.just(kind), **required}, optional=optional or {})
    return st.builds(lambda one, two: {**one, **two}, fields, OPTIONS)


DATA = WORD | st.fixed_dictionaries({"type": st.just("url"), "url": st.just("https://e.com/a")})
TEXT = part("text", text=WORD)
FILE = part("file", {"filename": WORD}, mediaType=WORD, data=DATA)
OUTPUT = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["text", "error-text"]), "value": WORD}),
    st.fixed_dictionaries({"type": st.sampled_from(["json", "error-json"]), "value": JSON}),
    st.fixed_dictionaries({"type": st.just("execution-denied")}, optional={"reason": WORD}),
    st.fixed_dictionaries({"type": st.just("content"), "value": st.just([{"type": "text", "text": "x"}])}),
)
RESULT = part("tool-result", toolCallId=WORD, toolName=WORD, output=OUTPUT)
CALL = part("tool-call", {"providerExecuted": st.booleans()}, toolCallId=WORD, toolName=WORD, input=JSON)
REQUEST = part(
    "tool-approval-request",
    {"isAutomatic": st.booleans(), "reason": WORD, "signature": WORD, "inputSchemaInput": JSON},
    approvalId=WORD,
    toolCallId=WORD,
)
RESPONSE = part("tool-approval-response", {"reason": WORD}, approvalId=WORD, approved=st.booleans())
USER = st.lists(st.one_of(TEXT, FILE, part("image", {"mediaType": WORD}, image=DATA)), max_size=3)
ASSISTANT = st.lists(
    st.one_of(
        TEXT,
        FILE,
        part("reasoning", text=WORD),
        part("reasoning-file", mediaType=WORD, data=DATA),
        part("custom", kind=WORD),
        CALL,
        RESULT,
        REQUEST,
    ),
    max_size=4,
)
MESSAGES = st.one_of(
    st.fixed_dictionaries({"role": st.just("system"), "content": WORD}),
    st.fixed_dictionaries({"role": st.just("user"), "content": WORD | USER}),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": WORD | ASSISTANT}),
    st.fixed_dictionaries({"role": st.just("tool"), "content": st.lists(st.one_of(RESULT, RESPONSE), max_size=3)}),
)


@given(st.lists(st.builds(lambda one, two: {**one, **two}, MESSAGES, OPTIONS), max_size=4))
def test_messages_read_and_write_without_loss(wire: list[dict[str, Any]]) -> None:
    messages = parse_model_messages(wire)

    assert prompt_to_wire(messages) == wire
    assert parse_model_messages(messages) == messages


def test_content_that_is_a_string_stays_a_string() -> None:
    message = parse_model_message({"role": "assistant", "content": "hi"})

    assert message == AssistantMessage("hi")
    assert message_to_wire(message) == {"role": "assistant", "content": "hi"}


def test_an_object_is_returned_as_it_is() -> None:
    message = UserMessage("hi")

    assert parse_model_message(message) is message


def test_objects_may_stand_inside_a_dict() -> None:
    text = TextPart("hi")

    message = parse_model_message({"role": "user", "content": [text, {"type": "text", "text": "you"}]})

    assert isinstance(message, UserMessage)
    assert message.content[0] is text
    assert message.content == (TextPart("hi"), TextPart("you"))


def test_null_is_a_value_of_an_input_and_absence_of_all_else() -> None:
    wire = {"type": "tool-call", "toolCallId": "c", "toolName": "t", "input": None, "providerExecuted": None}

    message = parse_model_message({"role": "assistant", "content": [wire], "providerOptions": None})

    assert message == AssistantMessage((ToolCallPart("c", "t", None),))
    assert message_to_wire(message)["content"] == [
        {"type": "tool-call", "toolCallId": "c", "toolName": "t", "input": None}
    ]


def test_a_call_without_input_has_no_key_for_it() -> None:
    message = AssistantMessage([ToolCallPart("c", "t")])

    assert message_to_wire(message)["content"] == [{"type": "tool-call", "toolCallId": "c", "toolName": "t"}]


def test_file_data_is_written_in_its_own_form_and_bytes_as_base64() -> None:
    message = UserMessage(
        [
            FilePart(b"Hi", "text/plain"),
            FilePart(InlineData(b"Hi"), "text/plain"),
            FilePart(UrlData("https://e.com/a"), "text/plain", filename="a"),
            FilePart(ReferenceData({"p": "f1"}), "text/plain"),
            FilePart(TextData("Hi"), "text/plain"),
            ImagePart("SGk=", media_type="image/png"),
        ]
    )

    parts = message_to_wire(message)["content"]

    assert parts == [
        {"type": "file", "mediaType": "text/plain", "data": "SGk="},
        {"type": "file", "mediaType": "text/plain", "data": {"type": "data", "data": "SGk="}},
        {
            "type": "file",
            "mediaType": "text/plain",
            "data": {"type": "url", "url": "https://e.com/a"},
            "filename": "a",
        },
        {"type": "file", "mediaType": "text/plain", "data": {"type": "reference", "reference": {"p": "f1"}}},
        {"type": "file", "mediaType": "text/plain", "data": {"type": "text", "text": "Hi"}},
        {"type": "image", "image": "SGk=", "mediaType": "image/png"},
    ]


def test_a_list_given_as_content_can_no_longer_change_the_message() -> None:
    parts = [TextPart("hi")]
    message = UserMessage(parts)

    parts.append(TextPart("you"))

    assert message.content == (TextPart("hi"),)


@pytest.mark.parametrize("values", ["hi", {"role": "user", "content": "hi"}])
def test_one_message_is_no_list_of_messages(values: Any) -> None:
    with pytest.raises(InvalidPromptError, match=r"^Invalid prompt: `messages` is .*; give a list of messages$"):
        parse_model_messages(values)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("hi", "`message` is 'hi'; it must be an object"),
        ({"role": "robot", "content": "x"}, "`message.role` is 'robot'; it must be one of `system`"),
        ({"role": "user"}, "`message.content` is None; it is required"),
        ({"role": "system", "content": []}, "`message.content` is []; it must be a string"),
        ({"role": "tool", "content": "x"}, "`message.content` is 'x'; it must be a list of parts"),
        (
            {"role": "user", "content": [{"type": "reasoning", "text": "x"}]},
            "`message.content[0].type` is 'reasoning'; here it must be one of `text`, `image`, `file`",
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": 1}]},
            "`message.content[0].text` is 1; it must be a string",
        ),
        (
            {"role": "user", "content": [{"type": "file", "mediaType": "a/b", "data": 1}]},
            "message.content[0].data: file data is 1",
        ),
        (
            {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "t", "output": {}}]},
            "`message.content[0].output.type` is None; it must be one of `text`",
        ),
        ({"role": "user", "parts": []}, "a UI message; convert it with `convert_to_model_messages`"),
        (UIMessage(id="u", role="user", parts=[]), "a UI message; convert it with `convert_to_model_messages`"),
    ],
)
def test_the_first_thing_that_is_wrong_is_named(value: object, text: str) -> None:
    with pytest.raises(InvalidPromptError, match=re.escape(text)):
        parse_model_message(value)


def test_a_list_of_messages_names_the_index() -> None:
    with pytest.raises(InvalidPromptError, match=re.escape("`messages[1].role` is None")):
        parse_model_messages([SystemMessage("x"), {"content": "x"}])


def test_tool_messages_hold_results_and_answers_only() -> None:
    assert parse_model_message({"role": "tool", "content": []}) == ToolMessage(())
