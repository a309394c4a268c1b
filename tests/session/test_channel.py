"""How an end of a channel hands records out: the dispatch rules C-20 to C-36, C-40 to C-42, G-26 and G-27."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from chatagent.errors import InputStreamTimeoutError, WaitpointTimeoutError
from chatagent.session import (
    NewRecord,
    Record,
    RunRequest,
    Worker,
    control_record,
    trim_record,
)
from chatagent.session.channel import Channel, InputProgress, Subscription, WaitResult
from session.channel_wiring import Handler, is_message, kind_of, seq_of, wired

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.tasks import OwnedTask


# --- handlers (C-30, C-31, C-33, C-34, C-39) ---


@pytest.mark.anyio
async def test_a_handler_sees_records_until_it_is_off() -> None:
    async with wired() as it:
        handler = Handler("message")
        subscription = it.channel.on(handler)
        await it.deliver("message", "message")

        subscription.off()
        subscription.off()
        await it.deliver("message")

        assert handler.seen == [0, 1]
        assert it.cursors == (2, 1)


@pytest.mark.anyio
async def test_the_same_handler_may_listen_twice_and_each_place_is_its_own() -> None:
    async with wired() as it:
        handler = Handler()
        first = it.channel.on(handler)
        it.channel.on(handler)

        first.off()
        first.off()
        await it.deliver("message")

        assert handler.seen == [0]


@pytest.mark.anyio
async def test_a_record_that_no_handler_consumes_is_buffered() -> None:
    async with wired() as it:
        handler = Handler("stop")
        it.channel.on(handler)

        await it.deliver("message", "stop", "message")

        assert handler.seen == [0, 1, 2]
        peeked = it.channel.peek()
        assert peeked is not None
        assert peeked.seq == 0
        assert it.cursors == (2, 1)


@pytest.mark.anyio
async def test_all_handlers_see_a_record_even_if_the_first_consumes_it() -> None:
    async with wired() as it:
        greedy, other = Handler("message"), Handler()
        it.channel.on(greedy)
        it.channel.on(other)

        await it.deliver("message")

        assert (greedy.seen, other.seen) == ([0], [0])
        assert it.channel.peek() is None


@pytest.mark.anyio
@pytest.mark.parametrize("verdict", [None, 1, "yes", False])
async def test_only_true_itself_consumes_a_record(verdict: object) -> None:
    async with wired() as it:
        it.channel.on(lambda record: verdict)

        await it.deliver("message")

        assert it.channel.peek() is not None
        assert it.cursors == (0, None)


@pytest.mark.anyio
async def test_an_async_handler_runs_and_consumes_nothing() -> None:
    async with wired() as it:
        seen: list[int] = []

        async def handler(record: Record) -> bool:
            await checkpoint()
            seen.append(record.seq)
            return True

        it.channel.on(handler)
        await it.deliver("message", "message")

        assert sorted(seen) == [0, 1]
        assert it.channel.peek() is not None


@pytest.mark.anyio
async def test_what_a_handler_has_consumed_is_not_offered_to_the_next() -> None:
    """C-34, F-3: each turn attaches a handler of its own, and must not meet what an earlier one has worked off."""
    async with wired() as it:
        first, second = Handler("message"), Handler("message")
        subscription = it.channel.on(first)
        await it.deliver("message", "stop")
        subscription.off()
        await it.deliver("message")

        it.channel.on(second)

        assert (first.seen, second.seen) == ([0, 1], [1, 2])


@pytest.mark.anyio
async def test_a_handler_that_another_attaches_is_shown_the_record_too() -> None:
    """F-13: it came too late for the round of handlers, and too early for the buffer."""
    async with wired() as it:
        late = Handler("message")
        attached: list[Subscription] = []

        def attaching(record: Record) -> None:
            if not attached:
                attached.append(it.channel.on(late))

        it.channel.on(attaching)
        await it.deliver("message", "message")

        assert late.seen == [0, 1]
        assert it.channel.peek() is None


@pytest.mark.anyio
async def test_a_wait_that_a_handler_sets_off_takes_the_record_that_the_handler_was_shown() -> None:
    """F-13: nobody waited when the record came, and the wait must not miss it."""
    async with wired() as it:
        waits: list[OwnedTask] = []
        it.channel.on(lambda record: waits.append(it.run.start(it.channel.once)))

        await it.deliver("message")

        assert [seq_of(await wait.wait()) for wait in waits] == [0]
        assert it.channel.peek() is None


@pytest.mark.anyio
async def test_a_handler_that_attaches_late_is_offered_what_is_buffered_in_order() -> None:
    """C-34, F-2."""
    async with wired() as it:
        first = Handler()
        it.channel.on(first)
        await it.deliver("message", "stop", "message", "stop")
        late = Handler("message")

        it.channel.on(late)

        assert late.seen == [0, 1, 2, 3]
        left = it.channel.peek()
        assert left is not None
        assert left.seq == 1
        assert it.cursors == (3, 2)


@pytest.mark.anyio
async def test_a_failing_handler_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with wired() as it:

        def fail(record: Record) -> None:
            raise ValueError("broken")

        async def fail_later(record: Record) -> None:
            raise ValueError("broken later")

        good = Handler("message")
        for handler in (fail, fail_later, good):
            it.channel.on(handler)
        with caplog.at_level(logging.ERROR, logger="chatagent"):
            await it.deliver("message", "message")

    assert good.seen == [0, 1]
    assert sorted(record.message for record in caplog.records) == [
        "a handler of `.in` failed on record 0",
        "a handler of `.in` failed on record 1",
        "an async handler of `.in` failed",
        "an async handler of `.in` failed",
    ]


# --- once, peek, wait (C-32, C-35, C-36, C-37) ---


@pytest.mark.anyio
async def test_once_takes_the_head_of_the_buffer_at_once() -> None:
    async with wired("message", "message") as it:
        it.channel.on(Handler())
        await it.run.settled()

        first = await it.channel.once(timeout=0.0)
        peeked = it.channel.peek()
        second = await it.channel.once()

        assert (first.ok, seq_of(first), first.error) == (True, 0, None)
        assert peeked is second.output
        assert it.channel.peek() is None
        assert it.cursors == (1, 1)


@pytest.mark.anyio
async def test_once_waits_for_the_next_record() -> None:
    async with wired() as it:
        task = await it.start(it.channel.once)
        waiting = [waiter.label for waiter in it.run.ledger.parked]

        it.send("message")
        result = await task.wait()

        assert "a record on .in" in waiting
        assert seq_of(result) == 0
        assert it.cursors == (0, 0)


@pytest.mark.anyio
async def test_a_new_record_goes_to_the_oldest_wait() -> None:
    async with wired() as it:
        tasks = [await it.start(it.channel.once) for _ in range(3)]

        await it.deliver("message", "message")

        assert [task.done for task in tasks] == [True, True, False]
        assert [seq_of(task.result) for task in tasks[:2]] == [0, 1]


@pytest.mark.anyio
async def test_handlers_see_a_copy_of_what_a_wait_takes_and_their_verdict_does_not_matter() -> None:
    async with wired() as it:
        greedy, indifferent = Handler("message"), Handler()
        it.channel.on(greedy)
        it.channel.on(indifferent)
        task = await it.start(it.channel.once)

        await it.deliver("message")

        assert seq_of(await task.wait()) == 0
        assert (greedy.seen, indifferent.seen) == ([0], [0])
        assert it.channel.peek() is None


@pytest.mark.anyio
async def test_once_gives_up_when_its_time_has_run_out() -> None:
    async with wired() as it:
        task = await it.start(lambda: it.channel.once(30.0))
        it.clock.advance(29.9)
        await it.run.settled()
        early = task.done

        it.clock.advance(0.1)
        result = await task.wait()
        await it.deliver("message")

        assert not early
        assert not result.ok
        assert isinstance(result.error, InputStreamTimeoutError)
        assert (result.error.session_id, result.error.timeout) == ("c", 30.0)
        buffered = it.channel.peek()
        assert buffered is not None, "a wait that has given up takes nothing"


@pytest.mark.anyio
async def test_waiting_for_no_time_gives_up_without_anybody_moving_the_clock() -> None:
    async with wired() as it:
        result = await (await it.start(lambda: it.channel.once(0.0))).wait()
        suspended = await (await it.start(lambda: it.channel.wait(0.0))).wait()

        assert isinstance(result.error, InputStreamTimeoutError)
        assert isinstance(suspended.error, WaitpointTimeoutError)


@pytest.mark.anyio
async def test_peeking_consumes_nothing() -> None:
    async with wired("stop", "message") as it:
        it.channel.on(Handler())
        await it.run.settled()

        peeked = [it.channel.peek(), it.channel.peek(), it.channel.peek(is_message)]

        assert [record and record.seq for record in peeked] == [0, 0, 1]
        assert it.channel.peek(lambda record: False) is None
        assert it.cursors == (1, None)


@pytest.mark.anyio
async def test_a_suspended_wait_consumes_the_next_record_once() -> None:
    """C-37, F-8."""
    async with wired() as it:
        task = await it.start(lambda: it.channel.wait(60.0))

        await it.deliver("message")
        later = await it.start(lambda: it.channel.once(1.0))

        assert seq_of(await task.wait()) == 0
        assert it.cursors == (0, 0)
        assert not later.done, "the record is not delivered again"


@pytest.mark.anyio
async def test_a_suspended_wait_has_an_error_of_its_own() -> None:
    async with wired() as it:
        task = await it.start(lambda: it.channel.wait(60.0))

        it.clock.advance(60.0)
        result = await task.wait()

        assert not result.ok
        assert isinstance(result.error, WaitpointTimeoutError)
        assert result.error.timeout == 60.0


@pytest.mark.anyio
async def test_a_record_that_comes_as_the_time_runs_out_is_not_lost() -> None:
    async with wired() as it:
        task = await it.start(lambda: it.channel.once(30.0))

        it.clock.advance(30.0)
        it.send("message")
        result = await task.wait()
        await it.run.settled()

        assert result.ok != (it.channel.peek() is not None), "either the wait has it, or the buffer"


# --- waits for one kind only (C-40 to C-42, G-27) ---


@pytest.mark.anyio
@pytest.mark.parametrize("form", ["once", "wait", "wait_with_idle_timeout"])
async def test_a_wait_for_one_kind_leaves_the_others_in_their_places(form: str) -> None:
    """G-27."""
    async with wired("stop", "handover") as it:
        waits: dict[str, Callable[[], Awaitable[WaitResult]]] = {
            "once": lambda: it.channel.once(matches=is_message),
            "wait": lambda: it.channel.wait(matches=is_message),
            "wait_with_idle_timeout": lambda: it.channel.wait_with_idle_timeout(30.0, 60.0, matches=is_message),
        }
        task = await it.start(waits[form])
        early = task.done

        await it.deliver("stop", "message", "handover")

        assert not early
        assert seq_of(await task.wait()) == 3
        assert it.cursors == (4, 3)
        left = [seq_of(await it.channel.once(0.0)) for _ in range(4)]
        assert left == [0, 1, 2, 4]


@pytest.mark.anyio
async def test_a_record_passes_the_waits_that_do_not_want_it() -> None:
    async with wired() as it:
        wants_message = await it.start(lambda: it.channel.once(matches=is_message))
        wants_any = await it.start(it.channel.once)

        await it.deliver("stop")

        assert not wants_message.done
        assert seq_of(await wants_any.wait()) == 0


@pytest.mark.anyio
async def test_a_record_that_no_wait_wants_goes_to_the_handlers() -> None:
    async with wired() as it:
        stops = Handler("stop")
        it.channel.on(stops)
        task = await it.start(lambda: it.channel.once(matches=is_message))

        await it.deliver("stop", "handover")

        assert not task.done
        assert stops.seen == [0, 1]
        left = it.channel.peek()
        assert left is not None
        assert left.seq == 1


@pytest.mark.anyio
async def test_a_user_message_that_comes_during_a_handover_wait_is_there_afterwards() -> None:
    async with wired() as it:
        task = await it.start(lambda: it.channel.once(matches=lambda record: kind_of(record) == "handover"))

        await it.deliver("message", "handover")
        message = await it.channel.once(0.0, matches=is_message)

        assert seq_of(await task.wait()) == 1
        assert seq_of(message) == 0


@pytest.mark.anyio
async def test_the_idle_window_is_measured_from_the_start_of_the_wait() -> None:
    """G-27."""
    async with wired() as it:
        task = await it.start(
            lambda: it.channel.wait_with_idle_timeout(30.0, 60.0, skip_suspend=True, matches=is_message)
        )
        for _ in range(2):
            it.clock.advance(14.0)
            await it.deliver("stop")
        before_its_end = task.done

        it.clock.advance(2.0)
        result = await task.wait()

        assert not before_its_end
        assert isinstance(result.error, InputStreamTimeoutError)
        assert result.error.timeout == 30.0


# --- data as text (C-23) ---


@pytest.mark.anyio
async def test_data_that_is_json_text_is_read_as_the_object_it_holds() -> None:
    async with wired() as it:
        task = await it.start(lambda: it.channel.once(matches=is_message))

        await it.store.append("c", "in", [NewRecord(json.dumps({"kind": "message"}), id="part")])
        result = await task.wait()

        assert result.output is not None
        assert (result.output.data, result.output.seq, result.output.id) == ({"kind": "message"}, 0, "part")


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["", "{", "7", '"text"', "null", "[" * 100_000])
async def test_text_that_holds_no_object_is_passed_on_as_it_is(text: str) -> None:
    async with wired() as it:
        task = await it.start(it.channel.once)

        await it.store.append("c", "in", [NewRecord(text)])
        result = await task.wait()

        assert result.output is not None
        assert result.output.data == text


# --- the other direction ---


@pytest.mark.anyio
async def test_on_out_commands_are_passed_by_and_data_stays_as_it_is() -> None:
    async with wired() as it:
        await it.store.ensure_run("c", RunRequest("initial"))
        [lease] = await it.store.claim_runs(Worker("w", ["agent"]), limit=1)
        out = Channel("c", "out", store=it.store, clock=it.clock, tasks=it.run.tasks, epoch=lease.epoch)
        seen: list[Record] = []
        out.on(seen.append)

        await out.append('{"type": "start"}')
        await it.store.append("c", "out", [trim_record(before=0)], epoch=lease.epoch)
        await it.store.append("c", "out", [control_record("turn-complete")], epoch=lease.epoch)
        await it.run.settled()

        assert [(record.seq, record.data) for record in seen] == [(0, '{"type": "start"}'), (2, None)]
        assert out.last_seq_num == 2


# --- cursors (C-20 to C-22, R-5, G-26) ---


@pytest.mark.anyio
async def test_numbers_are_received_and_consumed() -> None:
    async with wired() as it:
        assert it.cursors == (None, None)
        handler = Handler("stop")
        it.channel.on(handler)

        await it.deliver("message", "stop", "message")
        received = it.cursors
        await it.channel.once()
        below = it.cursors
        await it.channel.once()

        assert received == (2, 1)
        assert below == (2, 1), "the consumed cursor only moves forward"
        assert it.cursors == (2, 2)


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["start_after", "skip_to"])
async def test_what_is_at_or_below_a_cursor_is_not_delivered(method: str) -> None:
    async with wired("message", "message", "message") as it:
        getattr(it.channel, method)(1)
        handler = Handler("message")
        it.channel.on(handler)
        await it.run.settled()

        assert handler.seen == [2]
        assert it.cursors == (2, 2)
        assert it.channel.progress.committed == (1 if method == "start_after" else -1)


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["start_after", "skip_to"])
async def test_what_is_buffered_below_a_cursor_is_dropped(method: str) -> None:
    async with wired("message", "message", "message") as it:
        it.channel.on(Handler())
        await it.run.settled()

        getattr(it.channel, method)(1)
        left = it.channel.peek()

        assert left is not None
        assert left.seq == 2
        assert it.cursors == (2, 1)


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["start_after", "skip_to"])
async def test_a_cursor_never_moves_back(method: str) -> None:
    async with wired() as it:
        getattr(it.channel, method)(5)
        getattr(it.channel, method)(3)

        assert it.cursors == (5, 5)


def test_what_is_done_with_is_committed_when_all_below_it_is() -> None:
    progress = InputProgress()
    committed: list[int] = []

    for seq in (0, 2, None, 3, 2, 1):
        progress.done(seq)
        committed.append(progress.committed)

    assert committed == [0, 0, 0, 0, 0, 3]


def test_a_start_counts_as_done_with_and_takes_what_is_done_behind_it() -> None:
    progress = InputProgress()
    progress.done(5)

    progress.start_after(4)
    progress.start_after(2)

    assert progress.committed == 5


@given(st.permutations(range(12)), st.integers(-1, 12))
def test_the_committed_cursor_is_the_highest_number_below_which_nothing_is_open(order: list[int], start: int) -> None:
    progress = InputProgress()
    progress.start_after(start)
    finished = set(range(start + 1))

    for seq in order:
        progress.done(seq)
        finished.add(seq)
        expected = max(number for number in range(-1, 13) if finished >= set(range(number + 1)))
        assert progress.committed == expected
