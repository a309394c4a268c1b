"""Queued scripts: who claims them, what they become, and how runs fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chatagent.protocol import EmptyMessageError, ToolDataRequest
from chatagent.ui import DataUIPart, ToolUIPart
from chatagent_test import MockAgentClient, SeedAction, create_mock_agent_client, given, reply
from transport.following import event_types, last_call, last_message, last_tool

if TYPE_CHECKING:
    from chatagent.client import Thread

pytestmark = pytest.mark.anyio


async def ask(thread: Thread, text: str = "go"):
    run = await thread.send(text)
    await run.wait()
    return run


async def test_an_answer_joins_what_the_thread_holds(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-020, MTR-021, MTR-026: the script has no user message, so there is the sent one alone."""
    mock.seed(given.thread("t-1", given.run(given.input("Hi."), given.output("Hello."))))
    mock.responses.queue(reply.assistant("It is 12 EUR."))

    await ask(thread, "And the total?")

    state = thread.get_state()
    assert [(each.role, each.text) for each in state.messages] == [
        ("user", "Hi."),
        ("assistant", "Hello."),
        ("user", "And the total?"),
        ("assistant", "It is 12 EUR."),
    ]
    assert state.thread.status == "idle"


async def test_a_watch_sees_the_life_of_a_send_in_order(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-022: message, start, chunks, end; each singly."""
    mock.responses.queue(reply.assistant("Hello."))
    seen: list[str] = []

    async with thread.watch() as updates:
        await thread.send("hi")
        async for update in updates:
            if update.event is not None:
                seen.append(update.event.type)
                if update.event.type == "generation.completed":
                    break

    assert seen[:2] == ["message.added", "generation.started"]
    assert set(seen[2:-1]) == {"generation.message.chunk"}
    assert seen == [event.type for event in mock.inspect.events("t-1")]


async def test_a_run_without_a_script_goes_on(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-023, MTR-079."""
    run = await thread.send("x")

    assert (run.status, run.record.initiator, thread.get_state().thread.status) == ("running", "send", "running")


async def test_a_send_claims_one_script(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-024, MTR-063."""
    mock.responses.queue(reply.assistant("a"), reply.assistant("b"))
    before = mock.responses.size()
    await ask(thread)
    after = mock.responses.size()

    assert (before, after) == (2, 1)
    assert mock.responses.clear() == 1
    assert mock.responses.size() == 0


async def test_the_state_has_messages_and_runs(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-025."""
    mock.responses.queue(reply.assistant("Done."))
    run = await ask(thread)

    state = thread.get_state()

    assert [message.run_id for message in state.messages] == [run.run_id, run.run_id]
    assert [(each.status, each.error) for each in state.runs] == [("completed", None)]
    assert state.runs[0].settled_at is not None


async def test_send_retry_and_regenerate_claim_in_order(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-060."""
    mock.responses.queue(reply.error("down"), reply.assistant("first"), reply.assistant("second"))

    await ask(thread)
    await thread.retry()
    retried = thread.get_state().messages[-1].text
    await thread.regenerate()

    assert (retried, thread.get_state().messages[-1].text) == ("first", "second")
    assert mock.responses.size() == 0


async def test_nothing_else_claims(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-061."""
    mock.seed(
        given.thread("t-1", given.run(given.input("x"), given.output(given.tool("find").result(input={}, output=1)))),
        given.thread("t-2", given.run(given.input("x"), given.output("y"))),
    )
    mock.commands.set("refresh", lambda call: None)
    mock.responses.queue(reply.assistant("mine"))

    await thread.rename("New")
    await mock.client.thread("t-2").delete()
    info = await mock.client.files.upload(filename="a", media_type="text/plain", body=b"a")
    await mock.client.files.read(info.file_id)
    await mock.client.files.url(info.file_id)
    await thread.commands.refresh()
    await thread.write_tool_data(*last_call(thread), "progress", 1)
    await mock.client.list_threads()
    await thread.refresh()

    assert mock.responses.size() == 1
    await ask(thread)


async def test_a_script_becomes_native_parts(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-062."""
    mock.responses.queue(reply.assistant("Look:", reply.tool("find").result(input={"q": 1}, output={"n": 2})))
    await ask(thread)

    assert [part.type for part in last_message(mock).parts] == ["step-start", "text", "tool-find"]


APPROVAL = reply.action("approval", {"amount": 120})


async def test_tool_input_and_the_question_are_two_things(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-064, MTR-065."""
    mock.responses.queue(reply.assistant(reply.tool("refund_order").waiting(input={"order": 7}, action=APPROVAL)))
    await ask(thread)

    message, part = last_call(thread)
    action = thread.get_pending_action(message, part)

    assert action is not None
    assert part.input == {"order": 7}
    assert action.input == {"amount": 120}
    assert (action.name, action.action_name) == ("refund_order.approval", "approval")


def raw_suspension(mock: MockAgentClient) -> dict[str, Any]:
    part = last_message(mock).parts[-1]
    assert isinstance(part, DataUIPart)
    assert part.type == "data-chatagent-suspension"
    data: Any = part.data
    return data


async def test_a_client_tool_waits_for_its_output(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-066, MTR-067: the question is the tool's input, and no declared one."""
    mock.responses.queue(
        reply.assistant(reply.tool("pick_file").waiting(input={"kind": "pdf"}, action=reply.action("output")))
    )
    await ask(thread)

    assert thread.pending_actions[0].input == {"kind": "pdf"}
    assert "suspendName" not in raw_suspension(mock)


DECLARED = reply.action("output", {"question": "ok?"}, action_id="act-1", declared_suspend=True)
IMPLICIT = reply.action("output", action_id="act-1")


async def test_a_declared_question_called_output_stays_one(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-068."""
    mock.responses.queue(reply.assistant(reply.tool("review").waiting(input={"n": 1}, action=DECLARED)))
    await ask(thread)

    assert raw_suspension(mock)["suspendName"] == "output"
    assert thread.pending_actions[0].input == {"question": "ok?"}


@pytest.mark.parametrize("action", [DECLARED, IMPLICIT], ids=["declared", "implicit"])
async def test_waiting_is_the_same_seeded_queued_and_streamed(action: SeedAction) -> None:
    """MTR-069."""
    found: list[object] = []
    for way in ("seeded", "queued", "streamed"):
        async with create_mock_agent_client() as mock:
            thread = mock.client.thread("t-1")
            if way == "seeded":
                waiting = given.tool("review", "call-1").waiting(input={"n": 1}, action=action)
                mock.seed(given.thread("t-1", given.run(given.input("x"), given.output(waiting))))
                await thread.refresh()
            elif way == "queued":
                mock.responses.queue(reply.assistant(reply.tool("review").waiting(input={"n": 1}, action=action)))
                await ask(thread)
            else:
                async with mock.responses.stream() as response:
                    await thread.send("x")
                    await response.write_tool("review", input={"n": 1}, waiting=action)
            tools = [part for part in last_message(mock).parts if part.type != "step-start"]
            found.append((tools, thread.get_state().pending_actions, thread.get_state().thread.status))

    assert found[0] == found[1] == found[2]


async def test_a_failed_run_is_told_by_the_state_alone(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-070 to MTR-074, MTR-085."""
    mock.responses.queue(reply.error(RuntimeError("quota")))

    run = await thread.send("go")
    state = await run.wait_until_idle()

    assert state.error is not None
    assert state.error.message == "quota"
    assert (state.error.run_id, state.error.operation) == (run.run_id, "send")
    assert state.error.message_id == state.messages[0].message_id
    assert [message.text for message in state.messages] == ["go"]
    assert (run.status, state.active_run, state.thread.status) == ("failed", None, "idle")
    assert event_types(mock) == ["message.added", "generation.started", "generation.failed"]
    stored = mock.inspect.thread("t-1")
    assert stored is not None
    assert stored.thread.active_run_id is None


async def test_a_retry_answers_the_same_message(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-075."""
    mock.responses.queue(reply.error("quota"), reply.assistant("Better."))
    await ask(thread)
    sent = thread.get_state().messages[0]

    run = await thread.retry()

    state = thread.get_state()
    assert state.error is None
    assert state.messages[0] == sent
    assert (state.messages[1].text, run.record.initiator) == ("Better.", "retry")


@pytest.mark.parametrize("operation", ["retry", "regenerate"])
async def test_an_error_script_fails_what_claims_it(mock: MockAgentClient, thread: Thread, operation: str) -> None:
    """MTR-076."""
    mock.responses.queue(reply.error("one"), reply.error("two"))
    await ask(thread)

    await (thread.retry() if operation == "retry" else thread.regenerate())

    error = thread.get_state().error
    assert error is not None
    assert (error.message, error.operation) == ("two", operation)
    assert mock.responses.size() == 0


async def test_a_tool_that_fails_does_not_fail_the_run(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-077, MTR-078."""
    mock.responses.queue(reply.assistant(reply.tool("find_invoice").error(RuntimeError("down"))))
    run = await ask(thread)

    part = last_tool(mock)
    assert (part.state, part.error_text) == ("output-error", "down")
    assert (run.status, thread.get_state().error) == ("completed", None)


async def test_a_script_that_comes_late_is_claimed_by_the_run_that_waits(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-080."""
    run = await thread.send("x")

    mock.responses.queue(reply.assistant("late"))

    assert (await run.wait_until_idle()).messages[-1].text == "late"


async def test_a_text_is_the_same_queued_and_written(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-081, MTR-106."""
    mock.responses.queue(reply.assistant("same"))
    await ask(thread)
    queued = last_message(mock).parts
    async with mock.responses.stream() as response:
        await thread.send("x")
        await response.write_text("same")

    assert last_message(mock).parts == queued


async def test_a_refused_send_consumes_nothing(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-082."""
    mock.responses.queue(reply.error("mine"))

    with pytest.raises(EmptyMessageError):
        await thread.send("   ")
    run = await ask(thread)

    assert run.status == "failed"


async def test_renaming_and_deleting_make_no_run(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-083."""
    mock.seed(given.thread("t-1"))

    await thread.rename("New")
    renamed = mock.inspect.thread("t-1")
    await thread.delete()

    assert renamed is not None
    assert (renamed.thread.title, renamed.runs) == ("New", ())
    assert mock.inspect.thread("t-1") is None
    assert thread.get_state().messages == ()


async def test_tool_data_of_a_request_that_comes_twice_is_written_once(mock: MockAgentClient, thread: Thread) -> None:
    """TP-22."""
    mock.responses.queue(reply.assistant(reply.tool("find").result(input={}, output=1)))
    await thread.send("x")
    message, call = last_call(thread)
    fields = {"message_id": message.message_id, "tool_call_id": call.tool_call_id, "channel": "progress", "value": 1}
    request = ToolDataRequest.model_validate({"request_id": "once", "thread_id": "t-1", **fields})

    await mock.transport.write_tool_data(request)
    once = mock.inspect.events("t-1")
    await mock.transport.write_tool_data(request)

    assert mock.inspect.events("t-1") == once


async def test_tool_data_goes_into_the_message_without_a_run(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-084."""
    mock.responses.queue(reply.assistant(reply.tool("find").result(input={}, output=1)))
    await ask(thread)

    await thread.write_tool_data(*last_call(thread), "progress", {"percent": 10})

    part = last_message(mock).parts[-1]
    assert isinstance(part, DataUIPart)
    assert (part.type, part.data, part.id) == ("data-progress", {"percent": 10}, "call-1")
    assert len(thread.get_state().runs) == 1


async def test_a_registered_function_is_not_called() -> None:
    """MTR-146, MTR-147: the mock runs no tool and fires no hook of the agent whose contract it has."""
    from chatagent import chat, tool

    called: list[str] = []

    @tool
    def find(q: int) -> int:
        """Find something."""
        called.append("tool")
        return q

    agent = chat.agent(
        id="a", tools=[find], run=lambda event: called.append("run"), on_turn_start=lambda event: called.append("hook")
    )
    async with create_mock_agent_client(contract=agent) as mock:
        mock.responses.queue(reply.assistant(reply.tool("find").result(input={"q": 1}, output=2)))
        await ask(mock.client.thread("t-1"))

        part = last_tool(mock)

    assert isinstance(part, ToolUIPart)
    assert (part.output, called) == (2, [])
