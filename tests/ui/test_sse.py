from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.errors import ChunkError
from chatagent.ui import (
    SSE_DONE,
    SSE_KEEP_ALIVE,
    SSE_OPEN,
    Chunk,
    Finish,
    SSEDecoder,
    StartStep,
    TextDelta,
    ToolOutputAvailable,
    format_sse,
)
from ui.strategies import CHUNKS

LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def decode(pieces: list[bytes]) -> tuple[list[Chunk], str | None]:
    """Feed all pieces, and return the chunks and the error that ended them."""
    decoder = SSEDecoder()
    chunks: list[Chunk] = []
    try:
        for piece in pieces:
            chunks += decoder.feed(piece)
        decoder.close()
    except ChunkError as error:
        return chunks, str(error)
    return chunks, None


def cut(body: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(each, len(body)) for each in cuts), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


@given(st.lists(CHUNKS, max_size=5), st.lists(st.integers(0, 400), max_size=6), LINE_ENDS)
def test_what_was_written_is_read_however_it_is_cut(chunks: list[Chunk], cuts: list[int], line_end: str) -> None:
    body = SSE_OPEN + b"".join(format_sse(chunk) + SSE_KEEP_ALIVE for chunk in chunks) + SSE_DONE
    body = body.replace(b"\n", line_end.encode())

    read = decode(cut(body, cuts))

    assert read == (chunks, None)
    assert decode([bytes([byte]) for byte in body]) == read


@given(
    st.text(st.sampled_from('data:: {}"type-sr\n\r\ufeffé\x00'), max_size=60), st.lists(st.integers(0, 80), max_size=6)
)
def test_any_body_reads_the_same_however_it_is_cut(text: str, cuts: list[int]) -> None:
    body = ('data: {"type":"start-step"}\n\n' + text + "\n\n").encode()

    assert decode(cut(body, cuts)) == decode([body])


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_bytes_that_are_no_text_read_the_same_however_they_are_cut(body: bytes, cuts: list[int]) -> None:
    assert decode(cut(body, cuts)) == decode([body])


@given(st.lists(CHUNKS, max_size=6), st.data())
def test_a_body_that_breaks_off_anywhere_gives_the_chunks_that_were_complete(
    chunks: list[Chunk], data: st.DataObject
) -> None:
    events = [format_sse(chunk) for chunk in chunks]
    body = b"".join(events)
    end = data.draw(st.integers(0, len(body)))

    read, error = decode([body[:end]])

    complete = sum(1 for start in accumulate(len(event) for event in events) if start <= end)
    assert error is None
    assert b"".join(format_sse(chunk) for chunk in read) == b"".join(events[:complete])


def test_chunks_before_a_bad_event_are_handed_out_before_the_error() -> None:
    decoder = SSEDecoder()

    chunks = decoder.feed(format_sse(StartStep()) + b"data: hello\n\n" + format_sse(Finish()))

    assert chunks == [StartStep()]
    for _ in range(2):
        with pytest.raises(ChunkError, match=r"^chunk <absent>: `data` is 'hello': it is no JSON: "):
            decoder.feed(b"")
    with pytest.raises(ChunkError):
        decoder.close()


@pytest.mark.parametrize(
    "body",
    [
        'data: {"type":"data-x","data":{"__proto__":{}}}\n\n',
        'data: {"type":"data-x","data":{"\\u005f_proto__":1}}\n\n',
        'data: {"type":"data-x","data":[{"constructor":{"prototype":{}}}]}\n\n',
    ],
)
def test_keys_that_reach_for_a_prototype_are_refused(body: str) -> None:
    with pytest.raises(ChunkError, match=r"is refused by clients$"):
        SSEDecoder().feed(body.encode())


def test_a_key_named_constructor_is_a_key_like_any_other() -> None:
    chunks = SSEDecoder().feed(b'data: {"type":"data-x","data":{"constructor":1,"text":"__proto__"}}\n\n')

    assert len(chunks) == 1


@pytest.mark.parametrize("body", ["data:\n\n", "data: \n\n", "data\n\n", "data\ndata\n\n"])
def test_an_event_with_empty_data_is_no_json(body: str) -> None:
    with pytest.raises(ChunkError, match="it is no JSON"):
        SSEDecoder().feed(body.encode())


@pytest.mark.parametrize("body", ["\n\n", ": keep-alive\n\n", "event: x\nid: 1\n\n"])
def test_an_event_without_data_is_none(body: str) -> None:
    assert SSEDecoder().feed(body.encode()) == []


def test_the_end_mark_does_not_end_the_reading() -> None:
    assert SSEDecoder().feed(SSE_DONE + format_sse(StartStep())) == [StartStep()]


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    assert SSEDecoder().feed(b"\xef\xbb\xbf" + format_sse(StartStep())) == [StartStep()]


def test_half_a_character_is_written_as_an_escape() -> None:
    event = format_sse(TextDelta("t", "a\ud83d"))

    assert event == b'data: {"type":"text-delta","id":"t","delta":"a\\ud83d"}\n\n'
    assert SSEDecoder().feed(event) == [TextDelta("t", "a\ud83d")]


def test_a_wire_dict_is_written_as_it_is() -> None:
    wire: dict[str, Any] = {"type": "finish", "later": 1, "finishReason": "odd"}

    assert format_sse(wire) == b'data: {"type":"finish","later":1,"finishReason":"odd"}\n\n'


def test_a_number_that_json_does_not_have_is_refused() -> None:
    chunk = ToolOutputAvailable("c1", {"t": [float("inf")]})

    with pytest.raises(ChunkError, match=r"^chunk 'tool-output-available': `output\.t\[0\]` is inf: JSON has no such "):
        format_sse(chunk)
