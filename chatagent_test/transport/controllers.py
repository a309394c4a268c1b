"""The hands on the parts of a streamed response (rules RS-3 to RS-11).

Used plainly they may be interleaved; in `async with` each is a scope that checks its end.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Literal, Self

from anyio.lowlevel import checkpoint

from chatagent.ui import UNSET, Unset, format_json
from chatagent_test.transport.errors import ScriptError
from chatagent_test.transport.player import make_mark
from chatagent_test.transport.values import error_text, json_value

if TYPE_CHECKING:
    from types import TracebackType

    from chatagent_test.transport.engine import Engine
    from chatagent_test.transport.scripts import SeedAction
    from chatagent_test.transport.streamed import StreamedResponse
    from chatagent_test.transport.tools import ToolLook
    from chatagent_test.transport.writer import ResponseWriter

__all__ = ["TextController", "ToolController", "ToolInputController"]


class _Part:
    """A part that was begun."""

    def __init__(self, response: StreamedResponse, writer: ResponseWriter, name: str) -> None:
        self._response, self._writer, self._name = response, writer, name
        self._how_ended: str | None = None
        response.open_parts[self] = name

    def _check(self, call: str) -> None:
        self._response.playing(call)
        if self._how_ended is not None:
            raise ScriptError(f"{call}: {self._name} has ended already: {self._how_ended}")

    def _end(self, how: str) -> None:
        self._how_ended = how
        self._response.open_parts.pop(self, None)

    async def __aenter__(self) -> Self:
        self._check(self._name)
        if self._response.scope is not None:
            raise ScriptError(f"{self._name}: the block of {self._response.scope} is on; leave it first")
        self._response.scope = self._name
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._response.scope = None
        if kind is None and self._how_ended is None and not self._response.is_over:
            raise ScriptError(f"the block of {self._name} was left without an end: {self._ways_out}")

    _ways_out = ""


class TextController(_Part):
    """A text, or a block of reasoning."""

    _ways_out = "await .end() inside it"

    def __init__(
        self, response: StreamedResponse, writer: ResponseWriter, block_id: str, kind: Literal["text", "reasoning"]
    ) -> None:
        super().__init__(response, writer, f"{kind} {block_id!r}")
        self.block_id = block_id
        self._write_delta = writer.text_delta if kind == "text" else writer.reasoning_delta
        self._write_end = writer.text_end if kind == "text" else writer.reasoning_end

    async def delta(self, text: str) -> None:
        """Write more of it."""
        if self._how_ended is not None or self._response.is_over:
            self._check("text.delta()")
        self._write_delta(self.block_id, text)
        await checkpoint()

    async def end(self) -> None:
        """Close it."""
        self._check("text.end()")
        self._write_end(self.block_id)
        self._end("by end()")
        await checkpoint()


class ToolInputController:
    """The input of a tool call while it is streamed."""

    def __init__(self, tool: ToolController) -> None:
        self._tool = tool
        self.pieces: list[str] = []

    async def delta(self, json_text: str) -> None:
        """Write more of the input's JSON text."""
        self._tool.write_input_delta(json_text)
        self.pieces.append(json_text)
        await checkpoint()

    async def available(self, value: object | Unset = UNSET) -> None:
        """Write the whole input.

        Args:
            value: the input; without it the text so far is parsed, with both they must say the same.

        Raises:
            ScriptError: the text is no JSON, or says something else than the value.
        """
        self._tool.write_input(self._value(value))
        await checkpoint()

    async def stream(self, value: object, chunk_size: int = 64, delay: float = 0.0) -> None:
        """Write the input as compact JSON in pieces, then the whole.

        Args:
            value: the input.
            chunk_size: how many characters a piece has; a character is never split.
            delay: seconds between the pieces. A virtual clock is moved by this call, a real one is slept on.
        """
        if chunk_size < 1:
            raise ScriptError(f"tool.input.stream(chunk_size={chunk_size}): a piece has at least one character")
        if not 0 <= delay < math.inf:
            raise ScriptError(f"tool.input.stream(delay={delay!r}): a delay is 0 seconds or more")
        given = json_value(value)
        self._tool.check_new_input(given, "stream()")
        text = format_json(given)
        for start in range(0, len(text), chunk_size):
            if start:
                await self._tool.let_pass(delay)
            await self.delta(text[start : start + chunk_size])
        await self.available(value)

    def _value(self, value: object | Unset) -> Any:
        given = UNSET if value is UNSET else json_value(value)
        if not self.pieces:
            if given is UNSET:
                raise ScriptError("tool.input.available(): there is no text to parse; give the value")
            return given
        text = "".join(self.pieces)
        try:
            parsed = json.loads(text)
        except ValueError as error:
            raise ScriptError(f"tool.input.available(): the deltas are no JSON: {text!r:.200}") from error
        if given is not UNSET and given != parsed:
            raise ScriptError(f"tool.input.available({given!r:.200}): the deltas say {parsed!r:.200}")
        return parsed


class ToolController(_Part):
    """A tool call: stream its input, then settle it exactly once."""

    _ways_out = "settle it with output, error, cancelled, waiting or approval"

    def __init__(
        self,
        response: StreamedResponse,
        engine: Engine,
        writer: ResponseWriter,
        look: ToolLook,
        call_id: str,
        *,
        given: object | Unset = UNSET,
    ) -> None:
        super().__init__(response, writer, f"tool {look.name!r} ({call_id})")
        self._engine, self._look = engine, look
        self.call_id = call_id
        self.input = ToolInputController(self)
        """Streams the input."""
        self._given = given

    @property
    def _where(self) -> str:
        return f"tool({self._look.name!r})"

    async def running(self) -> None:
        """Check that the input is complete; a call at work looks like one that was just made."""
        self._check_input("running()")
        await checkpoint()

    async def data(self, name: str, value: object, *, data_id: str | None = None) -> None:
        """Write data beside the call; the same `data_id` again replaces it."""
        self._check("tool.data()")
        data = json_value(value)
        self._engine.book.check_data(name, data, f"{self._where}.data({name!r})", tool_name=self._look.name)
        self._writer.data(name, data, data_id)
        await checkpoint()

    async def output(self, value: object) -> None:
        """Settle the call: this is what it gives."""
        self._check_input("output()")
        output = json_value(value)
        self._engine.book.check_output(self._look.name, output, f"{self._where}.output")
        self._writer.tool_output(self._look, self.call_id, output)
        await self._settled("output()")

    async def error(self, error: BaseException | str) -> None:
        """Settle the call: it fails; the run goes on."""
        await self._fail("error()", error_text(error))

    async def cancelled(self, reason: str | None = None) -> None:
        """Settle the call: it was cancelled, which is an error with that text."""
        await self._fail("cancelled()", reason or "Tool call cancelled")

    async def waiting(self, action: SeedAction) -> None:
        """Settle the call for now: it waits for the client."""
        self._check_input("waiting()")
        where = f"{self._where}.waiting"
        self._engine.book.check_action(self._look.name, action, where)
        mark = make_mark(
            action,
            tool_name=self._look.name,
            call_id=self.call_id,
            tool_input=self._given,
            action_id=self._engine.take_id("action", action.action_id),
            where=where,
        )
        self._writer.tool_waiting(mark)
        await self._settled("waiting()")

    async def approval(self, approval_id: str | None = None) -> None:
        """Settle the call for now: it waits for an approval."""
        self._check_input("approval()")
        self._writer.tool_approval(self.call_id, self._engine.take_id("approval", approval_id))
        await self._settled("approval()")

    async def _fail(self, call: str, text: str) -> None:
        self._check(f"tool.{call}")
        if self._given is UNSET:
            self._writer.tool_input_error(self._look, self.call_id, "".join(self.input.pieces), text)
        else:
            self._writer.tool_error(self._look, self.call_id, text)
        await self._settled(call)

    async def _settled(self, how: str) -> None:
        self._end(f"by {how}")
        await checkpoint()

    def _check_input(self, call: str) -> None:
        self._check(f"tool.{call}")
        if self._given is UNSET:
            raise ScriptError(
                f"tool.{call}: the input of {self._name} is not complete; await tool.input.available(...) first"
            )

    # For the input ------------------------------------------------------------------------------------------------

    def check_new_input(self, value: object, call: str) -> None:
        """Refuse an input that cannot be written as a whole, before any of it is."""
        self._check_open_input(call)
        self._engine.book.check_input(self._look.name, value, f"{self._where}.input.{call.removesuffix('()')}")

    def write_input_delta(self, text: str) -> None:
        """Write more of the input's text."""
        self._check_open_input("delta()")
        self._writer.tool_input_delta(self.call_id, text)

    def write_input(self, value: object) -> None:
        """Write the whole input."""
        self.check_new_input(value, "available()")
        self._writer.tool_input(self._look, self.call_id, value)
        self._given = value

    async def let_pass(self, seconds: float) -> None:
        """Let time pass between two pieces."""
        if seconds:
            await self._engine.let_pass(seconds)

    def _check_open_input(self, call: str) -> None:
        self._check(f"tool.input.{call}")
        if self._given is not UNSET:
            raise ScriptError(f"tool.input.{call}: the input of {self._name} is complete already")
