"""What waits for the client, and custom actions, over the real runtime (MP-11 to MP-16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from chatagent import chat
from chatagent.client import AgentClient
from chatagent.protocol import ActionNotPendingError, ActionValueError, ThreadBusyError
from chatagent_test import MockLanguageModel, create_in_process_client, script
from service.agents import TOOLS, answering, events_of, texts_of

if TYPE_CHECKING:
    from chatagent.agent import ChatAgent

pytestmark = pytest.mark.anyio

PICK = script.tool_call("pick_file", {"kind": "pdf"}, tool_call_id="call-pick")
REFUND = script.tool_call("refund", {"amount": 120}, tool_call_id="call-refund")


def tool_agent(model: MockLanguageModel) -> ChatAgent[Any]:
    return answering(tools=TOOLS)(model)


async def test_a_server_tool_is_run_and_shown_with_where_it_runs() -> None:
    model = MockLanguageModel([script.tool_call("lookup", {"query": "x"}), script.text("Found.")])
    async with create_in_process_client(tool_agent, model=model) as mock:
        run = await mock.client.thread("t-1").send("look")
        state = await run.wait_until_idle()
        await mock.harness.settle()

        (part,) = state.messages[-1].tool_parts
        assert (part.type, part.state, part.input, part.output) == (
            "tool-lookup",
            "output-available",
            {"query": "x"},
            {"found": "x"},
        )
        assert part.tool_metadata == {"chatagent": {"executor": "server", "toolId": "lookup"}}
        assert "state.changed" not in events_of(mock)


async def test_a_call_of_a_client_s_tool_waits_for_its_output() -> None:
    """MP-13: the service says that the call waits, and of what."""
    async with create_in_process_client(tool_agent, model=PICK) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("pick one")

        state = await run.wait_until_blocked()

        (action,) = thread.pending_actions
        assert state.thread.status == "waiting"
        assert (action.name, action.action_name, action.input) == ("pick_file.output", "output", {"kind": "pdf"})
        assert events_of(mock)[-3:] == ["finish", "data-chatagent-suspension", "generation.waiting"]
        raw = await mock.transport.get_thread("t-1")
        assert raw is not None
        (mark,) = [part for part in raw.messages[-1].parts if part.type == "data-chatagent-suspension"]
        assert "suspendName" not in mark.to_wire()["data"]  # type: ignore[operator]


async def test_the_output_goes_to_the_agent_and_the_same_run_goes_on() -> None:
    """MP-2, MP-14; EV-24: the same run, the same message."""
    model = MockLanguageModel([PICK, script.text("Thanks.")])
    async with create_in_process_client(tool_agent, model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("pick one")
        await run.wait_until_blocked()

        result = await thread.pending_actions[0].submit({"name": "a.pdf"})
        assert result.run is not None
        state = await result.run.wait_until_idle()
        await mock.harness.settle()

        assert result.run.run_id == run.run_id
        assert texts_of(state) == ["pick one", "Thanks."]
        (part,) = state.messages[-1].tool_parts
        assert (part.state, part.output) == ("output-available", {"name": "a.pdf"})
        told = events_of(mock)
        assert told[told.index("generation.waiting") :][:5] == [
            "generation.waiting",
            "tool-output-available",
            "action.resolved",
            "generation.resumed",
            "start",
        ]
        assert "state.changed" not in told


async def test_answers_are_held_back_until_the_last_one_is_in() -> None:
    """MP-14."""
    both = script.tool_call("pick_file", {}, tool_call_id="call-1").tool_call("pick_file", {}, tool_call_id="call-2")
    model = MockLanguageModel([both, script.text("Both.")])
    async with create_in_process_client(tool_agent, model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("pick two")
        await run.wait_until_blocked()
        first, second = thread.pending_actions

        half = await first.submit({"name": "a"})
        await mock.harness.settle()
        assert (half.run, run.status, len(model.do_stream_calls)) == (None, "waiting", 1)

        whole = await second.submit({"name": "b"})
        assert whole.run is not None
        state = await whole.run.wait_until_idle()
        assert [part.output for part in state.messages[-1].tool_parts] == [{"name": "a"}, {"name": "b"}]


async def test_a_second_answer_is_refused_and_a_wrong_one_too() -> None:
    """MP-14; PA-6."""
    model = MockLanguageModel([PICK, script.text("Thanks.")])
    async with create_in_process_client(tool_agent, model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("pick one")
        await run.wait_until_blocked()
        (action,) = thread.pending_actions

        with pytest.raises(ActionValueError):
            await action.submit({"name": 7})
        assert thread.pending_actions

        outcomes: list[str] = []

        async def submit() -> None:
            try:
                await action.submit({"name": "a.pdf"})
                outcomes.append("taken")
            except ActionNotPendingError as refused:
                outcomes.append(refused.reason)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(submit)
            tasks.start_soon(submit)
        await run.wait_until_idle()
        assert sorted(outcomes) == ["resolved", "taken"]
        assert len(model.do_stream_calls) == 2


@pytest.mark.parametrize(
    ("answer", "state", "text"),
    [
        ({"approved": True}, "output-available", "Paid."),
        ({"approved": False, "reason": "no"}, "output-denied", "As you wish."),
    ],
)
async def test_an_approval_is_asked_for_and_its_answer_decides(answer: dict[str, Any], state: str, text: str) -> None:
    """MP-15, MP-16."""
    model = MockLanguageModel([REFUND, script.text(text)])
    async with create_in_process_client(tool_agent, model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("money back")
        await run.wait_until_blocked()
        (action,) = thread.pending_actions
        assert (action.name, getattr(action.input, "amount", None)) == ("refund.approval", 120)

        result = await action.submit(answer)
        assert result.run is not None
        after = await result.run.wait_until_idle()
        await mock.harness.settle()

        (part,) = after.messages[-1].tool_parts
        assert (run.status, part.state, after.messages[-1].text) == ("completed", state, text)
        assert part.approval is not None
        assert part.approval.reason == answer.get("reason")
        assert "state.changed" not in events_of(mock)


async def test_a_failure_behind_an_answer_is_one_of_the_resumption() -> None:
    """MP-7, MP-14."""
    model = MockLanguageModel([PICK, script.breaks(RuntimeError("gone"))])
    async with create_in_process_client(tool_agent, model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("pick one")
        await run.wait_until_blocked()

        await thread.pending_actions[0].submit({"name": "a.pdf"})
        state = await run.wait_until_idle()

        assert state.error is not None
        assert (run.status, state.error.operation) == ("failed", "resume")


async def test_a_send_takes_the_place_of_a_run_that_waits() -> None:
    """MP-11; EV-27."""
    model = MockLanguageModel([PICK, script.text("Never mind.")])
    async with create_in_process_client(tool_agent, model=model) as mock:
        thread = mock.client.thread("t-1")
        waiting = await thread.send("pick one")
        await waiting.wait_until_blocked()
        (action,) = thread.pending_actions

        run = await thread.send("forget it")
        state = await run.wait_until_idle()
        await mock.harness.settle()

        assert (waiting.status, waiting.record.abort_reason) == ("aborted", "superseded")
        assert texts_of(state) == ["pick one", "", "forget it", "Never mind."]
        assert state.pending_actions == ()
        with pytest.raises(ActionNotPendingError, match="superseded"):
            await action.submit({"name": "a.pdf"})
        assert "state.changed" not in events_of(mock)


async def test_a_waiting_run_can_be_aborted() -> None:
    """MP-9, MP-13."""
    async with create_in_process_client(tool_agent, model=PICK) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("pick one")
        await run.wait_until_blocked()

        assert await run.abort() is True

        assert (run.status, thread.pending_actions, thread.get_state().thread.status) == ("aborted", (), "idle")


async def test_a_new_client_finds_what_waits_and_can_answer_it() -> None:
    """MP-13, MP-32: closing one transport closes neither the service nor another one."""
    model = MockLanguageModel([PICK, script.text("Thanks.")])
    async with create_in_process_client(tool_agent, model=model) as mock:
        async with AgentClient(mock.service.transport()) as first:
            run = await first.thread("t-1").send("pick one")
            await run.wait_until_blocked()

        thread = mock.client.thread("t-1")
        await thread.refresh()
        result = await thread.pending_actions[0].submit({"name": "a.pdf"})
        assert result.run is not None
        assert texts_of(await result.run.wait_until_idle()) == ["pick one", "Thanks."]


async def test_an_action_reaches_its_hook_and_what_it_returns_is_shown() -> None:
    """MP-12."""
    seen: list[Any] = []

    @chat.agent(id="acting")
    def agent(event: Any) -> Any:
        return None

    @agent.on_action
    def on_action(event: Any) -> str:
        seen.append((event.action, event.client_data))
        return "Cleared."

    async with create_in_process_client(agent) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send_action({"type": "clear"}, client_data={"user": "u-1"})
        state = await run.wait_until_idle()
        await mock.harness.settle()

        assert seen == [({"type": "clear"}, {"user": "u-1"})]
        assert (run.record.initiator, run.record.input_message_id) == ("action", None)
        assert [(each.role, each.text, each.run_id) for each in state.messages] == [
            ("assistant", "Cleared.", run.run_id)
        ]
        assert "state.changed" not in events_of(mock)


async def test_an_action_waits_for_nobody() -> None:
    """MP-12; TH-50."""
    model = MockLanguageModel(script.hold("middle").text("one"))
    async with create_in_process_client(answering(), model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("hi")
        await model.reached("middle")

        with pytest.raises(ThreadBusyError, match=run.run_id):
            await thread.send_action({})

        model.release("middle")
        await run.wait_until_idle()
