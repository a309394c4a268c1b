"""Token counts and embeddings (7.15)."""

from __future__ import annotations

import math
from typing import Any

import httpx2
import pytest

from chatagent_test.inference import MockInferenceServer, ScriptedResponse, StrictInferenceError

HI: Any = [{"role": "user", "content": "x" * 39}]
COUNT, EMBED = "/v1/messages/count_tokens", "/v1/embeddings"


def vectors(server: MockInferenceServer, texts: Any, **options: Any) -> list[list[float]]:
    data = server.openai_client().embeddings.create(model="small", input=texts, **options).data
    assert [each.index for each in data] == list(range(len(data)))
    return [each.embedding for each in data]


def test_tokens_are_counted_by_the_length_of_the_texts(server: MockInferenceServer) -> None:
    client = server.anthropic_client()

    short = client.messages.count_tokens(model="m", messages=HI)
    longer = client.messages.count_tokens(model="m", messages=HI, system="y" * 400)

    assert 10 <= short.input_tokens <= 12
    assert longer.input_tokens == short.input_tokens + 100
    assert server.requests()[0].path == COUNT
    assert server.messages_request_count() == 0


@pytest.mark.parametrize("encoding", ["float", "base64", None])
def test_the_same_text_has_the_same_embedding_of_length_1(server: MockInferenceServer, encoding: Any) -> None:
    options = {} if encoding is None else {"encoding_format": encoding}

    one, other, again = server.openai_client().embeddings.create(model="m", input=["a", "b", "a"], **options).data

    if encoding != "base64":
        assert len(one.embedding) == 1536
        assert math.isclose(math.hypot(*one.embedding), 1, rel_tol=1e-5)
        assert abs(sum(x * y for x, y in zip(one.embedding, other.embedding, strict=True))) < 0.2
    assert one.embedding == again.embedding != other.embedding


def test_embeddings_have_the_dimensions_and_the_usage_that_were_asked_for(server: MockInferenceServer) -> None:
    answer = server.openai_client().embeddings.create(model="small", input=["x" * 40, "y" * 4], dimensions=3)

    assert [len(each.embedding) for each in answer.data] == [3, 3]
    assert (answer.model, answer.usage.prompt_tokens, answer.usage.total_tokens) == ("small", 11, 11)


def test_tokens_are_embedded_too(server: MockInferenceServer) -> None:
    (one,) = vectors(server, [1, 2, 3], dimensions=4)
    two = vectors(server, [[1, 2, 3], [4]], dimensions=4)

    assert two[0] == one != two[1]


@pytest.mark.parametrize("given", [None, "", [], [""], [[]], 5, {"a": 1}, [None], [True]])
def test_what_cannot_be_embedded_is_refused(server: MockInferenceServer, given: Any) -> None:
    answer = httpx2.post(f"{server.origin}{EMBED}", json={"model": "m", "input": given})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "input"


@pytest.mark.parametrize("path", [COUNT, EMBED])
def test_they_are_routes_like_others(path: str) -> None:
    with MockInferenceServer(required_auth="secret") as server:
        url, body = f"{server.origin}{path}", {"input": "x", "messages": HI}
        server.enqueue_response(path, ScriptedResponse.json(200, {"scripted": True}))

        assert httpx2.post(url, json=body).json() == {"scripted": True}
        assert httpx2.post(url, json=body).status_code == 401
        assert httpx2.post(url, json=body, headers={"x-api-key": "secret"}).status_code == 200
        assert httpx2.post(url, content=b"{", headers={"content-type": "application/json"}).status_code == 400
        assert httpx2.post(url, content=b"[]", headers={"content-type": "application/json"}).status_code == 400
        assert httpx2.post(url, content=b"{}").status_code == 415
        assert httpx2.get(url).status_code == 405

    assert [entry.answered_by for entry in server.requests()] == ["fifo", "auth", "route", *["error"] * 4]
    assert (server.request_count(), server.rejected_count()) == (3, 4)


def test_a_strict_server_answers_them_unasked() -> None:
    with MockInferenceServer(listen=False, strict=True) as server:
        server.anthropic_client().messages.count_tokens(model="m", messages=HI)
        vectors(server, ["a"])


def test_a_queued_answer_that_nobody_asked_for_is_left_over() -> None:
    left = "1 queued response at /v1/embeddings nobody asked for"

    with pytest.raises(StrictInferenceError, match=left), MockInferenceServer(listen=False, strict=True) as server:
        server.enqueue_response(EMBED, ScriptedResponse.json(200, {}))
