"""Logs and cursors: every event once and in order, or one event that says that some are gone."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatagent.protocol import EventLog

ACTIONS = st.lists(st.sampled_from(["append", "append", "append", "read", "forget", "open"]), max_size=60)


@dataclass
class Numbered:
    seq: int
    is_gap: bool = False


def make_log(size: int) -> EventLog[Numbered]:
    return EventLog(size, lambda seq: Numbered(seq, is_gap=True))


@settings(deadline=None)
@given(ACTIONS, st.integers(1, 8))
def test_a_cursor_misses_nothing_without_saying_so(actions: list[str], size: int) -> None:
    log = make_log(size)
    cursors = [(log.watch(0), 0)]
    seq = 0

    def read() -> None:
        for index, (cursor, last) in enumerate(cursors):
            while (event := cursor.receive_nowait()) is not None:
                assert event.is_gap or event.seq == last + 1
                assert event.seq >= last
                last = event.seq
            assert last == seq
            cursors[index] = (cursor, last)

    for action in actions:
        if action == "append":
            seq += 1
            log.append(Numbered(seq))
        elif action == "forget":
            log.forget()
        elif action == "open":
            cursors.append((log.watch(0), 0))
        else:
            read()
    read()
    assert len(log.events()) <= size


def test_a_reader_that_keeps_up_never_meets_a_gap() -> None:
    log = make_log(3)
    cursor = log.watch(None)
    found: list[Numbered] = []
    for seq in range(1, 50):
        log.append(Numbered(seq))
        event = cursor.receive_nowait()
        assert event is not None
        found.append(event)

    assert found == [Numbered(seq) for seq in range(1, 50)]


def test_a_finished_log_gives_what_is_left_and_then_its_end() -> None:
    log = make_log(10)
    early, late = log.watch(None), log.watch(None)
    log.append(Numbered(1))
    early.receive_nowait()
    log.finish()
    log.forget()

    assert late.receive_nowait() == Numbered(1)
    for cursor in (early, late):
        with pytest.raises(anyio.EndOfStream):
            cursor.receive_nowait()
    assert log.watchers == 0


@pytest.mark.anyio
async def test_a_cancelled_read_loses_no_event() -> None:
    log = make_log(10)
    cursor = log.watch(None)

    with anyio.move_on_after(0):
        await anext(cursor)
    log.append(Numbered(1))

    assert await anext(cursor) == Numbered(1)
