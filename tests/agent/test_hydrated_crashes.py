"""Agents that keep their history themselves, and runs that die between an answer's end and the turn-complete (G-64)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from agent.making import ASK_USER, agent_of, assistant, ids, saying, texts, tool_part, user
from agent.steering import CALL, look, steered
from chatagent import chat
from chatagent.agent.stored_answer import answer_beside
from chatagent.errors import AgentRunEndedError
from chatagent.ui import ToolUIPart, parse_chunk
from chatagent_test import ChatAgentHarness, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.ui import UIMessage

anyio_tests = pytest.mark.anyio


@dataclass
class Database:
    """Keeps a history as a database does; the run dies in the first `on_before_turn_complete`."""

    keeps_early: bool = False
    """Whether it is told of the answer before the turn is over."""
    messages: list[UIMessage] = field(default_factory=list["UIMessage"])
    at_the_end: anyio.Event = field(default_factory=anyio.Event)

    def load(self, event: Any) -> list[UIMessage]:
        chat.upsert_incoming_message(self.messages, event)
        if event.trigger == "regenerate-message":
            while self.messages and self.messages[-1].role != "user":
                self.messages.pop()
        return list(self.messages)

    def keep(self, event: Any) -> None:
        self.messages[:] = event.ui_messages

    async def hang_once(self, event: Any) -> None:
        if self.keeps_early:
            self.keep(event)
        if not self.at_the_end.is_set():
            self.at_the_end.set()
            await anyio.sleep_forever()

    def hooks(self) -> dict[str, Any]:
        return {
            "hydrate_messages": self.load,
            "on_before_turn_complete": self.hang_once,
            "on_turn_complete": self.keep,
        }


def events(harness: ChatAgentHarness, name: str) -> list[Any]:
    return [call.event for call in harness.hooks if call.name == name]


@anyio_tests
@pytest.mark.parametrize("keeps_early", [False, True])
async def test_an_answer_that_was_streamed_to_its_end_is_stored_and_not_asked_for_again(*, keeps_early: bool) -> None:
    database, model = Database(keeps_early=keeps_early), saying("answer", "next")
    database.messages = [user("u-0", "zero?"), assistant("a-0", "zero")]

    async with mock_chat_agent(agent_of(model, **database.hooks()), client_data={"name": "Ada"}) as harness:
        harness.begin_message(user("u-1", "one?"))
        await database.at_the_end.wait()
        await harness.kill_run()
        await harness.continue_run()
        stored = texts(database.messages)
        closed = [chunk["type"] for chunk in harness.all_raw_chunks][-2:]
        await harness.send_message(user("u-2", "two?"))

    assert stored == ["zero?", "zero", "one?", "answer"]
    assert closed == ["finish", "trigger:turn-complete"]
    assert texts(database.messages) == ["zero?", "zero", "one?", "answer", "two?", "next"]
    assert len(set(ids(database.messages))) == 6
    assert len(model.do_stream_calls) == 2
    made_up, _ = events(harness, "on_turn_complete")
    assert texts(made_up.new_ui_messages) == ["one?", "answer"]
    assert [message.role for message in made_up.new_messages] == ["user", "assistant"]
    assert (made_up.response_message.text, made_up.finish_reason, made_up.turn) == ("answer", "stop", 0)
    assert made_up.client_data == {"name": "Ada"}
    asked = events(harness, "hydrate_messages")
    assert [(ids(event.incoming_messages), event.continuation) for event in asked] == [
        (["u-1"], False),
        (["u-1"], True),
        (["u-2"], True),
    ]


@anyio_tests
async def test_a_question_that_the_history_does_not_have_yet_is_in_front_of_its_answer() -> None:
    """The hook keeps nothing before the turn is over."""
    database = Database()
    hooks = {**database.hooks(), "hydrate_messages": lambda event: [*database.messages, *event.incoming_messages]}

    async with mock_chat_agent(agent_of(saying("answer"), **hooks)) as harness:
        harness.begin_message(user("u-1", "one?"))
        await database.at_the_end.wait()
        before = list(database.messages)
        await harness.kill_run()
        await harness.continue_run()

    assert before == []
    assert texts(database.messages) == ["one?", "answer"]


@anyio_tests
@pytest.mark.parametrize("keeps_early", [False, True])
async def test_what_goes_on_with_a_stored_answer_joins_it_once(*, keeps_early: bool) -> None:
    """A client's tool has answered."""
    database = Database(keeps_early=keeps_early)
    database.at_the_end.set()
    model = saying(script.text("Let me ask.").tool_call("ask_user", {}, tool_call_id="c-1"), "Thank you.", "next")
    agent = agent_of(model, tools=ASK_USER, **database.hooks())

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(user("u-1", "one?"))
        database.at_the_end = anyio.Event()
        (_, waiting) = database.messages
        answer = ToolUIPart(type="tool-ask_user", tool_call_id="c-1", state="output-available", input={}, output="yes")
        harness.begin_message({"id": waiting.id, "role": "assistant", "parts": [answer.to_wire()]})
        await database.at_the_end.wait()
        await harness.kill_run()
        await harness.continue_run()
        await harness.send_message(user("u-2", "two?"))

    assert texts(database.messages) == ["one?", "Let me ask.Thank you.", "two?", "next"]
    (call,) = [part for part in database.messages[1].parts if isinstance(part, ToolUIPart)]
    assert (call.state, call.output) == ("output-available", "yes")
    assert len(model.do_stream_calls) == 3


@anyio_tests
@pytest.mark.parametrize("keeps_early", [False, True])
async def test_a_regenerated_answer_takes_the_place_of_the_old_one(*, keeps_early: bool) -> None:
    database = Database(keeps_early=keeps_early)
    database.at_the_end.set()
    model = saying("answer", "better", "next")

    async with mock_chat_agent(agent_of(model, **database.hooks())) as harness:
        await harness.send_message(user("u-1", "one?"))
        database.at_the_end = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(regenerate_and_see_it_die, harness)
            await database.at_the_end.wait()
            await harness.kill_run()
        await harness.continue_run()
        await harness.send_message(user("u-2", "two?"))

    assert texts(database.messages) == ["one?", "better", "two?", "next"]
    assert len(model.do_stream_calls) == 3


async def regenerate_and_see_it_die(harness: ChatAgentHarness) -> None:
    with pytest.raises(AgentRunEndedError):
        await harness.send_regenerate()


@anyio_tests
async def test_what_was_injected_into_the_answer_is_stored_in_front_of_it() -> None:
    """G-62."""
    database = Database()
    model = saying(CALL, "Short.", "next")
    agent = agent_of(
        run=steered(model), tools=[look], pending_messages={"should_inject": lambda event: True}, **database.hooks()
    )

    async with mock_chat_agent(agent) as harness:
        harness.begin_message(user("u-1", "one?"))
        await model.reached("held")
        await harness.send_message(user("u-2", "be brief"), until="sent")
        model.release("held")
        await database.at_the_end.wait()
        await harness.kill_run()
        await harness.continue_run()
        await harness.send_message(user("u-3", "three?"))

    assert texts(database.messages) == ["one?", "be brief", "Short.", "three?", "next"]
    made_up, _ = events(harness, "on_turn_complete")
    assert texts(made_up.new_ui_messages) == ["one?", "be brief", "Short."]
    assert len(model.do_stream_calls) == 3


@anyio_tests
async def test_a_history_that_cannot_be_read_leaves_the_answer_for_the_next_run() -> None:
    """As with a store of snapshots that fails (G-60): nothing is consumed, nothing is overwritten."""
    database, model, is_down = Database(), saying("answer"), anyio.Event()

    def load(event: Any) -> list[UIMessage]:
        if event.continuation and not is_down.is_set():
            is_down.set()
            raise ConnectionError("no database")
        return database.load(event)

    agent = agent_of(model, **{**database.hooks(), "hydrate_messages": load})

    async with mock_chat_agent(agent) as harness:
        harness.begin_message(user("u-1", "one?"))
        await database.at_the_end.wait()
        await harness.kill_run()
        with pytest.raises(ConnectionError, match=r"^no database$"):
            await harness.continue_run()
        untouched = ([chunk["type"] for chunk in harness.all_raw_chunks][-1], texts(database.messages))
        await harness.continue_run()

    assert untouched == ("finish", ["one?"])
    assert texts(database.messages) == ["one?", "answer"]
    assert len(model.do_stream_calls) == 1


# --- the answer beside what is stored ---


def streamed(*chunks: dict[str, Any]) -> list[Any]:
    return [parse_chunk(chunk) for chunk in ({"type": "start", "messageId": "a-1"}, *chunks, {"type": "finish"})]


def text_chunks(*texts: str) -> list[dict[str, Any]]:
    deltas = [{"type": "text-delta", "id": "t", "delta": text} for text in texts]
    return [{"type": "start-step"}, {"type": "text-start", "id": "t"}, *deltas, {"type": "text-end", "id": "t"}]


ASKING = assistant("a-1", "Let me ask.", tool_part("c-1", "output-available", input={}, output="yes"))
ANSWERS = assistant("a-1", tool_part("c-1", "output-available", input={}, output="yes"))


def test_without_a_stored_message_the_answer_is_what_was_streamed() -> None:
    answer = answer_beside(None, streamed(*text_chunks("so", " it is")), user("u-1"), is_anew=False)

    assert answer is not None
    assert (answer.id, answer.text) == ("a-1", "so it is")


def test_a_stored_answer_that_has_all_of_it_stays_as_it_is() -> None:
    stored = assistant("a-1", "so it is")

    assert answer_beside(stored, streamed(*text_chunks("so", " it is")), user("u-1"), is_anew=False) is stored


@pytest.mark.parametrize(("question", "is_anew"), [(user("u-1"), False), (None, True)])
def test_a_beginning_that_was_stored_gives_way_to_the_whole(question: UIMessage | None, *, is_anew: bool) -> None:
    answer = answer_beside(assistant("a-1", "so"), streamed(*text_chunks("so", " it is")), question, is_anew=is_anew)

    assert answer is not None
    assert answer.text == "so it is"


def test_an_answer_goes_on_with_what_the_client_has_answered() -> None:
    answer = answer_beside(ASKING, streamed(*text_chunks("Thank you.")), ANSWERS, is_anew=False)

    assert answer is not None
    assert answer.text == "Let me ask.Thank you."


def test_steps_that_were_stored_in_part_are_not_doubled() -> None:
    begun = answer_beside(ASKING, streamed(*text_chunks("Thank")), ANSWERS, is_anew=False)

    answer = answer_beside(begun, streamed(*text_chunks("Thank", " you.")), ANSWERS, is_anew=False)

    assert answer is not None
    assert answer.text == "Let me ask.Thank you."


def test_an_outcome_that_the_store_does_not_have_is_missing() -> None:
    call = {"type": "tool-input-available", "toolCallId": "c-2", "toolName": "look", "input": {}}
    outcome = {"type": "tool-output-available", "toolCallId": "c-2", "output": "seen"}
    stored = assistant("a-1", tool_part("c-2", "input-available", input={}))

    answer = answer_beside(stored, streamed(call, outcome), user("u-1"), is_anew=False)

    assert answer is not None
    assert [part.state for part in answer.parts if isinstance(part, ToolUIPart)] == ["output-available"]
