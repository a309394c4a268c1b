"""Recording what a provider says, and answering from it. The provider is another mock server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from chatagent.errors import InvalidArgumentError
from chatagent_test import script
from chatagent_test.inference import MockInferenceServer, RequestMatcher, ScriptedResponse, StrictInferenceError
from chatagent_test.inference.recording import Recordings
from inference.asking import CHAT, MESSAGES, ask, deltas_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "sk-live-0123456789abcdef0123456789abcdef"


@pytest.fixture
def provider() -> Iterator[MockInferenceServer]:
    with MockInferenceServer() as provider:
        yield provider


def recording(provider: MockInferenceServer, folder: Path, **options: object) -> MockInferenceServer:
    return MockInferenceServer(recordings=folder, upstream=provider.origin, **options)


def test_what_nothing_answers_is_asked_of_the_provider_and_kept(provider: MockInferenceServer, tmp_path: Path) -> None:
    provider.expect_response("real", RequestMatcher.any(CHAT), script.text("real words"))

    with recording(provider, tmp_path) as server:
        server.expect_response("scripted", RequestMatcher.any(CHAT), script.text("scripted"))
        scripted = ask(server, stream=True)
        recorded = ask(server, stream=True, headers={"authorization": f"Bearer {SECRET}"})
        again = ask(server, stream=True)

    assert "".join(deltas_of(CHAT, scripted.content)) == "scripted"
    assert "".join(deltas_of(CHAT, recorded.content)) == "real words"
    assert again.content == recorded.content
    assert provider.request_count() == 1
    assert provider.requests()[0].authorization == f"Bearer {SECRET}"
    assert [entry.answered_by for entry in server.requests()] == ["expectation:scripted", "recording", "recording"]
    (file,) = tmp_path.glob("*.json")
    assert SECRET not in file.read_text()


def test_a_recording_answers_without_a_network(provider: MockInferenceServer, tmp_path: Path) -> None:
    with recording(provider, tmp_path) as server:
        said = ask(server, MESSAGES, "keep this", stream=True)
    provider.close()

    with MockInferenceServer(recordings=tmp_path, strict=True) as server:
        replayed = ask(server, MESSAGES, "keep this", stream=True)

    assert replayed.content == said.content
    assert replayed.headers["content-type"] == said.headers["content-type"]


def test_chunks_and_their_times_are_kept(provider: MockInferenceServer, tmp_path: Path) -> None:
    events = script.text("abc", chunks=["a", "b", "c"])
    provider.expect_response("slow", RequestMatcher.any(CHAT), events)
    provider.set_chunk_delay(0.02)

    with recording(provider, tmp_path) as server:
        ask(server, stream=True)

    (file,) = tmp_path.glob("*.json")
    case = json.loads(file.read_text())
    assert len(case["chunk_lengths"]) == len(case["chunk_times"]) == len(case["body"]["events"])
    assert case["chunk_times"][-1] > case["chunk_times"][0]


def test_an_answer_that_broke_off_is_recorded_as_such(provider: MockInferenceServer, tmp_path: Path) -> None:
    cut = ScriptedResponse.text(200, [b"data: 1\n\n"], headers={"content-type": "text/event-stream"}, end="abort")
    provider.enqueue_response(CHAT.path, cut)

    with recording(provider, tmp_path) as server, pytest.raises(Exception, match="incomplete"):
        ask(server, stream=True)

    (file,) = tmp_path.glob("*.json")
    assert json.loads(file.read_text())["connection_end"] == "abrupt"


def test_what_was_not_recorded_is_refused_by_a_strict_server_and_stale_files_are_named(
    provider: MockInferenceServer, tmp_path: Path
) -> None:
    with recording(provider, tmp_path) as server:
        ask(server, text="old question")
    (file,) = tmp_path.glob("*.json")

    server = MockInferenceServer(recordings=tmp_path, strict=True).__enter__()
    assert ask(server, text="new question").status_code == 501
    with pytest.raises(StrictInferenceError) as caught:
        server.close()

    assert caught.value.problems == (
        "unexpected request [0] POST /v1/chat/completions\n  no expectation is pending",
        f"recording {file.name} nobody asked for",
    )


def test_a_provider_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    with MockInferenceServer() as gone:
        origin = gone.origin

    with MockInferenceServer(recordings=tmp_path, upstream=origin) as server:
        answer = ask(server)

    assert answer.status_code == 500
    assert "ConnectError" in answer.json()["error"]["message"]
    assert list(tmp_path.glob("*")) == []


def test_an_endpoint_may_have_a_provider_of_its_own(provider: MockInferenceServer, tmp_path: Path) -> None:
    with MockInferenceServer(recordings=Recordings(tmp_path), upstream={MESSAGES: provider.origin}) as server:
        ask(server, MESSAGES)
        ask(server, CHAT)

    assert [entry.answered_by for entry in server.requests()] == ["recording", "echo"]
    assert provider.request_count() == 1


@pytest.mark.parametrize("upstream", ["api.openai.com", "https://api.openai.com/v1", "https://api.openai.com/v1/"])
def test_an_upstream_that_is_no_origin_is_refused(upstream: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"`upstream` is .*: give an origin without a path"):
        MockInferenceServer(recordings=tmp_path, upstream=upstream)


def test_an_upstream_needs_a_place_for_its_recordings() -> None:
    with pytest.raises(InvalidArgumentError, match="name a folder: `recordings=`"):
        MockInferenceServer(upstream="https://api.openai.com")
