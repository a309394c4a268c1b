"""`chat.MessageAccumulator`: a conversation for code that runs a loop of its own (N-85)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.handing_over import CALLED, CALLING, GREETING, weather
from agent.making import assistant, ids, roles, saying, texts, tool_part, user
from chatagent import chat, is_step_count, stream_text
from chatagent.errors import ChatContextError
from chatagent.model import AssistantMessage, LanguageModelUsage, TextPart, UserMessage
from chatagent.ui import UIMessage
from chatagent_test import mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent import ChatAgent
    from chatagent.agent import CustomRunContext, MessageAccumulator, WirePayload

pytestmark = pytest.mark.anyio


def custom(run: Callable[[Any, Any], Any]) -> ChatAgent[Any]:
    return chat.custom_agent(id="custom", run=run)


def always(event: Any) -> bool:
    return True


def between_steps(event: Any) -> bool:
    return bool(event.steps)


def in_turn_seven(event: Any) -> bool:
    return event.turn == 7


def short(event: Any) -> str:
    return "short"


async def in_a_run(work: Callable[[], Awaitable[Any]]) -> None:
    """Do something in the run of a custom agent; raises what it raises."""

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        await work()

    async with mock_chat_agent(custom(run)) as harness:
        await harness.wait_ended()


# --- what comes in ---


async def test_the_first_turn_replaces_and_later_ones_append() -> None:
    """N-85."""
    conversation = chat.MessageAccumulator()
    await conversation.set_messages([user("u-0", "old")])

    first = await conversation.add_incoming([user("u-1", "one")], "submit-message", 0)
    second = await conversation.add_incoming([user("u-2", "two")], "submit-message", 1)

    assert roles(first) == ["user"]
    assert roles(second) == ["user", "user"]
    assert ids(conversation.ui_messages) == ["u-1", "u-2"]
    assert second == conversation.model_messages


async def test_regenerating_replaces_or_drops_the_last_answer() -> None:
    """N-85."""
    conversation = chat.MessageAccumulator()
    await conversation.set_messages([user("u-1"), assistant("a-1", "one"), user("u-2"), assistant("a-2", "two")])

    await conversation.add_incoming([], "regenerate-message", 1)
    dropped = ids(conversation.ui_messages)
    await conversation.add_incoming([user("u-9")], "regenerate-message", 1)

    assert dropped == ["u-1", "a-1", "u-2"]
    assert ids(conversation.ui_messages) == ["u-9"]


async def test_answers_that_come_in_are_cleaned() -> None:
    """N-85, C-63."""
    conversation = chat.MessageAccumulator()
    history = [user("u-1"), assistant("a-1", "text", tool_part("c-1", "input-available", input={}))]

    await conversation.add_incoming(history, "submit-message", 0)

    assert [part.type for part in conversation.ui_messages[1].parts] == ["text"]


async def test_a_tool_answer_joins_its_call() -> None:
    """N-85, M-10."""
    conversation = chat.MessageAccumulator()
    await conversation.set_messages(
        [user("u-1"), assistant("a-1", tool_part("c-1", "input-available", input={"q": 1}))]
    )

    answer = assistant("a-1", tool_part("c-1", "output-available", output="yes"))
    model = await conversation.add_incoming([answer], "submit-message", 1)

    assert ids(conversation.ui_messages) == ["u-1", "a-1"]
    assert roles(model) == ["user", "assistant", "tool"]


async def test_lists_that_it_gives_are_copies() -> None:
    conversation = chat.MessageAccumulator()
    await conversation.add_incoming([user("u-1")])

    conversation.ui_messages.clear()
    conversation.model_messages.clear()

    assert (len(conversation.ui_messages), len(conversation.model_messages)) == (1, 1)


# --- answers ---


async def test_an_answer_is_appended_or_takes_the_place_of_its_id() -> None:
    """N-85."""
    conversation = chat.MessageAccumulator()

    async def work() -> None:
        await conversation.add_incoming([user("u-1")])
        await conversation.add_response(assistant("a-1", "one"))
        await conversation.add_incoming([user("u-2")], "submit-message", 1)
        await conversation.add_response({"role": "assistant", "parts": [{"type": "text", "text": "two"}]})
        await conversation.add_response(assistant("a-1", "changed"))

    await in_a_run(work)

    assert texts(conversation.ui_messages) == ["hello", "changed", "hello", "two"]
    assert conversation.ui_messages[3].id
    assert roles(conversation.model_messages) == ["user", "assistant", "user", "assistant"]


async def test_an_answer_without_an_id_gets_one() -> None:
    """N-85."""
    conversation = chat.MessageAccumulator()

    async def work() -> None:
        await conversation.add_response(UIMessage(id="", role="assistant", parts=[]))

    await in_a_run(work)

    assert conversation.ui_messages[0].id


async def test_a_whole_conversation_goes_through_it() -> None:
    """N-85."""
    model = saying("one", "two")
    conversation = chat.MessageAccumulator()

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        number = 0
        while (result := await chat.messages.wait_with_idle_timeout(30)).ok:
            assert result.output is not None
            assert result.output.message is not None
            messages = await conversation.add_incoming([result.output.message], result.output.trigger, number)
            answer = await chat.pipe_and_capture(stream_text(model=model, messages=messages))
            assert answer.message is not None
            await conversation.add_response(answer.message)
            await chat.write_turn_complete()
            number += 1

    async with mock_chat_agent(custom(run)) as harness:
        await harness.send_message(user("u-1", "hi"))
        await harness.send_message(user("u-2", "again"))

    assert texts(conversation.ui_messages) == ["hi", "one", "again", "two"]
    assert roles(model.do_stream_calls[1].prompt) == ["user", "assistant", "user"]


# --- steering ---


async def test_without_options_there_is_no_step_hook() -> None:
    """N-85."""
    assert chat.MessageAccumulator().prepare_step() is None
    assert chat.MessageAccumulator(pending_messages={}).prepare_step() is not None


async def test_a_message_steers_the_answer_and_stands_before_it() -> None:
    """N-85, N-71, G-62."""
    model = saying(script.tool_call("weather", {"city": "rome"}, tool_call_id="c-1").hold("held"), "done")
    conversation = chat.MessageAccumulator(pending_messages={"should_inject": always})

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        result = await chat.messages.once()
        assert result.output is not None
        assert result.output.message is not None

        def steer(more: WirePayload) -> None:
            assert more.message is not None
            conversation.steer(more.message)

        chat.messages.on(steer)
        messages = await conversation.add_incoming([result.output.message])
        source = stream_text(
            model=model,
            messages=messages,
            tools=[weather],
            stop_when=is_step_count(5),
            prepare_step=conversation.prepare_step(),
        )
        answer = await chat.pipe_and_capture(source)
        assert answer.message is not None
        await conversation.add_response(answer.message)
        await chat.write_turn_complete()
        await chat.messages.once()

    async with mock_chat_agent(custom(run)) as harness:
        first = harness.begin_message(user("u-1", "go"))
        await model.reached("held")
        second = harness.begin_message(user("u-2", "faster"))
        await harness.settle()
        model.release("held")
        turns = [await first, await second]

    assert roles(model.do_stream_calls[1].prompt) == ["user", "assistant", "tool", "user"]
    assert texts(conversation.ui_messages) == ["go", "faster", "done"]
    assert [part.type for part in conversation.ui_messages[2].parts] == [
        "step-start",
        "tool-weather",
        "data-pending-message-injected",
        "step-start",
        "text",
    ]
    assert roles(conversation.model_messages) == ["user", "assistant", "tool", "user", "assistant"]
    assert [turn.index for turn in turns] == [0, 0]


async def test_what_no_step_took_in_can_be_taken_back() -> None:
    """N-85."""
    conversation = chat.MessageAccumulator(pending_messages={})
    drained: list[list[str]] = []

    async def work() -> None:
        conversation.steer(user("u-1"))
        await conversation.steer_async(user("u-2"))
        drained.extend([ids(conversation.drain_steering()), ids(conversation.drain_steering())])

    await in_a_run(work)

    assert drained == [["u-1", "u-2"], []]


async def test_a_message_may_bring_what_the_model_is_given() -> None:
    """N-85."""
    model = saying(script.tool_call("weather", {"city": "rome"}, tool_call_id="c-1"), "done")
    conversation = chat.MessageAccumulator(pending_messages={"should_inject": between_steps})

    async def work() -> None:
        conversation.steer(user("u-2"), [UserMessage("be quick")])
        source = stream_text(
            model=model,
            messages=await conversation.add_incoming([user("u-1")]),
            tools=[weather],
            stop_when=is_step_count(5),
            prepare_step=conversation.prepare_step(),
        )
        await chat.pipe_and_capture(source)

    await in_a_run(work)

    last = model.do_stream_calls[1].prompt[-1]
    assert isinstance(last, UserMessage)
    assert [getattr(part, "text", part) for part in last.content] == ["be quick"]


# --- compaction ---


async def test_it_is_compacted_behind_an_answer() -> None:
    """N-85, N-44."""
    compaction: Any = {"should_compact": in_turn_seven, "summarize": short}
    conversation = chat.MessageAccumulator(compaction=compaction)
    done: list[bool] = []

    async def work() -> None:
        await conversation.add_incoming([user("u-1")])
        await conversation.add_response(assistant("a-1", "one"))
        usage = LanguageModelUsage(total_tokens=10)
        done.append(await conversation.compact_if_needed(None))
        done.append(await conversation.compact_if_needed(usage))
        done.append(await conversation.compact_if_needed(usage, {"turn": 7}))

    await in_a_run(work)

    assert done == [False, False, True]
    assert conversation.model_messages == [AssistantMessage((TextPart("[Conversation summary]\n\nshort"),))]
    assert ids(conversation.ui_messages) == ["u-1", "a-1"]


async def test_it_is_compacted_between_two_steps() -> None:
    """N-85, N-42, N-43."""
    model = saying(script.tool_call("weather", {"city": "rome"}, tool_call_id="c-1"), "done")
    compaction: Any = {"should_compact": always, "summarize": short}
    conversation = chat.MessageAccumulator(compaction=compaction)

    async def work() -> None:
        source = stream_text(
            model=model,
            messages=await conversation.add_incoming([user("u-1")]),
            tools=[weather],
            stop_when=is_step_count(5),
            prepare_step=conversation.prepare_step(),
        )
        answer = await chat.pipe_and_capture(source)
        assert answer.message is not None
        await conversation.add_response(answer.message)

    await in_a_run(work)

    assert roles(model.do_stream_calls[1].prompt) == ["user"]
    assert conversation.model_messages[0] == AssistantMessage((TextPart("[Conversation summary]\n\nshort"),))


# --- head start ---


class HeadStart:
    """A custom agent that begins with a handover and goes on if it is not the whole answer."""

    def __init__(self, *, history: list[UIMessage] | None = None) -> None:
        self.conversation: MessageAccumulator = chat.MessageAccumulator()
        self.consumed: list[Any] = []
        self.went_on = False
        self._history = history

    async def _run(self, payload: WirePayload, context: CustomRunContext) -> None:
        if self._history is not None:
            await self.conversation.set_messages(self._history)
        consumed = await self.conversation.consume_handover(payload=payload)
        self.consumed.append(consumed)
        if consumed.skipped:
            return
        self.went_on = True
        if not consumed.is_final:
            source = stream_text(
                model=saying("It is sunny."),
                messages=self.conversation.model_messages,
                tools=[weather],
                stop_when=is_step_count(5),
            )
            answer = await chat.pipe_and_capture(source, original_messages=self.conversation.ui_messages)
            assert answer.message is not None
            await self.conversation.add_response(answer.message)
        await chat.write_turn_complete()

    async def skip(self) -> list[dict[str, Any]]:
        async with mock_chat_agent(custom(self._run), mode="handover-prepare") as harness:
            await harness.send_handover_skip()
        return harness.all_raw_chunks

    async def hand_over(self, partial: list[dict[str, Any]], message_id: str, **options: Any) -> None:
        is_final = partial is GREETING
        async with mock_chat_agent(custom(self._run), mode="handover-prepare", **options) as harness:
            await harness.send_handover(partial_assistant_message=partial, message_id=message_id, is_final=is_final)


async def test_a_head_start_that_gives_up_is_skipped() -> None:
    """HNB-001, N-85."""
    start = HeadStart()

    chunks = await start.skip()

    (consumed,) = start.consumed
    assert (consumed.skipped, consumed.is_final) == (True, False)
    assert not start.went_on
    assert chunks == []


async def test_a_whole_answer_is_the_conversation() -> None:
    """HNB-002, N-85."""
    start = HeadStart()

    await start.hand_over(GREETING, "asst-msg-1")

    (consumed,) = start.consumed
    assert (consumed.skipped, consumed.is_final) == (False, True)
    (message,) = start.conversation.ui_messages
    assert (message.id, message.role, message.text) == ("asst-msg-1", "assistant", "Hi there.")


async def test_an_open_call_runs_here() -> None:
    """HNB-003, N-85."""
    CALLED.clear()
    start = HeadStart()

    await start.hand_over(CALLING, "asst-msg-2")

    assert not start.consumed[0].is_final
    assert CALLED == ["tokyo"]


async def test_the_answer_takes_the_place_of_what_was_handed_over() -> None:
    """HNB-004, N-85."""
    conversation = chat.MessageAccumulator()

    async def run(payload: WirePayload, context: CustomRunContext) -> None:
        await conversation.consume_handover(payload=payload)
        resolved = tool_part("tc-1", "output-available", name="weather", input={"city": "tokyo"}, output="sunny")
        await conversation.add_response(assistant("asst-msg-2", "Let me look.", resolved))
        await chat.write_turn_complete()

    async with mock_chat_agent(custom(run), mode="handover-prepare") as harness:
        await harness.send_handover(partial_assistant_message=CALLING, message_id="asst-msg-2")

    (message,) = conversation.ui_messages
    assert [part.type for part in message.parts] == ["text", "tool-weather"]
    assert roles(conversation.model_messages) == ["assistant", "tool"]


async def test_the_history_stands_before_what_was_handed_over() -> None:
    """HNB-005, N-85."""
    start = HeadStart()

    await start.hand_over(GREETING, "asst-msg-3", head_start_messages=[user("u-1")])

    assert ids(start.conversation.ui_messages) == ["u-1", "asst-msg-3"]


async def test_what_the_history_has_already_is_not_doubled() -> None:
    """HNB-006, N-85."""
    start = HeadStart()

    await start.hand_over(GREETING, "asst-dup", head_start_messages=[user("u-1"), assistant("asst-dup", "Hi there.")])

    assert ids(start.conversation.ui_messages) == ["u-1", "asst-dup"]


async def test_outside_a_run_there_is_no_turn_to_answer() -> None:
    with pytest.raises(ChatContextError, match=r"^chat\.MessageAccumulator\.add_response was called outside a run"):
        await chat.MessageAccumulator().add_response(assistant("a-1"))
