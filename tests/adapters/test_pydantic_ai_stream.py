"""A run of an agent of pydantic-ai as a `Streamable`, read by hand (rules 1.16, 12.1 to 12.6)."""

from __future__ import annotations

import importlib
import subprocess
import sys
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from pydantic_ai import Agent, RunContext, UsageLimits
from pydantic_ai.messages import CustomEvent, ToolReturn
from pydantic_ai.models.function import DeltaThinkingPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.ui.vercel_ai.response_types import SourceUrlChunk

from adapters.pydantic_ai_agents import BACKENDS, ScriptedModel, ask, asked_with, call, model_of, saying
from chatagent.adapters.pydantic_ai import PydanticAIStream
from chatagent.errors import AbortError, InvalidArgumentError, InvalidPromptError, MissingExtraError
from chatagent.generate import FullFinish, FullStart, Streamable
from chatagent.signals import AbortController
from chatagent.ui import to_wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.adapters.driving import DrivenStream
    from chatagent.ui import Chunk, StreamEndEvent, StreamStepEndEvent

pytestmark = pytest.mark.anyio


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


async def read(stream: DrivenStream) -> list[dict[str, Any]]:
    async with aclosing(stream):
        return [to_wire(chunk) async for chunk in stream]


async def pumped(stream: DrivenStream) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    await stream.pump(lambda chunk: seen.append(to_wire(chunk)))
    return seen


def types(chunks: list[dict[str, Any]]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


def answering(agent: Agent[Any, Any], **options: Any) -> PydanticAIStream[Any]:
    given: dict[str, Any] = {"messages": [ask()], **options}
    return PydanticAIStream(agent, **given)


async def forever() -> AsyncIterator[Any]:
    yield "Once upon "
    await anyio.sleep_forever()


# --- the contract ---


async def test_a_run_is_a_streamable() -> None:
    assert isinstance(answering(saying(["hi"])), Streamable)


@pytest.mark.parametrize("how", [read, pumped])
async def test_a_new_message_has_the_id_that_was_made_for_it(how: Any) -> None:
    ended: list[StreamEndEvent] = []
    stream = answering(saying(["hi"])).to_ui_message_stream(
        original_messages=[ask()], generate_message_id=lambda: "m-9", on_end=ended.append
    )

    chunks = await how(stream)

    assert chunks[0] == {"type": "start", "messageId": "m-9"}
    (event,) = ended
    assert (event.response_message.id, event.response_message.text) == ("m-9", "hi")
    assert [message.id for message in event.messages] == ["u-1", "m-9"]
    assert (event.is_continuation, event.is_aborted, event.is_cancelled) == (False, False, False)
    assert event.outcome.status == "completed"


async def test_an_assistant_message_at_the_end_is_continued() -> None:
    ended: list[StreamEndEvent] = []
    begun = {"id": "a-1", "role": "assistant", "parts": [{"type": "text", "text": "Well, "}]}
    stream = answering(saying(["hi"])).to_ui_message_stream(
        original_messages=[ask(), begun], generate_message_id=lambda: "m-9", on_end=ended.append
    )

    chunks = await read(stream)

    assert chunks[0] == {"type": "start", "messageId": "a-1"}
    assert ended[0].is_continuation
    assert ended[0].response_message.text == "Well, hi"


async def test_steps_are_told_as_they_end() -> None:
    agent = saying(call("look"), ["done"])
    steps: list[int] = []

    @agent.tool_plain
    def look() -> str:
        return "nothing"

    def on_step_end(event: StreamStepEndEvent) -> None:
        steps.append(len(event.response_message.parts))

    await read(answering(agent).to_ui_message_stream(on_step_end=on_step_end))

    assert steps == [2, 4]


async def test_closing_the_stream_ends_the_agent_and_tells_so() -> None:
    ended: list[StreamEndEvent] = []
    run = answering(saying(forever))
    stream = run.to_ui_message_stream(on_end=ended.append)

    async for chunk in stream:
        if chunk.type == "text-delta":
            break
    await stream.aclose()

    (event,) = ended
    assert event.is_cancelled
    assert event.response_message.text == "Once upon "
    with pytest.raises(AbortError):
        await run.result


async def test_closing_a_stream_that_nobody_read_settles_the_run() -> None:
    run = answering(saying(["hi"]))

    await run.to_ui_message_stream().aclose()

    with pytest.raises(AbortError):
        await run.total_usage


async def test_cancelling_the_reader_ends_the_agent() -> None:
    ended: list[StreamEndEvent] = []
    stream = answering(saying(forever)).to_ui_message_stream(on_end=ended.append)
    seen: list[str] = []

    with anyio.CancelScope() as scope:

        def sink(chunk: Chunk) -> None:
            seen.append(chunk.type)
            if chunk.type == "text-delta":
                scope.cancel()

        await stream.pump(sink)

    assert seen[-1] == "text-delta"
    assert [event.is_cancelled for event in ended] == [True]


async def test_what_the_sink_raises_ends_the_agent_and_is_raised() -> None:
    ended: list[StreamEndEvent] = []
    stream = answering(saying(forever)).to_ui_message_stream(on_end=ended.append)

    def sink(chunk: Chunk) -> None:
        if chunk.type == "text-delta":
            raise LookupError("no room")

    with pytest.raises(LookupError, match=r"^no room$"):
        await stream.pump(sink)

    assert len(ended) == 1


async def test_a_signal_that_was_aborted_before_asks_no_model() -> None:
    controller = AbortController()
    controller.abort("too late")
    ended: list[StreamEndEvent] = []
    agent = saying(["hi"])
    run = answering(agent, abort_signal=controller.signal)

    chunks = await read(run.to_ui_message_stream(generate_message_id=lambda: "m-1", on_end=ended.append))

    assert chunks == [{"type": "start", "messageId": "m-1"}, {"type": "abort", "reason": "too late"}]
    assert model_of(agent).asked == []
    assert (ended[0].is_aborted, ended[0].outcome.status) == (True, "aborted")
    with pytest.raises(AbortError, match=r"^This operation was aborted: too late$"):
        await run.total_usage


async def test_a_stopped_run_is_settled_though_nobody_closes_its_stream() -> None:
    controller = AbortController()
    run = answering(saying(forever), abort_signal=controller.signal)

    async for chunk in run.to_ui_message_stream():
        if chunk.type == "text-delta":
            controller.abort("enough")

    with pytest.raises(AbortError, match=r"^This operation was aborted: enough$"):
        await run.result


@pytest.mark.parametrize("whose", ["the run's", "the reader's"])
async def test_either_signal_stops_the_agent(whose: str) -> None:
    controller = AbortController()
    own = controller.signal if whose == "the run's" else None
    stream = answering(saying(forever), abort_signal=own).to_ui_message_stream()
    seen: list[dict[str, Any]] = []

    def sink(chunk: Chunk) -> None:
        seen.append(to_wire(chunk))
        if chunk.type == "text-delta":
            controller.abort()

    await stream.pump(sink, abort_signal=controller.signal if whose == "the reader's" else None)

    assert seen[-1] == {"type": "abort"}


async def test_a_signal_behind_the_end_changes_nothing() -> None:
    controller = AbortController()
    run = answering(saying(["hi"]), abort_signal=controller.signal)

    chunks = await read(run.to_ui_message_stream())
    controller.abort()

    assert chunks[-1] == {"type": "finish"}
    assert (await run.result).output == "hi"


async def test_an_answer_to_nothing_is_an_error_and_asks_no_model() -> None:
    agent = saying(["hi"])
    run = answering(agent, messages=[])

    chunks = await read(run.to_ui_message_stream(on_error=str))

    assert chunks[1:] == [{"type": "error", "errorText": "Invalid prompt: messages must not be empty"}]
    assert model_of(agent).asked == []
    with pytest.raises(InvalidPromptError):
        await run.result


async def test_a_failure_is_told_in_the_outcome() -> None:
    ended: list[StreamEndEvent] = []
    error = ValueError("no")

    run = answering(saying(error))
    await read(run.to_ui_message_stream(on_end=ended.append))

    assert (ended[0].outcome.status, ended[0].outcome.error) == ("failed", error)
    with pytest.raises(ValueError, match=r"^no$"):
        await run.result


# --- result and usage ---


async def test_awaiting_the_usage_runs_an_agent_that_nobody_streams() -> None:
    agent = saying(["hi there"])

    usage = await answering(agent).total_usage

    assert len(model_of(agent).asked) == 1
    assert usage.output_tokens
    assert usage.total_tokens == (usage.input_tokens or 0) + usage.output_tokens


async def test_result_and_usage_can_be_awaited_often_and_the_agent_runs_once() -> None:
    agent = saying(["hi there"])
    run = answering(agent)

    await read(run.to_ui_message_stream())
    results = [await run.result, await run.result]
    await run.total_usage

    assert results[0] is results[1]
    assert results[0].output == "hi there"
    assert len(model_of(agent).asked) == 1


async def test_a_run_is_streamed_once() -> None:
    run = answering(saying(["hi"]))
    await read(run.to_ui_message_stream())

    with pytest.raises(RuntimeError, match=r"^a PydanticAIStream is one run of its agent"):
        run.to_ui_message_stream()


# --- what is given ---


async def test_messages_may_be_ui_messages_or_wire_forms_or_model_messages() -> None:
    ui = {"id": "u-1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
    for messages in ([ask()], [ui], [{"role": "user", "content": "hello"}]):
        agent = saying(["hi"])

        await answering(agent, messages=messages).result

        assert asked_with(model_of(agent), 0) == [("user-prompt", "hello")]


async def test_calls_without_an_outcome_are_left_out_of_ui_messages() -> None:
    open_call: dict[str, object] = {
        "type": "tool-look",
        "toolCallId": "call-1",
        "state": "input-available",
        "input": {},
    }
    said: dict[str, object] = {"type": "text", "text": "Hm."}
    history = [ask(), {"id": "a-1", "role": "assistant", "parts": [said, open_call]}, ask()]
    agent = saying(["hi"])

    await answering(agent, messages=history).result

    assert [kind for kind, _ in asked_with(model_of(agent), 0)] == ["user-prompt", "text", "user-prompt"]


ELSEWHERE = {"type": "file", "url": "s3://bucket/secret.pdf", "mediaType": "application/pdf"}
UPLOADED = {**ELSEWHERE, "url": "file-1", "providerReference": {"openai": "file-1"}}
PAGE = {**ELSEWHERE, "url": "https://example.com/a.pdf"}


def prompts_of(agent: Agent[Any, Any]) -> list[Any]:
    return [content for kind, content in asked_with(model_of(agent), 0) if kind == "user-prompt"]


@pytest.mark.parametrize("part", [ELSEWHERE, UPLOADED], ids=["scheme", "reference"])
async def test_files_that_a_provider_fetches_with_rights_of_the_server_are_left_out(part: dict[str, object]) -> None:
    agent = saying(["hi"])
    text = {"type": "text", "text": "Read it."}
    run = answering(agent, messages=[{"id": "u-1", "role": "user", "parts": [text, part, PAGE]}])

    with pytest.warns(UserWarning, match=r"client"):
        await run.result

    ((said, page),) = prompts_of(agent)
    assert (said, page.url) == ("Read it.", "https://example.com/a.pdf")


async def test_such_files_can_be_allowed() -> None:
    agent = saying(["hi"])
    messages = [{"id": "u-1", "role": "user", "parts": [ELSEWHERE, UPLOADED]}]

    await answering(agent, messages=messages, allowed_file_url_schemes=["s3"], allow_uploaded_files=True).result

    ((elsewhere, uploaded),) = prompts_of(agent)
    assert (elsewhere.url, uploaded.file_id) == ("s3://bucket/secret.pdf", "file-1")


async def test_a_call_at_the_end_that_nobody_approved_does_not_run() -> None:
    agent = saying(["hi"])
    ran: list[str] = []

    @agent.tool_plain
    def delete() -> str:
        ran.append("delete")
        return "gone"

    made: dict[str, object] = {"type": "tool-call", "toolCallId": "call-1", "toolName": "delete", "input": {}}
    history = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": [made]}]
    with pytest.warns(UserWarning, match=r"unresolved tool call"):
        await answering(agent, messages=history).result

    assert ran == []


async def test_options_of_the_run_are_passed_on() -> None:
    other = ScriptedModel(["from another"])

    result = await answering(Agent(TestModel()), model=other, instructions="Be brief.").result

    assert result.output == "from another"
    assert other.infos[0].instructions == "Be brief."


async def test_a_limit_of_the_run_is_an_error_of_the_stream() -> None:
    run = answering(saying(["hi"]), usage_limits=UsageLimits(request_limit=0))

    chunks = await read(run.to_ui_message_stream(on_error=lambda error: type(error).__name__))

    assert chunks[1:] == [{"type": "error", "errorText": "UsageLimitExceeded"}]


def test_neither_an_event_nor_messages_is_an_error() -> None:
    with pytest.raises(InvalidArgumentError, match=r"give the event that `run` received, or messages$"):
        PydanticAIStream(Agent(TestModel()))


async def test_an_unknown_option_is_an_error() -> None:
    options: dict[str, Any] = {"nonsense": 1}

    with pytest.raises(TypeError, match=r"^to_ui_message_stream\(\) got unexpected keyword arguments: nonsense$"):
        answering(saying()).to_ui_message_stream(**options)


# --- what is shown ---


def thinking_agent() -> Agent[None, str]:
    """An agent that thinks, looks something up in a page, and answers."""
    agent = saying([{0: DeltaThinkingPart(content="Hm.")}, *call_as("look", at=1)], ["Found."])

    @agent.tool_plain
    def look() -> ToolReturn[str]:
        return ToolReturn("a page", metadata=[SourceUrlChunk(source_id="s-1", url="https://example.com")])

    return agent


def call_as(name: str, *, at: int) -> list[Any]:
    (made,) = call(name)
    assert not isinstance(made, str)
    return [{at: made[0]}]


async def test_reasoning_is_shown_unless_it_is_hidden_and_sources_if_they_are_asked_for() -> None:
    shown = types(await read(answering(thinking_agent()).to_ui_message_stream()))
    hidden = types(await read(answering(thinking_agent()).to_ui_message_stream(send_reasoning=False)))
    sourced = types(await read(answering(thinking_agent()).to_ui_message_stream(send_sources=True)))

    assert ("reasoning-delta" in shown, "source-url" in shown) == (True, False)
    assert not any(each.startswith("reasoning") for each in hidden)
    assert "source-url" in sourced


async def test_start_and_finish_can_be_left_out() -> None:
    stream = answering(saying(["hi"])).to_ui_message_stream(send_start=False, send_finish=False)

    chunks = types(await read(stream))

    assert (chunks[0], chunks[-1]) == ("start-step", "finish-step")


async def test_metadata_is_given_at_the_start_and_at_the_finish() -> None:
    def metadata(part: Any) -> object:
        if isinstance(part, FullStart):
            return {"by": "pydantic-ai"}
        return {"tokens": part.total_usage.output_tokens} if isinstance(part, FullFinish) else None

    run = answering(saying(["hi"]))
    chunks = await read(run.to_ui_message_stream(message_metadata=metadata))

    assert chunks[0]["messageMetadata"] == {"by": "pydantic-ai"}
    assert chunks[-1]["messageMetadata"] == {"tokens": (await run.total_usage).output_tokens}


async def test_the_time_of_another_clock_is_not_part_of_the_message() -> None:
    chunks = await read(answering(saying(["hi"])).to_ui_message_stream())

    assert "message-metadata" not in types(chunks)


async def test_errors_of_tools_are_hidden_like_other_errors() -> None:
    def agent() -> Agent[None, str]:
        made = saying(call("look", '{"at": 1}'), ["done"])

        @made.tool_plain
        def look() -> str:
            return "nothing"

        return made

    plain = await read(answering(agent()).to_ui_message_stream())
    hidden = await read(answering(agent()).to_ui_message_stream(on_error=lambda error: "oops"))

    (told,) = [chunk["errorText"] for chunk in plain if chunk["type"] == "tool-input-error"]
    assert "look" in told or "at" in told
    assert [chunk["errorText"] for chunk in hidden if chunk["type"] == "tool-input-error"] == ["oops"]


@dataclass(kw_only=True)
class Progress(CustomEvent, name="progress"):
    """An event of an application."""

    percent: int


async def test_events_of_the_application_are_data() -> None:
    agent = saying(call("work"), ["done"])

    @agent.tool
    async def work(ctx: RunContext[None]) -> str:
        await ctx.emit(Progress(percent=50))
        return "ok"

    chunks = await read(answering(agent).to_ui_message_stream())

    assert [chunk for chunk in chunks if chunk["type"].startswith("data-")] == [
        {"type": "data-progress", "data": {"percent": 50}}
    ]


# --- imports and event loops ---


def test_trio_is_refused_in_words() -> None:
    async def stream() -> None:
        answering(saying(["hi"])).to_ui_message_stream()

    with pytest.raises(
        RuntimeError, match=r"^pydantic-ai runs on asyncio only, and the running event loop is another$"
    ):
        anyio.run(stream, backend="trio")


def test_a_missing_pydantic_ai_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pydantic_ai"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    monkeypatch.delitem(sys.modules, "chatagent.adapters.pydantic_ai")

    with pytest.raises(MissingExtraError, match=r'pip install "chatagent\[pydantic-ai\]"$'):
        importlib.import_module("chatagent.adapters.pydantic_ai")


def test_the_room_itself_needs_no_framework() -> None:
    program = "import sys, chatagent.adapters; print('pydantic_ai' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"
