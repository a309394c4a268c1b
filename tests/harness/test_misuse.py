"""Calls at the wrong moment or with wrong values: each is told at once, with what was given and what came so far."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from agent.making import agent_of
from chatagent import chat
from chatagent.errors import (
    AgentRunEndedError,
    HarnessClosedError,
    HarnessModeError,
    HarnessStateError,
    InvalidArgumentError,
    OutOfMemoryError,
)
from chatagent_test import mock_chat_agent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent_test import ChatAgentHarness

pytestmark = pytest.mark.anyio

STEP = [{"role": "assistant", "content": [{"type": "text", "text": "first"}]}]
ONE_TURN = (
    "\nhooks so far: run (returned)\n"
    "chunks of the last turn: start, start-step, text-start, text-delta, text-end, finish-step, finish, turn-complete"
)


class Enough(BaseException):
    """What no turn takes: it ends the run."""


async def fail(_: Any) -> None:
    raise Enough("no database")


# --- runs that fail ---


async def test_a_run_that_fails_behind_the_turn_complete_is_told_to_who_waits_for_all_of_the_turn() -> None:
    async with mock_chat_agent(agent_of(on_turn_complete=fail)) as harness:
        with pytest.raises(Enough, match="no database"):
            await harness.send_message("hello")

    assert harness.get_snapshot() is None


async def test_a_custom_agent_that_fails_behind_its_turn_complete_is_told_so_too() -> None:
    async def run(_payload: Any, _event: Any) -> None:
        await chat.messages.wait()
        await chat.write_turn_complete()
        raise Enough("no database")

    async with mock_chat_agent(chat.custom_agent(id="own", run=run)) as harness:
        with pytest.raises(Enough, match="no database"):
            await harness.send_message("hello")


async def test_who_waits_for_the_turn_complete_alone_gets_the_turn_and_the_close_tells_of_the_run() -> None:
    harness = mock_chat_agent(agent_of(on_turn_complete=fail))

    turn = await harness.send_message("hello", until="turn_complete")

    assert turn.text == "ok"
    with pytest.raises(Enough):
        await harness.close(raise_errors=True)


@pytest.mark.parametrize("name", ["send_stop", "advance_to_suspend"])
async def test_a_failing_boot_is_told_by_the_first_driver_whichever_it_is(name: str) -> None:
    harness = mock_chat_agent(agent_of(), setup_locals=fail)

    with pytest.raises(Enough, match="no database"):
        await getattr(harness, name)()

    await harness.close(raise_errors=True)


# --- heads of the conversation ---


async def test_a_run_that_goes_on_from_an_earlier_one_waits_for_no_head_start() -> None:
    async with mock_chat_agent(agent_of(), mode="handover-prepare") as harness:
        await harness.send_handover(partial_assistant_message=STEP, is_final=True)
        await harness.kill_run()
        await harness.continue_run()
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: harness.send_handover(partial_assistant_message=STEP),
            harness.send_handover_skip,
        ]
        for call in calls:
            with pytest.raises(HarnessModeError, match=r"goes on from an earlier one; .*alone\nhooks so far: none\n"):
                await call()
        turn = await harness.send_message("go on")

    assert turn.text == "ok"


async def test_a_second_head_start_is_refused() -> None:
    async with mock_chat_agent(agent_of(), mode="handover-prepare") as harness:
        await harness.send_handover(partial_assistant_message=STEP)
        with pytest.raises(HarnessStateError) as caught:
            await harness.send_handover(partial_assistant_message=STEP)
        with pytest.raises(HarnessStateError, match=r"^send_handover_skip: the run has its head start"):
            await harness.send_handover_skip()

    problem = "the run has its head start, and waits for none any more; go on with send_message"
    assert str(caught.value).startswith(f"send_handover: {problem}\nhooks so far: run (returned)\n")


async def test_the_second_attempt_of_a_run_takes_its_head_start() -> None:
    attempts: list[int] = []

    def start(event: Any) -> None:
        attempts.append(event.ctx.attempt.number)
        if attempts == [1]:
            raise OutOfMemoryError("too much")

    async with mock_chat_agent(agent_of(on_boot=start, oom_machine="large"), mode="handover-prepare") as harness:
        with pytest.raises(OutOfMemoryError):
            await harness.start()
        await harness.retry_oom()
        turn = await harness.send_handover(partial_assistant_message=STEP, is_final=True)

    assert turn.message is not None
    assert turn.message.text == "first"
    assert attempts == [1, 2]


@pytest.mark.parametrize("step", [None, 5, "first", ["first"], {"role": "assistant"}])
async def test_a_head_start_that_is_no_list_of_messages_is_refused(step: Any) -> None:
    async with mock_chat_agent(agent_of(), mode="handover-prepare") as harness:
        with pytest.raises(
            InvalidArgumentError, match=r"^`partial_assistant_message` is .*: give a list of model mess"
        ):
            await harness.send_handover(partial_assistant_message=step)

    assert harness.turns == []


# --- values that no client can send ---


async def test_what_json_cannot_hold_is_named_as_the_test_has_written_it() -> None:
    async with mock_chat_agent(agent_of(), mode="handover-prepare") as harness:
        with pytest.raises(InvalidArgumentError, match=r"^`partial_assistant_message\[0\]\.content` is b'x': JSON can"):
            await harness.send_handover(partial_assistant_message=[{"role": "assistant", "content": b"x"}])
        await harness.send_handover(partial_assistant_message=STEP)
        with pytest.raises(
            InvalidArgumentError, match=r"^`action\.undo` is \{1\}: JSON cannot hold a value of type set"
        ):
            await harness.send_action({"undo": {1}})


async def test_client_data_that_no_client_can_send_are_refused_before_anything_runs() -> None:
    way_out = "hand what is no JSON to the run by `setup_locals`$"

    with pytest.raises(InvalidArgumentError, match=rf"^`client_data\.db` is <object .*no JSON form.*; {way_out}"):
        mock_chat_agent(agent_of(), client_data={"db": object()})
    async with mock_chat_agent(agent_of(), client_data={"user": "ada"}) as harness:
        await harness.send_message("hello")
        await harness.kill_run()
        with pytest.raises(InvalidArgumentError, match=rf"^`client_data` is <object .*; {way_out}"):
            await harness.continue_run(client_data=object())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("setup_locals", 5),
        ("ids", "msg"),
        ("head_start_messages", 5),
        ("telemetry", 5),
        ("wait_timeout", "soon"),
        ("wait_timeout", 0),
    ],
)
def test_an_option_with_a_value_that_it_cannot_have_is_named_at_once(option: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^`{option}` is {value!r}: "):
        mock_chat_agent(agent_of(), **{option: value})


@pytest.mark.parametrize("seconds", ["5", None])
async def test_time_moves_by_numbers(seconds: Any) -> None:
    async with mock_chat_agent(agent_of()) as harness:
        with pytest.raises(InvalidArgumentError, match=r"^`seconds` is .*: a number of seconds, 0 or more$"):
            await harness.advance(seconds)


async def test_a_predicate_is_a_plain_function() -> None:
    async def never(_: Any) -> bool:
        return False

    async with mock_chat_agent(agent_of()) as harness:
        for predicate in (never, "turns"):
            with pytest.raises(
                InvalidArgumentError, match=r"^`predicate` is .*: a plain function of the harness, which"
            ):
                await harness.wait_for(predicate)  # type: ignore[arg-type]


@pytest.mark.parametrize("begin", ["start", "continue_run"])
async def test_a_boot_that_somebody_closes_is_told_to_who_waits_for_it(begin: str) -> None:
    booting, told = anyio.Event(), list[str]()

    async def boot(event: Any) -> None:
        if event.continuation or begin == "start":
            booting.set()
            await chat.sleep(math.inf)

    harness = mock_chat_agent(agent_of(on_boot=boot))
    if begin == "continue_run":
        await harness.send_message("hello")
        await harness.kill_run()

    async def wait() -> None:
        with pytest.raises(HarnessClosedError) as caught:
            await getattr(harness, begin)()
        told.append(str(caught.value).splitlines()[0])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await booting.wait()
        await harness.close()

    assert told == ["the harness is closed; make a new one"]


async def test_a_harness_says_whose_it_is_and_how_far_it_has_come() -> None:
    harness = mock_chat_agent(agent_of(), chat_id="c-1")
    shown = [repr(harness)]

    await harness.send_message("hello")
    shown.append(repr(harness))
    await harness.close()
    shown.append(repr(harness))

    assert shown == [
        f"<ChatAgentHarness of agent 'tester', chat 'c-1': run {state}>"
        for state in ("not started, 0 turns", "on, 1 turns", "ended, 1 turns")
    ]


# --- what came so far ---


MISUSES: dict[str, Callable[[ChatAgentHarness], Awaitable[Any]]] = {
    "send_handover": lambda harness: harness.send_handover(partial_assistant_message=STEP),
    "send_handover_skip": lambda harness: harness.send_handover_skip(),
    "send_head_start": lambda harness: harness.send_head_start(messages=[]),
    "continue_run": lambda harness: harness.continue_run(),
    "retry_oom": lambda harness: harness.retry_oom(),
}


@pytest.mark.parametrize("name", sorted(MISUSES))
async def test_a_call_at_the_wrong_moment_lists_what_came_so_far(name: str) -> None:
    async with mock_chat_agent(agent_of()) as harness:
        await harness.send_message("hello")
        with pytest.raises((HarnessModeError, HarnessStateError)) as caught:
            await MISUSES[name](harness)

    assert str(caught.value).startswith(f"{name}: ")
    assert str(caught.value).endswith(ONE_TURN)


@pytest.mark.parametrize(
    "send",
    [
        lambda harness: harness.send_message("again"),
        lambda harness: harness.send_regenerate(until="turn_complete"),
        lambda harness: harness.send_action("undo"),
    ],
    ids=["send_message", "send_regenerate", "send_action"],
)
async def test_what_a_hook_sends_and_waits_for_is_refused_and_not_sent(send: Any) -> None:
    errors: list[str] = []

    async def hook(_: Any) -> None:
        try:
            await send(harness)
        except HarnessStateError as error:
            errors.append(str(error).splitlines()[0].partition(": ")[2])

    async with mock_chat_agent(agent_of(on_turn_start=hook)) as harness:
        await harness.send_message("hello")
        await harness.wait_idle()

    assert errors == [
        "the run would wait for itself, so nothing was sent; call it in the test, or `begin_message` here"
    ]
    assert len(harness.turns) == 1


# --- grace ---


async def test_who_sleeps_without_end_is_cancelled_behind_the_grace_and_not_at_once() -> None:
    """D-13."""
    ended: list[float] = []

    async def sleep(_: Any) -> None:
        try:
            await chat.sleep(1e9)
        finally:
            ended.append(harness.clock.now())

    async with mock_chat_agent(agent_of(on_turn_start=sleep)) as harness:
        harness.begin_message("hello")
        await harness.settle()
        began = harness.clock.now()
        await harness.cancel_run()

    assert [at - began for at in ended] == [5]


async def test_a_run_that_ends_by_itself_in_its_grace_takes_no_time() -> None:
    async with mock_chat_agent(agent_of()) as harness:
        await harness.send_message("hello")
        began = harness.clock.now()
        await harness.cancel_run()
        took = harness.clock.now() - began
        with pytest.raises(AgentRunEndedError):
            await harness.send_message("again")

    assert took == 0
