"""A thread as a backend keeps it, without any mock: what a service drives."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

import pytest

from chatagent.errors import UIMessageStreamError
from chatagent.protocol import (
    ActionNotPendingError,
    BackendSetting,
    BackendThread,
    RunNotFoundError,
    RunReceipt,
    SuspensionMark,
    ThreadHeadChanged,
    ThreadHeadRemoved,
    ThreadModel,
    suspension_chunk,
)
from chatagent.ui import Finish, Start, TextDelta, TextStart, TextUIPart, ToolInputAvailable, UIMessage
from chatagent_test import VirtualClock

HEADS = list["ThreadHeadChanged | ThreadHeadRemoved"]


def make_thread() -> tuple[BackendThread, HEADS]:
    clock, numbers, heads = VirtualClock(), count(1), HEADS()
    setting = BackendSetting(
        clock=clock,
        now=lambda _: datetime.fromtimestamp(clock.now(), UTC),
        new_id=lambda kind: f"{kind}-{next(numbers)}",
        head_event=heads.append,
    )
    return BackendThread("t-1", setting), heads


def user(text: str, message_id: str = "m-1") -> UIMessage:
    return UIMessage(id=message_id, role="user", parts=[TextUIPart(text=text)])


def log_types(thread: BackendThread) -> list[str]:
    return [event.type for event in thread.log.events()]


def test_a_run_is_admitted_written_and_completed() -> None:
    thread, heads = make_thread()

    run, seq = thread.admit(initiator="send", metadata={}, message=user("hi"))
    thread.chunk(run.run_id, "m-2", Start("m-2"))
    thread.chunk(run.run_id, "m-2", TextStart("t"))
    thread.chunk(run.run_id, "m-2", TextDelta("t", "hello"))
    thread.chunk(run.run_id, "m-2", Finish("stop"))
    done = thread.complete(run.run_id)

    assert (seq, done.status) == (2, "completed")
    assert [message.text for message in thread.model.messages()] == ["hi", "hello"]
    assert [head.reason for head in heads if isinstance(head, ThreadHeadChanged)] == ["created", "status", "status"]
    follower = ThreadModel("t-1")
    for event in thread.log.events():
        follower.apply(event)
    assert follower.snapshot() == thread.model.snapshot()


def test_a_queued_run_starts_when_its_turn_comes() -> None:
    thread, _ = make_thread()
    first, _ = thread.admit(initiator="send", metadata={}, message=user("one"))
    second, _ = thread.admit(initiator="send", metadata={}, message=user("two", "m-2"))

    too_early = thread.start_next()
    thread.fail(first.run_id, "boom")
    started = thread.start_next()

    assert (second.status, too_early) == ("queued", None)
    assert started is not None
    assert (started.run_id, thread.model.error) == (second.run_id, None)
    with pytest.raises(RunNotFoundError):
        thread.complete(first.run_id)


def test_a_call_that_waits_is_answered_once() -> None:
    thread, _ = make_thread()
    run, _ = thread.admit(initiator="send", metadata={}, message=user("hi"))
    thread.chunk(run.run_id, "m-2", Start("m-2"))
    thread.chunk(run.run_id, "m-2", ToolInputAvailable("c", "pick", {}))
    thread.chunk(run.run_id, "m-2", suspension_chunk(SuspensionMark("a", "c", "pick", "pick.output", None, {})))

    waiting = thread.complete(run.run_id)
    resumed, _ = thread.resolve("a", "a file")

    assert waiting.status == "waiting"
    assert resumed is not None
    assert (resumed.run_id, thread.operation(run.run_id)) == (run.run_id, "resume")
    with pytest.raises(ActionNotPendingError, match=r"resolved"):
        thread.resolve("a", "another")


def test_a_chunk_that_does_not_fit_changes_nothing() -> None:
    thread, _ = make_thread()
    run, _ = thread.admit(initiator="send", metadata={}, message=user("hi"))
    before, logged = thread.model.snapshot(), log_types(thread)

    with pytest.raises(UIMessageStreamError):
        thread.chunk(run.run_id, "m-2", TextDelta("t", "lost"))

    assert (thread.model.snapshot(), log_types(thread)) == (before, logged)


def test_numbers_go_on_past_a_deletion_and_a_load() -> None:
    thread, heads = make_thread()
    thread.admit(initiator="send", metadata={}, message=user("hi"))
    snapshot = thread.model.snapshot()
    thread.delete()
    deleted_at = thread.model.seq
    thread.load(snapshot)

    assert deleted_at == 4
    assert thread.model.snapshot().seq == 5
    assert isinstance(heads[-1], ThreadHeadRemoved)
    assert thread.log.events() == ()


def test_a_deletion_empties_the_log_and_forgets_requests() -> None:
    """EV-32, TP-22: what comes under the id later is another thread's."""
    thread, _ = make_thread()
    run, seq = thread.admit(initiator="send", metadata={}, message=user("hi"))
    thread.remember("once", RunReceipt(thread_id="t-1", run_id=run.run_id, seq=seq))

    thread.delete()

    assert thread.log.events() == ()
    assert "once" not in thread.receipts
    gap = thread.log.watch(0).receive_nowait()
    assert gap is not None
    assert (gap.type, gap.seq) == ("state.changed", thread.model.seq)
