"""Snapshots: what they share, their wire form, and what a store of them guarantees."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.errors import LeaseLostError, RecordTooLargeError, SnapshotCorruptError, SnapshotVersionError
from chatagent.session import (
    InMemorySessionStore,
    InMemorySnapshotStore,
    RunRequest,
    SessionSpec,
    Snapshot,
    SnapshotStore,
    decode_snapshot,
    encode_snapshot,
)
from chatagent.ui import TextUIPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Mapping

WIRE: dict[str, Any] = {
    "version": 1,
    "savedAt": 1700000000000,
    "messages": [
        {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]},
        {"id": "a1", "role": "assistant", "parts": [{"type": "step-start"}, {"type": "new-part", "x": None}], "new": 1},
    ],
    "lastOutEventId": "7",
    "lastInEventId": "2",
    "later": {"a": 1},
}


def message(id: str, text: str = "x") -> UIMessage:
    return UIMessage(id=id, role="user", parts=[TextUIPart(text=text)])


def snapshot(*messages: UIMessage, out: int | None = None) -> Snapshot:
    return Snapshot(saved_at=1, messages=messages, last_out_event_id=None if out is None else str(out))


def test_a_snapshot_shares_the_messages_it_is_given() -> None:
    history = [message("a"), message("b")]

    taken = snapshot(*history)
    history.append(message("c"))

    assert [id(each) for each in taken.messages] == [id(each) for each in history[:2]]
    with pytest.raises(Exception, match="frozen"):
        taken.saved_at = 2  # type: ignore[misc]


def test_a_wire_snapshot_comes_back_as_it_was() -> None:
    taken = decode_snapshot(WIRE, session_id="c")

    assert encode_snapshot(taken) == taken.to_wire() == WIRE
    assert (taken.saved_at, taken.out_cursor, taken.in_cursor) == (1700000000000, 7, 2)
    assert decode_snapshot(json.dumps(WIRE), session_id="c") == taken
    assert decode_snapshot(json.dumps(WIRE).encode(), session_id="c") == taken


def test_what_is_done_above_the_cursor_is_a_key_of_its_own_that_is_absent_if_nothing_is() -> None:
    wire = {**WIRE, "inEventIdsAhead": ["4", "7"]}

    taken = decode_snapshot(wire, session_id="c")

    assert taken.in_ahead == {4, 7}
    assert taken.to_wire() == wire
    assert decode_snapshot({**wire, "inEventIdsAhead": None}, session_id="c").to_wire() == WIRE
    assert decode_snapshot({**wire, "inEventIdsAhead": ["x", "7"]}, session_id="c").in_ahead == {7}
    with pytest.raises(SnapshotCorruptError, match="inEventIdsAhead"):
        decode_snapshot({**wire, "inEventIdsAhead": 7}, session_id="c")


def test_absent_cursors_stay_absent() -> None:
    wire = encode_snapshot(snapshot(message("a")))

    assert list(wire) == ["version", "savedAt", "messages"]
    assert decode_snapshot({**wire, "lastOutEventId": None}, session_id="c").last_out_event_id is None
    assert decode_snapshot({**wire, "lastOutEventId": "x7"}, session_id="c").out_cursor is None


@pytest.mark.parametrize("version", [2, 99, 0, "1", None, True])
def test_another_version_is_refused_by_name(version: object) -> None:
    with pytest.raises(SnapshotVersionError) as caught:
        decode_snapshot({**WIRE, "version": version, "messages": "whatever"}, session_id="c")

    assert (caught.value.session_id, caught.value.found, caught.value.supported) == ("c", version, 1)


@pytest.mark.parametrize(
    ("stored", "field"),
    [
        ("{", "snapshot"),
        (b"\xff", "snapshot"),
        ("NaN", "snapshot"),
        ([], "snapshot"),
        (None, "snapshot"),
        ({}, "version"),
        ({"version": 1, "messages": []}, "savedAt"),
        ({"version": 1, "savedAt": "x", "messages": []}, "savedAt"),
        ({"version": 1, "savedAt": 1}, "messages"),
        ({"version": 1, "savedAt": 1, "messages": {}}, "messages"),
        ({"version": 1, "savedAt": 1, "messages": [{"id": "a", "role": "user"}]}, "messages[0].parts"),
        (
            {"version": 1, "savedAt": 1, "messages": [{"id": "a", "role": "user", "parts": [{"type": "text"}]}]},
            "messages[0].parts[0].text",
        ),
        ({"version": 1, "savedAt": 1, "messages": [], "lastOutEventId": 7}, "lastOutEventId"),
    ],
)
def test_what_does_not_decode_is_refused_by_the_field(stored: object, field: str) -> None:
    with pytest.raises(SnapshotCorruptError) as caught:
        decode_snapshot(stored, session_id="c")

    assert caught.value.field == field


# --- the store ---


@pytest.mark.anyio
async def test_a_snapshot_is_what_was_saved_last() -> None:
    store: SnapshotStore = InMemorySnapshotStore()
    first, second = snapshot(message("a"), out=3), snapshot(message("a"), message("b"), out=5)

    missing = await store.load("c")
    await store.save("c", first, epoch=1)
    await store.save("c", second, epoch=1)
    other = await store.load("d")
    found = await store.load("c")
    await store.delete("c")
    await store.delete("c")

    assert missing is None
    assert other is None
    assert found is second
    assert await store.load("c") is None


@pytest.mark.anyio
async def test_what_was_given_to_save_may_change_afterwards() -> None:
    store = InMemorySnapshotStore()
    history = [message("a")]
    await store.save("c", Snapshot(saved_at=1, messages=history), epoch=1)

    history.clear()
    loaded = await store.load("c")

    assert loaded is not None
    assert [each.id for each in loaded.messages] == ["a"]


@pytest.mark.anyio
async def test_an_older_snapshot_never_replaces_a_newer_one() -> None:
    store = InMemorySnapshotStore()
    kept = snapshot(message("a"), out=10)
    await store.save("c", kept, epoch=2)

    for epoch, out in ((1, 99), (2, 9), (2, None)):
        with pytest.raises(LeaseLostError):
            await store.save("c", snapshot(message("b"), out=out), epoch=epoch)
        assert await store.load("c") is kept
    equal = snapshot(message("c"), out=10)
    await store.save("c", equal, epoch=2)
    later = snapshot(message("d"))
    await store.save("c", later, epoch=3)

    assert await store.load("c") is later


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(0, 3)), max_size=12))
@pytest.mark.anyio
async def test_the_kept_pair_never_falls_whatever_the_order_of_saves(saves: list[tuple[int, int | None]]) -> None:
    store = InMemorySnapshotStore()
    highest: tuple[int, int] | None = None

    for epoch, out in saves:
        pair = (epoch, -1 if out is None else out)
        taken = snapshot(out=out)
        if highest is None or pair >= highest:
            await store.save("c", taken, epoch=epoch)
            highest = pair
            assert store.peek("c") is taken
        else:
            with pytest.raises(LeaseLostError):
                await store.save("c", taken, epoch=epoch)


@pytest.mark.anyio
async def test_a_snapshot_of_16_mib_is_kept_and_a_larger_one_refused() -> None:
    store = InMemorySnapshotStore()
    blocks = [message(str(each), "é" * (1 << 19)) for each in range(15)]
    kept = snapshot(*blocks)
    await store.save("c", kept, epoch=1)

    with pytest.raises(RecordTooLargeError) as caught:
        await store.save("c", snapshot(*blocks, message("x", "x" * (1 << 20))), epoch=1)
    assert (caught.value.field, caught.value.limit) == ("snapshot", 16 << 20)
    assert await store.load("c") is kept
    more = snapshot(*blocks, message("x", "x" * 1_000_000))
    await store.save("c", more, epoch=1)

    assert await store.load("c") is more


@pytest.mark.anyio
async def test_only_the_run_that_may_write_saves_where_the_sessions_are_known() -> None:
    async with InMemorySessionStore() as sessions:
        store = InMemorySnapshotStore(sessions=sessions)
        await sessions.create_session(SessionSpec(session_id="c", task="agent"), run=RunRequest("initial"))
        await store.save("c", snapshot(message("a")), epoch=1)
        kept = await store.load("c")
        sessions.revoke("c")

        with pytest.raises(LeaseLostError):
            await store.save("c", snapshot(message("b")), epoch=1)
        await store.save("unknown", snapshot(message("b")), epoch=1)

        assert await store.load("c") is kept


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("stored", "error"), [({"version": 2}, SnapshotVersionError), (b"\x00", SnapshotCorruptError), (WIRE, None)]
)
async def test_a_seeded_snapshot_goes_through_the_decoder_and_is_not_overwritten_by_reading(
    stored: Mapping[str, object] | bytes, error: type[Exception] | None
) -> None:
    store = InMemorySnapshotStore()
    store.seed("c", stored)

    for _ in range(2):
        if error is None:
            assert await store.load("c") == decode_snapshot(WIRE, session_id="c")
        else:
            with pytest.raises(error):
                await store.load("c")
    store.seed("c", None)

    assert await store.load("c") is None
