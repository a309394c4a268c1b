"""Many harnesses at once: nothing is shared that is not meant to be (D1, G-2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from agent.making import agent_of, asking, ids, saying, texts, user
from chatagent import chat, locals
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.agent import ChatLocal

pytestmark = pytest.mark.anyio

NAME = locals.create("name", str)
visits: ChatLocal[dict[str, Any]] = chat.local(dict, id="side-by-side")


def counting_agent() -> Any:
    """An agent that says who it is talking to and how often."""

    def boot(event: Any) -> None:
        visits.init({"count": 0})

    def run(event: Any) -> Any:
        visits.count += 1
        said = f"{locals.get_or_throw(NAME)} {visits.count}"
        return asking(MockLanguageModel(script.text(said[:2]).pause(60).text(said[2:])))(event)

    return agent_of(run=run, on_boot=boot)


async def test_fifty_harnesses_in_one_event_loop() -> None:
    agent = counting_agent()
    answers: dict[str, list[str]] = {}

    async def converse(name: str) -> None:
        async with mock_chat_agent(agent, chat_id=name, setup_locals=lambda values: values.set(NAME, name)) as harness:
            answers[name] = [(await harness.send_message(text)).text for text in ("a", "b", "c")]
            assert harness.clock.now() - 1735689600.0 == 180

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(converse, f"user-{number}")

    assert answers == {f"user-{n}": [f"user-{n} 1", f"user-{n} 2", f"user-{n} 3"] for n in range(50)}


async def test_two_harnesses_of_the_same_agent_and_chat_work_apart() -> None:
    agent = agent_of(MockLanguageModel(script.text("ok")))

    async with mock_chat_agent(agent, chat_id="c") as one, mock_chat_agent(agent, chat_id="c") as two:
        await one.send_message(user("u-1", "first"))
        await two.send_message(user("u-2", "second"))
        pending = [one.begin_message(user("u-3", "third")), two.begin_message(user("u-4", "fourth"))]
        for each in pending:
            await each

    snapshots = one.get_snapshot(), two.get_snapshot()
    assert snapshots[0] is not None
    assert snapshots[1] is not None
    assert texts(snapshots[0].messages)[::2] == ["first", "third"]
    assert texts(snapshots[1].messages)[::2] == ["second", "fourth"]
    assert ids(snapshots[0].messages)[1] == ids(snapshots[1].messages)[1] == "msg-1"


async def test_closing_one_harness_leaves_the_other_on() -> None:
    """G-2: in the reference the first `close` removes the second's stubs."""
    one, two = (mock_chat_agent(agent_of(saying("ok", "ok"))) for _ in range(2))
    await one.send_message("a")
    await two.send_message("a")

    await one.close()
    turn = await two.send_message("b")
    await two.close()

    assert turn.text == "ok"


async def test_a_failing_harness_leaves_the_other_on() -> None:
    def fail(event: Any) -> None:
        raise ValueError("boom")

    broken = mock_chat_agent(agent_of(on_boot=fail))
    async with mock_chat_agent(agent_of(saying("ok"))) as harness:
        with pytest.raises(ValueError, match=r"^boom$"):
            await broken.start()
        turn = await harness.send_message("a")
    await broken.close()

    assert turn.text == "ok"


async def test_harnesses_in_threads_with_loops_of_their_own() -> None:
    agent = agent_of(MockLanguageModel(script.pause(60).text("ok")))

    async def converse() -> str:
        async with mock_chat_agent(agent) as harness:
            return (await harness.send_message("hello")).text

    results: list[str] = []

    async def in_thread(backend: str) -> None:
        results.append(await anyio.to_thread.run_sync(lambda: anyio.run(converse, backend=backend)))

    async with anyio.create_task_group() as tasks:
        for backend in ("asyncio", "trio", "asyncio", "trio"):
            tasks.start_soon(in_thread, backend)

    assert results == ["ok"] * 4


async def test_an_agent_may_drive_another_agent_s_harness_inside_its_turn() -> None:
    inner_agent = agent_of(saying("inner"))

    async def run(event: Any) -> Any:
        async with mock_chat_agent(inner_agent) as inner:
            turn = await inner.send_message("from outside")
        return asking(saying(f"outer of {turn.text}"))(event)

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("hello")

    assert turn.text == "outer of inner"
