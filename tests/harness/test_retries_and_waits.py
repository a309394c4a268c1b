"""Second attempts of runs without memory, deferred work, and time that passes on purpose (C-70, G-11, G-17)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from agent.making import Hook, agent_of, saying
from chatagent import chat
from chatagent.clock import SystemClock
from chatagent.errors import AgentRunEndedError, HarnessStateError, OutOfMemoryError, WaitTimeoutError
from chatagent_test import mock_chat_agent

if TYPE_CHECKING:
    from chatagent_test import ChatAgentHarness

pytestmark = pytest.mark.anyio


def nothing(event: Any) -> None:
    return None


def events(harness: ChatAgentHarness, name: str) -> list[Any]:
    return [call.event for call in harness.hooks if call.name == name]


# --- retry_oom ---


def running_out(times: int = 1) -> Hook:
    """A hook that runs out of memory so many times."""
    left = [None] * times

    def hook(event: Any) -> None:
        if left:
            left.pop()
            raise OutOfMemoryError("no room")

    return hook


async def out_of_memory(harness: ChatAgentHarness) -> None:
    with pytest.raises(OutOfMemoryError):
        await harness.send_message("one")


async def test_a_retry_of_a_run_that_booted_with_its_message_answers_that_message() -> None:
    def load(event: Any) -> None:
        if event.ctx.attempt.number == 1:
            raise OutOfMemoryError("too large")

    agent = agent_of(saying("fine"), on_turn_start=load, oom_machine="large-2x")

    async with mock_chat_agent(agent, mode="submit-message") as harness:
        with pytest.raises(OutOfMemoryError):
            await harness.send_message("hello")
        await harness.retry_oom()
        await harness.wait_idle()
        snapshot = harness.get_snapshot()

    assert snapshot is not None
    assert [message.text for message in snapshot.messages] == ["hello", "fine"]


async def test_a_run_that_ran_out_of_memory_is_tried_again() -> None:
    """C-71."""
    agent = agent_of(
        saying("answer"),
        on_turn_start=running_out(),
        on_boot=nothing,
        on_chat_start=nothing,
        on_preload=nothing,
        oom_machine="large-2x",
    )

    async with mock_chat_agent(agent, client_data=1, task_context={"run": {"tags": ("kept",)}}) as harness:
        await out_of_memory(harness)
        written = harness.all_raw_chunks
        await harness.retry_oom()
        await harness.wait_idle()

    first, second = events(harness, "on_boot")
    assert written == []
    assert [turn.text for turn in harness.turns] == ["answer"]
    assert [event.ctx.attempt.number for event in (first, second)] == [1, 2]
    assert second.ctx.machine.name == "large-2x"
    assert second.ctx.run.id == first.ctx.run.id == "run_test"
    assert second.ctx.run.tags == ("kept",)
    assert (second.continuation, second.previous_run_id, second.client_data) == (False, None, 1)
    assert len(events(harness, "on_chat_start")) == 1
    assert len(events(harness, "on_preload")) == 1


async def test_only_a_run_that_ran_out_of_memory_is_tried_again() -> None:
    async with mock_chat_agent(agent_of(oom_machine="large-2x")) as harness:
        await harness.send_message("one")
        with pytest.raises(HarnessStateError, match=r"^retry_oom: the run has not ended with an OutOfMemoryError"):
            await harness.retry_oom()
        await harness.kill_run()
        with pytest.raises(HarnessStateError, match=r"^retry_oom: the run has not ended with an OutOfMemoryError"):
            await harness.retry_oom()


async def test_without_a_larger_machine_there_is_no_second_attempt() -> None:
    """C-70."""
    async with mock_chat_agent(agent_of(on_turn_start=running_out())) as harness:
        await out_of_memory(harness)
        with pytest.raises(HarnessStateError, match=r"^retry_oom: agent 'tester' has no `oom_machine`"):
            await harness.retry_oom()
        await harness.continue_run()
        await harness.wait_idle()

    assert [turn.text for turn in harness.turns] == ["ok"]


async def test_there_are_two_attempts_and_no_third() -> None:
    """C-70."""
    agent = agent_of(on_turn_start=running_out(2), on_boot=nothing, oom_machine="large-2x")

    async with mock_chat_agent(agent) as harness:
        await out_of_memory(harness)
        await harness.retry_oom()
        with pytest.raises(OutOfMemoryError):
            await harness.wait_ended()
        with pytest.raises(HarnessStateError, match=r"^retry_oom: this was the second attempt"):
            await harness.retry_oom()
        await harness.continue_run()
        await harness.wait_idle()

    boots = events(harness, "on_boot")
    assert [event.ctx.attempt.number for event in boots] == [1, 2, 1]
    assert [event.run_id for event in boots] == ["run_test", "run_test", "run_test_2"]
    assert [turn.text for turn in harness.turns] == ["ok"]


async def test_a_further_run_is_tried_again_with_its_own_boot() -> None:
    agent = agent_of(on_turn_start=running_out(), on_boot=nothing, oom_machine="large-2x")

    async with mock_chat_agent(agent, client_data=1) as harness:
        await harness.start()
        await harness.kill_run()
        await harness.continue_run(client_data=2, task_context={"run": {"tags": ("second",)}})
        await out_of_memory(harness)
        await harness.retry_oom()
        await harness.wait_idle()

    *_, second, third = events(harness, "on_boot")
    assert (third.run_id, third.previous_run_id, third.client_data) == ("run_test_2", "run_test", 2)
    assert (third.continuation, third.ctx.attempt.number, third.ctx.run.tags) == (True, 2, ("second",))
    assert second.ctx.attempt.number == 1


# --- waiting and time ---


async def test_deferred_work_can_be_waited_for() -> None:
    """G-17."""
    done: list[str] = []

    async def work() -> None:
        await chat.sleep(100)
        done.append("work")

    async with mock_chat_agent(agent_of(on_turn_complete=lambda event: chat.defer(work))) as harness:
        await harness.send_message("one")
        before = list(done)
        await harness.wait_deferred()
        after = list(done)

    assert (before, after) == ([], ["work"])


async def test_without_deferred_work_there_is_nothing_to_wait_for() -> None:
    async with mock_chat_agent(agent_of()) as harness:
        await harness.wait_deferred()
        await harness.send_message("one")
        await harness.wait_deferred()
        await harness.kill_run()
        await harness.wait_deferred()


async def test_deferred_work_that_never_ends_is_told() -> None:
    async def work() -> None:
        await anyio.sleep_forever()

    agent = agent_of(on_turn_complete=lambda event: chat.defer(work))

    async with mock_chat_agent(agent, wait_timeout=0.2) as harness:
        await harness.send_message("one")
        with pytest.raises(WaitTimeoutError, match="wait_deferred: deferred work goes on"):
            await harness.wait_deferred()
        await harness.kill_run()


async def test_the_idle_time_passes_up_to_the_moment_at_which_the_run_is_put_away() -> None:
    agent = agent_of(idle_timeout=30, on_chat_suspend=nothing, on_chat_resume=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("one")
        began = harness.clock.now()
        await harness.advance_to_suspend()
        took = harness.clock.now() - began
        await harness.advance_to_suspend()
        again = harness.clock.now() - began
        suspended = len(events(harness, "on_chat_suspend"))
        turn = await harness.send_message("two")

    assert (took, again, suspended) == (30, 30, 1)
    assert turn.text == "ok"
    assert len(events(harness, "on_chat_resume")) == 1


async def test_a_run_that_ends_instead_of_being_put_away() -> None:
    agent = agent_of(exit_after_preload_idle=True, preload_idle_timeout=10)

    async with mock_chat_agent(agent) as harness:
        with pytest.raises(AgentRunEndedError) as caught:
            await harness.advance_to_suspend()

    assert str(caught.value) == (
        "advance_to_suspend: the run has ended instead of being put away\n"
        "hooks so far: none\n"
        "chunks of the last turn: none"
    )


async def test_all_waiting_comes_to_its_end() -> None:
    agent = agent_of(idle_timeout=30, turn_timeout="1h", on_chat_suspend=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("one")
        began = harness.clock.now()
        await harness.expire()
        await harness.expire()

        assert harness.run_ended
        assert harness.clock.now() - began == 30 + 3600
        assert len(events(harness, "on_chat_suspend")) == 1


@pytest.mark.parametrize("name", ["advance_to_suspend", "expire"])
async def test_a_clock_that_cannot_be_moved_lets_no_time_pass(name: str) -> None:
    async with mock_chat_agent(agent_of(), clock=SystemClock()) as harness:
        await harness.send_message("one")
        with pytest.raises(HarnessStateError, match=rf"^{name}: this harness has a clock that cannot be moved"):
            await getattr(harness, name)()


@pytest.mark.parametrize("name", ["advance_to_suspend", "expire", "wait_deferred", "advance", "settle"])
async def test_a_run_cannot_wait_for_itself(name: str) -> None:
    held: list[ChatAgentHarness] = []
    caught: list[HarnessStateError] = []

    async def hook(event: Any) -> None:
        try:
            await getattr(held[0], name)(*([1] if name == "advance" else []))
        except HarnessStateError as exc:
            caught.append(exc)

    async with mock_chat_agent(agent_of(on_turn_start=hook), wait_timeout=2) as harness:
        held.append(harness)
        turn = await harness.send_message("one")

    assert turn.text == "ok"
    assert [str(exc) for exc in caught] == [
        f"{name}: a run cannot do this to itself; call it in the test\n"
        "hooks so far: on_turn_start (at work)\n"
        "chunks of the last turn: none"
    ]
