"""Ready-made chunks as a streamable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chatagent.errors import ChunkError, UIMessageStreamError
from chatagent.ui import UIMessage, to_wire
from chatagent_test.streams import ChunkStream

if TYPE_CHECKING:
    from chatagent.generate import StreamEndEvent

pytestmark = pytest.mark.anyio

USER = UIMessage.model_validate({"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]})
ASSISTANT = UIMessage.model_validate({"id": "a1", "role": "assistant", "parts": [{"type": "text", "text": "old"}]})
TEXT = [
    {"type": "text-start", "id": "1"},
    {"type": "text-delta", "id": "1", "delta": "new"},
    {"type": "text-end", "id": "1"},
]
ANSWER = [{"type": "start"}, *TEXT, {"type": "finish", "finishReason": "stop"}]


async def read(stream: Any) -> list[Any]:
    return [to_wire(chunk) async for chunk in stream]


def texts(message: UIMessage) -> list[str]:
    return [part.text for part in message.parts]  # type: ignore[union-attr] - the tests have texts only


async def test_chunks_come_as_they_are_however_often() -> None:
    source = ChunkStream(ANSWER)

    assert await read(source.to_ui_message_stream()) == ANSWER == await read(source.to_ui_message_stream())


async def test_a_new_message_has_a_generated_id_and_is_told_at_the_end() -> None:
    ended: list[StreamEndEvent] = []
    stream = ChunkStream(ANSWER).to_ui_message_stream(
        original_messages=[USER], generate_message_id=lambda: "m1", on_end=ended.append, send_reasoning=False
    )

    chunks = await read(stream)

    (event,) = ended
    assert chunks[0] == {"type": "start", "messageId": "m1"}
    assert (event.response_message.id, texts(event.response_message)) == ("m1", ["new"])
    assert (event.finish_reason, event.outcome.status, event.is_continuation) == ("stop", "completed", False)
    assert [message.id for message in event.messages] == ["u1", "m1"]


async def test_an_assistant_message_at_the_end_is_continued() -> None:
    ended: list[StreamEndEvent] = []
    stream = ChunkStream(ANSWER).to_ui_message_stream(
        original_messages=[USER, ASSISTANT], generate_message_id=lambda: "m1", on_end=ended.append
    )

    chunks = await read(stream)

    (event,) = ended
    assert chunks[0] == {"type": "start", "messageId": "a1"}
    assert (event.is_continuation, texts(event.response_message)) == (True, ["old", "new"])


async def test_an_id_of_its_own_stays_and_a_stream_without_start_has_the_generated_one() -> None:
    ended: list[StreamEndEvent] = []

    for chunks in ([{"type": "start", "messageId": "mine"}, *TEXT], TEXT):
        await read(ChunkStream(chunks).to_ui_message_stream(generate_message_id=lambda: "m1", on_end=ended.append))

    assert [event.response_message.id for event in ended] == ["mine", "m1"]


async def test_a_failing_source_raises_behind_its_chunks_and_calls_nobody() -> None:
    """F-47, F-49."""
    ended: list[StreamEndEvent] = []
    stream = ChunkStream(ANSWER, error=RuntimeError("gone")).to_ui_message_stream(
        generate_message_id=lambda: "m1", on_end=ended.append
    )

    chunks = [to_wire(await anext(stream)) for _ in ANSWER]

    assert chunks == ANSWER
    with pytest.raises(RuntimeError, match=r"^gone$"):
        await anext(stream)
    await stream.aclose()
    assert ended == []


async def test_a_stream_that_is_closed_tells_the_message_so_far_once() -> None:
    ended: list[StreamEndEvent] = []

    async def on_end(event: StreamEndEvent) -> None:
        ended.append(event)

    stream = ChunkStream(TEXT).to_ui_message_stream(on_end=on_end)
    await anext(stream)
    await anext(stream)
    await stream.aclose()
    await stream.aclose()

    (event,) = ended
    assert (texts(event.response_message), event.is_cancelled, event.outcome.status) == (["new"], True, "unknown")
    assert await read(stream) == []


@pytest.mark.parametrize(
    ("chunk", "status", "aborted"),
    [({"type": "abort", "reason": "x"}, "aborted", True), ({"type": "error", "errorText": "x"}, "failed", False)],
)
async def test_how_it_ended_is_told(chunk: dict[str, str], status: str, *, aborted: bool) -> None:
    ended: list[StreamEndEvent] = []

    await read(ChunkStream([*TEXT, chunk]).to_ui_message_stream(on_end=ended.append))

    assert (ended[0].outcome.status, ended[0].is_aborted, ended[0].finish_reason) == (status, aborted, None)


async def test_a_chunk_that_does_not_fit_ends_the_stream() -> None:
    ended: list[StreamEndEvent] = []
    stream = ChunkStream([*TEXT, *TEXT[1:]]).to_ui_message_stream(on_end=ended.append)

    with pytest.raises(UIMessageStreamError):
        await read(stream)

    assert [event.outcome.status for event in ended] == ["failed"]
    assert await read(stream) == []


def test_what_is_no_chunk_is_refused_where_it_is_written() -> None:
    with pytest.raises(ChunkError):
        ChunkStream([{"type": "text-delta", "id": "1"}])
