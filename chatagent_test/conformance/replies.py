"""From `reply` scripts to a language model: what an agent would have to be told to say the same (rule CT-3)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import anyio

from chatagent import chat
from chatagent.model import (
    FinishReason,
    InputTokens,
    ModelFile,
    ModelFinish,
    ModelReasoningDelta,
    ModelReasoningEnd,
    ModelReasoningStart,
    ModelSource,
    ModelStreamPart,
    ModelTextDelta,
    ModelTextEnd,
    ModelTextStart,
    ModelToolCall,
    ModelToolInputDelta,
    ModelToolInputStart,
    OutputTokens,
    Usage,
)
from chatagent.ui import DataChunk, format_json
from chatagent_test.conformance.backend import Unsupported
from chatagent_test.transport.scripts import (
    AssistantScript,
    DataReply,
    FileReply,
    PauseReply,
    ReasoningReply,
    ReplyPart,
    SourceReply,
    StepReply,
    TextReply,
    ToolReply,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

__all__ = ["HeldReply", "check_playable", "model_calls", "speak"]

USAGE: Final = Usage(input_tokens=InputTokens(total=10), output_tokens=OutputTokens(total=10))


def check_playable(script: AssistantScript) -> None:
    """Refuse what a model cannot be made to say.

    Raises:
        Unsupported: it has a pause, or a border between two model calls without a tool call before it.
    """
    for part in script.parts:
        if isinstance(part, StepReply | PauseReply):
            raise Unsupported(f"{part!r}: a real agent begins a step behind a tool call only, and makes no pauses")


def model_calls(script: AssistantScript) -> list[list[ReplyPart]]:
    """Return the parts of an answer by model call: what stands behind a tool's result is said in the next one.

    Behind results at the end there is one more call, in which the model says nothing. What settles a call that waited
    is no call of a model: the tool does it.
    """
    calls: list[list[ReplyPart]] = [[]]
    is_behind_tool = False
    for part in script.parts:
        if isinstance(part, ToolReply):
            if not part.resolves:
                calls[-1].append(part)
                is_behind_tool = not part.waits
            continue
        if is_behind_tool and not isinstance(part, DataReply):
            calls.append([])
            is_behind_tool = False
        calls[-1].append(part)
    return [*calls, []] if is_behind_tool else calls


async def speak(parts: list[ReplyPart], call_ids: Iterator[str]) -> AsyncGenerator[ModelStreamPart]:
    """Say the parts of one model call; data goes to the client beside the model's stream."""
    for index, part in enumerate(parts):
        if isinstance(part, DataReply):
            chat.response.write(DataChunk(f"data-{part.name}", part.value, part.data_id, part.transient or None))
        for said in _parts(part, f"block-{index}", call_ids):
            yield said
    called = any(isinstance(part, ToolReply) for part in parts)
    yield ModelFinish(FinishReason("tool-calls" if called else "stop"), USAGE)


def _parts(part: ReplyPart, block: str, call_ids: Iterator[str]) -> Iterator[ModelStreamPart]:
    match part:
        case TextReply():
            yield ModelTextStart(block)
            for delta in part.chunks or ([part.text] if part.text else []):
                yield ModelTextDelta(block, delta)
            yield ModelTextEnd(block)
        case ReasoningReply():
            yield ModelReasoningStart(block)
            yield ModelReasoningDelta(block, part.text)
            yield ModelReasoningEnd(block)
        case ToolReply():
            yield ModelToolCall(next(call_ids), part.name, format_json(part.input))
        case FileReply():
            yield ModelFile(part.media_type, part.url)
        case SourceReply():
            yield ModelSource("url", block, url=part.url, title=part.title)
        case _:
            return


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
