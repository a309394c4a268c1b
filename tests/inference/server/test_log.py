"""The request log."""

from __future__ import annotations

import httpx2
import pytest

from chatagent_test import script
from chatagent_test.inference import InferenceTimeoutError, MockInferenceServer, RequestMatcher, UnexpectedBodiesError
from inference.asking import CHAT, MESSAGES, RESPONSES, ask, get, in_background


def test_bodies_come_in_order_and_without_gaps(server: MockInferenceServer) -> None:
    """INF-037"""
    ask(server, text="one")
    get(server, "/v1/models")
    ask(server, text="two")

    assert [body["messages"][0]["content"] for body in server.request_bodies()] == ["one", "two"]


def test_headers_are_found_in_any_case(server: MockInferenceServer) -> None:
    """INF-038"""
    headers = [("X-Custom", "first"), ("x-custom", "second"), ("Authorization", "weird  value")]
    httpx2.get(f"{server.url}/models", headers=headers)

    (entry,) = server.requests()
    assert entry.header("X-CUSTOM") == entry.header("x-custom") == "first"
    assert entry.header("absent") is None
    assert entry.authorization == "weird  value"
    assert [value for name, value in entry.headers if name == "x-custom"] == ["first", "second"]
    assert all(name == name.lower() for name, _ in entry.headers)


def test_entries_need_not_be_kept(server: MockInferenceServer) -> None:
    """INF-039"""
    ask(server)
    server.set_keep_requests(False)
    ask(server)

    assert server.request_count() == 2
    assert len(server.requests()) == 1


def test_the_oldest_entries_go_first(server: MockInferenceServer) -> None:
    """INF-040"""
    with httpx2.Client() as client:
        for number in range(1025):
            client.get(f"{server.url}/user?n={number}")

    entries = server.requests()
    assert len(entries) == 1024
    assert entries[0].path == "/v1/user?n=1"
    assert server.request_count() == 1025


def test_chat_and_responses_are_told_apart(server: MockInferenceServer) -> None:
    """INF-041"""
    ask(server, CHAT)
    assert server.has_chat_completion_request()
    assert not server.has_responses_request()

    server.clear_requests()
    ask(server, RESPONSES)
    assert not server.has_chat_completion_request()
    assert server.has_responses_request()


def test_messages_are_counted(server: MockInferenceServer) -> None:
    """INF-042"""
    ask(server, MESSAGES)
    ask(server, CHAT)
    ask(server, MESSAGES)

    assert server.messages_request_count() == 2


def test_the_newest_system_prompt_wins(server: MockInferenceServer) -> None:
    """INF-043"""
    assert server.last_system_prompt() is None
    ask(server, CHAT, messages=[{"role": "system", "content": "be brief"}])
    assert server.last_system_prompt() == "be brief"
    ask(server, RESPONSES, instructions="be long")
    assert server.last_system_prompt() == "be long"
    ask(server, MESSAGES, system=[{"type": "text", "text": "be "}, {"type": "text", "text": "kind"}])
    assert server.last_system_prompt() == "be kind"
    ask(server, MESSAGES, system="plain")
    assert server.last_system_prompt() == "plain"


def test_the_summary_has_a_line_a_request(server: MockInferenceServer) -> None:
    """INF-044"""
    empty = server.request_log_summary()
    ask(server)
    get(server, "/v1/user?a=1")

    assert empty == "(no requests received)"
    assert server.request_log_summary() == "  [0] POST /v1/chat/completions\n  [1] GET /v1/user?a=1"


def test_the_summary_shows_refusals_and_retries(server: MockInferenceServer) -> None:
    get(server, "/nowhere")
    ask(server, headers={"x-stainless-retry-count": "2"})

    assert server.request_log_summary() == (
        "  [0] GET /nowhere (refused: nothing is served at /nowhere)\n  [1] POST /v1/chat/completions (retry 2)"
    )


def test_an_entry_tells_what_became_of_its_request(server: MockInferenceServer) -> None:
    server.expect_response("greet", RequestMatcher.any(CHAT), script.text("hi"))

    ask(server)
    ask(server)

    first, second = server.requests()
    assert (first.answered_by, first.status, first.outcome) == ("expectation:greet", 200, "complete")
    assert (second.answered_by, second.error, second.mismatch) == ("echo", None, None)
    assert second.received_at >= first.received_at > 0
    assert (first.kind and first.kind.value, first.index, second.index) == ("auxiliary", 0, 1)
    assert first.raw_body.startswith(b'{"model"')


def test_waiting_for_requests_ends_with_the_last_of_them(server: MockInferenceServer) -> None:
    answers = [in_background(lambda: ask(server)) for _ in range(3)]

    server.wait_for_requests_sync(3)

    assert server.request_count() == 3
    assert all(answer.result(5).status_code == 200 for answer in answers)


def test_waiting_for_too_many_requests_says_what_came(server: MockInferenceServer) -> None:
    ask(server)

    with pytest.raises(InferenceTimeoutError) as caught:
        server.wait_for_requests_sync(2, timeout=0.01)

    assert str(caught.value) == ("1 of 2 requests have come, after 0.01 s\nrequests:\n  [0] POST /v1/chat/completions")


@pytest.mark.anyio
async def test_requests_can_be_waited_for_on_a_loop(server: MockInferenceServer) -> None:
    answer = in_background(lambda: ask(server))

    await server.wait_for_requests(1)

    assert answer.result(5).status_code == 200
    with pytest.raises(AssertionError, match=r"^1 of 2 requests"):
        await server.wait_for_requests(2, timeout=0.01)


def test_requests_are_compared_by_what_a_test_cares_about(server: MockInferenceServer) -> None:
    ask(server, CHAT, "one", temperature=0)
    get(server, "/v1/models")
    ask(server, RESPONSES, "two")

    server.assert_requests([{"temperature": 0}, {"input": [{"content": "two"}]}])

    with pytest.raises(UnexpectedBodiesError) as caught:
        server.assert_requests([{"temperature": 1, "model": "test-model"}])
    assert str(caught.value) == (
        "2 inference requests, wanted 1\n"
        "request 0 (POST /v1/chat/completions): body.temperature is 0, wanted 1\n"
        "  --- wanted\n  +++ found\n  @@ -1,4 +1,4 @@\n"
        '   {\n     "model": "test-model",\n  -  "temperature": 1\n  +  "temperature": 0\n   }\n'
        "request 1 (POST /v1/responses) was not wanted"
    )


def test_requests_that_did_not_come_are_shown(server: MockInferenceServer) -> None:
    with pytest.raises(AssertionError, match=r'request 0 did not come: \{\n  "model": "m"'):
        server.assert_requests([{"model": "m"}])
