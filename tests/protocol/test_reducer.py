"""One reducer and one projection: however a log is cut, repeated or repaired, the thread is the same (rule BT-14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from chatagent.protocol import (
    StateChanged,
    ThreadModel,
    ThreadSnapshot,
    UnknownEvent,
    apply_event,
    event_to_wire,
    parse_thread_event,
    project,
)
from protocol.lives import play
from protocol.strategies import STEPS

if TYPE_CHECKING:
    from chatagent.protocol import ThreadEvent

LIVES = STEPS.map(play)
quick = settings(deadline=None, max_examples=40)


def reduced(events: list[ThreadEvent], model: ThreadModel | None = None) -> ThreadModel:
    model = model or ThreadModel("t-1")
    for event in events:
        model.apply(event)
    return model


@quick
@given(STEPS)
def test_the_log_reduces_to_what_is_stored_at_every_moment(steps: list[str]) -> None:
    events, snapshots = play(steps)

    model = ThreadModel("t-1")
    for event, stored in zip(events, snapshots, strict=True):
        model.apply(event)
        assert (model.snapshot() if model.exists else None) == stored


@quick
@given(STEPS, st.data())
def test_a_snapshot_taken_anywhere_goes_on_with_the_rest(steps: list[str], data: st.DataObject) -> None:
    events, snapshots = play(steps)
    if not events:
        return
    at = data.draw(st.integers(0, len(events) - 1))
    whole = reduced(events)

    model = ThreadModel("t-1")
    stored = snapshots[at]
    if stored is None:
        model.clear(events[at].seq)
    else:
        # As it comes over a wire.
        model.load(ThreadSnapshot.model_validate(stored.to_wire()))
    reduced(events[at + 1 :], model)

    assert model.state() == whole.state()


@quick
@given(STEPS)
def test_the_view_made_step_by_step_is_the_projection_of_the_snapshot(steps: list[str]) -> None:
    events, _ = play(steps)

    model = ThreadModel("t-1")
    for event in events:
        model.apply(event)
        if model.exists:
            assert model.state() == project(model.snapshot())


@quick
@given(STEPS)
def test_events_go_over_the_wire_and_back(steps: list[str]) -> None:
    events, _ = play(steps)

    back = [parse_thread_event(event_to_wire(event)) for event in events]

    assert [event_to_wire(event) for event in back] == [event_to_wire(event) for event in events]
    assert reduced(back).state() == reduced(events).state()


@quick
@given(STEPS)
def test_no_reserved_part_is_ever_shown(steps: list[str]) -> None:
    events, _ = play(steps)

    state = reduced(events).state()

    assert not any(part.type.startswith("data-chatagent-") for message in state.messages for part in message.parts)
    assert all("chatagent" not in message.metadata for message in state.messages)


@quick
@given(STEPS)
def test_at_most_one_run_is_active_and_the_status_says_so(steps: list[str]) -> None:
    events, _ = play(steps)

    model = ThreadModel("t-1")
    for event in events:
        model.apply(event)
        active = [run for run in model.runs.values() if run.status in ("running", "waiting")]
        assert len(active) <= 1
        state = model.state()
        assert state.thread.active_run_id == (active[0].run_id if active else None)
        assert [action.run_id for action in state.pending_actions] == [active[0].run_id for _ in state.pending_actions]


def test_apply_event_is_the_reducer_as_a_function() -> None:
    events, snapshots = play(["send", "wait", "submit"])

    for before, event, after in zip(snapshots, events[1:], snapshots[1:], strict=False):
        assert before is not None
        untouched = before.model_copy(deep=True)
        assert apply_event(before, event) == after
        assert before == untouched


def test_unknown_events_move_the_number_only() -> None:
    events, _ = play(["send"])
    model = reduced(events)
    before = model.state()

    model.apply(UnknownEvent(type="future.thing", seq=before.seq + 1))
    model.apply(StateChanged(seq=before.seq + 2))

    after = model.state()
    assert (after.messages, after.runs, after.thread) == (before.messages, before.runs, before.thread)
    assert after.seq == before.seq + 2
