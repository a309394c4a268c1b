"""Waiting for input and ending a run: idle, suspended, closed, used up, handed on (1.12, 1.14, G-20, G-37 to G-39)."""

from __future__ import annotations

from typing import Any

import pytest

from agent.making import FAILED_TURN, TEXT_TURN, agent_of, ids, kept, nothing, saying, texts, types, user
from agent.sessions import live_session
from chatagent import chat
from chatagent.errors import AgentRunEndedError, HarnessClosedError, InvalidArgumentError
from chatagent_test import ChatAgentHarness, mock_chat_agent, script

pytestmark = pytest.mark.anyio


def names(harness: ChatAgentHarness) -> list[str]:
    return [call.name for call in harness.hooks]


async def suspended_after(harness: ChatAgentHarness, seconds: float) -> bool:
    """Whether the run suspends exactly so many seconds from now."""
    before = names(harness).count("on_chat_suspend")
    await harness.advance(seconds - 1)
    early = names(harness).count("on_chat_suspend") != before
    await harness.advance(1)
    return not early and names(harness).count("on_chat_suspend") == before + 1


# --- how long a run waits ---


async def test_a_run_waits_thirty_seconds_warm_and_an_hour_suspended() -> None:
    async with mock_chat_agent(agent_of(on_chat_suspend=nothing)) as harness:
        await harness.send_message("hello")
        suspended = await suspended_after(harness, 30)
        await harness.advance(3599)
        still_on = not harness.run_ended
        await harness.advance(1)

        assert suspended
        assert still_on
        assert harness.run_ended
        assert harness.run_error is None


async def test_the_agent_says_how_long() -> None:
    agent = agent_of(on_chat_suspend=nothing, idle_timeout=5, turn_timeout="1m30s")

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")
        suspended = await suspended_after(harness, 5)
        await harness.advance(90)

        assert suspended
        assert harness.run_ended


async def test_the_wait_for_the_first_message_has_times_of_its_own() -> None:
    agent = agent_of(
        on_chat_suspend=nothing, idle_timeout=5, turn_timeout=60, preload_idle_timeout=100, preload_timeout="2h"
    )

    async with mock_chat_agent(agent) as harness:
        first = await suspended_after(harness, 100)
        await harness.advance(7199)
        await harness.send_message("hello")
        second = await suspended_after(harness, 5)
        await harness.advance(60)

        assert first
        assert second
        assert harness.run_ended


async def test_a_run_may_suspend_at_once() -> None:
    async with mock_chat_agent(agent_of(on_chat_suspend=nothing, idle_timeout=0)) as harness:
        await harness.send_message("hello")
        await harness.settle()

        assert names(harness) == ["on_chat_suspend", "run", "on_chat_suspend"]


async def test_a_preloaded_run_may_leave_instead_of_suspending() -> None:
    agent = agent_of(on_chat_suspend=nothing, exit_after_preload_idle=True)

    async with mock_chat_agent(agent) as harness:
        await harness.advance(30)
        with pytest.raises(AgentRunEndedError):
            await harness.send_message("too late")

    assert names(harness) == []
    assert harness.run_error is None


async def test_leaving_after_preload_concerns_the_first_wait_alone() -> None:
    agent = agent_of(saying("one", "two"), on_chat_suspend=nothing, exit_after_preload_idle=True)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("a")
        await harness.advance(300)
        turn = await harness.send_message("b")

    assert turn.text == "two"


async def test_a_hook_may_change_how_long_the_run_waits_from_the_next_wait_on() -> None:
    """N-32."""

    def change(event: Any) -> None:
        chat.set_idle_timeout(5)
        chat.set_turn_timeout("1m")

    async with mock_chat_agent(agent_of(on_chat_suspend=nothing, on_turn_start=change, idle_timeout=50)) as harness:
        await harness.send_message("a")
        first = await suspended_after(harness, 5)
        await harness.send_message("b")
        second = await suspended_after(harness, 5)
        await harness.advance(60)

        assert first
        assert second
        assert harness.run_ended


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: chat.set_idle_timeout(-1), "`seconds` is -1: "),
        (lambda: chat.set_turn_timeout("soon"), "`duration` is 'soon': "),
    ],
)
async def test_a_time_that_is_none_is_refused_with_its_name(call: Any, text: str) -> None:
    async with mock_chat_agent(agent_of(on_turn_start=lambda event: call())) as harness:
        turn = await harness.send_message("hello")

    assert isinstance(turn.error, InvalidArgumentError)
    assert str(turn.error).startswith(text)


async def test_the_payload_says_how_long_if_the_agent_does_not() -> None:
    """G-38: dead in the reference."""
    async with live_session() as session:
        agent = agent_of(idle_timeout=None, on_chat_suspend=nothing)
        seen: list[float] = []
        agent.on_boot(lambda event: seen.append(_run().idle_timeout))
        await session.run(agent, trigger="preload", idleTimeoutInSeconds=7)

    assert seen == [7]


def _run() -> Any:
    from chatagent.current import current_run

    return current_run.get()


async def test_a_stop_does_not_prolong_the_warm_wait() -> None:
    """G-27."""
    async with mock_chat_agent(agent_of(on_chat_suspend=nothing)) as harness:
        await harness.send_message("hello")
        await harness.advance(20)
        await harness.send_stop()

        assert await suspended_after(harness, 10)


async def test_nobody_hears_of_a_suspension_behind_a_failed_turn() -> None:
    """1.12."""
    calls = 0

    def fail_once(event: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("first")

    agent = agent_of(on_turn_start=fail_once, on_chat_suspend=nothing, on_chat_resume=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("a")
        await harness.advance(300)
        turn = await harness.send_message("b")

    assert turn.text == "ok"
    assert "on_chat_suspend" not in names(harness)
    assert "on_chat_resume" not in names(harness)


async def test_a_message_that_ends_a_suspension_moves_both_cursors() -> None:
    """PMD-005, F-9: it advanced the received one alone, so continuations replayed answered messages."""
    seen: list[Any] = []
    agent = agent_of(idle_timeout=0, on_turn_start=lambda event: seen.append(_run().in_))

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("a")
        await harness.settle()
        await harness.send_message("b")

    channel = seen[-1]
    assert (channel.last_seq_num, channel.last_dispatched_seq_num, channel.progress.committed) == (2, 2, 2)


# --- close ---


@pytest.mark.parametrize("options", [{}, {"continuation": True}], ids=["preload", "continuation"])
async def test_close_ends_a_run_that_waits_for_its_first_message(options: dict[str, Any]) -> None:
    """G-20."""
    async with mock_chat_agent(agent_of(), **options) as harness:
        await harness.start()

    assert harness.run_ended
    assert harness.run_error is None
    assert harness.all_raw_chunks == []


def close_record() -> dict[str, Any]:
    return {"kind": "message", "payload": {"chatId": "c-1", "trigger": "close"}}


async def test_close_behind_a_turn_ends_the_run_and_leaves_what_came_later() -> None:
    """G-20: in the reference a `close` that comes while a turn is on becomes a turn with an empty message."""
    model = saying("one")

    async with live_session() as session:

        def close_in_mid_turn(event: Any) -> None:
            session.put(close_record())
            session.submit(user("u-2", "later"))

        session.submit(user("u-1", "now"))
        first = await session.run(agent_of(model, on_turn_start=close_in_mid_turn), trigger="preload")
        second = await session.run(agent_of(saying("two")))
        snapshot = await session.snapshots.load("c-1")

    assert [len(first.turns), len(second.turns)] == [1, 1]
    assert snapshot is not None
    assert texts(snapshot.messages) == ["now", "one", "later", "two"]


async def test_close_behind_a_failed_turn_ends_the_run() -> None:
    """G-20."""

    async with live_session() as session:

        def fail(event: Any) -> None:
            session.put(close_record())
            raise ValueError("no")

        session.submit(user("u-1"))
        seen = await session.run(agent_of(run=fail), trigger="preload")

    assert len(seen.turns) == 1


async def test_close_behind_an_action_ends_the_run() -> None:
    """G-20."""
    async with live_session() as session:
        session.put({"kind": "message", "payload": {"chatId": "c-1", "trigger": "action", "action": 1}})
        seen = await session.run(
            agent_of(on_action=lambda event: session.put(close_record()) and None), trigger="preload"
        )

    assert [turn.is_action for turn in seen.turns] == [True]


async def test_close_wakes_a_suspended_run() -> None:
    """G-20."""
    agent = agent_of(on_chat_suspend=nothing, on_chat_resume=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")
        await harness.advance(60)

    assert harness.run_ended
    assert harness.run_error is None


# --- end_run, max_turns, request_upgrade ---


async def test_a_run_may_end_itself_behind_its_turn() -> None:
    """MCA-018."""
    agent = agent_of(saying("bye"), on_turn_start=lambda event: chat.end_run(), on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")
        await harness.wait_ended()

    assert types(turn) == TEXT_TURN
    assert names(harness) == ["on_turn_start", "run", "on_turn_complete"]
    assert harness.run_error is None
    assert not harness.upgrade_requested


async def test_a_run_that_is_to_end_answers_first_what_came_meanwhile() -> None:
    """1.14: behind the buffered messages."""
    model = saying(script.text("one").hold("here"), "two")

    async with mock_chat_agent(agent_of(model, on_turn_start=lambda event: chat.end_run())) as harness:
        first = harness.begin_message("a")
        await model.reached("here")
        second = harness.begin_message("b")
        await harness.settle()
        model.release("here")

        assert [(await first).text, (await second).text] == ["one", "two"]
        await harness.wait_ended()


async def test_behind_a_failed_turn_a_run_that_is_to_end_ends_at_once() -> None:
    """E-8: what came meanwhile is left to the next run."""

    async with live_session() as session:

        def fail(event: Any) -> None:
            session.submit(user("u-2", "later"))
            chat.end_run()
            raise ValueError("no")

        session.submit(user("u-1", "now"))
        first = await session.run(agent_of(run=fail), trigger="preload")
        second = await session.run(agent_of(saying("two")))

    assert [len(first.turns), len(second.turns)] == [1, 1]


async def test_a_run_ends_behind_its_last_turn() -> None:
    """C-100, G-37; the reference takes one more message and does not answer it."""
    async with mock_chat_agent(agent_of(max_turns=2)) as harness:
        await harness.send_message("a")
        second = await harness.send_message("b")
        with pytest.raises(AgentRunEndedError) as caught:
            await harness.send_message("c")

    assert second.index == 1
    assert str(caught.value).split("\n")[0] == "send: the run of agent 'tester' has ended, nobody is left to answer"
    assert len(kept(harness)) == 4


async def test_actions_use_up_no_turn_also_when_they_fail() -> None:
    def act(event: Any) -> None:
        if event.action == "fail":
            raise ValueError("no")

    async with mock_chat_agent(agent_of(on_action=act, max_turns=1)) as harness:
        await harness.send_action("look")
        failed = await harness.send_action("fail")
        turn = await harness.send_message("a")

    assert types(failed) == FAILED_TURN
    assert turn.text == "ok"


async def test_an_upgrade_before_the_model_was_asked_leaves_the_message_to_the_next_run() -> None:
    """1.14, G-9."""
    async with live_session() as session:
        session.submit(user("u-1", "now"))
        await session.run(agent_of(saying(), on_turn_start=lambda event: chat.request_upgrade()), trigger="preload")
        upgrade = [dict(record.headers) for record in session.out]
        second = await session.run(agent_of(saying("answer")))
        snapshot = await session.snapshots.load("c-1")

    assert upgrade == [{"trigger-control": "upgrade-required"}]
    assert len(second.turns) == 1
    assert snapshot is not None
    assert texts(snapshot.messages) == ["now", "answer"]


async def test_an_upgrade_that_is_asked_for_before_the_first_turn_counts_without_on_turn_start() -> None:
    async with mock_chat_agent(agent_of(saying(), on_boot=lambda event: chat.request_upgrade())) as harness:
        turn = await harness.send_message("hello")
        await harness.wait_ended()

    assert types(turn) == ["trigger:upgrade-required"]
    assert names(harness) == ["on_boot"]
    assert harness.upgrade_requested


async def test_an_upgrade_that_is_asked_for_later_ends_the_run_behind_its_turn() -> None:
    def run(event: Any) -> None:
        chat.request_upgrade()

    async with mock_chat_agent(agent_of(run=run, on_turn_complete=nothing)) as harness:
        turn = await harness.send_message(user("u-1"))
        await harness.wait_ended()

    assert types(turn) == ["trigger:turn-complete"]
    assert not harness.upgrade_requested
    assert ids(kept(harness)) == ["u-1"]


async def test_a_message_behind_the_end_of_the_run_says_why_nobody_answers() -> None:
    def run(event: Any) -> None:
        chat.end_run()

    async with mock_chat_agent(agent_of(run=run)) as harness:
        await harness.send_message("a")
        with pytest.raises(
            AgentRunEndedError, match=r"the run of agent 'tester' has ended, nobody is left to answer\n"
        ):
            await harness.send_message("b")
    with pytest.raises(HarnessClosedError, match=r"^the harness is closed; make a new one\n"):
        await harness.send_message("c")


@pytest.mark.parametrize(("own", "expected"), [(None, 7), (5, 5)], ids=["payload", "agent"])
async def test_the_run_suspends_when_the_agent_or_else_the_payload_says(own: float | None, expected: float) -> None:
    """G-38, C-80: seen by the clock at the moment of the suspension."""
    suspended_at: list[float] = []

    async with live_session() as session:
        began_at = session.clock.now()
        agent = agent_of(
            idle_timeout=own, on_chat_suspend=lambda event: suspended_at.append(session.clock.now() - began_at)
        )
        await session.run_idle(agent, trigger="preload", idleTimeoutInSeconds=7)

    assert suspended_at == [expected]


async def test_messages_that_end_suspensions_are_answered_once_each() -> None:
    """F-8: what listens for the whole run must not hand a record out again that has ended a suspension."""
    agent = agent_of(saying("one", "two", "three"), on_chat_suspend=nothing, on_chat_resume=nothing)

    async with mock_chat_agent(agent) as harness:
        for text in ("a", "b", "c"):
            await harness.advance(60)
            await harness.send_message(text)
        await harness.wait_idle()

    assert names(harness).count("on_chat_resume") == 3
    assert [turn.text for turn in harness.turns] == ["one", "two", "three"]
    assert texts(kept(harness)) == ["a", "one", "b", "two", "c", "three"]


async def test_listening_for_stops_takes_no_message_that_came_before() -> None:
    """F-2, B-11: what waits on the channel when the run begins to listen is left for those who want it."""
    async with live_session() as session:
        session.submit(user("u-1", "a"))
        session.put({"kind": "stop"})
        session.submit(user("u-2", "b"))
        seen = await session.run(agent_of(saying("one", "two")), trigger="preload")

    assert [(turn.in_seq, turn.stopped) for turn in seen.turns] == [(0, False), (2, False)]


async def test_what_is_worked_off_does_not_come_back_to_the_listener_of_a_later_turn() -> None:
    """F-3: each turn listens anew, and is offered only what nobody has taken."""
    model = saying(script.text("one").hold("here"), "two", "three", "four")

    async with mock_chat_agent(agent_of(model)) as harness:
        first = harness.begin_message("a")
        await model.reached("here")
        later = [harness.begin_message(text) for text in ("b", "c")]
        await harness.settle()
        model.release("here")
        for each in (first, *later):
            await each
        await harness.send_message("d")
        await harness.wait_idle()

    assert [turn.text for turn in harness.turns] == ["one", "two", "three", "four"]
    assert len(model.do_stream_calls) == 4
