"""Values that no log, client or snapshot could hold are refused where they come in, and nothing else is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import agent_of, saying
from chatagent import chat, is_step_count, stream_text, tool
from chatagent.errors import HarnessModeError, HarnessStateError, InvalidArgumentError, InvalidMessageError
from chatagent.signals import AbortController
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent_test import Mode

pytestmark = pytest.mark.anyio

NAN = {"role": "user", "parts": [{"type": "data-x", "data": {"n": [1, float("nan")]}}]}


@pytest.mark.parametrize("mode", ["preload", "submit-message"])
async def test_a_message_with_a_number_that_is_not_finite_is_refused_at_once(mode: Mode) -> None:
    async with mock_chat_agent(agent_of(saying("fine")), mode=mode) as harness:
        with pytest.raises(InvalidMessageError, match=r"message.*n"):
            harness.begin_message(NAN)
        turn = await harness.send_message("hello")
        snapshot = harness.get_snapshot()

    assert turn.text == "fine"
    assert snapshot is not None
    assert [message.text for message in snapshot.messages] == ["hello", "fine"]


@pytest.mark.parametrize("output", [float("nan"), {"rate": float("inf")}, [[float("-inf")]]])
async def test_a_tool_result_with_a_number_that_is_not_finite_is_an_error_of_the_tool(output: Any) -> None:
    @tool
    def rate() -> Any:
        """Compute a rate."""
        return output

    model = MockLanguageModel([script.tool_call("rate", {}), script.text("I could not."), script.text("Yes.")])
    agent = chat.agent(
        id="rates",
        run=lambda event: stream_text(
            model=model, messages=event.messages, tools=[rate], stop_when=is_step_count(2), abort_signal=event.signal
        ),
    )

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("rate?")
        await harness.send_message("there?")
        snapshot = harness.get_snapshot()

    assert [chunk.type for chunk in turn.chunks if chunk.type.startswith("tool-output")] == ["tool-output-error"]
    assert snapshot is not None
    assert [message.text for message in snapshot.messages] == ["rate?", "I could not.", "there?", "Yes."]


@pytest.mark.parametrize("given", [{"id": ""}, {"id": None}, {}], ids=["empty", "null", "absent"])
async def test_a_message_without_an_id_gets_one(given: dict[str, Any]) -> None:
    """G-57."""
    message = {**given, "role": "user", "parts": [{"type": "text", "text": "hi"}]}

    async with mock_chat_agent(agent_of(saying("a", "b"))) as harness:
        await harness.send_message(message)
        await harness.send_message(message)
        snapshot = harness.get_snapshot()

    assert snapshot is not None
    assert [message.text for message in snapshot.messages] == ["hi", "a", "hi", "b"]
    assert len({message.id for message in snapshot.messages} - {""}) == 4


async def test_a_controller_in_place_of_its_signal_is_named() -> None:
    controller: Any = AbortController()
    with pytest.raises(InvalidArgumentError, match=r"`abort_signal` is .*its `\.signal`"):
        stream_text(model=MockLanguageModel(), prompt="hi", abort_signal=controller)


async def test_a_stop_before_the_message_that_boots_the_run_is_refused() -> None:
    async with mock_chat_agent(agent_of(saying("whole")), mode="submit-message") as harness:
        with pytest.raises(HarnessModeError, match="send_stop: in mode submit-message"):
            await harness.send_stop()
        turn = await harness.send_message("hello")

    assert (turn.text, turn.stopped) == ("whole", False)


async def test_a_hook_that_fails_behind_a_turn_that_was_returned_is_raised_at_the_end() -> None:
    async def fail(event: Any) -> None:
        await chat.sleep(1)
        raise LookupError("behind the turn")

    async def scenario() -> None:
        async with mock_chat_agent(agent_of(saying("ok"), on_turn_complete=fail)) as harness:
            await harness.send_message("hello", until="turn_complete")
            await harness.wait_idle()

    with pytest.raises(LookupError, match="behind the turn"):
        await scenario()


@pytest.mark.parametrize("call", ["send_message", "wait_idle", "send_stop"])
async def test_a_driver_that_a_hook_calls_is_refused_at_once(call: str) -> None:
    errors: list[HarnessStateError] = []

    async def drive(event: Any) -> None:
        arguments = ["again"] if call == "send_message" else []
        try:
            await getattr(harness, call)(*arguments)
        except HarnessStateError as error:
            errors.append(error)

    async with mock_chat_agent(agent_of(saying("ok", "more"), on_turn_start=drive, max_turns=1)) as harness:
        turn = await harness.send_message("hello")

    assert turn.text == "ok"
    assert all("the run would wait for itself" in str(error) for error in errors)
    assert len(errors) == (0 if call == "send_stop" else 1)
