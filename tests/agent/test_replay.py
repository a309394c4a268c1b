"""Reading the past from records: answers from `.out`, unanswered messages and the cursor (rules B-20 to B-33)."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.making import assistant, ids, parts_of, roles, tool_part
from chatagent.agent.replay import committed_cursor, done_ahead, in_flight_messages, read_all, replay_answers
from chatagent.session import InMemorySessionStore, NewRecord, Record, RunRequest, SessionSpec, control_record
from chatagent.session.output import RunOutput
from chatagent.ui import to_wire

START, FINISH = {"type": "start", "messageId": "a-1"}, {"type": "finish"}


def records(*data: Any) -> list[Record]:
    """Records of data, numbered from 0; one that is a record already gets its number."""
    made: list[Record] = []
    for seq, each in enumerate(data):
        new = each if isinstance(each, NewRecord) else NewRecord(each)
        made.append(Record(seq=seq, headers=new.headers, data=new.data))
    return made


def text(message_id: str, *deltas: str, end: bool = True) -> list[dict[str, Any]]:
    """The chunks of an answer of one text."""
    said = [{"type": "text-delta", "id": "t", "delta": delta} for delta in deltas]
    closing = [{"type": "text-end", "id": "t"}, FINISH] if end else []
    return [{"type": "start", "messageId": message_id}, {"type": "text-start", "id": "t"}, *said, *closing]


# --- answers on .out ---


def test_nothing_gives_nothing() -> None:
    """ROT-001."""
    replayed = replay_answers([])

    assert replayed.settled == ()
    assert replayed.partial is None
    assert replayed.partial_raw is None


def test_a_text_answer_is_put_together() -> None:
    """ROT-002, ROT-010."""
    replayed = replay_answers(records(*text("a-1", "hello ", "world")))

    assert [to_wire(message) for message in replayed.settled] == [
        {"id": "a-1", "role": "assistant", "parts": [{"type": "text", "text": "hello world", "state": "done"}]}
    ]
    assert replayed.partial is None


def test_several_answers_come_in_order_and_never_a_user_message() -> None:
    """ROT-003, ROT-005."""
    replayed = replay_answers(records(*text("a-1", "1"), *text("a-2", "2"), *text("a-3", "3")))

    assert ids(replayed.settled) == ["a-1", "a-2", "a-3"]
    assert set(roles(replayed.settled)) == {"assistant"}


def test_control_records_and_the_old_control_chunks_are_no_part_of_an_answer() -> None:
    """ROT-004, F-92."""
    replayed = replay_answers(
        records(
            *text("a-1", "1"),
            control_record("turn-complete"),
            {"type": "trigger:turn-complete"},
            NewRecord("", (("", "trim"),)),
            *text("a-2", "2"),
        )
    )

    assert ids(replayed.settled) == ["a-1", "a-2"]


@pytest.mark.parametrize("junk", ["a string", 42, None, True, [1], {}, {"type": 7}, {"no": "type"}])
def test_what_is_no_chunk_is_skipped(junk: object) -> None:
    """ROT-011 to ROT-013."""
    replayed = replay_answers(records(junk, *text("a-1", "1"), junk))

    assert ids(replayed.settled) == ["a-1"]
    assert replayed.partial_raw is None


def test_a_tool_call_that_was_cut_off_is_not_in_the_cleaned_answer() -> None:
    """ROT-008."""
    cut: list[dict[str, Any]] = [
        *text("a-2", "so", end=False),
        {"type": "tool-input-start", "toolCallId": "tc-cut", "toolName": "search"},
    ]

    replayed = replay_answers(records(*text("a-1", "1"), *cut))

    assert ids(replayed.settled) == ["a-1"]
    assert replayed.partial is not None
    assert parts_of(replayed.partial) == [{"type": "text", "text": "so", "state": "done"}]
    assert replayed.partial_raw is not None
    assert [part.type for part in replayed.partial_raw.parts] == ["text", "tool-search"]


def test_an_answer_that_clean_up_empties_is_kept_raw() -> None:
    """ROT-009, G-34: the reference loses both, so a recovery hook never hears of the call."""
    cut: list[dict[str, Any]] = [
        {"type": "start", "messageId": "a-2"},
        {"type": "tool-input-available", "toolCallId": "tc-1", "toolName": "search", "input": {}},
    ]

    replayed = replay_answers(records(*text("a-1", "1"), *cut))

    assert ids(replayed.settled) == ["a-1"]
    assert replayed.partial is None
    assert replayed.partial_raw is not None
    assert replayed.partial_raw.id == "a-2"


def test_a_malformed_chunk_ends_the_reading_of_its_answer_and_of_no_other() -> None:
    """ROT-014, F-31."""
    broken = [{"type": "start", "messageId": "a-0"}, {"type": "text-end", "id": "nobody"}, FINISH]

    replayed = replay_answers(records(*broken, *text("a-1", "1")))

    assert "a-1" in ids(replayed.settled)


def test_what_came_before_a_malformed_chunk_stands() -> None:
    broken = [
        *text("a-0", "before", end=False),
        {"type": "text-end"},
        {"type": "text-delta", "id": "t", "delta": "after"},
    ]

    replayed = replay_answers(records(*broken, FINISH, *text("a-1", "1")))

    assert [message.text for message in replayed.settled] == ["before", "1"]


def test_an_error_chunk_loses_nothing_of_its_answer() -> None:
    """G-55: the reference loses everything streamed in it."""
    failed = [*text("a-1", "half", end=False), {"type": "error", "errorText": "boom"}]

    replayed = replay_answers(records(*failed))

    assert replayed.partial is not None
    assert replayed.partial.text == "half"


def test_an_answer_that_the_next_one_interrupts_counts_as_settled() -> None:
    replayed = replay_answers(records(*text("a-1", "cut", end=False), *text("a-2", "whole")))

    assert ids(replayed.settled) == ["a-1", "a-2"]


def test_chunks_before_any_start_are_an_answer_of_their_own() -> None:
    """B-22."""
    replayed = replay_answers(records(*text("x", "lead")[1:], *text("a-1", "1")))

    assert ids(replayed.settled) == ["", "a-1"]


@given(st.integers(min_value=0, max_value=len(text("a-2", "one", "two", "three"))))
def test_wherever_an_answer_is_cut_the_ones_before_stand_and_nothing_is_made_up(cut: int) -> None:
    chunks = text("a-2", "one", "two", "three")
    whole = "onetwothree"

    replayed = replay_answers(records(*text("a-1", "1"), *chunks[:cut]))

    assert replayed.settled[0].id == "a-1"
    found = [*replayed.settled[1:], *([] if replayed.partial_raw is None else [replayed.partial_raw])]
    assert len(found) <= 1
    assert all(whole.startswith(message.text) for message in found)
    assert (len(replayed.settled) == 2) == (cut == len(chunks))


@pytest.mark.anyio
async def test_records_are_read_after_the_cursor_to_the_end_and_without_waiting() -> None:
    """ROT-006, ROT-007, RIN-006, RIN-007, F-24."""
    async with InMemorySessionStore() as store:
        await store.create_session(SessionSpec(session_id="c", task="t"), run=RunRequest("initial"))
        for number in range(1500):
            store.append_nowait("c", "in", [NewRecord({"number": number})])

        tail = await read_all(store, "c", "in", after=1297)
        everything = await read_all(store, "c", "in")
        nothing = await read_all(store, "c", "in", after=1499)

    assert [record.seq for record in tail] == list(range(1298, 1500))
    assert len(everything) == 1500
    assert nothing == []


# --- unanswered messages on .in ---


def message_record(message_id: str | None = "u-1", **payload: Any) -> dict[str, Any]:
    message = {"role": "user", "parts": [{"type": "text", "text": "hi"}]}
    named = message if message_id is None else {"id": message_id, **message}
    return {"kind": "message", "payload": {"chatId": "c", "trigger": "submit-message", "message": named, **payload}}


def test_submitted_messages_are_found_with_number_and_client_data_of_their_own() -> None:
    """RIN-001, F-27."""
    found = in_flight_messages(
        records(
            message_record("u-1", metadata={"userId": "a"}),
            message_record("u-2", metadata={"userId": "b"}),
            message_record("u-3"),
        ),
        new_id=str,
    )

    assert [(each.message.id, each.seq, each.metadata) for each in found] == [
        ("u-1", 0, {"userId": "a"}),
        ("u-2", 1, {"userId": "b"}),
        ("u-3", 2, None),
    ]


def test_other_kinds_of_records_are_no_messages() -> None:
    """RIN-002."""
    found = in_flight_messages(
        records({"kind": "stop"}, {"kind": "handover-skip"}, {"kind": "handover"}, message_record()), new_id=str
    )

    assert [each.seq for each in found] == [3]


@pytest.mark.parametrize("trigger", ["regenerate-message", "preload", "close", "action"])
def test_other_triggers_are_no_messages(trigger: str) -> None:
    """RIN-003."""
    assert in_flight_messages(records(message_record(trigger=trigger)), new_id=str) == []


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "message"},
        {"kind": "message", "payload": "text"},
        {"kind": "message", "payload": {"trigger": "submit-message"}},
        message_record(message=None),
        message_record(message="text"),
        message_record(message={"role": "user"}),
        message_record(message={"id": "u", "role": "user", "parts": [{"type": "text"}]}),
        42,
        None,
        "text",
        "{broken",
    ],
)
def test_what_cannot_be_read_is_skipped_and_the_rest_goes_on(data: object) -> None:
    """RIN-004, RIN-005."""
    found = in_flight_messages(records(data, message_record("u-1")), new_id=str)

    assert [each.message.id for each in found] == ["u-1"]


def test_a_record_may_be_a_json_text() -> None:
    """C-23, B-30."""
    found = in_flight_messages(records(json.dumps(message_record("u-1"))), new_id=str)

    assert [each.message.id for each in found] == ["u-1"]


def test_a_message_without_an_id_gets_one() -> None:
    found = in_flight_messages(records(message_record(None)), new_id=lambda: "made-up")

    assert [each.message.id for each in found] == ["made-up"]


# --- the cursor ---


def test_the_last_cursor_counts() -> None:
    """RIN-008."""
    told = records(
        control_record("turn-complete", **{"session-in-event-id": "3"}),
        {"type": "start"},
        control_record("turn-complete", **{"session-in-event-id": "7"}),
    )

    assert committed_cursor(told) == 7


def test_other_control_records_tell_no_cursor() -> None:
    """RIN-009."""
    told = records(
        control_record("turn-complete", **{"session-in-event-id": "4"}),
        control_record("upgrade-required", **{"session-in-event-id": "99"}),
        control_record("turn-complete"),
        control_record("turn-complete", **{"session-in-event-id": "soon"}),
    )

    assert committed_cursor(told) == 4


def test_without_a_cursor_there_is_none() -> None:
    """RIN-010."""
    assert committed_cursor(records({"type": "start"}, control_record("turn-complete"))) is None


def test_a_finished_tool_call_stays_in_an_answer_that_was_cut_off() -> None:
    cut: list[dict[str, Any]] = [
        {"type": "start", "messageId": "a-1"},
        {"type": "tool-input-available", "toolCallId": "tc-1", "toolName": "search", "input": {}},
        {"type": "tool-output-available", "toolCallId": "tc-1", "output": 7},
    ]

    replayed = replay_answers(records(*cut))

    expected = assistant("a-1", tool_part("tc-1", "output-available", input={}, output=7))
    assert replayed.partial == expected
    assert replayed.partial_raw == expected


def test_an_answer_that_told_an_error_and_went_on_to_its_end_is_settled() -> None:
    """G-55: the error alone leaves it open, a `finish` behind it closes it."""
    chunks = [*text("a-1", "whole", end=False), {"type": "error", "errorText": "boom"}, FINISH]

    replayed = replay_answers(records(*chunks))

    assert [message.text for message in replayed.settled] == ["whole"]
    assert replayed.partial is None


class Appended:
    """Keeps what a run appends to `.out`."""

    last_control = 0

    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, record: NewRecord, **_: object) -> int:
        self.records.append(Record(data=record.data, headers=record.headers, seq=len(self.records)))
        return len(self.records) - 1

    async def flush(self) -> int:
        return len(self.records) - 1


@given(numbers=st.sets(st.integers(min_value=0, max_value=10**12), max_size=200))
def test_what_is_done_ahead_is_read_as_it_was_told_as_far_as_there_is_room(numbers: set[int]) -> None:
    """G-26."""
    ahead = sorted(numbers)
    appended: Any = Appended()

    anyio.run(lambda: RunOutput(appended).write_turn_complete(token="", in_cursor=None, ahead=ahead))
    told = sorted(done_ahead(appended.records))

    assert told == ahead[: len(told)]
    assert len(told) == len(ahead) or len(",".join(map(str, ahead[: len(told) + 1]))) > 1000
    assert all(len(name) + len(value) <= 1024 for record in appended.records for name, value in record.headers)


def test_numbers_that_are_none_are_passed_by() -> None:
    record = control_record("turn-complete", session_in_event_ids_ahead="3,,x,²,5")

    assert done_ahead([Record(data=record.data, headers=record.headers, seq=0)]) == {3, 5}
