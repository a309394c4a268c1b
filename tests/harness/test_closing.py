"""Closing a harness: at any moment, from anywhere, more than once; nothing is left behind (D6, G-15, X-10, X-11)."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from typing import Any

import anyio
import pytest

from agent.making import agent_of, saying, user
from chatagent import chat, tool
from chatagent.errors import HarnessClosedError, HarnessStateError
from chatagent_test import ChatAgentHarness, mock_chat_agent, script

pytestmark = pytest.mark.anyio


def nothing(event: Any) -> None:
    return None


def tasks_of_runs() -> list[str]:
    """The names of the tasks of ours that are still alive."""
    try:
        names = [task.get_name() for task in asyncio.all_tasks()]
    except RuntimeError:
        import trio.lowlevel

        root: Any = trio.lowlevel.current_root_task()
        names = [task.name for nursery in root.child_nurseries for task in nursery.child_tasks]
    return [name for name in names if any(word in name for word in ("run of agent", "reader of", "timer", "writer"))]


async def test_leaving_the_block_leaves_no_task_behind() -> None:
    before = tasks_of_runs()

    async with mock_chat_agent(agent_of()) as harness:
        await harness.send_message("hello")
        during = tasks_of_runs()

    assert before == []
    assert "the run of agent 'tester'" in during
    assert tasks_of_runs() == []
    assert harness.run_ended


async def test_closing_twice_is_like_once() -> None:
    harness = mock_chat_agent(agent_of())
    await harness.send_message("hello")

    await harness.close()
    await harness.close()
    await harness.close(raise_errors=True)

    assert harness.run_ended
    assert tasks_of_runs() == []


async def test_closing_what_was_never_opened_does_nothing() -> None:
    harness = mock_chat_agent(agent_of(on_boot=nothing))

    await harness.close()
    await harness.close(raise_errors=True)

    assert harness.hooks == []
    assert not harness.run_ended
    assert harness.get_snapshot() is None


async def test_closing_behind_the_end_of_the_run() -> None:
    harness = mock_chat_agent(agent_of(run=lambda event: chat.end_run()))
    await harness.send_message("hello")
    await harness.wait_ended()

    await harness.close(raise_errors=True)

    assert len(harness.turns) == 1


async def test_an_empty_block_calls_nothing() -> None:
    async with mock_chat_agent(agent_of(on_boot=nothing)) as harness:
        pass

    assert tasks_of_runs() == []
    assert harness.run_error is None


async def test_closing_from_another_task_and_from_many_at_once() -> None:
    model = saying(script.text("one").hold("here"))
    harness = mock_chat_agent(agent_of(model))
    harness.begin_message("hello")
    await model.reached("here")

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(harness.close)
        await harness.close()
        assert harness.run_ended

    assert tasks_of_runs() == []
    assert [chunk["type"] for chunk in harness.all_raw_chunks].count("abort") == 1


async def test_closing_during_a_turn_writes_its_abort_and_saves_nothing() -> None:
    model = saying(script.text("one ").hold("here").text("two"))
    agent = agent_of(model, on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        harness.begin_message(user("u-1"))
        await model.reached("here")

    assert harness.all_raw_chunks[-1] == {"type": "abort", "reason": "close"}
    assert [call.name for call in harness.hooks] == ["run"]
    assert harness.get_snapshot() is None
    assert tasks_of_runs() == []


async def test_closing_during_a_tool_call() -> None:
    @tool
    async def slow() -> str:
        """Take an hour."""
        await chat.sleep(3600)
        return "late"

    model = saying(script.tool_call("slow", {}), "never")

    async with mock_chat_agent(agent_of(model, tools=[slow]), auto_advance=False) as harness:
        harness.begin_message("hello")
        await harness.settle()

    assert harness.all_raw_chunks[-1] == {"type": "abort", "reason": "close"}
    assert tasks_of_runs() == []


async def test_closing_during_the_boot() -> None:
    async def slow(event: Any) -> None:
        await chat.sleep(3600)

    harness = mock_chat_agent(agent_of(on_boot=slow), auto_advance=False)
    pending = harness.begin_message("hello")
    await harness.settle()
    await harness.close(raise_errors=True)

    with pytest.raises(HarnessClosedError):
        await pending
    assert [call.outcome for call in harness.hooks] == ["cancelled"]
    assert tasks_of_runs() == []


async def test_closing_during_the_set_up_of_locals() -> None:
    entered = anyio.Event()

    async def setup(values: Any) -> None:
        entered.set()
        await chat.sleep(3600)

    harness = mock_chat_agent(agent_of(on_boot=nothing), setup_locals=setup, auto_advance=False)
    harness.begin_message("hello")
    await entered.wait()
    await harness.close()

    assert harness.hooks == []
    assert tasks_of_runs() == []


async def test_the_run_itself_cannot_close_its_harness() -> None:
    """It would wait for its own end."""

    async def close(event: Any) -> None:
        await harness.close()

    harness = mock_chat_agent(agent_of(saying("ok"), on_chat_start=close))
    async with harness:
        turn = await harness.send_message("hello")
        after = await harness.send_message("again")

    assert isinstance(turn.error, HarnessStateError)
    assert str(turn.error) == (
        "close: the run cannot wait for its own end; call it in the test, or end the run with chat.end_run()"
    )
    assert after.text == "ok"


async def test_a_run_that_is_closed_has_five_seconds_of_its_clock() -> None:
    seen: list[str] = []

    async def within(event: Any) -> None:
        await chat.sleep(4)
        seen.append("within")

    async def beyond(event: Any) -> None:
        try:
            await chat.sleep(6)
        finally:
            seen.append("cut off")

    for hook in (within, beyond):
        async with mock_chat_agent(agent_of(on_turn_start=hook), auto_advance=False) as harness:
            harness.begin_message("hello")
            await harness.settle()

    assert seen == ["within", "cut off"]
    assert tasks_of_runs() == []


async def test_user_code_that_waits_on_something_foreign_is_cancelled_after_a_real_second() -> None:
    foreign = anyio.Event()
    seen: list[str] = []

    async def run(event: Any) -> None:
        try:
            await foreign.wait()
        except BaseException:
            seen.append("cancelled")
            raise

    began = time.monotonic()
    async with mock_chat_agent(agent_of(run=run)) as harness:
        harness.begin_message("hello")
        await harness.wait_for(lambda harness: harness.hooks)

    assert seen == ["cancelled"]
    assert time.monotonic() - began < 3
    assert tasks_of_runs() == []


async def test_user_code_that_refuses_to_be_cancelled_is_named_in_a_warning() -> None:
    free = anyio.Event()

    async def run(event: Any) -> None:
        with anyio.CancelScope(shield=True):
            await free.wait()

    harness = mock_chat_agent(agent_of(run=run), wait_timeout=0.05)
    harness.begin_message("hello")
    await harness.wait_for(lambda harness: harness.hooks)

    with pytest.warns(
        ResourceWarning,
        match=r"^the run of agent 'tester' does not end although it was cancelled; it stands at .*\.py:\d+ in run$",
    ):
        await harness.close()

    free.set()
    while tasks_of_runs():
        await anyio.lowlevel.checkpoint()


async def test_a_block_that_is_cancelled_ends_its_run() -> None:
    harness = mock_chat_agent(agent_of(saying(script.text("one").hang())))

    with anyio.move_on_after(0.05) as limit:
        async with harness:
            await harness.send_message("hello")

    assert limit.cancelled_caught
    assert harness.run_ended
    assert tasks_of_runs() == []


async def test_a_block_that_raises_ends_its_run_and_raises_itself() -> None:
    model = saying(script.text("one").hold("here"))
    harness = mock_chat_agent(agent_of(model))

    async def fail_half_way() -> None:
        async with harness:
            harness.begin_message("hello")
            await model.reached("here")
            raise LookupError("mine")

    with pytest.raises(LookupError, match=r"^mine$"):
        await fail_half_way()

    assert harness.run_ended
    assert tasks_of_runs() == []


async def test_what_was_seen_can_be_read_behind_the_end() -> None:
    async with mock_chat_agent(agent_of(saying("hi"), on_boot=nothing)) as harness:
        turn = await harness.send_message("hello")

    assert turn.text == "hi"
    assert harness.turns[0].text == "hi"
    assert [call.name for call in harness.hooks] == ["on_boot", "run"]
    assert len(harness.all_chunks) == 7
    assert harness.get_snapshot() is not None
    assert harness.run_error is None


def leave_open(backend: str) -> None:
    """Run a loop to its end that leaves a harness open."""
    kept: list[ChatAgentHarness] = []

    async def main() -> None:
        harness = mock_chat_agent(agent_of())
        kept.append(harness)
        await harness.send_message("hello")

    async def close() -> None:
        await kept[0].close()

    anyio.run(main, backend=backend)
    anyio.run(close, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_forgotten_harness_ends_quietly_with_its_loop_and_can_be_closed_in_another(backend: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leave_open(backend)
        gc.collect()


async def test_a_harness_made_in_one_task_may_be_used_and_closed_in_others() -> None:
    """D6: what a pytest-asyncio fixture does."""
    made: list[ChatAgentHarness] = []

    async def enter() -> None:
        made.append(await mock_chat_agent(agent_of(saying("hi"))).__aenter__())

    async def use() -> None:
        turn = await made[0].send_message("hello")
        assert turn.text == "hi"

    async def leave() -> None:
        await made[0].__aexit__(None, None, None)

    for step in (enter, use, leave):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(step)

    assert made[0].run_ended
    assert tasks_of_runs() == []
