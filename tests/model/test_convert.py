"""UI messages to the messages that a model is asked with; the goldens show the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from chatagent.errors import InvalidMessageError, InvalidPromptError, MessageConversionError
from chatagent.model import (
    AssistantMessage,
    Conversion,
    TextPart,
    ToModelOutputEvent,
    ToolCallPart,
    ToolMessage,
    ToolResultOutput,
    ToolResultPart,
    UserMessage,
    convert_message,
    convert_to_model_messages,
    convert_to_model_messages_async,
    prompt_to_wire,
)
from chatagent.ui import DataUIPart, UIMessage


@dataclass
class Tool:
    """A tool, as far as its outputs are concerned."""

    to_model_output: Any


def user(text: str = "Hi") -> UIMessage:
    return UIMessage.model_validate({"id": "u", "role": "user", "parts": [{"type": "text", "text": text}]})


def assistant(*parts: dict[str, Any]) -> UIMessage:
    return UIMessage.model_validate({"id": "a", "role": "assistant", "parts": list(parts)})


def tool_part(state: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool-t", "toolCallId": "c1", "state": state, "input": {}, **fields}


REQUESTED = tool_part("approval-requested", approval={"id": "a1"})


def test_a_block_of_data_parts_that_nobody_converts_gives_no_message() -> None:
    data = assistant({"type": "data-note", "data": 1}, {"type": "step-start"}, {"type": "text", "text": "x"})

    assert convert_to_model_messages([data]) == [AssistantMessage((TextPart("x"),))]


def test_a_message_whose_parts_are_all_dropped_gives_none() -> None:
    dropped = assistant({"type": "step-start"}, tool_part("input-available"), {"type": "future", "x": 1})

    assert convert_to_model_messages([dropped], ignore_incomplete_tool_calls=True) == []


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (tool_part("input-streaming"), False),
        (tool_part("input-available"), False),
        (REQUESTED, False),
        (tool_part("approval-responded", approval={"id": "a1", "approved": True}), True),
        (tool_part("output-available", output=1), True),
        (tool_part("output-available", output=1, preliminary=True), False),
        (tool_part("output-error", errorText="e"), True),
        (tool_part("output-denied", approval={"id": "a1", "approved": False}), True),
    ],
)
def test_only_calls_with_an_outcome_are_shown_if_incomplete_ones_are_ignored(
    part: dict[str, Any], *, shown: bool
) -> None:
    messages = convert_to_model_messages([assistant(part)], ignore_incomplete_tool_calls=True)

    assert bool(messages) is shown


def test_an_open_approval_is_dropped_in_front_of_the_last_user_message_only() -> None:
    message = assistant({"type": "text", "text": "x"}, REQUESTED)

    before = convert_to_model_messages([user(), message, user()])
    behind = convert_to_model_messages([user(), message, assistant({"type": "text", "text": "y"})])

    assert before[1] == AssistantMessage((TextPart("x"),))
    assert len(behind[1].content) == 3


def test_one_message_converts_to_what_it_gives_in_the_list() -> None:
    messages = [user(), assistant({"type": "step-start"}, tool_part("output-available", output="r")), user()]

    one_by_one = [made for message in messages for made in convert_message(message, Conversion())]

    assert one_by_one == convert_to_model_messages(messages)


def test_a_denied_call_of_the_provider_is_answered_in_the_tool_message() -> None:
    part = tool_part(
        "approval-responded", providerExecuted=True, approval={"id": "a1", "approved": False, "reason": "no"}
    )

    answer = convert_to_model_messages([assistant(part)])[1]

    assert prompt_to_wire([answer])[0]["content"] == [
        {
            "type": "tool-approval-response",
            "approvalId": "a1",
            "approved": False,
            "reason": "no",
            "providerExecuted": True,
        },
        {
            "type": "tool-result",
            "toolCallId": "c1",
            "toolName": "t",
            "output": {"type": "execution-denied", "reason": "no"},
        },
    ]


def test_a_failed_call_without_call_metadata_takes_that_of_its_result() -> None:
    part = tool_part("output-error", errorText="e", resultProviderMetadata={"p": {"r": 1}})

    call, answer = convert_to_model_messages([assistant(part)])

    assert call == AssistantMessage((ToolCallPart("c1", "t", {}, provider_options={"p": {"r": 1}}),))
    assert answer == ToolMessage((ToolResultPart("c1", "t", ToolResultOutput("error-text", "e")),))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"input": None}, {}),
        ({}, {}),
        ({"input": None, "rawInput": "{"}, {"input": "{"}),
        ({"input": 0, "rawInput": "{"}, {"input": 0}),
    ],
)
def test_the_input_of_a_failed_call_is_its_raw_text_if_it_has_no_other(
    fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    part = {"type": "tool-t", "toolCallId": "c1", "state": "output-error", "errorText": "e", **fields}

    call = prompt_to_wire(convert_to_model_messages([assistant(part)]))[0]

    assert call["content"] == [{"type": "tool-call", "toolCallId": "c1", "toolName": "t", **expected}]


def test_a_tool_tells_its_output_itself() -> None:
    seen: list[ToModelOutputEvent] = []

    def to_model_output(event: ToModelOutputEvent) -> ToolResultOutput:
        seen.append(event)
        return ToolResultOutput("content", [{"type": "text", "text": "x"}])

    part = tool_part("output-available", output={"n": 1})

    answer = convert_to_model_messages([assistant(part)], tools={"t": Tool(to_model_output)})[1]

    assert seen == [ToModelOutputEvent("c1", {}, {"n": 1})]
    assert answer == ToolMessage(
        (ToolResultPart("c1", "t", ToolResultOutput("content", [{"type": "text", "text": "x"}])),)
    )


def test_an_async_to_model_output_is_refused_where_nobody_can_wait() -> None:
    async def to_model_output(_event: ToModelOutputEvent) -> dict[str, str]:
        return {"type": "text", "value": "x"}

    part = tool_part("output-available", output=1)

    with pytest.raises(MessageConversionError, match=r"`to_model_output` .* 'c1' is async; convert with"):
        convert_to_model_messages([assistant(part)], tools={"t": Tool(to_model_output)})


@pytest.mark.anyio
async def test_an_async_to_model_output_is_waited_for_by_the_async_conversion() -> None:
    async def to_model_output(_event: ToModelOutputEvent) -> dict[str, str]:
        return {"type": "text", "value": "x"}

    message = assistant(tool_part("output-available", output=1))

    answer = (await convert_to_model_messages_async([message], tools={"t": Tool(to_model_output)}))[1]

    assert answer == ToolMessage((ToolResultPart("c1", "t", ToolResultOutput("text", "x")),))


def test_a_to_model_output_that_gives_no_output_is_named() -> None:
    part = tool_part("output-available", output=1)

    with pytest.raises(InvalidPromptError, match=re.escape("`output` is 'x'; it must be an object")):
        convert_to_model_messages([assistant(part)], tools={"t": Tool(lambda _event: "x")})


def test_a_tool_that_is_gone_keeps_its_output_from_the_model_but_not_its_error() -> None:
    gone = {"type": "dynamic-tool", "toolName": "t", "toolCallId": "c1", "dynamic": False, "input": {}}
    answered = assistant({**gone, "state": "output-available", "output": "secret"})
    failed = assistant({**gone, "state": "output-error", "errorText": "e"})

    outputs = [convert_to_model_messages([each])[1].content[0] for each in (answered, failed)]

    assert outputs == [
        ToolResultPart(
            "c1",
            "t",
            ToolResultOutput("text", "Tool output omitted because the tool is no longer available."),
        ),
        ToolResultPart("c1", "t", ToolResultOutput("error-text", "e")),
    ]


def test_a_data_part_becomes_what_the_converter_makes_of_it() -> None:
    def convert(part: DataUIPart) -> TextPart | dict[str, object] | None:
        return {"type": "text", "text": str(part.data)} if part.name == "wire" else TextPart(str(part.data))

    parts = [{"type": "data-wire", "data": 1}, {"type": "data-other", "data": 2}]
    message = UIMessage.model_validate({"id": "u", "role": "user", "parts": parts})

    (converted,) = convert_to_model_messages([message], convert_data_part=convert)

    assert converted == UserMessage((TextPart("1"), TextPart("2")))


def test_messages_in_wire_form_need_no_id_but_a_form() -> None:
    assert convert_to_model_messages([{"role": "user", "parts": []}]) == [UserMessage(())]

    with pytest.raises(InvalidMessageError, match=r"^message: `messages\[1\]\.parts` is <absent>: "):
        convert_to_model_messages([{"role": "user", "parts": []}, {"role": "user"}])


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "tool", "parts": []}, "role"),
        (assistant({"type": "step-start"}, {"type": "reasoning-file", "mediaType": "a/b", "url": "x"}), "parts[1].url"),
        (
            assistant(
                {
                    "type": "steering-message",
                    "id": "s",
                    "parts": [{"type": "text", "text": "a"}, {"type": "file", "mediaType": "a/b", "url": "x"}],
                }
            ),
            "parts[0].parts[1].url",
        ),
    ],
)
def test_what_cannot_be_converted_is_named_with_its_path(message: dict[str, Any], field: str) -> None:
    with pytest.raises(MessageConversionError) as caught:
        convert_to_model_messages([user(), message])

    assert caught.value.field == f"messages[1].{field}"


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_file_without_a_url_is_refused(role: str) -> None:
    part = {"type": "file", "mediaType": "a/b", "url": "/relative"}

    with pytest.raises(
        MessageConversionError, match=r"^`messages\[0\]\.parts\[0\]\.url` is '/relative': it is no URL; "
    ):
        convert_to_model_messages([{"role": role, "parts": [part]}])
