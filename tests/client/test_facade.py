"""The facade: clients, threads and handles, beyond what the cases of a transport show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from chatagent.client import AgentClient, create_agent_client
from chatagent.errors import InvalidArgumentError
from chatagent.protocol import (
    NothingToRegenerateError,
    RunNotFoundError,
    StateChanged,
    ThreadBusyError,
    ThreadHeadChanged,
    TransportUnavailableError,
)
from chatagent.ui import TextUIPart, UIMessage
from chatagent_test import create_mock_agent_client, given, reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.client import Thread
    from chatagent.protocol import ThreadHead
    from chatagent_test import MockAgentClient

pytestmark = pytest.mark.anyio


async def test_a_thread_is_the_same_object_and_asks_nothing(mock: MockAgentClient, thread: Thread) -> None:
    state = thread.get_state()

    assert mock.client.thread("t-1") is thread
    assert mock.inspect.requests.all() == ()
    assert (state.seq, state.messages, state.thread.status, state.thread.thread_id) == (0, (), "idle", "t-1")
    assert thread.active_run() is None


async def test_the_manifest_is_asked_for_once_and_a_failure_is_not_kept(mock: MockAgentClient) -> None:
    mock.faults.fail_next("get_manifest", TransportUnavailableError(operation="get_manifest"))

    with pytest.raises(TransportUnavailableError):
        await mock.client.get_manifest()
    first, second = await mock.client.get_manifest(), await mock.client.get_manifest()

    assert first is second
    assert len(mock.inspect.requests.get_manifest()) == 2


async def test_the_first_call_reads_the_thread_once(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("a"), reply.assistant("b"))

    await thread.send("x")
    await thread.send("y")

    asked = [logged.operation for logged in mock.inspect.requests.all()]
    assert asked == ["get_thread", "watch_thread", "send", "send"]


async def test_a_message_may_be_given_whole(mock: MockAgentClient, thread: Thread) -> None:
    message = UIMessage(id="m-1", role="user", parts=[TextUIPart(text="hi")], metadata={"lang": "no"})
    await thread.send(message)
    await thread.send(message, message_id="m-2")

    first, second = thread.get_state().messages
    assert (first.message_id, second.message_id, first.metadata) == ("m-1", "m-2", {"lang": "no"})
    with pytest.raises(InvalidArgumentError, match=r"^`message` is 'assistant': send a message of the user's$"):
        await thread.send(message.model_copy(update={"role": "assistant"}))
    with pytest.raises(InvalidArgumentError, match=r"^`message\.metadata` is \[1\]: metadata is an object$"):
        await thread.send(message.model_copy(update={"metadata": [1]}))


async def test_a_send_that_is_cancelled_behind_its_admission_has_happened(
    mock: MockAgentClient, thread: Thread
) -> None:
    await thread.refresh()
    mock.faults.lose_next_event("t-1")
    scope = anyio.CancelScope()

    async def send() -> None:
        with scope:
            await thread.send("x")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        while mock.inspect.thread("t-1") is None:
            await anyio.lowlevel.checkpoint()
        scope.cancel()

    assert [message.text for message in (await thread.refresh()).messages] == ["x"]
    run = thread.active_run()
    assert run is not None
    mock.responses.queue(reply.assistant("there"))
    assert await run.text() == "there"


async def test_aborting_takes_the_active_run_and_then_the_oldest_queued_one(
    mock: MockAgentClient, thread: Thread
) -> None:
    runs = [await thread.send(text) for text in ("one", "two", "three")]

    assert await thread.abort() is True
    statuses = [run.status for run in runs]
    assert await thread.abort("enough") is True
    assert await thread.abort() is True
    assert await thread.abort() is False

    assert statuses == ["aborted", "running", "queued"]
    assert [run.record.abort_reason for run in runs] == [None, "enough", None]


async def test_handles_are_found_by_id(mock: MockAgentClient, thread: Thread) -> None:
    run = await thread.send("x")

    assert thread.run(run.run_id) == run == thread.active_run()
    assert repr(run) == "RunHandle(thread_id='t-1', run_id='run-1')"
    with pytest.raises(RunNotFoundError, match=r"^thread 't-1' has no run 'run-9'$"):
        thread.run("run-9")


async def test_titles_are_not_blank_and_threads_not_busy(mock: MockAgentClient, thread: Thread) -> None:
    mock.seed(given.thread("t-2"))
    with pytest.raises(InvalidArgumentError, match=r"^`title` is '  ': a title is not blank$"):
        await thread.rename("  ")
    with pytest.raises(NothingToRegenerateError, match=r"^thread 't-2' has no message that could be answered again$"):
        await mock.client.thread("t-2").regenerate()
    await thread.send("x")

    for call in (thread.retry, thread.regenerate, lambda: thread.send_action({})):
        with pytest.raises(ThreadBusyError, match=r"^thread 't-1' is busy with run 'run-1'; wait for it"):
            await call()


async def test_a_command_takes_one_input(thread: Thread) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`commands\.echo` is .*: give one input, or its fields"):
        await thread.commands.echo({"a": 1}, b=2)


async def test_several_clients_share_a_transport(mock: MockAgentClient, thread: Thread) -> None:
    other = create_agent_client(mock.transport, owns_transport=False)
    mock.responses.queue(reply.assistant("a"))
    await other.thread("t-1").send("x")
    await other.aclose()

    assert [message.text for message in (await thread.refresh()).messages] == ["x", "a"]


# --- the list of threads ------------------------------------------------------------------------------------------


def names(heads: tuple[ThreadHead, ...]) -> list[str]:
    return [f"{head.thread_id}:{head.status}" for head in heads]


async def test_the_list_is_shown_again_after_each_change(mock: MockAgentClient, thread: Thread) -> None:
    mock.seed(given.thread("t-2"), given.thread("t-3"))
    seen: list[list[str]] = []
    async with mock.client.watch_thread_heads() as lists:
        seen.append(names(await anext(lists)))
        await thread.send("x")
        seen += [names(await anext(lists)), names(await anext(lists))]
        await mock.client.thread("t-3").delete()
        seen.append(names(await anext(lists)))

    assert seen == [
        ["t-3:idle", "t-2:idle"],
        ["t-1:idle", "t-3:idle", "t-2:idle"],
        ["t-1:running", "t-3:idle", "t-2:idle"],
        ["t-1:running", "t-2:idle"],
    ]


async def test_what_must_be_entered_is_not_iterated_over_without(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("x"))
    run = await thread.send("x")

    for call, made in (
        ("run.chunks()", run.chunks()),
        ("thread.watch()", thread.watch()),
        ("client.watch_thread_heads()", mock.client.watch_thread_heads()),
    ):
        with pytest.raises(TypeError) as caught:
            aiter(cast("Any", made))
        assert str(caught.value) == (
            f"`{call}` is a context manager: `async with {call} as items:`, then `async for item in items`"
        )


async def test_a_watch_of_the_list_survives_gaps_and_lost_connections(mock: MockAgentClient) -> None:
    mock.seed(given.thread("t-1"))
    async with mock.client.watch_thread_heads() as lists:
        (head,) = await anext(lists)
        mock.events.disconnect()
        mock.events.change_thread("t-1", title="One")
        (renamed,) = await anext(lists)
        mock.events.push_thread_head(ThreadHeadChanged(reason="attributes", head=head), seq=99)
        (repaired,) = await anext(lists)
        mock.events.push_thread_head(StateChanged())
        (again,) = await anext(lists)
        mock.reset()
        with pytest.raises(StopAsyncIteration):
            await anext(lists)

    assert (head.title, renamed.title, repaired.title, again.title) == (None, "One", "One", "One")


async def test_the_list_has_pages_longer_than_one(mock: MockAgentClient) -> None:
    mock.seed(*(given.thread(f"t-{number}") for number in range(450)))

    async with mock.client.watch_thread_heads() as lists:
        heads = await anext(lists)

    assert len({head.thread_id for head in heads}) == 450
    assert len(mock.inspect.requests.list_threads()) == 3


BAD_CALLS: dict[str, tuple[Callable[[AgentClient], Awaitable[object]], str]] = {
    "a page of nothing": (lambda client: client.list_threads(limit=0), r"^`limit` is 0: "),
    "a page that is too long": (lambda client: client.list_threads(limit=201), r"^`limit` is 201: "),
    "a cursor of nobody's": (lambda client: client.list_threads(cursor="2"), r"^`cursor` is '2': no page has given it"),
    "a part that is none": (
        lambda client: client.thread("t-1").send([cast("Any", {"type": "text"})]),
        r"^`message` is \[\{'type': 'text'\}\]: ",
    ),
    "data that is no JSON": (
        lambda client: client.thread("t-1").send("x", client_data=object()),
        r"^`value` is <object object at \w+>: it is no JSON data",
    ),
    "a message that is a dict": (
        lambda client: client.thread("t-1").send(cast("Any", {"text": "x"})),
        r"^`message` is {'text': 'x'}: give a text, parts, or a UIMessage$",
    ),
    "a body that is a text": (
        lambda client: client.files.upload(filename="a", media_type="text/plain", body=cast("Any", "abc")),
        r"^`body` is 'abc': give bytes, or an async iterable of them$",
    ),
    "a name that is none": (
        lambda client: client.files.upload(filename=cast("Any", None), media_type="text/plain", body=b""),
        r"^`file` is None: ",
    ),
}


@pytest.mark.parametrize("name", BAD_CALLS)
async def test_what_no_request_can_be_made_of_is_refused_by_its_name(mock: MockAgentClient, name: str) -> None:
    call, text = BAD_CALLS[name]

    with pytest.raises(InvalidArgumentError, match=text):
        await call(mock.client)

    assert (mock.inspect.thread("t-1"), mock.inspect.files()) == (None, ())


async def test_a_client_closes_the_transport_that_is_its_own() -> None:
    mock = create_mock_agent_client()
    async with AgentClient(mock.transport) as client:
        await client.thread("t-1").send("x")

    assert mock.inspect.watchers("t-1") == 0
    with pytest.raises(Exception, match=r"^get_manifest: the client is closed$"):
        await mock.transport.get_manifest()
