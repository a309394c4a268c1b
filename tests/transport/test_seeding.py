"""Seeds: what they become, and what no backend could hold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from chatagent.protocol import ownership_of
from chatagent.ui import DataUIPart, TextUIPart, ToolUIPart
from chatagent_test import MockAgentClient, SeedError, SeedThread, VirtualClock, create_mock_agent_client, given, reply
from transport.following import last_tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.client import Thread

pytestmark = pytest.mark.anyio

WAITING = given.tool("refund_order").waiting(
    input={"order": 7}, action=given.action("approval", input={"amount": 120}, action_id="act-9")
)
RETURNS = given.thread(
    "t-1",
    given.run(
        given.input("Refund order 7."),
        given.context("Refunds over 100 EUR need a manager.", role="system"),
        given.output("I need your approval.", WAITING),
        run_id="run-refund",
    ),
    title="Return of order 7",
    metadata={"customer": "c-9"},
)


def owner(mock: MockAgentClient, index: int = 0):
    snapshot = mock.inspect.thread("t-1")
    assert snapshot is not None
    message = snapshot.messages[index]
    stated = ownership_of(message)
    return message.role, stated.relation, stated.producer, stated.run_id


async def test_a_thread_is_stored_as_it_is_given(mock: MockAgentClient) -> None:
    """MTR-030, MTR-031, MTR-036: messages and runs are two collections; the run has its given id."""
    mock.seed(RETURNS)

    snapshot = mock.inspect.thread("t-1")

    assert snapshot is not None
    assert (snapshot.thread.title, snapshot.thread.metadata) == ("Return of order 7", {"customer": "c-9"})
    assert [message.text for message in snapshot.messages][:2] == [
        "Refund order 7.",
        "Refunds over 100 EUR need a manager.",
    ]
    assert [run.run_id for run in snapshot.runs] == ["run-refund"]
    assert mock.inspect.events("t-1") == ()


async def test_builders_set_role_relation_and_producer(mock: MockAgentClient) -> None:
    """MTR-032, MTR-033, MTR-034, MTR-036."""
    mock.seed(
        given.thread(
            "t-1", given.run(given.input("a"), given.context("b", role="system"), given.output(given.text("c")))
        )
    )

    assert owner(mock, 0) == ("user", "input", "user", "run-1")
    assert owner(mock, 1) == ("system", "context", "lifecycle", "run-1")
    assert owner(mock, 2) == ("assistant", "output", "model", "run-1")


async def test_a_run_owns_its_messages_in_order(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-035, MTR-041."""
    run = given.run(given.input("1"), given.output("2"), given.context("3"), given.output("4"))
    mock.seed(given.thread("t-1", run))

    state = await thread.refresh()

    assert [message.text for message in state.messages] == ["1", "2", "3", "4"]
    assert {message.run_id for message in state.messages} == {"run-1"}
    assert state.messages[2].relation == "context"


async def test_a_run_needs_an_input(mock: MockAgentClient) -> None:
    """MTR-037: and a seed that is refused leaves everything as it was, ids too."""
    text = "thread 't-1': a run has no input message; start it with given.input(...)"

    with pytest.raises(SeedError, match=f"^{re.escape(text)}$"):
        mock.seed(given.thread("t-2", given.run(given.input("y"))), given.thread("t-1", given.run(given.output("x"))))

    assert mock.inspect.threads() == ()
    mock.seed(given.thread("t-1", given.run(given.input("x"))))
    assert owner(mock)[3] == "run-1"


async def test_native_parts_are_stored_unchanged(mock: MockAgentClient) -> None:
    """MTR-038."""
    raw = {"type": "source-url", "sourceId": "s", "url": "https://example.org", "custom": [1]}
    mock.seed(given.thread("t-1", given.run(given.input("x"), given.assistant(raw))))

    snapshot = mock.inspect.thread("t-1")

    assert snapshot is not None
    assert snapshot.messages[1].to_wire()["parts"] == [raw]


async def test_a_standalone_message_has_no_run(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-039."""
    mock.seed(
        given.thread("t-1", given.standalone(given.message("assistant", "Welcome.")), given.run(given.input("x")))
    )

    state = await thread.refresh()

    assert owner(mock, 0) == ("assistant", "standalone", "model", None)
    assert state.messages[0].run_id is None


async def test_parts_are_known_by_call_by_data_id_and_by_order(mock: MockAgentClient) -> None:
    """MTR-040: texts have no id of their own."""
    parts = (
        "one",
        given.tool("a").result(input={}, output=1),
        given.tool("b", "call-x").result(input={}, output=2),
        DataUIPart(type="data-n", id="d-1", data=1),
        DataUIPart(type="data-n", id="d-2", data=2),
        "two",
    )
    mock.seed(given.thread("t-1", given.run(given.input("x"), given.output(*parts))))

    snapshot = mock.inspect.thread("t-1")

    assert snapshot is not None
    stored = snapshot.messages[1].parts
    assert [part.tool_call_id for part in stored if isinstance(part, ToolUIPart)] == ["call-1", "call-x"]
    assert [part.id for part in stored if isinstance(part, DataUIPart)] == ["d-1", "d-2"]
    assert [part.to_wire() for part in stored if isinstance(part, TextUIPart)] == [
        {"type": "text", "text": "one", "state": "done"},
        {"type": "text", "text": "two", "state": "done"},
    ]


async def test_a_trigger_and_its_input_belong_together(mock: MockAgentClient) -> None:
    """MTR-042, MTR-043, MTR-044, MTR-045."""
    by_trigger = given.input("tick", producer="trigger")
    for run in (given.run(by_trigger), given.run(given.input("x"), initiator="trigger")):
        with pytest.raises(SeedError, match=r"producer='trigger' and initiator='trigger' belong together$"):
            mock.seed(given.thread("t-1", run))

    mock.seed(
        given.thread(
            "t-1",
            given.run(by_trigger, given.output("y", producer="lifecycle"), initiator="trigger"),
            given.run(given.input("z")),
        )
    )

    snapshot = mock.inspect.thread("t-1")
    assert snapshot is not None
    assert [run.initiator for run in snapshot.runs] == ["trigger", "send"]
    assert (owner(mock, 0)[2], owner(mock, 1)[2]) == ("trigger", "lifecycle")


async def test_a_call_that_waits_is_a_tool_part_and_a_reserved_one(mock: MockAgentClient) -> None:
    """MTR-046, MTR-047, MTR-051: the action is derived from the parts."""
    mock.seed(RETURNS)

    snapshot = mock.inspect.thread("t-1")

    assert snapshot is not None
    call, mark = snapshot.messages[2].parts[-2:]
    assert isinstance(call, ToolUIPart)
    assert call.state == "input-available"
    assert mark.type == "data-chatagent-suspension"
    (action,) = snapshot.actions
    assert (action.action_id, action.message_id, action.tool_call_id) == ("act-9", snapshot.messages[2].id, "call-1")


async def test_the_view_has_the_question_on_its_call(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-048, MTR-052, MTR-053: and no reserved part."""
    mock.seed(RETURNS)

    state = await thread.refresh()

    (part,) = state.messages[2].tool_parts
    assert len(part.suspensions) == 1
    assert part.pending_suspension is part.suspensions[0]
    assert [each.type for each in state.messages[2].parts] == ["text", "tool-refund_order"]
    assert state.thread.status == "waiting"
    stored = mock.inspect.thread("t-1")
    assert stored is not None
    assert "data-chatagent-suspension" in {each.type for each in stored.messages[2].parts}


async def test_a_pending_action_belongs_to_one_message(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-049, MTR-050: and its answer resumes the run."""
    mock.seed(RETURNS)
    mock.responses.queue(reply.assistant("Recorded."))
    state = await thread.refresh()
    (part,) = state.messages[2].tool_parts

    other = thread.get_pending_action(state.messages[0], part)
    action = thread.get_pending_action(state.messages[2], part)

    assert other is None
    assert action is not None
    result = await action.submit({"approved": True})
    assert result.run is not None
    assert result.run.run_id == "run-refund"
    assert (await result.run.wait_until_idle()).messages[-1].text == "I need your approval.Recorded."


async def test_ids_that_nobody_gives_are_counted(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-051: past those that are taken."""
    taken = given.tool("a", "call-1").result(input={}, output=1)
    mock.seed(given.thread("t-1", given.run(given.input("x"), given.output(taken, WAITING_BY_DEFAULT), run_id="run-1")))

    await thread.refresh()

    assert last_tool(mock).tool_call_id == "call-2"
    assert thread.pending_actions[0].action_id == "action-1"
    assert (await thread.send("y")).run_id == "run-2"


WAITING_BY_DEFAULT = given.tool("refund_order").waiting(input={}, action=given.action("approval", input={}))


async def test_reset_begins_anew(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-054, MTR-055: store, queue, watches, log and ids; then the new seeds are there."""
    mock.responses.queue(reply.assistant("one"), reply.assistant("two"))
    await thread.send("x")
    mock.files.add(filename="a", media_type="text/plain", body=b"a")
    async with thread.watch() as updates:
        await anext(updates)
        mock.reset(given.thread("t-2", given.run(given.input("y"))))

        with pytest.raises(StopAsyncIteration):
            await anext(updates)

    assert [snapshot.thread.thread_id for snapshot in mock.inspect.threads()] == ["t-2"]
    assert (mock.responses.size(), mock.inspect.files(), mock.inspect.requests.all()) == (0, (), ())
    run = await thread.send("again")
    assert (run.run_id, thread.get_state().messages[0].message_id) == ("run-2", "msg-2")
    mock.reset()
    run = await thread.send("once more")
    assert (run.run_id, [message.message_id for message in thread.get_state().messages]) == ("run-1", ["msg-1"])


async def test_seeded_files_can_be_read(mock: MockAgentClient) -> None:
    """MTR-056, MTR-057, MTR-143."""
    mock.seed(given.file("file-slip", filename="slip.pdf", media_type="application/pdf", body=b"%PDF"))

    content = await mock.client.files.read("file-slip")

    assert (content.body, content.info.filename) == (b"%PDF", "slip.pdf")
    assert [info.file_id for info in mock.inspect.files()] == ["file-slip"]


async def test_reset_sets_the_clock_back_and_leaves_nobody_asleep(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("a", reply.pause(60), "b"))
    await thread.send("x")
    await mock.advance(30)
    mock.faults.delay_admission(60)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(thread.send, "y")
        await anyio.wait_all_tasks_blocked()
        mock.reset()

    assert mock.transport.clock.now() == VirtualClock().now()
    assert [message.text for message in thread.get_state().messages] == ["y"]


REFUSED = {
    "waiting without a call that waits": (
        given.thread("t-1", given.run(given.input("x"), status="waiting")),
        r"is waiting, but no tool call of it waits; use given\.tool",
    ),
    "completed with a call that waits": (
        given.thread("t-1", given.run(given.input("x"), given.output(WAITING), status="completed")),
        r"is completed, but its call 'call-1' of tool 'refund_order' waits for 'refund_order\.approval'",
    ),
    "two runs at work": (
        given.thread("t-1", given.run(given.input("x"), status="running"), given.run(given.input("y"))),
        r"only the last run may be at work, and only queued ones come behind it: run-1 \(running\), run-2 \(comp",
    ),
    "a message id twice": (
        given.thread("t-1", given.run(given.input("x", message_id="m"), given.output("y", message_id="m"))),
        r"the message id 'm' is there twice",
    ),
    "an answer to nothing": (
        given.thread("t-1", given.run(initiator="retry", answers="nope")),
        r"run 'run-1' answers 'nope', which is not there",
    ),
    "a retry without what it answers": (
        given.thread("t-1", given.run(given.output("x"), initiator="retry")),
        r"has no input message; name what it answers with answers=",
    ),
    "a standalone message in a run": (
        given.thread("t-1", given.run(given.input("x"), given.standalone(given.message("user", "y")))),
        r"stands alone; put it beside the run, into given\.thread",
    ),
    "an input outside a run": (given.thread("t-1", given.input("x")), r"belongs to a run; put it into given\.run"),
    "an output asked for with another input": (
        given.thread(
            "t-1",
            given.run(
                given.input("x"),
                given.output(given.tool("pick").waiting(input={"a": 1}, action=given.action("output", {"b": 2}))),
            ),
        ),
        r"the action `output` asks for the tool's own output",
    ),
    "a queued run behind none at work": (
        given.thread("t-1", given.run(given.input("x")), given.run(given.input("y"), status="queued")),
        r"only the last run may be at work, and only queued ones come behind it: run-1 \(completed\), run-2 \(queued\)",
    ),
    "a call id twice in a message": (
        given.thread("t-1", given.run(given.input("x"), given.output(*[given.tool("a", "c-1").running({})] * 2))),
        r"the call id 'c-1' is there twice",
    ),
    "an action id twice": (
        given.thread("t-1", given.run(given.input("x"), given.output(WAITING, WAITING))),
        r"the action id 'act-9' is there twice",
    ),
    "a status that there is not": (
        given.thread("t-1", given.run(given.input("x"), status=cast("Any", "complete"))),
        r"a run: status='complete'; did you mean 'completed'\?$",
    ),
    "an initiator that there is not": (
        given.thread("t-1", given.run(given.input("x"), initiator=cast("Any", "cron"))),
        r"a run: initiator='cron'; did you mean 'action'\?$",
    ),
    "an answer that the user wrote": (
        given.thread("t-1", given.run(given.input("x"), given.output("y", producer="user"))),
        r"given\.output\(given\.text\('y'\), producer='user'\): its producer is model or lifecycle, not 'user'$",
    ),
    "context of the assistant": (
        given.thread("t-1", given.run(given.input("x"), given.context("y", role="assistant"))),
        r"given\.context\('y', role='assistant'\): its role is system or user, not 'assistant'$",
    ),
    "an id with a space": (given.thread("t 1"), r"give a text of 1 to 128 characters without white space"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_no_backend_could_hold_is_refused(mock: MockAgentClient, name: str) -> None:
    seed, text = REFUSED[name]

    with pytest.raises(SeedError, match=text):
        mock.seed(seed)

    assert mock.inspect.threads() == ()
    assert (await mock.client.thread("t-1").send("x")).run_id == "run-1", "it has used up no id"


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: given.thread("t-1", metadata={"at": object()}), r"is no JSON data, and nothing that pydantic makes"),
        (lambda: given.tool("find").result({"n": float("nan")}, 1), r"JSON has neither nan nor infinity$"),
        (lambda: given.assistant({"type": "text"}), r"^\{'type': 'text'\} is no part of a message: "),
        (lambda: given.tool(""), r"^given\.tool\(''\): a tool has a name$"),
    ],
    ids=["no JSON", "no number", "no part", "no name"],
)
def test_what_no_wire_could_carry_is_refused_by_the_word_itself(build: Callable[[], object], text: str) -> None:
    with pytest.raises(SeedError, match=text):
        build()


async def test_a_failed_run_leaves_the_error_that_can_be_retried(mock: MockAgentClient, thread: Thread) -> None:
    mock.seed(given.thread("t-1", given.run(given.input("x"), error="down")))
    mock.responses.queue(reply.assistant("better"))

    failed = (await thread.refresh()).error
    await thread.retry()

    assert failed is not None
    assert (failed.message, failed.operation) == ("down", "send")
    assert thread.get_state().messages[-1].text == "better"


async def test_a_seeded_run_at_work_goes_on_with_the_next_script(mock: MockAgentClient, thread: Thread) -> None:
    mock.seed(given.thread("t-1", given.run(given.input("x"), status="running", run_id="run-9")))
    await thread.refresh()

    mock.responses.queue(reply.assistant("there"))

    state = await thread.run("run-9").wait_until_idle()
    assert state.messages[-1].text == "there"


async def test_seeding_again_is_seen_by_a_refresh_and_as_a_gap(mock: MockAgentClient, thread: Thread) -> None:
    mock.seed(given.thread("t-1", given.run(given.input("old"))))
    await thread.refresh()
    mock.seed(given.thread("t-1", given.run(given.input("new"))))
    unseen = thread.get_state().messages[0].text

    refreshed = await thread.refresh()
    mock.seed(given.thread("t-1", given.run(given.input("newer"))))
    await thread.send("next")

    assert (unseen, refreshed.messages[0].text) == ("old", "new")
    assert [message.text for message in thread.get_state().messages] == ["newer", "next"]


def test_a_seed_is_a_value_that_shows_its_own_code() -> None:
    made: SeedThread = eval(repr(RETURNS), {"given": given, "reply": reply})

    assert made == RETURNS
    assert repr(made) == repr(RETURNS)


async def test_one_seed_serves_many_mocks_with_the_same_ids() -> None:
    found: list[object] = []
    for _ in range(2):
        async with create_mock_agent_client() as mock:
            mock.seed(RETURNS)
            found.append(mock.inspect.thread("t-1"))

    assert found[0] == found[1]


async def test_a_recorded_thread_makes_a_seed(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(
        reply.assistant("a", reply.tool("find").result(input={}, output=1), "b"),
        reply.error("down"),
        reply.assistant(reply.tool("pick").waiting(input={}, action=reply.action("output"))),
    )
    for text in ("x", "y", "z"):
        await thread.send(text)
    recorded = mock.inspect.thread("t-1")
    assert recorded is not None

    async with create_mock_agent_client() as other:
        other.seed(given.from_snapshot(recorded))
        again = await other.client.thread("t-1").refresh()

    now = thread.get_state()
    assert again.messages == now.messages
    assert again.pending_actions == now.pending_actions
    assert [(run.run_id, run.status) for run in again.runs] == [(run.run_id, run.status) for run in now.runs]
