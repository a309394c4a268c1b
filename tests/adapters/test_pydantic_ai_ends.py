"""Turns that do not come to a good end: agents of pydantic-ai that are stopped or fail (rules 2.5, E-11)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from pydantic_ai import RunContext  # noqa: TC002 - pydantic-ai reads the annotations of tools

from adapters.pydantic_ai_agents import (
    BACKENDS,
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
from chatagent.adapters.pydantic_ai import PydanticAIStream
from chatagent.ui import to_wire
from chatagent_test import mock_chat_agent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.agent import RunEvent

pytestmark = pytest.mark.anyio


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


# --- stop and cancel ---


class Halting:
    """A model that says something and then waits; it notes when it is let go."""

    def __init__(self, *said: Any) -> None:
        self.said = said
        self.has_ended = False

    async def __call__(self) -> AsyncIterator[Any]:
        try:
            for piece in self.said:
                yield piece
            await anyio.sleep_forever()
        finally:
            self.has_ended = True


async def test_a_stop_in_mid_stream_ends_the_agent_and_keeps_what_it_said() -> None:
    model = Halting("Once upon ")
    agent = saying(model, ["Fine."])

    async with mock_chat_agent(chatting(agent, on_turn_complete=complete)) as harness:
        pending = harness.begin_message("Tell me a story.")
        await harness.wait_streaming("Once upon ")
        await harness.send_stop("enough")
        turn = await pending
        later = await harness.send_message("Thanks.")

    assert chunks_of(turn)[-2:] == [
        {"type": "text-delta", "id": "msg-3", "delta": "Once upon "},
        {"type": "abort", "reason": "enough"},
    ]
    assert model.has_ended
    assert (turn.stopped, turn.error) == (True, None)
    assert kept(harness)[1]["parts"] == [
        {"type": "step-start"},
        {"type": "text", "text": "Once upon ", "state": "done"},
    ]
    assert completes(harness)[0].usage is None
    assert later.text == "Fine."
    assert asked_with(model_of(agent), 1)[1] == ("text", "Once upon ")


async def test_a_stop_does_not_wait_for_a_tool_that_cannot_be_cancelled() -> None:
    agent = saying(call("work"), ["Fine."])
    begun, let_go = threading.Event(), threading.Event()

    @agent.tool_plain
    def work() -> str:
        begun.set()
        let_go.wait(10)
        return "done"

    async with mock_chat_agent(chatting(agent)) as harness:
        pending = harness.begin_message("Work.")
        await anyio.to_thread.run_sync(begun.wait)
        await harness.send_stop()
        turn = await pending
        is_still_at_work = not let_go.is_set()
        let_go.set()
        later = await harness.send_message("Thanks.")

    assert is_still_at_work
    assert types_of(turn)[-2:] == ["tool-input-available", "abort"]
    assert [part["type"] for part in kept(harness)[1]["parts"]] == ["step-start"]
    assert later.text == "Fine."


async def test_a_stop_before_the_agent_begins_asks_no_model() -> None:
    agent = saying()

    async def run(event: RunEvent[Any]) -> PydanticAIStream[Any]:
        await event.stop_signal.wait()
        return PydanticAIStream(agent, event)

    async with mock_chat_agent(chatting(agent, run=run)) as harness:
        pending = harness.begin_message("hello")
        await harness.wait_for(lambda harness: any(each.name == "run" for each in harness.hooks))
        await harness.send_stop()
        turn = await pending

    assert chunks_of(turn)[1:] == [{"type": "abort", "reason": "stopped"}]
    assert model_of(agent).asked == []
    assert turn.stopped


async def test_a_run_that_is_cancelled_ends_its_agent() -> None:
    model = Halting("Once upon ")

    async with mock_chat_agent(chatting(saying(model))) as harness:
        harness.begin_message("Tell me a story.")
        await harness.wait_streaming("Once upon ")
        await harness.close()

    assert model.has_ended
    assert to_wire(harness.all_chunks[-1]) == {"type": "abort", "reason": "close"}


async def test_a_run_that_is_killed_ends_its_agent_and_the_next_one_answers() -> None:
    model = Halting("Once upon ")
    agent = saying(model, ["Once upon a time."])

    async with mock_chat_agent(chatting(agent)) as harness:
        harness.begin_message("Tell me a story.")
        await harness.wait_streaming("Once upon ")
        await harness.kill_run()
        has_ended = model.has_ended
        await harness.continue_run()
        turn = await harness.send_message("Go on.")

    assert has_ended
    assert turn.text == "Once upon a time."
    assert asked_with(model_of(agent), 1) == [
        ("user-prompt", "Tell me a story."),
        ("text", "Once upon "),
        ("user-prompt", "Go on."),
    ]


async def test_an_agent_that_cancels_itself_says_so() -> None:
    agent = saying(call("give_up"), ["Fine."])

    @agent.tool
    async def give_up(ctx: RunContext[None]) -> str:
        ctx.cancel()
        await anyio.sleep_forever()
        return "never"

    async with mock_chat_agent(chatting(agent)) as harness:
        turn = await harness.send_message("go")
        later = await harness.send_message("on")

    assert chunks_of(turn)[-1] == {"type": "abort", "reason": "The agent run was cancelled."}
    assert not turn.stopped
    assert later.text == "Fine."


# --- errors ---


async def test_a_model_that_fails_at_once_is_an_error_that_hides_its_words() -> None:
    agent = saying(ValueError("secret"), ["Fine."])

    async with mock_chat_agent(chatting(agent, on_turn_complete=complete)) as harness:
        turn = await harness.send_message("hello")
        later = await harness.send_message("again")

    assert chunks_of(turn)[1:] == [{"type": "error", "errorText": "An error occurred."}]
    assert (turn.error, turn.error_texts) == (None, ["An error occurred."])
    assert completes(harness)[0].usage is None
    assert completes(harness)[0].response_message is not None
    assert later.text == "Fine."


async def test_a_model_that_fails_in_mid_stream_keeps_what_it_said() -> None:
    async def broken() -> AsyncIterator[Any]:
        yield "Once upon "
        raise ValueError("no story")

    bot = chatting(saying(broken), ui_message_stream_options={"on_error": "sorry: {}".format})
    async with mock_chat_agent(bot) as harness:
        turn = await harness.send_message("Tell me a story.")

    assert chunks_of(turn)[-4:] == [
        {"type": "text-end", "id": "msg-3"},
        {"type": "error", "errorText": "sorry: no story"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "error"},
    ]
    assert turn.finish_reason == "error"
    assert kept(harness)[1]["parts"][1]["text"] == "Once upon "


async def test_a_tool_that_fails_ends_the_answer() -> None:
    agent = saying(call("weather"), ["Fine."])

    @agent.tool_plain
    def weather() -> str:
        raise ValueError("no sky")

    bot = chatting(agent, ui_message_stream_options={"on_error": str, "redact_tool_errors": False})
    async with mock_chat_agent(bot) as harness:
        turn = await harness.send_message("How is it?")
        later = await harness.send_message("And now?")

    assert chunks_of(turn)[-4:] == [
        {
            "type": "tool-output-error",
            "toolCallId": "call-1",
            "errorText": "Tool execution was interrupted by an error.",
        },
        {"type": "error", "errorText": "no sky"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "error"},
    ]
    assert later.text == "Fine."


async def test_a_system_prompt_that_fails_is_an_error_of_the_stream() -> None:
    agent = saying()

    @agent.system_prompt
    def broken() -> str:
        raise ValueError("no prompt")

    async with mock_chat_agent(chatting(agent, ui_message_stream_options={"on_error": str})) as harness:
        turn = await harness.send_message("hello")

    assert chunks_of(turn)[1:] == [{"type": "error", "errorText": "no prompt"}]


async def test_an_on_error_that_gives_no_text_fails_the_turn() -> None:
    bot = chatting(saying(ValueError("x")), ui_message_stream_options={"on_error": print})
    async with mock_chat_agent(bot) as harness:
        turn = await harness.send_message("hello")

    assert "`on_error`" in str(turn.error)
