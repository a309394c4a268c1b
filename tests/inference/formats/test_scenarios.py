"""Thoughts, tool calls and doom loops, as frames (4.1.2, 4.2.3, 4.2.4, 4.3.3)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.formats import (
    Call,
    anthropic_error,
    chat_completions_reasoning_then_tool_call_events,
    chat_tool_call_events,
    error_response,
    messages_redacted_thinking_events,
    messages_thinking_events,
    messages_tool_use_events,
    openai_error,
    rate_limited,
    responses_api_doom_loop_check_events,
    responses_api_doom_loop_terminal_only_events,
    responses_api_incomplete_events,
    responses_api_reasoning_and_text_events,
    responses_api_reasoning_only_events,
    responses_api_reasoning_then_tool_call_events,
    responses_api_tool_call_events,
    responses_api_with_doom_loop_frame,
)
from chatagent_test.inference.scripted import JsonBody, ScriptedResponse
from inference.formats.building import BUILDERS

if TYPE_CHECKING:
    from chatagent_test.inference.sse import SseEvent

PROFILES = pytest.mark.parametrize("profile", ["sdk", "minimal"])
TRIGGERS = ["tail_repetition:4@response", "tail_repetition:2@response"]


def payloads(events: list[SseEvent]) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in events if event.data != "[DONE]"]


def value_of(response: ScriptedResponse) -> Any:
    assert isinstance(response.body, JsonBody)
    return response.body.value


def of_type(events: list[SseEvent], kind: str) -> list[dict[str, Any]]:
    return [payload for payload in payloads(events) if payload["type"] == kind]


def output(events: list[SseEvent]) -> list[dict[str, Any]]:
    return payloads(events)[-1]["response"]["output"]


@PROFILES
def test_a_thought_alone_has_no_message(profile: Any) -> None:
    """FMT-008."""
    events = responses_api_reasoning_only_events("alpha beta", profile=profile, done=True)

    deltas = of_type(events, "response.reasoning_summary_text.delta")
    assert [delta["delta"] for delta in deltas] == ["alpha ", "beta "]
    assert not of_type(events, "response.output_text.delta")
    (item,) = output(events)
    assert item["type"] == "reasoning"
    assert item["summary"] == [{"type": "summary_text", "text": "alpha beta"}]
    assert events[-1].data == "[DONE]"


def test_done_stands_at_the_end_of_the_minimal_profile_only() -> None:
    full = responses_api_reasoning_only_events("alpha")
    minimal = responses_api_reasoning_only_events("alpha", profile="minimal")

    assert (full[-1].event, minimal[-1].data) == ("response.completed", "[DONE]")


@PROFILES
def test_a_thought_comes_strictly_before_the_text(profile: Any) -> None:
    """FMT-009."""
    events = responses_api_reasoning_and_text_events("alpha beta", "the answer", profile=profile)

    kinds = [payload["type"] for payload in payloads(events)]
    last_thought = max(index for index, kind in enumerate(kinds) if "reasoning_summary_text.delta" in kind)
    assert kinds.index("response.output_text.delta") > last_thought
    assert [delta["delta"] for delta in of_type(events, "response.output_text.delta")] == ["the ", "answer "]
    assert [item["type"] for item in output(events)] == ["reasoning", "message"]
    assert payloads(events)[-1]["response"]["usage"]["total_tokens"] == 20


@PROFILES
def test_a_thought_then_a_call_has_no_text(profile: Any) -> None:
    """FMT-010."""
    events = responses_api_reasoning_then_tool_call_events(
        "alpha beta", "call_1", "read_file", {"path": "a.py"}, profile=profile
    )

    kinds = [payload["type"] for payload in payloads(events)]
    (delta,) = of_type(events, "response.function_call_arguments.delta")
    assert delta["delta"] == '{"path":"a.py"}'
    assert kinds.index("response.reasoning_summary_text.delta") < kinds.index(delta["type"])
    assert "response.output_text.delta" not in kinds
    thought, call = output(events)
    assert thought["type"] == "reasoning"
    assert (call["type"], call["call_id"], call["name"]) == ("function_call", "call_1", "read_file")


def test_the_chat_twin_thinks_first_and_calls_in_one_delta() -> None:
    """FMT-011."""
    events = chat_completions_reasoning_then_tool_call_events("alpha beta", "call_1", "read_file", '{"path":"a.py"}')

    deltas = [payload["choices"][0]["delta"] for payload in payloads(events)]
    assert deltas[:2] == [{"reasoning_content": "alpha "}, {"reasoning_content": "beta "}]
    calls = [delta["tool_calls"] for delta in deltas if "tool_calls" in delta]
    function = {"name": "read_file", "arguments": '{"path":"a.py"}'}
    assert calls == [[{"index": 0, "id": "call_1", "type": "function", "function": function}]]
    assert not any(delta.get("content") for delta in deltas)
    last = payloads(events)[-1]
    assert last["choices"][0]["finish_reason"] == "tool_calls"
    assert last["usage"]["total_tokens"] == 30


@PROFILES
def test_a_doom_loop_is_told_in_growing_prefixes(profile: Any) -> None:
    """FMT-012."""
    events = responses_api_doom_loop_check_events(TRIGGERS, "looping thought", profile=profile)

    named = [event for event in events if event.event == "response.doom_loop_check"]
    checks = [json.loads(event.data) for event in named]
    assert [check["doom_loop_check"]["triggers"] for check in checks] == [TRIGGERS[:1], TRIGGERS]
    assert [events.index(event) for event in named] == [check["sequence_number"] for check in checks]
    assert payloads(events)[-1]["response"]["doom_loop_check"] == {"triggers": TRIGGERS}
    assert [item["type"] for item in output(events)] == ["reasoning"]


def test_frames_put_in_count_in_the_sdk_profile() -> None:
    events = responses_api_doom_loop_check_events(TRIGGERS, "looping thought")

    assert [payload["sequence_number"] for payload in payloads(events)] == list(range(len(events)))


@PROFILES
def test_a_doom_loop_may_be_told_at_the_end_alone(profile: Any) -> None:
    """FMT-013."""
    events = responses_api_doom_loop_terminal_only_events(TRIGGERS[:1], "brief", "the answer", profile=profile)

    assert "response.doom_loop_check" not in {event.event for event in events}
    assert payloads(events)[-1]["response"]["doom_loop_check"] == {"triggers": TRIGGERS[:1]}
    assert [item["type"] for item in output(events)] == ["reasoning", "message"]


@PROFILES
def test_a_doom_loop_frame_may_hold_anything(profile: Any) -> None:
    """FMT-014."""
    events = responses_api_with_doom_loop_frame('{"broken', "brief", "the answer", profile=profile)

    assert json.loads(events[0].data)["type"] == "response.created"
    assert (events[1].event, events[1].data) == ("response.doom_loop_check", '{"broken')


@PROFILES
@pytest.mark.parametrize("name", BUILDERS)
def test_every_frame_is_json_but_the_last_word(name: str, profile: Any) -> None:
    """FMT-015."""
    events = BUILDERS[name](profile=profile)

    assert events
    for event in events:
        if event.data != "[DONE]":
            assert isinstance(json.loads(event.data), dict)
    assert [event.data for event in events[:-1] if event.data == "[DONE]"] == []


@PROFILES
def test_no_triggers_are_no_frames_and_an_empty_list(profile: Any) -> None:
    """FMT-021."""
    events = responses_api_doom_loop_check_events([], "alpha", profile=profile)

    assert {event.event for event in events}.isdisjoint({"response.doom_loop_check"})
    assert payloads(events)[-1]["response"]["doom_loop_check"] == {"triggers": []}


# Tool calls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [chat_tool_call_events, responses_api_tool_call_events, messages_tool_use_events])
def test_arguments_come_in_fragments_of_the_size_asked_for(build: Any) -> None:
    text = "".join(event.data for event in build([("call_1", "f", {"q": "x"})], fragments=4))

    for piece in ('{\\"q\\"', ':\\"x\\"', "}"):
        assert f'"{piece}"' in text


@pytest.mark.parametrize(
    ("calls", "fragments", "problem"),
    [
        ([], None, "^`calls` is .*: give one at least$"),
        ([("a", "f", "{}")], 0, "^`fragments` is 0: a fragment has 1 character or more$"),
        ([("a", "f", "{}")], [["{"]], "^`fragments` is .*: together they are the arguments '{}'$"),
        ([("a", "f", "{}")], ["{}"], "^`fragments` is .*: give one list of strings for each of the 1 calls$"),
        ([("a", "f", "{}"), ("b", "g", "{}")], [["{}"]], "^`fragments` is .*: give one list .* the 2 calls$"),
        ([("a", "f", {"x": float("nan")})], None, "^`arguments` is .*: it cannot go out as JSON"),
    ],
)
def test_calls_that_make_no_sense_are_refused(calls: Any, fragments: Any, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        chat_tool_call_events(calls, fragments=fragments)


def test_several_calls_have_ids_of_their_own() -> None:
    events = responses_api_tool_call_events([Call("a", "f"), Call("b", "g"), Call("c", "h")])

    assert [(item["id"], item["call_id"]) for item in output(events)] == [("fc_1", "a"), ("fc_2", "b"), ("fc_3", "c")]


def test_a_call_without_arguments_has_no_delta() -> None:
    events = messages_tool_use_events([("toolu_1", "f", "")])

    assert [event.event for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


# Thinking ---------------------------------------------------------------------------------------------------------


def test_thinking_ends_with_its_signature() -> None:
    events = messages_thinking_events("alpha  beta", "so", signature="abc=")

    deltas = [payload["delta"] for payload in of_type(events, "content_block_delta")]
    assert "".join(delta.get("thinking", "") for delta in deltas) == "alpha  beta"
    assert deltas[-2:] == [{"type": "signature_delta", "signature": "abc="}, {"type": "text_delta", "text": "so"}]


def test_redacted_thinking_arrives_whole() -> None:
    events = messages_redacted_thinking_events("c2VjcmV0", "so")

    first = of_type(events, "content_block_start")[0]
    assert first == {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "redacted_thinking", "data": "c2VjcmV0"},
    }
    assert of_type(events, "content_block_delta")[0]["index"] == 1


def test_a_text_that_was_cut_short_says_why() -> None:
    events = responses_api_incomplete_events("cut", "content_filter")

    response = payloads(events)[-1]["response"]
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})


# Errors -----------------------------------------------------------------------------------------------------------


def test_an_error_of_openai_has_four_members() -> None:
    response = openai_error(429, "slow down", headers={"retry-after": "7"})

    error = {"message": "slow down", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"}
    assert (response.status, value_of(response)) == (429, {"error": error})
    assert ("retry-after", "7") in response.wire_headers


def test_an_error_of_anthropic_has_its_request_id_in_the_header_too() -> None:
    response = anthropic_error(529, "Overloaded")

    error = {"type": "overloaded_error", "message": "Overloaded"}
    assert value_of(response) == {"type": "error", "error": error, "request_id": "req_test"}
    assert ("request-id", "req_test") in response.wire_headers


@pytest.mark.parametrize("endpoint", InferenceEndpoint)
def test_an_error_takes_the_shape_of_its_endpoint(endpoint: InferenceEndpoint) -> None:
    response = error_response(endpoint, 429, "slow down", retry_after=0.1)

    assert ("retry-after", "0.1") in response.wire_headers
    shape = {"type", "error", "request_id"} if endpoint is InferenceEndpoint.MESSAGES else {"error"}
    assert set(value_of(response)) == shape


@pytest.mark.parametrize("status", [200, 399, 600])
def test_no_error_has_another_status(status: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`status` is"):
        openai_error(status, "?")
    with pytest.raises(InvalidArgumentError, match=r"^`status` is"):
        anthropic_error(status, "?")


def test_a_limit_is_a_script_until_somebody_asks() -> None:
    assert rate_limited(2).fails is not None
    with pytest.raises(InvalidArgumentError, match=r"^`retry_after` is -1: it is 0 seconds or more$"):
        rate_limited(-1)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0"), (0.25, "0.25"), (120, "120"), (1_234_567, "1234567"), (1e-5, "0.00001")]
)
def test_seconds_to_wait_are_told_in_plain_digits(seconds: float, text: str) -> None:
    response = error_response(InferenceEndpoint.MESSAGES, 429, "slow down", retry_after=seconds)

    assert ("retry-after", text) in response.wire_headers


def test_a_request_id_of_the_tests_own_is_the_only_one() -> None:
    response = anthropic_error(500, "boom", headers={"Request-Id": "req_mine"})

    assert [value for name, value in response.wire_headers if name.lower() == "request-id"] == ["req_mine"]
