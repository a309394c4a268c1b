"""`deny_network` in a test of its own: what it refuses, what passes, and that it leaves nothing behind."""

from __future__ import annotations

import contextvars
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import httpx
import httpx2
import pytest
import respx

from chatagent.errors import HarnessError, InvalidArgumentError
from chatagent_test import NetworkDeniedError, deny_network
from chatagent_test.network import hook
from network.asking_http import CLIENTS, REMOTE, Server, a_server, by_httpx, by_httpx2, by_sync_httpx2, patched_methods

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Generator[Server]:
    with a_server() as server:
        yield server


@pytest.fixture(params=CLIENTS, ids=lambda client: client.__name__)
def ask(request: pytest.FixtureRequest) -> Callable[..., Awaitable[str]]:
    return request.param


async def test_a_request_that_nobody_mocked_fails_and_says_who_asked_for_what(ask: Any) -> None:
    with deny_network() as guard, pytest.raises(NetworkDeniedError) as raised:
        await ask("https://user:secret@api.example.com/v1/things?key=secret")

    denied = raised.value
    assert (denied.method, denied.url, denied.asked_by) == ("GET", REMOTE, "code of the test")
    assert str(denied) == (
        f"GET {REMOTE} was not mocked, and the network is denied here; code of the test asked for it. Mock it (a "
        "transport of the client, respx, a server on loopback), or allow its host: deny_network(allowed_hosts=[…])"
    )
    assert isinstance(denied, HarnessError)
    assert isinstance(denied, AssertionError)
    assert guard.denied == [denied]


async def test_no_error_of_the_client_or_the_system_hides_it(ask: Any) -> None:
    with deny_network(), pytest.raises(NetworkDeniedError) as raised:
        await ask(REMOTE)

    assert not isinstance(raised.value, OSError | httpx.HTTPError | httpx2.HTTPError)


async def test_loopback_passes_by_default(ask: Any, server: Server) -> None:
    with deny_network() as guard:
        assert await ask(server.url) == "ok"

    assert server.paths == ["/there"]
    assert guard.denied == []


async def test_loopback_is_refused_if_no_host_is_allowed(ask: Any, server: Server) -> None:
    with deny_network(allowed_hosts=()), pytest.raises(NetworkDeniedError):
        await ask(server.url)

    assert server.paths == []


async def test_hosts_are_allowed_by_name(server: Server) -> None:
    with deny_network(allowed_hosts=["LOCALHOST"]):
        assert await by_httpx2(server.url.replace("127.0.0.1", "localhost")) == "ok"
        with pytest.raises(NetworkDeniedError):
            await by_httpx2(server.url)


async def test_a_connection_that_is_open_already_is_not_used(server: Server) -> None:
    async with httpx2.AsyncClient(trust_env=False) as client:
        assert (await client.get(server.url)).text == "ok"

        with deny_network(allowed_hosts=()), pytest.raises(NetworkDeniedError):
            await client.get(server.url)

        assert (await client.get(server.url)).text == "ok"
    assert server.paths == ["/there", "/there"]


async def test_what_another_transport_of_the_client_answers_passes() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"from the app"})

    class Own(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(200, text="from the transport")

    with deny_network() as guard:
        answers = [
            await by_httpx(REMOTE, transport=httpx.MockTransport(lambda _: httpx.Response(200, text="mocked"))),
            await by_sync_httpx2(REMOTE, transport=httpx2.MockTransport(lambda _: httpx2.Response(200, text="mocked"))),
            await by_httpx(REMOTE, transport=httpx.ASGITransport(app)),
            await by_httpx2(REMOTE, transport=httpx2.ASGITransport(app)),
            await by_httpx2(REMOTE, transport=Own()),
        ]

    assert answers == ["mocked", "mocked", "from the app", "from the app", "from the transport"]
    assert guard.denied == []


async def test_a_transport_of_ones_own_that_asks_the_network_is_refused() -> None:
    class Retrying(httpx2.AsyncBaseTransport):
        def __init__(self) -> None:
            self.inner = httpx2.AsyncHTTPTransport(trust_env=False)

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return await self.inner.handle_async_request(request)

    with deny_network(), pytest.raises(NetworkDeniedError):
        await by_httpx2(REMOTE, transport=Retrying())


@pytest.mark.parametrize("using", ["httpcore", "httpx"])
@pytest.mark.parametrize("outermost", ["respx", "guard"])
async def test_what_respx_answers_passes(using: str, outermost: str) -> None:
    before = patched_methods()
    guard, mocked = deny_network(), respx.mock(using=using, assert_all_called=False)
    mocked.get(REMOTE).respond(text="mocked")
    outer, inner = (mocked, guard) if outermost == "respx" else (guard, mocked)

    with outer, inner:
        assert await by_httpx(REMOTE) == "mocked"

    assert guard.denied == []
    assert patched_methods() == before


async def test_what_respx_lets_through_is_refused() -> None:
    with deny_network(), respx.mock() as mocked:
        mocked.get(REMOTE).pass_through()
        with pytest.raises(NetworkDeniedError):
            await by_httpx(REMOTE)


async def test_a_double_that_replaces_the_transports_method_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_transport: Any, _request: Any) -> httpx2.Response:
        return httpx2.Response(200, text="replaced")

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", answer)

    with deny_network():
        assert await by_httpx2(REMOTE) == "replaced"


async def test_a_request_keeps_its_own_trace() -> None:
    seen: list[str] = []

    async def trace(event: str, _info: Any) -> None:
        seen.append(event)

    async with httpx2.AsyncClient(trust_env=False) as client:
        request = client.build_request("GET", REMOTE, extensions={"trace": trace})
        with deny_network(), pytest.raises(NetworkDeniedError):
            await client.send(request)

    assert request.extensions["trace"] is trace
    assert seen == []


async def test_the_patch_is_gone_after_the_block_however_it_ends(ask: Any, server: Server) -> None:
    before = patched_methods()
    assert len(before) == 4

    with suppress(RuntimeError), deny_network(allowed_hosts=()):
        assert all(patched_methods()[name] is not method for name, method in before.items())
        raise RuntimeError("on purpose")

    assert patched_methods() == before
    assert await ask(server.url) == "ok"


async def test_the_patch_stays_until_the_last_guard_is_gone() -> None:
    before = patched_methods()

    with deny_network():
        inside = patched_methods()
        with deny_network():
            assert patched_methods() == inside
        assert patched_methods() == inside
        with pytest.raises(NetworkDeniedError):
            await by_httpx2(REMOTE)

    assert patched_methods() == before


async def test_guards_of_many_threads_leave_the_transports_as_they_were() -> None:
    before = patched_methods()
    errors: list[type[BaseException]] = []

    def work() -> None:
        with httpx2.Client(trust_env=False) as client:
            for _ in range(20):
                with deny_network():
                    try:
                        client.get(REMOTE)
                    except NetworkDeniedError as exc:
                        errors.append(type(exc))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(errors) == 80
    assert patched_methods() == before


async def test_a_patch_that_somebody_has_put_on_top_is_left_alone_and_ours_below_does_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "handle_async_request"
    monkeypatch.setattr(httpx2.AsyncHTTPTransport, name, vars(httpx2.AsyncHTTPTransport)[name])  # put back at the end
    with deny_network(allowed_hosts=()):
        ours = vars(httpx2.AsyncHTTPTransport)[name]

        async def on_top(transport: Any, request: Any) -> Any:
            return await ours(transport, request)

        monkeypatch.setattr(httpx2.AsyncHTTPTransport, name, on_top)

    assert vars(httpx2.AsyncHTTPTransport)[name] is on_top
    assert await by_httpx2(server.url) == "ok"
    with deny_network(allowed_hosts=()), pytest.raises(NetworkDeniedError):
        await by_httpx2(server.url)
    assert vars(httpx2.AsyncHTTPTransport)[name] is on_top


# Whom it watches ------------------------------------------------------------------------------------------------------


async def test_other_tasks_of_the_loop_are_not_watched(server: Server) -> None:
    answers: list[str] = []
    guarded, asked = anyio.Event(), anyio.Event()

    async def other() -> None:
        await guarded.wait()
        answers.append(await by_httpx2(server.url))
        asked.set()

    async def denied() -> None:
        with deny_network(allowed_hosts=()):
            guarded.set()
            await asked.wait()
            with pytest.raises(NetworkDeniedError):
                await by_httpx2(server.url)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            tasks.start_soon(denied)

    assert answers == ["ok"]


async def test_tasks_and_threads_that_are_started_in_the_block_are_watched() -> None:
    async def in_a_task() -> None:
        with pytest.raises(NetworkDeniedError):
            await by_httpx2(REMOTE)

    def in_a_thread() -> None:
        with httpx2.Client(trust_env=False) as client, pytest.raises(NetworkDeniedError):
            client.get(REMOTE)

    with deny_network() as guard:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(in_a_task)
        await anyio.to_thread.run_sync(in_a_thread)

    assert len(guard.denied) == 2


async def test_what_was_started_in_the_block_is_free_after_it(server: Server) -> None:
    left = anyio.Event()
    answers: list[str] = []
    elsewhere = deny_network()
    contextvars.Context().run(elsewhere.__enter__)  # keeps the patch on

    async def work() -> None:
        await left.wait()
        answers.append(await by_httpx2(server.url))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            with deny_network(), deny_network(allowed_hosts=()):
                tasks.start_soon(work)
            left.set()
    contextvars.Context().run(elsewhere.__exit__, None, None, None)

    assert answers == ["ok"]


async def test_a_task_that_outlives_an_inner_guard_is_under_the_outer_one() -> None:
    left = anyio.Event()

    async def work() -> None:
        await left.wait()
        with pytest.raises(NetworkDeniedError):
            await by_httpx2(REMOTE)

    inner = deny_network()
    with deny_network() as outer, anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            with inner:
                tasks.start_soon(work)
            left.set()

    assert (len(outer.denied), len(inner.denied)) == (1, 0)


def test_a_guard_may_end_in_another_context_than_it_began_in() -> None:
    before = patched_methods()
    guard = deny_network()

    contextvars.Context().run(guard.__enter__)
    contextvars.Context().run(guard.__exit__, None, None, None)

    assert patched_methods() == before


def test_a_guard_of_the_thread_watches_contexts_that_know_nothing_of_it() -> None:
    def work() -> None:
        with httpx2.Client(trust_env=False) as client, pytest.raises(NetworkDeniedError):
            client.get(REMOTE)

    with deny_network(scope="thread") as outer:
        with deny_network(scope="thread") as inner:
            contextvars.Context().run(work)
        contextvars.Context().run(work)

    assert (len(inner.denied), len(outer.denied)) == (1, 1)


def test_a_guard_of_the_thread_leaves_other_threads_alone(server: Server) -> None:
    answers: list[str] = []

    def work() -> None:
        with httpx2.Client(trust_env=False) as client:
            answers.append(client.get(server.url).text)

    with deny_network(scope="thread", allowed_hosts=()):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert answers == ["ok"]


# What it needs --------------------------------------------------------------------------------------------------------


def test_clients_are_imported_by_the_first_guard_and_not_before() -> None:
    code = (
        "import sys, chatagent_test\n"
        "from chatagent_test import deny_network, mock_chat_agent\n"
        "assert not {'httpx', 'httpx2'} & set(sys.modules), 'too early'\n"
        "with deny_network(): assert {'httpx', 'httpx2'} <= set(sys.modules)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.returncode == 0


async def test_it_works_with_the_one_client_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "CLIENTS", ("httpx2", "a_client_that_is_not_installed"))
    before = patched_methods()

    with deny_network():
        changed = [name for name, method in patched_methods().items() if method is not before[name]]
        with pytest.raises(NetworkDeniedError):
            await by_httpx2(REMOTE)

    assert len(changed) == 2
    assert all(name.startswith("httpx2.") for name in changed)


@pytest.mark.parametrize(
    ("options", "argument"), [({"scope": "process"}, "scope"), ({"allowed_hosts": "localhost"}, "allowed_hosts")]
)
def test_options_are_checked(options: Any, argument: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        deny_network(**options)

    assert raised.value.argument == argument
