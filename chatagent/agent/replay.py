"""Reading a session's past from its records: answers from `.out`, unanswered messages and the cursor from both logs.

Plain reads that never wait, and plain functions over what they gave (rules B-20 to B-33).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from chatagent.agent.cleanup import cleanup_aborted_parts
from chatagent.agent.wire import input_of
from chatagent.errors import ChunkError, InvalidMessageError, UIMessageStreamError
from chatagent.session.records import (
    RUN_BOOT_ID,
    SESSION_IN_EVENT_ID,
    SESSION_IN_EVENT_IDS_AHEAD,
    TURN_COMPLETE,
    TURN_IN_EVENT_ID,
    Record,
    control_type,
    header,
    is_command,
)
from chatagent.ui import Chunk, Error, Finish, MessageReducer, Start, UIMessage, parse_chunk, parse_ui_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from chatagent.ids import IdGenerator
    from chatagent.session.records import Direction
    from chatagent.session.store import SessionStore

__all__ = [
    "InFlightMessage",
    "ReplayedAnswers",
    "chunk_of",
    "committed_cursor",
    "done_ahead",
    "in_flight_messages",
    "read_all",
    "reduce_segment",
    "replay_answers",
    "turn_records",
]

logger = logging.getLogger("chatagent")


@dataclass(frozen=True, slots=True)
class InFlightMessage:
    """A user's message on `.in` that no turn has answered (B-32)."""

    message: UIMessage
    metadata: Any
    """The record's own client data."""
    seq: int


@dataclass(frozen=True, slots=True)
class ReplayedAnswers:
    """What the chunks on `.out` reduce to (B-24)."""

    settled: tuple[UIMessage, ...] = ()
    partial: UIMessage | None = None
    """The answer that was never finished, cleaned; `None` if nothing is left of it."""
    partial_raw: UIMessage | None = None
    """The same as it was streamed (G-34)."""


async def read_all(
    store: SessionStore, session_id: str, direction: Direction, *, after: int | None = None
) -> list[Record]:
    """Return every record of a log after a number, without waiting for more."""
    records: list[Record] = []
    while True:
        page = await store.read(session_id, direction, after=after)
        if not page.records:
            return records
        records += page.records
        after = page.records[-1].seq


def turn_records(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records of `.out` that belong to turns, without what runs have written before their first one."""
    at_boot = False
    for record in records:
        if record.headers:
            at_boot = header(record, RUN_BOOT_ID) is not None or (
                at_boot and header(record, TURN_IN_EVENT_ID) is None and control_type(record) is None
            )
        elif at_boot and type(chunk_of(record)) is Start:
            at_boot = False
        if not at_boot:
            yield record


def replay_answers(records: Iterable[Record]) -> ReplayedAnswers:
    """Reduce the chunks on `.out` to messages: finished ones, and the last if it was never finished."""
    segments = _segments(_chunks(records))
    settled: list[UIMessage] = []
    for position, segment in enumerate(segments):
        message = reduce_segment(segment)
        if message is None:
            continue
        closed = any(type(chunk) is Finish for chunk in segment)
        if position == len(segments) - 1 and not closed:
            cleaned = cleanup_aborted_parts(message)
            return ReplayedAnswers(tuple(settled), cleaned if cleaned.parts else None, message)
        settled.append(message)
    return ReplayedAnswers(tuple(settled))


def _chunks(records: Iterable[Record]) -> Iterable[Chunk]:
    for record in turn_records(records):
        if not is_command(record) and control_type(record) is None:
            chunk = chunk_of(record)
            if chunk is not None:
                yield chunk


def chunk_of(record: Record) -> Chunk | None:
    """Return the chunk of a data record; `None` for data that is none (B-21); a malformed one ends its reading."""
    data = record.data
    if isinstance(data, dict):
        kind = cast("dict[str, Any]", data).get("type")
        if not isinstance(kind, str) or kind.startswith("trigger:"):
            return None
        try:
            data = parse_chunk(cast("dict[str, Any]", data), allow_unknown=True)
        except ChunkError:
            data = _MALFORMED
    return cast("Chunk", data) if hasattr(data, "type") else None


class _Malformed:
    """Stands where a chunk could not be read: the reading of its segment ends there (B-23)."""

    type = "malformed"


_MALFORMED = _Malformed()


def _segments(chunks: Iterable[Chunk]) -> list[list[Chunk]]:
    segments: list[list[Chunk]] = []
    is_open = False
    for chunk in chunks:
        if type(chunk) is Start or not is_open:
            segments.append([])
            is_open = True
        segments[-1].append(chunk)
        if type(chunk) is Finish:
            is_open = False
    return segments


def reduce_segment(segment: Sequence[Chunk], begun: UIMessage | None = None) -> UIMessage | None:
    """Return the last state of a segment; error chunks are skipped, a malformed chunk ends the reading (G-55).

    Args:
        segment: the chunks.
        begun: the message that they continue.
    """
    reducer = MessageReducer(begun)
    for chunk in segment:
        if type(chunk) is Error:
            continue
        if isinstance(chunk, _Malformed):
            break
        try:
            reducer.feed(chunk)
        except UIMessageStreamError as exc:
            logger.warning("a malformed chunk ends the replay of an answer: %s", exc)
            break
    return reducer.last_state


def in_flight_messages(records: Iterable[Record], *, new_id: IdGenerator) -> list[InFlightMessage]:
    """Return the user messages among records of `.in`, in order (B-30 to B-32)."""
    found: list[InFlightMessage] = []
    for record in records:
        payload = _submitted(input_of(record))
        if payload is None:
            continue
        try:
            message = parse_ui_message(payload["message"], generate_id=new_id)
        except InvalidMessageError as exc:
            logger.warning("record %s of `.in` carries no message that can be read: %s", record.seq, exc)
            continue
        found.append(InFlightMessage(message, payload.get("metadata"), record.seq))
    return found


def _submitted(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if data.get("kind") != "message":
        return None
    payload = data.get("payload")
    if not isinstance(payload, dict):
        return None
    payload = cast("dict[str, Any]", payload)
    is_submit = payload.get("trigger") == "submit-message" and isinstance(payload.get("message"), dict)
    return payload if is_submit else None


def committed_cursor(records: Iterable[Record]) -> int | None:
    """Return the committed cursor of `.in` that the last turn-complete with one tells (B-33)."""
    cursor: int | None = None
    for record in records:
        if control_type(record) == TURN_COMPLETE:
            value = header(record, SESSION_IN_EVENT_ID)
            if value is not None and value.isdecimal():
                cursor = int(value)
    return cursor


def done_ahead(records: Iterable[Record]) -> set[int]:
    """Return the records of `.in` that turn-completes tell to be done with besides those up to their cursor (G-26)."""
    return {
        int(number)
        for record in records
        if control_type(record) == TURN_COMPLETE
        for number in (header(record, SESSION_IN_EVENT_IDS_AHEAD) or "").split(",")
        if number.isascii() and number.isdecimal()
    }
