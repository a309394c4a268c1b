"""What a boot learns of a session's past: the chain as clients saw it, what a crash cut off, and what nobody answered.

The first record of a turn on `.out` names the `.in` record that it answers, so questions and answers are paired by
number, however many runs have crashed in between (G-61). The highest committed cursor decides what was answered, in the
snapshot or in a turn-complete (G-64). Streams without those numbers are read by B-24 and R-3. Values in, values out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chatagent.agent.chain import MessageChain
from chatagent.agent.cleanup import cleanup_aborted_parts
from chatagent.agent.injected import marked_ids, marked_in
from chatagent.agent.merge import ToolCallMap, merge_by_id_replace_wins, merge_incoming_into_stored
from chatagent.agent.replay import (
    InFlightMessage,
    chunk_of,
    in_flight_messages,
    reduce_segment,
    replay_answers,
    turn_records,
)
from chatagent.agent.wire import input_of
from chatagent.session.records import TURN_COMPLETE, TURN_IN_EVENT_ID, control_type, header, is_command
from chatagent.ui import DataChunk, DataUIPart, Error, Finish, Start, StepStartUIPart

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from chatagent.ids import IdGenerator
    from chatagent.session.records import Record
    from chatagent.ui import Chunk, UIMessage

__all__ = ["Past", "UnclosedTurn", "finds_unclosed", "reconstruct", "unclosed_turn"]

COMMANDS = ("action", "regenerate-message")
"""The triggers that ask for something without saying anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnclosedTurn:
    """An answer that was streamed to its end, by a run that died before it could say so."""

    in_seq: int
    """The number of the record of `.in` that it answers."""
    record: Record | None
    """That record, if it is there."""
    chunks: Sequence[Chunk]
    """The answer as it was streamed."""
    injected: Sequence[InFlightMessage] = ()
    """The messages that were injected into it."""
    answer: UIMessage | None = None
    """The message that the answer is, in a chain that the runtime keeps."""
    question: UIMessage | None = None
    """The message that it answers, if that is new in that chain."""

    @property
    def finish_reason(self) -> str | None:
        """What its `finish` says."""
        return next((chunk.finish_reason for chunk in reversed(self.chunks) if isinstance(chunk, Finish)), None)

    @property
    def in_seqs(self) -> list[int]:
        """The records of `.in` that it has dealt with."""
        return [self.in_seq, *(each.seq for each in self.injected)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a boot has read of the session's past."""

    settled: Sequence[UIMessage] = ()
    """The conversation up to what a crash cut off."""
    partial: UIMessage | None = None
    partial_raw: UIMessage | None = None
    partial_of: int | None = None
    """The number of the `.in` record that the partial answers, if it is known."""
    in_flight: Sequence[InFlightMessage] = ()
    in_tail: Sequence[int] = ()
    """The numbers of all records of `.in` behind the cursor."""
    commands: Sequence[Record] = ()
    """The actions and regenerates among them."""
    unclosed: UnclosedTurn | None = None
    snapshot_found: bool = False
    last_out_event_id: int | None = None
    out_end: int | None = None
    """The number of the last record on `.out`; `None` if there is none."""
    in_cursor: int | None = None

    @property
    def question(self) -> UIMessage | None:
        """The message that the partial answers, if it is among those in flight."""
        if self.partial_of is None:
            return self.in_flight[0].message if self.in_flight else None
        return next((each.message for each in self.in_flight if each.seq == self.partial_of), None)

    @property
    def users(self) -> list[UIMessage]:
        """The messages that were never answered, in order."""
        return [each.message for each in self.in_flight]


@dataclass(slots=True)
class _Trace:
    """What one turn has left on `.out`."""

    in_seq: int
    chunks: list[Chunk] = field(default_factory=list["Chunk"])
    is_closed: bool = False

    @property
    def finish(self) -> Finish | None:
        """The `finish` chunk, if the answer came to its end."""
        return next((chunk for chunk in reversed(self.chunks) if isinstance(chunk, Finish)), None)


def reconstruct(
    stored: Sequence[UIMessage],
    out_tail: Sequence[Record],
    in_tail: Sequence[Record],
    *,
    cursor: int | None,
    stored_ahead: Collection[int] = (),
    told_ahead: Collection[int] = (),
    new_id: IdGenerator,
    **known: Any,
) -> Past:
    """Return the past that a snapshot and the records behind it tell.

    Args:
        stored: the snapshot's messages.
        out_tail: the records of `.out` behind the snapshot.
        in_tail: the records of `.in` behind the snapshot.
        cursor: the highest committed cursor of `.in`.
        stored_ahead: the records above it that are done with as the snapshot tells: their messages are in it, or were
            left out for good.
        told_ahead: those that turn-completes tell.
        new_id: makes ids for messages that have none.
        known: further fields of the past.
    """
    users = [user for user in in_flight_messages(in_tail, new_id=new_id) if user.seq not in stored_ahead]
    done = {
        *stored_ahead,
        *told_ahead,
        *(record.seq for record in in_tail if cursor is not None and record.seq <= cursor),
    }
    behind = [record.seq for record in in_tail if record.seq not in done]
    commands = [record for record in in_tail if record.seq not in done and _trigger(record) in COMMANDS]
    traces = _traces(out_tail)
    if traces is None:
        answers = replay_answers(out_tail)
        return Past(
            settled=merge_by_id_replace_wins(stored, answers.settled),
            partial=answers.partial,
            partial_raw=answers.partial_raw,
            in_flight=[user for user in users if user.seq not in done],
            in_tail=behind,
            commands=commands,
            in_cursor=cursor,
            **known,
        )
    story = _Story(stored, {user.seq: user for user in users}, {record.seq: record for record in in_tail}, done)
    return story.tell(traces, in_tail=behind, commands=commands, in_cursor=cursor, **known)


def finds_unclosed(out: Sequence[Record]) -> bool:
    """Return whether the last answer on `.out` came to its end, and its turn did not."""
    return _unclosed_trace(out) is not None


def unclosed_turn(out: Sequence[Record], in_tail: Sequence[Record], *, new_id: IdGenerator) -> UnclosedTurn | None:
    """Return the turn whose answer came to its end without a turn-complete, of an agent that keeps its history itself.

    Args:
        out: the records of `.out`.
        in_tail: the records of `.in` behind the committed cursor.
        new_id: makes ids for messages that have none.
    """
    trace = _unclosed_trace(out)
    if trace is None:
        return None
    record = next((each for each in in_tail if each.seq == trace.in_seq), None)
    if record is not None and _trigger(record) == "action":
        return None  # it is still on `.in`, and will be taken from there
    marked = marked_in(trace.chunks)
    users = in_flight_messages(in_tail, new_id=new_id)
    injected = [user for user in users if user.message.id in marked and user.seq != trace.in_seq]
    return UnclosedTurn(in_seq=trace.in_seq, record=record, chunks=trace.chunks, injected=injected)


def _unclosed_trace(out: Sequence[Record]) -> _Trace | None:
    end = next((place for place in range(len(out), 0, -1) if control_type(out[place - 1]) == TURN_COMPLETE), 0)
    traces = _traces(out[end:])
    return traces[-1] if traces and traces[-1].finish is not None else None


def _trigger(record: Record) -> str | None:
    return _payload_text(record, "trigger")


def _payload_text(record: Record, key: str) -> str | None:
    payload = input_of(record).get("payload")
    value = payload.get(key) if isinstance(payload, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - JSON
    return value if isinstance(value, str) else None


def _traces(records: Iterable[Record]) -> list[_Trace] | None:
    """Return what each turn has left, in order; `None` if an answer does not say what it answers."""
    traces: list[_Trace] = []
    current: _Trace | None = None
    has_stray_words = False
    for record in turn_records(records):
        if is_command(record):
            continue
        if control_type(record) is not None:
            if control_type(record) == TURN_COMPLETE and current is not None:
                current.is_closed = True
                current = None
            continue
        chunk = chunk_of(record)
        answers = header(record, TURN_IN_EVENT_ID)
        if answers is not None and answers.isdecimal():
            current = _Trace(int(answers))
            traces.append(current)
        if chunk is None:
            continue
        if current is not None:
            current.chunks.append(chunk)
        elif isinstance(chunk, Start):
            return None
        else:
            has_stray_words = has_stray_words or not isinstance(chunk, DataChunk | Error)
    return None if has_stray_words and not traces else traces


class _Story:
    """Puts questions and answers into their order."""

    def __init__(
        self,
        stored: Sequence[UIMessage],
        users: dict[int, InFlightMessage],
        records: dict[int, Record],
        done: Collection[int],
    ) -> None:
        self._chain = MessageChain(stored)
        self._calls = ToolCallMap()
        for message in stored:
            self._calls.record(message)
        self._waiting = dict(sorted(users.items()))
        """Messages that have no place yet, by number."""
        self._records, self._done = records, done

    def tell(self, traces: Sequence[_Trace], **known: Any) -> Past:
        """Return the past."""
        answered = {trace.in_seq for trace in traces}
        last = traces[-1] if traces and not traces[-1].is_closed else None
        tries = {trace.in_seq: trace for trace in traces}
        for trace in traces:
            self._place_committed(before=trace.in_seq, but=answered)
            is_superseded = not trace.is_closed and tries[trace.in_seq] is not trace
            if trace is not last and not is_superseded:
                self._take(trace)
        if last is not None and self._trigger_of(last) == "action":
            last = None  # it is still on `.in`, and will be taken from there
        if last is not None and last.finish is None:
            return self._cut_off(last, known)
        unclosed = None if last is None else self._take_unclosed(last)
        self._place_committed(before=None, but=answered)
        return Past(settled=self._chain.to_list(), in_flight=self._in_flight(), unclosed=unclosed, **known)

    def _cut_off(self, trace: _Trace, known: dict[str, Any]) -> Past:
        raw = self._answer(trace)
        if raw is not None and all(isinstance(part, DataUIPart | StepStartUIPart) for part in raw.parts):
            raw = None  # hooks have written, but the answer had not begun: the question is as good as new
        cleaned = None if raw is None else cleanup_aborted_parts(raw)
        self._place_committed(before=None, but={trace.in_seq})
        in_flight = self._in_flight(and_also=trace.in_seq)
        return Past(
            settled=self._chain.to_list(),
            partial=cleaned if cleaned is not None and cleaned.parts else None,
            partial_raw=raw,
            partial_of=trace.in_seq,
            in_flight=in_flight,
            **known,
        )

    def _take_unclosed(self, trace: _Trace) -> UnclosedTurn:
        question = self._waiting.get(trace.in_seq)
        return UnclosedTurn(
            in_seq=trace.in_seq,
            record=self._records.get(trace.in_seq),
            chunks=trace.chunks,
            injected=[self._waiting[seq] for seq in self._marked(trace)],
            question=None if question is None or self._place_of(question.message) is not None else question.message,
            answer=self._take(trace),
        )

    def _take(self, trace: _Trace) -> UIMessage | None:
        """Bring a turn's question and answer into the chain; returns the answer."""
        trigger = self._trigger_of(trace)
        if trigger == "action":
            return None
        if trigger == "regenerate-message":
            self._chain = self._chain.to_be_answered_again(_payload_text(self._records[trace.in_seq], "messageId"))
        for seq in (trace.in_seq, *self._marked(trace)):
            self._place(seq)
        answer = self._answer(trace)
        if answer is not None and trace.finish is None:
            answer = cleanup_aborted_parts(answer)
        if answer is None or not answer.parts:
            return None
        self._chain, _ = self._chain.upsert(answer)
        self._calls.record(answer)
        return answer

    def _trigger_of(self, trace: _Trace) -> str | None:
        record = self._records.get(trace.in_seq)
        return None if record is None else _trigger(record)

    def _answer(self, trace: _Trace) -> UIMessage | None:
        start = next((chunk for chunk in trace.chunks if isinstance(chunk, Start)), None)
        begun = None if start is None or start.message_id is None else self._chain.find(start.message_id)
        return reduce_segment(trace.chunks, begun)

    def _marked(self, trace: _Trace) -> list[int]:
        """Return the numbers of the messages that were injected into an answer."""
        answer = self._answer(trace)
        ids: set[str] = set() if answer is None else set(marked_ids(answer))
        return [seq for seq, user in self._waiting.items() if user.message.id in ids]

    def _place(self, seq: int) -> None:
        """Put a message behind the chain, or its tool answers into the message that asked."""
        user = self._waiting.pop(seq, None)
        if user is None:
            return
        position = self._place_of(user.message)
        if position is None:
            self._chain = self._chain.append(user.message)
        else:
            merged = merge_incoming_into_stored(self._chain[position], user.message)
            self._chain = self._chain.replace(position, merged)

    def _place_of(self, message: UIMessage) -> int | None:
        """Return where a message stands, or the one whose calls it answers."""
        position = self._chain.position(message.id)
        if position is None:
            owner = self._calls.owner_of(message)
            position = None if owner is None else self._chain.position(owner)
        return position

    def _place_committed(self, *, before: int | None, but: set[int]) -> None:
        """Place messages whose turns are over and have left no answer."""
        for seq in tuple(self._waiting):
            if seq in self._done and seq not in but and (before is None or seq < before):
                self._place(seq)

    def _in_flight(self, *, and_also: int | None = None) -> list[InFlightMessage]:
        return [user for seq, user in self._waiting.items() if seq not in self._done or seq == and_also]
