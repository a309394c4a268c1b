"""Sending: what each driver sends, when it returns, and what it returns (D4, G-3)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from agent.making import TEXT_TURN, agent_of, asking, assistant, ids, kept, saying, texts, types, user
from chatagent import chat
from chatagent.errors import AgentRunEndedError, HarnessModeError, InvalidArgumentError
from chatagent.ui import TextDelta
from chatagent_test import ChatAgentHarness, Turn, mock_chat_agent, script

pytestmark = pytest.mark.anyio


def nothing(event: Any) -> None:
    return None


# --- what may be sent ---


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        user("msg-1"),
        {"id": "msg-1", "role": "user", "parts": [{"type": "text", "text": "hello"}]},
        {"role": "user", "parts": [{"type": "text", "text": "hello"}]},
    ],
    ids=["string", "object", "wire", "wire-without-id"],
)
async def test_a_message_may_be_a_text_an_object_or_a_dict(message: Any) -> None:
    async with mock_chat_agent(agent_of()) as harness:
        await harness.send_message(message)

    assert kept(harness)[0] == user("msg-1")
    assert ids(kept(harness)) == ["msg-1", "msg-2"]


async def test_every_payload_carries_the_client_data() -> None:
    seen: list[Any] = []
    agent = agent_of(
        on_boot=lambda event: seen.append(event.client_data),
        on_turn_start=lambda event: seen.append(event.client_data),
        on_action=lambda event: seen.append(event.client_data),
    )

    async with mock_chat_agent(agent, client_data={"user": "ada"}) as harness:
        await harness.send_message("hello")
        await harness.send_regenerate()
        await harness.send_action("look")

    assert seen == [{"user": "ada"}] * 4


async def test_the_id_of_the_chat_is_everywhere_the_same() -> None:
    seen: list[str] = []
    agent = agent_of(on_boot=lambda event: seen.append(event.chat_id), run=lambda event: seen.append(event.chat_id))

    async with mock_chat_agent(agent, chat_id="chat-7") as harness:
        await harness.send_message("hello")

    assert harness.chat_id == "chat-7"
    assert seen == ["chat-7", "chat-7"]


# --- what a turn shows ---


async def test_a_turn_shows_chunks_text_message_hooks_and_how_it_ended() -> None:
    async with mock_chat_agent(agent_of(saying("hi"), on_turn_start=nothing)) as harness:
        turn = await harness.send_message("hello")

    assert turn.index == 0
    assert turn.text == "hi"
    assert types(turn) == TEXT_TURN
    assert [chunk.type for chunk in turn.chunks] == TEXT_TURN[:-1]
    assert [chunk.delta for chunk in turn.chunks if isinstance(chunk, TextDelta)] == ["hi"]
    assert turn.message == kept(harness)[1]
    assert [call.name for call in turn.hooks] == ["on_turn_start", "run"]
    assert (turn.finish_reason, turn.stopped, turn.error, turn.error_texts) == ("stop", False, None, [])
    assert repr(turn) == "Turn(index=0, text='hi', finish_reason='stop', error=None)"


async def test_lists_of_a_turn_and_of_the_harness_are_the_reader_s_own() -> None:
    async with mock_chat_agent(agent_of(saying("hi"))) as harness:
        turn = await harness.send_message("hello")
        for own in (
            turn.chunks,
            turn.raw_chunks,
            turn.hooks,
            harness.all_chunks,
            harness.all_raw_chunks,
            harness.hooks,
            harness.turns,
            harness.out_records,
        ):
            own.clear()

    assert len(turn.chunks) == 7
    assert len(turn.raw_chunks) == 8
    assert len(turn.hooks) == 1
    assert len(harness.all_chunks) == 7
    assert len(harness.all_raw_chunks) == 8
    assert len(harness.turns) == 1


async def test_the_harness_shows_all_turns_and_actions_in_order() -> None:
    async with mock_chat_agent(agent_of(saying("one", "two"), on_action=lambda event: "acted")) as harness:
        first = await harness.send_message("a")
        action = await harness.send_action("x")
        second = await harness.send_message("b")

    assert [turn.text for turn in harness.turns] == ["one", "acted", "two"]
    assert [turn.raw_chunks for turn in harness.turns] == [turn.raw_chunks for turn in (first, action, second)]
    assert harness.all_chunks == [*first.chunks, *action.chunks, *second.chunks]


async def test_a_fresh_harness_has_nothing_of_the_one_before() -> None:
    """MCA-033, X-11."""
    agent = agent_of(saying("one", "two"))
    async with mock_chat_agent(agent) as first:
        await first.send_message("a")

    async with mock_chat_agent(agent) as second:
        before = (second.all_chunks, second.get_snapshot(), second.turns)
        turn = await second.send_message("b")

    assert before == ([], None, [])
    assert second.all_chunks == turn.chunks


# --- begin_message and overlapping sends ---


async def test_a_message_that_was_begun_is_awaited_later() -> None:
    async with mock_chat_agent(agent_of(saying("hi"))) as harness:
        pending = harness.begin_message("hello")
        turn = await pending
        again = await pending

    assert turn.text == again.text == "hi"
    assert turn.index == again.index == 0


async def test_overlapping_sends_resolve_one_by_one_with_their_own_chunks() -> None:
    """G-3: the reference returns both together with the tail of the first."""
    model = saying(script.text("one").hold("here"), "two", "three")
    order: list[str] = []

    async def send(harness: ChatAgentHarness, text: str) -> None:
        turn = await harness.send_message(text)
        order.append(turn.text)
        assert types(turn) == TEXT_TURN

    async with mock_chat_agent(agent_of(model)) as harness, anyio.create_task_group() as tasks:
        for text in ("a", "b", "c"):
            tasks.start_soon(send, harness, text)
        await model.reached("here")
        model.release("here")

    assert sorted(order) == ["one", "three", "two"]
    assert [turn.text for turn in harness.turns] == ["one", "two", "three"]


async def test_overlapping_sends_of_every_kind_find_their_own_turns() -> None:
    model = saying(script.text("one").hold("here"), "again", "two")

    async with mock_chat_agent(agent_of(model, on_action=lambda event: "acted")) as harness:
        first = harness.begin_message("a")
        await model.reached("here")
        results: dict[str, Turn] = {}

        async def keep(name: str, sending: Any) -> None:
            results[name] = await sending

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keep, "regenerate", harness.send_regenerate())
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(keep, "action", harness.send_action("x"))
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(keep, "message", harness.send_message("b"))
            model.release("here")
        results["first"] = await first

    assert {name: turn.text for name, turn in results.items()} == {
        "first": "one",
        "regenerate": "again",
        "action": "acted",
        "message": "two",
    }


async def test_messages_begun_before_the_boot_keep_their_order() -> None:
    async with mock_chat_agent(agent_of(saying("one", "two", "three"))) as harness:
        pending = [harness.begin_message(text) for text in ("a", "b", "c")]
        turns = [await each for each in reversed(pending)]

    assert [turn.text for turn in turns] == ["three", "two", "one"]
    assert texts(kept(harness)) == ["a", "one", "b", "two", "c", "three"]


async def test_what_the_first_hooks_wrote_belongs_to_nobody_s_turn_but_the_harness_has_it() -> None:
    agent = agent_of(saying("hi"), on_preload=lambda event: event.writer.write({"type": "data-early", "data": 1}))

    async with mock_chat_agent(agent) as harness:
        await harness.start()
        turn = await harness.send_message("hello")

    assert types(turn) == TEXT_TURN
    assert harness.all_raw_chunks[0] == {"type": "data-early", "data": 1}


# --- until ---


async def test_by_default_everything_behind_the_turn_is_done() -> None:
    """G-1: in the reference a test sleeps before it looks."""
    done: list[str] = []

    async def complete(event: Any) -> None:
        await chat.sleep(60)
        chat.history.set([user("u-9")])
        done.append("on_turn_complete")

    async with mock_chat_agent(agent_of(on_turn_complete=complete)) as harness:
        await harness.send_message("hello")
        seen = (list(done), ids(kept(harness)))

    assert seen == (["on_turn_complete"], ["u-9"])


async def test_until_turn_complete_returns_before_the_hooks_behind_it() -> None:
    """X-4; the turn that was returned fills up."""
    done: list[str] = []

    async def complete(event: Any) -> None:
        await chat.sleep(60)
        done.append("on_turn_complete")

    async with mock_chat_agent(agent_of(on_turn_complete=complete)) as harness:
        turn = await harness.send_message("hello", until="turn_complete")
        early = (list(done), harness.get_snapshot(), [call.outcome for call in turn.hooks])
        await harness.wait_idle()

    assert early[:2] == ([], None)
    assert types(turn) == TEXT_TURN
    assert [(call.name, call.outcome) for call in turn.hooks] == [("run", "returned"), ("on_turn_complete", "returned")]
    assert done == ["on_turn_complete"]


async def test_until_sent_returns_at_once_with_a_turn_that_has_nothing_yet() -> None:
    model = saying(script.hold("here").text("hi"))

    async with mock_chat_agent(agent_of(model)) as harness:
        turn = await harness.send_message("hello", until="sent")
        await model.reached("here")
        model.release("here")
        await harness.wait_idle()

    assert (turn.index, turn.text, turn.chunks, turn.message, turn.hooks) == (None, "", [], None, [])
    assert harness.turns[0].text == "hi"


@pytest.mark.parametrize("send", ["send_message", "send_regenerate", "send_action"])
async def test_another_moment_is_refused_before_anything_is_sent(send: str) -> None:
    async with mock_chat_agent(agent_of(on_action=nothing)) as harness:
        with pytest.raises(InvalidArgumentError) as caught:
            await getattr(harness, send)(*([] if send == "send_regenerate" else ["x"]), until="later")
        turn = await harness.send_message("hello")

    assert str(caught.value) == "`until` is 'later': one of idle, turn_complete, sent"
    assert turn.index == 0


# --- modes ---


async def test_in_mode_submit_message_the_first_message_is_the_boot_s_own() -> None:
    """G-5: the reference starts a model call with no input."""
    model = saying("one", "two")

    async with mock_chat_agent(agent_of(model), mode="submit-message") as harness:
        await harness.start()
        await harness.wait_idle()
        before = (harness.hooks, harness.run_ended)
        first = await harness.send_message("a")
        second = await harness.send_message("b")

    assert before == ([], False)
    assert [turn.text for turn in (first, second)] == ["one", "two"]
    assert [turn.index for turn in (first, second)] == [0, 1]


async def test_in_mode_submit_message_something_else_cannot_come_first() -> None:
    async with mock_chat_agent(agent_of(on_action=nothing), preload=False) as harness:
        for send in (harness.send_regenerate(), harness.send_action("x")):
            with pytest.raises(HarnessModeError) as caught:
                await send
        turn = await harness.send_message("hello")

    assert str(caught.value) == (
        "in mode submit-message the run boots with its first message; send that before anything else"
    )
    assert turn.index == 0


async def test_several_messages_may_be_begun_in_mode_submit_message() -> None:
    async with mock_chat_agent(agent_of(saying("one", "two")), preload=False) as harness:
        first, second = harness.begin_message("a"), harness.begin_message("b")

        assert [(await first).text, (await second).text] == ["one", "two"]


async def test_a_harness_needs_no_async_with() -> None:
    harness = mock_chat_agent(agent_of(saying("hi")))

    turn = await harness.send_message("hello")
    await harness.close()

    assert turn.text == "hi"
    assert harness.run_ended


async def test_nothing_runs_before_the_first_driver_call() -> None:
    """G-13."""
    booted: list[str] = []
    harness = mock_chat_agent(agent_of(on_boot=lambda event: booted.append("boot")))
    for _ in range(3):
        await anyio.lowlevel.checkpoint()
    before = list(booted)

    await harness.start()
    await harness.start()
    await harness.close()

    assert before == []
    assert booted == ["boot"]


async def test_ids_are_counted_or_made_by_the_test() -> None:
    """G-19."""
    async with mock_chat_agent(agent_of()) as counted:
        await counted.send_message("a")
        await counted.send_message("b")
    letters = iter("abcdefgh")
    async with mock_chat_agent(agent_of(), ids=lambda: next(letters)) as lettered:
        await lettered.send_message("a")
        await lettered.send_message("b")

    assert ids(kept(counted)) == ["msg-1", "msg-2", "msg-3", "msg-4"]
    assert ids(kept(lettered)) == ["a", "b", "c", "d"]


async def test_counted_ids_avoid_those_that_were_seeded() -> None:
    stored = {"version": 1, "savedAt": 0, "messages": [user("msg-1").to_wire(), assistant("msg-2", "hi").to_wire()]}

    async with mock_chat_agent(agent_of(), continuation=True, snapshot=stored) as harness:
        await harness.send_message("again")

    assert len(set(ids(kept(harness)))) == 4


# --- stop ---


async def test_a_stop_returns_once_the_run_has_heard_it() -> None:
    model = saying(script.text("one").hold("here"))
    signals: list[Any] = []

    def run(event: Any) -> Any:
        signals.append(event.stop_signal)
        return asking(model)(event)

    async with mock_chat_agent(agent_of(run=run)) as harness:
        harness.begin_message("hello")
        await model.reached("here")
        await harness.send_stop("enough")
        heard = signals[0].aborted
        await harness.wait_idle()

    assert heard
    assert harness.turns[0].stopped


async def test_a_stop_behind_the_end_of_the_run_is_refused() -> None:
    async with mock_chat_agent(agent_of(run=lambda event: chat.end_run())) as harness:
        await harness.send_message("hello")
        await harness.wait_ended()
        with pytest.raises(AgentRunEndedError):
            await harness.send_stop()


async def test_on_out_sees_every_record_as_it_is_written() -> None:
    seen: list[int] = []

    async with mock_chat_agent(agent_of(saying("one", "two"))) as harness:
        unsubscribe = harness.on_out(lambda record: seen.append(record.seq))
        await harness.send_message("a")
        unsubscribe()
        unsubscribe()
        await harness.send_message("b")

    assert seen == [record.seq for record in harness.out_records[: len(seen)]]
    assert len(seen) == len(TEXT_TURN)
