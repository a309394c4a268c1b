"""Stopping a turn and cancelling a run, at every point (chat-agent 2.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import (
    ASK_USER,
    FAILED_TURN,
    TEXT_TURN,
    agent_of,
    asking,
    assistant,
    ids,
    kept,
    nothing,
    parts_of,
    prompt_of,
    roles,
    saying,
    texts,
    types,
    user,
)
from chatagent import AbortError, ToolError, chat, stream_text, tool
from chatagent.errors import HarnessClosedError
from chatagent.generate import ToolCallOptions  # noqa: TC001 - the tool decorator reads it
from chatagent_test import ChatAgentHarness, ChunkStream, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.agent import TurnCompleteEvent

pytestmark = pytest.mark.anyio


def completes(harness: ChatAgentHarness) -> list[TurnCompleteEvent[Any]]:
    return [call.event for call in harness.hooks if call.name == "on_turn_complete"]


def names(harness: ChatAgentHarness) -> list[str]:
    return [call.name for call in harness.hooks]


HALF = script.text("one ").hold("middle").text("two")


# --- stop ---


async def test_a_stop_in_mid_stream_keeps_what_was_said_and_the_run_goes_on() -> None:
    """2.5, T-70; the partial is cleaned and committed, hooks, turn-complete and snapshot are as ever."""
    model = saying(HALF, "next")
    agent = agent_of(model, on_before_turn_complete=nothing, on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        pending = harness.begin_message(user("u-1"))
        await model.reached("middle")
        await harness.send_stop()
        turn = await pending
        after = await harness.send_message(user("u-2"))

    (event, _) = completes(harness)
    assert turn.stopped
    assert turn.text == "one "
    assert turn.raw_chunks[-2:] == [{"type": "abort", "reason": "stopped"}, {"type": "trigger:turn-complete"}]
    assert turn.message is not None
    assert parts_of(turn.message) == [{"type": "step-start"}, {"type": "text", "text": "one ", "state": "done"}]
    assert [call.name for call in turn.hooks] == ["run", "on_before_turn_complete", "on_turn_complete"]
    assert (event.stopped, event.finish_reason, event.usage, event.error) == (True, None, None, None)
    assert texts(kept(harness)) == ["hello", "one ", "hello", "next"]
    assert not after.stopped
    assert after.raw_chunks[0]["messageId"] != turn.message.id


async def test_the_raw_response_of_a_stopped_turn_is_not_cleaned() -> None:
    """T-41, C-63."""
    calling = script.text("so").tool_call("ask_user", {}, tool_call_id="tc-1").hold("middle")
    model = saying(calling)

    async with mock_chat_agent(agent_of(model, tools=ASK_USER, on_turn_complete=nothing)) as harness:
        pending = harness.begin_message("hello")
        await model.reached("middle")
        await harness.send_stop()
        await pending

    (event,) = completes(harness)
    assert event.response_message is not None
    assert event.raw_response_message is not None
    assert [part.type for part in event.response_message.parts] == ["step-start", "text"]
    assert [part.type for part in event.raw_response_message.parts] == ["step-start", "text", "tool-ask_user"]


async def test_the_reason_of_a_stop_reaches_signal_and_client() -> None:
    seen: list[Any] = []
    model = saying(HALF)

    def run(event: Any) -> Any:
        event.signal.add_callback(lambda: seen.append((event.signal.reason, event.stop_signal.aborted)))
        seen.append(event.cancel_signal)
        return asking(model)(event)

    async with mock_chat_agent(agent_of(run=run)) as harness:
        pending = harness.begin_message("hello")
        await model.reached("middle")
        await harness.send_stop("changed my mind")
        turn = await pending

    cancel, stopped = seen
    assert stopped == ("changed my mind", True)
    assert not cancel.aborted
    assert {"type": "abort", "reason": "changed my mind"} in turn.raw_chunks


async def test_a_stop_before_the_first_chunk_commits_an_empty_answer() -> None:
    model = saying(script.hold("before").text("never"), "next")

    async with mock_chat_agent(agent_of(model)) as harness:
        pending = harness.begin_message("hello")
        await model.reached("before")
        await harness.send_stop()
        turn = await pending
        await harness.send_message("again")

    assert types(turn) == ["start", "abort", "trigger:turn-complete"]
    assert turn.message is not None
    assert turn.message.parts == ()
    assert roles(prompt_of(model, 1)) == ["user", "user"]


async def test_a_stop_during_a_hook_lets_the_hook_finish_and_run_sees_it() -> None:
    model = saying("never")
    seen: list[bool] = []

    async def slow(event: Any) -> None:
        await chat.sleep(10)
        seen.append(chat.is_stopped())

    def run(event: Any) -> Any:
        seen.append(event.signal.aborted)
        return asking(model)(event)

    async with mock_chat_agent(agent_of(run=run, on_turn_start=slow), auto_advance=False) as harness:
        pending = harness.begin_message("hello")
        await harness.settle()
        await harness.send_stop()
        await harness.advance(10)
        turn = await pending

    assert seen == [True, True]
    assert turn.stopped
    assert types(turn) == ["start", "abort", "trigger:turn-complete"]


async def test_an_abort_error_that_run_raises_after_a_stop_is_swallowed() -> None:
    """T-35."""

    async def run(event: Any) -> None:
        await event.signal.wait()
        event.signal.raise_if_aborted()

    async with mock_chat_agent(agent_of(run=run, on_turn_complete=nothing)) as harness:
        pending = harness.begin_message(user("u-1"))
        await harness.settle()
        await harness.send_stop("enough")
        turn = await pending

    assert types(turn) == ["trigger:turn-complete"]
    assert (turn.stopped, turn.error, turn.message) == (True, None, None)
    assert completes(harness)[0].stopped
    assert ids(kept(harness)) == ["u-1"]


async def test_an_abort_error_without_a_stop_is_swallowed_too() -> None:
    """T-73."""

    def run(event: Any) -> None:
        raise AbortError("on my own")

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("hello")

    assert types(turn) == ["trigger:turn-complete"]
    assert (turn.stopped, turn.error) == (False, None)


async def test_any_other_error_because_of_a_stop_fails_the_turn() -> None:
    """T-73."""

    async def run(event: Any) -> None:
        await event.signal.wait()
        raise ValueError("interrupted")

    async with mock_chat_agent(agent_of(run=run)) as harness:
        pending = harness.begin_message("hello")
        await harness.settle()
        await harness.send_stop()
        turn = await pending

    assert types(turn) == FAILED_TURN
    assert turn.stopped


async def test_a_stop_while_a_tool_works_ends_the_turn() -> None:
    entered: list[str] = []

    @tool
    async def search(query: str) -> str:
        """Search for something."""
        entered.append(query)
        await chat.sleep(3600)
        return "late"

    model = saying(script.text("let me see").tool_call("search", {"query": "x"}), "next")

    async with mock_chat_agent(agent_of(model, tools=[search]), auto_advance=False) as harness:
        pending = harness.begin_message("hello")
        await harness.settle()
        await harness.send_stop()
        turn = await pending
        after = await harness.send_message("again")

    assert entered == ["x"]
    assert turn.raw_chunks[-2]["type"] == "abort"
    assert turn.message is not None
    assert [part.type for part in turn.message.parts] == ["step-start", "text"]
    assert after.text == "next"


@pytest.mark.parametrize("answer", ["late", ToolError("stopped")], ids=["returns", "raises"])
async def test_a_tool_that_waits_for_a_stop_says_its_last_words_in_the_turn_that_is_stopped(answer: Any) -> None:
    """C-111."""
    heard: list[object] = []

    @tool
    async def search(options: ToolCallOptions) -> str:
        """Search until stopped."""
        await options.abort_signal.wait()
        heard.append(options.abort_signal.reason)
        chat.response.write({"type": "data-last", "data": len(heard)})
        if isinstance(answer, ToolError):
            raise answer
        return answer

    def before_complete(_event: Any) -> None:
        heard.append("completing")

    model = saying(script.text("let me see").tool_call("search", {}), "next")

    async with mock_chat_agent(agent_of(model, tools=[search], on_before_turn_complete=before_complete)) as harness:
        pending = harness.begin_message("hello")
        await harness.settle()
        await harness.send_stop("enough")
        turn = await pending

    assert heard == ["enough", "completing"]
    assert types(turn)[-4:] == ["tool-input-available", "data-last", "abort", "trigger:turn-complete"]
    assert turn.message is not None
    assert [part.type for part in turn.message.parts] == ["step-start", "text", "data-last"]


async def test_a_stop_in_the_completion_hooks_changes_nothing() -> None:
    """`stopped` was fixed before (T-40)."""

    async def slow(event: Any) -> None:
        await chat.sleep(10)

    agent = agent_of(on_before_turn_complete=slow, on_turn_complete=slow)

    async with mock_chat_agent(agent, auto_advance=False) as harness:
        pending = harness.begin_message("hello")
        await harness.settle()
        await harness.send_stop()
        await harness.advance(10)
        await harness.send_stop()
        await harness.advance(10)
        turn = await pending

    assert types(turn) == TEXT_TURN
    assert not turn.stopped
    assert not completes(harness)[0].stopped


async def test_a_stop_between_turns_changes_nothing() -> None:
    """C-112, C-41, F-62: a stop is never kept for a later turn."""
    async with mock_chat_agent(agent_of(saying("one", "two"))) as harness:
        await harness.send_message("a")
        await harness.send_stop()
        await harness.send_stop("again")
        turn = await harness.send_message("b")

    assert turn.text == "two"
    assert not turn.stopped


@pytest.mark.parametrize("options", [{}, {"continuation": True}, {"mode": "handover-prepare"}], ids=str)
async def test_a_stop_before_the_first_message_is_dropped(options: dict[str, Any]) -> None:
    async with mock_chat_agent(agent_of(saying("hi")), **options) as harness:
        await harness.start()
        await harness.send_stop()
        if options.get("mode"):
            part = {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}
            turn = await harness.send_handover(partial_assistant_message=[part], is_final=True)
        else:
            turn = await harness.send_message("hello")

    assert not turn.stopped
    assert turn.finish_reason == "stop"


async def test_a_stop_twice_is_like_one() -> None:
    model = saying(HALF, "next")

    async with mock_chat_agent(agent_of(model)) as harness:
        pending = harness.begin_message("hello")
        await model.reached("middle")
        await harness.send_stop("first")
        await harness.send_stop("second")
        turn = await pending
        after = await harness.send_message("again")

    assert turn.raw_chunks[-2] == {"type": "abort", "reason": "first"}
    assert after.text == "next"


async def test_what_was_sent_while_the_stopped_turn_was_on_is_answered_next() -> None:
    model = saying(HALF, "next")

    async with mock_chat_agent(agent_of(model)) as harness:
        pending = harness.begin_message("a")
        await model.reached("middle")
        second = harness.begin_message("b")
        await harness.send_stop()
        stopped, answered = await pending, await second

    assert (stopped.stopped, answered.stopped) == (True, False)
    assert answered.text == "next"


async def test_a_stop_may_come_too_late() -> None:
    """T-71."""
    model = saying(script.text("all of it"))

    async with mock_chat_agent(agent_of(model)) as harness:
        turn = await harness.send_message("hello", until="turn_complete")
        await harness.send_stop()

    assert not turn.stopped
    assert turn.text == "all of it"


async def test_a_source_of_the_user_s_that_ignores_the_stop_is_ended_and_the_client_told() -> None:
    closed: list[str] = []

    class Endless:
        def to_ui_message_stream(self, **options: Any) -> Any:
            return self._chunks()

        async def _chunks(self) -> Any:
            try:
                yield {"type": "start", "messageId": "a-1"}
                yield {"type": "text-start", "id": "t"}
                yield {"type": "text-delta", "id": "t", "delta": "on and on"}
                await chat.sleep(3600)
            finally:
                closed.append("closed")

    async with mock_chat_agent(agent_of(run=lambda event: Endless()), auto_advance=False) as harness:
        pending = harness.begin_message("hello")
        await harness.settle()
        await harness.send_stop("enough")
        await harness.advance(4)
        turn = await pending

    assert closed == ["closed"]
    assert types(turn) == ["start", "text-start", "text-delta", "abort", "trigger:turn-complete"]
    assert turn.stopped
    assert turn.message is not None
    assert turn.message.text == "on and on"


async def test_a_stream_that_does_not_know_the_signal_is_ended_by_a_stop_all_the_same() -> None:
    model = saying(HALF, "next")

    def run(event: Any) -> Any:
        return stream_text(model=model, messages=event.messages, max_retries=0)

    async with mock_chat_agent(agent_of(run=run)) as harness:
        pending = harness.begin_message("hello")
        await model.reached("middle")
        await harness.send_stop()
        turn = await pending

    assert turn.text == "one "
    assert turn.stopped
    assert turn.message is not None
    assert turn.message.text == "one "


async def test_is_stopped_is_false_outside_a_turn_and_before_a_stop() -> None:
    seen: list[bool] = []
    agent = agent_of(
        on_boot=lambda event: seen.append(chat.is_stopped()), on_turn_start=lambda event: seen.append(chat.is_stopped())
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert seen == [False, False]


# --- cancel: the harness's `close` aborts the run's signals with reason `close` ---


async def test_a_cancelled_run_writes_its_abort_and_nothing_else() -> None:
    """2.5, T-44, T-72, G-15."""
    model = saying(HALF)
    agent = agent_of(model, on_before_turn_complete=nothing, on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        pending = harness.begin_message("hello")
        await model.reached("middle")

    with pytest.raises(HarnessClosedError, match=r"^begin_message: the harness was closed before it was answered\n"):
        await pending
    assert harness.all_raw_chunks[-1] == {"type": "abort", "reason": "close"}
    assert names(harness) == ["run"]
    assert harness.get_snapshot() is None
    assert harness.run_ended
    assert harness.run_error is None


async def test_a_cancelled_run_lets_a_hook_finish_and_stops_behind_it() -> None:
    """T-44: hooks are not interrupted; `run` is still called, with an aborted signal."""
    seen: list[Any] = []

    async def slow(event: Any) -> None:
        await chat.sleep(3)
        seen.append("finished")

    def run(event: Any) -> None:
        seen.append((event.signal.aborted, event.cancel_signal.reason, event.stop_signal.aborted))

    agent = agent_of(run=run, on_turn_start=slow, on_before_turn_complete=nothing, on_turn_complete=nothing)
    harness = mock_chat_agent(agent, auto_advance=False)
    async with harness:
        harness.begin_message("hello")
        await harness.settle()

    assert seen == ["finished", (True, "close", False)]
    assert names(harness) == ["on_turn_start", "run"]
    assert harness.all_raw_chunks == []
    assert harness.get_snapshot() is None


async def test_a_run_that_is_cancelled_in_its_completion_hooks_completes_the_turn() -> None:
    async def slow(event: Any) -> None:
        await chat.sleep(2)

    agent = agent_of(on_before_turn_complete=slow, on_turn_complete=slow)
    harness = mock_chat_agent(agent, auto_advance=False)
    async with harness:
        harness.begin_message("hello")
        await harness.settle()

    assert [chunk["type"] for chunk in harness.all_raw_chunks] == TEXT_TURN
    assert [call.outcome for call in harness.hooks] == ["returned"] * 3
    assert len(kept(harness)) == 2


async def test_a_cancelled_run_that_raises_an_abort_error_ends_quietly() -> None:
    async def run(event: Any) -> None:
        await event.signal.wait()
        event.signal.raise_if_aborted()

    harness = mock_chat_agent(agent_of(run=run, on_turn_complete=nothing))
    async with harness:
        harness.begin_message("hello")
        await harness.settle()

    assert names(harness) == ["run"]
    assert harness.all_raw_chunks == []
    assert harness.run_error is None


async def test_a_cancelled_run_that_waits_ends() -> None:
    harness = mock_chat_agent(agent_of(on_chat_suspend=nothing))
    async with harness:
        await harness.send_message("hello")
        await harness.advance(60)

    assert harness.run_ended
    assert harness.run_error is None
    assert names(harness) == ["run", "on_chat_suspend"]


async def test_a_cancelled_run_does_not_stop_for_another_message() -> None:
    model = saying(HALF, "never")

    harness = mock_chat_agent(agent_of(model))
    async with harness:
        harness.begin_message("a")
        await model.reached("middle")
        harness.begin_message("b")
        await harness.settle()

    assert len(model.do_stream_calls) == 1


async def test_an_action_that_is_cancelled_ends_without_turn_complete() -> None:
    model = saying(HALF)
    agent = agent_of(
        on_action=lambda event: stream_text(model=model, messages=[{"role": "user", "content": "x"}], max_retries=0)
    )

    harness = mock_chat_agent(agent)
    async with harness:
        await harness.send_action("go", until="sent")
        await model.reached("middle")

    assert "trigger:turn-complete" not in [chunk["type"] for chunk in harness.all_raw_chunks]
    assert harness.run_error is None


async def test_a_stopped_turn_whose_stream_never_says_its_end_keeps_what_was_captured() -> None:
    """G-53: in the reference what was streamed is lost."""

    class Mute:
        """A stream that ends on a stop and does not call `on_end`."""

        def __init__(self, event: Any) -> None:
            self._signal = event.signal

        def to_ui_message_stream(self, **options: Any) -> Any:
            return self._chunks()

        async def _chunks(self) -> Any:
            yield {"type": "start", "messageId": "a-1"}
            yield {"type": "text-start", "id": "t"}
            yield {"type": "text-delta", "id": "t", "delta": "said"}
            await self._signal.wait()

    async with mock_chat_agent(agent_of(run=Mute)) as harness:
        pending = harness.begin_message("hello")
        await harness.settle()
        await harness.send_stop()
        turn = await pending

    assert turn.message == assistant("a-1", {"type": "text", "text": "said", "state": "done"})


async def test_a_stream_that_never_says_its_end_or_usage_holds_a_turn_up_for_seconds_of_the_clock_only() -> None:
    """F-60, F-61, T-36, T-37, G-43."""

    class Mute:
        def to_ui_message_stream(self, **options: Any) -> Any:
            return ChunkStream([{"type": "start"}, {"type": "finish"}]).to_ui_message_stream()

        @property
        def total_usage(self) -> Any:
            return chat.sleep(3600)

    async with mock_chat_agent(agent_of(run=lambda event: Mute(), on_turn_complete=nothing)) as harness:
        began_at = harness.clock.now()
        turn = await harness.send_message("hello")

    assert harness.clock.now() - began_at == 4
    assert turn.message is None
    assert completes(harness)[0].usage is None


async def test_a_stopped_answer_of_a_model_says_its_end_and_usage_at_once() -> None:
    """G-43: the guards of 2 seconds are for streams that do not keep the contract; no time passes."""
    model = saying(HALF)

    async with mock_chat_agent(agent_of(model)) as harness:
        pending = harness.begin_message("hello")
        await model.reached("middle")
        stopped_at = harness.clock.now()
        await harness.send_stop()
        turn = await pending

    assert turn.stopped
    assert turn.text == "one "
    assert harness.clock.now() == stopped_at


async def test_a_call_that_a_stop_cut_off_breaks_no_later_turn() -> None:
    """F-85, C-64: it leaves the stored answer, so the model is never shown a call without an outcome."""
    calling = script.text("Let me ask.").tool_call("ask_user", {"question": "?"}).hold("middle")
    model = saying(calling, "next")

    async with mock_chat_agent(agent_of(model, tools=ASK_USER)) as harness:
        pending = harness.begin_message(user("u-1"))
        await model.reached("middle")
        await harness.send_stop()
        stopped = await pending
        turn = await harness.send_message(user("u-2"))

    assert stopped.stopped
    assert [part["type"] for part in parts_of(stopped.message)] == ["step-start", "text"]
    assert (turn.error, turn.text) == (None, "next")
    assert [part.type for message in model.do_stream_calls[1].prompt for part in message.content] == ["text"] * 3
