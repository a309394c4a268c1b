"""Cases of the profile `watch`: what the events of a thread are, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import create_task_group

from chatagent.protocol import GenerationCompleted, GenerationQueued, GenerationStarted, MessageAdded, ThreadModel
from chatagent.ui import Start
from chatagent_test.conformance.cases import case
from chatagent_test.conformance.looking import chunk_events, chunk_types, life, texts, wire_events
from chatagent_test.transport import reply

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatagent.protocol import ThreadEvent, ThreadState
    from chatagent_test.conformance.stage import Stage

MANY = 3_000
"""Chunks that one reader does not read."""
ANSWERED = ["message.added", "generation.started", "chunks(start…finish)", "generation.completed"]


@case("watch-numbering", "EV-1", "EV-30")
async def numbering(stage: Stage) -> None:
    """Events are numbered one by one, from the snapshot's number on."""
    stage.answer(reply.assistant("one"), reply.assistant("two"))
    await stage.answered()
    before = (await stage.snapshot()).seq

    async with stage.watch(after=before) as tap:
        await stage.send("again")
        events = await tap.until("generation.completed")

    numbers = [event.seq for event in events]
    stage.equal("the numbers", numbers, list(range(before + 1, before + 1 + len(numbers))))
    stage.equal("the snapshot's number", (await stage.snapshot()).seq, numbers[-1])


@case("watch-order-success", "EV-20")
async def order_success(stage: Stage) -> None:
    """An answer is told in order: the message, the start, the chunks, the end."""
    stage.answer(reply.assistant("hello"))

    async with stage.watch() as tap:
        await stage.send()
        events = await tap.until("generation.completed", "generation.failed", "generation.aborted")

    stage.equal("the events", life(events), ANSWERED)
    wanted = ["text-start", "text-delta", "text-end"]
    stage.equal("the chunks of the text", [t for t in chunk_types(events) if t.startswith("text")], wanted)


@case("watch-order-failure", "EV-21", "CK-13")
async def order_failure(stage: Stage) -> None:
    """A failure before anything was said is told without a chunk."""
    stage.answer(reply.error("boom"))

    async with stage.watch() as tap:
        await stage.send()
        events = await tap.until("generation.completed", "generation.failed", "generation.aborted")

    stage.equal("the events", life(events), ["message.added", "generation.started", "generation.failed"])


@case("watch-order-abort", "EV-23", "CK-15")
async def order_abort(stage: Stage) -> None:
    """A stop in the middle is told by an `abort` chunk, then by the run's end."""
    held = stage.session.hold()

    async with stage.watch() as tap:
        run = await stage.thread().send("hi")
        await held.emit_text("half")
        while "text-delta" not in chunk_types(tap.events):
            await tap.next()
        await run.abort()
        await tap.until("generation.completed", "generation.failed", "generation.aborted")

    wanted = ["message.added", "generation.started", "chunks(start…abort)", "generation.aborted"]
    stage.equal("the events", life(tap.events), wanted)


@case("watch-order-queue", "EV-25")
async def order_queue(stage: Stage) -> None:
    """A run in line is told when it gets there, and starts behind the end of the run before it."""
    held = stage.session.hold()

    async with stage.watch() as tap:
        first = await stage.send("first")
        stage.answer(reply.assistant("two"))
        second = await stage.send("second")
        await held.emit_text("one")
        await held.finish()
        await tap.until("generation.completed")
        await tap.until("generation.completed")

    ran = [(event.type, event.run.run_id) for event in tap.events if isinstance(event, _RUN_EVENTS)]
    wanted = [
        ("generation.started", first.run_id),
        ("generation.queued", second.run_id),
        ("generation.completed", first.run_id),
        ("generation.started", second.run_id),
        ("generation.completed", second.run_id),
    ]
    stage.equal("the events of the runs", ran, wanted)
    added = [event.message.id for event in tap.events if isinstance(event, MessageAdded)]
    stage.equal("the messages that were added", added, [first.message_id, second.message_id])
    before = tap.events[[event.type for event in tap.events].index("generation.queued") - 1]
    told = [before.type, before.message.id if isinstance(before, MessageAdded) else None]
    stage.equal("what comes right before the run in line", told, ["message.added", second.message_id])


_RUN_EVENTS = (GenerationStarted, GenerationQueued, GenerationCompleted)


@case("watch-replay", "EV-30")
async def replay(stage: Stage) -> None:
    """A watch from the beginning gives the whole log, then what comes."""
    stage.answer(reply.assistant("one"), reply.assistant("two"))
    async with stage.watch() as live:
        await stage.send()
        told = await live.until("generation.completed")

        async with stage.watch(after=0) as tap:
            replayed = [await tap.next() for _ in told]
            await stage.send("again")
            more = await tap.until("generation.completed")
        beside = await live.until("generation.completed")

    stage.equal("the log", wire_events(replayed), wire_events(told))
    stage.equal("what came later", wire_events(more), wire_events(beside))


@case("watch-replay-middle", "EV-30")
async def replay_middle(stage: Stage) -> None:
    """A watch from behind a number begins with the next one."""
    stage.answer(reply.assistant("hello"))
    async with stage.watch() as live:
        await stage.send()
        told = await live.until("generation.completed")

    async with stage.watch(after=3) as tap:
        replayed = [await tap.next() for _ in told[3:]]

    stage.equal("the number of the first event", replayed[0].seq, 4)
    stage.equal("the events", wire_events(replayed), wire_events(told[3:]))


@case("watch-from-now", "EV-30")
async def from_now(stage: Stage) -> None:
    """A watch from now on gives nothing that is past."""
    stage.answer(reply.assistant("one"), reply.assistant("two"))
    await stage.answered()
    before = (await stage.snapshot()).seq

    async with stage.watch(after=None) as tap:
        await stage.send("again")
        first = await tap.next()

    told = [first.seq, first.type]
    stage.equal("number and type of the first event", told, [before + 1, "message.added"])


@case("watch-forgotten", "EV-31")
async def forgotten(stage: Stage) -> None:
    """A watch from behind what cannot be replayed says so first, then goes on."""
    stage.answer(reply.assistant("one"), reply.assistant("two"))
    await stage.answered()
    await stage.session.forget("t-1")
    before = (await stage.snapshot()).seq

    async with stage.watch(after=1) as tap:
        first = await tap.next()
        await stage.send("again")
        second = await tap.next()

    stage.equal("type and number of the first event", [first.type, first.seq], ["state.changed", before])
    told = [second.type, second.seq]
    stage.equal("type and number of the second event", told, ["message.added", before + 1])


@case("watch-two-readers", "EV-34")
async def two_readers(stage: Stage) -> None:
    """Two watches give the same events."""
    stage.answer(reply.assistant("hello"))

    async with stage.watch() as one, stage.watch() as two:
        await stage.send()
        first = await one.until("generation.completed")
        second = await two.until("generation.completed")

    stage.equal("the events of the second watch", wire_events(second), wire_events(first))


@case("watch-slow-reader", "EV-34")
async def slow_reader(stage: Stage) -> None:
    """A reader that does not read slows nobody, and comes to the same state in the end."""
    pieces = [f"{number} " for number in range(MANY)]
    slow = stage.client_over(stage.recorded(stage.session.transport)).thread("t-1")
    await slow.refresh()
    stage.answer(reply.assistant(reply.text("".join(pieces), chunks=pieces)))

    state = await stage.answered()
    late = await stage.until(slow, "the end of the run for the slow reader", _is_over)

    stage.true("the quick reader has the whole text", texts(state)[-1] == "".join(pieces), texts(state)[-1])
    stage.equal("what the slow reader sees", late, state)


def _is_over(state: ThreadState) -> bool:
    return bool(state.runs) and state.runs[-1].settled


@case("watch-reduces-to-snapshot", "EV-2", "EV-6", "RS-15")
async def reduces_to_snapshot(stage: Stage) -> None:
    """The log, reduced from the beginning, is the snapshot."""
    found = reply.tool("lookup").result({"query": "parcel"}, {"found": "in Oslo"})
    text = reply.text("It is in Oslo.", chunks=["It ", "is ", "in ", "Oslo."])
    stage.answer(reply.assistant("Let me see.", found, reply.data("mood", 1, "d-1"), text))

    async with stage.watch() as tap:
        await stage.send()
        events = await tap.until("generation.completed", "generation.failed")
    model = _reduced(events)

    stage.equal("the numbers", [event.seq for event in events], list(range(1, len(events) + 1)))
    stage.equal("the snapshot", await stage.snapshot(), model.snapshot())


def _reduced(events: Iterable[ThreadEvent]) -> ThreadModel:
    model = ThreadModel("t-1")
    for event in events:
        model.apply(event)
    return model


@case("watch-chunk-index", "EV-16", "PA-5")
async def chunk_index(stage: Stage) -> None:
    """The chunks of a message are counted from 0, one by one, over its whole life."""
    waits = stage.has("actions")
    asked = reply.tool("pick_file").waiting({"kind": "pdf"}, reply.action("output"))
    stage.answer(reply.assistant("Which file?", *([asked] if waits else [])), reply.assistant("Thanks."))

    async with stage.watch() as tap:
        await stage.thread().send("hi")
        await tap.until("generation.waiting", "generation.completed", "generation.failed")
        if waits:
            await stage.thread().pending_actions[0].submit({"name": "a.pdf"})
            await tap.until("generation.completed", "generation.failed")

    chunks = chunk_events(tap.events)
    stage.equal("how many messages the chunks are of", len({event.message_id for event in chunks}), 1)
    stage.equal("how often the message was begun", sum(isinstance(e.chunk, Start) for e in chunks), 2 if waits else 1)
    stage.equal("the indexes", [event.index for event in chunks], list(range(len(chunks))))


@case("watch-other-task-close", "EV-33")
async def other_task_close(stage: Stage) -> None:
    """A watch may be entered in one task and left in another."""
    stage.answer(reply.assistant("hello"))
    await stage.answered()
    watches = [stage.transport.watch_thread("t-1", after=0) for _ in range(2)]

    async with create_task_group() as tasks:
        for watch in watches:
            tasks.start_soon(watch.__aenter__)
    await watches[0].__aexit__(None, None, None)
    async with create_task_group() as tasks:
        tasks.start_soon(watches[1].__aexit__, None, None, None)

    async with stage.watch() as tap:
        first = await tap.next()
    stage.equal("the first event of a later watch", [first.type, first.seq], ["message.added", 1])


@case("watch-unknown-thread", "EV-32")
async def unknown_thread(stage: Stage) -> None:
    """A thread may be watched before it is there."""
    stage.answer(reply.assistant("hello"))

    async with stage.watch("t-new") as tap:
        nothing = tap.ready()
        await stage.send(thread_id="t-new")
        events = await tap.until("generation.completed")

    stage.equal("what there was before", nothing, [])
    stage.equal("the events", life(events), ANSWERED)


@case("watch-ends-on-delete", "EV-15", "EV-32", needs=("heads",))
async def ends_on_delete(stage: Stage) -> None:
    """When a thread is deleted, its watches say so and end."""
    stage.answer(reply.assistant("hello"))
    await stage.answered()

    async with stage.watch(after=None) as tap:
        await stage.transport.delete_thread("t-1")
        event = await tap.next()
        await tap.ends()

    stage.equal("the last event", event.type, "thread.deleted")


@case("watch-no-leak", "EV-33", "BT-16")
async def no_leak(stage: Stage) -> None:
    """Watches that were left are held by nobody."""
    stage.answer(reply.assistant("hello"))
    await stage.send()
    before = stage.session.open_watches("t-1")

    for _ in range(100):
        async with stage.watch() as one, stage.watch(after=None) as two:
            await one.next()
            two.ready()

    stage.equal("the watches that are open", stage.session.open_watches("t-1"), before)
    stage.equal("the watches that were open before", before, 0)


@case("watch-closed", "TP-29")
async def closed(stage: Stage) -> None:
    """Closing a transport ends its watches normally."""
    stage.answer(reply.assistant("hello"))
    await stage.answered()

    async with stage.watch(after=None) as tap:
        await stage.transport.aclose()
        await tap.ends()
