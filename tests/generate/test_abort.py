"""Abort at every point of a call, and the limits that abort it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from chatagent.current import current_clock
from chatagent.errors import AbortError, InvalidArgumentError
from chatagent.generate import Timeouts, ToolCallOptions, is_step_count, stream_text, tool
from chatagent.model import StreamResult
from chatagent.signals import AbortController
from chatagent.timers import call_at
from chatagent.ui import to_wire
from chatagent_test.language_model import MockLanguageModel
from chatagent_test.scripting import script
from support.virtual_run import play

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chatagent.generate import AbortEvent, StepResult, StreamTextResult

pytestmark = pytest.mark.anyio


@tool
async def double(n: int) -> int:
    return 2 * n


class Observed:
    """A call, everything that its callbacks say, and the types of its chunks."""

    def __init__(self, model: Any, controller: AbortController, **options: Any) -> None:
        self.events: list[str] = []
        self.aborted: list[AbortEvent] = []
        self.chunks: list[Any] = []
        self.result: StreamTextResult = stream_text(
            model=model,
            prompt="Hi",
            abort_signal=controller.signal,
            stop_when=is_step_count(5),
            on_abort=self.aborted.append,
            on_step_end=lambda _step: self.events.append("step end"),
            on_end=lambda _event: self.events.append("end"),
            on_error=lambda error: self.events.append(f"error: {error}"),
            **options,
        )

    async def pump(self) -> list[str]:
        await self.result.to_ui_message_stream().pump(lambda chunk: self.chunks.append(to_wire(chunk)))
        return [chunk["type"] for chunk in self.chunks]


def stuck_after(*parts: dict[str, Any]) -> Any:
    """Return a model whose stream gives these parts, says so by a callback, and never goes on."""
    return lambda then: MockLanguageModel(do_stream=lambda _options: StreamResult(stream=_stuck(parts, then)))


async def _stuck(parts: Any, then: Any) -> AsyncIterator[Any]:
    for part in parts:
        yield part
    then()
    await anyio.sleep_forever()


TEXT = ({"type": "text-start", "id": "1"}, {"type": "text-delta", "id": "1", "delta": "Hel"})
INPUT = (
    {"type": "tool-input-start", "id": "c", "toolName": "double"},
    {"type": "tool-input-delta", "id": "c", "delta": '{"n"'},
)


@pytest.mark.parametrize(
    ("parts", "types"),
    [
        ((), ["start", "abort"]),
        (({"type": "stream-start", "warnings": []},), ["start", "abort"]),
        (TEXT, ["start", "start-step", "text-start", "text-delta", "abort"]),
        (INPUT, ["start", "start-step", "tool-input-start", "tool-input-delta", "abort"]),
    ],
    ids=["nothing", "no token", "text", "tool input"],
)
async def test_an_abort_ends_a_stream_that_hangs_at_once(parts: Any, types: list[str]) -> None:
    controller = AbortController()
    observed = Observed(stuck_after(*parts)(lambda: controller.abort("stop")), controller, tools=[double])

    assert await observed.pump() == types
    assert observed.chunks[-1] == {"type": "abort", "reason": "stop"}
    assert (observed.events, len(observed.aborted), observed.aborted[0].reason) == ([], 1, "stop")
    with pytest.raises(AbortError, match=r"^This operation was aborted: stop$"):
        await observed.result.text


async def test_a_call_that_was_aborted_before_it_began_tells_the_model_so_and_takes_nothing_from_it() -> None:
    controller = AbortController()
    controller.abort()
    model = MockLanguageModel(script.text("never"))
    observed = Observed(model, controller)

    assert await observed.pump() == ["start", "abort"]
    assert observed.chunks[-1]["reason"] == "AbortError: This operation was aborted"
    assert len(observed.aborted) == 1
    (call,) = model.do_stream_calls
    assert call.abort_signal is not None
    assert call.abort_signal.aborted


async def _fail(_options: Any) -> StreamResult:
    raise RuntimeError("nobody asks me like that")


async def _hang(_options: Any) -> StreamResult:
    await anyio.sleep_forever()
    raise AssertionError("unreachable")


@pytest.mark.parametrize("do_stream", [_fail, _hang])
async def test_what_a_model_does_with_a_call_that_was_aborted_before_it_began_does_not_matter(do_stream: Any) -> None:
    controller = AbortController()
    controller.abort("enough")
    observed = Observed(MockLanguageModel(do_stream=do_stream), controller)

    assert await observed.pump() == ["start", "abort"]
    assert observed.chunks[-1]["reason"] == "enough"


async def test_an_abort_from_the_sink_is_the_last_thing_that_comes() -> None:
    controller = AbortController()
    observed = Observed(MockLanguageModel(script.text("abcdef", chunks=list("abcdef"))), controller)

    def sink(chunk: Any) -> None:
        observed.chunks.append(to_wire(chunk))
        if getattr(chunk, "delta", None) == "c":
            controller.abort(ValueError("no more c"))

    await observed.result.to_ui_message_stream().pump(sink)

    assert [chunk.get("delta") for chunk in observed.chunks[3:-1]] == ["a", "b", "c"]
    assert observed.chunks[-1] == {"type": "abort", "reason": "ValueError: no more c"}
    with pytest.raises(ValueError, match=r"^no more c$"):
        await observed.result.steps


async def test_an_abort_while_a_tool_runs_ends_the_stream_while_the_tool_goes_on() -> None:
    controller = AbortController()
    finished: list[str] = []

    async def main() -> list[str]:
        @tool
        async def slow(options: ToolCallOptions) -> str:
            controller.abort("stop")
            await current_clock().sleep(60)
            finished.append(f"aborted: {options.abort_signal.aborted}")
            return "late"

        model = MockLanguageModel([script.tool_call("slow", {}).finish("tool-calls"), script.text("never")])
        observed = Observed(
            model, controller, tools=[slow], on_tool_execution_end=lambda event: finished.append(event.output.type)
        )
        types = await observed.pump()
        assert finished == []
        assert len(model.do_stream_calls) == 1
        return types

    assert (await play(main))[-2:] == ["tool-input-available", "abort"]
    assert finished == ["aborted: True", "tool-result"]


async def test_an_abort_in_a_later_step_leaves_the_finished_steps_alone() -> None:
    controller = AbortController()
    first = script.tool_call("double", {"n": 2}, tool_call_id="c").finish("tool-calls")
    model = MockLanguageModel([first, script.text("It is").hold("here")])
    observed = Observed(model, controller, tools=[double])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(observed.pump)
        await model.reached("here")
        controller.abort()

    types = [chunk["type"] for chunk in observed.chunks]
    assert types[types.index("finish-step") + 1 :] == ["start-step", "text-start", "text-delta", "text-end", "abort"]
    assert observed.events == ["step end"]
    (event,) = observed.aborted
    assert ([step.text for step in event.steps], type(event.reason)) == ([""], AbortError)


async def test_a_callback_that_waits_is_not_cut_in_two_by_an_abort() -> None:
    controller = AbortController()
    done: list[str] = []

    async def on_step_end(_step: StepResult) -> None:
        controller.abort("stop")
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        done.append("saved")

    chunks: list[Any] = []
    result = stream_text(
        model=MockLanguageModel(script.text("Hello")),
        prompt="Hi",
        abort_signal=controller.signal,
        on_step_end=on_step_end,
    )
    await result.to_ui_message_stream().pump(chunks.append)

    assert done == ["saved"]
    assert [chunk.type for chunk in chunks][-2:] == ["finish-step", "abort"]


async def test_an_abort_after_the_finish_part_comes_too_late() -> None:
    controller = AbortController()
    chunks: list[Any] = []

    def sink(chunk: Any) -> None:
        chunks.append(chunk.type)
        if chunk.type == "finish":
            controller.abort()

    result = stream_text(model=MockLanguageModel(script.text("a")), prompt="Hi", abort_signal=controller.signal)
    await result.to_ui_message_stream().pump(sink)

    assert chunks[-1] == "finish"
    assert await result.text == "a"


async def test_an_abort_ends_a_wait_between_two_tries() -> None:
    async def main() -> tuple[list[str], float]:
        controller = AbortController()
        observed = Observed(MockLanguageModel([script.error(503), script.text("never")]), controller)
        started = current_clock().now()
        call_at(current_clock(), started + 0.5, lambda: controller.abort("stop"), kind="sleep")
        return await observed.pump(), current_clock().now() - started

    assert await play(main) == (["start", "abort"], 0.5)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (0.5, "TimeoutError: The operation was aborted due to timeout"),
        (Timeouts(step=0.25), "TimeoutError: Step timeout of 250ms exceeded"),
        (Timeouts(first_chunk=0.1, total=9), "TimeoutError: First chunk timeout of 100ms exceeded"),
    ],
    ids=["total", "step", "first chunk"],
)
async def test_a_limit_aborts_a_model_that_hangs(limits: Any, reason: str) -> None:
    async def main() -> list[Any]:
        chunks: list[Any] = []
        result = stream_text(model=MockLanguageModel(script.hang()), prompt="Hi", timeout=limits)
        await result.to_ui_message_stream().pump(lambda chunk: chunks.append(to_wire(chunk)))
        with pytest.raises(TimeoutError):
            await result.text
        return chunks

    assert (await play(main))[-1] == {"type": "abort", "reason": reason}


async def test_the_chunk_limit_counts_from_the_last_output_and_not_while_tools_run() -> None:
    async def main() -> tuple[list[str], float]:
        @tool
        async def slow() -> None:
            await current_clock().sleep(100)

        steady = script.text("a").pause(3).text("b").pause(3).tool_call("slow", {}).finish("tool-calls")
        stalls = script.text("c").pause(60).text("never")
        chunks: list[Any] = []
        result = stream_text(
            model=MockLanguageModel([steady, stalls]),
            prompt="Hi",
            tools=[slow],
            stop_when=is_step_count(5),
            timeout=Timeouts(chunk=5),
        )
        started = current_clock().now()
        await result.to_ui_message_stream().pump(lambda chunk: chunks.append(to_wire(chunk)))
        assert chunks[-1] == {"type": "abort", "reason": "TimeoutError: Chunk timeout of 5000ms exceeded"}
        return [chunk["delta"] for chunk in chunks if "delta" in chunk], current_clock().now() - started

    assert await play(main) == (["a", "b", "c"], 3 + 3 + 100 + 5)


async def test_a_tools_limit_aborts_the_signal_of_that_tool_only() -> None:
    async def main() -> list[Any]:
        @tool
        async def patient(options: ToolCallOptions) -> None:
            await options.abort_signal.wait()
            options.abort_signal.raise_if_aborted()

        @tool
        async def quick() -> str:
            await current_clock().sleep(30)
            return "done"

        calls = script.tool_call("patient", {}).tool_call("quick", {}).finish("tool-calls")
        result = stream_text(
            model=MockLanguageModel(calls),
            prompt="Hi",
            tools=[patient, quick],
            timeout=Timeouts(tool=5, tools={"quick": 60}),
        )
        return [*(await result.tool_errors), *(await result.tool_results)]

    error, output = await play(main)

    assert (type(error.error), error.tool_name) == (AbortError, "patient")
    assert (output.output, output.tool_name) == ("done", "quick")


async def test_nothing_is_left_on_the_clock_when_a_call_with_limits_has_ended() -> None:
    async def main() -> list[Any]:
        limits = Timeouts(total=60, step=50, first_chunk=40, chunk=30, tool=20)
        result = stream_text(model=MockLanguageModel(script.text("a").text("b")), prompt="Hi", timeout=limits)
        assert await result.text == "ab"
        return current_clock().pending  # type: ignore[attr-defined] - the virtual clock's

    assert await play(main) == []


def test_a_limit_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^`timeout.step` is 0: a limit is more than 0 seconds"):
        Timeouts(step=0)
    with pytest.raises(InvalidArgumentError, match=r"^`timeout.search` is -1: "):
        Timeouts(tools={"search": -1})
