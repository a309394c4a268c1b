"""`chat.create_session`: a custom agent's turns as an async iterator (N-87)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.handing_over import CALLED, CALLING, GREETING, weather
from agent.making import TEXT_TURN, ids, roles, saying, texts, tool_part, types, user
from chatagent import chat, is_step_count, stream_text, tool
from chatagent.errors import HarnessStateError, InvalidArgumentError, InvalidMessageError
from chatagent.ui import ToolUIPart
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from chatagent import ChatAgent
    from chatagent.agent import ChatTurn, CustomRunContext, WirePayload
    from chatagent.model import ModelMessage

pytestmark = pytest.mark.anyio


def always(event: Any) -> bool:
    return True


def behind_a_turn(event: Any) -> bool:
    return event.source == "outer"


def short(event: Any) -> str:
    return "short"


def session_agent(
    on_turn: Callable[[ChatTurn], Awaitable[Any]], seen: list[ChatTurn] | None = None, **options: Any
) -> ChatAgent[Any]:
    """A custom agent that gives each turn of its session to a function."""

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        async for turn in chat.create_session(payload, abort_signal=context.signal, **options):
            if seen is not None:
                seen.append(turn)
            await on_turn(turn)

    return chat.custom_agent(id="session", run=run)


def answering(model: MockLanguageModel, **arguments: Any) -> Callable[[ChatTurn], Awaitable[Any]]:
    """What completes a turn with the model's answer."""

    async def on_turn(turn: ChatTurn) -> None:
        await turn.complete(
            stream_text(
                model=model,
                messages=turn.messages,
                tools=[weather],
                stop_when=is_step_count(5),
                abort_signal=turn.signal,
                prepare_step=turn.prepare_step(),
                max_retries=0,
                **arguments,
            )
        )

    return on_turn


def echoing(**options: Any) -> MockLanguageModel:
    """A model that says `ANSWER(…)` to the last text of the user."""

    def answer(call: Any) -> Any:
        last = [message for message in call.prompt if message.role == "user"][-1]
        return script.pause(0.1).text(f"ANSWER({last.content[-1].text})")

    return MockLanguageModel(answer)


async def test_each_message_is_a_turn_that_knows_the_conversation() -> None:
    seen: list[ChatTurn] = []
    asked: list[list[ModelMessage]] = []
    model = saying("one", "two")
    answer = answering(model)

    async def on_turn(turn: ChatTurn) -> None:
        asked.append(turn.messages)
        await answer(turn)

    async with mock_chat_agent(session_agent(on_turn, seen), client_data={"plan": "free"}) as harness:
        first = await harness.send_message(user("u-1", "hi"))
        second = await harness.send_message(user("u-2", "and again"))

    assert [turn.number for turn in seen] == [0, 1]
    assert [len(messages) for messages in asked] == [1, 3]
    assert texts(seen[1].ui_messages) == ["hi", "one", "and again", "two"]
    assert seen[0].client_data == {"plan": "free"}
    assert (seen[0].trigger, seen[0].chat_id) == ("submit-message", "test-chat")
    assert types(first) == TEXT_TURN
    assert (second.index, second.text, second.finish_reason) == (1, "two", "stop")
    assert second.message == seen[1].ui_messages[-1]
    assert seen[1].previous_turn_usage is not None
    assert harness.get_snapshot() is None


async def test_messages_that_come_during_a_turn_are_answered_in_order() -> None:
    """PMD-003, N-87."""
    async with mock_chat_agent(session_agent(answering(echoing()))) as harness:
        first = harness.begin_message("m1")
        await harness.wait_for(lambda it: bool(it.all_chunks))
        second, third = harness.begin_message("m2"), harness.begin_message("m3")
        answers = [(await each).text for each in (first, second, third)]

    assert answers == ["ANSWER(m1)", "ANSWER(m2)", "ANSWER(m3)"]
    assert len(harness.turns) == 3


async def test_a_message_right_behind_a_stop_is_answered() -> None:
    """PMD-004, N-87, F-11."""
    model = saying(script.text("one two", chunks=["one ", "two"]).hold("held"), "ANSWER(m2)")
    seen: list[ChatTurn] = []

    async with mock_chat_agent(session_agent(answering(model), seen, pending_messages={})) as harness:
        first = harness.begin_message("m1")
        await harness.wait_streaming("one")
        await harness.send_stop()
        second = await harness.send_message("m2")
        stopped = await first

    assert stopped.stopped
    assert seen[0].stopped
    assert second.text == "ANSWER(m2)"
    assert len(harness.turns) == 2


async def test_a_whole_answer_that_was_handed_over_needs_no_source() -> None:
    """HNB-007, N-87."""
    seen: list[ChatTurn] = []
    responses: list[Any] = []

    async def on_turn(turn: ChatTurn) -> None:
        responses.append(await turn.complete())

    async with mock_chat_agent(session_agent(on_turn, seen), mode="handover-prepare") as harness:
        turn = await harness.send_handover(partial_assistant_message=GREETING, is_final=True, message_id="asst-msg-1")

    assert seen[0].handover is not None
    assert seen[0].handover.is_final
    assert ids(seen[0].ui_messages) == ["asst-msg-1"]
    assert responses == seen[0].ui_messages
    assert types(turn) == ["trigger:turn-complete"]
    assert turn.message == responses[0]


async def test_a_first_step_that_was_handed_over_goes_on() -> None:
    """HNB-008, N-87."""
    CALLED.clear()
    seen: list[ChatTurn] = []
    agent = session_agent(answering(saying("It is sunny.")), seen)

    async with mock_chat_agent(agent, mode="handover-prepare") as harness:
        turn = await harness.send_handover(partial_assistant_message=CALLING, message_id="asst-msg-2")

    assert CALLED == ["tokyo"]
    assert seen[0].handover is not None
    assert not seen[0].handover.is_final
    (answer,) = seen[0].ui_messages
    assert answer.id == "asst-msg-2"
    assert turn.text == "It is sunny."


async def test_the_history_of_a_head_start_stands_before_it() -> None:
    """N-87, B-5."""
    seen: list[ChatTurn] = []

    async def on_turn(turn: ChatTurn) -> None:
        await turn.complete()

    agent = session_agent(on_turn, seen)
    async with mock_chat_agent(agent, mode="handover-prepare", head_start_messages=[user("u-1")]) as harness:
        await harness.send_handover(partial_assistant_message=GREETING, is_final=True, message_id="a-1")

    assert ids(seen[0].ui_messages) == ["u-1", "a-1"]


async def test_a_head_start_that_gives_up_makes_no_turn() -> None:
    """N-87."""
    seen: list[ChatTurn] = []

    async with mock_chat_agent(session_agent(answering(saying()), seen), mode="handover-prepare") as harness:
        await harness.send_handover_skip()

    assert seen == []
    assert harness.all_raw_chunks == []
    assert harness.run_error is None


async def test_a_source_that_breaks_keeps_its_fragment_and_raises() -> None:
    """SSE-007, N-87."""
    caught: list[str] = []
    seen: list[ChatTurn] = []

    async def broken() -> AsyncIterator[Any]:
        yield {"type": "start", "messageId": "a-err"}
        yield {"type": "text-start", "id": "t"}
        yield {"type": "text-delta", "id": "t", "delta": "partial answer"}
        raise RuntimeError("UND_ERR_BODY_TIMEOUT")

    async def on_turn(turn: ChatTurn) -> None:
        try:
            await turn.complete(broken())
        except RuntimeError as exc:
            caught.append(str(exc))
            await turn.done()

    async with mock_chat_agent(session_agent(on_turn, seen)) as harness:
        turn = await harness.send_message("hi")

    assert caught == ["UND_ERR_BODY_TIMEOUT"]
    assert texts(seen[0].ui_messages) == ["hi", "partial answer"]
    assert str(turn.error) == "UND_ERR_BODY_TIMEOUT"
    assert types(turn)[-1] == "trigger:turn-complete"


async def test_without_a_source_a_turn_is_completed_only_by_what_was_handed_over() -> None:
    """N-87."""
    errors: list[Exception] = []

    async def on_turn(turn: ChatTurn) -> None:
        try:
            await turn.complete()
        except InvalidArgumentError as exc:
            errors.append(exc)
        await turn.done()

    async with mock_chat_agent(session_agent(on_turn)) as harness:
        await harness.send_message("hi")

    assert str(errors[0]) == "`source` is None: the turn requires a stream source unless turn.handover.is_final is true"


async def test_a_close_ends_the_session() -> None:
    """D-10, G-20."""
    seen: list[ChatTurn] = []
    held = saying(script.text("one", chunks=["one"]).hold("held"))

    async with mock_chat_agent(session_agent(answering(held), seen)) as harness:
        pending = harness.begin_message("hi")
        await harness.wait_streaming("one")
        await harness.session.in_.append({"kind": "message", "payload": {"chatId": "test-chat", "trigger": "close"}})
        await harness.settle()
        held.release("held")
        await pending
        await harness.wait_ended()

    assert len(seen) == 1
    assert harness.run_error is None


async def test_nobody_who_writes_ends_the_session() -> None:
    """N-87."""
    async with mock_chat_agent(session_agent(answering(saying("one")), idle_timeout=10, timeout=20)) as harness:
        await harness.send_message("hi")
        await harness.advance(29)
        still_there = not harness.run_ended
        await harness.advance(2)

    assert still_there
    assert harness.run_ended


async def test_a_session_ends_with_its_last_turn() -> None:
    """N-87, G-37."""
    async with mock_chat_agent(session_agent(answering(saying("one")), max_turns=1)) as harness:
        await harness.send_message("hi")
        await harness.wait_ended()

    assert harness.run_error is None


async def test_ending_the_run_waits_for_what_has_come() -> None:
    """N-87, N-31."""
    answer = answering(echoing())

    async def on_turn(turn: ChatTurn) -> None:
        chat.end_run()
        await answer(turn)

    async with mock_chat_agent(session_agent(on_turn)) as harness:
        first = harness.begin_message("m1")
        await harness.wait_for(lambda it: bool(it.all_chunks))
        second = harness.begin_message("m2")
        answers = [(await first).text, (await second).text]
        await harness.wait_ended()

    assert answers == ["ANSWER(m1)", "ANSWER(m2)"]


async def test_a_newer_version_is_given_the_message_that_waits() -> None:
    """N-87, G-26."""
    answer = answering(echoing())

    async def on_turn(turn: ChatTurn) -> None:
        chat.request_upgrade()
        await answer(turn)

    async with mock_chat_agent(session_agent(on_turn)) as harness:
        first = harness.begin_message("m1")
        await harness.wait_for(lambda it: bool(it.all_chunks))
        harness.begin_message("m2")
        await first
        await harness.wait_ended()

    assert harness.all_raw_chunks[-1] == {"type": "trigger:upgrade-required"}
    assert harness.upgrade_requested


async def test_a_message_that_cannot_be_read_fails_alone() -> None:
    """N-87, F-20."""
    async with mock_chat_agent(session_agent(answering(saying("fine")))) as harness:
        await harness.start()
        broken = {"chatId": "test-chat", "trigger": "submit-message", "message": {"id": "u-1", "role": "nobody"}}
        await harness.session.in_.append({"kind": "message", "payload": broken})
        turn = await harness.send_message("hi")
        failed = harness.turns[0]
        error = failed.error

    assert types(failed) == ["error", "trigger:turn-complete"]
    assert isinstance(error, InvalidMessageError)
    assert turn.text == "fine"


async def test_a_message_steers_the_answer_that_is_under_way() -> None:
    """N-87, N-71, G-62."""
    seen: list[ChatTurn] = []
    model = saying(script.tool_call("weather", {"city": "rome"}, tool_call_id="c-1").hold("held"), "done")
    agent = session_agent(answering(model), seen, pending_messages={"should_inject": always})

    async with mock_chat_agent(agent) as harness:
        first = harness.begin_message(user("u-1", "go"))
        await model.reached("held")
        harness.begin_message(user("u-2", "faster"))
        await harness.settle()
        model.release("held")
        turn = await first

    assert roles(model.do_stream_calls[1].prompt) == ["user", "assistant", "tool", "user"]
    assert texts(seen[0].ui_messages) == ["go", "faster", "done"]
    assert turn.text == "done"
    assert len(harness.turns) == 1


async def test_an_answer_of_ones_own_is_steered_at_the_same_place() -> None:
    """N-87, G-62."""
    seen: list[ChatTurn] = []
    model = saying(script.tool_call("weather", {"city": "rome"}, tool_call_id="c-1").hold("held"), "done")

    async def on_turn(turn: ChatTurn) -> None:
        source = stream_text(
            model=model,
            messages=turn.messages,
            tools=[weather],
            stop_when=is_step_count(5),
            prepare_step=turn.prepare_step(),
        )
        result = await chat.pipe_and_capture(source)
        assert result.message is not None
        await turn.add_response(result.message)
        await turn.done()

    agent = session_agent(on_turn, seen, pending_messages={"should_inject": always})
    async with mock_chat_agent(agent) as harness:
        first = harness.begin_message(user("u-1", "go"))
        await model.reached("held")
        harness.begin_message(user("u-2", "faster"))
        await harness.settle()
        model.release("held")
        await first

    assert texts(seen[0].ui_messages) == ["go", "faster", "done"]
    assert [part.type for part in seen[0].ui_messages[-1].parts] == [
        "step-start",
        "tool-weather",
        "data-pending-message-injected",
        "step-start",
        "text",
    ]


async def test_a_cancelled_run_closes_its_turn_without_an_answer() -> None:
    """N-87."""
    results: list[Any] = []
    model = saying(script.text("one two", chunks=["one ", "two"]).hold("held"))

    async def on_turn(turn: ChatTurn) -> None:
        results.append(await turn.complete(stream_text(model=model, messages=turn.messages, abort_signal=turn.signal)))

    async with mock_chat_agent(session_agent(on_turn)) as harness:
        harness.begin_message("hi")
        await harness.wait_streaming("one")

    assert results == [None]
    assert harness.all_raw_chunks[-1] == {"type": "trigger:turn-complete"}


async def test_a_turn_that_is_left_open_is_told_to_the_test() -> None:
    """X-18."""

    async def on_turn(turn: ChatTurn) -> None:
        await chat.pipe_and_capture(stream_text(model=saying("one"), messages=turn.messages))

    async with mock_chat_agent(session_agent(on_turn)) as harness:
        with pytest.raises(HarnessStateError, match=r"^send_message: the agent's code went on without completing"):
            await harness.send_message("hi")


async def test_a_long_conversation_is_compacted_behind_a_turn() -> None:
    """N-87, N-44."""
    model = saying("one", "two")
    compaction: Any = {"should_compact": behind_a_turn, "summarize": short}

    async with mock_chat_agent(session_agent(answering(model), compaction=compaction)) as harness:
        await harness.send_message("hi")
        await harness.send_message("and again")

    assert roles(model.do_stream_calls[1].prompt) == ["assistant", "user"]


async def test_a_stored_conversation_is_taken_up() -> None:
    """N-87."""
    model = saying("three")
    answer = answering(model)
    seen: list[ChatTurn] = []

    async def on_turn(turn: ChatTurn) -> None:
        await turn.set_messages([user("u-0", "before"), *turn.ui_messages])
        await answer(turn)

    agent = session_agent(on_turn, seen)
    async with mock_chat_agent(agent, continuation=True, previous_run_id="run_prior") as harness:
        await harness.send_message("hi")

    assert seen[0].continuation
    assert texts(seen[0].ui_messages) == ["before", "hi", "three"]


async def test_an_answer_of_ones_own_is_kept() -> None:
    """N-87."""
    seen: list[ChatTurn] = []

    async def on_turn(turn: ChatTurn) -> None:
        result = await chat.pipe_and_capture(stream_text(model=saying("own"), messages=turn.messages))
        assert result.message is not None
        await turn.add_response(result.message)
        await turn.done()

    async with mock_chat_agent(session_agent(on_turn, seen)) as harness:
        turn = await harness.send_message("hi")

    assert texts(seen[0].ui_messages) == ["hi", "own"]
    assert turn.text == "own"
    assert turn.message == seen[0].ui_messages[-1]


async def test_data_parts_join_the_answer_that_is_kept() -> None:
    """N-87, N-22."""
    seen: list[ChatTurn] = []
    answer = answering(saying("hello"))

    async def on_turn(turn: ChatTurn) -> None:
        chat.response.write({"type": "data-marker", "id": "d-1", "data": 1})
        await answer(turn)

    async with mock_chat_agent(session_agent(on_turn, seen)) as harness:
        await harness.send_message("hi")

    assert [part.type for part in seen[0].ui_messages[-1].parts] == ["step-start", "text", "data-marker"]


async def test_a_stopped_answer_is_kept_without_its_open_calls() -> None:
    """N-87, C-63."""
    seen: list[ChatTurn] = []

    async def call(turn: ChatTurn) -> AsyncIterator[Any]:
        yield {"type": "start", "messageId": "a-1"}
        yield {"type": "text-start", "id": "t"}
        yield {"type": "text-delta", "id": "t", "delta": "thinking"}
        yield {"type": "tool-input-available", "toolCallId": "c-1", "toolName": "weather", "input": {}}
        await turn.signal.wait()

    async def on_turn(turn: ChatTurn) -> None:
        await turn.complete(call(turn))

    async with mock_chat_agent(session_agent(on_turn, seen)) as harness:
        pending = harness.begin_message("hi")
        await harness.wait_streaming("thinking")
        await harness.send_stop()
        turn = await pending

    assert [part.type for part in seen[0].ui_messages[-1].parts] == ["text"]
    assert turn.stopped


async def test_a_tool_answer_joins_its_call() -> None:
    """N-87, M-11."""
    seen: list[ChatTurn] = []
    ask = {"ask": tool(description="Ask.", input_schema={"type": "object"})}
    model = saying(script.tool_call("ask", {}, tool_call_id="c-1"), "thanks")

    async def on_turn(turn: ChatTurn) -> None:
        await turn.complete(stream_text(model=model, messages=turn.messages, tools=ask))

    async with mock_chat_agent(session_agent(on_turn, seen)) as harness:
        first = await harness.send_message("hi")
        assert first.message is not None
        answered = tool_part("c-1", "output-available", name="ask", output="yes")
        await harness.send_message({"id": first.message.id, "role": "assistant", "parts": [answered]})

    (part,) = [part for part in seen[1].ui_messages[1].parts if isinstance(part, ToolUIPart)]
    assert part.output == "yes"


async def test_a_session_has_at_least_one_turn() -> None:
    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        chat.create_session(payload, abort_signal=context.signal, max_turns=0)

    harness = mock_chat_agent(chat.custom_agent(id="none", run=run))
    try:
        with pytest.raises(InvalidArgumentError, match=r"^`max_turns` is 0: a session has at least one turn$"):
            await harness.start()
    finally:
        await harness.close()


async def test_a_message_between_the_end_of_a_stream_and_the_next_turn_is_a_turn_of_its_own() -> None:
    """N-87, F-11: no step would take it in any more, however willing the agent is."""
    model = saying("one", "two")
    answer = answering(model)

    async def on_turn(turn: ChatTurn) -> None:
        await answer(turn)
        if turn.number == 0:
            await chat.sleep(5)

    agent = session_agent(on_turn, pending_messages={"should_inject": always})
    async with mock_chat_agent(agent, auto_advance=False) as harness:
        first = await harness.send_message("m1", until="turn_complete")
        second = harness.begin_message("m2")
        await harness.settle()
        early = len(model.do_stream_calls)
        await harness.advance(5)
        turn = await second

    assert (first.text, early, turn.text) == ("one", 1, "two")
    assert roles(model.do_stream_calls[1].prompt) == ["user", "assistant", "user"]


async def test_a_message_behind_the_end_of_a_stream_is_no_steering_while_the_turn_is_completed() -> None:
    """N-87, F-11: the turn does not even hear of it."""
    model = saying("one", "two")
    received: list[Any] = []

    async def summarize(event: Any) -> str:
        await chat.sleep(5)
        return "short"

    agent = session_agent(
        answering(model),
        compaction={"should_compact": behind_a_turn, "summarize": summarize},
        pending_messages={"should_inject": always, "on_received": received.append},
    )
    async with mock_chat_agent(agent, auto_advance=False) as harness:
        first = harness.begin_message("m1")
        await harness.settle()
        second = harness.begin_message("m2")
        await harness.settle()
        early = (len(model.do_stream_calls), list(received))
        await harness.advance(10)
        turns = [await first, await second]

    assert early == (1, [])
    assert [turn.text for turn in turns] == ["one", "two"]


async def test_a_continuation_without_a_message_waits_and_is_still_one_when_it_comes() -> None:
    """N-87, F-21: the model is not asked with an empty prompt."""
    model = saying("hello again")
    seen: list[ChatTurn] = []
    agent = session_agent(answering(model), seen)

    async with mock_chat_agent(agent, continuation=True, previous_run_id="run_prior") as harness:
        await harness.start()
        early = (len(seen), len(model.do_stream_calls))
        turn = await harness.send_message("hi")

    assert early == (0, 0)
    assert [each.continuation for each in seen] == [True]
    assert turn.text == "hello again"
    assert roles(model.do_stream_calls[0].prompt) == ["user"]
