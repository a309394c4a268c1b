"""Runs that are killed, cancelled or run out of memory leave no span open, and say how it ended (section 2.10)."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace

from agent.making import agent_of, saying
from agent.steering import CALL, always, steering_agent
from chatagent import AbortController
from chatagent.agent import HookCall, RunInfo, RunWork
from chatagent.errors import OutOfMemoryError
from chatagent_test import ChatAgentHarness, MockLanguageModel, VirtualClock, mock_chat_agent, script
from telemetry.recording import Recorded

pytestmark = pytest.mark.anyio


def holding() -> MockLanguageModel:
    return saying(script.text("half").hold("middle").text("more"))


async def answering(harness: ChatAgentHarness, model: MockLanguageModel) -> None:
    harness.begin_message("hello")
    await model.reached("middle")


async def test_a_run_killed_in_mid_stream_ends_its_spans_as_cancelled() -> None:
    recorded, model = Recorded(), holding()

    async with mock_chat_agent(agent_of(model), preload=False, telemetry=recorded.telemetry) as harness:
        await answering(harness, model)
        assert recorded.open == ["chat turn 1", "stream response"]
        await harness.kill_run()

    assert recorded.open == []
    assert recorded.failed == {"chat turn 1": "cancelled", "stream response": "cancelled"}
    assert recorded.attributes("chat turn 1")["error.type"] == "cancelled"
    assert "gen_ai.usage.input_tokens" not in recorded.attributes("chat turn 1")


async def test_a_run_killed_in_a_hook_ends_its_spans_as_cancelled() -> None:
    recorded = Recorded()

    async def wait_for_a_signal_that_never_comes(event: Any) -> None:
        with recorded.tracer.start_as_current_span("query"):
            await event.stop_signal.wait()

    agent = agent_of(run=wait_for_a_signal_that_never_comes)
    async with mock_chat_agent(agent, preload=False, telemetry=recorded.telemetry) as harness:
        harness.begin_message("hello")
        await harness.wait_for(lambda _: "query" in recorded.names)
        await harness.kill_run()

    assert recorded.open == []
    assert recorded.failed["chat turn 1"] == recorded.failed["run()"] == "cancelled"


async def test_a_run_that_is_killed_while_it_waits_ends_the_wait() -> None:
    recorded = Recorded()

    async with mock_chat_agent(agent_of(), telemetry=recorded.telemetry) as harness:
        await harness.start()
        await harness.kill_run()

    assert recorded.open == []
    assert recorded.failed == {"waiting for first message": "cancelled"}


async def test_a_cancelled_run_marks_the_turn_that_it_left() -> None:
    recorded, model = Recorded(), holding()

    async with mock_chat_agent(agent_of(model), preload=False, telemetry=recorded.telemetry) as harness:
        await answering(harness, model)
        await harness.cancel_run()

    assert recorded.open == []
    assert recorded.failed == {"chat turn 1": "cancelled"}


async def test_a_turn_that_runs_out_of_memory_says_so_and_the_next_attempt_is_another_turn() -> None:
    recorded = Recorded()
    attempts: list[Any] = []

    def run(event: Any) -> None:
        attempts.append(event)
        if len(attempts) == 1:
            raise OutOfMemoryError

    agent = agent_of(run=run, oom_machine="large-1x")
    async with mock_chat_agent(agent, preload=False, telemetry=recorded.telemetry) as harness:
        with pytest.raises(OutOfMemoryError):
            await harness.send_message("hello")
        await harness.retry_oom()
        await harness.wait_idle()

    of_turns = [span for span in recorded.spans if span.name == "chat turn 1"]
    assert [(span.attributes or {}).get("error.type") for span in of_turns] == ["OutOfMemoryError", None]
    assert recorded.open == []


async def test_a_callback_that_nobody_could_finish_ends_with_the_run() -> None:
    recorded = Recorded()
    model = saying(CALL, "done")

    async def received(event: Any) -> None:
        await event_that_never_comes.wait()

    event_that_never_comes = AbortController().signal
    agent = steering_agent(model, {"on_received": received, "should_inject": always})

    async with mock_chat_agent(agent, preload=False, telemetry=recorded.telemetry) as harness:
        harness.begin_message("hello")
        await model.reached("held")
        await harness.send_message("one more thing", until="sent")
        await harness.wait_for(lambda _: "onReceived()" in recorded.names)
        await harness.kill_run()

    assert recorded.open == []
    assert recorded.failed["onReceived()"] == "cancelled"


def test_a_call_that_nobody_came_to_await_ends_with_the_run() -> None:
    recorded = Recorded()
    info = RunInfo(agent_id="tester", chat_id="c-1", run_id="run-1", clock=VirtualClock())
    observer = recorded.telemetry.observe(info)

    with observer.during(RunWork()):
        observer.hook_started(HookCall(name="on_received", event=None, turn=0, started_at=0))
        assert recorded.open == ["onReceived()"]

    assert recorded.open == []
    assert recorded.failed == {"onReceived()": "cancelled"}


async def test_the_next_run_on_the_session_has_spans_of_its_own() -> None:
    recorded, model = Recorded(), saying(script.text("half").hold("middle"), "whole")

    async with mock_chat_agent(agent_of(model), preload=False, telemetry=recorded.telemetry) as harness:
        await answering(harness, model)
        await harness.kill_run()
        await harness.continue_run()
        await harness.wait_idle()

    assert recorded.names.count("chat.boot") == 2
    assert all(span.parent is None for span in recorded.spans if span.name.startswith("chat turn"))
    assert recorded.open == []
    assert trace.get_current_span() is trace.INVALID_SPAN
