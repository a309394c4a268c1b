"""Hooks and tools that keep the event loop busy are named in a warning."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest

from agent.making import agent_of, saying
from chatagent import tool
from chatagent.agent import HookCall
from chatagent.errors import WaitTimeoutError
from chatagent_test import mock_chat_agent, script
from chatagent_test.harness import blocking
from chatagent_test.harness.blocking import BlockingWatch

pytestmark = pytest.mark.anyio
ON_ONE_BACKEND = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""Each of these really blocks, and no backend has a part in it; one test below shows it on both."""


def block(event: Any) -> None:
    time.sleep(blocking.LIMIT + 0.05)


@pytest.fixture
def a_tenth_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a tenth of a second be too long, where a second would only be waited for."""
    monkeypatch.setattr(blocking, "LIMIT", 0.1)


async def test_a_hook_that_blocks_for_a_second_is_named_where_the_test_waits() -> None:
    async with mock_chat_agent(agent_of(on_turn_start=block)) as harness:
        with pytest.warns(RuntimeWarning) as caught:
            await harness.send_message("hello")

    (warning,) = caught
    assert str(warning.message).startswith("`on_turn_start` of turn 0 kept the event loop busy for 1.")
    assert warning.filename == __file__


@ON_ONE_BACKEND
@pytest.mark.usefixtures("a_tenth_of_a_second")
async def test_a_tool_that_blocks_is_named() -> None:
    @tool
    async def dig(depth: int) -> str:
        """Dig."""
        block(depth)
        return "done"

    model = saying(script.tool_call("dig", {"depth": 1}), "dug")

    async with mock_chat_agent(agent_of(model, tools={"dig": dig})) as harness:
        with pytest.warns(RuntimeWarning, match=r"^the tool `dig` kept the event loop busy for 0\.\d s of real time; "):
            turn = await harness.send_message("hello")

    assert turn.text == "dug"


@ON_ONE_BACKEND
@pytest.mark.usefixtures("a_tenth_of_a_second")
async def test_a_run_that_blocks_and_never_returns_is_named_in_the_error_of_the_wait() -> None:
    async def run(event: Any) -> None:
        block(event)
        await anyio.sleep_forever()

    async with mock_chat_agent(agent_of(run=run), wait_timeout=0.5) as harness:
        with pytest.raises(WaitTimeoutError, match=r"\n`run` of turn 0 kept the event loop busy for 0\.\d s"):
            await harness.send_message("hello")


@ON_ONE_BACKEND
@pytest.mark.usefixtures("a_tenth_of_a_second")
async def test_what_blocks_while_the_harness_closes_is_named() -> None:
    harness = mock_chat_agent(agent_of(on_boot=block))
    await harness.__aenter__()

    with pytest.warns(RuntimeWarning, match=r"^`on_boot` kept the event loop busy for 0\.\d s"):
        await harness.close()


# --- who is to blame, on a clock of the test's own ---


class Machine:
    """Steps and hooks, by hand."""

    def __init__(self) -> None:
        self.time = 0.0
        self.is_starved = False
        self.watch = BlockingWatch(
            now=lambda: self.time, limit=1.0, effort=lambda: (0.0 if self.is_starved else self.time, 0)
        )

    def call(self, name: str, turn: int | None = 0) -> HookCall:
        call = HookCall(name=name, event=None, turn=turn, started_at=0.0)
        self.watch.hook_started(call)
        return call

    def blamed(self) -> list[str]:
        return [sentence.partition(" kept the event loop busy for ")[0] for sentence in self.watch.take()]


def test_a_hook_that_waits_long_is_not_to_blame() -> None:
    machine = Machine()
    machine.watch.step_begins()
    call = machine.call("run")
    machine.watch.step_ends(None)
    machine.time = 100.0
    machine.watch.step_begins()
    machine.watch.hook_ended(call)
    machine.watch.step_ends(None)

    assert machine.blamed() == []


def test_a_hook_that_blocks_before_it_waits_is_to_blame_once() -> None:
    machine = Machine()
    machine.watch.step_begins()
    machine.call("run", turn=None)
    machine.time = 1.5
    machine.watch.step_ends(None)

    assert machine.watch.take() == [
        "`run` kept the event loop busy for 1.5 s of real time; nothing else runs meanwhile, and no limit can end it: "
        "await what takes long, or hand it to a thread (anyio.to_thread.run_sync)"
    ]
    assert machine.blamed() == []


def test_of_hooks_in_one_step_the_one_that_blocked_is_to_blame() -> None:
    machine = Machine()
    machine.watch.step_begins()
    machine.watch.hook_ended(machine.call("on_turn_start"))
    second = machine.call("on_validate_messages")
    machine.time = 1.0
    machine.watch.hook_ended(second)
    machine.watch.hook_ended(machine.call("run"))
    machine.watch.step_ends(None)

    assert machine.blamed() == ["`on_validate_messages` of turn 0"]


def test_a_task_that_blocks_while_a_hook_waits_is_to_blame() -> None:
    machine = Machine()
    machine.watch.step_begins()
    machine.call("run")
    machine.watch.step_ends(None)
    machine.watch.step_begins()
    machine.time = 2.0
    machine.watch.step_ends("tool search")
    machine.watch.step_begins()
    machine.time = 4.0
    machine.watch.step_ends("the reader of .in")

    assert machine.blamed() == ["the tool `search`", "the run's task 'the reader of .in'"]


def test_what_blocks_outside_hooks_and_tools_is_said_to() -> None:
    machine = Machine()
    machine.watch.step_begins()
    machine.time = 1.0
    machine.watch.step_ends(None)

    assert machine.blamed() == ["something outside hooks and tools (the stream, the model, `setup_locals`)"]


def test_of_many_the_first_are_told_and_the_others_counted() -> None:
    machine = Machine()
    for _ in range(8):
        machine.watch.step_begins()
        machine.time += 1.0
        machine.watch.step_ends("tool search")

    assert machine.blamed() == ["the tool `search`"] * 5 + ["3 more steps kept the event loop busy"]


def test_a_process_that_gets_no_processor_is_nobody_s_fault() -> None:
    machine = Machine()
    machine.is_starved = True
    machine.watch.step_begins()
    machine.call("run")
    machine.time = 5.0
    machine.watch.step_ends(None)

    assert machine.blamed() == []


def test_a_step_that_waits_without_working_blocks_all_the_same() -> None:
    waits = [0]
    seconds = [0.0]
    watch = BlockingWatch(now=lambda: seconds[0], limit=1.0, effort=lambda: (0.0, waits[0]))
    watch.step_begins()
    seconds[0], waits[0] = 1.0, 1
    watch.step_ends("tool dig")

    assert len(watch.take()) == 1
