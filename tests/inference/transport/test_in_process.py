"""Clients that reach a server without a socket: transports, the ASGI application, interception."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import httpx
import httpx2
import openai
import pytest
import respx

from chatagent.errors import InvalidArgumentError
from chatagent_test import script
from chatagent_test.inference import (
    LogEntry,
    MockInferenceServer,
    OriginTakenError,
    RequestMatcher,
    ScriptedResponse,
    SseEvent,
)
from inference.asking import CHAT, body_for, data_of, in_background

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from chatagent_test.inference.transport import HTTPLibrary

ANY = RequestMatcher.any(CHAT)
EVENTS = ScriptedResponse.sse([SseEvent.of({"n": number}) for number in (1, 2, 3)])
URL = "https://anywhere.invalid/v1/chat/completions"
PAIR = (httpx, httpx2)
LIBRARIES = {"httpx": httpx, "httpx2": httpx2}


@pytest.fixture
def server() -> Iterator[MockInferenceServer]:
    with MockInferenceServer(listen=False) as server:
        yield server


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_blocking_client_sees_frames_as_they_come(server: MockInferenceServer, library: HTTPLibrary) -> None:
    expected = server.expect_response_blocked("held", ANY, EVENTS)

    with (
        LIBRARIES[library].Client(transport=server.transport(library)) as client,
        client.stream("POST", URL, json=body_for(CHAT, stream=True)) as answer,
    ):
        pieces = answer.iter_raw()
        assert (next(pieces), next(pieces)) == (b'data: {"n":1}\n\n', b'data: {"n":2}\n\n')
        expected.wait_blocked_sync()
        threading.Timer(0.01, expected.release).start()
        assert list(pieces) == [b'data: {"n":3}\n\n']
    assert expected.is_satisfied


@pytest.mark.anyio
@pytest.mark.parametrize("library", LIBRARIES)
async def test_an_async_client_sees_frames_as_they_come(server: MockInferenceServer, library: HTTPLibrary) -> None:
    expected = server.expect_response_blocked("held", ANY, EVENTS)

    async with (
        LIBRARIES[library].AsyncClient(transport=server.async_transport(library)) as client,
        client.stream("POST", URL, json=body_for(CHAT, stream=True)) as answer,
    ):
        await expected.wait_blocked()
        assert server.requests()[0].outcome is None
        expected.release()
        assert data_of(await answer.aread()) == [{"n": 1}, {"n": 2}, {"n": 3}]
    await expected.wait_satisfied()


@pytest.mark.anyio
async def test_an_answer_goes_on_though_nobody_reads(server: MockInferenceServer) -> None:
    expected = server.expect_response("paced", ANY, ScriptedResponse.sse(EVENTS.body.events, frame_delays=[0.001] * 3))

    async with (
        httpx2.AsyncClient(transport=server.async_transport()) as client,
        client.stream("POST", URL, json=body_for(CHAT, stream=True)) as answer,
    ):
        await expected.wait_satisfied()
        assert len(data_of(await answer.aread())) == 3


@pytest.mark.anyio
async def test_a_client_that_stops_reading_has_gone(server: MockInferenceServer) -> None:
    expected = server.expect_response_blocked("held", ANY, EVENTS)

    async with (
        httpx2.AsyncClient(transport=server.async_transport()) as client,
        client.stream("POST", URL, json=body_for(CHAT, stream=True)),
    ):
        await expected.wait_blocked()

    assert server.requests()[0].outcome == "client_disconnected"
    with pytest.raises(AssertionError, match="cancelled"):
        await expected.wait_satisfied()


@pytest.mark.anyio
async def test_a_cancelled_call_has_gone(server: MockInferenceServer) -> None:
    expected = server.expect_response_blocked("held", ANY, ScriptedResponse.json(200, {}))

    async with anyio.create_task_group() as tasks, httpx2.AsyncClient(transport=server.async_transport()) as client:
        tasks.start_soon(lambda: client.post(URL, json=body_for(CHAT)))
        await expected.wait_blocked()
        tasks.cancel_scope.cancel()

    assert server.requests()[0].outcome == "client_disconnected"


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_read_timeout_holds(server: MockInferenceServer, library: HTTPLibrary) -> None:
    http = LIBRARIES[library]
    server.expect_response("stalls", ANY, script.hang())

    with (
        http.Client(transport=server.transport(library), timeout=0.02) as client,
        pytest.raises(http.ReadTimeout, match=r"sent nothing within 0\.02 s"),
    ):
        client.post(URL, json=body_for(CHAT))
    assert server.requests()[0].outcome == "client_disconnected"


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_body_that_breaks_off_is_an_error(server: MockInferenceServer, library: HTTPLibrary) -> None:
    http = LIBRARIES[library]
    server.enqueue_response(CHAT.path, ScriptedResponse.sse(EVENTS.body.events, end="abort"))

    with (
        http.Client(transport=server.transport(library)) as client,
        pytest.raises(http.RemoteProtocolError, match="incomplete chunked read"),
    ):
        client.post(URL, json=body_for(CHAT))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_closed_server_refuses_in_process_clients_too(server: MockInferenceServer, library: HTTPLibrary) -> None:
    http = LIBRARIES[library]
    client = http.Client(transport=server.transport(library))
    server.close()

    with client, pytest.raises(http.ConnectError, match="closed"):
        client.get("https://anywhere.invalid/v1/models")


def test_what_is_asked_in_process_is_logged_like_all_else(server: MockInferenceServer) -> None:
    with httpx2.Client(transport=server.transport()) as client:
        client.get("https://anywhere.invalid/v1/user?a=1", headers={"X-Some": "thing"})
        client.post(URL, content=b"{broken", headers={"content-type": "application/json"})

    user, broken = server.requests()
    assert (user.path, user.query, user.header("x-some")) == ("/v1/user?a=1", "a=1", "thing")
    assert (broken.raw_body, broken.status) == (b"{broken", 400)


@pytest.mark.anyio
async def test_an_async_function_answers_in_process(server: MockInferenceServer) -> None:
    async def reply(entry: LogEntry) -> ScriptedResponse:
        await anyio.lowlevel.checkpoint()
        return ScriptedResponse.json(200, {"asked": entry.body["model"]})

    server.expect_response("dynamic", ANY, reply)

    async with httpx2.AsyncClient(transport=server.async_transport()) as client:
        assert (await client.post(URL, json=body_for(CHAT))).json() == {"asked": "test-model"}


@pytest.mark.anyio
async def test_closing_breaks_off_an_answer_that_stalls(server: MockInferenceServer) -> None:
    server.expect_response("stalls", ANY, ScriptedResponse.sse(EVENTS.body.events, end="stall"))

    async with (
        httpx2.AsyncClient(transport=server.async_transport(), timeout=None) as client,
        client.stream("POST", URL, json=body_for(CHAT, stream=True)) as answer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(server.aclose)
        with pytest.raises(httpx2.RemoteProtocolError):
            await answer.aread()
    assert server.requests()[0].outcome == "aborted"


# Clients of the SDKs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listen", [True, False])
def test_the_factories_set_a_client_up(*, listen: bool) -> None:
    with MockInferenceServer(listen=listen) as server:
        client, other = server.openai_client(), server.anthropic_client()
        said = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
        other.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "hi"}])

    assert said.choices[0].message.content == "Echo: hi"
    assert (client.max_retries, other.max_retries) == (0, 0)
    assert client.is_closed()
    assert server.request_count() == 2


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:Async generator '(openai|anthropic|httpx2):ResourceWarning")
async def test_the_async_factories_do_so_too() -> None:
    async with MockInferenceServer(listen=False) as server:
        client, other = server.async_openai_client(), server.async_anthropic_client()
        said = await client.responses.create(model="m", input="hi")
        await other.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": "hi"}])

    assert said.output_text == "Echo: hi"
    assert client.is_closed()


def test_a_factory_takes_what_the_class_takes(server: MockInferenceServer) -> None:
    server.set_required_auth("mine")

    client = server.openai_client(api_key="mine", max_retries=1, timeout=3)

    assert client.chat.completions.create(model="m", messages=[]).model == "m"
    assert (client.max_retries, client.timeout) == (1, 3)


def test_retries_are_seen_as_such(server: MockInferenceServer) -> None:
    server.expect_response("flaky", ANY, [script.error(429, retry_after=0), script.text("ok")])

    client = server.openai_client(max_retries=2)
    said = client.chat.completions.create(model="m", messages=[])

    assert said.choices[0].message.content == "ok"
    assert [entry.retry_count for entry in server.requests()] == [0, 1]


# The ASGI application ---------------------------------------------------------------------------------------------


class Asked:
    """One call of an ASGI application."""

    def __init__(self, path: str = CHAT.path, body: bytes = b'{"stream": true}', **scope: Any) -> None:
        self.scope: MutableMapping[str, Any] = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
            **scope,
        }
        self._body = [body[:3], body[3:]]
        self.gone = anyio.Event()
        self.sent: list[MutableMapping[str, Any]] = []

    async def receive(self) -> MutableMapping[str, Any]:
        if self._body:
            return {"type": "http.request", "body": self._body.pop(0), "more_body": bool(self._body)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)


@pytest.mark.anyio
async def test_the_application_answers_frame_by_frame(server: MockInferenceServer) -> None:
    server.expect_response("say", ANY, EVENTS)
    asked = Asked()

    await server.app(asked.scope, asked.receive, asked.send)

    start, *bodies = asked.sent
    assert (start["type"], start["status"]) == ("http.response.start", 200)
    assert (b"content-type", b"text/event-stream") in start["headers"]
    assert [body["body"] for body in bodies] == [b'data: {"n":%d}\n\n' % number for number in (1, 2, 3)] + [b""]
    assert [body["more_body"] for body in bodies] == [True, True, True, False]


@pytest.mark.anyio
async def test_the_application_notices_that_its_client_has_gone(server: MockInferenceServer) -> None:
    expected = server.expect_response_blocked("held", ANY, EVENTS)
    asked = Asked()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.app, asked.scope, asked.receive, asked.send)
            await expected.wait_blocked()
            asked.gone.set()

    assert server.requests()[0].outcome == "client_disconnected"
    assert not expected.is_satisfied


@pytest.mark.anyio
async def test_a_client_that_goes_away_in_the_midst_of_its_request_has_asked_nothing(
    server: MockInferenceServer,
) -> None:
    expected = server.expect_response("say", ANY, EVENTS)
    asked = Asked()
    messages = iter([{"type": "http.request", "body": b"{}", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> MutableMapping[str, Any]:
        return next(messages)

    await server.app(asked.scope, receive, asked.send)

    assert (server.requests(), asked.sent) == ([], [])
    assert expected.claims == 0


@pytest.mark.anyio
async def test_the_application_breaks_off_by_raising(server: MockInferenceServer) -> None:
    server.expect_response("cut", ANY, ScriptedResponse.sse(EVENTS.body.events, end="abort"))
    asked = Asked()

    with pytest.raises(ConnectionError, match="broke the answer off"):
        await server.app(asked.scope, asked.receive, asked.send)

    assert asked.sent[-1]["more_body"] is True


@pytest.mark.anyio
async def test_the_application_can_be_mounted_and_lives_a_lifespan(server: MockInferenceServer) -> None:
    mounted = Asked("/mock/v1/settings", b"", method="GET", root_path="/mock")
    messages = iter(["lifespan.startup", "lifespan.shutdown"])
    told: list[str] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": next(messages)}

    async def send(message: MutableMapping[str, Any]) -> None:
        told.append(message["type"])

    await server.app(mounted.scope, mounted.receive, mounted.send)
    await server.app({"type": "lifespan"}, receive, send)

    assert mounted.sent[0]["status"] == 404
    assert server.requests()[0].path == "/v1/settings"
    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    with pytest.raises(NotImplementedError, match="websocket"):
        await server.app({"type": "websocket"}, receive, send)


@pytest.mark.anyio
async def test_the_application_refuses_a_body_over_the_limit() -> None:
    with MockInferenceServer(listen=False, max_body_bytes=4) as server:
        asked = Asked(body=b'{"a": 1}')
        await server.app(asked.scope, asked.receive, asked.send)

    assert asked.sent[0]["status"] == 413


# Interception -----------------------------------------------------------------------------------------------------


def test_a_client_that_the_code_builds_for_itself_is_led_here(
    server: MockInferenceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")

    with server.intercept(), openai.OpenAI() as client:
        said = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])

    assert said.choices[0].message.content == "Echo: hi"
    assert server.requests()[0].header("host") == "api.openai.com"


@pytest.mark.anyio
@pytest.mark.parametrize("library", LIBRARIES)
async def test_both_libraries_stream_through_an_interception(server: MockInferenceServer, library: str) -> None:
    http = LIBRARIES[library]
    expected = server.expect_response_blocked("held", ANY, EVENTS)
    url = "https://api.anthropic.com/v1/chat/completions"

    with server.intercept():
        async with http.AsyncClient() as client, client.stream("POST", url, json=body_for(CHAT)) as answer:
            await expected.wait_blocked()
            expected.release()
            assert len(data_of(await answer.aread())) == 3
        with http.Client() as client:
            assert client.get("https://api.openai.com/v1/models").json()["object"] == "list"


@pytest.mark.parametrize("library", LIBRARIES)
def test_other_origins_pass_or_are_refused(library: str) -> None:
    http = LIBRARIES[library]
    with MockInferenceServer() as real, MockInferenceServer(listen=False) as server:
        with server.intercept("https://api.openai.com"):
            assert http.get(f"{real.url}/models").status_code == 200
        with (
            server.intercept("https://api.openai.com", others="refuse"),
            pytest.raises(http.ConnectError, match="is not intercepted"),
        ):
            http.get(f"{real.url}/models")

    assert (real.request_count(), server.request_count()) == (1, 0)


def hooked() -> list[object]:
    methods = [(http.HTTPTransport.handle_request, http.AsyncHTTPTransport.handle_async_request) for http in PAIR]
    return [method for pair in methods for method in pair]


def test_nothing_is_left_behind_an_interception(server: MockInferenceServer) -> None:
    before = hooked()

    with server.intercept(), server.intercept("https://other.invalid"):
        assert httpx2.HTTPTransport.handle_request is not before[2]
    with pytest.raises(RuntimeError, match="the test's own"), server.intercept():
        raise RuntimeError("the test's own")

    assert hooked() == before


def test_two_servers_intercept_different_origins_at_a_time() -> None:
    with (
        MockInferenceServer(listen=False) as one,
        MockInferenceServer(listen=False) as two,
        one.intercept("https://one.invalid"),
        two.intercept("https://two.invalid"),
    ):
        httpx2.get("https://one.invalid/v1/models")
        httpx2.get("https://two.invalid/v1/models")
        httpx2.get("https://two.invalid/v1/user")
        with pytest.raises(OriginTakenError, match=r"^requests to https://one.invalid are intercepted already"):
            two.intercept("https://one.invalid").__enter__()
        httpx2.get("https://one.invalid/v1/models")

    assert (one.request_count(), two.request_count()) == (2, 2)


@pytest.mark.parametrize("origin", ["api.openai.com", "https://api.openai.com/v1", "ftp://x", "https://"])
def test_an_origin_that_is_none_is_refused(server: MockInferenceServer, origin: str) -> None:
    with pytest.raises(InvalidArgumentError, match="`origins`"):
        server.intercept(origin)
    with pytest.raises(InvalidArgumentError, match="`others`"):
        server.intercept(others="drop")


def test_a_client_on_another_thread_is_led_here_too(server: MockInferenceServer) -> None:
    with server.intercept():
        answer = in_background(lambda: httpx2.get("https://api.openai.com/v1/models"))
        assert answer.result(5).status_code == 200


@pytest.mark.anyio
async def test_a_router_of_respx_can_lead_here_as_well(server: MockInferenceServer) -> None:
    with respx.mock() as router:
        router.route(host="a.invalid").mock(side_effect=server.transport("httpx").handle_request)
        router.route(host="b.invalid").mock(side_effect=server.async_transport("httpx").handle_async_request)

        assert in_background(lambda: httpx.get("https://a.invalid/v1/models")).result(5).status_code == 200
        async with httpx.AsyncClient() as async_client:
            assert (await async_client.get("https://b.invalid/v1/user")).json()["userId"] == "mock-user"
