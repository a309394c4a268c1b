"""Defining agents: options, decorators, builders, and what no agent can be (chat-agent 3.2, 3.3)."""

from __future__ import annotations

import functools
import unittest.mock
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from agent.making import agent_of, asking, nothing, saying, types
from chatagent import ChatAgent, chat, tool
from chatagent.agent import HOOK_NAMES, ChatBuilder
from chatagent.errors import AgentDefinitionError, InvalidArgumentError
from chatagent_test import mock_chat_agent, script

pytestmark = pytest.mark.anyio


class Data(BaseModel):
    user: str


# --- decorators ---


async def test_a_decorated_run_is_the_agent() -> None:
    model = saying("hi")

    @chat.agent(id="support")
    def support(event: Any) -> Any:
        return asking(model)(event)

    async with mock_chat_agent(support) as harness:
        turn = await harness.send_message("hello")

    assert isinstance(support, ChatAgent)
    assert support.id == "support"
    assert repr(support) == "ChatAgent(id='support')"
    assert turn.text == "hi"


async def test_every_hook_has_a_decorator_that_returns_the_function_as_it_was() -> None:
    for name in HOOK_NAMES:
        agent = agent_of()

        def hook(event: Any) -> None:
            return None

        returned = getattr(agent, name)(hook)

        assert returned is hook
        assert agent.hook(name) is hook


async def test_hooks_by_decorator_are_called_like_those_by_argument() -> None:
    order: list[str] = []
    agent = agent_of(on_turn_start=lambda event: order.append("argument"))

    @agent.on_turn_complete
    async def complete(event: Any) -> None:
        order.append("decorator")

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert order == ["argument", "decorator"]


@pytest.mark.parametrize("name", HOOK_NAMES)
def test_a_hook_is_given_once(name: str) -> None:
    agent = agent_of(**{name: nothing})

    with pytest.raises(AgentDefinitionError) as caught:
        getattr(agent, name)(nothing)

    assert str(caught.value) == f"agent 'tester' has `{name}` already: a hook is given once"


def test_run_is_given_once() -> None:
    with pytest.raises(AgentDefinitionError, match=r"^agent 'tester' has a `run` already$"):
        agent_of()(nothing)


async def test_after_its_first_boot_an_agent_is_a_value() -> None:
    agent = agent_of()
    async with mock_chat_agent(agent) as harness:
        await harness.start()

    with pytest.raises(AgentDefinitionError) as hook:
        agent.on_turn_start(nothing)
    with pytest.raises(AgentDefinitionError) as run:
        agent(nothing)

    text = "agent 'tester' was booted already, so {} cannot be added: complete it before its first run"
    assert str(hook.value) == text.format("`on_turn_start`")
    assert str(run.value) == text.format("`run`")


async def test_an_agent_without_run_cannot_be_booted() -> None:
    harness = mock_chat_agent(chat.agent(id="empty"))

    with pytest.raises(AgentDefinitionError) as caught:
        await harness.send_message("hello")
    await harness.close()

    assert str(caught.value) == ("agent 'empty' has no `run`: give it with run=…, or decorate one with the agent")


# --- options ---


@pytest.mark.parametrize("name", [*HOOK_NAMES, "run"])
def test_what_is_no_function_is_no_hook(name: str) -> None:
    given: dict[str, Any] = {name: "not a function"}

    with pytest.raises(AgentDefinitionError) as caught:
        agent_of(**given)

    assert str(caught.value) == f"agent 'tester': `{name}` must be a function of one event, not 'not a function'"


def of_nothing() -> None: ...


def of_two(event: Any, more: Any) -> None: ...


def of_a_keyword(*, event: Any) -> None: ...


@pytest.mark.parametrize("name", [*HOOK_NAMES, "run"])
@pytest.mark.parametrize("wrong", [of_nothing, of_two, of_a_keyword])
def test_a_function_that_takes_no_event_is_no_hook(name: str, wrong: Any) -> None:
    given: dict[str, Any] = {name: wrong}

    with pytest.raises(AgentDefinitionError) as caught:
        agent_of(**given)

    assert str(caught.value).startswith(f"agent 'tester': `{name}` must be a function of one event, not <function ")
    assert "argument" in str(caught.value).rpartition(">: ")[2]


class Hooks:
    def __call__(self, event: Any) -> None: ...

    async def method(self, event: Any, more: int = 1) -> None: ...

    @classmethod
    def of_class(cls, event: Any) -> None: ...

    @staticmethod
    def of_nobody(*events: Any, **more: Any) -> None: ...


CALLABLE: dict[str, Any] = {
    "object": Hooks(),
    "method": Hooks().method,
    "class method": Hooks.of_class,
    "static method": Hooks.of_nobody,
    "partial": functools.partial(Hooks.method, Hooks(), more=2),
    "mock": unittest.mock.Mock(),
    "async mock": unittest.mock.AsyncMock(),
    "built in": print,
    "built-in class": dict,
}


@pytest.mark.parametrize("hook", CALLABLE.values(), ids=CALLABLE)
def test_whatever_can_be_called_with_an_event_is_a_hook(hook: Any) -> None:
    agent = agent_of(on_boot=hook)

    assert agent.hook("on_boot") is hook


def test_what_is_no_function_cannot_be_decorated() -> None:
    with pytest.raises(AgentDefinitionError, match=r"`on_boot` must be a function of one event, not 7$"):
        agent_of().on_boot(7)  # type: ignore[arg-type]
    with pytest.raises(AgentDefinitionError, match=r"`run` must be a function of one event, not 7$"):
        chat.agent(id="x")(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("agent_id", ["", None, 7])
def test_an_agent_has_an_id(agent_id: Any) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        chat.agent(id=agent_id)

    assert str(caught.value) == f"an agent's `id` is a text of at least one character, not {agent_id!r}"


@pytest.mark.parametrize("turns", [0, -1, "3"])
def test_a_run_has_at_least_one_turn(turns: Any) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        agent_of(max_turns=turns)

    assert str(caught.value) == f"agent 'tester': `max_turns` is {turns!r}; a run has at least one turn"


@pytest.mark.parametrize(
    "name", ["turn_timeout", "preload_timeout", "chat_access_token_ttl", "idle_timeout", "preload_idle_timeout"]
)
@pytest.mark.parametrize("value", ["soon", -1, float("nan"), [5]])
def test_a_duration_that_is_none_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        agent_of(**{name: value})

    assert str(caught.value).startswith(f"`{name}` is {value!r}: ")


@pytest.mark.parametrize(
    ("value", "seconds"), [(90, 90.0), (1.5, 1.5), ("1h30m", 5400.0), ("2d", 172800.0), ("1w", 604800.0), ("45s", 45.0)]
)
def test_durations_are_seconds_or_words(value: Any, seconds: float) -> None:
    """C-82."""
    assert agent_of(turn_timeout=value).options.turn_timeout == seconds


def test_options_for_a_platform_are_kept() -> None:
    agent = agent_of(machine="large-2x", queue="chat", max_duration="2h", oom_machine="large-4x")

    assert agent.options.task_options == {"machine": "large-2x", "queue": "chat", "max_duration": "2h"}
    assert agent.options.oom_machine == "large-4x"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("on_trun_start", "agent 'tester': there is no option `on_trun_start`; did you mean `on_turn_start`?"),
        ("max_turn", "agent 'tester': there is no option `max_turn`; did you mean `max_turns`?"),
        ("machines", "agent 'tester': there is no option `machines`; did you mean `machine`?"),
        ("zebra", "agent 'tester': there is no option `zebra`"),
    ],
)
def test_an_option_that_nobody_knows_is_refused(name: str, text: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        agent_of(**{name: nothing})

    assert str(caught.value) == text


@tool
def alone() -> str:
    """Stand alone."""
    return "alone"


def plain(a: int) -> int:
    """Is no tool."""
    return a


NO_TOOL = " among `tools` is no tool with a name; make one with `@tool`, or give tools by name"
TOOLS = "; give a list of tools, tools by name, or a function that returns those of a turn"
OPTIONS = '; give options by name, such as {"send_reasoning": False}'


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tools": 5}, f"`tools` is 5{TOOLS}"),
        ({"tools": "add"}, f"`tools` is 'add'{TOOLS}"),
        ({"tools": alone}, f"`tools` is the tool 'alone'{TOOLS}"),
        ({"tools": [plain]}, f"the function 'plain'{NO_TOOL}"),
        ({"tools": [tool(input_schema={"type": "object"})]}, f"the tool without a name{NO_TOOL}"),
        ({"tools": [alone, alone]}, "two of its tools are named 'alone'; give one of them another `name=`"),
        (
            {"ui_message_stream_options": {"send_source": True}},
            "there is no 'send_source' among `ui_message_stream_options`; did you mean `send_sources`?",
        ),
        ({"ui_message_stream_options": 5}, f"`ui_message_stream_options` is 5{OPTIONS}"),
    ],
    ids=[
        "tools",
        "a-text",
        "one-tool",
        "a-function",
        "a-tool-without-a-name",
        "two-of-a-name",
        "a-stream-option",
        "stream-options",
    ],
)
def test_an_option_of_the_wrong_kind_is_refused(options: Any, text: str) -> None:
    with pytest.raises(AgentDefinitionError) as caught:
        agent_of(**options)

    assert str(caught.value) == f"agent 'tester': {text}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("on_turn_completed", "did you mean `on_turn_complete`?"),
        ("zebra", f"its hooks are {', '.join(HOOK_NAMES)}"),
    ],
)
def test_a_decorator_that_there_is_not_is_named_with_the_one_that_was_meant(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(agent_of(), name)

    assert str(caught.value) == f"an agent has no `{name}`; {hint}"


async def test_two_agents_may_have_the_same_id() -> None:
    """N-4: definitions are values."""
    one, two = agent_of(saying("one")), agent_of(saying("two"))

    async with mock_chat_agent(one) as first, mock_chat_agent(two) as second:
        turns = [await first.send_message("hello"), await second.send_message("hello")]

    assert [turn.text for turn in turns] == ["one", "two"]


# --- builders ---


async def test_a_builder_s_hook_comes_first_and_both_are_awaited() -> None:
    """N-5."""
    order: list[str] = []

    async def first(event: Any) -> None:
        await chat.sleep(1)
        order.append(f"builder {type(event).__name__}")

    async def second(event: Any) -> None:
        await chat.sleep(1)
        order.append("agent")

    builder = chat.with_client_data(schema=Data).on_turn_start(first)
    agent = builder.agent(id="t", run=nothing, on_turn_start=second)

    async with mock_chat_agent(agent, client_data={"user": "ada"}) as harness:
        await harness.send_message("hello")

    assert order == ["builder TurnStartEvent", "agent"]


async def test_a_builder_s_hook_that_fails_keeps_the_other_from_being_called() -> None:
    """N-5."""
    order: list[str] = []

    def fail(event: Any) -> None:
        raise ValueError("builder")

    builder = chat.with_ui_message().on_turn_start(fail)
    agent = builder.agent(id="t", run=nothing, on_turn_start=lambda event: order.append("agent"))

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert str(turn.error) == "builder"
    assert order == []


async def test_every_hook_of_a_builder_is_called() -> None:
    names = [
        "on_boot",
        "on_preload",
        "on_chat_start",
        "on_turn_start",
        "on_before_turn_complete",
        "on_turn_complete",
        "on_chat_suspend",
        "on_chat_resume",
    ]
    order: list[str] = []

    def noting(name: str) -> Any:
        def hook(event: Any) -> None:
            order.append(name)

        return hook

    builder: ChatBuilder[Any] = chat.with_ui_message()
    for name in names:
        builder = getattr(builder, name)(noting(name))

    async with mock_chat_agent(builder.agent(id="t", run=nothing)) as harness:
        await harness.send_message("a")
        await harness.advance(60)
        await harness.send_message("b")

    assert order == [*names, *names[3:6]]


async def test_a_hook_by_decorator_goes_with_that_of_the_builder() -> None:
    """N-5: it is the agent's own, as if it had been given by argument; a second one is refused."""
    order: list[str] = []
    agent = chat.with_ui_message().on_boot(lambda event: order.append("builder")).agent(id="t", run=nothing)

    @agent.on_boot
    def own(event: Any) -> None:
        order.append("agent")

    with pytest.raises(AgentDefinitionError, match=r"^agent 't' has `on_boot` already: a hook is given once$"):
        agent.on_boot(own)
    async with mock_chat_agent(agent) as harness:
        await harness.start()

    assert order == ["builder", "agent"]


async def test_the_last_hook_of_a_name_counts() -> None:
    """N-5."""
    order: list[str] = []
    builder = (
        chat.with_ui_message().on_boot(lambda event: order.append("one")).on_boot(lambda event: order.append("two"))
    )

    async with mock_chat_agent(builder.agent(id="t", run=nothing)) as harness:
        await harness.start()

    assert order == ["two"]


async def test_a_builder_can_be_forked() -> None:
    """N-8."""
    order: list[str] = []
    common = chat.with_client_data(schema=Data)
    one = common.on_boot(lambda event: order.append("one"))
    two = common.on_boot(lambda event: order.append("two"))

    for builder in (common, one, two):
        async with mock_chat_agent(builder.agent(id="t", run=nothing), client_data={"user": "ada"}) as harness:
            await harness.start()

    assert order == ["one", "two"]


async def test_a_builder_s_schema_wins() -> None:
    """N-7."""
    seen: list[Any] = []
    builder = chat.with_client_data(schema=Data)
    agent = builder.agent(id="t", run=lambda event: seen.append(event.client_data), client_data_schema=dict)

    async with mock_chat_agent(agent, client_data={"user": "ada"}) as harness:
        await harness.send_message("hello")

    assert seen == [Data(user="ada")]


async def test_stream_options_are_merged_and_the_agent_s_win() -> None:
    """N-7."""
    model = saying(script.reasoning("hm").source("https://x").text("so"))
    builder = chat.with_ui_message(stream_options={"send_reasoning": False, "send_sources": False})
    agent = builder.agent(id="t", run=asking(model), ui_message_stream_options={"send_sources": True})

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert "reasoning-start" not in types(turn)
    assert "source-url" in types(turn)


def test_some_hooks_exist_as_options_alone() -> None:
    """N-6."""
    builder = chat.with_ui_message()

    missing = [name for name in HOOK_NAMES if not hasattr(builder, name)]

    assert missing == [
        "on_recovery_boot",
        "on_validate_messages",
        "hydrate_messages",
        "on_action",
        "prepare_messages",
    ]


# --- schemas ---


async def test_client_data_reaches_every_hook_as_it_came_without_a_schema() -> None:
    """MCA-017, W-3."""
    data = {"userId": "u1", "role": "admin"}
    seen: list[Any] = []
    agent = agent_of(run=lambda event: seen.append(event.client_data))

    async with mock_chat_agent(agent, client_data=data) as harness:
        await harness.send_message("hello")

    assert seen == [data]


def shouted(value: Any) -> Any:
    return value["user"].upper()


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (Data, Data(user="ada")),
        (TypeAdapter(dict[str, str]), {"user": "ada"}),
        (dict[str, str], {"user": "ada"}),
        (shouted, "ADA"),
        (None, {"user": "ada"}),
    ],
    ids=["model", "adapter", "type", "function", "none"],
)
async def test_a_schema_may_be_a_type_an_adapter_or_a_function(schema: Any, expected: Any) -> None:
    seen: list[Any] = []
    agent = agent_of(client_data_schema=schema, run=lambda event: seen.append(event.client_data))

    async with mock_chat_agent(agent, client_data={"user": "ada"}) as harness:
        await harness.send_message("hello")

    assert seen == [expected]
