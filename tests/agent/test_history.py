"""`chat.history`: what it reads, what it changes, and when a change counts (rules N-10 to N-13, G-22, G-33)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import (
    agent_of,
    asking,
    assistant,
    events,
    ids,
    kept,
    nothing,
    prompt_of,
    roles,
    saying,
    texts,
    tool_part,
    user,
)
from chatagent import ChatContextError, chat, tool
from chatagent.errors import InvalidMessageError
from chatagent_test import mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.ui import UIMessage

pytestmark = pytest.mark.anyio

THREE = [user("u-1", "one"), assistant("a-1", "two"), user("u-2", "three")]


async def with_history(messages: list[UIMessage], work: Callable[[], Any]) -> Any:
    """What `work` returns in a run whose history is `messages`."""
    results: list[Any] = []

    def hook(event: Any) -> None:
        chat.history.set(messages)
        results.append(work())

    async with mock_chat_agent(agent_of(run=nothing, on_turn_start=hook)) as harness:
        turn = await harness.send_message("hello")
        if turn.error is not None:
            raise turn.error
    return results[0]


# --- reading ---


async def test_a_message_is_found_by_its_id() -> None:
    """MCA-027."""
    found: list[Any] = []

    def look(event: Any) -> None:
        answer = event.response_message
        found.extend(chat.history.find_message(each) for each in ("u-fixed", answer.id, "definitely-not-here", ""))

    async with mock_chat_agent(agent_of(on_turn_complete=look)) as harness:
        turn = await harness.send_message(user("u-fixed"))

    assert found == [user("u-fixed"), turn.message, None, None]


async def test_lists_that_were_read_are_the_reader_s_own() -> None:
    """MCA-032."""

    def read() -> list[int]:
        chain = chat.history.get_chain()
        chain.clear()
        everything = chat.history.all()
        everything.append(user("u-9"))
        return [len(chain), len(chat.history.all()), len(chat.history.get_chain())]

    assert await with_history(THREE, read) == [0, 3, 3]


async def test_reading_sees_what_was_changed_but_not_applied_yet() -> None:
    def change() -> list[str]:
        chat.history.remove("u-1")
        chat.history.replace("a-1", assistant("a-1", "changed"))
        chat.history.slice(0, 1)
        return texts(chat.history.all())

    assert await with_history(THREE, change) == ["changed"]


# --- changing ---


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda: chat.history.set([]), []),
        (lambda: chat.history.set([user("u-9"), {"id": "a-9", "role": "assistant", "parts": []}]), ["u-9", "a-9"]),
        (lambda: chat.set_messages([user("u-9")]), ["u-9"]),
        (lambda: chat.history.remove("a-1"), ["u-1", "u-2"]),
        (lambda: chat.history.remove("unknown"), ["u-1", "a-1", "u-2"]),
        (lambda: chat.history.rollback_to("a-1"), ["u-1", "a-1"]),
        (lambda: chat.history.rollback_to("unknown"), ["u-1", "a-1", "u-2"]),
        (lambda: chat.history.replace("a-1", assistant("a-9")), ["u-1", "a-9", "u-2"]),
        (lambda: chat.history.replace("unknown", assistant("a-9")), ["u-1", "a-1", "u-2"]),
        (lambda: chat.history.slice(1), ["a-1", "u-2"]),
        (lambda: chat.history.slice(-1), ["u-2"]),
        (lambda: chat.history.slice(0, -1), ["u-1", "a-1"]),
        (lambda: chat.history.slice(5), []),
    ],
    ids=[
        "set-empty",
        "set-wire",
        "set_messages",
        "remove",
        "remove-unknown",
        "rollback",
        "rollback-unknown",
        "replace",
        "replace-unknown",
        "slice",
        "slice-from-end",
        "slice-to-end",
        "slice-nothing",
    ],
)
async def test_what_each_operation_leaves(change: Callable[[], Any], expected: list[str]) -> None:
    """F-89: an empty list is a change like any other."""

    def work() -> list[str]:
        change()
        return ids(chat.history.all())

    assert await with_history(THREE, work) == expected


async def test_an_id_that_stands_twice_is_replaced_and_removed_wherever_it_stands() -> None:
    """N-10: what a hydration returns may hold an id more than once."""
    twice = [user("u-1", "one"), assistant("a-1", "two"), user("u-1", "again")]

    def replace() -> list[str]:
        chat.history.replace("u-1", user("u-9", "changed"))
        return texts(chat.history.all())

    def remove() -> list[str]:
        chat.history.remove("u-1")
        return texts(chat.history.all())

    assert await with_history(twice, replace) == ["changed", "two", "changed"]
    assert await with_history(twice, remove) == ["two"]


async def test_what_is_no_message_is_refused_and_nothing_changes() -> None:
    def work() -> list[str]:
        for operation in (
            lambda: chat.history.set([user("u-9"), {"role": "user"}]),
            lambda: chat.history.replace("a-1", {"role": "assistant", "parts": [{"type": "text"}]}),
        ):
            with pytest.raises(InvalidMessageError):
                operation()
        return ids(chat.history.all())

    assert await with_history(THREE, work) == ["u-1", "a-1", "u-2"]


async def test_outside_a_run_every_function_says_where_it_belongs() -> None:
    with pytest.raises(ChatContextError) as caught:
        chat.history.all()

    assert str(caught.value) == (
        "chat.history.all was called outside a run; call it from a hook, a tool or `run` of a chat agent, "
        "in a task that the run started"
    )


# --- when a change counts ---

SET = [user("s-1", "set")]


def setting(event: Any) -> None:
    chat.history.set(SET)


async def test_a_change_in_on_turn_start_is_what_the_model_sees() -> None:
    """G-22."""
    model = saying("ok")

    async with mock_chat_agent(agent_of(model, on_turn_start=setting)) as harness:
        turn = await harness.send_message("hello")

    assert [part.text for part in prompt_of(model)[0].content] == ["set"]
    assert turn.message is not None
    assert ids(kept(harness)) == ["s-1", turn.message.id]


async def test_a_change_in_on_chat_start_counts_in_the_same_turn() -> None:
    """G-22: in the reference it may wait until after `run`."""
    model = saying("ok")
    agent = agent_of(model, on_chat_start=setting, on_turn_start=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert ids(events(harness, "on_turn_start")[0].ui_messages) == ["s-1"]
    assert len(prompt_of(model)) == 1


async def test_a_change_in_on_chat_start_counts_also_without_on_turn_start() -> None:
    model = saying("ok")

    async with mock_chat_agent(agent_of(model, on_chat_start=setting)) as harness:
        await harness.send_message("hello")

    assert [part.text for part in prompt_of(model)[0].content] == ["set"]


@pytest.mark.parametrize("hook", ["on_boot", "on_preload"])
async def test_a_change_before_the_first_message_counts_in_the_first_turn(hook: str) -> None:
    """G-22."""
    async with mock_chat_agent(agent_of(on_turn_start=nothing, **{hook: setting})) as harness:
        await harness.send_message("hello")

    assert ids(events(harness, "on_turn_start")[0].ui_messages) == ["s-1"]


async def test_a_change_in_run_becomes_the_base_and_the_answer_stands_on_top() -> None:
    """N-11."""
    model = saying("ok")

    def run(event: Any) -> Any:
        setting(event)
        return asking(model)(event)

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("hello")

    assert len(prompt_of(model)) == 1
    assert turn.message is not None
    assert ids(kept(harness)) == ["s-1", turn.message.id]


async def test_a_tool_may_change_the_history() -> None:
    @tool
    def forget() -> str:
        """Forget everything."""
        setting(None)
        return "done"

    model = saying(script.tool_call("forget", {}), "forgotten")

    async with mock_chat_agent(agent_of(model, tools=[forget])) as harness:
        turn = await harness.send_message("hello")

    assert turn.message is not None
    assert ids(kept(harness)) == ["s-1", turn.message.id]


async def test_a_change_in_on_before_turn_complete_is_in_the_next_event_and_the_snapshot() -> None:
    agent = agent_of(on_before_turn_complete=setting, on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    (event,) = events(harness, "on_turn_complete")
    assert ids(event.ui_messages) == ["s-1"]
    assert roles(event.messages) == ["user"]
    assert len(event.new_ui_messages) == 2
    assert ids(kept(harness)) == ["s-1"]


async def test_a_change_in_on_turn_complete_is_in_the_snapshot_and_the_next_turn() -> None:
    model = saying("one", "two")
    agent = agent_of(model, on_turn_complete=lambda event: setting(event) if event.turn == 0 else None)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")
        first = ids(kept(harness))
        await harness.send_message(user("u-2"))

    assert first == ["s-1"]
    assert ids(kept(harness))[:2] == ["s-1", "u-2"]
    assert len(prompt_of(model, 1)) == 2


async def test_a_change_in_on_turn_complete_of_a_failed_turn_counts() -> None:
    """G-33: in the reference it stays pending."""

    def fail(event: Any) -> None:
        raise ValueError("no")

    async with mock_chat_agent(agent_of(run=fail, on_turn_complete=setting)) as harness:
        await harness.send_message("hello")

    assert ids(kept(harness)) == ["s-1"]


async def test_several_changes_before_a_checkpoint_add_up() -> None:
    def change(event: Any) -> None:
        chat.history.set(THREE)
        chat.history.remove("u-1")
        chat.history.slice(0, 1)

    async with mock_chat_agent(agent_of(run=nothing, on_turn_start=change)) as harness:
        await harness.send_message("hello")

    assert ids(kept(harness)) == ["a-1"]


async def test_a_change_made_by_deferred_work_counts_at_the_next_checkpoint() -> None:
    async def later() -> None:
        await chat.sleep(1)
        chat.history.set(SET)

    agent = agent_of(on_turn_start=lambda event: chat.defer(later), on_before_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert ids(kept(harness)) == ["s-1"]


async def test_a_message_in_the_history_that_no_model_can_be_shown_is_left_out_for_it() -> None:
    model = saying("ok")
    broken = UNSHOWABLE

    async with mock_chat_agent(
        agent_of(model, on_turn_start=lambda event: chat.history.set([broken, *SET]))
    ) as harness:
        turn = await harness.send_message("hello")

    assert turn.error is None
    assert [part.text for part in prompt_of(model)[0].content] == ["set"]
    assert kept(harness)[0].to_wire() == broken


UNSHOWABLE = {"id": "u-0", "role": "user", "parts": [{"type": "file", "mediaType": "image/png", "url": "no url"}]}


async def test_a_change_before_the_answer_counts_right_before_prepare_messages_too() -> None:
    """G-22: what is changed while the change of `on_turn_start` is applied is not too late."""
    model = saying("ok")

    def show(event: Any) -> Any:
        chat.history.set(SET)
        return {"type": "text", "value": "shown"}

    vault = tool(description="Open it.", input_schema={"type": "object"}, to_model_output=show)
    opened = assistant("a-1", tool_part("tc-1", "output-available", name="vault", input={}, output=1))
    agent = agent_of(
        model,
        tools={"vault": vault},
        on_turn_start=lambda event: chat.history.set([opened]),
        prepare_messages=lambda event: event.messages,
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    (event,) = events(harness, "prepare_messages")
    assert [part.text for message in event.messages for part in message.content] == ["set"]
    assert prompt_of(model) == event.messages


async def test_a_change_in_on_validate_messages_counts_in_the_same_turn() -> None:
    """G-22: whichever hook in front of `on_turn_start` makes it."""

    def validate(event: Any) -> Any:
        chat.history.set(SET)
        return event.messages

    model = saying("ok")

    async with mock_chat_agent(agent_of(model, on_validate_messages=validate, on_turn_start=nothing)) as harness:
        await harness.send_message("hello")

    assert ids(events(harness, "on_turn_start")[0].ui_messages) == ["s-1"]
    assert len(prompt_of(model)) == 1


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (lambda: chat.history.remove("unknown"), ["user", "assistant", "user"]),
        (lambda: chat.history.replace("unknown", user("u-9")), ["user", "assistant", "user"]),
        (lambda: chat.history.rollback_to("unknown"), ["user", "user", "assistant", "user"]),
    ],
    ids=["remove", "replace", "rollback"],
)
async def test_a_change_with_an_unknown_id_drops_what_was_injected_unless_it_is_a_rollback(
    change: Callable[[], None], seen: list[str]
) -> None:
    """N-11."""
    model = saying("one", "two")

    def hook(event: Any) -> None:
        if event.turn == 0:
            chat.inject([{"role": "user", "content": "(injected)"}])
        else:
            change()

    async with mock_chat_agent(agent_of(model, on_turn_start=hook)) as harness:
        await harness.send_message("hello")
        await harness.send_message("again")

    assert roles(prompt_of(model, 1)) == seen
