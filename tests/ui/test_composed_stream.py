from __future__ import annotations

import contextvars
import gc
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from chatagent.current import current_clock, current_run
from chatagent.errors import ChunkError, HookResultError, UIMessageStreamError
from chatagent.ui import (
    Abort,
    DataChunk,
    Error,
    Finish,
    FinishStep,
    Start,
    StartStep,
    StreamEndEvent,
    StreamOutcome,
    StreamStepEndEvent,
    TextDelta,
    TextEnd,
    TextStart,
    UIMessage,
    create_ui_message_stream,
    to_wire,
)
from chatagent.waiting import Gate
from support.virtual_run import VirtualRun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from chatagent.ui import Chunk, ComposedUIMessageStream, UIMessageStreamWriter

pytestmark = pytest.mark.anyio

HI = [TextStart("t"), TextDelta("t", "hi"), TextEnd("t")]


async def stream(*items: Any, every: float | None = None) -> AsyncIterator[Any]:
    """Yield the items, and raise those that are exceptions."""
    for item in items:
        if every is not None:
            await current_clock().sleep(every)
        if isinstance(item, Exception):
            raise item
        yield item


def data(name: str, *numbers: int) -> list[Chunk]:
    return [DataChunk(f"data-{name}", number) for number in numbers]


def writing(*chunks: Chunk | dict[str, Any]) -> Callable[[UIMessageStreamWriter], None]:
    def execute(writer: UIMessageStreamWriter) -> None:
        for chunk in chunks:
            writer.write(chunk)

    return execute


async def read(chunks: ComposedUIMessageStream) -> list[Chunk]:
    with anyio.fail_after(5):
        async with aclosing(chunks):
            return [chunk async for chunk in chunks]


# --- writing and merging ---------------------------------------------------------------------------------------


async def test_what_a_plain_function_writes_is_the_stream() -> None:
    chunks = await read(create_ui_message_stream(execute=writing(TextStart("t"), {"type": "text-end", "id": "t"})))

    assert chunks == [TextStart("t"), TextEnd("t")]


async def test_nothing_runs_before_the_stream_is_read() -> None:
    ran: list[bool] = []
    made = create_ui_message_stream(execute=lambda _writer: ran.append(True))
    await anyio.lowlevel.checkpoint()

    assert not ran
    await read(made)
    assert ran


async def test_execute_sees_the_context_in_which_the_stream_was_made() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")
    seen: list[str] = []
    context = contextvars.copy_context()
    context.run(name.set, "maker")
    made = context.run(lambda: create_ui_message_stream(execute=lambda _writer: seen.append(name.get())))

    await read(made)

    assert seen == ["maker"]


async def test_chunks_written_right_after_a_merge_come_first() -> None:
    def execute(writer: UIMessageStreamWriter) -> None:
        writer.merge(stream(*data("merged", 1, 2)))
        writer.write(*data("written", 3))

    chunks = await read(create_ui_message_stream(execute=execute))

    assert chunks == [*data("written", 3), *data("merged", 1, 2)]


async def test_a_merge_is_not_waited_for() -> None:
    async def execute(writer: UIMessageStreamWriter) -> None:
        writer.merge(stream(*data("slow", 1), every=60))
        await current_clock().sleep(1)
        writer.write(*data("quick", 2))

    chunks = await VirtualRun().play(lambda: read(create_ui_message_stream(execute=execute)))

    assert chunks == [*data("quick", 2), *data("slow", 1)]


async def test_streams_that_are_ready_together_take_turns() -> None:
    def execute(writer: UIMessageStreamWriter) -> None:
        writer.merge(stream(*data("a", *range(100))))
        writer.merge(stream(*data("b", *range(100))))

    chunks = await read(create_ui_message_stream(execute=execute))

    assert [chunk.type for chunk in chunks] == ["data-a", "data-b"] * 100


async def test_a_stream_that_fails_says_so_behind_what_the_others_say_in_its_turn() -> None:
    def execute(writer: UIMessageStreamWriter) -> None:
        writer.merge(stream(*data("a", 1), ValueError("boom")))
        writer.merge(stream(*data("b", 1, 2, 3)))

    chunks = await read(create_ui_message_stream(execute=execute))

    assert chunks == [*data("a", 1), *data("b", 1, 2), Error("An error occurred."), *data("b", 3)]


async def test_a_merge_may_come_late_as_long_as_something_is_open() -> None:
    def execute(writer: UIMessageStreamWriter) -> None:
        async def outer() -> AsyncIterator[Chunk]:
            yield data("outer", 1)[0]
            writer.merge(stream(*data("inner", 2)))

        writer.merge(outer())

    chunks = await read(create_ui_message_stream(execute=execute))

    assert chunks == [*data("outer", 1), *data("inner", 2)]


async def test_what_comes_after_the_end_is_ignored() -> None:
    kept: list[UIMessageStreamWriter] = []

    def execute(writer: UIMessageStreamWriter) -> None:
        kept.append(writer)

    made = create_ui_message_stream(execute=execute)

    assert await read(made) == []
    kept[0].write(Start())
    kept[0].write({"type": "no chunk"})
    kept[0].merge(stream(*HI))
    assert await read(made) == []


async def test_a_stream_of_a_thousand_chunks_lets_others_have_their_turn() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    chunks: list[Chunk] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        chunks = await read(
            create_ui_message_stream(execute=lambda writer: writer.merge(stream(*data("a", *range(1000)))))
        )
        tasks.cancel_scope.cancel()

    assert len(chunks) == 1000
    assert turns > 10


async def test_a_composed_stream_can_be_merged_into_another() -> None:
    inner = create_ui_message_stream(execute=writing(*HI))

    chunks = await read(create_ui_message_stream(execute=lambda writer: writer.merge(inner)))

    assert chunks == HI


async def test_a_merged_stream_is_closed_when_it_has_been_read() -> None:
    class Source:
        def __init__(self) -> None:
            self.closed = 0

        def __aiter__(self) -> Source:
            return self

        async def __anext__(self) -> Chunk:
            raise StopAsyncIteration

        async def aclose(self) -> None:
            self.closed += 1

    source = Source()

    await read(create_ui_message_stream(execute=lambda writer: writer.merge(source)))

    assert source.closed == 1


async def test_what_is_no_stream_is_refused_where_it_is_merged() -> None:
    refused: list[str] = []

    def execute(writer: UIMessageStreamWriter) -> None:
        try:
            writer.merge([Start()])  # type: ignore[arg-type] - what is tested
        except TypeError as error:
            refused.append(str(error))

    await read(create_ui_message_stream(execute=execute))

    assert refused[0].startswith("stream must be an async iterable of chunks")


async def test_a_chunk_of_an_unknown_type_passes_and_a_bad_one_is_refused_where_it_is_written() -> None:
    def execute(writer: UIMessageStreamWriter) -> None:
        writer.write({"type": "brand-new", "x": 1})
        with pytest.raises(ChunkError, match=r"^chunk 'text-start': `id` is"):
            writer.write({"type": "text-start"})

    chunks = await read(create_ui_message_stream(execute=execute))

    assert to_wire(chunks) == [{"type": "brand-new", "x": 1}]


async def test_only_one_task_may_wait_for_the_next_chunk() -> None:
    made = create_ui_message_stream(execute=lambda _writer: anyio.sleep_forever())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anext, made)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match=r"^two tasks read one UI message stream; only one may$"):
            await anext(made)
        tasks.cancel_scope.cancel()
    await made.aclose()


# --- errors ----------------------------------------------------------------------------------------------------


async def test_what_execute_raises_is_an_error_chunk_and_merged_streams_go_on() -> None:
    error = ValueError("boom")
    told: list[Exception] = []

    def execute(writer: UIMessageStreamWriter) -> None:
        writer.merge(stream(*HI))
        raise error

    def on_error(raised: Exception) -> str:
        told.append(raised)
        return f"sorry: {raised}"

    chunks = await read(create_ui_message_stream(execute=execute, on_error=on_error))

    assert chunks == [Error("sorry: boom"), *HI]
    assert told == [error]


async def test_what_a_merged_stream_raises_is_an_error_chunk_behind_its_chunks() -> None:
    ends: list[StreamEndEvent] = []
    error = ValueError("boom")
    merged = stream(*HI, error)

    chunks = await read(create_ui_message_stream(execute=lambda writer: writer.merge(merged), on_end=ends.append))

    assert chunks == [*HI, Error("An error occurred.")]
    assert ends[0].outcome == StreamOutcome("failed", error)


async def test_a_merged_stream_of_something_else_than_chunks_fails() -> None:
    def execute(writer: UIMessageStreamWriter) -> None:
        writer.merge(stream(*HI, 7))

    chunks = await read(create_ui_message_stream(execute=execute, on_error=lambda error: type(error).__name__))

    assert chunks == [*HI, Error("ChunkError")]


async def test_what_on_error_raises_is_raised_behind_the_chunks_so_far() -> None:
    ends: list[StreamEndEvent] = []
    broken = LookupError("no text")

    async def execute(writer: UIMessageStreamWriter) -> None:
        writer.merge(stream(*data("never", 1), every=3600))
        writer.write(Start("m"))
        raise ValueError("boom")

    def on_error(_error: Exception) -> str:
        raise broken

    made = create_ui_message_stream(execute=execute, on_error=on_error, on_end=ends.append)

    assert await anext(made) == Start("m")
    with pytest.raises(LookupError, match=r"^no text$"):
        await anext(made)
    assert await read(made) == []
    assert [event.outcome for event in ends] == [StreamOutcome("failed", broken)]


async def test_an_on_error_that_gives_no_text_is_an_error() -> None:
    def execute(_writer: UIMessageStreamWriter) -> None:
        raise ValueError("boom")

    made = create_ui_message_stream(execute=execute, on_error=lambda _error: None)  # type: ignore[arg-type, return-value]

    with pytest.raises(
        HookResultError, match=r"^`on_error` must return the text that the user sees, it returned None$"
    ):
        await read(made)


async def test_what_is_no_error_of_the_program_reaches_the_reader() -> None:
    class Interrupt(BaseException):
        """Like `KeyboardInterrupt`, but harmless to the test's own loop."""

    def execute(writer: UIMessageStreamWriter) -> None:
        writer.write(Start("m"))
        raise Interrupt

    made = create_ui_message_stream(execute=execute)

    assert await anext(made) == Start("m")
    with pytest.raises(Interrupt):
        await anext(made)


# --- ids, tracking and callbacks -------------------------------------------------------------------------------


async def test_a_start_without_id_gets_one_and_one_with_an_id_keeps_it() -> None:
    made = await read(create_ui_message_stream(execute=writing(Start()), generate_id=lambda: "made"))
    own = await read(create_ui_message_stream(execute=writing(Start("own")), generate_id=lambda: "made"))
    random = await read(create_ui_message_stream(execute=writing(Start(message_metadata={"n": 1}))))

    assert (made, own) == ([Start("made")], [Start("own")])
    assert isinstance(random[0], Start)
    assert random[0].message_id
    assert random[0].message_metadata == {"n": 1}


async def test_in_a_run_the_run_makes_the_id() -> None:
    chunks = await VirtualRun().play(lambda: read(create_ui_message_stream(execute=writing(Start()))))

    assert chunks == [Start("made-0")]


async def test_the_given_chunk_is_not_changed() -> None:
    start = Start()

    await read(create_ui_message_stream(execute=writing(start)))

    assert start.message_id is None


async def test_an_assistant_message_at_the_end_is_continued() -> None:
    ends: list[StreamEndEvent] = []
    originals: list[Any] = [
        {"id": "u", "role": "user", "parts": [{"type": "text", "text": "q"}]},
        UIMessage(id="a", role="assistant", parts=[]),
    ]

    chunks = await read(
        create_ui_message_stream(
            execute=writing(Start(), *HI, Finish("stop")), original_messages=originals, on_end=ends.append
        )
    )

    assert chunks[0] == Start("a")
    assert ends[0].is_continuation
    assert [(message.id, message.text) for message in ends[0].messages] == [("u", "q"), ("a", "hi")]
    assert ends[0].finish_reason == "stop"
    assert ends[0].outcome == StreamOutcome("unknown")


async def test_a_start_with_another_id_makes_it_a_message_of_its_own() -> None:
    ends: list[StreamEndEvent] = []
    originals = [UIMessage(id="a", role="assistant", parts=[])]

    await read(create_ui_message_stream(execute=writing(Start("b")), original_messages=originals, on_end=ends.append))

    assert not ends[0].is_continuation
    assert [message.id for message in ends[0].messages] == ["a", "b"]


async def test_on_step_end_is_told_before_the_chunk_is_passed_on() -> None:
    seen: list[object] = []

    async def on_step_end(event: StreamStepEndEvent) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(event.response_message.text)

    made = create_ui_message_stream(execute=writing(StartStep(), *HI, FinishStep()), on_step_end=on_step_end)
    async with aclosing(made):
        async for chunk in made:
            seen.append(chunk.type)

    assert seen == ["start-step", "text-start", "text-delta", "text-end", "hi", "finish-step"]


async def test_what_on_step_end_raises_goes_to_on_error_and_changes_nothing() -> None:
    told: list[str] = []
    ends: list[StreamEndEvent] = []

    def on_step_end(_event: StreamStepEndEvent) -> None:
        raise ValueError("disk full")

    chunks = await read(
        create_ui_message_stream(
            execute=writing(FinishStep()),
            on_error=lambda error: told.append(str(error)) or "",
            on_step_end=on_step_end,
            on_end=ends.append,
        )
    )

    assert chunks == [FinishStep()]
    assert told == ["disk full"]
    assert ends[0].outcome == StreamOutcome("unknown")


async def test_what_on_end_raises_breaks_the_stream() -> None:
    def on_end(_event: StreamEndEvent) -> None:
        raise ValueError("disk full")

    made = create_ui_message_stream(execute=writing(Start("m")), on_end=on_end)

    assert await anext(made) == Start("m")
    with pytest.raises(ValueError, match=r"^disk full$"):
        await anext(made)
    assert await read(made) == []


async def test_a_chunk_that_does_not_fit_ends_a_tracked_stream_and_its_work() -> None:
    ends: list[StreamEndEvent] = []
    ended: list[str] = []

    async def execute(writer: UIMessageStreamWriter) -> None:
        writer.write(TextDelta("t", "x"))
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("execute")

    made = create_ui_message_stream(execute=execute, on_end=ends.append)

    with pytest.raises(UIMessageStreamError):
        await anext(made)
    assert ended == ["execute"]
    assert [event.outcome.status for event in ends] == ["failed"]
    assert not ends[0].is_cancelled
    assert await read(made) == []


@pytest.mark.parametrize(
    ("said", "status", "is_aborted"),
    [
        ([], "unknown", False),
        ([StreamOutcome("unknown"), StreamOutcome("completed")], "completed", False),
        ([StreamOutcome("completed"), StreamOutcome("failed", "late")], "completed", False),
        ([StreamOutcome("aborted")], "aborted", True),
    ],
)
async def test_the_first_outcome_that_the_writer_says_counts(
    said: list[StreamOutcome], status: str, *, is_aborted: bool
) -> None:
    ends: list[StreamEndEvent] = []

    def execute(writer: UIMessageStreamWriter) -> None:
        for outcome in said:
            writer.set_outcome(outcome)

    await read(create_ui_message_stream(execute=execute, on_end=ends.append))

    assert (ends[0].outcome.status, ends[0].is_aborted) == (status, is_aborted)


async def test_an_error_counts_more_than_what_the_writer_said() -> None:
    ends: list[StreamEndEvent] = []
    error = ValueError("boom")

    def execute(writer: UIMessageStreamWriter) -> None:
        writer.set_outcome(StreamOutcome("completed"))
        raise error

    await read(create_ui_message_stream(execute=execute, on_end=ends.append))

    assert ends[0].outcome == StreamOutcome("failed", error)


async def test_of_two_errors_the_last_one_is_the_outcome() -> None:
    ends: list[StreamEndEvent] = []
    late = ValueError("late")

    def execute(writer: UIMessageStreamWriter) -> None:
        writer.merge(stream(*HI, late))
        raise ValueError("early")

    await read(create_ui_message_stream(execute=execute, on_end=ends.append))

    assert ends[0].outcome == StreamOutcome("failed", late)


async def test_an_abort_chunk_makes_the_outcome_unless_another_was_said() -> None:
    ends: list[StreamEndEvent] = []

    def execute(writer: UIMessageStreamWriter) -> None:
        writer.write(Abort())
        writer.set_outcome(StreamOutcome("completed"))

    await read(create_ui_message_stream(execute=writing(Abort()), on_end=ends.append))
    await read(create_ui_message_stream(execute=execute, on_end=ends.append))

    assert [(event.outcome.status, event.is_aborted) for event in ends] == [("aborted", True), ("completed", True)]


# --- closing ---------------------------------------------------------------------------------------------------


async def test_closing_cancels_everything_and_then_tells_on_end_once() -> None:
    log: list[str] = []

    async def hang(name: str) -> AsyncIterator[Chunk]:
        try:
            yield data(name, 1)[0]
            await anyio.sleep_forever()
        finally:
            log.append(name)

    async def execute(writer: UIMessageStreamWriter) -> None:
        writer.merge(hang("merged"))
        try:
            await anyio.sleep_forever()
        finally:
            log.append("execute")

    def on_end(event: StreamEndEvent) -> None:
        log.append(f"end, cancelled: {event.is_cancelled}, {len(event.response_message.parts)} part")

    made = create_ui_message_stream(execute=execute, on_end=on_end)
    await anext(made)
    await made.aclose()
    await made.aclose()

    assert sorted(log[:-1]) == ["execute", "merged"]
    assert log[-1] == "end, cancelled: True, 1 part"
    assert await read(made) == []


@pytest.mark.parametrize("chunk", [Abort(), *data("x", 1)], ids=lambda chunk: chunk.type)
async def test_a_stream_that_is_left_counts_as_cancelled_unless_it_said_how_it_went(chunk: Chunk) -> None:
    ends: list[StreamEndEvent] = []
    made = create_ui_message_stream(execute=writing(chunk, *HI), on_end=ends.append)

    await anext(made)
    await made.aclose()

    assert [(event.outcome.status, event.is_cancelled) for event in ends] == [
        ("aborted", False) if isinstance(chunk, Abort) else ("unknown", True)
    ]


async def test_a_stream_that_was_never_read_can_be_closed() -> None:
    ran: list[bool] = []
    ends: list[StreamEndEvent] = []
    made = create_ui_message_stream(execute=lambda _writer: ran.append(True), on_end=ends.append)

    await made.aclose()

    assert not ran
    assert [event.is_cancelled for event in ends] == [True]
    assert await read(made) == []


async def test_a_cancelled_reader_still_gets_its_stream_closed() -> None:
    saved: list[bool] = []

    async def on_end(event: StreamEndEvent) -> None:
        await anyio.lowlevel.checkpoint()
        saved.append(event.is_cancelled)

    made = create_ui_message_stream(execute=lambda _writer: anyio.sleep_forever(), on_end=on_end)
    with anyio.move_on_after(0.01):
        async with aclosing(made):
            await anext(made)

    assert saved == [True]


async def test_closing_ends_the_wait_of_another_task() -> None:
    chunks: list[Chunk] = []
    ends: list[StreamEndEvent] = []
    made = create_ui_message_stream(execute=lambda _writer: anyio.sleep_forever(), on_end=ends.append)

    async def read_all() -> None:
        chunks.extend([chunk async for chunk in made])

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_all)
            await anyio.wait_all_tasks_blocked()
            await made.aclose()

    assert chunks == []
    assert len(ends) == 1


async def test_execute_may_close_its_own_stream() -> None:
    holder: list[ComposedUIMessageStream] = []

    async def execute(writer: UIMessageStreamWriter) -> None:
        writer.merge(stream(*data("never", 1), every=3600))
        await holder[0].aclose()

    holder.append(create_ui_message_stream(execute=execute))

    assert await read(holder[0]) == []


async def test_a_stream_that_nobody_holds_any_more_stops_its_work() -> None:
    ended = Gate("the end of execute")

    async def execute(writer: UIMessageStreamWriter) -> None:
        writer.write(Start("m"))
        try:
            await anyio.sleep_forever()
        finally:
            ended.open()

    made = create_ui_message_stream(execute=execute)
    await anext(made)
    del made
    gc.collect()

    with anyio.fail_after(5):
        await ended.wait()


async def test_the_end_of_the_run_cuts_the_stream_and_on_end_hears_of_it() -> None:
    run = VirtualRun()
    ends: list[StreamEndEvent] = []
    token = current_run.set(run)
    made = create_ui_message_stream(execute=lambda _writer: anyio.sleep_forever(), on_end=ends.append)
    current_run.reset(token)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, made)
        await anyio.wait_all_tasks_blocked()
        await run.tasks.close()

    assert [event.is_cancelled for event in ends] == [True]


async def test_a_run_that_is_over_runs_no_stream() -> None:
    run = VirtualRun()
    await run.tasks.close()

    async def play() -> None:
        made = create_ui_message_stream(execute=writing(Start()))
        with pytest.raises(RuntimeError, match=r"its owner has ended$"):
            await anext(made)
        assert await read(made) == []

    await run.play(play)
