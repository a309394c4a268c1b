"""The spans of turns and actions: their names, what they say, and how failures look (section 2.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import Options, agent_of, asking, saying, user
from chatagent import chat, stream_text
from chatagent.agent import HOOK_NAMES, Prompt
from chatagent.telemetry import OpenTelemetry
from chatagent_test import ChunkStream, MockLanguageModel, mock_chat_agent, script
from telemetry.recording import Recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from chatagent_test import ChatAgentHarness

pytestmark = pytest.mark.anyio


def nothing(event: Any) -> None:
    return None


def messages_of(event: Any) -> Any:
    return event.messages


def all_of(event: Any) -> Any:
    return [*event.previous_messages, *event.incoming_messages]


def no_tools(event: Any) -> dict[str, Any]:
    return {}


def traced(
    recorded: Recorded, model: MockLanguageModel | None = None, /, **options: Unpack[Options]
) -> ChatAgentHarness:
    """A harness without preload, so that the first spans are those of the first message."""
    return mock_chat_agent(agent_of(model, **options), preload=False, telemetry=recorded.telemetry)


def raising(error: Exception) -> Callable[[Any], Any]:
    async def fail(event: Any) -> None:
        raise error

    return fail


async def test_a_conversation_is_a_tree_for_each_turn_and_each_wait() -> None:
    recorded = Recorded()
    hooks: dict[str, Any] = dict.fromkeys(HOOK_NAMES, nothing)
    hooks |= {"hydrate_messages": all_of, "on_validate_messages": messages_of, "prepare_messages": messages_of}
    agent = agent_of(saying("one", "two"), tools=no_tools, **hooks)

    async with mock_chat_agent(agent, telemetry=recorded.telemetry) as harness:
        await harness.send_message("hello")
        await harness.advance_to_suspend()
        await harness.send_action({"type": "undo"})

    assert recorded.tree() == [
        "chat.boot",
        "  onBoot()",
        "onPreload()",
        "waiting for first message",
        "chat turn 1",
        "  tools()",
        "  onValidateMessages()",
        "  hydrateMessages()",
        "  onChatStart()",
        "  onTurnStart()",
        "  prepareMessages()",
        "  run()",
        "  stream response",
        "  onBeforeTurnComplete()",
        "  onTurnComplete()",
        "waiting for next message",
        "  onChatSuspend()",
        "  onChatResume()",
        "chat action",
        "  tools()",
        "  hydrateMessages()",
        "  onAction()",
        "waiting for next message",
    ]
    assert recorded.open == []


async def test_a_turn_says_what_it_answers_and_what_it_took() -> None:
    recorded = Recorded()
    usage = {"inputTokens": {"total": 30}, "outputTokens": {"total": 4}}
    model = saying(script.text("one").finish("stop", usage=usage), script.text("two").finish("stop", usage=usage))
    agent = agent_of(model)

    async with mock_chat_agent(
        agent, chat_id="c-7", client_data={"user": "Ada"}, preload=False, telemetry=recorded.telemetry
    ) as harness:
        await harness.send_message("hello")
        await harness.send_message("and again")

    assert recorded.attributes("chat turn 2") == {
        "gen_ai.conversation.id": "c-7",
        "gen_ai.operation.name": "chat",
        "turn.number": 2,
        "chat.trigger": "submit-message",
        "chat.user_message": "and again",
        "chat.client_data": '{"user": "Ada"}',
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.total_tokens": 34,
        "gen_ai.usage.cumulative_input_tokens": 60,
        "gen_ai.usage.cumulative_output_tokens": 8,
        "gen_ai.usage.cumulative_total_tokens": 68,
    }
    assert {str((span.attributes or {})["gen_ai.conversation.id"]) for span in recorded.spans} == {"c-7"}


async def test_an_action_is_no_turn() -> None:
    recorded = Recorded()

    async with traced(recorded, on_action=nothing) as harness:
        await harness.send_message("hello")
        await harness.send_action({"type": "undo"})
        await harness.send_message("more")

    of_action = recorded.attributes("chat action")
    assert of_action["chat.trigger"] == "action"
    assert not {"turn.number", "chat.user_message", "chat.client_data"} & of_action.keys()
    assert [name for name in recorded.names if name.startswith("chat ")] == [
        "chat turn 1",
        "chat action",
        "chat turn 2",
    ]


async def test_a_regenerate_shows_the_text_that_is_answered_again() -> None:
    recorded = Recorded()

    async with traced(recorded) as harness:
        await harness.send_message("hello")
        await harness.send_regenerate()

    assert recorded.attributes("chat turn 2")["chat.trigger"] == "regenerate-message"
    assert recorded.attributes("chat turn 2")["chat.user_message"] == "hello"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("x" * 80, "x" * 80), ("x" * 200, "x" * 80), ("half \ud83d of a pair", "half ? of a pair"), ("Grüße", "Grüße")],
)
async def test_a_text_is_shown_by_its_first_80_characters_and_can_always_be_encoded(text: str, shown: str) -> None:
    recorded = Recorded()

    async with traced(recorded) as harness:
        await harness.send_message(user("u-1", text))

    assert recorded.attributes("chat turn 1")["chat.user_message"] == shown


async def test_what_users_send_can_be_kept_out() -> None:
    recorded = Recorded()
    telemetry = OpenTelemetry(tracer_provider=recorded.provider, record_content=False)

    async with mock_chat_agent(agent_of(), client_data="secret", preload=False, telemetry=telemetry) as harness:
        await harness.send_message("secret")

    assert "secret" not in str([span.attributes for span in recorded.spans])
    assert recorded.attributes("chat turn 1")["turn.number"] == 1


async def test_a_failing_hook_marks_its_own_span_and_the_turn() -> None:
    recorded = Recorded()

    async with traced(recorded, on_turn_start=raising(LookupError("no such customer"))) as harness:
        turn = await harness.send_message("hello")
        assert isinstance(turn.error, LookupError)

    assert recorded.failed == {"onTurnStart()": "no such customer", "chat turn 1": "no such customer"}
    assert recorded.exceptions("onTurnStart()") == [("LookupError", "no such customer")]
    assert recorded.exceptions("chat turn 1") == [("LookupError", "no such customer")]
    assert recorded.attributes("onTurnStart()")["error.type"] == "LookupError"
    assert recorded.tree()[-1] == "waiting for next message (after error)"


async def test_a_hook_that_fails_behind_the_turn_marks_it_too() -> None:
    recorded = Recorded()
    calls: list[Any] = []

    def fail_once(event: Any) -> None:
        calls.append(event)
        if len(calls) == 1:
            raise RuntimeError("no database")

    async with traced(recorded, on_turn_complete=fail_once) as harness:
        turn = await harness.send_message("hello")
        assert turn.error is not None

    assert recorded.failed == {"onTurnComplete()": "no database", "chat turn 1": "no database"}
    assert recorded.names.count("onTurnComplete()") == 2
    assert recorded.names.count("snapshot.write") == 1


async def test_a_model_that_fails_marks_the_turn_though_the_turn_goes_to_its_end() -> None:
    recorded = Recorded()
    options: Any = {"on_error": str}

    async with traced(
        recorded, saying(script.error(RuntimeError("no model"))), ui_message_stream_options=options
    ) as harness:
        turn = await harness.send_message("hello")
        assert turn.error_texts == ["no model"]

    assert recorded.failed == {"chat turn 1": "no model"}


async def test_a_source_that_breaks_marks_the_stream() -> None:
    recorded = Recorded()
    source = ChunkStream([{"type": "start"}], error=ConnectionError("gone"))

    async with traced(recorded, run=lambda event: source) as harness:
        turn = await harness.send_message("hello")
        assert turn.error is not None

    assert recorded.failed == {"stream response": "gone", "chat turn 1": "gone"}


async def test_a_stop_is_no_failure() -> None:
    recorded = Recorded()
    model = saying(script.text("half").hold("middle").text("more"))

    async with traced(recorded, model) as harness:
        pending = harness.begin_message("hello")
        await model.reached("middle")
        await harness.send_stop()
        turn = await pending
        assert turn.stopped

    assert recorded.failed == {}
    assert recorded.attributes("chat turn 1")["chat.stopped"] is True


async def test_a_run_that_ends_by_the_stop_is_no_failure() -> None:
    recorded = Recorded()

    async def wait_and_raise(event: Any) -> None:
        await event.stop_signal.wait()
        event.stop_signal.raise_if_aborted()

    async with traced(recorded, run=wait_and_raise) as harness:
        pending = harness.begin_message("hello")
        await harness.wait_for(lambda _: "run()" in recorded.names)
        await harness.send_stop()
        await pending

    assert recorded.failed == {}
    assert recorded.events("run()") == ["aborted"]


async def test_spans_last_as_long_as_their_work_on_the_runs_clock() -> None:
    recorded = Recorded()

    async def think(event: Any) -> None:
        await chat.sleep(2.5)

    model = saying(script.text("slow").pause(4).text("ly"))
    async with traced(recorded, model, on_turn_start=think) as harness:
        await harness.send_message("hello")
        await harness.advance_to_suspend()
        await harness.advance(100)

    assert recorded.seconds("onTurnStart()") == pytest.approx(2.5)
    assert recorded.seconds("stream response") == pytest.approx(4)
    assert recorded.seconds("chat turn 1") == pytest.approx(6.5)
    assert recorded.seconds("waiting for next message") == pytest.approx(130)
    assert recorded.events("waiting for next message") == ["suspended"]


async def test_the_prompt_and_the_callers_facts_stand_on_the_turn() -> None:
    recorded = Recorded()
    model = saying("ok")

    def run(event: Any) -> Any:
        chat.prompt.set(Prompt(text="Be kind.", prompt_id="support", version=3, labels=("current",)))
        chat.to_stream_text_options(telemetry={"plan": "gold"})
        return asking(model)(event)

    async with traced(recorded, run=run) as harness:
        await harness.send_message("hello")

    of_turn = recorded.attributes("chat turn 1")
    assert {name: value for name, value in of_turn.items() if "prompt" in name or "plan" in name} == {
        "chat.prompt.id": "support",
        "chat.prompt.version": 3,
        "chat.prompt.labels": ("current",),
        "chat.telemetry.plan": "gold",
    }


async def test_without_a_prompt_the_callers_facts_are_not_told() -> None:
    recorded = Recorded()
    model = saying("ok")

    def run(event: Any) -> Any:
        chat.to_stream_text_options(telemetry={"plan": "gold"})
        return asking(model)(event)

    async with traced(recorded, run=run) as harness:
        await harness.send_message("hello")

    assert "chat.telemetry.plan" not in recorded.attributes("chat turn 1")


async def test_an_answer_piped_by_hand_is_a_stream_below_its_hook() -> None:
    recorded = Recorded()
    model = saying("ok")

    async def run(event: Any) -> None:
        await chat.pipe(asking(model)(event))

    async with traced(recorded, run=run) as harness:
        await harness.send_message("hello")

    assert recorded.parent("stream response") == "run()"


async def test_an_answer_of_an_action_is_a_stream_below_it() -> None:
    recorded = Recorded()
    model = saying("done")

    async with mock_chat_agent(
        agent_of(on_action=lambda event: stream_text(model=model, prompt="hi")), telemetry=recorded.telemetry
    ) as harness:
        await harness.send_action({"type": "say"})

    assert recorded.parent("stream response") == "chat action"


async def test_how_many_spans_there_are_does_not_depend_on_the_length_of_the_answer() -> None:
    counts: list[int] = []
    for length in (1, 500):
        recorded = Recorded()
        async with traced(recorded, saying(script.text("x" * length, chunks=["x"] * length))) as harness:
            turn = await harness.send_message("hello")
            assert len(turn.text) == length
        counts.append(sum(1 + len(span.events) for span in recorded.spans))

    assert counts[0] == counts[1]
