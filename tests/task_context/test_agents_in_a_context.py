"""Agents inside a mock task context: the real run, on the context's own clock, locals, streams and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import agent_of, saying
from chatagent import chat, locals, tool
from chatagent.errors import HarnessStateError
from chatagent.session import Session
from chatagent.task import current_context, metadata, streams
from chatagent.ui import to_wire
from chatagent_test import mock_chat_agent, run_in_mock_task_context, script

if TYPE_CHECKING:
    from chatagent_test import TaskDrivers

pytestmark = pytest.mark.anyio

NAME = locals.create("name", str)
USER = {"id": "u-1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}


def message(wire: dict[str, Any] = USER) -> dict[str, Any]:
    """A record as a client sends it."""
    return {"kind": "message", "payload": {"chatId": "c", "trigger": "submit-message", "message": wire}}


CLOSE = {"kind": "message", "payload": {"chatId": "c", "trigger": "close"}}


def written(drivers: TaskDrivers) -> list[Any]:
    """The chunks of the chat's output, as a client sees them."""
    return [to_wire(chunk) for chunk in drivers.sessions.out("c")]


async def test_an_agents_run_is_driven_by_records() -> None:
    agent = agent_of(saying("Hello Ada."))

    async def task(drivers: TaskDrivers) -> list[Any]:
        run = drivers.start_agent(agent, {"chatId": "c", "trigger": "preload"})
        await drivers.sessions.in_.send("c", message())
        await drivers.sessions.in_.send("c", CLOSE)
        await run.wait()
        snapshot = await drivers.sessions.snapshot("c")
        assert snapshot is not None
        assert run.done
        deltas = [chunk for chunk in written(drivers) if chunk["type"] == "text-delta"]
        return [deltas[0]["delta"], drivers.sessions.controls("c"), [each.role for each in snapshot.messages]]

    assert await run_in_mock_task_context(task) == ["Hello Ada.", ["turn-complete"], ["user", "assistant"]]


async def test_it_shares_locals_metadata_streams_context_and_clock_with_the_test() -> None:
    @tool
    async def ask_for_approval() -> str:
        metadata.increment("asked")
        streams.output("progress").append("asking")
        await chat.sleep(3600)
        answer = await streams.input("approval").once()
        context = current_context()
        return f"{locals.get_or_throw(NAME)} {answer.output} {context and context.run.id}"

    model = saying(script.tool_call("ask_for_approval", {}), "done")
    agent = agent_of(model, tools={"ask_for_approval": ask_for_approval})

    async def task(drivers: TaskDrivers) -> list[Any]:
        drivers.locals.set(NAME, "Ada")
        began = drivers.clock.now()
        run = drivers.start_agent(agent, {"chatId": "c", "trigger": "submit-message", "message": USER})
        await drivers.inputs.send("approval", "yes")
        await chat.sleep(7200)
        await drivers.sessions.in_.send("c", CLOSE)
        await run.wait()
        outputs = [chunk["output"] for chunk in written(drivers) if chunk["type"] == "tool-output-available"]
        return [
            outputs,
            drivers.metadata.current(),
            drivers.outputs.all(),
            drivers.clock.now() - began,
        ]

    assert await run_in_mock_task_context(task, ctx={"run": {"id": "run_7"}}) == [
        ["Ada yes run_7"],
        {"asked": 1},
        {"progress": ["asking"]},
        7200,
    ]


async def test_without_input_it_ends_by_its_own_limits() -> None:
    async def task(drivers: TaskDrivers) -> float:
        began = drivers.clock.now()
        await drivers.start_agent(agent_of(saying("hi")), {"chatId": "c", "trigger": "preload"}).wait()
        return drivers.clock.now() - began

    assert await run_in_mock_task_context(task) == 30 + 3600


async def test_a_custom_agent_reads_and_writes_there_too() -> None:
    async def run_custom(_payload: Any, _context: Any) -> None:
        result = await chat.messages.once(timeout=60)
        assert result.ok
        await chat.stream.append({"type": "data-seen", "data": 1})
        await chat.write_turn_complete()

    async def task(drivers: TaskDrivers) -> list[Any]:
        custom = chat.custom_agent(id="custom", run=run_custom)
        run = drivers.start_agent(custom, {"chatId": "c", "trigger": "preload"})
        await drivers.sessions.in_.send("c", message())
        await run.wait()
        return [written(drivers), drivers.sessions.controls("c")]

    assert await run_in_mock_task_context(task) == [[{"type": "data-seen", "data": 1}], ["turn-complete"]]


async def test_what_fails_an_agent_is_raised_by_its_wait_or_else_by_the_context() -> None:
    def boot(_: Any) -> None:
        raise RuntimeError("on purpose")

    async def waiting(drivers: TaskDrivers) -> None:
        run = drivers.start_agent(agent_of(saying("hi"), on_boot=boot), {"chatId": "c", "trigger": "preload"})
        with pytest.raises(RuntimeError, match="on purpose"):
            await run.wait()

    async def forgetting(drivers: TaskDrivers) -> None:
        run = drivers.start_agent(agent_of(saying("hi"), on_boot=boot), {"chatId": "c", "trigger": "preload"})
        while not run.done:
            await chat.sleep(1)

    await run_in_mock_task_context(waiting)
    with pytest.raises(RuntimeError, match="on purpose"):
        await run_in_mock_task_context(forgetting)


async def test_a_session_has_one_run_at_a_time_and_a_further_one_afterwards() -> None:
    agent = agent_of(saying("one", "two"))

    async def task(drivers: TaskDrivers) -> list[Any]:
        first = drivers.start_agent(agent, {"chatId": "c", "trigger": "preload"})
        await drivers.sessions.in_.send("c", message())
        second = drivers.start_agent(agent, {"chatId": "c", "trigger": "preload"})
        with pytest.raises(HarnessStateError, match="a run of session 'c' is on"):
            await second.wait()
        await drivers.sessions.in_.send("c", CLOSE)
        await first.wait()
        third = drivers.start_agent(agent, {"chatId": "c", "continuation": True})
        await drivers.sessions.in_.send("c", message({**USER, "id": "u-2"}))
        await drivers.sessions.in_.send("c", CLOSE)
        await third.wait()
        snapshot = await drivers.sessions.snapshot("c")
        assert snapshot is not None
        return [each.id for each in snapshot.messages if each.role == "user"]

    assert await run_in_mock_task_context(task) == ["u-1", "u-2"]


async def test_an_agent_that_is_still_on_is_ended_with_the_context() -> None:
    async def task(drivers: TaskDrivers) -> Any:
        run = drivers.start_agent(agent_of(saying("hi")), {"chatId": "c", "trigger": "preload"})
        await drivers.sessions.in_.send("c", message())
        return run

    run = await run_in_mock_task_context(task)

    assert run.done


async def test_metadata_and_streams_work_under_the_harness_as_well() -> None:
    seen: list[Any] = []

    async def start(_: Any) -> None:
        metadata.set("turns", 1)
        streams.output("progress").append("begun")
        seen.append((metadata.current(), current_context() is not None))

    async def other_session(_: Any) -> None:
        seen.append(Session("test-chat").in_ is Session("test-chat").in_)

    agent = agent_of(saying("hi"), on_turn_start=start, on_turn_complete=other_session)
    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert seen == [({"turns": 1}, True), True]
