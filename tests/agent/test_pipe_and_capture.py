"""`chat.pipe_and_capture`: an answer is sent and comes back as a message (N-84)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import TEXT_TURN, agent_of, assistant, saying, types, user
from chatagent import chat, stream_text
from chatagent.errors import ChatContextError
from chatagent.ui import Finish, TextDelta, TextEnd, TextStart
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from chatagent import ChatAgent
    from chatagent.agent import CustomRunContext, PipeAndCaptureResult, WirePayload

pytestmark = pytest.mark.anyio


class Piping:
    """A custom agent that answers each message with what `source` gives, and keeps what became of it."""

    def __init__(self, source: Callable[[], Any], **options: Any) -> None:
        self.results: list[PipeAndCaptureResult] = []
        self._source, self._options = source, options

    @property
    def agent(self) -> ChatAgent[Any]:
        return chat.custom_agent(id="piping", run=self._run)

    async def _run(self, payload: WirePayload, context: CustomRunContext) -> None:
        while (await chat.messages.wait_with_idle_timeout(30)).ok:
            self.results.append(await chat.pipe_and_capture(self._source(), **self._options))
            await chat.write_turn_complete()


def asked(model: MockLanguageModel, **options: Any) -> Callable[[], Any]:
    return lambda: stream_text(model=model, prompt="hello", max_retries=0, **options)


async def test_an_answer_comes_back_as_the_client_saw_it() -> None:
    """PAC-001, N-84."""
    piping = Piping(asked(saying("hello world")))

    async with mock_chat_agent(piping.agent) as harness:
        turn = await harness.send_message("hi")

    (result,) = piping.results
    assert (result.status, result.finish_reason, result.error) == ("complete", "stop", None)
    assert result.message is not None
    assert result.message.text == "hello world"
    assert result.message.id == turn.raw_chunks[0]["messageId"]
    assert types(turn) == TEXT_TURN
    assert turn.message == result.message


async def test_a_source_that_breaks_gives_what_came_before() -> None:
    """PAC-002, N-84, F-46."""

    async def broken() -> AsyncIterator[Any]:
        yield {"type": "start"}
        yield {"type": "text-start", "id": "t"}
        yield {"type": "text-delta", "id": "t", "delta": "partial"}
        raise RuntimeError("boom")

    piping = Piping(broken)

    async with mock_chat_agent(piping.agent) as harness:
        turn = await harness.send_message("hi")

    (result,) = piping.results
    assert result.status == "error"
    assert str(result.error) == "boom"
    assert result.message is not None
    assert result.message.text == "partial"
    assert result.message.id == turn.raw_chunks[0]["messageId"]
    assert turn.error is None


async def test_a_stop_in_mid_stream_gives_what_came_before() -> None:
    """PAC-003, N-82, N-84, F-46."""
    model = saying(script.text("one two", chunks=["one ", "two"]).hold("held"))
    piping = Piping(asked(model))

    async with mock_chat_agent(piping.agent) as harness:
        pending = harness.begin_message("hi")
        await harness.wait_streaming("one")
        await harness.send_stop()
        turn = await pending

    (result,) = piping.results
    assert result.status == "aborted"
    assert result.error is None
    assert result.message is not None
    assert result.message.text.startswith("one")
    assert turn.stopped
    assert types(turn)[-1] == "trigger:turn-complete"


async def test_a_message_without_an_id_is_given_one_on_its_start_chunk() -> None:
    """N-84, F-80."""

    async def plain() -> AsyncIterator[Any]:
        yield {"type": "start"}
        yield TextStart(id="t")
        yield TextDelta(id="t", delta="hi")
        yield TextEnd(id="t")
        yield Finish()

    piping = Piping(plain)

    async with mock_chat_agent(piping.agent) as harness:
        turn = await harness.send_message(user("u-1"))

    (result,) = piping.results
    assert result.message is not None
    assert result.message.id
    assert turn.raw_chunks[0] == {"type": "start", "messageId": result.message.id}


async def test_an_answer_may_go_on_with_the_last_message() -> None:
    """N-84."""
    begun = assistant("a-1", "So far.")
    piping = Piping(asked(saying(" And on.")), original_messages=[user("u-1"), begun])

    async with mock_chat_agent(piping.agent) as harness:
        await harness.send_message("go on")

    (result,) = piping.results
    assert result.message is not None
    assert result.message.id == "a-1"
    assert result.message.text == "So far. And on."


async def test_it_serves_the_hooks_of_a_managed_agent_too() -> None:
    """N-84."""
    results: list[PipeAndCaptureResult] = []

    async def run(event: Any) -> None:
        results.append(await chat.pipe_and_capture(stream_text(model=saying("piped"), messages=event.messages)))

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("hi")

    assert results[0].message is not None
    assert results[0].message.text == "piped"
    assert turn.text == "piped"


async def test_outside_a_run_there_is_nobody_to_pipe_to() -> None:
    with pytest.raises(ChatContextError, match=r"^chat\.pipe_and_capture was called outside a run"):
        await chat.pipe_and_capture([])
