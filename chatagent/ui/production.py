"""What goes into a UI message stream that is put together by hand: tasks that make chunks, and the chunks they made.

Chunks wait here until somebody takes them; who that is, and what it does with them, is `composed_stream.py`'s business.
Follows rule 12.7.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import AsyncIterable, Mapping
from contextvars import copy_context
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import anyio
from anyio.lowlevel import checkpoint

from chatagent.current import current_tasks
from chatagent.errors import HookResultError
from chatagent.tasks import TaskSet
from chatagent.ui.chunks import Chunk, Error
from chatagent.ui.closing import close_stream
from chatagent.ui.codec import parse_chunk
from chatagent.ui.tracking import StreamOutcome
from chatagent.waiting import Waiter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from chatagent.tasks import OwnedTask

__all__ = ["ChunkSource", "Execute", "Production", "UIMessageStreamWriter"]

ChunkSource: TypeAlias = AsyncIterable[Chunk] | AsyncIterable[Mapping[str, object]]
"""A stream of chunks, as objects or in wire form."""

BATCH = 64
"""Chunks that a merged stream hands over in one go at most, before others get their turn."""


class Production:
    """Runs `execute` and the streams that it merges, and keeps what they give.

    Nothing runs before `start`. Whatever raises becomes an `error` chunk, and the rest goes on. When nothing runs any
    more, the production is over, and what comes later is ignored.

    Args:
        execute: called with the writer; sync or async.
        on_error: gives the text that the user sees of an error. If it raises itself, that ends the production.
    """

    def __init__(self, execute: Execute, on_error: Callable[[Exception], str]) -> None:
        self.on_error = on_error
        self.chunks: deque[Chunk] = deque()
        """What has been made and not been taken."""
        self.is_started = False
        self.is_over = False
        """Nothing more comes."""
        self.is_cut = False
        """A task was cancelled before its end."""
        self.outcome = StreamOutcome("unknown")
        self.failure: BaseException | None = None
        """What is to be raised behind the last chunk."""
        self._execute = execute
        self._tasks = current_tasks() or TaskSet()
        self._context = copy_context()
        self._open: list[OwnedTask] = []
        self._working = 0
        self._merging = 0
        self._merged = 0
        """Streams merged so far; each one's place in the order of turns."""
        self._ready: dict[int, Chunk | None] = {}
        """What the merged streams have to say in this turn, by their place; `None` for one that has failed."""
        self._reader: Waiter | None = None

    # For the reader -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start `execute`, in the context in which the stream was made."""
        self.is_started = True
        self._context.run(self._begin, self._run_execute, "`execute` of a UI message stream")

    async def more(self) -> bool:
        """Wait until there is a chunk to take; `False` if there will be none.

        Raises:
            RuntimeError: another task waits here already.
        """
        while not self.chunks:
            if self.is_over:
                return False
            if self._reader is not None:
                raise RuntimeError("two tasks read one UI message stream; only one may")
            reader = self._reader = Waiter("the next chunk of a UI message stream")
            try:
                await reader.wait()
            finally:
                self._reader = None
        return True

    def abandon(self) -> None:
        """Let nothing more be made; for those who cannot wait."""
        self.chunks.clear()
        self._halt()

    async def stop(self) -> None:
        """Cancel what still runs and wait for its end, even if the caller is being cancelled."""
        self.abandon()
        own_id = anyio.get_current_task().id
        with anyio.CancelScope(shield=True):
            for task in self._open:
                if id(task.native_task) != own_id:  # a stream that is closed from within cannot wait for itself
                    await task.join()

    # For the writer -----------------------------------------------------------------------------------------------

    def put(self, chunk: Chunk) -> None:
        """Add a chunk, unless the production is over."""
        if not self.is_over:
            self.chunks.append(chunk)
            self._wake_reader()

    def merge(self, stream: ChunkSource) -> None:
        """Start to read a stream, unless the production is over."""
        if not self.is_over:
            self._merging += 1
            self._merged = place = self._merged + 1
            self._begin(lambda: self._forward(stream, place), "a merged UI message stream")

    def declare(self, outcome: StreamOutcome) -> None:
        """Take what the writer says of the outcome; the first word counts."""
        if self.outcome.status == "unknown":
            self.outcome = outcome

    # Tasks --------------------------------------------------------------------------------------------------------

    def _begin(self, work: Callable[[], Awaitable[object]], name: str) -> None:
        async def run() -> None:
            try:
                if not self.is_over:
                    await self._guarded(work)
            finally:
                self._one_less()

        self._working += 1
        try:
            task = self._tasks.start(run, name=name)
        except RuntimeError:
            self._one_less()
            raise
        self._open = [*(each for each in self._open if not each.done), task]

    def _one_less(self) -> None:
        self._working -= 1
        if not self._working:
            self.is_over = True
            self._wake_reader()

    async def _guarded(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except anyio.get_cancelled_exc_class():
            self.is_cut = True
            raise
        except Exception as exc:  # noqa: BLE001 - the user's code: what it raises is shown in the stream (rule 12.7)
            self._report(exc)
        except BaseException as exc:
            self._fail(exc)
            raise

    async def _run_execute(self) -> None:
        made = self._execute(UIMessageStreamWriter(self))
        if inspect.isawaitable(made):
            await cast("Awaitable[object]", made)

    async def _forward(self, stream: ChunkSource, place: int) -> None:
        """Hand over the chunks of a stream as they come; streams that are ready together take turns."""
        chunks = cast("AsyncIterator[Any]", aiter(stream))
        count = 0
        try:
            async for wire in chunks:
                chunk = parse_chunk(wire, allow_unknown=True)
                if self._merging > 1:
                    await self._put_in_turn(place, chunk)
                    continue
                self.put(chunk)
                count += 1
                if count % BATCH == 0:
                    await checkpoint()
        except Exception:
            if self._merging > 1:
                await self._put_in_turn(place, None)
            raise
        finally:
            self._merging -= 1
            await close_stream(chunks)

    async def _put_in_turn(self, place: int, chunk: Chunk | None) -> None:
        """Add a chunk in the order in which the streams were merged, whichever of their tasks is run first.

        A stream that has failed has none to add; its error comes behind what the others have to say in this turn.
        """
        self._ready[place] = chunk
        await checkpoint()  # the other streams that are ready say so meanwhile
        if place in self._ready:  # nobody has done it for all yet
            ready, self._ready = self._ready, {}
            for _, each in sorted(ready.items(), key=itemgetter(0)):
                if each is not None:
                    self.put(each)

    def _report(self, error: Exception) -> None:
        """Show an error in the stream."""
        self.outcome = StreamOutcome("failed", error)
        try:
            text = self._text_of(error)
        except Exception as exc:  # noqa: BLE001 - raised by the reader
            self._fail(exc)
        else:
            self.put(Error(error_text=text))

    def _text_of(self, error: Exception) -> str:
        text = cast("object", self.on_error(error))
        if not isinstance(text, str):
            raise HookResultError(hook="on_error", expected="the text that the user sees", value=text)
        return text

    def _fail(self, error: BaseException) -> None:
        """Let nothing more be made; the reader raises the error behind what there is already."""
        if self.failure is None:
            self.failure = error
        self._halt()

    def _halt(self) -> None:
        self.is_over = True
        for task in self._open:
            task.cancel()
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._reader is not None:
            self._reader.wake()


class UIMessageStreamWriter:
    """What `execute` writes with. Nothing here waits; once the stream has ended, nothing here does anything."""

    __slots__ = ("_production",)

    def __init__(self, production: Production) -> None:
        self._production = production

    @property
    def on_error(self) -> Callable[[Exception], str]:
        """What gives the texts of errors, to hand on to streams that are merged."""
        return self._production.on_error

    def write(self, chunk: Chunk | Mapping[str, object]) -> None:
        """Send a chunk.

        Args:
            chunk: the chunk, or its wire form. One of a type that nobody knows passes.

        Raises:
            ChunkError: a field is missing or of the wrong kind; nothing was sent.
        """
        if not self._production.is_over:
            self._production.put(parse_chunk(chunk, allow_unknown=True))

    def merge(self, stream: ChunkSource) -> None:
        """Send the chunks of another stream as they come, beside what else is sent.

        The stream is read in a task of its own, which begins when the caller next waits: what is written before that
        comes first. It is closed when the reading ends. If it raises, an `error` chunk says so.

        Args:
            stream: an async iterable of chunks or of their wire forms.

        Raises:
            TypeError: it is none.
        """
        if not isinstance(cast("object", stream), AsyncIterable):
            raise TypeError(
                "stream must be an async iterable of chunks (such as what `to_ui_message_stream()` returns), "
                f"not {stream!r}"
            )
        self._production.merge(stream)

    def set_outcome(self, outcome: StreamOutcome) -> None:
        """Say how the work ended, for `on_end`; no chunk is sent, and the stream goes on.

        The first outcome other than `unknown` counts. An error that `execute` or a merged stream raises counts more.
        """
        self._production.declare(outcome)


Execute: TypeAlias = "Callable[[UIMessageStreamWriter], object]"
"""Writes a stream; what it returns is awaited if it can be."""
