"""Cases of the profile `core`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from chatagent.client import AgentClient
from chatagent.protocol import (
    AbortRequest,
    AgentManifest,
    ClientClosedError,
    EmptyMessageError,
    GenerationFailedError,
    MessageExistsError,
    ReservedNameError,
    RunNotFoundError,
    SendRequest,
    ThreadIdError,
)
from chatagent.ui import DataUIPart, FileUIPart, StepStartUIPart, TextUIPart, UIMessage
from chatagent_test import reply
from client.casebook import case

if TYPE_CHECKING:
    from client.casebook import Stage

LOOKUP = reply.tool("lookup").result(input={"q": 1}, output={"n": 2})


def request(**fields: Any) -> SendRequest:
    message = {"id": "", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    return SendRequest.model_validate({"request_id": "r-1", "thread_id": "t-1", "message": message, **fields})


@case("core-create-on-send", "core")
async def create_on_send(stage: Stage) -> None:
    before = await stage.transport.get_thread("t-1")
    await stage.ask(reply.assistant("hello"))

    assert before is None
    assert (await stage.raw()).thread.thread_id == "t-1"


@case("core-user-message-kept", "core")
async def user_message_kept(stage: Stage) -> None:
    run = await stage.ask(reply.assistant("hello"))

    first = stage.thread.get_state().messages[0]
    assert (first.role, first.text, first.relation, first.producer) == ("user", "hi", "input", "user")
    assert first.run_id == run.run_id


@case("core-state-after-send", "core")
async def state_after_send(stage: Stage) -> None:
    held = stage.session.hold()
    run = await stage.thread.send("hi")

    state = stage.thread.get_state()
    assert [message.text for message in state.messages] == ["hi"]
    assert (state.run(run.run_id).status, state.thread.status) == ("running", "running")
    await held.finish()


@case("core-text-answer", "core")
async def text_answer(stage: Stage) -> None:
    await stage.ask(reply.assistant("hello"))

    (answer,) = stage.thread.get_state().messages[1:]
    text = answer.parts[-1]
    assert isinstance(text, TextUIPart)
    assert (answer.role, text.text, text.state) == ("assistant", "hello", "done")


@case("core-settles-idle", "core")
async def settles_idle(stage: Stage) -> None:
    run = await stage.ask(reply.assistant("hello"))

    state = stage.thread.get_state()
    assert (run.status, state.thread.status, state.thread.active_run_id) == ("completed", "idle", None)
    assert run.record.settled_at is not None


@case("core-two-turns", "core")
async def two_turns(stage: Stage) -> None:
    runs = [await stage.ask(reply.assistant("a")), await stage.ask(reply.assistant("b"))]

    assert stage.roles() == ["user", "assistant", "user", "assistant"]
    assert [run.run_id for run in stage.thread.get_state().runs] == [run.run_id for run in runs]


@case("core-ids-stable", "core")
async def ids_stable(stage: Stage) -> None:
    await stage.ask(reply.assistant(LOOKUP))

    first, second = await stage.thread.refresh(), await stage.thread.refresh()

    assert first.messages == second.messages == stage.thread.get_state().messages
    assert first.runs == second.runs


@case("core-given-message-id", "core")
async def given_message_id(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"), message_id="m-x")

    assert (await stage.raw()).messages[0].id == "m-x"


@case("core-duplicate-message-id", "core")
async def duplicate_message_id(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"), message_id="m-x")
    before = await stage.raw()

    with pytest.raises(MessageExistsError):
        await stage.thread.send("again", message_id="m-x")

    assert await stage.raw() == before


@case("core-idempotent-send", "core")
async def idempotent_send(stage: Stage) -> None:
    stage.session.answer(reply.assistant("a"))
    first, second = await stage.transport.send(request()), await stage.transport.send(request())

    await stage.thread.refresh()
    assert first == second
    assert len(stage.thread.get_state().runs) == 1
    assert stage.roles().count("user") == 1


@case("core-empty-message", "core")
async def empty_message(stage: Stage) -> None:
    blank = UIMessage(id="", role="user", parts=[TextUIPart(text=" \n")])

    with pytest.raises(EmptyMessageError):
        await stage.thread.send("  ")
    with pytest.raises(EmptyMessageError):
        await stage.transport.send(request(message=blank))

    assert await stage.transport.get_thread("t-1") is None


@case("core-bad-thread-id", "core")
async def bad_thread_id(stage: Stage) -> None:
    for bad in ("a b", "", "a/b", "x" * 129):
        with pytest.raises(ThreadIdError):
            stage.client.thread(bad)
    with pytest.raises(ThreadIdError):
        await stage.transport.send(request(thread_id="a b"))
    assert list(stage.session.received("a b")) == []


@case("core-reserved-part-refused", "core")
async def reserved_part_refused(stage: Stage) -> None:
    part = DataUIPart(type="data-chatagent-x", data=1)

    with pytest.raises(ReservedNameError):
        await stage.thread.send([part])
    with pytest.raises(ReservedNameError):
        await stage.transport.send(request(message=UIMessage(id="", role="user", parts=[part])))


@case("core-parts-in-order", "core")
async def parts_in_order(stage: Stage) -> None:
    parts = [
        TextUIPart(text="see"),
        FileUIPart(media_type="text/plain", url="data:text/plain,x"),
        DataUIPart(type="data-note", data={"a": [1]}),
    ]
    await stage.ask(reply.assistant("a"), text=cast("Any", parts))

    assert list(stage.thread.get_state().messages[0].parts) == parts
    assert list((await stage.thread.refresh()).messages[0].parts) == parts


@case("core-unicode-and-size", "core")
async def unicode_and_size(stage: Stage) -> None:
    text = ("ein Bär 🐻 — \u202e\u0001\n" * 6_000)[:100_000]
    await stage.ask(reply.assistant(text), text=text)

    assert stage.texts() == [text, text]
    assert [message.text for message in (await stage.thread.refresh()).messages] == [text, text]


@case("core-tool-result", "core")
async def tool_result(stage: Stage) -> None:
    await stage.ask(reply.assistant(LOOKUP))

    _, part = stage.last_call()
    assert (part.type, part.state, part.input, part.output) == ("tool-lookup", "output-available", {"q": 1}, {"n": 2})
    assert cast("Any", part.tool_metadata)["chatagent"]["toolId"] == "lookup"


@case("core-tool-error-keeps-run", "core")
async def tool_error_keeps_run(stage: Stage) -> None:
    run = await stage.ask(reply.assistant(reply.tool("lookup").error("down", {"q": 1})))

    assert (stage.last_call()[1].state, run.status, stage.thread.get_state().error) == (
        "output-error",
        "completed",
        None,
    )


@case("core-step-border", "core")
async def step_border(stage: Stage) -> None:
    await stage.ask(reply.assistant(LOOKUP, "so it is 2"))

    parts = [part.type for part in stage.thread.get_state().messages[-1].parts]
    assert parts[parts.index("tool-lookup") :] == ["tool-lookup", "step-start", "text"]


@case("core-transient-data", "core")
async def transient_data(stage: Stage) -> None:
    await stage.ask(reply.assistant("a", reply.data("note", 1, transient=True)))

    assert "data-note" not in stage.part_types()
    assert "data-note" not in {part.type for part in (await stage.raw()).messages[-1].parts}


@case("core-data-replaced", "core")
async def data_replaced(stage: Stage) -> None:
    await stage.ask(reply.assistant(reply.data("note", 1, "n"), "a", reply.data("note", 2, "n")))

    found = [part for part in stage.thread.get_state().messages[-1].parts if isinstance(part, DataUIPart)]
    assert [(part.id, part.data) for part in found] == [("n", 2)]


@case("core-fail-sets-error", "core")
async def fail_sets_error(stage: Stage) -> None:
    run = await stage.ask(reply.error("boom"))

    state = stage.thread.get_state()
    assert state.error is not None
    assert (run.status, state.error.message, state.error.run_id) == ("failed", "boom", run.run_id)
    assert (state.error.operation, state.error.message_id) == ("send", state.messages[0].message_id)


@case("core-fail-keeps-input", "core")
async def fail_keeps_input(stage: Stage) -> None:
    await stage.ask(reply.error("boom"))

    assert (stage.texts(), stage.thread.get_state().thread.status) == (["hi"], "idle")


@case("core-fail-cleans-partial", "core")
async def fail_cleans_partial(stage: Stage) -> None:
    held = stage.session.hold()
    run = await stage.thread.send("hi")
    await held.emit_text("so far")
    await held.emit_tool_input("lookup", '{"q"')
    await held.fail("cut")
    await run.wait_until_idle()

    message = stage.thread.get_state().messages[-1]
    parts = [part for part in message.parts if not isinstance(part, StepStartUIPart)]
    assert [part.type for part in parts] == ["text"]
    assert cast("TextUIPart", parts[0]).state == "done"
    assert (await stage.thread.refresh()).messages[-1] == message


@case("core-next-send-clears-error", "core")
async def next_send_clears_error(stage: Stage) -> None:
    await stage.ask(reply.error("boom"))
    held = stage.session.hold()
    await stage.thread.send("again")

    assert stage.thread.get_state().error is None
    await held.finish()


@case("core-wait-does-not-raise", "core")
async def wait_does_not_raise(stage: Stage) -> None:
    run = await stage.ask(reply.error("boom"))

    state = await run.wait_until_idle()

    with pytest.raises(GenerationFailedError, match=r"^run '.*' failed \(send\): boom$"):
        state.raise_for_error()


@case("core-queue-second-send", "core")
async def queue_second_send(stage: Stage) -> None:
    held = stage.session.hold()
    await stage.thread.send("one")
    second = await stage.thread.send("two")

    assert (second.status, stage.texts()[-1]) == ("queued", "two")
    await held.finish()


@case("core-queue-order", "core")
async def queue_order(stage: Stage) -> None:
    held = stage.session.hold()
    await stage.thread.send("one")
    stage.session.answer(reply.assistant("second"))
    second = await stage.thread.send("two")
    await held.emit_text("first")
    await held.finish()
    await second.wait_until_idle()

    assert stage.texts() == ["one", "first", "two", "second"]


@case("core-abort-running", "core")
async def abort_running(stage: Stage) -> None:
    held = stage.session.hold()
    run = await stage.thread.send("hi")
    await held.emit_text("so far")

    aborted = await run.abort()
    state = await run.wait_until_idle()

    assert (aborted, run.status, state.thread.status, state.error) == (True, "aborted", "idle", None)


@case("core-abort-keeps-text", "core")
async def abort_keeps_text(stage: Stage) -> None:
    held = stage.session.hold()
    run = await stage.thread.send("hi")
    await held.emit_text("so far")
    await run.abort()
    await run.wait_until_idle()

    part = stage.thread.get_state().messages[-1].parts[-1]
    assert isinstance(part, TextUIPart)
    assert (part.text, part.state) == ("so far", "done")


@case("core-abort-queued", "core")
async def abort_queued(stage: Stage) -> None:
    held = stage.session.hold()
    first = await stage.thread.send("one")
    second = await stage.thread.send("two")

    aborted = await second.abort()

    await second.wait_until_idle()
    assert (aborted, second.status, stage.texts()) == (True, "aborted", ["one"])
    assert first.status == "running"
    await held.finish()


@case("core-abort-settled", "core")
async def abort_settled(stage: Stage) -> None:
    run = await stage.ask(reply.assistant("a"))
    before = await stage.raw()

    assert await run.abort() is False
    assert await stage.raw() == before


@case("core-abort-unknown-run", "core")
async def abort_unknown_run(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))

    with pytest.raises(RunNotFoundError):
        await stage.transport.abort(AbortRequest(thread_id="t-1", run_id="nope"))


@case("core-cancel-before-admission", "core")
async def cancel_before_admission(stage: Stage) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await stage.transport.send(request())

    assert await stage.transport.get_thread("t-1") is None


@case("core-threads-isolated", "core")
async def threads_isolated(stage: Stage) -> None:
    stage.session.answer(*(reply.assistant("a") for _ in range(20)))

    async def talk(number: int) -> None:
        await (await stage.client.thread(f"t-{number}").send(f"q-{number}")).wait_until_idle()

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(talk, number)

    for number in range(20):
        messages = stage.client.thread(f"t-{number}").get_state().messages
        assert [message.text for message in messages] == [f"q-{number}", "a"]


@case("core-run-metadata-default", "core")
async def run_metadata_default(stage: Stage) -> None:
    first = await stage.ask(reply.assistant("a"))
    second = await stage.ask(reply.assistant("b"))
    first.record.metadata["rating"] = 5

    assert second.record.metadata == {"rating": None}
    assert [run.metadata for run in (await stage.raw()).runs] == [{"rating": None}, {"rating": None}]


@case("core-client-data-arrives", "core")
async def client_data_arrives(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"), client_data={"k": 1})

    assert stage.session.received("t-1")[0].client_data == {"k": 1}


@case("core-manifest", "core")
async def manifest(stage: Stage) -> None:
    found = await stage.client.get_manifest()

    assert [tool.name for tool in found.tools] == ["lookup", "pick_file", "refund", "review"]
    assert [command.name for command in found.commands] == ["echo", "explode"]
    assert {"core"} <= set(found.profiles)
    assert AgentManifest.model_validate_json(found.model_dump_json(by_alias=True)) == found


@case("core-closed", "core")
async def closed(stage: Stage) -> None:
    await stage.client.aclose()
    await stage.client.aclose()

    with pytest.raises(ClientClosedError):
        await stage.thread.send("hi")


@case("core-second-client-sees-all", "core")
async def second_client_sees_all(stage: Stage) -> None:
    await stage.ask(reply.assistant(LOOKUP, "there"))

    async with AgentClient(await stage.session.second_transport(), owns_transport=False) as other:
        seen = await other.thread("t-1").refresh()

    assert seen == stage.thread.get_state()
