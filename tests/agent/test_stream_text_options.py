"""`chat.to_stream_text_options`: what a run knows, as arguments for `stream_text` (N-52, N-41, PCH)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import agent_of, roles, saying
from chatagent import ChatContextError, chat, is_step_count, stream_text, tool
from chatagent.agent import Prompt
from chatagent.model import SystemMessage, TextPart
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.agent import RunEvent

pytestmark = pytest.mark.anyio


@tool
def look() -> str:
    """Look."""
    return "seen"


class Registry:
    """Knows one model."""

    def __init__(self, model: MockLanguageModel) -> None:
        self.model = model
        self.asked: list[str] = []

    def language_model(self, name: str) -> MockLanguageModel:
        self.asked.append(name)
        return self.model


async def options_of(prepare: Callable[[], Any] = lambda: None, **arguments: Any) -> dict[str, Any]:
    """What `chat.to_stream_text_options(**arguments)` gives in a turn, after `prepare` was called."""
    given: list[dict[str, Any]] = []

    def run(event: Any) -> None:
        prepare()
        given.append(chat.to_stream_text_options(**arguments))

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("hello")
        if turn.error is not None:
            raise turn.error
    return given[0]


def with_options(model: MockLanguageModel, **more: Any) -> Callable[[RunEvent[Any]], Any]:
    def run(event: RunEvent[Any]) -> Any:
        arguments: dict[str, Any] = {
            **chat.to_stream_text_options(tools=event.tools),
            "model": model,
            "messages": event.messages,
            "stop_when": is_step_count(5),
            "abort_signal": event.signal,
            **more,
        }
        return stream_text(**arguments)

    return run


# --- what it gives ---


async def test_the_step_hook_is_always_there_and_nothing_else_is() -> None:
    """F-101."""
    options = await options_of()

    assert list(options) == ["prepare_step"]


async def test_the_stored_prompt_becomes_the_instructions() -> None:
    options = await options_of(lambda: chat.prompt.set("You are helpful."))

    assert options["instructions"] == "You are helpful."


async def test_an_empty_prompt_gives_no_instructions() -> None:
    assert "instructions" not in await options_of(lambda: chat.prompt.set(""))


async def test_the_settings_of_a_prompt_are_arguments() -> None:
    prompt = Prompt(text="Hi.", config={"temperature": 0.2, "max_retries": 0})

    options = await options_of(lambda: chat.prompt.set(prompt))

    assert (options["temperature"], options["max_retries"]) == (0.2, 0)


async def test_a_registry_finds_the_model_that_the_prompt_names() -> None:
    registry = Registry(saying("ok"))

    options = await options_of(lambda: chat.prompt.set(Prompt(text="Hi.", model="house:small")), registry=registry)

    assert options["model"] is registry.model
    assert registry.asked == ["house:small"]


@pytest.mark.parametrize("prompt", [None, "a text", Prompt(text="Hi.")])
async def test_without_a_name_a_registry_is_not_asked(prompt: Prompt | str | None) -> None:
    registry = Registry(saying("ok"))

    options = await options_of(lambda: None if prompt is None else chat.prompt.set(prompt), registry=registry)

    assert "model" not in options
    assert registry.asked == []


async def test_tools_are_passed_through() -> None:
    tools = {"look": look}

    assert (await options_of(tools=tools))["tools"] is tools


async def test_telemetry_is_accepted() -> None:
    assert list(await options_of(telemetry={"user": "u-1"})) == ["prepare_step"]


def test_it_needs_a_run() -> None:
    with pytest.raises(ChatContextError, match=r"^chat\.to_stream_text_options was called outside a run; "):
        chat.to_stream_text_options()


# --- provider options of the instructions ---

EPHEMERAL = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}


def anthropic(value: dict[str, str]) -> dict[str, Any]:
    return {"anthropic": {"cacheControl": value}}


@pytest.mark.parametrize(
    ("stored", "arguments", "expected"),
    [
        pytest.param(None, {}, None, id="PCH-001"),
        pytest.param(None, {"cache_control": EPHEMERAL}, anthropic(EPHEMERAL), id="PCH-002"),
        pytest.param(None, {"system_provider_options": anthropic(LONG)}, anthropic(LONG), id="PCH-003"),
        pytest.param(anthropic(EPHEMERAL), {}, anthropic(EPHEMERAL), id="PCH-004"),
        pytest.param(anthropic(EPHEMERAL), {"cache_control": LONG}, anthropic(LONG), id="PCH-005"),
        pytest.param(
            None,
            {"system_provider_options": {"openai": {"x": 1}}, "cache_control": LONG},
            {"openai": {"x": 1}},
            id="nothing is merged",
        ),
    ],
)
async def test_the_most_particular_provider_options_win(stored: Any, arguments: Any, expected: Any) -> None:
    model = saying("ok")

    def start(event: Any) -> None:
        chat.prompt.set("You are a helpful assistant.", provider_options=stored)

    def run(event: RunEvent[Any]) -> Any:
        return stream_text(**chat.to_stream_text_options(**arguments), model=model, messages=event.messages)

    async with mock_chat_agent(agent_of(run=run, on_chat_start=start)) as harness:
        await harness.send_message("hello")

    assert model.do_stream_calls[0].prompt[0] == SystemMessage(
        "You are a helpful assistant.", provider_options=expected
    )


async def test_setting_a_prompt_again_drops_the_options_of_the_first() -> None:
    """F-102."""

    def prepare() -> None:
        chat.prompt.set("one", provider_options=anthropic(EPHEMERAL))
        chat.prompt.set("two")

    assert (await options_of(prepare))["instructions"] == "two"


async def test_without_instructions_there_is_nothing_to_give_options_to() -> None:
    assert "instructions" not in await options_of(cache_control=EPHEMERAL)


# --- what was injected ---


def texts(model: MockLanguageModel, call: int) -> list[str]:
    return [
        "".join(part.text for part in message.content if isinstance(part, TextPart))
        for message in model.do_stream_calls[call].prompt
        if message.role == "user"
    ]


async def test_what_a_tool_injects_reaches_the_model_at_the_next_step() -> None:
    """N-41 b: the model sees it for the rest of the call; nobody sees it later."""
    model = saying(script.tool_call("remark", {}, tool_call_id="c-1"), script.tool_call("look", {}), "done", "later")

    @tool
    def remark() -> str:
        """Remark."""
        chat.inject([{"role": "user", "content": "by the way"}])
        return "noted"

    async with mock_chat_agent(agent_of(run=with_options(model), tools=[remark, look])) as harness:
        await harness.send_message("hello")
        await harness.send_message("and?")

    assert [texts(model, call) for call in range(4)] == [
        ["hello"],
        ["hello", "by the way"],
        ["hello", "by the way"],
        ["hello", "and?"],
    ]
    assert roles(model.do_stream_calls[1].prompt) == ["user", "assistant", "tool", "user"]
    snapshot = harness.get_snapshot()
    assert snapshot is not None
    assert [message.text for message in snapshot.messages] == ["hello", "done", "and?", "later"]


async def test_what_run_injects_reaches_the_first_step() -> None:
    model = saying("done", "later")

    def run(event: RunEvent[Any]) -> Any:
        if len(event.messages) == 1:
            chat.inject([{"role": "user", "content": "by the way"}])
        return with_options(model)(event)

    async with mock_chat_agent(agent_of(run=run)) as harness:
        await harness.send_message("hello")
        await harness.send_message("and?")

    assert [texts(model, call) for call in range(2)] == [["hello", "by the way"], ["hello", "and?"]]


async def test_what_is_injected_before_run_stays_for_later_turns() -> None:
    """N-41 a."""
    model = saying("done", "later")

    def start(event: Any) -> None:
        if event.turn == 0:
            chat.inject([{"role": "user", "content": "by the way"}])

    async with mock_chat_agent(agent_of(run=with_options(model), on_turn_start=start)) as harness:
        await harness.send_message("hello")
        await harness.send_message("and?")

    assert [texts(model, call) for call in range(2)] == [["hello", "by the way"], ["hello", "by the way", "and?"]]


async def test_without_the_step_hook_it_waits_for_the_next_turn() -> None:
    model = saying("done", "later")

    def run(event: RunEvent[Any]) -> Any:
        if len(event.messages) == 1:
            chat.inject([{"role": "user", "content": "by the way"}])
        return with_options(model, prepare_step=None)(event)

    async with mock_chat_agent(agent_of(run=run)) as harness:
        await harness.send_message("hello")
        await harness.send_message("and?")

    assert [texts(model, call) for call in range(2)] == [["hello"], ["hello", "and?", "by the way"]]


async def test_the_hook_of_one_turn_does_nothing_in_another() -> None:
    """Options that user code keeps must not steer a turn that they know nothing of."""
    model = saying("one", "two")
    options: dict[str, Any] = {}

    def run(event: RunEvent[Any]) -> Any:
        options.update(options or chat.to_stream_text_options())
        if len(event.messages) > 1:
            chat.inject([{"role": "user", "content": "by the way"}])
        return stream_text(**options, model=model, messages=event.messages)

    async with mock_chat_agent(agent_of(run=run)) as harness:
        await harness.send_message("hello")
        await harness.send_message("and?")

    assert texts(model, 1) == ["hello", "and?"]


async def test_options_made_outside_a_turn_serve_every_turn() -> None:
    model = saying("one", "two")
    options: dict[str, Any] = {}

    def run(event: RunEvent[Any]) -> Any:
        chat.inject([{"role": "user", "content": f"remark {len(event.messages)}"}])
        return stream_text(**options, model=model, messages=event.messages)

    def boot(event: Any) -> None:
        options.update(chat.to_stream_text_options())

    agent = agent_of(run=run, on_boot=boot)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")
        await harness.send_message("and?")

    assert [texts(model, call) for call in range(2)] == [["hello", "remark 1"], ["hello", "and?", "remark 3"]]
