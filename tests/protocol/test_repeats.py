"""The same request a second time gets the first answer (TP-22)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from chatagent import command
from chatagent.protocol import CommandRequest, Repeats
from chatagent.protocol.repeats import REMEMBERED_REQUESTS, REMEMBERED_THREADS
from chatagent_test import CommandCall, create_in_process_client, create_mock_agent_client
from service.agents import answering

pytestmark = pytest.mark.anyio


class Asked:
    """Counts how often it is asked; its answers tell the count."""

    def __init__(self) -> None:
        self.count = 0
        self.may_go_on = anyio.Event()
        self.fails = False

    async def at_once(self) -> object:
        self.count += 1
        if self.fails:
            raise ValueError("not now")
        return {"times": [self.count]}

    async def later(self) -> object:
        await self.may_go_on.wait()
        return await self.at_once()


async def test_an_answer_is_asked_for_once_for_each_thread_and_request() -> None:
    asked, repeats = Asked(), Repeats()

    answers = [await repeats.once(*key, asked.at_once) for key in (("t", "r"), ("t", "r"), ("t", "s"), ("u", "r"))]

    assert [answer["times"][0] for answer in answers if isinstance(answer, dict)] == [1, 1, 2, 3]


async def test_each_caller_has_an_answer_of_its_own() -> None:
    asked, repeats = Asked(), Repeats()

    first: Any = await repeats.once("t", "r", asked.at_once)
    first["times"].append("mine")

    assert await repeats.once("t", "r", asked.at_once) == {"times": [1]}


async def test_who_comes_while_the_answer_is_waited_for_gets_the_same_one() -> None:
    asked, repeats, answers = Asked(), Repeats(), list[object]()

    async def ask() -> None:
        answers.append(await repeats.once("t", "r", asked.later))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        asked.may_go_on.set()

    assert answers == [{"times": [1]}] * 3


async def test_a_request_that_failed_or_was_cancelled_may_be_tried_again() -> None:
    asked, repeats = Asked(), Repeats()

    with anyio.move_on_after(0):
        await repeats.once("t", "r", asked.later)
    asked.fails = True
    with pytest.raises(ValueError, match="not now"):
        await repeats.once("t", "r", asked.at_once)
    asked.fails = False

    assert await repeats.once("t", "r", asked.at_once) == {"times": [2]}


async def test_the_oldest_answers_and_those_of_a_deleted_thread_are_forgotten() -> None:
    asked, repeats = Asked(), Repeats()
    for number in range(REMEMBERED_REQUESTS + 1):
        await repeats.once("t", str(number), asked.at_once)

    await repeats.once("t", "1", asked.at_once)
    known = asked.count
    await repeats.once("t", "0", asked.at_once)
    repeats.forget("t")
    await repeats.once("t", "2", asked.at_once)

    assert (known, asked.count) == (REMEMBERED_REQUESTS + 1, REMEMBERED_REQUESTS + 3)


async def test_threads_that_were_asked_long_ago_and_requests_that_failed_fill_no_memory() -> None:
    asked, repeats = Asked(), Repeats()
    for number in range(REMEMBERED_THREADS + 1):
        await repeats.once(f"t-{number}", "r", asked.at_once)
    known = asked.count

    await repeats.once("t-1", "r", asked.at_once)
    again = [asked.count - known]
    await repeats.once("t-0", "r", asked.at_once)
    again.append(asked.count - known)
    asked.fails = True
    for number in range(3):
        with pytest.raises(ValueError, match="not now"):
            await repeats.once(f"u-{number}", "r", asked.at_once)

    assert again == [0, 1]
    assert len(repeats._threads) == REMEMBERED_THREADS  # pyright: ignore[reportPrivateUsage]


async def test_an_answer_that_is_waited_for_is_never_forgotten() -> None:
    asked, repeats, answers = Asked(), Repeats(), list[object]()

    async def ask() -> None:
        answers.append(await repeats.once("t", "slow", asked.later))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        for number in range(REMEMBERED_REQUESTS + 1):
            await repeats.once("t", str(number), asked.at_once)
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        asked.may_go_on.set()

    assert answers == [{"times": [REMEMBERED_REQUESTS + 2]}] * 2


async def test_the_mock_handles_a_command_once_for_each_request() -> None:
    calls: list[CommandCall] = []
    async with create_mock_agent_client() as mock:
        mock.commands.set("refresh", calls.append)
        request = CommandRequest(request_id="once", thread_id="t", command="refresh")
        for _ in range(2):
            await mock.transport.execute_command(request)

    assert len(calls) == 1


async def test_a_service_calls_a_command_once_for_each_request() -> None:
    calls: list[object] = []

    def refresh(_: Any) -> str:
        calls.append(None)
        return f"call {len(calls)}"

    async with create_in_process_client(answering(commands={"refresh": command(refresh)})) as mock:
        request = CommandRequest(request_id="once", thread_id="t", command="refresh")
        answers = [await mock.transport.execute_command(request) for _ in range(2)]

    assert answers == ["call 1", "call 1"]
