"""What all models of providers do alike: failures, aborts, retries, clients."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import httpx2
import pytest

from chatagent import is_step_count, stream_text, tool
from chatagent.errors import AbortError, APICallError, RetryError, StreamProviderError
from chatagent.model import LanguageModel, ModelError, ModelFinish, ModelTextDelta
from chatagent.providers.anthropic import AnthropicModel
from chatagent.providers.openai import OpenAIChatModel, OpenAIResponsesModel
from chatagent.signals import AbortController
from providers.asking import WEATHER, asked, of, stream_of
from providers.serving import Answer, Provider, cut, sse, whole
from support.virtual_run import VirtualRun

pytestmark = [
    pytest.mark.anyio,
    # The SDKs leave generators half read when a stream is closed before its end.
    pytest.mark.filterwarnings("ignore:Async generator '(openai|anthropic|httpx2):ResourceWarning"),
]

MakeModel = Callable[[Provider], LanguageModel]

MODELS: dict[str, MakeModel] = {
    "openai": lambda provider: OpenAIChatModel("m", client=provider.openai()),
    "openai.responses": lambda provider: OpenAIResponsesModel("m", client=provider.openai()),
    "anthropic": lambda provider: AnthropicModel("m", client=provider.anthropic()),
}


def said(name: str, text: str) -> list[dict[str, Any]]:
    """Return the events of an answer up to and with a text."""
    if name == "openai":
        return [{"id": "c", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}]
    if name == "openai.responses":
        delta = {"type": "response.output_text.delta", "item_id": "i", "content_index": 0, "delta": text}
        return [{"type": "response.created", "response": {"id": "r", "created_at": 1, "model": "m"}}, delta]
    delta = {"type": "text_delta", "text": text}
    return [
        {"type": "message_start", "message": {"id": "m", "model": "m", "content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
    ]


def ended(name: str) -> list[dict[str, Any]]:
    """Return the events that end an answer."""
    if name == "openai":
        return [{"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
    if name == "openai.responses":
        response: Any = {"id": "r", "created_at": 1, "model": "m", "status": "completed", "output": []}
        return [{"type": "response.completed", "response": response}]
    return [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    ]


def answered(name: str, text: str, *, hangs: bool = False) -> Answer:
    """Return a whole answer, or one that falls silent behind its text."""
    events = said(name, text) + ([] if hangs else ended(name))
    return sse(*events, named=name == "anthropic", hangs=hangs)


def refused(name: str, status: int, headers: dict[str, str] | None = None) -> Answer:
    body: dict[str, Any] = {"error": {"type": "some_error", "message": "no"}}
    return whole(body if name != "anthropic" else {"type": "error", **body}, status=status, headers=headers)


@pytest.fixture(params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def texts(parts: list[Any]) -> str:
    return "".join(part.delta for part in of(ModelTextDelta, parts))


# Failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "is_retryable"),
    [*((status, False) for status in (400, 401, 404, 422)), *((status, True) for status in (408, 409, 429, 500, 529))],
)
async def test_a_refused_call_raises_its_status_and_whether_to_try_again(
    name: str, status: int, *, is_retryable: bool
) -> None:
    provider = Provider(refused(name, status, {"Retry-After": "7"}))

    with pytest.raises(APICallError, match=r"^no$") as raised:
        await MODELS[name](provider).do_stream(asked())

    error = raised.value
    assert (error.status_code, error.is_retryable) == (status, is_retryable)
    assert error.response_headers["retry-after"] == "7"
    assert error.url == str(provider.requests[0].url)
    assert json.loads(error.response_body or "")["error"]["message"] == "no"
    assert len(provider.requests) == 1


async def test_an_answer_in_one_piece_is_refused_alike(name: str) -> None:
    provider = Provider(refused(name, 429))

    with pytest.raises(APICallError, match=r"^no$") as raised:
        await MODELS[name](provider).do_generate(asked())

    assert raised.value.is_retryable


@pytest.mark.parametrize(("asked_for", "is_retryable"), [("true", True), ("false", False)])
async def test_a_provider_may_say_itself_whether_to_try_again(name: str, asked_for: str, *, is_retryable: bool) -> None:
    status = 429 if asked_for == "false" else 400
    provider = Provider(refused(name, status, {"x-should-retry": asked_for}))

    with pytest.raises(APICallError) as raised:
        await MODELS[name](provider).do_stream(asked())

    assert raised.value.is_retryable is is_retryable


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"error": "just a text"}', "just a text"),
        ("<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        ("", "the provider answered with HTTP status 502"),
    ],
)
async def test_any_body_of_an_error_is_survived(name: str, body: str, words: str) -> None:
    provider = Provider(Answer([body.encode()], 502, {"content-type": "application/json"}))

    with pytest.raises(APICallError) as raised:
        await MODELS[name](provider).do_stream(asked())

    assert str(raised.value) == words


async def test_a_provider_that_cannot_be_reached_is_worth_another_try(name: str) -> None:
    provider = Provider(httpx2.ConnectError("no route"))

    with pytest.raises(APICallError, match=r"^Connection error\. no route$") as raised:
        await MODELS[name](provider).do_stream(asked())

    assert raised.value.is_retryable
    assert raised.value.status_code is None


async def test_a_connection_that_breaks_before_the_first_event_raises(name: str) -> None:
    provider = Provider(Answer([httpx2.RemoteProtocolError("cut off")]))

    with pytest.raises(APICallError, match=r"cut off$") as raised:
        await MODELS[name](provider).do_stream(asked())

    assert raised.value.is_retryable
    assert provider.open_bodies == 0


async def test_a_connection_that_breaks_later_is_an_error_part(name: str) -> None:
    answer = answered(name, "par", hangs=True)
    provider = Provider(Answer([*answer.chunks, httpx2.RemoteProtocolError("cut off")]))

    parts = await stream_of(MODELS[name](provider))

    assert texts(parts) == "par"
    assert isinstance(parts[-1], ModelError)
    assert isinstance(parts[-1].error, APICallError)
    assert parts[-1].error.is_retryable
    assert parts[-1].error.__cause__ is not None
    assert provider.open_bodies == 0


@pytest.mark.parametrize(
    ("kind", "code", "status", "is_retryable"),
    [("overloaded_error", None, 529, True), ("invalid_request_error", None, 400, False)],
)
async def test_an_error_event_of_anthropic_has_the_status_of_its_type(
    kind: str, code: None, status: int, *, is_retryable: bool
) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "not now"}}
    first = Provider(sse(error, named=True))
    later = Provider(sse(*said("anthropic", "par"), error, named=True))

    with pytest.raises(APICallError, match=r"^not now$") as raised:
        await MODELS["anthropic"](first).do_stream(asked())
    parts = await stream_of(MODELS["anthropic"](later))

    assert (raised.value.status_code, raised.value.is_retryable) == (status, is_retryable)
    assert isinstance(parts[-1], ModelError)
    assert isinstance(parts[-1].error, StreamProviderError)
    assert (parts[-1].error.error_type, parts[-1].error.code) == (kind, code)
    assert (parts[-1].error.status_code, parts[-1].error.is_retryable) == (status, is_retryable)
    assert parts[-1].error.payload == error


async def test_an_error_event_of_responses_raises_if_it_comes_first() -> None:
    error = {"type": "error", "code": "server_error", "message": "boom", "param": None, "sequence_number": 0}

    with pytest.raises(APICallError, match=r"^boom$") as raised:
        await MODELS["openai.responses"](Provider(sse(error))).do_stream(asked())

    assert raised.value.is_retryable


async def test_a_stream_without_events_raises(name: str) -> None:
    provider = Provider(Answer([]))

    with pytest.raises(APICallError, match=rf"^{name} ended its stream without a single event$") as raised:
        await MODELS[name](provider).do_stream(asked())

    assert not raised.value.is_retryable


async def test_an_answer_that_is_no_json_raises(name: str) -> None:
    provider = Provider(answered(name, "x"))

    with pytest.raises(APICallError, match=r"answered with text/event-stream where JSON was asked for$"):
        await MODELS[name](provider).do_generate(asked())


async def test_a_stream_that_breaks_anywhere_loses_no_text_and_never_claims_to_be_complete(name: str) -> None:
    body = b"".join(chunk for chunk in answered(name, "né").chunks if isinstance(chunk, bytes))
    first_event = body.index(b"\n\n") + 2
    text_event = body.index(b"\n\n", body.index(b"n\\u00e9")) + 2

    for size in range(0, len(body), 7):
        provider = Provider(Answer([*cut(body[:size], 11), httpx2.ReadError("gone")]))
        if size < first_event:
            with pytest.raises(APICallError, match=r"gone$"):
                await stream_of(MODELS[name](provider))
            continue
        parts = await stream_of(MODELS[name](provider))

        assert texts(parts) == ("né" if size >= text_event else "")
        assert isinstance(parts[-1], ModelError)
        assert not of(ModelFinish, parts)
        assert provider.open_bodies == 0


# Aborts -----------------------------------------------------------------------------------------------------------


async def test_an_abort_ends_a_stream_that_has_fallen_silent(name: str) -> None:
    provider = Provider(answered(name, "par", hangs=True))
    controller = AbortController()
    result = await MODELS[name](provider).do_stream(asked(abort_signal=controller.signal))
    parts: list[Any] = []

    async def gather(stream: Any) -> None:
        async for part in stream:
            parts.append(part)

    async def read() -> None:
        with pytest.raises(AbortError, match=r"enough$"):
            await gather(result.stream)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await provider.reached.wait()
            controller.abort("enough")

    assert texts(parts) == "par"
    assert provider.open_bodies == 0


async def test_an_abort_ends_a_call_that_nobody_answers(name: str) -> None:
    provider = Provider(Answer(is_silent=True))
    controller = AbortController()

    async def ask() -> None:
        with pytest.raises(AbortError):
            await MODELS[name](provider).do_stream(asked(abort_signal=controller.signal))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await provider.reached.wait()
            controller.abort()


async def test_a_call_under_an_aborted_signal_is_not_made(name: str) -> None:
    provider = Provider(answered(name, "x"))
    controller = AbortController()
    controller.abort()

    for ask in (MODELS[name](provider).do_stream, MODELS[name](provider).do_generate):
        with pytest.raises(AbortError):
            await ask(asked(abort_signal=controller.signal))

    assert not provider.requests


async def test_closing_a_stream_ends_the_response(name: str) -> None:
    provider = Provider(answered(name, "par", hangs=True))
    result = await MODELS[name](provider).do_stream(asked())
    stream: Any = result.stream
    first = await anext(stream)

    await stream.aclose()
    await stream.aclose()

    assert first.type == "stream-start"
    assert [part async for part in stream] == []
    assert provider.open_bodies == 0


async def test_an_abort_of_stream_text_ends_the_response(name: str) -> None:
    provider = Provider(answered(name, "par", hangs=True))
    controller = AbortController()
    result = stream_text(model=MODELS[name](provider), prompt="hi", abort_signal=controller.signal)
    parts: list[Any] = []

    async def read() -> None:
        parts.extend([part async for part in result.full_stream])

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await provider.reached.wait()
            controller.abort("enough")

    assert parts[-1].type == "abort"
    assert provider.open_bodies == 0


# With the step loop -----------------------------------------------------------------------------------------------


async def test_retries_are_made_by_the_step_loop_on_the_clock_of_the_run(name: str) -> None:
    provider = Provider(refused(name, 429, {"retry-after": "7"}), refused(name, 503), answered(name, "at last"))
    run = VirtualRun()
    began_at = run.clock.now()

    async def ask() -> str:
        return await stream_text(model=MODELS[name](provider), prompt="hi").text

    text = await run.play(ask)

    assert text == "at last"
    assert run.clock.now() - began_at == 7 + 4
    assert [request.headers["x-stainless-retry-count"] for request in provider.requests] == ["0", "0", "0"]


async def test_a_provider_that_stays_away_is_reported_once(name: str) -> None:
    provider = Provider(refused(name, 500))
    errors: list[Any] = []

    async def ask() -> None:
        result = stream_text(model=MODELS[name](provider), prompt="hi", max_retries=1, on_error=errors.append)
        _ = [part async for part in result.full_stream]

    await VirtualRun().play(ask)

    (error,) = errors
    assert isinstance(error, RetryError)
    assert len(provider.requests) == 2


async def test_a_tool_is_called_and_its_result_told() -> None:
    @tool
    def weather(city: str) -> str:
        """Return the weather."""
        return f"sunny in {city}"

    function = {"name": "weather", "arguments": '{"city": "Oslo"}'}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    calling = {"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    provider = Provider(sse(calling, done=True), answered("openai", "Sunny."))

    result = stream_text(model=MODELS["openai"](provider), prompt="Oslo?", tools=[weather], stop_when=is_step_count(2))

    assert await result.text == "Sunny."
    assert provider.bodies[1]["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny in Oslo"},
    ]


async def test_signed_thinking_goes_back_in_the_next_step() -> None:
    @tool
    def weather() -> str:
        """Return the weather."""
        return "sunny"

    calling: list[Any] = [
        said("anthropic", "")[0],
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "t1", "name": "weather", "input": {}},
        },
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
    ]
    provider = Provider(sse(*calling, named=True), answered("anthropic", "Sunny."))

    result = stream_text(model=MODELS["anthropic"](provider), prompt="?", tools=[weather], stop_when=is_step_count(2))

    assert await result.text == "Sunny."
    assert provider.bodies[1]["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "tool_use", "id": "t1", "name": "weather", "input": {}},
    ]


# Clients ----------------------------------------------------------------------------------------------------------


async def test_a_client_that_does_not_retry_is_used_as_it_is() -> None:
    calls: list[dict[str, Any]] = []

    class Completions:
        async def create(self, **arguments: Any) -> Any:
            calls.append(arguments)
            raise NotImplementedError

    class Chat:
        completions = Completions()

    class Client:
        max_retries = 0
        chat = Chat()

    client: Any = Client()

    with pytest.raises(NotImplementedError):
        await OpenAIChatModel("m", client=client).do_stream(asked(tools=[WEATHER], temperature=0.5))

    (arguments,) = calls
    assert arguments["model"] == "m"
    assert arguments["temperature"] == 0.5
    assert arguments["stream"] is True
    assert arguments["extra_body"] is None


@pytest.mark.parametrize("name", MODELS)
async def test_models_are_models(name: str) -> None:
    model = MODELS[name](Provider(Answer()))

    assert isinstance(model, LanguageModel)
    assert (model.provider, model.model_id, model.specification_version) == (name, "m", "v4")
    assert "image/*" in model.supported_urls  # type: ignore[operator]
