"""The words of a script: what they give, and what they refuse."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chatagent.errors import APICallError, InvalidArgumentError, InvalidStreamPartError, UnknownStreamPartError
from chatagent.model import (
    FinishReason,
    ModelError,
    ModelFile,
    ModelFinish,
    ModelPing,
    ModelReasoningDelta,
    ModelReasoningEnd,
    ModelReasoningStart,
    ModelSource,
    ModelTextDelta,
    ModelTextEnd,
    ModelTextStart,
    ModelToolCall,
    ModelToolInputDelta,
    ModelToolInputEnd,
    ModelToolInputStart,
    stream_part_to_wire,
)
from chatagent_test.scripting import Script, script
from chatagent_test.scripting.render import DEFAULT_USAGE, Action, IdCounter, render
from chatagent_test.scripting.steps import BreaksStep, HangStep, HoldStep, PauseStep

STOP = ModelFinish(FinishReason("stop"), DEFAULT_USAGE)


def actions(of: Script) -> list[Action]:
    return list(render(of, IdCounter()).actions)


def test_a_text_is_a_block_and_a_finish() -> None:
    assert actions(script.text("hi")) == [
        ModelTextStart("text-1"),
        ModelTextDelta("text-1", "hi"),
        ModelTextEnd("text-1"),
        STOP,
    ]


def test_the_default_usage_is_ten_tokens_each_way() -> None:
    assert stream_part_to_wire(STOP) == {
        "type": "finish",
        "finishReason": {"unified": "stop"},
        "usage": {"inputTokens": {"total": 10}, "outputTokens": {"total": 10}},
    }


def test_chunks_fix_the_deltas() -> None:
    said = actions(script.text("abc", chunks=["a", "", "bc"]))

    assert [part.delta for part in said if isinstance(part, ModelTextDelta)] == ["a", "", "bc"]


def test_a_tool_call_streams_its_input_and_ends_in_tool_calls() -> None:
    said = actions(script.tool_call("search", {"q": "ø", "n": [1, None]}))

    assert said == [
        ModelToolInputStart("call-1", "search"),
        ModelToolInputDelta("call-1", '{"q":"ø","n":[1,null]}'),
        ModelToolInputEnd("call-1"),
        ModelToolCall("call-1", "search", '{"q":"ø","n":[1,null]}'),
        ModelFinish(FinishReason("tool-calls"), DEFAULT_USAGE),
    ]


def test_the_raw_text_of_an_input_need_be_no_json() -> None:
    said = actions(script.tool_call("search", "{oops", tool_call_id="mine"))

    assert ModelToolCall("mine", "search", "{oops") in said


def test_words_chain_in_order_and_ids_are_counted_by_kind() -> None:
    said = actions(
        script.reasoning("hm").text("a").file(b"x", "text/plain").source("https://e.com", title="E").text("b")
    )

    assert said == [
        ModelReasoningStart("reasoning-1"),
        ModelReasoningDelta("reasoning-1", "hm"),
        ModelReasoningEnd("reasoning-1"),
        ModelTextStart("text-1"),
        ModelTextDelta("text-1", "a"),
        ModelTextEnd("text-1"),
        ModelFile("text/plain", b"x"),
        ModelSource("url", "source-1", url="https://e.com", title="E"),
        ModelTextStart("text-2"),
        ModelTextDelta("text-2", "b"),
        ModelTextEnd("text-2"),
        STOP,
    ]


def test_a_document_is_a_source_without_url() -> None:
    said = actions(script.source(media_type="text/plain", title="T", filename="t.txt", source_id="s"))

    assert said[0] == ModelSource("document", "s", media_type="text/plain", title="T", filename="t.txt")


def test_a_beginning_may_be_shared() -> None:
    beginning = script.text("a")

    left, right = beginning.text("b"), beginning.tool_call("t", {})

    assert len(beginning.steps) == 1
    assert (left.steps[0], left != right) == (beginning.steps[0], True)
    assert script == Script()


def test_an_own_finish_stands_for_the_default_one() -> None:
    said = actions(script.text("a").finish("length", usage={"inputTokens": {"total": 1}}))

    assert [stream_part_to_wire(part) for part in said if isinstance(part, ModelFinish)] == [
        {
            "type": "finish",
            "finishReason": {"unified": "length"},
            "usage": {"inputTokens": {"total": 1}, "outputTokens": {}},
        }
    ]


@pytest.mark.parametrize(
    "of",
    [
        script.text("a").hang(),
        script.text("a").breaks(RuntimeError("x")),
        script.text("a").error("x"),
        script.text("a").error("x").pause(1),
        script.parts([ModelTextStart("0")]),
    ],
)
def test_what_ends_otherwise_gets_no_finish(of: Script) -> None:
    assert STOP not in actions(of)


def test_what_goes_on_behind_an_error_part_gets_a_finish() -> None:
    assert actions(script.text("a").error("x").text("b"))[-1] == STOP


def test_parts_are_sent_as_they_are_and_may_be_in_wire_form() -> None:
    ping = ModelPing()

    said = actions(script.parts([ping, {"type": "text-start", "id": "7"}]))

    assert said[0] is ping
    assert said[1:] == [ModelTextStart("7")]


def test_waits_and_breaks_stand_where_they_were_written() -> None:
    failure = RuntimeError("x")

    said = actions(script.pause(0.5).parts([ModelPing()]).hold("mid").breaks(failure))

    assert said == [PauseStep(0.5), ModelPing(), HoldStep("mid"), BreaksStep(failure)]
    assert actions(script.hang()) == [HangStep()]


def test_an_error_before_any_output_fails_the_call() -> None:
    refused = render(script.pause(1).error(429, retry_after=1.5), IdCounter())
    failure = RuntimeError("x")

    assert refused.waits == (PauseStep(1),)
    assert isinstance(refused.failure, APICallError)
    assert str(refused.failure) == "429 Too Many Requests"
    assert (refused.failure.status_code, refused.failure.is_retryable) == (429, True)
    assert refused.failure.response_headers == {"retry-after": "1.5"}
    assert render(script.error(failure), IdCounter()).failure is failure
    assert isinstance(render(script.error("busy"), IdCounter()).failure, APICallError)


def test_an_error_after_output_is_a_part() -> None:
    failure = RuntimeError("x")

    said = actions(script.text("a").error(failure).error("busy"))

    assert said[3:] == [ModelError(failure), ModelError("busy")]


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (lambda: script.text(7), "`text` is 7: it is a string"),  # type: ignore[arg-type]
        (lambda: script.text("abc", chunks=["a", "b"]), "`chunks` is ['a', 'b']: a list of strings which together"),
        (lambda: script.text("abc", chunks="abc"), "`chunks` is 'abc'"),
        (lambda: script.tool_call("", {}), "`name` is ''"),
        (lambda: script.tool_call("t", {"x": float("nan")}), "`input` is {'x': nan}: a tool call's input is JSON"),
        (lambda: script.tool_call("t", {"x": object}), "a tool call's input is JSON"),
        (lambda: script.tool_call("t", {}, tool_call_id="a").tool_call("t", {}, tool_call_id="a"), "`tool_call_id`"),
        (lambda: script.source(title="T"), "`url` is None: a source has a `url`"),
        (lambda: script.error(200), "`error_or_status` is 200: an HTTP status of an error is 400 to 599"),
        (lambda: script.error(None), "`error_or_status` is None: give an exception, a text, or an HTTP status"),  # type: ignore[arg-type]
        (lambda: script.error("x", retry_after=1), "`retry_after` is 1: it is 0 seconds or more, and goes with a"),
        (lambda: script.finish("done"), "`reason` is 'done': it is one of stop"),  # type: ignore[arg-type]
        (lambda: script.pause(-1), "`seconds` is -1: a pause is 0 seconds or more"),
        (lambda: script.hold(""), "`name` is ''"),
        (lambda: script.breaks("x"), "`exception` is 'x': give an exception object"),  # type: ignore[arg-type]
        (lambda: script.hang().text("a"), "nothing comes behind `hang`"),
        (lambda: script.breaks(OSError()).pause(1), "nothing comes behind `hang`, `breaks`"),
        (lambda: script.error(500).text("a"), "or an error before any output"),
        (lambda: script.finish("stop").text("a"), "nothing is said behind `finish`"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(write: Any, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(text)):
        write()


def test_parts_are_checked_where_they_are_written() -> None:
    with pytest.raises(UnknownStreamPartError):
        script.parts([{"type": "txt"}])
    with pytest.raises(InvalidStreamPartError):
        script.parts([{"type": "text-start"}])


def test_a_script_shows_itself_as_it_is_written() -> None:
    said = (
        script.reasoning("hm")
        .text("I look. ", chunks=["I ", "look. "])
        .tool_call("search", {"q": "tea"}, tool_call_id="c-1")
        .pause(3)
        .hold("here")
        .source("https://example.com", title="Tea")
        .text("x" * 100)
    )

    assert repr(said.hang()) == (
        "script.reasoning('hm').text('I look. ').tool_call('search', '{\"q\":\"tea\"}').pause(3).hold('here')"
        f".source('https://example.com', 'Tea').text('{'x' * 58}…).hang()"
    )
    assert repr(script.parts([STOP])) == "script.parts(['ModelFinish'])"
    assert repr(script.text("a").breaks(ValueError("b"))) == "script.text('a').breaks(ValueError('b'))"
