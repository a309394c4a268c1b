"""How what a turn brings comes into the chain: validation, hydration, merging, regenerate (rules T-10 to T-28)."""

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
    events,
    ids,
    kept,
    nothing,
    parts_of,
    prompt_of,
    roles,
    saying,
    texts,
    tool_part,
    types,
    user,
)
from chatagent import chat, tool
from chatagent.agent import upsert_incoming_message
from chatagent.errors import HookResultError, InvalidMessageError
from chatagent.ui import read_ui_message_stream
from chatagent_test import MockLanguageModel, mock_chat_agent, script, simulate_stream

if TYPE_CHECKING:
    from chatagent.ui import UIMessage

pytestmark = pytest.mark.anyio


# --- one turn after the other ---


async def test_an_answer_is_streamed_to_the_client_and_ends_with_turn_complete() -> None:
    """MCA-002."""
    model = MockLanguageModel(script.text("hello world", chunks=["hello ", "world"]))

    async with mock_chat_agent(agent_of(model)) as harness:
        turn = await harness.send_message("hi")

    assert turn.text == "hello world"
    assert types(turn) == [*TEXT_TURN[:4], *TEXT_TURN[3:]]
    assert [chunk.type for chunk in turn.chunks] == types(turn)[:-1]


async def test_turns_accumulate() -> None:
    """MCA-004."""
    model = saying("one", "two", "three")

    async with mock_chat_agent(agent_of(model)) as harness:
        for text in ("a", "b", "c"):
            await harness.send_message(text)

    assert [len(event.messages) for event in events(harness, "run")] == [1, 3, 5]
    assert [len(call.prompt) for call in model.do_stream_calls] == [1, 3, 5]
    assert texts(kept(harness)) == ["a", "one", "b", "two", "c", "three"]


async def test_turns_are_numbered_from_zero_and_answers_have_ids_of_their_own() -> None:
    async with mock_chat_agent(agent_of(saying("one", "two"))) as harness:
        first = await harness.send_message("a")
        second = await harness.send_message("b")

    assert (first.index, second.index) == (0, 1)
    assert first.message is not None
    assert second.message is not None
    assert first.message.id != second.message.id
    assert first.raw_chunks[0] == {"type": "start", "messageId": first.message.id}


async def test_the_finish_reason_is_told() -> None:
    """MCA-019."""
    agent = agent_of(saying(script.text("cut").finish("length"), "whole"), on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        first = await harness.send_message("a")
        second = await harness.send_message("b")

    assert [event.finish_reason for event in events(harness, "on_turn_complete")] == ["length", "stop"]
    assert (first.finish_reason, second.finish_reason) == ("length", "stop")


async def test_messages_that_come_while_a_turn_is_on_become_turns_of_their_own_in_order() -> None:
    """PMD-001, F-1, F-4: the reference once ran a message twice, and once lost all but the first."""
    model = saying(script.text("one").hold("here"), "two", "three")

    async with mock_chat_agent(agent_of(model)) as harness:
        first = harness.begin_message("a")
        await model.reached("here")
        second, third = harness.begin_message("b"), harness.begin_message("c")
        await harness.settle()
        model.release("here")
        turns = [await first, await second, await third]

    assert [turn.text for turn in turns] == ["one", "two", "three"]
    assert [turn.index for turn in turns] == [0, 1, 2]
    assert texts(kept(harness)) == ["a", "one", "b", "two", "c", "three"]


async def test_a_message_behind_a_failed_turn_is_answered_once() -> None:
    """PMD-002, F-5, F-6: the failed turn's handler stole or doubled what came later."""
    model = saying(script.text("two").hold("here"), "three")
    calls = 0

    def fail_once(event: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("first")

    async with mock_chat_agent(agent_of(model, on_turn_start=fail_once)) as harness:
        failed = await harness.send_message("a")
        second = harness.begin_message("b")
        await model.reached("here")
        third = harness.begin_message("c")
        model.release("here")
        turns = [await second, await third]

    assert types(failed) == FAILED_TURN
    assert [turn.text for turn in turns] == ["two", "three"]
    assert len(harness.turns) == 3


# --- ids ---


async def test_a_message_without_an_id_gets_one() -> None:
    """G-57: the reference takes the second such message for the first, and it vanishes."""
    message = {"role": "user", "parts": [{"type": "text", "text": "hi"}]}

    async with mock_chat_agent(agent_of(), ids=iter("abcdefgh").__next__) as harness:
        await harness.send_message(message)
        await harness.send_message(message)

    assert ids(kept(harness)) == ["a", "b", "c", "d"]


async def test_a_user_message_whose_id_is_known_changes_nothing_and_continues_the_answer() -> None:
    agent = agent_of(saying("one", " and more"), on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        first = await harness.send_message(user("u-1", "hello"))
        again = await harness.send_message(user("u-1", "something else"))

    assert first.message is not None
    assert texts(kept(harness)) == ["hello", "one and more"]
    assert again.raw_chunks[0]["messageId"] == first.message.id
    assert ids(events(harness, "on_turn_complete")[1].new_ui_messages) == [first.message.id]


async def test_unknown_parts_and_unknown_fields_of_a_message_are_kept_as_they_came() -> None:
    wire = {
        "id": "u-1",
        "role": "user",
        "parts": [{"type": "hologram", "beam": [1, 2]}, {"type": "text", "text": "look", "mood": "eager"}],
        "metadata": {"from": "phone"},
        "starred": True,
    }
    model = saying("ok")

    async with mock_chat_agent(agent_of(model)) as harness:
        await harness.send_message(wire)

    assert kept(harness)[0].to_wire() == wire
    assert [part.text for part in prompt_of(model)[0].content] == ["look"]


# --- validation ---


async def test_validation_replaces_what_comes_in() -> None:
    agent = agent_of(on_validate_messages=lambda event: [user(m.id, m.text.upper()) for m in event.messages])

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("quiet")

    assert texts(kept(harness)) == ["QUIET", "ok"]


async def test_validation_may_return_wire_messages() -> None:
    agent = agent_of(on_validate_messages=lambda event: [message.to_wire() for message in event.messages])

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message(user("u-1"))

    assert turn.error is None
    assert kept(harness)[0] == user("u-1")


async def test_validation_that_returns_no_list_fails_the_turn_and_says_what_it_should_return() -> None:
    async with mock_chat_agent(agent_of(on_validate_messages=nothing)) as harness:
        turn = await harness.send_message(user("u-1"))

    assert isinstance(turn.error, HookResultError)
    assert str(turn.error) == "`on_validate_messages` must return a list of UI messages, it returned None"
    assert kept(harness) == [user("u-1")]


async def test_a_validation_that_returns_something_broken_fails_the_turn() -> None:
    agent = agent_of(on_validate_messages=lambda event: [{"role": "user", "parts": [{"type": "text"}]}])

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message(user("u-1"))

    assert isinstance(turn.error, InvalidMessageError)
    assert turn.error.field == "parts[0].text"
    assert kept(harness) == [user("u-1")]


async def test_validation_sees_the_slim_answer_to_a_tool_call() -> None:
    """MCA-011."""
    model = saying(script.tool_call("ask_user", {}, tool_call_id="tc-1"), "thanks")
    seen: list[tuple[str, list[str]]] = []

    def validate(event: Any) -> Any:
        seen.append((event.trigger, roles(event.messages)))
        return event.messages

    async with mock_chat_agent(agent_of(model, tools=ASK_USER, on_validate_messages=validate)) as harness:
        turn = await harness.send_message("hello")
        assert turn.message is not None
        answer = assistant(turn.message.id, tool_part("tc-1", "output-available", name="ask_user", output="blue"))
        await harness.send_message(answer)

    assert seen == [("submit-message", ["user"]), ("submit-message", ["assistant"])]


async def test_validation_may_drop_everything() -> None:
    model = saying("ok")

    async with mock_chat_agent(agent_of(model, on_validate_messages=lambda event: [])) as harness:
        turn = await harness.send_message("spam")

    assert types(turn) == ["start", "error", "trigger:turn-complete"]
    assert model.do_stream_calls == []


async def test_an_interrupted_answer_that_a_client_sends_is_cleaned_before_anybody_sees_it() -> None:
    """C-64, T-11."""
    seen: list[UIMessage] = []

    def validate(event: Any) -> Any:
        seen.extend(event.messages)
        return event.messages

    message = assistant(
        "a-1",
        {"type": "text", "text": "half", "state": "streaming"},
        tool_part("tc-1", "input-available", input={}),
        tool_part("tc-2", "output-available", input={}, output=1),
    )

    async with mock_chat_agent(agent_of(on_validate_messages=validate)) as harness:
        await harness.send_message(message)

    assert seen == [
        assistant(
            "a-1",
            {"type": "text", "text": "half", "state": "done"},
            tool_part("tc-2", "output-available", input={}, output=1),
        )
    ]


# --- hydration ---


async def test_hydration_gets_the_message_that_came_in_and_gives_the_whole_chain() -> None:
    """MCA-005."""
    seen: list[list[str]] = []

    def hydrate(event: Any) -> Any:
        seen.append(ids(event.incoming_messages))
        return [user("u-0", "before"), assistant("a-0", "then"), *event.incoming_messages]

    model = saying("ok")

    async with mock_chat_agent(agent_of(model, hydrate_messages=hydrate)) as harness:
        await harness.send_message(user("u-first"))

    assert seen == [["u-first"]]
    assert roles(prompt_of(model)) == ["user", "assistant", "user"]


async def test_on_the_hydrated_path_a_fresh_user_message_is_new() -> None:
    """MCA-006, F-73: it was missing because the hook had stored it already."""
    store: list[UIMessage] = []

    def hydrate(event: Any) -> Any:
        upsert_incoming_message(store, event)
        return list(store)

    agent = agent_of(hydrate_messages=hydrate, on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(user("u-fresh"))

    (event,) = events(harness, "on_turn_complete")
    assert roles(event.new_ui_messages) == ["user", "assistant"]
    assert event.new_ui_messages[0].id == "u-fresh"
    assert roles(event.new_messages) == ["user", "assistant"]


async def test_on_the_hydrated_path_every_model_message_of_the_incoming_one_is_new() -> None:
    """G-45: the reference lists only the first. A message that the answer continues is listed twice (T-41)."""
    seen: list[Any] = []
    message = assistant("a-1", tool_part("tc-1", "output-available", input={}, output=1))
    agent = agent_of(
        hydrate_messages=lambda event: [user("u-1"), *event.incoming_messages],
        on_turn_complete=lambda event: seen.extend(event.new_messages),
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(message)

    assert roles(seen) == ["assistant", "tool", "assistant", "tool", "assistant"]


async def test_hydration_that_returns_no_list_fails_the_turn_and_keeps_the_message() -> None:
    agent = agent_of(hydrate_messages=nothing, on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message(user("u-1"))

    assert str(turn.error) == "`hydrate_messages` must return a list of UI messages, it returned None"
    (event,) = events(harness, "on_turn_complete")
    assert event.ui_messages == [user("u-1")]


async def test_what_hydration_returns_may_change_later_without_effect() -> None:
    store: list[Any] = []

    def hydrate(event: Any) -> Any:
        store.extend(event.incoming_messages)
        return store

    agent = agent_of(hydrate_messages=hydrate, on_turn_start=lambda event: store.clear(), on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert texts(events(harness, "on_turn_complete")[0].ui_messages) == ["hello", "ok"]


async def test_regenerate_does_not_trim_what_hydration_returns() -> None:
    """G-47."""
    model = saying("ok")
    agent = agent_of(model, hydrate_messages=lambda event: [user("u-1"), assistant("a-1", "old")])

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_regenerate()

    (event,) = events(harness, "hydrate_messages")
    assert (event.trigger, event.incoming_messages) == ("regenerate-message", [])
    assert turn.raw_chunks[0]["messageId"] == "a-1"
    assert roles(prompt_of(model)) == ["user", "assistant"]


# --- regenerate ---


async def test_regenerate_asks_again_with_the_last_answer_gone() -> None:
    """MCA-036."""
    model = saying("first-reply", "regenerated")

    async with mock_chat_agent(agent_of(model)) as harness:
        first = await harness.send_message("hello")
        second = await harness.send_regenerate()

    assert first.message is not None
    assert second.message is not None
    assert second.text == "regenerated"
    assert roles(prompt_of(model, 1)) == ["user"]
    assert texts(kept(harness)) == ["hello", "regenerated"]
    assert second.message.id != first.message.id


async def test_regenerate_takes_back_everything_behind_the_last_user_message() -> None:
    model = saying("new")
    history = [user("u-1"), assistant("a-1", "one"), user("u-2"), assistant("a-2", "two"), assistant("a-3", "three")]
    snapshot = {"version": 1, "savedAt": 0, "messages": [message.to_wire() for message in history]}

    async with mock_chat_agent(agent_of(model), continuation=True, snapshot=snapshot) as harness:
        turn = await harness.send_regenerate()

    assert turn.message is not None
    assert ids(kept(harness)) == ["u-1", "a-1", "u-2", turn.message.id]


@pytest.mark.parametrize("trigger", ["regenerate-message", "submit-message"])
async def test_a_turn_without_messages_is_run_with_a_warning_in_the_log(
    trigger: str, caplog: pytest.LogCaptureFixture
) -> None:
    """G-48."""
    model = saying("never")

    async with mock_chat_agent(agent_of(model)) as harness:
        await harness.start()
        payload = {"chatId": "test-chat", "trigger": trigger}
        await harness.session.in_.append({"kind": "message", "payload": payload})
        await harness.wait_for(lambda it: bool(it.turns))
        await harness.wait_idle()
        turn = harness.turns[0]

    (run,) = events(harness, "run")
    assert run.messages == []
    assert "agent 'tester': turn 0 has no messages; the model is given an empty list" in caplog.messages
    assert types(turn) == ["start", "error", "trigger:turn-complete"]
    assert model.do_stream_calls == []


# --- the list that the model sees ---


async def test_prepare_messages_decides_what_the_model_sees_and_nothing_else() -> None:
    model = saying("one", "two")
    agent = agent_of(
        model, prepare_messages=lambda event: [{"role": "system", "content": "Be brief."}, *event.messages]
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("a")
        await harness.send_message("b")

    assert [roles(call.prompt) for call in model.do_stream_calls] == [
        ["system", "user"],
        ["system", "user", "assistant", "user"],
    ]
    assert roles(kept(harness)) == ["user", "assistant", "user", "assistant"]


async def test_prepare_messages_that_returns_no_list_fails_the_turn() -> None:
    async with mock_chat_agent(agent_of(prepare_messages=nothing)) as harness:
        turn = await harness.send_message("hello")

    assert str(turn.error) == "`prepare_messages` must return a list of model messages, it returned None"


async def test_a_pending_approval_stays_last_whatever_prepare_messages_does() -> None:
    """M-12, F-78."""
    approved = tool_part("tc-1", "approval-responded", input={}, approval={"id": "ap-1", "approved": True})
    seen: list[Any] = []

    def prepare(event: Any) -> Any:
        return [*event.messages[:-1], event.messages[-1], {"role": "user", "content": "one more thing"}]

    agent = agent_of(run=lambda event: seen.extend(event.messages), prepare_messages=prepare)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(assistant("a-1", approved))

    assert roles(seen) == ["assistant", "user", "tool"]


async def test_a_prepare_messages_that_drops_the_approval_gets_it_back() -> None:
    approved = tool_part("tc-1", "approval-responded", input={}, approval={"id": "ap-1", "approved": True})
    seen: list[Any] = []
    agent = agent_of(run=lambda event: seen.extend(event.messages), prepare_messages=lambda event: event.messages[:-1])

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(assistant("a-1", approved))

    assert roles(seen) == ["assistant", "tool"]


async def test_ids_of_openai_items_are_not_shown_to_the_model_and_stay_in_the_message() -> None:
    """F-84."""
    reasoning = {
        "type": "reasoning",
        "text": "hm",
        "state": "done",
        "providerMetadata": {"openai": {"itemId": "rs-1", "tier": "x"}, "other": {"itemId": "kept"}},
    }
    text = {"type": "text", "text": "so", "providerMetadata": {"openai": {"itemId": "msg-1"}}}
    model = saying("ok")

    async with mock_chat_agent(agent_of(model)) as harness:
        await harness.send_message(assistant("a-1", reasoning, text))

    thought, said = prompt_of(model)[0].content
    assert thought.provider_options == {"openai": {"tier": "x"}, "other": {"itemId": "kept"}}
    assert said.provider_options == {}
    assert parts_of(kept(harness)[0])[:2] == [reasoning, text]


async def test_a_response_of_data_parts_alone_sends_no_empty_message_to_the_model() -> None:
    """G-56."""
    model = saying("two")
    run_calls = 0

    def run(event: Any) -> Any:
        nonlocal run_calls
        run_calls += 1
        if run_calls > 1:
            return asking(model)(event)
        return chat.response.write({"type": "data-chart", "data": [1]})

    async with mock_chat_agent(agent_of(run=run)) as harness:
        first = await harness.send_message("a")
        await harness.send_message("b")

    assert first.message is not None
    assert roles(kept(harness)) == ["user", "assistant", "user", "assistant"]
    assert roles(prompt_of(model)) == ["user", "user"]


@pytest.mark.parametrize("state", ["input-streaming", "input-available"])
async def test_a_stored_call_without_an_outcome_is_left_out_for_the_model(state: str) -> None:
    """1.16, F-85: wherever the history comes from, such a call breaks no conversion, and stays in the history."""
    model = saying("ok")
    stored = [user("u-0"), assistant("a-0", "so", tool_part("tc-1", state, input={}))]
    agent = agent_of(model, hydrate_messages=lambda event: [*stored, *event.incoming_messages], on_turn_start=nothing)

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message(user("u-1"))

    assert (turn.error, turn.text) == (None, "ok")
    assert [part.type for message in prompt_of(model) for part in message.content] == ["text"] * 3
    assert events(harness, "on_turn_start")[0].ui_messages[1] == stored[1]


async def test_validation_is_not_asked_where_nothing_came_in() -> None:
    """T-21, F-75: a validator that is called with an empty list rejects it."""
    seen: list[list[str]] = []

    def validate(event: Any) -> Any:
        seen.append(ids(event.messages))
        return event.messages

    agent = agent_of(saying("one", "two", "three"), on_validate_messages=validate, on_action=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(user("u-1"))
        await harness.send_regenerate()
        await harness.send_action("look")
        await harness.send_message(user("u-2"))

    assert seen == [["u-1"], ["u-2"]]


async def test_every_start_has_the_id_of_its_answer_and_what_is_written_meanwhile_joins_it() -> None:
    """1.16, F-80: a client that met a `start` without an id would begin anew, and lose the text in front."""

    @tool
    def draw() -> str:
        """Draw."""
        chat.response.write({"type": "data-chart", "data": 1})
        return "drawn"

    model = saying(script.text("Look:").tool_call("draw", {}), "there")

    async with mock_chat_agent(agent_of(model, tools=[draw])) as harness:
        turn = await harness.send_message("hello")
        answers = [message async for message in read_ui_message_stream(simulate_stream(turn.chunks))]

    starts = [chunk for chunk in turn.raw_chunks if chunk["type"] == "start"]
    assert turn.message is not None
    assert [chunk["messageId"] for chunk in starts] == [turn.message.id]
    assert {message.id for message in answers} == {turn.message.id}
    assert answers[-1].text == "Look:there"
    assert "data-chart" in [part.type for part in answers[-1].parts]


async def test_messages_that_come_during_a_turn_that_fails_are_answered_next() -> None:
    """E-8, F-6: without anybody sending more."""
    model = saying(script.text("half").hold("here").breaks(ConnectionError("gone")), "two", "three")

    async with mock_chat_agent(agent_of(model)) as harness:
        first = harness.begin_message("a")
        await model.reached("here")
        later = [harness.begin_message(text) for text in ("b", "c")]
        await harness.settle()
        model.release("here")
        failed = await first
        turns = [await each for each in later]

    assert str(failed.error) == "gone"
    assert [turn.text for turn in turns] == ["two", "three"]
    assert texts(kept(harness)) == ["a", "half", "b", "two", "c", "three"]
