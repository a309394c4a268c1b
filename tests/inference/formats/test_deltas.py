"""How texts are cut into deltas (4.0.4), and what frames builders put around them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chatagent_test.inference.formats import (
    chat_completion_events,
    chat_completion_events_exact,
    chat_completion_script_exact,
    messages_api_events,
    messages_api_events_exact,
    responses_api_events,
    responses_api_events_exact,
    responses_api_script_exact,
)

if TYPE_CHECKING:
    from chatagent_test.inference.sse import SseEvent

FENCED = "Here is a flow:\n\n```mermaid\nflowchart TD\n  A --> B\n```\n\nDone.\n"


def payloads(events: list[SseEvent]) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in events if event.data != "[DONE]"]


def chat_deltas(events: list[SseEvent]) -> list[str]:
    return [choice["delta"]["content"] for payload in payloads(events) for choice in payload["choices"]]


def responses_deltas(events: list[SseEvent]) -> list[str]:
    return [payload["delta"] for payload in payloads(events) if payload["type"] == "response.output_text.delta"]


def messages_deltas(events: list[SseEvent]) -> list[str]:
    return [payload["delta"]["text"] for payload in payloads(events) if payload["type"] == "content_block_delta"]


EXACT = {
    "chat": lambda text: chat_deltas(chat_completion_events_exact(text)),
    "responses": lambda text: responses_deltas(responses_api_events_exact(text)),
    "responses-minimal": lambda text: responses_deltas(responses_api_events_exact(text, profile="minimal")),
    "messages": lambda text: messages_deltas(messages_api_events_exact(text)),
}


@pytest.mark.parametrize("encode", EXACT.values(), ids=EXACT)
def test_exact_deltas_make_up_a_text_of_many_lines(encode: Any) -> None:
    """FMT-001."""
    deltas = encode(FENCED)

    joined = "".join(deltas)
    assert joined == FENCED
    assert {"```mermaid", "  A --> B", "```"} <= set(joined.splitlines())


@pytest.mark.parametrize("encode", EXACT.values(), ids=EXACT)
def test_exact_deltas_keep_runs_of_spaces_tabs_and_line_ends(encode: Any) -> None:
    """FMT-002."""
    assert "".join(encode("a  b\tc\n")) == "a  b\tc\n"


@pytest.mark.parametrize("encode", EXACT.values(), ids=EXACT)
@given(text=st.text())
@example(text=" \r\n\u2028\u0085  ")
@example(text="\x00\ud83d".encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
def test_exact_deltas_make_up_any_text(encode: Any, text: str) -> None:
    """FMT-003."""
    assert "".join(encode(text)) == text


@pytest.mark.parametrize("encode", EXACT.values(), ids=EXACT)
def test_half_a_surrogate_pair_goes_out_escaped(encode: Any) -> None:
    assert "".join(encode("half \ud83d of it")) == "half \ud83d of it"


def test_an_exact_chat_text_is_cut_at_spaces_which_lead() -> None:
    deltas = chat_deltas(chat_completion_events_exact("a  b c"))

    assert deltas == ["a", " ", " b", " c"]


def test_an_exact_responses_text_is_cut_behind_spaces() -> None:
    deltas = responses_deltas(responses_api_events_exact("a  b c"))

    assert deltas == ["a ", " ", "b ", "c"]


def test_a_chat_echo_has_a_frame_a_word() -> None:
    """FMT-004."""
    events = chat_completion_events("Echo: ping\n  pong ", "some-model")

    *deltas, usage = payloads(events)
    assert [delta["choices"][0]["delta"] for delta in deltas] == [
        {"role": "assistant", "content": "Echo:"},
        {"content": " ping"},
        {"content": " pong"},
    ]
    assert [delta["choices"][0]["finish_reason"] for delta in deltas] == [None, None, "stop"]
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    assert {payload["model"] for payload in (*deltas, usage)} == {"some-model"}
    assert events[-1].data == "[DONE]"


def test_an_empty_chat_text_is_one_empty_delta_if_exact_and_none_as_an_echo() -> None:
    """FMT-005."""
    assert chat_deltas(chat_completion_events_exact("")) == [""]
    assert chat_deltas(chat_completion_events("")) == []
    assert responses_deltas(responses_api_events_exact("")) == []
    assert responses_deltas(responses_api_events(" ")) == []


def test_a_responses_echo_collapses_its_deltas_and_keeps_the_text() -> None:
    """FMT-006."""
    events = responses_api_events("Echo: a  b", "some-model", profile="minimal")

    created, *deltas, completed = payloads(events)
    assert created["type"] == "response.created"
    assert [delta["delta"] for delta in deltas] == ["Echo: ", "a ", "b "]
    assert completed["response"]["output"][0]["content"][0]["text"] == "Echo: a  b"
    assert completed["response"]["model"] == "some-model"
    assert [payload["sequence_number"] for payload in payloads(events)] == [0, 1, 2, 3, 4]
    assert events[-1].data == "[DONE]"


@pytest.mark.parametrize("profile", ["sdk", "minimal"])
def test_a_message_has_six_frames(profile: Any) -> None:
    """FMT-007."""
    events = messages_api_events("a  b\nc", "some-model", "refusal", profile=profile)

    start, block, delta, stop, end, last = payloads(events)
    no_sequence = {"stop_sequence": None} if profile == "sdk" else {}
    usage = {"input_tokens": 10, "output_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {"id": "msg_test", "type": "message", "role": "assistant", "content": [], "model": "some-model"}
    assert start == {
        "type": "message_start",
        "message": {**message, "stop_reason": None, **no_sequence, "usage": usage},
    }
    assert block == {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    assert delta == {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "a  b\nc"},
    }
    assert stop == {"type": "content_block_stop", "index": 0}
    assert end == {
        "type": "message_delta",
        "delta": {"stop_reason": "refusal", **no_sequence},
        "usage": {"output_tokens": 5, "input_tokens": 10},
    }
    assert last == {"type": "message_stop"}
    names = [payload["type"] for payload in payloads(events)] if profile == "sdk" else [None] * 6
    assert [event.event for event in events] == names


def test_profiles_share_deltas_and_usage() -> None:
    text = "Echo: a  b\nc"

    full, minimal = responses_api_events(text), responses_api_events(text, profile="minimal")

    assert responses_deltas(full) == responses_deltas(minimal)
    assert payloads(full)[-1]["response"]["usage"] == payloads(minimal)[-1]["response"]["usage"]


def test_the_older_names_are_the_same_functions() -> None:
    assert chat_completion_script_exact is chat_completion_events_exact
    assert responses_api_script_exact is responses_api_events_exact


def test_ids_times_and_usage_can_be_given() -> None:
    chat = payloads(chat_completion_events("a", id="c-1", created=5, usage={"total_tokens": 1}))
    responses = payloads(responses_api_events("a", id="r-1", created=5, item_id="i-1", usage=None))
    messages = payloads(messages_api_events("a", id="m-1", usage={"input_tokens": 3, "output_tokens": 9}))

    assert {(each["id"], each["created"]) for each in chat} == {("c-1", 5)}
    assert chat[-1]["usage"] == {"total_tokens": 1}
    assert responses[-1]["response"]["id"] == "r-1"
    assert responses[-1]["response"]["created_at"] == 5
    assert "usage" not in responses[-1]["response"]
    assert {each["item_id"] for each in responses if "item_id" in each} == {"i-1"}
    assert messages[0]["message"]["id"] == "m-1"
    assert messages[0]["message"]["usage"]["input_tokens"] == 3
    assert messages[-2]["usage"] == {"output_tokens": 9, "input_tokens": 3}


def test_a_chat_without_usage_has_no_usage_frame() -> None:
    events = chat_completion_events("a b", usage=None)

    assert [payload["choices"][0]["finish_reason"] for payload in payloads(events)] == [None, "stop"]


def test_an_option_that_nobody_knows_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        chat_completion_events("a", colour="red")  # pyright: ignore[reportCallIssue]
