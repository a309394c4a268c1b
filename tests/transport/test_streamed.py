"""Answers that the test plays by hand."""

from __future__ import annotations

import json
import time

import anyio
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from chatagent.client import Thread
from chatagent.protocol import project
from chatagent.ui import DataUIPart, TextUIPart
from chatagent_test import (
    MockAgentClient,
    ResponseDetachedError,
    ResponseEndedError,
    ResponseNotStartedError,
    ResponseStarted,
    ScriptError,
    StreamedResponse,
    create_mock_agent_client,
    reply,
)
from transport.following import chunks, last_call, last_message, last_tool, reduced_log

pytestmark = pytest.mark.anyio

Started = tuple[MockAgentClient, Thread, StreamedResponse]


@pytest.fixture
async def started(mock: MockAgentClient, thread: Thread) -> Started:
    """A streamed response that a run has claimed."""
    response = mock.responses.stream()
    await thread.send("Compare both offers.")
    return mock, thread, response


async def test_a_send_claims_the_response_that_is_queued(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-090."""
    response = mock.responses.stream()
    run = await thread.send("x")

    assert await response.wait_until_started() == ResponseStarted("t-1", run.run_id)


async def test_a_run_that_waits_claims_the_response_at_once(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-091."""
    run = await thread.send("x")

    response = mock.responses.stream()
    await response.write_text("late")
    await response.complete()

    assert await run.text() == "late"


async def test_the_start_can_be_waited_for(mock: MockAgentClient, thread: Thread) -> None:
    """MTR-092."""
    response = mock.responses.stream()
    started: ResponseStarted | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(thread.send, "x")
        with anyio.fail_after(5):
            started = await response.wait_until_started()

    assert started == ResponseStarted("t-1", "run-1")


@pytest.mark.parametrize("operation", ["retry", "regenerate"])
async def test_other_generations_claim_it_too(mock: MockAgentClient, thread: Thread, operation: str) -> None:
    """MTR-093."""
    mock.responses.queue(reply.error("down"))
    await thread.send("x")
    response = mock.responses.stream()

    run = await (thread.retry() if operation == "retry" else thread.regenerate())
    await response.write_text("again")
    await response.complete()

    assert await run.text() == "again"


async def test_a_text_grows_delta_by_delta(started: Started) -> None:
    """MTR-094, MTR-095."""
    _, thread, response = started

    text = response.text()
    await text.delta("Offer A")
    part = thread.get_state().messages[-1].parts[-1]
    status = thread.get_state().runs[-1].status
    await text.delta(" wins")
    await text.end()
    await response.complete()

    assert isinstance(part, TextUIPart)
    assert (part.text, part.state, status) == ("Offer A", "streaming", "running")
    state = thread.get_state()
    assert (state.messages[-1].text, state.runs[-1].status) == ("Offer A wins", "completed")


async def test_a_text_block_must_be_ended(started: Started) -> None:
    """MTR-096."""
    _, _, response = started

    with pytest.raises(ScriptError, match=r"^the block of text 'text-1' was left without an end: await \.end\(\)"):
        async with response.text() as text:
            await text.delta("x")


async def test_a_tool_block_must_be_settled(started: Started) -> None:
    """MTR-097."""
    _, _, response = started

    with pytest.raises(
        ScriptError, match=r"^the block of tool 'find' \(call-1\) was left without an end: settle it with"
    ):
        async with response.tool("find") as tool:
            await tool.input.available({})


@pytest.mark.parametrize("how", ["output", "waiting", "error", "cancelled"])
async def test_a_tool_can_be_settled_in_each_way(started: Started, how: str) -> None:
    """MTR-098, MTR-105: a cancelled call is a native error."""
    mock, _, response = started

    async with response.tool("find") as tool:
        await tool.input.available({})
        match how:
            case "output":
                await tool.output(1)
            case "waiting":
                await tool.waiting(reply.action("approval", {}))
            case "error":
                await tool.error(RuntimeError("down"))
            case _:
                await tool.cancelled()
    await response.complete()

    part = last_tool(mock)
    states = {"output": "output-available", "waiting": "input-available"}
    assert part.state == states.get(how, "output-error")
    assert part.error_text == {"error": "down", "cancelled": "Tool call cancelled"}.get(how)


async def test_no_other_part_begins_inside_a_block(started: Started) -> None:
    """MTR-099."""
    _, _, response = started

    async with response.tool("find") as tool:
        with pytest.raises(
            ScriptError, match=r"^response\.text\(\): the block of tool 'find' \(call-1\) is on, so a text"
        ):
            response.text()
        await tool.cancelled()


async def test_input_is_streamed_as_it_is_given(started: Started) -> None:
    """MTR-100, MTR-101."""
    mock, thread, response = started

    tool = response.tool("find")
    await tool.input.delta('{"a":')
    await tool.input.delta("1}")
    _, part = last_call(thread)
    await tool.input.available({"a": 1})
    await tool.output("done")

    assert (part.state, part.input) == ("input-streaming", {"a": 1})
    wire = [chunk for chunk in chunks(mock) if str(chunk["type"]).startswith("tool-input")]
    assert [chunk.get("inputTextDelta") for chunk in wire] == [None, '{"a":', "1}", None]
    assert wire[-1]["input"] == {"a": 1}
    await response.complete()


async def test_a_running_tool_needs_its_input(started: Started) -> None:
    """MTR-102, MTR-103: and running emits nothing."""
    mock, _, response = started
    tool = response.tool("find")

    with pytest.raises(ScriptError, match=r"^tool\.running\(\): the input of tool 'find' \(call-1\) is not complete"):
        await tool.running()
    await tool.input.available({})
    before = mock.inspect.events("t-1")
    await tool.running()

    assert mock.inspect.events("t-1") == before
    assert last_tool(mock).state == "input-available"


async def test_a_part_whose_block_was_left_open_keeps_the_response_open(started: Started) -> None:
    mock, _, response = started
    tool = response.tool("find", "c-1")

    with pytest.raises(ScriptError, match=r"was left without an end"):
        async with tool:
            await tool.input.available({})
    with pytest.raises(ScriptError, match=r"^response\.complete\(\): still open: tool 'find' \(c-1\); end or settle"):
        await response.complete()
    await tool.output(1)
    await response.complete()

    assert last_tool(mock).state == "output-available"


async def test_data_with_one_id_is_one_part(started: Started) -> None:
    """MTR-104."""
    mock, _, response = started
    tool = response.tool("find")

    await tool.data("progress", {"percent": 10}, data_id="now")
    await tool.data("progress", {"percent": 50}, data_id="now")

    found = [part for part in last_message(mock).parts if isinstance(part, DataUIPart)]
    assert [(part.type, part.id, part.data) for part in found] == [("data-progress", "now", {"percent": 50})]


async def test_a_whole_tool_call_in_one_line(started: Started) -> None:
    """MTR-107."""
    mock, _, response = started

    await response.write_tool("find", input={"q": 1}, output={"n": 2})
    await response.complete()

    part = last_tool(mock)
    assert (part.state, part.input, part.output) == ("output-available", {"q": 1}, {"n": 2})


@pytest.mark.parametrize("outcomes", [{}, {"output": 1, "error": "x"}], ids=["none", "two"])
async def test_a_call_has_exactly_one_outcome(started: Started, outcomes: dict[str, object]) -> None:
    with pytest.raises(
        ScriptError, match=r"^response\.write_tool\('find'\): give exactly one of output, error, waiting"
    ):
        await started[2].write_tool("find", input={}, **outcomes)  # pyright: ignore[reportArgumentType]


async def test_a_call_that_waits_blocks_the_run_until_its_answer(started: Started) -> None:
    """MTR-108, MTR-109."""
    mock, thread, response = started
    run = thread.active_run()
    assert run is not None

    await response.write_tool("refund", input={"order": 7}, waiting=reply.action("approval", {"amount": 1}))
    await response.complete()
    state = await run.wait_until_blocked()
    mock.responses.queue(reply.assistant("Thanks."))
    action = thread.get_pending_action(*last_call(thread))
    assert action is not None
    result = await action.submit({"approved": True})

    assert state.thread.status == "waiting"
    assert result.run is not None
    assert (await result.run.wait_until_idle()).messages[-1].text == "Thanks."


@settings(deadline=None, max_examples=30)
@for_all(st.dictionaries(st.text(max_size=4), st.text(max_size=6), max_size=3), st.integers(1, 9))
def test_streamed_input_is_cut_into_pieces_of_the_size(value: dict[str, str], size: int) -> None:
    """MTR-110."""

    async def play() -> None:
        async with create_mock_agent_client() as mock, mock.responses.stream() as response:
            await mock.client.thread("t-1").send("x")
            tool = response.tool("find")
            await tool.input.stream(value, chunk_size=size)
            await tool.output(None)
            deltas = [str(chunk["inputTextDelta"]) for chunk in chunks(mock) if "inputTextDelta" in chunk]
            given = chunks(mock)[-2]["input"]
        assert all(len(delta) <= size for delta in deltas)
        assert json.loads("".join(deltas)) == value == given

    anyio.run(play)


async def test_a_delay_between_pieces_moves_the_mocks_clock(started: Started) -> None:
    """MTR-111."""
    mock, _, response = started
    began, really = mock.transport.clock.now(), time.perf_counter()

    tool = response.tool("find")
    await tool.input.stream({"a": "bcde"}, chunk_size=3, delay=0.5)
    await tool.output(1)

    deltas = [chunk for chunk in chunks(mock) if "inputTextDelta" in chunk]
    assert mock.transport.clock.now() - began == 0.5 * (len(deltas) - 1) == 1.5
    assert time.perf_counter() - really < 1.0


async def test_every_step_is_one_numbered_event_and_all_views_agree(started: Started) -> None:
    """MTR-112, MTR-113."""
    mock, thread, response = started

    async def agree() -> None:
        raw = mock.inspect.thread("t-1")
        assert raw is not None
        shown = thread.get_state()
        reduced = reduced_log(mock)
        assert reduced.messages() == raw.messages
        assert shown == reduced.state() == project(raw) == await thread.refresh()
        numbers = [event.seq for event in mock.inspect.events("t-1")]
        assert numbers == list(range(1, len(numbers) + 1))

    text = response.text()
    await agree()
    for delta in ("a", "b"):
        await text.delta(delta)
        await agree()
    await text.end()
    tool = response.tool("find")
    await agree()
    await tool.input.delta('{"a"')
    await agree()
    await tool.input.delta(":1}")
    await tool.input.available()
    await agree()
    await tool.data("progress", 1, data_id="p")
    await tool.output(2)
    await agree()
    thinking = response.reasoning()
    await thinking.delta("hm")
    await agree()
    await thinking.end()
    await response.complete()
    await agree()


async def test_only_complete_ends_the_response(started: Started) -> None:
    """MTR-114."""
    _, thread, response = started

    await response.write_tool("find", input={}, output=1)
    status = thread.get_state().runs[-1].status
    await response.write_text("more")
    await response.write_tool("find", input={}, output=2)
    await response.complete()

    assert status == "running"
    assert len(thread.get_state().messages[-1].tool_parts) == 2


async def test_a_response_can_fail_midway(started: Started) -> None:
    """MTR-115."""
    mock, thread, response = started
    text, tool = response.text(), response.tool("find")
    await text.delta("so far")
    await tool.input.delta("{")

    await response.fail(RuntimeError("cut"), code="broken")

    state = thread.get_state()
    assert state.error is not None
    assert (state.runs[-1].status, state.error.message, state.error.code) == ("failed", "cut", "broken")
    assert [part.to_wire() for part in last_message(mock).parts] == [
        {"type": "step-start"},
        {"type": "text", "text": "so far", "state": "done"},
    ]
    assert chunks(mock)[-1] == {"type": "error", "errorText": "cut"}


async def test_a_response_can_be_aborted(started: Started) -> None:
    """MTR-116."""
    mock, thread, response = started
    await response.write_text("so far")

    await response.abort("user left")

    state = thread.get_state()
    assert (state.runs[-1].status, state.runs[-1].abort_reason) == ("aborted", "user left")
    assert (state.thread.status, state.error) == ("idle", None)
    assert chunks(mock)[-1] == {"type": "abort", "reason": "user left"}


# --- bad use ------------------------------------------------------------------------------------------------------


async def test_nothing_is_played_before_a_run_claims_it(mock: MockAgentClient, thread: Thread) -> None:
    response = mock.responses.stream()

    with pytest.raises(
        ResponseNotStartedError, match=r"^response\.text\(\): no run has claimed this response yet; send"
    ):
        response.text()
    with pytest.raises(ResponseNotStartedError, match=r"^response\.complete\(\)"):
        await response.complete()
    await thread.send("x")
    await response.complete()


async def test_a_response_ends_once(started: Started) -> None:
    _, _, response = started
    await response.complete()

    with pytest.raises(ResponseEndedError, match=r"^response\.complete\(\): the response has ended: it was completed$"):
        await response.complete()
    with pytest.raises(ResponseEndedError, match=r"^response\.text\(\): the response has ended"):
        response.text()


async def test_a_response_is_not_completed_while_a_part_is_open(started: Started) -> None:
    _, _, response = started
    text, tool = response.text(), response.tool("find")

    with pytest.raises(
        ScriptError, match=r"still open: text 'text-1', tool 'find' \(call-1\); end or settle each part"
    ):
        await response.complete()
    await text.end()
    await tool.cancelled()
    await response.complete()


async def test_a_part_ends_once(started: Started) -> None:
    _, _, response = started
    text, tool = response.text(), response.tool("find")
    await text.end()
    await tool.input.available({})
    await tool.output(1)

    with pytest.raises(ScriptError, match=r"^text\.delta\(\): text 'text-1' has ended already: by end\(\)$"):
        await text.delta("x")
    with pytest.raises(ScriptError, match=r"^text\.end\(\): text 'text-1' has ended already"):
        await text.end()
    with pytest.raises(
        ScriptError, match=r"^tool\.output\(\): tool 'find' \(call-1\) has ended already: by output\(\)$"
    ):
        await tool.output(2)
    with pytest.raises(ScriptError, match=r"^tool\.error\(\): tool 'find' \(call-1\) has ended already"):
        await tool.error("x")


async def test_input_says_one_thing(started: Started) -> None:
    tool = started[2].tool("find")
    with pytest.raises(ScriptError, match=r"^tool\.input\.available\(\): there is no text to parse; give the value$"):
        await tool.input.available()
    await tool.input.delta('{"a": 1')

    with pytest.raises(ScriptError, match=r"the deltas are no JSON: '\{\"a\": 1'$"):
        await tool.input.available()
    await tool.input.delta("}")
    with pytest.raises(ScriptError, match=r"^tool\.input\.available\(\{'a': 2\}\): the deltas say \{'a': 1\}$"):
        await tool.input.available({"a": 2})
    await tool.input.available({"a": 1})
    with pytest.raises(ScriptError, match=r"^tool\.input\.delta\(\): the input of tool 'find' \(call-1\) is complete"):
        await tool.input.delta("x")


async def test_the_end_check_of_a_block_never_hides_what_its_body_raised(started: Started) -> None:
    with pytest.raises(ZeroDivisionError):
        async with started[2].text():
            raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        async with started[2].tool("find"):
            raise ZeroDivisionError


async def test_failing_inside_a_block_waives_its_end(started: Started) -> None:
    _, thread, response = started

    async with response.tool("find"):
        await response.fail("cut")

    assert thread.get_state().runs[-1].status == "failed"


async def test_a_block_aborts_the_response_when_its_body_raises(mock: MockAgentClient, thread: Thread) -> None:
    async def fail() -> None:
        async with mock.responses.stream() as response:
            await thread.send("x")
            await response.write_text("so far")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()

    assert thread.get_state().runs[-1].status == "aborted"


async def test_the_clients_abort_is_seen_by_the_response(started: Started) -> None:
    _, thread, response = started
    text = response.text()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(thread.abort, "enough")
        with anyio.fail_after(5):
            await response.wait_until_aborted()

    with pytest.raises(
        ResponseEndedError, match=r"^text\.delta\(\): the response has ended: the client aborted the run$"
    ):
        await text.delta("x")
    assert thread.get_state().runs[-1].abort_reason == "enough"


async def test_a_response_that_is_cleared_or_reset_is_detached(mock: MockAgentClient, thread: Thread) -> None:
    cleared = mock.responses.stream()
    mock.responses.clear()
    playing = mock.responses.stream()
    await thread.send("x")
    mock.reset()

    with pytest.raises(
        ResponseDetachedError, match=r"^the streamed response is detached: it was cleared from the queue"
    ):
        await cleared.wait_until_started()
    with pytest.raises(ResponseDetachedError, match=r"^the streamed response is detached: the mock was reset"):
        playing.text()


async def test_a_delta_that_was_emitted_stays_when_its_call_is_cancelled(started: Started) -> None:
    _, thread, response = started
    text = response.text()

    with anyio.CancelScope() as scope:
        scope.cancel()
        await text.delta("kept")

    assert scope.cancelled_caught
    assert thread.get_state().messages[-1].text == "kept"
    await text.end()
    await response.complete()


async def test_parts_without_blocks_may_be_interleaved(started: Started) -> None:
    mock, _, response = started
    first, second = response.text(), response.text()

    await first.delta("a")
    await second.delta("1")
    await first.delta("b")
    await first.end()
    await second.end()
    await response.complete()

    assert [part.text for part in last_message(mock).parts if isinstance(part, TextUIPart)] == ["ab", "1"]
