"""Turns that fail: what the client is told, what is kept, and that the run goes on (E-1 to E-12, G-28 to G-33)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from agent.making import (
    ASK_USER,
    FAILED_TURN,
    TEXT_TURN,
    agent_of,
    asking,
    assistant,
    ids,
    kept,
    nothing,
    prompt_of,
    roles,
    saying,
    texts,
    types,
    user,
)
from agent.sessions import live_session
from chatagent import AbortError, OutOfMemoryError, chat
from chatagent.errors import AgentRunEndedError, ClientDataError
from chatagent.session import control_type, header
from chatagent.ui import to_wire
from chatagent_test import ChatAgentHarness, ChunkStream, MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent import ChatAgent
    from chatagent.agent import TurnCompleteEvent

pytestmark = pytest.mark.anyio


def completes(harness: ChatAgentHarness) -> list[TurnCompleteEvent[Any]]:
    return [call.event for call in harness.hooks if call.name == "on_turn_complete"]


BOOM = ValueError("boom")


def raising_once() -> Any:
    """A hook that raises at its first call, and takes what comes from then on."""
    calls = 0

    def hook(event: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise BOOM
        return getattr(event, "incoming_messages", None) or getattr(event, "messages", None)

    return hook


# --- the table of 2.4 ---

BEFORE_THE_ANSWER = (
    "client_data_schema",
    "tools",
    "on_validate_messages",
    "on_chat_start",
    "on_turn_start",
    "prepare_messages",
    "run",
)


def failing_at(place: str, model: MockLanguageModel, *, on_turn_complete: Any = nothing) -> ChatAgent[Any]:
    """An agent that fails at one place, once."""
    fail = raising_once()
    if place == "client_data_schema":
        calls = 0

        def parse(value: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise BOOM
            return value

        return agent_of(model, client_data_schema=parse, on_turn_complete=on_turn_complete)
    if place == "tools":

        def no_tools(event: Any) -> dict[str, Any]:
            fail(event)
            return {}

        return agent_of(model, tools=no_tools, on_turn_complete=on_turn_complete)
    if place == "run":
        ask = asking(model)
        return agent_of(run=lambda event: fail(event) and ask(event), on_turn_complete=on_turn_complete)
    return agent_of(model, on_turn_complete=on_turn_complete, **{place: fail})


@pytest.mark.parametrize("place", BEFORE_THE_ANSWER)
async def test_a_failure_before_the_answer(place: str) -> None:
    """MCA-020, MCA-021, F-41, F-42."""
    model = saying("next")

    async with mock_chat_agent(failing_at(place, model), preload=False) as harness:
        failed = await harness.send_message(user("u-err"))
        snapshot = kept(harness)
        turn = await harness.send_message(user("u-2"))

    (event, _) = completes(harness)
    assert types(failed) == FAILED_TURN
    assert failed.finish_reason == "error"
    assert failed.message is None
    assert event.finish_reason == "error"
    assert event.error is failed.error
    assert (event.response_message, event.raw_response_message, event.usage) == (None, None, None)
    assert event.ui_messages == event.new_ui_messages == [user("u-err")]
    assert roles(event.messages) == roles(event.new_messages) == ["user"]
    assert event.last_event_id == str(harness.out_records[1].seq)
    assert snapshot == [user("u-err")]
    assert (turn.index, turn.text) == (1, "next")
    assert roles(prompt_of(model)) == ["user", "user"]
    if place == "client_data_schema":
        assert isinstance(failed.error, ClientDataError)
        assert failed.error.__cause__ is BOOM
    else:
        assert failed.error is BOOM
        assert failed.error_texts == ["boom"]


async def test_a_failing_hydration_keeps_the_message_for_the_event_alone() -> None:
    """2.4: with hydration there is no snapshot."""
    agent = agent_of(saying("next"), hydrate_messages=raising_once(), on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        failed = await harness.send_message(user("u-err"))
        turn = await harness.send_message(user("u-2"))

    assert types(failed) == FAILED_TURN
    assert completes(harness)[0].ui_messages == [user("u-err")]
    assert harness.get_snapshot() is None
    assert turn.text == "next"


PARTIAL = [
    {"type": "start", "messageId": "a-err"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "partial answer"},
]
"""What a source yields before it breaks."""
BROKEN = ConnectionError("UND_ERR_BODY_TIMEOUT")


def breaking_once(model: MockLanguageModel, chunks: list[dict[str, Any]], **options: Any) -> ChatAgent[Any]:
    """An agent whose first answer breaks behind these chunks; later ones are the model's."""
    calls = 0

    def run(event: Any) -> Any:
        nonlocal calls
        calls += 1
        return ChunkStream(chunks, error=BROKEN) if calls == 1 else asking(model)(event)

    return agent_of(run=run, **{"on_turn_complete": nothing, **options})


async def test_a_source_that_breaks_leaves_what_it_had_said() -> None:
    """SSE-001, F-40, E-11 c, E-12, F-49."""
    async with mock_chat_agent(breaking_once(saying(), PARTIAL)) as harness:
        turn = await harness.send_message(user("u-1"))

    (event,) = completes(harness)
    assert types(turn) == ["start", "text-start", "text-delta", *FAILED_TURN]
    assert turn.error is BROKEN
    assert turn.error_texts == ["UND_ERR_BODY_TIMEOUT"]
    assert event.finish_reason == "error"
    assert event.error is BROKEN
    assert event.response_message is not None
    assert to_wire(event.response_message) == {
        "id": "a-err",
        "role": "assistant",
        "parts": [{"type": "text", "text": "partial answer", "state": "done"}],
    }
    assert roles(event.new_messages) == ["user", "assistant"]
    assert ids(event.new_ui_messages) == ["u-1", "a-err"]
    assert ids(kept(harness)) == ["u-1", "a-err"]


async def test_the_next_turn_sees_what_was_said() -> None:
    """SSE-002."""
    model = saying("next")

    async with mock_chat_agent(breaking_once(model, PARTIAL)) as harness:
        await harness.send_message("one")
        await harness.send_message("two")

    (call,) = model.do_stream_calls
    assert roles(call.prompt) == ["user", "assistant", "user"]
    assert prompt_of(model)[1].content[0].text == "partial answer"


@pytest.mark.parametrize("place", ["on_validate_messages", "run"])
async def test_messages_that_were_injected_before_stay_with_the_model(place: str) -> None:
    """E-4, N-41."""
    model = saying("said", "next")
    calls: list[str] = []

    def fail_second(event: Any) -> Any:
        calls.append(place)
        if len(calls) == 2:
            raise BOOM
        return event.messages if place == "on_validate_messages" else asking(model)(event)

    def inject_once(event: Any) -> None:
        if event.turn == 0:
            chat.inject([{"role": "user", "content": "(injected)"}])

    hooks: Any = {place: fail_second, "on_turn_start": inject_once, "on_turn_complete": nothing}
    async with mock_chat_agent(agent_of(model, **hooks)) as harness:
        for text in ("one", "two", "three"):
            await harness.send_message(text)

    said = [
        message.content if isinstance(message.content, str) else message.content[0].text
        for message in prompt_of(model, 1)
    ]
    assert said == ["one", "(injected)", "said", "two", "three"]
    assert [message.content for message in completes(harness)[1].messages if message.content == "(injected)"] != []


async def test_the_event_of_a_turn_that_failed_behind_its_answer_shows_it_without_open_calls() -> None:
    """E-5."""

    def fail(event: Any) -> None:
        raise BOOM

    model = saying(script.tool_call("ask_user", {}))
    agent = agent_of(model, tools=ASK_USER, on_before_turn_complete=fail, on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    (event,) = completes(harness)
    assert [part.type for part in event.response_message.parts] == ["step-start"]
    assert event.raw_response_message == event.response_message
    assert [part.type for part in event.ui_messages[-1].parts] == ["step-start", "tool-ask_user"]


async def test_a_fragment_does_not_overwrite_a_finished_message() -> None:
    """SSE-004, F-43."""
    clobbering = [
        {"type": "start", "messageId": "a-1"},
        {"type": "text-start", "id": "t"},
        {**PARTIAL[2], "delta": "clobber"},
    ]
    first = ChunkStream([*clobbering[:2], {**PARTIAL[2], "delta": "first answer"}, {"type": "finish"}])
    answers = iter([first, ChunkStream(clobbering, error=BROKEN)])

    async with mock_chat_agent(agent_of(run=lambda event: next(answers), on_turn_complete=nothing)) as harness:
        await harness.send_message(user("u-1"))
        broken = await harness.send_message(user("u-2"))

    assert broken.message is None
    assert texts(kept(harness)) == ["hello", "first answer", "hello"]


async def test_open_tool_calls_are_cleaned_away() -> None:
    """SSE-005, F-45."""
    calling: list[dict[str, Any]] = [
        *PARTIAL[:2],
        {**PARTIAL[2], "delta": "thinking"},
        {"type": "tool-input-available", "toolCallId": "tc1", "toolName": "search", "input": {}},
    ]

    async with mock_chat_agent(breaking_once(saying(), calling)) as harness:
        turn = await harness.send_message("hello")

    assert turn.message is not None
    assert [part.type for part in turn.message.parts] == ["text"]
    assert turn.message.text == "thinking"


async def test_data_parts_that_were_written_join_what_is_left() -> None:
    """SSE-006."""

    def write(event: Any) -> None:
        chat.response.write({"type": "data-marker", "data": 1})

    agent = breaking_once(saying(), PARTIAL, on_turn_start=write)

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert turn.message is not None
    assert [part.type for part in turn.message.parts] == ["text", "data-marker"]


async def test_data_parts_alone_are_no_answer() -> None:
    marker = {"type": "data-marker", "data": 1}

    def run(event: Any) -> None:
        chat.response.write(marker)
        raise BOOM

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message(user("u-1"))

    assert turn.message is None
    assert ids(kept(harness)) == ["u-1"]


async def test_an_error_chunk_in_what_was_said_loses_nothing() -> None:
    """G-55."""
    chunks = [*PARTIAL, {"type": "error", "errorText": "hiccup"}]

    async with mock_chat_agent(breaking_once(saying(), chunks)) as harness:
        turn = await harness.send_message("hello")

    assert turn.message is not None
    assert turn.message.text == "partial answer"


async def test_a_source_that_breaks_at_once_leaves_no_answer() -> None:
    async with mock_chat_agent(breaking_once(saying("next"), [])) as harness:
        turn = await harness.send_message(user("u-1"))
        await harness.send_message(user("u-2"))

    assert types(turn) == FAILED_TURN
    assert turn.message is None
    assert roles(kept(harness)) == ["user", "user", "assistant"]


async def test_a_model_whose_stream_breaks_fails_the_turn() -> None:
    model = saying(script.text("half").breaks(BROKEN), "whole")

    async with mock_chat_agent(agent_of(model, on_turn_complete=nothing)) as harness:
        turn = await harness.send_message(user("u-1"))
        after = await harness.send_message(user("u-2"))

    assert turn.error is BROKEN
    assert types(turn)[-2:] == FAILED_TURN
    assert turn.message is not None
    assert turn.message.text == "half"
    assert after.text == "whole"


async def test_an_error_that_the_model_reports_is_no_failure_of_the_turn() -> None:
    """E-11 b."""
    model = saying(script.text("half").error("overloaded"), "whole")

    async with mock_chat_agent(agent_of(model, on_turn_complete=nothing)) as harness:
        turn = await harness.send_message(user("u-1"))
        await harness.send_message(user("u-2"))

    first, _ = completes(harness)
    assert turn.error is None
    assert turn.error_texts == ["An error occurred."]
    assert types(turn)[-4:] == ["error", "finish-step", "finish", "trigger:turn-complete"]
    assert (first.error, first.finish_reason) == (None, "error")
    assert texts(kept(harness)) == ["hello", "half", "hello", "whole"]


async def test_the_agent_says_what_clients_read_of_a_model_s_error() -> None:
    def describe(error: object) -> str:
        return f"sorry ({error})"

    model = saying(script.error("secret detail"))
    agent = agent_of(model, ui_message_stream_options={"on_error": describe})

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert turn.error_texts == ["sorry (secret detail)"]


async def test_on_before_turn_complete_that_fails_keeps_the_answer() -> None:
    """F-44."""

    def fail(event: Any) -> None:
        raise BOOM

    agent = agent_of(saying("said", "again"), on_before_turn_complete=fail, on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message(user("u-1"))

    (event,) = completes(harness)
    assert types(turn) == [*TEXT_TURN[:-1], *FAILED_TURN]
    assert event.error is BOOM
    assert turn.message is not None
    assert event.response_message == turn.message
    assert (event.finish_reason, event.new_messages) == ("error", [])
    assert texts(kept(harness)) == ["hello", "said"]


async def test_on_turn_complete_that_fails_is_called_once_more_with_its_error_and_the_client_hears_nothing() -> None:
    """SSE-003, G-28, D-4: the reference writes an error and a second turn-complete behind the closed turn."""
    agent = agent_of(
        run=lambda event: (
            chat.response.write({"type": "data-marker", "data": 1}),
            asking(saying("full response"))(event),
        )[1],
        on_turn_complete=raising_once(),
    )

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message(user("u-1"))

    first, second = completes(harness)
    assert types(turn) == ["data-marker", *TEXT_TURN]
    assert (first.error, first.finish_reason) == (None, "stop")
    assert (second.error, second.finish_reason, second.usage) == (BOOM, "error", None)
    assert second.last_event_id == first.last_event_id
    assert second.response_message is not None
    assert second.response_message.text == "full response"
    assert second.response_message.parts[-1].type == "data-marker"
    assert turn.error is BOOM
    assert texts(kept(harness)) == ["hello", "full response"]


async def test_on_turn_complete_that_fails_twice_leaves_the_run_on() -> None:
    """G-28."""

    def fail(event: Any) -> None:
        raise BOOM

    async with mock_chat_agent(agent_of(saying("one", "two"), on_turn_complete=fail)) as harness:
        first = await harness.send_message("a")
        second = await harness.send_message("b")

    assert (first.error, second.error) == (BOOM, BOOM)
    assert len(completes(harness)) == 4
    assert len(kept(harness)) == 4


async def test_not_strict_it_does_what_the_reference_does() -> None:
    """G-28, `strict=False`."""
    agent = agent_of(saying("said"), on_turn_complete=raising_once())

    async with mock_chat_agent(agent, strict=False) as harness:
        await harness.send_message(user("u-1"))
        await harness.wait_idle()

    assert [chunk["type"] for chunk in harness.all_raw_chunks] == [*TEXT_TURN, *FAILED_TURN]
    assert [event.finish_reason for event in completes(harness)] == ["stop", "error"]


@pytest.mark.parametrize("hook", ["on_chat_suspend", "on_chat_resume"])
async def test_a_suspend_hook_that_fails_between_turns_is_logged_and_changes_nothing(
    hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    """G-29: the reference runs the error path of the finished turn again."""

    def fail(event: Any) -> None:
        raise BOOM

    agent = agent_of(saying("one", "two"), on_turn_complete=nothing, **{hook: fail})

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("a")
        await harness.advance(60)
        turn = await harness.send_message("b")

    assert turn.text == "two"
    assert types(turn) == TEXT_TURN
    assert [event.error for event in completes(harness)] == [None, None]
    assert f"`{hook}` of agent 'tester' failed; the run goes on" in caplog.messages


BOOT_PLACES = ("on_boot", "on_preload", "client_data_schema", "on_chat_suspend", "on_chat_resume")


@pytest.mark.parametrize("place", BOOT_PLACES)
async def test_a_failure_before_the_first_turn_ends_the_run_with_itself(place: str) -> None:
    def fail(event: Any) -> None:
        raise BOOM

    async def converse() -> None:
        await harness.advance(31)
        await harness.send_message("hello")

    harness = mock_chat_agent(agent_of(**{place: fail, "on_turn_complete": nothing}))

    with pytest.raises(ValueError, match=r"boom$") as caught:
        await converse()
    await harness.close()

    assert caught.value is BOOM or caught.value.__cause__ is BOOM
    assert harness.run_error is caught.value
    assert harness.run_ended
    assert harness.all_raw_chunks == []
    assert completes(harness) == []


@pytest.mark.parametrize("place", ["on_boot", "on_chat_suspend", "client_data_schema"])
async def test_a_failure_before_the_first_turn_of_a_continuation_ends_the_run_with_itself(place: str) -> None:
    def fail(event: Any) -> None:
        raise BOOM

    harness = mock_chat_agent(agent_of(**{place: fail}), continuation=True)

    with pytest.raises(ValueError, match=r"boom$"):
        await harness.advance(31)
    with pytest.raises(AgentRunEndedError):
        await harness.send_message("hello")
    await harness.close()

    assert harness.all_raw_chunks == []


async def test_deferred_work_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise BOOM

    async with mock_chat_agent(agent_of(on_turn_start=lambda event: chat.defer(work))) as harness:
        turn = await harness.send_message("hello")

    assert turn.error is None
    assert "deferred work failed" in caplog.messages


# --- the text, and what the event says ---


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("words fit for users"), "words fit for users"),
        (ValueError(), ""),
        (KeyError("k"), "'k'"),
        (RuntimeError("ünï\ncode \ud800"), "ünï\ncode \ud800"),
        (AbortError("why"), None),
    ],
)
async def test_clients_read_the_exception_s_own_words(error: Exception, text: str | None) -> None:
    """E-2, G-44; an abort that nobody asked for is a turn without an answer (T-73)."""

    def fail(event: Any) -> None:
        raise error

    async with mock_chat_agent(agent_of(run=fail)) as harness:
        turn = await harness.send_message("hello")

    assert turn.error_texts == ([] if text is None else [text])
    assert turn.error is (None if text is None else error)


async def test_the_agent_may_say_what_clients_read_of_an_exception() -> None:
    """G-44."""

    def fail(event: Any) -> None:
        raise BOOM

    def describe(error: BaseException) -> str:
        return f"{type(error).__name__}: please try again"

    agent = agent_of(run=fail, on_turn_error=describe)

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert turn.error_texts == ["ValueError: please try again"]
    assert turn.error is BOOM


@pytest.mark.parametrize(("result", "text"), [(None, "boom"), (7, "boom"), (KeyError("x"), "An error occurred.")])
async def test_an_on_turn_error_that_gives_no_text_fails_nothing(result: Any, text: str) -> None:
    """G-44."""

    def fail(event: Any) -> None:
        raise BOOM

    def describe(error: BaseException) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    async with mock_chat_agent(agent_of(run=fail, on_turn_error=describe)) as harness:
        turn = await harness.send_message("hello")

    assert turn.error_texts == [text]


STACK = "\n".join(f'  File "agent.py", line {number}, in call' for number in range(100_000))


@pytest.mark.parametrize(
    ("words", "told"),
    [("x" * 3_000_000, "x" * 999 + "…"), ("y" * 1000, "y" * 1000), (STACK, STACK[:999] + "…")],
    ids=["many", "just-enough", "a-stack"],
)
async def test_of_an_exception_with_very_many_words_the_first_are_told(words: str, told: str) -> None:
    """E-2, F-99: neither the wire nor what is stored has more of it, and the run goes on."""
    error = ValueError(words)

    def fail(event: Any) -> None:
        raise error

    async with mock_chat_agent(agent_of(run=fail)) as harness:
        first = await harness.send_message("a")
        second = await harness.send_message("b")

    assert first.error_texts == [told]
    assert first.error is error
    assert second.index == 1
    assert texts(kept(harness)) == ["a", "b"]


async def test_what_an_agent_says_of_an_exception_is_told_whole() -> None:
    """G-44, F-99: the limit is for words that nobody chose; only a record's own limit holds here."""

    def fail(event: Any) -> None:
        raise BOOM

    async with mock_chat_agent(agent_of(run=fail, on_turn_error=lambda error: "z" * 2_000_000)) as harness:
        turn = await harness.send_message("a")

    assert turn.error_texts == ["z" * 100_000]


async def test_a_chunk_above_the_limit_fails_its_turn_and_not_the_run() -> None:
    model = saying("x" * 2_000_000, "small")

    async with mock_chat_agent(agent_of(model)) as harness:
        first = await harness.send_message("a")
        second = await harness.send_message("b")

    assert str(first.error) == (
        "chunk 'text-delta' has 2000055 bytes, the limit is 1048568: "
        "nothing was written; send it in pieces, or a reference to it"
    )
    assert second.text == "small"


async def test_the_event_of_a_failed_turn_knows_client_data_and_stop() -> None:
    """G-32: in the reference they are lost."""

    async def run(event: Any) -> None:
        await event.stop_signal.wait()
        raise BOOM

    agent = agent_of(run=run, on_turn_complete=nothing)

    async with mock_chat_agent(agent, client_data={"user": "ada"}) as harness:
        pending = harness.begin_message("hello")
        await harness.settle()
        await harness.send_stop()
        turn = await pending

    (event,) = completes(harness)
    assert event.client_data == {"user": "ada"}
    assert event.stopped
    assert turn.stopped
    assert turn.error is BOOM


@pytest.mark.parametrize("place", BEFORE_THE_ANSWER)
async def test_the_event_of_a_failed_turn_has_the_token_and_what_client_data_there_is(place: str) -> None:
    """G-32: wherever the turn failed; the turn-complete itself has no token (E-3)."""
    seen: list[TurnCompleteEvent[Any]] = []
    agent = failing_at(place, saying("next"), on_turn_complete=seen.append)

    async with live_session() as session:
        session.mint_token = lambda: "a-token"
        await session.run(agent, trigger="submit-message", message=to_wire(user("u-1")), metadata={"user": "ada"})
        (done,) = [record for record in session.out if control_type(record) == "turn-complete"]

    (event,) = seen
    assert event.error is not None
    assert event.chat_access_token == "a-token"
    assert event.client_data == (None if place == "client_data_schema" else {"user": "ada"})
    assert header(done, "public-access-token") is None


async def test_a_failing_on_turn_complete_of_a_failed_turn_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: Any) -> None:
        raise BOOM

    async with mock_chat_agent(agent_of(run=fail, on_turn_complete=fail)) as harness:
        turn = await harness.send_message(user("u-1"))

    assert types(turn) == FAILED_TURN
    assert len(completes(harness)) == 1
    assert "`on_turn_complete` of agent 'tester' failed on a failed turn" in caplog.messages
    assert ids(kept(harness)) == ["u-1"]


async def test_failed_turns_count_as_turns() -> None:
    """E-9, C-100."""

    def fail(event: Any) -> None:
        raise BOOM

    async with mock_chat_agent(agent_of(run=fail, max_turns=2)) as harness:
        await harness.send_message("a")
        await harness.send_message("b")
        with pytest.raises(AgentRunEndedError):
            await harness.send_message("c")

    assert ids(kept(harness)) == ["msg-1", "msg-2"]


async def test_running_out_of_memory_escapes_the_turn() -> None:
    """C-71, F-32: no error chunk and no turn-complete, so that the platform starts the run once more."""

    def run(event: Any) -> None:
        raise OutOfMemoryError("too much")

    harness = mock_chat_agent(agent_of(run=run, on_turn_complete=nothing))

    with pytest.raises(OutOfMemoryError, match=r"^too much$"):
        await harness.send_message("hello")
    await harness.close()

    assert harness.all_raw_chunks == []
    assert completes(harness) == []
    assert harness.get_snapshot() is None


def out_of_memory_once() -> Any:
    """A hook that runs out of memory at its first call."""
    calls: list[Any] = []

    def hook(event: Any) -> None:
        calls.append(event)
        if len(calls) == 1:
            raise OutOfMemoryError("too much")

    return hook


async def test_a_completion_hook_that_runs_out_of_memory_is_not_called_again_on_the_small_machine() -> None:
    """C-71."""
    agent = agent_of(saying("one", "two"), on_turn_complete=out_of_memory_once(), oom_machine="large")

    async with mock_chat_agent(agent) as harness:
        with pytest.raises(OutOfMemoryError, match=r"^too much$"):
            await harness.send_message("hello")
        calls = len(completes(harness))
        await harness.retry_oom()
        turn = await harness.send_message("again")

    assert calls == 1
    assert turn.text == "two"
    assert texts(kept(harness)) == ["hello", "one", "again", "two"]


async def test_a_completion_hook_of_a_failed_turn_that_runs_out_of_memory_ends_the_run() -> None:
    """C-71."""
    agent = agent_of(run=raising_once(), on_turn_complete=out_of_memory_once(), oom_machine="large")

    async with mock_chat_agent(agent) as harness:
        with pytest.raises(OutOfMemoryError, match=r"^too much$"):
            await harness.send_message("hello")

    assert harness.run_ended


async def test_a_suspend_hook_that_runs_out_of_memory_ends_the_run() -> None:
    """C-71, and not G-29."""
    agent = agent_of(saying("one", "two"), on_chat_suspend=out_of_memory_once(), oom_machine="large")

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")
        with pytest.raises(OutOfMemoryError, match=r"^too much$"):
            await harness.advance_to_suspend()
        await harness.retry_oom()
        turn = await harness.send_message("again")

    assert turn.text == "two"


async def test_a_recovery_hook_that_runs_out_of_memory_decides_on_the_larger_machine() -> None:
    """C-71."""
    hook = out_of_memory_once()
    agent = agent_of(saying(script.text("one").hold("here"), "two"), on_recovery_boot=hook, oom_machine="large")

    async with mock_chat_agent(agent) as harness:
        harness.begin_message("hello")
        await harness.wait_streaming("one")
        await harness.kill_run()
        with pytest.raises(OutOfMemoryError, match=r"^too much$"):
            await harness.continue_run()
        await harness.retry_oom()
        decided = [call.outcome for call in harness.hooks if call.name == "on_recovery_boot"]

    assert decided == ["raised", "returned"]


async def test_a_hook_writes_what_it_wrote_before_it_failed() -> None:
    """E-10."""

    def fail(event: Any) -> None:
        event.writer.write({"type": "data-before", "data": 1})
        event.writer.merge(ChunkStream([{"type": "data-merged", "data": 2}]))
        raise BOOM

    async with mock_chat_agent(agent_of(on_turn_start=fail)) as harness:
        turn = await harness.send_message("hello")

    assert types(turn) == ["data-before", "data-merged", *FAILED_TURN]


async def test_a_message_that_no_model_can_be_shown_fails_one_turn_and_stays_in_the_history() -> None:
    picture = {"id": "u-1", "role": "user", "parts": [{"type": "file", "mediaType": "image/png", "url": "no url"}]}
    model = saying("ok")

    async with mock_chat_agent(agent_of(model, on_turn_complete=nothing)) as harness:
        failed = await harness.send_message(picture)
        turn = await harness.send_message("and now?")

    assert str(failed.error) == (
        "`messages[0].parts[0].url` is 'no url': it is no URL; one begins with a scheme, such as `https:` or `data:`"
    )
    assert types(failed) == FAILED_TURN
    assert turn.text == "ok"
    assert len(completes(harness)) == 2
    assert kept(harness)[0].to_wire() == picture


async def test_an_answer_that_an_error_cut_off_inside_a_continued_message_is_dropped() -> None:
    """E-5: it was put together from chunks, and its id is in the chain already."""
    broken = ChunkStream([{"type": "start", "messageId": "a-1"}, *PARTIAL[1:]], error=BROKEN)

    async with mock_chat_agent(agent_of(run=lambda event: broken)) as harness:
        turn = await harness.send_message(assistant("a-1", "so far"))

    assert turn.message is None
    assert texts(kept(harness)) == ["so far"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_of_something_else_fails_the_turn_and_not_the_run() -> None:
    """On asyncio, what awaits a cancelled task raises as if it were cancelled itself; trio cancels scopes only."""

    async def run(event: Any) -> None:
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task

    async with mock_chat_agent(agent_of(run=run)) as harness:
        first = await harness.send_message("a")
        second = await harness.send_message("b")
        stored = kept(harness)

    assert str(first.error).startswith("`run` of agent 'tester' ended by a cancellation: nobody has cancelled the run")
    assert isinstance(first.error.__cause__, asyncio.CancelledError)
    assert second.index == 1
    assert texts(stored) == ["a", "b"]
