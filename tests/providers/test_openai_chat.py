from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from chatagent.errors import InvalidPromptError
from chatagent.model import (
    AssistantMessage,
    CustomPart,
    FilePart,
    FinishReason,
    InputTokens,
    JsonResponseFormat,
    ModelError,
    ModelFinish,
    ModelRaw,
    ModelReasoning,
    ModelResponseMetadata,
    ModelSource,
    ModelStreamStart,
    ModelText,
    ModelTextDelta,
    ModelTextStart,
    ModelToolCall,
    OutputTokens,
    ProviderTool,
    ReasoningPart,
    ReferenceData,
    TextData,
    TextPart,
    ToolChoice,
    ToolResultOutput,
    UrlData,
    UserMessage,
)
from chatagent.providers.openai import OpenAIChatModel
from chatagent.providers.openai.chat_stream import ChatReader
from providers.asking import HI, WEATHER, asked, of, outline, stream_of, tool_turn
from providers.serving import Provider, sse, whole

pytestmark = [
    pytest.mark.anyio,
    # The SDK leaves generators half read behind `[DONE]`.
    pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2):ResourceWarning"),
]

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
    "completion_tokens_details": {"reasoning_tokens": 15},
}


def chunk(delta: dict[str, Any] | None = None, reason: str | None = None, **members: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1700000000, "model": "gpt-x"}
    return {**base, "choices": choices, **members}


def call(index: int | None, arguments: str, *, call_id: str | None = None, name: str | None = None) -> dict[str, Any]:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    made: dict[str, Any] = {"function": function, **({} if index is None else {"index": index})}
    return {"tool_calls": [made if call_id is None else {**made, "id": call_id, "type": "function"}]}


def model_of(*events: object, done: bool = True) -> tuple[OpenAIChatModel, Provider]:
    provider = Provider(sse(*events, done=done))
    return OpenAIChatModel("gpt-x", client=provider.openai()), provider


async def body_of(*prompt: Any, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Return what is sent for a prompt, and what the caller is warned of."""
    model, provider = model_of(chunk({"content": "ok"}, "stop"))
    result = await model.do_stream(asked(*prompt, **options))
    parts = [part async for part in result.stream]
    (start,) = of(ModelStreamStart, parts)
    assert result.request is not None
    assert result.request.body == provider.bodies[0]
    return provider.bodies[0], [warning.feature or "" for warning in start.warnings]


async def test_text_streams_in_a_block_of_its_own() -> None:
    model, _ = model_of(
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}, "stop"),
        chunk(usage=USAGE),
    )

    parts = await stream_of(model)

    assert outline(parts) == [
        "response-metadata c1",
        "text-start 0",
        "text-delta 0 'Hel'",
        "text-delta 0 'lo'",
        "text-end 0",
        "finish",
    ]
    (told,) = of(ModelResponseMetadata, parts)
    assert told.model_id == "gpt-x"
    assert told.timestamp is not None
    assert told.timestamp.timestamp() == 1700000000


async def test_usage_tells_what_came_from_the_cache_and_what_was_thought() -> None:
    model, _ = model_of(chunk({"content": "x"}, "stop"), chunk(usage=USAGE))

    (finish,) = of(ModelFinish, await stream_of(model))

    assert finish.usage.input_tokens == InputTokens(total=100, no_cache=30, cache_read=60, cache_write=10)
    assert finish.usage.output_tokens == OutputTokens(total=20, text=5, reasoning=15)
    assert finish.usage.raw == USAGE


async def test_usage_without_details_leaves_them_unknown() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    model, _ = model_of(chunk({"content": "x"}, "stop"), chunk(usage=usage))

    (finish,) = of(ModelFinish, await stream_of(model))

    assert finish.usage.input_tokens == InputTokens(total=10)
    assert finish.usage.output_tokens == OutputTokens(total=2)


@pytest.mark.parametrize(
    ("raw", "unified"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        ("tool_calls", "tool-calls"),
        ("function_call", "tool-calls"),
        ("cosmic_rays", "other"),
    ],
)
async def test_the_finish_reason_keeps_the_providers_word(raw: str, unified: Any) -> None:
    model, _ = model_of(chunk({"content": "x"}, raw))

    (finish,) = of(ModelFinish, await stream_of(model))

    assert finish.finish_reason == FinishReason(unified, raw)


async def test_reasoning_of_compatible_servers_ends_where_text_begins() -> None:
    model, _ = model_of(
        chunk({"reasoning_content": "Hm"}), chunk({"reasoning": "m."}), chunk({"content": "Yes."}, "stop")
    )

    parts = await stream_of(model)

    assert outline(parts)[1:-1] == [
        "reasoning-start 0",
        "reasoning-delta 0 'Hm'",
        "reasoning-delta 0 'm.'",
        "reasoning-end 0",
        "text-start 1",
        "text-delta 1 'Yes.'",
        "text-end 1",
    ]


async def test_a_refusal_is_text_that_is_marked_and_counts_as_filtered() -> None:
    model, _ = model_of(chunk({"refusal": "I can"}), chunk({"refusal": "not."}, "stop"))

    parts = await stream_of(model)

    (start,) = of(ModelTextStart, parts)
    assert start.provider_metadata == {"openai": {"refusal": True}}
    assert "".join(part.delta for part in of(ModelTextDelta, parts)) == "I cannot."
    assert of(ModelFinish, parts)[0].finish_reason == FinishReason("content-filter", "stop")


async def test_tool_calls_whose_fragments_alternate_are_kept_apart() -> None:
    model, _ = model_of(
        chunk({"content": "Wait."}),
        chunk(call(0, "", call_id="a", name="weather")),
        chunk(call(1, '{"x"', call_id="b", name="read")),
        chunk(call(0, '{"city":')),
        chunk(call(1, ":1}")),
        chunk(call(0, '"Oslo"}')),
        chunk({}, "tool_calls"),
    )

    parts = await stream_of(model)

    assert outline(parts)[3:-1] == [
        "text-end 0",
        "tool-input-start a weather",
        "tool-input-start b read",
        "tool-input-delta b '{\"x\"'",
        "tool-input-delta a '{\"city\":'",
        "tool-input-delta b ':1}'",
        "tool-input-delta a '\"Oslo\"}'",
        "tool-input-end a",
        'tool-call a weather \'{"city":"Oslo"}\'',
        "tool-input-end b",
        "tool-call b read '{\"x\":1}'",
    ]


async def test_calls_of_servers_without_index_ids_or_early_names_are_put_together() -> None:
    model, _ = model_of(
        chunk(call(None, "{", call_id="a")),
        chunk(call(None, "}", name="weather")),
        chunk(call(None, "", call_id="b", name="read")),
        chunk(call(7, "[]", name="anonymous")),
        chunk({}, "tool_calls"),
    )

    calls = of(ModelToolCall, await stream_of(model))

    assert [(each.tool_name, each.input) for each in calls] == [("weather", "{}"), ("read", "{}"), ("anonymous", "[]")]
    assert [each.tool_call_id for each in calls][:2] == ["a", "b"]
    assert calls[2].tool_call_id.startswith("call_")


async def test_a_stream_that_is_cut_short_has_no_finish_and_no_complete_call() -> None:
    model, _ = model_of(chunk({"content": "par"}), chunk(call(0, '{"ci', call_id="a", name="weather")), done=False)

    parts = await stream_of(model)

    assert outline(parts)[-2:] == ["tool-input-start a weather", "tool-input-delta a '{\"ci'"]


async def test_chunks_with_missing_members_are_read() -> None:
    model, _ = model_of(
        {"choices": None},
        {"id": "c1", "choices": [{"delta": {"content": "x"}}]},
        {"id": "c1", "choices": [{"finish_reason": "stop"}]},
    )

    parts = await stream_of(model)

    assert outline(parts) == ["response-metadata c1", "text-start 0", "text-delta 0 'x'", "text-end 0", "finish"]


async def test_citations_become_sources_and_logprobs_are_told_at_the_end() -> None:
    cited = {"type": "url_citation", "url_citation": {"url": "https://a.test", "title": "A", "start_index": 0}}
    token: Any = {"token": "x", "logprob": -0.1, "bytes": None, "top_logprobs": []}
    said = chunk({"content": "x", "annotations": [cited]}, "stop")
    said["choices"][0]["logprobs"] = {"content": [token]}
    model, _ = model_of(said)

    parts = await stream_of(model)

    (source,) = of(ModelSource, parts)
    assert (source.url, source.title) == ("https://a.test", "A")
    assert of(ModelFinish, parts)[0].provider_metadata == {"openai": {"logprobs": [token]}}


async def test_raw_chunks_come_in_front_of_their_parts_if_asked_for() -> None:
    model, _ = model_of(chunk({"content": "x"}, "stop"))

    parts = await stream_of(model, asked(include_raw_chunks=True))

    assert [part.type for part in parts[:3]] == ["raw", "response-metadata", "text-start"]
    assert of(ModelRaw, parts)[0].raw_value == chunk({"content": "x"}, "stop")


async def test_the_answer_tells_its_headers() -> None:
    provider = Provider(sse(chunk({"content": "x"}, "stop")))
    provider._answers[0].headers["X-Request-Id"] = "req_1"  # type: ignore[union-attr]

    result = await OpenAIChatModel("gpt-x", client=provider.openai()).do_stream(asked())

    assert result.response is not None
    assert result.response.headers is not None
    assert result.response.headers["x-request-id"] == "req_1"
    await result.stream.aclose()  # type: ignore[attr-defined]


@given(st.lists(st.tuples(st.integers(0, 2), st.text(max_size=4)), max_size=12))
@settings(max_examples=60)
def test_fragments_in_any_order_give_each_call_its_own_input(fragments: list[tuple[int, str]]) -> None:
    reader = ChatReader()
    indexes = list(dict.fromkeys(index for index, _ in fragments))
    opening = [chunk(call(index, "", call_id=f"call{index}", name=f"tool{index}")) for index in indexes]
    events = [*opening, *(chunk(call(index, text)) for index, text in fragments), chunk({}, "tool_calls")]

    parts = [part for event in events for part in reader.read(ChatCompletionChunk.model_validate(event))]
    calls = of(ModelToolCall, [*parts, *reader.end()])

    expected = {f"call{each}": "".join(text for index, text in fragments if index == each) for each in indexes}
    assert {each.tool_call_id: each.input for each in calls} == {key: value or "{}" for key, value in expected.items()}


# Requests ---------------------------------------------------------------------------------------------------------


async def test_a_conversation_with_a_tool_is_sent_in_the_apis_form() -> None:
    body, warned = await body_of(*tool_turn(ToolResultOutput("json", {"sky": "grå"})), tools=[WEATHER])

    assert body == {
        "model": "gpt-x",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": '{"sky":"grå"}'},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "weather",
                    "description": "The weather.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert warned == []


@pytest.mark.parametrize(
    ("output", "content"),
    [
        (ToolResultOutput("text", "sunny"), "sunny"),
        (ToolResultOutput("error-text", "no such city"), "no such city"),
        (ToolResultOutput("error-json", {"code": 7}), '{"code":7}'),
        (ToolResultOutput("json", None), "null"),
        (ToolResultOutput("execution-denied", reason="not today"), "not today"),
        (ToolResultOutput("execution-denied"), "Tool execution denied."),
        (ToolResultOutput("content", [{"type": "text", "text": "sunny"}]), [{"type": "text", "text": "sunny"}]),
    ],
)
async def test_the_outcome_of_a_tool_is_told_as_text(output: ToolResultOutput, content: object) -> None:
    body, _ = await body_of(*tool_turn(output))

    assert body["messages"][-1]["content"] == content


async def test_what_the_api_has_no_form_for_is_left_out_and_warned_of() -> None:
    image = {"type": "file", "mediaType": "image/png", "data": {"type": "data", "data": "AAAA"}}
    said = AssistantMessage([ReasoningPart("hm"), TextPart("yes"), CustomPart("openai.thing")])

    body, warned = await body_of(
        said,
        *tool_turn(ToolResultOutput("content", [image])),
        tools=[ProviderTool(id="openai.web_search", name="web_search", args={})],
        top_k=3,
    )

    assert body["messages"][0] == {"role": "assistant", "content": "yes"}
    assert body["messages"][-1]["content"] == []
    assert "tools" not in body
    assert warned == [
        "top_k",
        "custom of an assistant message",
        "files in a result of tool weather",
        "tool openai.web_search",
    ]


async def test_files_of_the_user_are_sent_by_kind() -> None:
    png = b"\x89PNG..."
    parts = [
        TextPart("look"),
        FilePart(UrlData("https://a.test/cat.png"), "image/*", provider_options={"openai": {"imageDetail": "low"}}),
        FilePart(png, "image"),
        FilePart(b"RIFF", "audio/wav"),
        FilePart(b"%PDF", "application/pdf", filename="a.pdf"),
        FilePart(ReferenceData({"openai": "file_1"}), "application/pdf"),
        FilePart(TextData("plain"), "text/plain"),
    ]

    body, _ = await body_of(UserMessage(parts))

    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "https://a.test/cat.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORy4uLg=="}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        {"type": "file", "file": {"file_id": "file_1"}},
        {"type": "text", "text": "plain"},
    ]


async def test_a_file_that_cannot_be_sent_is_an_invalid_prompt() -> None:
    pdf = FilePart(UrlData("https://a.test/a.pdf"), "application/pdf")

    with pytest.raises(InvalidPromptError, match=r"^the Chat Completions API takes no application/pdf file by URL"):
        await body_of(UserMessage([pdf]))


async def test_a_refusal_goes_back_as_one() -> None:
    refusal = TextPart("No.", provider_options={"openai": {"refusal": True}})

    body, _ = await body_of(HI, AssistantMessage([refusal]), HI)

    assert body["messages"][1] == {"role": "assistant", "content": None, "refusal": "No."}


async def test_settings_have_the_apis_names() -> None:
    body, warned = await body_of(
        max_output_tokens=9,
        temperature=0.5,
        top_p=0.9,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        stop_sequences=["END"],
        seed=7,
        reasoning="high",
        tools=[WEATHER],
        tool_choice=ToolChoice("tool", "weather"),
        response_format=JsonResponseFormat(schema={"type": "object"}, name="answer", description="An answer."),
    )

    assert {
        key: body[key] for key in body if key not in ("model", "messages", "tools", "stream", "stream_options")
    } == {
        "max_completion_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "stop": ["END"],
        "seed": 7,
        "reasoning_effort": "high",
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "description": "An answer."},
        },
    }
    assert warned == []


async def test_provider_options_are_members_of_the_request_and_win() -> None:
    options = {
        "parallelToolCalls": False,
        "service_tier": "flex",
        "reasoningEffort": "low",
        "textVerbosity": "low",
        "strictJsonSchema": True,
        "metadata": {"orderId": "7"},
        "notYetInTheSdk": 1,
        "streamOptions": None,
    }

    body, _ = await body_of(
        reasoning="high",
        response_format=JsonResponseFormat(schema={"type": "object"}),
        provider_options={"openai": options, "anthropic": {"thinking": {}}},
        headers={"x-team": "blue"},
    )

    assert {key: body[key] for key in body if key not in ("model", "messages", "stream", "response_format")} == {
        "parallel_tool_calls": False,
        "service_tier": "flex",
        "reasoning_effort": "low",
        "verbosity": "low",
        "metadata": {"orderId": "7"},
        "not_yet_in_the_sdk": 1,
    }
    assert body["response_format"]["json_schema"]["strict"] is True


async def test_headers_of_the_call_are_sent() -> None:
    model, provider = model_of(chunk({"content": "x"}, "stop"))

    await stream_of(model, asked(headers={"X-Team": "blue"}))

    assert provider.requests[0].headers["x-team"] == "blue"


async def test_half_a_character_in_the_history_does_not_make_it_unsendable() -> None:
    model, provider = model_of(chunk({"content": "ok"}, "stop"))

    await stream_of(model, asked(UserMessage("cut \ud83d")))

    assert provider.bodies[0]["messages"] == [{"role": "user", "content": "cut \ufffd"}]


# Answers in one piece ---------------------------------------------------------------------------------------------


async def test_an_answer_in_one_piece_has_the_same_content() -> None:
    message = {
        "role": "assistant",
        "content": "Yes.",
        "reasoning_content": "Hm.",
        "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.test", "title": "A"}}],
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
    }
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    completion = {"id": "c1", "object": "chat.completion", "created": 1, "model": "gpt-x", "choices": [choice]}
    provider = Provider(whole({**completion, "usage": USAGE}, headers={"x-request-id": "req_1"}))

    answer = await OpenAIChatModel("gpt-x", client=provider.openai()).do_generate(asked(top_k=1))

    assert "stream" not in provider.bodies[0]
    assert [type(each) for each in answer.content] == [ModelReasoning, ModelText, ModelSource, ModelToolCall]
    assert answer.finish_reason == FinishReason("tool-calls", "tool_calls")
    assert answer.usage.input_tokens.cache_read == 60
    assert [warning.feature for warning in answer.warnings] == ["top_k"]
    assert answer.response is not None
    assert answer.response.id == "c1"
    assert answer.response.headers is not None
    assert answer.response.headers["x-request-id"] == "req_1"


async def test_an_error_after_text_is_a_part_and_the_last_one() -> None:
    model, _ = model_of(chunk({"content": "par"}), {"error": {"message": "boom", "type": "server_error", "code": None}})

    parts = await stream_of(model)

    (error,) = of(ModelError, parts)
    assert parts[-1] is error
    assert str(error.error) == "boom"
