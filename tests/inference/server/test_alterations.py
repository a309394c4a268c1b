"""Paces, faults and checks of requests, as a server applies them."""

from __future__ import annotations

import time

import httpx2
import pytest

from chatagent_test import script
from chatagent_test.inference import MockInferenceServer, RequestMatcher
from chatagent_test.inference.faults import Fault, RandomFaults
from chatagent_test.inference.timing import TimingProfile
from inference.asking import CHAT, MESSAGES, ask, deltas_of

ANY = RequestMatcher.any(CHAT)
WORDS = script.text("a b c", chunks=["a", " b", " c"])


def test_a_pace_is_kept(server: MockInferenceServer) -> None:
    server.expect_response("paced", ANY, WORDS, timing=TimingProfile(first=0.05, tokens_per_second=100))

    began = time.perf_counter()
    said = ask(server, stream=True)

    assert "".join(deltas_of(CHAT, said.content)) == "a b c"
    assert time.perf_counter() - began >= 0.07


def test_a_server_has_a_pace_of_its_own() -> None:
    with MockInferenceServer(timing=TimingProfile(first=0.05)) as server:
        began = time.perf_counter()
        ask(server, stream=True)
        paced = time.perf_counter() - began
        server.set_timing(TimingProfile(first=60))
        server.set_timing(None)
        ask(server, stream=True, timeout=5)

    assert paced >= 0.05


def test_a_fault_breaks_the_one_answer_that_it_is_for(server: MockInferenceServer) -> None:
    server.expect_response("broken", ANY, WORDS, fault=Fault.abort(after=1))
    server.expect_response("fine", ANY, WORDS)

    with pytest.raises(httpx2.RemoteProtocolError):
        ask(server, stream=True)
    assert "".join(deltas_of(CHAT, ask(server, stream=True).content)) == "a b c"
    assert [entry.outcome for entry in server.requests()] == ["aborted", "complete"]


def test_a_stall_lasts_until_the_client_gives_up(server: MockInferenceServer) -> None:
    server.expect_response("stalls", ANY, WORDS, fault=Fault.stall(after=2))

    with pytest.raises(httpx2.ReadTimeout):
        ask(server, stream=True, timeout=0.05)
    server.wait_idle_sync()
    assert server.requests()[0].outcome == "client_disconnected"


def test_faults_of_the_server_break_scripted_and_other_answers_alike() -> None:
    faults = RandomFaults(1.0, kinds=["content-type"])
    with MockInferenceServer(faults=faults) as server:
        server.expect_response("scripted", ANY, WORDS)
        types = [ask(server, stream=stream).headers["content-type"] for stream in (True, False)]
        server.set_faults(None)
        whole = ask(server)

    assert types == ["text/html", "text/html"]
    assert len(faults.applied) == 2
    assert whole.headers["content-type"] == "application/json"


def test_a_request_that_the_provider_would_refuse_is_refused() -> None:
    with MockInferenceServer(validate=True) as server:
        expected = server.expect_response("fine", RequestMatcher.any(MESSAGES), script.text("ok"))
        refused = ask(server, MESSAGES)
        assert not expected.is_satisfied
        fine = ask(server, MESSAGES, max_tokens=5)

    assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error")
    assert "max_tokens" in refused.json()["error"]["message"]
    assert fine.status_code == 200
    assert [entry.answered_by for entry in server.requests()] == ["validation", "expectation:fine"]


def test_without_being_asked_to_nothing_is_checked(server: MockInferenceServer) -> None:
    assert ask(server, MESSAGES).status_code == 200


def test_usage_can_be_estimated() -> None:
    with MockInferenceServer(usage="estimate") as server:
        short, long = ask(server, text="hi").json(), ask(server, text="hi " * 100).json()

    assert short["usage"]["prompt_tokens"] < long["usage"]["prompt_tokens"]
