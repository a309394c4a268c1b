from __future__ import annotations

from typing import Any, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.errors import ChunkError, UIMessageStreamError
from chatagent.ui import (
    Abort,
    Chunk,
    DataChunk,
    Error,
    Finish,
    MessageMetadata,
    MessageReducer,
    ReasoningDelta,
    ReasoningStart,
    ReasoningUIPart,
    ResetStep,
    Start,
    StartStep,
    TextDelta,
    TextEnd,
    TextStart,
    TextUIPart,
    ToolApprovalRequest,
    ToolApprovalResponse,
    ToolInputAvailable,
    ToolInputDelta,
    ToolInputError,
    ToolInputStart,
    ToolOutputAvailable,
    ToolOutputDenied,
    ToolOutputError,
    UIMessage,
    UnknownChunk,
    parse_ui_message,
    to_wire,
)
from ui.strategies import CHUNKS

FORGETTING = (Start, ResetStep)


def reduce(*chunks: Chunk, message: UIMessage | None = None) -> list[dict[str, Any]]:
    """Return the parts that the chunks make."""
    reducer = MessageReducer(message)
    for chunk in chunks:
        reducer.feed(chunk)
    return cast("list[dict[str, Any]]", to_wire(reducer.message)["parts"])


def assistant(*parts: dict[str, object]) -> UIMessage:
    return parse_ui_message({"id": "a1", "role": "assistant", "parts": list(parts)})


@given(st.lists(CHUNKS, max_size=30))
def test_no_sequence_raises_anything_but_a_stream_error_and_no_text_is_lost(chunks: list[Chunk]) -> None:
    reducer = MessageReducer()
    said: list[str] = []
    for chunk in chunks:
        if isinstance(chunk, FORGETTING):
            continue
        try:
            reducer.feed(chunk)
        except UIMessageStreamError:
            continue
        if isinstance(chunk, TextDelta | ReasoningDelta):
            said.append(chunk.delta)

    shown = [part.text for part in reducer.message.parts if isinstance(part, TextUIPart | ReasoningUIPart)]

    assert sorted("".join(said)) == sorted("".join(shown))


@given(st.lists(CHUNKS, max_size=30), st.sampled_from(["restart", "rename"]))
def test_who_looks_at_each_state_and_who_looks_at_the_end_see_the_same(
    chunks: list[Chunk], on_new_id: Literal["restart", "rename"]
) -> None:
    watched = MessageReducer(on_new_id=on_new_id)
    unwatched = MessageReducer(on_new_id=on_new_id)
    seen: list[tuple[UIMessage, object]] = []
    last: UIMessage | None = None
    for chunk in chunks:
        try:
            if watched.feed(chunk):
                last = watched.message
        except UIMessageStreamError:
            with pytest.raises(UIMessageStreamError):
                unwatched.feed(chunk)
        else:
            unwatched.feed(chunk)
        seen.append((watched.message, to_wire(watched.message)))

    assert to_wire(watched.message) == to_wire(unwatched.message)
    assert watched.last_state == unwatched.last_state == last
    assert all(to_wire(message) == wire for message, wire in seen)


@given(st.lists(CHUNKS, max_size=30))
def test_every_message_survives_the_wire(chunks: list[Chunk]) -> None:
    reducer = MessageReducer()
    for chunk in chunks:
        try:
            reducer.feed(chunk)
        except UIMessageStreamError:
            break
    wire = to_wire(reducer.message)

    again = parse_ui_message(wire)

    assert to_wire(again) == wire
    assert to_wire(MessageReducer(again).message) == wire


def test_a_chunk_that_does_not_fit_leaves_the_message_as_it_was() -> None:
    reducer = MessageReducer()
    reducer.feed(TextStart("t1"))
    before = reducer.message

    with pytest.raises(
        UIMessageStreamError, match=r'^Received text-end for missing text part with ID "t2"\. '
    ) as caught:
        reducer.feed(TextEnd("t2"))

    assert (caught.value.chunk_type, caught.value.chunk_id) == ("text-end", "t2")
    assert reducer.message is before


def test_the_message_is_the_same_object_until_something_changes_it() -> None:
    reducer = MessageReducer()
    reducer.feed(TextStart("t1"))
    first = reducer.message

    silent: list[Chunk] = [
        Error("x"),
        Abort(),
        Finish("stop"),
        UnknownChunk("new"),
        DataChunk("data-x", 1, transient=True),
    ]
    assert not any(reducer.feed(chunk) for chunk in silent)
    assert reducer.message is first
    assert reducer.finish_reason == "stop"

    assert reducer.feed(TextDelta("t1", ""))
    assert reducer.message is not first


def test_the_last_state_lacks_the_start_of_an_empty_step() -> None:
    reducer = MessageReducer()
    before = reducer.last_state

    for chunk in (Start("m1"), TextStart("t1"), StartStep()):
        reducer.feed(chunk)
    last = reducer.last_state

    assert before is None
    assert last is not None
    assert [part.type for part in last.parts] == ["text"]
    assert [part.type for part in reducer.message.parts] == ["text", "step-start"]


def test_a_wire_dict_is_taken_as_a_chunk() -> None:
    reducer = MessageReducer()

    assert reducer.feed({"type": "start", "messageId": "m1"})
    with pytest.raises(ChunkError):
        reducer.feed({"type": "text-start"})

    assert reducer.message.id == "m1"


def test_a_new_id_begins_a_new_message_or_renames_it() -> None:
    message = assistant({"type": "text", "text": "before"})
    reading, tracking = MessageReducer(message), MessageReducer(message, on_new_id="rename")

    reading.feed(Start("a2"))
    tracking.feed(Start("a2"))

    assert to_wire(reading.message) == {"id": "a2", "role": "assistant", "parts": []}
    assert to_wire(tracking.message) == {
        "id": "a2",
        "role": "assistant",
        "parts": [{"type": "text", "text": "before"}],
    }


def test_unknown_fields_of_a_continued_message_stay() -> None:
    message = parse_ui_message({"id": "a1", "role": "assistant", "parts": [], "createdAt": 1})
    reducer = MessageReducer(message)

    reducer.feed(TextStart("t1"))

    assert to_wire(reducer.message)["createdAt"] == 1


def test_metadata_that_was_given_is_not_changed_by_a_merge() -> None:
    given_metadata = {"a": {"b": 1}}
    reducer = MessageReducer()
    reducer.feed(Start(message_metadata=given_metadata))

    reducer.feed(MessageMetadata({"a": {"c": 2}, "d": [1]}))
    reducer.feed(MessageMetadata({"d": "x"}))

    assert reducer.message.metadata == {"a": {"b": 1, "c": 2}, "d": "x"}
    assert given_metadata == {"a": {"b": 1}}


def test_an_input_goes_on_where_a_continued_message_left_it() -> None:
    message = assistant(
        {"type": "step-start"},
        {
            "type": "tool-weather",
            "toolCallId": "c1",
            "state": "input-streaming",
            "title": "Weather",
            "input": {"city": "O"},
            "rawInput": '{"city":"O',
        },
    )

    parts = reduce(ToolInputDelta("c1", 'slo"'), message=message)

    assert parts[1] == {
        "type": "tool-weather",
        "toolCallId": "c1",
        "state": "input-streaming",
        "title": "Weather",
        "input": {"city": "Oslo"},
        "rawInput": '{"city":"Oslo"',
    }


def test_an_input_of_an_earlier_step_is_not_resumed() -> None:
    message = assistant(
        {"type": "tool-weather", "toolCallId": "c1", "state": "input-streaming", "rawInput": "{"},
        {"type": "step-start"},
    )

    with pytest.raises(UIMessageStreamError, match=r"^Received tool-input-delta for missing tool call"):
        MessageReducer(message).feed(ToolInputDelta("c1", "}"))


def test_an_input_delta_in_a_later_step_makes_a_part_there() -> None:
    parts = reduce(ToolInputStart("c1", "w"), ToolInputDelta("c1", "{"), StartStep(), ToolInputDelta("c1", "}"))

    assert parts == [
        {"type": "tool-w", "toolCallId": "c1", "state": "input-streaming", "input": {}, "rawInput": "{"},
        {"type": "step-start"},
        {"type": "tool-w", "toolCallId": "c1", "state": "input-streaming", "input": {}, "rawInput": "{}"},
    ]


def test_halves_of_a_character_in_a_tool_input_are_joined() -> None:
    parts = reduce(ToolInputStart("c1", "w"), ToolInputDelta("c1", '["\ud83d'), ToolInputDelta("c1", '\ude00"]'))

    assert parts == [
        {"type": "tool-w", "toolCallId": "c1", "state": "input-streaming", "input": ["😀"], "rawInput": '["😀"]'}
    ]


def test_static_tools_keep_their_raw_input_at_an_error_and_dynamic_ones_lose_it() -> None:
    static = reduce(ToolInputStart("c1", "w"), ToolInputDelta("c1", "[1"), ToolOutputError("c1", "late"))
    dynamic = reduce(ToolInputStart("c1", "w", dynamic=True), ToolInputDelta("c1", "[1"), ToolOutputError("c1", "late"))

    assert static == [
        {
            "type": "tool-w",
            "toolCallId": "c1",
            "state": "output-error",
            "errorText": "late",
            "input": [1],
            "rawInput": "[1",
        }
    ]
    assert dynamic == [
        {
            "type": "dynamic-tool",
            "toolName": "w",
            "toolCallId": "c1",
            "state": "output-error",
            "errorText": "late",
            "input": [1],
        }
    ]


def test_the_kind_of_a_call_in_this_step_wins_over_that_of_an_input_error() -> None:
    parts = reduce(ToolInputStart("c1", "w"), ToolInputError("c1", "w", {"a": 1}, "bad", dynamic=True))

    assert parts == [
        {"type": "tool-w", "toolCallId": "c1", "state": "output-error", "input": {"a": 1}, "errorText": "bad"}
    ]


def test_the_title_of_an_input_error_is_not_taken_over() -> None:
    told = ToolInputError("c2", "w", {}, "bad", title="New", tool_metadata={"m": 1})

    parts = reduce(ToolInputStart("c1", "w", title="Old"), ToolInputError("c1", "w", {}, "bad", title="New"), told)

    assert [part.get("title") for part in parts] == ["Old", None]
    assert parts[1]["toolMetadata"] == {"m": 1}


def test_an_answer_to_an_approval_may_say_more_of_the_call() -> None:
    answer = ToolApprovalResponse("a1", approved=True, provider_executed=True, provider_metadata={"p": {"x": 1}})

    (part,) = reduce(ToolInputAvailable("c1", "w", {}), ToolApprovalRequest("a1", "c1"), answer)

    assert part == {
        "type": "tool-w",
        "toolCallId": "c1",
        "state": "approval-responded",
        "input": {},
        "providerExecuted": True,
        "callProviderMetadata": {"p": {"x": 1}},
        "approval": {"id": "a1", "approved": True},
    }


def test_a_new_call_of_the_same_id_clears_what_belonged_to_the_old_state() -> None:
    parts = reduce(
        ToolInputAvailable("c1", "w", 1, title="W"),
        ToolOutputAvailable("c1", 2, preliminary=True, provider_metadata={"p": {"a": 1}}),
        ToolInputAvailable("c1", "v", 3, provider_executed=True),
    )

    assert parts == [
        {
            "type": "tool-v",
            "toolCallId": "c1",
            "state": "input-available",
            "title": "W",
            "input": 3,
            "providerExecuted": True,
            "resultProviderMetadata": {"p": {"a": 1}},
        }
    ]


def test_an_approval_is_asked_answered_and_kept() -> None:
    asked = [
        ToolInputAvailable("c1", "w", {}),
        ToolApprovalRequest(
            "ap1",
            "c1",
            reason="costs money",
            is_automatic=False,
            signature="s",
            input_schema_input=None,
            approval_descriptor={"k": 1},
        ),
    ]
    request = {
        "id": "ap1",
        "requestReason": "costs money",
        "signature": "s",
        "inputSchemaInput": None,
        "descriptor": {"k": 1},
    }

    parts = reduce(*asked, ToolApprovalResponse("ap1", False, "no"), ToolOutputDenied("c1"))

    assert reduce(*asked)[0]["approval"] == request
    assert parts == [
        {
            "type": "tool-w",
            "toolCallId": "c1",
            "state": "output-denied",
            "input": {},
            "approval": {**request, "approved": False, "reason": "no"},
        }
    ]


def test_an_answer_to_an_approval_that_was_asked_anew_is_refused() -> None:
    reducer = MessageReducer()
    for chunk in (
        ToolInputAvailable("c1", "w", {}),
        ToolApprovalRequest("ap1", "c1"),
        ToolApprovalRequest("ap2", "c1"),
    ):
        reducer.feed(chunk)

    with pytest.raises(UIMessageStreamError, match=r'^No tool invocation found for approval ID "ap1"\.$'):
        reducer.feed(ToolApprovalResponse("ap1", approved=True))


def test_a_reset_step_forgets_blocks_calls_and_data_of_the_step_only() -> None:
    reducer = MessageReducer()
    for chunk in (
        ToolInputAvailable("c1", "w", 1),
        DataChunk("data-x", 1, id="d1"),
        StartStep(),
        ToolInputStart("c1", "w"),
        DataChunk("data-x", 1, id="d2"),
        TextStart("t1"),
    ):
        reducer.feed(chunk)

    assert reducer.feed(ResetStep())
    assert not reducer.feed(ResetStep())

    for chunk in (TextDelta("t1", "x"), ToolInputDelta("c1", "{")):
        with pytest.raises(UIMessageStreamError):
            reducer.feed(chunk)
    for chunk in (ToolOutputAvailable("c1", 2), DataChunk("data-x", 2, id="d1"), DataChunk("data-x", 2, id="d2")):
        reducer.feed(chunk)
    assert to_wire(reducer.message)["parts"] == [
        {"type": "tool-w", "toolCallId": "c1", "state": "output-available", "input": 1, "output": 2},
        {"type": "data-x", "id": "d1", "data": 2},
        {"type": "step-start"},
        {"type": "data-x", "id": "d2", "data": 2},
    ]


def test_an_output_goes_to_the_current_step_first_and_then_to_the_last_one() -> None:
    calls: list[Chunk] = [
        ToolInputAvailable("c1", "w", 1),
        StartStep(),
        ToolInputAvailable("c1", "w", 2),
        ToolInputAvailable("c1", "w", 3, dynamic=True),
    ]

    current = reduce(*calls, ToolOutputAvailable("c1", "x"))
    later = reduce(*calls, StartStep(), ToolOutputAvailable("c1", "x"))

    assert [part.get("output") for part in current] == [None, None, "x", None]
    assert [part.get("output") for part in later] == [None, None, None, "x", None]


def test_reasoning_keeps_its_block_id_and_text_does_not() -> None:
    parts = reduce(ReasoningStart("b"), TextStart("b"), ReasoningDelta("b", "think"), TextDelta("b", "say"))

    assert parts == [
        {"type": "reasoning", "id": "b", "text": "think", "state": "streaming"},
        {"type": "text", "text": "say", "state": "streaming"},
    ]
