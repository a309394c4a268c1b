"""What can be awaited of a call, how it fails, and what its callbacks hear."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from chatagent.current import current_clock
from chatagent.errors import (
    APICallError,
    InvalidArgumentError,
    InvalidPromptError,
    ModelNameError,
    NoOutputGeneratedError,
    RetryError,
    StreamProviderError,
    ToolDefinitionError,
)
from chatagent.generate import FullTextDelta, error_text, is_step_count, stream_text, tool
from chatagent.generate.retry import retry_delay
from chatagent.generate.texts import provider_error
from chatagent.model import JsonResponseFormat, SystemMessage, UserMessage
from chatagent_test.language_model import MockLanguageModel
from chatagent_test.scripting import script
from support.virtual_run import VirtualRun, play

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chatagent.generate import FullStreamPart

pytestmark = pytest.mark.anyio

SYSTEM_FIRST = [SystemMessage("Rules."), UserMessage("Hi")]


@tool
def double(n: int) -> int:
    return 2 * n


async def types_of(stream: Any) -> list[str]:
    return [part.type async for part in stream]


async def test_single_values_are_of_the_last_step_and_lists_of_all() -> None:
    first = script.text("Let me see.").source("https://a.example").tool_call("double", {"n": 2}).finish("tool-calls")
    second = script.reasoning("hm").text("4").file(b"x", "text/plain").finish("stop")

    result = stream_text(
        model=MockLanguageModel([first, second]), prompt="Hi", tools=[double], stop_when=is_step_count(5)
    )

    assert (await result.text, await result.reasoning_text, await result.finish_reason) == ("4", "hm", "stop")
    assert [len(await each) for each in (result.tool_calls, result.tool_results, result.sources)] == [1, 1, 1]
    assert (await result.static_tool_calls, await result.dynamic_tool_calls) == (await result.tool_calls, ())
    assert [file.content for file in await result.files] == [b"x"]
    assert len(await result.steps) == 2
    assert await result.usage == await result.total_usage
    assert [message.role for message in await result.response_messages] == ["assistant", "tool", "assistant"]


async def test_a_value_may_be_awaited_as_often_as_wanted() -> None:
    model = MockLanguageModel(script.text("Hello"))
    result = stream_text(model=model, prompt="Hi")
    text = result.text

    assert (await text, await text, await result.text) == ("Hello", "Hello", "Hello")
    assert len(model.do_stream_calls) == 1


async def test_a_call_that_fails_gives_no_values_and_says_why() -> None:
    errors: list[object] = []
    result = stream_text(model=MockLanguageModel(script.error(400)), prompt="Hi", on_error=errors.append)

    assert await types_of(result.full_stream) == ["start", "error"]
    with pytest.raises(
        NoOutputGeneratedError, match=r"^No output generated\. Check the stream for errors\.$"
    ) as caught:
        await result.text
    with pytest.raises(APICallError):
        await result.response_messages
    assert caught.value.__cause__ is errors[0]


async def test_a_later_step_that_cannot_be_asked_leaves_the_finished_ones() -> None:
    ended: list[Any] = []
    step_errors: list[Any] = []
    model = MockLanguageModel([script.tool_call("double", {"n": 2}).finish("tool-calls"), script.error(400)])

    result = stream_text(
        model=model,
        prompt="Hi",
        tools=[double],
        stop_when=is_step_count(5),
        on_error=lambda _error: None,
        on_step_error=step_errors.append,
        on_end=ended.append,
    )

    assert (len(await result.steps), await result.finish_reason) == (1, "other")
    assert (ended[0].finish_reason, step_errors[0].step_number) == ("tool-calls", 1)


async def test_a_retryable_error_is_tried_again_after_ever_longer_waits() -> None:
    async def main() -> tuple[str, float]:
        model = MockLanguageModel([script.error(503), script.error(429, retry_after=1.5), script.text("there")])
        started = current_clock().now()
        text = await stream_text(model=model, prompt="Hi").text
        return text, current_clock().now() - started

    assert await play(main) == ("there", 2 + 1.5)


async def test_a_call_that_fails_too_often_is_a_retry_error_with_every_try() -> None:
    errors: list[Any] = []

    async def main() -> None:
        model = MockLanguageModel([script.error(500), script.error(500)])
        await stream_text(model=model, prompt="Hi", max_retries=1, on_error=errors.append).consume_stream()

    await play(main)

    (error,) = errors
    assert isinstance(error, RetryError)
    assert (error.reason, len(error.errors)) == ("max-retries-exceeded", 2)
    assert str(error).startswith("Failed after 2 attempts. Last error: APICallError: ")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 4),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "61"}, 4),
        ({"retry-after": "-1"}, 4),
        ({"retry-after": "soon"}, 4),
        ({"retry-after": "Wed, 01 Jan 2025 00:00:30 GMT"}, 30),
    ],
)
def test_a_provider_that_asks_for_a_sensible_wait_gets_it(headers: dict[str, str], seconds: float) -> None:
    error = APICallError("busy", status_code=429, response_headers=headers)

    assert retry_delay(error, 4, now=1735689600.0) == seconds


async def test_a_stream_that_sends_an_error_is_tried_again_if_asked_for() -> None:
    async def main() -> list[tuple[str, str]]:
        broken = script.text("Hal").tool_call("double", {"n": 1}).parts([{"type": "error", "error": "overloaded"}])
        model = MockLanguageModel([broken, script.text("Hello")])
        result = stream_text(model=model, prompt="Hi", tools=[double], stream_retries=1)
        parts = [part async for part in result.full_stream]
        assert await result.finish_reason == "stop"
        return [(part.type, getattr(part, "text", "")) for part in parts]

    assert await play(main) == [
        ("start", ""),
        ("start-step", ""),
        ("text-start", ""),
        ("text-delta", "Hal"),
        ("text-end", ""),
        ("text-start", ""),
        ("text-delta", "Hello"),
        ("text-end", ""),
        ("finish-step", ""),
        ("finish", ""),
    ]


async def test_held_back_tool_parts_come_when_the_stream_proves_good() -> None:
    model = MockLanguageModel(script.tool_call("double", {"n": 2}).text("wait").finish("tool-calls"))

    result = stream_text(model=model, prompt="Hi", tools=[double], stream_retries=1)

    assert [part.output for part in await result.tool_results] == [4]
    assert [part.type for part in (await result.steps)[0].content] == ["tool-call", "text", "tool-result"]


async def test_a_step_that_was_tried_again_holds_nothing_of_the_failed_try() -> None:
    errors: list[object] = []

    async def main() -> Any:
        broken = script.reasoning("hm").text("Hal").parts([{"type": "error", "error": "overloaded"}])
        model = MockLanguageModel([broken, script.text("Hello")])
        result = stream_text(model=model, prompt="Hi", stream_retries=1, on_error=errors.append)
        return (await result.steps)[0]

    step = await play(main)

    assert (step.text, step.reasoning_text, errors) == ("Hello", None, ["overloaded"])


async def test_a_stream_that_cannot_be_tried_again_ends_its_step_with_the_error() -> None:
    errors: list[object] = []
    refused = ConnectionError("refused")

    async def main() -> Any:
        broken = script.text("Hal").parts([{"type": "error", "error": "overloaded"}])
        result = stream_text(
            model=MockLanguageModel([broken, script.error(refused)]),
            prompt="Hi",
            stream_retries=1,
            on_error=errors.append,
        )
        return (await result.steps)[0]

    step = await play(main)

    assert (step.text, step.finish_reason, errors) == ("Hal", "error", ["overloaded", refused])


async def test_tries_that_are_spent_are_said_to_be_even_if_the_last_error_was_not_retryable() -> None:
    async def main() -> list[object]:
        errors: list[object] = []
        model = MockLanguageModel([script.error(429), script.error(ConnectionError("reset"))])
        await stream_text(model=model, prompt="Hi", max_retries=1, on_error=errors.append).consume_stream()
        return errors

    (error,) = await play(main)

    assert isinstance(error, RetryError)
    assert str(error) == "Failed after 2 attempts. Last error: ConnectionError: reset"


async def test_system_messages_are_refused_unless_allowed_or_in_a_turn() -> None:
    async def main() -> Any:
        result = stream_text(model=MockLanguageModel(script.text("ok")), messages=SYSTEM_FIRST, on_error=errors.append)
        await result.consume_stream()
        return result

    errors: list[object] = []
    await play(main)
    assert [type(error) for error in errors] == [InvalidPromptError]

    errors.clear()
    await VirtualRun(in_turn=True).play(main)
    assert errors == []


async def test_an_answer_of_a_shape_is_asked_for_and_checked() -> None:
    model = MockLanguageModel([script.text('{"city": "Oslo"}'), script.text('{"town": "Oslo"}')])

    class Place(BaseModel):
        city: str

    good = stream_text(model=model, prompt="Hi", output=Place)
    bad = stream_text(model=model, prompt="Hi", output=Place)

    assert await good.output == Place(city="Oslo")
    with pytest.raises(NoOutputGeneratedError, match=r"`input.city`: Field required$"):
        await bad.output
    assert isinstance(model.do_stream_calls[0].response_format, JsonResponseFormat)


async def test_transforms_change_the_stream_and_the_values() -> None:
    def shout(part: FullStreamPart) -> Iterable[FullStreamPart]:
        return [FullTextDelta(part.id, part.text.upper())] if isinstance(part, FullTextDelta) else [part]

    def twice(part: FullStreamPart) -> Iterable[FullStreamPart]:
        return [part, part] if isinstance(part, FullTextDelta) else [part]

    result = stream_text(
        model=MockLanguageModel(script.text("ab", chunks=["a", "b"])), prompt="Hi", transforms=[shout, twice]
    )

    assert [text async for text in result.text_stream] == ["A", "A", "B", "B"]
    assert await result.text == "AABB"


async def test_what_a_callback_raises_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(_event: object) -> None:
        raise ValueError("oh no")

    result = stream_text(
        model=MockLanguageModel(script.text("Hello")),
        prompt="Hi",
        on_start=broken,
        on_step_start=broken,
        on_chunk=broken,
        on_step_end=broken,
        on_end=broken,
    )

    assert await result.text == "Hello"
    raised = {record.getMessage() for record in caplog.records}
    assert "stream_text: `on_end` raised" in raised
    assert len(raised) == 5


async def test_without_on_error_an_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="chatagent"):
        await stream_text(model=MockLanguageModel(script.error(400)), prompt="Hi").consume_stream()

    assert [(record.name, record.levelname) for record in caplog.records] == [("chatagent", "ERROR")]


async def test_callbacks_come_in_order() -> None:
    order: list[str] = []
    names = (
        "on_start",
        "on_step_start",
        "on_language_model_call_start",
        "on_language_model_call_end",
        "on_tool_execution_start",
        "on_tool_execution_end",
        "on_step_end",
        "on_end",
    )
    callbacks: Any = {name: lambda _event, name=name: order.append(name) for name in names}
    model = MockLanguageModel(script.tool_call("double", {"n": 2}).finish("tool-calls"))

    await stream_text(
        model=model,
        prompt="Hi",
        tools=[double],
        prepare_step=lambda _event: order.append("prepare_step"),  # type: ignore[func-returns-value] - appends
        **callbacks,
    ).consume_stream()

    assert order == ["on_start", "prepare_step", *names[1:]]


async def test_a_setting_of_prepare_step_that_is_out_of_range_fails_the_step() -> None:
    errors: list[object] = []

    result = stream_text(
        model=MockLanguageModel(script.text("a")),
        prompt="Hi",
        prepare_step=lambda _event: {"max_output_tokens": 0},
        on_error=errors.append,
    )
    await result.consume_stream()

    assert [type(error) for error in errors] == [InvalidArgumentError]


def test_arguments_out_of_range_are_refused_at_once() -> None:
    model = MockLanguageModel(script.text("a"))

    with pytest.raises(ModelNameError, match="gpt"):
        stream_text(model="gpt", prompt="Hi")
    with pytest.raises(InvalidArgumentError, match=r"^`model` is None: a model object"):
        stream_text(model=None, prompt="Hi")  # type: ignore[arg-type] - that is the point
    with pytest.raises(InvalidArgumentError, match=r"^`max_retries` is -1: "):
        stream_text(model=model, prompt="Hi", max_retries=-1)
    with pytest.raises(InvalidArgumentError, match=r"^`tool_call_concurrency` is 0: "):
        stream_text(model=model, prompt="Hi", tool_call_concurrency=0)
    with pytest.raises(InvalidArgumentError, match=r"^`tool_call_concurrency` is 1.5: "):
        stream_text(model=model, prompt="Hi", tool_call_concurrency=1.5)  # type: ignore[arg-type] - that is the point
    with pytest.raises(InvalidArgumentError, match=r"^`max_output_tokens` is 0: it is a whole number, 1 or more$"):
        stream_text(model=model, prompt="Hi", max_output_tokens=0)
    with pytest.raises(InvalidArgumentError, match=r"^`seed` is 1.5: it is a whole number$"):
        stream_text(model=model, prompt="Hi", seed=1.5)  # type: ignore[arg-type] - that is the point
    with pytest.raises(InvalidArgumentError, match=r"^`tool_choice` is 'maybe': "):
        stream_text(model=model, prompt="Hi", tool_choice="maybe")
    with pytest.raises(InvalidArgumentError, match=r"^`prompt` is 5: give a list of messages, or as `prompt` a text$"):
        stream_text(model=model, prompt=5)  # type: ignore[arg-type] - that is the point
    with pytest.raises(InvalidArgumentError, match=r"^`messages` is {'role': 'user'}: give a list of messages, "):
        stream_text(model=model, messages={"role": "user"})  # type: ignore[arg-type] - that is the point
    with pytest.raises(InvalidArgumentError, match=r"^`stop_when` is 5: give a condition, such as is_step_count\(5\)"):
        stream_text(model=model, prompt="Hi", stop_when=5)  # type: ignore[arg-type] - that is the point
    with pytest.raises(InvalidArgumentError, match=r"^`stop_when\[1\]` is 5: "):
        stream_text(model=model, prompt="Hi", stop_when=[is_step_count(2), 5])  # type: ignore[list-item] - likewise
    with pytest.raises(InvalidArgumentError, match=r"^`count` is 0: "):
        is_step_count(0)
    with pytest.raises(TypeError, match=r"unexpected keyword arguments: on_finish$"):
        stream_text(model=model, prompt="Hi", on_finish=print)  # type: ignore[call-arg] - that is the point
    with pytest.raises(TypeError, match=r"unexpected keyword arguments: message \(did you mean messages\?\)$"):
        stream_text(model=model, message=[])  # type: ignore[call-arg] - that is the point
    with pytest.raises(
        InvalidArgumentError, match=r"^`timeout` is {'chunk': 3}: seconds for the whole call, or `Timeouts\("
    ):
        stream_text(model=model, prompt="Hi", timeout={"chunk": 3})  # type: ignore[arg-type] - that is the point
    with pytest.raises(InvalidArgumentError, match=r"^`max_retries` is '3': it must be 0 or more$"):
        stream_text(model=model, prompt="Hi", max_retries="3")  # type: ignore[arg-type] - that is the point
    with pytest.raises(ToolDefinitionError, match=r"^`tools` is 5; give a list of tools, or tools by name$"):
        stream_text(model=model, prompt="Hi", tools=5)  # type: ignore[arg-type] - that is the point


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (None, "unknown error"),
        ("as it is", "as it is"),
        (ValueError("no"), "ValueError: no"),
        (KeyError(), "KeyError"),
        ({"code": 42, "ä": [1]}, '{"code":42,"ä":[1]}'),
    ],
)
def test_anything_has_an_error_text(error: object, text: str) -> None:
    assert error_text(error) == text


@pytest.mark.parametrize(
    "payload",
    [
        {"message": "busy", "type": "overloaded", "code": 529, "status": 529},
        {"status": 529, "error": {"message": "busy", "type": "overloaded", "code": 529}},
        {"response": {"error": {"message": "busy", "type": "overloaded", "code": 529, "statusCode": 529}}},
    ],
)
def test_a_providers_error_payload_becomes_an_error(payload: Any) -> None:
    error = provider_error(payload)

    assert isinstance(error, StreamProviderError)
    assert (str(error), error.error_type, error.code, error.status_code) == ("busy", "overloaded", 529, 529)
    assert error.payload == payload


def test_a_payload_without_message_stays_as_it_is() -> None:
    assert provider_error({"code": 1}) == {"code": 1}
    assert provider_error("text") == "text"
