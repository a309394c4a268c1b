"""The UI message stream of a call: ids, metadata, error texts, and its two callbacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.lowlevel
import pytest

from chatagent.errors import UIMessageStreamError
from chatagent.generate import Streamable, is_step_count, stream_text, tool
from chatagent.ui import UIMessage, to_wire
from chatagent_test.language_model import MockLanguageModel
from chatagent_test.scripting import script

if TYPE_CHECKING:
    from chatagent.generate import StreamEndEvent, StreamStepEndEvent

pytestmark = pytest.mark.anyio

USER = UIMessage.model_validate({"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]})
ASSISTANT = UIMessage.model_validate({"id": "a1", "role": "assistant", "parts": [{"type": "text", "text": "so far"}]})


@tool
def double(n: int) -> int:
    return 2 * n


@tool
def failing() -> None:
    raise RuntimeError("password=1234")


async def chunks_of(source: Any, **options: Any) -> list[dict[str, Any]]:
    pumped: list[dict[str, Any]] = []
    await source.to_ui_message_stream(**options).pump(lambda chunk: pumped.append(to_wire(chunk)))
    return pumped


def hello() -> Any:
    return stream_text(model=MockLanguageModel(script.text("Hello")), prompt="Hi")


def test_a_result_is_streamable() -> None:
    assert isinstance(hello(), Streamable)


@pytest.mark.parametrize(
    ("originals", "generates", "message_id", "continues"),
    [
        ([USER, ASSISTANT], True, "a1", True),
        ([USER, {"id": "a2", "role": "assistant", "parts": []}], False, "a2", True),
        ([USER], True, "m1", False),
        (None, True, "m1", False),
        ([USER], False, None, False),
        (None, False, None, False),
    ],
)
async def test_the_message_id_is_the_continued_one_or_a_generated_one(
    originals: Any, generates: Any, message_id: str | None, continues: Any
) -> None:
    ended: list[StreamEndEvent] = []
    generate_id = (lambda: "m1") if generates else None

    chunks = await chunks_of(hello(), original_messages=originals, generate_message_id=generate_id, on_end=ended.append)

    (event,) = ended
    assert chunks[0].get("messageId") == message_id
    assert (event.response_message.id, event.is_continuation) == (message_id or "", continues)
    assert len(event.messages) == len(originals or []) + (not continues)
    assert event.messages[-1] is event.response_message


async def test_the_messages_before_the_last_are_not_looked_at_unless_somebody_asks() -> None:
    ended: list[StreamEndEvent] = []

    await chunks_of(hello(), original_messages=[{"broken": True}, USER], on_end=ended.append)

    assert ended[0].response_message.text == "Hello"


async def test_on_step_end_is_awaited_before_its_chunk_is_passed_on() -> None:
    order: list[Any] = []

    async def on_step_end(event: StreamStepEndEvent) -> None:
        await anyio.lowlevel.checkpoint()
        order.append(("step end", len(event.response_message.parts)))

    for how in ("pump", "read"):
        order.clear()
        model = MockLanguageModel([script.tool_call("double", {"n": 1}).finish("tool-calls"), script.text("2")])
        result = stream_text(model=model, prompt="Hi", tools=[double], stop_when=is_step_count(5))
        stream = result.to_ui_message_stream(on_step_end=on_step_end)
        if how == "pump":
            await stream.pump(lambda chunk: order.append(chunk.type))
        else:
            async for chunk in stream:
                order.append(chunk.type)

        steps = [index for index, each in enumerate(order) if each == "finish-step"]
        assert [order[index - 1] for index in steps] == [("step end", 2), ("step end", 4)]


async def test_what_on_step_end_raises_goes_to_on_error_and_the_stream_goes_on() -> None:
    texts: list[str] = []

    def on_step_end(_event: object) -> None:
        raise ValueError("not saved")

    def on_error(error: object) -> str:
        texts.append(str(error))
        return "oops"

    chunks = await chunks_of(hello(), on_step_end=on_step_end, on_error=on_error)

    assert texts == ["not saved"]
    assert chunks[-1] == {"type": "finish", "finishReason": "stop"}


async def test_what_on_end_raises_breaks_the_stream() -> None:
    def on_end(_event: object) -> None:
        raise ValueError("not saved")

    with pytest.raises(ValueError, match=r"^not saved$"):
        await chunks_of(hello(), on_end=on_end)


async def test_on_end_may_be_async() -> None:
    ended: list[str] = []

    async def on_end(event: StreamEndEvent) -> None:
        await anyio.lowlevel.checkpoint()
        ended.append(event.response_message.text)

    await chunks_of(hello(), on_end=on_end)

    assert ended == ["Hello"]


async def test_metadata_is_merged_where_it_belongs() -> None:
    ended: list[StreamEndEvent] = []
    given: dict[str, Any] = {"start": {"a": 1}, "text-delta": {"b": 2}, "finish-step": {"c": 3}, "finish": {"d": 4}}

    chunks = await chunks_of(hello(), message_metadata=lambda part: given.get(part.type), on_end=ended.append)

    assert [chunk["type"] for chunk in chunks] == [
        "start",
        "start-step",
        "text-start",
        "text-delta",
        "message-metadata",
        "text-end",
        "message-metadata",
        "finish-step",
        "finish",
    ]
    assert ended[0].response_message.metadata == {"a": 1, "b": 2, "c": 3, "d": 4}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "RuntimeError: password=1234"),
        ({"on_error": lambda _error: "Something failed."}, "Something failed."),
        ({"on_error": lambda _error: "hidden", "redact_tool_errors": False}, "RuntimeError: password=1234"),
        ({"redact_tool_errors": True}, "An error occurred."),
    ],
)
async def test_the_text_of_a_tool_error_is_shown_or_hidden(options: Any, text: str) -> None:
    model = MockLanguageModel(script.tool_call("failing", {}).finish("tool-calls"))

    chunks = await chunks_of(stream_text(model=model, prompt="Hi", tools=[failing]), **options)

    assert [chunk["errorText"] for chunk in chunks if chunk["type"] == "tool-output-error"] == [text]


async def test_errors_of_the_model_are_hidden_unless_on_error_says_otherwise() -> None:
    model = MockLanguageModel([script.error(400), script.error(400)])

    hidden = await chunks_of(stream_text(model=model, prompt="Hi", on_error=lambda _error: None))
    shown = await chunks_of(
        stream_text(model=model, prompt="Hi", on_error=lambda _error: None), on_error=lambda error: type(error).__name__
    )

    assert [hidden[-1], shown[-1]] == [
        {"type": "error", "errorText": "An error occurred."},
        {"type": "error", "errorText": "APICallError"},
    ]


async def test_a_chunk_that_does_not_fit_fails_the_tracked_stream_and_not_the_call() -> None:
    ended: list[StreamEndEvent] = []
    lost = [{"type": "text-delta", "id": "9", "delta": "lost"}]
    result = stream_text(model=MockLanguageModel(script.parts(lost).text("kept")), prompt="Hi")
    parts = result.full_stream

    with pytest.raises(UIMessageStreamError, match=r"^Received text-delta for missing text part"):
        await chunks_of(result, on_end=ended.append)

    assert (ended[0].outcome.status, type(ended[0].outcome.error)) == ("failed", UIMessageStreamError)
    assert [part.type async for part in parts][-1] == "finish"
    assert await result.text == "kept"


async def test_reasoning_and_sources_are_shown_as_asked_for() -> None:
    said = script.reasoning("hm").source("https://a.example").text("so")

    default = await chunks_of(stream_text(model=MockLanguageModel(said), prompt="Hi"))
    other = await chunks_of(
        stream_text(model=MockLanguageModel(said), prompt="Hi"),
        send_reasoning=False,
        send_sources=True,
        send_start=False,
        send_finish=False,
    )

    assert "reasoning-delta" in [chunk["type"] for chunk in default]
    assert [chunk["type"] for chunk in other] == [
        "start-step",
        "source-url",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
    ]


def test_an_option_that_nobody_knows_is_refused() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword arguments: on_finish$"):
        hello().to_ui_message_stream(on_finish=print)
