"""Cases of the profile `actions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from chatagent.client import AgentClient
from chatagent.protocol import (
    ActionNotPendingError,
    ActionValueError,
    ReservedNameError,
    ToolCallNotFoundError,
    ToolDataRequest,
)
from chatagent.ui import DataUIPart
from chatagent_test import reply
from client.casebook import case, kinds

if TYPE_CHECKING:
    from chatagent.client import ActionResult, RunHandle
    from chatagent_test import ReplyScript
    from client.casebook import Stage

PICK = reply.tool("pick_file").waiting(input={"kind": "pdf"}, action=reply.action("output"))
REFUND = reply.tool("refund").approval(input={"order": 7})
REVIEW = reply.tool("review").waiting(input={"q": 1}, action=reply.action("approval", {"question": "ok?"}))
DECLARED = reply.tool("review").waiting(
    input={"q": 1}, action=reply.action("output", {"question": "ok?"}, declared_suspend=True)
)


async def wait_on(stage: Stage, *parts: Any) -> RunHandle:
    run = await stage.ask(reply.assistant(*(parts or (PICK,))))
    await run.wait_until_blocked()
    return run


async def submit(stage: Stage, value: object, *scripts: ReplyScript, index: int = 0) -> ActionResult:
    stage.session.answer(*scripts)
    result = await stage.thread.pending_actions[index].submit(value)
    if result.run is not None:
        await result.run.wait()
    return result


@case("act-client-tool-waits", "actions")
async def client_tool_waits(stage: Stage) -> None:
    run = await wait_on(stage)

    assert (run.status, stage.thread.get_state().thread.status) == ("waiting", "waiting")


@case("act-pending-pair", "actions")
async def pending_pair(stage: Stage) -> None:
    await wait_on(stage)
    message, part = stage.last_call()

    assert stage.thread.get_pending_action(message, part) is not None
    assert stage.thread.get_pending_action(stage.thread.get_state().messages[0], part) is None


@case("act-implicit-output", "actions")
async def implicit_output(stage: Stage) -> None:
    await wait_on(stage)
    (action,) = stage.thread.pending_actions

    assert (action.action_name, action.input, action.suspend_name) == ("output", {"kind": "pdf"}, None)
    mark = next(part for part in (await stage.raw()).messages[-1].parts if part.type == "data-chatagent-suspension")
    assert "suspendName" not in cast("Any", mark).data


@case("act-submit-resumes", "actions")
async def submit_resumes(stage: Stage) -> None:
    run = await wait_on(stage)
    result = await submit(stage, {"name": "a.pdf"}, reply.assistant("Got it."))

    assert result.run is not None
    assert (result.run.run_id, run.status) == (run.run_id, "completed")
    _, part = stage.last_call()
    assert (part.state, part.output, part.pending_suspension) == ("output-available", {"name": "a.pdf"}, None)


@case("act-same-message", "actions")
async def same_message(stage: Stage) -> None:
    await wait_on(stage, "First. ", PICK)
    before = stage.thread.get_state().messages[-1].message_id
    await submit(stage, {"name": "a"}, reply.assistant("Then."))

    assert stage.thread.get_state().messages[-1].message_id == before
    assert stage.texts() == ["hi", "First. Then."]


@case("act-order", "actions", "watch")
async def order(stage: Stage) -> None:
    await wait_on(stage)
    await submit(stage, {"name": "a"}, reply.assistant("Then."))

    assert kinds(await stage.log()) == [
        *["message.added", "generation.started", "C", "generation.waiting"],
        *["C", "action.resolved", "generation.resumed", "C", "generation.completed"],
    ]


@case("act-two-pending", "actions")
async def two_pending(stage: Stage) -> None:
    run = await wait_on(stage, PICK, PICK)
    first = await submit(stage, {"name": "a"})
    status = run.status
    second = await submit(stage, {"name": "b"}, reply.assistant("Both."))

    assert (first.run, status) == (None, "waiting")
    assert second.run is not None
    assert run.status == "completed"


@case("act-submit-twice", "actions")
async def submit_twice(stage: Stage) -> None:
    await wait_on(stage)
    (action,) = stage.thread.pending_actions
    await submit(stage, {"name": "a"}, reply.assistant("Then."))

    with pytest.raises(ActionNotPendingError) as caught:
        await action.submit({"name": "b"})

    assert caught.value.reason == "resolved"


@case("act-submit-race", "actions")
async def submit_race(stage: Stage) -> None:
    run = await wait_on(stage)
    (action,) = stage.thread.pending_actions
    stage.session.answer(reply.assistant("Then."))
    outcomes: list[str] = []

    async def answer(name: str) -> None:
        try:
            await action.submit({"name": name})
            outcomes.append("taken")
        except ActionNotPendingError as error:
            outcomes.append(error.reason)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer, "a")
        tasks.start_soon(answer, "b")
    await run.wait_until_idle()

    assert sorted(outcomes) == ["resolved", "taken"]
    assert kinds(await stage.log()).count("generation.resumed") == 1


@case("act-approve", "actions")
async def approve(stage: Stage) -> None:
    await wait_on(stage, REFUND)
    (action,) = stage.thread.pending_actions
    states: list[str] = []
    async with stage.thread.watch() as updates:
        await submit(stage, {"approved": True}, reply.assistant(reply.tool("refund").resolved({"n": 1}), "Done."))
        async for update in updates:
            state = update.state.messages[-1].tool_parts[0].state
            if states[-1:] != [state]:
                states.append(state)
            if update.state.runs[-1].settled:
                break

    assert action.action_name == "approval"
    assert states == ["approval-requested", "approval-responded", "output-available"]
    assert stage.last_call()[1].output == {"n": 1}


@case("act-deny", "actions")
async def deny(stage: Stage) -> None:
    run = await wait_on(stage, REFUND)
    await submit(stage, {"approved": False, "reason": "no"}, reply.assistant("Then not."))

    _, part = stage.last_call()
    assert part.approval is not None
    assert (part.state, part.approval.reason, run.status) == ("output-denied", "no", "completed")


@case("act-suspend-input", "actions")
async def suspend_input(stage: Stage) -> None:
    await wait_on(stage, REVIEW)
    (action,) = stage.thread.pending_actions

    assert (action.suspend_name, action.input) == ("approval", {"question": "ok?"})


@case("act-declared-output", "actions")
async def declared_output(stage: Stage) -> None:
    await wait_on(stage, DECLARED)

    mark = next(part for part in (await stage.raw()).messages[-1].parts if part.type == "data-chatagent-suspension")
    assert cast("Any", mark).data["suspendName"] == "output"


@case("act-suspend-resumes", "actions")
async def suspend_resumes(stage: Stage) -> None:
    run = await wait_on(stage, REVIEW)
    await submit(stage, {"ok": True}, reply.assistant(reply.tool("review").resolved({"n": 3}), "Reviewed."))

    _, part = stage.last_call()
    assert (part.suspensions[0].resolution, part.state, run.status) == ({"ok": True}, "output-available", "completed")


@case("act-bad-value", "actions")
async def bad_value(stage: Stage) -> None:
    await wait_on(stage, REVIEW, REFUND)

    for action, value in zip(stage.thread.pending_actions, ({"ok": "maybe"}, {"approved": "yes"}), strict=True):
        with pytest.raises(ActionValueError):
            await action.submit(value)
        request = {"request_id": action.action_id, "thread_id": "t-1", "action_id": action.action_id, "value": value}
        with pytest.raises(ActionValueError):
            await stage.transport.submit_action(_submit_request(request))

    assert len(stage.thread.pending_actions) == 2


def _submit_request(fields: dict[str, Any]):
    from chatagent.protocol import SubmitActionRequest

    return SubmitActionRequest.model_validate(fields)


@case("act-superseded", "actions")
async def superseded(stage: Stage) -> None:
    run = await wait_on(stage)
    (action,) = stage.thread.pending_actions
    begin = (await stage.raw()).seq
    await stage.ask(reply.assistant("New."), text="forget it")

    with pytest.raises(ActionNotPendingError) as caught:
        await action.submit({"name": "a"})

    assert (run.status, run.record.abort_reason, caught.value.reason) == ("aborted", "superseded", "superseded")
    assert kinds(await stage.log(after=begin)) == [
        *["generation.aborted", "message.added", "generation.started", "C", "generation.completed"],
    ]
    assert stage.last_call()[1].state == "input-available"


@case("act-abort-waiting", "actions")
async def abort_waiting(stage: Stage) -> None:
    run = await wait_on(stage)
    (action,) = stage.thread.pending_actions

    assert await stage.thread.abort("never mind") is True
    await run.wait_until_idle()

    assert (run.status, stage.thread.pending_actions) == ("aborted", ())
    with pytest.raises(ActionNotPendingError) as caught:
        await action.submit({"name": "a"})
    assert caught.value.reason == "aborted"


@case("act-survives-reload", "actions")
async def survives_reload(stage: Stage) -> None:
    await wait_on(stage)
    (before,) = stage.thread.pending_actions

    async with AgentClient(await stage.session.second_transport(), owns_transport=False, wait_timeout=5.0) as other:
        thread = other.thread("t-1")
        await thread.refresh()
        (action,) = thread.pending_actions
        stage.session.answer(reply.assistant("Then."))
        result = await action.submit({"name": "a"})

    assert (action.action_id, action.input) == (before.action_id, before.input)
    assert result.run is not None


@case("act-reserved-hidden", "actions")
async def reserved_hidden(stage: Stage) -> None:
    await wait_on(stage)

    assert "data-chatagent-suspension" in {part.type for part in (await stage.raw()).messages[-1].parts}
    assert "data-chatagent-suspension" not in stage.part_types()


@case("act-resume-fails", "actions")
async def resume_fails(stage: Stage) -> None:
    run = await wait_on(stage)
    await submit(stage, {"name": "a"}, reply.error("boom"))

    error = stage.thread.get_state().error
    assert error is not None
    assert (error.operation, run.status) == ("resume", "failed")


@case("act-regenerate-waiting", "actions", "regeneration")
async def regenerate_waiting(stage: Stage) -> None:
    await wait_on(stage)
    stage.session.answer(reply.assistant("Without it."))
    await (await stage.thread.regenerate()).wait_until_idle()

    assert (stage.thread.pending_actions, stage.texts()) == ((), ["hi", "Without it."])


async def looked_up(stage: Stage) -> None:
    await stage.ask(reply.assistant(reply.tool("lookup").result(input={"q": 1}, output={"n": 2})))


@case("act-tool-data", "actions")
async def tool_data(stage: Stage) -> None:
    await looked_up(stage)
    for percent in (10, 50):
        await stage.thread.write_tool_data(*stage.last_call(), "progress", percent)

    for state in (stage.thread.get_state(), await stage.thread.refresh()):
        found = [part for part in state.messages[-1].parts if isinstance(part, DataUIPart)]
        assert [(part.type, part.data) for part in found] == [("data-progress", 50)]


@case("act-tool-data-unknown", "actions")
async def tool_data_unknown(stage: Stage) -> None:
    await looked_up(stage)
    message, _ = stage.last_call()
    request = {"request_id": "r", "thread_id": "t-1", "message_id": message.message_id, "tool_call_id": "nope"}

    with pytest.raises(ToolCallNotFoundError):
        await stage.transport.write_tool_data(
            ToolDataRequest.model_validate({**request, "channel": "progress", "value": 1})
        )


@case("act-tool-data-reserved", "actions")
async def tool_data_reserved(stage: Stage) -> None:
    await looked_up(stage)

    with pytest.raises(ReservedNameError):
        await stage.thread.write_tool_data(*stage.last_call(), "chatagent-x", 1)


@case("act-custom-action", "actions")
async def custom_action(stage: Stage) -> None:
    stage.session.answer(reply.assistant("Undone."))
    run = await stage.thread.send_action({"type": "undo"})
    await run.wait_until_idle()

    assert (run.record.initiator, stage.roles(), stage.texts()) == ("action", ["assistant"], ["Undone."])
