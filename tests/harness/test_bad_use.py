"""What tests and agents do wrong: each is told at once and clearly, and nothing hangs."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from agent.making import agent_of, saying
from chatagent import tool
from chatagent.errors import HarnessStateError, WaitTimeoutError
from chatagent_test import ChatAgentHarness, VirtualClock, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent_test import Turn

ELSEWHERE = "the harness lives in the event loop in which it was first used, and that is not the one that runs here"


# --- hooks that never end ---


@pytest.mark.anyio
async def test_a_hook_that_never_returns_is_named_by_the_wait_and_ended_by_the_close() -> None:
    ended: list[str] = []

    async def never(event: Any) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("hook")

    async with mock_chat_agent(agent_of(on_turn_start=never), wait_timeout=0.3) as harness:
        with pytest.raises(WaitTimeoutError) as caught:
            await harness.send_message("hello")

    assert "\nhooks so far: on_turn_start (at work)\n" in str(caught.value)
    assert str(caught.value).endswith(" in never")
    assert ended == ["hook"]
    assert harness.leaked_tasks() == []


@pytest.mark.anyio
async def test_a_hook_that_swallows_its_cancellation_is_given_up_and_named() -> None:
    free = anyio.Event()
    swallowed: list[BaseException] = []

    async def swallow(event: Any) -> None:
        while not free.is_set():
            try:
                await free.wait()
            except BaseException as exc:  # noqa: BLE001 - that is the point
                swallowed.append(exc)

    harness = mock_chat_agent(agent_of(on_turn_start=swallow), wait_timeout=0.05)
    harness.begin_message("hello")
    await harness.wait_for(lambda harness: harness.hooks)

    with pytest.warns(ResourceWarning, match=r"^the run of agent 'tester' does not end .* in swallow$") as caught:
        await harness.close()
    leaked = harness.leaked_tasks()
    free.set()
    while harness.leaked_tasks():
        await anyio.lowlevel.checkpoint()

    assert caught[0].filename == __file__
    assert swallowed
    assert len(leaked) == 1
    assert leaked[0].startswith("the run of agent 'tester', at ")


@pytest.mark.anyio
async def test_a_tool_that_never_returns_is_named_with_the_line_where_it_stands() -> None:
    @tool
    async def dig(depth: int) -> str:
        """Dig."""
        await anyio.sleep_forever()
        return "never"

    agent = agent_of(saying(script.tool_call("dig", {"depth": 1})), tools={"dig": dig})

    async with mock_chat_agent(agent, wait_timeout=0.3) as harness:
        with pytest.raises(WaitTimeoutError) as caught:
            await harness.send_message("hello")

    (line,) = [line for line in str(caught.value).split("\n") if line.startswith("tool dig stands at ")]
    assert line.endswith(" in dig")
    assert __file__ in line


# --- another event loop than the harness's own ---


CALLS: list[Callable[[ChatAgentHarness], Awaitable[object]]] = [
    lambda harness: harness.start(),
    lambda harness: harness.send_message("x"),
    lambda harness: harness.send_action({}),
    lambda harness: harness.send_stop(),
    lambda harness: harness.wait_idle(),
    lambda harness: harness.wait_ended(),
    lambda harness: harness.wait_for(lambda harness: True),
    lambda harness: harness.wait_streaming(),
    lambda harness: harness.wait_deferred(),
    lambda harness: harness.settle(),
    lambda harness: harness.advance(1),
    lambda harness: harness.advance_to_suspend(),
    lambda harness: harness.expire(),
    lambda harness: harness.kill_run(),
    lambda harness: harness.cancel_run(),
    lambda harness: harness.continue_run(),
    lambda harness: harness.close(),
]


async def refusal(call: Callable[[ChatAgentHarness], Awaitable[object]], harness: ChatAgentHarness) -> str:
    with pytest.raises(HarnessStateError) as caught:
        await call(harness)
    return str(caught.value)


@pytest.mark.anyio
async def test_every_call_from_another_event_loop_is_refused_at_once(anyio_backend: str) -> None:
    async with mock_chat_agent(agent_of()) as harness:
        await harness.send_message("hello")
        pending = harness.begin_message("again")

        async def begin_and_await(harness: ChatAgentHarness) -> None:
            with pytest.raises(HarnessStateError, match=r"^begin_message: .*; await the turn where it was begun$"):
                await pending
            harness.begin_message("x")

        def elsewhere() -> list[str]:
            async def use() -> list[str]:
                return [await refusal(call, harness) for call in (*CALLS, begin_and_await)]

            return anyio.run(use, backend=anyio_backend)

        refusals = await anyio.to_thread.run_sync(elsewhere)
        turn = await pending

    assert [ELSEWHERE in text for text in refusals] == [True] * (len(CALLS) + 1)
    assert turn.index == 1
    assert len(harness.turns) == 2


def test_a_call_without_any_event_loop_is_refused(anyio_backend: str) -> None:
    harness = mock_chat_agent(agent_of())
    anyio.run(harness.start, backend=anyio_backend)

    with pytest.raises(HarnessStateError, match=ELSEWHERE):
        harness.begin_message("hello")


def test_a_harness_whose_loop_was_closed_over_it_is_closed_with_a_warning_and_once() -> None:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)
    harness = mock_chat_agent(agent_of())
    loop.run_until_complete(harness.send_message("hello"))
    loop.close()

    with pytest.warns(ResourceWarning) as caught:
        asyncio.run(harness.close(raise_errors=True))
    asyncio.run(harness.close())

    (warning,) = caught
    assert str(warning.message).startswith("the event loop of the harness is gone, and the run of agent 'tester' was")
    assert harness.turns[0].text == "ok"
    del harness
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def test_a_forgotten_harness_tells_what_its_loop_has_left_behind() -> None:
    def fail(event: Any) -> None:
        raise LookupError("no shop")

    async def use(harness: ChatAgentHarness) -> None:
        harness.begin_message("hello")
        await harness.wait_idle()

    quiet, failed = mock_chat_agent(agent_of()), mock_chat_agent(agent_of(on_turn_start=fail))
    for harness in (quiet, failed):
        asyncio.run(use(harness))

    quiet.check_abandoned()
    mock_chat_agent(agent_of()).check_abandoned()
    with pytest.raises(LookupError, match=r"^no shop$"):
        failed.check_abandoned()


# --- interrupts ---

INTERRUPTED = """
import os, signal, sys, threading
import anyio
from chatagent import chat
from chatagent_test import mock_chat_agent

ENDED = []

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

@chat.agent(id="slow")
async def slow(event):
    try:
        threading.Thread(target=interrupt).start()
        await anyio.sleep_forever()
    finally:
        ENDED.append("run")

async def main():
    async with mock_chat_agent(slow) as harness:
        await harness.send_message("hi")

try:
    anyio.run(main, backend=sys.argv[1])
except KeyboardInterrupt:
    print("interrupted", ENDED)
"""
"""A driver waits for a turn that goes on for ever, and somebody presses Ctrl-C."""


def test_an_interrupt_while_a_driver_waits_ends_run_and_test(anyio_backend: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", INTERRUPTED, anyio_backend],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.stdout, done.stderr) == ("interrupted ['run']\n", "")


# --- time ---


class CountingClock(VirtualClock):
    """Counts how often it is moved."""

    moves = 0

    def move_to(self, at: float) -> None:
        self.moves += 1
        super().move_to(at)


@pytest.mark.anyio
async def test_a_turn_timeout_of_an_hour_takes_a_few_moves_and_no_real_time() -> None:
    """Nothing polls: the clock is moved from deadline to deadline, of which there are two."""
    seconds: list[float] = []
    moves: list[int] = []
    for _ in range(5):
        clock = CountingClock()
        began_at = time.perf_counter()
        async with mock_chat_agent(agent_of(idle_timeout=30, turn_timeout="1h"), clock=clock) as harness:
            await harness.send_message("hello")
            await harness.expire()
            passed = clock.now() - harness.turns[0].hooks[0].started_at
        seconds.append(time.perf_counter() - began_at)
        moves.append(clock.moves)

        assert passed == 3630
        assert harness.run_ended

    assert max(moves) <= 6
    assert min(seconds) < 0.05


# --- two at once ---


@pytest.mark.anyio
async def test_two_sends_at_once_are_two_turns_in_order() -> None:
    turns: dict[str, Turn] = {}

    async def send(harness: ChatAgentHarness, text: str) -> None:
        turns[text] = await harness.send_message(text)

    agent = agent_of(saying(script.pause(5).text("one"), "two"))

    async with mock_chat_agent(agent) as harness:
        async with anyio.create_task_group() as tasks:  # which trio starts in no fixed order
            tasks.start_soon(send, harness, "a")
            tasks.start_soon(send, harness, "b")
        snapshot = harness.get_snapshot()

    first, second = sorted(turns, key=lambda text: turns[text].index or 0)
    assert [(turns[text].index, turns[text].text) for text in (first, second)] == [(0, "one"), (1, "two")]
    assert snapshot is not None
    assert [message.text for message in snapshot.messages] == [first, "one", second, "two"]
