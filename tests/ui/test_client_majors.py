"""What older clients are sent, and the body that carries it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chatagent.current import current_clock
from chatagent.errors import InvalidArgumentError
from chatagent.ui import (
    SSE_DONE,
    SSE_KEEP_ALIVE,
    SSE_OPEN,
    Chunk,
    Custom,
    DataChunk,
    Finish,
    ReasoningFile,
    ResetStep,
    Start,
    SteeringMessage,
    TextDelta,
    ToolApprovalRequest,
    ToolApprovalResponse,
    ToolOutputDenied,
    ToolOutputError,
    chunk_for_client,
    create_ui_message_stream,
    format_sse,
    iter_sse,
)
from chatagent.waiting import Gate
from support.virtual_run import play

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.ui import StreamEndEvent, UIMessageStreamWriter

NEW_IN_7: list[Chunk] = [
    Custom(kind="a.b"),
    ReasoningFile(url="data:,", media_type="text/plain"),
    ToolApprovalResponse(approval_id="a", approved=True),
    SteeringMessage(id="m", parts=[]),
    ResetStep(),
]


@pytest.mark.parametrize("chunk", NEW_IN_7, ids=lambda chunk: chunk.type)
def test_what_is_new_in_7_is_sent_to_7_alone(chunk: Chunk) -> None:
    assert chunk_for_client(chunk) is chunk
    assert chunk_for_client(chunk, 6) is None
    assert chunk_for_client(chunk, 5) is None


def test_what_is_new_in_6_is_not_sent_to_5() -> None:
    request = ToolApprovalRequest(approval_id="a", tool_call_id="c")

    assert chunk_for_client(request, 6) is request
    assert chunk_for_client(request, 5) is None


def test_a_denied_call_is_a_failed_one_to_5() -> None:
    denied = ToolOutputDenied(tool_call_id="c")

    assert chunk_for_client(denied, 6) is denied
    assert chunk_for_client(denied, 5) == ToolOutputError(tool_call_id="c", error_text="Tool call execution denied.")


def test_an_interrupted_finish_has_another_reason_for_older_clients() -> None:
    finish = Finish(finish_reason="interrupted")

    assert chunk_for_client(finish, 7) is finish
    assert chunk_for_client(finish, 6) == chunk_for_client(finish, 5) == Finish(finish_reason="other")


def test_what_everybody_knows_is_sent_as_it_is() -> None:
    delta = TextDelta(id="t", delta="a")

    assert all(chunk_for_client(delta, major) is delta for major in (5, 6, 7))


def test_a_major_that_nobody_writes_for_is_refused() -> None:
    major: Any = 4

    with pytest.raises(InvalidArgumentError, match=r"^`major` is 4: clients of the majors 5, 6 and 7 are known"):
        chunk_for_client(Start(), major)


async def stream(*chunks: Chunk, pause: float = 0, error: Exception | None = None) -> AsyncIterator[Chunk]:
    for chunk in chunks:
        if pause:
            await current_clock().sleep(pause)
        yield chunk
    if error is not None:
        raise error


async def read(body: AsyncIterator[bytes]) -> list[bytes]:
    return [piece async for piece in body]


@pytest.mark.anyio
async def test_a_body_is_the_events_and_the_end() -> None:
    body = await read(iter_sse(stream(Start(), ResetStep()), client_major=6))

    assert body == [format_sse(Start()), SSE_DONE]


@pytest.mark.anyio
async def test_a_body_breaks_off_with_what_the_stream_raised() -> None:
    pieces: list[bytes] = []

    async def read_all() -> None:
        async for piece in iter_sse(stream(Start(), error=OSError("gone"))):
            pieces.append(piece)

    with pytest.raises(OSError, match="gone"):
        await read_all()

    assert pieces == [format_sse(Start())]


@pytest.mark.anyio
async def test_a_quiet_stream_is_kept_alive() -> None:
    body = await play(lambda: read(iter_sse(stream(Start(), pause=25), keep_alive=10)))

    assert body == [SSE_OPEN, SSE_KEEP_ALIVE, SSE_KEEP_ALIVE, format_sse(Start()), SSE_DONE]


@pytest.mark.anyio
async def test_a_stream_that_is_kept_alive_breaks_off_too() -> None:
    pieces: list[bytes] = []

    async def read_all() -> None:
        async for piece in iter_sse(stream(Start(), pause=1, error=OSError("gone")), keep_alive=10):
            pieces.append(piece)

    with pytest.raises(OSError, match="gone"):
        await play(read_all)
    assert pieces == [SSE_OPEN, format_sse(Start())]


@pytest.mark.anyio
@pytest.mark.parametrize("keep_alive", [None, 10.0])
@pytest.mark.parametrize("pieces", [2, 3])
async def test_a_body_that_is_closed_closes_its_stream(keep_alive: float | None, pieces: int) -> None:
    ended: list[StreamEndEvent] = []

    async def execute(writer: UIMessageStreamWriter) -> None:
        for number in range(3):
            writer.write(DataChunk("data-x", number))
        await Gate("a source that hangs").wait()

    async def main() -> None:
        body = iter_sse(create_ui_message_stream(execute=execute, on_end=ended.append), keep_alive=keep_alive)
        for _ in range(pieces):
            await anext(body)
        await body.aclose()

    await play(main)

    assert [event.is_cancelled for event in ended] == [True]


@pytest.mark.parametrize("interval", [0, -1, float("nan"), float("inf"), 2147484])
def test_an_interval_out_of_range_is_refused(interval: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`keep_alive` is "):
        iter_sse(stream(), keep_alive=interval)
