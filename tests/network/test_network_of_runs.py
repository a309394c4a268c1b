"""The network as a harness's run has it: each harness for itself, and no refusal passes unseen."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anthropic
import anyio
import anyio.to_thread
import httpx2
import openai
import pytest
import respx

from agent.making import agent_of, saying
from chatagent import chat, stream_text, tool
from chatagent.errors import InvalidArgumentError
from chatagent.providers.anthropic import AnthropicModel
from chatagent.providers.openai import OpenAIChatModel
from chatagent_test import NetworkDeniedError, deny_network, mock_chat_agent, script
from network.asking_http import CLIENTS, REMOTE, Server, a_server, by_httpx, by_httpx2, by_sync_httpx2, patched_methods

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from chatagent import ChatAgent

pytestmark = pytest.mark.anyio

HOOKS = ["on_boot", "on_preload", "on_chat_start", "on_turn_start", "on_before_turn_complete", "on_turn_complete"]


@pytest.fixture
def server() -> Generator[Server]:
    with a_server() as server:
        yield server


def agent_with_tool(work: Callable[[], Awaitable[str]]) -> ChatAgent[Any]:
    """An agent whose model calls the tool `look_up` once, and then says what it likes."""

    @tool
    async def look_up() -> str:
        return await work()

    return agent_of(saying(*[script.tool_call("look_up", {}), "done"] * 2), tools={"look_up": look_up})


def asked_by(denied: NetworkDeniedError) -> tuple[str, str, str]:
    return denied.method, denied.url, denied.asked_by


@pytest.mark.parametrize("ask", CLIENTS, ids=lambda client: client.__name__)
async def test_a_tools_request_fails_and_the_driver_says_so(ask: Callable[[str], Awaitable[str]]) -> None:
    agent = agent_with_tool(lambda: ask(REMOTE))

    async with mock_chat_agent(agent, network="deny") as harness:
        with pytest.raises(NetworkDeniedError) as raised:
            await harness.send_message("hello")

    assert asked_by(raised.value) == ("GET", REMOTE, "tool 'look_up'")


@pytest.mark.parametrize("hook", HOOKS)
async def test_a_hooks_request_fails_and_the_driver_says_so(hook: str) -> None:
    agent = agent_of(saying("hi"), **{hook: lambda _: by_httpx2(REMOTE)})  # type: ignore[arg-type]

    async with mock_chat_agent(agent, network="deny") as harness:
        with pytest.raises(NetworkDeniedError) as raised:
            await harness.send_message("hello")

    assert raised.value.asked_by == f"`{hook}` of agent {agent.id!r}"


async def test_a_request_of_run_itself_and_of_setup_locals_fails() -> None:
    async def run(_: Any) -> None:
        await by_httpx(REMOTE)

    async with mock_chat_agent(agent_of(run=run), network="deny") as harness:
        with pytest.raises(NetworkDeniedError) as of_run:
            await harness.send_message("hello")
    set_up = mock_chat_agent(agent_of(saying("hi")), network="deny", setup_locals=lambda _: by_httpx(REMOTE))
    async with set_up as harness:
        with pytest.raises(NetworkDeniedError) as of_setup:
            await harness.start()

    assert of_run.value.asked_by.startswith("`run` of agent ")
    assert of_setup.value.asked_by == "`setup_locals`"


async def test_a_request_in_a_thread_of_a_tool_fails() -> None:
    def in_a_thread() -> str:
        with httpx2.Client(trust_env=False) as client:
            return client.get(REMOTE).text

    agent = agent_with_tool(lambda: anyio.to_thread.run_sync(in_a_thread))

    async with mock_chat_agent(agent, network="deny") as harness:
        with pytest.raises(NetworkDeniedError, match="; tool 'look_up' asked for it"):
            await harness.send_message("hello")


async def test_deferred_work_and_further_runs_are_guarded_too() -> None:
    async def deferred() -> None:
        await by_httpx2(REMOTE)

    agent = agent_of(saying("one", "two"), on_turn_start=lambda _: chat.defer(deferred))

    async with mock_chat_agent(agent, network="deny") as harness:
        with pytest.raises(NetworkDeniedError):
            await harness.send_message("hello")
        await harness.kill_run()
        await harness.continue_run()
        with pytest.raises(NetworkDeniedError) as raised:
            await harness.send_message("hello again")

    assert raised.value.asked_by == f"`on_turn_start` of agent {agent.id!r}"


# No refusal passes unseen ---------------------------------------------------------------------------------------------


async def test_a_refusal_that_user_code_swallows_is_raised_by_the_driver() -> None:
    async def careless() -> str:
        try:
            return await by_httpx2(REMOTE)
        except Exception:  # noqa: BLE001 - that is the point
            return "a fallback"

    async with mock_chat_agent(agent_with_tool(careless), network="deny") as harness:
        with pytest.raises(NetworkDeniedError):
            await harness.send_message("hello")

    assert [turn.error for turn in harness.turns] == [None]


async def test_a_refusal_that_no_driver_has_told_is_raised_at_the_end_of_the_block() -> None:
    async def converse() -> None:
        async with mock_chat_agent(agent_with_tool(lambda: by_httpx2(REMOTE)), network="deny") as harness:
            harness.begin_message("hello")
            await harness.settle()

    with pytest.raises(NetworkDeniedError):
        await converse()


async def test_a_refusal_of_a_run_that_was_killed_is_not_forgotten_by_the_next() -> None:
    async def converse() -> None:
        async with mock_chat_agent(agent_with_tool(lambda: by_httpx2(REMOTE)), network="deny") as harness:
            harness.begin_message("hello")
            await harness.settle()
            await harness.kill_run()
            await harness.continue_run()

    with pytest.raises(NetworkDeniedError):
        await converse()


async def test_a_refusal_that_ends_the_run_is_raised_once() -> None:
    async def boot(_: Any) -> None:
        try:
            await by_httpx2(REMOTE)
        except NetworkDeniedError as exc:
            raise RuntimeError("no things today") from exc

    async with mock_chat_agent(agent_of(saying("hi"), on_boot=boot), network="deny") as harness:
        with pytest.raises(NetworkDeniedError):
            await harness.start()

    assert repr(harness.run_error) == "RuntimeError('no things today')"


# What passes ----------------------------------------------------------------------------------------------------------


async def test_what_the_test_mocked_passes() -> None:
    async def ask_twice() -> str:
        transport = httpx2.MockTransport(lambda _: httpx2.Response(200, text="by a transport"))
        return await by_httpx(REMOTE) + ", " + await by_httpx2(REMOTE, transport=transport)

    agent = agent_with_tool(ask_twice)

    with respx.mock() as mocked:
        mocked.get(REMOTE).respond(text="by respx")
        async with mock_chat_agent(agent, network="deny") as harness:
            turn = await harness.send_message("hello")

    assert turn.message is not None
    (call,) = (part for part in turn.message.parts if part.type == "tool-look_up")
    assert call.output == "by respx, by a transport"  # type: ignore[union-attr]


async def test_loopback_passes_unless_the_harness_has_stricter_rules(server: Server) -> None:
    async with mock_chat_agent(agent_with_tool(lambda: by_httpx2(server.url)), network="deny") as harness:
        assert (await harness.send_message("hello")).error is None

    guard = deny_network(allowed_hosts=())
    async with mock_chat_agent(agent_with_tool(lambda: by_httpx2(server.url)), network=guard) as harness:
        with pytest.raises(NetworkDeniedError):
            await harness.send_message("hello")

    assert server.paths == ["/there"]
    assert len(guard.denied) == 1


async def test_two_harnesses_one_denied_and_one_allowed_side_by_side(server: Server) -> None:
    before = patched_methods()
    answers: list[str] = []
    outcomes: dict[str, BaseException | None] = {}
    together = [anyio.Event(), anyio.Event()]

    async def converse(name: str, number: int, network: Any) -> None:
        async def work() -> str:
            together[number].set()
            await together[1 - number].wait()
            answers.append(await by_httpx2(server.url))
            return "found"

        async with mock_chat_agent(agent_with_tool(work), chat_id=name, network=network) as harness:
            outcomes[name] = None
            try:
                await harness.send_message("hello")
            except NetworkDeniedError as exc:
                outcomes[name] = exc

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(converse, "denied", 0, deny_network(allowed_hosts=()))
            tasks.start_soon(converse, "allowed", 1, "allow")

    assert isinstance(outcomes["denied"], NetworkDeniedError)
    assert outcomes["allowed"] is None
    assert answers == ["ok"]
    assert patched_methods() == before


async def test_the_tests_own_requests_and_other_tasks_pass_while_a_harness_is_denied(server: Server) -> None:
    guard = deny_network(allowed_hosts=())

    async with mock_chat_agent(agent_of(saying("hi")), network=guard) as harness:
        await harness.send_message("hello")
        assert await by_sync_httpx2(server.url) == "ok"

    assert guard.denied == []


async def test_a_harness_is_under_the_guard_around_it_unless_it_says_otherwise(server: Server) -> None:
    def agent() -> ChatAgent[Any]:
        return agent_with_tool(lambda: by_httpx2(server.url))

    with deny_network(allowed_hosts=()) as guard:
        async with mock_chat_agent(agent()) as harness:
            with pytest.raises(NetworkDeniedError):
                await harness.send_message("hello")
        async with mock_chat_agent(agent(), network="allow") as harness:
            assert (await harness.send_message("hello")).error is None
        async with mock_chat_agent(agent(), network="deny") as harness:
            assert (await harness.send_message("hello")).error is None

    assert [denied.asked_by for denied in guard.denied] == ["tool 'look_up'"]


async def test_a_guard_of_the_thread_reaches_the_worker_threads_of_a_run() -> None:
    def in_a_thread() -> str:
        with httpx2.Client(trust_env=False) as client:
            return client.get(REMOTE).text

    async def converse() -> None:
        agent = agent_with_tool(lambda: anyio.to_thread.run_sync(in_a_thread))
        async with mock_chat_agent(agent) as harness:
            with pytest.raises(NetworkDeniedError):
                await harness.send_message("hello")

    with deny_network(scope="thread"):
        await converse()


async def test_the_patch_is_gone_when_the_harness_is_closed_or_its_run_was_killed() -> None:
    before = patched_methods()

    async with mock_chat_agent(agent_of(saying("hi")), network="deny") as harness:
        await harness.send_message("hello")
        assert patched_methods() != before
        await harness.kill_run()
        assert patched_methods() == before

    with suppress(RuntimeError):
        async with mock_chat_agent(agent_of(saying("hi")), network="deny") as harness:
            await harness.send_message("hello")
            raise RuntimeError("on purpose")
    assert patched_methods() == before


def test_the_option_is_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="network"):
        mock_chat_agent(agent_of(saying("hi")), network="none")  # type: ignore[arg-type]


# The providers' own SDKs ----------------------------------------------------------------------------------------------


async def ask_openai() -> str:
    async with openai.AsyncOpenAI(api_key="k") as client:
        answer = await client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "hi"}])
        return str(answer.choices[0].message.content)


async def ask_openai_in_the_thread() -> str:
    with openai.OpenAI(api_key="k") as client:
        return client.responses.create(model="gpt-5", input="hi").output_text


# Without retries: this client takes whatever fails for a lost connection, and waits before it asks again.
async def ask_anthropic() -> str:
    async with anthropic.AsyncAnthropic(api_key="k", max_retries=0) as client:
        answer = await client.messages.create(
            model="claude", max_tokens=10, messages=[{"role": "user", "content": "hi"}]
        )
        return str(answer.content)


async def ask_anthropic_in_the_thread() -> str:
    with (
        anthropic.Anthropic(api_key="k", max_retries=0) as client,
        client.messages.stream(model="claude", max_tokens=10, messages=[{"role": "user", "content": "hi"}]) as stream,
    ):
        return stream.get_final_text()


SDKS = {
    ask_openai: "https://api.openai.com/v1/chat/completions",
    ask_openai_in_the_thread: "https://api.openai.com/v1/responses",
    ask_anthropic: "https://api.anthropic.com/v1/messages",
    ask_anthropic_in_the_thread: "https://api.anthropic.com/v1/messages",
}
BACKENDS_OF_SDKS = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@BACKENDS_OF_SDKS
@pytest.mark.parametrize(("ask", "url"), SDKS.items(), ids=lambda each: getattr(each, "__name__", ""))
async def test_an_sdks_client_is_refused_in_a_tool_a_hook_and_run(ask: Any, url: str) -> None:
    guard = deny_network()
    by_tool = agent_with_tool(ask)
    by_hook = agent_of(saying("hi"), on_turn_start=lambda _: ask())
    by_run = agent_of(run=lambda _: ask())

    for agent in (by_tool, by_hook, by_run):
        async with mock_chat_agent(agent, network=guard) as harness:
            with pytest.raises(NetworkDeniedError):
                await harness.send_message("hello")

    assert [asked_by(denied) for denied in guard.denied] == [
        ("POST", url, "tool 'look_up'"),
        ("POST", url, f"`on_turn_start` of agent {by_hook.id!r}"),
        ("POST", url, f"`run` of agent {by_run.id!r}"),
    ]


@BACKENDS_OF_SDKS
async def test_a_model_of_a_provider_is_refused_by_name() -> None:
    models = [
        OpenAIChatModel("gpt-5", client=openai.AsyncOpenAI(api_key="k")),
        AnthropicModel("claude", client=anthropic.AsyncAnthropic(api_key="k")),
    ]
    seen: list[tuple[str, str]] = []

    for model in models:
        agent = agent_of(run=lambda event, model=model: stream_text(model=model, messages=event.messages))
        async with mock_chat_agent(agent, network="deny") as harness:
            with pytest.raises(NetworkDeniedError) as raised:
                await harness.send_message("hello")
            seen.append((raised.value.url, raised.value.asked_by))

    assert seen == [
        ("https://api.openai.com/v1/chat/completions", "the call of model 'gpt-5'"),
        ("https://api.anthropic.com/v1/messages", "the call of model 'claude'"),
    ]


@BACKENDS_OF_SDKS
async def test_an_sdks_client_with_a_transport_of_the_tests_passes() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"id": "m", "object": "model", "created": 0, "owned_by": "o"})

    async def work() -> str:
        http_client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
        async with openai.AsyncOpenAI(api_key="k", http_client=http_client) as client:
            return (await client.models.retrieve("m")).owned_by

    async with mock_chat_agent(agent_with_tool(work), network="deny") as harness:
        turn = await harness.send_message("hello")

    assert turn.error is None
    assert turn.text == "done"
