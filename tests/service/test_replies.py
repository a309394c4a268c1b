"""`reply` scripts over the agent itself: its model says them, its tools are its own (BT-15)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from chatagent import chat, is_step_count, stream_text, tool
from chatagent_test import (
    InProcessClient,
    MockConfigError,
    MockLanguageModel,
    ScriptError,
    UnusedScriptsError,
    create_in_process_client,
    reply,
    script,
)

if TYPE_CHECKING:
    from chatagent.client import PendingAction

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(needs_approval=True)
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def accountant(model: MockLanguageModel, steps: int = 5, timeout: float | None = None) -> Any:
    @chat.agent(id="accountant", tools=[add, pay], ui_message_stream_options={"on_error": str})
    async def agent(event: Any) -> Any:
        return stream_text(
            model=model,
            messages=event.messages,
            tools=event.tools,
            stop_when=is_step_count(steps),
            timeout=timeout,
            abort_signal=event.signal,
        )

    return agent


async def say(mock: InProcessClient, text: str = "hi", thread_id: str = "t-1") -> str:
    run = await mock.client.thread(thread_id).send(text)
    state = await run.wait_until_idle()
    return state.messages[-1].text if state.error is None else state.error.message


async def test_a_script_is_one_turn_and_what_comes_of_its_tools_is_the_agent_s() -> None:
    async with create_in_process_client(accountant) as mock:
        mock.responses.queue(
            reply.assistant("I add. ", reply.tool("add").result(input={"a": 1, "b": 2}, output=99), "Done."),
            reply.assistant("Bye."),
        )

        said = [await say(mock), await say(mock)]

        assert said == ["I add. Done.", "Bye."]
        first = mock.client.thread("t-1").get_state().messages[1]
        assert first.tool_parts[0].output == 3
        assert len(mock.model.do_stream_calls) == 3


async def test_an_approval_goes_on_with_the_next_script() -> None:
    async with create_in_process_client(accountant) as mock:
        mock.responses.queue(
            reply.assistant(reply.tool("pay").approval({"euros": 7})),
            reply.assistant(reply.tool("pay").resolved("paid 7"), "Paid."),
        )
        thread = mock.client.thread("t-1")
        run = await thread.send("Pay 7.")
        await run.wait_until_blocked()
        action: PendingAction = thread.pending_actions[0]

        resumed = (await action.submit({"approved": True})).run

        assert resumed is not None
        state = await resumed.wait_until_idle()
        assert (state.messages[-1].text, state.messages[-1].tool_parts[0].output) == ("Paid.", "paid 7")


async def test_scripts_of_a_thread_go_before_the_common_ones() -> None:
    async with create_in_process_client(accountant) as mock:
        mock.responses.queue(reply.assistant("Common."))
        own = mock.responses.for_thread("t-2")
        own.queue(reply.assistant("Own."), reply.assistant("Never said."))

        said = [await say(mock, thread_id=each) for each in ("t-2", "t-1")]

        assert said == ["Own.", "Common."]
        assert (mock.responses.size(), own.size(), own.clear(), mock.responses.size()) == (1, 1, 1, 0)


async def test_an_error_fails_the_run_and_a_retry_takes_the_next_script() -> None:
    async with create_in_process_client(accountant) as mock:
        mock.responses.queue(reply.error("overloaded"), reply.assistant("Here."))

        assert await say(mock) == "overloaded"
        run = await mock.client.thread("t-1").retry()

        assert await run.text() == "Here."


async def test_a_turn_waits_for_its_script() -> None:
    async with create_in_process_client(accountant) as mock:
        run = await mock.client.thread("t-1").send("hi")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.wait_until_idle)
            await mock.harness.settle()
            mock.responses.queue(reply.assistant("At last."))

        assert await run.text() == "At last."


async def test_a_wait_that_is_too_long_says_that_a_script_is_missing_and_takes_no_virtual_time() -> None:
    impatient = partial(accountant, timeout=60)
    async with create_in_process_client(impatient, wait_timeout=0.05) as mock:
        began_at = mock.clock.now()
        run = await mock.client.thread("t-1").send("hi")

        with pytest.raises(TimeoutError, match=r"a script for its answer: call responses\.queue\(\.\.\.\)"):
            await run.wait_until_idle()

        assert mock.clock.now() == began_at


async def test_a_turn_that_waits_for_a_script_can_be_stopped() -> None:
    async with create_in_process_client(accountant) as mock:
        run = await mock.client.thread("t-1").send("hi")
        await mock.harness.settle()

        assert await run.abort()

        await run.wait_until_idle()
        assert run.status == "aborted"
        mock.responses.queue(reply.assistant("Next."))
        assert await say(mock) == "Next."


async def test_the_block_ends_though_a_turn_waits_for_a_script() -> None:
    async with create_in_process_client(accountant) as mock:
        await mock.client.thread("t-1").send("hi")
        await mock.harness.settle()

    assert mock.responses.size() == 0


async def test_what_nobody_asked_for_fails_the_test() -> None:
    async def run() -> None:
        async with create_in_process_client(partial(accountant, steps=1)) as mock:
            mock.responses.queue(
                reply.assistant(reply.tool("add").result({"a": 1, "b": 2}, 3), "Unsaid."), reply.assistant("Unclaimed.")
            )
            await say(mock)

    with pytest.raises(UnusedScriptsError) as raised:
        await run()

    unclaimed, rest = raised.value.unused
    assert unclaimed.startswith("reply.assistant('Unclaimed.'), queued at test_replies.py:")
    assert rest.startswith("the rest of reply.assistant(reply.tool('add').result(")


async def test_a_turn_that_asks_its_model_too_often_fails_the_test() -> None:
    def asking_twice(model: MockLanguageModel) -> Any:
        @chat.agent(id="twice")
        async def agent(event: Any) -> Any:
            title = stream_text(model=model, prompt="A title?")
            await title.text
            return stream_text(model=model, messages=event.messages, abort_signal=event.signal)

        return agent

    async def run() -> None:
        async with create_in_process_client(asking_twice) as mock:
            mock.responses.queue(reply.assistant("Hello."))
            await say(mock)

    with pytest.raises(UnusedScriptsError, match=r"the model was asked 2 times in one turn of thread 't-1'"):
        await run()


async def test_a_script_that_the_agent_could_not_say_is_refused_where_it_stands() -> None:
    async with create_in_process_client(accountant) as mock:
        for script_, problem in (
            (reply.assistant(reply.tool("ad").result({}, 1)), r"no tool is called 'ad'; did you mean 'add'\?"),
            (reply.assistant(reply.tool("add").result({"a": "x", "b": 1}, 1)), r"^test_replies\.py:\d+: part 1: .*a\)"),
            (reply.assistant("a", reply.step(), "b"), r"part 2: reply\.step\(\): an agent begins a step behind"),
            (reply.assistant("a", reply.pause(3)), r"part 2: reply\.pause\(3\): an agent begins a step behind"),
            (reply.assistant("a", message_id="m-1"), r"reply\.assistant\(message_id=\.\.\.\): an agent makes its own"),
            (reply.nothing(), r"reply\.nothing\(\): a model cannot be made to say nothing at all"),
        ):
            with pytest.raises(ScriptError, match=problem):
                mock.responses.queue(script_)

        assert mock.responses.size() == 0


async def test_a_model_with_a_script_of_its_own_takes_no_replies() -> None:
    async with create_in_process_client(accountant, model=script.text("Mine.")) as mock:
        with pytest.raises(MockConfigError, match=r"^responses: this client was given model="):
            mock.responses.queue(reply.assistant("Theirs."))

        assert await say(mock) == "Mine."
