"""Answers that the test plays by hand (rules RS-1 to RS-18)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from anyio.lowlevel import checkpoint

from chatagent.ui import UNSET, Unset
from chatagent.waiting import Gate
from chatagent_test.transport.controllers import TextController, ToolController
from chatagent_test.transport.errors import (
    ResponseDetachedError,
    ResponseEndedError,
    ResponseNotStartedError,
    ScriptError,
)
from chatagent_test.transport.values import error_text, json_value

if TYPE_CHECKING:
    from types import TracebackType

    from chatagent.ui import FinishReason
    from chatagent_test.transport.engine import Engine, Generation
    from chatagent_test.transport.scripts import SeedAction
    from chatagent_test.transport.writer import ResponseWriter

__all__ = ["ResponseStarted", "StreamedResponse"]


@dataclass(frozen=True, slots=True)
class ResponseStarted:
    """The run that a streamed response answers."""

    thread_id: str
    run_id: str


class StreamedResponse:
    """An answer that the test plays: text, tool calls and data as they come, then an end. It serves one generation.

    Used in `async with` it is completed at the end of the block, or aborted if the block raised.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._generation: Generation | None = None
        self._writer: ResponseWriter | None = None
        self._ended: str | None = None
        """How it has ended."""
        self._detached: str | None = None
        """Why it has lost its place."""
        self._started = Gate("the start of a streamed response")
        self._aborted = Gate("the abort of a streamed response")
        self.open_parts: dict[object, str] = {}
        """The parts that were begun and have not ended."""
        self.scope: str | None = None
        """The part whose block of `async with` is on."""

    def __repr__(self) -> str:
        return "mock.responses.stream()"

    # Its life, told by the engine ---------------------------------------------------------------------------------

    def attach(self, generation: Generation, writer: ResponseWriter) -> None:
        """Become the answer of a run."""
        self._generation, self._writer = generation, writer
        self._started.open()

    def detach(self, why: str) -> None:
        """Lose its place."""
        if self._ended is None and self._detached is None:
            self._detached = why
            self._started.open()
            self._aborted.open()

    def aborted(self, why: str) -> None:
        """End, because the client has aborted the run."""
        self._ended = why
        self._aborted.open()

    async def wait_until_started(self) -> ResponseStarted:
        """Return once a run has claimed it; at once if one has.

        Raises:
            ResponseDetachedError: it was cleared from the queue, or the mock was reset.
        """
        await self._started.wait()
        if self._generation is None:
            raise ResponseDetachedError(self._detached or "")
        return ResponseStarted(self._generation.thread.thread_id, self._generation.run_id)

    async def wait_until_aborted(self) -> None:
        """Return once the client has aborted the run.

        Raises:
            ResponseDetachedError: that will not happen any more.
        """
        await self._aborted.wait()
        if self._detached is not None:
            raise ResponseDetachedError(self._detached)

    # Playing ------------------------------------------------------------------------------------------------------

    def text(self, text_id: str | None = None) -> TextController:
        """Begin a text.

        Raises:
            ResponseNotStartedError: no run has claimed this response.
            ResponseEndedError: it has ended.
            ScriptError: the block of another part is on.
        """
        writer = self.begin_part("response.text()", "a text")
        return TextController(self, writer, writer.text_start(text_id), "text")

    def reasoning(self, reasoning_id: str | None = None) -> TextController:
        """Begin a block of reasoning; otherwise like `text`."""
        writer = self.begin_part("response.reasoning()", "a reasoning")
        return TextController(self, writer, writer.reasoning_start(reasoning_id), "reasoning")

    def tool(self, name: str, call_id: str | None = None) -> ToolController:
        """Begin a tool call whose input is streamed; otherwise like `text`."""
        call = f"tool({name!r})"
        look = self._engine.book.look(name, f"response.{call}")
        writer = self.begin_part(f"response.{call}", call)
        made = self._engine.take_id("call", call_id)
        writer.tool_input_start(look, made)
        return ToolController(self, self._engine, writer, look, made)

    async def write_text(self, text: str) -> None:
        """Write a whole text."""
        part = self.text()
        if text:
            await part.delta(text)
        await part.end()

    async def write_tool(
        self,
        name: str,
        *,
        input: object,
        output: object | Unset = UNSET,
        error: BaseException | str | None = None,
        waiting: SeedAction | None = None,
        approval: bool = False,
        call_id: str | None = None,
    ) -> None:
        """Write a whole tool call with exactly one outcome: `output`, `error`, `waiting` or `approval`."""
        call = f"write_tool({name!r})"
        outcomes = [output is not UNSET, error is not None, waiting is not None, approval]
        if sum(outcomes) != 1:
            raise ScriptError(f"response.{call}: give exactly one of output, error, waiting and approval")
        book = self._engine.book
        look = book.look(name, f"response.{call}")
        given = json_value(input)
        book.check_input(name, given, f"response.{call}")
        if output is not UNSET:
            book.check_output(name, json_value(output), f"response.{call}")
        writer = self.begin_part(f"response.{call}", call)
        made = self._engine.take_id("call", call_id)
        writer.tool_input(look, made, given)
        part = ToolController(self, self._engine, writer, look, made, given=given)
        if output is not UNSET:
            await part.output(output)
        elif error is not None:
            await part.error(error)
        elif waiting is not None:
            await part.waiting(waiting)
        else:
            await part.approval()

    async def write_data(
        self, name: str, value: object, *, data_id: str | None = None, transient: bool = False
    ) -> None:
        """Write data of the application; transient data is told and not kept."""
        data = json_value(value)
        self._engine.book.check_data(name, data, f"response.write_data({name!r})")
        self.playing(f"response.write_data({name!r})").data(name, data, data_id, transient=transient)
        await checkpoint()

    # Ends ---------------------------------------------------------------------------------------------------------

    async def complete(self, *, finish_reason: FinishReason | None = None) -> None:
        """End the answer: the run is completed, or waits if a call waits.

        Raises:
            ScriptError: a part is still open.
        """
        writer = self.playing("response.complete()")
        if self.open_parts:
            names = ", ".join(self.open_parts.values())
            raise ScriptError(f"response.complete(): still open: {names}; end or settle each part first")
        writer.finish(finish_reason)
        self._ended = "it was completed"
        self._engine.complete(self._of())
        await checkpoint()

    async def fail(self, error: BaseException | str, *, code: str | None = None) -> None:
        """Let the run fail here; open parts are left as a failed answer leaves them."""
        self.playing("response.fail()")
        self._ended = "it failed"
        self._engine.fail(self._of(), error_text(error), code)
        await checkpoint()

    async def abort(self, reason: str | None = None) -> None:
        """Let the backend abort the run here."""
        self.playing("response.abort()")
        generation = self._of()
        self._engine.abort(generation.thread, generation.run_id, reason, why="it was aborted by the test")
        await checkpoint()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._ended is not None or self._detached is not None:
            return
        if kind is None:
            await self.complete()
        elif self._generation is not None:
            self._ended = "the block of its `async with` raised"
            generation = self._of()
            self._engine.abort(generation.thread, generation.run_id, None, why=self._ended)

    # For controllers ----------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether nothing can be played any more, so that nobody need end his part."""
        return self._ended is not None or self._detached is not None

    def playing(self, call: str) -> ResponseWriter:
        """Return where to write.

        Raises:
            ResponseNotStartedError: no run has claimed this response.
            ResponseEndedError: it has ended.
            ResponseDetachedError: it has lost its place.
        """
        if self._detached is not None:
            raise ResponseDetachedError(self._detached)
        if self._ended is not None:
            raise ResponseEndedError(call, self._ended)
        if self._writer is None:
            raise ResponseNotStartedError(call)
        return self._writer

    def begin_part(self, call: str, name: str) -> ResponseWriter:
        """Return where to write a new part."""
        writer = self.playing(call)
        if self.scope is not None:
            raise ScriptError(
                f"{call}: the block of {self.scope} is on, so {name} cannot begin; leave the block first, or "
                "use both parts without `async with` to interleave them"
            )
        return writer

    def _of(self) -> Generation:
        assert self._generation is not None
        return self._generation
