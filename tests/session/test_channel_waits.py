"""Longer waits on a channel: idle and suspended (C-38), interrupted, cancelled, and on a log that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from anyio.lowlevel import checkpoint

from chatagent.errors import InputStreamTimeoutError, SessionNotFoundError, StoreClosedError, WaitpointTimeoutError
from session.channel_wiring import Handler, Wiring, is_message, seq_of, wired

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.session import Record
    from chatagent.session.channel import WaitResult
    from chatagent.tasks import OwnedTask
    from chatagent_test.clock import VirtualClock


# --- idle, then suspended (C-38) ---


class SuspendHooks:
    """Remembers when the run suspended and resumed."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock, self._start = clock, clock.now()
        self.calls: list[tuple[str, float]] = []

    async def suspend(self) -> None:
        await checkpoint()
        self.calls.append(("suspend", self._clock.now() - self._start))

    async def resume(self) -> None:
        await checkpoint()
        self.calls.append(("resume", self._clock.now() - self._start))


def idle_wait(it: Wiring, hooks: SuspendHooks, idle: float, timeout: float | None, **options: Any) -> Any:
    return lambda: it.channel.wait_with_idle_timeout(
        idle, timeout, on_suspend=hooks.suspend, on_resume=hooks.resume, **options
    )


@pytest.mark.anyio
async def test_a_record_within_the_idle_time_keeps_the_run_warm() -> None:
    async with wired() as it:
        hooks = SuspendHooks(it.clock)
        task = await it.start(idle_wait(it, hooks, 30.0, 60.0))

        it.clock.advance(29.0)
        await it.deliver("message")

        assert seq_of(await task.wait()) == 0
        assert hooks.calls == []


@pytest.mark.anyio
async def test_after_the_idle_time_the_run_suspends_and_a_record_resumes_it() -> None:
    async with wired() as it:
        hooks = SuspendHooks(it.clock)
        task = await it.start(idle_wait(it, hooks, 30.0, 60.0))
        for seconds in (30.0, 59.0):
            it.clock.advance(seconds)
            await it.run.settled()

        await it.deliver("message")

        assert seq_of(await task.wait()) == 0
        assert hooks.calls == [("suspend", 30.0), ("resume", 89.0)]


@pytest.mark.anyio
async def test_a_suspended_run_that_nobody_wakes_gives_up_without_resuming() -> None:
    async with wired() as it:
        hooks = SuspendHooks(it.clock)
        task = await it.start(idle_wait(it, hooks, 30.0, 60.0))
        for seconds in (30.0, 60.0):
            it.clock.advance(seconds)
            await it.run.settled()

        result = await task.wait()

        assert isinstance(result.error, WaitpointTimeoutError)
        assert hooks.calls == [("suspend", 30.0)]


@pytest.mark.anyio
async def test_without_a_suspend_limit_the_run_waits_on() -> None:
    async with wired() as it:
        hooks = SuspendHooks(it.clock)
        task = await it.start(idle_wait(it, hooks, 30.0, None))
        for seconds in (30.0, 1e8):
            it.clock.advance(seconds)
            await it.run.settled()

        assert not task.done
        assert it.clock.pending == []


@pytest.mark.anyio
async def test_without_idle_time_the_run_suspends_at_once() -> None:
    async with wired() as it:
        hooks = SuspendHooks(it.clock)

        await it.start(idle_wait(it, hooks, 0.0, 60.0))

        assert hooks.calls == [("suspend", 0.0)]


@pytest.mark.anyio
async def test_without_idle_time_a_buffered_record_is_taken_and_nobody_suspends() -> None:
    async with wired("message") as it:
        it.channel.on(Handler())
        await it.run.settled()
        hooks = SuspendHooks(it.clock)

        task = await it.start(idle_wait(it, hooks, 0.0, 60.0))

        assert seq_of(await task.wait()) == 0
        assert hooks.calls == []


@pytest.mark.anyio
@pytest.mark.parametrize("idle", [0.0, 30.0])
async def test_a_wait_that_may_not_suspend_gives_up_after_the_idle_time(idle: float) -> None:
    async with wired() as it:
        hooks = SuspendHooks(it.clock)
        task = await it.start(idle_wait(it, hooks, idle, 60.0, skip_suspend=True))
        it.clock.advance(idle)

        result = await task.wait()

        assert isinstance(result.error, InputStreamTimeoutError)
        assert result.error.timeout == idle
        assert hooks.calls == []


@pytest.mark.anyio
async def test_a_record_that_comes_while_the_run_suspends_resumes_it_at_once() -> None:
    async with wired() as it:
        hooks = SuspendHooks(it.clock)

        async def suspend() -> None:
            await hooks.suspend()
            it.send("message")

        task = await it.start(
            lambda: it.channel.wait_with_idle_timeout(0.0, 60.0, on_suspend=suspend, on_resume=hooks.resume)
        )

        assert seq_of(await task.wait()) == 0
        assert [name for name, _ in hooks.calls] == ["suspend", "resume"]


# --- interrupting (the run is cancelled) ---


@pytest.mark.anyio
async def test_an_interrupt_ends_every_wait_as_if_its_time_had_run_out() -> None:
    async with wired() as it:
        hooks = SuspendHooks(it.clock)
        waits = [
            await it.start(it.channel.once),
            await it.start(lambda: it.channel.once(30.0, matches=is_message)),
            await it.start(it.channel.wait),
            await it.start(idle_wait(it, hooks, 30.0, 60.0)),
        ]

        it.channel.interrupt()
        results = [await task.wait() for task in waits]

        assert [result.ok for result in results] == [False] * 4
        assert [type(result.error) for result in results] == [
            InputStreamTimeoutError,
            InputStreamTimeoutError,
            WaitpointTimeoutError,
            InputStreamTimeoutError,
        ]
        assert hooks.calls == []


@pytest.mark.anyio
@pytest.mark.parametrize("idle", [0.0, 30.0])
async def test_after_an_interrupt_no_wait_begins_and_nobody_suspends(idle: float) -> None:
    async with wired() as it:
        hooks = SuspendHooks(it.clock)
        it.channel.interrupt()

        results = [
            await (await it.start(idle_wait(it, hooks, idle, 60.0))).wait(),
            await (await it.start(it.channel.once)).wait(),
            await (await it.start(it.channel.wait)).wait(),
        ]

        assert [result.ok for result in results] == [False] * 3
        assert hooks.calls == []


@pytest.mark.anyio
async def test_an_interrupt_while_the_run_suspends_ends_the_suspension() -> None:
    async with wired() as it:
        hooks = SuspendHooks(it.clock)
        task = await it.start(idle_wait(it, hooks, 0.0, 60.0))

        it.channel.interrupt()
        result = await task.wait()

        assert isinstance(result.error, WaitpointTimeoutError)
        assert [name for name, _ in hooks.calls] == ["suspend"]


@pytest.mark.anyio
async def test_what_is_buffered_can_still_be_taken_after_an_interrupt() -> None:
    async with wired("message") as it:
        it.channel.on(Handler())
        await it.run.settled()

        it.channel.interrupt()

        assert seq_of(await it.channel.once()) == 0


# --- nothing is lost ---


@pytest.mark.anyio
async def test_a_cancelled_wait_takes_nothing() -> None:
    async with wired() as it:
        task = await it.start(it.channel.once)
        await task.close()

        await it.deliver("message")

        buffered = it.channel.peek()
        assert buffered is not None


def is_second(record: Record) -> bool:
    return record.seq == 1


async def cancelled_taker_of_the_second(it: Wiring) -> OwnedTask:
    """Start a wait for the second record that is cancelled as the first comes, and so is given what it cannot take."""
    taker = await it.start(lambda: it.channel.once(matches=is_second))
    it.channel.on(lambda record: taker.cancel() if record.seq == 0 else None)
    return taker


@pytest.mark.anyio
async def test_a_record_whose_taker_is_cancelled_goes_to_the_next_who_waits() -> None:
    async with wired() as it:
        cancelled = await cancelled_taker_of_the_second(it)
        waiting = await it.start(lambda: it.channel.once(matches=is_second))

        await it.deliver("message", "message", "message")

        assert cancelled.cancelled
        assert seq_of(await waiting.wait()) == 1


@pytest.mark.anyio
async def test_a_record_whose_taker_is_cancelled_keeps_its_place_in_the_buffer() -> None:
    async with wired() as it:
        cancelled = await cancelled_taker_of_the_second(it)

        await it.deliver("message", "message", "message")

        assert cancelled.cancelled
        assert [seq_of(await it.channel.once(0.0)) for _ in range(4)] == [0, 1, 2, None]


@pytest.mark.anyio
async def test_a_record_whose_taker_is_cancelled_is_not_kept_if_a_handler_has_it() -> None:
    async with wired() as it:
        cancelled = await cancelled_taker_of_the_second(it)
        handler = Handler("message")
        it.channel.on(handler)

        await it.deliver("message", "message")

        assert cancelled.cancelled
        assert handler.seen == [0, 1]
        assert it.channel.peek() is None


@pytest.mark.anyio
async def test_records_are_read_once_however_many_listen() -> None:
    async with wired("message") as it:
        first, second = Handler(), Handler()
        it.channel.on(first)
        it.channel.on(second)
        await it.run.settled()
        await it.deliver("message")

        assert (first.seen, second.seen) == ([0, 1], [0, 1])
        assert it.run.ledger.alive == 1


@pytest.mark.anyio
async def test_a_client_and_the_run_itself_append_alike() -> None:
    async with wired() as it:
        task = await it.start(it.channel.once)

        ack = await it.channel.append({"kind": "message"}, key="k")
        again = await it.channel.append({"kind": "message"}, key="k")
        result = await task.wait()

        assert (ack.first, ack.duplicate, again.duplicate) == (0, False, True)
        assert result.output is not None
        assert result.output.data == {"kind": "message"}


# --- a log that can no longer be read ---


@pytest.mark.anyio
@pytest.mark.parametrize("form", ["once", "wait", "wait_with_idle_timeout"])
async def test_a_wait_raises_when_the_store_is_closed_under_it(form: str) -> None:
    async with wired() as it:
        waits: dict[str, Callable[[], Awaitable[WaitResult]]] = {
            "once": it.channel.once,
            "wait": it.channel.wait,
            "wait_with_idle_timeout": lambda: it.channel.wait_with_idle_timeout(30.0, 60.0),
        }
        task = await it.start(waits[form])

        await it.store.__aexit__(None, None, None)
        with pytest.raises(StoreClosedError):
            await task.wait()
        with pytest.raises(StoreClosedError):
            await it.channel.once()
        await it.store.__aenter__()


@pytest.mark.anyio
async def test_a_wait_raises_when_its_session_is_deleted() -> None:
    async with wired() as it:
        task = await it.start(it.channel.once)

        await it.store.delete_session("c")

        with pytest.raises(SessionNotFoundError):
            await task.wait()


@pytest.mark.anyio
async def test_what_was_received_before_the_log_broke_can_still_be_taken() -> None:
    async with wired("message") as it:
        it.channel.on(Handler())
        await it.run.settled()
        await it.store.delete_session("c")
        await it.run.settled()

        assert seq_of(await it.channel.once()) == 0
        with pytest.raises(SessionNotFoundError):
            await it.channel.once()


@pytest.mark.anyio
async def test_an_interrupted_run_ends_quietly_even_if_the_log_is_gone() -> None:
    async with wired() as it:
        task = await it.start(it.channel.once)
        it.channel.interrupt()

        await it.store.delete_session("c")
        await it.run.settled()

        assert not (await task.wait()).ok
        assert not (await it.channel.once()).ok
