"""A run that dies while it recovers from the death of another: what was decided at its boot holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from agent.making import agent_of, assistant, ids, kept, parts_of, texts, user
from agent.steering import CALL, look, steered
from chatagent.agent import RecoveryResult
from chatagent.errors import AgentRunEndedError, OutOfMemoryError
from chatagent.ui import DataChunk
from chatagent_test import ChatAgentHarness, MockLanguageModel, mock_chat_agent, script

if TYPE_CHECKING:
    from chatagent.agent import RecoveryBootEvent

pytestmark = pytest.mark.anyio


def cut_off(text: str, name: str) -> Any:
    """A model's answer that stops in its middle."""
    return script.text(text).hold(name).text(" and the rest")


async def kill_in_mid_answer(harness: ChatAgentHarness, model: MockLanguageModel, message: Any, hold: str) -> None:
    harness.begin_message(message)
    await model.reached(hold)
    await harness.kill_run()


async def test_a_chain_that_the_hook_gave_outlives_the_next_crash() -> None:
    """R-4."""
    model = MockLanguageModel([cut_off("half", "one"), cut_off("again", "two"), script.text("done")])
    told: list[RecoveryBootEvent] = []

    def decide(event: RecoveryBootEvent) -> RecoveryResult | None:
        told.append(event)
        if len(told) > 1:
            return None
        return RecoveryResult(chain=[user("u-1", "first"), assistant("a-1", "as decided")], recovered_turns=[])

    async with mock_chat_agent(agent_of(model, on_recovery_boot=decide)) as harness:
        await kill_in_mid_answer(harness, model, user("u-1", "first"), "one")
        await harness.continue_run()
        assert texts(kept(harness)) == ["first", "as decided"]

        await kill_in_mid_answer(harness, model, user("u-2", "second"), "two")
        await harness.continue_run()
        await harness.send_message(user("u-3", "third"))

    assert texts(told[1].settled_messages) == ["first", "as decided"]
    assert ids(told[1].in_flight_users) == ["u-2"]
    assert texts(kept(harness)) == ["first", "as decided", "second", "again", "third", "done"]


async def test_what_the_hook_would_not_have_answered_stays_unanswered() -> None:
    """R-4."""
    model = MockLanguageModel([cut_off("half", "one"), cut_off("again", "two"), script.text("done")])
    told: list[RecoveryBootEvent] = []

    def decide(event: RecoveryBootEvent) -> RecoveryResult:
        told.append(event)
        return RecoveryResult(recovered_turns=[])

    async with mock_chat_agent(agent_of(model, on_recovery_boot=decide)) as harness:
        harness.begin_message(user("u-1", "first"))
        await model.reached("one")
        await harness.send_message(user("u-2", "leave me"), until="sent")
        await harness.kill_run()
        await harness.continue_run()
        await kill_in_mid_answer(harness, model, user("u-3", "third"), "two")
        await harness.continue_run()
        await harness.send_message(user("u-4", "fourth"))

    assert [ids(event.in_flight_users) for event in told] == [["u-1", "u-2"], ["u-3"]]
    assert len(model.do_stream_calls) == 3
    assert texts(kept(harness)) == ["first", "half", "third", "again", "fourth", "done"]


async def test_a_hook_that_keeps_the_defaults_writes_no_snapshot() -> None:
    model = MockLanguageModel([cut_off("half", "one"), script.text("done")])

    async with mock_chat_agent(agent_of(model, on_recovery_boot=lambda event: RecoveryResult())) as harness:
        await kill_in_mid_answer(harness, model, user("u-1"), "one")
        await harness.continue_run()

        assert harness.get_snapshot() is None


async def test_a_failing_before_boot_leaves_the_decision_open() -> None:
    model = MockLanguageModel([cut_off("half", "one"), script.text("done")])
    asked: list[int] = []

    def fail() -> None:
        raise RuntimeError("not yet")

    def decide(event: RecoveryBootEvent) -> RecoveryResult:
        asked.append(len(asked))
        before_boot = fail if len(asked) == 1 else None
        return RecoveryResult(chain=[user("u-1", "first")], recovered_turns=[], before_boot=before_boot)

    async with mock_chat_agent(agent_of(model, on_recovery_boot=decide)) as harness:
        await kill_in_mid_answer(harness, model, user("u-1", "first"), "one")
        with pytest.raises(RuntimeError, match=r"^not yet$"):
            await harness.continue_run()
        await harness.continue_run()

    assert asked == [0, 1]


async def test_what_a_hook_writes_at_the_boot_is_no_part_of_the_half_answer() -> None:
    """G-61."""
    model = MockLanguageModel([cut_off("half", "one")])
    told: list[RecoveryBootEvent] = []

    def write(event: RecoveryBootEvent) -> None:
        told.append(event)
        for number in (1, 2):
            event.writer.write(DataChunk(type="data-recovering", data={"number": number}))

    async with mock_chat_agent(agent_of(model, on_recovery_boot=write)) as harness:
        harness.begin_message(user("u-1"))
        await model.reached("one")
        await harness.kill_run()
        await harness.continue_run()
        await harness.kill_run()
        await harness.continue_run()

    assert [[part["type"] for part in parts_of(event.partial_assistant)] for event in told] == [
        ["step-start", "text"],
        ["step-start", "text"],
    ]


async def test_a_question_to_which_only_hooks_have_written_is_asked_again() -> None:
    """G-61: what a hook writes ahead of the answer is no half answer."""
    model = MockLanguageModel([cut_off("half", "one"), script.text("done")])
    begun = anyio.Event()

    async def greet(event: Any) -> None:
        event.writer.write(DataChunk(type="data-welcome", data="Hello!"))
        if not event.continuation:
            begun.set()
            await anyio.sleep_forever()

    async with mock_chat_agent(agent_of(model, on_turn_start=greet)) as harness:
        pending = harness.begin_message(user("u-1", "first"))
        await begun.wait()
        await harness.kill_run()
        await harness.continue_run()
        await model.reached("one")
        model.release("one")
        turn = await pending

    assert turn.text == "half and the rest"
    assert texts(kept(harness)) == ["first", "half and the rest"]


# --- what is done ahead of the committed cursor (G-26) ---


@pytest.mark.parametrize("second", ["in the answer", "behind its snapshot"])
async def test_what_the_hook_left_out_behind_an_answered_message_never_comes_up_again(second: str) -> None:
    """R-4, R-5."""
    model = MockLanguageModel([cut_off("half", "one"), cut_off("answer", "two"), script.text("done")])
    told: list[list[str]] = []

    def decide(event: RecoveryBootEvent) -> RecoveryResult | None:
        told.append(ids(event.in_flight_users))
        return RecoveryResult(recovered_turns=event.in_flight_users[1:2]) if len(told) == 1 else None

    async with mock_chat_agent(agent_of(model, on_recovery_boot=decide)) as harness:
        harness.begin_message(user("u-1", "first"))
        await model.reached("one")
        for name in ("u-2", "u-3"):
            await harness.send_message(user(name, name), until="sent")
        await harness.kill_run()
        await harness.continue_run()
        await model.reached("two")
        if second == "behind its snapshot":
            model.release("two")
            await harness.wait_idle()
        await harness.kill_run()
        await harness.continue_run()
        await harness.wait_idle()
        await harness.send_message(user("u-4", "fourth"))

    assert told[0] == ["u-1", "u-2", "u-3"]
    assert told[1:] == ([["u-2"]] if second == "in the answer" else [])
    answer = "answer" if second == "in the answer" else "answer and the rest"
    assert texts(kept(harness)) == ["first", "half", "u-2", answer, "fourth", "done"]
    assert len(model.do_stream_calls) == 3


async def test_messages_that_the_hook_has_answered_in_another_order_are_answered_once() -> None:
    """R-4."""
    model = MockLanguageModel(
        [cut_off("half", "one"), script.text("three"), cut_off("two", "two"), script.text("done")]
    )

    def decide(event: RecoveryBootEvent) -> RecoveryResult | None:
        rest = event.in_flight_users[1:]
        return RecoveryResult(recovered_turns=rest[::-1]) if len(rest) == 2 else None

    async with mock_chat_agent(agent_of(model, on_recovery_boot=decide)) as harness:
        harness.begin_message(user("u-1", "first"))
        await model.reached("one")
        for name in ("u-2", "u-3"):
            await harness.send_message(user(name, name), until="sent")
        await harness.kill_run()
        await harness.continue_run()
        await model.reached("two")
        snapshot = harness.get_snapshot()
        await harness.kill_run()
        await harness.continue_run()
        await harness.send_message(user("u-4", "fourth"))

    assert snapshot is not None
    assert (snapshot.last_in_event_id, snapshot.in_event_ids_ahead) == ("0", ("2",))
    assert texts(kept(harness)) == ["first", "half", "u-3", "three", "u-2", "two", "fourth", "done"]
    final = harness.get_snapshot()
    assert final is not None
    assert (final.last_in_event_id, final.in_event_ids_ahead) == ("3", ())


@pytest.mark.parametrize("hydrates", [False, True])
async def test_a_message_that_was_injected_before_an_older_action_was_done_is_not_answered_again(
    *, hydrates: bool
) -> None:
    """The turn-complete tells it, also where there is no snapshot."""
    model = MockLanguageModel([CALL, script.text("Short."), script.text("done")])
    acting = anyio.Event()
    database: list[Any] = []

    def load(event: Any) -> list[Any]:
        database.extend(event.incoming_messages)
        return list(database)

    async def act(event: Any) -> None:
        if not acting.is_set():
            acting.set()
            await anyio.sleep_forever()

    def keep(event: Any) -> None:
        database[:] = event.ui_messages

    hydration: Any = {"hydrate_messages": load} if hydrates else {}
    agent = agent_of(
        run=steered(model),
        tools=[look],
        pending_messages={"should_inject": lambda event: True},
        on_action=act,
        on_turn_complete=keep,
        **hydration,
    )

    async with mock_chat_agent(agent) as harness:
        harness.begin_message(user("u-1", "first"))
        await model.reached("held")
        await harness.send_action({"type": "note"}, until="sent")
        await harness.send_message(user("u-2", "be brief"), until="sent")
        model.release("held")
        await acting.wait()
        await harness.kill_run()
        await harness.continue_run()
        await harness.wait_idle()
        await harness.send_message(user("u-3", "third"))

    assert texts(database) == ["first", "be brief", "Short.", "third", "done"]
    assert len(model.do_stream_calls) == 3
    assert [call.name for call in harness.hooks].count("on_action") == 2


async def test_a_stop_that_was_heard_stops_no_turn_of_the_next_run() -> None:
    model = MockLanguageModel([cut_off("half", "one"), cut_off("two", "two"), script.text("two, whole")])

    async with mock_chat_agent(agent_of(model)) as harness:
        harness.begin_message(user("u-1", "first"))
        await model.reached("one")
        second = harness.begin_message(user("u-2", "second"))
        await harness.send_stop()
        await model.reached("two")
        before = harness.get_snapshot()
        await harness.kill_run()
        await harness.continue_run()
        await harness.wait_idle()
        with pytest.raises(AgentRunEndedError):
            await second
        again = [record for record in harness.out_records if dict(record.headers or ()).get("stopped")]

    assert before is not None
    assert (before.last_in_event_id, before.in_event_ids_ahead) == ("0", ("2",))
    assert len(again) == 1


# --- what no snapshot covers stays on `.out` ---


async def test_a_half_answer_is_not_trimmed_before_it_was_saved() -> None:
    """C-15: two turn-completes come behind it before the first snapshot, and the run dies in front of that."""
    model = MockLanguageModel([cut_off("half", "one"), script.text("second"), script.text("done")])
    at_the_end = anyio.Event()

    async def hang_once(event: Any) -> None:
        if not at_the_end.is_set():
            at_the_end.set()
            await anyio.sleep_forever()

    async with mock_chat_agent(agent_of(model, on_action=lambda event: None, on_turn_complete=hang_once)) as harness:
        await kill_in_mid_answer(harness, model, user("u-1", "first"), "one")
        await harness.continue_run()
        await harness.send_action({"type": "note"})
        harness.begin_message(user("u-2", "second?"))
        await at_the_end.wait()
        unsaved = harness.get_snapshot()
        await harness.kill_run()
        await harness.continue_run()
        await harness.send_message(user("u-3", "third"))

    assert unsaved is None
    assert texts(kept(harness)) == ["first", "half", "second?", "second", "third", "done"]


async def test_a_second_attempt_does_not_answer_again_what_the_first_was_booted_with_and_has_answered() -> None:
    """C-71, G-64."""
    model = MockLanguageModel([script.text("one"), script.text("two"), script.text("three")])

    def run_out(event: Any) -> None:
        if event.turn == 1 and event.ctx.attempt.number == 1:
            raise OutOfMemoryError("too much")

    agent = agent_of(model, on_turn_start=run_out, oom_machine="large-2x")

    async with mock_chat_agent(agent, mode="submit-message") as harness:
        await harness.send_message(user("u-1", "first"))
        with pytest.raises(OutOfMemoryError):
            await harness.send_message(user("u-2", "second"))
        await harness.retry_oom()
        await harness.wait_idle()
        await harness.send_message(user("u-3", "third"))

    assert texts(kept(harness)) == ["first", "one", "second", "two", "third", "three"]
