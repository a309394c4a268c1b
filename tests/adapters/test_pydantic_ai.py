"""Agents of pydantic-ai as what `run` returns, driven by the harness (rules 1.16, T-34 to T-37, 2.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, ModelRetry, RunContext
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall
from pydantic_ai.models.test import TestModel

from adapters.pydantic_ai_agents import (
    BACKENDS,
    ScriptedModel,
    asked_with,
    call,
    chatting,
    chunks_of,
    complete,
    completes,
    kept,
    model_of,
    saying,
    types_of,
)
from chatagent import chat, locals
from chatagent.adapters.pydantic_ai import PydanticAIStream
from chatagent.ui import UIMessage
from chatagent_test import mock_chat_agent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from chatagent.agent import ActionEvent, PrepareMessagesEvent, RunEvent, TurnStartEvent
    from chatagent.model import ModelMessage

pytestmark = pytest.mark.anyio


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


def answering_with(agent: Agent[Any, Any], deps: object) -> Callable[[RunEvent[Any]], PydanticAIStream[Any]]:
    return lambda event: PydanticAIStream(agent, event, deps=deps)


# --- text ---


async def test_what_an_agent_says_is_one_streamed_text() -> None:
    agent = saying(["Hello ", "Ada", "."])

    async with mock_chat_agent(chatting(agent)) as harness:
        turn = await harness.send_message("Hi, I am Ada.")

    assert turn.message is not None
    assert chunks_of(turn) == [
        {"type": "start", "messageId": turn.message.id},
        {"type": "start-step"},
        {"type": "text-start", "id": "msg-3"},
        {"type": "text-delta", "id": "msg-3", "delta": "Hello "},
        {"type": "text-delta", "id": "msg-3", "delta": "Ada"},
        {"type": "text-delta", "id": "msg-3", "delta": "."},
        {"type": "text-end", "id": "msg-3"},
        {"type": "finish-step"},
        {"type": "finish"},
    ]
    assert kept(harness)[1]["parts"] == [
        {"type": "step-start"},
        {"type": "text", "text": "Hello Ada.", "state": "done"},
    ]


async def test_every_turn_is_answered_with_the_turns_before_it() -> None:
    agent = saying(["Hello Ada."], ["You are Ada."], ["Bye."])

    async with mock_chat_agent(chatting(agent)) as harness:
        for text in ("I am Ada.", "Who am I?", "Bye!"):
            await harness.send_message(text)

    assert asked_with(model_of(agent), 2) == [
        ("user-prompt", "I am Ada."),
        ("text", "Hello Ada."),
        ("user-prompt", "Who am I?"),
        ("text", "You are Ada."),
        ("user-prompt", "Bye!"),
    ]


async def test_a_continuation_goes_on_with_what_was_stored() -> None:
    agent = saying(["Hello Ada."], ["You are Ada."])

    async with mock_chat_agent(chatting(agent)) as harness:
        await harness.send_message("I am Ada.")
        snapshot = harness.get_snapshot()
    async with mock_chat_agent(chatting(agent), continuation=True, snapshot=snapshot) as harness:
        await harness.send_message("Who am I?")

    assert [kind for kind, _ in asked_with(model_of(agent), 1)] == ["user-prompt", "text", "user-prompt"]


async def test_prompts_and_instructions_of_the_agent_stand_in_front_in_every_turn() -> None:
    agent = Agent(
        ScriptedModel(["one"], ["two"]), deps_type=str, system_prompt="Be kind.", instructions="Answer in English."
    )

    @agent.system_prompt
    def name(ctx: RunContext[str]) -> str:
        return f"The user is {ctx.deps}."

    bot = chatting(agent, run=answering_with(agent, "Ada"))
    async with mock_chat_agent(bot) as harness:
        await harness.send_message("first")
        await harness.send_message("second")

    model = model_of(agent)
    prompts = [("system-prompt", "Be kind."), ("system-prompt", "The user is Ada.")]
    assert asked_with(model, 0) == [*prompts, ("user-prompt", "first")]
    assert asked_with(model, 1) == [*prompts, ("user-prompt", "first"), ("text", "one"), ("user-prompt", "second")]
    assert [info.instructions for info in model.infos] == ["Answer in English."] * 2


async def test_what_prepare_messages_and_inject_say_reaches_the_agent() -> None:
    agent = Agent(ScriptedModel(["one"], ["two"]), system_prompt="Be kind.")

    def inject(event: TurnStartEvent[Any]) -> None:
        chat.inject([{"role": "system", "content": "It is noon."}])

    def shorten(event: PrepareMessagesEvent[Any]) -> list[ModelMessage]:
        return event.messages[-2:]

    bot = chatting(agent, on_turn_start=inject, prepare_messages=shorten)
    async with mock_chat_agent(bot) as harness:
        await harness.send_message("first")
        await harness.send_message("second")

    assert asked_with(model_of(agent), 1) == [
        ("system-prompt", "Be kind."),
        ("user-prompt", "second"),
        ("user-prompt", "<system>It is noon.</system>"),  # in the words of pydantic-ai
    ]


async def test_thoughts_are_shown_and_go_back_with_their_signature() -> None:
    thinking = [
        {0: DeltaThinkingPart(content="Hm", signature="sig")},
        {0: DeltaThinkingPart(content="m.")},
        "Four.",
    ]
    agent = saying(thinking, ["Sure."])

    async with mock_chat_agent(chatting(agent)) as harness:
        first = await harness.send_message("Two and two?")
        await harness.send_message("Sure?")

    assert types_of(first)[2:6] == ["reasoning-start", "reasoning-delta", "reasoning-delta", "reasoning-end"]
    assert kept(harness)[1]["parts"][1]["text"] == "Hmm."
    (thought,) = [part for part in model_of(agent).asked[1][1].parts if part.part_kind == "thinking"]
    assert (thought.content, thought.signature, thought.provider_name) == ("Hmm.", "sig", "function")


async def test_half_a_signature_does_not_survive_a_stop() -> None:
    async def thinking() -> AsyncIterator[Any]:
        yield {0: DeltaThinkingPart(content="Hm")}
        yield {0: DeltaThinkingPart(content="m.", signature="half-a-")}
        await anyio.sleep_forever()

    agent = saying(thinking)
    async with mock_chat_agent(chatting(agent)) as harness:
        pending = harness.begin_message("Two and two?")
        await harness.wait_for(lambda harness: len(harness.all_chunks) == 5)
        await harness.send_stop()
        await pending

    assert "half-a-" not in str(kept(harness))


# --- tools ---


async def test_a_tool_of_the_agent_is_shown_and_answered() -> None:
    agent = saying(call("weather", '{"city": "Oslo"}'), ["Sunny in Oslo."], ["Still sunny."])

    @agent.tool_plain
    async def weather(city: str) -> dict[str, object]:
        return {"sky": "blue", "wind": None}

    async with mock_chat_agent(chatting(agent)) as harness:
        turn = await harness.send_message("How is it in Oslo?")
        await harness.send_message("And now?")

    assert chunks_of(turn)[2:7] == [
        {"type": "tool-input-start", "toolCallId": "call-1", "toolName": "weather"},
        {"type": "tool-input-delta", "toolCallId": "call-1", "inputTextDelta": '{"city": "Oslo"}'},
        {"type": "tool-input-available", "toolCallId": "call-1", "toolName": "weather", "input": {"city": "Oslo"}},
        {"type": "tool-output-available", "toolCallId": "call-1", "output": {"sky": "blue", "wind": None}},
        {"type": "finish-step"},
    ]
    assert turn.text == "Sunny in Oslo."
    assert asked_with(model_of(agent), 2) == [
        ("user-prompt", "How is it in Oslo?"),
        ("tool-call", {"city": "Oslo"}),
        ("tool-return", {"sky": "blue", "wind": None}),
        ("text", "Sunny in Oslo."),
        ("user-prompt", "And now?"),
    ]


async def test_a_model_that_calls_all_tools_by_itself() -> None:
    agent = Agent(TestModel())

    @agent.tool_plain
    def nothing() -> None:
        return None

    async with mock_chat_agent(chatting(agent)) as harness:
        turn = await harness.send_message("go")

    assert turn.text == '{"nothing":null}'
    (part,) = [part for part in kept(harness)[1]["parts"] if part["type"] == "tool-nothing"]
    assert (part["state"], part["output"]) == ("output-available", None)


async def test_what_a_tool_refuses_is_shown_and_tried_again() -> None:
    agent = saying(
        call("weather", '{"city": "Atlantis"}', tool_call_id="call-1"),
        call("weather", '{"town": "Oslo"}', tool_call_id="call-2"),
        call("weather", '{"city": "Oslo"}', tool_call_id="call-3"),
        ["Sunny."],
        ["Yes."],
    )

    @agent.tool_plain(retries=3)
    def weather(city: str) -> str:
        if city == "Atlantis":
            raise ModelRetry("no such city")
        return "sunny"

    async with mock_chat_agent(chatting(agent)) as harness:
        turn = await harness.send_message("How is it?")
        await harness.send_message("Sure?")

    states = [part["state"] for part in kept(harness)[1]["parts"] if part["type"] == "tool-weather"]
    assert states == ["output-error", "output-error", "output-available"]
    assert "tool-output-error" in types_of(turn)
    assert "tool-input-error" in types_of(turn)
    assert ("tool-return", "no such city") in asked_with(model_of(agent), 4)


async def test_the_answer_in_a_form_of_its_own_is_a_tool_call() -> None:
    class City(BaseModel):
        name: str

    agent = Agent(ScriptedModel(call("final_result", '{"name": "Oslo"}')), output_type=City)
    made: list[PydanticAIStream[Any]] = []

    def run(event: RunEvent[Any]) -> PydanticAIStream[Any]:
        made.append(PydanticAIStream(agent, event))
        return made[-1]

    async with mock_chat_agent(chatting(agent, run=run)) as harness:
        await harness.send_message("Which city?")
        result = await made[0].result

    assert result.output == City(name="Oslo")
    assert kept(harness)[1]["parts"][1]["input"] == {"name": "Oslo"}


@dataclass
class Deps:
    unit: str


async def test_tools_get_the_dependencies() -> None:
    agent = Agent(ScriptedModel(call("weather"), ["ok"]), deps_type=Deps)

    @agent.tool
    def weather(ctx: RunContext[Deps]) -> str:
        return f"20 {ctx.deps.unit}"

    bot = chatting(agent, run=answering_with(agent, Deps("°C")))
    async with mock_chat_agent(bot) as harness:
        turn = await harness.send_message("How warm?")

    assert {"type": "tool-output-available", "toolCallId": "call-1", "output": "20 °C"} in chunks_of(turn)


CITY = locals.create("city", str)


async def test_tools_live_in_the_run() -> None:
    agent = saying(call("weather"), ["ok"])

    @agent.tool_plain
    async def weather() -> str:
        await chat.sleep(3600)
        return f"sunny in {locals.get_or_throw(CITY)}"

    async with mock_chat_agent(chatting(agent), setup_locals=lambda values: values.set(CITY, "Oslo")) as harness:
        began_at = harness.clock.now()
        turn = await harness.send_message("How is it?")
        took = harness.clock.now() - began_at

    assert {"type": "tool-output-available", "toolCallId": "call-1", "output": "sunny in Oslo"} in chunks_of(turn)
    assert took == 3600


# --- approvals ---


def careful(*answers: Any) -> tuple[Agent[None, Any], list[str]]:
    """An agent that asks before it deletes, and what it has deleted."""
    agent: Agent[None, Any] = Agent(ScriptedModel(*answers), output_type=[str, DeferredToolRequests])
    deleted: list[str] = []

    @agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        deleted.append(path)
        return "gone"

    @agent.tool_plain
    def look() -> str:
        return "one file"

    return agent, deleted


ASK_TO_DELETE = [
    {
        0: DeltaToolCall("delete", '{"path": "a.txt"}', tool_call_id="call-1"),
        1: DeltaToolCall("look", "{}", tool_call_id="call-2"),
    }
]


def answered(message: UIMessage | None, *, approved: bool, **more: str) -> UIMessage:
    """The message with which a client answers `call-1`."""
    assert message is not None
    approval = {"id": "call-1", "approved": approved, **more}
    part = {"type": "tool-delete", "toolCallId": "call-1", "state": "approval-responded", "approval": approval}
    return UIMessage.model_validate({"id": message.id, "role": "assistant", "parts": [part]})


async def test_an_approved_call_runs_and_the_answer_goes_on() -> None:
    agent, deleted = careful(ASK_TO_DELETE, ["Deleted."], ["Bye."])

    async with mock_chat_agent(chatting(agent)) as harness:
        first = await harness.send_message("Delete a.txt")
        assert deleted == []
        second = await harness.send_message(answered(first.message, approved=True))
        await harness.send_message("bye")

    assert first.message is not None
    assert {"type": "tool-approval-request", "approvalId": "call-1", "toolCallId": "call-1"} in chunks_of(first)
    assert deleted == ["a.txt"]
    assert chunks_of(second)[:3] == [
        {"type": "start", "messageId": first.message.id},
        {"type": "tool-input-available", "toolCallId": "call-1", "toolName": "delete", "input": {"path": "a.txt"}},
        {"type": "tool-output-available", "toolCallId": "call-1", "output": "gone"},
    ]
    assert [message["role"] for message in kept(harness)] == ["user", "assistant", "user", "assistant"]
    assert [part["type"] for part in kept(harness)[1]["parts"]] == [
        "step-start",
        "tool-delete",
        "tool-look",
        "step-start",
        "text",
    ]
    assert asked_with(model_of(agent), 2)[3:6] == [
        ("tool-return", "gone"),
        ("tool-return", "one file"),
        ("text", "Deleted."),
    ]


@pytest.mark.parametrize(
    ("more", "told"),
    [({"reason": "not today"}, "not today"), ({}, "The tool call was denied.")],
    ids=["reason", "none"],
)
async def test_a_denied_call_does_not_run_and_the_model_is_told(more: dict[str, str], told: str) -> None:
    agent, deleted = careful(ASK_TO_DELETE, ["All right."], ["Bye."])

    async with mock_chat_agent(chatting(agent)) as harness:
        first = await harness.send_message("Delete a.txt")
        second = await harness.send_message(answered(first.message, approved=False, **more))
        await harness.send_message("bye")

    assert deleted == []
    assert chunks_of(second)[1] == {"type": "tool-output-denied", "toolCallId": "call-1"}
    assert kept(harness)[1]["parts"][1]["state"] == "output-denied"
    assert ("tool-return", told) in asked_with(model_of(agent), 1)
    (denied,) = [
        part
        for message in model_of(agent).asked[2]
        for part in message.parts
        if part.part_kind == "tool-return" and part.tool_name == "delete"
    ]
    assert denied.outcome == "denied"


async def test_a_question_that_was_passed_over_is_forgotten() -> None:
    agent, deleted = careful(ASK_TO_DELETE, ["As you like."])

    async with mock_chat_agent(chatting(agent)) as harness:
        await harness.send_message("Delete a.txt")
        turn = await harness.send_message("Never mind.")

    assert deleted == []
    assert turn.text == "As you like."
    assert asked_with(model_of(agent), 1) == [
        ("user-prompt", "Delete a.txt"),
        ("tool-call", {}),
        ("tool-return", "one file"),
        ("user-prompt", "Never mind."),
    ]


# --- usage, actions ---


async def test_the_usage_of_all_model_calls_is_counted() -> None:
    agent = saying(call("weather"), ["Sunny."], ["Bye."])

    @agent.tool_plain
    def weather() -> str:
        return "sunny"

    async with mock_chat_agent(chatting(agent, on_turn_complete=complete)) as harness:
        await harness.send_message("How is it?")
        await harness.send_message("Bye")

    first, second = completes(harness)
    assert first.usage is not None
    assert second.usage is not None
    assert first.usage.output_tokens
    assert first.usage.total_tokens == (first.usage.input_tokens or 0) + first.usage.output_tokens
    assert second.total_usage == first.usage + second.usage


async def test_an_action_can_be_answered() -> None:
    agent = saying(["Hello."], ["In short: hello."])

    def on_action(event: ActionEvent[Any]) -> PydanticAIStream[Any]:
        return PydanticAIStream(agent, messages=[*event.messages, {"role": "user", "content": "Shorter!"}])

    async with mock_chat_agent(chatting(agent, on_action=on_action)) as harness:
        await harness.send_message("hi")
        turn = await harness.send_action({"type": "shorten"})

    assert turn.text == "In short: hello."
    assert asked_with(model_of(agent), 1)[-1] == ("user-prompt", "Shorter!")
