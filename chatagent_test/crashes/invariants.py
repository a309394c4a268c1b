"""What must hold at the end of every conversation, wherever its runs have died."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chatagent.agent.injected import marked_in
from chatagent.errors import UIMessageStreamError
from chatagent.session import TURN_COMPLETE, TURN_IN_EVENT_ID, control_type, header
from chatagent.ui import Finish, MessageReducer, Start, ToolOutputAvailable, ToolPart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chatagent.session import Record
    from chatagent.ui import Chunk, UIMessage

__all__ = ["Outcome", "violations_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one conversation has ended."""

    sent: Mapping[int, UIMessage]
    """The user messages, by the number of their record on `.in`."""
    stopped: frozenset[str]
    answered_calls: frozenset[str] = frozenset()
    """The tool calls whose outcome the client has sent, which no stream need show."""
    last_rewrite: int
    records: Sequence[Record]
    """Every record of `.out`."""
    messages: Sequence[UIMessage]
    """The conversation as the last run had it."""
    reread: Sequence[UIMessage] | str
    """The conversation as one more run has read it from the store, or how that run has failed."""
    failed: Sequence[str] = ()
    """The errors of failed turns."""
    is_kept_by_agent: bool = False
    """Whether the agent keeps the history itself (`hydrate_messages`): what was cut off may be missing in it."""


def violations_of(outcome: Outcome, reference: Outcome) -> Iterator[tuple[str, str]]:
    """Yield the name of each broken rule, and what breaks it.

    Args:
        outcome: the conversation to be judged.
        reference: the same conversation without a crash; what is missing there may be missing here.
    """
    yield from _messages(outcome, reference)
    yield from _answers(outcome, reference)
    yield from _finished_twice(outcome)
    yield from _tools(outcome)
    yield from _client_view(outcome)
    yield from _failed(outcome, () if outcome is reference else reference.failed)
    if isinstance(outcome.reread, str):
        yield "failed", f"a further run fails with {outcome.reread}"
    elif not outcome.is_kept_by_agent and _told(outcome.messages) != _told(outcome.reread):
        yield "history not loadable", f"a further run reads {_told(outcome.reread)}, not {_told(outcome.messages)}"


def _failed(outcome: Outcome, known: Sequence[str]) -> Iterator[tuple[str, str]]:
    """No turn fails that does not fail without a crash, and none does without one."""
    for error in (Counter(outcome.failed) - Counter(known)).elements():
        yield "failed", f"a turn failed with {error}"


def _messages(outcome: Outcome, reference: Outcome) -> Iterator[tuple[str, str]]:
    """No user message is lost, none is there twice, and their order stays."""
    wanted = [message.id for message in reference.messages if message.role == "user"]
    found = [message.id for message in outcome.messages if message.role == "user"]
    for lost in [each for each in wanted if each not in found]:
        yield "lost message", f"{lost} is not in the history: {_told(outcome.messages)}"
    for twice in [each for each, count in Counter(found).items() if count > 1]:
        yield "doubled message", f"{twice} stands in the history more than once"
    if sorted(found) == sorted(wanted) and found != wanted:
        yield "order", f"the history has {found} instead of {wanted}"


def _answers(outcome: Outcome, reference: Outcome) -> Iterator[tuple[str, str]]:
    """Each message is answered once where it is answered once without a crash."""
    wanted, found = _answer_counts(reference.messages), _answer_counts(outcome.messages)
    for each in [each for each in wanted if each in found]:
        if found[each] > max(wanted[each], 1):
            yield "answered twice", f"{found[each]} answers follow {each}: {_told(outcome.messages)}"
        elif not found[each] and wanted[each] and each not in outcome.stopped:
            yield "not answered", f"no answer follows {each}: {_told(outcome.messages)}"


def _answer_counts(messages: Sequence[UIMessage]) -> dict[str, int]:
    counts: dict[str, int] = {}
    question: str | None = None
    for message in messages:
        if message.role == "user":
            question = message.id
            counts[question] = 0
        elif message.role == "assistant" and question is not None:
            counts[question] += 1
    return counts


def _finished_twice(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """No message has two answers that came to their end; one that was injected into an answer has that one."""
    finished = [(answer.in_seq, marked_in(answer.chunks)) for answer in _streams(outcome.records) if answer.is_finished]
    for seq, message in outcome.sent.items():
        count = sum(in_seq == seq or message.id in injected for in_seq, injected in finished)
        if count > 1:
            yield "answered twice", f"{count} finished answers to {message.id} were streamed"


def _tools(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """No tool call that has a result is run again, unless the answer was cut off and nobody keeps such answers."""
    results = Counter(
        chunk.tool_call_id
        for answer in _streams(outcome.records)
        if not outcome.is_kept_by_agent or answer.is_finished or answer.is_closed
        for chunk in answer.chunks
        if isinstance(chunk, ToolOutputAvailable) and not chunk.preliminary
    )
    for call, count in results.items():
        if count > 1:
            yield "tool run again", f"the call {call} has {count} results"


def _client_view(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """The history tells what the client saw."""
    shown: dict[str, tuple[int | None, UIMessage]] = {}
    for answer in _streams(outcome.records):
        start = next((chunk for chunk in answer.chunks if isinstance(chunk, Start)), None)
        before = shown.get(start.message_id or "") if start is not None else None
        reducer = MessageReducer(None if before is None else before[1])
        try:
            for chunk in answer.chunks:
                reducer.feed(chunk)
        except UIMessageStreamError as error:
            yield "malformed stream", str(error)
            continue
        message = reducer.message
        if message.id and (answer.is_finished or answer.is_closed or not outcome.is_kept_by_agent):
            shown[message.id] = (answer.in_seq, message)
    kept = {message.id: message for message in outcome.messages}
    for each, (seq, message) in shown.items():
        if each in kept:
            found, seen = (_content(one, but=outcome.answered_calls) for one in (kept[each], message))
            if found != seen:
                yield "history differs", f"{each} is {found}, the client saw {seen}"
        elif message.text and seq is not None and seq > outcome.last_rewrite:
            yield "lost answer", f"the client saw {message.text!r}, the history does not have {each}"


@dataclass(slots=True)
class _Stream:
    in_seq: int | None
    chunks: list[Chunk]
    is_closed: bool = False
    """Whether its turn-complete has come."""

    @property
    def is_finished(self) -> bool:
        """Whether it has come to its end."""
        return any(isinstance(chunk, Finish) for chunk in self.chunks)


def _streams(records: Sequence[Record]) -> list[_Stream]:
    """Return what was streamed, cut at each start of an answer and at each control record."""
    streams: list[_Stream] = []
    in_seq: int | None = None
    is_open = False
    for record in records:
        number = header(record, TURN_IN_EVENT_ID)
        in_seq = int(number) if number is not None else in_seq
        chunk = record.data
        if chunk is None:
            if is_open and control_type(record) == TURN_COMPLETE:
                streams[-1].is_closed = True
            is_open = False
            continue
        if isinstance(chunk, Start) or not is_open:
            streams.append(_Stream(in_seq, []))
            is_open = True
        streams[-1].chunks.append(chunk)  # pyright: ignore[reportArgumentType] - `.out` holds chunks
    return streams


def _content(message: UIMessage, *, but: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """Return what a reader of a message would miss: its text, and the calls that have a result."""
    calls = [part for part in message.parts if isinstance(part, ToolPart) and part.state == "output-available"]
    return message.text, tuple(part.tool_call_id for part in calls if part.tool_call_id not in but)


def _told(messages: Sequence[UIMessage]) -> list[str]:
    return [f"{message.id}: {message.text}" for message in messages]
