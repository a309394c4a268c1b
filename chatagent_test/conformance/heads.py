"""Cases of the profile `heads`: the list of threads, titles, deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio import create_task_group

from chatagent.protocol import ThreadDeletedError, ThreadHeadChanged, ThreadNotFoundError
from chatagent_test.conformance.cases import case
from chatagent_test.conformance.looking import life, texts
from chatagent_test.transport import reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chatagent.protocol import ThreadHeadEvent
    from chatagent_test.conformance.stage import Stage


@case("heads-created", "EV-18", "TP-7")
async def created(stage: Stage) -> None:
    """A thread that comes into being is told to the list, once."""
    stage.answer(reply.assistant("hello"))

    async with stage.watch_heads(after=await stage.heads_seq()) as tap:
        await stage.answered()
        while not _of(tap.events, "status", "idle"):
            await tap.next()

    told = [event.head.thread_id for event in _of(tap.events, "created")]
    stage.equal("the threads that were created", told, ["t-1"])
    stage.equal("the first event", tap.events[0].type, "thread.head.changed")
    stage.equal("its reason", tap.events[0].reason, "created")


def _of(events: Iterable[ThreadHeadEvent], reason: str, status: str | None = None) -> list[ThreadHeadChanged]:
    """Return the events of a reason, and of a status if it is named."""
    changes = (event for event in events if isinstance(event, ThreadHeadChanged))
    return [each for each in changes if each.reason == reason and status in (None, each.head.status)]


@case("heads-status", "EV-18", "DM-3")
async def status(stage: Stage) -> None:
    """The list is told when a thread goes to work, and when it is idle again."""
    held = stage.session.hold()

    async with stage.watch_heads(after=await stage.heads_seq()) as tap:
        run = await stage.thread().send("hi")
        while not _of(tap.events, "status", "running"):
            await tap.next()
        await held.emit_text("hello")
        await held.finish()
        await stage.settled(run)
        while not _of(tap.events, "status", "idle"):
            await tap.next()

    told = [event.head.status for event in _of(tap.events, "status")]
    stage.equal("the statuses that the list was told", told, ["running", "idle"])


async def _listed(stage: Stage) -> list[str]:
    page = await stage.client.list_threads()
    return [head.thread_id for head in page.heads]


async def _talk(stage: Stage, thread_ids: Sequence[str]) -> None:
    """Answer a message in each of these threads, one after the other."""
    for thread_id in thread_ids:
        stage.answer(reply.assistant(f"hello {thread_id}"))
        await stage.answered("hi", stage.thread(thread_id))


@case("heads-list-order", "CL-3", "TP-6")
async def list_order(stage: Stage) -> None:
    """The list begins with the thread that was used last."""
    await _talk(stage, ["t-b", "t-a", "t-c"])
    first = await _listed(stage)

    await _talk(stage, ["t-b"])
    second = await _listed(stage)

    stage.equal("the list", first, ["t-c", "t-a", "t-b"])
    stage.equal("the list after the first thread was used again", second, ["t-b", "t-c", "t-a"])


@case("heads-paging", "TP-6")
async def paging(stage: Stage) -> None:
    """Pages of the list together are the list, without repeats."""
    await _talk(stage, [f"t-{number}" for number in range(5)])
    pages: list[list[str]] = []

    page = await stage.client.list_threads(limit=2)
    pages.append([head.thread_id for head in page.heads])
    while page.next_cursor is not None and len(pages) < 5:
        page = await stage.client.list_threads(limit=2, cursor=page.next_cursor)
        pages.append([head.thread_id for head in page.heads])

    stage.equal("the pages", pages, [["t-4", "t-3"], ["t-2", "t-1"], ["t-0"]])


@case("heads-rename", "TP-8", "EV-12", "TH-41")
async def rename(stage: Stage) -> None:
    """A new title is in the list, in the thread, and told."""
    await _talk(stage, ["t-1"])

    async with stage.watch_heads(after=await stage.heads_seq()) as tap:
        head = await stage.thread().rename("New")
        event = await tap.next()

    stage.equal("the head that rename returned", [head.thread_id, head.title], ["t-1", "New"])
    page = await stage.client.list_threads()
    stage.equal("the titles in the list", [each.title for each in page.heads], ["New"])
    stage.equal("the title in the snapshot", (await stage.snapshot()).thread.title, "New")
    stage.equal("the title in the state", (await stage.thread().refresh()).thread.title, "New")
    told = [event.type, event.reason, event.head.title]
    stage.equal("the event", told, ["thread.head.changed", "attributes", "New"])


@case("heads-rename-unknown", "TP-8", "ER-2")
async def rename_unknown(stage: Stage) -> None:
    """A thread that is not there cannot be given a title, and does not come into being by it."""
    with stage.refuses("rename of an unknown thread", ThreadNotFoundError, thread_id="nope"):
        await stage.transport.rename_thread("nope", "New")

    stage.equal("the list", await _listed(stage), [])


@case("heads-delete", "TP-9", "EV-18")
async def delete(stage: Stage) -> None:
    """A thread that was deleted is gone from the list, and this is told."""
    await _talk(stage, ["t-1", "t-2"])

    async with stage.watch_heads(after=await stage.heads_seq()) as tap:
        await stage.thread("t-1").delete()
        events = await tap.until("thread.head.removed")

    stage.equal("the list", await _listed(stage), ["t-2"])
    stage.equal("the thread", await stage.transport.get_thread("t-1"), None)
    stage.equal("the thread that was removed", events[-1].thread_id, "t-1")
    stage.equal("the messages in the state", texts(stage.thread("t-1").get_state()), [])


@case("heads-delete-running", "EV-28", "ER-15")
async def delete_running(stage: Stage) -> None:
    """Deleting a thread stops its run; who waits for that run is told."""
    stage.session.hold()
    run = await stage.thread().send("hi")
    before = (await stage.snapshot()).seq
    told: list[str] = []

    async def wait() -> None:
        with stage.refuses("waiting for a run of a deleted thread", ThreadDeletedError, thread_id="t-1"):
            await run.wait_until_idle()
        told.append("deleted")

    async with create_task_group() as tasks:
        tasks.start_soon(wait)
        if stage.has("watch"):
            async with stage.watch(after=before) as tap:
                await stage.transport.delete_thread("t-1")
                events = await tap.until("thread.deleted")
            wanted = ["generation.aborted", "thread.deleted"]
            stage.equal("the last events", [word for word in life(events) if not word.startswith("chunks")], wanted)
        else:
            await stage.transport.delete_thread("t-1")

    stage.equal("what the waiting task was told", told, ["deleted"])
    stage.equal("the thread", await stage.transport.get_thread("t-1"), None)


@case("heads-reuse-id", "EV-1", "TH-41")
async def reuse_id(stage: Stage) -> None:
    """After a deletion the id may be used again: the thread is a new one, its numbers go on."""
    await _talk(stage, ["t-1"])
    before = (await stage.snapshot()).seq
    await stage.thread().delete()
    stage.answer(reply.assistant("anew"))

    state = await stage.answered("once more")
    stored = await stage.snapshot()

    stage.equal("the texts", texts(state), ["once more", "anew"])
    stage.equal("how many runs there are", len(stored.runs), 1)
    stage.true(f"the number is above {before}", stored.seq > before, stored.seq)


@case("heads-replay", "EV-30", "TP-7")
async def replay(stage: Stage) -> None:
    """A watch from a page's number on gives what changed since, each change once."""
    await _talk(stage, ["t-1"])
    since = await stage.heads_seq()
    await stage.thread().rename("One")
    await stage.thread().rename("Two")

    async with stage.watch_heads(after=since) as tap:
        events = [await tap.next(), await tap.next()]
        await stage.thread().rename("Three")
        events.append(await tap.next())

    stage.equal("the titles", [event.head.title for event in events], ["One", "Two", "Three"])
    stage.equal("the numbers", [event.seq for event in events], [since + 1, since + 2, since + 3])
