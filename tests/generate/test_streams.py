"""Reading a call: several readers, pumping, backpressure, and leaving early."""

from __future__ import annotations

import gc
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import anyio.lowlevel
import pytest

from chatagent.current import current_tasks
from chatagent.errors import AbortError, UnknownStreamPartError
from chatagent.generate import ToolCallOptions, is_step_count, stream_text, tool
from chatagent.generate.log import AHEAD
from chatagent.model import StreamResult
from chatagent.signals import AbortController
from chatagent.ui import StreamOutcome, to_wire
from chatagent_test.language_model import MockLanguageModel
from chatagent_test.scripting import script
from support.virtual_run import play

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.generate import StreamEndEvent

pytestmark = pytest.mark.anyio

TWO_STEPS = [
    script.reasoning("hm").tool_call("double", {"n": 2}).finish("tool-calls"),
    script.text("It is 4.", chunks=["It ", "is ", "4."]),
]


@tool
async def double(n: int) -> int:
    return 2 * n


class CountingModel(MockLanguageModel):
    """Streams text deltas without end, and knows how many were taken and whether its stream was closed."""

    def __init__(self) -> None:
        super().__init__(do_stream=lambda _options: StreamResult(stream=self._deltas()))
        self.taken = 0
        self.is_closed = False

    async def _deltas(self) -> AsyncIterator[Any]:
        try:
            yield {"type": "text-start", "id": "1"}
            while True:
                self.taken += 1
                yield {"type": "text-delta", "id": "1", "delta": "x"}
        finally:
            self.is_closed = True


async def settle() -> None:
    """Let everybody go on until nobody can; nothing here waits for anything but other tasks."""
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


async def read(stream: Any) -> list[Any]:
    return [item async for item in stream]


async def read_into(stream: Any, items: list[Any]) -> None:
    async for item in stream:
        items.append(item)


async def test_nothing_happens_before_somebody_reads() -> None:
    model = MockLanguageModel(script.text("Hello"))
    result = stream_text(model=model, prompt="Hi")

    assert hasattr(result, "total_usage")
    assert result.full_stream is not result.full_stream
    await settle()

    assert model.do_stream_calls == []
    assert await result.text == "Hello"


async def test_pumping_and_reading_give_equal_chunks() -> None:
    pumped: list[Any] = []
    ended: list[StreamEndEvent] = []
    options: Any = {"generate_message_id": lambda: "m1", "on_end": ended.append}

    first = stream_text(model=MockLanguageModel(TWO_STEPS), prompt="Hi", tools=[double], stop_when=is_step_count(5))
    await first.to_ui_message_stream(**options).pump(pumped.append)
    second = stream_text(model=MockLanguageModel(TWO_STEPS), prompt="Hi", tools=[double], stop_when=is_step_count(5))
    chunks = await read(second.to_ui_message_stream(**options))

    assert [chunk.type for chunk in pumped][:4] == ["start", "start-step", "reasoning-start", "reasoning-delta"]
    assert [to_wire(chunk) for chunk in pumped] == [to_wire(chunk) for chunk in chunks]
    assert ended[0].response_message == ended[1].response_message


async def test_pumping_a_call_that_somebody_reads_already_gives_all_chunks_too() -> None:
    result = stream_text(model=MockLanguageModel(script.text("abc", chunks=list("abc"))), prompt="Hi")
    parts = result.full_stream
    first = await anext(parts)
    pumped: list[Any] = []

    await result.to_ui_message_stream().pump(pumped.append)

    assert first.type == pumped[0].type == "start"
    assert [chunk.type for chunk in pumped].count("text-delta") == 3
    assert len(await read(parts)) == len(pumped) - 1


async def test_each_of_several_readers_gets_everything_from_the_first_part_on() -> None:
    result = stream_text(model=MockLanguageModel(script.text("abc", chunks=list("abc"))), prompt="Hi")
    got: dict[str, list[Any]] = {}

    async def keep(name: str, stream: Any) -> None:
        got[name] = await read(stream)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep, "parts", result.full_stream)
        tasks.start_soon(keep, "texts", result.text_stream)
        tasks.start_soon(keep, "chunks", result.to_ui_message_stream())
    late = await read(result.full_stream)

    assert got["texts"] == ["a", "b", "c"]
    assert [part.type for part in got["parts"]] == [chunk.type for chunk in got["chunks"]]
    assert late == got["parts"]


async def test_the_model_is_read_only_a_little_ahead_of_the_fastest_reader() -> None:
    model = CountingModel()
    result = stream_text(model=model, prompt="Hi")
    fast, slow = result.full_stream, result.full_stream

    await anext(slow)
    await settle()
    after_one = model.taken
    for _ in range(3 * AHEAD):
        await anext(fast)
    await settle()

    assert after_one <= AHEAD
    assert 2 * AHEAD < model.taken <= 4 * AHEAD
    await result.aclose()
    assert model.is_closed


async def test_awaiting_a_value_consumes_the_stream() -> None:
    deltas = ["x"] * (3 * AHEAD)
    result = stream_text(model=MockLanguageModel(script.text("x" * 3 * AHEAD, chunks=deltas)), prompt="Hi")
    parts = result.full_stream
    await anext(parts)

    assert await result.text == "x" * 3 * AHEAD
    assert len(await read(parts)) == len(deltas) + 5


async def test_the_last_reader_that_closes_closes_the_model_stream() -> None:
    model = CountingModel()
    result = stream_text(model=model, prompt="Hi")

    async with aclosing(result.full_stream) as first, aclosing(result.text_stream) as second:
        await anext(first)
        await anext(second)
        await first.aclose()
        await settle()
        assert not model.is_closed
        assert await anext(second) == "x"
    await settle()

    assert model.is_closed
    with pytest.raises(AbortError, match=r"^This operation was aborted: the stream was closed before its end$"):
        await result.text


async def test_breaking_out_of_a_loop_closes_the_model_stream() -> None:
    model = CountingModel()
    result = stream_text(model=model, prompt="Hi")

    async for text in result.text_stream:
        assert text == "x"
        break
    gc.collect()
    await settle()

    assert model.is_closed


async def test_a_reader_that_never_began_does_not_close_anything_by_leaving() -> None:
    result = stream_text(model=MockLanguageModel(script.text("Hello")), prompt="Hi")

    await result.full_stream.aclose()
    gc.collect()

    assert await result.text == "Hello"


async def test_closing_a_ui_stream_tells_on_end_once_that_it_was_cancelled() -> None:
    model = CountingModel()
    ended: list[StreamEndEvent] = []
    stream = stream_text(model=model, prompt="Hi").to_ui_message_stream(on_end=ended.append)

    for _ in range(4):
        await anext(stream)
    await stream.aclose()
    await stream.aclose()
    await settle()

    (event,) = ended
    assert (event.is_cancelled, event.is_aborted, event.outcome.status) == (True, False, "unknown")
    assert event.response_message.text.startswith("x")
    assert model.is_closed
    assert await read(stream) == []


async def test_a_pump_whose_task_is_cancelled_closes_the_model_and_tells_on_end() -> None:
    model = MockLanguageModel(script.text("Hello").hang())
    ended: list[StreamEndEvent] = []
    chunks: list[Any] = []
    result = stream_text(model=model, prompt="Hi")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(result.to_ui_message_stream(on_end=ended.append).pump, chunks.append)
        while not any(chunk.type == "text-end" for chunk in chunks):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()

    (event,) = ended
    assert (event.is_cancelled, event.response_message.text) == (True, "Hello")
    with pytest.raises(AbortError):
        await result.text


async def test_a_sink_that_raises_ends_the_pump_and_the_call() -> None:
    model = CountingModel()
    ended: list[StreamEndEvent] = []

    def sink(chunk: Any) -> None:
        if chunk.type == "text-delta":
            raise LookupError("the session is gone")

    with pytest.raises(LookupError, match=r"^the session is gone$"):
        await stream_text(model=model, prompt="Hi").to_ui_message_stream(on_end=ended.append).pump(sink)

    assert (len(ended), ended[0].is_cancelled, model.is_closed) == (1, True, True)


async def test_the_pumps_own_signal_ends_it_without_another_chunk() -> None:
    model = CountingModel()
    controller = AbortController()
    ended: list[StreamEndEvent] = []
    chunks: list[Any] = []

    def sink(chunk: Any) -> None:
        chunks.append(chunk)
        if len(chunks) == 10:
            controller.abort("enough")

    stream = stream_text(model=model, prompt="Hi").to_ui_message_stream(on_end=ended.append)
    await stream.pump(sink, abort_signal=controller.signal)

    assert (len(chunks), chunks[-1].type) == (10, "text-delta")
    assert (len(ended), ended[0].is_cancelled, ended[0].is_aborted) == (1, True, False)
    assert model.is_closed


async def test_a_pump_with_the_calls_own_signal_ends_with_an_abort_chunk() -> None:
    controller = AbortController()
    ended: list[StreamEndEvent] = []
    chunks: list[Any] = []

    def sink(chunk: Any) -> None:
        chunks.append(chunk)
        if len(chunks) == 10:
            controller.abort("enough")

    result = stream_text(model=CountingModel(), prompt="Hi", abort_signal=controller.signal)
    await result.to_ui_message_stream(on_end=ended.append).pump(sink, abort_signal=controller.signal)

    assert [to_wire(chunk) for chunk in chunks[10:]] == [{"type": "abort", "reason": "enough"}]
    assert (len(ended), ended[0].is_aborted, ended[0].is_cancelled) == (1, True, False)


async def test_a_pump_whose_signal_is_aborted_already_asks_nobody() -> None:
    model = MockLanguageModel(script.text("Hello"))
    controller = AbortController()
    controller.abort()
    ended: list[StreamEndEvent] = []
    chunks: list[Any] = []

    stream = stream_text(model=model, prompt="Hi").to_ui_message_stream(on_end=ended.append)
    await stream.pump(chunks.append, abort_signal=controller.signal)

    assert (chunks, model.do_stream_calls, len(ended)) == ([], [], 1)


async def test_a_model_stream_that_raises_is_raised_to_every_reader_and_only_the_ui_stream_is_told_its_end() -> None:
    ended: list[StreamEndEvent] = []
    told: list[object] = []
    error = ConnectionError("reset")
    for how in ("read", "pump"):
        result = stream_text(
            model=MockLanguageModel(script.text("half").breaks(error)),
            prompt="Hi",
            on_error=told.append,
            on_end=told.append,
            on_step_error=lambda event: told.append((event.step_number, event.error)),
        )
        stream = result.to_ui_message_stream(on_end=ended.append)
        chunks: list[Any] = []

        with pytest.raises(ConnectionError, match=r"^reset$"):
            await (stream.pump(chunks.append) if how == "pump" else read_into(stream, chunks))

        assert [chunk.type for chunk in chunks][-1] == "text-end"
        with pytest.raises(ConnectionError, match=r"^reset$"):
            await result.steps
    assert told == [(0, error)] * 2
    assert [event.outcome for event in ended] == [StreamOutcome("failed", error)] * 2


async def test_a_model_stream_that_raises_behind_its_finish_waits_for_the_tools() -> None:
    broken = script.tool_call("double", {"n": 2}).finish("tool-calls").breaks(ConnectionError("reset"))
    parts: list[Any] = []

    with pytest.raises(ConnectionError, match=r"^reset$"):
        await read_into(stream_text(model=MockLanguageModel(broken), prompt="Hi", tools=[double]).full_stream, parts)

    assert [part.type for part in parts][-2:] == ["tool-call", "tool-result"]


async def test_an_error_behind_the_finish_part_comes_behind_the_tools() -> None:
    model = MockLanguageModel(
        script.tool_call("double", {"n": 2}).finish("tool-calls").parts([{"type": "error", "error": "late"}])
    )

    parts = await read(stream_text(model=model, prompt="Hi", tools=[double]).full_stream)

    assert [part.type for part in parts][-5:] == ["tool-call", "tool-result", "error", "finish-step", "finish"]


async def test_the_first_text_of_a_step_carries_its_metadata_on() -> None:
    def delta(block: str, text: str, **rest: Any) -> dict[str, Any]:
        return {"type": "text-delta", "id": block, "delta": text, **rest}

    metadata = {"p": {"x": 1}}
    starts = [{"type": "text-start", "id": "a"}, {"type": "text-start", "id": "b"}]
    deltas = [
        delta("a", "1"),
        delta("a", "2", providerMetadata=metadata),
        delta("a", "3"),
        delta("b", "4", providerMetadata=metadata),
        delta("b", "5"),
    ]
    model = MockLanguageModel(script.parts([*starts, *deltas]))

    parts = await read(stream_text(model=model, prompt="Hi").full_stream)

    assert [(part.text, part.provider_metadata) for part in parts if part.type == "text-delta"] == [
        ("1", None),
        ("2", metadata),
        ("3", metadata),
        ("4", metadata),
        ("5", None),
    ]


async def test_a_part_of_an_unknown_type_is_a_failure_of_the_stream() -> None:
    model = MockLanguageModel(do_stream={"stream": [{"type": "text-start", "id": "1"}, {"type": "surprise"}]})
    chunks: list[Any] = []

    with pytest.raises(UnknownStreamPartError, match=r"surprise"):
        await stream_text(model=model, prompt="Hi").to_ui_message_stream().pump(chunks.append)

    assert [chunk.type for chunk in chunks] == ["start", "start-step", "text-start"]


async def test_no_task_is_left_behind_by_a_call_in_a_run() -> None:
    left: list[Any] = []

    async def main() -> None:
        result = stream_text(
            model=MockLanguageModel(TWO_STEPS), prompt="Hi", tools=[double], stop_when=is_step_count(5), timeout=60
        )
        assert await result.text == "It is 4."
        tasks = current_tasks()
        assert tasks is not None
        await settle()
        left.extend(tasks.active)

    await play(main)

    assert left == []


async def test_aclose_ends_the_tools_of_a_call_outside_a_run() -> None:
    cancelled: list[str] = []

    @tool
    async def forever(options: ToolCallOptions) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(options.tool_call_id)

    model = MockLanguageModel(script.tool_call("forever", {}, tool_call_id="call-1").finish("tool-calls"))
    result = stream_text(model=model, prompt="Hi", tools=[forever])
    parts = result.full_stream
    for _ in range(3):
        await anext(parts)
    await settle()

    await result.aclose()

    assert cancelled == ["call-1"]


async def test_a_call_that_is_closed_before_anybody_reads_asks_nobody() -> None:
    model = MockLanguageModel(script.text("Hello"))
    result = stream_text(model=model, prompt="Hi")

    await result.aclose()

    with pytest.raises(AbortError):
        await result.text
    with pytest.raises(AbortError):
        await read(result.full_stream)
    assert model.do_stream_calls == []


@pytest.mark.parametrize("how", ["read", "pump"])
async def test_a_call_that_somebody_closes_ends_the_ui_stream_as_cancelled(how: str) -> None:
    model = MockLanguageModel(script.text("Hello").hang())
    ended: list[StreamEndEvent] = []
    chunks: list[Any] = []
    result = stream_text(model=model, prompt="Hi")
    stream = result.to_ui_message_stream(on_end=ended.append)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream.pump if how == "pump" else pump_by_reading(stream), chunks.append)
        await settle()
        await result.aclose()

    assert [chunk.type for chunk in chunks][-1] == "text-end"
    assert [event.is_cancelled for event in ended] == [True]


def pump_by_reading(stream: Any) -> Any:
    async def read_to(sink: Any) -> None:
        async for chunk in stream:
            sink(chunk)

    return read_to
