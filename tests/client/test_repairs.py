"""However connections are lost and events garbled, every reader ends in the state that is stored (rule BT-14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatagent.protocol import StateChanged, project
from chatagent_test import create_mock_agent_client

if TYPE_CHECKING:
    from chatagent.client import RunHandle, Thread
    from chatagent_test import MockAgentClient

FAULTS = st.lists(
    st.sampled_from(["lose", "repeat", "disconnect", "forget", "push", "look", "refresh", "yield", "delta"]),
    max_size=12,
)


async def play(mock: MockAgentClient, thread: Thread, faults: list[str]) -> None:
    """Play an answer with faults in between."""
    async with mock.responses.stream() as response:
        await response.wait_until_started()
        text = response.text()
        for fault in faults:
            match fault:
                case "lose":
                    mock.faults.lose_next_event("t-1")
                case "repeat":
                    mock.faults.repeat_next_event("t-1")
                case "disconnect":
                    mock.events.disconnect()
                case "forget":
                    mock.events.forget("t-1")
                case "push":
                    mock.events.push_thread("t-1", StateChanged())
                case "look":
                    thread.get_state()
                case "refresh":
                    await thread.refresh()
                case "yield":
                    await anyio.lowlevel.checkpoint()
                case _:
                    await text.delta("word ")
        await text.end()
        await response.write_tool("find", input={}, output=1)


async def watch(thread: Thread, run_id: str, ends: list[object]) -> None:
    async with thread.watch() as updates:
        async for update in updates:
            if any(run.run_id == run_id and run.settled for run in update.state.runs):
                ends.append(update.state.messages)
                return


async def wait(run: RunHandle, ends: list[object]) -> None:
    ends.append((await run.wait_until_idle()).messages)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(deadline=None, max_examples=40)
@given(faults=FAULTS)
def test_every_reader_ends_in_what_is_stored(backend: str, faults: list[str]) -> None:
    async def main() -> None:
        async with create_mock_agent_client(strict=False) as mock:
            thread, ends = mock.client.thread("t-1"), list[object]()
            run = await thread.send("x")
            with anyio.fail_after(5):
                async with anyio.create_task_group() as tasks:
                    for _ in range(2):
                        tasks.start_soon(wait, run, ends)
                        tasks.start_soon(watch, thread, run.run_id, ends)
                    await anyio.lowlevel.checkpoint()
                    await play(mock, thread, faults)
                    # That the last event was lost is seen by the next one alone.
                    while mock.faults.unused():
                        mock.events.change_thread("t-1", title="more")
                    mock.events.change_thread("t-1", title="last")
                await thread.refresh()
            stored = mock.inspect.thread("t-1")
            assert stored is not None
            assert thread.get_state() == project(stored)
            assert ends == [project(stored).messages] * 4

    anyio.run(main, backend=backend)
