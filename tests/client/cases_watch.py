"""Cases of the profile `watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from chatagent.protocol import GenerationMessageChunk, StateChanged, ThreadModel, UnknownEvent
from chatagent_test import reply
from client.casebook import case, kinds, read_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.client import ThreadUpdate
    from chatagent.protocol import ThreadState
    from client.casebook import Stage

EV_20 = ["message.added", "generation.started", "C", "generation.completed"]


@case("watch-numbering", "watch")
async def numbering(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))
    begin = (await stage.raw()).seq
    async with stage.transport.watch_thread("t-1", after=None) as stream:
        await stage.ask(reply.assistant("b"))
        numbers: list[int] = []
        while (event := stream.receive_nowait()) is not None:
            numbers.append(event.seq)

    assert numbers == list(range(begin + 1, (await stage.raw()).seq + 1))


@case("watch-order-success", "watch")
async def order_success(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))

    assert kinds(await stage.log()) == EV_20


@case("watch-order-failure", "watch")
async def order_failure(stage: Stage) -> None:
    await stage.ask(reply.error("boom"))

    assert kinds(await stage.log()) == ["message.added", "generation.started", "generation.failed"]


@case("watch-order-abort", "watch")
async def order_abort(stage: Stage) -> None:
    held = stage.session.hold()
    run = await stage.thread.send("hi")
    await held.emit_text("so far")
    await run.abort()
    await run.wait_until_idle()

    log = await stage.log()
    assert kinds(log) == ["message.added", "generation.started", "C", "generation.aborted"]
    last = [event for event in log if isinstance(event, GenerationMessageChunk)][-1]
    assert last.chunk.type == "abort"


@case("watch-order-queue", "watch")
async def order_queue(stage: Stage) -> None:
    held = stage.session.hold()
    await stage.thread.send("one")
    stage.session.answer(reply.assistant("b"))
    second = await stage.thread.send("two")
    await held.finish()
    await second.wait_until_idle()

    assert kinds(await stage.log()) == [
        *["message.added", "generation.started", "message.added", "generation.queued"],
        *["C", "generation.completed", "generation.started", "C", "generation.completed"],
    ]


@case("watch-replay", "watch")
async def replay(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))
    async with stage.transport.watch_thread("t-1", after=0) as stream:
        await stage.ask(reply.assistant("b"))
        seqs: list[int] = []
        while (event := stream.receive_nowait()) is not None:
            seqs.append(event.seq)

    assert seqs == list(range(1, (await stage.raw()).seq + 1))


@case("watch-replay-middle", "watch")
async def replay_middle(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))

    assert (await stage.log(after=3))[0].seq == 4


@case("watch-from-now", "watch")
async def from_now(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))

    assert await read_log(stage.transport, "t-1", None) == []


@case("watch-forgotten", "watch")
async def forgotten(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))
    await stage.session.forget("t-1")

    first = (await stage.log(after=1))[0]

    assert isinstance(first, StateChanged)
    assert first.seq == (await stage.raw()).seq


@case("watch-two-readers", "watch")
async def two_readers(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))

    assert await stage.log() == await stage.log()


@case("watch-slow-reader", "watch")
async def slow_reader(stage: Stage) -> None:
    text = "x" * 3_000
    async with stage.thread.watch() as slow, stage.thread.watch() as quick:
        run = await stage.ask(reply.assistant(reply.text(text, chunks=list(text))))
        seen = 0
        async for update in quick:
            seen += 1
            if update.state.runs and update.state.runs[-1].settled:
                break
        states = [update.state async for update in _until_settled(slow)]

    assert run.status == "completed"
    assert seen > 3_000
    assert states[-1] == stage.thread.get_state()


async def _until_settled(updates: AsyncIterator[ThreadUpdate]) -> AsyncIterator[ThreadUpdate]:
    async for update in updates:
        yield update
        if update.state.runs and update.state.runs[-1].settled:
            return


@case("watch-reduces-to-snapshot", "watch")
async def reduces_to_snapshot(stage: Stage) -> None:
    tool = reply.tool("lookup").result(input={"q": 1}, output={"n": 2})
    await stage.ask(reply.assistant("a", tool, reply.data("note", 1, "n"), "b"))
    await stage.ask(reply.error("boom"))

    model = ThreadModel("t-1")
    for event in await stage.log():
        model.apply(event)

    assert model.snapshot() == await stage.raw()


@case("watch-chunk-index", "watch", "actions")
async def chunk_index(stage: Stage) -> None:
    waiting = reply.tool("pick_file").waiting(input={"kind": "pdf"}, action=reply.action("output"))
    await stage.ask(reply.assistant(waiting))
    stage.session.answer(reply.assistant("done"))
    result = await stage.thread.pending_actions[0].submit({"name": "a"})
    assert result.run is not None
    await result.run.wait_until_idle()

    chunks = [event for event in await stage.log() if isinstance(event, GenerationMessageChunk)]
    assert len({event.message_id for event in chunks}) == 1
    assert [event.index for event in chunks] == list(range(len(chunks)))


@case("watch-reconnect", "watch")
async def reconnect(stage: Stage) -> None:
    held = stage.session.hold()
    run = await stage.thread.send("hi")
    texts: list[str] = []

    async def wait() -> None:
        texts.append((await run.wait_until_idle()).messages[-1].text)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await held.emit_text("one")
        await stage.session.disconnect()
        await anyio.lowlevel.checkpoint()
        await held.finish()

    assert texts == ["one"]


@case("watch-gap-one-refresh", "watch")
async def gap_one_refresh(stage: Stage) -> None:
    held = stage.session.hold()
    await stage.thread.send("hi")
    reads = _reads(stage)
    stage.session.lose_next_event("t-1")
    await held.emit_text("one")
    await held.finish()
    state = await _caught_up(stage)

    assert state.messages[-1].text == "one"
    assert _reads(stage) == reads + 1


async def _caught_up(stage: Stage) -> ThreadState:
    async with stage.thread.watch() as updates:
        return (await anext(updates)).state


def _reads(stage: Stage) -> int:
    mock = getattr(stage.session, "mock", None)
    return 0 if mock is None else len(mock.inspect.requests.get_thread())


@case("watch-duplicates-ignored", "watch")
async def duplicates_ignored(stage: Stage) -> None:
    held = stage.session.hold()
    await stage.thread.send("hi")
    stage.session.repeat_next_event("t-1")
    await held.emit_text("one")
    await held.finish()

    assert stage.texts() == ["hi", "one"]
    assert not stage.thread.is_stale


@case("watch-unknown-event", "watch")
async def unknown_event(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))
    before = stage.thread.get_state()
    push = getattr(stage.transport, "events", None)
    if push is not None:
        push.push_thread("t-1", UnknownEvent(type="future.thing", data={"x": 1}))

        state = stage.thread.get_state()

        assert (state.messages, state.runs, state.seq) == (before.messages, before.runs, before.seq + 1)


@case("watch-other-task-close", "watch")
async def other_task_close(stage: Stage) -> None:
    watch = stage.transport.watch_thread("t-1", after=None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.__aenter__)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.__aexit__, None, None, None)


@case("watch-unknown-thread", "watch")
async def unknown_thread(stage: Stage) -> None:
    async with stage.transport.watch_thread("t-1", after=0) as stream:
        await stage.ask(reply.assistant("a"))

        assert stream.receive_nowait().type == "message.added"


@case("watch-ends-on-delete", "watch", "heads")
async def ends_on_delete(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))
    async with stage.transport.watch_thread("t-1", after=0) as stream:
        await stage.thread.delete()
        events = [event async for event in stream]

    assert events[-1].type == "thread.deleted"


@case("watch-no-leak", "watch")
async def no_leak(stage: Stage) -> None:
    for _ in range(200):
        async with stage.transport.watch_thread("t-1", after=None):
            pass
    mock = getattr(stage.session, "mock", None)
    if mock is not None:
        assert mock.inspect.watchers("t-1") == 0
