"""Cases of the profile `core`: runs that fail, wait in line, or are stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.protocol import AbortRequest, GenerationFailedError, RunNotFoundError
from chatagent_test.conformance.cases import case
from chatagent_test.conformance.looking import last_answer, roles, shown, text_parts, texts, tool_part
from chatagent_test.transport import reply

if TYPE_CHECKING:
    from chatagent.client import RunHandle
    from chatagent.protocol import ThreadState
    from chatagent_test.conformance.backend import HeldAnswer
    from chatagent_test.conformance.stage import Stage


@case("core-fail-sets-error", "EV-10", "DM-42")
async def fail_sets_error(stage: Stage) -> None:
    """A run that fails says why, and which message it should have answered."""
    stage.answer(reply.error("boom"))

    state, run = await stage.settled(await stage.thread().send("hi"))

    error = stage.the("an error of the thread", state.error)
    stage.equal("the run's status", run.status, "failed")
    stage.equal("the run's error", run.error.message if run.error else None, "boom")
    told = [error.message, error.run_id, error.operation, error.message_id]
    wanted = ["boom", run.run_id, "send", state.messages[0].message_id]
    stage.equal("text, run, operation and message of the error", told, wanted)
    stage.equal("the error in the snapshot", (await stage.snapshot()).error, error)


@case("core-fail-keeps-input", "DM-24", "RQ-7")
async def fail_keeps_input(stage: Stage) -> None:
    """A failure leaves the user's message in place, and the thread idle."""
    stage.answer(reply.error("boom"))

    state, _ = await stage.settled(await stage.thread().send("hi"))
    again = await stage.thread().refresh()

    for seen in (state, again):
        stage.equal("the texts of the user's messages", [m.text for m in seen.messages if m.role == "user"], ["hi"])
        stage.equal("status and active run", [seen.thread.status, seen.thread.active_run_id], ["idle", None])


@case("core-fail-cleans-partial", "EV-17", "EV-22")
async def fail_cleans_partial(stage: Stage) -> None:
    """A failure in the middle keeps the text so far, and drops a tool call that had not got its input."""
    held = stage.session.hold()
    run = await stage.thread().send("hi")
    await held.emit_text("half")
    await held.emit_tool_input("lookup", '{"que')
    await stage.until(stage.thread(), "the tool call in the state", lambda state: tool_part(state) is not None)

    await held.fail("cut")
    state, settled = await stage.settled(run)
    again = await stage.thread().refresh()

    stage.equal("the run's status", settled.status, "failed")
    for where, seen in (("state", state), ("state after a refresh", again)):
        answer = stage.the("an answer", last_answer(seen))
        stage.equal(f"the texts in the {where}", text_parts(answer), [["half", "done"]])
        stage.equal(f"the parts in the {where}", [part.type for part in shown(answer.parts)], ["text"])


@case("core-next-send-clears-error", "EV-5", "DM-42")
async def next_send_clears_error(stage: Stage) -> None:
    """The error is gone as soon as the next run has started."""
    stage.answer(reply.error("boom"))
    failed, _ = await stage.settled(await stage.thread().send("hi"))
    stage.session.hold()

    await stage.thread().send("again")

    stage.true("there was an error", failed.error, failed.error)
    stage.equal("the error in the state", stage.thread().get_state().error, None)
    stage.equal("the error in the snapshot", (await stage.snapshot()).error, None)


@case("core-wait-does-not-raise", "RH-2", "ER-10")
async def wait_does_not_raise(stage: Stage) -> None:
    """Waiting for a run that fails raises nothing; whoever asks for the error gets it."""
    stage.answer(reply.error("boom"))
    run = await stage.thread().send("hi")

    state, settled = await stage.settled(run)

    stage.equal("the status", settled.status, "failed")
    with stage.refuses("raise_for_error()", GenerationFailedError) as refusal:
        state.raise_for_error()
    stage.equal("the error's own words", refusal.error.error.message, "boom")


@case("core-queue-second-send", "TH-11", "DM-11", "EV-4")
async def queue_second_send(stage: Stage) -> None:
    """A message sent while a run is at work waits in line."""
    held, first, second = await _two_sends(stage)

    state = stage.thread().get_state()
    stored = await stage.snapshot()

    for where, runs in (("state", state.runs), ("snapshot", stored.runs)):
        told = [(run.run_id, run.status) for run in runs]
        wanted = [(first.run_id, "running"), (second.run_id, "queued")]
        stage.equal(f"the runs in the {where}", told, wanted)
    stage.equal("the last text", texts(state)[-1], "second")
    stage.equal("the active run", state.thread.active_run_id, first.run_id)
    await held.finish()


@case("core-queue-order", "DM-23", "TH-11")
async def queue_order(stage: Stage) -> None:
    """The run in line starts when the one before it has settled; each answer stands behind its own message."""
    held, first, second = await _two_sends(stage)

    await held.emit_text("one")
    await held.finish()
    state, _ = await stage.settled(second)
    again = await stage.thread().refresh()

    for where, seen in (("state", state), ("state after a refresh", again)):
        stage.equal(f"the texts in the {where}", texts(seen), ["first", "one", "second", "two"])
        told = [run.status for run in seen.runs]
        stage.equal(f"the runs in the {where}", told, ["completed", "completed"])
    ended = stage.the("an end of the first run", state.run(first.run_id).settled_at)
    started = stage.the("a start of the second run", state.run(second.run_id).started_at)
    stage.true("the second run started when the first had ended", started >= ended, [started, ended])


async def _two_sends(stage: Stage) -> tuple[HeldAnswer, RunHandle, RunHandle]:
    """Send two messages; the first is being answered, the second waits."""
    held = stage.session.hold()
    first = await stage.thread().send("first")
    stage.answer(reply.assistant("two"))
    second = await stage.thread().send("second")
    return held, first, second


@case("core-abort-running", "EV-11", "RH-6", "TP-4")
async def abort_running(stage: Stage) -> None:
    """A run at work can be stopped: it is aborted, and that is no error."""
    run = await _half_said(stage)

    stopped = await run.abort("enough")
    state, settled = await stage.settled(run)

    stage.equal("what abort returned", stopped, True)
    stage.equal("status and reason of the run", [settled.status, settled.abort_reason], ["aborted", "enough"])
    stage.equal("status and error of the thread", [state.thread.status, state.error], ["idle", None])


@case("core-abort-keeps-text", "EV-17", "EV-23")
async def abort_keeps_text(stage: Stage) -> None:
    """What was said before the stop is kept, as a text that is complete."""
    run = await _half_said(stage)

    await run.abort()
    state, _ = await stage.settled(run)
    again = await stage.thread().refresh()

    stage.equal("the texts in the state", text_parts(last_answer(state)), [["half", "done"]])
    stage.equal("the texts after a refresh", text_parts(last_answer(again)), [["half", "done"]])


async def _half_said(stage: Stage) -> RunHandle:
    """Send a message, and wait until half of the answer is there."""
    held = stage.session.hold()
    run = await stage.thread().send("hi")
    await held.emit_text("half")

    def is_half_said(state: ThreadState) -> bool:
        return texts(state)[-1:] == ["half"]

    await stage.until(stage.thread(), "the text so far in the state", is_half_said)
    return run


@case("core-abort-queued", "EV-29", "RH-6")
async def abort_queued(stage: Stage) -> None:
    """A run in line that is stopped takes its message with it; the one at work goes on."""
    held, first, second = await _two_sends(stage)

    stopped = await second.abort()
    state, settled = await stage.settled(second)
    await held.emit_text("one")
    await held.finish()
    ended, _ = await stage.settled(first)

    stage.equal("what abort returned", stopped, True)
    stage.equal("the status of the second run", settled.status, "aborted")
    stage.true("its message is gone", "second" not in texts(state), texts(state))
    stage.equal("the texts at the end", texts(ended), ["first", "one"])
    stage.equal("the status of the first run", ended.run(first.run_id).status, "completed")


@case("core-abort-settled", "RH-6", "TP-4")
async def abort_settled(stage: Stage) -> None:
    """Stopping a run that is over changes nothing, and says so."""
    stage.answer(reply.assistant("hello"))
    run = await stage.thread().send("hi")
    await stage.settled(run)
    before = await stage.snapshot()

    stopped = await run.abort()
    nothing = await stage.transport.abort(AbortRequest(thread_id="t-1"))

    stage.equal("what abort returned", [stopped, nothing], [False, False])
    stage.equal("the thread afterwards", await stage.snapshot(), before)


@case("core-abort-unknown-run", "ER-2", "TP-4")
async def abort_unknown_run(stage: Stage) -> None:
    """A run that the thread has not got cannot be stopped."""
    stage.answer(reply.assistant("hello"))
    state = await stage.answered()

    with stage.refuses("abort of an unknown run", RunNotFoundError, run_id="nope"):
        await stage.transport.abort(AbortRequest(thread_id="t-1", run_id="nope"))

    stage.equal("the roles of the messages", roles(await stage.thread().refresh()), roles(state))
