"""Messages that come while a turn is on, with `pending_messages` (rules N-70 to N-74, G-21, G-25, G-50, G-62)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from agent.making import TEXT_TURN, agent_of, assistant, ids, kept, roles, saying, texts, types, user
from agent.sessions import live_session
from agent.steering import (
    CALL,
    MARK,
    always,
    called,
    never,
    part_types,
    said,
    steering_agent,
    while_held,
)
from chatagent import chat
from chatagent.errors import AgentDefinitionError, HarnessStateError, HookResultError
from chatagent_test import mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.agent import PendingMessagesOptions

pytestmark = pytest.mark.anyio

# --- injecting ---


async def test_a_message_that_comes_between_two_steps_reaches_the_model_at_the_next() -> None:
    model = saying(CALL, "done")
    agent = steering_agent(model, {"should_inject": always})

    async with mock_chat_agent(agent) as harness:
        first = harness.begin_message(user("u-1", "go"))
        await while_held(harness, model, user("u-2", "faster"))
        turn = await first

    asked = model.do_stream_calls[1].prompt
    assert roles(asked) == ["user", "assistant", "tool", "user"]
    assert said(asked)[-1]["content"] == [{"type": "text", "text": "faster"}]
    assert turn.text == "done"
    assert len(harness.turns) == 1


async def test_the_client_is_told_between_the_steps() -> None:
    model = saying(CALL, "done")
    agent = steering_agent(model, {"should_inject": always})

    async with mock_chat_agent(agent) as harness:
        first = harness.begin_message(user("u-1", "go"))
        await while_held(harness, model, user("u-2", "faster"))
        turn = await first

    shown = types(turn)
    told = next(chunk for chunk in turn.raw_chunks if chunk["type"] == MARK)
    assert shown[shown.index(MARK) - 1 : shown.index(MARK) + 2] == ["finish-step", MARK, "start-step"]
    assert told["data"] == {"messageIds": ["u-2"], "messages": [{"id": "u-2", "text": "faster"}]}
    assert "transient" not in told


async def test_what_waits_is_injected_together_and_in_order() -> None:
    model = saying(CALL, "done")
    asked: list[Any] = []
    agent = steering_agent(model, {"should_inject": lambda event: asked.append(event) or True})

    async with mock_chat_agent(agent) as harness:
        first = harness.begin_message(user("u-1"))
        await while_held(harness, model, user("u-2", "b"), user("u-3", "c"))
        await first

    assert len(asked) == 1
    assert texts(asked[0].messages) == ["b", "c"]
    assert (asked[0].step_number, len(asked[0].steps)) == (0, 1)
    assert roles(asked[0].model_messages) == ["user", "assistant", "tool"]
    assert ids(kept(harness))[:3] == ["u-1", "u-2", "u-3"]
    assert roles(model.do_stream_calls[1].prompt) == ["user", "assistant", "tool", "user", "user"]


async def test_a_message_that_comes_before_the_first_step_may_be_injected_into_it() -> None:
    model = saying("done")
    gate = anyio.Event()
    events: list[Any] = []

    async def wait(event: Any) -> None:
        await gate.wait()

    agent = steering_agent(model, {"should_inject": lambda event: events.append(event) or True}, on_turn_start=wait)

    async with mock_chat_agent(agent) as harness:
        first = harness.begin_message(user("u-1", "go"))
        await harness.wait_for(lambda it: called(it, "on_turn_start"))
        harness.begin_message(user("u-2", "wait"))
        await anyio.wait_all_tasks_blocked()
        gate.set()
        await first

    assert (events[0].step_number, events[0].steps) == (-1, [])
    assert roles(model.do_stream_calls[0].prompt) == ["user", "user"]
    assert texts(kept(harness)) == ["go", "wait", "done"]
    assert part_types(kept(harness)[2]) == [MARK, "step-start", "text"]


# --- not injecting ---


@pytest.mark.parametrize("pending", [{}, {"should_inject": never}])
async def test_a_message_that_no_step_took_in_becomes_the_next_turn(pending: PendingMessagesOptions[Any]) -> None:
    """G-25."""
    model = saying(CALL, "done", "second")

    async with mock_chat_agent(steering_agent(model, pending)) as harness:
        first = harness.begin_message(user("u-1", "go"))
        await while_held(harness, model, user("u-2", "faster"))
        await first
        await harness.wait_idle()

    assert [turn.text for turn in harness.turns] == ["done", "second"]
    assert texts(kept(harness)) == ["go", "done", "faster", "second"]
    assert types(harness.turns[1]) == TEXT_TURN


async def test_without_the_option_every_message_is_a_turn() -> None:
    model = saying(CALL, "done", "second")

    async with mock_chat_agent(steering_agent(model, None)) as harness:
        first = harness.begin_message(user("u-1"))
        await while_held(harness, model, user("u-2"))
        await first
        await harness.wait_idle()

    assert len(harness.turns) == 2


async def test_a_message_that_comes_in_the_last_step_becomes_the_next_turn() -> None:
    model = saying(script.text("one").hold("held"), "two")

    async with mock_chat_agent(steering_agent(model, {"should_inject": always})) as harness:
        first = harness.begin_message(user("u-1"))
        await while_held(harness, model, user("u-2"))
        await first
        await harness.wait_idle()

    assert [turn.text for turn in harness.turns] == ["one", "two"]


async def test_a_message_sent_behind_a_stop_is_answered() -> None:
    model = saying(script.text("on and on").hold("held").text("and on"), "two")

    async with mock_chat_agent(steering_agent(model, {"should_inject": always})) as harness:
        first = harness.begin_message(user("u-1"))
        await model.reached("held")
        await harness.send_stop()
        second = await harness.send_message(user("u-2"))

    assert (await first).stopped
    assert second.text == "two"


async def test_messages_of_a_failed_turn_are_answered() -> None:
    model = saying(CALL, "second")

    def fail(event: Any) -> bool:
        raise RuntimeError("no")

    agent = steering_agent(model, {"should_inject": fail})

    async with mock_chat_agent(agent) as harness:
        first = harness.begin_message(user("u-1"))
        await while_held(harness, model, user("u-2"))
        await first
        await harness.wait_idle()

    assert harness.turns[0].error_texts == ["no"]
    assert harness.turns[1].text == "second"


RECEIVED: list[Any] = []


@pytest.mark.parametrize(
    "pending", [None, {"should_inject": always, "on_received": RECEIVED.append}], ids=["without", "with"]
)
async def test_commands_that_come_meanwhile_wait_for_their_turn(pending: PendingMessagesOptions[Any] | None) -> None:
    """G-21: with and without the option."""
    RECEIVED.clear()
    model = saying(CALL, "done", "again")
    actions: list[Any] = []
    agent = steering_agent(model, pending, on_action=lambda e: actions.append(e.action))

    async with mock_chat_agent(agent) as harness:
        first = harness.begin_message(user("u-1"))
        await model.reached("held")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: harness.send_regenerate())
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(lambda: harness.send_action("undo"))
            await harness.settle()
            model.release("held")
        await first

    assert RECEIVED == []
    assert actions == ["undo"]
    assert [turn.text for turn in harness.turns] == ["done", "again", ""]


async def test_close_that_comes_meanwhile_ends_the_run() -> None:
    """G-20, G-21."""
    async with live_session() as session:

        async def close(event: Any) -> None:
            session.submit(user("u-2"))
            session.put({"kind": "message", "payload": {"chatId": "c-1", "trigger": "close"}})
            session.submit(user("u-3"))
            await anyio.wait_all_tasks_blocked()

        session.submit(user("u-1"))
        ran = await session.run(steering_agent(saying("one", "two"), {}, on_turn_start=close))

    assert [turn.in_seq for turn in ran.turns] == [0, 1]


async def test_answers_to_a_tool_are_no_steering() -> None:
    model = saying(CALL, "done", "thanks")
    received: list[Any] = []
    agent = steering_agent(model, {"should_inject": always, "on_received": received.append})

    async with mock_chat_agent(agent) as harness:
        first = harness.begin_message(user("u-1"))
        await while_held(harness, model, assistant("a-9", "an answer from elsewhere"))
        await first
        await harness.wait_idle()

    assert received == []
    assert len(harness.turns) == 2


async def test_a_message_that_comes_during_an_action_is_a_turn() -> None:
    model = saying("done")
    gate = anyio.Event()

    async def act(event: Any) -> None:
        await gate.wait()

    agent = steering_agent(model, {"should_inject": always, "on_received": always}, on_action=act)

    async with mock_chat_agent(agent) as harness:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: harness.send_action("wait"))
            await harness.wait_for(lambda it: called(it, "on_action"))
            harness.begin_message(user("u-1"))
            await anyio.wait_all_tasks_blocked()
            gate.set()
        await harness.wait_idle()

    assert [turn.text for turn in harness.turns] == ["", "done"]
    assert called(harness, "on_received") == called(harness, "should_inject") == []


# --- the same message twice ---


async def test_a_message_sent_twice_is_injected_once() -> None:
    """F-14."""
    model = saying(CALL, "done")

    async with mock_chat_agent(steering_agent(model, {"should_inject": always})) as harness:
        first = harness.begin_message(user("u-1"))
        await while_held(harness, model, user("u-2"), user("u-2"))
        await first
        await harness.wait_idle()

    assert roles(model.do_stream_calls[1].prompt) == ["user", "assistant", "tool", "user"]
    assert len(harness.turns) == 1


@pytest.mark.parametrize("should_inject", [always, never])
async def test_what_a_client_sends_again_is_dropped(should_inject: Any) -> None:
    """G-25: be it injected, or about to become a turn."""
    model = saying(CALL, "done", "second")

    async with mock_chat_agent(steering_agent(model, {"should_inject": should_inject})) as harness:
        first = harness.begin_message(user("u-1"))
        await while_held(harness, model, user("u-2"))
        await first
        turns = len(harness.turns)
        await harness.wait_idle()
        with pytest.raises(HarnessStateError, match=r"^send_message: no turn comes of it: the run has taken in"):
            await harness.send_message(user("u-2"))
        await harness.wait_idle()

    assert len(harness.turns) == (1 if should_inject is always else 2)
    assert turns <= len(harness.turns)


async def test_dropped_input_counts_as_done() -> None:
    """G-26: the cursor covers what was injected, and what was sent again."""
    model = saying(CALL, "done", "third")

    async with mock_chat_agent(steering_agent(model, {"should_inject": always})) as harness:
        first = harness.begin_message(user("u-1"))
        await while_held(harness, model, user("u-2"), user("u-2"))
        await first
        after_first = harness.get_snapshot()
        await harness.send_message(user("u-3"))
        after_second = harness.get_snapshot()

    assert after_first is not None
    assert after_second is not None
    assert (after_first.last_in_event_id, after_second.last_in_event_id) == ("2", "3")


async def test_a_message_of_the_turn_that_is_on_is_no_steering() -> None:
    model = saying(CALL, "done", "and again")

    async with mock_chat_agent(steering_agent(model, {"should_inject": always})) as harness:
        first = harness.begin_message(user("u-1"))
        await while_held(harness, model, user("u-1"))
        await first
        await harness.wait_idle()

    assert roles(model.do_stream_calls[1].prompt) == ["user", "assistant", "tool"]
    assert len(harness.turns) == 2


# --- callbacks ---


async def test_on_received_is_called_at_once_and_on_injected_behind_the_chunk() -> None:
    model = saying(CALL, "done")
    seen: list[Any] = []
    agent = steering_agent(model, {"should_inject": always, "on_received": seen.append, "on_injected": seen.append})

    async with mock_chat_agent(agent) as harness:
        first = harness.begin_message(user("u-1"))
        await model.reached("held")
        harness.begin_message(user("u-2", "faster"))
        await harness.settle()
        early = list(seen)
        model.release("held")
        await first

    received, injected = seen
    assert early == [received]
    assert (received.message.id, received.chat_id, received.turn) == ("u-2", harness.chat_id, 0)
    assert ids(injected.messages) == ["u-2"]
    assert said(injected.injected_model_messages) == [{"role": "user", "content": [{"type": "text", "text": "faster"}]}]
    assert (injected.turn, injected.step_number) == (0, 0)


async def test_an_async_on_received_is_awaited_in_the_order_of_arrival() -> None:
    """G-50."""
    model = saying(CALL, "done", "second", "third")
    log: list[str] = []

    async def received(event: Any) -> None:
        log.append(f"{event.message.id} begins")
        await chat.sleep(1)
        log.append(f"{event.message.id} ends")

    agent = steering_agent(model, {"on_received": received})

    async with mock_chat_agent(agent, auto_advance=False) as harness:
        harness.begin_message(user("u-1"))
        await model.reached("held")
        harness.begin_message(user("u-2"))
        harness.begin_message(user("u-3"))
        await harness.settle()
        await harness.advance(2)
        model.release("held")
        await harness.settle()

    assert log == ["u-2 begins", "u-2 ends", "u-3 begins", "u-3 ends"]


async def test_on_received_does_not_hold_up_the_turn() -> None:
    """G-50: a result that comes later than the turn is nobody's."""
    model = saying(CALL, "done", "second", "third")
    log: list[str] = []

    async def received(event: Any) -> None:
        log.append(event.message.id)
        await chat.sleep(60)

    agent = steering_agent(model, {"on_received": received})

    async with mock_chat_agent(agent, auto_advance=False) as harness:
        first = harness.begin_message(user("u-1"))
        await while_held(harness, model, user("u-2"), user("u-3"))
        await first
        await harness.wait_idle()
        await harness.advance(60)

    assert log == ["u-2"]
    assert len(harness.turns) == 3


@pytest.mark.parametrize("name", ["on_received", "on_injected"])
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_failing_callback_changes_nothing(name: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    model = saying(CALL, "done")

    def fail(event: Any) -> None:
        raise RuntimeError("no")

    async def fail_later(event: Any) -> None:
        await anyio.lowlevel.checkpoint()
        raise RuntimeError("no")

    options: Any = {"should_inject": always, name: fail_later if kind == "async" else fail}

    async with mock_chat_agent(steering_agent(model, options)) as harness:
        first = harness.begin_message(user("u-1"))
        await while_held(harness, model, user("u-2"))
        turn = await first

    call = next(each for each in harness.hooks if each.name == name)
    assert call.outcome == "raised"
    assert turn.text == "done"
    assert roles(model.do_stream_calls[1].prompt) == ["user", "assistant", "tool", "user"]
    assert f"`{name}` of agent 'tester' failed" in caplog.text


async def test_prepare_must_return_a_list() -> None:
    model = saying(CALL, "second")
    errors: list[Any] = []
    agent = steering_agent(
        model,
        {"should_inject": always, "prepare": lambda event: "text"},
        on_error=lambda error: errors.append(error) or "failed",
    )

    async with mock_chat_agent(agent) as harness:
        first = harness.begin_message(user("u-1"))
        await while_held(harness, model, user("u-2"))
        turn = await first
        await harness.wait_idle()

    assert turn.error_texts == ["failed"]
    assert isinstance(errors[0], HookResultError)
    assert len(harness.turns) == 2


@pytest.mark.parametrize(
    ("pending", "problem"),
    [
        (
            {"should_injekt": always},
            "knows no 'should_injekt'; it has on_injected, on_received, prepare, should_inject",
        ),
        ({"prepare": 3}, r"\['prepare'\]` must be a function of one event, not 3"),
    ],
)
def test_options_are_checked_when_the_agent_is_defined(pending: Any, problem: str) -> None:
    with pytest.raises(AgentDefinitionError, match=f"^agent 'tester': `pending_messages.*{problem}$"):
        agent_of(pending_messages=pending)


# --- drivers ---


async def test_a_pending_turn_of_an_injected_message_is_the_turn_that_it_steered() -> None:
    model = saying(CALL, "done")

    async with mock_chat_agent(steering_agent(model, {"should_inject": always})) as harness:
        first = harness.begin_message(user("u-1"))
        await model.reached("held")
        second = harness.begin_message(user("u-2"))
        await harness.settle()
        model.release("held")

        assert (await second).raw_chunks == (await first).raw_chunks


async def test_messages_that_no_step_took_in_become_turns_in_the_order_of_arrival() -> None:
    """G-25, D-5: each a turn of its own, ahead of what comes later."""
    model = saying(CALL, "done", "second", "third", "fourth")

    async with mock_chat_agent(steering_agent(model, {"should_inject": never})) as harness:
        first = harness.begin_message(user("u-1", "go"))
        await while_held(harness, model, user("u-2", "b"), user("u-3", "c"))
        await first
        last = await harness.send_message(user("u-4", "d"))

    assert texts(kept(harness)) == ["go", "done", "b", "second", "c", "third", "d", "fourth"]
    assert last.index == 3
