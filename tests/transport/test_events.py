"""What happens in the backend besides the answers: events, commands, files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from chatagent.protocol import (
    CommandFailedError,
    CommandNotFoundError,
    GenerationMessageChunk,
    StateChanged,
    StoredFileNotFoundError,
    ThreadHeadChanged,
)
from chatagent.ui import TextDelta
from chatagent_test import CommandCall, NoActiveRunError, SeedError, create_mock_agent_client, given, reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.client import Thread
    from chatagent_test import MockAgentClient

pytestmark = pytest.mark.anyio

SEED = given.thread("t-1", given.run(given.input("x"), given.output("y")), title="Old")


async def test_a_pushed_state_change_makes_watchers_refresh(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-120."""
    mock.seed(SEED)
    async with thread.watch() as updates:
        first = await anext(updates)
        mock.seed(given.thread("t-1", given.run(given.input("new"))))
        mock.events.push_thread("t-1", StateChanged())

        update = await anext(updates)

    assert [message.text for message in first.state.messages] == ["x", "y"]
    assert update.event is None
    assert [message.text for message in update.state.messages] == ["new"]


async def test_a_pushed_head_reaches_the_list_and_not_the_store(mock: MockAgentClient) -> None:
    """MTR-121, MTR-122."""
    mock.seed(SEED)
    async with mock.client.watch_thread_heads() as lists:
        (head,) = await anext(lists)
        renamed = head.model_copy(update={"title": "Renamed"})
        mock.events.push_thread_head(ThreadHeadChanged(reason="attributes", head=renamed))

        (pushed,) = await anext(lists)

    stored = mock.inspect.thread("t-1")
    assert stored is not None
    assert (head.title, pushed.title, stored.thread.title) == ("Old", "Renamed", "Old")


async def test_a_pushed_event_goes_through_the_reducer(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-123: a delta for a text that nobody began is refused; one repair gives the stored state again."""
    mock.seed(SEED)
    await thread.refresh()
    stray = GenerationMessageChunk(run_id="run-1", message_id="msg-2", chunk=TextDelta("nope", "lost"))

    mock.events.push_thread("t-1", stray)
    unchanged, stale = thread.get_state(), thread.is_stale
    reads = len(mock.inspect.requests.get_thread())
    state = await thread.refresh()

    assert [message.text for message in unchanged.messages] == ["x", "y"]
    assert stale
    assert state.messages == unchanged.messages
    assert len(mock.inspect.requests.get_thread()) == reads + 1


async def test_the_active_run_can_be_completed(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-124."""
    run = await thread.send("x")

    mock.events.complete_run("t-1")

    assert (run.status, thread.get_state().thread.status) == ("completed", "idle")


async def test_the_active_run_can_fail(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-125."""
    run = await thread.send("x")

    mock.events.fail_run("t-1", RuntimeError("x"))

    error = thread.get_state().error
    assert error is not None
    assert (run.status, error.message) == ("failed", "x")


async def test_settling_needs_an_active_run(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-126, MTR-127: the one that is named, if one is."""
    with pytest.raises(NoActiveRunError, match=r"^thread 't-1': no active run; its runs: none$"):
        mock.events.complete_run("t-1")
    run = await thread.send("x")

    with pytest.raises(
        NoActiveRunError, match=r"^thread 't-1': run 'run-2' is not the active one; its runs: run-1 \(run"
    ):
        mock.events.complete_run("t-1", "run-2")

    assert run.status == "running"
    mock.events.complete_run("t-1", run.run_id)
    with pytest.raises(NoActiveRunError, match=r"no active run; its runs: run-1 \(completed\)$"):
        mock.events.fail_run("t-1", "late")


async def test_a_command_is_handled_by_the_tests_function(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-128, MTR-129: and leaves messages, runs and queue alone."""
    calls: list[CommandCall] = []

    async def handle(call: CommandCall) -> object:
        calls.append(call)
        return {"ok": True}

    mock.commands.set("refresh", handle)
    mock.responses.queue(reply.assistant("mine"))

    by_value = await thread.commands.refresh({"id": 7}, client_data={"u": 1})
    by_keyword = await thread.commands.refresh(id=7)
    by_name = await thread.commands["refresh"]()

    assert (by_value, by_keyword, by_name) == ({"ok": True}, {"ok": True}, {"ok": True})
    assert [call.input for call in calls] == [{"id": 7}, {"id": 7}, None]
    assert (calls[0].thread_id, calls[0].client_data) == ("t-1", {"u": 1})
    assert (mock.inspect.thread("t-1"), mock.responses.size()) == (None, 1)
    mock.responses.clear()


async def test_commands_that_nobody_handles_or_that_raise(mock: MockAgentClient, thread: Thread) -> None:
    def explode(_: CommandCall) -> None:
        raise ValueError("too bad")

    mock.commands.set("explode", explode)
    mock.commands.set("gone", explode)
    mock.commands.remove("gone")

    with pytest.raises(CommandNotFoundError, match=r"^there is no command 'gone'; there are explode$"):
        await thread.commands.gone()
    with pytest.raises(CommandFailedError, match=r"^command 'explode' failed: too bad$") as caught:
        await thread.commands.explode()
    assert isinstance(caught.value.__cause__, ValueError)


async def test_files_are_kept_and_read(mock: MockAgentClient) -> None:
    """MTR-130, MTR-131, MTR-132."""
    mock.files.add(file_id="file-a", filename="a.txt", media_type="text/plain", body=b"abc")
    upload = mock.client.files.upload

    read = await mock.client.files.read("file-a")
    infos = [
        await upload(filename="n", media_type="image/png", body=b"1", metadata={"k": "v"}),
        await upload(filename="n", media_type="image/png", body=pieces(b"2", b"3"), metadata={"k": "v"}),
    ]

    assert read.body == b"abc"
    assert [info.file_id for info in infos] == ["file-1", "file-2"]
    assert {(info.filename, info.media_type, info.metadata["k"]) for info in infos} == {("n", "image/png", "v")}
    assert (await mock.client.files.read("file-2")).body == b"23"
    assert await mock.client.files.url("file-1") == "mock://files/file-1"


async def pieces(*given_pieces: bytes) -> AsyncIterator[bytes]:
    for piece in given_pieces:
        yield piece


async def test_a_backend_may_have_no_urls() -> None:
    """MTR-133."""
    async with create_mock_agent_client(file_urls=False) as mock:
        mock.files.add(file_id="file-1", filename="a", media_type="text/plain", body=b"")

        assert await mock.client.files.url("file-1") is None


async def test_a_body_that_breaks_off_stores_nothing(mock: MockAgentClient) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"some"
        raise OSError("gone")

    with pytest.raises(OSError, match=r"^gone$"):
        await mock.client.files.upload(filename="a", media_type="text/plain", body=broken())
    with anyio.CancelScope() as scope:
        await mock.client.files.upload(filename="a", media_type="text/plain", body=endless(scope))

    assert mock.inspect.files() == ()
    with pytest.raises(StoredFileNotFoundError, match=r"^there is no file 'file-1'$"):
        await mock.client.files.read("file-1")
    with pytest.raises(StoredFileNotFoundError):
        mock.files.remove("file-1")


async def endless(scope: anyio.CancelScope) -> AsyncIterator[bytes]:
    while True:
        yield b"x"
        scope.cancel()
        await anyio.lowlevel.checkpoint()


async def test_the_backend_can_begin_a_run_itself(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("Good morning."))

    run_id = mock.events.start_run("t-1", "It is eight.")
    state = await thread.refresh()

    assert [(each.text, each.producer) for each in state.messages] == [
        ("It is eight.", "trigger"),
        ("Good morning.", "model"),
    ]
    assert (state.run(run_id).initiator, state.run(run_id).status) == ("trigger", "completed")


async def test_a_thread_can_be_changed_from_outside(mock: MockAgentClient, thread: Thread) -> None:
    mock.seed(SEED)
    await thread.refresh()

    mock.events.change_thread("t-1", title="New", metadata={"a": 1})
    head = thread.get_state().thread
    mock.events.change_thread("t-1", title=None)

    assert (head.title, head.metadata) == ("New", {"a": 1})
    assert thread.get_state().thread.title is None
    with pytest.raises(
        SeedError, match=r"^events\.change_thread\('t-9'\): there is no such thread; there are t-1; seed"
    ):
        mock.events.change_thread("t-9", title="x")


async def test_events_of_an_unknown_thread_count_from_one(mock: MockAgentClient) -> None:
    mock.events.push_thread("t-7", StateChanged())
    mock.events.push_thread("t-7", StateChanged())

    assert [event.seq for event in mock.inspect.events("t-7")] == [1, 2]


async def test_settling_detaches_what_plays(mock: MockAgentClient, thread: Thread) -> None:
    response = mock.responses.stream()
    await thread.send("x")
    text = response.text()

    mock.events.complete_run("t-1")

    with pytest.raises(Exception, match=r"^the streamed response is detached: its run was settled by mock\.events"):
        await text.delta("x")
