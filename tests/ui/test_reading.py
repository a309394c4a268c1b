from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from chatagent.errors import ChunkError, StreamedError, UIMessageStreamError
from chatagent.ui import Error, Start, TextDelta, TextStart, UIMessage, read_ui_message_stream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = pytest.mark.anyio


async def stream(*items: Any) -> AsyncGenerator[Any, None]:
    """Yield the items, and raise those that are exceptions."""
    for item in items:
        if isinstance(item, Exception):
            raise item
        yield item


async def test_a_message_comes_after_each_visible_change() -> None:
    chunks = stream(Start("m1"), {"type": "text-start", "id": "t1"}, {"type": "start-step"}, TextDelta("t1", "hi"))

    messages = [message async for message in read_ui_message_stream(chunks)]

    assert [message.text for message in messages] == ["", "", "hi"]
    assert [len(message.parts) for message in messages] == [0, 1, 2]


async def test_a_given_message_is_continued() -> None:
    message = UIMessage(id="m1", role="assistant", parts=[])

    messages = [each async for each in read_ui_message_stream(stream(TextStart("t1")), message=message)]

    assert [each.id for each in messages] == ["m1"]


async def test_an_error_chunk_is_reported_and_reading_goes_on() -> None:
    errors: list[Exception] = []
    chunks = stream(TextStart("t1"), Error("overloaded"), TextDelta("t1", "x"))

    messages = [message async for message in read_ui_message_stream(chunks, on_error=errors.append)]

    assert [message.text for message in messages] == ["", "x"]
    assert [(type(error), str(error)) for error in errors] == [(StreamedError, "overloaded")]


@pytest.mark.parametrize(
    ("chunk", "error_class"), [(TextDelta("t2", "x"), UIMessageStreamError), ({"type": "text-delta"}, ChunkError)]
)
async def test_the_first_chunk_that_does_not_fit_ends_the_reading(chunk: object, error_class: type[Exception]) -> None:
    errors: list[Exception] = []
    chunks = stream(TextStart("t1"), chunk, TextDelta("t1", "x"))

    messages = [message async for message in read_ui_message_stream(chunks, on_error=errors.append)]

    assert [message.text for message in messages] == [""]
    assert [type(error) for error in errors] == [error_class]


@pytest.mark.parametrize("chunk", [Error("overloaded"), TextDelta("t2", "x")])
async def test_the_first_error_is_raised_for_those_who_ask(chunk: object) -> None:
    errors: list[Exception] = []
    async with aclosing(stream(chunk, chunk)) as source:
        reading = read_ui_message_stream(source, on_error=errors.append, terminate_on_error=True)
        with pytest.raises((StreamedError, UIMessageStreamError)) as caught:
            _ = [message async for message in reading]

    assert errors == [caught.value]


async def test_what_the_stream_raises_is_raised() -> None:
    with pytest.raises(LookupError, match=r"^gone$"):
        _ = [message async for message in read_ui_message_stream(stream(TextStart("t1"), LookupError("gone")))]
