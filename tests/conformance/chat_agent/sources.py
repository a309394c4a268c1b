"""Chunk sources that `run` may return: UI chunks from the scenario, given one at a time."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from chatagent.ui import create_ui_message_stream
from conformance.chat_agent.errors import scenario_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from conformance.chat_agent.values import Wire


class ChunkSource:
    """A streamable over chunks, without usage.

    Args:
        chunks: the chunks in wire form.
        break_with: text of the error that it raises after them; `None` if it does not.
        raw: yield the chunks as they are, whatever the runtime asks for; so does a source that breaks.
    """

    def __init__(self, chunks: list[Wire], *, break_with: str | None = None, raw: bool = False) -> None:
        self._chunks, self._break_with = chunks, break_with
        self._raw = raw or break_with is not None

    def to_ui_message_stream(self, **options: Any) -> Any:
        if self._raw:
            return given(self._chunks, self._break_with)
        return create_ui_message_stream(
            execute=self._write,
            original_messages=options.get("original_messages"),
            generate_id=options.get("generate_message_id"),
            on_end=options.get("on_end"),
        )

    async def _write(self, writer: Any) -> None:
        for chunk in copy.deepcopy(self._chunks):
            writer.write(chunk)


async def given(chunks: list[Wire], break_with: str | None = None) -> AsyncIterator[Wire]:
    """Yield copies of chunks, then raise if there is an error to raise."""
    for chunk in copy.deepcopy(chunks):
        yield chunk
    if break_with is not None:
        raise scenario_error(break_with)
