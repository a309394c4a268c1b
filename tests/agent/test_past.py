"""What a boot makes of the records that dead runs left: order, half answers, turns without their end (G-61, G-64)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.making import agent_of, assistant, ids, saying, texts, tool_part, user
from chatagent import chat
from chatagent.agent import RecoveryResult
from chatagent.agent.past import Past, reconstruct
from chatagent.session.records import TURN_IN_EVENT_ID, Headers, Record, control_record
from chatagent.ui import parse_chunk, to_wire
from chatagent_test import mock_chat_agent, mock_id, script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatagent.ui import UIMessage
    from chatagent_test import ChatAgentHarness

# --- records ---


def submitted(*messages: UIMessage, first: int = 0, trigger: str = "submit-message") -> list[Record]:
    """Records of `.in`, numbered on from `first`."""
    return [
        sent(first + number, {"trigger": trigger, "message": to_wire(message), "metadata": message.id})
        for number, message in enumerate(messages)
    ]


def sent(seq: int, payload: dict[str, Any]) -> Record:
    return Record(seq=seq, data={"kind": "message", "payload": payload})


class Out:
    """`.out`, as turns write it."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, *chunks: dict[str, Any], answers: int | None = None) -> Out:
        for position, chunk in enumerate(chunks):
            named = answers is not None and position == 0
            headers: Headers = ((TURN_IN_EVENT_ID, str(answers)),) if named else ()
            self._append(parse_chunk(chunk), headers)
        return self

    def answer(self, message_id: str, text: str, *, to: int | None, finished: bool = True, closed: bool = True) -> Out:
        """Write one answer of one text; `to` is the number of what it answers."""
        chunks: list[dict[str, Any]] = [
            {"type": "start", "messageId": message_id},
            {"type": "text-start", "id": "t"},
            {"type": "text-delta", "id": "t", "delta": text},
        ]
        if finished:
            chunks += [{"type": "text-end", "id": "t"}, {"type": "finish", "finishReason": "stop"}]
        self.write(*chunks, answers=to)
        return self.complete() if finished and closed else self

    def complete(self) -> Out:
        record = control_record("turn-complete")
        self._append(record.data, record.headers)
        return self

    def _append(self, data: Any, headers: Headers) -> None:
        self.records.append(Record(seq=len(self.records), data=data, headers=headers))


def past_of(out: Out, users: Sequence[Record], *, stored: Sequence[UIMessage] = (), cursor: int | None = None) -> Past:
    return reconstruct(stored, out.records, users, cursor=cursor, new_id=mock_id("made"))


def in_flight(past: Past) -> list[str]:
    return [each.message.id for each in past.in_flight]


# --- reconstruct ---


def test_nothing_gives_nothing() -> None:
    past = past_of(Out(), [])

    assert (past.settled, past.in_flight, past.in_tail) == ([], [], [])
    assert (past.partial, past.partial_raw, past.question, past.unclosed) == (None, None, None, None)


def test_answers_stand_behind_their_own_questions_whatever_the_order_of_the_logs() -> None:
    """All questions came before the first answer."""
    out = Out().answer("a-1", "one", to=0).answer("a-2", "two", to=1)

    past = past_of(out, submitted(user("u-1"), user("u-2"), user("u-3")), cursor=1)

    assert ids(past.settled) == ["u-1", "a-1", "u-2", "a-2"]
    assert in_flight(past) == ["u-3"]
    assert past.in_tail == [2]
    assert past.partial is None


def test_an_answer_that_was_cut_off_names_its_question() -> None:
    out = Out().answer("a-2", "half", to=1, finished=False)

    past = past_of(out, submitted(user("u-1"), user("u-2"), user("u-3")), cursor=0)

    assert ids(past.settled) == ["u-1"]
    assert (past.partial_of, past.question) == (1, user("u-2"))
    assert past.partial == assistant("a-2", {"type": "text", "text": "half", "state": "done"})
    assert past.partial_raw == assistant("a-2", {"type": "text", "text": "half", "state": "streaming"})
    assert in_flight(past) == ["u-2", "u-3"]


def test_after_several_crashes_each_question_keeps_its_own_half_answer() -> None:
    """G-61."""
    out = Out()
    for number in range(3):
        out.answer(f"a-{number}", f"half {number}", to=number, finished=False)

    past = past_of(out, submitted(*(user(f"u-{number}") for number in range(4))))

    assert ids(past.settled) == ["u-0", "a-0", "u-1", "a-1"]
    assert past.question == user("u-2")
    assert past.partial is not None
    assert past.partial.text == "half 2"
    assert in_flight(past) == ["u-2", "u-3"]


def test_half_answers_that_were_settled_are_clean() -> None:
    out = Out().write(
        {"type": "start", "messageId": "a-0"},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "search", "input": {}},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": "half"},
        answers=0,
    )
    out.answer("a-1", "half 1", to=1, finished=False)

    past = past_of(out, submitted(user("u-0"), user("u-1")))

    assert past.settled[1] == assistant("a-0", {"type": "text", "text": "half", "state": "done"})


def test_a_question_whose_turn_died_without_a_word_keeps_its_place_for_the_answer() -> None:
    """The first run died in a call without a result; the second answered."""
    out = Out().write(
        {"type": "start", "messageId": "a-0"},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "search", "input": {}},
        answers=0,
    )
    out.answer("a-0b", "answer", to=0)

    past = past_of(out, submitted(user("u-0"), user("u-1")), cursor=0)

    assert ids(past.settled) == ["u-0", "a-0b"]
    assert in_flight(past) == ["u-1"]


def test_a_call_alone_is_kept_in_its_raw_form() -> None:
    """G-34."""
    out = Out().write(
        {"type": "start", "messageId": "a-0"},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "search", "input": {}},
        answers=0,
    )

    past = past_of(out, submitted(user("u-0")))

    assert past.partial is None
    assert past.partial_raw == assistant("a-0", tool_part("c", "input-available", input={}))
    assert in_flight(past) == ["u-0"]


def test_an_answer_without_its_turn_complete_is_unclosed_and_not_asked_for_again() -> None:
    """G-64."""
    out = Out().answer("a-0", "answer", to=0, closed=False)

    past = past_of(out, submitted(user("u-0"), user("u-1")))

    assert past.unclosed is not None
    assert past.unclosed.question == user("u-0")
    assert past.unclosed.record is not None
    assert past.unclosed.record.data["payload"]["metadata"] == "u-0"
    assert past.unclosed.answer is not None
    assert (past.unclosed.answer.text, past.unclosed.finish_reason) == ("answer", "stop")
    assert past.unclosed.in_seqs == [0]
    assert ids(past.settled) == ["u-0", "a-0"]
    assert in_flight(past) == ["u-1"]
    assert past.partial is None


def test_what_the_snapshot_does_not_know_is_placed_before_its_answer() -> None:
    """G-64: the turn-complete was written, the snapshot was not."""
    out = Out().answer("a-1", "two", to=1)
    stored = [user("u-0", "one"), assistant("a-0", "one")]

    past = past_of(out, submitted(user("u-1", "two"), first=1), stored=stored, cursor=1)

    assert texts(past.settled) == ["one", "one", "two", "two"]
    assert (in_flight(past), past.in_tail) == ([], [])


def test_a_turn_that_failed_leaves_its_question() -> None:
    out = Out().write({"type": "error", "errorText": "boom"}, answers=0).complete()

    past = past_of(out, submitted(user("u-0"), user("u-1")), cursor=0)

    assert ids(past.settled) == ["u-0"]
    assert in_flight(past) == ["u-1"]


def test_an_error_that_was_not_closed_is_answered_again() -> None:
    out = Out().write({"type": "error", "errorText": "boom"}, answers=0)

    past = past_of(out, submitted(user("u-0")))

    assert (past.settled, past.partial_raw) == ([], None)
    assert in_flight(past) == ["u-0"]


def test_a_turn_that_left_no_word_is_told_by_the_cursor() -> None:
    past = past_of(Out().complete(), submitted(user("u-0"), user("u-1")), cursor=0)

    assert ids(past.settled) == ["u-0"]
    assert in_flight(past) == ["u-1"]


def test_regenerating_replaces_the_answer_only_once_there_is_another() -> None:
    """G-61."""
    stored = [user("u-0"), assistant("a-0", "first")]
    asked = [sent(1, {"trigger": "regenerate-message"})]

    done = past_of(Out().answer("a-1", "second", to=1), asked, stored=stored, cursor=1)
    cut = past_of(Out().answer("a-1", "sec", to=1, finished=False), asked, stored=stored, cursor=0)

    assert ids(done.settled) == ["u-0", "a-1"]
    assert ids(cut.settled) == ["u-0", "a-0"]
    assert (cut.partial_of, cut.question, cut.in_tail) == (1, None, [1])


def test_what_an_action_wrote_is_no_answer() -> None:
    asked = [sent(1, {"trigger": "action", "action": "clear"})]
    out = Out().answer("a-1", "cleared", to=1)
    stored = [user("u-0"), assistant("a-0", "first")]

    past = past_of(out, asked, stored=stored, cursor=1)

    assert past.settled == stored


@pytest.mark.parametrize("finished", [True, False])
def test_an_action_that_was_cut_off_is_taken_from_the_log_again(*, finished: bool) -> None:
    asked = [sent(1, {"trigger": "action", "action": "clear"})]
    out = Out().answer("a-1", "clear", to=1, finished=finished, closed=False)

    past = past_of(out, asked, stored=[user("u-0")], cursor=0)

    assert (past.unclosed, past.partial, past.partial_raw) == (None, None, None)
    assert past.in_tail == [1]


def test_the_answer_of_a_tool_is_merged_where_it_was_asked() -> None:
    stored = [user("u-0"), assistant("a-0", tool_part("c", "input-available", input={"q": 1}))]
    answered = assistant("other", tool_part("c", "output-available", output="found"))
    out = Out().answer("a-0", "so", to=1)

    past = past_of(out, submitted(answered, first=1), stored=stored, cursor=1)

    assert ids(past.settled) == ["u-0", "a-0"]
    wire: Any = past.settled[1].to_wire()
    assert [part["type"] for part in wire["parts"]] == ["tool-search", "text"]
    assert wire["parts"][0]["output"] == "found"


def test_a_message_sent_twice_stands_once() -> None:
    out = Out().answer("a-0", "one", to=0).answer("a-1", "two", to=1)

    past = past_of(out, submitted(user("u-0"), user("u-0")), cursor=1)

    assert ids(past.settled) == ["u-0", "a-0", "a-1"]


def test_streams_without_numbers_are_read_as_ever() -> None:
    """B-24, R-3, G-61."""
    out = Out().answer("a-0", "one", to=None).answer("a-1", "half", to=None, finished=False)

    past = past_of(out, submitted(user("u-1"), user("u-2"), first=1), stored=[user("u-0")], cursor=0)

    assert ids(past.settled) == ["u-0", "a-0"]
    assert past.partial is not None
    assert past.partial.text == "half"
    assert (past.partial_of, past.question, past.unclosed) == (None, user("u-1"), None)
    assert in_flight(past) == ["u-1", "u-2"]


def test_chunks_in_front_of_any_start_are_read_as_ever() -> None:
    """B-22."""
    out = Out().write({"type": "text-start", "id": "t"}, {"type": "text-delta", "id": "t", "delta": "half"})

    past = past_of(out, submitted(user("u-0")))

    assert past.partial is not None
    assert past.partial.text == "half"


def test_what_hooks_write_between_turns_is_no_answer() -> None:
    out = Out().write({"type": "data-hello", "data": 1}).answer("a-0", "one", to=0)
    out.write({"type": "data-suspended", "data": 2}).answer("a-1", "two", to=1)

    past = past_of(out, submitted(user("u-0"), user("u-1")), cursor=1)

    assert ids(past.settled) == ["u-0", "a-0", "u-1", "a-1"]
    assert [len(message.parts) for message in past.settled] == [1, 1, 1, 1]


FATES = st.lists(st.sampled_from(["answered", "half", "silent", "failed"]), max_size=6)


@given(fates=FATES, waiting=st.integers(0, 3))
def test_no_crash_breaks_the_order_or_loses_a_question(fates: list[str], waiting: int) -> None:
    """G-61: question, answer, question, answer: also with a run that died at each of them."""
    out = Out()
    for number, fate in enumerate(fates):
        if fate == "failed":
            out.write({"type": "error", "errorText": "boom"}, answers=number).complete()
        elif fate == "silent":
            out.complete()
        else:
            out.answer(f"a-{number}", "words", to=number, finished=fate == "answered")
    users = [user(f"u-{number}") for number in range(len(fates) + waiting)]
    is_cut = bool(fates) and fates[-1] == "half"
    cursor = len(fates) - (2 if is_cut else 1)

    past = past_of(out, submitted(*users), cursor=cursor if cursor >= 0 else None)

    expected: list[str] = []
    for number, fate in enumerate(fates[:-1] if is_cut else fates):
        expected += [f"u-{number}", f"a-{number}"] if fate in ("answered", "half") else [f"u-{number}"]
    assert ids(past.settled) == expected
    assert in_flight(past) == ids(users[cursor + 1 :])
    assert (past.partial is not None) == is_cut


# --- crashes for real ---


def nothing(event: Any) -> None:
    return None


def events(harness: ChatAgentHarness, name: str) -> list[Any]:
    return [call.event for call in harness.hooks if call.name == name]


def history(harness: ChatAgentHarness) -> list[str]:
    snapshot = harness.get_snapshot()
    assert snapshot is not None
    return texts(snapshot.messages)


class Hanging:
    """A hook that never returns from its first call."""

    def __init__(self) -> None:
        self.reached = anyio.Event()

    async def __call__(self, event: Any) -> None:
        if not self.reached.is_set():
            self.reached.set()
            await anyio.sleep_forever()


@pytest.mark.anyio
async def test_two_crashes_in_one_conversation() -> None:
    """G-61."""
    model = saying(script.text("half of one").hold("first"), script.text("half of two").hold("second"), "three", "four")

    async with mock_chat_agent(agent_of(model)) as harness:
        for question in ("one?", "two?", "three?"):
            harness.begin_message(question)
        await model.reached("first")
        await harness.kill_run()
        await harness.continue_run()
        await model.reached("second")
        await harness.kill_run()
        await harness.continue_run()
        await harness.wait_for(lambda harness: len(harness.turns) == 1 and harness.get_snapshot() is not None)
        await harness.send_message("four?")

        assert history(harness) == ["one?", "half of one", "two?", "half of two", "three?", "three", "four?", "four"]
        assert [turn.text for turn in harness.turns] == ["three", "four"]


@pytest.mark.anyio
async def test_a_crash_between_finish_and_turn_complete_closes_the_turn_at_the_boot() -> None:
    """G-64."""
    hang = Hanging()
    agent = agent_of(
        saying("answer", "next"), on_before_turn_complete=hang, on_turn_complete=nothing, on_recovery_boot=nothing
    )

    async with mock_chat_agent(agent, client_data={"name": "Ada"}) as harness:
        harness.begin_message(user("u-1", "one?"))
        await hang.reached.wait()
        await harness.kill_run()
        cut = [chunk["type"] for chunk in harness.all_raw_chunks]
        await harness.continue_run()
        closed = [chunk["type"] for chunk in harness.all_raw_chunks]
        stored = history(harness)
        await harness.send_message("two?")

        assert cut[-1] == "finish"
        assert closed == [*cut, "trigger:turn-complete"]
        assert stored == ["one?", "answer"]
        assert history(harness) == ["one?", "answer", "two?", "next"]
        assert events(harness, "on_recovery_boot") == []

    made_up, _ = events(harness, "on_turn_complete")
    assert made_up.response_message.text == "answer"
    assert (made_up.finish_reason, made_up.stopped, made_up.client_data) == ("stop", False, {"name": "Ada"})
    assert texts(made_up.new_ui_messages) == ["one?", "answer"]
    assert made_up.run_id == "run_test_2"
    assert (made_up.turn, made_up.usage) == (0, None)
    assert [call.turn for call in harness.hooks if call.name == "on_before_turn_complete"] == [0, 0]
    assert [call.name for call in harness.hooks].count("run") == 2


@pytest.mark.anyio
async def test_a_turn_closed_at_the_boot_stays_closed() -> None:
    """G-64: killed again at once, the next boot finds nothing left to do."""
    hang = Hanging()
    model = saying("answer", "next")

    async with mock_chat_agent(agent_of(model, on_before_turn_complete=hang, on_turn_complete=nothing)) as harness:
        harness.begin_message("one?")
        await hang.reached.wait()
        for _ in range(3):
            await harness.kill_run()
            await harness.continue_run()
        await harness.send_message("two?")

        assert history(harness) == ["one?", "answer", "two?", "next"]
        assert len(events(harness, "on_turn_complete")) == 2
        assert len(model.do_stream_calls) == 2


@pytest.mark.anyio
async def test_a_hook_that_fails_on_a_turn_closed_at_the_boot_breaks_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """G-64."""
    hang = Hanging()

    def fail(event: Any) -> None:
        if event.ui_messages[-1].text == "answer":
            raise ValueError("boom")

    agent = agent_of(saying("answer", "next"), on_before_turn_complete=hang, on_turn_complete=fail)

    async with mock_chat_agent(agent) as harness:
        harness.begin_message("one?")
        await hang.reached.wait()
        await harness.kill_run()
        await harness.continue_run()
        turn = await harness.send_message("two?")

    assert turn.text == "next"
    assert any("on a turn that was closed at the boot" in message for message in caplog.messages)


@pytest.mark.anyio
async def test_what_waited_behind_an_unclosed_turn_is_answered() -> None:
    """G-64."""
    hang = Hanging()

    async with mock_chat_agent(agent_of(saying("answer", "next"), on_before_turn_complete=hang)) as harness:
        harness.begin_message("one?")
        second = harness.begin_message("two?")
        await hang.reached.wait()
        await harness.kill_run()
        await harness.continue_run()
        turn = await second

        assert turn.text == "next"
        assert history(harness) == ["one?", "answer", "two?", "next"]


@pytest.mark.anyio
async def test_a_crash_between_turn_complete_and_snapshot_answers_nothing_twice() -> None:
    """G-64."""
    hang = Hanging()
    model = saying("answer", "next")

    async with mock_chat_agent(agent_of(model, on_turn_complete=hang)) as harness:
        turn = await harness.send_message("one?", until="turn_complete")
        await hang.reached.wait()
        await harness.kill_run()
        await harness.continue_run()
        await harness.wait_idle()
        calls = len(model.do_stream_calls)
        await harness.send_message("two?")

        assert turn.text == "answer"
        assert calls == 1
        assert history(harness) == ["one?", "answer", "two?", "next"]


@pytest.mark.anyio
async def test_the_older_cursor_of_a_snapshot_does_not_bring_an_answered_message_back() -> None:
    """G-64: the turn-complete behind it tells of more."""
    hang = Hanging()
    model = saying("first", "answer", "next")
    agent = agent_of(model, on_turn_complete=lambda event: hang(event) if event.turn == 1 else None)

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("zero?")
        await harness.send_message("one?", until="turn_complete")
        await hang.reached.wait()
        before = harness.get_snapshot()
        await harness.kill_run()
        await harness.continue_run()
        await harness.wait_idle()
        calls = len(model.do_stream_calls)
        await harness.send_message("two?")

        assert before is not None
        assert before.last_in_event_id == "0"
        assert calls == 2
        assert history(harness) == ["zero?", "first", "one?", "answer", "two?", "next"]


@pytest.mark.anyio
async def test_a_crash_behind_a_regenerate_in_mid_answer_regenerates() -> None:
    model = saying("first", script.text("sec").hold("middle"), "second")

    async with mock_chat_agent(agent_of(model)) as harness:
        await harness.send_message("one?")
        async with anyio.create_task_group() as tasks:

            async def regenerate() -> None:
                with pytest.raises(Exception, match="run"):
                    await harness.send_regenerate()

            tasks.start_soon(regenerate)
            await model.reached("middle")
            await harness.kill_run()
        await harness.continue_run()
        await harness.wait_idle()

        assert history(harness) == ["one?", "second"]


@pytest.mark.anyio
async def test_an_action_that_was_cut_off_is_done_again() -> None:
    hang = Hanging()

    async def act(event: Any) -> None:
        await hang(event)
        chat.history.set([])

    async with mock_chat_agent(agent_of(saying("answer"), on_action=act)) as harness:
        await harness.send_message("one?")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: harness.send_action("clear", until="sent"))
            await hang.reached.wait()
        await harness.kill_run()
        await harness.continue_run()
        await harness.wait_idle()

        assert history(harness) == []
        assert len(events(harness, "on_action")) == 2


@pytest.mark.anyio
async def test_a_question_that_is_asked_again_keeps_only_its_last_half_answer() -> None:
    """G-61: a recovery hook has the question asked again, and the second try dies in mid-answer too."""
    model = saying(script.text("half").hold("first"), script.text("half again").hold("second"), "answer")

    def again(event: Any) -> RecoveryResult:
        return RecoveryResult(chain=event.settled_messages, recovered_turns=event.in_flight_users)

    async with mock_chat_agent(agent_of(model, on_recovery_boot=again)) as harness:
        harness.begin_message("one?")
        await model.reached("first")
        await harness.kill_run()
        await harness.continue_run()
        await model.reached("second")
        await harness.kill_run()
        await harness.continue_run()
        await harness.wait_idle()

        first, second = events(harness, "on_recovery_boot")
        assert texts(first.in_flight_users) == texts(second.in_flight_users) == ["one?"]
        assert (first.partial_assistant.text, second.partial_assistant.text) == ("half", "half again")
        assert history(harness) == ["one?", "answer"]
