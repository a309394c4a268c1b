"""Snapshots and cursors: what is saved, when, and what the next run makes of it (S-1 to S-5, G-8, G-26, G-58, G-60)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.making import agent_of, assistant, ids, nothing, prompt_of, roles, saying, texts, user
from agent.sessions import live_session
from chatagent import chat
from chatagent.errors import LeaseLostError, SnapshotCorruptError, SnapshotStoreError, SnapshotVersionError
from chatagent.session import Record, Snapshot, control_type, header
from chatagent.ui import UIMessage, to_wire
from chatagent_test import ChatAgentHarness, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.anyio

CURSOR = "session-in-event-id"


def snapshot_of(harness: ChatAgentHarness) -> Snapshot:
    snapshot = harness.get_snapshot()
    assert snapshot is not None
    return snapshot


def turn_completes(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if control_type(record) == "turn-complete"]


def wire_snapshot(*messages: UIMessage, **fields: Any) -> dict[str, Any]:
    return {"version": 1, "savedAt": 0, "messages": [to_wire(message) for message in messages], **fields}


# --- what is saved ---


async def test_each_turn_is_followed_by_a_snapshot_of_the_whole_chain() -> None:
    """MCA-034."""
    async with mock_chat_agent(agent_of(saying("one", "two"))) as harness:
        before = harness.get_snapshot()
        await harness.send_message("a")
        first = snapshot_of(harness)
        await harness.send_message("b")
        second = snapshot_of(harness)

    assert before is None
    assert first.version == 1
    assert first.saved_at == 1735689600000
    assert texts(first.messages) == ["a", "one"]
    assert texts(second.messages) == ["a", "one", "b", "two"]


async def test_a_snapshot_carries_both_cursors() -> None:
    """G-8: the reference's harness has no numbers for `.in`."""
    async with mock_chat_agent(agent_of(saying("one", "two"))) as harness:
        await harness.send_message("a")
        first = snapshot_of(harness)
        await harness.send_message("b")
        second = snapshot_of(harness)

    done = turn_completes(harness.out_records)
    assert [first.last_out_event_id, second.last_out_event_id] == [str(record.seq) for record in done]
    assert [first.last_in_event_id, second.last_in_event_id] == ["0", "1"]
    assert [header(record, CURSOR) for record in done] == ["0", "1"]


async def test_a_snapshot_is_saved_behind_on_turn_complete() -> None:
    """S-1."""
    seen: list[Any] = []
    harness = mock_chat_agent(agent_of(on_turn_complete=lambda event: seen.append(harness.get_snapshot())))

    async with harness:
        await harness.send_message("a")

    assert seen == [None]
    assert harness.get_snapshot() is not None


async def test_with_hydration_nothing_is_saved() -> None:
    """MCA-038, S-2."""
    async with mock_chat_agent(agent_of(hydrate_messages=lambda event: event.incoming_messages)) as harness:
        await harness.send_message("a")

    assert harness.get_snapshot() is None


async def test_a_snapshot_does_not_change_when_the_conversation_goes_on() -> None:
    async with mock_chat_agent(agent_of(saying("one", "two"))) as harness:
        await harness.send_message("a")
        first = snapshot_of(harness)
        before = to_wire(first)
        await harness.send_message("b")

    assert to_wire(first) == before


async def test_nothing_is_seeded_and_nothing_was_saved_means_there_is_no_snapshot() -> None:
    harness = mock_chat_agent(agent_of(), continuation=True, snapshot=wire_snapshot(user("u-1")))

    async with harness:
        await harness.start()

    assert harness.get_snapshot() is None


# --- cursors ---


async def test_the_cursor_never_covers_a_message_that_is_not_answered() -> None:
    """G-26, G-54: in the reference it moves when a message is buffered, so a crash loses it."""
    model = saying(script.text("one").hold("here"), "two")

    async with mock_chat_agent(agent_of(model)) as harness:
        first = harness.begin_message("a")
        await model.reached("here")
        second = harness.begin_message("b")
        await harness.settle()
        model.release("here")
        await first
        after_first = header(turn_completes(harness.out_records)[0], CURSOR)
        await second

    assert after_first == "0"
    assert [header(record, CURSOR) for record in turn_completes(harness.out_records)] == ["0", "1"]


async def test_stops_and_actions_move_the_cursor_too() -> None:
    async with mock_chat_agent(agent_of(saying("one", "two"), on_action=nothing)) as harness:
        await harness.send_message("a")
        await harness.send_stop()
        await harness.send_action("look")
        await harness.send_message("b")

    assert [header(record, CURSOR) for record in turn_completes(harness.out_records)] == ["0", "2", "3"]


async def test_a_failed_turn_moves_the_cursor() -> None:
    """E-7."""

    def fail(event: Any) -> None:
        raise ValueError("no")

    async with mock_chat_agent(agent_of(run=fail)) as harness:
        await harness.send_message("a")

    assert snapshot_of(harness).last_in_event_id == "0"
    assert header(turn_completes(harness.out_records)[0], CURSOR) == "0"


async def test_the_first_record_of_a_turn_names_the_message_that_it_answers() -> None:
    """G-61, ST-34."""
    async with mock_chat_agent(agent_of(saying("one", "two"), on_action=lambda event: "done")) as harness:
        await harness.send_message("a")
        await harness.send_action("go")
        await harness.send_regenerate()

    named = [header(record, "turn-in-event-id") for record in harness.out_records]
    assert [each for each in named if each is not None] == ["0", "1", "2"]
    starts = [at for at, record in enumerate(harness.out_records) if getattr(record.data, "type", "") == "start"]
    assert [named[at] for at in starts] == ["0", "1", "2"]


async def test_out_is_trimmed_to_about_one_turn() -> None:
    """C-15, F-91."""
    async with live_session() as session:
        for text in ("a", "b", "c"):
            session.submit(user(f"u-{text}", text))
        await session.run(agent_of(saying("one", "two", "three")))
        page = await session.store.read("c-1", "out")

    done = [record.seq for record in turn_completes(session.out)]
    left = [record for record in page.records if control_type(record) is not None or hasattr(record.data, "type")]
    assert len(done) == 3
    assert [record.seq for record in turn_completes(left)] == done[1:]


# --- what the next run makes of it ---


async def test_a_continuation_goes_on_with_the_stored_history() -> None:
    """MCA-035."""
    model = saying("third")
    stored = wire_snapshot(user("u-1", "one"), assistant("a-1", "two"))

    async with mock_chat_agent(agent_of(model), continuation=True, snapshot=stored) as harness:
        await harness.send_message("three")

    assert roles(prompt_of(model)) == ["user", "assistant", "user"]
    assert texts(snapshot_of(harness).messages) == ["one", "two", "three", "third"]
    assert harness.boot.snapshot_found
    assert ids(harness.boot.settled_messages) == ["u-1", "a-1"]


async def test_a_snapshot_of_one_harness_is_good_for_the_next() -> None:
    """X-21: numbers go on from its cursors, so the new run does not take its first messages for seen ones."""
    model = saying("one", "two", "three")
    async with mock_chat_agent(agent_of(model)) as first:
        await first.send_message("a")
        await first.send_message("b")

    async with mock_chat_agent(agent_of(model), continuation=True, snapshot=first.get_snapshot()) as second:
        turn = await second.send_message(user("u-3", "c"))

    assert turn.text == "three"
    assert texts(snapshot_of(second).messages) == ["a", "one", "b", "two", "c", "three"]
    assert snapshot_of(second).last_in_event_id == "2"


async def test_a_run_behind_another_neither_repeats_nor_loses_anything() -> None:
    async with live_session() as session:
        session.submit(user("u-1", "a"))
        one = await session.run(agent_of(saying("one")), trigger="preload")
        session.submit(user("u-2", "b"))
        session.submit(user("u-3", "c"))
        two = await session.run(agent_of(saying("two", "three")))
        three = await session.run(agent_of(saying()))
        snapshot = await session.snapshots.load("c-1")

    assert [len(seen.turns) for seen in (one, two, three)] == [1, 2, 0]
    assert snapshot is not None
    assert texts(snapshot.messages) == ["a", "one", "b", "two", "c", "three"]
    assert snapshot.last_in_event_id == "2"


BOOTS = pytest.mark.parametrize("boot", [{"trigger": "preload"}, {}], ids=["buffered", "recovered"])
"""In a first run messages are buffered while a turn is on; a continuation finds them on the log."""


@BOOTS
async def test_a_message_that_waited_when_the_run_crashed_is_answered_by_the_next_run(boot: dict[str, Any]) -> None:
    """G-26."""
    calls = 0

    async with live_session() as session:

        def crash_in_the_second_turn(event: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 2:
                session.crash()

        session.submit(user("u-1", "a"))
        session.submit(user("u-2", "b"))
        with pytest.raises(LeaseLostError):
            await session.run(agent_of(saying("one", "lost"), on_turn_start=crash_in_the_second_turn), **boot)
        seen = await session.run(agent_of(saying("two")))
        snapshot = await session.snapshots.load("c-1")

    assert len(seen.turns) == 1
    assert snapshot is not None
    assert texts(snapshot.messages) == ["a", "one", "b", "two"]


@BOOTS
async def test_messages_that_max_turns_left_over_are_answered_by_the_next_run(boot: dict[str, Any]) -> None:
    """G-37."""
    async with live_session() as session:
        for text in ("a", "b", "c"):
            session.submit(user(f"u-{text}", text))
        first = await session.run(agent_of(saying("one"), max_turns=1), **boot)
        second = await session.run(agent_of(saying("two", "three")))
        snapshot = await session.snapshots.load("c-1")

    assert (len(first.turns), len(second.turns)) == (1, 2)
    assert snapshot is not None
    assert texts(snapshot.messages) == ["a", "one", "b", "two", "c", "three"]


async def test_what_stood_between_recovered_messages_does_not_hold_the_cursor_back() -> None:
    """R-5, G-26: each is taken in its order, and what is passed over counts as done."""
    async with live_session() as session:
        session.put({"kind": "stop"})
        session.submit(user("u-1", "a"))
        session.put({"kind": "message", "payload": {"chatId": "c-1", "trigger": "regenerate-message"}})
        session.submit(user("u-2", "b"))
        await session.run(agent_of(saying("one", "one anew", "two")))
        again = await session.run(agent_of(saying()))
        snapshot = await session.snapshots.load("c-1")

    assert again.turns == []
    assert snapshot is not None
    assert texts(snapshot.messages) == ["a", "one anew", "b", "two"]
    assert snapshot.last_in_event_id == "3"


async def test_with_hydration_every_unanswered_message_is_a_turn_of_its_own() -> None:
    """G-59."""
    store: list[UIMessage] = []

    def hydrate(event: Any) -> list[UIMessage]:
        chat.upsert_incoming_message(store, event)
        return list(store)

    agent = agent_of(
        saying("one", "two"),
        hydrate_messages=hydrate,
        on_turn_complete=lambda event: store.append(event.response_message),
    )

    async with live_session() as session:
        session.submit(user("u-1", "a"))
        session.submit(user("u-2", "b"))
        seen = await session.run(agent)
        again = await session.run(agent)

    assert len(seen.turns) == 2
    assert again.turns == []
    assert texts(store) == ["a", "one", "b", "two"]


async def test_a_retry_answers_the_message_of_its_payload_once() -> None:
    """R-7, F-26: the message is in the payload and on `.in`."""
    async with live_session() as session:
        session.submit(user("u-1", "a"))
        boot = {"trigger": "submit-message", "message": to_wire(user("u-1", "a"))}
        retry = await session.run(agent_of(saying("one")), attempt=2, **boot)
        again = await session.run(agent_of(saying()))
        snapshot = await session.snapshots.load("c-1")

    assert len(retry.turns) == 1
    assert again.turns == []
    assert snapshot is not None
    assert texts(snapshot.messages) == ["a", "one"]


# --- stores that fail ---


class FailingSnapshots:
    """A snapshot store that can do nothing."""

    def __init__(self, *, load: Exception | None = None, save: Exception | None = None) -> None:
        self.load_error, self.save_error = load, save
        self.saved: list[Snapshot] = []

    async def load(self, session_id: str) -> Snapshot | None:
        if self.load_error is not None:
            raise self.load_error
        return None

    async def save(self, session_id: str, snapshot: Snapshot, *, epoch: int) -> None:
        self.saved.append(snapshot)
        if self.save_error is not None:
            raise self.save_error

    async def delete(self, session_id: str) -> None:
        raise NotImplementedError


async def test_a_snapshot_that_cannot_be_saved_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """S-5, G-60: the records are still there."""
    async with live_session() as session:
        session.snapshots = snapshots = FailingSnapshots(save=OSError("disk full"))
        session.submit(user("u-1", "a"))
        session.submit(user("u-2", "b"))
        seen = await session.run(agent_of(saying("one", "two")), trigger="preload")

    assert [turn.error for turn in seen.turns] == [None, None]
    assert len(snapshots.saved) == 2
    assert caplog.messages == ["the snapshot of session 'c-1' could not be saved"] * 2


@pytest.mark.parametrize(
    "error",
    [
        SnapshotStoreError(session_id="c-1", problem="no connection"),
        SnapshotCorruptError(session_id="c-1", field="messages", problem="no list"),
        SnapshotVersionError(session_id="c-1", found=9, supported=1),
    ],
)
async def test_a_snapshot_that_cannot_be_read_fails_the_boot_and_nothing_is_consumed_or_overwritten(
    error: Exception,
) -> None:
    """G-58, G-60: for the reference it counts as none, and the next save replaces it."""
    async with live_session() as session:
        session.snapshots = snapshots = FailingSnapshots(load=error)
        session.submit(user("u-1", "a"))
        with pytest.raises(type(error)) as caught:
            await session.run(agent_of(on_boot=nothing))

    assert caught.value is error
    assert snapshots.saved == []
    assert session.out == []


async def test_a_stored_snapshot_of_another_version_fails_the_boot() -> None:
    """G-58."""
    harness = mock_chat_agent(agent_of(), continuation=True, snapshot={"version": 2, "savedAt": 0, "messages": []})

    with pytest.raises(SnapshotVersionError) as caught:
        await harness.send_message("hello")
    await harness.close()

    assert str(caught.value) == (
        "snapshot of session 'test-chat': `version` is 2, this release reads 1; upgrade chatagent or delete that "
        "snapshot"
    )
    assert (caught.value.found, caught.value.supported) == (2, 1)
    assert harness.get_snapshot() is None


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ({"version": 1, "savedAt": 0}, "`messages`: the key is required"),
        ({"version": 1, "savedAt": 0, "messages": "none"}, "`messages`: input should be a valid list"),
        ({"version": 1, "messages": []}, "`savedAt`: the key is required"),
        ({"savedAt": 0, "messages": []}, "`version`: the key is required"),
    ],
)
async def test_a_stored_snapshot_that_does_not_decode_fails_the_boot(stored: dict[str, Any], text: str) -> None:
    """SNP-006, G-60."""
    harness = mock_chat_agent(agent_of(), continuation=True, snapshot=stored)

    with pytest.raises(SnapshotCorruptError) as caught:
        await harness.start()
    await harness.close()

    assert text in str(caught.value)
    assert str(caught.value).endswith("it was left as it is, repair or delete that snapshot")


async def test_a_run_that_lost_its_lease_writes_nothing_more() -> None:
    async with live_session() as session:
        session.submit(user("u-1", "a"))
        with pytest.raises(LeaseLostError):
            await session.run(agent_of(run=lambda event: session.crash()), trigger="preload")
        snapshot = await session.snapshots.load("c-1")

    assert session.out == []
    assert snapshot is None


async def test_the_chat_id_is_the_one_key_whatever_session_id_a_payload_names() -> None:
    """G-40: records and snapshot of a conversation cannot be found under two names."""
    named: list[str] = []
    agent = agent_of(saying("one", "two"), on_turn_start=lambda event: named.append(chat.session_id))

    async with live_session() as session:
        session.submit(user("u-1", "a"))
        await session.run(agent, trigger="preload", sessionId="another")
        session.submit(user("u-2", "b"))
        await session.run(agent, continuation=True, sessionId="yet-another")
        snapshot = await session.snapshots.load("c-1")
        others = [await session.snapshots.load(name) for name in ("another", "yet-another")]

    assert named == ["another", "yet-another"]
    assert snapshot is not None
    assert texts(snapshot.messages) == ["a", "one", "b", "two"]
    assert others == [None, None]
    assert len(turn_completes(session.out)) == 2


async def test_with_hydration_unanswered_messages_go_before_newer_ones_and_are_seen_as_incoming() -> None:
    """G-59."""
    seen: list[tuple[list[str], str]] = []

    def hydrate(event: Any) -> list[UIMessage]:
        seen.append((ids(event.incoming_messages), event.trigger))
        return [*event.previous_messages, *event.incoming_messages]

    harness = mock_chat_agent(agent_of(saying("one", "two", "three"), hydrate_messages=hydrate), continuation=True)
    harness.seed_session_in_tail([user("u-1"), user("u-2")])

    async with harness:
        turn = await harness.send_message(user("u-3"))

    assert seen == [([name], "submit-message") for name in ("u-1", "u-2", "u-3")]
    assert turn.text == "three"


async def test_a_turn_complete_of_number_0_counts_like_any_other() -> None:
    """C-16, F-48: a number that counts as false must not keep the completion hook from being called."""
    agent = agent_of(run=nothing, on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")
        stored = snapshot_of(harness).last_out_event_id

    (event,) = [call.event for call in harness.hooks if call.name == "on_turn_complete"]
    assert [record.seq for record in harness.out_records] == [0]
    assert (event.last_event_id, stored) == ("0", "0")


async def test_a_payload_holds_one_message_however_long_the_history_is() -> None:
    """W-1, F-90: the history is in the snapshot, not on the wire."""
    async with mock_chat_agent(agent_of(saying("one", "two", "three"))) as harness:
        for text in ("a", "b", "c"):
            await harness.send_message(user(f"u-{text}", text))
        page = await harness.session.in_.read()
        length = len(snapshot_of(harness).messages)

    sent: list[Any] = [record.data for record in page.records]
    assert [each["payload"]["message"]["parts"][0]["text"] for each in sent] == ["a", "b", "c"]
    assert {key for each in sent for key in each["payload"]} == {"chatId", "trigger", "message"}
    assert length == 6


async def test_a_later_run_does_not_run_the_boot_message_of_the_first_again() -> None:
    """C-3, B-13, F-20: a continuation without message waits for one."""
    model = saying("one", "two")

    async with mock_chat_agent(agent_of(model), mode="submit-message") as harness:
        await harness.send_message(user("u-1", "a"))
        await harness.kill_run()
        await harness.continue_run()
        await harness.wait_idle()
        asked = len(model.do_stream_calls)
        await harness.send_message(user("u-2", "b"))
        stored = texts(snapshot_of(harness).messages)

    assert asked == 1
    assert stored == ["a", "one", "b", "two"]


async def test_a_send_that_is_tried_again_with_its_key_makes_one_turn() -> None:
    """ST-27, F-12."""
    model = saying("one", "two")
    record = {
        "kind": "message",
        "payload": {"chatId": "test-chat", "trigger": "submit-message", "message": to_wire(user("", "a"))},
    }

    async with mock_chat_agent(agent_of(model)) as harness:
        await harness.start()
        acks = [await harness.session.in_.append(record, key="send-1") for _ in range(2)]
        await harness.wait_for(lambda it: bool(it.turns))
        await harness.wait_idle()

    assert [ack.duplicate for ack in acks] == [False, True]
    assert len(harness.turns) == 1


async def test_a_stop_behind_a_message_that_waits_does_not_take_the_cursor_past_it() -> None:
    """G-26: the stop is dealt with at once, the message in front of it is not."""
    model = saying(script.text("one").hold("here").text(" and more"), "two")

    async with mock_chat_agent(agent_of(model)) as harness:
        first = harness.begin_message("a")
        await model.reached("here")
        second = harness.begin_message("b")
        await harness.settle()
        await harness.send_stop()
        stopped = await first
        await second

    assert stopped.stopped
    assert [header(record, CURSOR) for record in turn_completes(harness.out_records)] == ["0", "2"]
