"""The scripted model: which answer a call gets, where it waits, and what it remembers."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from chatagent.current import current_run
from chatagent.errors import AbortError, APICallError, InvalidArgumentError, ScriptExhaustedError, WaitTimeoutError
from chatagent.model import (
    CallOptions,
    FinishReason,
    GenerateResult,
    LanguageModel,
    ModelError,
    ModelFile,
    ModelReasoning,
    ModelSource,
    ModelStreamPart,
    ModelText,
    ModelTextDelta,
    ModelTextEnd,
    ModelTextStart,
    ModelToolCall,
    StreamResult,
    Usage,
    UserMessage,
    stream_part_to_wire,
)
from chatagent.signals import AbortController
from chatagent.waiting import Ledger
from chatagent_test.clock import VirtualClock
from chatagent_test.language_model import MockLanguageModel
from chatagent_test.scripting import script

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

CALL = CallOptions(prompt=(UserMessage("hi"),))


async def parts_of(model: MockLanguageModel, options: CallOptions = CALL) -> list[Any]:
    return [part async for part in (await model.do_stream(options)).stream]


async def text_of(model: MockLanguageModel, options: CallOptions = CALL) -> str:
    return "".join(part.delta for part in await parts_of(model, options) if isinstance(part, ModelTextDelta))


class Run:
    """As much of a run as a model asks for."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.ledger = Ledger()


@asynccontextmanager
async def virtual_time() -> AsyncIterator[VirtualClock]:
    clock = VirtualClock()
    token = current_run.set(Run(clock))  # type: ignore[arg-type] - as much of it as is needed
    with anyio.fail_after(5):
        yield clock
    current_run.reset(token)


class Reader:
    """Reads a stream in a task of its own, and shows how far it came."""

    def __init__(self) -> None:
        self.parts: list[ModelStreamPart] = []
        self.error: BaseException | None = None
        self.done = anyio.Event()

    async def read(self, model: MockLanguageModel, options: CallOptions) -> None:
        try:
            async for part in (await model.do_stream(options)).stream:
                self.parts.append(part)  # type: ignore[arg-type] - scripts give objects
        except Exception as exc:  # noqa: BLE001 - looked at by the test
            self.error = exc
        self.done.set()


def test_it_is_a_language_model() -> None:
    model = MockLanguageModel(script.text("hi"))

    assert isinstance(model, LanguageModel)
    assert (model.provider, model.model_id, model.supported_urls) == ("mock-provider", "mock-model-id", {})


async def test_one_script_answers_every_call() -> None:
    model = MockLanguageModel(script.text("hi"))

    assert [await text_of(model), await text_of(model)] == ["hi", "hi"]


async def test_a_list_answers_one_call_an_entry_and_then_names_the_call() -> None:
    model = MockLanguageModel([script.text("a"), script.text("b")])

    assert [await text_of(model), await text_of(model)] == ["a", "b"]
    with pytest.raises(ScriptExhaustedError, match=r"^no scripted model call 3: `do_stream` was"):
        await text_of(model)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_answers_by_what_is_asked(is_async: bool) -> None:  # noqa: FBT001 - a parameter of the test
    def answer(options: CallOptions) -> Any:
        return script.text(f"{len(options.prompt)} messages")

    async def answer_later(options: CallOptions) -> Any:
        return answer(options)

    model = MockLanguageModel(answer_later if is_async else answer)

    assert await text_of(model) == "1 messages"


async def test_calls_are_recorded_before_they_are_answered_and_as_they_are() -> None:
    model = MockLanguageModel([])
    generating = MockLanguageModel(script.text("hi"))

    with pytest.raises(ScriptExhaustedError):
        await model.do_stream(CALL)
    await generating.do_generate(CALL)

    assert (len(model.do_stream_calls), model.do_stream_calls[0] is CALL) == (1, True)
    assert (generating.do_stream_calls, generating.do_generate_calls) == ([], [CALL])


async def test_no_two_calls_of_a_model_share_an_id() -> None:
    model = MockLanguageModel(script.text("a").tool_call("t", {}))

    first, second = await parts_of(model), await parts_of(model)

    calls = [part.tool_call_id for part in (*first, *second) if isinstance(part, ModelToolCall)]
    blocks = [part.id for part in (*first, *second) if isinstance(part, ModelTextStart)]
    assert (calls, blocks) == (["call-1", "call-2"], ["text-1", "text-2"])


async def test_a_refused_call_raises_and_the_next_entry_answers_the_next_try() -> None:
    model = MockLanguageModel([script.error(429), script.text("ok")])

    with pytest.raises(APICallError, match=r"^429 Too Many Requests$"):
        await model.do_stream(CALL)

    assert await text_of(model) == "ok"


async def test_a_stream_breaks_where_the_script_says() -> None:
    """F-47, F-49."""
    failure = OSError("gone")
    stream = aiter((await MockLanguageModel(script.text("a").breaks(failure)).do_stream(CALL)).stream)

    read = [await anext(stream) for _ in range(3)]

    assert isinstance(read[-1], ModelTextEnd)
    with pytest.raises(OSError, match=r"^gone$"):
        await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_pause_is_on_the_clock_of_the_run() -> None:
    reader = Reader()
    model = MockLanguageModel(script.text("a").pause(3600).text("b"))

    async with virtual_time() as clock, anyio.create_task_group() as tasks:
        tasks.start_soon(reader.read, model, CALL)
        await clock.wait_sleeping(1)
        before = len(reader.parts)
        clock.advance(3600)
        await reader.done.wait()

    assert (before, len(reader.parts)) == (3, 7)


async def test_a_pause_that_can_be_aborted_ends_when_its_time_has_come() -> None:
    reader = Reader()
    model = MockLanguageModel(script.hold("up").pause(3600).text("b"))
    options = CallOptions(prompt=(), abort_signal=AbortController().signal)

    async with virtual_time() as clock, anyio.create_task_group() as tasks:
        tasks.start_soon(reader.read, model, options)
        await model.reached("up")
        model.release("up")
        while clock.next_deadline() is None:
            await anyio.lowlevel.checkpoint()
        clock.advance(3599)
        assert not reader.parts
        clock.advance(1)
        await reader.done.wait()

    assert len(reader.parts) == 4


async def test_a_hold_stops_the_stream_until_it_is_released() -> None:
    reader = Reader()
    model = MockLanguageModel(script.text("a").hold("mid").text("b"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader.read, model, CALL)
            await model.reached("mid")
            before = len(reader.parts)
            with pytest.raises(AssertionError, match=r"^the model still stands at hold\('mid'\); release it$"):
                model.assert_done()
            model.release("mid")
            await reader.done.wait()

    assert (before, len(reader.parts)) == (3, 7)
    model.assert_done()


async def test_a_hold_released_in_advance_does_not_stop_and_was_reached() -> None:
    model = MockLanguageModel(script.hold("mid").text("b"))
    model.release("mid")

    with anyio.fail_after(5):
        assert await text_of(model) == "b"
        await model.reached("mid")


async def test_each_call_stops_at_its_own_hold() -> None:
    model = MockLanguageModel(script.hold("mid").text("b"))
    readers = [Reader(), Reader()]

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for reader in readers:
                tasks.start_soon(reader.read, model, CALL)
                await model.reached("mid")
                model.release("mid")
                await reader.done.wait()

    assert [len(reader.parts) for reader in readers] == [4, 4]


async def test_a_hold_that_no_script_has_is_named() -> None:
    model = MockLanguageModel([script.hold("mid"), script.text("a")])

    with pytest.raises(InvalidArgumentError, match=r"`name` is 'mud': no script of this model has a hold .* has mid$"):
        model.release("mud")
    with pytest.raises(InvalidArgumentError, match=r"`name` is 'mud'"):
        await model.reached("mud")


async def test_a_hold_that_is_not_reached_is_waited_for_a_limited_time() -> None:
    model = MockLanguageModel([script.text("a"), script.text("b").hold("there"), script.error(500), script.hold("mid")])
    reader = Reader()

    with pytest.raises(
        WaitTimeoutError, match=r"come to script\.hold\('mid'\) within 0 s of real time; it was not called$"
    ):
        await model.reached("mid", wait_timeout=0)
    async with anyio.create_task_group() as tasks:
        await parts_of(model)
        tasks.start_soon(reader.read, model, CALL)
        await model.reached("there")
        with pytest.raises(APICallError):
            await parts_of(model)
        with pytest.raises(WaitTimeoutError) as caught:
            await model.reached("mid", wait_timeout=0)
        model.release("there")

    assert str(caught.value).split("; ", 1)[1].splitlines() == [
        "it was called 3 times:",
        "  call 1 gave 4 parts, and has ended",
        "  call 2 gave 3 parts, and stands at script.hold('there')",
        "  call 3 gave 0 parts, and ended with APICallError('500 Internal Server Error')",
    ]


async def test_a_hold_may_be_waited_for_again_when_a_wait_was_given_up() -> None:
    model = MockLanguageModel(script.hold("mid").text("b"))
    reader = Reader()
    with pytest.raises(WaitTimeoutError):
        await model.reached("mid", wait_timeout=0)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader.read, model, CALL)
            await model.reached("mid")
            model.release("mid")
            await reader.done.wait()

    assert len(reader.parts) == 4


@pytest.mark.parametrize(
    "said",
    [script.text("a").hang(), script.text("a").hold("x"), script.text("a").pause(9)],
    ids=["hang", "hold", "pause"],
)
async def test_an_abort_ends_the_stream_wherever_it_waits(said: Any) -> None:
    controller = AbortController()
    reader = Reader()
    model = MockLanguageModel(said)

    async with virtual_time(), anyio.create_task_group() as tasks:
        tasks.start_soon(reader.read, model, CallOptions(prompt=(), abort_signal=controller.signal))
        while len(reader.parts) < 3:
            await anyio.lowlevel.checkpoint()
        controller.abort("enough")
        await reader.done.wait()

    assert isinstance(reader.error, AbortError)
    assert (reader.error.reason, len(reader.parts)) == ("enough", 3)
    model.assert_done()


async def test_an_abort_ends_a_call_that_waits_before_it_fails() -> None:
    controller = AbortController()
    controller.abort()
    model = MockLanguageModel(script.pause(3600).error(500))

    with pytest.raises(AbortError):
        await model.do_stream(CallOptions(prompt=(), abort_signal=controller.signal))


async def test_a_closed_stream_gives_no_more() -> None:
    stream: Any = (await MockLanguageModel(script.text("a")).do_stream(CALL)).stream

    await anext(stream)
    await stream.aclose()

    assert [part async for part in stream] == []


async def test_a_script_may_answer_in_one_piece() -> None:
    said = (
        script.reasoning("hm").text("ab", chunks=["a", "b"]).file("eA==", "text/plain").source("https://e.com")
    ).tool_call("t", {"x": 1})

    answer = await MockLanguageModel(said).do_generate(CALL)

    assert list(answer.content) == [
        ModelReasoning("hm"),
        ModelText("ab"),
        ModelFile("text/plain", "eA=="),
        ModelSource("url", "source-1", url="https://e.com"),
        ModelToolCall("call-1", "t", '{"x":1}'),
    ]
    assert answer.finish_reason == FinishReason("tool-calls")
    assert answer.usage.input_tokens.total == 10


async def test_what_parts_tell_about_an_answer_is_in_it() -> None:
    said = script.parts(
        [
            {"type": "stream-start", "warnings": [{"type": "other", "message": "m"}]},
            {"type": "response-metadata", "id": "r", "modelId": "m"},
            {"type": "ping"},
            {"type": "custom", "kind": "p.k"},
        ]
    )

    answer = await MockLanguageModel(said).do_generate(CALL)

    assert [stream_part_to_wire(part) for part in answer.content] == [{"type": "custom", "kind": "p.k"}]
    assert (answer.warnings[0].message, answer.response and answer.response.id) == ("m", "r")
    assert (answer.finish_reason, answer.usage) == (FinishReason("other"), Usage())


@pytest.mark.parametrize("said", [script.error(RuntimeError("x")), script.text("a").error(RuntimeError("x"))])
async def test_an_error_fails_an_answer_in_one_piece(said: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^x$"):
        await MockLanguageModel(said).do_generate(CALL)


async def test_without_a_script_a_call_is_not_implemented() -> None:
    with pytest.raises(NotImplementedError, match=r"^Not implemented: give MockLanguageModel a script"):
        await MockLanguageModel().do_stream(CALL)


async def test_a_raw_stream_of_a_list_answers_every_call() -> None:
    model = MockLanguageModel(do_stream={"stream": [ModelTextStart("0"), {"type": "ping"}]})

    first, second = await parts_of(model), await parts_of(model)

    assert first == second == [ModelTextStart("0"), {"type": "ping"}]


async def test_raw_results_may_come_from_a_list_or_a_function_and_may_be_errors() -> None:
    listed = MockLanguageModel(do_stream=[StreamResult(stream=script_stream("a")), RuntimeError("x")])
    made = MockLanguageModel(do_stream=lambda options: {"stream": [ModelError(len(options.prompt))]})

    assert await parts_of(listed) == ["a"]
    with pytest.raises(RuntimeError, match=r"^x$"):
        await parts_of(listed)
    with pytest.raises(ScriptExhaustedError):
        await parts_of(listed)
    assert await parts_of(made) == [ModelError(1)]


async def test_raw_answers_in_one_piece() -> None:
    answer = GenerateResult(content=[ModelText("a")], finish_reason=FinishReason("stop"), usage=Usage())
    model = MockLanguageModel(do_generate=answer)

    assert await model.do_generate(CALL) is answer
    with pytest.raises(NotImplementedError):
        await model.do_stream(CALL)


async def test_what_is_left_of_a_script_is_told() -> None:
    model = MockLanguageModel([script.text("a"), script.text("b")])
    await parts_of(model)

    with pytest.raises(AssertionError) as caught:
        model.assert_done()

    assert str(caught.value) == (
        "the model's script has 1 of 2 entries left, the next is script.text('b'); "
        "let it be asked for them, or leave them out\n"
        "it was called once:\n"
        "  call 1 gave 4 parts, and has ended"
    )


async def test_a_call_that_was_cancelled_is_told_without_the_cancellation_s_own_words() -> None:
    model = MockLanguageModel([script.text("a").hold("here"), script.text("b")])

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(parts_of, model)
            await model.reached("here")
            scope.cancel()
    with pytest.raises(AssertionError) as caught:
        model.assert_done()

    told = str(caught.value).splitlines()[-1]
    assert told == "  call 1 gave 3 parts, and was cancelled (stands at script.hold('here'))"


async def test_what_is_left_of_raw_results_is_told() -> None:
    model = MockLanguageModel(do_stream=[{"stream": []}, {"stream": []}])
    await parts_of(model)

    with pytest.raises(AssertionError, match=r"^the model's do_stream has 1 of 2 entries left, the next is \{'stream"):
        model.assert_done()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"script": "hi"}, "`script` is 'hi': give a Script, such as"),
        ({"script": [script.text("a"), "b"]}, "`script` is 'b': give a Script, such as"),
        ({"script": script, "do_stream": {"stream": []}}, "it excludes raw results"),
    ],
)
def test_a_model_that_cannot_work_is_refused_where_it_is_made(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(text)):
        MockLanguageModel(**options)


async def test_what_is_no_result_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"`do_stream` is 7: give a StreamResult"):
        await MockLanguageModel(do_stream=lambda _options: 7).do_stream(CALL)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidArgumentError, match=r"`script` is 'hi'"):
        await MockLanguageModel(lambda _options: "hi").do_stream(CALL)  # type: ignore[arg-type, return-value]


def test_supported_urls_may_be_a_function() -> None:
    model = MockLanguageModel(script.text("a"), supported_urls=lambda: {"*": ["."]})

    assert model.supported_urls == {"*": ["."]}


async def script_stream(*parts: Any) -> AsyncIterator[Any]:
    for part in parts:
        yield part


async def test_a_raw_result_may_be_plain_data_all_through() -> None:
    parts = [{"type": "finish", "finishReason": "stop", "usage": {}}]
    raw = {"stream": parts, "response": {"headers": {"h": "1"}}, "request": {"body": "b"}}
    model = MockLanguageModel(do_stream=raw)

    result = await model.do_stream(CallOptions(prompt=()))

    assert result.response is not None
    assert result.response.headers == {"h": "1"}
    assert result.request is not None
    assert result.request.body == "b"
