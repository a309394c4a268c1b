"""Cases of the profile `regeneration`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chatagent.protocol import MessageNotFoundError, NothingToRetryError, ThreadBusyError
from chatagent_test import reply
from client.casebook import case, kinds

if TYPE_CHECKING:
    from client.casebook import Stage


@case("regen-last", "regeneration")
async def regen_last(stage: Stage) -> None:
    await stage.ask(reply.assistant("old"))
    question = stage.thread.get_state().messages[0]
    stage.session.answer(reply.assistant("new"))
    run = await stage.thread.regenerate()
    await run.wait_until_idle()

    state = stage.thread.get_state()
    assert stage.texts() == ["hi", "new"]
    assert (state.messages[0], run.record.initiator) == (question, "regenerate")
    assert run.record.input_message_id == question.message_id


async def two_turns(stage: Stage) -> list[str]:
    await stage.ask(reply.assistant("a"), text="one")
    await stage.ask(reply.assistant("b"), text="two")
    stage.session.answer(reply.assistant("c"))
    return [message.message_id for message in stage.thread.get_state().messages]


@case("regen-earlier", "regeneration")
async def regen_earlier(stage: Stage) -> None:
    ids = await two_turns(stage)
    await (await stage.thread.regenerate(ids[1])).wait_until_idle()

    assert stage.texts() == ["one", "c"]


@case("regen-by-user-message", "regeneration")
async def regen_by_user_message(stage: Stage) -> None:
    ids = await two_turns(stage)
    await (await stage.thread.regenerate(ids[0])).wait_until_idle()

    assert stage.texts() == ["one", "c"]


@case("regen-unknown", "regeneration")
async def regen_unknown(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))
    before = await stage.raw()

    with pytest.raises(MessageNotFoundError):
        await stage.thread.regenerate("nope")

    assert await stage.raw() == before


@case("regen-busy", "regeneration")
async def regen_busy(stage: Stage) -> None:
    held = stage.session.hold()
    run = await stage.thread.send("hi")

    with pytest.raises(ThreadBusyError) as caught:
        await stage.thread.regenerate()

    assert caught.value.active_run_id == run.run_id
    await held.finish()


@case("regen-order", "regeneration", "watch")
async def regen_order(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))
    begin = (await stage.raw()).seq
    stage.session.answer(reply.assistant("b"))
    await (await stage.thread.regenerate()).wait_until_idle()

    assert kinds(await stage.log(after=begin)) == [
        "message.removed",
        "generation.started",
        "C",
        "generation.completed",
    ]


@case("retry-after-failure", "regeneration")
async def retry_after_failure(stage: Stage) -> None:
    await stage.ask(reply.error("boom"))
    question = stage.thread.get_state().messages[0]
    stage.session.answer(reply.assistant("better"))
    run = await stage.thread.retry()
    await run.wait_until_idle()

    state = stage.thread.get_state()
    assert (state.messages[0], stage.texts()) == (question, ["hi", "better"])
    assert (run.status, state.error, run.record.initiator) == ("completed", None, "retry")


@case("retry-drops-partial", "regeneration")
async def retry_drops_partial(stage: Stage) -> None:
    held = stage.session.hold()
    run = await stage.thread.send("hi")
    await held.emit_text("so far")
    await held.fail("cut")
    await run.wait_until_idle()
    stage.session.answer(reply.assistant("whole"))
    await (await stage.thread.retry()).wait_until_idle()

    assert stage.texts() == ["hi", "whole"]


@case("retry-without-failure", "regeneration")
async def retry_without_failure(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))

    with pytest.raises(NothingToRetryError):
        await stage.thread.retry()


@case("retry-fails-again", "regeneration")
async def retry_fails_again(stage: Stage) -> None:
    await stage.ask(reply.error("one"))
    stage.session.answer(reply.error("two"))
    await (await stage.thread.retry()).wait_until_idle()
    error = stage.thread.get_state().error
    stage.session.answer(reply.assistant("third"))
    await (await stage.thread.retry()).wait_until_idle()

    assert error is not None
    assert (error.operation, error.message) == ("retry", "two")
    assert stage.texts() == ["hi", "third"]
