"""Echo, fixed text and agent turns: what is answered when no script answers."""

from __future__ import annotations

import pytest

from chatagent.errors import InvalidArgumentError
from chatagent_test.inference import InferenceEndpoint, MockInferenceServer, ScriptedResponse
from inference.asking import CHAT, ENDPOINTS, MESSAGES, RESPONSES, TURN, ask, data_of, deltas_of, text_of

FENCED = "Look:\n\n```python\nprint('a  b')\n```\nDone.  "


def test_chat_echoes_words(server: MockInferenceServer) -> None:
    """INF-010"""
    assert "".join(deltas_of(CHAT, ask(server, CHAT, "ping pong", stream=True).content)) == "Echo: ping pong"
    assert "".join(deltas_of(CHAT, ask(server, CHAT, "a  b\nc", stream=True).content)) == "Echo: a b c"


def test_responses_echo_the_text_of_a_part_with_a_space_behind(server: MockInferenceServer) -> None:
    """INF-011"""
    answer = ask(server, RESPONSES, [{"type": "input_text", "text": "hi there"}], stream=True)

    assert deltas_of(RESPONSES, answer.content) == ["Echo: ", "hi ", "there "]


def test_messages_echo_a_block_in_one_delta(server: MockInferenceServer) -> None:
    """INF-012"""
    answer = ask(server, MESSAGES, [{"type": "text", "text": "a  b\nc"}], stream=True)

    assert deltas_of(MESSAGES, answer.content) == ["Echo: a  b\nc"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize(
    "messages",
    [[], [{"role": "assistant", "content": "no"}], [{"role": "user", "content": 5}], "nonsense", [1, None]],
    ids=["none", "assistant", "number", "no list", "no objects"],
)
def test_without_a_user_message_hello_is_echoed(
    server: MockInferenceServer, endpoint: InferenceEndpoint, messages: object
) -> None:
    """INF-013"""
    if endpoint is RESPONSES and isinstance(messages, str):
        messages = {"role": "user"}  # a string is the user's message there

    answer = ask(server, endpoint, **{"input" if endpoint is RESPONSES else "messages": messages})

    assert text_of(endpoint, answer.json()) == "Echo: hello"


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_body_that_is_no_object_reads_as_an_empty_one(
    server: MockInferenceServer, endpoint: InferenceEndpoint
) -> None:
    import httpx2

    answer = httpx2.post(f"{server.origin}{endpoint.path}", json=[1, 2])

    assert text_of(endpoint, answer.json()) == "Echo: hello"


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("stream", [False, True])
def test_without_a_model_the_answer_names_test_model(
    server: MockInferenceServer, endpoint: InferenceEndpoint, *, stream: bool
) -> None:
    """INF-014"""
    answer = ask(server, endpoint, stream=stream, model=None)

    first = data_of(answer.content)[0] if stream else answer.json()
    assert first.get("message", first.get("response", first))["model"] == "test-model"


def test_the_last_user_message_is_echoed_in_the_forms_that_the_sdks_send(server: MockInferenceServer) -> None:
    parts = [{"type": "image_url"}, {"type": "text", "text": "of a part"}]
    history = [{"role": "user", "content": "old"}, {"role": "user", "content": "new"}, {"role": "assistant"}]

    assert text_of(CHAT, ask(server, CHAT, parts).json()) == "Echo: of a part"
    assert text_of(CHAT, ask(server, CHAT, messages=history).json()) == "Echo: new"
    assert text_of(RESPONSES, ask(server, RESPONSES, input="plain  text").json()) == "Echo: plain  text"


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_fixed_text_arrives_byte_for_byte(server: MockInferenceServer, endpoint: InferenceEndpoint) -> None:
    """INF-015"""
    server.set_response(FENCED)

    assert "".join(deltas_of(endpoint, ask(server, endpoint, stream=True).content)) == FENCED
    assert text_of(endpoint, ask(server, endpoint).json()) == FENCED

    server.reset_response()
    assert text_of(endpoint, ask(server, endpoint).json()) == "Echo: hi"


def test_the_stop_reason_of_messages_can_be_chosen(server: MockInferenceServer) -> None:
    """INF-016"""
    server.set_messages_stop_reason("refusal")

    events = data_of(ask(server, MESSAGES, stream=True).content)
    deltas = [event["delta"]["stop_reason"] for event in events if event["type"] == "message_delta"]
    assert deltas == ["refusal"]
    assert deltas_of(MESSAGES, ask(server, MESSAGES, stream=True).content) == ["Echo: hi"]
    assert ask(server, MESSAGES).json()["stop_reason"] == "refusal"
    assert ask(server, CHAT).json()["choices"][0]["finish_reason"] == "stop"


def test_agent_turns_answer_foreground_requests_alone(server: MockInferenceServer) -> None:
    """INF-049"""
    server.set_agent_turns(["a  turn", "b"])

    first = ask(server, CHAT, headers=TURN, stream=True)
    beside = ask(server, CHAT, stream=True)
    second = ask(server, RESPONSES, headers=TURN)
    after = ask(server, CHAT, headers=TURN)

    assert "".join(deltas_of(CHAT, first.content)) == "a  turn"
    assert "".join(deltas_of(CHAT, beside.content)) == "Echo: hi"
    assert text_of(RESPONSES, second.json()) == "b"
    assert text_of(CHAT, after.json()) == "Echo: hi"
    assert [entry.answered_by for entry in server.requests()] == ["agent_turn", "echo", "agent_turn", "echo"]


def test_turns_must_be_a_list(server: MockInferenceServer) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`texts` is 'abc': give a list of texts$"):
        server.set_agent_turns("abc")


@pytest.mark.parametrize(
    ("mode", "asked", "is_stream"),
    [("auto", True, True), ("auto", False, False), ("always", False, True), ("never", True, False)],
)
def test_the_stream_mode_decides_what_comes(mode: str, *, asked: bool, is_stream: bool) -> None:
    with MockInferenceServer(stream_mode=mode) as server:
        answer = ask(server, stream=asked)

    kind = "text/event-stream" if is_stream else "application/json"
    assert answer.headers["content-type"] == kind
    assert answer.headers.get("cache-control") == ("no-cache" if is_stream else None)


def test_the_minimal_profile_can_be_chosen() -> None:
    with MockInferenceServer(profile="minimal") as server:
        content = ask(server, RESPONSES, stream=True).content

    assert [data["type"] for data in data_of(content)] == [
        "response.created",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.completed",
    ]


def test_usage_can_be_told_on_request_only() -> None:
    with MockInferenceServer(usage_frame="requested") as server:
        silent = data_of(ask(server, stream=True).content)
        told = data_of(ask(server, stream=True, stream_options={"include_usage": True}).content)

    assert not any("usage" in data and data["usage"] for data in silent)
    assert told[-1]["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    ("option", "value"),
    [("stream_mode", "sometimes"), ("profile", "huge"), ("auth_error_style", "rude"), ("usage_frame", "never")],
)
def test_an_option_out_of_its_range_is_refused(option: str, value: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^`{option}` is '{value}': it is one of"):
        MockInferenceServer(**{option: value})


def test_an_answer_of_the_wrong_kind_is_noted(server: MockInferenceServer) -> None:
    server.enqueue_response(CHAT.path, ScriptedResponse.json(200, {}))
    server.enqueue_response(CHAT.path, ScriptedResponse.sse([]))
    server.enqueue_response(CHAT.path, ScriptedResponse.json(429, {}))

    for stream in (True, False, True):
        ask(server, stream=stream)

    assert [entry.mismatch for entry in server.requests()] == [
        "one JSON body was scripted, and the request asks for a stream",
        "events were scripted, and the request asks for one JSON body",
        None,
    ]
