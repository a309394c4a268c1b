"""Cases of the profile `files`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chatagent.protocol import StoredFileNotFoundError
from chatagent.ui import FileUIPart, TextUIPart
from chatagent_test.conformance.cases import case
from chatagent_test.transport import reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.protocol import FileInfo
    from chatagent_test.conformance.stage import Stage

BYTES = bytes(range(256)) * 300


class BrokenUploadError(Exception):
    """The body of an upload breaks off."""


async def _upload(stage: Stage, body: bytes | AsyncIterator[bytes], filename: str = "a.bin") -> FileInfo:
    return await stage.client.files.upload(filename=filename, media_type="application/x-test", body=body)


@case("files-round-trip", "DM-50", "TP-16", "TP-17")
async def round_trip(stage: Stage) -> None:
    """A file comes back byte for byte, with what was said of it."""
    metadata = {"of": {"order": 7, "tags": ["ä", None]}}
    info = await stage.client.files.upload(
        filename="Größe 1.bin", media_type="application/x-test", body=BYTES, metadata=metadata
    )

    content = await stage.client.files.read(info.file_id)

    told = [info.filename, info.media_type, info.size_bytes, info.metadata]
    stage.equal("name, type, size and metadata", told, ["Größe 1.bin", "application/x-test", len(BYTES), metadata])
    stage.equal("what is said of it when it is read", content.info, info)
    stage.true("the bytes are those that were sent", content.body == BYTES, f"{len(content.body)} other bytes")


@case("files-empty", "TP-16")
async def empty(stage: Stage) -> None:
    """A file may be empty."""
    info = await _upload(stage, b"")

    content = await stage.client.files.read(info.file_id)

    stage.equal("size and bytes", [info.size_bytes, content.body == b""], [0, True])


@case("files-streamed", "TP-16")
async def streamed(stage: Stage) -> None:
    """A file may come in pieces."""

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one ", b"", b"two ", b"three"):
            yield piece

    info = await _upload(stage, pieces())
    content = await stage.client.files.read(info.file_id)

    stage.equal("size and bytes", [info.size_bytes, content.body.decode()], [13, "one two three"])


@case("files-broken-upload", "FL-3", "TP-21")
async def broken_upload(stage: Stage) -> None:
    """An upload that breaks off stores nothing."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        raise BrokenUploadError

    with stage.refuses("an upload whose body breaks off", Exception):
        await _upload(stage, pieces())

    stage.equal("the files of the backend", stage.session.stored_files(), [])


@case("files-unknown", "ER-2", "TP-17")
async def unknown(stage: Stage) -> None:
    """A file that is not there cannot be read."""
    with stage.refuses("reading an unknown file", StoredFileNotFoundError, file_id="nope"):
        await stage.client.files.read("nope")


@case("files-distinct-ids", "DM-50")
async def distinct_ids(stage: Stage) -> None:
    """Two files of one name are two files."""
    first = await _upload(stage, b"one")
    second = await _upload(stage, b"two")

    bodies = [(await stage.client.files.read(each.file_id)).body.decode() for each in (first, second)]

    stage.true("the ids differ", first.file_id != second.file_id, [first.file_id, second.file_id])
    stage.equal("the contents", bodies, ["one", "two"])


@case("files-url", "TP-18", "ER-2")
async def url(stage: Stage) -> None:
    """A file has a URL, or none; a file that is not there is refused."""
    info = await _upload(stage, b"one")

    found = await stage.client.files.url(info.file_id)

    stage.true("the URL is a text that says something, or None", found is None or found, found)
    with stage.refuses("the URL of an unknown file", StoredFileNotFoundError, file_id="nope"):
        await stage.client.files.url("nope")


@case("files-in-message", "DM-50", "MP-21")
async def in_message(stage: Stage) -> None:
    """An agent can read a file that a message refers to."""
    info = await _upload(stage, BYTES)
    stage.answer(reply.assistant("Thanks."))
    part = FileUIPart(media_type=info.media_type, url=f"chatagent-file:{info.file_id}")

    state, _ = await stage.settled(await stage.thread().send([TextUIPart(text="Here."), part]))

    got = [received.files for received in stage.session.received("t-1")]
    stage.equal("the files that the agent got", [sorted(files) for files in got], [[info.file_id]])
    stage.true("their bytes are those that were sent", got[0][info.file_id] == BYTES, "other bytes")
    stage.equal("the part in the state", state.messages[0].parts[1], part)


@case("files-no-thread-change", "DM-50", "EV-1")
async def no_thread_change(stage: Stage) -> None:
    """Uploads and reads are told to no thread and to no list."""
    stage.answer(reply.assistant("hello"))
    await stage.answered()
    before = await stage.snapshot()
    heads = await stage.heads_seq() if stage.has("heads") else 0

    info = await _upload(stage, b"one")
    await stage.client.files.read(info.file_id)
    await stage.client.files.url(info.file_id)

    stage.equal("the thread", await stage.snapshot(), before)
    if stage.has("heads"):
        stage.equal("the number of the list's newest event", await stage.heads_seq(), heads)
