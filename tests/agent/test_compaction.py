"""A summary in the place of a conversation that has grown too long (rules N-42 to N-46, H-14, G-46)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.compacting import (
    CALL,
    LONG,
    SUMMARY,
    called,
    compacting,
    compacting_agent,
    look,
    text_of,
    wire,
    with_options,
)
from agent.making import agent_of, asking, assistant, kept, nothing, roles, saying, types, user
from chatagent import chat, is_step_count, stream_text, tool
from chatagent.errors import AgentDefinitionError, HookResultError
from chatagent.model import LanguageModelUsage, UserMessage, message_to_wire
from chatagent_test import mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from chatagent import AbortSignal
    from chatagent.agent import PendingMessagesOptions, RunEvent

pytestmark = pytest.mark.anyio

# --- between two steps ---


async def test_between_steps_the_model_is_asked_with_the_summary_alone() -> None:
    model = saying(CALL, "done")

    async with mock_chat_agent(compacting_agent(model)) as harness:
        turn = await harness.send_message("hello")

    assert [(message.role, text_of(message)) for message in model.do_stream_calls[1].prompt] == [
        ("user", "They talked.")
    ]
    assert turn.text == "done"


async def test_the_client_sees_a_compaction_between_the_steps() -> None:
    model = saying(CALL, "done")

    async with mock_chat_agent(compacting_agent(model)) as harness:
        turn = await harness.send_message("hello")

    first = types(turn).index("step-start")
    shown = turn.raw_chunks[first : first + 4]
    assert types(turn)[first - 1] == "finish-step"
    assert [chunk["type"] for chunk in shown] == ["step-start", "data-compaction", "data-compaction", "finish-step"]
    assert [chunk["data"] for chunk in shown[1:3]] == [
        {"status": "compacting", "totalTokens": 220},
        {"status": "complete", "totalTokens": 220},
    ]
    assert shown[1]["id"] == shown[2]["id"]
    assert shown[1]["transient"] is True
    assert types(turn)[first + 4] == "start-step"


async def test_the_history_stays_whole_and_the_model_list_begins_with_the_summary() -> None:
    """G-46, N-43: between steps the summary is the user's, afterwards the assistant's."""
    model = saying(CALL, "done", "later")

    async with mock_chat_agent(compacting_agent(model)) as harness:
        await harness.send_message("hello")
        await harness.send_message("and?")

    between, later = model.do_stream_calls[1].prompt, model.do_stream_calls[2].prompt
    assert [(message.role, text_of(message)) for message in between] == [("user", "They talked.")]
    assert [message.text for message in kept(harness)] == ["hello", "done", "and?", "later"]
    assert roles(later) == ["assistant", "assistant", "tool", "assistant", "user"]
    assert text_of(later[0]) == "[Conversation summary]\n\nThey talked."


async def test_later_steps_are_asked_with_the_summary_and_what_came_since() -> None:
    second = script.tool_call("look", {}, tool_call_id="c-2").finish("tool-calls", usage=LONG)
    third = script.tool_call("look", {}, tool_call_id="c-3").finish("tool-calls", usage=LONG)
    model = saying(CALL, second, third, "done")
    summarized: list[Any] = []
    options = compacting(summarize=lambda event: summarized.append(event) or "They talked.")

    async with mock_chat_agent(compacting_agent(model, compaction=options)) as harness:
        await harness.send_message("hello")

    prompts = [call.prompt for call in model.do_stream_calls]
    assert [roles(prompt) for prompt in prompts[1:]] == [
        ["user"],
        ["user", "assistant", "tool"],
        ["user", "assistant", "tool", "assistant", "tool"],
    ]
    assert [text_of(prompt[0]) for prompt in prompts[1:]] == ["They talked."] * 3
    assert len(summarized) == 1


async def test_what_was_put_in_between_since_then_stays_in_its_place() -> None:
    second = script.tool_call("look", {}, tool_call_id="c-2").finish("tool-calls", usage=LONG)
    model = saying(CALL.hold("held"), second, "done")
    calls = 0

    @tool(name="look")
    def injecting() -> str:
        """Look, and remark on it."""
        nonlocal calls
        calls += 1
        chat.inject([{"role": "user", "content": f"remark {calls}"}])
        return "seen"

    pending: PendingMessagesOptions[Any] = {"should_inject": lambda event: True}
    agent = agent_of(run=with_options(model), tools=[injecting], compaction=compacting(), pending_messages=pending)

    async with mock_chat_agent(agent) as harness:
        first = harness.begin_message("hello")
        await model.reached("held")
        harness.begin_message("faster")
        await harness.settle()
        model.release("held")
        await first

    texts = [[text_of(message) for message in call.prompt if message.role == "user"] for call in model.do_stream_calls]
    assert texts == [
        ["hello"],
        ["They talked.", "faster", "remark 1"],
        ["They talked.", "faster", "remark 1", "remark 2"],
    ]
    assert roles(model.do_stream_calls[2].prompt) == ["user", "user", "user", "assistant", "tool", "user"]


async def test_events_tell_what_was_found() -> None:
    model = saying("before", CALL, "done")
    data: list[Any] = []
    agent = compacting_agent(model, on_compacted=data.append)

    async with mock_chat_agent(agent, client_data={"plan": "free"}) as harness:
        await harness.send_message("hello")
        await harness.send_message("and?")

    asked = next(event for event in called(harness, "should_compact") if event.source == "inner")
    (summarized,) = called(harness, "summarize")
    assert (asked.total_tokens, asked.input_tokens, asked.output_tokens) == (220, 200, 20)
    assert (asked.step_number, len(asked.steps), asked.turn, asked.client_data) == (0, 1, 1, {"plan": "free"})
    assert asked.total_usage.total_tokens == 20
    assert roles(asked.messages) == ["user", "assistant", "user", "assistant", "tool"]
    assert (summarized.source, summarized.step_number, summarized.turn) == ("inner", 0, 1)
    assert summarized.messages == asked.messages
    assert (data[0].summary, data[0].step_number, data[0].turn) == ("They talked.", 0, 1)
    assert (data[0].message_count, data[0].messages) == (5, asked.messages)
    assert data[0].usage.total_tokens == data[0].total_tokens == 220


async def test_what_on_compacted_writes_stands_inside_and_does_not_join_the_answer() -> None:
    model = saying(CALL, "done")
    agent = compacting_agent(
        model, on_compacted=lambda event: event.writer.write({"type": "data-note", "data": event.summary})
    )

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    first = types(turn).index("step-start")
    assert types(turn)[first + 1 : first + 4] == ["data-compaction", "data-note", "data-compaction"]
    assert "data-note" not in [part.type for part in kept(harness)[1].parts]


async def test_what_on_compacted_writes_behind_a_turn_does_not_join_the_answer_either() -> None:
    agent = compacting_agent(
        saying(script.text("done").finish("stop", usage=LONG)),
        on_compacted=lambda event: event.writer.write({"type": "data-note", "data": event.summary}),
    )

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert "data-note" in types(turn)
    assert "data-note" not in [part.type for part in kept(harness)[1].parts]


@pytest.mark.parametrize("where", ["inner", "outer"])
async def test_on_compacted_that_fails_is_logged_and_the_compaction_stands(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: Any) -> None:
        raise RuntimeError("on_compacted broke")

    first = [CALL, "done"] if where == "inner" else [script.text("done").finish("stop", usage=LONG)]
    model = saying(*first, "next")

    async with mock_chat_agent(compacting_agent(model, on_compacted=fail)) as harness:
        turn = await harness.send_message("hello")
        await harness.send_message("again")

    assert turn.error is None
    assert [chunk["data"]["status"] for chunk in turn.raw_chunks if chunk["type"] == "data-compaction"] == [
        "compacting"
    ]
    assert "error" not in types(turn)
    assert "on_compacted broke" in caplog.text
    assert "[Conversation summary]" in model.do_stream_calls[-1].prompt[0].content[0].text


async def test_under_the_limit_nothing_happens() -> None:
    model = saying(script.tool_call("look", {}), "done")

    async with mock_chat_agent(compacting_agent(model)) as harness:
        turn = await harness.send_message("hello")

    assert "data-compaction" not in types(turn)
    assert roles(model.do_stream_calls[1].prompt) == ["user", "assistant", "tool"]


async def test_prepare_messages_has_its_say() -> None:
    second = script.tool_call("look", {}, tool_call_id="c-2").finish("tool-calls", usage=LONG)
    model = saying(CALL, second, "done")
    first = {"role": "user", "content": [{"type": "text", "text": "rules"}]}
    agent = compacting_agent(model, prepare_messages=lambda event: [first, *event.messages])

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert [event.reason for event in called(harness, "prepare_messages")] == [
        "run",
        "compaction-result",
        "compaction-rebuild",
    ]
    assert [[text_of(m) for m in call.prompt if m.role == "user"] for call in model.do_stream_calls] == [
        ["rules", "hello"],
        ["rules", "They talked."],
        ["rules", "They talked."],
    ]


async def test_a_failing_summary_fails_the_step_and_compacts_nothing() -> None:
    model = saying(CALL, "later")

    def fail(event: Any) -> str:
        raise RuntimeError("no summary")

    async with mock_chat_agent(compacting_agent(model, compaction=compacting(summarize=fail))) as harness:
        turn = await harness.send_message("hello")
        await harness.send_message("and?")

    assert turn.error_texts == ["An error occurred."]
    assert roles(model.do_stream_calls[1].prompt) == ["user", "assistant", "tool", "user"]


async def test_another_call_of_the_same_turn_is_compacted_for_itself() -> None:
    """The first call's summary says nothing of the second call's conversation."""
    model = saying(CALL, "planned", CALL, "done")

    async def run(event: RunEvent[Any]) -> Any:
        plan = stream_text(
            **chat.to_stream_text_options(tools=event.tools),
            model=model,
            messages=[UserMessage("plan")],
            stop_when=is_step_count(5),
        )
        await plan.text
        return with_options(model)(event)

    summarized: list[Any] = []
    options = compacting(summarize=lambda event: summarized.append(event) or "They talked.")

    async with mock_chat_agent(compacting_agent(model, run=run, compaction=options)) as harness:
        await harness.send_message("hello")

    assert [text_of(event.messages[0]) for event in summarized] == ["plan", "hello"]


async def test_a_continued_answer_that_was_compacted_stands_behind_its_summary() -> None:
    """The answer takes the place of its first half in the history, and the model list is not made anew from that."""
    ask = tool(description="Ask the user.", input_schema={"type": "object"})
    model = saying(script.tool_call("ask", {}, tool_call_id="q-1"), CALL, "done", "later")

    async with mock_chat_agent(compacting_agent(model, tools={"ask": ask, "look": look})) as harness:
        asked = (await harness.send_message("hello")).message
        assert asked is not None
        answered: dict[str, Any] = {
            "type": "tool-ask",
            "toolCallId": "q-1",
            "state": "output-available",
            "input": {},
            "output": "yes",
        }
        await harness.send_message(assistant(asked.id, answered))
        await harness.send_message("and?")

    assert [message.text for message in kept(harness)] == ["hello", "done", "and?", "later"]
    assert text_of(model.do_stream_calls[3].prompt[0]) == "[Conversation summary]\n\nThey talked."


# --- behind a turn ---


async def test_behind_a_turn_the_model_list_becomes_the_summary() -> None:
    model = saying(script.text("long").finish("stop", usage=LONG), "short")
    completed: list[Any] = []
    agent = compacting_agent(model, on_turn_complete=completed.append)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")
        await harness.send_message("and?")

    assert completed[0].messages == [SUMMARY]
    assert roles(completed[0].new_messages) == ["user", "assistant"]
    assert [message.text for message in completed[0].ui_messages] == ["hello", "long"]
    assert wire(model.do_stream_calls[1].prompt)[0] == message_to_wire(SUMMARY)
    assert roles(model.do_stream_calls[1].prompt) == ["assistant", "user"]
    assert [message.text for message in kept(harness)] == ["hello", "long", "and?", "short"]


async def test_it_happens_before_the_completion_hooks_and_without_the_step_hook() -> None:
    """Outer compaction needs no `to_stream_text_options`."""
    model = saying(script.text("long").finish("stop", usage=LONG))
    agent = compacting_agent(
        model, run=asking(model), on_compacted=lambda e: None, on_before_turn_complete=lambda e: None
    )

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert [call.name for call in turn.hooks] == [
        "run",
        "should_compact",
        "summarize",
        "on_compacted",
        "on_before_turn_complete",
    ]
    assert types(turn)[-3:] == ["data-compaction", "data-compaction", "trigger:turn-complete"]


async def test_behind_a_turn_the_event_of_the_hook_tells_of_the_new_list() -> None:
    model = saying(script.text("long").finish("stop", usage=LONG))
    compacted: list[Any] = []

    async with mock_chat_agent(compacting_agent(model, on_compacted=compacted.append)) as harness:
        await harness.send_message("hello")

    (asked,) = called(harness, "should_compact")
    assert (asked.source, asked.step_number, asked.steps) == ("outer", None, None)
    assert asked.total_usage.total_tokens == 220
    assert (compacted[0].step_number, compacted[0].message_count) == (-1, 1)
    assert compacted[0].messages == [SUMMARY]


async def test_a_turn_compacted_between_its_steps_is_not_compacted_again_behind_them() -> None:
    model = saying(CALL, script.text("long").finish("stop", usage=LONG))

    async with mock_chat_agent(compacting_agent(model)) as harness:
        await harness.send_message("hello")

    assert [event.source for event in called(harness, "should_compact")] == ["inner"]


async def test_a_stopped_turn_is_not_compacted() -> None:
    model = saying(script.text("long").hold("held").finish("stop", usage=LONG))

    async with mock_chat_agent(compacting_agent(model)) as harness:
        pending = harness.begin_message("hello")
        await model.reached("held")
        await harness.send_stop()
        await pending

    assert called(harness, "should_compact") == []


class LateAnswer:
    """An answer that goes on when the turn is stopped, and tells its usage."""

    def __init__(self, signal: AbortSignal) -> None:
        self.signal = signal

    async def to_ui_message_stream(self, **options: Any) -> AsyncIterator[dict[str, Any]]:
        yield {"type": "start", "messageId": "m-1"}
        await self.signal.wait()

    @property
    def total_usage(self) -> Awaitable[LanguageModelUsage]:
        return self._usage()

    async def _usage(self) -> LanguageModelUsage:
        return LanguageModelUsage(total_tokens=220)


async def test_a_stopped_turn_is_not_compacted_even_if_its_usage_is_known() -> None:
    completed: list[Any] = []
    agent = compacting_agent(saying("x"), run=lambda event: LateAnswer(event.signal), on_turn_complete=completed.append)

    async with mock_chat_agent(agent) as harness:
        pending = harness.begin_message("hello")
        await harness.wait_streaming()
        await harness.send_stop()
        turn = await pending

    assert turn.stopped
    assert completed[0].usage.total_tokens == 220
    assert called(harness, "should_compact") == []


async def test_without_usage_there_is_nothing_to_decide_on() -> None:
    async with mock_chat_agent(compacting_agent(saying("x"), run=lambda event: None)) as harness:
        await harness.send_message("hello")

    assert called(harness, "should_compact") == []


@pytest.mark.parametrize("place", ["inner", "outer"])
async def test_callbacks_may_keep_what_they_like(place: str) -> None:
    model = saying(*([CALL, "done"] if place == "inner" else [script.text("done").finish("stop", usage=LONG)]), "later")
    events: list[Any] = []
    options = compacting(
        compact_model_messages=lambda event: events.append(event) or [{"role": "user", "content": "so far"}],
        compact_ui_messages=lambda event: [user("s-1", event.summary), *event.ui_messages[-1:]],
    )

    async with mock_chat_agent(compacting_agent(model, compaction=options)) as harness:
        await harness.send_message("hello")
        chain = [message.text for message in kept(harness)]
        await harness.send_message("and?")

    (event,) = events
    assert (event.source, event.summary, event.turn) == (place, "They talked.", 0)
    assert chain == (["They talked.", "hello", "done"] if place == "inner" else ["They talked.", "done"])
    prompt = model.do_stream_calls[-1].prompt
    assert text_of(prompt[0]) == "so far"
    assert roles(prompt) == (
        ["user", "assistant", "tool", "assistant", "user"] if place == "inner" else ["user", "user"]
    )


def three(event: Any) -> int:
    return 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"summarize": three}, "`summarize` must return a text, it returned 3"),
        (
            {"compact_model_messages": nothing},
            "`compact_model_messages` must return a list of model messages, it returned None",
        ),
        ({"compact_ui_messages": nothing}, "`compact_ui_messages` must return a list of UI messages, it returned None"),
    ],
)
async def test_what_callbacks_return_is_checked(options: Any, expected: str) -> None:
    """E-2: behind a turn a failing callback fails the turn, whose answer is kept."""
    model = saying(script.text("long").finish("stop", usage=LONG))

    async with mock_chat_agent(compacting_agent(model, compaction=compacting(**options))) as harness:
        turn = await harness.send_message("hello")

    assert isinstance(turn.error, HookResultError)
    assert turn.error_texts == [expected]
    assert [message.text for message in kept(harness)] == ["hello", "long"]


async def test_callbacks_may_be_async() -> None:
    model = saying(script.text("long").finish("stop", usage=LONG))

    async def yes(event: Any) -> bool:
        await chat.sleep(1)
        return True

    async def summarize(event: Any) -> str:
        await chat.sleep(1)
        return "They talked."

    agent = compacting_agent(model, compaction=compacting(should_compact=yes, summarize=summarize))

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert types(turn)[-3:] == ["data-compaction", "data-compaction", "trigger:turn-complete"]


# --- definition ---


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"summarize": str}, "needs `should_compact`"),
        ({"should_compact": bool}, "needs `summarize`"),
        ({"should_compact": bool, "summarise": str}, "knows no 'summarise'; it has compact_model_messages, .*"),
    ],
)
def test_options_are_checked_when_the_agent_is_defined(options: Any, problem: str) -> None:
    with pytest.raises(AgentDefinitionError, match=f"^agent 'tester': `compaction` {problem}$"):
        agent_of(compaction=options)


async def test_the_hook_of_a_builder_comes_first() -> None:
    """N-5."""
    log: list[str] = []
    model = saying(script.text("long").finish("stop", usage=LONG))
    builder = chat.with_ui_message().on_compacted(lambda event: log.append("builder"))
    agent = builder.agent(
        id="tester", run=asking(model), compaction=compacting(), on_compacted=lambda event: log.append("agent")
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert log == ["builder", "agent"]


async def test_on_compacted_is_a_decorator_too() -> None:
    model = saying(script.text("long").finish("stop", usage=LONG))
    agent = compacting_agent(model)
    summaries: list[str] = []

    @agent.on_compacted
    def note(event: Any) -> None:
        summaries.append(event.summary)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert summaries == ["They talked."]
