from __future__ import annotations

from typing import Any

import pytest

from chatagent.errors import InvalidPromptError
from chatagent.model import (
    AssistantMessage,
    CallOptions,
    FilePart,
    FinishReason,
    FunctionTool,
    InputTokens,
    JsonResponseFormat,
    ModelFinish,
    ModelReasoning,
    ModelReasoningEnd,
    ModelReasoningStart,
    ModelSource,
    ModelStreamStart,
    ModelText,
    ModelTextEnd,
    ModelToolCall,
    ModelToolResult,
    OutputTokens,
    ProviderTool,
    ReasoningPart,
    SystemMessage,
    TextData,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolMessage,
    ToolResultOutput,
    ToolResultPart,
    UrlData,
    UserMessage,
)
from chatagent.providers.anthropic import AnthropicModel
from providers.asking import HI, WEATHER, asked, of, outline, stream_of, tool_turn
from providers.serving import Provider, sse, whole

pytestmark = pytest.mark.anyio

SEARCH = ProviderTool(id="anthropic.web_search_20250305", name="web_search", args={"maxUses": 2})
CACHED: Any = {"anthropic": {"cacheControl": {"type": "ephemeral"}}}
START_USAGE = {
    "input_tokens": 30,
    "cache_read_input_tokens": 60,
    "cache_creation_input_tokens": 10,
    "output_tokens": 1,
    "service_tier": "standard",
}


def start(usage: dict[str, Any] | None = None) -> dict[str, Any]:
    message: Any = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude-x"}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage or START_USAGE}}


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    deltas = ({"type": "text_delta", "text": piece} for piece in pieces)
    return block(index, {"type": "text", "text": ""}, *deltas)


def end(reason: str = "end_turn", **members: Any) -> list[dict[str, Any]]:
    usage = members.pop("usage", {"output_tokens": 20})
    delta = {"stop_reason": reason, "stop_sequence": None, **members}
    return [{"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]


def model_of(*events: object, model_id: str = "claude-x-5") -> tuple[AnthropicModel, Provider]:
    provider = Provider(sse(*events, named=True))
    return AnthropicModel(model_id, client=provider.anthropic()), provider


async def body_of(*prompt: Any, model_id: str = "claude-x-5", **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Return what is sent for a prompt, and what the caller is warned of."""
    model, provider = model_of(start(), *end(), model_id=model_id)
    result = await model.do_stream(asked(*prompt, **options))
    (begun,) = of(ModelStreamStart, [part async for part in result.stream])
    return provider.bodies[0], [warning.feature or "" for warning in begun.warnings]


async def test_thinking_ends_with_its_signature_and_text_follows() -> None:
    thinking = [{"type": "thinking_delta", "thinking": "Hm."}, {"type": "signature_delta", "signature": "c2ln"}]
    model, _ = model_of(
        start(),
        *block(0, {"type": "thinking", "thinking": "", "signature": ""}, *thinking),
        *text(1, "Yes", "."),
        *end(),
    )

    parts = await stream_of(model)

    assert outline(parts) == [
        "response-metadata msg_1",
        "reasoning-start 0",
        "reasoning-delta 0 'Hm.'",
        "reasoning-end 0",
        "text-start 1",
        "text-delta 1 'Yes'",
        "text-delta 1 '.'",
        "text-end 1",
        "finish",
    ]
    assert of(ModelReasoningEnd, parts)[0].provider_metadata == {"anthropic": {"signature": "c2ln"}}


async def test_redacted_thinking_is_an_empty_block_with_its_data() -> None:
    model, _ = model_of(start(), *block(0, {"type": "redacted_thinking", "data": "b64"}), *end())

    parts = await stream_of(model)

    assert of(ModelReasoningStart, parts)[0].provider_metadata == {"anthropic": {"redactedData": "b64"}}
    assert of(ModelReasoningEnd, parts)[0].provider_metadata == {"anthropic": {"redactedData": "b64"}}


async def test_a_call_streams_its_input() -> None:
    fragments = ({"type": "input_json_delta", "partial_json": piece} for piece in ("", '{"city":', '"Oslo"}'))
    use: Any = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}
    model, _ = model_of(start(), *block(0, use, *fragments), *end("tool_use"))

    parts = await stream_of(model)

    assert outline(parts)[1:] == [
        "tool-input-start toolu_1 weather",
        "tool-input-delta toolu_1 '{\"city\":'",
        "tool-input-delta toolu_1 '\"Oslo\"}'",
        "tool-input-end toolu_1",
        'tool-call toolu_1 weather \'{"city":"Oslo"}\'',
        "finish",
    ]


async def test_a_call_whose_input_does_not_stream_has_the_input_of_its_start() -> None:
    empty: Any = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {}}
    full: Any = {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": {"city": "Oslo"}}
    model, _ = model_of(start(), *block(0, empty), *block(1, full), *end("tool_use"))

    calls = of(ModelToolCall, await stream_of(model))

    assert [each.input for each in calls] == ["{}", '{"city":"Oslo"}']


async def test_usage_counts_the_cache_apart_and_the_last_record_wins() -> None:
    usage = {"output_tokens": 20, "output_tokens_details": {"thinking_tokens": 15}}
    model, _ = model_of(start(), *text(0, "x"), *end(usage=usage))

    (finish,) = of(ModelFinish, await stream_of(model))

    assert finish.usage.input_tokens == InputTokens(total=100, no_cache=30, cache_read=60, cache_write=10)
    assert finish.usage.output_tokens == OutputTokens(total=20, text=5, reasoning=15)
    assert finish.usage.raw == {**START_USAGE, **usage}


@pytest.mark.parametrize(
    ("raw", "unified"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool-calls"),
        ("refusal", "content-filter"),
        ("cosmic_rays", "other"),
    ],
)
async def test_the_finish_reason_keeps_the_providers_word(raw: str, unified: Any) -> None:
    model, _ = model_of(start(), *text(0, "x"), *end(raw, stop_sequence="END"))

    (finish,) = of(ModelFinish, await stream_of(model))

    assert finish.finish_reason == FinishReason(unified, raw)
    assert finish.provider_metadata == {"anthropic": {"stopSequence": "END"}}


async def test_a_server_tool_gives_a_call_and_a_result_of_the_provider() -> None:
    use: Any = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    found = [{"type": "web_search_result", "url": "https://a.test", "title": "A", "encrypted_content": "e"}]
    model, _ = model_of(
        start(),
        *block(0, use, {"type": "input_json_delta", "partial_json": '{"query":"oslo"}'}),
        *block(1, {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": found}),
        *end(),
    )

    parts = await stream_of(model, asked(tools=[SEARCH]))

    (call,), (result,) = of(ModelToolCall, parts), of(ModelToolResult, parts)
    assert (call.tool_call_id, call.tool_name, call.input) == ("srv_1", "web_search", '{"query":"oslo"}')
    assert (call.provider_executed, call.dynamic) == (True, None)
    assert (result.tool_call_id, result.tool_name, result.is_error) == ("srv_1", "web_search", None)
    assert result.result == found


async def test_a_server_tool_that_nobody_declared_is_dynamic_and_may_fail() -> None:
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    model, _ = model_of(
        start(), *block(0, {"type": "web_search_tool_result", "tool_use_id": "srv_0", "content": error}), *end()
    )

    (result,) = of(ModelToolResult, await stream_of(model))

    assert (result.tool_name, result.is_error, result.dynamic) == ("web_search", True, True)


async def test_citations_become_sources_and_end_their_text() -> None:
    page = {"type": "web_search_result_location", "url": "https://a.test", "title": "A", "cited_text": "x"}
    place = {"type": "page_location", "document_index": 0, "document_title": None, "cited_text": "y"}
    deltas = [{"type": "text_delta", "text": "x"}, *({"type": "citations_delta", "citation": c} for c in (page, place))]
    model, _ = model_of(start(), *block(0, {"type": "text", "text": ""}, *deltas), *end())

    parts = await stream_of(model)

    assert [(each.source_type, each.url, each.title, each.media_type) for each in of(ModelSource, parts)] == [
        ("url", "https://a.test", "A", None),
        ("document", None, "Document 0", "application/pdf"),
    ]
    assert of(ModelTextEnd, parts)[0].citations == [page, place]


async def test_deltas_without_a_start_open_their_block() -> None:
    delta = {"type": "text_delta", "text": "x"}
    model, _ = model_of(start(), {"type": "content_block_delta", "index": 0, "delta": delta}, *end())

    parts = await stream_of(model)

    assert outline(parts)[1:] == ["text-start 0", "text-delta 0 'x'", "text-end 0", "finish"]


async def test_a_stream_that_is_cut_short_closes_its_text_and_has_no_finish() -> None:
    model, _ = model_of(start(), *text(0, "par")[:-1])

    parts = await stream_of(model)

    assert outline(parts)[-1] == "text-end 0"


# Requests ---------------------------------------------------------------------------------------------------------


async def test_a_conversation_with_a_tool_is_sent_in_the_apis_form() -> None:
    prompt = [*tool_turn(ToolResultOutput("error-text", "no such city")), UserMessage("Then Bergen.")]

    body, warned = await body_of(*prompt, tools=[WEATHER])

    assert body == {
        "model": "claude-x-5",
        "max_tokens": 32_000,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Oslo"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "call_1",
                        "content": "no such city",
                        "is_error": True,
                    },
                    {"type": "text", "text": "Then Bergen."},
                ],
            },
        ],
        "tools": [
            {"name": "weather", "description": "The weather.", "input_schema": {"type": "object", "properties": {}}}
        ],
        "stream": True,
    }
    assert warned == []


async def test_thinking_goes_back_as_it_came() -> None:
    said = AssistantMessage(
        [
            ReasoningPart("Hm.", provider_options={"anthropic": {"signature": "c2ln"}}),
            ReasoningPart("", provider_options={"anthropic": {"redactedData": "b64"}}),
            ReasoningPart("Somebody else thought this.", provider_options={"openai": {"itemId": "rs_1"}}),
            TextPart(""),
            TextPart("Yes."),
        ]
    )

    body, warned = await body_of(HI, said, HI)

    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "b64"},
        {"type": "text", "text": "Yes."},
    ]
    assert warned == ["reasoning without a signature"]


async def test_calls_of_server_tools_go_back_with_their_results() -> None:
    found = [{"type": "web_search_result", "url": "https://a.test", "title": "A", "encrypted_content": "e"}]
    said = AssistantMessage(
        [
            ToolCallPart("srv_1", "web_search", {"query": "oslo"}, provider_executed=True),
            ToolResultPart("srv_1", "web_search", ToolResultOutput("json", found)),
            ToolCallPart("srv_2", "tool_search_tool_bm25", "not an object", provider_executed=True),
            ToolResultPart("srv_2", "tool_search_tool_bm25", ToolResultOutput("json", {"tool_references": []})),
        ]
    )

    body, _ = await body_of(HI, said, HI, tools=[SEARCH])

    assert body["messages"][1]["content"] == [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "oslo"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": found},
        {"type": "server_tool_use", "id": "srv_2", "name": "tool_search_tool_bm25", "input": {}},
        {"type": "tool_search_tool_result", "tool_use_id": "srv_2", "content": {"tool_references": []}},
    ]
    assert body["tools"] == [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}]


async def test_a_system_message_amid_the_conversation_is_told_in_the_users_turn() -> None:
    body, _ = await body_of(HI, AssistantMessage("Yes?"), SystemMessage("The user pays."), UserMessage("go on"))

    assert body["messages"][2] == {
        "role": "user",
        "content": [
            {"type": "text", "text": "<system>\nThe user pays.\n</system>"},
            {"type": "text", "text": "go on"},
        ],
    }


async def test_results_of_tools_come_first_in_their_turn() -> None:
    call = AssistantMessage([ToolCallPart("call_1", "weather", {})])
    result = ToolMessage([ToolResultPart("call_1", "weather", ToolResultOutput("text", "ok"))])

    body, _ = await body_of(HI, call, SystemMessage("The user pays."), result)

    assert [each["type"] for each in body["messages"][2]["content"]] == ["tool_result", "text"]


async def test_an_answer_to_go_on_with_loses_the_white_space_at_its_end() -> None:
    body, _ = await body_of(HI, AssistantMessage("It is: "))

    assert body["messages"][1] == {"role": "assistant", "content": "It is:"}


async def test_cache_marks_are_set_on_parts_messages_instructions_and_tools() -> None:
    tool = FunctionTool(name="weather", input_schema={"type": "object"}, provider_options=CACHED)
    long = UserMessage([TextPart("long", provider_options=CACHED), TextPart("short")])
    result = ToolMessage([ToolResultPart("call_1", "weather", ToolResultOutput("text", "ok"))], provider_options=CACHED)
    call = AssistantMessage([ToolCallPart("call_1", "weather", {})])

    body, _ = await body_of(SystemMessage("Be brief.", provider_options=CACHED), long, call, result, tools=[tool])

    mark = {"type": "ephemeral"}
    assert body["system"][0]["cache_control"] == mark
    assert [each.get("cache_control") for each in body["messages"][0]["content"]] == [mark, None]
    assert body["messages"][2]["content"][0]["cache_control"] == mark
    assert body["tools"][0]["cache_control"] == mark


async def test_files_of_the_user_are_sent_by_kind() -> None:
    citations: Any = {"anthropic": {"citations": {"enabled": True}, "context": "a draft"}}
    parts = [
        FilePart(b"\x89PNG...", "image"),
        FilePart(UrlData("https://a.test/a.png"), "image/png"),
        FilePart(b"%PDF", "application/pdf", filename="a.pdf", provider_options=citations),
        FilePart(b"caf\xc3\xa9", "text/plain"),
        FilePart(TextData("plain"), "text/plain"),
    ]

    body, _ = await body_of(UserMessage(parts))

    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
    assert body["messages"][0]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORy4uLg=="}},
        {"type": "image", "source": {"type": "url", "url": "https://a.test/a.png"}},
        {
            "type": "document",
            "source": pdf,
            "title": "a.pdf",
            "context": "a draft",
            "citations": {"enabled": True},
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "café"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
    ]


async def test_a_file_of_the_user_that_cannot_be_sent_is_an_invalid_prompt() -> None:
    with pytest.raises(InvalidPromptError, match=r"a user message holds a file of type audio/wav$"):
        await body_of(UserMessage([FilePart(b"RIFF", "audio/wav")]))


async def test_a_file_of_a_tool_that_cannot_be_sent_is_left_out_and_warned_of() -> None:
    items = [
        {"type": "text", "text": "a map"},
        {"type": "file", "mediaType": "image/png", "data": {"type": "data", "data": "AAAA"}},
        {"type": "file", "mediaType": "audio/wav", "data": {"type": "data", "data": "AAAA"}},
    ]

    body, warned = await body_of(*tool_turn(ToolResultOutput("content", items)))

    assert body["messages"][-1]["content"][0]["content"] == [
        {"type": "text", "text": "a map"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ]
    assert warned == ["an item in a result of tool weather"]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice(), {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice("none"), {"type": "none"}),
        (ToolChoice("required"), {"type": "any", "disable_parallel_tool_use": True}),
        (
            ToolChoice("tool", "weather"),
            {"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
        ),
    ],
)
async def test_tool_choices_have_the_apis_names(choice: ToolChoice, sent: dict[str, object]) -> None:
    options = {"anthropic": {"disableParallelToolUse": True}}

    body, _ = await body_of(tools=[WEATHER], tool_choice=choice, provider_options=options)

    assert body["tool_choice"] == sent


async def test_settings_and_provider_options_have_the_apis_names() -> None:
    options = {"effort": "high", "metadata": {"userId": "u1"}, "serviceTier": "auto", "notYetInTheSdk": {"aB": 1}}

    body, warned = await body_of(
        max_output_tokens=9,
        temperature=0.5,
        top_k=3,
        stop_sequences=["END"],
        seed=1,
        response_format=JsonResponseFormat(schema={"type": "object"}),
        provider_options={"anthropic": options},
    )

    assert {key: body[key] for key in body if key not in ("model", "messages", "stream")} == {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_k": 3,
        "stop_sequences": ["END"],
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "metadata": {"user_id": "u1"},
        "service_tier": "auto",
        "not_yet_in_the_sdk": {"aB": 1},
    }
    assert warned == ["seed"]


@pytest.mark.parametrize(
    "model_id", ["claude-opus-4-6", "claude-sonnet-5", "us.anthropic.claude-opus-4-8-v1", "claude-next"]
)
async def test_newer_models_decide_themselves_how_much_to_think(model_id: str) -> None:
    body, warned = await body_of(model_id=model_id, reasoning="minimal", max_output_tokens=100, temperature=1.0)

    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "low"}
    assert body["max_tokens"] == 100
    assert warned == ["temperature"]


@pytest.mark.parametrize(
    "model_id", ["claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-opus-4-20250514", "claude-3-7-sonnet-latest"]
)
async def test_older_models_get_a_budget_beside_the_tokens_of_the_answer(model_id: str) -> None:
    body, _ = await body_of(model_id=model_id, reasoning="low", max_output_tokens=100)

    assert body["thinking"] == {"type": "enabled", "budget_tokens": 4_096}
    assert body["max_tokens"] == 4_196


async def test_thinking_of_the_provider_options_wins() -> None:
    options = {"anthropic": {"thinking": {"type": "enabled", "budgetTokens": 2_000}}}

    body, _ = await body_of(reasoning="high", provider_options=options)
    off, _ = await body_of(reasoning="none")

    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2_000}
    assert off["thinking"] == {"type": "disabled"}


# Answers in one piece ---------------------------------------------------------------------------------------------


async def test_an_answer_in_one_piece_has_the_same_content() -> None:
    found = [{"type": "web_search_result", "url": "https://a.test", "title": "A", "encrypted_content": "e"}]
    page = {"type": "web_search_result_location", "url": "https://a.test", "title": "A", "cited_text": "x"}
    message = {
        **start()["message"],
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "b64"},
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "oslo"}},
            {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": found},
            {"type": "text", "text": "Yes.", "citations": [page]},
            {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}},
        ],
        "stop_reason": "tool_use",
    }
    provider = Provider(whole(message, headers={"request-id": "req_1"}))

    answer = await AnthropicModel("claude-x", client=provider.anthropic()).do_generate(CallOptions(prompt=[HI], seed=1))

    assert provider.bodies[0]["max_tokens"] == 20_000
    assert [type(each) for each in answer.content] == [
        ModelReasoning,
        ModelReasoning,
        ModelToolCall,
        ModelToolResult,
        ModelText,
        ModelSource,
        ModelToolCall,
    ]
    assert answer.finish_reason == FinishReason("tool-calls", "tool_use")
    assert answer.usage.input_tokens.total == 100
    assert [warning.feature for warning in answer.warnings] == ["seed"]
    assert answer.response is not None
    assert answer.response.headers is not None
    assert answer.response.headers["request-id"] == "req_1"
