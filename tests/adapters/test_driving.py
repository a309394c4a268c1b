"""The stream that a foreign agent feeds, whatever runs it: stop, close, failures (rules 1.16, 12.6)."""

from __future__ import annotations

import gc
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from chatagent.adapters.driving import DrivenStream, Feed
from chatagent.model import LanguageModelUsage
from chatagent.signals import AbortController
from chatagent.ui import Chunk, StartStep, TextDelta, TextStart, to_wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from chatagent.generate import UIMessageStreamOptions
    from chatagent.signals import AbortSignal
    from chatagent.ui import StreamEndEvent

pytestmark = pytest.mark.anyio


class Settled:
    """Notes the reasons with which a stream was settled."""

    def __init__(self) -> None:
        self.reasons: list[object] = []

    def __call__(self, reason: object) -> None:
        self.reasons.append(reason)


def driven(
    drive: Callable[[Feed], Awaitable[None]],
    *,
    signal: AbortSignal | None = None,
    settled: Settled | None = None,
    **options: Any,
) -> DrivenStream:
    given: UIMessageStreamOptions = {"generate_message_id": lambda: "m-1", **options}  # type: ignore[typeddict-item]
    return DrivenStream(
        drive, name="a foreign agent", abort_signal=signal, on_settled=settled or Settled(), options=given
    )


async def read(stream: DrivenStream) -> list[dict[str, Any]]:
    async with aclosing(stream):
        return [to_wire(chunk) async for chunk in stream]


def say(feed: Feed, text: str) -> None:
    feed.write(StartStep())
    feed.write(TextStart(id="t"))
    feed.write(TextDelta("t", text))


START = {"type": "start", "messageId": "m-1"}
SAID = [{"type": "start-step"}, {"type": "text-start", "id": "t"}, {"type": "text-delta", "id": "t", "delta": "hi"}]


async def test_what_is_fed_is_streamed() -> None:
    settled = Settled()
    ended: list[StreamEndEvent] = []

    async def drive(feed: Feed) -> None:
        say(feed, "hi")
        feed.finish("stop", LanguageModelUsage())

    chunks = await read(driven(drive, settled=settled, on_end=ended.append))

    assert chunks == [START, *SAID, {"type": "finish", "finishReason": "stop"}]
    assert (ended[0].outcome.status, ended[0].finish_reason) == ("completed", "stop")
    assert set(settled.reasons) == {None}


async def test_a_stop_ends_the_stream_at_once_and_the_work_soon() -> None:
    controller = AbortController()
    settled = Settled()
    let_go, is_over = anyio.Event(), anyio.Event()

    async def drive(feed: Feed) -> None:
        say(feed, "hi")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await let_go.wait()
            feed.write(TextDelta("t", "too late"))
            feed.finish("stop", LanguageModelUsage())
            is_over.set()

    seen: list[dict[str, Any]] = []

    def sink(chunk: Chunk) -> None:
        seen.append(to_wire(chunk))
        if isinstance(chunk, TextDelta):
            controller.abort("enough")

    with anyio.fail_after(5):
        await driven(drive, signal=controller.signal, settled=settled).pump(sink)
        was_at_work = not is_over.is_set()
        let_go.set()
        await is_over.wait()

    assert was_at_work
    assert seen == [START, *SAID, {"type": "abort", "reason": "enough"}]
    assert settled.reasons[0] == "enough"


async def test_what_was_said_in_the_same_breath_as_the_stop_stands_before_it() -> None:
    controller = AbortController()

    async def drive(feed: Feed) -> None:
        say(feed, "hi")
        controller.abort(404)
        feed.write(TextDelta("t", "too late"))

    chunks = await read(driven(drive, signal=controller.signal))

    assert chunks == [START, *SAID, {"type": "abort"}]


async def test_a_stop_that_comes_as_the_work_ends_is_too_late() -> None:
    controller = AbortController()
    is_done = anyio.Event()

    async def drive(feed: Feed) -> None:
        say(feed, "hi")
        feed.finish("stop", LanguageModelUsage())
        is_done.set()

    async def stop() -> None:
        await is_done.wait()
        controller.abort()

    chunks: list[dict[str, Any]] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        chunks += await read(driven(drive, signal=controller.signal))

    assert chunks[-1] == {"type": "finish", "finishReason": "stop"}


async def test_closing_waits_for_the_work_to_end() -> None:
    has_ended: list[bool] = []
    ended: list[StreamEndEvent] = []

    async def drive(feed: Feed) -> None:
        say(feed, "hi")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            has_ended.append(True)

    stream = driven(drive, on_end=ended.append)
    async for chunk in stream:
        if isinstance(chunk, TextDelta):
            break
    await stream.aclose()

    assert has_ended == [True]
    assert [event.is_cancelled for event in ended] == [True]


async def test_work_whose_stream_nobody_holds_any_more_is_stopped() -> None:
    has_ended = anyio.Event()

    async def drive(feed: Feed) -> None:
        say(feed, "hi")
        try:
            await anyio.sleep_forever()
        finally:
            has_ended.set()

    async def begin() -> None:
        stream = driven(drive)
        async for chunk in stream:
            if isinstance(chunk, TextDelta):
                break

    await begin()
    gc.collect()

    with anyio.fail_after(5):
        await has_ended.wait()


async def test_work_that_raises_is_an_error_chunk() -> None:
    ended: list[StreamEndEvent] = []
    error = ValueError("broken")

    async def drive(feed: Feed) -> None:
        say(feed, "hi")
        raise error

    chunks = await read(driven(drive, on_error=str, on_end=ended.append))

    assert chunks == [START, *SAID, {"type": "error", "errorText": "broken"}]
    assert (ended[0].outcome.status, ended[0].outcome.error) == ("failed", error)


async def test_work_may_go_on_behind_a_failure_it_tells_of() -> None:
    ended: list[StreamEndEvent] = []
    error = ValueError("broken")

    async def drive(feed: Feed) -> None:
        say(feed, "hi")
        feed.fail(error)
        feed.finish("error", LanguageModelUsage())

    chunks = await read(driven(drive, on_end=ended.append))

    assert chunks[-2:] == [
        {"type": "error", "errorText": "An error occurred."},
        {"type": "finish", "finishReason": "error"},
    ]
    assert (ended[0].outcome.status, ended[0].outcome.error) == ("failed", error)


async def test_work_that_aborts_itself_has_the_last_word() -> None:
    async def drive(feed: Feed) -> None:
        say(feed, "hi")
        feed.abort("tired")
        feed.finish("stop", LanguageModelUsage())

    chunks = await read(driven(drive))

    assert chunks == [START, *SAID, {"type": "abort", "reason": "tired"}]


def ignore(event: StreamEndEvent) -> None:
    return None


async def test_a_chunk_that_does_not_fit_ends_a_stream_that_is_followed() -> None:
    async def drive(feed: Feed) -> None:
        feed.write(TextDelta("nowhere", "hi"))
        await anyio.sleep_forever()

    stream = driven(drive, on_end=ignore)

    with pytest.raises(ValueError, match=r"^Received text-delta for missing text part"):
        await read(stream)
