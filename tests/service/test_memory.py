"""A service that lives long: threads are let go when nobody uses them, and loaded again when they are asked for."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from chatagent.client import AgentClient
from chatagent.errors import InvalidArgumentError
from chatagent.protocol import ActionNotPendingError, SubmitActionRequest
from chatagent.service import AgentService
from chatagent.ui import DataUIPart
from chatagent_test import MockLanguageModel, VirtualClock, script
from service.agents import TOOLS, answering, texts_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from chatagent.agent import RunEvent

pytestmark = pytest.mark.anyio


class Place:
    """A service with room for four threads, and clients that come and go."""

    def __init__(self, model: MockLanguageModel, **options: Any) -> None:
        self.clock = VirtualClock()
        self.service = AgentService(answering(**options)(model), clock=self.clock, loaded_threads=4)

    @property
    def loaded(self) -> set[str]:
        return set(self.service._threads.ids())  # pyright: ignore[reportPrivateUsage]

    @asynccontextmanager
    async def client(self, **client_data: Any) -> AsyncGenerator[AgentClient]:
        async with AgentClient(self.service.transport(client_data=client_data or None), wait_timeout=5) as client:
            yield client

    async def ask(self, thread_id: str, text: str) -> list[str]:
        async with self.client() as client:
            state = await (await client.thread(thread_id).send(text)).wait_until_idle()
        await self.pass_time()
        return texts_of(state)

    async def pass_time(self) -> None:
        """Let the runtime runs wait in vain until they end."""
        for _ in range(3):
            await anyio.wait_all_tasks_blocked()
            self.clock.advance(3600)
        await anyio.wait_all_tasks_blocked()


async def test_threads_that_nobody_uses_are_let_go_and_loaded_again() -> None:
    place = Place(MockLanguageModel(lambda call: script.text(f"{len(call.prompt)}")))
    async with place.service:
        for number in range(9):
            await place.ask(f"t-{number}", "hi")
        assert len(place.loaded) <= 4
        assert "t-0" not in place.loaded

        again = await place.ask("t-0", "and?")

        assert again == ["hi", "1", "and?", "3"]
        async with place.client() as client:
            assert len((await client.list_threads()).heads) == 9
            async with client.thread("t-0").watch() as updates:
                assert [message.text for message in (await anext(updates)).state.messages] == again
        seqs = [event.seq for event in place.service.log("t-0").events()]
        assert seqs == list(range(1, len(seqs) + 1))


async def test_asking_for_threads_that_are_not_there_fills_no_memory() -> None:
    place = Place(MockLanguageModel())
    async with place.service:
        transport = place.service.transport()
        for number in range(50):
            assert await transport.get_thread(f"none-{number}") is None
            async with place.client() as client:
                assert not (await client.thread(f"nobody-{number}").refresh()).messages

        assert len(place.loaded) <= 4


async def test_a_thread_in_use_stays() -> None:
    model = MockLanguageModel([script.hold("middle").text("Hello.")])
    place = Place(model)
    async with place.service, place.client() as client:
        thread = client.thread("t-busy")
        run = await thread.send("hi")
        await model.reached("middle")
        transport = place.service.transport()
        async with transport.watch_thread("t-watched", after=0):
            for number in range(20):
                await transport.get_thread(f"none-{number}")

            assert {"t-busy", "t-watched"} <= place.loaded
        model.release("middle")
        assert texts_of(await run.wait_until_idle()) == ["hi", "Hello."]


async def test_an_answer_finds_the_thread_that_was_let_go_while_it_waited() -> None:
    """MP-14, ER-7: the agent gets it with the client data of the thread, and the action is known as answered."""
    seen: list[Any] = []

    def note(event: RunEvent[Any]) -> None:
        seen.append(event.client_data)

    model = MockLanguageModel([script.tool_call("pick_file", {"kind": "pdf"}), script.text("Thanks.")])
    place = Place(model, tools=TOOLS, on_turn_start=note)
    async with place.service:
        async with place.client(user="u-1") as client:
            run = await client.thread("t-1").send("a file")
            await run.wait_until_blocked()
            (action,) = client.thread("t-1").pending_actions
        await place.pass_time()
        transport = place.service.transport()
        for number in range(20):
            await transport.get_thread(f"none-{number}")
        assert "t-1" not in place.loaded

        async with place.client() as client:
            thread = client.thread("t-1")
            await thread.refresh()
            (action,) = thread.pending_actions
            result = await action.submit({"name": "a.pdf"})
            assert result.run is not None
            assert texts_of(await result.run.wait_until_idle()) == ["a file", "Thanks."]
        await place.pass_time()
        for number in range(20):
            await transport.get_thread(f"none-{number}")
        assert "t-1" not in place.loaded

        late = SubmitActionRequest(request_id="late", thread_id="t-1", action_id=action.action_id, value={"name": "b"})
        with pytest.raises(ActionNotPendingError) as refused:
            await transport.submit_action(late)

    assert refused.value.reason == "resolved"
    assert seen == [{"user": "u-1"}, {"user": "u-1"}]


async def test_data_for_a_thread_that_was_let_go_reach_the_agent_with_the_client_data_of_the_transport() -> None:
    """MP-19, MP-28: an agent that insists on client data would refuse them."""

    def user_of(given: object) -> object:
        if given is None:
            raise ValueError("who is it?")
        return given

    model = MockLanguageModel([script.tool_call("lookup", {"query": "x"}, tool_call_id="c-1"), script.text("Found.")])
    place = Place(model, tools=TOOLS, client_data_schema=user_of)
    async with place.service:
        async with place.client(user="u-1") as client:
            await (await client.thread("t-1").send("look")).wait_until_idle()
        await place.pass_time()
        transport = place.service.transport()
        for number in range(20):
            await transport.get_thread(f"none-{number}")
        assert "t-1" not in place.loaded

        async with place.client(user="u-1") as client:
            thread = client.thread("t-1")
            message = (await thread.refresh()).messages[-1]
            await thread.write_tool_data(message, message.tool_parts[0], "progress", 1)
        await place.pass_time()
        snapshot = await place.service._setting.snapshots.load("t-1")  # pyright: ignore[reportPrivateUsage]

    assert snapshot is not None
    assert [part.data for part in snapshot.messages[-1].parts if isinstance(part, DataUIPart)] == [1]
    assert place.service.untold_errors == ()


@pytest.mark.parametrize("name", ["event_log_size", "loaded_threads"])
def test_a_size_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^`{name}` is 0: it is 1 or more$"):
        AgentService(answering()(MockLanguageModel()), **{name: 0})  # pyright: ignore[reportArgumentType]
