"""`transcript`: the same text each time, on each backend, with everything in it that a reader asks for."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from agent.making import agent_of, saying, user
from chatagent import chat, stream_text, tool
from chatagent_test import MockLanguageModel, VirtualClock, mock_chat_agent, script, transcript
from chatagent_test.assertions.normal import Normal

pytestmark = pytest.mark.anyio


def nothing(event: Any) -> None:
    """A hook that only leaves its trace."""


@tool
async def search(query: str) -> str:
    """Search."""
    await chat.sleep(3)
    return f"found {query}"


async def test_everything_is_told_in_order() -> None:
    model = saying(
        script.text("Let me see. ").tool_call("search", {"query": "x"}),
        script.text("It is x.", chunks=["It ", "is ", "x."]),
    )

    async def slow(event: Any) -> None:
        await chat.sleep(1.5)

    agent = agent_of(model, tools={"search": search}, on_boot=nothing, on_turn_start=nothing, on_turn_complete=slow)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("what is x?")
        told = transcript(harness)

    assert told == (
        """\
run 1 begins: preload
client: user "what is x?"
hook on_boot: returned
turn 0
  hook on_turn_start: returned
  hook run: returned
  chunk start {"messageId": "message-1"}
  model call 1, mock-model-id, 1 message, tools search: user "what is x?"
  chunk start-step
  chunk text-start {"id": "id-1"}
  chunk text-delta {"id": "id-1", "delta": "Let me see. "}
  chunk text-end {"id": "id-1"}
  chunk tool-input-start {"toolCallId": "call-1", "toolName": "search"}
  chunk tool-input-delta {"toolCallId": "call-1", "inputTextDelta": "{\\"query\\":\\"x\\"}"}
  chunk tool-input-available {"toolCallId": "call-1", "toolName": "search", "input": {"query": "x"}}
  chunk tool-output-available {"toolCallId": "call-1", "output": "found x"}
  chunk finish-step
  model call 2, mock-model-id, 3 messages, tools search: tool tool-result search
  chunk start-step
  chunk text-start {"id": "id-2"}
  chunk text-delta {"id": "id-2", "delta": "It is x."}
  chunk text-end {"id": "id-2"}
  chunk finish-step
  chunk finish {"finishReason": "stop"}
  turn-complete
  hook on_turn_complete: returned after 1.5 s
  turn 0 done: stop
"""
    )


async def test_failures_stops_kills_and_further_runs_are_told() -> None:
    model = MockLanguageModel([script.text("one").hold("here"), script.text("two").hold("there")])

    def complain(event: Any) -> None:
        if event.turn == 1:
            raise LookupError(f"no shop {object()!r}")

    async with mock_chat_agent(agent_of(model, on_turn_start=complain)) as harness:
        pending = harness.begin_message("a")
        await model.reached("here")
        await harness.send_stop("enough")
        await pending
        await harness.send_message("b")
        harness.begin_message("c")
        await model.reached("there")
        await harness.kill_run()
        await harness.continue_run()
        await harness.advance(60)
    lines = transcript(harness).splitlines()

    for line in (
        'client: stop {"message": "enough"}',
        '  chunk abort {"reason": "enough"}',
        "  turn 0 done: stopped",
        "  hook on_turn_start: raised LookupError: no shop <object object at 0x…>",
        "  turn 1 done: error, LookupError: no shop <object object at 0x…>",
        "run 1 is killed",
        "run 2 begins: continuation",
        "suspended",
        "client: close",
        "run 2 ends",
    ):
        assert line in lines, transcript(harness)


async def test_a_run_that_fails_is_told_with_its_error() -> None:
    def fail(event: Any) -> None:
        raise LookupError("no database")

    async with mock_chat_agent(agent_of(on_boot=fail)) as harness:
        with pytest.raises(LookupError):
            await harness.start()

    assert transcript(harness).splitlines()[1:] == [
        "hook on_boot: raised LookupError: no database",
        "run 1 fails with LookupError: no database",
    ]


async def test_what_a_client_sends_is_told_in_words() -> None:
    def run_action(event: Any) -> None:
        """Change nothing."""

    agent = agent_of(on_action=run_action)
    files = {
        "id": "u-1",
        "role": "user",
        "parts": [
            {"type": "text", "text": "look"},
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA=="},
        ],
    }

    async with mock_chat_agent(agent, preload=False) as harness:
        await harness.send_message("first")
        await harness.send_message(files)
        await harness.send_action({"kind": "undo"})
        await harness.send_regenerate()
    lines = transcript(harness).splitlines()

    assert lines[0] == 'run 1 begins: submit-message, user "first"'
    assert [line for line in lines if line.startswith("client: ")] == [
        'client: user "look" file',
        'client: action {"kind": "undo"}',
        "client: regenerate-message",
        "client: close",
    ]
    assert '  model call 2, mock-model-id, 3 messages: user "look" file' in lines
    assert "  action done" in lines


async def test_each_try_of_a_model_call_is_told() -> None:
    model = saying(script.error(503), "at last")

    def run(event: Any) -> Any:
        return stream_text(model=model, messages=event.messages, abort_signal=event.signal)

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("a")

    asked = [line for line in transcript(harness).splitlines() if line.startswith("  model call ")]
    assert turn.text == "at last"
    assert asked == [f'  model call {number}, mock-model-id, 1 message: user "a"' for number in (1, 2)]


async def converse(clock: Any, new_id: Any) -> str:
    """Hold a conversation in which everything that may differ differs."""

    def note(event: Any) -> None:
        data = {"id": str(uuid.uuid4()), "at": datetime.now(UTC).isoformat(), "now": harness.clock.now()}
        chat.response.write({"type": "data-note", "id": str(uuid.uuid4()), "data": data})

    model = MockLanguageModel(lambda options: script.tool_call("ask", {}, tool_call_id=str(uuid.uuid4())))
    async with mock_chat_agent(agent_of(model, on_turn_start=note), clock=clock, ids=new_id) as harness:
        await harness.send_message(user(str(uuid.uuid4()), "hello"))
        await harness.send_message(user(str(uuid.uuid4()), f"about {uuid.uuid4()}"))
    return transcript(harness)


@pytest.mark.parametrize("clock", ["virtual", "real"])
async def test_ids_and_times_that_differ_do_not_show(clock: str) -> None:
    first, second = [await converse(clock, lambda: uuid.uuid4().hex) for _ in range(2)]

    assert first == second
    assert '"now": "<time>"' in first
    assert '"at": "<time>"' in first
    assert 'user "about <uuid-1>"' in first
    assert "call-2" in first


async def test_two_clocks_that_begin_elsewhere_tell_the_same() -> None:
    told = [await converse(VirtualClock(start=start), None) for start in (0.0, 5e8)]

    assert told[0] == told[1]


async def test_a_transcript_changes_nothing_and_needs_no_run() -> None:
    harness = mock_chat_agent(agent_of())
    before = transcript(harness)
    await harness.send_message("a")
    two = transcript(harness), transcript(harness)
    await harness.close()

    assert before == ""
    assert two[0] == two[1]


async def test_a_failure_that_is_in_a_transcript_is_still_untold() -> None:
    def fail(event: Any) -> None:
        raise LookupError("no such shop")

    async def hold() -> None:
        async with mock_chat_agent(agent_of(on_turn_start=fail)) as harness:
            harness.begin_message("a")
            await harness.wait_for(lambda harness: "turn 0 done" in transcript(harness))

    with pytest.raises(LookupError):
        await hold()


def test_long_texts_are_cut_and_other_numbers_stay() -> None:
    normal = Normal(1000.0, 2000.0)

    shown = normal.data({"text": "x" * 500, "n": [999, 1500, 1500_000, 2001, True, float("nan")], "toolCallId": 7})

    assert shown["text"] == "x" * 200 + "… (500 characters)"
    assert [str(each) for each in shown["n"]] == ["999", "<time>", "<time>", "2001", "True", "nan"]
    assert shown["toolCallId"] == 7
    assert normal.data({"publicAccessToken": "secret"}) == {"publicAccessToken": "<token>"}


async def test_ids_stay_as_they_are_for_who_wants_to_find_them_again() -> None:
    async with mock_chat_agent(agent_of(saying("one"))) as harness:
        await harness.send_message("hello")
        stable, as_made = transcript(harness), transcript(harness, stable=False)

    assert '  chunk start {"messageId": "message-1"}\n' in stable
    assert '  chunk start {"messageId": "msg-2"}\n' in as_made
    assert len(stable.splitlines()) == len(as_made.splitlines())
