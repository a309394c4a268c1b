"""What is wrong on the way in: each case has its error, queues nothing, hangs nobody, and keeps the user's message."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest
from pydantic import BaseModel

from agent.making import FAILED_TURN, agent_of, ids, parts_of, prompt_of, saying, types, user
from chatagent import chat
from chatagent.errors import (
    ActionError,
    ChatChunkTooLargeError,
    ClientDataError,
    HarnessClosedError,
    InvalidArgumentError,
    InvalidMessageError,
    InvalidPromptError,
    InvalidStreamPartError,
    RecordTooLargeError,
    ScriptExhaustedError,
    SnapshotVersionError,
    UnknownStreamPartError,
)
from chatagent.ui import UIMessage
from chatagent_test import ChatAgentHarness, MockLanguageModel, mock_chat_agent, script

pytestmark = pytest.mark.anyio

TEXT = [{"type": "text", "text": "hi"}]


def kept(harness: ChatAgentHarness) -> list[str]:
    snapshot = harness.get_snapshot()
    assert snapshot is not None
    return ids(snapshot.messages)


class Data(BaseModel):
    user: str
    age: int = 0


# --- messages ---


@pytest.mark.parametrize(
    ("message", "field", "text"),
    [
        (
            {"id": "u-1", "parts": TEXT},
            "role",
            "message: `role` is <absent>: the key is required: give `system`, `user` or `assistant`",
        ),
        (
            {"id": "u-1", "role": "wizard", "parts": TEXT},
            "role",
            "message: `role` is 'wizard': input should be 'system', 'user' or 'assistant'",
        ),
        (
            {"id": "u-1", "role": "user"},
            "parts",
            "message: `parts` is <absent>: the key is required: give a list of parts, such as "
            "[{'type': 'text', 'text': '…'}]",
        ),
        (
            {"id": "u-1", "role": "user", "parts": "hi"},
            "parts",
            "message: `parts` is 'hi': input should be a valid list",
        ),
        (
            {"id": "u-1", "role": "user", "parts": [*TEXT, {"type": "text"}]},
            "parts[1].text",
            "message: `parts[1].text` is <absent>: the key is required",
        ),
        (
            {"id": "u-1", "role": "user", "parts": [{"type": "text", "text": 7}]},
            "parts[0].text",
            "message: `parts[0].text` is 7: input should be a valid string",
        ),
        (
            {"id": "u-1", "role": "user", "parts": [{"text": "hi"}]},
            "parts[0].type",
            "message: `parts[0].type` is <absent>: a part is an object with a string `type`",
        ),
        (
            {"id": 7, "role": "user", "parts": TEXT},
            "id",
            "message: `id` is 7: input should be a valid string",
        ),
        (42, "message", "message: `message` is 42: give a UIMessage, or a dict with `role` and `parts`"),
        (
            {"id": "u-1", "role": "system", "parts": TEXT},
            "role",
            "message: `role` is 'system': system messages come from the server; an agent may allow them with "
            "allow_client_system_messages",
        ),
    ],
    ids=[
        "no-role",
        "bad-role",
        "no-parts",
        "bad-parts",
        "no-text",
        "bad-text",
        "no-type",
        "bad-id",
        "no-dict",
        "system",
    ],
)
async def test_a_message_that_breaks_its_form_is_refused_where_it_is_sent(message: Any, field: str, text: str) -> None:
    async with mock_chat_agent(agent_of()) as harness:
        with pytest.raises(InvalidMessageError) as sent:
            await harness.send_message(message)
        with pytest.raises(InvalidMessageError) as begun:
            harness.begin_message(message)
        turn = await harness.send_message(user("u-2"))

    assert str(sent.value) == str(begun.value) == text
    assert sent.value.field == begun.value.field == field
    assert turn.index == 0
    assert kept(harness)[0] == "u-2"
    assert len(harness.turns) == 1


@pytest.mark.parametrize("messages", [[], [user("u-1")], (user("u-1"), user("u-2"))])
async def test_a_send_takes_one_message(messages: Any) -> None:
    async with mock_chat_agent(agent_of()) as harness:
        with pytest.raises(TypeError, match=r"^a send takes one message; send several one after the other$"):
            await harness.send_message(messages)
        await harness.send_message(user("u-1"))

    assert len(harness.turns) == 1


async def test_a_message_without_an_id_gets_one() -> None:
    """G-57."""
    async with mock_chat_agent(agent_of()) as harness:
        await harness.send_message({"role": "user", "parts": TEXT})

    assert kept(harness)[0] == "msg-1"


async def test_a_part_that_nobody_knows_is_kept_as_it_came() -> None:
    part = {"type": "hologram", "beam": {"width": 1}, "n": None}

    async with mock_chat_agent(agent_of()) as harness:
        turn = await harness.send_message({"id": "u-1", "role": "user", "parts": [part]})

    assert turn.error is None
    snapshot = harness.get_snapshot()
    assert snapshot is not None
    assert parts_of(snapshot.messages[0]) == [part]


async def test_system_messages_may_be_allowed() -> None:
    """D13."""
    model = saying("ok")

    async with mock_chat_agent(agent_of(model, allow_client_system_messages=True)) as harness:
        turn = await harness.send_message({"id": "s-1", "role": "system", "parts": TEXT})

    assert turn.text == "ok"
    assert [message.role for message in prompt_of(model)] == ["system"]


# --- snapshot, client data, actions ---


async def test_a_snapshot_of_a_newer_version_fails_the_boot_and_is_left_as_it_is() -> None:
    """G-58."""
    stored: dict[str, Any] = {"version": 2, "savedAt": 0, "messages": []}
    harness = mock_chat_agent(agent_of(), continuation=True, snapshot=stored)

    with pytest.raises(SnapshotVersionError) as caught:
        await harness.send_message("hello")
    await harness.close(raise_errors=True)

    assert str(caught.value) == (
        "snapshot of session 'test-chat': `version` is 2, this release reads 1; upgrade chatagent or delete that "
        "snapshot"
    )
    assert harness.run_error is caught.value
    assert harness.turns == []
    assert harness.get_snapshot() is None


CLIENT_DATA_TEXT = (
    "client data of agent 'tester' fails its `client_data_schema`: `user`: Field required; "
    "`age`: Input should be a valid integer, unable to parse string as an integer"
)


async def test_client_data_that_fails_its_schema_fails_the_turn() -> None:
    agent = agent_of(client_data_schema=Data)

    async with mock_chat_agent(agent, client_data={"age": "old"}, preload=False) as harness:
        turn = await harness.send_message(user("u-1"))

    assert types(turn) == FAILED_TURN
    assert isinstance(turn.error, ClientDataError)
    assert str(turn.error) == CLIENT_DATA_TEXT
    assert turn.error_texts == [CLIENT_DATA_TEXT]
    assert turn.error.value == {"age": "old"}
    assert turn.error.__cause__ is not None
    assert kept(harness) == ["u-1"]


@pytest.mark.parametrize("options", [{}, {"continuation": True}], ids=["preload", "continuation"])
async def test_client_data_that_fails_its_schema_ends_a_run_that_waits_for_its_first_message(
    options: dict[str, Any],
) -> None:
    """1.7."""
    harness = mock_chat_agent(agent_of(client_data_schema=Data), client_data={"age": "old"}, **options)

    with pytest.raises(ClientDataError) as caught:
        await harness.send_message("hello")
    await harness.close(raise_errors=True)

    assert str(caught.value) == CLIENT_DATA_TEXT
    assert harness.all_raw_chunks == []


async def test_an_action_that_fails_its_schema_is_told() -> None:
    agent = agent_of(action_schema=Data, on_action=lambda event: None)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(user("u-1"))
        action = await harness.send_action({"age": "old"})

    assert types(action) == FAILED_TURN
    assert isinstance(action.error, ActionError)
    assert str(action.error) == (
        "action sent to agent 'tester' fails its `action_schema`: `user`: Field required; "
        "`age`: Input should be a valid integer, unable to parse string as an integer"
    )
    assert kept(harness)[0] == "u-1"


async def test_an_action_without_a_handler_is_ignored_with_a_warning() -> None:
    async with mock_chat_agent(agent_of()) as harness:
        with pytest.warns(RuntimeWarning, match=r"^agent 'tester' has no `on_action` handler; the action was ignored$"):
            action = await harness.send_action("undo")

    assert types(action) == ["trigger:turn-complete"]


# --- run ---


@pytest.mark.parametrize("result", ["a string", 42, ["x"], {"type": "start"}, object])
async def test_what_run_returns_is_ignored_if_it_is_no_stream_and_the_log_says_so(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with mock_chat_agent(agent_of(run=lambda event: result)) as harness:
        turn = await harness.send_message(user("u-1"))

    assert types(turn) == ["trigger:turn-complete"]
    assert turn.message is None
    assert kept(harness) == ["u-1"]
    way_out = "return what stream_text gave, or send chunks of your own with `await chat.pipe(…)`"
    assert caplog.messages == [
        f"`run` of agent 'tester' returned {result!r}, which is no stream and was ignored; {way_out}"
    ]


async def test_client_data_that_was_not_sent_is_told_as_such() -> None:
    class Caller(BaseModel):
        user: str

    async with mock_chat_agent(agent_of(client_data_schema=Caller), preload=False) as harness:
        turn = await harness.send_message("hello")

    assert str(turn.error).startswith(
        "client data of agent 'tester' (none was sent: give `client_data`) fails its `client_data_schema`: "
    )


async def test_a_run_that_returns_nothing_is_a_turn_without_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with mock_chat_agent(agent_of(run=lambda event: None)) as harness:
        turn = await harness.send_message(user("u-1"))

    assert types(turn) == ["trigger:turn-complete"]
    assert kept(harness) == ["u-1"]
    way_out = "return what stream_text gave, or send chunks of your own with `await chat.pipe(…)`"
    assert caplog.messages == [f"`run` of agent 'tester' returned nothing, and the turn has sent nothing; {way_out}"]


async def write_by_hand(event: Any) -> None:
    chat.response.write({"type": "data-answer", "data": 1})


@pytest.mark.parametrize("run", [write_by_hand, lambda event: chat.end_run()], ids=["writes", "ends-the-run"])
async def test_a_run_that_means_to_return_nothing_is_not_told_of(caplog: pytest.LogCaptureFixture, run: Any) -> None:
    async with mock_chat_agent(agent_of(run=run)) as harness:
        await harness.send_message(user("u-1"))

    assert caplog.messages == []


async def test_an_action_that_returns_what_cannot_be_sent_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async with mock_chat_agent(agent_of(on_action=lambda event: 3)) as harness:
        done = await harness.send_action({"type": "count"})

    assert types(done) == ["trigger:turn-complete"]
    assert caplog.messages == [
        "`on_action` of agent 'tester' returned 3, which is no text, message or stream and was ignored"
    ]


# --- models ---


async def test_a_script_that_ran_out_is_raised_by_the_driver_and_the_run_goes_on() -> None:
    model = saying("one")

    async with mock_chat_agent(agent_of(model)) as harness:
        await harness.send_message(user("u-1"))
        with pytest.raises(ScriptExhaustedError) as caught:
            await harness.send_message(user("u-2"))
        await harness.wait_idle()

    assert str(caught.value) == (
        "no scripted model call 2: `do_stream` was called 2 times, and the script has 1 entry; add one a call, or give "
        "one Script (or a function) that answers every call\n"
        "it was called 2 times:\n"
        "  call 1 gave 4 parts, and has ended"
    )
    assert harness.turns[1].error_texts == ["An error occurred."]
    assert kept(harness)[2] == "u-2"


async def test_a_script_that_ran_out_in_a_turn_that_nobody_awaited_is_raised_at_the_end() -> None:
    harness = mock_chat_agent(agent_of(saying()))
    harness.begin_message("hello")
    await harness.wait_idle()

    with pytest.raises(ScriptExhaustedError):
        await harness.__aexit__(None, None, None)


async def test_a_stream_part_of_an_unknown_type_fails_the_turn() -> None:
    model = MockLanguageModel(do_stream={"stream": [{"type": "hologram", "beam": 1}]})

    async with mock_chat_agent(agent_of(model)) as harness:
        turn = await harness.send_message(user("u-1"))

    assert isinstance(turn.error, UnknownStreamPartError)
    assert str(turn.error) == (
        "the model streamed {'type': 'hologram', 'beam': 1}, which is no stream part; a part is one of the `Model…` "
        "classes of chatagent.model, or a dict with one of their types"
    )
    assert types(turn)[-2:] == FAILED_TURN
    assert kept(harness)[0] == "u-1"


async def test_a_stream_part_with_a_wrong_field_fails_the_turn() -> None:
    model = MockLanguageModel(do_stream={"stream": [{"type": "text-delta", "id": "t"}]})

    async with mock_chat_agent(agent_of(model)) as harness:
        turn = await harness.send_message(user("u-1"))

    assert isinstance(turn.error, InvalidStreamPartError)
    assert str(turn.error) == (
        "the model streamed {'type': 'text-delta', 'id': 't'}: `delta` is <absent>: the key is required: give a string"
    )
    assert kept(harness)[0] == "u-1"


# --- the harness ---


async def test_a_send_behind_the_end_is_refused() -> None:
    async with mock_chat_agent(agent_of()) as harness:
        await harness.send_message(user("u-1"))

    with pytest.raises(HarnessClosedError, match=r"^the harness is closed; make a new one\n"):
        await harness.send_message("late")
    with pytest.raises(HarnessClosedError, match=r"^the harness is closed; make a new one\n"):
        harness.begin_message("late")
    assert len(harness.turns) == 1


async def test_two_harnesses_of_the_same_chat_work_apart() -> None:
    agent = agent_of(MockLanguageModel(script.text("ok")))

    async with mock_chat_agent(agent, chat_id="c") as one, mock_chat_agent(agent, chat_id="c") as two:
        await one.send_message(user("u-1"))
        await two.send_message(user("u-2"))
        await one.send_message(user("u-3"))

    assert kept(one)[::2] == ["u-1", "u-3"]
    assert kept(two)[::2] == ["u-2"]


async def test_leaving_while_a_turn_streams_ends_it() -> None:
    model = saying(script.text("one ").hold("middle").text("two"))

    async with mock_chat_agent(agent_of(model)) as harness:
        harness.begin_message(user("u-1"))
        await model.reached("middle")

    assert harness.run_ended
    assert harness.all_raw_chunks[-1] == {"type": "abort", "reason": "close"}


# --- what no log can hold ---


NO_JSON = [
    (object, "JSON cannot hold a value of type type"),
    ({1: 2}, "the keys of a JSON object are text"),
    (float("nan"), "JSON has no numbers that are not finite"),
]


@pytest.mark.parametrize("booted", [True, False])
@pytest.mark.parametrize(("value", "problem"), NO_JSON)
async def test_an_action_that_json_cannot_hold_is_refused_and_nothing_is_queued(
    value: Any,
    problem: str,
    booted: bool,  # noqa: FBT001 - a parameter of a table
) -> None:
    async with mock_chat_agent(agent_of(on_action=lambda event: None)) as harness:
        if booted:
            await harness.start()
        with pytest.raises(InvalidArgumentError) as caught:
            await harness.send_action(value)
        await harness.wait_idle()
        turn = await harness.send_message("hello")

    assert str(caught.value) == f"`action` is {value!r}: {problem}"
    assert turn.index == 0
    assert len(harness.turns) == 1


@pytest.mark.parametrize("booted", [True, False])
async def test_a_message_above_the_limit_of_a_record_is_refused_and_nothing_is_queued(
    booted: bool,  # noqa: FBT001 - a parameter of a table
) -> None:
    async with mock_chat_agent(agent_of()) as harness:
        if booted:
            await harness.start()
        with pytest.raises(RecordTooLargeError) as caught:
            await harness.send_message("x" * 2_000_000)
        turn = await harness.send_message("hello")

    assert str(caught.value).startswith("`records[0].data` is 2000")
    assert str(caught.value).endswith(", the limit is 1048568; nothing was written")
    assert turn.index == 0


async def test_a_message_that_was_begun_and_cannot_be_queued_is_refused_when_it_is_awaited() -> None:
    async with mock_chat_agent(agent_of()) as harness:
        pending = harness.begin_message("x" * 2_000_000)
        with pytest.raises(RecordTooLargeError):
            await pending
        await harness.wait_idle()

    assert harness.turns == []


# --- what user code gives ---


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([42], "Invalid prompt: `messages[0]` is 42"),
        ([None], "Invalid prompt: `messages[0]` is None"),
        ([{"role": "user"}], "Invalid prompt: `messages[0].content` is None; it is required"),
        ([{"role": "x", "content": "y"}], "Invalid prompt: `messages[0].role` is 'x'; it must be one of "),
        ([user("u-1")], "Invalid prompt: `messages[0]` is UIMessage("),
        (["hi"], "Invalid prompt: `messages[0]` is 'hi'"),
    ],
)
async def test_what_is_no_model_message_fails_the_turn_by_name_and_poisons_nothing(messages: Any, text: str) -> None:
    def inject(event: Any) -> None:
        if event.turn == 0:
            chat.inject(messages)

    def prepare(event: Any) -> Any:
        return messages if event.turn == 0 else event.messages

    for hooks in ({"on_turn_start": inject}, {"prepare_messages": prepare}):
        async with mock_chat_agent(agent_of(**hooks)) as harness:
            failed = await harness.send_message(user("u-1"))
            turn = await harness.send_message(user("u-2"))

        assert isinstance(failed.error, InvalidPromptError)
        assert str(failed.error).startswith(text)
        assert turn.text == "ok"
        assert kept(harness)[:2] == ["u-1", "u-2"]


@pytest.mark.parametrize("work", [42, None, "later", []])
async def test_what_cannot_be_deferred_fails_the_turn_by_name(work: Any) -> None:
    async with mock_chat_agent(agent_of(on_turn_start=lambda event: chat.defer(work))) as harness:
        turn = await harness.send_message("hello")

    assert isinstance(turn.error, TypeError)
    assert str(turn.error) == f"chat.defer takes an awaitable, or a function that returns one, not {work!r}"


RATE = {"id": "a-1", "role": "assistant", "parts": [{"type": "data-x", "data": {"rate": math.inf}}]}
NOT_FINITE = "JSON has no numbers that are not finite"


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        (None, "message: `messages` is None: give a list of messages"),
        (42, "message: `messages` is 42: give a list of messages"),
        ({"role": "user"}, "message: `messages` is {'role': 'user'}: give a list of messages"),
        ([42], "message: `message` is 42: give a UIMessage, or a dict with `role` and `parts`"),
        ([RATE], f"message: `parts[0].data.rate` is inf: {NOT_FINITE}"),
        ([user("u-2"), UIMessage.model_validate(RATE)], f"message: `parts[0].data.rate` is inf: {NOT_FINITE}"),
    ],
)
async def test_what_is_no_history_fails_the_turn_by_name(messages: Any, text: str) -> None:
    async with mock_chat_agent(agent_of(on_turn_start=lambda event: chat.history.set(messages))) as harness:
        turn = await harness.send_message(user("u-1"))

    assert isinstance(turn.error, InvalidMessageError)
    assert str(turn.error) == text
    assert kept(harness)[0] == "u-1"


@pytest.mark.parametrize(
    "hooks",
    [
        {"on_validate_messages": lambda event: [RATE]},
        {"hydrate_messages": lambda event: [RATE]},
        {"on_turn_start": lambda event: chat.history.replace(event.ui_messages[0].id, RATE)},
    ],
    ids=["validated", "hydrated", "replaced"],
)
async def test_a_message_that_no_snapshot_could_hold_fails_the_turn_that_brings_it_in(hooks: Any) -> None:
    async with mock_chat_agent(agent_of(**hooks)) as harness:
        turn = await harness.send_message(user("u-1"))

    assert isinstance(turn.error, InvalidMessageError)
    assert str(turn.error) == f"message: `parts[0].data.rate` is inf: {NOT_FINITE}"


@pytest.mark.parametrize("options", [5, None, "send_reasoning", ["send_reasoning"]])
async def test_what_is_no_set_of_stream_options_fails_the_turn_by_name(options: Any) -> None:
    agent = agent_of(on_turn_start=lambda event: chat.set_ui_message_stream_options(options))

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert isinstance(turn.error, InvalidArgumentError)
    assert str(turn.error) == f'`options` is {options!r}: give options by name, such as {{"send_reasoning": False}}'


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"chat_id": None}, "`chat_id` is None: a text of at least one character"),
        ({"chat_id": ""}, "`chat_id` is '': a text of at least one character"),
        ({"chat_id": 7}, "`chat_id` is 7: a text of at least one character"),
        (
            {"snapshot": 5, "continuation": True},
            "`snapshot` is 5: give a Snapshot, such as get_snapshot() returns, or its wire form",
        ),
    ],
)
def test_a_harness_with_an_option_that_it_cannot_have_is_refused(options: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        mock_chat_agent(agent_of(), **options)

    assert str(caught.value) == text


async def test_a_chunk_above_the_limit_of_a_record_is_told_by_its_type_and_size() -> None:
    """N-25."""
    caught: list[ChatChunkTooLargeError] = []

    def hook(event: Any) -> None:
        for write in (chat.response.write, event.writer.write):
            try:
                write({"type": "data-report", "data": "x" * 2_000_000})
            except ChatChunkTooLargeError as exc:
                caught.append(exc)

    async with mock_chat_agent(agent_of(on_turn_start=hook)) as harness:
        turn = await harness.send_message("hello")

    assert turn.text == "ok"
    for exc in caught:
        assert (exc.chunk_type, exc.chunk_size, exc.max_size) == ("data-report", exc.size, 1048568)
        assert str(exc).startswith("chunk 'data-report' has 20000")
        assert str(exc).endswith(
            " bytes, the limit is 1048568: nothing was written; send it in pieces, or a reference to it"
        )
    assert len(caught) == 2


async def test_a_chunk_that_json_cannot_hold_is_told_by_its_field() -> None:
    def hook(event: Any) -> None:
        chat.response.write({"type": "data-report", "data": {"db": object()}})

    async with mock_chat_agent(agent_of(on_turn_start=hook)) as harness:
        turn = await harness.send_message("hello")

    assert str(turn.error).startswith("`chunk.data.db` is <object object at ")


WRONG_CALLS: dict[str, tuple[Any, str]] = {
    "sleep nan": (lambda: chat.sleep(math.nan), "`seconds` is nan: a number of seconds"),
    "sleep text": (lambda: chat.sleep("5"), "`seconds` is '5': a number of seconds"),  # type: ignore[arg-type]
    "prompt": (lambda: chat.prompt.set(5), "chat.prompt.set takes a text or a Prompt, not 5"),  # type: ignore[arg-type]
    "skills": (
        lambda: chat.skills.set(["tea"]),  # type: ignore[list-item]
        "chat.skills.set takes a list of what `await skill.local()` gave, not ['tea']",
    ),
    "writer": (
        lambda: chat.stream.writer(execute=None),  # type: ignore[arg-type]
        "chat.stream.writer: `execute` must be a function of one writer, not None",
    ),
}


@pytest.mark.parametrize(("call", "told"), WRONG_CALLS.values(), ids=WRONG_CALLS)
async def test_a_function_of_chat_refuses_what_it_cannot_take_at_once(call: Any, told: str) -> None:
    async def hook(event: Any) -> None:
        outcome = call()
        if inspect.isawaitable(outcome):
            await outcome

    async with mock_chat_agent(agent_of(on_turn_start=hook), wait_timeout=2) as harness:
        turn = await harness.send_message("hello")

    assert str(turn.error) == told
