"""What a closed harness leaves behind: nothing that only the garbage collector could free."""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from chatagent import chat, stream_text, tool
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

pytestmark = pytest.mark.anyio


@tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"sunny in {city}"


MODEL = MockLanguageModel(lambda _: script.text("It is sunny."))
WITH_TOOLS = MockLanguageModel([script.tool_call("weather", {"city": "Paris"}), script.text("Sunny.")] * 2)


@chat.agent(id="bare")
def bare(event: Any) -> Any:
    return stream_text(model=MODEL, messages=event.messages, abort_signal=event.signal)


@chat.agent(id="full")
def full(event: Any) -> Any:
    return stream_text(model=WITH_TOOLS, messages=event.messages, tools={"weather": weather}, abort_signal=event.signal)


@full.on_turn_start
async def show(event: Any) -> None:
    event.writer.write({"type": "data-status", "data": "working"})


@full.on_turn_complete
def remember(event: Any) -> None:
    async def store() -> None:
        assert event.messages

    chat.defer(store())


async def a_turn() -> None:
    async with mock_chat_agent(bare) as harness:
        await harness.send_message("How is the weather?")


async def a_turn_with_hooks_and_tools() -> None:
    async with mock_chat_agent(full) as harness:
        await harness.send_message("How is the weather?")


async def a_run_that_was_killed_and_continued() -> None:
    async with mock_chat_agent(bare) as harness:
        await harness.send_message("How is the weather?")
        await harness.kill_run()
        await harness.continue_run()
        await harness.send_message("And tomorrow?")


@pytest.fixture
def garbage() -> Iterator[Callable[[], Counter[str]]]:
    """Yield what tells the types of ours that were in cycles since the test began."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)

    def found() -> Counter[str]:
        gc.collect()
        names = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
        return Counter({name: count for name, count in names.items() if name.startswith("chatagent")})

    yield found
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


@pytest.mark.parametrize("use", [a_turn, a_turn_with_hooks_and_tools, a_run_that_was_killed_and_continued])
async def test_a_closed_harness_leaves_nothing_to_the_garbage_collector(
    use: Callable[[], Awaitable[None]], garbage: Callable[[], Counter[str]]
) -> None:
    await use()

    assert not garbage()
