"""User code runs with the span of its hook as the current one, and nothing of it is left behind (section 2.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from opentelemetry import trace

from agent.compacting import CALL as CALL_OF_200_TOKENS
from agent.compacting import compacting_agent
from agent.making import agent_of, saying
from agent.steering import CALL, always, steering_agent
from chatagent import chat, tool
from chatagent.tasks import OwnedTask
from chatagent_test import MockLanguageModel, mock_chat_agent, script
from telemetry.recording import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio


def marking(recorded: Recorded, name: str, result: Any = None) -> Callable[..., Any]:
    """A hook that makes a span of the user's, waits in between, and goes on in it."""

    async def hook(event: Any) -> Any:
        with recorded.tracer.start_as_current_span(name):
            await chat.sleep(1)
            with recorded.tracer.start_as_current_span(f"{name}, inner"):
                pass
        return result

    return hook


async def test_spans_of_hooks_nest_below_the_hook() -> None:
    recorded = Recorded()
    agent = agent_of(
        on_boot=marking(recorded, "connect"),
        on_turn_start=marking(recorded, "query"),
        on_chat_suspend=marking(recorded, "disconnect"),
    )

    async with mock_chat_agent(agent, preload=False, telemetry=recorded.telemetry) as harness:
        await harness.send_message("hello")
        await harness.advance(60)

    assert recorded.parent("connect") == "onBoot()"
    assert recorded.parent("query") == "onTurnStart()"
    assert recorded.parent("query, inner") == "query"
    assert recorded.parent("disconnect") == "onChatSuspend()"


async def test_spans_of_sync_hooks_nest_too() -> None:
    recorded = Recorded()

    def hook(event: Any) -> None:
        recorded.tracer.start_span("query").end()

    async with mock_chat_agent(agent_of(on_turn_start=hook), preload=False, telemetry=recorded.telemetry) as harness:
        await harness.send_message("hello")

    assert recorded.parent("query") == "onTurnStart()"


async def test_spans_of_models_and_tools_nest_below_the_stream() -> None:
    recorded = Recorded()

    @tool
    async def look() -> str:
        """Look."""
        with recorded.tracer.start_as_current_span("look it up"):
            await chat.sleep(1)
        return "seen"

    def answer(call: Any) -> Any:
        recorded.tracer.start_span("POST /v1/messages").end()
        return script.tool_call("look", {}) if call.prompt[-1].role == "user" else script.text("I have seen it.")

    async with mock_chat_agent(
        agent_of(MockLanguageModel(answer), tools=[look]), preload=False, telemetry=recorded.telemetry
    ) as harness:
        turn = await harness.send_message("hello")
        assert turn.text == "I have seen it."

    assert recorded.tree() == [
        "chat.boot",
        "chat turn 1",
        "  run()",
        "  stream response",
        "    POST /v1/messages",
        "    look it up",
        "    POST /v1/messages",
        "  snapshot.write",
        "waiting for next message",
    ]


async def test_deferred_work_nests_below_the_hook_that_started_it() -> None:
    recorded = Recorded()

    async def work() -> None:
        await chat.sleep(1)
        recorded.tracer.start_span("send mail").end()

    def start(event: Any) -> None:
        chat.defer(work)

    async with mock_chat_agent(agent_of(on_turn_start=start), preload=False, telemetry=recorded.telemetry) as harness:
        await harness.send_message("hello")

    assert recorded.parent("send mail") == "onTurnStart()"


async def test_a_run_nests_below_the_span_in_which_it_was_started() -> None:
    recorded = Recorded()

    with recorded.tracer.start_as_current_span("POST /chat"):
        async with mock_chat_agent(agent_of(), preload=False, telemetry=recorded.telemetry) as harness:
            await harness.send_message("hello")
        assert trace.get_current_span().is_recording()

    assert recorded.parent("chat turn 1") == "POST /chat"
    assert recorded.parent("waiting for next message") == "POST /chat"


async def test_nothing_is_current_behind_the_work() -> None:
    recorded = Recorded()
    seen: list[trace.Span] = []
    main: list[Any] = []

    async def run_in_this_task() -> None:
        async with mock_chat_agent(agent_of(), telemetry=recorded.telemetry) as harness:
            await harness.send_message("hello")
            await harness.kill_run()
            main.append(harness)
        seen.append(trace.get_current_span())

    await OwnedTask(run_in_this_task, name="a caller").wait()

    assert seen == [trace.INVALID_SPAN]
    assert [name for name in recorded.tree() if not name.startswith(" ")][-1].startswith("waiting")


async def test_two_runs_at_once_keep_their_spans_apart() -> None:
    first, second = Recorded(), Recorded()
    agent = agent_of(saying(script.text("half").hold("a"), "x"), on_turn_start=marking(first, "of the first"))
    other = agent_of(on_turn_start=marking(second, "of the second"))

    async with (
        mock_chat_agent(agent, preload=False, telemetry=first.telemetry) as one,
        mock_chat_agent(other, preload=False, telemetry=second.telemetry) as two,
    ):
        pending = one.begin_message("hello")
        await one.wait_streaming("half")
        await two.send_message("hello")
        await one.send_stop()
        await pending

    assert first.parent("of the first") == "onTurnStart()"
    assert second.parent("of the second") == "onTurnStart()"
    assert first.names.count("chat turn 1") == second.names.count("chat turn 1") == 1


async def test_a_compaction_between_two_steps_lies_in_the_stream() -> None:
    recorded = Recorded()
    agent = compacting_agent(saying(CALL_OF_200_TOKENS, "done"), on_compacted=lambda event: None)

    async with mock_chat_agent(agent, preload=False, telemetry=recorded.telemetry) as harness:
        await harness.send_message("hello")

    tree = recorded.tree()
    begin = tree.index("  stream response")
    assert tree[begin : begin + 5] == [
        "  stream response",
        "    shouldCompact()",
        "    context compaction",
        "      summarize()",
        "      onCompacted()",
    ]
    assert recorded.attributes("context compaction")["chat.compaction.source"] == "inner"


async def test_a_compaction_behind_the_turn_lies_in_the_turn() -> None:
    recorded = Recorded()
    usage = {"inputTokens": {"total": 200}, "outputTokens": {"total": 20}}
    agent = compacting_agent(saying(script.text("long").finish("stop", usage=usage)))

    async with mock_chat_agent(agent, preload=False, telemetry=recorded.telemetry) as harness:
        await harness.send_message("hello")

    assert recorded.parent("context compaction") == "chat turn 1"
    assert recorded.parent("summarize()") == "context compaction"
    assert recorded.attributes("context compaction")["chat.compaction.source"] == "outer"


@pytest.mark.parametrize("is_async", [True, False])
async def test_messages_that_come_meanwhile_belong_to_the_turn(*, is_async: bool) -> None:
    recorded = Recorded()
    model = saying("first", CALL, "done")

    def received_at_once(event: Any) -> None:
        recorded.tracer.start_span("take note").end()

    async def received(event: Any) -> None:
        await anyio.lowlevel.checkpoint()
        received_at_once(event)

    pending: Any = {
        "on_received": received if is_async else received_at_once,
        "should_inject": always,
        "on_injected": marking(recorded, "tell"),
    }
    agent = steering_agent(model, pending)

    async with mock_chat_agent(agent, telemetry=recorded.telemetry) as harness:
        await harness.send_message("so that input is read before the turn begins")
        turn = harness.begin_message("hello")
        await model.reached("held")
        await harness.send_message("one more thing", until="sent")
        await harness.wait_for(lambda _: "take note" in recorded.names)
        model.release("held")
        await turn

    assert recorded.parent("take note") == "onReceived()"
    assert recorded.parent("onReceived()") == "chat turn 2"
    assert recorded.attributes("pending message injected")["chat.injected.messages"] == 1
    assert recorded.parent("onInjected()") == "pending message injected"
    assert recorded.parent("tell") == "onInjected()"
    assert recorded.open == []
