"""The real agent of the suite says what scripts say; seen through the harness, which knows nothing of the suite."""

from __future__ import annotations

import pytest

from chatagent.ui import ToolUIPart
from chatagent_test import mock_chat_agent, reply
from chatagent_test.conformance import CONTRACT, ScriptedAgent, Unsupported

pytestmark = pytest.mark.anyio


async def test_it_says_texts_and_reasoning_in_their_pieces() -> None:
    scripted = ScriptedAgent()
    scripted.answer(reply.assistant(reply.reasoning("Hm."), reply.text("One two.", chunks=["One ", "two."])))

    async with mock_chat_agent(scripted.agent) as harness:
        turn = await harness.send_message("hi")

    assert turn.text == "One two."
    assert [chunk.type for chunk in turn.chunks].count("text-delta") == 2
    assert turn.message is not None
    assert [part.type for part in turn.message.parts] == ["step-start", "reasoning", "text"]


async def test_tools_give_what_their_scripts_say_and_text_behind_them_is_another_step() -> None:
    scripted = ScriptedAgent()
    found = reply.tool("lookup").result({"query": "a"}, {"found": "A"})
    failed = reply.tool("lookup").error("no network", {"query": "b"})
    scripted.answer(reply.assistant("Let me see.", found, failed, "One of two."))

    async with mock_chat_agent(scripted.agent) as harness:
        turn = await harness.send_message("hi")

    assert turn.message is not None
    kinds = [part.type for part in turn.message.parts]
    assert kinds == ["step-start", "text", "tool-lookup", "tool-lookup", "step-start", "text"]
    first, second = (part for part in turn.message.parts if isinstance(part, ToolUIPart))
    assert (first.state, first.output) == ("output-available", {"found": "A"})
    assert (second.state, "no network" in str(second.error_text)) == ("output-error", True)


async def test_data_comes_beside_the_texts() -> None:
    scripted = ScriptedAgent()
    scripted.answer(reply.assistant(reply.data("mood", 1, "d-1"), reply.data("noise", 2, transient=True), "hello"))

    async with mock_chat_agent(scripted.agent) as harness:
        turn = await harness.send_message("hi")

    assert turn.message is not None
    assert {part.type for part in turn.message.parts} == {"step-start", "data-mood", "text"}
    assert "data-noise" in [chunk.type for chunk in turn.chunks]


@pytest.mark.parametrize("name", ["refund", "pick_file"])
async def test_a_call_that_waits_ends_the_turn(name: str) -> None:
    scripted = ScriptedAgent()
    waits = {
        "refund": reply.tool("refund").approval({"order": 7}),
        "pick_file": reply.tool("pick_file").waiting({"kind": "pdf"}, reply.action("output")),
    }
    scripted.answer(reply.assistant(waits[name]))

    async with mock_chat_agent(scripted.agent) as harness:
        turn = await harness.send_message("hi")

    assert turn.message is not None
    part = turn.message.parts[-1]
    assert isinstance(part, ToolUIPart)
    assert part.state == {"refund": "approval-requested", "pick_file": "input-available"}[name]


async def test_a_run_error_fails_the_turn_before_it_says_anything() -> None:
    scripted = ScriptedAgent()
    scripted.answer(reply.error("boom"), reply.nothing(), reply.assistant("hello"))

    async with mock_chat_agent(scripted.agent) as harness:
        failed = await harness.send_message("hi")
        nothing = await harness.send_message("hi")
        answered = await harness.send_message("hi")

    assert failed.error_texts == ["boom"]
    assert [chunk.type for chunk in failed.chunks] == ["error"]
    assert (nothing.text, nothing.error_texts) == ("", [])
    assert answered.text == "hello"


async def test_a_held_answer_comes_as_the_test_says_it() -> None:
    scripted = ScriptedAgent()
    held = scripted.hold()

    async with mock_chat_agent(scripted.agent) as harness:
        pending = harness.begin_message("hi")
        await held.emit_text("One ")
        await harness.wait_streaming("One ")
        await held.emit_text("two.")
        await held.finish()
        turn = await pending

    assert turn.text == "One two."


async def test_a_held_answer_fails_where_the_test_says_so() -> None:
    scripted = ScriptedAgent()
    held = scripted.hold()

    async with mock_chat_agent(scripted.agent) as harness:
        pending = harness.begin_message("hi")
        await held.emit_text("half")
        await held.emit_tool_input("lookup", '{"que')
        await held.fail("cut")
        turn = await pending

    assert turn.error_texts == ["cut"]
    assert "tool-input-delta" in [chunk.type for chunk in turn.chunks]


async def test_a_turn_waits_for_an_answer_that_is_given_later() -> None:
    scripted = ScriptedAgent()

    async with mock_chat_agent(scripted.agent) as harness:
        pending = harness.begin_message("hi")
        scripted.answer(reply.assistant("late"))
        turn = await pending

    assert turn.text == "late"


async def test_it_remembers_what_it_got_of_whom() -> None:
    scripted = ScriptedAgent()
    scripted.answer(reply.assistant("hello"))

    async with mock_chat_agent(scripted.agent, chat_id="t-1", client_data={"k": 1}) as harness:
        await harness.send_message("hi")

    (received,) = scripted.received("t-1")
    assert received.client_data == {"k": 1}
    assert [part.type for part in received.parts] == ["text"]
    assert scripted.received("t-2") == ()


@pytest.mark.parametrize("part", [reply.step(), reply.pause(1)], ids=["step", "pause"])
def test_what_no_model_can_be_made_to_say_is_refused_when_it_is_given(part: object) -> None:
    scripted = ScriptedAgent()

    with pytest.raises(Unsupported, match=r"^reply\."):
        scripted.answer(reply.assistant("hello", part))  # type: ignore[arg-type]


def test_it_is_the_agent_of_the_contract() -> None:
    found = ScriptedAgent().agent.contract().manifest()
    wanted = CONTRACT.manifest()

    assert found.agent_id == wanted.agent_id
    assert [(tool.name, tool.tool_id, tool.executor, tool.needs_approval) for tool in found.tools] == [
        (tool.name, tool.tool_id, tool.executor, tool.needs_approval) for tool in wanted.tools
    ]
    assert [(tool.suspends, tool.data_channels) for tool in found.tools] == [
        (tool.suspends, tool.data_channels) for tool in wanted.tools
    ]
    for mine, theirs in zip(found.tools, wanted.tools, strict=True):
        assert mine.input_schema["required"] == theirs.input_schema["required"]


async def test_an_action_is_answered_by_the_next_script() -> None:
    scripted = ScriptedAgent()
    scripted.answer(reply.assistant("hello"), reply.assistant("Undone."))

    async with mock_chat_agent(scripted.agent) as harness:
        await harness.send_message("hi")
        turn = await harness.send_action({"type": "undo"})

    assert turn.text == "Undone."


async def test_an_approved_call_gives_what_the_script_of_the_next_turn_says() -> None:
    scripted = ScriptedAgent()
    scripted.answer(reply.assistant(reply.tool("refund").approval({"order": 7})))
    scripted.answer(reply.assistant(reply.tool("refund").resolved({"refunded": True}), "Done."))

    async with mock_chat_agent(scripted.agent) as harness:
        asked = await harness.send_message("please")
        assert asked.message is not None
        waiting = asked.message.parts[-1]
        assert isinstance(waiting, ToolUIPart)
        assert waiting.approval is not None
        approved = waiting.model_copy(
            update={
                "state": "approval-responded",
                "approval": waiting.approval.model_copy(update={"approved": True}),
            }
        )
        turn = await harness.send_message(asked.message.model_copy(update={"parts": (approved,)}))

    assert turn.message is not None
    call = next(part for part in turn.message.parts if isinstance(part, ToolUIPart))
    assert (call.state, call.output) == ("output-available", {"refunded": True})
    assert turn.text.endswith("Done.")
