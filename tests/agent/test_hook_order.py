"""In which order the hooks of an agent are called, in each situation (chat-agent 2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import ASK_USER, agent_of, assistant, nothing, saying, tool_part, types, user
from chatagent import chat
from chatagent.agent import HOOK_NAMES
from chatagent_test import mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent import ChatAgent
    from chatagent_test import ChatAgentHarness, MockLanguageModel

pytestmark = pytest.mark.anyio

TURN = [
    "on_validate_messages",
    "on_turn_start",
    "prepare_messages",
    "run",
    "on_before_turn_complete",
    "on_turn_complete",
]
"""What a turn calls when the history is the run's own."""
FIRST_TURN = ["on_validate_messages", "on_chat_start", *TURN[1:]]
HYDRATED_TURN = ["on_validate_messages", "hydrate_messages", *TURN[1:]]


def messages_of(event: Any) -> Any:
    return event.messages


def no_tools(event: Any) -> dict[str, Any]:
    return {}


def hooked(model: MockLanguageModel | None = None, **options: Any) -> ChatAgent[Any]:
    """An agent with every hook but `hydrate_messages`."""
    hooks: dict[str, Any] = dict.fromkeys(HOOK_NAMES, nothing)
    del hooks["hydrate_messages"]
    hooks |= {"on_validate_messages": messages_of, "prepare_messages": messages_of, **options}
    return agent_of(model, **hooks)


def hydrating(event: Any) -> list[Any]:
    return [*event.previous_messages, *event.incoming_messages]


def names(harness: ChatAgentHarness) -> list[str]:
    return [call.name for call in harness.hooks]


async def test_a_fresh_chat_that_boots_with_its_first_message() -> None:
    async with mock_chat_agent(hooked(), preload=False) as harness:
        await harness.send_message("hello")

    assert names(harness) == ["on_boot", *FIRST_TURN]


async def test_a_preloaded_chat_calls_on_preload_before_its_first_message_came() -> None:
    async with mock_chat_agent(hooked()) as harness:
        await harness.start()
        before = names(harness)
        turn = await harness.send_message("hello")

    assert before == ["on_boot", "on_preload"]
    assert names(harness) == [*before, *FIRST_TURN]
    assert [call.name for call in turn.hooks] == FIRST_TURN


async def test_hooks_around_an_answer_without_any_other_hook() -> None:
    """MCA-003."""
    called: list[str] = []

    def note(name: str) -> Any:
        def hook(event: Any) -> None:
            called.append(name)

        return hook

    noted = ("on_chat_start", "on_turn_start", "on_before_turn_complete", "on_turn_complete")
    agent = agent_of(run=note("run"), **{name: note(name) for name in noted})

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert called == ["on_chat_start", "on_turn_start", "run", "on_before_turn_complete", "on_turn_complete"]


async def test_a_later_turn_starts_no_chat() -> None:
    async with mock_chat_agent(hooked()) as harness:
        await harness.send_message("one")
        turn = await harness.send_message("two")

    assert [call.name for call in turn.hooks] == TURN


async def test_hydration_stands_behind_validation() -> None:
    async with mock_chat_agent(hooked(hydrate_messages=hydrating), preload=False) as harness:
        first = await harness.send_message("one")
        second = await harness.send_message("two")

    assert [call.name for call in first.hooks] == [*HYDRATED_TURN[:2], "on_chat_start", *HYDRATED_TURN[2:]]
    assert [call.name for call in second.hooks] == HYDRATED_TURN


async def test_hooks_see_the_answer_as_it_comes() -> None:
    """The model is asked behind `run`, the client hears of the end before `on_turn_complete`, the snapshot is last."""
    seen: dict[str, Any] = {}
    model = saying("hi")

    async def look(event: Any) -> None:
        name = type(event).__name__
        seen[name] = (len(model.do_stream_calls), len(harness.all_raw_chunks), harness.get_snapshot())

    hooks = ("on_turn_start", "on_before_turn_complete", "on_turn_complete")
    harness = mock_chat_agent(agent_of(model, **dict.fromkeys(hooks, look)))
    async with harness:
        await harness.send_message("hello")

    assert seen == {
        "TurnStartEvent": (0, 0, None),
        "BeforeTurnCompleteEvent": (1, 7, None),
        "TurnCompleteEvent": (1, 8, None),
    }
    assert harness.get_snapshot() is not None


async def test_a_clean_continuation_neither_preloads_nor_starts_a_chat() -> None:
    async with mock_chat_agent(hooked(), continuation=True, previous_run_id="run_prior") as harness:
        await harness.send_message("hello")

    assert names(harness) == ["on_boot", *TURN]


async def test_a_continuation_after_a_crash_recovers_behind_on_boot() -> None:
    """G-35, D-3: the reference has the two the other way round."""
    harness = mock_chat_agent(hooked(), continuation=True, previous_run_id="run_prior")
    harness.seed_session_out_partial(assistant("a-half", "Half an"))
    harness.seed_session_in_tail([user("u-1"), user("u-2")])

    async with harness:
        await harness.wait_idle()

    assert names(harness) == ["on_boot", "on_recovery_boot", *TURN]


async def test_a_preloaded_retry_with_a_recovered_message_does_not_preload() -> None:
    """B-8, F-25: the reference waited for a message that it had already skipped past."""
    harness = mock_chat_agent(hooked(), task_context={"attempt": {"number": 2}})
    harness.seed_session_in_tail([user("u-1")])

    async with harness:
        await harness.wait_idle()

    assert names(harness) == ["on_boot", *TURN]


async def test_regenerate_validates_nothing() -> None:
    async with mock_chat_agent(hooked(hydrate_messages=hydrating)) as harness:
        await harness.send_message("hello")
        turn = await harness.send_regenerate()

    assert [call.name for call in turn.hooks] == HYDRATED_TURN[1:]
    assert turn.hooks[0].event.incoming_messages == []


async def test_an_action_resolves_tools_hydrates_and_calls_its_handler_alone() -> None:
    async with mock_chat_agent(hooked(hydrate_messages=hydrating, tools=no_tools)) as harness:
        await harness.send_message("hello")
        turn = await harness.send_action({"type": "undo"})

    assert [call.name for call in turn.hooks] == ["tools", "hydrate_messages", "on_action"]
    assert turn.hooks[1].event.trigger == "action"
    assert turn.hooks[1].event.incoming_messages == []


async def test_an_upgrade_that_is_asked_for_in_on_turn_start_stops_behind_it() -> None:
    def upgrade(event: Any) -> None:
        chat.request_upgrade()

    agent = hooked(on_turn_start=upgrade)

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert [call.name for call in turn.hooks] == ["on_validate_messages", "on_chat_start", "on_turn_start"]
    assert types(turn) == ["trigger:upgrade-required"]
    assert harness.upgrade_requested
    assert harness.get_snapshot() is None


async def test_an_idle_run_suspends_and_resumes_between_turns() -> None:
    async with mock_chat_agent(hooked()) as harness:
        await harness.send_message("one")
        warm = len(harness.hooks)
        await harness.advance(30)
        asleep = names(harness)[warm:]
        await harness.send_message("two")

    assert asleep == ["on_chat_suspend"]
    assert names(harness)[warm:] == ["on_chat_suspend", "on_chat_resume", *TURN]
    assert [call.event.phase for call in harness.hooks[warm : warm + 2]] == ["turn", "turn"]


async def test_a_preloaded_run_suspends_and_resumes_before_its_first_turn() -> None:
    async with mock_chat_agent(hooked()) as harness:
        await harness.advance(31)
        await harness.send_message("hello")

    assert names(harness) == ["on_boot", "on_preload", "on_chat_suspend", "on_chat_resume", *FIRST_TURN]
    assert [call.event.phase for call in harness.hooks[2:4]] == ["preload", "preload"]


async def test_a_continuation_suspends_and_resumes_before_its_first_turn() -> None:
    async with mock_chat_agent(hooked(), continuation=True) as harness:
        await harness.advance(31)
        await harness.send_message("hello")

    assert names(harness) == ["on_boot", "on_chat_suspend", "on_chat_resume", *TURN]
    assert [call.event.phase for call in harness.hooks[1:3]] == ["continuation", "continuation"]


async def test_a_message_within_the_idle_time_neither_suspends_nor_resumes() -> None:
    async with mock_chat_agent(hooked()) as harness:
        await harness.send_message("one")
        await harness.advance(29)
        await harness.send_message("two")

    assert "on_chat_suspend" not in names(harness)


async def test_the_function_of_the_tools_is_asked_before_the_messages_are_looked_at() -> None:
    async with mock_chat_agent(hooked(tools=no_tools), preload=False) as harness:
        turn = await harness.send_message("hello")

    assert [call.name for call in turn.hooks] == ["tools", *FIRST_TURN]


async def test_a_turn_with_a_tool_answer_of_the_client_is_like_any_other() -> None:
    model = saying(script.tool_call("ask_user", {}, tool_call_id="tc-1"), "thanks")

    async with mock_chat_agent(hooked(model, tools=ASK_USER)) as harness:
        first = await harness.send_message("hello")
        assert first.message is not None
        answer = assistant(first.message.id, tool_part("tc-1", "output-available", name="ask_user", output="blue"))
        second = await harness.send_message(answer)

    assert [call.name for call in second.hooks] == TURN


@pytest.mark.parametrize(
    ("options", "starts"),
    [
        ({}, 1),
        ({"preload": False}, 1),
        ({"previous_run_id": "run_test_prior"}, 1),
        ({"continuation": True, "previous_run_id": "run_test_prior"}, 0),
        ({"task_context": {"ctx": {"attempt": {"number": 2}}}}, 0),
    ],
    ids=["fresh", "fresh-without-preload", "previous-run-alone", "continuation", "retry"],
)
@pytest.mark.parametrize("hydrate", [{}, {"hydrate_messages": hydrating}], ids=["kept", "hydrated"])
async def test_a_chat_starts_once_and_never_again_in_a_later_run(
    options: dict[str, Any], starts: int, hydrate: dict[str, Any]
) -> None:
    """MCA-039, MCA-040, MCA-041, F-22."""
    async with mock_chat_agent(hooked(**hydrate), **options) as harness:
        await harness.send_message("one")
        await harness.send_message("two")

    assert names(harness).count("on_chat_start") == starts
    assert names(harness).count("on_turn_start") == 2
