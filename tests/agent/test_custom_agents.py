"""Custom agents: code of one's own in the place of the turn loop (N-80 to N-83, N-86, C-40 to C-42, X-18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from agent.handing_over import GREETING
from agent.making import TEXT_TURN, agent_of, saying, types, user
from agent.sessions import live_session
from chatagent import chat, stream_text
from chatagent.errors import (
    AgentDefinitionError,
    AgentRunEndedError,
    ChatContextError,
    HarnessStateError,
    InvalidMessageError,
)
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent import ChatAgent
    from chatagent.agent import CustomRunContext, HandoverSignal, StopSignal, TurnCursors, WirePayload

pytestmark = pytest.mark.anyio


def custom(run: Callable[[Any, Any], Any], **options: Any) -> ChatAgent[Any]:
    return chat.custom_agent(id="tester", run=run, **options)


def looping(on_payload: Callable[[WirePayload], Awaitable[Any]], *, idle: float = 30) -> ChatAgent[Any]:
    """A custom agent that gives each payload to a function, the boot payload's message first."""

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        if payload.message is not None:
            await on_payload(payload)
        while (result := await chat.messages.wait_with_idle_timeout(idle)).ok:
            assert result.output is not None
            await on_payload(result.output)

    return custom(run)


def nothing(payload: WirePayload, context: CustomRunContext) -> None:
    return None


async def say(text: str) -> None:
    await chat.pipe_and_capture(stream_text(model=saying(text), prompt="hi"))


async def echo(payload: WirePayload) -> None:
    assert payload.message is not None
    await say(f"ANSWER({payload.message.text})")
    await chat.write_turn_complete()


# --- the agent ---


async def test_its_code_is_given_the_boot_payload_as_it_came() -> None:
    """N-80."""
    seen: list[tuple[WirePayload, CustomRunContext]] = []

    def run(payload: WirePayload, context: CustomRunContext) -> None:
        seen.append((payload, context))

    agent = custom(run, client_data_schema=int)
    async with mock_chat_agent(agent, client_data={"not": "an int"}) as harness:
        await harness.wait_ended()

    ((payload, context),) = seen
    assert (payload.chat_id, payload.trigger, payload.metadata) == ("test-chat", "preload", {"not": "an int"})
    assert context.ctx.run.id == "run_test"
    assert not context.signal.aborted
    assert harness.all_raw_chunks == []
    assert harness.get_snapshot() is None


async def test_a_turn_is_over_when_its_code_says_so() -> None:
    """X-18, N-83."""
    async with mock_chat_agent(looping(echo)) as harness:
        first = await harness.send_message(user("u-1", "m1"))
        second = await harness.send_message("m2")

    assert types(first) == TEXT_TURN
    assert (first.index, first.text) == (0, "ANSWER(m1)")
    assert (second.index, second.text) == (1, "ANSWER(m2)")
    assert [call.name for call in harness.hooks] == ["run"]


async def test_the_first_message_may_come_with_the_boot() -> None:
    """N-80."""
    async with mock_chat_agent(looping(echo), preload=False) as harness:
        first = await harness.send_message("m1")
        second = await harness.send_message("m2")

    assert [first.text, second.text] == ["ANSWER(m1)", "ANSWER(m2)"]


async def test_a_turn_that_its_code_forgets_to_complete_is_told_to_the_test() -> None:
    """X-18."""

    async def forget(payload: WirePayload) -> None:
        await say("answered")

    async with mock_chat_agent(looping(forget)) as harness:
        with pytest.raises(HarnessStateError, match=r"^send_message: the agent's code went on without completing"):
            await harness.send_message("hi")


async def test_code_that_returns_in_a_turn_ends_the_run() -> None:
    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        await chat.messages.once()

    async with mock_chat_agent(custom(run)) as harness:
        with pytest.raises(AgentRunEndedError):
            await harness.send_message("hi")


async def test_what_its_code_raises_ends_the_run() -> None:
    def run(payload: WirePayload, context: CustomRunContext) -> None:
        raise LookupError("gone")

    async with mock_chat_agent(custom(run)) as harness:
        with pytest.raises(LookupError, match=r"^'?gone'?$"):
            await harness.start()


async def test_two_messages_may_be_answered_in_one_turn() -> None:
    """X-18."""

    async def both(payload: WirePayload) -> None:
        await say("and your name?")
        name = await chat.messages.once()
        assert name.output is not None
        assert name.output.message is not None
        await say(f"hello {name.output.message.text}")
        await chat.write_turn_complete()

    async with mock_chat_agent(looping(both)) as harness:
        await harness.send_message("hi", until="sent")
        await harness.settle()
        turn = await harness.send_message("Ada")

    assert turn.text == "and your name?hello Ada"
    assert len(harness.turns) == 1
    assert harness.turns[0].raw_chunks[-1] == {"type": "trigger:turn-complete"}


def test_it_has_no_hooks() -> None:
    """N-80, N-8."""
    agent = custom(nothing)

    with pytest.raises(AgentDefinitionError, match=r"^agent 'tester' is a custom agent, which has no hooks such as"):
        agent.on_boot(print)


def test_its_options_are_checked() -> None:
    wrong: Any = {"machines": "big"}

    with pytest.raises(AgentDefinitionError, match=r"^agent 'tester': there is no option `machines`"):
        custom(nothing, **wrong)
    with pytest.raises(AgentDefinitionError, match=r"^agent 'tester': `run` must be a function"):
        custom(None)  # pyright: ignore[reportArgumentType] - as an untyped caller may
    with pytest.raises(
        AgentDefinitionError, match=r"a function of a payload and its run, not <.*: too many positional"
    ):
        custom(lambda payload: None)  # pyright: ignore[reportArgumentType] - likewise


async def test_a_builders_hooks_are_ignored() -> None:
    """N-8."""
    called: list[str] = []

    def on_boot(event: Any) -> None:
        called.append("on_boot")

    agent = chat.with_client_data(schema=str).on_boot(on_boot).custom_agent(id="custom", run=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.wait_ended()

    assert called == []


async def test_the_input_begins_behind_what_earlier_runs_have_answered() -> None:
    """N-80, N-81, F-10."""
    asked: list[str] = []

    async def answer(payload: WirePayload) -> None:
        assert payload.message is not None
        asked.append(payload.message.text)
        await echo(payload)

    async with live_session() as session:
        session.submit(user("u-1", "one"))
        await session.run(looping(answer))
        session.submit(user("u-2", "two"))
        await session.run(looping(answer))

    assert asked == ["one", "two"]


async def test_a_message_that_was_not_answered_is_given_to_the_next_run() -> None:
    """N-81, G-26."""
    asked: list[str] = []

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        result = await chat.messages.once()
        assert result.output is not None
        assert result.output.message is not None
        asked.append(result.output.message.text)
        if len(asked) > 1:
            await chat.write_turn_complete()

    async with live_session() as session:
        session.submit(user("u-1", "one"))
        await session.run(custom(run))
        await session.run(custom(run))

    assert asked == ["one", "one"]


def test_a_snapshot_that_its_boot_would_not_read_is_refused() -> None:
    """N-80, X-8."""
    harness = mock_chat_agent(custom(nothing), continuation=True)

    with pytest.raises(HarnessStateError, match=r"custom agent has no past$"):
        harness.seed_snapshot({"version": 1, "savedAt": 0, "messages": []})


async def test_a_run_that_is_cancelled_ends_its_waits() -> None:
    """N-80."""
    results: list[Any] = []

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        result = await chat.messages.once()
        assert result.ok
        await context.signal.wait()
        results.append(context.signal.reason)
        results.append((await chat.messages.once()).ok)

    async with mock_chat_agent(custom(run)) as harness:
        await harness.send_message("m1", until="sent")
        await harness.settle()

    assert results == ["close", False]


# --- chat.write_turn_complete ---


async def test_completing_a_turn_tells_both_cursors() -> None:
    """N-83, PAC-001."""
    cursors: list[TurnCursors] = []

    async def answer(payload: WirePayload) -> None:
        await say("hi")
        cursors.append(await chat.write_turn_complete(public_access_token="tok-1"))

    async with mock_chat_agent(looping(answer)) as harness:
        turn = await harness.send_message("hi")

    (told,) = cursors
    assert told.last_event_id == str(harness.out_records[-1].seq)
    assert told.session_in_event_id == "0"
    assert turn.raw_chunks[-1] == {"type": "trigger:turn-complete", "publicAccessToken": "tok-1"}


async def test_each_turn_takes_the_one_before_off_the_log() -> None:
    """N-83, C-15, F-91."""
    async with mock_chat_agent(looping(echo)) as harness:
        await harness.send_message("m1")
        await harness.send_message("m2")
        kept = (await harness.session.out.read()).records

    first_complete = harness.turns[0].raw_chunks[-1]
    assert first_complete["type"] == "trigger:turn-complete"
    assert kept[0].seq == len(TEXT_TURN) - 1


async def test_only_a_custom_agent_completes_its_turns_itself() -> None:
    caught: list[str] = []

    async def run(event: Any) -> None:
        try:
            await chat.write_turn_complete()
        except ChatContextError as exc:
            caught.append(str(exc))

    async with mock_chat_agent(agent_of(run=run)) as harness:
        await harness.send_message("hi")

    assert caught[0].startswith("chat.write_turn_complete was called outside a custom agent")


# --- chat.create_stop_signal ---


async def test_a_stop_reaches_the_signal_of_its_turn_only() -> None:
    """N-82, C-41."""
    stops: list[StopSignal] = []
    model = saying(script.text("one two", chunks=["one ", "two"]).hold("held"), "three")
    statuses: list[str] = []

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        stop = chat.create_stop_signal()
        stops.append(stop)
        while (await chat.messages.wait_with_idle_timeout(30)).ok:
            stop.reset()
            source = stream_text(model=model, prompt="hi", abort_signal=stop.signal)
            statuses.append((await chat.pipe_and_capture(source, abort_signal=stop.signal)).status)
            await chat.write_turn_complete()

    async with mock_chat_agent(custom(run)) as harness:
        pending = harness.begin_message("m1")
        await harness.wait_streaming("one")
        await harness.send_stop("enough")
        await pending
        reason = stops[0].signal.reason
        stops[0].reset()
        await harness.send_stop()
        late = stops[0].signal.aborted
        second = await harness.send_message("m2")

    assert statuses == ["aborted", "complete"]
    assert reason == "enough"
    assert not late
    assert second.text == "three"


async def test_a_stop_that_came_before_the_signal_was_made_counts() -> None:
    """N-82, C-41."""
    aborted: list[bool] = []

    async def answer(payload: WirePayload) -> None:
        await chat.sleep(1)
        stop = chat.create_stop_signal()
        aborted.append(stop.signal.aborted)
        stop.cleanup()
        stop.reset()
        aborted.append(stop.signal.aborted)
        await chat.write_turn_complete()

    async with mock_chat_agent(looping(answer), auto_advance=False) as harness:
        pending = harness.begin_message("hi")
        await harness.settle()
        await harness.send_stop()
        await harness.advance(1)
        turn = await pending

    assert aborted == [True, False]
    assert turn.stopped


async def test_a_signal_that_was_cleaned_up_hears_no_stop() -> None:
    """N-82."""
    stops: list[StopSignal] = []

    async def answer(payload: WirePayload) -> None:
        stop = chat.create_stop_signal()
        stop.cleanup()
        stop.cleanup()
        stops.append(stop)
        await chat.sleep(1)
        await chat.write_turn_complete()

    async with mock_chat_agent(looping(answer), auto_advance=False) as harness:
        pending = harness.begin_message("hi")
        await harness.settle()
        await harness.send_stop()
        await harness.advance(1)
        await pending

    assert not stops[0].signal.aborted


# --- chat.messages ---


async def test_a_close_ends_every_wait() -> None:
    """D-10, G-20, C-40."""
    results: list[Any] = []

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        results.append(await chat.messages.once())
        results.append(await chat.messages.wait())

    async with mock_chat_agent(custom(run)) as harness:
        await harness.start()

    assert [(result.ok, result.output, result.error) for result in results] == [(False, None, None)] * 2


async def test_a_wait_that_nothing_ends_says_so() -> None:
    """C-40, C-38."""
    results: list[Any] = []
    calls: list[str] = []

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        results.append(await chat.messages.once("5s"))
        results.append(await chat.messages.wait_with_idle_timeout(5, "10s", on_suspend=lambda: calls.append("suspend")))
        results.append(await chat.messages.wait_with_idle_timeout(5, skip_suspend=True))

    async with mock_chat_agent(custom(run)) as harness:
        await harness.advance(25)
        await harness.wait_ended()

    assert [result.ok for result in results] == [False] * 3
    assert [type(result.error).__name__ for result in results] == [
        "InputStreamTimeoutError",
        "WaitpointTimeoutError",
        "InputStreamTimeoutError",
    ]
    assert calls == ["suspend"]


async def test_a_suspended_wait_is_ended_by_a_message() -> None:
    """C-38, C-40."""
    calls: list[str] = []

    async def on_resume() -> None:
        calls.append("resume")

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        first = await chat.messages.wait_with_idle_timeout(5, on_resume=on_resume)
        assert first.output is not None
        await echo(first.output)
        second = await chat.messages.wait()
        assert second.output is not None
        await echo(second.output)

    async with mock_chat_agent(custom(run)) as harness:
        await harness.advance(10)
        first = await harness.send_message("m1")
        second = await harness.send_message("m2")

    assert [first.text, second.text] == ["ANSWER(m1)", "ANSWER(m2)"]
    assert calls == ["resume"]


async def test_waiting_leaves_other_records_alone() -> None:
    """C-40, G-27."""
    async with mock_chat_agent(looping(echo)) as harness:
        await harness.start()
        await harness.send_stop()
        await harness.session.in_.append({"kind": "unheard-of"})
        turn = await harness.send_message("m1")

    assert turn.text == "ANSWER(m1)"


async def test_the_next_payload_can_be_looked_at() -> None:
    """C-36, C-40."""
    peeked: list[str | None] = []

    def text() -> str | None:
        payload = chat.messages.peek()
        return None if payload is None or payload.message is None else payload.message.text

    async def look(payload: WirePayload) -> None:
        await chat.sleep(1)
        peeked.append(text())
        await echo(payload)

    async with mock_chat_agent(looping(look), auto_advance=False) as harness:
        first = harness.begin_message("m1")
        await harness.settle()
        second = harness.begin_message("m2")
        await harness.advance(2)
        await first
        await second

    assert peeked == ["m2", None]


async def test_a_handler_takes_messages_that_come_during_a_turn() -> None:
    """C-40, G-26, X-18."""
    waiting: list[WirePayload] = []

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        subscription = None
        while (result := await chat.messages.wait_with_idle_timeout(30)).ok:
            subscription = subscription or chat.messages.on(waiting.append)
            assert result.output is not None
            waiting.clear()
            await chat.sleep(1)
            await echo(result.output)
            while waiting:
                await echo(waiting.pop(0))

    async with mock_chat_agent(custom(run), auto_advance=False) as harness:
        first = harness.begin_message("m1")
        await harness.settle()
        second, third = harness.begin_message("m2"), harness.begin_message("m3")
        await harness.advance(1)
        answers = [(await each).text for each in (first, second, third)]
        cursors = [record.headers for record in harness.out_records if record.headers]

    assert answers == ["ANSWER(m1)", "ANSWER(m2)", "ANSWER(m3)"]
    told = [dict(headers)["session-in-event-id"] for headers in cursors if "session-in-event-id" in dict(headers)]
    assert told == ["0", "1", "2"]


async def test_what_a_handler_ignores_is_dealt_with_once_the_code_waits_again() -> None:
    """C-40, G-26."""

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        first = await chat.messages.once()
        assert first.output is not None
        ignoring = chat.messages.on(lambda ignored: None)
        await chat.sleep(1)
        await echo(first.output)
        ignoring.off()
        third = await chat.messages.once()
        assert third.output is not None
        await echo(third.output)

    async with mock_chat_agent(custom(run), auto_advance=False) as harness:
        first = harness.begin_message("m1")
        await harness.settle()
        second = harness.begin_message("m2")
        await harness.advance(1)
        await first
        with pytest.raises(HarnessStateError, match=r"^begin_message: no turn comes of it"):
            await second
        await harness.send_message("m3", until="turn_complete")
        (cursor,) = [value for name, value in harness.out_records[-1].headers if name == "session-in-event-id"]

    assert cursor == "2"


async def test_a_message_that_a_handler_saw_a_copy_of_makes_one_turn() -> None:
    """C-32, C-40."""
    seen: list[WirePayload] = []

    async def both(payload: WirePayload) -> None:
        copies = chat.messages.on(seen.append)
        more = await chat.messages.once()
        assert more.output is not None
        copies.off()
        await echo(more.output)

    async with mock_chat_agent(looping(both)) as harness:
        await harness.send_message("m1", until="sent")
        await harness.settle()
        turn = await harness.send_message("m2")

    assert [payload.message.text for payload in seen if payload.message is not None] == ["m2"]
    assert turn.text == "ANSWER(m2)"
    assert len(harness.turns) == 1


async def test_a_handler_alone_makes_turns_too() -> None:
    """C-40."""

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        chat.messages.on(echo)
        await context.signal.wait()

    async with mock_chat_agent(custom(run)) as harness:
        await harness.wait_for(lambda it: it.hooks)
        turn = await harness.send_message("m1", until="turn_complete")

    assert turn.text == "ANSWER(m1)"


async def test_a_failing_handler_changes_nothing() -> None:
    """C-40, C-39."""

    def fail(payload: WirePayload) -> None:
        raise RuntimeError("handler")

    async def fail_later(payload: WirePayload) -> None:
        raise RuntimeError("handler")

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        chat.messages.on(fail)
        chat.messages.on(fail_later)
        result = await chat.messages.once()
        assert result.output is not None
        await echo(result.output)

    async with mock_chat_agent(custom(run)) as harness:
        turn = await harness.send_message("m1")

    assert turn.text == "ANSWER(m1)"


async def test_a_payload_that_cannot_be_read_is_answered_with_the_error() -> None:
    """C-40, F-20."""
    async with mock_chat_agent(looping(echo)) as harness:
        await harness.start()
        broken = {"chatId": "test-chat", "trigger": "submit-message", "message": {"id": "u-1", "role": "nobody"}}
        await harness.session.in_.append({"kind": "message", "payload": broken})
        turn = await harness.send_message("m1")
        error = harness.turns[0].error

    assert isinstance(error, InvalidMessageError)
    assert types(harness.turns[0]) == ["error", "trigger:turn-complete"]
    assert turn.text == "ANSWER(m1)"


async def test_a_payload_can_be_sent_from_inside() -> None:
    async def again(payload: WirePayload) -> None:
        assert payload.message is not None
        if payload.message.text == "m1":
            message = {"id": "u-9", "role": "user", "parts": [{"type": "text", "text": "m2"}]}
            await chat.messages.send({"chatId": "test-chat", "trigger": "submit-message", "message": message})
        await echo(payload)

    async with mock_chat_agent(looping(again)) as harness:
        await harness.send_message("m1")
        await harness.wait_for(lambda it: len(it.turns) == 2)

    assert harness.turns[1].text == "ANSWER(m2)"


async def test_a_run_that_is_to_end_waits_no_more() -> None:
    """N-31."""

    async def last(payload: WirePayload) -> None:
        chat.end_run()
        await echo(payload)

    async with mock_chat_agent(looping(last)) as harness:
        await harness.send_message("m1")
        await harness.wait_ended()

    assert harness.run_error is None


async def test_without_a_custom_agent_there_is_no_input_to_take() -> None:
    with pytest.raises(ChatContextError, match=r"^chat\.messages\.once was called outside a run"):
        await chat.messages.once()


# --- chat.wait_for_handover ---


async def wait_for(signals: list[HandoverSignal | None], **options: Any) -> ChatAgent[Any]:
    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        signal = await chat.wait_for_handover(payload=payload, **options)
        signals.append(signal)
        if signal is not None and signal.kind == "handover":
            await chat.write_turn_complete()

    return custom(run)


async def test_a_handover_is_handed_out_as_it_came() -> None:
    """N-86, C-42."""
    signals: list[HandoverSignal | None] = []
    agent = await wait_for(signals)

    async with mock_chat_agent(agent, mode="handover-prepare") as harness:
        turn = await harness.send_handover(partial_assistant_message=GREETING, is_final=True, message_id="a-1")

    (signal,) = signals
    assert signal is not None
    assert (signal.kind, signal.message_id, signal.is_final) == ("handover", "a-1", True)
    assert [message.role for message in signal.messages] == ["assistant"]
    assert types(turn) == ["trigger:turn-complete"]


async def test_a_skip_is_a_signal_too() -> None:
    """N-86."""
    signals: list[HandoverSignal | None] = []
    agent = await wait_for(signals)

    async with mock_chat_agent(agent, mode="handover-prepare") as harness:
        await harness.send_handover_skip()

    (signal,) = signals
    assert signal is not None
    assert signal.kind == "handover-skip"


@pytest.mark.parametrize(("options", "limit"), [({}, 60), ({"idle_timeout": 5}, 5), ({"timeout": 40}, 100)])
async def test_a_signal_that_does_not_come_is_none(options: dict[str, Any], limit: float) -> None:
    """N-86, G-39."""
    signals: list[HandoverSignal | None] = []
    agent = await wait_for(signals, **options)

    async with mock_chat_agent(agent, mode="handover-prepare") as harness:
        await harness.advance(limit - 1)
        early = list(signals)
        await harness.advance(1)

    assert early == []
    assert signals == [None]


async def test_a_run_that_was_booted_in_another_way_waits_for_no_signal() -> None:
    """N-86."""
    signals: list[HandoverSignal | None] = []
    agent = await wait_for(signals)

    async with mock_chat_agent(agent) as harness:
        await harness.wait_ended()

    assert signals == [None]


async def test_a_message_before_the_signal_is_not_lost() -> None:
    """C-42, G-27."""

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        await chat.wait_for_handover(payload=payload)
        await chat.write_turn_complete()
        result = await chat.messages.once()
        assert result.output is not None
        await echo(result.output)

    async with mock_chat_agent(custom(run), mode="handover-prepare") as harness:
        pending = harness.begin_message("m1")
        await harness.settle()
        await harness.send_handover(partial_assistant_message=GREETING, message_id="a-1", until="turn_complete")
        turn = await pending

    assert turn.text == "ANSWER(m1)"


async def test_a_model_that_is_held_can_be_driven_as_ever() -> None:
    """X-18."""
    model = MockLanguageModel(script.text("one two", chunks=["one ", "two"]).hold("held"))

    async def answer(payload: WirePayload) -> None:
        await chat.pipe_and_capture(stream_text(model=model, prompt="hi"))
        await chat.write_turn_complete()

    async with mock_chat_agent(looping(answer)) as harness:
        pending = harness.begin_message("hi")
        await model.reached("held")
        await harness.wait_streaming("two")
        model.release("held")
        turn = await pending

    assert turn.text == "one two"


async def test_a_signal_that_comes_while_a_message_is_waited_for_is_kept() -> None:
    """C-42, G-27: the wait for a message leaves it where it is."""
    signals: list[HandoverSignal | None] = []
    first: list[str] = []

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        result = await chat.messages.once()
        assert result.output is not None
        assert result.output.message is not None
        first.append(result.output.message.text)
        await chat.write_turn_complete()
        signals.append(await chat.wait_for_handover(payload=payload))
        await chat.write_turn_complete()

    async with mock_chat_agent(custom(run), mode="handover-prepare") as harness:
        await harness.start()
        data = {"kind": "handover", "partialAssistantMessage": GREETING, "isFinal": True, "messageId": "a-1"}
        await harness.session.in_.append(data)
        await harness.settle()
        await harness.send_message("m1", until="turn_complete")
        await harness.wait_ended()

    assert first == ["m1"]
    assert [signal and signal.message_id for signal in signals] == ["a-1"]


async def test_a_handler_that_listens_at_once_hears_nothing_that_was_answered() -> None:
    """N-81, F-10: the cursor is set before the code begins, so listening first answers nothing again."""
    heard: list[list[str]] = []

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        texts: list[str] = []
        heard.append(texts)
        came = anyio.Event()

        def hear(more: WirePayload) -> None:
            assert more.message is not None
            texts.append(more.message.text)
            came.set()

        chat.messages.on(hear)
        await came.wait()
        for text in texts:
            await say(text)
            await chat.write_turn_complete()
        await chat.messages.once()

    async with live_session() as session:
        session.submit(user("u-1", "one"))
        await session.run(custom(run))
        session.submit(user("u-2", "two"))
        await session.run(custom(run))

    assert heard == [["one"], ["two"]]
