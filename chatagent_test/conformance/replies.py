"""From `reply` scripts to a language model: what an agent would have to be told to say the same (rule CT-3)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import anyio

from chatagent.model import (
    FinishReason,
    ModelFinish,
    ModelStreamPart,
    ModelTextDelta,
    ModelTextEnd,
    ModelTextStart,
    ModelToolInputDelta,
    ModelToolInputStart,
)
from chatagent_test.conformance.backend import Unsupported
from chatagent_test.in_process.speaking import USAGE
from chatagent_test.transport.scripts import AssistantScript, PauseReply, StepReply

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

__all__ = ["HeldReply", "check_playable"]


def check_playable(script: AssistantScript) -> None:
    """Refuse what a model cannot be made to say.

    Raises:
        Unsupported: it has a pause, or a border between two model calls without a tool call before it.
    """
    for part in script.parts:
        if isinstance(part, StepReply | PauseReply):
            raise Unsupported(f"{part!r}: a real agent begins a step behind a tool call only, and makes no pauses")


class HeldReply:
    """An answer of a model that waits for the test: a `HeldAnswer`."""

    def __init__(self) -> None:
        self._items: deque[tuple[str, str, str]] = deque()
        self._news = anyio.Event()
        self._begun = anyio.Event()

    async def emit_text(self, text: str) -> None:
        """Say more of a text."""
        await self._put("text", text)

    async def emit_tool_input(self, tool_name: str, json_text: str) -> None:
        """End the text, and begin a tool call's input."""
        await self._put("tool", json_text, tool_name)

    async def finish(self) -> None:
        """End the text and the answer."""
        await self._put("finish")

    async def fail(self, message: str) -> None:
        """Let the model's stream break off."""
        await self._put("fail", message)

    async def _put(self, kind: str, text: str = "", name: str = "") -> None:
        await self._begun.wait()
        self._items.append((kind, text, name))
        self._news.set()

    async def speak(self, call_ids: Iterator[str]) -> AsyncGenerator[ModelStreamPart]:
        """Say what the test says, as it does."""
        self._begun.set()
        has_text = False
        while True:
            kind, text, name = await self._next()
            if kind == "text":
                if not has_text:
                    yield ModelTextStart("block-0")
                has_text = True
                yield ModelTextDelta("block-0", text)
                continue
            if kind == "fail":
                raise RuntimeError(text)
            if has_text:
                yield ModelTextEnd("block-0")
            has_text = False
            if kind == "finish":
                break
            call_id = next(call_ids)
            yield ModelToolInputStart(call_id, name)
            yield ModelToolInputDelta(call_id, text)
        yield ModelFinish(FinishReason("stop"), USAGE)

    async def _next(self) -> tuple[str, str, str]:
        while not self._items:
            self._news = anyio.Event()
            await self._news.wait()
        return self._items.popleft()
