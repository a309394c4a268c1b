"""Cases of the profiles `heads`, `files` and `commands`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from chatagent.protocol import (
    CommandFailedError,
    CommandInputError,
    CommandNotFoundError,
    StoredFileNotFoundError,
    ThreadDeletedError,
    ThreadHeadChanged,
    ThreadHeadRemoved,
    ThreadNotFoundError,
    ThreadQuery,
)
from chatagent.ui import FileUIPart
from chatagent_test import reply
from client.casebook import case, kinds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.protocol import ThreadHeadEvent
    from client.casebook import Stage


async def head_log(stage: Stage, after: int = 0) -> list[ThreadHeadEvent]:
    found: list[ThreadHeadEvent] = []
    async with stage.transport.watch_thread_heads(after=after) as stream:
        while (event := stream.receive_nowait()) is not None:
            found.append(event)
    return found


def reasons(events: list[ThreadHeadEvent]) -> list[str]:
    return [event.reason for event in events if isinstance(event, ThreadHeadChanged)]


@case("heads-created", "heads")
async def heads_created(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))

    assert reasons(await head_log(stage)).count("created") == 1


@case("heads-status", "heads")
async def heads_status(stage: Stage) -> None:
    held = stage.session.hold()
    run = await stage.thread.send("hi")
    await held.finish()
    await run.wait_until_idle()

    heads = [
        each.head for each in await head_log(stage) if isinstance(each, ThreadHeadChanged) and each.reason == "status"
    ]
    assert [head.status for head in heads] == ["running", "idle"]


@case("heads-list-order", "heads")
async def heads_list_order(stage: Stage) -> None:
    for name in ("t-2", "t-3", "t-1"):
        await stage.ask(reply.assistant("a"), thread=stage.client.thread(name))

    page = await stage.client.list_threads()

    assert [head.thread_id for head in page.heads] == ["t-1", "t-3", "t-2"]


@case("heads-paging", "heads")
async def heads_paging(stage: Stage) -> None:
    for number in range(5):
        await stage.ask(reply.assistant("a"), thread=stage.client.thread(f"t-{number}"))
    pages: list[list[str]] = []
    cursor: str | None = None
    while True:
        page = await stage.client.list_threads(limit=2, cursor=cursor)
        pages.append([head.thread_id for head in page.heads])
        cursor = page.next_cursor
        if cursor is None:
            break

    assert [len(page) for page in pages] == [2, 2, 1]
    assert len({each for page in pages for each in page}) == 5


@case("heads-rename", "heads")
async def heads_rename(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))
    head = await stage.thread.rename("New")

    page = await stage.transport.list_threads(ThreadQuery())
    assert (head.title, page.heads[0].title, (await stage.raw()).thread.title) == ("New", "New", "New")
    assert reasons(await head_log(stage))[-1] == "attributes"
    assert stage.thread.get_state().thread.title == "New"


@case("heads-rename-unknown", "heads")
async def heads_rename_unknown(stage: Stage) -> None:
    with pytest.raises(ThreadNotFoundError):
        await stage.transport.rename_thread("nope", "x")


@case("heads-delete", "heads")
async def heads_delete(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))
    await stage.thread.delete()

    assert (await stage.client.list_threads()).heads == ()
    assert await stage.transport.get_thread("t-1") is None
    assert isinstance((await head_log(stage))[-1], ThreadHeadRemoved)


@case("heads-delete-running", "heads")
async def heads_delete_running(stage: Stage) -> None:
    stage.session.hold()
    run = await stage.thread.send("hi")
    async with stage.transport.watch_thread("t-1", after=0) as stream:
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with pytest.raises(ThreadDeletedError):
                    await run.wait_until_idle()

            tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            await stage.thread.delete()
        events = [event async for event in stream]

    assert kinds(events)[-2:] == ["generation.aborted", "thread.deleted"]


@case("heads-reuse-id", "heads")
async def heads_reuse_id(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))
    await stage.thread.delete()
    deleted_at = stage.thread.get_state().seq
    await stage.ask(reply.assistant("b"), text="again")

    assert stage.texts() == ["again", "b"]
    assert (await stage.log(after=deleted_at))[0].seq == deleted_at + 1


@case("heads-replay", "heads")
async def heads_replay(stage: Stage) -> None:
    await stage.ask(reply.assistant("a"))
    page = await stage.client.list_threads()
    await stage.thread.rename("New")

    assert reasons(await head_log(stage, after=page.seq)) == ["attributes"]


async def upload(stage: Stage, body: Any = b"abc", **named: Any):
    return await stage.client.files.upload(filename="a.txt", media_type="text/plain", body=body, **named)


@case("files-round-trip", "files")
async def files_round_trip(stage: Stage) -> None:
    info = await upload(stage, metadata={"k": [1]})
    content = await stage.client.files.read(info.file_id)

    assert content.body == b"abc"
    assert content.info == info
    assert (info.filename, info.media_type, info.size_bytes, info.metadata) == ("a.txt", "text/plain", 3, {"k": [1]})


@case("files-empty", "files")
async def files_empty(stage: Stage) -> None:
    info = await upload(stage, b"")

    assert (info.size_bytes, (await stage.client.files.read(info.file_id)).body) == (0, b"")


async def pieces(*given: bytes, error: Exception | None = None) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece
    if error is not None:
        raise error


@case("files-streamed", "files")
async def files_streamed(stage: Stage) -> None:
    info = await upload(stage, pieces(b"a", b"", b"bc"))

    assert (await stage.client.files.read(info.file_id)).body == b"abc"


@case("files-broken-upload", "files")
async def files_broken_upload(stage: Stage) -> None:
    with pytest.raises(OSError, match=r"^gone$"):
        await upload(stage, pieces(b"a", error=OSError("gone")))
    info = await upload(stage)

    assert (await stage.client.files.read(info.file_id)).body == b"abc"


@case("files-unknown", "files")
async def files_unknown(stage: Stage) -> None:
    with pytest.raises(StoredFileNotFoundError):
        await stage.client.files.read("nope")


@case("files-distinct-ids", "files")
async def files_distinct_ids(stage: Stage) -> None:
    one, two = await upload(stage, b"1"), await upload(stage, b"2")

    assert one.file_id != two.file_id
    assert [(await stage.client.files.read(each.file_id)).body for each in (one, two)] == [b"1", b"2"]


@case("files-url", "files")
async def files_url(stage: Stage) -> None:
    info = await upload(stage)

    assert isinstance(await stage.client.files.url(info.file_id), str | None)
    with pytest.raises(StoredFileNotFoundError):
        await stage.client.files.url("nope")


@case("files-in-message", "files")
async def files_in_message(stage: Stage) -> None:
    info = await upload(stage)
    part = FileUIPart(media_type="text/plain", url=f"chatagent-file:{info.file_id}")
    await stage.ask(reply.assistant("a"), text=cast("Any", [part]))

    (seen,) = stage.session.received("t-1")[0].parts
    assert isinstance(seen, FileUIPart)
    assert (await stage.client.files.read(seen.url.removeprefix("chatagent-file:"))).body == b"abc"


@case("files-no-thread-change", "files")
async def files_no_thread_change(stage: Stage) -> None:
    await upload(stage)

    assert (await stage.log(), await head_log(stage)) == ([], [])


@case("commands-result", "commands")
async def commands_result(stage: Stage) -> None:
    assert await stage.thread.commands.echo({"a": 1}) == {"a": 1}


@case("commands-unknown", "commands")
async def commands_unknown(stage: Stage) -> None:
    with pytest.raises(CommandNotFoundError):
        await stage.thread.execute_command("nope")


@case("commands-bad-input", "commands")
async def commands_bad_input(stage: Stage) -> None:
    with pytest.raises(CommandInputError, match=r"`input\.a`"):
        await stage.thread.commands.echo({"a": "no number"})

    assert list(stage.session.commands_seen()) == []


@case("commands-failure", "commands")
async def commands_failure(stage: Stage) -> None:
    with pytest.raises(CommandFailedError, match=r"boom"):
        await stage.thread.commands.explode()


@case("commands-no-run", "commands")
async def commands_no_run(stage: Stage) -> None:
    await stage.thread.commands.echo({"a": 1})

    assert (await stage.transport.get_thread("t-1"), await stage.log()) == (None, [])


@case("commands-while-running", "commands")
async def commands_while_running(stage: Stage) -> None:
    held = stage.session.hold()
    await stage.thread.send("hi")

    assert await stage.thread.commands.echo({"a": 1}) == {"a": 1}
    await held.finish()


@case("commands-client-data", "commands")
async def commands_client_data(stage: Stage) -> None:
    await stage.thread.commands.echo({"a": 1}, client_data={"u": 1})

    assert cast("Any", stage.session.commands_seen()[0]).client_data == {"u": 1}
