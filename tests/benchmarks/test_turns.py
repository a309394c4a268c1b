"""What a turn costs: short, whole, of many deltas, and behind a long history."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from chatagent import ChatAgent, chat, stream_text
from chatagent_test import ChatAgentHarness, MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from benchmarks.conftest import Bench

pytestmark = pytest.mark.anyio


def agent_that_says(answer: Any) -> ChatAgent[Any]:
    model = MockLanguageModel(answer)
    return chat.agent(
        id="bench",
        max_turns=10_000,
        run=lambda event: stream_text(model=model, messages=event.messages, abort_signal=event.signal),
        on_turn_complete=lambda event: None,
    )


def history(size: int) -> list[dict[str, Any]]:
    return [
        {"id": f"m{n}", "role": ("user", "assistant")[n % 2], "parts": [{"type": "text", "text": f"message {n}"}]}
        for n in range(size)
    ]


def three_generators(count: int) -> AsyncGenerator[dict[str, str], None]:
    """The yardstick: three async generators, each passing on a fresh dict for every item."""

    async def first() -> AsyncGenerator[dict[str, str], None]:
        for _ in range(count):
            yield {"type": "text-delta", "id": "t", "delta": "word "}

    async def passed(source: AsyncGenerator[dict[str, str], None]) -> AsyncGenerator[dict[str, str], None]:
        async for item in source:
            yield {"type": item["type"], "id": item["id"], "delta": item["delta"]}

    return passed(passed(first()))


async def drain(count: int) -> None:
    async with aclosing(three_generators(count)) as items:
        async for _ in items:
            pass


async def test_a_turn_of_many_deltas_costs_at_most_six_bare_generator_chains(bench: Bench) -> None:
    count = bench.size(20_000, 50)
    agent = agent_that_says(script.text("word " * count, chunks=["word "] * count))
    ratios: list[tuple[float, float, float]] = []

    async def one_turn(harness: ChatAgentHarness) -> None:
        turn = await harness.send_message("go on")
        assert len(turn.chunks) == count + 6
        assert turn.message is not None
        assert len(turn.message.text) == 5 * count

    for _ in range(bench.size(7, 1)):
        async with mock_chat_agent(agent) as harness:
            await harness.start()
            yardstick = await bench.seconds(lambda: drain(count))
            ours = await bench.seconds(lambda: one_turn(harness))
            ratios.append((ours / yardstick, ours, yardstick))
    _, ours, yardstick = min(ratios)

    bench.report(f"{count / ours:,.0f} chunks a second through a whole turn")
    bench.ratio("a chunk of a turn against a bare chain of three generators", ours, yardstick, limit=6)


async def test_a_turn_hardly_grows_with_the_history_behind_it(bench: Bench) -> None:
    agent = agent_that_says(script.text("hello"))
    medians: dict[int, float] = {}

    for size in (10, 100, 1_000):
        snapshot = {"version": 1, "savedAt": 0, "messages": history(size)}
        async with mock_chat_agent(agent, continuation=True, snapshot=snapshot) as harness:
            await harness.send_message("warm up")
            medians[size] = await bench.median(lambda harness=harness: harness.send_message("hi"), runs=40)
        bench.report(f"a turn at a history of {size}: {medians[size] * 1e6:.0f} µs")

    bench.ratio("a turn at 1,000 messages against one at 10", medians[1_000], medians[10], limit=1.5)


async def test_a_boot_grows_with_its_snapshot_and_no_more(bench: Bench) -> None:
    agent = agent_that_says(script.text("hello"))
    sizes = (1_000, 4_000)
    times: dict[int, list[float]] = {size: [] for size in sizes}

    async def boot(snapshot: dict[str, Any]) -> None:
        async with mock_chat_agent(agent, continuation=True, snapshot=snapshot) as harness:
            await harness.start()
            assert harness.boot is not None
            assert harness.boot.snapshot_found

    snapshots = {size: {"version": 1, "savedAt": 0, "messages": history(bench.size(size, 4))} for size in sizes}
    for _ in range(bench.size(15, 1)):
        for size in sizes:
            times[size].append(await bench.seconds(lambda size=size: boot(snapshots[size])))
    small, large = (min(times[size]) for size in sizes)

    bench.report(f"a boot with a snapshot of 1,000 messages: {small * 1000:.1f} ms; of 4,000: {large * 1000:.1f} ms")
    bench.ratio("a boot with 4,000 stored messages against one with 1,000", large, small, limit=5)


async def test_a_short_turn_and_a_whole_harness_are_recorded(bench: Bench) -> None:
    agent = agent_that_says(script.text("hello"))

    async def whole_harness() -> None:
        async with mock_chat_agent(agent) as harness:
            await harness.send_message("hi")

    async with mock_chat_agent(agent) as harness:
        short = await bench.median(lambda: harness.send_message("hi"), runs=60)
    whole = await bench.median(whole_harness, runs=40)
    yardstick = await bench.median(lambda: drain(1_000), runs=20)

    bench.report(f"a short turn: {short * 1e6:.0f} µs; a harness made, one turn, closed: {whole * 1e6:.0f} µs")
    bench.ratio("a short turn against 1,000 items through three generators", short, yardstick)
    bench.ratio("a whole harness against 1,000 items through three generators", whole, yardstick)
