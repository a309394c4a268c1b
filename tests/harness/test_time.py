"""Virtual time: what moves it, how far, and what it costs (D5, G-10)."""

from __future__ import annotations

import re
import time
from typing import Any

import anyio
import pytest

from agent.making import agent_of, asking, saying
from chatagent import chat, tool
from chatagent.clock import SystemClock
from chatagent.errors import AgentNotRegisteredError, HarnessStateError, InvalidArgumentError, WaitTimeoutError
from chatagent_test import VirtualClock, mock_chat_agent, script

pytestmark = pytest.mark.anyio

EPOCH = 1735689600.0


def nothing(event: Any) -> None:
    return None


async def test_a_model_that_takes_hours_costs_no_real_time() -> None:
    slow = script.pause(3600).text("one").pause(7200).text(" two").pause(86400)
    began = time.monotonic()

    async with mock_chat_agent(agent_of(saying(slow))) as harness:
        turn = await harness.send_message("hello")

    assert turn.text == "one two"
    assert harness.clock.now() - EPOCH == 3600 + 7200 + 86400
    assert time.monotonic() - began < 5


async def test_tools_hooks_and_deferred_work_sleep_on_the_same_clock() -> None:
    @tool
    async def slow() -> str:
        """Take an hour."""
        await chat.sleep(3600)
        return "done"

    async def hook(event: Any) -> None:
        await chat.sleep(60)

    model = saying(script.tool_call("slow", {}), "ok")
    agent = agent_of(model, tools=[slow], on_turn_start=hook, on_turn_complete=hook)

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert turn.text == "ok"
    assert harness.clock.now() - EPOCH == 3600 + 60 + 60


async def test_parallel_sleeps_pass_together() -> None:
    @tool
    async def slow(minutes: int) -> str:
        """Take a while."""
        await chat.sleep(60 * minutes)
        return "done"

    calls = script.tool_call("slow", {"minutes": 5}).tool_call("slow", {"minutes": 3})

    async with mock_chat_agent(agent_of(saying(calls, "ok"), tools=[slow])) as harness:
        await harness.send_message("hello")

    assert harness.clock.now() - EPOCH == 300


async def test_waiting_for_a_turn_never_ends_a_wait_for_input() -> None:
    """An idle run does not fall asleep because a test looks at it."""
    async with mock_chat_agent(agent_of(on_chat_suspend=nothing)) as harness:
        await harness.send_message("hello")
        await harness.wait_idle()
        await harness.settle()
        await harness.send_message("again")

    assert "on_chat_suspend" not in [call.name for call in harness.hooks]
    assert harness.clock.now() == EPOCH


async def test_advance_walks_from_deadline_to_deadline() -> None:
    seen: list[float] = []

    async def run(event: Any) -> None:
        for _ in range(3):
            await chat.sleep(10)
            seen.append(harness.clock.now() - EPOCH)

    harness = mock_chat_agent(agent_of(run=run), auto_advance=False)
    async with harness:
        pending = harness.begin_message("hello")
        await harness.advance(25)
        early = list(seen)
        await harness.advance(5)
        await pending

    assert early == [10, 20]
    assert seen == [10, 20, 30]


async def test_advance_arrives_where_it_was_sent() -> None:
    async with mock_chat_agent(agent_of()) as harness:
        await harness.start()
        await harness.advance(12.5)
        await harness.advance(0)

        assert harness.clock.now() - EPOCH == 12.5


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "1h"])
async def test_a_time_that_is_none_is_refused(seconds: Any) -> None:
    async with mock_chat_agent(agent_of()) as harness:
        with pytest.raises((InvalidArgumentError, TypeError)):
            await harness.advance(seconds)

        assert harness.clock.now() == EPOCH


async def test_time_stands_still_where_the_test_says_so() -> None:
    """`auto_advance=False`: only `advance` moves it."""
    model = saying(script.pause(60).text("late"))

    async with mock_chat_agent(agent_of(model), auto_advance=False, wait_timeout=0.05) as harness:
        pending = harness.begin_message("hello")
        with pytest.raises(WaitTimeoutError) as caught:
            await pending
        await harness.advance(60)
        turn = await pending

    assert "pending timers: a sleep in 60 s" in str(caught.value)
    assert turn.text == "late"


async def test_time_stands_still_at_a_hold() -> None:
    """A hold is an exact point: nothing else moves on meanwhile."""
    seen: list[str] = []

    async def later() -> None:
        await chat.sleep(1)
        seen.append("later")

    model = saying(script.text("one").hold("here"))
    agent = agent_of(model, on_turn_start=lambda event: chat.defer(later))

    async with mock_chat_agent(agent) as harness:
        pending = harness.begin_message("hello")
        await harness.wait_streaming("one")
        await model.reached("here")
        await harness.settle()
        before = list(seen)
        model.release("here")
        await pending

    assert before == []
    assert seen == ["later"]


async def test_time_does_not_move_while_the_run_works() -> None:
    seen: list[float] = []

    async def run(event: Any) -> None:
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
            seen.append(harness.clock.now())

    async def sleeper() -> None:
        await chat.sleep(3600)

    harness = mock_chat_agent(agent_of(run=run, on_turn_start=lambda event: chat.defer(sleeper)))
    async with harness:
        await harness.send_message("hello")
        await harness.wait_deferred()

    assert set(seen) == {EPOCH}


async def test_user_code_that_waits_on_something_foreign_lets_others_sleep_their_time() -> None:
    """A tool that asks a task of its own: the second rule of the driver."""
    done = anyio.Event()

    async def sleeper() -> None:
        await chat.sleep(3600)
        done.set()

    async def run(event: Any) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sleeper)
            await done.wait()

    async with mock_chat_agent(agent_of(run=run)) as harness:
        await harness.send_message("hello")

    assert harness.clock.now() - EPOCH == 3600


async def test_two_harnesses_may_live_by_one_clock() -> None:
    clock = VirtualClock(start=0.0)

    async with (
        mock_chat_agent(agent_of(saying(script.pause(10).text("one"))), clock=clock) as first,
        mock_chat_agent(agent_of(saying(script.pause(30).text("two"))), clock=clock) as second,
    ):
        one, two = first.begin_message("a"), second.begin_message("b")
        texts = [(await one).text, (await two).text]

    assert texts == ["one", "two"]
    assert clock.now() == 30
    assert first.clock is second.clock is clock


async def test_a_clock_of_the_test_s_own_begins_where_it_likes() -> None:
    async with mock_chat_agent(agent_of(), clock=VirtualClock(start=100.0)) as harness:
        await harness.send_message("hello")

    snapshot = harness.get_snapshot()
    assert snapshot is not None
    assert snapshot.saved_at == 100_000


async def test_the_real_clock_takes_real_time() -> None:
    model = saying(script.pause(0.05).text("late"))

    async with mock_chat_agent(agent_of(model), clock="real") as harness:
        began = time.monotonic()
        turn = await harness.send_message("hello")
        took = time.monotonic() - began

    assert isinstance(harness.clock, SystemClock)
    assert turn.text == "late"
    assert took >= 0.05
    assert harness.run_ended


async def test_the_real_clock_cannot_be_moved() -> None:
    async with mock_chat_agent(agent_of(), clock="real") as harness:
        with pytest.raises(HarnessStateError) as caught:
            await harness.advance(1)

    assert str(caught.value) == "advance: this harness has a clock that cannot be moved; use clock='virtual'"


async def test_leaving_the_block_on_the_real_clock_ends_a_turn_that_streams() -> None:
    model = saying(script.text("one").hold("here"))

    async with mock_chat_agent(agent_of(model), clock="real") as harness:
        harness.begin_message("hello")
        await model.reached("here")

    assert harness.all_raw_chunks[-1] == {"type": "abort", "reason": "close"}


async def test_a_clock_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        mock_chat_agent(agent_of(), clock="sundial")  # type: ignore[arg-type]

    assert str(caught.value) == "`clock` is 'sundial': 'virtual', 'real', or a clock of your own"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"mode": "dance"},
            "`mode` is 'dance': one of preload, submit-message, continuation, handover-prepare",
        ),
        ({"wait_timeout": 0}, "`wait_timeout` is 0: it is more than 0 seconds"),
        ({"wait_timeout": -1}, "`wait_timeout` is -1: it is more than 0 seconds"),
        ({"wait_timeout": float("nan")}, "`wait_timeout` is nan: it is more than 0 seconds"),
    ],
)
async def test_an_option_that_cannot_be_is_refused_by_name(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        mock_chat_agent(agent_of(), **options)

    assert str(caught.value) == text


@pytest.mark.parametrize("agent", ["does-not-exist", None, 7, nothing])
async def test_only_an_agent_can_be_driven(agent: Any) -> None:
    """MCA-001."""
    with pytest.raises(AgentNotRegisteredError, match="no task registered") as caught:
        mock_chat_agent(agent)

    assert str(caught.value).endswith(": give the agent itself, the object that chat.agent(...) returned")
    assert isinstance(caught.value, LookupError)


async def test_an_id_that_no_session_may_have_is_refused_by_the_first_driver() -> None:
    """C-1."""
    harness = mock_chat_agent(agent_of(), chat_id="session_1")

    with pytest.raises(InvalidArgumentError, match="session_1"):
        await harness.start()
    await harness.close()


@pytest.mark.parametrize(
    ("context", "text"),
    [
        ({"galaxy": {}}, "`task_context` is 'galaxy': its sections are task, "),
        ({"attempt": 5}, "`task_context['attempt']` is 5: a mapping of its fields"),
        ({"ctx": 5}, "`task_context` is 5: a mapping of its sections"),
        (5, "`task_context` is 5: a mapping of its sections"),
    ],
)
def test_a_context_that_cannot_be_is_refused_where_the_harness_is_made(context: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^{re.escape(text)}"):
        mock_chat_agent(agent_of(), task_context=context)


async def test_a_turn_of_many_steps_sleeps_in_order() -> None:
    """Whoever wakes first goes first, and a later sleep counts from there."""
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, *pauses: float) -> None:
        for pause in pauses:
            await chat.sleep(pause)
            seen.append((name, harness.clock.now() - EPOCH))

    def start(event: Any) -> Any:
        chat.defer(lambda: sleeper("a", 1, 3))
        chat.defer(lambda: sleeper("b", 2, 1))
        return asking(saying("ok"))(event)

    harness = mock_chat_agent(agent_of(run=start))
    async with harness:
        await harness.send_message("hello")

    assert sorted(seen, key=lambda each: each[1]) == seen
    assert seen == [("a", 1), ("b", 2), ("b", 3), ("a", 4)]
