"""Runs of a thread over turns of the agent: sends, order, failures, aborts (MP-1 to MP-9, MP-40 to MP-42)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from chatagent import chat, stream_text
from chatagent.model import ModelToolInputDelta, ModelToolInputStart
from chatagent.protocol import AbortRequest, MessageExistsError, SendRequest
from chatagent.ui import TextUIPart, UIMessage
from chatagent_test import MockLanguageModel, create_in_process_client, script
from service.agents import TOOLS, answering, events_of

if TYPE_CHECKING:
    from chatagent.agent import ChatAgent

pytestmark = pytest.mark.anyio


async def test_a_send_is_answered_by_a_turn_of_the_agent() -> None:
    """MP-1, MP-2, MP-3, MP-5, MP-6; EV-20."""
    async with create_in_process_client(answering(), model=script.text("Hello.")) as mock:
        assert await mock.transport.get_thread("t-1") is None

        run = await mock.client.thread("t-1").send("hi")
        state = await run.wait_until_idle()

        assert [(each.role, each.text, each.run_id) for each in state.messages] == [
            ("user", "hi", run.run_id),
            ("assistant", "Hello.", run.run_id),
        ]
        assert (run.status, state.thread.status, state.thread.active_run_id) == ("completed", "idle", None)
        assert events_of(mock) == [
            "message.added",
            "generation.started",
            "start",
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "finish-step",
            "finish",
            "generation.completed",
        ]


async def test_a_second_send_waits_in_the_outbox_until_the_first_turn_is_over() -> None:
    """MP-4; EV-25."""
    model = MockLanguageModel([script.hold("first").text("one"), script.text("two")])
    async with create_in_process_client(answering(), model=model) as mock:
        thread = mock.client.thread("t-1")
        first = await thread.send("1")
        await model.reached("first")
        second = await thread.send("2")
        assert (first.status, second.status) == ("running", "queued")
        info = await mock.service._setting.sessions.get_session("t-1")  # pyright: ignore[reportPrivateUsage]
        assert info is not None
        assert info.in_next == 1

        model.release("first")
        state = await second.wait_until_idle()

        assert [each.text for each in state.messages] == ["1", "one", "2", "two"]


async def test_an_error_of_the_model_fails_the_run_and_keeps_what_had_come() -> None:
    """MP-7, MP-8; EV-22."""
    model = MockLanguageModel([script.text("Half").breaks(RuntimeError("cut off")), script.text("Whole")])
    async with create_in_process_client(answering(), model=model) as mock:
        thread = mock.client.thread("t-1")

        run = await thread.send("hi")
        state = await run.wait_until_idle()

        assert run.status == "failed"
        assert state.error is not None
        assert (state.error.run_id, state.error.operation) == (run.run_id, "send")
        assert state.error.message_id == state.messages[0].message_id
        assert [each.text for each in state.messages] == ["hi", "Half"]
        assert "error" in events_of(mock)

        again = await thread.send("again")
        assert (await again.wait_until_idle()).error is None
        await mock.harness.settle()
        assert "state.changed" not in events_of(mock)


async def test_an_error_before_the_answer_shows_no_chunk() -> None:
    """MP-7, MP-41; EV-21."""

    @chat.agent(id="failing")
    def agent(event: Any) -> Any:
        raise RuntimeError("boom")

    async with create_in_process_client(agent) as mock:
        run = await mock.client.thread("t-1").send("hi")
        state = await run.wait_until_idle()

        assert state.error is not None
        assert state.error.message == "boom"
        assert events_of(mock) == ["message.added", "generation.started", "generation.failed"]


async def test_an_abort_ends_the_run_and_keeps_the_text() -> None:
    """MP-9, MP-42; EV-23."""
    model = MockLanguageModel(script.text("So far").hold("middle").text(" and more"))
    async with create_in_process_client(answering(), model=model, strict=False) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("hi")
        await model.reached("middle")

        assert await run.abort("enough") is True
        state = await run.wait_until_idle()

        assert (run.status, run.record.abort_reason, state.thread.status) == ("aborted", "enough", "idle")
        assert state.messages[-1].text == "So far"
        assert state.error is None
        assert events_of(mock)[-2:] == ["abort", "generation.aborted"]
        assert await run.abort() is False


async def test_an_abort_right_behind_the_send_reaches_the_turn() -> None:
    """MP-9: a stop that came before the turn had begun would reach nobody, so it waits for it."""
    model = MockLanguageModel(script.hang())
    async with create_in_process_client(answering(), model=model) as mock:
        run = await mock.client.thread("t-1").send("hi")
        assert await run.abort() is True

        await run.wait_until_idle()

        assert run.status == "aborted"


async def test_an_aborted_queued_run_never_reaches_the_agent() -> None:
    """MP-4, MP-9; EV-29."""
    model = MockLanguageModel([script.hold("first").text("one")])
    async with create_in_process_client(answering(), model=model) as mock:
        thread = mock.client.thread("t-1")
        first = await thread.send("1")
        await model.reached("first")
        second = await thread.send("2")

        assert await second.abort() is True
        model.release("first")
        state = await first.wait_until_idle()
        await mock.harness.settle()

        assert [each.text for each in state.messages] == ["1", "one"]
        assert second.status == "aborted"
        assert len(model.do_stream_calls) == 1


async def test_a_request_is_admitted_once() -> None:
    """MP-40; TP-22."""
    async with create_in_process_client(answering(), model=script.text("Hello.")) as mock:
        thread = mock.client.thread("t-1")
        first = await thread.send("hi", request_id="same")
        await first.wait_until_idle()

        second = await thread.send("hi", request_id="same")

        assert second.run_id == first.run_id
        assert len(thread.get_state().messages) == 2


async def test_a_refused_send_changes_nothing() -> None:
    """MP-40; TP-21, TP-25."""
    async with create_in_process_client(answering(), model=script.text("Hello.")) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("hi", message_id="m-x")
        state = await run.wait_until_idle()

        with pytest.raises(MessageExistsError):
            await thread.send("again", message_id="m-x")

        assert thread.get_state() == state
        assert state.messages[0].message_id == "m-x"


async def test_a_cancelled_send_admits_nothing() -> None:
    """TP-23."""
    async with create_in_process_client(answering()) as mock:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await mock.client.thread("t-1").send("hi")

        assert await mock.transport.get_thread("t-1") is None


async def test_twenty_threads_at_once_keep_apart() -> None:
    """MP-1: each thread is a session of its own."""
    async with create_in_process_client(answering(), model=script.text("Hello.")) as mock:

        async def talk(name: str) -> None:
            run = await mock.client.thread(name).send(f"I am {name}")
            state = await run.wait_until_idle()
            assert [each.text for each in state.messages] == [f"I am {name}", "Hello."]

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(talk, f"t-{number}")


async def test_the_agent_sees_the_call_s_client_data_over_that_of_the_transport() -> None:
    """MP-28."""
    seen: list[Any] = []

    @chat.agent(id="seeing")
    def agent(event: Any) -> Any:
        seen.append(event.client_data)
        return None

    async with create_in_process_client(agent, client_data={"user": "u-1", "k": 0}) as mock:
        thread = mock.client.thread("t-1")
        for data in ({"k": 1}, None):
            run = await thread.send("hi", client_data=data)
            await run.wait_until_idle()

    assert seen == [{"user": "u-1", "k": 1}, {"user": "u-1", "k": 0}]


async def test_the_backend_can_begin_a_run_itself() -> None:
    """MP-26."""
    async with create_in_process_client(answering(), model=script.text("Noted.")) as mock:
        run_id = await mock.service.start_run("t-1", "A parcel has arrived.")
        thread = mock.client.thread("t-1")
        await thread.refresh()
        state = await thread.run(run_id).wait_until_idle()

        assert [(each.producer, each.text) for each in state.messages] == [
            ("trigger", "A parcel has arrived."),
            ("model", "Noted."),
        ]
        assert state.runs[0].initiator == "trigger"


async def test_a_message_of_many_parts_comes_back_as_it_was_sent() -> None:
    """MP-3."""
    async with create_in_process_client(answering(), model=script.text("Seen.")) as mock:
        thread = mock.client.thread("t-1")
        parts = [
            {"type": "text", "text": "See\u2028 😀"},
            {"type": "file", "mediaType": "text/plain", "url": "data:text/plain,x"},
            {"type": "data-note", "data": {"a": [1, None]}},
        ]
        run = await thread.send(UIMessage.model_validate({"id": "m-1", "role": "user", "parts": parts}))
        await run.wait_until_idle()
        await mock.harness.settle()

        state = await thread.refresh()

        assert [getattr(part, "type", None) for part in state.messages[0].parts] == ["text", "file", "data-note"]
        assert "state.changed" not in events_of(mock)
        assert isinstance(state.messages[0].parts[0], TextUIPart)


async def test_an_abort_right_behind_a_later_send_reaches_its_turn_too() -> None:
    """MP-9: the run waits for input already, so the stop must not overtake the turn."""
    model = MockLanguageModel([script.text("one"), script.hang()])
    async with create_in_process_client(answering(), model=model) as mock:
        thread = mock.client.thread("t-1")
        await (await thread.send("1")).wait_until_idle()
        await mock.harness.settle()
        message = UIMessage(id="m-2", role="user", parts=[TextUIPart(text="2")])

        # In one step, so that both records would be on the log before the run looks.
        receipt = mock.service.send(SendRequest(request_id="r-2", thread_id="t-1", message=message), None)
        assert mock.service.abort(AbortRequest(thread_id="t-1")) is True
        await thread.refresh()
        run = thread.run(receipt.run_id)
        await run.wait_until_idle()

        assert run.status == "aborted"


async def test_a_stopped_answer_whose_stream_says_nothing_of_it_ends_with_an_abort() -> None:
    """MP-42: the agent does not pass the signal on."""

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        @chat.agent(id="deaf")
        def agent(event: Any) -> Any:
            return stream_text(model=model, messages=event.messages)

        return agent

    model = MockLanguageModel(script.text("So far").hold("middle").text(" and more"))
    async with create_in_process_client(make, model=model, strict=False) as mock:
        run = await mock.client.thread("t-1").send("hi")
        await model.reached("middle")

        await run.abort("enough")
        state = await run.wait_until_idle()

        assert (run.status, state.messages[-1].text) == ("aborted", "So far")
        assert events_of(mock)[-2:] == ["abort", "generation.aborted"]


async def test_what_a_failure_leaves_open_is_cleaned_on_both_sides() -> None:
    """MP-8: the conversation keeps a call that was never finished, the thread does not; that is no difference."""
    parts = [ModelToolInputStart("c-1", "lookup"), ModelToolInputDelta("c-1", '{"query": ')]
    model = MockLanguageModel([script.text("Half").parts(parts).error("overloaded"), script.text("Whole")])
    async with create_in_process_client(answering(tools=TOOLS), model=model) as mock:
        thread = mock.client.thread("t-1")
        state = await (await thread.send("hi")).wait_until_idle()
        assert [part.type for part in state.messages[-1].parts] == ["step-start", "text"]  # type: ignore[union-attr]
        await mock.harness.settle()
        kept = mock.service.thread("t-1").conversation
        assert kept is not None

        await (await thread.send("again")).wait_until_idle()
        await mock.harness.settle()
        assert "state.changed" not in events_of(mock)
