"""Booting behind a run that died: what is replayed, what the hook may decide, what is dispatched (1.7 to 1.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import agent_of, assistant, ids, roles, saying, texts, tool_part, user
from agent.sessions import live_session
from chatagent.agent import RecoveryResult
from chatagent.errors import LeaseLostError
from chatagent.session import Direction, InMemorySessionStore, RecordPage
from chatagent.ui import to_wire
from chatagent_test import ChatAgentHarness, MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent import ChatAgent
    from chatagent.ui import UIMessage

pytestmark = pytest.mark.anyio

HALF = assistant("a-partial", "half an answer")
PRIOR: dict[str, Any] = {"continuation": True, "previous_run_id": "run_prior"}


def nothing(event: Any) -> None:
    return None


def continued(agent: ChatAgent[Any], **seeds: Any) -> ChatAgentHarness:
    """A harness whose run continues one that died."""
    harness = mock_chat_agent(agent, **PRIOR)
    if "partial" in seeds:
        harness.seed_session_out_partial(seeds["partial"], raw=seeds.get("raw"))
    if "users" in seeds:
        harness.seed_session_in_tail(seeds["users"])
    if "out" in seeds:
        harness.seed_session_out_tail(seeds["out"])
    return harness


def events(harness: ChatAgentHarness, name: str) -> list[Any]:
    return [call.event for call in harness.hooks if call.name == name]


def ok() -> MockLanguageModel:
    return MockLanguageModel(script.text("ok"))


# --- when the hook is called ---


async def test_a_clean_continuation_recovers_nothing() -> None:
    """REC-001, F-30."""
    async with continued(agent_of(on_recovery_boot=nothing)) as harness:
        turn = await harness.send_message("hello")

    assert turn.text == "ok"
    assert events(harness, "on_recovery_boot") == []


async def test_an_answer_that_was_cut_off_is_told() -> None:
    """REC-002."""
    orphan = assistant("a-orphan", tool_part("tc-1", "input-available", input={}))

    async with continued(agent_of(on_recovery_boot=nothing), partial=orphan) as harness:
        await harness.start()

    (event,) = events(harness, "on_recovery_boot")
    assert event.partial_assistant == orphan
    assert [(call.tool_call_id, call.tool_name) for call in event.pending_tool_calls] == [("tc-1", "search")]
    assert (event.previous_run_id, event.cause) == ("run_prior", "unknown")


async def test_pending_calls_are_those_of_the_answer_as_it_was_streamed() -> None:
    """REC-003, F-28."""
    raw = assistant("a-1", "so", tool_part("tc-pending", "input-available", input={}))
    agent = agent_of(on_recovery_boot=nothing)

    async with continued(agent, partial=assistant("a-1", "so"), raw=raw, users=[user("u-1")]) as harness:
        await harness.wait_idle()

    (event,) = events(harness, "on_recovery_boot")
    assert event.partial_assistant is not None
    assert len(event.partial_assistant.parts) == 1
    assert [(call.tool_call_id, call.tool_name) for call in event.pending_tool_calls] == [("tc-pending", "search")]


async def test_unanswered_messages_alone_are_no_crash() -> None:
    """REC-004, F-30."""
    async with continued(agent_of(on_recovery_boot=nothing), users=[user("u-1")]) as harness:
        await harness.wait_idle()

    assert events(harness, "on_recovery_boot") == []


async def test_a_call_without_a_text_is_told_although_clean_up_leaves_nothing() -> None:
    """G-34: the reference never hears of it."""
    cut: list[dict[str, Any]] = [
        {"type": "start", "messageId": "a-1"},
        {"type": "tool-input-available", "toolCallId": "tc-1", "toolName": "search", "input": {}},
    ]

    async with continued(agent_of(on_recovery_boot=nothing), out=cut, users=[user("u-1")]) as harness:
        await harness.wait_idle()

    (event,) = events(harness, "on_recovery_boot")
    assert event.partial_assistant is None
    assert [call.tool_call_id for call in event.pending_tool_calls] == ["tc-1"]
    (start,) = [call.event for call in harness.hooks if call.name == "run"]
    assert roles(start.messages) == ["user"]


async def test_with_hydration_nothing_is_recovered() -> None:
    """REC-009."""
    agent = agent_of(on_recovery_boot=nothing, hydrate_messages=lambda event: event.incoming_messages)

    async with continued(agent, partial=HALF, users=[user("u-0")]) as harness:
        await harness.send_message("hello")

    assert events(harness, "on_recovery_boot") == []


@pytest.mark.parametrize("reads_past", [False, True], ids=["fresh", "continuation"])
async def test_a_fresh_chat_reads_nothing_and_a_later_run_waits_for_nothing(*, reads_past: bool) -> None:
    """B-2, B-20, B-30, F-24: each look-up cost seconds, also where there was nothing to look for."""
    read: list[str] = []

    class Watched(InMemorySessionStore):
        async def read(self, session_id: str, direction: Direction, **options: Any) -> RecordPage:
            read.append(direction)
            return await super().read(session_id, direction, **options)

    async with live_session(Watched) as session:
        session.submit(user("u-1", "a"))
        await session.run(agent_of(saying("one")), trigger="preload")
        before, began_at = list(read), session.clock.now()
        if reads_past:
            await session.run(agent_of(saying()))

    assert before == []
    assert bool(read) == reads_past
    assert session.clock.now() == began_at


# --- what happens without a decision ---


async def test_every_unanswered_message_is_dispatched_without_a_send() -> None:
    """REC-005, F-29."""
    model = ok()

    async with continued(agent_of(model), users=[user("u-1", "a"), user("u-2", "b")]) as harness:
        await harness.wait_idle()

    assert len(model.do_stream_calls) == 2
    assert [turn.text for turn in harness.turns] == ["ok", "ok"]
    assert ids(harness.boot.recovered_turns) == ["u-1", "u-2"]


async def test_a_cut_off_answer_stands_behind_its_user_and_the_rest_is_dispatched() -> None:
    """REC-006, F-29."""
    agent = agent_of(ok(), on_turn_start=nothing)

    async with continued(agent, partial=HALF, users=[user("u-1"), user("u-2")]) as harness:
        await harness.wait_idle()

    (start,) = events(harness, "on_turn_start")
    assert ids(start.ui_messages) == ["u-1", "a-partial", "u-2"]
    assert roles(start.ui_messages) == ["user", "assistant", "user"]


async def test_a_cut_off_answer_without_a_user_is_dropped() -> None:
    """R-3, D-8."""
    agent = agent_of(ok(), on_turn_start=nothing)

    async with continued(agent, partial=HALF) as harness:
        await harness.send_message(user("u-1"))

    (start,) = events(harness, "on_turn_start")
    assert ids(start.ui_messages) == ["u-1"]


async def test_answers_on_out_are_settled_over_the_snapshot() -> None:
    """M-1, B-24."""
    out = [
        {"type": "start", "messageId": "a-1"},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": "fresh"},
        {"type": "text-end", "id": "t"},
        {"type": "finish"},
    ]
    harness = continued(agent_of(on_turn_start=nothing), out=out)
    harness.seed_snapshot(
        {"version": 1, "savedAt": 0, "messages": [to_wire(user("u-1")), to_wire(assistant("a-1", "stale"))]}
    )

    async with harness:
        await harness.send_message(user("u-2"))

    (start,) = events(harness, "on_turn_start")
    assert texts(start.ui_messages) == ["hello", "fresh", "hello"]


async def test_recovered_turns_go_on_behind_one_that_failed() -> None:
    """R-8, F-7."""
    calls = 0

    def fail_once(event: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("first")

    agent = agent_of(ok(), on_turn_start=fail_once)

    async with continued(agent, users=[user("u-1"), user("u-2")]) as harness:
        await harness.wait_idle()
        errors = [str(turn.error) for turn in harness.turns]

    assert errors == ["first", "None"]
    assert harness.turns[1].text == "ok"


async def test_recovered_turns_stand_before_what_is_sent_now() -> None:
    agent = agent_of(ok(), on_turn_start=nothing)

    async with continued(agent, users=[user("u-1"), user("u-2")]) as harness:
        await harness.send_message(user("u-3"))

    asked = [event.ui_messages[-1].id for event in events(harness, "on_turn_start")]
    assert asked == ["u-1", "u-2", "u-3"]


async def test_a_recovered_turn_carries_the_client_data_of_its_own_record() -> None:
    """R-6, F-27."""
    agent = agent_of(ok())

    async with live_session() as session:
        seen: list[Any] = []
        agent.on_turn_start(lambda event: seen.append((event.ui_messages[-1].id, event.client_data)))
        session.submit(user("u-1"), metadata={"who": "ada"})
        session.submit(user("u-2"))
        await session.run(agent, continuation=True, metadata={"who": "boot"})

    assert seen == [("u-1", {"who": "ada"}), ("u-2", None)]


# --- what the hook may decide ---


async def test_an_empty_list_of_turns_answers_nobody() -> None:
    """REC-007, R-5, G-36."""
    model = ok()
    agent = agent_of(model, on_recovery_boot=lambda event: RecoveryResult(recovered_turns=[]))

    async with continued(agent, partial=HALF, users=[user("u-1")]) as harness:
        await harness.send_message("hello")

    assert len(model.do_stream_calls) == 1
    assert harness.boot.recovered_turns == ()


async def test_messages_that_the_hook_suppressed_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """G-36: in the reference they vanish silently."""
    agent = agent_of(ok(), on_recovery_boot=lambda event: RecoveryResult(chain=[], recovered_turns=[user("u-2")]))

    async with continued(agent, partial=HALF, users=[user("u-1"), user("u-2")]) as harness:
        await harness.wait_idle()

    assert ids(harness.boot.suppressed) == ["u-1"]
    assert "session 'test-chat': `on_recovery_boot` has left messages out; nobody answers 'u-1'" in caplog.messages
    assert ids(harness.boot.in_flight_users) == ["u-1", "u-2"]


async def test_the_hook_may_give_another_chain() -> None:
    """REC-008."""
    agent = agent_of(
        ok(),
        on_recovery_boot=lambda event: RecoveryResult(chain=[user("custom")], recovered_turns=event.in_flight_users),
        on_turn_start=nothing,
    )

    async with continued(agent, partial=HALF, users=[user("u-1")]) as harness:
        await harness.wait_idle()

    (start,) = events(harness, "on_turn_start")
    assert ids(start.ui_messages) == ["custom", "u-1"]


async def test_fields_that_the_hook_leaves_out_keep_their_default() -> None:
    """R-4."""
    agent = agent_of(ok(), on_recovery_boot=lambda event: RecoveryResult(recovered_turns=[]), on_turn_start=nothing)

    async with continued(agent, partial=HALF, users=[user("u-1")]) as harness:
        await harness.send_message(user("u-9"))

    (start,) = events(harness, "on_turn_start")
    assert ids(start.ui_messages) == ["u-1", "a-partial", "u-9"]


async def test_before_boot_is_called_behind_the_hook_and_before_any_turn() -> None:
    """REC-010."""
    order: list[str] = []

    async def before_boot() -> None:
        order.append("before_boot")

    def recover(event: Any) -> RecoveryResult:
        order.append("hook")
        event.writer.write({"type": "data-recovering", "data": 1})
        return RecoveryResult(before_boot=before_boot)

    agent = agent_of(ok(), on_recovery_boot=recover, on_turn_start=lambda event: order.append("turn"))

    async with continued(agent, partial=HALF, users=[user("u-1"), user("u-2")]) as harness:
        await harness.wait_idle()

    assert order == ["hook", "before_boot", "turn"]
    assert harness.all_raw_chunks[0] == {"type": "data-recovering", "data": 1}


async def test_a_before_boot_that_fails_ends_the_run() -> None:
    """R-4."""

    def before_boot() -> None:
        raise ValueError("not today")

    agent = agent_of(ok(), on_recovery_boot=lambda event: RecoveryResult(before_boot=before_boot))
    harness = continued(agent, partial=HALF, users=[user("u-1")])

    with pytest.raises(ValueError, match=r"^not today$"):
        await harness.send_message("hello")
    await harness.close()

    assert harness.turns == []


@pytest.mark.parametrize("result", ["kaboom", "no result", {"chain": []}])
async def test_a_hook_that_fails_leaves_the_defaults(result: Any, caplog: pytest.LogCaptureFixture) -> None:
    """REC-011."""
    model = ok()

    def recover(event: Any) -> Any:
        if result == "kaboom":
            raise ValueError(result)
        return result

    async with continued(
        agent_of(model, on_recovery_boot=recover), partial=HALF, users=[user("u-1"), user("u-2")]
    ) as harness:
        await harness.wait_idle()

    assert len(model.do_stream_calls) == 1
    assert "`on_recovery_boot` of agent 'tester' failed; the defaults hold" in caplog.messages


async def test_the_hook_finds_what_on_boot_has_set_up() -> None:
    """G-35, F-23."""
    ready: list[str] = []
    agent = agent_of(
        ok(), on_boot=lambda event: ready.append("boot"), on_recovery_boot=lambda event: ready.append("recovery")
    )

    async with continued(agent, partial=HALF) as harness:
        await harness.start()

    assert ready == ["boot", "recovery"]


# --- a crash for real ---


async def stored(session: Any) -> list[UIMessage]:
    snapshot = await session.snapshots.load("c-1")
    assert snapshot is not None
    return list(snapshot.messages)


async def test_a_run_that_dies_in_mid_answer_leaves_question_and_half_answer() -> None:
    """D3: no message is lost and none answered twice."""
    async with live_session() as session:

        class Dying:
            def to_ui_message_stream(self, **options: Any) -> Any:
                return self._chunks()

            async def _chunks(self) -> Any:
                yield {"type": "start", "messageId": "a-1"}
                yield {"type": "text-start", "id": "t"}
                yield {"type": "text-delta", "id": "t", "delta": "half"}
                session.crash()
                yield {"type": "text-delta", "id": "t", "delta": " never"}

        session.submit(user("u-1", "one"))
        session.submit(user("u-2", "two"))
        with pytest.raises(LeaseLostError):
            await session.run(agent_of(run=lambda event: Dying()), trigger="preload")
        seen = await session.run(agent_of(saying("answer")))
        history = await stored(session)

    assert seen.boot is not None
    assert seen.boot.partial_assistant == assistant("a-1", {"type": "text", "text": "half", "state": "done"})
    assert texts(history) == ["one", "half", "two", "answer"]


async def test_a_run_that_dies_in_a_hook_before_the_answer_has_its_message_answered_by_the_next() -> None:
    async with live_session() as session:
        session.submit(user("u-1", "one"))
        with pytest.raises(LeaseLostError):
            await session.run(agent_of(on_turn_start=lambda event: session.crash()), trigger="preload")
        await session.run(agent_of(saying("answer")))
        history = await stored(session)

    assert texts(history) == ["one", "answer"]


async def test_a_run_that_dies_behind_its_turn_complete_loses_no_answer() -> None:
    """The snapshot is older than the records; the replay brings both up to date."""
    async with live_session() as session:
        session.submit(user("u-1", "one"))
        with pytest.raises(LeaseLostError):
            await session.run(
                agent_of(saying("answer"), on_turn_complete=lambda event: session.crash()), trigger="preload"
            )
        seen = await session.run(agent_of(saying("next")))
        session.submit(user("u-2", "two"))
        await session.run(agent_of(saying("next")))
        history = await stored(session)

    assert seen.turns == []
    assert "answer" in texts(history)
    assert texts(history)[-2:] == ["two", "next"]
    assert texts(history).count("answer") == 1
