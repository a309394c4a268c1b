"""Runs that are killed, cancelled and continued on one harness (G-11, D3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from agent.making import agent_of, kept, saying, texts
from chatagent import chat, tool
from chatagent.errors import (
    AgentRunEndedError,
    ClientDataError,
    HarnessClosedError,
    HarnessStateError,
    LeaseLostError,
)
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent_test import ChatAgentHarness

pytestmark = pytest.mark.anyio


def nothing(event: Any) -> None:
    return None


def events(harness: ChatAgentHarness, name: str) -> list[Any]:
    return [call.event for call in harness.hooks if call.name == name]


def holding(*more: str) -> MockLanguageModel:
    """A model that holds in the middle of its first answer."""
    return saying(script.text("half ").hold("middle").text("more"), *more)


async def killed_in_mid_stream(harness: ChatAgentHarness, model: MockLanguageModel, question: str = "one") -> Any:
    """Kill the run of a harness while it answers; returns the pending turn."""
    pending = harness.begin_message(question)
    await model.reached("middle")
    await harness.kill_run()
    return pending


# --- kill_run ---


async def test_a_run_killed_in_mid_stream_leaves_its_records_and_no_turn_complete() -> None:
    model = holding()

    async with mock_chat_agent(agent_of(model, on_turn_complete=nothing)) as harness:
        pending = await killed_in_mid_stream(harness, model)
        with pytest.raises(AgentRunEndedError, match="the run of agent 'tester' has ended"):
            await pending
        written = [chunk["type"] for chunk in harness.all_raw_chunks]

    assert written == ["start", "start-step", "text-start", "text-delta", "text-end"]
    assert harness.get_snapshot() is None
    assert [call.name for call in harness.hooks] == ["run"]
    assert harness.turns == []
    assert harness.run_error is None


async def test_a_half_answer_stands_behind_its_question_once_the_session_is_continued() -> None:
    model = holding("answer")

    async with mock_chat_agent(agent_of(model)) as harness:
        await killed_in_mid_stream(harness, model)
        await harness.continue_run()
        turn = await harness.send_message("two")
        snapshot = harness.get_snapshot()

    assert turn.text == "answer"
    assert snapshot is not None
    assert texts(snapshot.messages) == ["one", "half ", "two", "answer"]


async def test_a_run_killed_between_turns_leaves_what_it_had_stored() -> None:
    async with mock_chat_agent(agent_of(saying("answer", "next"))) as harness:
        await harness.send_message("one")
        before = harness.get_snapshot()
        await harness.kill_run()
        after = harness.get_snapshot()
        await harness.continue_run()
        await harness.send_message("two")
        last = harness.get_snapshot()

    assert before is after
    assert last is not None
    assert texts(last.messages) == ["one", "answer", "two", "next"]
    assert [turn.text for turn in harness.turns] == ["answer", "next"]


async def test_a_suspended_run_can_be_killed() -> None:
    agent = agent_of(saying("answer", "next"), on_chat_suspend=nothing, on_chat_resume=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("one")
        await harness.advance_to_suspend()
        await harness.kill_run()
        await harness.continue_run()
        turn = await harness.send_message("two")

    assert turn.text == "next"
    assert len(events(harness, "on_chat_suspend")) == 1
    assert events(harness, "on_chat_resume") == []


async def test_killing_twice_is_like_once() -> None:
    model = holding()

    async with mock_chat_agent(agent_of(model)) as harness:
        await killed_in_mid_stream(harness, model)
        await harness.kill_run()
        await harness.cancel_run()

        assert harness.run_ended
        assert harness.run_error is None


@pytest.mark.parametrize("name", ["kill_run", "cancel_run", "continue_run", "retry_oom"])
async def test_what_was_not_started_has_no_run_to_end_or_continue(name: str) -> None:
    harness = mock_chat_agent(agent_of())

    with pytest.raises(HarnessStateError, match=rf"^{name}: no run was started"):
        await getattr(harness, name)()
    await harness.close()


@pytest.mark.parametrize("name", ["kill_run", "cancel_run", "continue_run", "retry_oom", "wait_deferred", "expire"])
async def test_a_closed_harness_begins_and_ends_nothing(name: str) -> None:
    harness = mock_chat_agent(agent_of())
    await harness.send_message("one")
    await harness.close()

    with pytest.raises(HarnessClosedError):
        await getattr(harness, name)()


@pytest.mark.parametrize("name", ["kill_run", "cancel_run", "continue_run", "retry_oom"])
async def test_a_run_cannot_do_it_to_itself(name: str) -> None:
    held: list[ChatAgentHarness] = []
    caught: list[HarnessStateError] = []

    async def hook(event: Any) -> None:
        try:
            await getattr(held[0], name)()
        except HarnessStateError as exc:
            caught.append(exc)

    async with mock_chat_agent(agent_of(on_turn_start=hook)) as harness:
        held.append(harness)
        turn = await harness.send_message("one")

    assert turn.text == "ok"
    assert [str(exc) for exc in caught] == [
        f"{name}: a run cannot do this to itself; call it in the test\n"
        "hooks so far: on_turn_start (at work)\n"
        "chunks of the last turn: none"
    ]


async def test_nobody_answers_before_the_session_is_continued() -> None:
    async with mock_chat_agent(agent_of()) as harness:
        await harness.send_message("one")
        await harness.kill_run()
        with pytest.raises(AgentRunEndedError, match="nobody is left to answer"):
            await harness.send_message("two")
        with pytest.raises(AgentRunEndedError):
            harness.begin_message("two")
        with pytest.raises(AgentRunEndedError):
            await harness.send_stop()
        await harness.continue_run()
        turn = await harness.send_message("two")

    assert turn.text == "ok"


async def test_a_send_whose_turn_died_is_told_so_after_the_session_was_continued_too() -> None:
    model = holding("answer")

    async with mock_chat_agent(agent_of(model)) as harness:
        pending = await killed_in_mid_stream(harness, model)
        await harness.continue_run()
        with pytest.raises(AgentRunEndedError, match="the run died while it answered"):
            await pending


async def test_what_a_killed_run_had_not_begun_is_answered_by_the_next() -> None:
    model = holding("answer")

    async with mock_chat_agent(agent_of(model)) as harness:
        first = harness.begin_message("one")
        second = harness.begin_message("two")
        await model.reached("middle")
        await harness.kill_run()
        await harness.continue_run()
        turn = await second
        with pytest.raises(AgentRunEndedError):
            await first

    assert turn.text == "answer"


async def test_a_message_whose_answer_had_no_words_yet_is_answered_by_the_next_run() -> None:
    """The send is bound to its record, whatever run answers it (G-3)."""
    started = anyio.Event()

    async def hang(event: Any) -> None:
        if not started.is_set():
            started.set()
            await anyio.sleep_forever()

    async with mock_chat_agent(agent_of(saying("answer"), on_turn_start=hang)) as harness:
        pending = harness.begin_message("one")
        await started.wait()
        await harness.kill_run()
        await harness.continue_run()
        turn = await pending

    assert turn.text == "answer"


# --- what a dying run still tries ---


async def test_what_a_dying_hook_writes_reaches_nobody() -> None:
    raised: list[BaseException] = []
    started = anyio.Event()

    async def dying(event: Any) -> None:
        try:
            started.set()
            await anyio.sleep_forever()
        finally:
            with pytest.raises(LeaseLostError):
                event.writer.write({"type": "data-late", "data": 1})
            with anyio.CancelScope(shield=True), pytest.raises(LeaseLostError) as caught:
                await chat.stream.append({"type": "data-later", "data": 2})
            raised.append(caught.value)

    async with mock_chat_agent(agent_of(on_turn_start=dying)) as harness:
        harness.begin_message("one")
        await started.wait()
        count = len(harness.out_records)
        await harness.kill_run()
        records = harness.out_records

    assert len(raised) == 1
    assert len(records) == count
    assert harness.get_snapshot() is None
    assert harness.run_error is None


async def test_a_tool_that_goes_on_when_its_run_is_killed_changes_nothing() -> None:
    started, ended = anyio.Event(), anyio.Event()

    @tool
    async def stubborn() -> str:
        """Go on."""
        try:
            started.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True), pytest.raises(LeaseLostError):
                await chat.stream.append({"type": "data-late", "data": 1})
            ended.set()
        return "never"

    model = saying(script.tool_call("stubborn", {}), "never")

    async with mock_chat_agent(agent_of(model, tools=[stubborn])) as harness:
        harness.begin_message("one")
        await started.wait()
        count = len(harness.out_records)
        await harness.kill_run()

        assert ended.is_set()
        assert len(harness.out_records) == count
        assert len(model.do_stream_calls) == 1


async def test_a_run_killed_in_on_turn_complete_saves_no_snapshot() -> None:
    started = anyio.Event()

    async def hang(event: Any) -> None:
        if event.turn == 1:
            started.set()
            await anyio.sleep_forever()

    async with mock_chat_agent(agent_of(saying("answer", "next"), on_turn_complete=hang)) as harness:
        await harness.send_message("one")
        before = harness.get_snapshot()
        harness.begin_message("two")
        await started.wait()
        await harness.kill_run()

        assert harness.get_snapshot() is before


# --- continue_run ---


async def test_a_further_run_boots_as_the_next_message_would_boot_it() -> None:
    agent = agent_of(saying("answer", "next"), on_boot=nothing, on_chat_start=nothing, on_preload=nothing)

    async with mock_chat_agent(agent, client_data={"name": "Ada"}) as harness:
        await harness.send_message("one")
        for _ in range(2):
            await harness.kill_run()
            await harness.continue_run()

    boots = events(harness, "on_boot")
    assert [event.run_id for event in boots] == ["run_test", "run_test_2", "run_test_3"]
    assert [event.previous_run_id for event in boots] == [None, "run_test", "run_test_2"]
    assert [event.continuation for event in boots] == [False, True, True]
    assert [event.preloaded for event in boots] == [True, False, False]
    assert [event.client_data for event in boots] == [{"name": "Ada"}] * 3
    assert [event.ctx.run.epoch for event in boots] == sorted({event.ctx.run.epoch for event in boots})
    assert len(events(harness, "on_chat_start")) == 1
    assert len(events(harness, "on_preload")) == 1


async def test_a_boot_can_be_told_something_else() -> None:
    agent = agent_of(on_boot=nothing)

    async with mock_chat_agent(
        agent, client_data={"name": "Ada"}, task_context={"run": {"tags": ("first",)}, "machine": {"name": "small"}}
    ) as harness:
        await harness.send_message("one")
        await harness.kill_run()
        await harness.continue_run(
            client_data={"name": "Bob"}, previous_run_id="run_elsewhere", task_context={"run": {"id": "run_mine"}}
        )
        await harness.kill_run()
        await harness.continue_run()

    first, second, third = events(harness, "on_boot")
    assert (second.client_data, second.previous_run_id) == ({"name": "Bob"}, "run_elsewhere")
    assert (first.ctx.machine.name, second.ctx.machine.name, second.ctx.run.id) == ("small", "micro", "run_mine")
    assert (third.client_data, third.previous_run_id) == ({"name": "Ada"}, "run_mine")
    assert (third.ctx.machine.name, third.ctx.run.id) == ("small", "run_test_3")


async def test_a_boot_without_client_data() -> None:
    async with mock_chat_agent(agent_of(on_boot=nothing), client_data={"name": "Ada"}) as harness:
        await harness.start()
        await harness.kill_run()
        await harness.continue_run(client_data=None)

    assert [event.client_data for event in events(harness, "on_boot")] == [{"name": "Ada"}, None]


async def test_a_preloaded_continuation_calls_on_preload() -> None:
    agent = agent_of(saying("answer", "next"), on_preload=nothing, on_boot=nothing, on_chat_start=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("one")
        await harness.kill_run()
        await harness.continue_run(preload=True)
        turn = await harness.send_message("two")

    assert turn.text == "next"
    assert len(events(harness, "on_preload")) == 2
    assert [event.preloaded for event in events(harness, "on_boot")] == [True, True]
    assert len(events(harness, "on_chat_start")) == 1


async def test_a_preloaded_continuation_with_something_to_answer_does_not_wait() -> None:
    """B-8."""
    model = holding("answer")

    async with mock_chat_agent(agent_of(model, on_preload=nothing)) as harness:
        harness.begin_message("one")
        second = harness.begin_message("two")
        await model.reached("middle")
        await harness.kill_run()
        await harness.continue_run(preload=True)
        turn = await second

    assert turn.text == "answer"
    assert len(events(harness, "on_preload")) == 1


async def test_a_run_that_is_on_is_not_continued() -> None:
    async with mock_chat_agent(agent_of()) as harness:
        await harness.start()
        with pytest.raises(HarnessStateError, match=r"^continue_run: the run is still on; end it first"):
            await harness.continue_run()
        turn = await harness.send_message("one")

    assert turn.text == "ok"


async def test_a_run_that_ended_by_itself_can_be_continued() -> None:
    async with mock_chat_agent(agent_of(run=lambda event: chat.end_run(), on_boot=nothing)) as harness:
        await harness.send_message("one")
        await harness.wait_ended()
        await harness.continue_run()
        await harness.send_message("two")

    assert len(events(harness, "on_boot")) == 2
    assert len(harness.turns) == 2


async def test_what_ends_a_further_run_while_it_boots_is_raised() -> None:
    async with mock_chat_agent(agent_of(client_data_schema=dict[str, int], on_boot=nothing), client_data={}) as harness:
        await harness.start()
        await harness.kill_run()
        with pytest.raises(ClientDataError):
            await harness.continue_run(client_data={"name": "Ada"})
        await harness.continue_run()
        turn = await harness.send_message("one")

    assert turn.text == "ok"


async def test_the_failure_of_a_run_is_told_before_the_next_begins() -> None:
    def fail(event: Any) -> None:
        if not event.continuation:
            raise ValueError("boom")

    harness = mock_chat_agent(agent_of(on_boot=fail))
    await harness.__aenter__()
    await harness.wait_for(lambda harness: harness.run_ended)

    with pytest.raises(ValueError, match=r"^boom$"):
        await harness.continue_run()
    await harness.continue_run()
    turn = await harness.send_message("one")
    await harness.close(raise_errors=True)

    assert turn.text == "ok"


async def test_a_run_killed_before_it_booted_can_be_continued() -> None:
    async with mock_chat_agent(agent_of()) as harness:
        await harness.kill_run()
        await harness.continue_run()
        turn = await harness.send_message("one")

    assert turn.text == "ok"


async def test_a_run_of_mode_submit_message_waits_for_its_message_once_continued() -> None:
    async with mock_chat_agent(agent_of(saying("answer", "next"), on_boot=nothing), preload=False) as harness:
        await harness.send_message("one")
        await harness.kill_run()
        await harness.continue_run()
        turn = await harness.send_message("two")

    assert turn.text == "next"
    assert [event.continuation for event in events(harness, "on_boot")] == [False, True]


# --- cancel_run ---


async def test_a_cancelled_run_ends_its_stream_and_can_be_continued() -> None:
    """D-13."""
    model = holding("answer")

    async with mock_chat_agent(agent_of(model, on_turn_complete=nothing)) as harness:
        pending = harness.begin_message("one")
        await model.reached("middle")
        began = harness.clock.now()
        await harness.cancel_run()
        took = harness.clock.now() - began
        with pytest.raises(AgentRunEndedError):
            await pending
        last = harness.all_raw_chunks[-1]
        await harness.continue_run()
        turn = await harness.send_message("two")

    assert took == 0
    assert last == {"type": "abort", "reason": "cancelled"}
    assert turn.text == "answer"
    assert len(events(harness, "on_turn_complete")) == 1


async def test_a_tool_that_never_returns_ends_with_the_signal_of_its_run() -> None:
    started = anyio.Event()
    outcomes: list[str] = []

    @tool
    async def endless() -> str:
        """Never return."""
        started.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            outcomes.append("cancelled")
            raise
        return "late"

    model = saying(script.tool_call("endless", {}), "never")

    async with mock_chat_agent(agent_of(model, tools=[endless])) as harness:
        harness.begin_message("one")
        await started.wait()
        began = harness.clock.now()
        await harness.cancel_run()

        assert harness.run_ended
        assert harness.clock.now() == began
        assert outcomes == ["cancelled"]
        assert harness.all_raw_chunks[-1] == {"type": "abort", "reason": "cancelled"}


async def test_what_does_not_look_at_its_signal_is_cancelled_after_five_seconds() -> None:
    """D-13."""
    started = anyio.Event()
    outcomes: list[str] = []

    async def endless(event: Any) -> None:
        started.set()
        try:
            while True:
                await chat.sleep(1)
        except anyio.get_cancelled_exc_class():
            outcomes.append("cancelled")
            raise

    async with mock_chat_agent(agent_of(run=endless), auto_advance=False) as harness:
        harness.begin_message("one")
        await started.wait()
        began = harness.clock.now()
        await harness.cancel_run()

        assert harness.run_ended
        assert harness.clock.now() - began == 5
        assert outcomes == ["cancelled"]


async def test_cancelling_a_run_that_waits_ends_it() -> None:
    async with mock_chat_agent(agent_of(saying("answer", "next"))) as harness:
        await harness.send_message("one")
        await harness.cancel_run()
        await harness.cancel_run()
        ended = harness.run_ended
        await harness.continue_run()
        turn = await harness.send_message("two")

    assert ended
    assert turn.text == "next"


async def test_the_first_message_of_a_lazy_run_that_was_killed_is_answered_by_the_next() -> None:
    model = holding("first", "second")

    async with mock_chat_agent(agent_of(model), preload=False) as harness:
        first = harness.begin_message("one")
        await model.reached("middle")
        second = harness.begin_message("two")
        await harness.kill_run()
        await harness.continue_run()
        one, two = await first, await second

    assert (one.text, two.text) == ("first", "second")
    assert texts(kept(harness)) == ["one", "first", "two", "second"]


async def test_a_message_that_a_lazy_run_has_answered_is_not_brought_again() -> None:
    async with mock_chat_agent(agent_of(), preload=False) as harness:
        await harness.send_message("one")
        await harness.kill_run()
        await harness.continue_run()
        await harness.send_message("two")

    assert texts(kept(harness)) == ["one", "ok", "two", "ok"]
