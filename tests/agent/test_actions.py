"""Actions: a client's commands, which change the conversation and are no turns (rules A-1 to A-8, G-23, G-30, G-31)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

import anyio
import pytest
from pydantic import BaseModel

from agent.making import (
    FAILED_TURN,
    TEXT_TURN,
    agent_of,
    assistant,
    ids,
    nothing,
    prompt_of,
    roles,
    saying,
    types,
    user,
)
from chatagent import chat, stream_text
from chatagent.errors import ActionError
from chatagent_test import ChatAgentHarness, ChunkStream, MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.session import Snapshot
    from chatagent.ui import UIMessage
    from chatagent_test import Turn

pytestmark = pytest.mark.anyio

DONE = ["trigger:turn-complete"]
TURN_HOOKS = ("on_chat_start", "on_turn_start", "on_before_turn_complete", "on_turn_complete")


class Undo(BaseModel):
    type: Literal["undo"]
    steps: int = 1


def counts(harness: ChatAgentHarness) -> dict[str, int]:
    names = [call.name for call in harness.hooks]
    return {name: names.count(name) for name in (*TURN_HOOKS, "run", "prepare_messages", "on_validate_messages")}


def snapshot_of(harness: ChatAgentHarness) -> Snapshot:
    snapshot = harness.get_snapshot()
    assert snapshot is not None
    return snapshot


def kept(harness: ChatAgentHarness) -> list[UIMessage]:
    return list(snapshot_of(harness).messages)


def asking_for_action(model: MockLanguageModel) -> Any:
    """An `on_action` that asks the model: its event has neither a signal nor tools."""

    def act(event: Any) -> Any:
        return stream_text(model=model, messages=event.messages, max_retries=0)

    return act


async def test_an_action_goes_through_schema_and_handler() -> None:
    """MCA-013."""
    seen: list[Any] = []

    async with mock_chat_agent(
        agent_of(action_schema=Undo, on_action=lambda event: seen.append(event.action))
    ) as harness:
        await harness.send_message("hello")
        await harness.send_action({"type": "undo"})

    assert seen == [Undo(type="undo", steps=1)]


async def test_without_a_schema_an_action_is_taken_as_it_came() -> None:
    seen: list[Any] = []

    async with mock_chat_agent(agent_of(on_action=lambda event: seen.append(event.action))) as harness:
        for action in ({"any": ["thing"]}, "undo", 7, None):
            await harness.send_action(action)

    assert seen == [{"any": ["thing"]}, "undo", 7, None]


async def test_an_action_is_no_turn() -> None:
    """MCA-014, F-88."""
    model = saying("one", "two")
    agent = agent_of(
        model,
        on_action=nothing,
        prepare_messages=lambda event: event.messages,
        on_validate_messages=lambda event: event.messages,
        **dict.fromkeys(TURN_HOOKS, nothing),
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")
        before = counts(harness)
        action = await harness.send_action("undo")
        after = counts(harness)
        turn = await harness.send_message("again")

    assert after == before
    assert types(action) == DONE
    assert [call.name for call in action.hooks] == ["on_action"]
    assert len(model.do_stream_calls) == 2
    assert turn.index == 1


async def test_an_action_may_come_first_and_the_next_message_starts_the_chat() -> None:
    """A-8."""
    agent = agent_of(on_action=nothing, on_chat_start=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_action("hello")
        turn = await harness.send_message("hello")

    assert turn.index == 0
    assert [call.name for call in turn.hooks] == ["on_chat_start", "run"]


async def test_a_stream_that_the_handler_returns_is_sent_under_an_id_of_its_own_and_not_stored() -> None:
    """MCA-015, A-4, A-6, F-87, G-49."""
    model = saying("first", "regenerated")
    agent = agent_of(model, on_action=asking_for_action(model))

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")
        action = await harness.send_action("again")

    assert action.text == "regenerated"
    assert types(action) == TEXT_TURN
    assert turn.message is not None
    assert action.raw_chunks[0]["messageId"] not in (None, turn.message.id)
    assert [message.text for message in kept(harness)] == ["hello", "first"]
    assert action.message is None


async def test_a_text_that_the_handler_returns_is_streamed_as_one_step() -> None:
    """G-23: the reference ignores it."""
    async with mock_chat_agent(agent_of(on_action=lambda event: "a text answer")) as harness:
        await harness.send_message("hello")
        action = await harness.send_action("go")

    assert types(action) == TEXT_TURN
    assert action.text == "a text answer"
    assert len(kept(harness)) == 2


async def test_a_message_that_the_handler_returns_is_streamed_under_its_id() -> None:
    """G-23."""
    message = assistant(
        "ans",
        {"type": "reasoning", "text": "hm"},
        "a message",
        {"type": "file", "mediaType": "image/png", "url": "https://x/y.png"},
        {"type": "source-url", "sourceId": "s-1", "url": "https://x"},
        {"type": "data-chart", "id": "d-1", "data": [1, 2]},
    )

    async with mock_chat_agent(agent_of(on_action=lambda event: message)) as harness:
        action = await harness.send_action("go")

    assert action.raw_chunks == [
        {"type": "start", "messageId": "ans"},
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "part-1"},
        {"type": "reasoning-delta", "id": "part-1", "delta": "hm"},
        {"type": "reasoning-end", "id": "part-1"},
        {"type": "text-start", "id": "part-2"},
        {"type": "text-delta", "id": "part-2", "delta": "a message"},
        {"type": "text-end", "id": "part-2"},
        {"type": "file", "mediaType": "image/png", "url": "https://x/y.png"},
        {"type": "source-url", "sourceId": "s-1", "url": "https://x"},
        {"type": "data-chart", "id": "d-1", "data": [1, 2]},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
        {"type": "trigger:turn-complete"},
    ]
    assert harness.get_snapshot() is None


async def test_a_handler_that_pipes_itself_has_nothing_of_what_it_returns_sent() -> None:
    async def act(event: Any) -> str:
        await chat.pipe(ChunkStream([{"type": "start"}, {"type": "finish"}]))
        return "not sent"

    async with mock_chat_agent(agent_of(on_action=act)) as harness:
        action = await harness.send_action("go")

    assert types(action) == ["start", "finish", *DONE]


@pytest.mark.parametrize("result", [None, 42, ["x"], {"type": "start"}])
async def test_anything_else_that_the_handler_returns_is_ignored(result: Any) -> None:
    async with mock_chat_agent(agent_of(on_action=lambda event: result)) as harness:
        action = await harness.send_action("go")

    assert types(action) == DONE


# --- what an action changes ---


async def test_a_change_of_history_is_there_at_once_and_in_the_next_turn() -> None:
    model = saying("one", "two")

    def undo(event: Any) -> None:
        chat.history.rollback_to("u-1")

    async with mock_chat_agent(agent_of(model, on_action=undo)) as harness:
        await harness.send_message(user("u-1"))
        await harness.send_action("undo")
        await harness.send_message(user("u-2"))

    assert roles(prompt_of(model, 1)) == ["user", "user"]
    assert ids(kept(harness))[:2] == ["u-1", "u-2"]


async def test_an_action_that_changed_the_history_is_followed_by_a_snapshot() -> None:
    """G-31, D-7: in the reference a crash loses the change."""
    async with mock_chat_agent(agent_of(on_action=lambda event: chat.history.slice(0, 1))) as harness:
        await harness.send_message(user("u-1"))
        await harness.send_action("undo")

    snapshot = snapshot_of(harness)
    assert ids(snapshot.messages) == ["u-1"]
    assert snapshot.last_out_event_id == str(harness.out_records[-1].seq)
    assert snapshot.last_in_event_id == "1"


async def test_an_action_that_left_the_history_as_it_was_is_followed_by_none() -> None:
    """G-31."""
    agent = agent_of(saying("first"), on_action=lambda event: chat.history.remove("unknown"))

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(user("u-1"))
        before = snapshot_of(harness)
        await harness.send_action({"type": "undo"})

        assert snapshot_of(harness) == before


async def test_an_action_that_changed_nothing_saves_nothing() -> None:
    """S-1, G-31."""
    async with mock_chat_agent(agent_of(on_action=nothing)) as harness:
        await harness.send_message(user("u-1"))
        before = snapshot_of(harness)
        await harness.send_action("look")

    assert snapshot_of(harness) is before


async def test_with_hydration_an_action_works_on_what_the_hook_gives() -> None:
    """A-2."""
    store = [user("u-0", "stored")]
    seen: list[Any] = []
    agent = agent_of(hydrate_messages=lambda event: store, on_action=lambda event: seen.extend(event.ui_messages))

    async with mock_chat_agent(agent) as harness:
        await harness.send_action("look")

    assert seen == store
    assert harness.get_snapshot() is None


async def test_data_parts_that_an_action_writes_are_streamed_and_never_stored() -> None:
    """A-7, N-26."""
    agent = agent_of(on_action=lambda event: chat.response.write({"type": "data-note", "data": 1}))

    async with mock_chat_agent(agent) as harness:
        action = await harness.send_action("note")
        turn = await harness.send_message("hello")

    assert types(action) == ["data-note", *DONE]
    assert turn.message is not None
    assert "data-note" not in [part.type for part in turn.message.parts]


async def test_an_action_may_end_the_run() -> None:
    async with mock_chat_agent(agent_of(on_action=lambda event: chat.end_run())) as harness:
        action = await harness.send_action("bye")
        await harness.wait_ended()

    assert types(action) == DONE
    assert harness.run_error is None


async def test_an_action_that_comes_while_a_turn_is_on_waits_for_its_end() -> None:
    model = saying(script.text("one").hold("here"))
    seen: list[int] = []
    agent = agent_of(model, on_action=lambda event: seen.append(len(event.ui_messages)))

    async with mock_chat_agent(agent) as harness:
        turn = harness.begin_message("hello")
        await model.reached("here")
        model.release("here")
        action = await harness.send_action("look")
        await turn

    assert seen == [2]
    assert types(action) == DONE


# --- actions that fail ---


async def test_an_action_that_fails_its_schema_is_told_and_nothing_else_happens() -> None:
    """G-30, D-6: in the reference it completes a turn and uses up a number."""
    model = saying("one", "two")
    agent = agent_of(model, action_schema=Undo, on_action=nothing, **dict.fromkeys(TURN_HOOKS, nothing))

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(user("u-1"))
        before, snapshot = counts(harness), snapshot_of(harness)
        action = await harness.send_action({"type": "redo"})
        after = counts(harness)
        turn = await harness.send_message(user("u-2"))

    assert types(action) == FAILED_TURN
    assert isinstance(action.error, ActionError)
    assert str(action.error) == (
        "action sent to agent 'tester' fails its `action_schema`: `type`: Input should be 'undo'"
    )
    assert action.error.value == {"type": "redo"}
    assert action.error_texts == [str(action.error)]
    assert action.hooks == []
    assert after == before
    assert snapshot is not None
    assert turn.index == 1
    assert ids(kept(harness))[0] == "u-1"


async def test_a_handler_that_raises_leaves_no_trace_but_its_error() -> None:
    """G-30."""

    def fail(event: Any) -> None:
        chat.history.set([])
        raise ValueError("cannot undo")

    agent = agent_of(saying("one", "two"), on_action=fail, on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(user("u-1"))
        snapshot = snapshot_of(harness)
        action = await harness.send_action("undo")
        unchanged = snapshot_of(harness) is snapshot
        turn = await harness.send_message(user("u-2"))

    assert types(action) == FAILED_TURN
    assert action.error_texts == ["cannot undo"]
    assert str(action.error) == "cannot undo"
    assert unchanged
    assert (turn.index, len(kept(harness))) == (1, 4)
    assert [call.name for call in harness.hooks].count("on_turn_complete") == 2


async def test_a_stream_that_breaks_takes_back_what_its_handler_changed() -> None:
    """G-30, also when the change was applied already."""

    def act(event: Any) -> Any:
        chat.history.set([])
        return ChunkStream([{"type": "start"}], error=ValueError("broken"))

    async with mock_chat_agent(agent_of(saying("one", "two"), on_action=act)) as harness:
        await harness.send_message(user("u-1"))
        action = await harness.send_action("undo")
        await harness.send_message(user("u-2"))

    assert types(action) == ["start", *FAILED_TURN]
    assert roles(kept(harness)) == ["user", "assistant", "user", "assistant"]


async def test_an_action_without_a_handler_is_ignored_with_one_warning_for_the_agent() -> None:
    """MCA-016, G-42: in the reference once per process."""
    model = saying("one")
    agent = agent_of(model, action_schema=Undo)

    async def converse() -> None:
        async with mock_chat_agent(agent) as harness:
            await harness.send_message("hello")
            for _ in range(2):
                assert types(await harness.send_action({"type": "undo"})) == DONE
        async with mock_chat_agent(agent) as harness:
            await harness.send_action({"type": "undo"})

    text = r"^agent 'tester' has no `on_action` handler; the action was ignored$"
    with pytest.warns(RuntimeWarning, match=text) as told:
        await converse()

    assert len(told) == 1
    assert len(model.do_stream_calls) == 1


async def test_another_agent_of_the_same_id_warns_for_itself() -> None:
    """G-42."""
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="no `on_action` handler"):
            async with mock_chat_agent(agent_of()) as harness:
                await harness.send_action("undo")


async def test_a_warning_that_the_user_made_an_error_fails_the_action_and_not_the_run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with mock_chat_agent(agent_of()) as harness:
            action = await harness.send_action("undo")
            turn = await harness.send_message("hello")

    assert types(action) == FAILED_TURN
    assert isinstance(action.error, RuntimeWarning)
    assert turn.text == "ok"


async def test_tools_that_cannot_be_resolved_fail_an_action_too() -> None:
    """T-14."""

    def resolve(event: Any) -> Any:
        raise ValueError("no tools")

    async with mock_chat_agent(agent_of(tools=resolve, on_action=nothing)) as harness:
        action = await harness.send_action("look")

    assert types(action) == FAILED_TURN
    assert [call.name for call in action.hooks] == ["tools"]


async def test_a_stop_ends_what_an_action_streams() -> None:
    model = saying(script.text("one ").hold("here").text("two"))
    agent = agent_of(on_action=asking_for_action(model))

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")
        await harness.send_action("go on", until="sent")
        await model.reached("here")
        await harness.send_stop("enough")
        await harness.wait_idle()
        turn = await harness.send_message("again")

    assert harness.turns[1].text == "one "
    assert types(harness.turns[1])[-1:] == DONE
    assert turn.index == 1


async def test_a_handler_may_put_its_answer_into_the_history() -> None:
    """G-49, G-23: by `chat.history`, under the id that was streamed."""
    answer = assistant("ans", "undone")

    def act(event: Any) -> Any:
        chat.history.set([*chat.history.all(), answer])
        return answer

    async with mock_chat_agent(agent_of(on_action=act)) as harness:
        await harness.send_message(user("u-1"))
        action = await harness.send_action("undo")

    assert action.raw_chunks[0] == {"type": "start", "messageId": "ans"}
    assert action.text == "undone"
    assert ids(kept(harness))[-1] == "ans"
    assert len(kept(harness)) == 3


async def test_with_hydration_an_action_that_changes_the_chain_saves_no_snapshot() -> None:
    """G-31, S-2."""
    agent = agent_of(
        hydrate_messages=lambda event: [user("u-0"), *event.incoming_messages],
        on_action=lambda event: chat.history.set([]),
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_action("clear")

    assert harness.get_snapshot() is None


async def test_a_stop_ends_the_stream_of_an_action_with_an_abort_chunk() -> None:
    """An action has no signal to give to its model; its stream is cut off, and the client is told so."""
    model = MockLanguageModel(script.text("one ").hold("middle").text("two"))

    async def answer(event: Any) -> Any:
        return stream_text(model=model, prompt="Do it.")

    agent = agent_of(nothing, on_action=answer)
    turns: list[Turn] = []

    async with mock_chat_agent(agent) as harness, anyio.create_task_group() as tasks:

        async def act() -> None:
            turns.append(await harness.send_action({"type": "do"}))

        tasks.start_soon(act)
        await model.reached("middle")
        await harness.send_stop()

    (turn,) = turns
    assert [chunk["type"] for chunk in turn.raw_chunks][-3:] == ["text-end", "abort", "trigger:turn-complete"]
    assert "two" not in turn.text
