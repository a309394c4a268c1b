"""Cases of the profile `actions`: tool calls that wait for the client, and what answers them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anyio import create_task_group

from chatagent.protocol import ActionNotPendingError, ThreadModel, mark_of
from chatagent_test.conformance.cases import case
from chatagent_test.conformance.looking import is_reserved_chunk, last_answer, life, texts, tool_part
from chatagent_test.transport import reply

if TYPE_CHECKING:
    from chatagent.client import PendingAction, RunHandle, Thread
    from chatagent.protocol import SuspensionMark, ThreadState
    from chatagent_test.conformance.stage import Stage

PICK = reply.tool("pick_file").waiting({"kind": "pdf"}, reply.action("output"))
REFUND = reply.tool("refund").approval({"order": 7})
REVIEW = reply.tool("review").waiting({"order": 7}, reply.action("approval", {"amount": 120}))
DRAFT = reply.tool("review").waiting(
    {"order": 7}, reply.action("output", {"draft": "Dear customer"}, declared_suspend=True)
)


async def waits(stage: Stage, *parts: Any, thread: Thread | None = None) -> tuple[RunHandle, ThreadState]:
    """Have an answer of these parts, which waits for the client."""
    stage.answer(reply.assistant(*parts))
    run = await (thread or stage.thread()).send("please")
    return run, await stage.blocked(run)


def pending(stage: Stage, thread: Thread | None = None) -> PendingAction:
    """Return the first action that waits."""
    found = (thread or stage.thread()).pending_actions
    return stage.the("a pending action", next(iter(found), None))


async def raw_mark(stage: Stage) -> SuspensionMark:
    """Return what the snapshot's reserved part says."""
    parts = [part for message in (await stage.snapshot()).messages for part in message.parts]
    marks = [mark for part in parts if (mark := mark_of(part)) is not None]
    return stage.the("a reserved part in the snapshot", marks[0] if marks else None, [part.type for part in parts])


@case("act-client-tool-waits", "DM-32", "RH-4", "EV-7")
async def client_tool_waits(stage: Stage) -> None:
    """A call of a client's tool waits: so do its run and its thread."""
    run, state = await waits(stage, "Which file?", PICK)

    told = [state.run(run.run_id).status, state.thread.status, state.thread.active_run_id]
    stage.equal("run, thread and active run", told, ["waiting", "waiting", run.run_id])
    part = stage.the("a tool call", tool_part(state))
    stage.equal("name and state of the part", [part.tool_name, part.state], ["pick_file", "input-available"])
    stage.equal("the status in the snapshot", (await stage.snapshot()).thread.status, "waiting")


@case("act-pending-pair", "TH-30")
async def pending_pair(stage: Stage) -> None:
    """The handle of an action is found by its message and its call, and by no other pair."""
    stage.answer(reply.assistant(reply.tool("lookup").result({"query": "parcel"}, {"found": "in Oslo"})))
    await stage.answered()
    _, state = await waits(stage, PICK)
    other, own = (message for message in state.messages if message.role == "assistant")
    thread = stage.thread()

    action = stage.the("a handle for the call", thread.get_pending_action(own, own.tool_parts[0]))

    told = [action.message_id, action.tool_call_id, action.run_id]
    wanted = [own.message_id, own.tool_parts[0].tool_call_id, own.run_id]
    stage.equal("message, call and run of the action", told, wanted)
    stage.equal("the handle for another message", thread.get_pending_action(other, own.tool_parts[0]), None)
    stage.equal("the handle for another call", thread.get_pending_action(own, other.tool_parts[0]), None)


@case("act-implicit-output", "DM-32", "DM-34")
async def implicit_output(stage: Stage) -> None:
    """What answers a client's tool is its output; no tool declares that question."""
    await waits(stage, PICK)

    action = pending(stage)
    mark = await raw_mark(stage)

    told = [action.name, action.action_name, action.suspend_name, action.input]
    stage.equal("names and input of the action", told, ["pick_file.output", "output", None, {"kind": "pdf"}])
    stage.equal("the declared name in the reserved part", mark.suspend_name, None)
    stage.equal("the input in the reserved part", mark.input, {"kind": "pdf"})


@case("act-submit-resumes", "PA-2", "PA-3", "PA-4", "TP-28")
async def submit_resumes(stage: Stage) -> None:
    """With the answer the same run goes on."""
    run, _ = await waits(stage, PICK)
    stage.answer(reply.assistant("Thanks."))

    result = await pending(stage).submit({"name": "a.pdf"})
    resumed = stage.the("a run that goes on", result.run)
    state, settled = await stage.settled(run)

    stage.equal("the run that goes on", resumed.run_id, run.run_id)
    stage.equal("the runs of the thread", [each.run_id for each in state.runs], [run.run_id])
    stage.equal("its status", settled.status, "completed")
    part = stage.the("a tool call", tool_part(state))
    stage.equal("state and output of the part", [part.state, part.output], ["output-available", {"name": "a.pdf"}])
    stage.equal("what still waits", list(state.pending_actions), [])


@case("act-same-message", "PA-5", "PA-7", "CK-16")
async def same_message(stage: Stage) -> None:
    """What a resumed run says stands in the message that waited."""
    _, before = await waits(stage, "Which file?", PICK)
    stage.answer(reply.assistant("Thanks."))

    result = await pending(stage).submit({"name": "a.pdf"})
    state, _ = await stage.settled(stage.the("a run that goes on", result.run))

    stage.equal("the texts", texts(state), ["please", "Which file?Thanks."])
    ids = [[message.message_id for message in each.messages] for each in (before, state)]
    stage.equal("the ids of the messages", ids[1], ids[0])


@case("act-order", "EV-24", "CK-17", needs=("watch",))
async def order(stage: Stage) -> None:
    """Waiting and going on is told in order."""
    async with stage.watch() as tap:
        await waits(stage, PICK)
        asked = await tap.until("generation.waiting")
        stage.answer(reply.assistant("Thanks."))
        await pending(stage).submit({"name": "a.pdf"})
        answered = await tap.until("generation.completed", "generation.failed")

    wanted = ["message.added", "generation.started", "chunks(start…finish)", "generation.waiting"]
    said = [event for event in asked if not is_reserved_chunk(event)]  # a backend may add its mark behind the answer
    stage.equal("the events up to the question", life(said), wanted)
    stage.equal("how many actions the event names", len(asked[-1].actions), 1)
    first, *rest = life(answered)
    stage.equal("the chunk that says the answer", first, "chunks(tool-output-available…tool-output-available)")
    wanted = ["action.resolved", "generation.resumed", "chunks(start…finish)", "generation.completed"]
    stage.equal("the events after it", rest, wanted)


@case("act-two-pending", "PA-4", "EV-13")
async def two_pending(stage: Stage) -> None:
    """A run with two questions goes on with the second answer only."""
    run, state = await waits(stage, PICK, PICK)
    stage.equal("how many actions wait", len(state.pending_actions), 2)
    first, second = stage.thread().pending_actions

    one = await first.submit({"name": "a.pdf"})
    between = await stage.thread().refresh()
    stage.answer(reply.assistant("Thanks."))
    two = await second.submit({"name": "b.pdf"})
    state, _ = await stage.settled(run)

    stage.equal("the run that goes on after the first answer", one.run, None)
    told = [between.run(run.run_id).status, [each.action_id for each in between.pending_actions]]
    stage.equal("status and actions in between", told, ["waiting", [second.action_id]])
    stage.equal("the run that goes on after the second", two.run.run_id if two.run else None, run.run_id)
    answer = stage.the("an answer", last_answer(state))
    outputs = [part.output for part in answer.tool_parts]
    stage.equal("the outputs", outputs, [{"name": "a.pdf"}, {"name": "b.pdf"}])


@case("act-submit-twice", "PA-6", "ER-7")
async def submit_twice(stage: Stage) -> None:
    """An action is answered once."""
    run, _ = await waits(stage, PICK)
    action = pending(stage)
    stage.answer(reply.assistant("Thanks."))
    await action.submit({"name": "a.pdf"})
    before, _ = await stage.settled(run)

    with stage.refuses("a second answer", ActionNotPendingError, action_id=action.action_id, reason="resolved"):
        await action.submit({"name": "b.pdf"})

    stage.equal("the state", await stage.thread().refresh(), before)


@case("act-submit-race", "PA-6")
async def submit_race(stage: Stage) -> None:
    """Of two answers at once one counts."""
    run, _ = await waits(stage, PICK)
    action = pending(stage)
    stage.answer(reply.assistant("Thanks."))
    taken: list[str] = []
    refused: list[str] = []

    async def submit(name: str) -> None:
        try:
            await action.submit({"name": name})
        except ActionNotPendingError as error:
            refused.append(error.reason)
        else:
            taken.append(name)

    async with create_task_group() as tasks:
        tasks.start_soon(submit, "a.pdf")
        tasks.start_soon(submit, "b.pdf")
    state, _ = await stage.settled(run)

    stage.equal("how many were taken, and why the other was not", [len(taken), refused], [1, ["resolved"]])
    part = stage.the("a tool call", tool_part(state))
    stage.equal("the output", part.output, {"name": taken[0]})
    stage.equal("the texts", texts(state), ["please", "Thanks."])


@case("act-approve", "DM-32", "PA-3", "CK-8")
async def approve(stage: Stage) -> None:
    """A call that was approved has its answer first, then its output."""
    run, state = await waits(stage, REFUND)
    asked = stage.the("a tool call", tool_part(state))
    action = pending(stage)
    stage.answer(reply.assistant(reply.tool("refund").resolved({"refunded": True}), "Done."))
    states = [asked.state]

    await action.submit({"approved": True})
    if stage.has("watch"):
        states += await _states_of_call(stage, asked.tool_call_id)
    ended, _ = await stage.settled(run)

    told = [action.name, action.action_name, action.input]
    stage.equal("names and input of the action", told, ["refund.approval", "approval", {"order": 7}])
    part = stage.the("a tool call", tool_part(ended))
    stage.equal("state and output of the part", [part.state, part.output], ["output-available", {"refunded": True}])
    stage.equal("whether it was approved", part.approval.approved if part.approval else None, True)
    wanted = ["approval-requested", "approval-responded", "output-available"]
    if stage.has("watch"):
        stage.equal("the states of the call", [state for state in states if state in wanted], wanted)


async def _states_of_call(stage: Stage, tool_call_id: str) -> list[str]:
    """Return the states that the log takes a call through after its question, each once."""
    model, states = ThreadModel("t-1"), list[str]()
    async with stage.watch() as tap:
        while not any(run.settled for run in model.runs.values()):
            model.apply(await tap.next())
            parts = [part for message in model.state().messages for part in message.tool_parts]
            states += [str(part.state) for part in parts if part.tool_call_id == tool_call_id]
    return [state for before, state in pairwise(states) if before != state and state != "approval-requested"]
