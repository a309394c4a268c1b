"""Waiting for a run: for text, quiet, its end, a predicate; and what is said when it does not come (D4)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from agent.making import agent_of, asking, saying, types
from chatagent import chat
from chatagent.errors import AgentRunEndedError, HarnessClosedError, WaitTimeoutError
from chatagent_test import MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent import ChatAgent
    from chatagent_test import ChatAgentHarness

pytestmark = pytest.mark.anyio


def nothing(event: Any) -> None:
    return None


BOOM = ValueError("boom")


def fail(event: Any) -> None:
    raise BOOM


# --- wait_streaming ---


async def test_waiting_for_text_returns_as_soon_as_it_was_streamed() -> None:
    model = saying(script.text("Espresso is ", chunks=["Espr", "esso is "]).hold("here").text("coffee"))

    async with mock_chat_agent(agent_of(model)) as harness:
        pending = harness.begin_message("write")
        await harness.wait_streaming("Espresso")
        seen = [chunk["type"] for chunk in harness.all_raw_chunks]
        model.release("here")
        turn = await pending

    assert seen.count("text-delta") == 2
    assert turn.text == "Espresso is coffee"


async def test_waiting_for_anything_returns_at_the_first_chunk() -> None:
    model = saying(script.text("one").hold("here"))

    async with mock_chat_agent(agent_of(model)) as harness:
        harness.begin_message("write")
        await harness.wait_streaming()
        seen = len(harness.all_chunks)
        model.release("here")
        await harness.wait_idle()

    assert seen > 0


async def test_text_that_was_streamed_already_counts() -> None:
    model = saying(script.text("one").hold("here"))

    async with mock_chat_agent(agent_of(model)) as harness:
        harness.begin_message("write")
        await model.reached("here")
        await harness.wait_streaming("one")
        await harness.wait_streaming()
        model.release("here")
        await harness.wait_idle()

    assert harness.turns[0].text == "one"


async def test_text_of_an_earlier_turn_does_not_count() -> None:
    model = saying("one", script.pause(60).text("one again"))

    async with mock_chat_agent(agent_of(model)) as harness:
        await harness.send_message("a")
        began_at = harness.clock.now()
        harness.begin_message("b")
        await harness.wait_streaming("one")
        waited = harness.clock.now() - began_at
        await harness.wait_idle()

    assert waited == 60


async def test_waiting_for_text_moves_time_as_the_model_needs_it() -> None:
    model = saying(script.pause(3600).text("late").pause(3600).text("r"))

    async with mock_chat_agent(agent_of(model)) as harness:
        began_at = harness.clock.now()
        harness.begin_message("write")
        await harness.wait_streaming("late")
        waited = harness.clock.now() - began_at
        await harness.wait_idle()

    assert waited == 3600
    assert harness.clock.now() - began_at == 7200


async def test_waiting_for_text_raises_what_failed_the_turn_once_nothing_more_will_come() -> None:
    async with mock_chat_agent(agent_of(run=fail), wait_timeout=60) as harness:
        harness.begin_message("write")
        with pytest.raises(ValueError, match=r"^boom$") as caught:
            await harness.wait_streaming("never")

    assert caught.value is BOOM


async def test_waiting_for_text_raises_when_the_run_is_over() -> None:
    async with mock_chat_agent(agent_of(saying("bye"), on_turn_start=lambda event: chat.end_run())) as harness:
        harness.begin_message("write")
        with pytest.raises(AgentRunEndedError) as caught:
            await harness.wait_streaming("never")

    head, *so_far = str(caught.value).split("\n")
    assert head == "wait_streaming: the run of agent 'tester' has ended, nobody is left to answer"
    assert so_far[0] == "hooks so far: on_turn_start (returned), run (returned)"
    assert so_far[1].startswith("chunks of the last turn: start, start-step, text-start, text-delta, text-end, ")
    assert so_far[1].endswith(", finish, turn-complete")


# --- wait_for ---


async def test_waiting_for_a_predicate() -> None:
    model = saying(script.text("one").hold("here"))

    async with mock_chat_agent(agent_of(model)) as harness:
        harness.begin_message("a")
        await harness.wait_for(lambda harness: len(harness.all_chunks) >= 4)
        await harness.wait_for(lambda harness: harness.hooks)
        model.release("here")
        await harness.wait_for(lambda harness: harness.get_snapshot())

    assert harness.turns[0].text == "one"


async def test_a_predicate_that_raises_raises_there() -> None:
    def predicate(harness: ChatAgentHarness) -> bool:
        raise LookupError("what?")

    async with mock_chat_agent(agent_of()) as harness:
        with pytest.raises(LookupError, match=r"^what\?$"):
            await harness.wait_for(predicate)


async def test_waiting_for_a_predicate_raises_what_failed_the_turn_once_nothing_more_will_come() -> None:
    async with mock_chat_agent(agent_of(on_turn_start=fail), wait_timeout=60) as harness:
        harness.begin_message("a")
        with pytest.raises(ValueError, match=r"^boom$"):
            await harness.wait_for(lambda harness: len(harness.turns) == 2)


async def test_a_failure_that_the_test_knows_does_not_end_a_wait() -> None:
    async with mock_chat_agent(agent_of(saying("two"), on_turn_start=failing_once())) as harness:
        await harness.send_message("a")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(harness.wait_for, has_two_turns)
            await anyio.lowlevel.checkpoint()
            await harness.send_message("b")

    assert harness.turns[1].text == "two"


def has_two_turns(harness: ChatAgentHarness) -> bool:
    return len(harness.turns) == 2


def failing_once() -> Any:
    calls = 0

    def hook(event: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise BOOM

    return hook


async def test_a_failed_turn_does_not_end_a_wait_while_more_is_to_come() -> None:
    async with mock_chat_agent(agent_of(saying("two"), on_turn_start=failing_once())) as harness:
        first = harness.begin_message("a")
        harness.begin_message("b")
        await harness.wait_for(lambda harness: len(harness.turns) == 2)
        turn = await first

    assert turn.error is BOOM
    assert harness.turns[1].text == "two"


async def test_waiting_for_a_predicate_raises_when_the_run_is_over() -> None:
    async with mock_chat_agent(agent_of(run=lambda event: chat.end_run())) as harness:
        harness.begin_message("a")
        with pytest.raises(AgentRunEndedError, match=r"^wait_for: the run of agent 'tester' has ended"):
            await harness.wait_for(lambda harness: False)


# --- wait_idle, wait_ended, settle ---


async def test_idle_is_when_everything_that_was_sent_is_answered() -> None:
    async with mock_chat_agent(agent_of(saying("one", "two", "three"))) as harness:
        await harness.wait_idle()
        before = len(harness.turns)
        for text in ("a", "b", "c"):
            harness.begin_message(text)
        await harness.wait_idle()
        after = len(harness.turns)

    assert (before, after) == (0, 3)


async def test_idle_is_also_a_run_that_is_suspended_or_over() -> None:
    async with mock_chat_agent(agent_of(saying("one"))) as harness:
        await harness.send_message("a")
        await harness.advance(60)
        await harness.wait_idle()
        await harness.advance(3600)
        await harness.wait_idle()

        assert harness.run_ended


async def test_waiting_for_the_end() -> None:
    async with mock_chat_agent(agent_of(run=lambda event: chat.end_run())) as harness:
        harness.begin_message("a")
        await harness.wait_ended()
        await harness.wait_ended()

        assert harness.run_ended


async def test_waiting_for_the_end_raises_what_ended_the_run() -> None:
    harness = mock_chat_agent(agent_of(on_boot=fail))

    with pytest.raises(ValueError, match=r"^boom$"):
        await harness.wait_ended()
    await harness.wait_ended()
    await harness.close(raise_errors=True)

    assert harness.run_error is BOOM


async def test_settling_waits_until_the_run_can_do_nothing_by_itself_and_moves_no_time() -> None:
    model = saying(script.text("one").pause(60).text(" two"))

    async with mock_chat_agent(agent_of(model)) as harness:
        began_at = harness.clock.now()
        harness.begin_message("a")
        await harness.settle()
        seen = [chunk["type"] for chunk in harness.all_raw_chunks]
        moved = harness.clock.now() - began_at
        await harness.wait_idle()

    assert "text-delta" in seen
    assert "finish" not in seen
    assert moved == 0


# --- a wait that takes too long ---


async def test_a_wait_that_takes_too_long_says_who_waits_for_what() -> None:
    foreign = anyio.Event()

    async def run(event: Any) -> None:
        chat.response.write({"type": "data-note", "data": 1})
        await foreign.wait()

    agent = agent_of(run=run, on_turn_start=nothing)

    async with mock_chat_agent(agent, wait_timeout=0.05) as harness:
        with pytest.raises(WaitTimeoutError) as caught:
            await harness.send_message("hello")
        foreign.set()
        await harness.wait_idle()

    lines = str(caught.value).split("\n")
    assert lines[0] == "send_message: the turn goes on: not within 0.05 s of real time."
    assert lines[1] == "hooks so far: on_turn_start (returned), run (at work)"
    assert lines[2] == "chunks of the last turn: data-note"
    assert lines[3].endswith("1 task(s) at work, or waiting on something of their own")
    assert "a record on .in" in lines[3]
    assert lines[4] == "pending timers: none"
    assert re.fullmatch(r"the agent's task stands at .*test_waiting\.py:\d+ in run", lines[5])
    assert isinstance(caught.value, TimeoutError)


@pytest.mark.parametrize(
    ("model_script", "waiting"),
    [
        (script.text("one").hang(), "script.hang()"),
        (script.text("one").hold("here"), "script.hold('here'), until release('here')"),
    ],
)
async def test_a_model_that_does_not_go_on_is_named(model_script: Any, waiting: str) -> None:
    async with mock_chat_agent(agent_of(saying(model_script)), wait_timeout=0.05) as harness:
        with pytest.raises(WaitTimeoutError) as caught:
            await harness.send_message("hello")

    assert waiting in str(caught.value)
    assert "chunks of the last turn: start, start-step, text-start, text-delta" in str(caught.value)


async def test_a_turn_that_took_too_long_still_runs_and_can_be_waited_for() -> None:
    foreign = anyio.Event()

    async def run(event: Any) -> None:
        await foreign.wait()

    async with mock_chat_agent(agent_of(run=run), wait_timeout=0.05) as harness:
        pending = harness.begin_message("hello")
        with pytest.raises(WaitTimeoutError, match=r"^begin_message: the turn goes on"):
            await pending
        foreign.set()
        turn = await pending

    assert turn.index == 0


async def test_waiting_for_the_end_of_what_never_began_says_so() -> None:
    async with mock_chat_agent(agent_of(), mode="submit-message", wait_timeout=0.05) as harness:
        with pytest.raises(WaitTimeoutError) as caught:
            await harness.wait_ended()

    assert str(caught.value).startswith(
        "wait_ended: nothing was started: in mode submit-message the run boots with its first message; send that: not "
        "within 0.05 s of real time."
    )


WAITS: list[tuple[Callable[[ChatAgentHarness], Awaitable[object]], str]] = [
    (lambda harness: harness.start(), "start: the run has not finished booting: not within 0.05 s of real time."),
    (lambda harness: harness.wait_idle(), "wait_idle: a turn is on: not within 0.05 s of real time."),
    (lambda harness: harness.wait_ended(), "wait_ended: the run goes on: not within 0.05 s of real time."),
    (
        lambda harness: harness.wait_for(lambda harness: False),
        "wait_for: the predicate is false: not within 0.05 s of real time.",
    ),
    (
        lambda harness: harness.wait_streaming(),
        "wait_streaming: nothing was streamed: not within 0.05 s of real time.",
    ),
    (
        lambda harness: harness.wait_streaming("x"),
        "wait_streaming: nothing was streamed that contains 'x': not within 0.05 s of real time.",
    ),
    (lambda harness: harness.settle(), "settle: the run was not quiet within 0.05 s."),
    (lambda harness: harness.send_message("x"), "send_message: the turn goes on: not within 0.05 s of real time."),
    (
        lambda harness: harness.send_message("x", until="sent"),
        "send_message: the run has not booted: not within 0.05 s of real time.",
    ),
    (lambda harness: harness.send_stop(), "send_stop: the run has not heard it: not within 0.05 s of real time."),
]


@pytest.mark.parametrize(("wait", "text"), WAITS)
async def test_every_wait_has_its_limit_and_names_itself(wait: Any, text: str) -> None:
    foreign = anyio.Event()

    async def setup(values: Any) -> None:
        await foreign.wait()

    async with mock_chat_agent(agent_of(), setup_locals=setup, wait_timeout=0.05) as harness:
        with pytest.raises(WaitTimeoutError) as caught:
            await wait(harness)
        foreign.set()
        await harness.wait_for(lambda harness: harness.clock)

    assert str(caught.value).split("\n")[0] == text


# --- errors that drivers raise as themselves ---


async def test_a_failing_setup_is_raised_by_the_first_driver() -> None:
    """G-14: in the reference every call hangs."""
    booted: list[str] = []

    async def setup(values: Any) -> None:
        raise BOOM

    harness = mock_chat_agent(agent_of(on_boot=lambda event: booted.append("boot")), setup_locals=setup)

    with pytest.raises(ValueError, match=r"^boom$") as caught:
        await harness.send_message("hello")
    with pytest.raises(AgentRunEndedError) as later:
        await harness.send_message("again")
    await harness.close(raise_errors=True)

    assert caught.value is BOOM
    assert later.value.__cause__ is BOOM
    assert booted == []


async def test_a_failing_boot_is_raised_once_and_is_the_cause_of_what_comes_later() -> None:
    harness = mock_chat_agent(agent_of(on_boot=fail))

    with pytest.raises(ValueError, match=r"^boom$") as caught:
        await harness.start()
    for call in (harness.send_message("a"), harness.send_stop()):
        with pytest.raises(AgentRunEndedError) as later:
            await call
        assert later.value.__cause__ is BOOM
    await harness.close(raise_errors=True)

    assert caught.value is BOOM
    assert harness.run_ended


async def test_a_failing_boot_that_no_driver_saw_is_raised_at_the_end_of_the_block() -> None:
    async def look_on() -> None:
        async with mock_chat_agent(agent_of(on_boot=fail)) as harness:
            while not harness.run_ended:
                await anyio.lowlevel.checkpoint()

    with pytest.raises(ValueError, match=r"^boom$") as caught:
        await look_on()

    assert caught.value is BOOM


async def begin_and_leave(agent: ChatAgent[Any], *, action: bool = False) -> None:
    """Send something, wait for quiet without looking at the turn, and leave the block."""
    async with mock_chat_agent(agent) as harness:
        await (harness.send_action if action else harness.send_message)("x", until="sent")
        await harness.wait_idle()


async def test_a_failed_turn_that_no_driver_saw_is_raised_at_the_end_of_the_block() -> None:
    """D6."""
    with pytest.raises(ValueError, match=r"^boom$") as caught:
        await begin_and_leave(agent_of(run=fail))

    assert caught.value is BOOM


@pytest.mark.parametrize("hook", ["on_turn_start", "on_before_turn_complete", "on_turn_complete", "on_action"])
async def test_whatever_hook_failed_is_raised_at_the_end_of_the_block(hook: str) -> None:
    with pytest.raises(ValueError, match=r"^boom$"):
        await begin_and_leave(agent_of(**{hook: fail}), action=hook == "on_action")


async def test_a_failed_turn_that_a_driver_returned_is_not_raised_again() -> None:
    async with mock_chat_agent(agent_of(run=fail)) as harness:
        turn = await harness.send_message("hello")

    assert turn.error is BOOM


async def test_a_failed_turn_whose_error_was_read_is_not_raised_again() -> None:
    async with mock_chat_agent(agent_of(run=fail)) as harness:
        harness.begin_message("hello")
        await harness.wait_idle()
        errors = [turn.error for turn in harness.turns]

    assert errors == [BOOM]


async def test_what_the_block_itself_raised_comes_first() -> None:
    async def fail_too() -> None:
        async with mock_chat_agent(agent_of(run=fail)) as harness:
            harness.begin_message("hello")
            await harness.wait_idle()
            raise LookupError("mine")

    with pytest.raises(LookupError, match=r"^mine$"):
        await fail_too()


async def test_an_explicit_close_raises_only_if_it_is_asked_to() -> None:
    quiet, loud = (mock_chat_agent(agent_of(run=fail)) for _ in range(2))
    for harness in (quiet, loud):
        harness.begin_message("hello")
        await harness.wait_idle()

    await quiet.close()
    with pytest.raises(ValueError, match=r"^boom$"):
        await loud.close(raise_errors=True)


async def test_a_model_s_error_is_no_failure_to_be_raised() -> None:
    async with mock_chat_agent(agent_of(saying(script.error("overloaded")))) as harness:
        harness.begin_message("hello")
        await harness.wait_idle()

    assert types(harness.turns[0]) == ["start", "error", "trigger:turn-complete"]


async def test_an_error_is_not_wrapped_in_a_group() -> None:
    async def run(event: Any) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(raise_boom)

    async def raise_boom() -> None:
        raise BOOM

    harness = mock_chat_agent(agent_of(on_boot=run))

    with pytest.raises(ValueError, match=r"^boom$"):
        await harness.start()
    await harness.close()


async def test_keyboard_interrupts_of_a_hook_reach_the_driver() -> None:
    def interrupt(event: Any) -> None:
        raise KeyboardInterrupt

    harness = mock_chat_agent(agent_of(on_turn_start=interrupt))

    with pytest.raises(KeyboardInterrupt):
        await harness.send_message("hello")
    await harness.close(raise_errors=True)

    assert harness.run_ended


async def test_a_closed_harness_says_so_to_every_driver() -> None:
    harness = mock_chat_agent(agent_of())
    await harness.send_message("hello")
    await harness.close()

    for call in (
        harness.start(),
        harness.send_message("x"),
        harness.send_regenerate(),
        harness.send_action("x"),
        harness.send_stop(),
        harness.wait_for(lambda harness: True),
        harness.wait_streaming(),
        harness.wait_idle(),
        harness.wait_ended(),
        harness.settle(),
        harness.advance(1),
    ):
        with pytest.raises(
            HarnessClosedError,
            match=r"^the harness is closed; make a new one\nhooks so far: run \(returned\)\nchunks of ",
        ):
            await call
    assert len(harness.turns) == 1


async def test_a_send_that_waits_while_the_harness_closes_says_so() -> None:
    model = MockLanguageModel(script.text("one").hold("here"))

    def run(event: Any) -> Any:
        return asking(model)(event)

    harness = mock_chat_agent(agent_of(run=run))
    raised: list[BaseException] = []

    async def send() -> None:
        try:
            await harness.send_message("hello")
        except HarnessClosedError as exc:
            raised.append(exc)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await model.reached("here")
        await harness.close()

    assert [str(each).split("\n")[0] for each in raised] == [
        "send_message: the harness was closed before it was answered"
    ]
