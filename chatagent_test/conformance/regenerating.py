"""Cases of the profile `regeneration`: another answer, and another try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.protocol import MessageNotFoundError, NothingToRetryError, ThreadBusyError
from chatagent_test.conformance.cases import case
from chatagent_test.conformance.looking import life, texts, tool_part
from chatagent_test.transport import reply

if TYPE_CHECKING:
    from chatagent.client import RunHandle
    from chatagent.protocol import Run, ThreadState
    from chatagent_test.conformance.stage import Stage


@case("regen-last", "TH-21", "TP-11", "DM-12")
async def last(stage: Stage) -> None:
    """Another answer takes the place of the last one, under a run of its own."""
    stage.answer(reply.assistant("one"), reply.assistant("other"))
    before = await stage.answered("question")

    state, run = await stage.settled(await stage.thread().regenerate())
    again = await stage.thread().refresh()

    for where, seen in (("state", state), ("state after a refresh", again)):
        stage.equal(f"the texts in the {where}", texts(seen), ["question", "other"])
        stage.equal("the id of the question", seen.messages[0].message_id, before.messages[0].message_id)
    told = [run.status, run.initiator, run.input_message_id]
    stage.equal("status, initiator and input", told, ["completed", "regenerate", before.messages[0].message_id])
    stage.true("it is another run", run.run_id != before.runs[0].run_id, run.run_id)
    stage.equal("the run of the answer", state.messages[1].run_id, run.run_id)


async def _two_turns(stage: Stage) -> ThreadState:
    stage.answer(reply.assistant("one"), reply.assistant("two"))
    await stage.answered("first")
    state = await stage.answered("second")
    stage.answer(reply.assistant("other"))
    return state


async def _check_replaced(stage: Stage, before: ThreadState, run: RunHandle) -> None:
    state, settled = await stage.settled(run)
    stage.equal("the texts", texts(state), ["first", "other"])
    stage.equal("the id of the question", state.messages[0].message_id, before.messages[0].message_id)
    stage.equal("the run's input", settled.input_message_id, before.messages[0].message_id)
    stage.equal("the texts after a refresh", texts(await stage.thread().refresh()), ["first", "other"])


@case("regen-earlier", "TH-21")
async def earlier(stage: Stage) -> None:
    """Another answer to an earlier question drops everything behind that question."""
    before = await _two_turns(stage)

    run = await stage.thread().regenerate(before.messages[1].message_id)

    await _check_replaced(stage, before, run)


@case("regen-by-user-message", "TH-21")
async def by_user_message(stage: Stage) -> None:
    """A question itself can be named, to be answered anew."""
    before = await _two_turns(stage)

    run = await stage.thread().regenerate(before.messages[0].message_id)

    await _check_replaced(stage, before, run)


@case("regen-unknown", "ER-2", "TP-21")
async def unknown(stage: Stage) -> None:
    """A message that is not there cannot be answered again."""
    stage.answer(reply.assistant("one"))
    await stage.answered()
    before = await stage.snapshot()

    with stage.refuses("regenerating an unknown message", MessageNotFoundError, message_id="nope"):
        await stage.thread().regenerate("nope")

    stage.equal("the thread", await stage.snapshot(), before)


@case("regen-busy", "TH-22", "ER-4")
async def busy(stage: Stage) -> None:
    """While a run is at work nothing is answered again, and the refusal names that run."""
    held = stage.session.hold()
    run = await stage.thread().send("hi")

    with stage.refuses("regenerating while a run is at work", ThreadBusyError, active_run_id=run.run_id):
        await stage.thread().regenerate()
    with stage.refuses("retrying while a run is at work", ThreadBusyError, active_run_id=run.run_id):
        await stage.thread().retry()
    await held.emit_text("hello")
    await held.finish()
    state, settled = await stage.settled(run)

    stage.equal("the run's status", settled.status, "completed")
    stage.equal("the texts", texts(state), ["hi", "hello"])


@case("regen-order", "EV-26", needs=("watch",))
async def order(stage: Stage) -> None:
    """Another answer is told in order: what goes, the start, the chunks, the end."""
    stage.answer(reply.assistant("one"), reply.assistant("other"))
    await stage.answered()

    async with stage.watch(after=(await stage.snapshot()).seq) as tap:
        await stage.thread().regenerate()
        events = await tap.until("generation.completed", "generation.failed")

    wanted = ["message.removed", "generation.started", "chunks(start…finish)", "generation.completed"]
    stage.equal("the events", life(events), wanted)


async def _failed(stage: Stage) -> tuple[ThreadState, Run]:
    stage.answer(reply.error("boom"))
    return await stage.settled(await stage.thread().send("hi"))


@case("retry-after-failure", "TH-20", "TP-10", "DM-12")
async def after_failure(stage: Stage) -> None:
    """A failed run can be tried again: the question stays the same message, and the error goes."""
    before, failed = await _failed(stage)
    stage.answer(reply.assistant("hello"))

    state, run = await stage.settled(await stage.thread().retry())

    stage.equal("the texts", texts(state), ["hi", "hello"])
    stage.equal("the id of the question", state.messages[0].message_id, before.messages[0].message_id)
    stage.equal("the run that owns the question", state.messages[0].run_id, failed.run_id)
    told = [run.status, run.initiator, run.input_message_id]
    stage.equal("status, initiator and input", told, ["completed", "retry", before.messages[0].message_id])
    stage.equal("the thread's error", state.error, None)
    stage.equal("the error in the snapshot", (await stage.snapshot()).error, None)


@case("retry-drops-partial", "TH-20")
async def drops_partial(stage: Stage) -> None:
    """What a failed run had said is gone when it is tried again."""
    held = stage.session.hold()
    run = await stage.thread().send("hi")
    await held.emit_text("half")
    await held.emit_tool_input("lookup", "{")
    await stage.until(stage.thread(), "the tool call in the state", lambda state: tool_part(state) is not None)
    await held.fail("cut")
    before, _ = await stage.settled(run)
    stage.answer(reply.assistant("whole"))

    state, _ = await stage.settled(await stage.thread().retry())

    stage.equal("the texts before", texts(before), ["hi", "half"])
    stage.equal("the texts", texts(state), ["hi", "whole"])
    stage.equal("the texts after a refresh", texts(await stage.thread().refresh()), ["hi", "whole"])


@case("retry-without-failure", "ER-5", "TP-21")
async def without_failure(stage: Stage) -> None:
    """Where nothing has failed there is nothing to try again."""
    stage.answer(reply.assistant("hello"))
    await stage.answered()
    before = await stage.snapshot()

    with stage.refuses("retrying a run that was completed", NothingToRetryError):
        await stage.thread().retry()

    stage.equal("the thread", await stage.snapshot(), before)


@case("retry-fails-again", "DM-42", "TH-20")
async def fails_again(stage: Stage) -> None:
    """A second try may fail as well; a third is possible."""
    await _failed(stage)
    stage.answer(reply.error("boom again"))
    state, run = await stage.settled(await stage.thread().retry())
    stage.answer(reply.assistant("hello"))

    last, _ = await stage.settled(await stage.thread().retry())

    error = stage.the("an error after the second try", state.error)
    told = [error.message, error.operation, error.run_id, error.message_id]
    wanted = ["boom again", "retry", run.run_id, state.messages[0].message_id]
    stage.equal("text, operation, run and message of the error", told, wanted)
    stage.equal("the texts", texts(last), ["hi", "hello"])
    stage.equal("the statuses", [each.status for each in last.runs], ["failed", "failed", "completed"])
