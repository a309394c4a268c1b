"""Commands, files, and data beside tool calls (MP-19, MP-20, MP-21)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import BaseModel

from chatagent import chat, command, locals
from chatagent.errors import AgentDefinitionError
from chatagent.protocol import (
    CommandFailedError,
    CommandInputError,
    CommandNotFoundError,
    ReservedNameError,
    StoredFileNotFoundError,
    ToolCallNotFoundError,
    ToolDataRequest,
    UploadFileRequest,
)
from chatagent.service import AgentService, DirectoryFileStore
from chatagent.session import Snapshot
from chatagent.ui import DataUIPart
from chatagent_test import MockLanguageModel, create_in_process_client, script
from service.agents import TOOLS, answering, events_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from chatagent.agent import ChatAgent, CommandContext
    from chatagent_test import InProcessClient

pytestmark = pytest.mark.anyio


class Order(BaseModel):
    number: int


class Notes(BaseModel):
    note: str


NOTES = locals.create("notes", Notes)


def commanded(model: MockLanguageModel) -> ChatAgent[Any]:
    async def status(order: Order, context: CommandContext) -> dict[str, Any]:
        notes = context.locals.get_or_throw(NOTES)
        return {
            "order": order.number,
            "messages": len(context.history),
            "user": context.client_data["user"],
            "note": notes.note,
        }

    def explode(_: Any) -> None:
        raise RuntimeError("no such order")

    def lie(_: Any) -> str:
        return "seven"

    commands = {
        "status": command(status, input=Order),
        "explode": command(explode),
        "lie": command(lie, output=int),
    }
    return answering(commands=commands)(model)


def with_note(values: Any) -> None:
    values.set(NOTES, Notes(note="fragile"))


async def test_what_a_client_does_to_a_file_stays_with_it() -> None:
    """MP-33."""
    async with create_in_process_client(answering()) as mock:
        made = await mock.client.files.upload(filename="a", media_type="text/plain", body=b"a", metadata={"k": [1]})
        cast("Any", made.metadata["k"]).append(2)
        read = await mock.client.files.read(made.file_id)
        cast("Any", read.info.metadata["k"]).append(3)

        kept = await mock.client.files.read(made.file_id)

        assert kept.info.metadata == {"k": [1]}


async def test_a_command_is_called_outside_of_any_turn() -> None:
    """MP-20: it sees the conversation, the locals and the call's client data, and leaves no trace."""
    model = MockLanguageModel([script.text("one"), script.hold("middle").text("two")])
    async with create_in_process_client(
        commanded, model=model, client_data={"user": "u-1"}, setup_locals=with_note
    ) as mock:
        thread = mock.client.thread("t-1")
        expected = {"order": 7, "messages": 0, "user": "u-1", "note": "fragile"}
        assert await thread.commands.status(number=7) == expected
        assert events_of(mock) == []

        await (await thread.send("hi")).wait_until_idle()
        await mock.harness.settle()
        run = await thread.send("again")
        await model.reached("middle")
        await mock.harness.settle()
        told = len(events_of(mock))
        assert await thread.commands.status({"number": 7}) == {**expected, "messages": 2}
        assert (len(events_of(mock)), run.status) == (told, "running")

        model.release("middle")
        await run.wait_until_idle()


async def test_commands_that_cannot_be_called_say_why() -> None:
    """MP-20; ER-8, ER-9."""
    async with create_in_process_client(commanded, setup_locals=with_note) as mock:
        service, data = mock.service, {"user": "u-1"}

        async def call(name: str, value: object) -> object:
            thread = mock.client.thread("t-1")
            return await thread.execute_command(name, value, client_data=data)

        with pytest.raises(CommandNotFoundError, match="nope"):
            await call("nope", None)
        with pytest.raises(CommandInputError, match=r"input\.number"):
            await call("status", {"number": "x"})
        with pytest.raises(CommandFailedError, match="no such order") as failed:
            await call("explode", None)
        assert isinstance(failed.value.__cause__, RuntimeError)
        with pytest.raises(CommandFailedError, match="of what it returned"):
            await call("lie", None)
        assert [each.name for each in service.manifest.commands] == ["explode", "lie", "status"]


def test_what_is_no_command_is_refused_where_it_is_defined() -> None:
    """MP-20."""
    with pytest.raises(AgentDefinitionError, match="give command"):
        chat.agent(id="a", run=lambda _: None, commands={"status": lambda _: None})  # type: ignore[dict-item]
    with pytest.raises(AgentDefinitionError, match="takes an input"):
        command(lambda: None)


# Files ----------------------------------------------------------------------------------------------------------------


async def test_files_are_kept_with_what_is_known_of_them() -> None:
    """MP-21."""

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"%P", b"", b"DF"):
            yield piece

    async with create_in_process_client(answering()) as mock:
        files = mock.client.files
        whole = await files.upload(filename="a.pdf", media_type="application/pdf", body=b"%PDF", metadata={"k": [1]})
        joined = await files.upload(filename="a.pdf", media_type="application/pdf", body=pieces())

        assert whole.file_id != joined.file_id
        assert (await files.read(whole.file_id)).body == (await files.read(joined.file_id)).body == b"%PDF"
        info = (await files.read(whole.file_id)).info
        assert (info.filename, info.media_type, info.size_bytes, info.metadata) == (
            "a.pdf",
            "application/pdf",
            4,
            {"k": [1]},
        )
        assert await files.url(whole.file_id) is None
        with pytest.raises(StoredFileNotFoundError):
            await files.read("nope")
        with pytest.raises(StoredFileNotFoundError):
            await files.url("nope")


async def test_an_upload_that_breaks_off_stores_nothing() -> None:
    """MP-21."""

    async def broken() -> AsyncIterator[bytes]:
        yield b"%P"
        raise ConnectionError("gone")

    async with create_in_process_client(answering()) as mock:
        with pytest.raises(ConnectionError):
            await mock.client.files.upload(filename="a", media_type="text/plain", body=broken())
        with pytest.raises(StoredFileNotFoundError):
            await mock.client.files.read("file-1")


async def test_a_file_in_a_message_reaches_the_model_as_its_bytes() -> None:
    """MP-21: the conversation keeps the reference."""
    model = MockLanguageModel([script.text("A slip."), script.text("Still a slip.")])
    async with create_in_process_client(answering(), model=model) as mock:
        info = await mock.client.files.upload(filename="slip.png", media_type="image/png", body=b"\x89PNG")
        thread = mock.client.thread("t-1")
        file = {"type": "file", "mediaType": "image/png", "url": f"chatagent-file:{info.file_id}"}

        run = await thread.send([{"type": "text", "text": "What is it?"}, file])  # type: ignore[list-item]
        state = await run.wait_until_idle()
        await (await thread.send("Sure?")).wait_until_idle()

        for call in model.do_stream_calls:
            shown: Any = call.prompt[0].content[1]
            assert (shown.media_type, shown.data) == ("image/png", b"\x89PNG")
        assert getattr(state.messages[0].parts[1], "url", None) == f"chatagent-file:{info.file_id}"


async def test_a_file_that_is_not_there_fails_the_run() -> None:
    """MP-21."""
    async with create_in_process_client(answering(), model=script.text("never"), strict=False) as mock:
        file = {"type": "file", "mediaType": "image/png", "url": "chatagent-file:nope"}
        run = await mock.client.thread("t-1").send([file])  # type: ignore[list-item]
        state = await run.wait_until_idle()

        assert state.error is not None
        assert "nope" in state.error.message


async def test_a_folder_keeps_files_over_services(tmp_path: Path) -> None:
    """MP-21."""
    agent = answering()(MockLanguageModel())
    async with AgentService(agent, files=DirectoryFileStore(tmp_path / "files", base_url="https://files/")) as service:
        transport = service.transport()
        info = await transport.upload_file(UploadFileRequest(filename="a", media_type="text/plain", body=b"hi"))

    files = DirectoryFileStore(tmp_path / "files", base_url="https://files/")
    content = await files.load(info.file_id)
    assert (content.body, content.info) == (b"hi", info)
    assert await files.url(info.file_id) == f"https://files/{info.file_id}"
    for wrong in ("nope", "../files", "a/b"):
        with pytest.raises(StoredFileNotFoundError):
            await files.load(wrong)


# Data beside tool calls -----------------------------------------------------------------------------------------------


async def looked_up(mock: InProcessClient) -> Any:
    thread = mock.client.thread("t-1")
    await (await thread.send("look")).wait_until_idle()
    return thread


async def test_data_beside_a_call_is_shown_at_once_and_is_part_of_the_agent_s_history() -> None:
    """MP-19: `on_action` is not asked, no run begins."""
    asked: list[Any] = []

    def make(model: MockLanguageModel) -> ChatAgent[Any]:
        agent = answering(tools=TOOLS)(model)

        @agent.on_action
        def on_action(event: Any) -> None:
            asked.append(event.action)

        return agent

    model = MockLanguageModel([script.tool_call("lookup", {"query": "x"}, tool_call_id="c-1"), script.text("Found.")])
    async with create_in_process_client(make, model=model) as mock:
        thread = await looked_up(mock)
        message = thread.get_state().messages[-1]
        for percent in (10, 50):
            await thread.write_tool_data(message, message.tool_parts[0], "progress", {"percent": percent})
        state = thread.get_state()
        (data,) = [part for part in state.messages[-1].parts if isinstance(part, DataUIPart)]
        assert (data.type, data.id, data.data) == ("data-progress", "c-1", {"percent": 50})
        assert len(state.runs) == 1

        await mock.harness.settle()
        snapshot = await mock.service._setting.snapshots.load("t-1")  # pyright: ignore[reportPrivateUsage]
        assert isinstance(snapshot, Snapshot)
        kept = [part for part in snapshot.messages[-1].parts if isinstance(part, DataUIPart)]
        assert [(part.id, part.data) for part in kept] == [("c-1", {"percent": 50})]
        assert asked == []
        assert "state.changed" not in events_of(mock)


async def test_data_can_be_written_while_a_run_is_on() -> None:
    """MP-19."""
    model = MockLanguageModel(
        [
            script.tool_call("lookup", {"query": "x"}, tool_call_id="c-1"),
            script.text("Found.").hold("middle"),
            script.text("Later."),
        ]
    )
    async with create_in_process_client(answering(tools=TOOLS), model=model) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("look")
        await model.reached("middle")
        message = thread.get_state().messages[-1]
        await thread.write_tool_data(message, message.tool_parts[0], "progress", 1)
        model.release("middle")
        await run.wait_until_idle()
        await (await thread.send("on")).wait_until_idle()
        await mock.harness.settle()

        state = await thread.refresh()
        (data,) = [part for part in state.messages[1].parts if isinstance(part, DataUIPart)]
        assert data.data == 1
        assert "state.changed" not in events_of(mock)


async def test_data_that_belongs_nowhere_is_refused() -> None:
    """MP-19; TH-31."""
    model = MockLanguageModel([script.tool_call("lookup", {"query": "x"}, tool_call_id="c-1"), script.text("Found.")])
    async with create_in_process_client(answering(tools=TOOLS), model=model) as mock:
        thread = await looked_up(mock)
        message = thread.get_state().messages[-1]
        (part,) = message.tool_parts
        before = thread.get_state()

        with pytest.raises(ReservedNameError):
            await thread.write_tool_data(message, part, "chatagent-x", 1)
        unknown = ToolDataRequest(
            request_id="r",
            thread_id="t-1",
            message_id=message.message_id,
            tool_call_id="nope",
            channel="progress",
            value=1,
        )
        with pytest.raises(ToolCallNotFoundError):
            await mock.transport.write_tool_data(unknown)
        with pytest.raises(ReservedNameError):
            await thread.send_action({"type": "chatagent:tool-data"})
        assert thread.get_state() == before
