"""A stream put together by hand around a call of a model."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import anyio
import pytest

from chatagent.generate import stream_text
from chatagent.ui import Chunk, DataChunk, StreamEndEvent, create_ui_message_stream
from chatagent_test import MockLanguageModel, script
from support.virtual_run import VirtualRun

if TYPE_CHECKING:
    from chatagent.ui import UIMessageStreamWriter

pytestmark = pytest.mark.anyio


async def test_the_stream_of_a_call_can_be_merged_between_other_chunks() -> None:
    ends: list[StreamEndEvent] = []

    async def execute(writer: UIMessageStreamWriter) -> None:
        result = stream_text(model=MockLanguageModel(script.text("Hello")), prompt="Hi")
        writer.write(DataChunk("data-note", "before"))
        writer.merge(result.to_ui_message_stream(on_error=writer.on_error))
        writer.write(DataChunk("data-note", await result.text))

    async def play() -> list[Chunk]:
        stream = create_ui_message_stream(execute=execute, on_end=ends.append)
        async with aclosing(stream):
            return [chunk async for chunk in stream]

    chunks = await VirtualRun().play(play)

    assert [chunk.data for chunk in chunks if isinstance(chunk, DataChunk)] == ["before", "Hello"]
    assert {"start", "text-delta", "finish"} <= {chunk.type for chunk in chunks}
    assert ends[0].response_message.text == "Hello"
    assert ends[0].finish_reason == "stop"


async def test_closing_the_stream_ends_the_call_that_is_merged() -> None:
    ends: list[StreamEndEvent] = []
    model = MockLanguageModel(script.text("Hello").hang())

    def execute(writer: UIMessageStreamWriter) -> None:
        result = stream_text(model=model, prompt="Hi")
        writer.merge(result.to_ui_message_stream(on_end=ends.append))

    with anyio.fail_after(5):
        stream = create_ui_message_stream(execute=execute, on_end=ends.append)
        async with aclosing(stream):
            async for chunk in stream:
                if chunk.type == "text-delta":
                    break

    assert [event.is_cancelled for event in ends] == [True, True]
