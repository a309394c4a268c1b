"""What the mock adds: strict ends, virtual time, faults, scripts for threads, responders, recordings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from chatagent.clock import SystemClock
from chatagent.errors import WaitTimeoutError
from chatagent.protocol import RunWaitTimeoutError, SendRequest, TransportUnavailableError
from chatagent_test import (
    MockAgentClient,
    MockConfigError,
    ScriptError,
    SeedError,
    UnusedScriptsError,
    VirtualClock,
    create_mock_agent_client,
    given,
    reply,
)
from transport.following import chunks, event_types

if TYPE_CHECKING:
    from chatagent.client import Thread

pytestmark = pytest.mark.anyio


async def test_scripts_that_nobody_claimed_fail_the_test() -> None:
    mock = create_mock_agent_client()
    mock.responses.queue(reply.assistant("never"))
    mock.responses.for_thread("t-9").stream()
    mock.faults.fail_next("send", ValueError("x"))

    with pytest.raises(UnusedScriptsError) as caught:
        await mock.__aexit__(None, None, None)

    lines = str(caught.value).splitlines()
    assert lines[0] == "3 unused or unexpected at the end of the test:"
    assert re.fullmatch(r"  - reply\.assistant\('never'\), queued at test_beyond\.py:\d+", lines[1])
    assert re.fullmatch(
        r"  - mock\.responses\.stream\(\) \(for thread 't-9'\), queued at test_beyond\.py:\d+", lines[2]
    )
    assert re.fullmatch(r"  - faults\.fail_next\('send', .*\), 1 left, said at test_beyond\.py:\d+", lines[3])


async def test_the_end_check_hides_nothing_and_can_be_turned_off() -> None:
    async def fail() -> None:
        async with create_mock_agent_client() as mock:
            mock.responses.queue(reply.assistant("never"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with create_mock_agent_client(strict=False) as mock:
        mock.responses.queue(reply.assistant("never"))
    async with create_mock_agent_client() as mock:
        await mock.client.thread("t-1").send("left running on purpose")


async def test_a_pause_ends_when_the_clock_has_moved_on(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("a", reply.pause(3600), "b"))
    run = await thread.send("x")

    await mock.advance(3599)
    before = (run.status, thread.get_state().messages[-1].text)
    await mock.advance(1)

    assert before == ("running", "a")
    assert (run.status, thread.get_state().messages[-1].text) == ("completed", "ab")
    assert mock.inspect.events("t-1")[-1].at.hour == 1


async def test_a_pause_that_is_aborted_does_not_go_on(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("a", reply.pause(10), "b"))
    run = await thread.send("x")
    await run.abort()

    await mock.advance(10)

    assert (run.status, event_types(mock)[-1]) == ("aborted", "generation.aborted")


async def test_a_real_clock_cannot_be_moved() -> None:
    async with create_mock_agent_client(clock=SystemClock()) as mock:
        with pytest.raises(ScriptError, match=r"part 1: reply\.pause\(1\): the mock's clock is a real one"):
            mock.responses.queue(reply.assistant(reply.pause(1)))
        with pytest.raises(MockConfigError, match=r"^advance\(\): the mock's clock is a real one"):
            await mock.advance(1)


async def test_the_application_survives_a_lost_connection(mock: MockAgentClient, thread: Thread) -> None:
    mock.faults.fail_next("send", TransportUnavailableError(operation="send"))
    with pytest.raises(TransportUnavailableError, match=r"repeating the call with the same request_id is safe$"):
        await thread.send("hi", request_id="once")

    mock.responses.queue(reply.assistant("Back again."))
    run = await thread.send("hi", request_id="once")

    assert await run.text() == "Back again."
    assert len(thread.get_state().messages) == 2


async def test_a_lost_event_is_repaired_by_one_read(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("whole"))
    await thread.refresh()
    reads = len(mock.inspect.requests.get_thread())
    mock.faults.lose_next_event("t-1")

    run = await thread.send("x")

    assert await run.text() == "whole"
    assert len(mock.inspect.requests.get_thread()) == reads + 1


async def test_a_repeated_event_changes_nothing(mock: MockAgentClient, thread: Thread) -> None:
    mock.faults.repeat_next_event("t-1")
    mock.responses.queue(reply.assistant("once"))

    await thread.send("x")

    assert [message.text for message in thread.get_state().messages] == ["x", "once"]


async def test_an_admission_can_take_time(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant("late"))
    mock.faults.delay_admission(5)
    before = thread
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(thread.send, "x")
        clock = mock.transport.clock
        assert isinstance(clock, VirtualClock)
        await clock.wait_sleeping(1)
        before = mock.inspect.thread("t-1")
        await mock.advance(5)

    assert before is None
    assert thread.get_state().messages[-1].text == "late"


async def test_faults_name_operations_that_there_are(mock: MockAgentClient) -> None:
    with pytest.raises(
        MockConfigError, match=r"^faults\.fail_next\('sent'\): no such operation; did you mean 'send'\?$"
    ):
        mock.faults.fail_next("sent", ValueError())


def test_faults_that_nobody_could_meet_are_refused(mock: MockAgentClient) -> None:
    with pytest.raises(MockConfigError, match=r"^faults\.fail_next\('send', times=0\): at least one call fails$"):
        mock.faults.fail_next("send", ValueError(), times=0)
    with pytest.raises(MockConfigError, match=r"^faults\.delay_admission\(-1\): a delay is 0 seconds or more$"):
        mock.faults.delay_admission(-1)


async def test_a_wait_that_takes_too_long_says_what_it_waits_for() -> None:
    async with create_mock_agent_client(wait_timeout=0.01) as mock:
        thread = mock.client.thread("t-1")
        run = await thread.send("x")
        text = (
            "run 'run-1' of thread 't-1' is running after 0.01 s of waiting; no script was claimed by run 'run-1'; "
            "0 are queued - call mock.responses.queue(...)"
        )
        with pytest.raises(RunWaitTimeoutError, match=f"^{re.escape(text)}$"):
            await run.wait_until_idle()
        response = mock.responses.stream()
        response.text()
        with pytest.raises(
            WaitTimeoutError, match=r"a streamed response plays in run 'run-1'; open parts: text 'text-1'"
        ):
            await run.wait_until_idle()


async def test_a_wait_for_a_run_that_waits_for_the_client_says_so() -> None:
    async with create_mock_agent_client(wait_timeout=0.01) as mock:
        mock.responses.queue(reply.assistant(reply.tool("refund").approval({"order": 7})))
        run = await mock.client.thread("t-1").send("x")

        with pytest.raises(RunWaitTimeoutError) as caught:
            await run.wait_until_idle()

    assert str(caught.value) == (
        "run 'run-1' of thread 't-1' is waiting after 0.01 s of waiting; pending actions: approval-1, which somebody "
        "has to answer; `wait()` returns when a run waits for that"
    )


async def test_scripts_for_a_thread_go_before_the_common_ones(mock: MockAgentClient) -> None:
    mock.responses.queue(reply.assistant("common"))
    mock.responses.for_thread("t-2").queue(reply.assistant("two"))
    sizes = (mock.responses.size(), mock.responses.for_thread("t-2").size(), mock.responses.for_thread("t-3").size())

    answers = {name: await (await mock.client.thread(name).send("x")).text() for name in ("t-2", "t-1")}

    assert sizes == (2, 1, 0)
    assert answers == {"t-2": "two", "t-1": "common"}


async def test_a_responder_answers_when_nothing_is_queued(mock: MockAgentClient, thread: Thread) -> None:
    def respond(request: object):
        return reply.assistant(request.message.text.upper()) if isinstance(request, SendRequest) else None

    mock.responses.respond(respond)
    mock.responses.queue(reply.assistant("queued"))

    texts = [await (await thread.send(text)).text() for text in ("one", "two")]

    assert texts == ["queued", "TWO"]


async def test_a_recorded_run_makes_a_script(mock: MockAgentClient, thread: Thread) -> None:
    script = reply.assistant(
        reply.text("Look: now", chunks=["Look: ", "now"]),
        reply.tool("find", "call-x").result(input={"q": 1}, output=2),
        reply.tool("find", "call-y").error("down", {"q": 2}),
        "so",
        reply.reasoning("hm"),
        reply.data("note", {"a": 1}, "n"),
        reply.source_url("https://example.org", "There"),
        reply.file("data:text/plain,x", "text/plain"),
        reply.tool("refund", "call-z").waiting(input={}, action=reply.action("approval", {"n": 1}, "act-1")),
    )
    mock.responses.queue(script)
    await thread.send("x")
    recorded = reply.from_events(mock.inspect.events("t-1"))

    async with create_mock_agent_client() as other:
        other.responses.queue(recorded)
        again = other.client.thread("t-1")
        await again.send("x")

        assert again.get_state().messages == thread.get_state().messages
        assert chunks(other) == chunks(mock)
    mock.responses.queue(reply.error("boom", "code"))
    await thread.send("y")
    assert reply.from_events(mock.inspect.events("t-1")) == reply.error("boom", "code")


SCRIPTS = [
    reply.assistant(
        "a", reply.text("bc", chunks=["b", "c"]), message_id="m", metadata={"x": 1}, finish_reason="length"
    ),
    reply.assistant(
        reply.reasoning("r"),
        reply.tool("t").result(input={"a": 1}, output=[1]),
        reply.tool("t", "c").error("e", {"a": 1}),
        reply.tool("t").waiting(input={}, action=reply.action("q", {"x": 1}, action_id="i")),
        reply.tool("t").waiting(input={}, action=reply.action("output")),
        reply.tool("t").waiting(input={}, action=reply.action("output", 1, declared_suspend=True)),
        reply.tool("t").approval({}, "ap"),
        reply.tool("t").resolved(1),
        reply.tool("t").resolved_error("x"),
        reply.data("d", 1, "i"),
        reply.data("d", 1, transient=True),
        reply.file("u", "m"),
        reply.source_url("u", "t"),
        reply.step(),
        reply.pause(1),
    ),
    reply.error("e", "c"),
    reply.nothing(),
]


@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
def test_scripts_are_values_that_show_their_own_code(script: object) -> None:
    made = eval(repr(script), {"reply": reply})

    assert made == script
    assert repr(made) == repr(script)


async def test_a_script_cannot_be_changed_from_outside(mock: MockAgentClient, thread: Thread) -> None:
    given_input: dict[str, object] = {"q": [1]}
    script = reply.assistant(reply.tool("find").result(input=given_input, output=1))
    given_input["q"] = "changed"
    mock.responses.queue(script, script)
    await thread.send("x")
    part: Any = thread.get_state().messages[-1].tool_parts[0]
    part.input["q"] = "changed"

    await thread.send("y")

    assert thread.get_state().messages[-1].tool_parts[0].input == {"q": [1]}


REFUSED = {
    "a tool without outcome": lambda: reply.assistant(reply.tool("t")),  # pyright: ignore[reportArgumentType]
    "chunks that are not the text": lambda: reply.text("ab", chunks=["a"]),
    "a negative pause": lambda: reply.pause(-1),
    "reserved data": lambda: reply.data("chatagent-x", 1),
    "reserved metadata": lambda: reply.assistant(metadata={"chatagent": 1}),
    "a value that is no JSON": lambda: reply.data("d", object()),
    "a number that JSON has not": lambda: reply.tool("t").result({"n": float("inf")}, 1),
    "data without a name": lambda: reply.data("", 1),
    "a tool without a name": lambda: reply.tool(""),
    "no part": lambda: reply.assistant(7),  # pyright: ignore[reportArgumentType]
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_agent_says_is_refused_by_the_word_itself(name: str) -> None:
    with pytest.raises(ScriptError, match=r"^reply\.|is no JSON data"):
        REFUSED[name]()


FOUND = reply.tool("find", "c-1").result({}, 1)
ASKED = reply.tool("ask").waiting({}, reply.action("approval", {}, action_id="a-1"))
ALIKE = {
    "calls": (reply.assistant(FOUND, FOUND), r"reply\.assistant: the call id 'c-1' is there twice$"),
    "questions": (reply.assistant(ASKED, ASKED), r"reply\.assistant: the action id 'a-1' is there twice$"),
    "approvals": (
        reply.assistant(*[reply.tool("pay").approval({}, "ok-1")] * 2),
        r"reply\.assistant: the approval id 'ok-1' is there twice$",
    ),
}


@pytest.mark.parametrize("name", ALIKE)
async def test_two_of_one_id_in_an_answer_are_refused(mock: MockAgentClient, name: str) -> None:
    script, text = ALIKE[name]

    with pytest.raises(ScriptError, match=text):
        mock.responses.queue(script)

    assert mock.responses.size() == 0


async def test_an_end_that_no_model_has_is_refused(mock: MockAgentClient) -> None:
    with pytest.raises(
        ScriptError, match=r"reply\.assistant\(finish_reason='done'\): there is no such reason; there are"
    ):
        mock.responses.queue(reply.assistant("x", finish_reason=cast("Any", "done")))


def test_a_tool_call_without_an_outcome_says_what_to_add() -> None:
    with pytest.raises(
        ScriptError, match=r"^reply\.assistant: part 1 is reply\.tool\('t'\); say what comes of it, such as"
    ):
        reply.assistant("x", cast("Any", reply.tool("t")))
    with pytest.raises(SeedError, match=r"^given\.tool\('t'\) has no state; say one, such as \.result\(\.\.\.\)$"):
        given.output(cast("Any", given.tool("t")))


async def test_no_script_at_all_is_refused(mock: MockAgentClient) -> None:
    with pytest.raises(ScriptError, match=r"^test_beyond\.py:\d+: 'hello' is no script; give what reply\.assistant"):
        mock.responses.queue("hello")  # pyright: ignore[reportArgumentType]


async def test_a_script_that_does_not_fit_its_run_stays_queued(mock: MockAgentClient, thread: Thread) -> None:
    mock.responses.queue(reply.assistant(reply.tool("find").resolved(1)))

    with pytest.raises(
        ScriptError, match=r"the run that claims this script has no open call of tool 'find'; open calls: n"
    ):
        await thread.send("x")

    assert (mock.inspect.thread("t-1"), mock.responses.size()) == (None, 1)
    mock.responses.clear()
    mock.responses.queue(reply.assistant("x", message_id="m"), reply.assistant("y", message_id="m"))
    await thread.send("x")
    with pytest.raises(ScriptError, match=r"thread 't-1' has a message of this id already$"):
        await thread.send("y")
    mock.responses.clear()


async def test_resumed_runs_settle_what_waited(mock: MockAgentClient, thread: Thread) -> None:
    waiting = given.tool("review").waiting(input={"n": 1}, action=given.action("approval", {}))
    mock.seed(given.thread("t-1", given.run(given.input("x"), given.output(waiting))))
    await thread.refresh()
    mock.responses.queue(reply.assistant(reply.tool("review").resolved_error("refused"), "Sorry."))

    await thread.pending_actions[0].submit({"ok": False})

    assert [chunk["type"] for chunk in chunks(mock)] == [
        *["data-chatagent-suspension", "start", "tool-output-error", "start-step"],
        *["text-start", "text-delta", "text-end", "finish-step", "finish"],
    ]
    assert thread.get_state().messages[-1].tool_parts[0].error_text == "refused"


async def test_steps_are_where_a_model_call_begins(mock: MockAgentClient, thread: Thread) -> None:
    tool = reply.tool("t").result(input={}, output=1)
    mock.responses.queue(reply.assistant(tool, tool, reply.data("d", 1), "text"), reply.assistant("text", tool))

    await thread.send("x")
    await thread.send("y")

    found = [
        [part.type for part in message.parts] for message in thread.get_state().messages if message.role == "assistant"
    ]
    assert found == [
        ["step-start", "tool-t", "tool-t", "data-d", "step-start", "text"],
        ["step-start", "text", "tool-t"],
    ]


async def test_many_queued_runs_are_answered_in_one_go(mock: MockAgentClient, thread: Thread) -> None:
    runs = [await thread.send(str(number)) for number in range(400)]

    mock.responses.queue(*(reply.assistant("ok") for _ in runs))

    assert {run.status for run in runs} == {"completed"}
