"""What the model layer costs by itself: from scripted parts to chunks, and from chunks to a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent import stream_text
from chatagent.ui import Finish, MessageReducer, Start, StartStep, TextDelta, TextEnd, TextStart
from chatagent_test import MockLanguageModel, script

if TYPE_CHECKING:
    from benchmarks.conftest import Bench
    from chatagent.ui import Chunk

pytestmark = pytest.mark.anyio

DELTAS_PER_PART = 20


def many_parts(count: int) -> list[Chunk]:
    chunks: list[Chunk] = [Start(message_id="m"), StartStep()]
    for number in range(count):
        block = f"t{number}"
        chunks += [TextStart(id=block), *(TextDelta(id=block, delta="word ") for _ in range(DELTAS_PER_PART))]
        chunks.append(TextEnd(id=block))
    return [*chunks, Finish(finish_reason="stop")]


async def reduce_all(chunks: list[Chunk]) -> None:
    reducer = MessageReducer()
    for chunk in chunks:
        reducer.feed(chunk)
    assert reducer.message.text.endswith("word ")


async def test_reducing_is_linear_in_the_number_of_parts(bench: Bench) -> None:
    few, many = many_parts(bench.size(1_000, 10)), many_parts(bench.size(5_000, 50))

    small = await bench.median(lambda: reduce_all(few), runs=9)
    large = await bench.median(lambda: reduce_all(many), runs=9)

    bench.report(f"reducing: {len(many) / large:,.0f} chunks a second at {len(many):,} chunks")
    bench.ratio("reducing five times the parts", large, small, limit=6)


async def test_a_stream_of_many_deltas_is_recorded(bench: Bench) -> None:
    count = bench.size(20_000, 50)
    answer = script.text("word " * count, chunks=["word "] * count)

    async def to_chunks() -> None:
        chunks: list[Chunk] = []
        await stream_text(model=MockLanguageModel(answer), prompt="go on").to_ui_message_stream().pump(chunks.append)
        assert len(chunks) == count + 6

    async def read_chunks() -> None:
        stream = stream_text(model=MockLanguageModel(answer), prompt="go on").to_ui_message_stream()
        assert sum([1 async for _ in stream]) == count + 6

    pumped = await bench.median(to_chunks, runs=7)
    read = await bench.median(read_chunks, runs=7)

    bench.report(f"stream_text to chunks: pumped {count / pumped:,.0f} a second, read {count / read:,.0f} a second")
