"""Builders against recordings of the same answers, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from chatagent_test.inference import formats
from chatagent_test.inference.recording import case_response
from chatagent_test.inference.scripted import JsonBody, SseBody
from conformance.goldens import OWN_GOLDENS, goldens_of

RECORDED = {golden.path.stem: golden for golden in goldens_of("wire", OWN_GOLDENS)}
HELLO, THOUGHT, REFUSAL = "Hello brave world", "alpha beta", "I can't help."
FENCED = "Here is a flow:\n\n```mermaid\nflowchart TD\n  A --> B\n```\n\nDone\ttab  two spaces.\n"
PARIS = [("call_1", "get_weather", '{"city":"Paris"}')]
FRAGMENTS = [['{"ci', 'ty":"Par', 'is"}']]
READ = ("call_1", "read_file", {"path": "a.py"})
TRIGGERS = ["tail_repetition:4@response", "tail_repetition:2@response"]
MINIMAL: Any = {"profile": "minimal"}

STREAMS = {
    "chat_text_stream": formats.chat_completion_events(HELLO),
    "chat_text_echo_collapsed": formats.chat_completion_events("Echo: a  b\nc"),
    "chat_text_multiline_exact": formats.chat_completion_events_exact(FENCED),
    "chat_length_stop": formats.chat_completion_events("cut short", finish_reason="length"),
    "chat_tool_call_argument_deltas": formats.chat_tool_call_events(PARIS, fragments=FRAGMENTS),
    "chat_reasoning_only": formats.chat_reasoning_events(THOUGHT),
    "chat_reasoning_then_tool_call": formats.chat_completions_reasoning_then_tool_call_events(THOUGHT, *READ),
    "responses_text_full": formats.responses_api_events_exact(HELLO),
    "responses_text_minimal": formats.responses_api_events_exact(HELLO, **MINIMAL),
    "responses_text_echo_collapsed": formats.responses_api_events("Echo: a  b\nc", **MINIMAL),
    "responses_text_multiline_exact": formats.responses_api_events_exact(FENCED, **MINIMAL),
    "responses_tool_call_full": formats.responses_api_tool_call_events(PARIS, fragments=FRAGMENTS),
    "responses_reasoning_only_full": formats.responses_api_reasoning_only_events(THOUGHT),
    "responses_reasoning_only_minimal": formats.responses_api_reasoning_only_events(THOUGHT, **MINIMAL),
    "responses_reasoning_and_text_minimal": formats.responses_api_reasoning_and_text_events(
        THOUGHT, "the answer", **MINIMAL
    ),
    "responses_reasoning_then_tool_call_minimal": formats.responses_api_reasoning_then_tool_call_events(
        THOUGHT, *READ, **MINIMAL
    ),
    "responses_doom_loop_cumulative": formats.responses_api_doom_loop_check_events(
        TRIGGERS, "looping thought", **MINIMAL
    ),
    "responses_doom_loop_terminal_only": formats.responses_api_doom_loop_terminal_only_events(
        ["low_logprob@thinking"], "brief", "the answer", **MINIMAL
    ),
    "responses_incomplete_max_tokens": formats.responses_api_incomplete_events("cut short"),
    "responses_failed": formats.responses_api_failed_events("boom"),
    "messages_text_unnamed_events": formats.messages_api_events(HELLO, **MINIMAL),
}
BODIES = {
    "chat_json_text": formats.chat_completion_json(HELLO),
    "responses_json_text": formats.responses_api_json(HELLO),
    "responses_json_minimal_text": formats.responses_api_json("Hello", **MINIMAL),
    "messages_json_text": formats.messages_api_json(HELLO),
}
ERRORS = {
    "chat_401_openai_body": formats.openai_error(401, "Incorrect API key provided"),
    "chat_429_retry_after": formats.openai_error(429, "Rate limit reached"),
    "chat_500_json": formats.openai_error(500, "boom"),
    "messages_400_invalid_request": formats.anthropic_error(400, "max_tokens: field required"),
    "messages_401": formats.anthropic_error(401, "invalid x-api-key"),
    "messages_429_retry_after": formats.anthropic_error(429, "slow down"),
    "messages_500": formats.anthropic_error(500, "Internal server error"),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_builder_gives_the_recorded_frames(name: str) -> None:
    """FMT-020: what the SDKs read of these frames is recorded with them."""
    body = case_response(RECORDED[name].load()).body

    assert isinstance(body, SseBody)
    assert STREAMS[name] == list(body.events)


@pytest.mark.parametrize("name", BODIES)
def test_a_builder_gives_the_recorded_body(name: str) -> None:
    assert case_response(RECORDED[name].load()).body == JsonBody(BODIES[name])


@pytest.mark.parametrize("name", ERRORS)
def test_a_builder_gives_the_recorded_error(name: str) -> None:
    recorded = case_response(RECORDED[name].load())

    assert (ERRORS[name].status, ERRORS[name].body) == (recorded.status, recorded.body)


@pytest.mark.parametrize("endpoint", ["chat", "responses"])
def test_a_refusal_is_recorded_but_for_where_it_is_cut(endpoint: str) -> None:
    """The recordings have a delta for the first two words together."""
    name = {"chat": "chat_refusal", "responses": "responses_refusal_full"}[endpoint]
    build: Any = {"chat": formats.chat_refusal_events, "responses": formats.responses_api_refusal_events}[endpoint]
    body = case_response(RECORDED[name].load()).body
    assert isinstance(body, SseBody)

    assert without_usage(formats.collapse(build(REFUSAL))) == without_usage(formats.collapse(body.events))


def without_usage(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != "usage"}
