"""One script for both: events, and the body that says the same (4.5)."""

from __future__ import annotations

from typing import Any

import pytest

from chatagent.errors import InvalidArgumentError
from chatagent_test import script
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.formats import (
    Call,
    chat_completion_events,
    chat_completion_events_exact,
    chat_completion_json,
    chat_error_event,
    chat_reasoning_events,
    chat_refusal_events,
    chat_tool_call_events,
    collapse,
    messages_api_events,
    messages_api_json,
    messages_error_event,
    messages_ping,
    messages_redacted_thinking_events,
    messages_thinking_events,
    messages_tool_use_events,
    requested_model,
    responses_api_error_events,
    responses_api_events,
    responses_api_events_exact,
    responses_api_json,
    responses_api_with_doom_loop_frame,
    script_response,
    text_response,
)
from chatagent_test.inference.scripted import JsonBody, SseBody
from chatagent_test.inference.sse import SseEvent
from chatagent_test.scripting.render import IdCounter
from conformance.goldens import OWN_GOLDENS, goldens_of

TEXT = "a  b\nc"
CHAT, RESPONSES, MESSAGES = InferenceEndpoint


@pytest.mark.parametrize(
    ("events", "body"),
    [
        pytest.param(chat_completion_events_exact(TEXT), chat_completion_json(TEXT), id="chat"),
        pytest.param(responses_api_events_exact(TEXT), responses_api_json(TEXT), id="responses"),
        pytest.param(responses_api_events(TEXT), responses_api_json(TEXT), id="responses-echo"),
        pytest.param(messages_api_events(TEXT), messages_api_json(TEXT), id="messages"),
    ],
)
def test_a_streamed_text_and_its_body_are_the_same(events: list[SseEvent], body: dict[str, Any]) -> None:
    assert collapse(events) == body


@pytest.mark.parametrize("endpoint", InferenceEndpoint)
@pytest.mark.parametrize(
    "said",
    [
        script.text("a").text("b"),
        script.reasoning("hm").text("so"),
        script.text("x").tool_call("f", {"q": 1}).tool_call("g", {}),
        script.text("see").source("https://a.test", title="A"),
        script.text("cut").finish("length"),
    ],
    ids=["texts", "thought", "calls", "source", "cut"],
)
def test_a_script_collapses_to_its_body(said: Any, endpoint: InferenceEndpoint) -> None:
    streamed = script_response(endpoint, said, {}, streams=True, ids=IdCounter()).body
    whole = script_response(endpoint, said, {}, streams=False, ids=IdCounter()).body
    assert isinstance(streamed, SseBody)
    assert isinstance(whole, JsonBody)

    assert collapse(streamed.events) == whole.value


def test_an_echo_is_not_collapsed_in_a_body() -> None:
    for endpoint in InferenceEndpoint:
        body = text_response(endpoint, TEXT, {}, streams=False, exact=False).body

        assert isinstance(body, JsonBody)
        assert TEXT.encode("unicode_escape") in body.content


@pytest.mark.parametrize("name", ["chat_json_tool_calls", "chat_json_refusal", "messages_json_tool_use"])
def test_recorded_bodies_have_the_members_that_collapse_gives(name: str) -> None:
    found = {golden.path.stem: golden.load() for golden in goldens_of("wire", OWN_GOLDENS)}
    calls = [Call("call_a", "get_weather", {"city": "Oslo"}), Call("call_b", "read_file", {"path": "b.py"})]
    own = [Call(call.call_id.replace("call", "toolu"), call.name, call.text) for call in calls]
    built = {
        "chat_json_tool_calls": chat_tool_call_events(calls, fragments=2),
        "chat_json_refusal": chat_refusal_events("I can't help."),
        "messages_json_tool_use": messages_tool_use_events(own, text="Checking.", fragments=2),
    }[name]

    body, recorded = collapse(built), found[name]["body"]["json"]

    assert {**body, "usage": recorded["usage"]} == recorded


def test_thoughts_stand_beside_texts() -> None:
    message = collapse(chat_reasoning_events("alpha beta", text="so"))["choices"][0]["message"]
    content = collapse(messages_thinking_events("alpha", "so"))["content"]
    hidden = collapse(messages_redacted_thinking_events("c2Vj", "so"))["content"]

    assert message == {"role": "assistant", "content": "so", "reasoning_content": "alpha beta "}
    assert content[0] == {"type": "thinking", "thinking": "alpha", "signature": "c2ln"}
    assert hidden[0] == {"type": "redacted_thinking", "data": "c2Vj"}


def test_what_says_nothing_is_left_out() -> None:
    events = messages_api_events("x")
    noisy = [*events[:3], messages_ping(), SseEvent.named("future_event", {"type": "future_event"}), *events[3:]]

    assert collapse(noisy) == collapse(events)
    assert collapse(responses_api_with_doom_loop_frame("{broken", "hm", "so"))["status"] == "completed"


def test_a_chat_whose_usage_rides_on_the_finish_has_it_too() -> None:
    assert collapse(chat_completion_events("a", usage=None)).get("usage") is None
    assert collapse(chat_completion_events("a"))["usage"]["total_tokens"] == 11


def test_an_input_that_is_no_json_stays_a_text() -> None:
    body = collapse(messages_tool_use_events([("t", "f", '{"broken')]))

    assert body["content"] == [{"type": "tool_use", "id": "t", "name": "f", "input": '{"broken'}]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [SseEvent.of("[DONE]")],
        [SseEvent.of("{broken")],
        [SseEvent.of([1])],
        [*chat_completion_events("par")[:1], chat_error_event("boom")],
        [*messages_api_events("par")[:3], messages_error_event("overloaded_error", "Overloaded")],
        responses_api_error_events("boom"),
        responses_api_events("par")[:-1],
    ],
)
def test_what_is_no_whole_answer_has_no_body(events: list[SseEvent]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`events` is"):
        collapse(events)


def test_the_model_that_was_asked_for_is_named() -> None:
    assert requested_model({"model": "m"}) == "m"
    assert requested_model({}) == requested_model({"model": None}) == "test-model"


@pytest.mark.parametrize("endpoint", InferenceEndpoint)
def test_a_text_goes_out_in_the_mode_asked_for(endpoint: InferenceEndpoint) -> None:
    request = {"model": "m-1"}

    streamed = text_response(endpoint, TEXT, request, streams=True, exact=True, stop_reason="refusal").body
    whole = text_response(endpoint, TEXT, request, streams=False, stop_reason="refusal").body

    assert isinstance(streamed, SseBody)
    assert isinstance(whole, JsonBody)
    assert collapse(streamed.events) == whole.value
    assert whole.value["model"] == "m-1"
    if endpoint is MESSAGES:
        assert whole.value["stop_reason"] == "refusal"


def test_a_text_tells_its_usage_as_it_is_told_to() -> None:
    request = {"messages": [{"role": "user", "content": "x" * 8}]}

    silent = text_response(CHAT, "yyyyy", request, streams=True, usage_frame="requested").body
    estimated = text_response(RESPONSES, "yyyyy", request, streams=False, usage="estimate").body

    assert isinstance(silent, SseBody)
    assert "usage" not in collapse(silent.events)
    assert isinstance(estimated, JsonBody)
    assert estimated.value["usage"]["input_tokens"] == 3
    assert estimated.value["usage"]["output_tokens"] == 2


@pytest.mark.parametrize(
    "payload",
    [
        {"choices": [{"delta": 5}]},
        {"choices": [None]},
        {"choices": [{"delta": {"tool_calls": [5]}}]},
        {"type": "response.completed", "response": 5},
        {"type": "message_start", "message": None},
    ],
)
def test_frames_of_no_known_shape_are_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="a frame is of no shape that is known"):
        collapse([SseEvent.of(payload)])
