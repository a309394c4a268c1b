"""Questions that tools declare and ask while they run, over the real runtime (MP-17, MP-18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from chatagent import stream_text, tool
from chatagent.errors import ChatContextError, ToolDefinitionError
from chatagent.generate import Suspend, ToolCallOptions
from chatagent.protocol import ActionNotPendingError, ActionValueError
from chatagent_test import MockLanguageModel, create_in_process_client, script
from service.agents import answering, events_of, texts_of

if TYPE_CHECKING:
    from chatagent.agent import ChatAgent

pytestmark = pytest.mark.anyio


class Amount(BaseModel):
    amount: int


class Verdict(BaseModel):
    approved: bool


class Draft(BaseModel):
    draft: str


class Text(BaseModel):
    text: str


RUNS: list[str] = []

SUSPENDS = {"approval": Suspend(Amount, Verdict), "output": Suspend(Draft, Text)}


async def review(order: int, options: ToolCallOptions) -> dict[str, Any]:
    """Review an order."""
    RUNS.append(f"begun {order}")
    try:
        verdict = await options.suspend("approval", Amount(amount=120))
    except Exception:
        RUNS.append("an error")
        raise
    if not verdict.approved:
        raise RuntimeError("refused")
    final = await options.suspend("output", {"draft": "Dear customer"})
    return {"order": order, "text": final.text}


REVIEW = tool(name="review", execute=review, suspends=SUSPENDS, data_channels={"progress": None})
CALL = script.tool_call("review", {"order": 7}, tool_call_id="call-review")


@pytest.fixture(autouse=True)
def no_runs() -> None:
    RUNS.clear()


def reviewing(model: MockLanguageModel) -> ChatAgent[Any]:
    return answering(tools=[REVIEW])(model)


async def test_a_question_waits_with_what_it_shows() -> None:
    """MP-17: the call stays open, and asking is no error."""
    async with create_in_process_client(reviewing, model=CALL) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("review it")
        state = await run.wait_until_blocked()
        await mock.harness.settle()

        (action,) = thread.pending_actions
        assert (action.name, action.action_name, action.input) == ("review.approval", "approval", Amount(amount=120))
        (part,) = state.messages[-1].tool_parts
        assert (part.state, part.suspensions[0].suspend_name) == ("input-available", "approval")
        assert RUNS == ["begun 7"]
        told = events_of(mock)
        assert told[-2:] == ["data-chatagent-suspension", "generation.waiting"]
        assert "data-chatagent-suspend" not in told
        assert "state.changed" not in told


async def test_the_tool_runs_again_with_each_answer_until_it_asks_no_more() -> None:
    """MP-18: the same run and message; an answer that was given is not asked for again."""
    model = MockLanguageModel([CALL, script.text("Reviewed.")])
    async with create_in_process_client(reviewing, model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("review it")
        await run.wait_until_blocked()

        await thread.pending_actions[0].submit({"approved": True})
        await mock.harness.settle()
        state = await run.wait_until_blocked()
        (action,) = thread.pending_actions
        assert (action.name, action.input) == ("review.output", Draft(draft="Dear customer"))
        (part,) = state.messages[-1].tool_parts
        assert part.suspensions[0].resolution == {"approved": True}
        raw = await mock.transport.get_thread("t-1")
        assert raw is not None
        marks = [each.to_wire()["data"] for each in raw.messages[-1].parts if each.type == "data-chatagent-suspension"]
        assert [mark["suspendName"] for mark in marks] == ["approval", "output"]  # type: ignore[index]

        await action.submit({"text": "Hello."})
        state = await run.wait_until_idle()
        await mock.harness.settle()

        (part,) = state.messages[-1].tool_parts
        assert (run.status, part.state, part.output) == (
            "completed",
            "output-available",
            {"order": 7, "text": "Hello."},
        )
        assert texts_of(state) == ["review it", "Reviewed."]
        assert RUNS == ["begun 7"] * 3
        assert len(model.do_stream_calls) == 2
        assert "state.changed" not in events_of(mock)


async def test_an_answer_can_make_the_tool_fail_and_the_run_goes_on() -> None:
    """MP-18."""
    model = MockLanguageModel([CALL, script.text("Not allowed.")])
    async with create_in_process_client(reviewing, model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("review it")
        await run.wait_until_blocked()
        with pytest.raises(ActionValueError):
            await thread.pending_actions[0].submit({"approved": "perhaps"})

        await thread.pending_actions[0].submit({"approved": False})
        state = await run.wait_until_idle()
        await mock.harness.settle()

        (part,) = state.messages[-1].tool_parts
        assert (run.status, part.state, part.error_text) == ("completed", "output-error", "RuntimeError: refused")
        assert "state.changed" not in events_of(mock)


async def test_an_answer_outlives_the_runtime_run() -> None:
    """MP-18, MP-29: the answer is part of the conversation."""
    model = MockLanguageModel([CALL, script.text("Reviewed.")])
    async with create_in_process_client(reviewing, model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("review it")
        await run.wait_until_blocked()
        await mock.harness.settle()
        await mock.harness.kill_run("t-1")
        await thread.pending_actions[0].submit({"approved": True})
        await run.wait_until_blocked()
        await mock.harness.settle()
        await mock.harness.kill_run("t-1")
        await thread.pending_actions[0].submit({"text": "Hello."})
        state = await run.wait_until_idle()

        assert (run.status, texts_of(state)) == ("completed", ["review it", "Reviewed."])


async def test_a_question_that_nobody_answers_gives_way_to_a_send() -> None:
    """MP-11, MP-17."""
    model = MockLanguageModel([CALL, script.text("Never mind.")])
    async with create_in_process_client(reviewing, model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("review it")
        await run.wait_until_blocked()
        (action,) = thread.pending_actions

        state = await (await thread.send("forget it")).wait_until_idle()
        await mock.harness.settle()

        assert (run.status, texts_of(state)[-1]) == ("aborted", "Never mind.")
        with pytest.raises(ActionNotPendingError, match="superseded"):
            await action.submit({"approved": True})
        assert "state.changed" not in events_of(mock)


async def test_a_question_that_was_not_declared_is_an_error_of_the_tool() -> None:
    """MP-17."""

    async def nosy(options: ToolCallOptions) -> None:
        """Ask what it must not."""
        await options.suspend("why")

    model = MockLanguageModel([script.tool_call("nosy", {}), script.text("Sorry.")])
    agent = answering(tools=[tool(name="nosy", execute=nosy)])
    async with create_in_process_client(agent, model=model) as mock:
        run = await mock.client.thread("t-1").send("hi")
        state = await run.wait_until_idle()

        (part,) = state.messages[-1].tool_parts
        assert part.state == "output-error"
        assert "declares no such question" in str(part.error_text)


def test_the_manifest_names_the_questions_and_the_channels() -> None:
    """MP-17, MP-23."""
    (shown,) = reviewing(MockLanguageModel()).contract().manifest().tools

    assert [each.name for each in shown.suspends] == ["approval", "output"]
    assert shown.suspends[0].input_schema["properties"].keys() == {"amount"}  # type: ignore[union-attr]
    assert [each.name for each in shown.data_channels] == ["progress"]


def test_a_tool_that_needs_approval_asks_no_questions() -> None:
    """MP-17."""
    with pytest.raises(ToolDefinitionError, match="needs approval"):
        tool(name="both", execute=review, needs_approval=True, suspends=SUSPENDS)


async def test_a_question_needs_a_run_whose_client_can_answer() -> None:
    """MP-17: elsewhere it is an error of the tool."""
    model = MockLanguageModel([CALL, script.text("No.")])

    result = stream_text(model=model, prompt="review it", tools=[REVIEW], stop_when=lambda _: False)

    assert await result.text == "No."
    (failed,) = [part for part in (await result.steps)[0].content if part.type == "tool-error"]
    assert isinstance(failed.error, ChatContextError)  # type: ignore[union-attr]
