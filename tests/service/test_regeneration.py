"""Answering a message again: retry and regenerate over the real runtime (MP-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent.protocol import (
    MessageNotFoundError,
    NothingToRetryError,
    ThreadBusyError,
    ThreadNotFoundError,
)
from chatagent_test import MockLanguageModel, create_in_process_client, script
from service.agents import TOOLS, answering, events_of, texts_of

if TYPE_CHECKING:
    from chatagent_test import InProcessClient

pytestmark = pytest.mark.anyio

BROKEN = script.text("Half an").breaks(RuntimeError("cut off"))


async def talk(mock: InProcessClient, *texts: str) -> None:
    for text in texts:
        run = await mock.client.thread("t-1").send(text)
        await run.wait_until_idle()
    await mock.harness.settle()


def asked(model: MockLanguageModel, call: int) -> list[tuple[str, str]]:
    """Return what a call of the model was asked with."""
    return [(message.role, message.content[0].text) for message in model.do_stream_calls[call].prompt]  # type: ignore[union-attr, index]


async def test_the_last_answer_gives_way_to_another_one() -> None:
    """MP-10; EV-26."""
    model = MockLanguageModel([script.text("one"), script.text("two")])
    async with create_in_process_client(answering(), model=model) as mock:
        await talk(mock, "hi")
        thread = mock.client.thread("t-1")
        before = thread.get_state()
        since = len(events_of(mock))

        run = await thread.regenerate()
        state = await run.wait_until_idle()
        await mock.harness.settle()

        assert texts_of(state) == ["hi", "two"]
        assert state.messages[0].message_id == before.messages[0].message_id
        assert (run.record.initiator, run.record.input_message_id) == ("regenerate", before.messages[0].message_id)
        assert asked(model, 1) == [("user", "hi")]
        told = events_of(mock)[since:]
        assert (told[0], told[1], told[-1]) == ("message.removed", "generation.started", "generation.completed")


@pytest.mark.parametrize("target", [0, 1])
async def test_an_earlier_message_is_answered_again_and_what_followed_is_gone(target: int) -> None:
    """MP-10: the agent's own history is cut at the same place."""
    model = MockLanguageModel([script.text("one"), script.text("two"), script.text("another one"), script.text("end")])
    async with create_in_process_client(answering(), model=model) as mock:
        await talk(mock, "first", "second")
        thread = mock.client.thread("t-1")

        run = await thread.regenerate(thread.get_state().messages[target].message_id)
        state = await run.wait_until_idle()
        assert texts_of(state) == ["first", "another one"]
        assert asked(model, 2) == [("user", "first")]

        await talk(mock, "third")
        assert asked(model, 3) == [("user", "first"), ("assistant", "another one"), ("user", "third")]
        assert "state.changed" not in events_of(mock)


async def test_a_failed_generation_is_tried_again_without_what_it_had_said() -> None:
    """MP-10; TH-20."""
    model = MockLanguageModel([BROKEN, BROKEN, script.text("Whole.")])
    async with create_in_process_client(answering(), model=model) as mock:
        await talk(mock, "hi")
        thread = mock.client.thread("t-1")
        failed = thread.get_state()

        second = await thread.retry()
        state = await second.wait_until_idle()
        assert state.error is not None
        assert state.error.operation == "retry"

        third = await thread.retry()
        state = await third.wait_until_idle()
        await mock.harness.settle()

        assert (texts_of(state), state.error, third.status) == (["hi", "Whole."], None, "completed")
        assert state.messages[0].message_id == failed.messages[0].message_id
        assert asked(model, 2) == [("user", "hi")]
        assert "state.changed" not in events_of(mock)


async def test_what_cannot_be_answered_again_is_refused() -> None:
    """MP-10; TH-20, TH-22."""
    model = MockLanguageModel([script.text("one"), script.hold("middle").text("two")])
    async with create_in_process_client(answering(), model=model) as mock:
        thread = mock.client.thread("t-1")
        with pytest.raises(ThreadNotFoundError):
            await thread.regenerate()
        await talk(mock, "hi")
        before = thread.get_state()

        with pytest.raises(NothingToRetryError):
            await thread.retry()
        with pytest.raises(MessageNotFoundError):
            await thread.regenerate("nope")
        assert thread.get_state() == before

        run = await thread.send("again")
        await model.reached("middle")
        with pytest.raises(ThreadBusyError, match=run.run_id):
            await thread.regenerate()
        model.release("middle")
        await run.wait_until_idle()


async def test_a_waiting_run_gives_way_to_another_answer() -> None:
    """MP-10, MP-11."""
    model = MockLanguageModel([script.tool_call("pick_file", {"kind": "pdf"}), script.text("Without a file.")])
    async with create_in_process_client(answering(tools=TOOLS), model=model) as mock:
        thread = mock.client.thread("t-1")
        waiting = await thread.send("pick one")
        await waiting.wait_until_blocked()

        run = await thread.regenerate()
        state = await run.wait_until_idle()
        await mock.harness.settle()

        assert texts_of(state) == ["pick one", "Without a file."]
        assert (waiting.status, state.pending_actions) == ("aborted", ())
        assert "state.changed" not in events_of(mock)
