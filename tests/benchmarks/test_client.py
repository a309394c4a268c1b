"""What clients cost over the scripted backend, held against bare loops and against a real turn of the same process."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

import pytest

from chatagent import chat, stream_text
from chatagent.ui import TextDelta
from chatagent_test import MockLanguageModel, create_mock_agent_client, mock_chat_agent, reply, script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.conftest import Bench

pytestmark = pytest.mark.anyio


async def least(work: Callable[[], Awaitable[float]], runs: int) -> float:
    """Return the least time of some runs, each of which measures itself: what others of the machine do is no part."""
    return min([await work() for _ in range(runs)])


async def test_a_queued_response_costs_less_than_a_real_turn(bench: Bench) -> None:
    turns = bench.size(90, 3)

    @chat.agent(id="echo")
    async def agent(event: object) -> object:
        return stream_text(model=MockLanguageModel(script.text("ok")), prompt="hi")

    async def mocked() -> float:
        async with create_mock_agent_client() as mock:
            thread = mock.client.thread("t-1")
            await thread.refresh()
            gc.collect()
            began = time.process_time()
            for _ in range(turns):
                mock.responses.queue(reply.assistant("ok"))
                run = await thread.send("hi")
                await run.wait_until_idle()
            return (time.process_time() - began) / turns

    async def real() -> float:
        async with mock_chat_agent(agent) as harness:
            await harness.send_message("hi")
            gc.collect()
            began = time.process_time()
            for _ in range(turns):
                await harness.send_message("hi")
            return (time.process_time() - began) / turns

    ours, theirs = await least(mocked, bench.size(5, 1)), await least(real, bench.size(5, 1))

    bench.report(f"a queued response: {ours * 1e3:.2f} ms, a real turn: {theirs * 1e3:.2f} ms")
    bench.ratio("a queued response through send and wait, to a real turn", ours, theirs, limit=1)


async def test_deltas_go_through_mock_client_and_projection(bench: Bench) -> None:
    pieces = ["word "] * bench.size(10_000, 50)
    text = "".join(pieces)

    async def bare() -> float:
        gc.collect()
        began = time.process_time()
        for piece in pieces:
            TextDelta(id="text-1", delta=piece)
        return time.process_time() - began

    async def scripted() -> float:
        async with create_mock_agent_client(event_log_size=20_000) as mock:
            thread = mock.client.thread("t-1")
            await thread.refresh()
            mock.responses.queue(reply.assistant(reply.text(text, chunks=pieces)))
            gc.collect()
            began = time.process_time()
            run = await thread.send("hi")
            state = await run.wait_until_idle()
            seconds = time.process_time() - began
            assert state.messages[-1].text == text
            return seconds

    async def streamed() -> float:
        async with create_mock_agent_client(event_log_size=20_000) as mock:
            thread = mock.client.thread("t-1")
            response = mock.responses.stream()
            run = await thread.send("hi")
            gc.collect()
            began = time.process_time()
            async with response.text() as part:
                for piece in pieces:
                    await part.delta(piece)
                await part.end()
            await response.complete()
            state = await run.wait_until_idle()
            seconds = time.process_time() - began
            assert state.messages[-1].text == text
            return seconds

    runs = bench.size(9, 1)
    yardstick, whole, by_hand = await least(bare, runs), await least(scripted, runs), await least(streamed, runs)

    bench.report(f"deltas of a script: {len(pieces) / whole:,.0f} a second; by hand: {len(pieces) / by_hand:,.0f}")
    bench.ratio(
        "deltas of a script through mock, client and projection, to bare chunk objects", whole, yardstick, limit=12
    )
    assert not bench.measuring or len(pieces) / by_hand >= 30_000


async def test_a_watch_replays_linearly(bench: Bench) -> None:
    async def replay(count: int) -> float:
        async with create_mock_agent_client(event_log_size=20_000) as mock:
            thread = mock.client.thread("t-1")
            async with thread.watch() as updates:
                pieces = ["w"] * count
                mock.responses.queue(reply.assistant(reply.text("".join(pieces), chunks=pieces)))
                await thread.send("hi")
                gc.collect()
                began = time.process_time()
                seen = 0
                async for update in updates:
                    seen += update.event is not None
                    if update.event is not None and update.event.type == "generation.completed":
                        break
                assert seen >= count
                return time.process_time() - began

    few, many = bench.size(1_000, 10), bench.size(5_000, 50)
    runs = bench.size(7, 1)
    small, large = await least(lambda: replay(few), runs), await least(lambda: replay(many), runs)

    bench.report(f"a watch: {few / small:,.0f} updates a second, each with its state")
    bench.ratio("a watch over five times the events", large, small, limit=6.5)
