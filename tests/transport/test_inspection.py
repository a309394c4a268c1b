"""Looking into the mock, and what it never does."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from chatagent.protocol import MessageExistsError
from chatagent_test import create_mock_agent_client, given, reply
from chatagent_test.transport.faults import OPERATIONS
from transport.following import event_types

if TYPE_CHECKING:
    from chatagent.client import AgentClient, Thread
    from chatagent_test import MockAgentClient

pytestmark = pytest.mark.anyio

ROOM = Path(__file__).parents[2] / "chatagent_test" / "transport"


async def test_requests_are_logged(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-140."""
    await thread.send("hello", client_data={"k": 1})

    (request,) = mock.inspect.requests.send()
    assert (request.thread_id, request.message.text, request.client_data) == ("t-1", "hello", {"k": 1})
    assert [logged.operation for logged in mock.inspect.requests.all()] == ["get_thread", "watch_thread", "send"]


async def test_refused_requests_are_logged_with_their_error(mock: MockAgentClient, thread: Thread) -> None:
    await thread.send("x", message_id="m")

    with pytest.raises(MessageExistsError):
        await thread.send("y", message_id="m")

    assert [type(each.error) for each in mock.inspect.requests.all() if each.operation == "send"] == [
        type(None),
        MessageExistsError,
    ]


async def test_an_answered_thread_is_idle_and_has_the_answer(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-141, MTR-142."""
    mock.responses.queue(reply.assistant("Done."))
    await thread.send("x")

    snapshot = mock.inspect.thread("t-1")

    assert snapshot is not None
    assert snapshot.thread.status == "idle"
    assert "assistant" in {message.role for message in snapshot.messages}


async def test_what_inspection_returns_can_be_changed_without_effect(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-144."""
    mock.seed(given.thread("t-1", given.run(given.input("x"), metadata={"a": {"b": 1}}), metadata={"c": [1]}))
    mock.seed(given.file("f", filename="f", media_type="text/plain", body=b"", metadata={"d": 1}))
    mock.commands.set("c", lambda call: None)
    await thread.commands.c({"e": [1]})
    await thread.send([cast("Any", {"type": "data-note", "data": {"g": 1}})])

    snapshot = mock.inspect.thread("t-1")
    assert snapshot is not None
    snapshot.thread.metadata["c"] = "changed"
    cast("dict[str, Any]", snapshot.runs[0].metadata["a"])["b"] = "changed"
    mock.inspect.files()[0].metadata["d"] = "changed"
    cast("Any", mock.inspect.requests.execute_command()[0].input)["e"].append(2)
    cast("Any", mock.inspect.events("t-1")[0]).message.parts[0].data["g"] = "changed"

    again = mock.inspect.thread("t-1")
    assert again is not None
    assert (again.thread.metadata, again.runs[0].metadata) == ({"c": [1]}, {"a": {"b": 1}})
    assert mock.inspect.files()[0].metadata == {"d": 1}
    assert mock.inspect.requests.execute_command()[0].input == {"e": [1]}
    assert cast("Any", again.messages[-1].parts[0]).data == {"g": 1}


async def test_what_the_facade_returns_does_not_reach_the_store(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant(reply.tool("find").result(input={"q": [1]}, output={"n": 1})))
    await thread.send("x")

    part: Any = thread.get_state().messages[-1].tool_parts[0]
    part.input["q"].append(2)
    part.output["n"] = 9

    stored = mock.inspect.thread("t-1")
    assert stored is not None
    tool: Any = stored.messages[-1].parts[1]
    assert (tool.input, tool.output) == ({"q": [1]}, {"n": 1})


async def test_what_the_facade_returns_reaches_neither_the_log_nor_the_script(
    mock: MockAgentClient, thread: Thread
) -> None:
    script = reply.assistant(reply.tool("find").result(input={}, output={"n": [1]}), metadata={"m": [1]})
    mock.responses.queue(script)
    await thread.send("x")
    as_written, events = repr(script), mock.inspect.events("t-1")

    answer: Any = thread.get_state().messages[-1]
    answer.tool_parts[0].output["n"].append(2)
    answer.metadata["m"].append(2)

    assert repr(script) == as_written
    assert mock.inspect.events("t-1") == events


async def test_what_one_watch_does_to_an_event_no_other_sees(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant(reply.data("note", {"n": [1]})))
    await thread.send("x")
    mock.events.change_thread("t-1", metadata={"k": [1]})

    found: list[list[Any]] = []
    for _ in range(2):
        async with (
            mock.transport.watch_thread("t-1", after=0) as events,
            mock.transport.watch_thread_heads(after=0) as heads,
        ):
            told: Any = next(each for each in iter(events.receive_nowait, None) if getattr(each, "index", None) == 2)
            head: Any = list(iter(heads.receive_nowait, None))[-1]
            found.append([list(told.chunk.data["n"]), list(head.head.metadata["k"])])
            told.chunk.data["n"].append(2)
            head.head.metadata["k"].append(2)

    assert found == [[[1], [1]], [[1], [1]]]


async def test_a_request_is_logged_as_it_was_when_it_came(mock: MockAgentClient, thread: Thread) -> None:
    data, client_data = {"g": [1]}, {"c": [1]}
    await thread.send([cast("Any", {"type": "data-note", "data": data})], client_data=client_data)

    data["g"].append(2)
    client_data["c"].append(2)

    (request,) = mock.inspect.requests.send()
    assert cast("Any", request.message.parts[0]).data == {"g": [1]}
    assert request.client_data == {"c": [1]}


def test_inspection_has_no_mutator(mock: MockAgentClient) -> None:
    """MTR-145."""
    shown = {name for name in dir(mock.inspect) if not name.startswith("_")}

    assert shown == {
        "requests",
        "thread",
        "threads",
        "files",
        "events",
        "head_events",
        "watchers",
        "queue",
        "transcript",
    }


def test_the_log_of_requests_has_no_mutator(mock: MockAgentClient) -> None:
    """MTR-145."""
    shown = {name for name in dir(mock.inspect.requests) if not name.startswith("_")}

    assert shown == {*OPERATIONS, "all", "of"}


async def test_two_clients_may_send_at_once(mock: MockAgentClient) -> None:
    """MTR-148: nothing is locked; the second waits for its turn."""
    from chatagent.client import AgentClient

    other = AgentClient(mock.transport, owns_transport=False)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(mock.client.thread("t-1").send, "one")
        tasks.start_soon(other.thread("t-1").send, "two")

    snapshot = mock.inspect.thread("t-1")
    assert snapshot is not None
    assert [run.status for run in snapshot.runs] == ["running", "queued"]
    await other.aclose()


def test_the_mock_speaks_over_no_network_and_defines_no_facade() -> None:
    """MTR-149."""
    imported: set[str] = set()
    defined: set[str] = set()
    for path in ROOM.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
            elif isinstance(node, ast.ClassDef):
                defined.add(node.name)

    assert {name.partition(".")[0] for name in imported} <= {
        "__future__",
        "anyio",
        "chatagent",
        "chatagent_test",
        "collections",
        "contextlib",
        "copy",
        "dataclasses",
        "datetime",
        "difflib",
        "inspect",
        "itertools",
        "json",
        "math",
        "pathlib",
        "pydantic",
        "pydantic_core",
        "sys",
        "types",
        "typing",
    }
    rooms = {name.split(".")[1] for name in imported if name.startswith("chatagent.")}
    assert rooms <= {"client", "clock", "errors", "ids", "protocol", "ui", "waiting"}
    assert defined & {"AgentClient", "Thread", "RunHandle", "PendingAction"} == set()


class Shop:
    """An application that is given a client."""

    def __init__(self, client: AgentClient) -> None:
        self._client = client

    async def ask(self, question: str) -> str:
        return await (await self._client.thread("t-1").send(question)).text()


@pytest.fixture
def shop(mock: MockAgentClient) -> Shop:
    return Shop(mock.client)


async def test_an_application_sees_only_the_facade(shop: Shop, mock: MockAgentClient) -> None:
    """MTR-152."""
    mock.responses.queue(reply.assistant("4 EUR."))

    assert await shop.ask("How much?") == "4 EUR."


TRANSCRIPT = """\
thread t-1: idle
messages
  msg-1 user (input of run-1)
    text 'x'
  msg-2 assistant (output of run-1)
    step-start
    tool-find {"toolCallId":"call-1","state":"output-available","input":{},"output":1}
runs
  run-1 send: completed
events
    1 message.added
    2 generation.started run-1
    3 msg-2[0] start {"messageId":"msg-2"}
    4 msg-2[1] start-step
    5 msg-2[2] tool-input-available {"toolCallId":"call-1","toolName":"find","input":{}}
    6 msg-2[3] tool-output-available {"toolCallId":"call-1","output":1}
    7 msg-2[4] finish-step
    8 msg-2[5] finish {"finishReason":"stop"}
    9 generation.completed run-1
"""


async def test_a_transcript_is_the_same_in_every_run() -> None:
    for _ in range(2):
        async with create_mock_agent_client() as mock:
            mock.responses.queue(reply.assistant(reply.tool("find").result(input={}, output=1)))
            await mock.client.thread("t-1").send("x")

            assert mock.inspect.transcript("t-1") == TRANSCRIPT
            assert mock.inspect.transcript("t-2") == "thread t-2: none\n"
            assert len(event_types(mock)) == 9
