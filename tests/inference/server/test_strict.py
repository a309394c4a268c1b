"""Strict servers: what no script answers, and what a script expects in vain, fails the test."""

from __future__ import annotations

import httpx2
import pytest

from chatagent.errors import InvalidArgumentError
from chatagent_test import script
from chatagent_test.inference import (
    InferenceEndpoint,
    LogEntry,
    MockInferenceServer,
    RequestMatcher,
    ScriptedResponse,
    StrictInferenceError,
)
from inference.asking import CHAT, ENDPOINTS, MESSAGES, TURN, ask, get, in_background

ANY = RequestMatcher.any(CHAT)


def opened() -> MockInferenceServer:
    return MockInferenceServer(strict=True).__enter__()


def problems_of(server: MockInferenceServer) -> str:
    """Close a server, and return what it complains of."""
    with pytest.raises(StrictInferenceError) as caught:
        server.close()
    assert isinstance(caught.value, AssertionError)
    return str(caught.value)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_request_that_no_script_answers_gets_501_and_fails_the_close(endpoint: InferenceEndpoint) -> None:
    server = opened()
    server.enqueue_response(endpoint.path, ScriptedResponse.json(200, {}))
    ask(server, endpoint)

    answer = ask(server, endpoint)

    assert answer.status_code == 501
    assert "no expectation and no queued response is meant for it" in answer.json()["error"]["message"]
    assert problems_of(server).splitlines() == [
        "the mock inference server is strict:",
        f"unexpected request [1] POST {endpoint.path}",
        "  no expectation is pending",
    ]
    assert server.is_closed
    server.close()


def test_it_says_why_no_expectation_was_meant_for_it() -> None:
    server = opened()
    server.expect_response("weather", ANY.where(last_user="weather"), script.text("sunny"))

    ask(server, text="sports")

    assert problems_of(server).splitlines() == [
        "the mock inference server is strict:",
        "unexpected request [0] POST /v1/chat/completions",
        "  not `weather`: the last user message is 'sports', wanted 'weather' in it",
        "inference expectation `weather` (state: Pending) was not satisfied",
        "  request [0] POST /v1/chat/completions (answered by error):",
        "    not `weather`: the last user message is 'sports', wanted 'weather' in it",
    ]


def test_all_that_is_left_over_fails_the_close() -> None:
    server = opened()
    server.expect_response("lonely", ANY, script.text("never"))
    server.enqueue_response(MESSAGES.path, script.text("never"))
    server.set_agent_turns(["never", "ever"])

    assert problems_of(server).splitlines()[1:] == [
        "inference expectation `lonely` (state: Pending) was not satisfied",
        "1 queued response at /v1/messages nobody asked for",
        "2 agent turns nobody asked for",
    ]


def test_a_barrier_that_nobody_released_is_named() -> None:
    server = opened()
    expected = server.expect_response_blocked("held", ANY, script.text("x"))
    pending = in_background(lambda: ask(server))
    expected.wait_blocked_sync()

    said = problems_of(server)

    assert "request [0] POST /v1/chat/completions waits at the barrier of `held`, which `release()` opens" in said
    assert pending.result(5).status_code == 200


def test_a_body_that_does_not_fit_the_request_fails_the_close() -> None:
    server = opened()
    server.expect_response("whole", ANY, ScriptedResponse.json(200, {}))

    ask(server, stream=True)

    assert "one JSON body was scripted, and the request asks for a stream" in problems_of(server)


def test_a_function_that_failed_fails_the_close() -> None:
    def fail(entry: LogEntry) -> ScriptedResponse:
        raise LookupError(f"nothing for {entry.path}")

    server = opened()
    server.expect_response("bad", ANY, fail)

    ask(server)

    assert "its answer failed with LookupError: nothing for /v1/chat/completions" in problems_of(server)


def test_what_was_expected_passes() -> None:
    with MockInferenceServer(strict=True) as server:
        server.expect_response("once", ANY, script.text("x"))
        server.set_agent_turns(["turn"])
        server.expect_response("failing", RequestMatcher.any(MESSAGES), script.error(500))

        assert ask(server).status_code == 200
        assert ask(server, headers=TURN).status_code == 200
        assert ask(server, MESSAGES, stream=True).status_code == 500
        assert get(server, "/v1/models").status_code == 200
        assert get(server, "/v1/nothing").status_code == 404


@pytest.mark.parametrize(
    ("path", "content", "problem"),
    [
        ("/v1/messages", b"{", "request [0] POST /v1/messages (refused: the body is no JSON: "),
        ("/messages", b"{}", "request [0] POST /messages (refused: nothing is served at /messages; "),
        ("/v1/v1/messages", b"{}", "request [0] POST /v1/v1/messages (refused: nothing is served at /v1/v1/messages"),
    ],
)
def test_a_request_that_was_refused_unread_fails_the_close(path: str, content: bytes, problem: str) -> None:
    """A client that swallows the refusal must not hide a wrong base URL or a broken body."""
    server = opened()

    httpx2.post(f"{server.origin}{path}", content=content, headers={"content-type": "application/json"})

    assert problem in problems_of(server)


def test_a_key_that_is_missing_is_no_surprise() -> None:
    with MockInferenceServer(strict=True, required_auth="secret") as server:
        assert ask(server).status_code == 401


def test_a_strict_server_may_echo_if_told_so() -> None:
    with MockInferenceServer(strict=True, allow_echo=True) as server:
        assert ask(server).json()["choices"][0]["message"]["content"] == "Echo: hi"
        server.set_response("fixed")
        assert ask(server).json()["choices"][0]["message"]["content"] == "fixed"


def test_a_fixed_text_is_refused_where_it_would_never_be_said() -> None:
    with MockInferenceServer(strict=True) as server, pytest.raises(InvalidArgumentError, match="`allow_echo=True`"):
        server.set_response("fixed")


def test_the_tests_own_failure_is_the_one_that_is_seen() -> None:
    def fail() -> None:
        with MockInferenceServer(strict=True) as server:
            ask(server)
            raise ValueError("the test's own")

    with pytest.raises(ValueError, match="the test's own") as caught:
        fail()

    assert "unexpected request [0] POST /v1/chat/completions" in caught.value.__notes__[0]


@pytest.mark.anyio
async def test_an_async_close_is_as_strict() -> None:
    server = await MockInferenceServer.start(strict=True)
    server.expect_response("lonely", ANY, script.text("never"))

    with pytest.raises(StrictInferenceError, match="`lonely`"):
        await server.aclose()

    await server.aclose()
    assert server.is_closed


def test_a_lenient_server_closes_in_silence() -> None:
    with MockInferenceServer() as server:
        server.expect_response("lonely", ANY, script.text("never"))
        ask(server, MESSAGES)
