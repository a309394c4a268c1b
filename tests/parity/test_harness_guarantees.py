"""Every promise of the harness has a test that names it; those that no other test names are here.

As in `test_completeness`, a test names a promise (`G-1`) in its docstring or in the id of a parameter.
"""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest

from agent.making import agent_of, kept, saying, texts
from chatagent import chat
from chatagent.errors import AgentRunEndedError, HarnessStateError
from chatagent_test import MockLanguageModel, assert_hooks, mock_chat_agent, script, transcript
from support.naming import DOCS, named_by_tests

PAGE = DOCS / "harness.md"
ROW = re.compile(r"^\| \*\*(G-\d+)\*\* \| \S.* \|$", re.MULTILINE)


def nothing(event: Any) -> None:
    """A hook that only leaves its trace."""


# --- nobody forgets one ---


def test_the_page_lists_each_promise_once() -> None:
    assert ROW.findall(PAGE.read_text(encoding="utf-8")) == [f"G-{number}" for number in range(1, 20)]


def test_every_promise_has_a_test() -> None:
    named = named_by_tests("G")

    assert [f"G-{number}" for number in range(1, 20) if f"G-{number}" not in named] == []


# --- the promises ---


@pytest.mark.anyio
async def test_twenty_harnesses_of_two_agents_talk_at_once() -> None:
    """G-2: nothing is global, so none sees anything of another."""
    agents = [agent_of(saying(*(f"{name} {turn}" for turn in range(30))), id=name) for name in ("one", "two")]
    said: dict[int, list[str]] = {}

    async def converse(number: int) -> None:
        async with mock_chat_agent(agents[number % 2], chat_id=f"chat-{number // 2}") as harness:
            for _ in range(3):
                await harness.send_message(f"from {number}")
            said[number] = texts(kept(harness))[::2]

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(converse, number)

    assert said == {number: [f"from {number}"] * 3 for number in range(20)}


@pytest.mark.anyio
async def test_a_send_to_a_run_that_is_over_raises_with_what_ended_it() -> None:
    """G-4: it says what came so far, instead of hanging or of looking like an empty turn."""

    def fail(event: Any) -> None:
        raise LookupError("no shop")

    harness = mock_chat_agent(agent_of(on_boot=fail))
    with pytest.raises(LookupError, match=r"^no shop$"):
        await harness.send_message("one")
    with pytest.raises(AgentRunEndedError) as caught:
        await harness.send_message("two")
    await harness.close(raise_errors=True)

    assert caught.value.__cause__ is harness.run_error
    assert harness.run_ended
    assert str(caught.value).split("\n")[1] == "hooks so far: on_boot (raised)"


@pytest.mark.anyio
async def test_a_suspended_run_resumes_with_the_next_record() -> None:
    """G-7: the record is delivered once, and both hooks are called."""
    agent = agent_of(saying("one", "two"), on_chat_suspend=nothing, on_chat_resume=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("a")
        await harness.advance_to_suspend()
        turn = await harness.send_message("b")
        await harness.wait_idle()

    assert turn.text == "two"
    assert_hooks(harness, [..., "on_chat_suspend", "on_chat_resume", ...])
    assert texts(kept(harness)) == ["a", "one", "b", "two"]


@pytest.mark.anyio
async def test_every_timeout_is_on_a_clock_that_moves_when_nothing_can_go_on() -> None:
    """G-10: what sleeps an hour wakes for a driver; the wait for input ends only when the test says so."""
    agent = agent_of(saying(script.text("slow").pause(3600)), turn_timeout="1h", idle_timeout=30)

    async with mock_chat_agent(agent) as harness:
        began_at = harness.clock.now()
        await harness.send_message("a")
        took = harness.clock.now() - began_at
        await harness.advance_to_suspend()
        suspended_after = harness.clock.now() - began_at
        await harness.expire()
        ended_after = harness.clock.now() - began_at

    assert (took, suspended_after, ended_after) == (3600, 3630, 3630 + 3600)
    assert harness.run_ended


@pytest.mark.anyio
async def test_a_session_outlives_its_runs() -> None:
    """G-11: killed in mid-answer, continued, cancelled, continued: one conversation, and nothing is seeded."""
    model = saying(script.text("half").hold("here"), "whole", "again")

    async with mock_chat_agent(agent_of(model)) as harness:
        pending = harness.begin_message("a")
        await model.reached("here")
        await harness.kill_run()
        with pytest.raises(AgentRunEndedError, match="nobody is left to answer\nhooks so far: run"):
            await pending
        await harness.continue_run()
        await harness.send_message("b")
        await harness.cancel_run()
        await harness.continue_run()
        await harness.send_message("c")

    assert texts(kept(harness)) == ["a", "half", "b", "whole", "c", "again"]
    assert [line for line in transcript(harness).splitlines() if line.startswith("run")] == [
        "run 1 begins: preload",
        "run 1 is killed",
        "run 2 begins: continuation",
        "run 2 ends",
        "run 3 begins: continuation",
        "run 3 ends",
    ]


@pytest.mark.anyio
async def test_a_close_lets_a_hook_finish_and_tells_of_deferred_work_that_it_cuts_off() -> None:
    """G-15."""
    finished: list[str] = []

    async def end_slowly(event: Any) -> None:
        chat.defer(lambda: chat.sleep(3600))
        await chat.sleep(2)
        finished.append("hook")

    harness = mock_chat_agent(agent_of(on_turn_complete=end_slowly), auto_advance=False)
    await harness.send_message("a", until="turn_complete")
    with pytest.warns(ResourceWarning, match=r"^1 of what chat\.defer was given did not end with the run of agent"):
        await harness.close()

    assert finished == ["hook"]
    assert harness.leaked_tasks() == []


@pytest.mark.anyio
async def test_every_hook_call_is_recorded_with_its_time_and_outcome() -> None:
    """G-16: those of the boot in `harness.hooks`, those of a turn in `turn.hooks` too."""

    async def wait(event: Any) -> None:
        await chat.sleep(7)

    def fail(event: Any) -> None:
        raise LookupError("no shop")

    async with mock_chat_agent(agent_of(on_boot=nothing, on_turn_start=wait, prepare_messages=fail)) as harness:
        turn = await harness.send_message("a")
    waited, failed = turn.hooks[:2]

    assert_hooks(harness, [{"name": "on_boot", "turn": None}, *turn.hooks])
    assert waited.ended_at is not None
    assert waited.ended_at - waited.started_at == 7
    assert (failed.name, failed.outcome, failed.error) == ("prepare_messages", "raised", turn.error)


@pytest.mark.anyio
async def test_one_conversation_is_the_same_each_time() -> None:
    """G-19: ids, times and the order of everything, so that two transcripts and two snapshots are equal."""

    async def converse() -> tuple[str, Any]:
        model = MockLanguageModel([script.text("one").pause(3), script.text("two")])
        async with mock_chat_agent(agent_of(model, on_turn_start=nothing)) as harness:
            await harness.send_message("a")
            await harness.send_message("b")
            snapshot = harness.get_snapshot()
            assert snapshot is not None
            return transcript(harness), snapshot.to_wire()

    assert await converse() == await converse()


@pytest.mark.anyio
async def test_a_call_from_the_run_itself_is_refused_instead_of_waiting_for_itself() -> None:
    """G-4: for a driver that a hook calls."""
    refused: list[str] = []

    async def call_back(event: Any) -> None:
        with pytest.raises(HarnessStateError) as caught:
            await harness.send_message("again")
        refused.append(str(caught.value).split(":")[0])

    harness = mock_chat_agent(agent_of(on_turn_start=call_back))
    async with harness:
        await harness.send_message("a")
        await harness.wait_idle()

    assert refused[0] == "send_message"
