"""What user code calls in a run: writing, piping, deferring, injecting, records of the run (chat-agent 3.5 to 3.9)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from agent.making import (
    FAILED_TURN,
    TEXT_TURN,
    agent_of,
    asking,
    assistant,
    events,
    kept,
    nothing,
    parts_of,
    prompt_of,
    roles,
    saying,
    texts,
    tool_part,
    types,
    user,
)
from chatagent import ChatContextError, chat, locals, stream_text, tool
from chatagent.errors import ChunkError, InvalidArgumentError, LocalNotFoundError
from chatagent.ui import TextDelta, parse_chunk, to_wire
from chatagent_test import ChunkStream, mock_chat_agent, script

if TYPE_CHECKING:
    from collections.abc import Callable

    from chatagent.agent import ChatLocal

pytestmark = pytest.mark.anyio

CHART = {"type": "data-chart", "id": "c-1", "data": [1, 2]}
NOTE = {"type": "data-note", "data": "n", "transient": True}
CHUNKS = [
    {"type": "start", "messageId": "m-1"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "piped"},
    {"type": "text-end", "id": "t"},
    {"type": "finish"},
]


def part_types(message: Any) -> list[str]:
    assert message is not None
    return [part.type for part in message.parts]


# --- writing ---


@pytest.mark.parametrize("hook", ["on_chat_start", "on_turn_start", "on_before_turn_complete"])
async def test_data_that_a_hook_of_the_turn_writes_joins_the_answer(hook: str) -> None:
    """N-22, N-26, T-49."""

    def write(event: Any) -> None:
        event.writer.write(CHART)

    agent = agent_of(**{"on_turn_complete": nothing, hook: write})

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert part_types(turn.message)[-1] == "data-chart"
    assert parts_of(turn.message)[-1] == CHART
    assert "data-chart" in types(turn)
    (event,) = events(harness, "on_turn_complete")
    assert event.response_message == turn.message
    assert event.ui_messages[-1] == turn.message
    assert part_types(event.raw_response_message) == ["step-start", "text"]


async def test_data_written_on_the_way_stands_in_the_order_of_the_calls() -> None:
    """N-21, G-18."""
    model = saying("hi")

    def run(event: Any) -> Any:
        chat.response.write({**CHART, "data": "run"})
        return asking(model)(event)

    agent = agent_of(
        run=run,
        on_turn_start=lambda event: event.writer.write({**CHART, "data": "start"}),
        on_before_turn_complete=lambda event: chat.response.write({**CHART, "data": "before"}),
    )

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    written = [chunk["data"] for chunk in turn.raw_chunks if chunk["type"] == "data-chart"]
    assert written == ["start", "run", "before"]
    assert types(turn) == ["data-chart", "data-chart", *TEXT_TURN[:-1], "data-chart", "trigger:turn-complete"]
    stored = [part["data"] for part in parts_of(turn.message) if part["type"] == "data-chart"]
    assert stored == ["start", "run", "before"]


async def test_transient_data_and_other_chunks_are_streamed_and_not_stored() -> None:
    def write(event: Any) -> None:
        chat.response.write(NOTE)
        chat.response.write(TextDelta(id="t", delta="loose"))

    async with mock_chat_agent(agent_of(on_turn_start=write)) as harness:
        turn = await harness.send_message("hello")

    assert types(turn)[:2] == ["data-note", "text-delta"]
    assert part_types(turn.message) == ["step-start", "text"]


@pytest.mark.parametrize("hook", ["on_boot", "on_preload", "on_turn_complete"])
async def test_data_written_outside_the_answer_is_streamed_and_not_stored(hook: str) -> None:
    """N-26."""

    def write(event: Any) -> None:
        chat.response.write(CHART)

    agent = agent_of(saying("one", "two"), **{hook: write})

    async with mock_chat_agent(agent) as harness:
        first = await harness.send_message("a")
        second = await harness.send_message("b")

    assert "data-chart" in [chunk["type"] for chunk in harness.all_raw_chunks]
    assert "data-chart" not in part_types(first.message) + part_types(second.message)


async def test_data_alone_makes_an_answer() -> None:
    """T-42."""
    agent = agent_of(run=lambda event: chat.response.write(CHART), on_turn_complete=nothing)

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    (event,) = events(harness, "on_turn_complete")
    assert turn.message is not None
    assert to_wire(turn.message) == {"id": turn.message.id, "role": "assistant", "parts": [CHART]}
    assert event.raw_response_message is None
    assert roles(event.new_ui_messages) == ["user", "assistant"]
    assert roles(event.new_messages) == ["user"]


async def test_a_tool_may_write() -> None:
    @tool
    def draw() -> str:
        """Draw a chart."""
        chat.response.write(CHART)
        return "drawn"

    model = saying(script.tool_call("draw", {}), "there")

    async with mock_chat_agent(agent_of(model, tools=[draw])) as harness:
        turn = await harness.send_message("hello")

    assert part_types(turn.message)[-1] == "data-chart"


@pytest.mark.parametrize(
    ("chunk", "text"),
    [
        ("text", "chunk <absent>: `chunk` is 'text': give a chunk, or a dict with a `type`"),
        ({"id": "no-type"}, "chunk <absent>: `type` is <absent>: a chunk has a string here"),
        (
            {"type": "text-delta", "id": "t"},
            "chunk 'text-delta': `delta` is <absent>: the key is required: give a string",
        ),
        (7, "chunk <absent>: `chunk` is 7: give a chunk, or a dict with a `type`"),
        (
            {"type": "bogus"},
            "chunk 'bogus': `type` is 'bogus': no chunk has this type; data of your own goes into a `data-NAME` chunk",
        ),
    ],
)
@pytest.mark.parametrize("way", ["event.writer", "chat.response", "chat.stream"])
async def test_what_is_no_chunk_is_refused_where_it_is_written(chunk: Any, text: str, way: str) -> None:
    ways: dict[str, Any] = {
        "event.writer": lambda event: event.writer.write(chunk),
        "chat.response": lambda event: chat.response.write(chunk),
        "chat.stream": lambda event: chat.stream.append(chunk),
    }

    async with mock_chat_agent(agent_of(on_turn_start=ways[way])) as harness:
        turn = await harness.send_message("hello")

    assert isinstance(turn.error, ChunkError)
    assert str(turn.error) == text
    assert types(turn) == FAILED_TURN


async def test_a_chunk_of_a_type_that_nobody_knows_may_be_written_on_purpose() -> None:
    chunk = parse_chunk({"type": "future", "x": 1}, allow_unknown=True)

    async with mock_chat_agent(agent_of(on_turn_start=lambda event: chat.response.write(chunk))) as harness:
        turn = await harness.send_message("hello")

    assert turn.raw_chunks[0] == {"type": "future", "x": 1}


async def test_data_that_json_cannot_hold_is_refused_and_gets_nowhere() -> None:
    """Neither into the answer, where it would make every later snapshot fail, nor in the way of the turn's header."""

    def write(event: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=r"is inf: JSON has no numbers that are not finite$"):
            chat.response.write({"type": "data-rate", "data": [math.inf]})

    async with mock_chat_agent(agent_of(saying("one"), on_turn_start=write)) as harness:
        turn = await harness.send_message("hello")

    assert turn.error is None
    assert part_types(turn.message) == ["step-start", "text"]
    assert texts(kept(harness)) == ["hello", "one"]
    assert dict(harness.out_records[0].headers) == {"turn-in-event-id": "0"}


async def test_a_writer_merges_a_stream_and_the_hook_s_caller_waits_for_it() -> None:
    """N-20."""

    async def chunks() -> Any:
        await chat.sleep(5)
        yield CHART

    async with mock_chat_agent(agent_of(on_turn_start=lambda event: event.writer.merge(chunks()))) as harness:
        turn = await harness.send_message("hello")

    assert types(turn)[:2] == ["data-chart", "start"]
    assert "data-chart" not in part_types(turn.message)


async def test_a_merged_stream_that_breaks_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    broken = ChunkStream([CHART], error=ValueError("broken"))

    async with mock_chat_agent(agent_of(on_turn_start=lambda event: event.writer.merge(broken))) as harness:
        turn = await harness.send_message("hello")

    assert turn.error is None
    assert caplog.messages == ["a stream merged by a hook failed: broken"]


async def test_chat_stream_writes_without_leaving_a_trace_in_the_answer() -> None:
    """N-23."""

    async def work(event: Any) -> None:
        def execute(writer: Any) -> None:
            writer.write(CHART)
            writer.merge(ChunkStream([NOTE]))

        await chat.stream.writer(execute=execute).wait_until_complete()
        await chat.stream.pipe(ChunkStream([{"type": "data-piped", "data": 1}])).wait_until_complete()
        await chat.stream.append({"type": "data-appended", "data": 2})

    async with mock_chat_agent(agent_of(on_turn_start=work)) as harness:
        turn = await harness.send_message("hello")

    assert chat.stream.id == "chat"
    assert types(turn)[:4] == ["data-chart", "data-note", "data-piped", "data-appended"]
    assert part_types(turn.message) == ["step-start", "text"]


async def test_what_fails_in_chat_stream_is_logged_and_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    async def work(event: Any) -> None:
        def fail(writer: Any) -> None:
            raise ValueError("no")

        await chat.stream.writer(execute=fail).wait_until_complete()
        await chat.stream.pipe(ChunkStream([], error=ValueError("no"))).wait_until_complete()

    async with mock_chat_agent(agent_of(on_turn_start=work)) as harness:
        turn = await harness.send_message("hello")

    assert turn.error is None
    assert caplog.messages == [
        "the function given to chat.stream.writer failed",
        "a stream given to chat.stream.pipe failed",
    ]


# --- piping ---


async def test_what_is_piped_by_hand_is_not_captured_and_what_run_returns_is_not_sent() -> None:
    """N-24."""
    model = saying("not sent")

    async def run(event: Any) -> Any:
        await chat.pipe(ChunkStream(CHUNKS))
        return asking(model)(event)

    async with mock_chat_agent(agent_of(run=run, on_turn_complete=nothing)) as harness:
        turn = await harness.send_message("hello")

    (event,) = events(harness, "on_turn_complete")
    assert types(turn) == [*(chunk["type"] for chunk in CHUNKS), "trigger:turn-complete"]
    assert turn.text == "piped"
    assert (turn.message, event.response_message, event.finish_reason) == (None, None, None)


async def test_the_usage_of_a_result_that_is_not_sent_is_counted() -> None:
    """T-37."""
    model = saying("not sent")

    async def run(event: Any) -> Any:
        await chat.pipe(ChunkStream(CHUNKS))
        return asking(model)(event)

    async with mock_chat_agent(agent_of(run=run, on_turn_complete=nothing)) as harness:
        await harness.send_message("hello")

    (event,) = events(harness, "on_turn_complete")
    assert len(model.do_stream_calls) == 1
    assert event.usage.total_tokens == event.total_usage.total_tokens == 20


async def test_stream_options_are_for_what_run_returns_and_not_for_what_is_piped_by_hand() -> None:
    """N-24, N-60."""
    model = saying("by hand", "returned")

    async def run(event: Any) -> Any:
        if len(events(harness, "run")) > 1:
            return asking(model)(event)
        chat.set_ui_message_stream_options({"generate_message_id": lambda: "made"})
        return await chat.pipe(asking(model)(event))

    options: Any = {"message_metadata": lambda part: {"type": part.type} if part.type == "start" else None}
    async with mock_chat_agent(agent_of(run=run, ui_message_stream_options=options)) as harness:
        piped = await harness.send_message("hello")
        returned = await harness.send_message("again")

    assert to_wire(piped.chunks[0]) == {"type": "start"}
    assert to_wire(returned.chunks[0]) == {"type": "start", "messageId": "made", "messageMetadata": {"type": "start"}}


async def test_a_model_s_answer_may_be_piped() -> None:
    model = saying("by hand")

    async def run(event: Any) -> None:
        await chat.pipe(asking(model)(event))

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("hello")

    assert turn.text == "by hand"
    assert turn.message is None


@pytest.mark.parametrize("source", ["iterable", "objects"])
async def test_any_async_iterable_of_chunks_may_be_piped(source: str) -> None:
    async def wire() -> Any:
        for chunk in CHUNKS:
            yield chunk

    async def objects() -> Any:
        for chunk in ChunkStream(CHUNKS)._chunks:  # pyright: ignore[reportPrivateUsage] - chunks as objects
            yield chunk

    async with mock_chat_agent(
        agent_of(run=lambda event: chat.pipe(wire() if source == "iterable" else objects()))
    ) as harness:
        turn = await harness.send_message("hello")

    assert turn.text == "piped"


async def test_data_that_is_written_beside_a_pipe_makes_the_answer() -> None:
    async def run(event: Any) -> None:
        chat.response.write(CHART)
        await chat.pipe(ChunkStream(CHUNKS))

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("hello")

    assert part_types(turn.message) == ["data-chart"]


async def test_a_pipe_whose_source_breaks_raises_in_the_caller() -> None:
    """N-24, F-47."""
    seen: list[str] = []

    async def run(event: Any) -> None:
        try:
            await chat.pipe(ChunkStream(CHUNKS[:3], error=ValueError("broken")))
        except ValueError as exc:
            seen.append(str(exc))

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("hello")

    assert seen == ["broken"]
    assert turn.error is None
    assert turn.text == "piped"


@pytest.mark.parametrize("source", [42, "text", None, [CHUNKS]])
async def test_what_yields_no_chunks_cannot_be_piped(source: Any) -> None:
    async with mock_chat_agent(agent_of(run=lambda event: chat.pipe(source))) as harness:
        turn = await harness.send_message("hello")

    assert isinstance(turn.error, TypeError)
    assert str(turn.error) == (
        "source must be an object with to_ui_message_stream (such as a StreamTextResult) or an async iterable of "
        f"chunks, not {source!r}"
    )


async def test_a_source_that_yields_no_chunk_fails_the_turn() -> None:
    async def source() -> Any:
        yield CHUNKS[0]
        yield {"no": "type"}

    async with mock_chat_agent(agent_of(run=lambda event: chat.pipe(source()))) as harness:
        turn = await harness.send_message("hello")

    assert isinstance(turn.error, ChunkError)
    assert types(turn) == ["start", *FAILED_TURN]


# --- deferred work ---


async def test_deferred_work_runs_beside_the_turn_and_is_waited_for_before_the_completion_hooks() -> None:
    """N-40, T-45."""
    order: list[str] = []

    async def work() -> None:
        order.append("began")
        await chat.sleep(2)
        order.append("done")

    def defer(event: Any) -> None:
        chat.defer(work)
        chat.defer(work())
        order.append("deferred")

    agent = agent_of(on_turn_start=defer, on_before_turn_complete=lambda event: order.append("before"))

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert order == ["deferred", "began", "began", "done", "done", "before"]


async def test_deferred_work_holds_the_turn_up_for_five_seconds_at_most(caplog: pytest.LogCaptureFixture) -> None:
    async with mock_chat_agent(agent_of(on_turn_start=lambda event: chat.defer(lambda: chat.sleep(8)))) as harness:
        began_at = harness.clock.now()
        turn = await harness.send_message("hello")
        took = harness.clock.now() - began_at

    assert turn.error is None
    assert took == 5
    assert caplog.messages == ["deferred work of agent 'tester' took longer than 5.0 s; the turn goes on"]


async def test_deferred_work_of_on_turn_complete_runs_while_the_run_waits() -> None:
    """N-40: the turn does not wait for it."""
    order: list[str] = []

    async def work() -> None:
        await chat.sleep(2)
        order.append("done")

    def defer(event: Any) -> None:
        chat.defer(work)

    async with mock_chat_agent(agent_of(on_turn_complete=defer)) as harness:
        await harness.send_message("hello")
        order.append("settled")
        await harness.advance(2)

    assert order == ["settled", "done"]


async def test_deferred_work_that_the_end_of_the_run_meets_may_finish() -> None:
    order: list[str] = []

    async def work() -> None:
        await chat.sleep(2)
        order.append("done")

    async with mock_chat_agent(agent_of(on_turn_complete=lambda event: chat.defer(work))) as harness:
        await harness.send_message("hello")

    assert order == ["done"]


OUTSIDE = (
    "chat.defer was called outside a turn; the work runs, but nothing waits for it before the run ends; call it from a "
    "hook of a turn"
)


async def test_deferring_outside_a_turn_raises_and_the_work_is_done_all_the_same() -> None:
    """G-41: silently dropped by the reference."""
    order: list[str] = []

    async def work() -> None:
        await chat.sleep(1)
        order.append("done")

    harness = mock_chat_agent(agent_of(on_boot=lambda event: chat.defer(work)))

    with pytest.raises(ChatContextError) as caught:
        await harness.start()
    await harness.close()

    assert str(caught.value) == OUTSIDE
    assert order == ["done"]


async def test_not_strict_deferring_outside_a_turn_warns_and_works_all_the_same() -> None:
    """G-41, `strict=False`."""
    order: list[str] = []

    async def work() -> None:
        await chat.sleep(1)
        order.append("done")

    with pytest.warns(RuntimeWarning) as told:
        async with mock_chat_agent(agent_of(on_boot=lambda event: chat.defer(work)), strict=False) as harness:
            await harness.send_message("hello")

    assert [str(each.message) for each in told] == [OUTSIDE]
    assert order == ["done"]


async def test_deferring_while_the_run_waits_is_logged_and_the_work_is_done(caplog: pytest.LogCaptureFixture) -> None:
    """G-41, G-29: a suspended run is in no turn either."""
    order: list[str] = []

    async def work() -> None:
        order.append("done")

    async with mock_chat_agent(agent_of(on_chat_suspend=lambda event: chat.defer(work))) as harness:
        await harness.send_message("hello")
        await harness.advance(60)

    assert order == ["done"]
    assert "`on_chat_suspend` of agent 'tester' failed; the run goes on" in caplog.messages


# --- injected messages ---

BACKGROUND = {"role": "system", "content": "The shop closes at five."}


async def test_injected_messages_are_for_the_model_alone_and_stay_there() -> None:
    """N-41, T-30."""
    model = saying("one", "two", "three")

    def inject(event: Any) -> None:
        if event.turn == 0:
            chat.inject([BACKGROUND])

    async with mock_chat_agent(agent_of(model, on_turn_complete=inject)) as harness:
        for text in ("a", "b", "c"):
            await harness.send_message(text)

    assert [roles(call.prompt) for call in model.do_stream_calls] == [
        ["user"],
        ["user", "assistant", "user", "system"],
        ["user", "assistant", "user", "system", "assistant", "user"],
    ]
    snapshot = harness.get_snapshot()
    assert snapshot is not None
    assert roles(snapshot.messages) == ["user", "assistant"] * 3


async def test_what_is_injected_before_the_model_is_asked_counts_in_the_same_turn() -> None:
    model = saying("one")

    async with mock_chat_agent(agent_of(model, on_turn_start=lambda event: chat.inject([BACKGROUND]))) as harness:
        await harness.send_message("a")

    assert roles(prompt_of(model)) == ["user", "system"]


async def test_injected_messages_wait_while_an_approval_stands_at_the_end() -> None:
    """T-30, F-79."""
    approved = tool_part("tc-1", "approval-responded", input={}, approval={"id": "ap-1", "approved": True})
    seen: list[list[str]] = []
    agent = agent_of(
        run=lambda event: seen.append(roles(event.messages)),
        on_turn_start=lambda event: chat.inject([BACKGROUND]) if event.turn == 0 else None,
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_message(assistant("a-1", approved))
        await harness.send_message("next")

    assert seen[0] == ["assistant", "tool"]
    assert seen[1][-1] == "system"


# --- options of the stream ---


async def test_stream_options_of_the_agent_hold_for_every_answer() -> None:
    thinking = script.reasoning("hm").text("so")
    agent = agent_of(saying(thinking, thinking), ui_message_stream_options={"send_reasoning": False})

    async with mock_chat_agent(agent) as harness:
        turns = [await harness.send_message("a"), await harness.send_message("b")]

    assert all("reasoning-start" not in types(turn) for turn in turns)


async def test_stream_options_that_are_set_hold_for_the_next_answer_alone() -> None:
    """N-60, F-100."""
    thinking = script.reasoning("hm").text("so")

    def set_once(event: Any) -> None:
        if event.turn == 0:
            chat.set_ui_message_stream_options({"send_reasoning": False})

    async with mock_chat_agent(agent_of(saying(thinking, thinking), on_turn_start=set_once)) as harness:
        first = await harness.send_message("a")
        second = await harness.send_message("b")

    assert "reasoning-start" not in types(first)
    assert "reasoning-start" in types(second)


async def test_the_agent_may_make_the_ids_of_its_answers() -> None:
    agent = agent_of(ui_message_stream_options={"generate_message_id": lambda: "mine"})

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")

    assert turn.message is not None
    assert turn.message.id == "mine"


# --- records of the run ---


class Visit(BaseModel):
    turns: int = 0
    name: str | None = None


@dataclass
class Plain:
    count: int


visit = chat.local(Visit, id="visit")
plain = chat.local(Plain, id="plain")
mapping: ChatLocal[dict[str, Any]] = chat.local(dict, id="mapping")


async def in_run(work: Callable[[], Any], *, boot: Callable[[], None] = lambda: None) -> Any:
    """What `work` returns when it is called in `on_turn_start`."""
    results: list[Any] = []
    agent = agent_of(on_boot=lambda event: boot(), on_turn_start=lambda event: results.append(work()))

    async with mock_chat_agent(agent) as harness:
        turn = await harness.send_message("hello")
        if turn.error is not None:
            raise turn.error
    return results[0]


async def test_a_record_is_set_up_read_and_changed_by_attribute() -> None:
    """N-36 to N-38."""

    def work() -> Any:
        fresh = visit.has_changed()
        visit.turns += 1
        return fresh, visit.turns, visit.has_changed(), visit.has_changed(), visit.get(), list(visit), "name" in visit

    result = await in_run(work, boot=lambda: visit.init({"turns": 4}))

    assert result == (False, 5, True, False, Visit(turns=5), ["turns", "name"], True)


RECORDS: list[tuple[Any, Any, str, Any]] = [
    (plain, Plain(1), "count", Plain(2)),
    (mapping, {"count": 1}, "count", {"count": 2}),
    (plain, {"count": 1}, "count", Plain(2)),
]


@pytest.mark.parametrize(("record", "value", "name", "changed"), RECORDS)
async def test_a_record_may_be_of_any_class_or_a_dict(record: Any, value: Any, name: str, changed: Any) -> None:
    def work() -> Any:
        before = getattr(record, name)
        setattr(record, name, 2)
        return before, record.get()

    assert await in_run(work, boot=lambda: record.init(value)) == (1, changed)


async def test_what_was_given_and_what_was_read_are_copies() -> None:
    given = Visit(turns=1)

    def work() -> Any:
        copy = visit.get()
        copy.turns = 99
        given.turns = 77
        return visit.turns

    assert await in_run(work, boot=lambda: visit.init(given)) == 1


async def test_a_record_that_was_not_set_up_reads_as_nothing_and_says_where_to_do_it() -> None:
    """N-36, F-23."""

    def work() -> Any:
        with pytest.raises(ChatContextError) as get:
            visit.get()
        with pytest.raises(ChatContextError) as change:
            visit.turns = 1
        return visit.turns, list(visit), visit.has_changed(), str(get.value), str(change.value)

    turns, names, changed, get_text, set_text = await in_run(work)

    assert (turns, names, changed) == (None, [], False)
    advice = (
        "called before the record was initialised in this run; call init() in `on_boot`, which every run calls "
        "(`on_chat_start` is not called when a conversation goes on in a new run)"
    )
    assert get_text == f"chat.local(id='visit'): get() was {advice}"
    assert set_text == f"chat.local(id='visit'): setting 'turns' was {advice}"


async def test_each_run_has_records_of_its_own() -> None:
    """D1."""
    seen: list[Any] = []

    def note(event: Any) -> None:
        visit.turns += 1
        seen.append(visit.turns)

    agent = agent_of(on_boot=lambda event: visit.init(Visit()), on_turn_start=note)

    async with mock_chat_agent(agent) as first, mock_chat_agent(agent) as second:
        await first.send_message("a")
        await second.send_message("a")
        await first.send_message("b")

    assert seen == [1, 1, 2]


async def test_tools_and_deferred_work_share_the_records_of_their_run() -> None:
    @tool
    async def count() -> int:
        """Count."""
        await chat.sleep(1)
        visit.turns += 1
        return visit.turns

    async def later() -> None:
        visit.turns += 1

    agent = agent_of(
        saying(script.tool_call("count", {}), "done"),
        tools=[count],
        on_boot=lambda event: visit.init(Visit()),
        on_turn_start=lambda event: chat.defer(later),
        on_turn_complete=lambda event: seen.append(visit.turns),
    )
    seen: list[int] = []

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("hello")

    assert seen == [2]


# --- locals, session id, context ---

DB = locals.create("db", dict[str, str])


async def test_locals_are_injected_before_the_run_starts() -> None:
    """MCA-022."""
    found: list[Any] = []
    agent = agent_of(
        hydrate_messages=lambda event: found.append(locals.get_or_throw(DB)["u-1"]) or event.incoming_messages
    )

    async with mock_chat_agent(agent, setup_locals=lambda values: values.set(DB, {"u-1": "user-u-1"})) as harness:
        await harness.send_message("hello")

    assert found == ["user-u-1"]


async def test_a_local_that_was_not_set_says_how_to_set_it() -> None:
    async with mock_chat_agent(agent_of(on_turn_start=lambda event: locals.get_or_throw(DB))) as harness:
        turn = await harness.send_message("hello")

    assert isinstance(turn.error, LocalNotFoundError)
    assert str(turn.error) == (
        "Local with id db not found: set it in `on_boot`, or in a test with `setup_locals`, before it is read"
    )


async def test_a_local_that_a_hook_sets_is_there_for_the_rest_of_the_run_and_no_longer() -> None:
    """X-11, X-40 to X-42."""
    key = locals.create("counter")

    def count(event: Any) -> None:
        locals.set(key, (locals.get(key) or 0) + 1)

    agent = agent_of(on_turn_start=count, on_turn_complete=lambda event: seen.append(locals.get(key)))
    seen: list[Any] = []

    for _ in range(2):
        async with mock_chat_agent(agent) as harness:
            await harness.send_message("a")
            await harness.send_message("b")

    assert seen == [1, 2, 1, 2]
    assert locals.get(key) is None
    assert locals.set(key, 5) == 5
    assert locals.get(key) is None


async def test_the_session_is_that_of_the_chat() -> None:
    assert await in_run(lambda: chat.session_id) == "test-chat"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: chat.response.write(CHART), "chat.response.write"),
        (lambda: chat.stream.writer(execute=nothing), "chat.stream.writer"),
        (lambda: chat.stream.pipe(ChunkStream([])), "chat.stream.pipe"),
        (lambda: chat.defer(lambda: chat.sleep(0)), "chat.defer"),
        (lambda: chat.inject([BACKGROUND]), "chat.inject"),
        (lambda: chat.end_run(), "chat.end_run"),
        (lambda: chat.request_upgrade(), "chat.request_upgrade"),
        (lambda: chat.is_stopped(), "chat.is_stopped"),
        (lambda: chat.set_turn_timeout(1), "chat.set_turn_timeout"),
        (lambda: chat.set_idle_timeout(1), "chat.set_idle_timeout"),
        (lambda: chat.set_ui_message_stream_options({}), "chat.set_ui_message_stream_options"),
        (lambda: chat.session_id, "chat.session_id"),
        (lambda: visit.init(Visit()), "chat.local.init"),
        (lambda: chat.history.set([]), "chat.history.set"),
    ],
)
async def test_outside_a_run_every_function_says_where_it_belongs(call: Any, name: str) -> None:
    with pytest.raises(ChatContextError) as caught:
        call()

    assert str(caught.value).startswith(f"{name} was called outside a run; call it from a hook, a tool or `run`")


async def test_cleaning_a_message_needs_no_run() -> None:
    """C-63."""
    message = assistant(
        "a-1",
        {"type": "text", "text": "half", "state": "streaming"},
        {"type": "reasoning", "text": "hm", "state": "streaming"},
        tool_part("tc-1", "input-streaming"),
        tool_part("tc-2", "input-available", input={}),
        tool_part("tc-3", "approval-requested", input={}, approval={"id": "ap"}),
        tool_part("tc-4", "output-available", input={}, output=1),
        {"type": "data-x", "data": 1},
    )

    cleaned = chat.cleanup_aborted_parts(message)

    assert [(part.type, getattr(part, "state", None)) for part in cleaned.parts] == [
        ("text", "done"),
        ("reasoning", "done"),
        ("tool-search", "approval-requested"),
        ("tool-search", "output-available"),
        ("data-x", None),
    ]
    assert chat.cleanup_aborted_parts(cleaned) is cleaned
    assert chat.cleanup_aborted_parts(user("u-1")) == user("u-1")


async def test_a_model_that_is_asked_beside_the_answer_knows_the_run_s_clock() -> None:
    slow = saying(script.pause(3600).text("slow"))

    async def run(event: Any) -> Any:
        aside = stream_text(model=slow, messages=event.messages, max_retries=0)
        return await aside.text

    async with mock_chat_agent(agent_of(run=run)) as harness:
        turn = await harness.send_message("hello")

    assert turn.error is None


async def test_model_lists_show_what_was_injected_from_the_answer_on() -> None:
    """G-52, T-30: hooks in front of the answer do not see it yet."""
    hooks = ("on_chat_start", "on_turn_start", "on_before_turn_complete", "on_turn_complete")
    agent = agent_of(saying("one"), on_boot=lambda event: chat.inject([BACKGROUND]), **dict.fromkeys(hooks, nothing))

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("a")

    shown = {name: roles(events(harness, name)[0].messages) for name in (*hooks, "run")}
    assert shown == {
        "on_chat_start": ["user"],
        "on_turn_start": ["user"],
        "run": ["user", "system"],
        "on_before_turn_complete": ["user", "system", "assistant"],
        "on_turn_complete": ["user", "system", "assistant"],
    }


async def test_what_on_boot_sets_up_is_there_in_every_run_of_a_conversation() -> None:
    """N-36, F-23: what `on_chat_start` sets up is missing in a continuation."""
    seen: list[tuple[int | None, bool]] = []
    once = chat.local(Visit, id="only-at-the-start")

    def look(event: Any) -> None:
        seen.append((visit.turns, "turns" in once))

    agent = agent_of(
        on_boot=lambda event: visit.init(Visit(turns=7)),
        on_chat_start=lambda event: once.init(Visit()),
        on_turn_start=look,
    )

    async with mock_chat_agent(agent) as harness:
        await harness.send_message("a")
        await harness.kill_run()
        await harness.continue_run()
        turn = await harness.send_message("b")

    assert seen == [(7, True), (7, False)]
    assert turn.error is None
