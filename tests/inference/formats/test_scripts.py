"""Scripts over HTTP: what a model double says, the model of a provider reads of the same script (7.9)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatagent.errors import APICallError, InvalidArgumentError
from chatagent.model import (
    CallOptions,
    FinishReason,
    GenerateResult,
    InputTokens,
    LanguageModel,
    ModelError,
    ModelFinish,
    ModelReasoningDelta,
    ModelStreamPart,
    ModelTextDelta,
    OutputTokens,
    Usage,
    UserMessage,
)
from chatagent.providers.anthropic import AnthropicModel
from chatagent.providers.openai import OpenAIChatModel, OpenAIResponsesModel
from chatagent_test import MockLanguageModel, Script, script
from chatagent_test.inference.endpoints import InferenceEndpoint
from chatagent_test.inference.formats import check_script, rate_limited, script_response
from chatagent_test.inference.scripted import JsonBody, RawBody, ScriptedResponse, SseBody, sent_bytes
from chatagent_test.inference.sse import parse_sse
from chatagent_test.scripting.render import IdCounter
from chatagent_test.scripting.steps import HangStep, HoldStep, PauseStep
from providers.serving import Answer, Provider

if TYPE_CHECKING:
    from chatagent_test.inference.sse import SseEvent

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:Async generator '(openai|anthropic|httpx2):ResourceWarning"),
]

CHAT, RESPONSES, MESSAGES = InferenceEndpoint
ENDPOINTS = pytest.mark.parametrize("endpoint", InferenceEndpoint, ids=lambda endpoint: endpoint.name.lower())
TOKENS = Usage(input_tokens=InputTokens(total=30, cache_read=10), output_tokens=OutputTokens(total=7))

SCRIPTS: dict[str, Script] = {
    "text": script.text("Hello  brave\nworld", chunks=["Hel", "lo  brave\n", "world"]),
    "two-texts": script.text("a").text("b"),
    "empty-text": script.text(""),
    "thought": script.reasoning("alpha beta", chunks=["alpha ", "beta"]).text("so"),
    "call": script.text("Let me look.").tool_call("search", {"q": "ü"}),
    "calls": script.tool_call("a", {"x": [1, None]}).tool_call("b", {}, tool_call_id="own-id").tool_call("c", {}),
    "source": script.text("See").source("https://a.test", title="A").source("https://b.test").text("."),
    "source-alone": script.source("https://a.test", title="A"),
    "cut-short": script.text("cut").finish("length"),
    "filtered": script.text("no").finish("content-filter"),
    "usage": script.text("x").finish("stop", usage=TOKENS),
    "nothing": script,
    "parts": script.parts(
        [
            {"type": "stream-start", "warnings": []},
            {"type": "text-start", "id": "1"},
            {"type": "text-start", "id": "2"},
            {"type": "text-delta", "id": "1", "delta": "a"},
            {"type": "text-delta", "id": "1", "delta": "b"},
            {"type": "text-end", "id": "1"},
            {"type": "tool-input-start", "id": "c1", "toolName": "f"},
            {"type": "tool-input-delta", "id": "c1", "delta": "{"},
            {"type": "tool-input-delta", "id": "c1", "delta": "}"},
            {"type": "tool-input-end", "id": "c1"},
            {"type": "tool-call", "toolCallId": "c1", "toolName": "f", "input": "{}"},
        ]
    ).finish("tool-calls"),
}


def request(endpoint: InferenceEndpoint) -> CallOptions:
    return CallOptions(prompt=[UserMessage("hi")], max_output_tokens=9 if endpoint is MESSAGES else None)


def served(endpoint: InferenceEndpoint, said: Script, *, streams: bool, **options: Any) -> ScriptedResponse:
    return script_response(endpoint, said, {"model": "m"}, streams=streams, ids=IdCounter(), **options)


def provider(response: ScriptedResponse) -> Provider:
    """Serve a response; its waits are over."""
    body = response.body
    chunks: list[Any] = list(body.frames) if isinstance(body, SseBody) else [sent_bytes(body)]
    if not isinstance(body, JsonBody) and body.end == "abort":
        chunks.append(httpx2.RemoteProtocolError("cut off"))
    return Provider(Answer(chunks, response.status, dict(response.wire_headers)))


def model(endpoint: InferenceEndpoint, serving: Provider) -> LanguageModel:
    if endpoint is MESSAGES:
        return AnthropicModel("m", client=serving.anthropic())
    if endpoint is RESPONSES:
        return OpenAIResponsesModel("m", client=serving.openai())
    return OpenAIChatModel("m", client=serving.openai())


async def streamed(asked: LanguageModel, options: CallOptions) -> list[ModelStreamPart]:
    stream: Any = (await asked.do_stream(options)).stream
    return [part async for part in stream]


def said_of(content: list[Any]) -> dict[str, Any]:
    """Return what parts or contents say; whether an empty block was there is left out."""
    said: dict[str, Any] = {"text": "", "thought": "", "calls": [], "sources": []}
    for part in content:
        match part.type:
            case "text-delta" | "text":
                said["text"] += part.delta if isinstance(part, ModelTextDelta) else part.text
            case "reasoning-delta" | "reasoning":
                said["thought"] += part.delta if isinstance(part, ModelReasoningDelta) else part.text
            case "tool-call":
                said["calls"].append((part.tool_call_id, part.tool_name, json.loads(part.input)))
            case "source":
                said["sources"].append((part.url, part.title))
            case _:
                pass
    return said


def end_of(reason: FinishReason, usage: Usage) -> tuple[Any, ...]:
    return reason.unified, usage.input_tokens.total, usage.output_tokens.total


@ENDPOINTS
@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_stream_says_what_the_double_says(name: str, endpoint: InferenceEndpoint) -> None:
    double = MockLanguageModel(SCRIPTS[name])
    serving = provider(served(endpoint, SCRIPTS[name], streams=True))

    expected = await streamed(double, request(endpoint))
    parts = await streamed(model(endpoint, serving), request(endpoint))

    assert said_of(parts) == said_of(expected)
    deltas = [part.delta for part in expected if isinstance(part, ModelTextDelta) and part.delta]
    assert [part.delta for part in parts if isinstance(part, ModelTextDelta) and part.delta] == deltas
    finish, told = parts[-1], expected[-1]
    assert isinstance(finish, ModelFinish)
    assert isinstance(told, ModelFinish)
    assert end_of(finish.finish_reason, finish.usage) == end_of(told.finish_reason, told.usage)


@ENDPOINTS
@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_body_says_what_the_double_says(name: str, endpoint: InferenceEndpoint) -> None:
    double = MockLanguageModel(SCRIPTS[name])
    serving = provider(served(endpoint, SCRIPTS[name], streams=False))

    expected = await double.do_generate(request(endpoint))
    answer = await model(endpoint, serving).do_generate(request(endpoint))

    assert isinstance(answer, GenerateResult)
    assert said_of(list(answer.content)) == said_of(list(expected.content))
    assert end_of(answer.finish_reason, answer.usage) == end_of(expected.finish_reason, expected.usage)


@ENDPOINTS
@pytest.mark.parametrize("name", sorted(SCRIPTS.keys() - {"cut-short", "filtered"}))
async def test_the_stream_helper_of_the_sdk_comes_to_the_same_end(name: str, endpoint: InferenceEndpoint) -> None:
    serving = provider(served(endpoint, SCRIPTS[name], streams=True))
    whole = served(endpoint, SCRIPTS[name], streams=False).body
    assert isinstance(whole, JsonBody)
    said: Any = [{"role": "user", "content": "hi"}]

    if endpoint is MESSAGES:
        async with serving.anthropic().messages.stream(model="m", messages=said, max_tokens=9) as messages:
            final: Any = await messages.get_final_message()
    elif endpoint is RESPONSES:
        async with serving.openai().responses.stream(model="m", input=said) as responses:
            final = await responses.get_final_response()
    else:
        async with serving.openai().chat.completions.stream(model="m", messages=said) as chat:
            final = await chat.get_final_completion()

    assert {**whole.value, **known(final, whole.value)} == whole.value


def known(final: Any, recorded: dict[str, Any]) -> dict[str, Any]:
    """Return what a helper says of the answer, in the members that do not depend on its own inventions."""
    told = final.to_dict(mode="json")
    same = {key: told[key] for key in ("id", "model", "usage", "stop_reason", "status") if key in told}
    key = next(key for key in ("choices", "output", "content") if key in told)
    return {**same, key: [strip(item, like) for item, like in zip(told[key], recorded[key], strict=True)]}


def strip(item: Any, like: Any) -> Any:
    """Leave out the members that a helper adds."""
    if isinstance(item, dict) and isinstance(like, dict):
        return {key: strip(value, like[key]) for key, value in item.items() if key in like}
    if isinstance(item, list) and isinstance(like, list):
        return [strip(value, each) for value, each in zip(item, like, strict=True)]
    return item


@ENDPOINTS
@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("failing", "status", "retry_after"),
    [
        (script.error(429, retry_after=1.5), 429, "1.5"),
        (rate_limited(), 429, "0"),
        (script.pause(1).error(529), 529, None),
        (script.error("out of order"), 500, None),
        (script.error(APICallError("no", status_code=404, response_headers={"Retry-After": "9"})), 404, "9"),
    ],
)
async def test_a_call_that_fails_fails_as_the_double(
    failing: Script, status: int, retry_after: str | None, endpoint: InferenceEndpoint, *, streams: bool
) -> None:
    asked = model(endpoint, provider(served(endpoint, failing, streams=streams)))

    with pytest.raises(APICallError) as caught:
        await (asked.do_stream if streams else asked.do_generate)(request(endpoint))

    assert caught.value.status_code == status
    assert caught.value.response_headers.get("retry-after") == retry_after
    failure = failing.fails
    assert failure is not None
    assert str(failure.error) == str(caught.value)


@ENDPOINTS
async def test_an_error_after_output_is_told_in_the_stream(endpoint: InferenceEndpoint) -> None:
    failing = script.text("par").error("upstream exploded")

    parts = await streamed(model(endpoint, provider(served(endpoint, failing, streams=True))), request(endpoint))

    assert said_of(parts)["text"] == "par"
    errors = [str(part.error) for part in parts if isinstance(part, ModelError)]
    assert errors == ["upstream exploded"]


@ENDPOINTS
async def test_an_error_after_output_fails_a_call_in_one_piece(endpoint: InferenceEndpoint) -> None:
    failing = script.text("par").error(503)

    response = served(endpoint, failing, streams=False)

    assert response.status == 503


@ENDPOINTS
@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "whole"])
async def test_a_stream_that_breaks_closes_its_connection(endpoint: InferenceEndpoint, *, streams: bool) -> None:
    response = served(endpoint, script.text("par").breaks(OSError("?")), streams=streams)

    body = response.body
    assert isinstance(body, SseBody if streams else RawBody)
    assert body.end == "abort"  # pyright: ignore[reportAttributeAccessIssue]
    assert (b"par" in sent_bytes(body)) is streams


@ENDPOINTS
def test_waits_stand_where_the_script_has_them(endpoint: InferenceEndpoint) -> None:
    said = script.pause(1).text("a").hold("h").text("b").pause(2)

    body = served(endpoint, said, streams=True).body

    assert isinstance(body, SseBody)
    pause, hold, last = body.waits
    assert (pause.index, pause.step) == (0, PauseStep(1))
    before = events_until(body, hold.index)
    assert "a" in texts(before)
    assert "b" not in texts(before)
    assert hold.step == HoldStep("h")
    assert "b" in texts(events_until(body, last.index))
    assert last.index < len(body.frames)


def events_until(body: SseBody, index: int) -> list[SseEvent]:
    return parse_sse(b"".join(body.frames[:index]))


def texts(events: list[SseEvent]) -> set[str]:
    """Return every string that the events hold."""
    found: set[str] = set()

    def collect(value: Any) -> None:
        if isinstance(value, str):
            found.add(value)
        elif isinstance(value, dict):
            for each in value.values():
                collect(each)
        elif isinstance(value, list):
            for each in value:
                collect(each)

    for event in events:
        collect(json.loads(event.data))
    return found


@ENDPOINTS
def test_a_script_that_hangs_never_ends(endpoint: InferenceEndpoint) -> None:
    said = script.text("a").hang()

    body = served(endpoint, said, streams=True).body
    whole = served(endpoint, said, streams=False)

    assert isinstance(body, SseBody)
    assert body.end == "stall"
    assert whole.waits == (HangStep(),)


@ENDPOINTS
def test_waits_come_in_front_of_an_answer_in_one_piece(endpoint: InferenceEndpoint) -> None:
    response = served(endpoint, script.pause(1).text("a").hold("h").text("b"), streams=False)

    assert response.waits == (PauseStep(1), HoldStep("h"))
    failing = served(endpoint, script.hold("h").error(500), streams=True)
    assert failing.waits == (HoldStep("h"),)


def test_ids_of_calls_are_counted_over_all_answers() -> None:
    ids, said = IdCounter(), script.tool_call("f", {})

    bodies = [script_response(CHAT, said, {}, streams=False, ids=ids).body for _ in range(2)]

    found = [
        body.value["choices"][0]["message"]["tool_calls"][0]["id"] for body in bodies if isinstance(body, JsonBody)
    ]
    assert found == ["call-1", "call-2"]


def test_an_answer_names_the_model_that_was_asked_for() -> None:
    named = script_response(CHAT, script.text("x"), {"model": "m-1"}, streams=False, ids=IdCounter()).body
    unnamed = script_response(CHAT, script.text("x"), {"model": 7}, streams=False, ids=IdCounter()).body

    assert isinstance(named, JsonBody)
    assert isinstance(unnamed, JsonBody)
    assert (named.value["model"], unnamed.value["model"]) == ("m-1", "test-model")


# Usage ------------------------------------------------------------------------------------------------------------


def test_a_streamed_chat_may_tell_its_usage_only_if_it_is_asked() -> None:
    asked: dict[str, object] = {"stream_options": {"include_usage": True}}

    def usages(body: dict[str, object]) -> list[object]:
        response = script_response(
            CHAT, script.text("a b"), body, streams=True, ids=IdCounter(), usage_frame="requested"
        )
        assert isinstance(response.body, SseBody)
        payloads = [json.loads(event.data) for event in response.body.events[:-1]]
        return [payload["usage"] for payload in payloads if "usage" in payload]

    assert usages(asked) == [{"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}]
    assert usages({}) == usages({"stream_options": {"include_usage": False}}) == usages({"stream_options": []}) == []


@ENDPOINTS
def test_usage_may_be_estimated_from_the_texts(endpoint: InferenceEndpoint) -> None:
    body = {"messages": [{"role": "user", "content": "x" * 36}], "input": None, "model": "not counted"}

    response = script_response(endpoint, script.text("y" * 9), body, streams=False, ids=IdCounter(), usage="estimate")

    assert isinstance(response.body, JsonBody)
    counts = sorted(value for value in response.body.value["usage"].values() if isinstance(value, int) and value)
    assert counts == ([3, 10] if endpoint is MESSAGES else [3, 10, 13])


@ENDPOINTS
def test_the_scripts_own_usage_wins(endpoint: InferenceEndpoint) -> None:
    said = script.text("x").finish("stop", usage=TOKENS)

    response = script_response(endpoint, said, {}, streams=False, ids=IdCounter(), usage="estimate")

    assert isinstance(response.body, JsonBody)
    usage = response.body.value["usage"]
    assert usage.get("total_tokens", 37) == 37
    assert (usage.get("output_tokens") or usage["completion_tokens"]) == 7
    if endpoint is MESSAGES:
        assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (20, 10)


# What cannot be said ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (script.file(b"x", "image/png"), "none of the three formats can say that; give a ScriptedResponse$"),
        (script.source(title="T", media_type="text/plain"), "a source that is a document cannot go out over HTTP"),
        (script.parts([{"type": "custom", "kind": "a.b"}]), "none of the three formats can say that"),
    ],
)
def test_what_no_format_can_say_is_refused_when_it_is_registered(said: Script, problem: str) -> None:
    with pytest.raises(InvalidArgumentError, match=problem):
        check_script(said)


def test_every_other_script_may_be_registered() -> None:
    for said in SCRIPTS.values():
        check_script(said)


@given(text=st.text(), arguments=st.dictionaries(st.text(), st.integers() | st.text()))
def test_any_text_and_any_input_arrive_unchanged(text: str, arguments: dict[str, Any]) -> None:
    said = script.text(text).tool_call("f", arguments)

    for endpoint in InferenceEndpoint:
        body = served(endpoint, said, streams=False).body
        assert isinstance(body, JsonBody)
        found = texts(
            parse_sse(sent_bytes(served(endpoint, said, streams=True).body).replace(b"data: [DONE]\n\n", b""))
        )
        assert {text, script.tool_call("f", arguments).steps[0].input_text} <= found  # pyright: ignore[reportAttributeAccessIssue]
