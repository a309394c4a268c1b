"""The routes beside inference, and what is no route."""

from __future__ import annotations

import httpx2
import pytest

from chatagent.errors import InvalidArgumentError
from chatagent_test import script
from chatagent_test.inference import MockInferenceServer, MockModel, ScriptedResponse, UnservedPathError
from inference.asking import CHAT, ENDPOINTS, ask, connection, get, in_background, is_silent, read_until


def test_one_model_is_listed_by_default(server: MockInferenceServer) -> None:
    """INF-003"""
    assert get(server, "/v1/models").json() == {
        "object": "list",
        "data": [{"id": "test-model", "object": "model", "created": 1234567890, "owned_by": "test"}],
    }


@pytest.mark.anyio
async def test_a_model_may_name_its_type_of_agent() -> None:
    """INF-004"""
    models = [MockModel("a"), MockModel.with_agent_type("b", "codex")]
    server = await MockInferenceServer.start_with_models(models)

    a, b = get(server, "/v1/models").json()["data"]
    await server.aclose()

    assert "_meta" not in a
    assert b["_meta"] == {"agentType": "codex"}


def test_all_that_a_model_says_stands_at_its_top(server: MockInferenceServer) -> None:
    """INF-005"""
    model = (
        MockModel("m")
        .with_api_backend("responses")
        .with_supports_backend_search(True)
        .with_supports_reasoning_effort(True)
        .with_reasoning_effort("high")
        .with_reasoning_efforts(["low", {"value": "high", "label": "High"}])
    )
    server.set_models([model])

    (entry,) = get(server, "/v1/models").json()["data"]
    assert entry == {
        "id": "m",
        "object": "model",
        "created": 1234567890,
        "owned_by": "test",
        "apiBackend": "responses",
        "supportsBackendSearch": True,
        "supportsReasoningEffort": True,
        "reasoningEffort": "high",
        "reasoningEfforts": ["low", {"value": "high", "label": "High"}],
    }


def test_what_a_model_does_not_support_is_left_out(server: MockInferenceServer) -> None:
    """INF-006"""
    model = MockModel("m").with_supports_backend_search(False).with_supports_reasoning_effort(False)
    server.set_models([model.with_reasoning_efforts([])])

    (entry,) = get(server, "/v1/models").json()["data"]
    assert set(entry) == {"id", "object", "created", "owned_by"}


def test_the_list_of_models_can_be_replaced(server: MockInferenceServer) -> None:
    """INF-007"""
    get(server, "/v1/models")
    server.set_models([MockModel("x"), MockModel("y")])

    assert [entry["id"] for entry in get(server, "/v1/models").json()["data"]] == ["x", "y"]
    with pytest.raises(InvalidArgumentError, match=r"^`models` is 'x': give MockModel objects$"):
        server.set_models(["x"])
    assert len(get(server, "/v1/models").json()["data"]) == 2


def test_settings_are_absent_until_set(server: MockInferenceServer) -> None:
    """INF-017"""
    before = get(server, "/v1/settings")
    server.set_settings({"theme": "dark"})
    after = get(server, "/v1/settings")
    server.preset_allow_access()

    assert (before.status_code, before.content) == (404, b"")
    assert (after.status_code, after.json()) == (200, {"theme": "dark"})
    assert after.headers["content-type"] == "application/json"
    assert get(server, "/v1/settings").json() == {"allow_access": True}
    with pytest.raises(InvalidArgumentError):
        server.set_settings({"a": float("nan")})


def test_a_queued_answer_comes_before_the_steady_settings(server: MockInferenceServer) -> None:
    """INF-018"""
    server.set_settings({"n": 1})
    server.enqueue_response("/v1/settings", ScriptedResponse.text(503, "later"))

    assert get(server, "/v1/settings").status_code == 503
    assert get(server, "/v1/settings").json() == {"n": 1}


def test_queued_answers_serve_the_models_and_the_user_too(server: MockInferenceServer) -> None:
    for path in ("/v1/models", "/v1/user"):
        server.enqueue_response(path, ScriptedResponse.json(500, {"path": path}))

        assert get(server, path).json() == {"path": path}
        assert get(server, path).status_code == 200


def test_a_user_has_no_tier_unless_told(server: MockInferenceServer) -> None:
    """INF-019"""
    free = get(server, "/v1/user").json()
    server.set_user_subscription_tier("pro")
    paid = get(server, "/v1/user").json()
    server.set_user_subscription_tier(None)

    assert free == {"userId": "mock-user", "email": "mock-user@test.invalid"}
    assert paid["subscriptionTier"] == "pro"
    assert get(server, "/v1/user").json() == free


def test_the_log_keeps_the_query_of_the_user(server: MockInferenceServer) -> None:
    """INF-020"""
    get(server, "/v1/user?include=subscription")
    get(server, "/v1/user?")
    get(server, "/v1/models?page=2")

    assert [entry.path for entry in server.requests()] == ["/v1/user?include=subscription", "/v1/user", "/v1/models"]
    assert server.requests()[2].query == "page=2"


def test_hanging_leaves_models_and_settings_unanswered(server: MockInferenceServer) -> None:
    """INF-048"""
    server.set_hang(True)

    with connection(server) as client:
        client.sendall(b"GET /v1/models HTTP/1.1\r\nhost: mock\r\n\r\n")
        server.wait_for_requests_sync(1)
        settings = in_background(lambda: get(server, "/v1/settings"))
        server.wait_for_requests_sync(2)
        assert get(server, "/v1/user").status_code == 200
        assert is_silent(client)

        server.set_hang(False)
        assert b"test-model" in read_until(client, b"}]}")
    assert settings.result(5).status_code == 404


def test_hanging_twice_is_ended_once(server: MockInferenceServer) -> None:
    server.set_hang(True)
    waiting = in_background(lambda: get(server, "/v1/models"))
    server.wait_for_requests_sync(1)

    server.set_hang(True)
    server.set_hang(False)

    assert waiting.result(5).status_code == 200


@pytest.mark.parametrize(("method", "path"), [("POST", "/sessions/abc/data"), ("PUT", "/sessions/abc")])
def test_sessions_are_written_back_at_the_origin(server: MockInferenceServer, method: str, path: str) -> None:
    """INF-050"""
    answer = httpx2.request(method, f"{server.origin}{path}", json={"n": 1})

    assert (answer.status_code, answer.content) == (200, b"")
    (entry,) = server.requests()
    assert (entry.method, entry.path, entry.body) == (method, path, {"n": 1})


def test_a_write_back_needs_the_key(server: MockInferenceServer) -> None:
    """INF-051"""
    server.set_required_auth("secret")
    url = f"{server.origin}/sessions/abc/data"

    refused = httpx2.post(url, json={})
    taken = httpx2.post(url, json={}, headers={"authorization": "Bearer secret"})

    assert (refused.status_code, taken.status_code) == (401, 200)
    assert len(server.requests()) == 1


def test_privacy_is_echoed(server: MockInferenceServer) -> None:
    """INF-052"""
    url = f"{server.url}/privacy/coding-data-retention"

    answers = [httpx2.put(url, json={"codingDataRetentionOptOut": value}).json() for value in (False, True)]

    assert answers == [{"codingDataRetentionOptOut": False}, {"codingDataRetentionOptOut": True}]
    assert httpx2.put(url, json={}).json() == {"codingDataRetentionOptOut": False}
    assert len(server.requests()) == 3


def test_what_cannot_be_read_is_refused_and_logged(server: MockInferenceServer) -> None:
    """INF-054"""
    json_type = {"content-type": "application/json"}
    refusals = [
        get(server, "/v1/nothing"),
        get(server, "/v1/chat/completions"),
        httpx2.post(f"{server.url}/models", json={}),
        httpx2.post(f"{server.url}/messages", content=b"{broken", headers=json_type),
        httpx2.post(f"{server.url}/responses", content=b"{}", headers={"content-type": "text/plain"}),
        httpx2.post(f"{server.url}/responses", content=b"{}"),
    ]

    assert [answer.status_code for answer in refusals] == [404, 405, 405, 400, 415, 415]
    assert refusals[1].headers["allow"] == "POST"
    assert refusals[3].json()["type"] == "error"
    entries = server.requests()
    assert [entry.status for entry in entries] == [404, 405, 405, 400, 415, 415]
    assert all(entry.rejected and entry.error and entry.body is None for entry in entries)
    assert entries[3].raw_body == b"{broken"
    assert (server.request_count(), server.rejected_count()) == (0, 6)
    assert server.request_bodies() == []
    assert not server.has_responses_request()
    assert server.messages_request_count() == 0


def test_a_wrong_base_url_is_told_what_is_missing(server: MockInferenceServer) -> None:
    short = httpx2.post(f"{server.origin}/chat/completions", json={}).json()["error"]["message"]
    double = httpx2.post(f"{server.url}/v1/messages", json={}).json()["error"]["message"]

    assert "/v1/chat/completions is, so the base URL lacks its /v1" in short
    assert "anthropic_base_url" in double


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_lenient_paths_serve_inference_without_the_version(endpoint: object) -> None:
    with MockInferenceServer(lenient_paths=True) as server:
        path = endpoint.path.removeprefix("/v1")  # pyright: ignore[reportAttributeAccessIssue]
        assert httpx2.post(f"{server.origin}{path}", json={}).status_code == 200
        assert server.requests()[0].path == f"/v1{path}"


def test_queues_are_refused_where_nothing_would_serve_them(server: MockInferenceServer) -> None:
    fine = ScriptedResponse.text(200, "fine")
    with pytest.raises(UnservedPathError, match=r"^nothing serves queued responses at '/v1/storage'; queues are at"):
        server.enqueue_response("/v1/storage", fine)
    with pytest.raises(ValueError, match="queue one response at a time"):
        server.enqueue_response(CHAT.path, [fine])
    with pytest.raises(ValueError, match="give a ScriptedResponse"):
        server.enqueue_response(CHAT.path, "text")
    with pytest.raises(ValueError, match="no model's"):
        server.enqueue_response("/v1/models", script.text("hi"))

    assert ask(server).json()["choices"][0]["message"]["content"] == "Echo: hi"


# Storage ----------------------------------------------------------------------------------------------------------


def test_an_upload_is_taken_and_receipted(server: MockInferenceServer) -> None:
    """INF-021"""
    headers = {"x-storage-path": "a/b.json", "authorization": "Basic xyz"}

    receipt = httpx2.post(f"{server.url}/storage", content=b"12345", headers=headers)
    bare = httpx2.post(f"{server.url}/storage", content=b"")

    assert receipt.json() == {
        "bucket": "mock-bucket",
        "path": "a/b.json",
        "size": 5,
        "content_type": "application/octet-stream",
        "generation": 1,
    }
    assert bare.json()["path"] == ""
    upload, _ = server.storage_uploads()
    assert (upload.path, upload.size, upload.body, upload.authorization) == ("a/b.json", 5, b"12345", "Basic xyz")


def test_uploads_can_be_refused_for_a_while(server: MockInferenceServer) -> None:
    """INF-022"""
    server.set_storage_unauthorized(True)
    refused = httpx2.post(f"{server.url}/storage", content=b"1")
    uploads = server.storage_uploads()
    server.set_storage_unauthorized(False)
    taken = httpx2.post(f"{server.url}/storage", content=b"1")

    assert (refused.status_code, refused.json()) == (401, {"error": "Invalid or expired credentials (mock)"})
    assert uploads == []
    assert taken.status_code == 200
    assert (server.storage_request_count(), len(server.storage_uploads())) == (2, 1)


def test_large_uploads_are_counted_and_not_kept(server: MockInferenceServer) -> None:
    """INF-023"""
    for size in (262_144, 262_145):
        httpx2.post(f"{server.url}/storage", content=b"x" * size)

    kept, dropped = server.storage_uploads()
    assert (kept.size, len(kept.body)) == (262_144, 262_144)
    assert (dropped.size, dropped.body) == (262_145, b"")


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("GET", "exists"),
        ("POST", "batch_exists"),
        ("POST", "batch_upload_json"),
        ("POST", "batch_upload"),
        ("GET", "limits"),
    ],
)
def test_the_rest_of_storage_is_not_there(server: MockInferenceServer, method: str, name: str) -> None:
    """INF-024"""
    answer = httpx2.request(method, f"{server.url}/storage/{name}")

    assert (answer.status_code, answer.content) == (404, b"")


def test_storage_stands_beside_the_log(server: MockInferenceServer) -> None:
    """INF-025"""
    httpx2.post(f"{server.url}/storage", content=b"1")
    get(server, "/v1/storage/limits")

    assert server.requests() == []
    assert (server.request_count(), server.rejected_count()) == (0, 0)


def test_a_large_body_is_taken_and_a_larger_one_refused() -> None:
    """INF-053"""
    with MockInferenceServer() as roomy:
        assert ask(roomy, text="x" * (3 * 1024 * 1024)).status_code == 200
    with MockInferenceServer(max_body_bytes=1000) as tight:
        assert ask(tight, text="x" * 2000).status_code == 413
        assert httpx2.post(f"{tight.url}/storage", content=b"x" * 1001).status_code == 413
        assert httpx2.post(f"{tight.url}/messages", content=iter([b"x" * 600] * 3)).status_code == 413
        assert ask(tight).status_code == 200

    assert [entry.raw_body for entry in tight.requests()[:3]] == [b"", b"", b""]
    assert tight.rejected_count() == 3


def test_the_limit_of_a_body_is_256_mib() -> None:
    from chatagent_test.inference.server.requests import MAX_BODY_BYTES

    assert MAX_BODY_BYTES == 268_435_456
