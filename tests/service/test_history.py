"""What the agent's own code makes of history, and data beside answers (MP-5, MP-25, MP-27)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from chatagent import chat, stream_text
from chatagent.errors import InvalidArgumentError
from chatagent.protocol import GenerationMessageChunk
from chatagent.service import AgentService
from chatagent.ui import DataChunk, DataUIPart, TextUIPart, UIMessage
from chatagent.waiting import Gate
from chatagent_test import ChunkStream, MockLanguageModel, create_in_process_client, script
from service.agents import TOOLS, answering, events_of, texts_of

if TYPE_CHECKING:
    from chatagent.agent import ChatAgent

pytestmark = pytest.mark.anyio


async def test_what_a_hook_makes_of_history_is_taken_over_with_one_state_changed() -> None:
    """MP-25."""

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        agent = answering()(model)

        @agent.on_turn_complete
        def forget_secrets(event: Any) -> None:
            kept = [message for message in event.ui_messages if "secret" not in str(message.to_wire())]
            if len(kept) < len(event.ui_messages):
                chat.history.set(kept)

        return agent

    model = MockLanguageModel([script.text("one"), script.text("two"), script.text("three")])
    async with create_in_process_client(make, model=model) as mock:
        thread = mock.client.thread("t-1")
        await (await thread.send("hi")).wait_until_idle()
        run = await thread.send("the secret is 7")
        await run.wait_until_idle()
        await mock.harness.settle()
        assert events_of(mock).count("state.changed") == 1

        state = await thread.refresh()
        assert texts_of(state) == ["hi", "one", "two"]
        assert [each.run_id for each in state.messages][-1] == run.run_id

        state = await (await thread.send("on")).wait_until_idle()
        await mock.harness.settle()
        assert texts_of(state) == ["hi", "one", "two", "on", "three"]
        assert events_of(mock).count("state.changed") == 1


async def test_messages_of_a_store_of_the_agent_s_own_become_the_thread() -> None:
    """MP-25: hydration."""

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        agent = answering()(model)

        @agent.hydrate_messages
        def from_store(event: Any) -> list[UIMessage]:
            old = UIMessage(id="m-old", role="user", parts=[TextUIPart(text="long ago")])
            known = [message for message in event.previous_messages if message.id != "m-old"]
            new = [message for message in event.incoming_messages if message not in known]
            return [old, *known, *new]

        return agent

    async with create_in_process_client(make, model=script.text("Hello.")) as mock:
        thread = mock.client.thread("t-1")
        await (await thread.send("hi")).wait_until_idle()
        await mock.harness.settle()

        state = await thread.refresh()

        assert texts_of(state) == ["long ago", "hi", "Hello."]
        assert [each.relation for each in state.messages] == ["standalone", "input", "output"]


async def test_data_that_hooks_write_is_part_of_the_answer_wherever_it_came() -> None:
    """MP-5: what is written before the answer has begun is shown as soon as it has."""

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        agent = answering()(model)

        @agent.on_turn_start
        def announce(event: Any) -> None:
            event.writer.write({"type": "data-plan", "id": "p", "data": {"step": 1}})
            event.writer.write({"type": "data-plan", "id": "p", "data": {"step": 2}})
            event.writer.write({"type": "data-hint", "data": "soon", "transient": True})

        @agent.on_before_turn_complete
        def sum_up(event: Any) -> None:
            event.writer.write(DataChunk("data-cost", {"cents": 3}))

        return agent

    async with create_in_process_client(make, model=script.text("Hello.")) as mock:
        thread = mock.client.thread("t-1")
        await (await thread.send("hi")).wait_until_idle()
        await mock.harness.settle()

        state = await thread.refresh()

        parts = [part.to_wire() for part in state.messages[-1].parts if isinstance(part, DataUIPart)]
        assert [(part["type"], part["data"]) for part in parts] == [
            ("data-plan", {"step": 2}),
            ("data-cost", {"cents": 3}),
        ]
        told = events_of(mock)
        assert "data-hint" in told
        assert "state.changed" not in told


async def test_data_of_one_id_is_what_was_told_last_whoever_wrote_it() -> None:
    """MP-5, MP-25: the conversation keeps all that code wrote, the thread shows what clients were told."""

    @chat.agent(id="support")
    async def agent(event: Any) -> ChunkStream:
        for percent in (10, 50):
            chat.response.write({"type": "data-done", "id": "p", "data": percent})
        chat.response.write({"type": "data-note", "data": "first"})
        chunks = [
            {"type": "start"},
            {"type": "data-note", "data": "second"},
            {"type": "data-done", "id": "p", "data": 99},
        ]
        return ChunkStream([*chunks, {"type": "finish"}])

    async with create_in_process_client(agent) as mock:
        thread = mock.client.thread("t-1")
        await (await thread.send("hi")).wait_until_idle()
        await mock.harness.settle()

        state = await thread.refresh()

        data = [(part.type, part.data) for part in state.messages[-1].parts if isinstance(part, DataUIPart)]
        assert data == [("data-done", 99), ("data-note", "first"), ("data-note", "second")]
        assert "state.changed" not in events_of(mock)


async def test_a_message_that_is_taken_over_has_data_of_one_id_once() -> None:
    """MP-25, DM-25."""

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        agent = answering()(model)

        @agent.on_turn_start
        def count(event: Any) -> None:
            for percent in (10, 50):
                event.writer.write({"type": "data-done", "id": "p", "data": percent})

        @agent.on_turn_complete
        def shout(event: Any) -> None:
            *before, answer = event.ui_messages
            parts = [TextUIPart(text="HELLO") if isinstance(part, TextUIPart) else part for part in answer.parts]
            chat.history.set([*before, answer.model_copy(update={"parts": tuple(parts)})])

        return agent

    async with create_in_process_client(make, model=script.text("Hello.")) as mock:
        thread = mock.client.thread("t-1")
        await (await thread.send("hi")).wait_until_idle()
        await mock.harness.settle()

        state = await thread.refresh()

        assert state.messages[-1].text == "HELLO"
        assert [part.data for part in state.messages[-1].parts if isinstance(part, DataUIPart)] == [50]


async def test_data_that_is_written_outside_of_turns_is_told_and_not_kept() -> None:
    """MP-5: at a boot with the answer to come, behind a turn with the last one."""
    deferred = Gate("the test's go")

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        agent = answering()(model)

        @agent.on_boot
        def boot(event: Any) -> None:
            chat.response.write({"type": "data-boot", "data": 1})

        @agent.on_turn_complete
        def behind(event: Any) -> None:
            chat.response.write({"type": "data-behind", "data": 2})
            chat.defer(later())

        return agent

    async def later() -> None:
        await deferred.wait()
        chat.response.write({"type": "data-later", "id": "l", "data": 3})

    async with create_in_process_client(make, model=[script.text("one"), script.text("two")]) as mock:
        thread = mock.client.thread("t-1")
        async with thread.watch() as updates:
            run = await thread.send("hi")
            await run.wait_until_idle()
            deferred.open()
            await mock.harness.settle()
            told: list[tuple[str, str, object]] = []
            async for update in updates:
                event = update.event
                if isinstance(event, GenerationMessageChunk) and isinstance(event.chunk, DataChunk):
                    told.append((event.chunk.type, event.run_id, event.chunk.transient))
                if told and told[-1][0] == "data-later":
                    break

        state = await (await thread.send("again")).wait_until_idle()
        await mock.harness.settle()

        assert told == [(name, run.run_id, True) for name in ("data-boot", "data-behind", "data-later")]
        assert not [part for message in state.messages for part in message.parts if isinstance(part, DataUIPart)]
        assert "state.changed" not in events_of(mock)


async def test_a_turn_that_says_nothing_is_completed() -> None:
    """MP-6."""

    @chat.agent(id="silent")
    def agent(event: Any) -> None:
        return None

    async with create_in_process_client(agent) as mock:
        run = await mock.client.thread("t-1").send("hi")
        state = await run.wait_until_idle()

        assert (run.status, texts_of(state)) == ("completed", ["hi"])


async def test_messages_that_are_injected_to_be_seen_are_context_of_the_run() -> None:
    """MP-27."""

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        @chat.agent(id="informed")
        def agent(event: Any) -> Any:
            return stream_text(model=model, messages=event.messages)

        @agent.on_turn_start
        def inform(event: Any) -> None:
            chat.inject([{"role": "system", "content": "Refunds need a manager."}], visible=True)
            chat.inject([{"role": "system", "content": "Be brief."}])

        return agent

    async with create_in_process_client(make, model=script.text("Ask a manager.")) as mock:
        run = await mock.client.thread("t-1").send("Refund me.")
        state = await run.wait_until_idle()
        await mock.harness.settle()

        assert [(each.role, each.relation, each.producer, each.text, each.run_id) for each in state.messages] == [
            ("user", "input", "user", "Refund me.", run.run_id),
            ("system", "context", "lifecycle", "Refunds need a manager.", run.run_id),
            ("assistant", "output", "model", "Ask a manager.", run.run_id),
        ]
        assert "state.changed" not in events_of(mock)


class Rating(BaseModel):
    rating: int | None = None


async def test_the_agent_says_what_clients_can_read_of_their_run() -> None:
    """MP-2, MP-24: it begins with the schema's own values, and lasts over the turns of the run."""
    seen: list[Any] = []

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        @chat.agent(id="rated", tools=TOOLS, run_metadata_schema=Rating)
        def agent(event: Any) -> Any:
            seen.append((event.client_run_id, chat.run_metadata.get()))
            chat.run_metadata.update(rating=len(seen))
            return stream_text(model=model, messages=event.messages, tools=event.tools)

        return agent

    model = MockLanguageModel([script.tool_call("pick_file", {}, tool_call_id="c-1"), script.text("Thanks.")])
    async with create_in_process_client(make, model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("pick")
        assert run.record.metadata == {"rating": None}
        await run.wait_until_blocked()
        assert run.record.metadata == {"rating": 1}

        await thread.pending_actions[0].submit({"name": "a"})
        await run.wait_until_idle()

        assert run.record.metadata == {"rating": 2}
        assert seen == [(run.run_id, {"rating": None}), (run.run_id, {"rating": 1})]


async def test_metadata_that_breaks_its_schema_is_refused() -> None:
    """MP-24."""
    refused: list[str] = []

    @chat.agent(id="rated", run_metadata_schema=Rating)
    def agent(event: Any) -> None:
        try:
            chat.run_metadata.set({"rating": "five"})
        except InvalidArgumentError as error:
            refused.append(str(error))

    async with create_in_process_client(agent) as mock:
        run = await mock.client.thread("t-1").send("hi")
        await run.wait_until_idle()

        assert run.record.metadata == {"rating": None}
        assert "rating" in refused[0]


def test_a_schema_that_needs_values_cannot_be_what_a_run_begins_with() -> None:
    """MP-24."""

    class Needy(BaseModel):
        rating: int

    agent = chat.agent(id="needy", run=lambda _: None, run_metadata_schema=Needy)

    with pytest.raises(InvalidArgumentError, match="a run begins with an empty object"):
        AgentService(agent)
