"""Cases of the profile `actions`: denials, declared questions, what ends a wait, data beside calls, custom actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.protocol import (
    ActionNotPendingError,
    ActionValueError,
    ReservedNameError,
    ToolCallNotFoundError,
    ToolDataRequest,
    is_reserved,
)
from chatagent_test.conformance.acting import DRAFT, PICK, REFUND, REVIEW, pending, raw_mark, waits
from chatagent_test.conformance.cases import case
from chatagent_test.conformance.looking import data_parts, last_answer, life, roles, texts, tool_part
from chatagent_test.transport import reply

if TYPE_CHECKING:
    from chatagent.protocol import ThreadMessage, ToolPart
    from chatagent_test.conformance.stage import Stage


@case("act-deny", "DM-32", "PA-3")
async def deny(stage: Stage) -> None:
    """A call that was denied says so, with the reason, and the run goes on."""
    run, _ = await waits(stage, REFUND)
    stage.answer(reply.assistant("Understood."))

    await pending(stage).submit({"approved": False, "reason": "no"})
    state, settled = await stage.settled(run)

    part = stage.the("a tool call", tool_part(state))
    told = [part.state, part.approval.reason if part.approval else None, settled.status]
    stage.equal("state, reason and run", told, ["output-denied", "no", "completed"])
    stage.equal("the last text", texts(state)[-1], "Understood.")


@case("act-suspend-input", "DM-32", "DM-45")
async def suspend_input(stage: Stage) -> None:
    """A question that a tool declares has its own name and input, beside the tool's."""
    _, state = await waits(stage, REVIEW)

    action = pending(stage)
    part = stage.the("a tool call", tool_part(state))
    suspension = stage.the("a question on the call", part.pending_suspension)

    told = [action.name, action.action_name, action.suspend_name, action.input]
    stage.equal("names and input of the action", told, ["review.approval", "approval", "approval", {"amount": 120}])
    told = [suspension.action_id, suspension.suspend_name, suspension.input]
    stage.equal("the question on the part", told, [action.action_id, "approval", {"amount": 120}])
    stage.equal("the tool's own input", part.input, {"order": 7})


@case("act-declared-output", "DM-34")
async def declared_output(stage: Stage) -> None:
    """A declared question called `output` keeps its name, and is not taken for a tool's output."""
    await waits(stage, DRAFT)

    action = pending(stage)
    mark = await raw_mark(stage)

    told = [action.name, action.suspend_name, action.input]
    stage.equal("names and input of the action", told, ["review.output", "output", {"draft": "Dear customer"}])
    stage.equal("the declared name in the reserved part", mark.suspend_name, "output")


@case("act-suspend-resumes", "PA-3", "DM-45")
async def suspend_resumes(stage: Stage) -> None:
    """The answer to a declared question stays on the call, which then gives its output."""
    run, _ = await waits(stage, REVIEW)
    stage.answer(reply.assistant(reply.tool("review").resolved({"reviewed": True}), "Done."))

    await pending(stage).submit({"approved": True})
    state, settled = await stage.settled(run)

    part = stage.the("a tool call", tool_part(state))
    stage.equal("the answers on the part", [each.resolution for each in part.suspensions], [{"approved": True}])
    told = [part.state, part.output, settled.status]
    stage.equal("state, output and run", told, ["output-available", {"reviewed": True}, "completed"])
    stage.equal("what still waits", part.pending_suspension, None)


@case("act-bad-value", "ER-8", "TP-21")
async def bad_value(stage: Stage) -> None:
    """An answer that does not fit is refused, and the action waits on."""
    run, _ = await waits(stage, REVIEW)
    action = pending(stage)
    before = await stage.snapshot()

    with stage.refuses("an answer of the wrong type", ActionValueError, action="review.approval"):
        await action.submit({"approved": "maybe"})

    stage.equal("the thread", await stage.snapshot(), before)
    stage.equal("the action that waits", pending(stage).action_id, action.action_id)
    stage.equal("the run's status", run.status, "waiting")


@case("act-superseded", "TH-12", "EV-27", "ER-7")
async def superseded(stage: Stage) -> None:
    """A new message ends a wait: the old run is aborted, and its question cannot be answered any more."""
    old, _ = await waits(stage, PICK)
    action = pending(stage)
    before = (await stage.snapshot()).seq
    stage.answer(reply.assistant("Never mind."))

    state, _ = await stage.settled(await stage.thread().send("forget it"))

    run = state.run(old.run_id)
    stage.equal("status and reason of the old run", [run.status, run.abort_reason], ["aborted", "superseded"])
    stage.equal("what still waits", list(state.pending_actions), [])
    with stage.refuses("an answer that comes too late", ActionNotPendingError, reason="superseded"):
        await action.submit({"name": "a.pdf"})
    if stage.has("watch"):
        async with stage.watch(after=before) as tap:
            events = await tap.until("generation.completed")
        wanted = ["generation.aborted", "message.added", "generation.started", "chunks(start…finish)"]
        stage.equal("the events", life(events), [*wanted, "generation.completed"])


@case("act-abort-waiting", "RH-6", "ER-7")
async def abort_waiting(stage: Stage) -> None:
    """A run that waits can be stopped, and its question goes."""
    run, _ = await waits(stage, PICK)
    action = pending(stage)

    stopped = await run.abort()
    state, settled = await stage.settled(run)

    stage.equal("what abort returned, and the status", [stopped, settled.status], [True, "aborted"])
    stage.equal("what still waits", [len(state.pending_actions), state.thread.status], [0, "idle"])
    with stage.refuses("an answer that comes too late", ActionNotPendingError, reason="aborted"):
        await action.submit({"name": "a.pdf"})


@case("act-survives-reload", "DM-41", "TP-2")
async def survives_reload(stage: Stage) -> None:
    """A client that comes later finds the same question, and can answer it."""
    run, state = await waits(stage, PICK)
    far = (await stage.far_client()).thread("t-1")
    await far.refresh()
    stage.answer(reply.assistant("Thanks."))

    action = pending(stage, far)
    stage.equal("the actions that the second client sees", far.get_state().pending_actions, state.pending_actions)
    await action.submit({"name": "a.pdf"})
    ended, settled = await stage.settled(run)

    stage.equal("the run's status", settled.status, "completed")
    stage.equal("the last text", texts(ended)[-1], "Thanks.")


@case("act-reserved-hidden", "DM-33", "DM-45")
async def reserved_hidden(stage: Stage) -> None:
    """The protocol's own part is in the snapshot, and no client sees it."""
    _, state = await waits(stage, PICK)

    mark = await raw_mark(stage)
    answer = stage.the("an answer", last_answer(state))

    told = [mark.name, mark.tool_call_id]
    stage.equal("what the reserved part says", told, ["pick_file.output", answer.tool_parts[0].tool_call_id])
    kinds = [part.type for part in answer.parts if part.type.startswith("data-")]
    stage.equal("the data parts that a client sees", kinds, [])
    shown = [str(part.type) for message in state.messages for part in message.parts]
    stage.true("no part that a client sees is reserved", not any(is_reserved(kind) for kind in shown), shown)


@case("act-resume-fails", "DM-42", "EV-10")
async def resume_fails(stage: Stage) -> None:
    """A run that fails after its answer says that it failed on the way on."""
    run, _ = await waits(stage, PICK)
    stage.answer(reply.error("boom"))

    await pending(stage).submit({"name": "a.pdf"})
    state, settled = await stage.settled(run)

    error = stage.the("an error of the thread", state.error)
    told = [settled.status, error.operation, error.message, error.run_id]
    stage.equal("status, operation, text and run", told, ["failed", "resume", "boom", run.run_id])


@case("act-regenerate-waiting", "TH-22", needs=("regeneration",))
async def regenerate_waiting(stage: Stage) -> None:
    """Another answer takes the place of one that waits."""
    old, _ = await waits(stage, PICK)
    stage.answer(reply.assistant("No file is needed."))

    state, _ = await stage.settled(await stage.thread().regenerate())

    stage.equal("the texts", texts(state), ["please", "No file is needed."])
    told = [state.run(old.run_id).status, len(state.pending_actions)]
    stage.equal("the old run, and how much still waits", told, ["aborted", 0])


async def _looked_up(stage: Stage) -> tuple[ThreadMessage, ToolPart]:
    """Have an answer with a tool call."""
    stage.answer(reply.assistant(reply.tool("lookup").result({"query": "parcel"}, {"found": "in Oslo"}), "Found."))
    message = stage.the("an answer", last_answer(await stage.answered()))
    return message, message.tool_parts[0]


@case("act-tool-data", "TH-31", "TP-14", "CK-18")
async def tool_data(stage: Stage) -> None:
    """Data that a client writes beside a call is kept, and replaced when it is written again."""
    message, part = await _looked_up(stage)

    for percent in (10, 60):
        await stage.thread().write_tool_data(message, part, "progress", {"percent": percent})
    written = [(part.tool_call_id, {"percent": 60})]
    what = "the later data in the state"
    state = await stage.until(stage.thread(), what, lambda state: data_parts(state, "data-progress") == written)
    again = await stage.thread().refresh()

    stage.equal("the data after a refresh", data_parts(again, "data-progress"), written)
    stage.equal("the runs", [run.status for run in again.runs], [run.status for run in state.runs])
    stage.equal("how many runs there are", len(again.runs), 1)


def _data_request(stage: Stage, message: ThreadMessage, tool_call_id: str, channel: str) -> ToolDataRequest:
    return ToolDataRequest(
        request_id=stage.new_request_id(),
        thread_id="t-1",
        message_id=message.message_id,
        tool_call_id=tool_call_id,
        channel=channel,
        data_id="d-1",
        value={"percent": 1},
    )


@case("act-tool-data-unknown", "ER-2", "TP-21")
async def tool_data_unknown(stage: Stage) -> None:
    """Data beside a call that is not there is refused."""
    message, _ = await _looked_up(stage)
    before = await stage.snapshot()

    with stage.refuses("data beside an unknown call", ToolCallNotFoundError, tool_call_id="nope"):
        await stage.transport.write_tool_data(_data_request(stage, message, "nope", "progress"))

    stage.equal("the thread", await stage.snapshot(), before)


@case("act-tool-data-reserved", "ER-1", "TH-31")
async def tool_data_reserved(stage: Stage) -> None:
    """The protocol's own names are no channels."""
    message, part = await _looked_up(stage)
    before = await stage.snapshot()

    with stage.refuses("Thread.write_tool_data on a reserved channel", ReservedNameError):
        await stage.thread().write_tool_data(message, part, "chatagent-x", {"percent": 1})
    with stage.refuses("write_tool_data on a reserved channel", ReservedNameError):
        await stage.transport.write_tool_data(_data_request(stage, message, part.tool_call_id, "chatagent-x"))

    stage.equal("the thread", await stage.snapshot(), before)


@case("act-custom-action", "TH-50", "TP-13", "DM-22")
async def custom_action(stage: Stage) -> None:
    """A custom action is answered by a run that has no message of the user's."""
    stage.answer(reply.assistant("hello"), reply.assistant("Undone."))
    await stage.answered()

    state, run = await stage.settled(await stage.thread().send_action({"type": "undo"}))

    told = [run.status, run.initiator, run.input_message_id]
    stage.equal("status, initiator and input", told, ["completed", "action", None])
    stage.equal("the roles of the messages", roles(state), ["user", "assistant", "assistant"])
    stage.equal("the last text", texts(state)[-1], "Undone.")
