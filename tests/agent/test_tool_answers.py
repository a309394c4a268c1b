"""Tool calls that the client answers, and how stored results look to the model (rules M-10, M-11, N-2)."""

from __future__ import annotations

from typing import Any

import pytest

from agent.making import ASK_USER, agent_of, assistant, ids, kept, parts_of, prompt_of, roles, saying, tool_part, user
from chatagent import chat, tool
from chatagent.ui import UIMessage, to_wire
from chatagent_test import MockLanguageModel, mock_chat_agent, script

pytestmark = pytest.mark.anyio

INPUT = {"question": "Which colour?"}
BLUE = {"color": "blue"}


def asking_for_colour(*later: str) -> MockLanguageModel:
    """A model that asks the user at first."""
    return saying(script.tool_call("ask_user", INPUT, tool_call_id="tc-1"), *(later or ("thanks",)))


def answer(message_id: str, state: str = "output-available", **fields: Any) -> UIMessage:
    """The slim message with which a client answers `tc-1`."""
    brought = {"output": BLUE} if state == "output-available" else {}
    return assistant(message_id, tool_part("tc-1", state, name="ask_user", **{**brought, **fields}))


def tool_parts(message: UIMessage | None) -> list[dict[str, Any]]:
    assert message is not None
    return [part for part in parts_of(message) if "toolCallId" in part]


async def test_an_answer_under_a_made_up_id_goes_to_the_message_that_asked() -> None:
    """MCA-007, F-71."""
    async with mock_chat_agent(agent_of(asking_for_colour(), tools=ASK_USER)) as harness:
        first = await harness.send_message(user("u-1"))
        second = await harness.send_message(answer("ai-sdk-fresh-id"))

    assert first.message is not None
    assert ids(kept(harness)) == ["u-1", first.message.id]
    (part,) = tool_parts(kept(harness)[1])
    assert (part["toolCallId"], part["state"], part["output"]) == ("tc-1", "output-available", BLUE)
    assert second.raw_chunks[0] == {"type": "start", "messageId": first.message.id}


async def test_an_answer_under_the_message_s_own_id_keeps_the_input() -> None:
    """MCA-012, F-70: the reference once sent the model a call without input."""
    model = asking_for_colour()

    async with mock_chat_agent(agent_of(model, tools=ASK_USER)) as harness:
        first = await harness.send_message(user("u-1"))
        assert first.message is not None
        await harness.send_message(answer(first.message.id))

    (part,) = tool_parts(kept(harness)[1])
    assert (part["state"], part["output"], part["input"]) == ("output-available", BLUE, INPUT)
    call = prompt_of(model, 1)[1].content[0]
    assert (call.tool_name, call.input) == ("ask_user", INPUT)
    assert roles(prompt_of(model, 1)) == ["user", "assistant", "tool"]


async def test_an_answer_to_a_call_that_nobody_knows_is_a_message_of_its_own() -> None:
    async with mock_chat_agent(agent_of(saying("hi", "so?"), tools=ASK_USER)) as harness:
        first = await harness.send_message(user("u-1"))
        await harness.send_message(answer("a-9"))

    assert first.message is not None
    assert ids(kept(harness)) == ["u-1", first.message.id, "a-9"]


async def test_an_answer_is_laid_over_what_hydration_gives() -> None:
    """MCA-008."""
    stored = assistant("a-head-slim", tool_part("tc-1", "input-available", input={"query": "trigger.dev pricing"}))
    seen: list[UIMessage] = []
    agent = agent_of(
        hydrate_messages=lambda event: [user("u-1"), stored],
        on_turn_complete=lambda event: seen.extend(event.ui_messages),
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(assistant("a-head-slim", tool_part("tc-1", "output-available", output={"hits": 7})))

    assert tool_parts(seen[1]) == [
        tool_part("tc-1", "output-available", input={"query": "trigger.dev pricing"}, output={"hits": 7})
    ]


async def test_an_approval_is_laid_over_what_hydration_gives() -> None:
    """MCA-009."""
    request = {"resource": "/critical/data"}
    stored = assistant("a-1", tool_part("tc-1", "approval-requested", input=request, approval={"id": "appr_1"}))
    given = {"id": "appr_1", "approved": True}
    seen: list[UIMessage] = []
    agent = agent_of(
        run=lambda event: None,
        hydrate_messages=lambda event: [user("u-1"), stored],
        on_turn_complete=lambda event: seen.extend(event.ui_messages),
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(assistant("a-1", tool_part("tc-1", "approval-responded", approval=given)))

    assert tool_parts(seen[1]) == [tool_part("tc-1", "approval-responded", input=request, approval=given)]


async def test_a_stale_approval_does_not_undo_a_final_denial() -> None:
    """MCA-010, F-72."""
    denial = {"id": "appr_1", "approved": False, "reason": "no"}
    part = tool_part("tc-1", "output-denied", input={"resource": "x"}, approval=denial)
    stale = tool_part("tc-1", "approval-responded", approval={"id": "appr_1", "approved": True})
    seen: list[UIMessage] = []
    agent = agent_of(
        run=lambda event: None,
        hydrate_messages=lambda event: [user("u-1"), assistant("a-1", part)],
        on_turn_complete=lambda event: seen.extend(event.ui_messages),
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(assistant("a-1", stale))

    assert tool_parts(seen[1]) == [part]


async def test_a_continuation_knows_which_message_owns_a_call() -> None:
    history = [user("u-1"), assistant("a-1", tool_part("tc-1", "input-available", name="ask_user", input=INPUT))]
    snapshot = {"version": 1, "savedAt": 0, "messages": [to_wire(message) for message in history]}

    async with mock_chat_agent(agent_of(tools=ASK_USER), continuation=True, snapshot=snapshot) as harness:
        await harness.send_message(answer("ai-sdk-fresh-id"))

    assert ids(kept(harness)) == ["u-1", "a-1"]
    assert tool_parts(kept(harness)[1])[0]["output"] == BLUE


# --- what chat.history says of calls ---


async def test_a_call_that_waits_for_the_user_is_pending() -> None:
    """MCA-023, N-13."""
    seen: list[Any] = []
    agent = agent_of(
        asking_for_colour(),
        tools=ASK_USER,
        on_turn_complete=lambda event: seen.extend(chat.history.get_pending_tool_calls()),
    )

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    (call,) = seen
    assert turn.message is not None
    assert (call.tool_call_id, call.tool_name, call.message_id) == ("tc-1", "ask_user", turn.message.id)


async def test_a_text_leaves_no_pending_call() -> None:
    """MCA-024."""
    seen: list[Any] = []
    agent = agent_of(on_turn_complete=lambda event: seen.append(chat.history.get_pending_tool_calls()))

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert seen == [[]]


@pytest.mark.parametrize(("state", "fields"), [("output-available", {}), ("output-error", {"errorText": "refused"})])
async def test_an_answer_of_either_kind_resolves_the_call(state: str, fields: dict[str, Any]) -> None:
    """MCA-025, MCA-029."""
    seen: list[Any] = []

    def look(event: Any) -> None:
        echo = answer("echo", state, **fields)
        seen.append((chat.history.get_resolved_tool_calls(), chat.history.extract_new_tool_results(echo)))

    async with mock_chat_agent(agent_of(asking_for_colour(), tools=ASK_USER, on_turn_complete=look)) as harness:
        first = await harness.send_message("hello")
        await harness.send_message(answer("ai-sdk-fresh-id", state, **fields))

    assert first.message is not None
    (before, new_before), (after, new_after) = seen
    assert before == []
    assert [call.tool_call_id for call in new_before] == ["tc-1"]
    assert [(call.tool_call_id, call.tool_name, call.message_id) for call in after] == [
        ("tc-1", "ask_user", first.message.id)
    ]
    assert new_after == []


async def test_new_results_leave_out_what_the_chain_has_and_doubles() -> None:
    """MCA-026, MCA-028, MCA-030."""
    seen: list[Any] = []
    incoming = assistant(
        "a-2",
        tool_part("tc-1", "output-available", output={"hits": 1}),
        tool_part("tc-2", "output-available", output={"hits": 7}),
        tool_part("tc-2", "output-available", output={"hits": 9}),
        tool_part("tc-err", "output-error", errorText="boom"),
        tool_part("tc-wait", "input-available", input={}),
    )

    def look(event: Any) -> None:
        chat.history.set([user("u-1"), assistant("a-1", tool_part("tc-1", "output-available", input={}, output=1))])
        seen.extend(chat.history.extract_new_tool_results(incoming))

    async with mock_chat_agent(agent_of(on_turn_complete=look)) as harness:
        await harness.send_message("hello")

    assert [(each.tool_call_id, each.tool_name, each.output, each.error_text) for each in seen] == [
        ("tc-2", "search", {"hits": 7}, None),
        ("tc-err", "search", None, "boom"),
    ]


async def test_only_an_assistant_message_brings_results() -> None:
    seen: list[Any] = []
    agent = agent_of(on_turn_complete=lambda event: seen.append(chat.history.extract_new_tool_results(user("u-9"))))

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert seen == [[]]


async def test_a_call_is_pending_also_behind_a_later_user_message() -> None:
    """MCA-031."""
    seen: list[Any] = []

    def look(event: Any) -> None:
        waiting = assistant(
            "a-pending",
            tool_part("tc-still-pending", "input-available", name="ask_user", input={}),
            tool_part("tc-asked", "approval-requested", input={}, approval={"id": "ap"}),
        )
        chat.history.set([waiting, user("u-1")])
        seen.extend(chat.history.get_pending_tool_calls())

    async with mock_chat_agent(agent_of(on_turn_complete=look)) as harness:
        await harness.send_message("hello")

    assert [(call.tool_call_id, call.tool_name, call.message_id) for call in seen] == [
        ("tc-still-pending", "ask_user", "a-pending")
    ]


# --- how stored results look to the model ---


def vault() -> Any:
    """A tool whose stored output no model may see as it is."""
    return tool(
        description="Open the vault.",
        input_schema={"type": "object"},
        to_model_output=lambda event: {"type": "text", "value": "MARKER-XYZ"},
    )


RESOLVED = assistant("a-1", tool_part("tc-1", "output-available", name="vault", input={}, output={"bytes": "raw"}))


def tool_outputs(model: MockLanguageModel) -> list[list[Any]]:
    """For each call of the model what it saw of tool results."""
    prompts: list[list[Any]] = [list(call.prompt) for call in model.do_stream_calls]
    return [
        [part.output.value for message in prompt if message.role == "tool" for part in message.content]
        for prompt in prompts
    ]


async def test_a_declared_tool_decides_in_every_turn_what_the_model_sees() -> None:
    """MCA-042, F-76: it was applied in the first turn only."""
    model = saying("one", "two")

    async with mock_chat_agent(agent_of(model, tools={"vault": vault()})) as harness:
        first = await harness.send_message(RESOLVED)
        await harness.send_message("again")

    assert tool_outputs(model) == [["MARKER-XYZ"], ["MARKER-XYZ"]]
    (run,) = [call.event for call in first.hooks if call.name == "run"]
    assert list(run.tools) == ["vault"]
    assert tool_parts(kept(harness)[0])[0]["output"] == {"bytes": "raw"}


async def test_a_function_gives_the_tools_of_each_turn() -> None:
    """MCA-043."""
    model = saying("one", "two")
    asked: list[int] = []

    async def resolve(event: Any) -> Any:
        asked.append(event.turn)
        return {"vault": vault()}

    async with mock_chat_agent(agent_of(model, tools=resolve)) as harness:
        await harness.send_message(RESOLVED)
        await harness.send_message("again")

    assert asked == [0, 1]
    assert tool_outputs(model) == [["MARKER-XYZ"], ["MARKER-XYZ"]]


async def test_what_the_model_sees_may_take_time_to_make() -> None:
    async def slowly(event: Any) -> Any:
        await chat.sleep(60)
        return {"type": "text", "value": f"a picture of {event.output['bytes']}"}

    model = saying("one", "two", "three")
    camera = tool(description="Take a picture.", input_schema={"type": "object"}, to_model_output=slowly)

    async with mock_chat_agent(agent_of(model, tools={"vault": camera})) as harness:
        await harness.send_message(RESOLVED)
        began_at = harness.clock.now()
        await harness.send_message("again")
        await harness.send_regenerate()

    assert tool_outputs(model) == [["a picture of raw"]] * 3
    assert harness.clock.now() == began_at


async def test_without_declared_tools_the_stored_output_is_what_the_model_sees() -> None:
    """MCA-044."""
    model = saying("one")

    async with mock_chat_agent(agent_of(model)) as harness:
        await harness.send_message(RESOLVED)

    assert tool_outputs(model) == [[{"bytes": "raw"}]]


async def test_a_continuation_shows_the_past_as_the_tools_say() -> None:
    """B-6."""
    model = saying("one")
    snapshot = {"version": 1, "savedAt": 0, "messages": [to_wire(user("u-1")), to_wire(RESOLVED)]}

    def resolve(event: Any) -> Any:
        return {"vault": vault()}

    agent = agent_of(model, tools=resolve)

    async with mock_chat_agent(agent, continuation=True, snapshot=snapshot) as harness:
        await harness.send_message("again")

    assert tool_outputs(model) == [["MARKER-XYZ"]]


async def test_tools_that_cannot_be_resolved_at_boot_do_not_keep_the_run_from_going_on() -> None:
    """B-6 fails open, T-14 closed."""
    model = saying("one")
    snapshot = {"version": 1, "savedAt": 0, "messages": [to_wire(user("u-1")), to_wire(RESOLVED)]}
    calls = 0

    def resolve(event: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("no tools yet")
        return {"vault": vault()}

    async with mock_chat_agent(agent_of(model, tools=resolve), continuation=True, snapshot=snapshot) as harness:
        turn = await harness.send_message("again")

    assert turn.error is None
    assert turn.text == "one"


async def test_tools_that_cannot_be_resolved_fail_the_turn_and_never_lend_those_of_the_turn_before() -> None:
    """T-14, F-77."""
    model = saying("one", "never")

    def resolve(event: Any) -> Any:
        if event.turn == 1:
            raise ValueError("no tools")
        return {"vault": vault()}

    async with mock_chat_agent(agent_of(model, tools=resolve)) as harness:
        await harness.send_message("a")
        failed = await harness.send_message("b")

    assert str(failed.error) == "no tools"
    assert len(model.do_stream_calls) == 1


async def test_a_list_of_tools_is_known_by_their_names() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    model = saying(script.tool_call("add", {"a": 1, "b": 2}), "three")

    async with mock_chat_agent(agent_of(model, tools=[add])) as harness:
        turn = await harness.send_message("1 + 2")

    assert turn.text == "three"
    assert tool_parts(turn.message)[0]["output"] == 3


@pytest.mark.parametrize(
    ("tools", "shown"),
    [(lambda event: "add", "'add'"), (lambda event: 7, "7"), (lambda event: [7], "7")],
    ids=["text", "7", "list"],
)
async def test_what_is_no_set_of_tools_fails_the_turn_and_says_what_it_should_be(tools: Any, shown: str) -> None:
    async with mock_chat_agent(agent_of(tools=tools)) as harness:
        turn = await harness.send_message("hello")

    assert str(turn.error).startswith("`tools` must return ")
    assert str(turn.error).endswith(f", it returned {shown}")


async def test_two_tools_of_one_name_fail_the_turn() -> None:
    @tool
    def add(a: int) -> int:
        """Add one."""
        return a + 1

    async with mock_chat_agent(agent_of(tools=lambda event: [add, add])) as harness:
        turn = await harness.send_message("hello")

    assert str(turn.error).startswith(
        "`tools` must return tools of different names, not two named 'add', it returned ["
    )


async def test_a_tool_whose_output_for_the_model_cannot_be_made_fails_no_turn() -> None:
    """F-86: what cannot be shown is left out for the model, and stays in the history."""

    def broken(event: Any) -> Any:
        raise ValueError("no picture")

    picture = tool(
        description="Take a picture.",
        input_schema={"type": "object"},
        to_model_output=broken,
    )
    seen: list[Any] = []
    agent = agent_of(
        tools={"vault": picture},
        run=lambda event: seen.append(roles(event.messages)),
        hydrate_messages=lambda event: [user("u-0"), RESOLVED, *event.incoming_messages],
    )

    async with mock_chat_agent(agent) as harness:
        first = await harness.send_message("a")
        second = await harness.send_message("b")

    assert (first.error, second.error) == (None, None)
    assert seen == [["user", "user"], ["user", "user"]]
